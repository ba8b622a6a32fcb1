//! `optimal` with so many jobs that it uses lists of bundles.

use hsched_plan::{
    Bound, Budget, JobModel, Memory, Parameters, Plan, PlanFigures, Problem, ReplicaModel, verify,
};
use hsched_problems::{bundle_cost, find, problems};

use crate::certificate;

/// Returns a job whose figures depend only on its number.
fn job(name: &str, number: u32) -> JobModel {
    let spread = |step: u32, most: u32| number * step % most;
    let rates = [100.0 + f64::from(spread(37, 90)), 60.0 + f64::from(spread(53, 70))];
    let (epochs, samples) = (20 + spread(29, 60), 20_000 + 1000 * spread(17, 40));
    let megabytes = 5.0 + f64::from(spread(41, 200));
    JobModel {
        syncs_per_epoch: f64::from(1 + spread(13, 40)),
        ..problems::job(name, epochs.into(), samples.into(), megabytes, &rates)
    }
}

/// Plans with a memory; returns the plan and the new memory.
fn decide(problem: &Problem, memory: Option<&Memory>) -> (Plan, Option<Memory>) {
    let mut policy = find("optimal", &Parameters::default()).expect("a policy");
    if let Some(memory) = memory {
        policy.remember(memory);
    }
    // Time is measured by calls, not by a clock.
    let calls = std::cell::Cell::new(0);
    let stop = || {
        calls.set(calls.get() + 1);
        calls.get() > 10_000
    };
    let plan = policy.decide(problem, &Budget::until(&stop)).expect("a plan");
    (plan, policy.memory())
}

/// Plans twice, because the same problem must give the same plan; returns the objective and the bound.
fn solve(problem: &Problem) -> (f64, Bound) {
    let decided = decide(problem, None);
    assert_eq!(decided, decide(problem, None));
    let plan = decided.0;
    let bound = plan.bound.clone().expect("a bound");
    let plan = verify(problem, plan).expect("a valid plan");
    assert_eq!(plan.placed().len(), problem.jobs.len());
    (PlanFigures::of(problem, &plan).expect("jobs are placed").objective_value, bound)
}

fn check(jobs: Vec<JobModel>) {
    let nodes = [vec![[8, 0].as_slice(); 51], vec![[0, 2].as_slice(); 1]].concat();
    let problem = problems::problem(&["v100", "p100"], &nodes, jobs);
    let (value, bound) = solve(&problem);
    assert!(bound.root <= bound.lower && bound.lower <= value, "{bound:?}");
    assert!(value <= bound.lower * 1.001, "{value} of {bound:?}");
    let recomputed = certificate::bound(&problem, &bound.prices, &bound.weights).expect("legal bundles");
    assert!((bound.root..=bound.root * (1.0 + 1e-6)).contains(&recomputed), "{recomputed} of {bound:?}");
}

#[test]
fn jobs_that_all_differ_have_a_plan_near_its_bound() {
    check((0..410).map(|number| job(&format!("j{number}"), number)).collect());
}

/// A new process with the memory decides like one that has continued: only from the problem and the memory.
#[test]
fn the_prices_of_the_last_plan_are_where_the_next_search_begins() {
    let jobs = (0..410).map(|number| job(&format!("j{number}"), number));
    let nodes = [vec![[8, 0].as_slice(); 51], vec![[0, 2].as_slice(); 1]].concat();
    let mut problem = problems::problem(&["v100", "p100"], &nodes, jobs.collect());
    let (_, memory) = decide(&problem, None);
    let memory = memory.expect("prices");
    problem.jobs.pop();
    let decided = decide(&problem, Some(&memory));
    assert_eq!(decided, decide(&problem, Some(&memory)));
    let again = decided.0;
    let lower = |plan: &Plan| plan.bound.as_ref().expect("a bound").lower;
    let anew = decide(&problem, None).0;
    assert!((lower(&again) / lower(&anew) - 1.0).abs() < 1e-5, "{} {}", lower(&again), lower(&anew));
    let plan = verify(&problem, again).expect("a valid plan");
    let value = PlanFigures::of(&problem, &plan).expect("jobs are placed").objective_value;
    assert!(value <= lower(&anew) * 1.001, "{value} of {}", lower(&anew));
    // Small problems are planned from scratch, independently of earlier plans.
    problem.jobs.truncate(3);
    assert_eq!(decide(&problem, Some(&memory)), (decide(&problem, None).0, Some(memory)));
}

#[test]
fn jobs_of_a_few_kinds_have_a_plan_near_its_bound() {
    check((0..410).map(|number| job(&format!("j{number}"), number % 7)).collect());
}

/// Rings over the network would be slow, and the time of a ring in a node is convex, so one node per job is
/// optimal.
#[test]
fn as_many_equal_jobs_as_nodes_have_a_node_each() {
    let nodes = vec![[4_u32].as_slice(); 400];
    let jobs = (0..400).map(|number| problems::job(&format!("j{number}"), 10, 100_000, 900.0, &[50.0]));
    let problem = problems::problem(&["v100"], &nodes, jobs.collect());
    let (value, bound) = solve(&problem);
    let link = problem.nodes[0].intra_node.bytes_per_second();
    let best = 10.0 * (100_000.0 / 200.0 + 2.0 * 3.0 / 4.0 * 900e6 / link);
    assert!((value - best).abs() <= 1e-9 * best && bound.lower <= best, "{value} {bound:?} for {best}");
    assert!(bound.lower >= best * (1.0 - 1e-5), "{bound:?} for {best}");
}

/// A node of 8 GPUs holds only one ring of five, which the total number of GPUs does not show.
#[test]
fn the_bound_knows_that_rings_must_fit_into_nodes() {
    let only = |job: JobModel, gpus: u32| JobModel { min_gpus: gpus, max_gpus: gpus, asks: gpus, ..job };
    let job = |number: u32| problems::job(&format!("j{number}"), 10, 100_000, 9000.0, &[50.0]);
    let jobs = (0..400).map(|number| only(job(number), 5));
    let nodes = vec![[8_u32].as_slice(); 270];
    let problem = problems::problem(&["v100"], &nodes, jobs.collect());
    let (value, bound) = solve(&problem);
    assert!(bound.lower > bound.root * 1.005 && value <= bound.lower * 1.001, "{value} of {bound:?}");
}

/// Returns the bound that prices of replicas prove for jobs on nodes of 16 GPUs of one type.
fn proven(problem: &Problem, bound: &Bound) -> f64 {
    let price = |size: u32| {
        let of_replica = bound.replica_prices.first().and_then(|prices| prices.get(&size));
        of_replica.copied().unwrap_or(f64::from(size) * bound.prices[0])
    };
    let (inside, network) =
        (problem.nodes[0].intra_node.gigabits_per_second(), problem.network.gigabits_per_second());
    let mut sum = 0.0;
    for (job, weight) in problem.jobs.iter().zip(&bound.weights) {
        let size = job.size(0);
        let value = |count: u32| {
            let link = if count * size <= 16 { inside } else { network };
            let time = bundle_cost::time(job, &[count], link).expect("a legal bundle");
            weight * time + f64::from(count) * price(size)
        };
        sum += (job.min_gpus..=job.max_gpus).map(value).fold(f64::INFINITY, f64::min);
    }
    let mut worth = [0.0_f64; 17];
    for gpus in 1..=16 {
        let with = (1..=gpus).map(|size| worth[gpus - size] + price(u32::try_from(size).expect("small")));
        worth[gpus] = with.fold(worth[gpus - 1], f64::max);
    }
    let nodes = f64::from(u32::try_from(problem.nodes.len()).expect("few"));
    (sum - nodes * worth[16]) / bound.weights.iter().sum::<f64>()
}

/// Replicas of more than half a node, of a third and so on: sums of GPUs do not show what fits.
#[test]
fn replicas_of_any_size_have_a_plan_near_its_bound() {
    let in_replicas = |number: u32| {
        let size = 1 + number * 7 % 16;
        let mut model = problems::job(
            &format!("j{number}"),
            (20 + number * 29 % 60).into(),
            (20_000 + 1000 * (number * 17 % 40)).into(),
            f64::from(5 + number * 41 % 200),
            &[f64::from(size * (50 + number * 37 % 45))],
        );
        model.max_gpus = 32.min(model.max_gpus);
        let replica = ReplicaModel { sizes: vec![size], same_node: true, ever: 10_000, largest: vec![16] };
        JobModel { replica: Some(replica), ..model }
    };
    let nodes = vec![[16_u32].as_slice(); 300];
    let problem = problems::problem(&["v100"], &nodes, (0..410).map(in_replicas).collect());
    let (value, bound) = solve(&problem);
    assert!(bound.root <= bound.lower && bound.lower <= value, "{bound:?}");
    assert!(value <= bound.lower * 1.02, "{value} of {}", bound.lower);
    let recomputed = proven(&problem, &bound);
    assert!((bound.root - recomputed).abs() <= 1e-4 * recomputed, "{recomputed} of {}", bound.root);
    assert!(bound.root <= recomputed * (1.0 + 1e-9), "{recomputed} of {}", bound.root);
}
