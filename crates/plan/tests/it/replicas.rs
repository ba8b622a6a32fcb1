//! `optimal` with replicas of several GPUs, compared with brute force over all placements; the certificate is
//! recomputed from its prices.

#![expect(clippy::cast_precision_loss, reason = "the numbers are small")]

use std::collections::BTreeMap;

use hsched_plan::{
    Bound, Budget, JobModel, Objective, Parameters, PlanFigures, Problem, ReplicaModel, Sharing, TypeModel,
    Verdict, verify,
};
use hsched_problems::problems::{job, problem, rate};
use hsched_problems::{bundle_cost, find};
use proptest::prelude::*;

/// Replicas of a job, by node and type.
pub type Placing = Vec<Vec<u32>>;

/// Returns a job's time with equal parts, by the formulas.
fn equal_time(job: &JobModel, bundle: &[u32], link: f64) -> Option<f64> {
    let count: u32 = bundle.iter().sum();
    if count < job.min_gpus || count > job.max_gpus {
        return None;
    }
    let (batch, r) = (job.global_batch as f64, f64::from(count));
    let largest = (job.global_batch / job.batch_quantum).div_ceil(u64::from(count)) * job.batch_quantum;
    let mut slowest = 0.0_f64;
    for (_, model) in bundle.iter().zip(&job.types).filter(|(count, _)| **count > 0) {
        let TypeModel { speed, max_batch, .. } = (*model)?;
        if !job.accumulate && max_batch.is_some_and(|most| largest > most) {
            return None;
        }
        let passes = max_batch.map_or(1.0, |most| (batch / r / most as f64).max(1.0));
        slowest = slowest.max(speed.alpha() * passes + speed.beta() * batch / r);
    }
    let comm = (1.0 - job.overlap) * job.syncs_per_epoch * 2.0 * (r - 1.0) / r * job.model_bytes * 8.0
        / (link * 1e9);
    let comm = if count == 1 { 0.0 } else { comm };
    Some(job.epochs as f64 * (job.samples_per_epoch as f64 / batch * slowest + comm))
}

fn time(problem: &Problem, job: &JobModel, placing: &Placing) -> Option<f64> {
    let bundle: Vec<u32> =
        (0..problem.gpu_types.len()).map(|ty| placing.iter().map(|node| node[ty]).sum()).collect();
    let used = || placing.iter().enumerate().filter(|(_, node)| node.iter().any(|&count| count > 0));
    let mut link = if used().count() > 1 { problem.network.gigabits_per_second() } else { f64::INFINITY };
    for (node, _) in used().filter(|(_, counts)| counts.iter().sum::<u32>() > 1) {
        link = link.min(problem.nodes[node].intra_node.gigabits_per_second());
    }
    match job.sharing {
        Sharing::Balanced => bundle_cost::time(job, &bundle, link),
        Sharing::Equal => equal_time(job, &bundle, link),
    }
}

fn size(job: &JobModel, ty: usize) -> u32 {
    job.replica.as_ref().map_or(1, |replica| replica.sizes[ty])
}

/// Returns all placements of a job alone with their times, without those for which a smaller placement is at
/// least as fast.
pub fn placings(problem: &Problem, job: &JobModel) -> Vec<(Placing, f64)> {
    let types = problem.gpu_types.len();
    let cells: Vec<(usize, usize)> = (0..problem.nodes.len())
        .flat_map(|node| (0..types).map(move |ty| (node, ty)))
        .filter(|&(node, ty)| job.types[ty].is_some() && problem.nodes[node].gpus[ty] > 0)
        .collect();
    let most: Vec<u32> =
        cells.iter().map(|&(node, ty)| problem.nodes[node].gpus[ty] / size(job, ty)).collect();
    let mut counts = vec![0; cells.len()];
    let mut all: Vec<(Placing, f64)> = Vec::new();
    while let Some(at) = (0..counts.len()).find(|&at| counts[at] < most[at]) {
        counts[at] += 1;
        counts[..at].fill(0);
        let mut placing = vec![vec![0; types]; problem.nodes.len()];
        for (&(node, ty), &count) in cells.iter().zip(&counts) {
            placing[node][ty] = count;
        }
        if let Some(time) = time(problem, job, &placing) {
            all.push((placing, time));
        }
    }
    let within = |a: &Placing, b: &Placing| a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| a <= b);
    let beaten = |at: usize| {
        let (placing, time) = &all[at];
        all.iter().enumerate().any(|(other, (counts, better))| {
            other != at
                && within(counts, placing)
                && (better < time || (better <= time && (counts != placing || other < at)))
        })
    };
    let kept: Vec<usize> = (0..all.len()).filter(|&at| !beaten(at)).collect();
    kept.into_iter().map(|at| all[at].clone()).collect()
}

/// Returns the lowest weighted sum of times of jobs that all fit.
pub fn best(
    problem: &Problem,
    options: &[(usize, Vec<(Placing, f64)>)],
    free: &mut Vec<Vec<u32>>,
) -> Option<f64> {
    let Some(((number, placings), rest)) = options.split_first() else { return Some(0.0) };
    let job = &problem.jobs[*number];
    let weight = if problem.objective == Objective::Weighted { job.weight } else { 1.0 };
    let mut least: Option<f64> = None;
    for (placing, time) in placings {
        let gpus = |node: usize, ty: usize| placing[node][ty] * size(job, ty);
        let cells =
            || (0..free.len()).flat_map(|node| (0..problem.gpu_types.len()).map(move |ty| (node, ty)));
        if cells().any(|(node, ty)| gpus(node, ty) > free[node][ty]) {
            continue;
        }
        let cells: Vec<(usize, usize)> = cells().collect();
        for &(node, ty) in &cells {
            free[node][ty] -= gpus(node, ty);
        }
        if let Some(others) = best(problem, rest, free) {
            let sum = others + weight * time;
            least = Some(least.map_or(sum, |least| least.min(sum)));
        }
        for &(node, ty) in &cells {
            free[node][ty] += gpus(node, ty);
        }
    }
    least
}

/// Returns the bound that the prices prove: the cost of the jobs' cheapest bundles, minus the most that each
/// node could earn with whole replicas.
fn proven(problem: &Problem, jobs: &[usize], bound: &Bound) -> f64 {
    let types = problem.gpu_types.len();
    let price = |ty: usize, size: u32| {
        let replica_rent =
            bound.replica_prices.get(ty).and_then(|prices: &BTreeMap<u32, f64>| prices.get(&size)).copied();
        replica_rent.unwrap_or(f64::from(size) * bound.prices[ty])
    };
    let mut sum = 0.0;
    for (&number, weight) in jobs.iter().zip(&bound.weights) {
        let job = &problem.jobs[number];
        let offer: Vec<u32> = (0..types)
            .map(|ty| {
                if job.types[ty].is_none() {
                    0
                } else {
                    problem.nodes.iter().map(|node| node.gpus[ty] / size(job, ty)).sum()
                }
            })
            .collect();
        let mut bundle = vec![0; types];
        let mut least = f64::INFINITY;
        while let Some(at) = (0..types).find(|&at| bundle[at] < offer[at]) {
            bundle[at] += 1;
            bundle[..at].fill(0);
            let holds = |node: &&hsched_plan::WorkerNode| {
                (0..types).all(|ty| bundle[ty] * size(job, ty) <= node.gpus[ty])
            };
            let inside = problem.nodes.iter().filter(holds).map(|node| node.intra_node.gigabits_per_second());
            let link = inside.fold(problem.network.gigabits_per_second(), f64::max);
            let time = match job.sharing {
                Sharing::Balanced => bundle_cost::time(job, &bundle, link),
                Sharing::Equal => equal_time(job, &bundle, link),
            };
            let paid: f64 = (0..types).map(|ty| f64::from(bundle[ty]) * price(ty, size(job, ty))).sum();
            least = time.map_or(least, |time| least.min(weight * time + paid));
        }
        sum += least;
    }
    for node in &problem.nodes {
        for ty in 0..types {
            let sizes = || {
                jobs.iter()
                    .map(|&job| &problem.jobs[job])
                    .filter(|job| job.types[ty].is_some())
                    .map(|job| size(job, ty))
            };
            let free = node.gpus[ty] as usize;
            let mut worth = vec![0.0_f64; free + 1];
            for gpus in 1..=free {
                let with = sizes()
                    .filter(|&size| size as usize <= gpus)
                    .map(|size| worth[gpus - size as usize] + price(ty, size));
                worth[gpus] = with.fold(worth[gpus - 1], f64::max);
            }
            sum -= worth[free];
        }
    }
    sum / bound.weights.iter().sum::<f64>()
}

fn any_job() -> impl Strategy<Value = JobModel> {
    let speeds = proptest::collection::vec(
        proptest::option::weighted(0.7, (0_u32..150, 1_u32..60, proptest::option::weighted(0.25, 2_u64..12))),
        3,
    );
    let sizes = proptest::option::weighted(0.75, proptest::collection::vec(1_u32..5, 3));
    (
        speeds,
        sizes,
        (1_u32..3, 0_u32..3),
        (any::<bool>(), any::<bool>()),
        (1_u64..9, 0_u32..3000, 1_u32..4),
        prop_oneof![3 => Just(false), 1 => Just(true)],
    )
        .prop_map(
            |(speeds, sizes, (least, more), (accumulate, plain), (epochs, size, weight), equal)| {
                let model = |(alpha, beta, max_batch): (u32, u32, Option<u64>)| TypeModel {
                    speed: if plain {
                        hsched_model::Speed::rate(f64::from(beta) * 20.0).expect("valid")
                    } else {
                        let (alpha, beta) = (f64::from(alpha) / 1e3, f64::from(beta) / 1e4);
                        hsched_model::Speed::affine(hsched_model::Seconds(alpha), hsched_model::Seconds(beta))
                            .expect("valid")
                    },
                    max_batch,
                    single_rank: false,
                };
                JobModel {
                    global_batch: 16,
                    min_gpus: if more == 2 { least } else { 1 },
                    max_gpus: least + more,
                    accumulate,
                    weight: f64::from(weight),
                    types: speeds.into_iter().map(|rate| rate.map(model)).collect(),
                    replica: sizes.map(|sizes| ReplicaModel {
                        sizes,
                        same_node: true,
                        ever: 1000,
                        largest: vec![9; 3],
                    }),
                    sharing: if equal { Sharing::Equal } else { Sharing::Balanced },
                    ..job("job", epochs, 2000, f64::from(size), &[1.0; 3])
                }
            },
        )
}

pub fn any_problem() -> impl Strategy<Value = Problem> {
    let node =
        (0_usize..3, 1_u32..7, 0_u32..3, prop_oneof![4 => Just(300.0), 2 => Just(100.0), 1 => Just(20.0)]);
    let nodes = proptest::collection::vec(node, 3..5);
    (nodes, proptest::collection::vec(any_job(), 1..4), any::<bool>()).prop_map(|(nodes, jobs, weighted)| {
        let mut kinds: Vec<Vec<u32>> = Vec::new();
        for (place, &(ty, count, other, _)) in nodes.iter().enumerate() {
            let mut gpus = vec![0; 3];
            // Each type exists on some node.
            gpus[if place < 3 { place } else { ty }] = count;
            gpus[ty] = gpus[ty].max(other);
            kinds.push(gpus);
        }
        let shapes: Vec<&[u32]> = kinds.iter().map(Vec::as_slice).collect();
        let mut drawn = problem(&["a", "b", "c"], &shapes, jobs);
        for (node, (.., links)) in drawn.nodes.iter_mut().zip(&nodes) {
            node.intra_node = rate(*links);
        }
        drawn.network = rate(40.0);
        drawn.objective = if weighted { Objective::Weighted } else { Objective::MeanJct };
        for (number, job) in drawn.jobs.iter_mut().enumerate() {
            job.name = hsched_model::JobName::new(&format!("job{number}")).expect("a name");
        }
        drawn
    })
}

proptest! {
    #[test]
    fn equals_brute_force(problem in any_problem()) {
        let options: Vec<(usize, Vec<(Placing, f64)>)> =
            (0..problem.jobs.len()).map(|job| (job, placings(&problem, &problem.jobs[job]))).collect();
        let mut free: Vec<Vec<u32>> = problem.nodes.iter().map(|node| node.gpus.clone()).collect();
        let best = best(&problem, &options, &mut free);
        let mut policy = find("optimal", &Parameters::default()).expect("a policy");
        let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
        let bound = plan.bound.clone();
        let plan = verify(&problem, plan).map_err(|broken| TestCaseError::fail(format!("{broken:?}")))?;
        let placed = plan.placed();
        if let Some(best) = best {
            let weights: f64 = problem.jobs.iter().map(|job| problem.objective.weight(job)).sum();
            let (best, outcome) = (best / weights, PlanFigures::of(&problem, &plan).expect("jobs are placed"));
            prop_assert_eq!(placed.len(), problem.jobs.len(), "all jobs fit together");
            let value = outcome.objective_value;
            prop_assert!((value - best).abs() <= 1e-9 * best, "{} is not the optimum {}", value, best);
            let bound = bound.as_ref().expect("a bound");
            prop_assert!(bound.lower <= best * (1.0 + 1e-9) && value <= bound.lower * (1.0 + 1e-9), "{bound:?} of {best}");
        } else {
            prop_assert!(placed.len() < problem.jobs.len());
        }
        if let Some(bound) = bound.filter(|_| !placed.is_empty()) {
            let again = proven(&problem, &placed, &bound);
            // A type that a job requires may have any price, and sums of large prices are rounded.
            let paid: f64 = bound.prices.iter().zip(problem.offered()).map(|(price, count)| price * f64::from(count)).sum();
            let rounding = 1e-6 * again.abs() + 1e-12 * paid;
            prop_assert!((again - bound.root).abs() <= rounding, "{} claims {}", again, bound.root);
        }
        for (job, verdict) in problem.jobs.iter().zip(plan.verdicts()) {
            let Verdict::Place(placement) = verdict else { continue };
            let whole: usize = job.ranks_by_replica(&placement.ranks).len();
            prop_assert!((job.min_gpus as usize..=job.max_gpus as usize).contains(&whole));
        }
    }
}

/// Returns 1000 jobs on 10,000 GPUs of six types, in nodes of 16 of which some are partly in use; with
/// replicas of 1 to 16 GPUs, or the same jobs on single GPUs.
fn of_a_large_cluster(in_replicas: bool) -> Problem {
    let names = ["a100", "h100", "l40s", "p100", "t4", "v100"];
    let speeds = [2.0, 4.0, 1.2, 0.5, 0.4, 1.0];
    let spread = |number: u32, step: u32, most: u32| number * step % most;
    let nodes: Vec<Vec<u32>> = (0..640)
        .map(|node| {
            let mut gpus = vec![0; names.len()];
            gpus[node as usize % names.len()] = if spread(node, 7, 20) == 0 { 11 } else { 16 };
            gpus
        })
        .collect();
    let shapes: Vec<&[u32]> = nodes.iter().map(Vec::as_slice).collect();
    let sized = |number: u32| {
        let size = 1 << spread(number, 3, 5);
        let rates: Vec<f64> =
            speeds.iter().map(|speed| speed * f64::from(100 + spread(number, 37, 90))).collect();
        let rates: Vec<f64> =
            if in_replicas { rates.iter().map(|rate| rate * f64::from(size) * 0.9).collect() } else { rates };
        let replica =
            ReplicaModel { sizes: vec![size; 6], same_node: true, ever: 10_000, largest: vec![16; 6] };
        let epochs = u64::from(20 + spread(number, 29, 60));
        let megabytes = f64::from(50 + spread(number, 41, 2000));
        JobModel {
            syncs_per_epoch: f64::from(1 + spread(number, 13, 40)),
            replica: in_replicas.then_some(replica),
            ..job(
                &format!("j{number}"),
                epochs,
                u64::from(20_000 + 1000 * spread(number, 17, 40)),
                megabytes,
                &rates,
            )
        }
    };
    problem(&names, &shapes, (0..1000).map(sized).collect())
}

/// Returns the CPU seconds of this thread.
fn computed() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

#[test]
#[ignore = "takes a minute; run it in release mode"]
fn ten_thousand_gpus_take_hardly_longer_in_replicas() {
    let solve = |in_replicas: bool| {
        let problem = of_a_large_cluster(in_replicas);
        let mut policy = find("optimal", &Parameters::default()).expect("a policy");
        let start = computed();
        let begin = std::time::Instant::now();
        let plan =
            policy.decide(&problem, &Budget::until(&|| begin.elapsed().as_secs() > 200)).expect("a plan");
        let took = computed() - start;
        let bound = plan.bound.clone().expect("a bound");
        let plan = verify(&problem, plan).expect("a valid plan");
        assert_eq!(plan.placed().len(), problem.jobs.len());
        let value = PlanFigures::of(&problem, &plan).expect("jobs are placed").objective_value;
        println!("replicas {in_replicas}: {took:.2} s, gap {:.5}", value / bound.lower - 1.0);
        (took, value / bound.lower - 1.0)
    };
    let ((single, _), (whole, gap)) = (solve(false), solve(true));
    assert!(whole <= 1.5 * single, "{whole} s instead of {single} s");
    assert!(gap < 0.01, "{gap}");
}
