//! Replicas of several GPUs over time: every policy that supports them ends all jobs, uses whole replicas,
//! and stays above the lower bound.

use hsched_lab::replay::{Hooks, Options, ReplayEvent, Trace, replay};
use hsched_lab::{find_over_time, registry};
use hsched_model::Seconds;
use hsched_plan::{JobModel, Parameters, PolicyError, Problem, ReplicaModel, Sharing, Slot, trace_bound};
use hsched_problems::problems;
use proptest::prelude::*;

/// The policies over time that support replicas.
fn policies() -> Vec<&'static str> {
    let all = registry();
    let names = all.names_over_time().into_iter();
    names.filter(|name| all.entry(name).is_some_and(|entry| entry.knows_replicas)).collect()
}

fn any_job() -> impl Strategy<Value = JobModel> {
    let sizes = proptest::option::weighted(0.7, proptest::collection::vec(1_u32..5, 2));
    (sizes, any::<bool>(), (1_u64..6, 1_u32..3, 0_u32..3), 20_u32..200, any::<bool>()).prop_map(
        |(sizes, same_node, (epochs, least, more), rate, equal)| {
            let rate = f64::from(rate);
            JobModel {
                global_batch: 24,
                // The available GPUs suffice for the minimum of the job.
                min_gpus: if sizes.is_some() { 1 } else { least },
                asks: if sizes.is_some() { 1 } else { least },
                max_gpus: least + more,
                replica: sizes.map(|sizes| ReplicaModel { sizes, same_node, ever: 100, largest: vec![5, 4] }),
                sharing: if equal { Sharing::Equal } else { Sharing::Balanced },
                ..problems::job("job", epochs, 2400, 40.0, &[rate, 1.7 * rate])
            }
        },
    )
}

fn any_trace() -> impl Strategy<Value = (Trace, Problem, Vec<JobModel>)> {
    proptest::collection::vec((any_job(), 0_u32..200), 1..7).prop_map(|jobs| {
        let arrivals: Vec<f64> = jobs.iter().map(|(_, at)| f64::from(*at)).collect();
        let mut models: Vec<JobModel> = jobs.into_iter().map(|(model, _)| model).collect();
        for (number, model) in models.iter_mut().enumerate() {
            model.name = hsched_model::JobName::new(&format!("job{number}")).expect("a name");
        }
        let problem = problems::problem(&["a100", "h100"], &[&[5, 0], &[5, 0], &[0, 4], &[0, 4]], Vec::new());
        let trace = crate::replay::trace(problem, arrivals.into_iter().zip(models.clone()).collect());
        let whole = trace.whole();
        (trace, whole, models)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn all_jobs_end_on_whole_replicas((trace, whole, models) in any_trace(), restart in prop_oneof![Just(0.0), Just(7.0)]) {
        let bound = trace_bound(&whole, &|| false).expect("a bound");
        let options = Options { restart_cost: Some(Seconds(restart)), ..Options::default() };
        for name in policies() {
            let mut policy = find_over_time(name, &Parameters::default()).expect("a policy");
            let mut torn = None;
            let mut event = |event: &ReplayEvent| {
                let Some(model) = event.job.map(|job| &models[job]) else { return };
                let is_whole = |slot: &Slot| slot.count.is_multiple_of(model.block(slot.gpu_type));
                if !event.slots.iter().all(is_whole) {
                    torn = Some(event.clone());
                }
            };
            let hooks = Hooks { event: &mut event, progress: &mut |_| (), elapsed: &|| 0.0 };
            // The replay itself checks every plan.
            let record = replay(&trace, &options, policy.as_mut(), hooks);
            let record = record.map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
            prop_assert!(torn.is_none(), "{name}: {torn:?}");
            let mut sum = 0.0;
            for (job, model) in record.jobs.iter().zip(&whole.jobs) {
                let end = job.completed.ok_or_else(|| TestCaseError::fail(format!("{name}: {job:?}")))?;
                sum += end.since(model.progress.arrival).0;
            }
            let count = f64::from(u32::try_from(record.jobs.len()).expect("few"));
            prop_assert!(sum / count >= bound.lower * (1.0 - 1e-6), "{name}: {} below {}", sum / count, bound.lower);
        }
    }
}

#[test]
fn papers_that_give_out_single_gpus_say_so() {
    let replica = ReplicaModel { sizes: vec![2], same_node: true, ever: 9, largest: vec![4] };
    let job = JobModel { replica: Some(replica), ..problems::job("llm", 2, 2400, 40.0, &[100.0]) };
    let problem = problems::problem(&["a100"], &[&[4]], vec![job]);
    let others = registry();
    let others = others.entries().filter(|entry| !entry.knows_replicas && entry.is_ready());
    for entry in others {
        let mut policy = find_over_time(entry.name, &Parameters::default()).expect("a policy");
        let error = policy.decide(&problem, &hsched_plan::Budget::until(&|| false)).expect_err("refuses");
        assert!(matches!(error, PolicyError::SingleGpus { .. }), "{}: {error}", entry.name);
    }
}
