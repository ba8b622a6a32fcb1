//! `--from`: clusters from all kinds of saved output.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Two nodes as `scontrol -o show node` prints them, and one whose record was cut off.
const NODES: &str = "\
NodeName=v1 CPUAlloc=2 CPUTot=8 Gres=gpu:v100:2 RealMemory=64000 AllocMem=2048 State=MIXED Partitions=gpu CfgTRES=cpu=8,gres/gpu=2 AllocTRES=cpu=2,gres/gpu=1
NodeName=t1 CPUAlloc=0 CPUTot=8 Gres=gpu:t4:2 RealMemory=64000 AllocMem=0 State=IDLE Partitions=gpu CfgTRES=cpu=8
NodeName=t2 CPUAl";

fn sandbox() -> Sandbox {
    Sandbox::with_slurm().file("nodes.txt", NODES)
}

#[test]
fn slurm_is_not_asked_and_what_was_not_read_is_named() {
    let sandbox = sandbox();
    let ran = sandbox.run("inventory --from nodes.txt").exits(0);
    assert_snapshot!(ran.stdout, @r"
    GPU   TOTAL  FREE  STRANDED  USED  DOWN  RESERVED  MINE
    t4        2     2         0     0     0         0     0
    v100      2     1         0     1     0         0     0

    NODES  STATE  PARTITIONS  GPUS FREE/ALL  CPUS FREE  MEMORY FREE
    t1     IDLE   gpu         t4 2/2                 8       62 GiB
    v1     MIXED  gpu         v100 1/2               6       60 GiB
    ");
    assert_snapshot!(ran.stderr, @r#"note: 1 line was left out: line 3 "NodeName=t2" (it has no State)"#);
    assert_eq!((sandbox.calls("sinfo").len(), sandbox.calls("squeue").len()), (0, 0));
}

#[test]
fn plans_and_submissions_take_it() {
    let sandbox = sandbox();
    let plan = sandbox.run("plan jobs.yaml --from nodes.txt --format json").json();
    assert_eq!(plan["jobs"].as_array().map(Vec::len), Some(2));
    let script = sandbox.run("submit jobs.yaml --from nodes.txt --dry-run").exits(0);
    assert!(script.stdout.contains("#SBATCH"), "{script:?}");
    assert_eq!(sandbox.calls("sinfo").len(), 0);
}

#[test]
fn the_user_says_how_a_table_without_a_header_was_printed() {
    let sandbox = sandbox().file("table.txt", "v1|4|gpu:v100:2|idle\nt1|4|gpu:t4:2|idle\n");
    assert_snapshot!(sandbox.run("inventory --from table.txt").fails(78), @"error: table.txt has a table without a header line, from line 1 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'");
    let columns = "--from table.txt --columns %N|%c|%G|%t";
    let inventory = sandbox.run(&format!("inventory {columns} --format json")).json();
    assert_eq!(
        (&inventory["gpus"]["v100"]["free"], &inventory["gpus"]["t4"]["free"]),
        (&2.into(), &2.into())
    );
    let plan = sandbox.run(&format!("plan jobs.yaml {columns} --format json")).json();
    assert_eq!(plan["jobs"].as_array().map(Vec::len), Some(2));
    assert!(
        sandbox.run(&format!("submit jobs.yaml {columns} --dry-run")).exits(0).stdout.contains("#SBATCH")
    );
    assert_snapshot!(sandbox.run("inventory --from table.txt --columns %N|%y").fails(2), @r#"
    error: invalid value '%N|%y' for '--columns <FORMAT>': sinfo has no field "%y"

    For more information, try '--help'.
    "#);
    assert_snapshot!(sandbox.run("inventory --columns %N").fails(2), @r"
    error: the following required arguments were not provided:
      --from <FILE>

    Usage: hsched inventory --from <FILE> --columns <FORMAT>

    For more information, try '--help'.
    ");
}

#[test]
fn files_of_other_systems_are_read() {
    // As written by a shell on Windows.
    let wide: Vec<u8> = "\u{feff}NODELIST STATE GRES\r\na1 idle gpu:t4:2\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let sandbox = sandbox().file("wide.txt", wide);
    assert_eq!(sandbox.run("inventory --from wide.txt --format json").json()["gpus"]["t4"]["free"], 2);
}

#[test]
fn an_inventory_comes_back_as_it_was() {
    let sandbox = sandbox();
    for format in ["json", "yaml"] {
        let first = sandbox.run(&format!("inventory --from nodes.txt --format {format}")).stdout;
        let again = sandbox.run_with_input(&format!("inventory --from - --format {format}"), &first);
        assert_eq!(again.exits(0).stdout, first);
    }
}

#[test]
fn untyped_gpus_are_asked_for_by_what_tells_their_type() {
    let table = "NODELIST PARTITION STATE GRES AVAIL_FEATURES\nv1 gpu idle gpu:4 v100\nv2 gpu idle gpu:4 v100\nx1 gpu idle gpu:4 ib\n";
    let jobs = "jobs: [{name: a, samples_per_epoch: 64, epochs: 1, global_batch: 64, model_size: 1MB, \
        gpus: 8, throughput: {v100: 1, t4: 2}, command: 'true'}]";
    let sandbox = Sandbox::with_slurm().file("table.txt", table).file("jobs.yaml", jobs);
    let options = |more: &str| {
        let ran = sandbox.run(&format!("submit jobs.yaml --from table.txt --dry-run {more}")).exits(0);
        let asks =
            |line: &&str| ["--gres", "--cons", "--nodelist"].iter().any(|candidate| line.contains(candidate));
        let asked = ran.stdout.lines().filter(|line| line.starts_with("#SBATCH")).filter(asks);
        asked.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(options(""), @r"
    #SBATCH --gres=gpu:4
    #SBATCH --constraint=v100
    ");
    assert_snapshot!(options("--set untyped_gpus.x1=t4"), @r"
    #SBATCH --gres=gpu:4
    #SBATCH --nodelist=x1
    #SBATCH --gres=gpu:4
    #SBATCH --constraint=v100
    ");
    assert_snapshot!(options("--set untyped_gpus.gpu=v100"), @r"
    #SBATCH --gres=gpu:4
    #SBATCH '--nodelist=v[1-2]'
    ");
    assert_snapshot!(options("--set sbatch=--constraint=v100"), @r"
    #SBATCH --gres=gpu:4
    #SBATCH '--nodelist=v[1-2]'
    #SBATCH --constraint=v100
    ");
}

#[test]
fn files_of_another_kind_are_refused() {
    let sandbox = sandbox()
        .file("queue.txt", "JOBID PARTITION NAME USER ST\n7 gpu a me R\n")
        .file("latin.txt", b"NODELIST STATE REASON\na1 down f\xfcr immer\n");
    assert_snapshot!(sandbox.run("inventory --from queue.txt").fails(78), @r#"
    error: queue.txt cannot be read: it looks like jobs (squeue); it begins with "JOBID PARTITION NAME USER ST"
    hint: hsched reads saved output of `scontrol show node`, `sinfo --json`, `scontrol show nodes --json`, slurmrestd's nodes, tables of `sinfo` that name or count nodes, a cluster file, or `hsched inventory --format json`
    "#);
    assert_snapshot!(sandbox.run("inventory --from latin.txt").exits(0).stderr, @r"
    note: latin.txt: not valid UTF-8; invalid bytes are shown as �
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    ");
    assert_snapshot!(sandbox.run("inventory --from nodes.txt --cluster cluster.yaml").fails(2), @r"
    error: the argument '--from <FILE>' cannot be used with '--cluster <FILE>'

    Usage: hsched inventory --from <FILE>

    For more information, try '--help'.
    ");
}
