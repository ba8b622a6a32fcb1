//! Names in job files compared with the types of a cluster: other names of a model, precision, and unknown
//! speeds.

use hsched_model::formats;
use hsched_model::{Estimates, GpuType, Job, Speed};
use hsched_plan::throughput::{Cache, SourcedSpeed, SpeedCell, SpeedKey, SpeedOrigin, ThroughputMatrix};

fn job(keys: &str) -> Job {
    let text = format!(
        "jobs: [{{name: a, samples_per_epoch: 10, epochs: 1, global_batch: 8, model_size: 0, command: x, {keys}}}]"
    );
    formats::jobs::parse(&text).unwrap_or_else(|problems| panic!("{text}: {problems}")).remove(0)
}

/// Returns the data of each type: its rate, the name it came from, the maximum batch and the remarks.
fn cells(keys: &str, cluster: &[&str]) -> Vec<String> {
    let types: Vec<GpuType> = cluster.iter().map(|name| GpuType::new(name).expect("a type")).collect();
    let matrix = ThroughputMatrix::new(&[job(keys)], &types, &Cache::default(), Estimates::Off);
    let text = |cell: &SpeedCell| match cell {
        SpeedCell::Unusable(reason) => reason.to_string(),
        SpeedCell::Known(SourcedSpeed { speed, source, max_batch, remarks, .. }) => {
            let from = match source {
                SpeedOrigin::JobFile => String::new(),
                SpeedOrigin::OtherName(name) => format!(" of {name}"),
                SpeedOrigin::Measured(_) | SpeedOrigin::Estimated(_) => panic!("{source:?} without a cache"),
            };
            let limit = max_batch.map(|limit| format!(" at most {limit}")).unwrap_or_default();
            let parts = [&[format!("{}{from}{limit}", speed.rate_at(1.0))], remarks.as_slice()];
            parts.concat().join("; ")
        }
    };
    matrix.row(0).iter().map(text).collect()
}

#[test]
fn another_name_of_the_model_gives_its_speed() {
    assert_eq!(
        cells("throughput: {a100: 2400}", &["nvidia_a100_80gb_pcie", "v100"]),
        [
            "2400 of a100; the speed of a100 is used for nvidia_a100_80gb_pcie: same model",
            "no throughput known"
        ]
    );
    let custom = cells("throughput: {FPGA: 7}", &["fpga"]);
    assert_eq!(custom, ["7 of FPGA; the speed of FPGA is used for fpga: same model"]);
}

/// A replica of four GPUs does not have the speed of a replica of two.
#[test]
fn another_name_with_replicas_of_another_size_gives_no_speed() {
    let full = "nvidia_a100_80gb_pcie";
    let keys = |size: u32| format!("replica: {{gpus: {{a100: 4, {full}: {size}}}}}");
    let of_file = |size| cells(&format!("{}, throughput: {{a100: 400}}", keys(size)), &[full]).remove(0);
    assert_eq!(of_file(2), "no throughput known");
    assert!(of_file(4).starts_with("400 of a100;"), "{}", of_file(4));
    let mut cache = Cache::default();
    let key = |job: &Job| SpeedKey::of(job, &GpuType::new("a100").expect("a type"));
    cache.set(&key(&job(&keys(2))), Speed::rate(300.0).expect("a speed"), 1.0, "a");
    let is_measured = |size| {
        let types = [GpuType::new(full).expect("a type")];
        let matrix = ThroughputMatrix::new(&[job(&keys(size))], &types, &cache, Estimates::Off);
        matches!(&matrix.row(0)[0], SpeedCell::Known(known) if matches!(known.source, SpeedOrigin::Measured(_)))
    };
    assert!(is_measured(4) && !is_measured(2));
}

#[test]
fn a_name_that_the_cluster_has_means_that_type_alone() {
    assert_eq!(cells("throughput: {a100: 1}", &["a100", "a100l"]), ["1", "no throughput known"]);
    assert_eq!(
        cells("throughput: {a100: 1, a100l: 2}, gpu_types: [a100]", &["a100", "a100l"]),
        ["1", "not among the job's gpu_types"]
    );
    assert_eq!(cells("throughput: {a100: 1, nvidia_a100_80gb_pcie: 2}", &["nvidia_a100_80gb_pcie"]), ["2"]);
}

#[test]
fn of_several_other_names_the_narrowest_counts_then_the_first() {
    let cluster = ["nvidia_a100_80gb_pcie"];
    let first = |keys| cells(keys, &cluster).remove(0);
    assert!(first("throughput: {a100: 1, a100-pcie-80gb: 2, a100l: 3}").starts_with("2 of a100-pcie-80gb;"));
    assert!(first("throughput: {a100l: 1, a100_80gb: 2}").starts_with("2 of a100_80gb;"));
    assert_eq!(first("throughput: {a100-40gb: 1}"), "no throughput known");
}

#[test]
fn allowed_types_are_understood_by_other_names() {
    assert_eq!(
        cells("throughput: {tesla_t4: 5, v100: 6}, gpu_types: [t4]", &["tesla_t4", "v100"]),
        ["5", "not among the job's gpu_types"]
    );
}

#[test]
fn limits_on_batches_need_the_same_memory() {
    let limits = |limit: &str, gpu_type| {
        cells(&format!("throughput: {{{gpu_type}: 5}}, max_batch: {{{limit}: 64}}"), &[gpu_type]).remove(0)
    };
    assert_eq!(limits("t4", "t4"), "5 at most 64");
    assert_eq!(
        limits("t4", "tesla_t4"),
        "5 at most 64; the max_batch of t4 is used for tesla_t4: same model and memory"
    );
    let not = |name, gpu_type| {
        format!("5; the max_batch of {name} is not used for {gpu_type}: their memory may differ")
    };
    assert_eq!(limits("a100", "a100l"), not("a100", "a100l"));
    assert_eq!(limits("v100l", "v100"), not("v100l", "v100"));
    assert_eq!(limits("v100-pcie-16gb", "v100-32gb"), "5");
}

#[test]
fn a_slice_has_no_speed_of_its_gpu() {
    assert_eq!(cells("throughput: {a100: 1}", &["a100_3g.20gb", "3g.20gb"]), ["no throughput known"; 2]);
    assert_eq!(
        cells("throughput: {3g.20gb: 1}", &["a100_3g.20gb"]),
        ["1 of 3g.20gb; the speed of 3g.20gb is used for a100_3g.20gb: same model"]
    );
}

#[test]
fn bf16_and_tf32_need_ampere() {
    let cluster = ["v100", "tesla_t4", "a100", "mi250x", "gpu"];
    let speeds = "throughput: {v100: 1, tesla_t4: 2, a100: 3, mi250x: 4, gpu: 5}";
    let of = |precision| cells(&format!("{speeds}, precision: {precision}"), &cluster);
    assert_eq!(
        of("bf16"),
        [
            "bf16 needs Ampere or newer",
            "bf16 needs Ampere or newer",
            "3",
            "4",
            "5; hsched does not know whether gpu supports bf16"
        ]
    );
    assert_eq!(
        of("tf32")[3..],
        [
            "4; hsched does not know whether mi250x supports tf32",
            "5; hsched does not know whether gpu supports tf32"
        ]
    );
    assert_eq!(of("fp16"), ["1", "2", "3", "4", "5"]);
}
