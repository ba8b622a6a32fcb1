//! Plans that trade off mean completion time, fairness and cost: the listed plans, and their proven bounds.

use hsched_plan::{JobModel, Parameters, ParetoPlan, Problem, ReplicaModel, fairness, pareto};
use hsched_problems::bundle_cost::{bundles, fastest_link, time};
use hsched_problems::{find, problems};

use crate::certificate;
use crate::replicas::{Placing, placings};

/// Returns the plans that a search without a time limit finds for a problem.
fn plans(problem: &Problem, prices: Option<&[f64]>) -> Vec<ParetoPlan> {
    let mut policy = find("optimal", &Parameters::default()).expect("a policy");
    pareto(problem, policy.as_mut(), Vec::new(), prices, &|_| false).expect("plans")
}

/// Returns whether a plan is at least as good as another in every criterion.
fn beats(a: &ParetoPlan, b: &ParetoPlan) -> bool {
    a.mean <= b.mean && a.fairness >= b.fairness && a.cost.zip(b.cost).is_none_or(|(a, b)| a <= b)
}

fn check(plans: &[ParetoPlan]) {
    assert!(plans.is_sorted_by_key(|plan| plan.mean));
    for (number, plan) in plans.iter().enumerate() {
        assert!(plan.certificate.root <= plan.bound * (1.0 + 1e-12) && plan.bound <= plan.mean, "{plan:?}");
        let beaten = |(other, pareto_plan): (usize, &ParetoPlan)| other != number && beats(pareto_plan, plan);
        assert!(!plans.iter().enumerate().any(beaten), "{number}");
    }
}

#[test]
fn the_first_plan_has_the_least_mean_and_the_others_are_fairer() {
    let problem = problems::fifteen_gpus();
    let found = plans(&problem, None);
    check(&found);
    assert!((found[0].mean - 4369.650).abs() < 1e-3 && (found[0].bound - found[0].mean).abs() < 1e-3);
    assert!(found.len() >= 5 && found.is_sorted_by_key(|plan| plan.fairness), "{}", found.len());
    let last = found.last().expect("a plan");
    assert!(last.fairness > 0.97 && last.mean < 1.02 * last.bound, "{last:?}");
    assert!(found.iter().all(|plan| plan.cost.is_none() && plan.mean < 1.02 * plan.bound));
    let again = plans(&problem, None);
    assert!(
        again.iter().zip(&found).all(|(a, b)| a.plan == b.plan && a.bound.to_bits() == b.bound.to_bits())
    );
}

#[test]
fn the_certificate_proves_its_part_of_the_bound() {
    let problem = problems::fifteen_gpus();
    let jobs = problem.jobs.len();
    for plan in plans(&problem, None) {
        let bound = &plan.certificate;
        let sum: f64 = bound.weights.iter().sum();
        let proven =
            certificate::bound(&problem, &bound.prices, &bound.weights).expect("legal bundles") * sum;
        assert!((proven - bound.root).abs() <= 1e-6 * proven, "{proven} {bound:?}");
        let shares: Vec<f64> = (0..jobs).map(|job| equal_share(&problem, job)).collect();
        let y = |job: usize| (1.0 / 4.0 - bound.weights[job]) * shares[job];
        let total: f64 = (0..jobs).map(y).sum();
        let norm = (0..jobs).map(|job| y(job) * y(job)).sum::<f64>().sqrt();
        let least = (4.0 * (1.0 - plan.fairness)).sqrt() * norm;
        assert!(total >= least - 1e-9 * norm, "{total} {least} {plan:?}");
    }
}

/// Returns the completion time with an equal share of the fifteen GPUs for each of four jobs (eq. 32).
fn equal_share(problem: &Problem, job: usize) -> f64 {
    let job = &problem.jobs[job];
    let rate: f64 = job.types.iter().flatten().map(|model| 5.0 / model.speed.beta()).sum();
    let ranks = 15.0 / 4.0;
    let comm = 2.0 * (ranks - 1.0) * job.model_bytes / (problem.network.bytes_per_second() * ranks);
    let count = |number: u64| f64::from(u32::try_from(number).expect("few"));
    count(job.epochs) * (comm + 4.0 * count(job.samples_per_epoch) / rate)
}

#[test]
fn no_division_as_fair_has_a_mean_below_the_bound() {
    let problem = problems::worked_example();
    let found = plans(&problem, None);
    check(&found);
    assert!(found.len() > 1);
    let all = bundles(&problem.offered());
    let times =
        |job: usize, bundle: &Vec<u32>| time(&problem.jobs[job], bundle, fastest_link(&problem, bundle));
    let (mut divisions, mut fairest) = (0, 0.0_f64);
    for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
        let fits = a.iter().zip(b).zip(problem.offered()).all(|((a, b), offered)| a + b <= offered);
        let Some((a, b)) = times(0, a).zip(times(1, b)).filter(|_| fits) else { continue };
        let (mean, fairness) = (f64::midpoint(a, b), fairness(&problem, &[0, 1], &[a, b]));
        divisions += 1;
        fairest = fairest.max(fairness);
        for plan in &found {
            let as_fair = fairness >= plan.fairness - 1e-12;
            assert!(!as_fair || mean >= plan.bound * (1.0 - 1e-9), "{mean} {fairness} {plan:?}");
        }
    }
    assert!(divisions == 19 && fairest >= found.last().expect("a plan").fairness - 1e-12);
}

#[test]
fn prices_bring_cheaper_plans() {
    let problem = problems::fifteen_gpus();
    // Prices of P100, T4 and V100; the V100 is expensive for its speed.
    let found = plans(&problem, Some(&[1.0, 0.6, 4.0]));
    check(&found);
    let costs: Vec<f64> = found.iter().map(|plan| plan.cost.expect("prices")).collect();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least < 0.5 * costs[0], "{costs:?}");
    // Computed by hand from the first plan's GPUs.
    let cost: f64 = found[0]
        .plan
        .verdicts()
        .iter()
        .zip(&problem.jobs)
        .map(|(verdict, job)| {
            let placement = verdict.placement().expect("a placement");
            let rate = |rank: &hsched_plan::Rank| [1.0, 0.6, 4.0][rank.gpu_type];
            placement.jct(job.epochs).0 / 3600.0 * placement.ranks.iter().map(rate).sum::<f64>()
        })
        .sum();
    assert!((cost - costs[0]).abs() <= 1e-9 * cost, "{cost} {costs:?}");
}

#[test]
fn a_search_without_time_has_the_plan_that_it_found() {
    let problem = problems::fifteen_gpus();
    let mut policy = find("optimal", &Parameters::default()).expect("a policy");
    let found = pareto(&problem, policy.as_mut(), Vec::new(), None, &|_| true).expect("plans");
    assert_eq!(found.len(), 1);
    check(&found);
}

/// Two jobs on two nodes of 6 GPUs and one of 4 of another type; replicas of one have 4 or 2 GPUs, those of
/// the other 2 or 1.
fn of_replicas() -> Problem {
    let sized = |name: &str, epochs: u64, sizes: [u32; 2], rates: [f64; 2]| {
        let sizes = sizes.to_vec();
        let replica = ReplicaModel { sizes, same_node: true, ever: 100, largest: vec![6, 4] };
        JobModel { replica: Some(replica), ..problems::job(name, epochs, 20_000, 400.0, &rates) }
    };
    let jobs = vec![sized("a", 8, [4, 2], [90.0, 70.0]), sized("b", 5, [2, 1], [40.0, 30.0])];
    problems::problem(&["a100", "h100"], &[&[6, 0], &[6, 0], &[0, 4]], jobs)
}

#[test]
fn no_division_of_replicas_as_fair_has_a_mean_below_the_bound() {
    let problem = of_replicas();
    let found = plans(&problem, Some(&[1.0, 2.0]));
    check(&found);
    assert!(found.len() > 1, "{}", found.len());
    let (firsts, seconds) = (placings(&problem, &problem.jobs[0]), placings(&problem, &problem.jobs[1]));
    let gpus = |job: usize, placing: &Placing, node: usize, ty: usize| {
        placing[node][ty] * problem.jobs[job].size(ty)
    };
    let mut divisions = 0;
    for ((a, first), (b, second)) in firsts.iter().flat_map(|a| seconds.iter().map(move |b| (a, b))) {
        let fits = (0..3).all(|node| {
            (0..2).all(|ty| gpus(0, a, node, ty) + gpus(1, b, node, ty) <= problem.nodes[node].gpus[ty])
        });
        if !fits {
            continue;
        }
        divisions += 1;
        let (mean, fairness) =
            (f64::midpoint(*first, *second), fairness(&problem, &[0, 1], &[*first, *second]));
        for plan in &found {
            let as_fair = fairness >= plan.fairness - 1e-12;
            assert!(!as_fair || mean >= plan.bound * (1.0 - 1e-9), "{mean} {fairness} {plan:?}");
        }
    }
    assert!(divisions > 10, "{divisions}");
    // The cost of a plan is that of all its GPUs.
    let cost = |plan: &ParetoPlan| -> f64 {
        let of_job = |(verdict, job): (&hsched_plan::Verdict, &JobModel)| {
            let placement = verdict.placement().expect("a placement");
            let rate: f64 = placement.ranks.iter().map(|rank| [1.0, 2.0][rank.gpu_type]).sum();
            placement.jct(job.epochs).0 / 3600.0 * rate
        };
        plan.plan.verdicts().iter().zip(&problem.jobs).map(of_job).sum()
    };
    assert!(found.iter().all(|plan| (cost(plan) / plan.cost.expect("prices") - 1.0).abs() < 1e-9));
}
