//! Time to replay traces, and its growth with the cluster, as a table: `cargo bench --bench replay`.
//! Names of policies and numbers of GPUs limit it to their rows, as in `-- las 100000`.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up should fail")]
#![expect(clippy::print_stdout, reason = "prints its table")]

use hsched_engine::clock::{Clock, SystemClock};
use hsched_lab::find_over_time;
use hsched_lab::replay::{Figures, Hooks, Options, Trace, TraceJob, replay};
use hsched_model::{BitRate, GpuType, JobName, NodeName, RankNeeds, Seconds, Speed, Time};
use hsched_plan::{
    JobModel, Objective, Parameters, Problem, ProblemChanges, Progress, TypeModel, WorkerNode,
};

const POLICIES: [&str; 6] = ["fifo", "yarn-cs", "horizon", "las", "srtf", "gavel-fifo"];

/// GPUs and jobs of each row.
const SIZES: [(u32, usize); 4] = [(100, 4000), (1000, 20_000), (10_000, 40_000), (100_000, 80_000)];

const GPUS_PER_NODE: u32 = 8;

/// Speeds on each type, relative to the first.
const SPEEDS: [(&str, f64); 3] = [("v100", 1.0), ("p100", 0.6), ("k80", 0.2)];

/// The fraction of the cluster that the jobs request.
const LOAD: f64 = 0.9;

/// The allocator of the program, so that its times are measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let is_wanted = |word: &str| wanted.iter().any(|other| other == word);
    let has_policy = POLICIES.iter().any(|name| is_wanted(name));
    let has_size = SIZES.iter().any(|(gpus, _)| is_wanted(&gpus.to_string()));
    println!("| GPUs | jobs | policy | decisions | time | decisions/s | mean JCT |");
    println!("|---|---|---|---|---|---|---|");
    for (gpus, jobs) in SIZES.into_iter().filter(|(gpus, _)| !has_size || is_wanted(&gpus.to_string())) {
        let trace = trace(gpus, jobs).with_load(LOAD).expect("a load");
        for name in POLICIES.into_iter().filter(|name| !has_policy || is_wanted(name)) {
            row(&trace, (gpus, jobs), name);
        }
    }
}

fn row(trace: &Trace, (gpus, jobs): (u32, usize), name: &str) {
    let clock = SystemClock::default();
    let mut policy = find_over_time(name, &Parameters::default()).expect("a policy");
    let options = Options { restart_cost: Some(Seconds(0.0)), ..Options::default() };
    let elapsed = || clock.elapsed().as_secs_f64();
    let hooks = Hooks { event: &mut |_| (), progress: &mut |_| (), elapsed: &elapsed };
    let start = elapsed();
    let record = replay(trace, &options, policy.as_mut(), hooks).expect("a replay");
    let time = elapsed() - start;
    let mean = Figures::of(trace, &record).map_or(f64::NAN, |figures| figures.mean_jct);
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    let rate = record.decisions as f64 / time;
    println!("| {gpus} | {jobs} | `{name}` | {} | {time:.2} s | {rate:.0} | {mean:.0} s |", record.decisions);
}

/// A sequence of numbers from [0, 1).
struct Random(u64);

impl Random {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 * 0.5_f64.powi(53)
    }
}

/// Returns a trace of jobs with 1 to 8 GPUs whose lengths have heavy tails.
fn trace(gpus: u32, jobs: usize) -> Trace {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut at = 0.0;
    let entry = |place: usize| {
        at -= (1.0 - random.next()).ln();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 5")]
        let asks = [1, 1, 1, 2, 4, 8][(random.next() * 6.0) as usize];
        let minutes = 10_f64.powf(1.0 + 2.5 * random.next());
        TraceJob {
            model: job(place, asks, (random.next() * 26.0).floor(), minutes * 60.0),
            arrival: Time(at),
            restart_cost: None,
            saves: true,
            retries: 0,
            after: Vec::new(),
            copies: None,
            begun: None,
            place,
            early: None,
        }
    };
    Trace::of_entries(cluster(gpus), (0..jobs).map(entry).collect::<Vec<_>>())
}

/// Returns a job that takes this number of seconds on the V100s that it requests.
fn job(place: usize, asks: u32, kind: f64, seconds: f64) -> JobModel {
    let rate = |speed: f64| {
        let rate = 100.0 * (1.0 + kind / 26.0) * speed;
        Some(TypeModel { speed: Speed::rate(rate).expect("a rate"), max_batch: None, single_rank: false })
    };
    let samples = 100.0 * (1.0 + kind / 26.0) * f64::from(asks) * 10.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts of samples and epochs"
    )]
    let (samples, epochs) = (samples as u64, (seconds / 10.0).ceil() as u64);
    JobModel {
        name: JobName::new(&format!("job{place}")).expect("a name"),
        samples_per_epoch: samples,
        epochs,
        global_batch: 64 * u64::from(asks),
        batch_quantum: 1,
        model_bytes: 1e8,
        syncs_per_epoch: 1.0,
        overlap: 0.0,
        weight: 1.0,
        min_gpus: asks,
        max_gpus: asks,
        asks,
        accumulate: true,
        types: SPEEDS.iter().map(|(_, speed)| rate(*speed)).collect(),
        unusable: Vec::new(),
        sources: Vec::new(),
        unlisted: Vec::new(),
        remarks: Vec::new(),
        rounds: std::sync::Arc::default(),
        aims: hsched_plan::Aims::default(),
        may_use: vec![true; SPEEDS.len()],
        needs: RankNeeds::default(),
        replica: None,
        sharing: hsched_model::Sharing::Balanced,
        progress: Progress::of_epochs(epochs),
    }
}

fn cluster(gpus: u32) -> Problem {
    let node = |number: u32| {
        let mut counts = vec![0; SPEEDS.len()];
        counts[number as usize % SPEEDS.len()] = GPUS_PER_NODE.min(gpus - number * GPUS_PER_NODE);
        let name = NodeName::new(&format!("n{number}")).expect("a name");
        WorkerNode::on_offer(name, counts, BitRate::new(300.0).expect("a rate"))
    };
    let nodes: Vec<WorkerNode> = (0..gpus.div_ceil(GPUS_PER_NODE)).map(node).collect();
    Problem {
        labels: SPEEDS.map(|(name, _)| name.to_owned()).to_vec(),
        gpu_types: SPEEDS.iter().map(|(name, _)| GpuType::new(name).expect("a type")).collect(),
        ceiling: (0..SPEEDS.len()).map(|ty| nodes.iter().map(|node| node.gpus[ty]).sum()).collect(),
        nodes,
        network: BitRate::new(10.0).expect("a rate"),
        jobs: Vec::new(),
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
