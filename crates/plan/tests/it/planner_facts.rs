//! The numbers of the planner's worked example and of its fifteen-GPU cluster, for each policy.

use hsched_plan::{Budget, CheckedPlan, Parameters, PlanFigures, Problem, verify};
use hsched_problems::find;

use hsched_problems::problems;

fn plan(problem: &Problem, policy: &str, parameters: &Parameters) -> (CheckedPlan, PlanFigures) {
    let mut policy = find(policy, parameters).expect("a policy");
    let plan = policy.decide(problem, &Budget::until(&|| false)).expect("a plan");
    let plan = verify(problem, plan).expect("a valid plan");
    let outcome = PlanFigures::of(problem, &plan).expect("jobs are placed");
    (plan, outcome)
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 5e-7 * expected, "{value} is not {expected}");
}

/// Returns GPUs by type for each job.
fn bundles(problem: &Problem, plan: &CheckedPlan) -> Vec<Vec<u32>> {
    let bundle = |verdict: &hsched_plan::Verdict| {
        let mut bundle = vec![0; problem.gpu_types.len()];
        for slot in &verdict.placement().expect("placed").slots {
            bundle[slot.gpu_type] += slot.count;
        }
        bundle
    };
    plan.verdicts().iter().map(bundle).collect()
}

#[test]
fn has_gives_the_worked_example() {
    let problem = problems::worked_example();
    let (plan, outcome) = plan(&problem, "has", &Parameters::default());
    assert_eq!(bundles(&problem, &plan), [[2, 1], [0, 1]]);
    near(outcome.mean_jct, 11_225.836_5);
    near(outcome.makespan, 16_750.418_8);
    assert!((outcome.fairness - 0.9055).abs() < 5e-5, "{}", outcome.fairness);
    assert_eq!(plan.plan().categories, Some(3));
    let placement = plan.verdicts()[0].placement().expect("placed");
    near(placement.epoch.compute, 83.752_1);
    let shares: Vec<_> =
        placement.ranks.iter().map(|rank| (rank.gpu_type, rank.batch, rank.samples)).collect();
    assert_eq!(shares, [(1, 276, 53_906), (0, 118, 23_047), (0, 118, 23_047)]);
}

#[test]
fn heterogeneity_is_the_mean_speed_over_the_slowest() {
    // Samples per second: T4 275 + 884, V100 644 + 1754, two GPUs of each type.
    let degree = hsched_plan::heterogeneity(&problems::worked_example()).expect("usable GPUs");
    near(degree, (2.0 * 1159.0 + 2.0 * 2398.0) / (4.0 * 1159.0));
}

#[test]
fn exhaustive_gives_the_optimum_of_the_worked_example() {
    let problem = problems::worked_example();
    let (plan, outcome) = plan(&problem, "exhaustive", &Parameters::default());
    assert_eq!(bundles(&problem, &plan), [[0, 2], [2, 0]]);
    near(outcome.mean_jct, 10_592.029_5);
}

#[test]
fn jps_draws_from_the_tail_of_the_list() {
    let problem = problems::worked_example();
    // JPS puts VGG-19 first, because the whole cluster would end it sooner. Of its categories 3,1 2,2 1,3,
    // the range after 70 % contains only the last: VGG-19 gets one GPU, as in HAS's solution.
    let (_, tail) = plan(&problem, "jps", &Parameters::default());
    near(tail.mean_jct, 11_225.836_5);
    // After 33 %, the range contains the last two categories, after 0 % all three. A sample of size one is
    // one of them, depending on the seed.
    let one = |seed| {
        let drawn = &Parameters::default().with("alpha", "0").with("samples", "1");
        plan(&Problem { seed, ..problem.clone() }, "jps", drawn).1.mean_jct
    };
    let mut seen: Vec<f64> = (0..40).map(one).collect();
    seen.sort_by(f64::total_cmp);
    seen.dedup();
    for (mean, expected) in seen.iter().zip([11_225.836_5, 19_607.1, 37_502.1]) {
        assert!((mean - expected).abs() < 0.05, "{mean}");
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn jps_weighs_fairness_when_asked_to() {
    let problem = problems::fifteen_gpus();
    let outcome = |beta: f64| {
        let parameters =
            Parameters::default().with("alpha", "0").with("beta", beta.to_string()).with("samples", "1000");
        plan(&problem, "jps", &parameters).1
    };
    let (fast, fair) = (outcome(1.0), outcome(0.0));
    assert!(fair.fairness > fast.fairness && fair.mean_jct > fast.mean_jct, "{fast:?} {fair:?}");
}

#[test]
fn jps_over_the_whole_range_is_has() {
    for problem in [problems::worked_example(), problems::fifteen_gpus()] {
        let all = Parameters::default().with("alpha", "0").with("samples", "1000");
        let (_, sampled) = plan(&problem, "jps", &all);
        let (_, whole) = plan(&problem, "has", &all);
        near(sampled.mean_jct, whole.mean_jct);
    }
}

#[test]
fn jps_finds_its_range_itself() {
    let problem = problems::fifteen_gpus();
    let value = |alpha: &str, samples: &str| {
        let parameters = Parameters::default().with("alpha", alpha).with("samples", samples);
        plan(&problem, "jps", &parameters).1.mean_jct
    };
    near(value("auto", "2000"), 4740.941);
    assert!(value("auto", "60") <= value("0.99", "60"), "it tries the last categories, too");
    let wrong = find("jps", &Parameters::default().with("alpha", "most")).err().expect("refused");
    assert!(wrong.to_string().contains("or auto"), "{wrong}");
}

#[test]
fn has_on_fifteen_gpus() {
    let problem = problems::fifteen_gpus();
    let (plan, outcome) = plan(&problem, "has", &Parameters::default());
    near(outcome.mean_jct, 4740.941);
    let counts: Vec<u32> = bundles(&problem, &plan).iter().map(|bundle| bundle.iter().sum()).collect();
    assert_eq!(counts, [7, 5, 2, 1]);
    assert_eq!(plan.plan().categories, Some(364));
}

#[test]
fn exhaustive_on_fifteen_gpus() {
    let problem = problems::fifteen_gpus();
    let (plan, outcome) = plan(&problem, "exhaustive", &Parameters::default());
    near(outcome.mean_jct, 4369.650);
    assert_eq!(bundles(&problem, &plan), [[0, 1, 3], [3, 1, 2], [2, 1, 0], [0, 2, 0]]);
}

#[test]
fn optimal_proves_both_optima() {
    for (problem, expected) in
        [(problems::worked_example(), 10_592.029_5), (problems::fifteen_gpus(), 4369.650)]
    {
        let (plan, outcome) = plan(&problem, "optimal", &Parameters::default());
        near(outcome.mean_jct, expected);
        let bound = plan.plan().bound.as_ref().expect("a bound");
        near(bound.lower, expected);
        assert!(bound.root <= bound.lower);
    }
}

#[test]
fn optimus_takes_the_first_node_of_equally_fast_gpus() {
    let mut job = problems::job("a", 1, 1000, 0.0, &[480.0, 480.0]);
    job.max_gpus = 1;
    let problem = problems::problem(&["p100", "v100"], &[&[0, 1], &[1, 0]], vec![job]);
    let (plan, _) = plan(&problem, "optimus-lb", &Parameters::default());
    assert_eq!(bundles(&problem, &plan), [[0, 1]]);
}

#[test]
fn optimus_adds_gpus_one_by_one() {
    // V100s go to both jobs, then T4s: with balanced batches ResNet-18 gains more from each. With equal
    // parts, a T4 slows its V100 down, so VGG-19, which loses least from this, gets both.
    let problem = problems::worked_example();
    let (balanced, outcome) = plan(&problem, "optimus-lb", &Parameters::default());
    assert_eq!(bundles(&problem, &balanced), [[2, 1], [0, 1]]);
    near(outcome.mean_jct, 11_225.836_5);
    let (equal, outcome) = plan(&problem, "optimus", &Parameters::default());
    assert_eq!(bundles(&problem, &equal), [[0, 1], [2, 1]]);
    near(outcome.mean_jct, 17_413.316);
    let vgg = equal.verdicts()[1].placement().expect("placed");
    assert_eq!(vgg.ranks.iter().map(|rank| rank.batch).collect::<Vec<_>>(), [171, 171, 170]);
    near(vgg.epoch.compute, 50_000.0 / 3.0 / 884.0);
}
