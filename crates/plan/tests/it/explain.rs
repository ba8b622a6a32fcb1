//! `explain` compared with figures computed by hand, and with the bound that its prices prove.

use hsched_plan::{
    Bound, Budget, Exclusion, Explanation, GpuCountEffect, JobModel, Obstacle, Parameters, PlacementLimit,
    Problem, bound, explain, verify,
};
use hsched_problems::find;

use hsched_plan::throughput::UnusableType;

use hsched_problems::bundle_cost::{fastest_link, time};
use hsched_problems::problems::{fifteen_gpus, job, problem, worked_example};

fn explained(policy: &str, problem: &Problem) -> (Explanation, Option<Bound>) {
    let parameters = Parameters::default();
    let mut policy = find(policy, &parameters).expect("a policy");
    let plan = policy.decide(problem, &Budget::until(&|| false)).expect("a plan");
    let plan = verify(problem, plan).expect("a legal plan");
    let placed: Vec<usize> =
        (0..problem.jobs.len()).filter(|&job| plan.verdicts()[job].placement().is_some()).collect();
    let bound = bound(problem, &placed, &|| false);
    let all: Vec<usize> = (0..problem.jobs.len()).collect();
    (explain(problem, &plan, bound.as_ref(), &all), bound)
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-5 * expected.abs().max(1e-6), "{value} is not {expected}");
}

fn jct(change: Option<&GpuCountEffect>) -> (f64, bool) {
    let Some(GpuCountEffect::Jct { jct, free }) = change else { panic!("{change:?} has no time") };
    (*jct, *free)
}

#[test]
fn the_worked_example() {
    let (explanation, _) = explained("exhaustive", &worked_example());
    let [resnet, vgg] = &explanation.jobs[..] else { panic!("two jobs") };
    assert_eq!((&resnet.counts[..], &vgg.counts[..]), (&[0, 2][..], &[2, 0][..]));
    near(resnet.jct.expect("placed"), 2e7 / 1288.0);
    let (more, free) = jct(resnet.types[0].more.as_ref());
    near(more, 2e7 / (1288.0 + 275.0));
    assert!(!free);
    assert_eq!(resnet.types[1].more, Some(GpuCountEffect::Not(Obstacle::HasAll)));
    assert_eq!(resnet.types[0].fewer, None);
    near(jct(resnet.types[1].fewer.as_ref()).0, 2e7 / 644.0);
    near(resnet.loss(1).expect("legal"), 2e7 / 644.0 - 2e7 / 1288.0);
    // All V100 belong to the job, but the T4 do not.
    assert_eq!(resnet.types[1].alone.as_ref().ok(), resnet.types[1].alone_now.as_ref());
    near(resnet.types[0].alone.as_ref().expect("legal").jct, 2e7 / 550.0);
    assert_eq!(resnet.types[0].alone_now, None);
    assert_eq!(resnet.limits, [PlacementLimit::Taken { gpu_type: 0 }]);
    let node = vgg.one_node.as_ref().expect("a node");
    assert_eq!((&node.counts[..], node.node), (&[0, 2][..], Some(1)));
    near(node.jct, 1e7 / 3508.0);
    near(vgg.one_node_now.as_ref().expect("its own node").jct, 1e7 / 1768.0);
}

/// The choices of all jobs at the prices, minus the value of all GPUs, give the bound; the explanation
/// therefore uses the bound's prices.
#[test]
fn choices_at_the_prices_add_up_to_the_bound() {
    for (problem, policy) in [(worked_example(), "has"), (fifteen_gpus(), "optimal"), (fifteen_gpus(), "jps")]
    {
        let (explanation, bound) = explained(policy, &problem);
        let types = &explanation.types;
        let paid = explanation.jobs.iter().map(|job| {
            let choice = job.choice.as_ref().expect("placed");
            let value = choice.jct + job.pays(types, &choice.counts).expect("prices");
            let total = job.jct.expect("placed") + job.pays(types, &job.counts).expect("prices");
            assert!(value <= total * (1.0 + 1e-9), "{value} is not the least: {total}");
            value
        });
        let worth: f64 =
            types.iter().map(|market| f64::from(market.offered) * market.price.expect("a price")).sum();
        let jobs = f64::from(u32::try_from(problem.jobs.len()).expect("few"));
        near((paid.sum::<f64>() - worth) / jobs, bound.expect("placed jobs").root);
    }
}

#[test]
fn one_type_alone_is_the_best_number_of_all() {
    let problem = fifteen_gpus();
    let (explanation, _) = explained("optimal", &problem);
    for (job, job_explanation) in problem.jobs.iter().zip(&explanation.jobs) {
        for ty in 0..3 {
            let bundle = |count: u32| (0..3).map(|other| if other == ty { count } else { 0 }).collect();
            let times = (1..=5).filter_map(|count| {
                let bundle: Vec<u32> = bundle(count);
                time(job, &bundle, fastest_link(&problem, &bundle))
            });
            let best = times.min_by(f64::total_cmp).expect("legal");
            near(job_explanation.types[ty].alone.as_ref().expect("legal").jct, best);
        }
    }
}

/// Returns the explanation of a job that is alone on one node with four GPUs.
fn alone(change: impl FnOnce(&mut JobModel)) -> (Explanation, Problem) {
    let mut job = job("job", 1, 1000, 0.0, &[100.0]);
    change(&mut job);
    let problem = problem(&["v100"], &[&[4]], vec![job]);
    (explained("optimal", &problem).0, problem)
}

#[test]
fn limits_are_named() {
    let limits = |change: &dyn Fn(&mut JobModel)| alone(change).0.jobs[0].limits.clone();
    assert_eq!(limits(&|job| job.max_gpus = 3), [PlacementLimit::Most(Obstacle::MaxGpus { most: 3 })]);
    let few_quanta = |job: &mut JobModel| {
        (job.global_batch, job.batch_quantum, job.max_gpus) = (6, 3, 2);
    };
    let quanta = Obstacle::Quanta { most: 2, quantum: 3, batch: 6 };
    assert_eq!(limits(&few_quanta), [PlacementLimit::Most(quanta)]);
    let memory = |job: &mut JobModel| {
        job.types[0].as_mut().expect("usable").max_batch = Some(100);
    };
    let accumulation =
        PlacementLimit::Accumulation { gpu_type: 0, micro_batches: 2, batch: 128, memory: 100 };
    assert_eq!(limits(&memory), [accumulation]);
    let slow_ring = |job: &mut JobModel| {
        (job.model_bytes, job.min_gpus) = (1e15, 2);
    };
    assert_eq!(limits(&slow_ring), [PlacementLimit::Least { least: 2 }, PlacementLimit::NoGain]);
}

#[test]
fn a_slice_is_the_only_rank() {
    let mut job = job("job", 1, 1000, 0.0, &[100.0]);
    job.types[0].as_mut().expect("usable").single_rank = true;
    let problem = problem(&["a100_1g.5gb"], &[&[4]], vec![job]);
    let (explanation, _) = explained("optimal", &problem);
    let job = &explanation.jobs[0];
    assert_eq!(job.counts, [1]);
    assert_eq!(job.limits, [PlacementLimit::Illegal { gpu_type: 0, obstacle: Obstacle::Slice }]);
    assert_eq!(job.types[0].fewer, Some(GpuCountEffect::Not(Obstacle::OnlyGpu)));
    assert_eq!(explanation.types[0].price, Some(0.0));
}

#[test]
fn what_is_free_costs_nothing() {
    let (explanation, _) = alone(|job| job.max_gpus = 3);
    assert_eq!((explanation.types[0].offered, explanation.types[0].free), (4, 1));
    near(explanation.types[0].price.expect("a job") + 1.0, 1.0);
}

#[test]
fn jobs_without_gpus_are_told_why_by_type() {
    let mut problem = worked_example();
    problem.jobs[1].types[1] = None;
    problem.jobs[1].unusable = vec![(1, Exclusion::Speed(UnusableType::NoThroughput))];
    problem.jobs[1].min_gpus = 3;
    let (explanation, _) = explained("jps", &problem);
    let job = &explanation.jobs[1];
    assert_eq!((job.jct, job.weight, &job.choice), (None, None, &None));
    assert_eq!(job.types[0].alone, Err(Obstacle::MinGpus { least: 3 }));
    assert_eq!(job.types[1].alone, Err(Obstacle::Unusable("no throughput known".into())));
    assert!(job.types.iter().all(|explanation| explanation.more.is_none() && explanation.fewer.is_none()));
}
