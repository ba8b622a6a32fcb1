//! `scontrol show node`, complete and in parts.

use insta::assert_snapshot;

use super::check;

#[test]
fn scontrol_in_blocks() {
    let text = "\
$ scontrol show node
NodeName=g1 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=2 CPUEfctv=60 CPUTot=64 CPULoad=1.44
   AvailableFeatures=a,b
   ActiveFeatures=a
   Gres=gpu:v100:4(S:0-1),lscratch:800G
   OS=Linux 5.14.0 #1 SMP State=x PREEMPT
   RealMemory=64000 AllocMem=1000 FreeMem=N/A Sockets=2
   State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0
   Partitions=gpu,long
   CfgTRES=cpu=64,mem=62.50G,billing=64,gres/gpu=4,gres/gpu:v100=4
   AllocTRES=cpu=2,mem=1000M,gres/gpu=1,gres/gpu:v100=1
   Reason=fan State=IDLE [2 of 3] broken [admin@2026-01-02T03:04:05]
   Comment=Gres=gpu:9

NodeName=g2 CoresPerSocket=1
   CPUAlloc=0 CPUTot=8 CPULoad=N/A
   AvailableFeatures=(null)
   Gres=gpu:1
   State=DOWN*
   Reason=two
       lines [root@2026-01-02T03:04:05]
Node g3 not found

PartitionName=gpu
   AllowGroups=ALL Default=YES
   MaxTime=1-00:00:00
";
    assert_snapshot!(check(text), @r#"
    g1 MIXED+DRAIN v100:1/4 [lscratch:800G] cpus 2/60 MiB 1000/64000 in gpu,long with a (fan State=IDLE [2 of 3] broken)
    g2 DOWN* gpu:0/1 cpus 0/8 (two lines)
    partition gpu (default) 86400 s
    note: 2 lines were left out: line 1 "$ scontrol show node", line 23 "Node g3 not found"
    "#);
}

#[test]
fn scontrol_in_lines() {
    let text = "\
NodeName=g1 CPUAlloc=4 CPUTot=8 ActiveFeatures=a100,ib Gres=gpu:4(S:0-1),shard:gpu:8 GresUsed=gpu:(null):3(IDX:0-2),shard:gpu:0 OS=Linux 6.1 #1 SMP RealMemory=100 AllocMem=50 State=MIXED Partitions=p  CfgTRES=cpu=8,mem=100M AllocTRES=cpu=4 Reason=a=b c [x@1] Comment=State=DOWN
NodeName=g2 CPUAlloc=8 CPUTot=8 RealMemory=? Gres=gpu:t4:2 State=ALLOCATED CfgTRES=cpu=8 AllocTRES=cpu=8
NodeName=g3 CPUAlloc=8 CPUTot=8 Gres=gpu:t4:2 State=ALLOCATED CfgTRES=cpu=8 AllocTRES=cpu=8
NodeName=g4 CPUAlloc=8 CPUTot=8 Gres=(null) State=ALLOCATED CfgTRES=cpu=8,gres/gpu:t4=2 AllocTRES=
NodeName=g4 CPUTot=8 State=IDLE
NodeName=g5 CPUTot=8
NodeName=$(g6) State=IDLE
";
    assert_snapshot!(check(text), @r#"
    g1 MIXED gpu:3/4 [shard:gpu:8] cpus 4/8 MiB 50/100 in p with a100,ib (a=b c)
    g2 ALLOCATED t4:2/2 cpus 8/8
    g3 ALLOCATED t4:2/2 cpus 8/8
    g4 ALLOCATED t4:0/2 cpus 8/8
    note: g2: its RealMemory "?" could not be read
    note: 3 lines were left out: line 5 "NodeName=g4" (the node appears above), line 6 "NodeName=g5" (it has no State), line 7 "NodeName=$(g6)" (node name "$(g6)" contains '$'; only letters, digits, '-', '_' and '.' are allowed)
    note: g[2-3]: has jobs, but their GPUs are not shown: hsched counts none as free
    note: g4: its GRES has no GPUs; hsched uses its TRES
    "#);
}

#[test]
fn blank_lines_and_broken_ones_belong_to_their_node() {
    let text = "\
NodeName=g1 Arch=x86_64
   CPUAlloc=0 CPUTot=8

   Gres=gpu:v100:4
   State=DOWN Partitions=gpu

   Reason=no power [root@2026-01-02T03:04:05]

NodeName=g2 Arch=x86_64
CPUAlloc=0 CPUTot=8
Gres=gpu:v100:4
State=IDLE Partitions=gpu
";
    assert_snapshot!(check(text), @r"
    g1 DOWN v100:0/4 cpus 0/8 in gpu (no power)
    g2 IDLE v100:0/4 cpus 0/8 in gpu
    ");
    // Lines of `-o` broken at the terminal's width.
    let line = "NodeName=g1 CPUAlloc=0 CPUTot=8 Gres=gpu:nvidia_a100_80gb:4 RealMemory=64000 State=IDLE Partitions=p";
    let broken = |width: usize| {
        let parts: Vec<&str> = [&line[..width], &line[width..2 * width], &line[2 * width..]].into();
        format!("{}\n{}\n", parts.join("\n"), parts.join("\n").replace("g1", "g2"))
    };
    for width in [37, 40, 50] {
        assert_eq!(super::count(&broken(width)), (2, 8, 8), "{}", broken(width));
    }
}

#[test]
fn parts_of_records_are_read() {
    // Lines filtered by grep.
    let text = "NodeName=g1 Arch=x86_64\n   Gres=gpu:v100:4\n--\nNodeName=g2\n   Gres=gpu:v100:4\n";
    assert_snapshot!(check(text), @r#"
    g1 idle v100:0/4
    g2 idle v100:0/4
    note: 1 line was left out: line 3 "--"
    note: g[1-2]: no state is given; hsched assumes idle
    "#);
    let text = "\
JobId=7 JobName=x
   NodeList=g1 Gres=gpu:9
NodeName=g1 CPUTot=8 Gres=gpu:v100:4 State=IDLE Partitions=gpu
PartitionName=gpu
   State=DOWN MaxTime=1:00:00
";
    assert_snapshot!(check(text), @r#"
    g1 IDLE+down v100:0/4 cpus 0/8 in gpu
    partition gpu 3600 s
    note: 2 lines were left out: line 1 "JobId=7 JobName=x", line 2 "NodeList=g1 Gres=gpu:9"
    note: partition gpu is DOWN: nodes in no other partition count as down
    "#);
}
