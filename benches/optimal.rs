//! Quality and time of plans with a proof on generated problems, as tables: `cargo bench --bench optimal`.
//!
//! `-- sizes`, `-- growth` and `-- loss` print one of the tables alone.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up should fail")]
#![expect(clippy::print_stdout, reason = "prints its tables")]

use std::time::Duration;

use hsched_engine::clock::{Clock, SystemClock};
use hsched_lab::generate::{self, GpuSpeed, Recipe, SyncEvery};
use hsched_model::{Access, BitRate, Estimates, Holdings, RankNeeds};
use hsched_plan::throughput::{Cache, ThroughputMatrix};
use hsched_plan::{Basis, Budget, ClusterView, Parameters, Plan, PlanFigures, Policy, Problem};

const SEEDS: u64 = 10;
const SYNCS: [(&str, SyncEvery); 2] = [("step", SyncEvery::Step), ("epoch", SyncEvery::Epoch)];
const ALL_TYPES: usize = 6;

/// Three GPU types and nodes of five GPUs, each node with one type, as in the TPDS 2024 paper.
const SMALL: Size = Size { gpus: 30, jobs: 4, gpus_per_node: 5, types: 3, budget_ms: 50 };
const MEDIUM: Size = Size { gpus: 300, jobs: 20, budget_ms: 100, ..SMALL };
const LARGE: Size = Size { gpus: 10_000, jobs: 1000, gpus_per_node: 8, types: ALL_TYPES, budget_ms: 10_000 };

/// Problems per row of the table of losses.
const LOSS_PROBLEMS: u64 = 1000;

/// The size of a problem, and the time limit of a search.
#[derive(Clone, Copy)]
struct Size {
    gpus: u32,
    jobs: u32,
    gpus_per_node: u32,
    types: usize,
    budget_ms: u64,
}

/// Prints a table for the policy of that name.
type Table = fn(&str);

/// The result of a policy for a problem.
struct SolveResult {
    seconds: f64,
    /// Infinite if a job was not placed.
    objective: f64,
    /// `objective / lower bound − 1`, if the plan has a bound.
    gap: Option<f64>,
}

/// The allocator of the program, so that its times are measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let reference = if hsched_lab::registry().names().contains(&"optimal") { "optimal" } else { "jps" };
    println!("Policy: {reference}");
    let tables: [(&str, Table); 3] = [("sizes", sizes), ("growth", growth), ("loss", loss)];
    // Cargo adds its own options.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, table) in tables {
        if chosen.is_empty() || chosen.iter().any(|candidate| candidate == name) {
            println!();
            table(reference);
        }
    }
}

/// Prints time and gap at the documented sizes.
fn sizes(reference: &str) {
    heading();
    for size in [SMALL, MEDIUM, LARGE] {
        row(reference, size);
    }
}

/// Prints the growth of time and gap with the number of GPUs for fixed jobs, and with the number of jobs for
/// fixed GPUs.
fn growth(reference: &str) {
    heading();
    for gpus in [30, 100, 300, 1000, 3000, 10_000] {
        row(reference, Size { gpus, budget_ms: 1000, ..MEDIUM });
    }
    for jobs in [2, 4, 10, 40, 100, 300] {
        row(reference, Size { jobs, budget_ms: 1000, ..MEDIUM });
    }
}

fn heading() {
    println!("| GPUs | jobs | sync | limit | time, median | worst | gap, median | worst |");
    println!("|---|---|---|---|---|---|---|---|");
}

fn row(reference: &str, size: Size) {
    for (name, sync) in SYNCS {
        let solved: Vec<SolveResult> =
            (0..SEEDS).map(|seed| solve(reference, size, &problem(size, sync, seed))).collect();
        let time = middle_and_worst(solved.iter().map(|solution| solution.seconds));
        let (time, worst_time) = time.map(|seconds| format!("{:.3} ms", seconds * 1e3)).into();
        let gaps: Option<Vec<f64>> = solved.iter().map(|solution| solution.gap).collect();
        let gap = gaps.map(|gaps| middle_and_worst(gaps.into_iter()).map(percent).into());
        let (gap, worst_gap): (String, String) = gap.unwrap_or_default();
        let Size { gpus, jobs, budget_ms, .. } = size;
        println!(
            "| {gpus} | {jobs} | {name} | {budget_ms} ms | {time} | {worst_time} | {gap} | {worst_gap} |"
        );
    }
}

/// Prints by how much the mean completion time of other policies exceeds that of the reference, on average
/// and at most.
fn loss(reference: &str) {
    println!("{LOSS_PROBLEMS} problems of {} jobs on {} GPUs", SMALL.jobs, SMALL.gpus);
    println!("| policy | sync | mean loss | worst loss |");
    println!("|---|---|---|---|");
    let others = ["has", "jps", "optimus", "optimus-lb"];
    for (name, sync) in SYNCS {
        let mut losses = others.map(|_| Vec::new());
        for seed in 0..LOSS_PROBLEMS {
            let problem = problem(SMALL, sync, seed);
            let best = solve(reference, Size { budget_ms: 1000, ..SMALL }, &problem).objective;
            for (values, other) in losses.iter_mut().zip(others) {
                values
                    .push(solve(other, Size { budget_ms: 60_000, ..SMALL }, &problem).objective / best - 1.0);
            }
        }
        for (values, other) in losses.iter().zip(others) {
            #[expect(clippy::cast_precision_loss, reason = "a thousand")]
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let worst = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            println!("| {other} | {name} | {} | {} |", percent(mean), percent(worst));
        }
    }
}

fn problem(size: Size, sync: SyncEvery, seed: u64) -> Problem {
    let rate = |gigabits| BitRate::new(gigabits).expect("a rate");
    let (network, intra_node) = (rate(25.0), rate(300.0));
    let recipe = Recipe {
        gpus: size.gpus,
        gpus_per_node: size.gpus_per_node,
        types: GpuSpeed::known().into_iter().take(size.types).collect(),
        mixed: false,
        network,
        intra_node,
        jobs: size.jobs,
        sync,
        rich: false,
        seed,
    };
    let (cluster, jobs) = (generate::cluster(&recipe).expect("a cluster"), generate::jobs(&recipe));
    let speeds =
        ThroughputMatrix::new(&jobs, &Problem::types_of(&cluster), &Cache::default(), Estimates::Off);
    let access = Access::everywhere(RankNeeds { cpus: 1, memory: 0 });
    let rates = (network, intra_node);
    let cluster_view = ClusterView { cluster: &cluster, access: &access, held: &Holdings::new(), rates };
    let all: Vec<usize> = (0..jobs.len()).collect();
    Problem::live(cluster_view, &jobs, &speeds).expect("a problem").extract(&all, Basis::Queue).problem
}

fn solve(name: &str, size: Size, problem: &Problem) -> SolveResult {
    let mut policy: Box<dyn Policy> = hsched_lab::find(name, &Parameters::default()).expect("a policy");
    let clock = SystemClock::default();
    let start = clock.elapsed();
    let taken = || clock.elapsed().saturating_sub(start);
    let budget = Duration::from_millis(size.budget_ms);
    let plan = policy.decide(problem, &Budget::until(&|| taken() >= budget)).expect("a plan");
    let seconds = taken().as_secs_f64();
    let lower = lower_bound(&plan);
    let plan = hsched_plan::verify(problem, plan).expect("a valid plan");
    // A mean over some jobs is not comparable with a mean over all.
    let all = plan.verdicts().iter().all(|verdict| verdict.placement().is_some());
    let outcome = PlanFigures::of(problem, &plan).filter(|_| all);
    let objective = outcome.map_or(f64::INFINITY, |outcome| outcome.objective_value);
    SolveResult { seconds, objective, gap: lower.map(|lower| objective / lower - 1.0) }
}

/// Returns the bound that a plan proves, in seconds of the objective.
fn lower_bound(plan: &Plan) -> Option<f64> {
    plan.bound.as_ref().map(|bound| bound.lower)
}

fn middle_and_worst(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    [middle, values[values.len() - 1]]
}

fn percent(part: f64) -> String {
    format!("{:.4} %", part * 100.0)
}
