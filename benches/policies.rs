//! Time that policies take for problems of the sizes in the TPDS 2024 paper and of other sizes: `cargo
//! bench`.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up should fail")]

use divan::Bencher;
use hsched_lab::find;
use hsched_model::{BitRate, GpuType, JobName, NodeName, RankNeeds, Speed, Time};
use hsched_plan::{
    Budget, JobModel, Objective, Parameters, Problem, ProblemChanges, Progress, TypeModel, WorkerNode,
};

/// The allocator of the program, so that its times are measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// Returns a cluster of `workers` GPUs in nodes of five (P100, T4 and V100 in turn), and `jobs` jobs like
/// those of the TPDS 2024 paper.
fn problem(workers: u32, jobs: u32) -> Problem {
    const NAMES: [&str; 3] = ["p100", "t4", "v100"];
    const RATES: [[f64; 3]; 4] =
        [[290.0, 190.0, 480.0], [420.0, 275.0, 644.0], [1300.0, 884.0, 1754.0], [2500.0, 1900.0, 3000.0]];
    const SAMPLES: [u64; 4] = [50_000, 100_000, 50_000, 50_000];
    const MEGABYTES: [f64; 4] = [178.0, 46.8, 80.0, 244.0];
    let node = |index: u32| {
        let mut gpus = vec![0; NAMES.len()];
        gpus[index as usize % NAMES.len()] = 5.min(workers - 5 * index);
        let name = NodeName::new(&format!("n{index}")).expect("a name");
        WorkerNode::on_offer(name, gpus, BitRate::new(300.0).expect("a rate"))
    };
    let job = |index: u32| {
        let kind = index as usize % RATES.len();
        // No two jobs are equal.
        let rate = |rate: &f64| rate * (1.0 + 0.01 * f64::from(index));
        let model = |value: &f64| TypeModel {
            speed: Speed::rate(rate(value)).expect("a rate"),
            max_batch: None,
            single_rank: false,
        };
        JobModel {
            name: JobName::new(&format!("job{index}")).expect("a name"),
            samples_per_epoch: SAMPLES[kind],
            epochs: 200,
            global_batch: 4096,
            batch_quantum: 1,
            model_bytes: MEGABYTES[kind] * 1e6,
            syncs_per_epoch: 1.0,
            overlap: 0.0,
            weight: 1.0,
            min_gpus: 1,
            max_gpus: 4096,
            asks: 1,
            accumulate: true,
            types: RATES[kind].iter().map(|value| Some(model(value))).collect(),
            unusable: Vec::new(),
            sources: Vec::new(),
            unlisted: Vec::new(),
            remarks: Vec::new(),
            rounds: std::sync::Arc::default(),
            aims: hsched_plan::Aims::default(),
            may_use: vec![true; NAMES.len()],
            needs: RankNeeds::default(),
            replica: None,
            sharing: hsched_model::Sharing::Balanced,
            progress: Progress::default(),
        }
    };
    let nodes: Vec<WorkerNode> = (0..workers.div_ceil(5)).map(node).collect();
    Problem {
        labels: NAMES.map(str::to_owned).to_vec(),
        gpu_types: NAMES.iter().map(|name| GpuType::new(name).expect("a type")).collect(),
        ceiling: (0..NAMES.len()).map(|ty| nodes.iter().map(|node| node.gpus[ty]).sum()).collect(),
        nodes,
        network: BitRate::new(10.0).expect("a rate"),
        jobs: (0..jobs).map(job).collect(),
        objective: Objective::MeanJct,
        late: 0.0,
        seed: 0,
        now: Time(0.0),
        limits: Vec::new(),
        forecasts: Vec::new(),
        start_estimates: None,
        changed: ProblemChanges::All,
    }
}

fn bench(bencher: Bencher, policy: &str, (workers, jobs, samples): (u32, u32, u32)) {
    let problem = problem(workers, jobs);
    let mut policy =
        find(policy, &Parameters::default().with("samples", samples.to_string())).expect("a policy");
    bencher.bench_local(|| policy.decide(&problem, &Budget::until(&|| false)).expect("a plan"));
}

/// Workers, jobs and samples, as in the paper.
#[divan::bench(args = [(30, 4, 60), (300, 4, 40)])]
fn jps_as_in_the_paper(bencher: Bencher, size: (u32, u32, u32)) {
    bench(bencher, "jps", size);
}

/// Workers and jobs, to show the growth of the time with both.
#[divan::bench(max_time = 4, args = [
    (30, 2), (30, 4), (30, 20),
    (300, 2), (300, 4), (300, 20), (300, 100),
    (3000, 2), (3000, 4), (3000, 20), (3000, 100),
    (10_000, 4), (10_000, 20), (10_000, 100),
])]
fn jps(bencher: Bencher, (workers, jobs): (u32, u32)) {
    bench(bencher, "jps", (workers, jobs, 60));
}

/// Workers and jobs: each additional job multiplies the ways to divide the GPUs.
#[divan::bench(max_time = 4, sample_count = 10, args = [
    (15, 4), (30, 2), (30, 4), (30, 6), (30, 8), (50, 4), (100, 2), (100, 4), (300, 2), (1000, 2),
])]
fn has(bencher: Bencher, (workers, jobs): (u32, u32)) {
    bench(bencher, "has", (workers, jobs, 1));
}

/// Workers and jobs.
#[divan::bench(args = [(6, 3), (15, 4)], sample_count = 5)]
fn exhaustive(bencher: Bencher, (workers, jobs): (u32, u32)) {
    bench(bencher, "exhaustive", (workers, jobs, 1));
}
