//! `--from`: clusters from whatever somebody saved of them.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Two nodes as `scontrol -o show node` prints them, and one that was cut off.
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
    assert_snapshot!(ran.stderr, @r#"note: line 3 ("NodeName=t2") was not read: it says no State"#);
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
    let table = "v1 gpu idle gpu:4 v100\nv2 gpu idle gpu:4 v100\nx1 gpu idle gpu:4 ib\n";
    let jobs = "jobs: [{name: a, samples_per_epoch: 8, epochs: 1, global_batch: 8, model_size: 1MB, \
        min_gpus: 8, throughput: {v100: 1, t4: 1}, command: 'true'}]";
    let sandbox = Sandbox::with_slurm().file("table.txt", table).file("jobs.yaml", jobs);
    let options = |more: &str| {
        let ran = sandbox.run(&format!("submit jobs.yaml --from table.txt --dry-run {more}")).exits(0);
        let asks = |line: &&str| ["--gres", "--cons", "--nodelist"].iter().any(|own| line.contains(own));
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
    note: latin.txt: is not all UTF-8; other characters are shown as �
    note: no column GRES: its nodes have no GPUs here; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    ");
    assert_snapshot!(sandbox.run("inventory --from nodes.txt --cluster cluster.yaml").fails(2), @r"
    error: the argument '--from <FILE>' cannot be used with '--cluster <FILE>'

    Usage: hsched inventory --from <FILE>

    For more information, try '--help'.
    ");
}
