//! Properties of every policy on any trace: all work is done once, on GPUs that are there; queues of single
//! GPUs are those computed by hand.

use std::collections::BTreeMap;

use hsched_lab::replay::{EventKind, Incidents, Loses, Options, Outage, ReplayError, ReplayEvent, Trace};
use hsched_lab::{find_over_time, registry};
use hsched_model::{Seconds, Time};
use hsched_plan::{JobModel, Parameters, Placement, PolicyError, Problem, Slot};
use proptest::prelude::*;

use crate::replay::{assert_near, completions, no_restart, play, seconds, trace};
use hsched_problems::problems;

/// FIFO with one GPU per job, computed by hand: each job starts on the GPU that is free first.
fn queue_by_hand(gpus: usize, jobs: &[(f64, f64)]) -> Vec<f64> {
    let mut free = vec![0.0_f64; gpus];
    jobs.iter()
        .map(|(arrival, long)| {
            let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a GPU");
            *first = first.max(*arrival) + long;
            *first
        })
        .collect()
}

/// Shortest remaining time first on one GPU, computed by hand.
fn shortest_by_hand(jobs: &[(f64, f64)]) -> Vec<f64> {
    let mut left: Vec<f64> = jobs.iter().map(|(_, long)| *long).collect();
    let mut ends = vec![0.0; jobs.len()];
    let mut now = 0.0;
    while left.iter().any(|left| *left > 1e-9) {
        let there = (0..jobs.len()).filter(|&job| jobs[job].0 <= now && left[job] > 1e-9);
        let next = jobs.iter().map(|(at, _)| *at).filter(|at| *at > now).fold(f64::INFINITY, f64::min);
        match there.min_by(|&a, &b| left[a].total_cmp(&left[b])) {
            None => now = next,
            Some(job) => {
                let run = left[job].min(next - now);
                now += run;
                left[job] -= run;
                ends[job] = now;
            }
        }
    }
    ends
}

/// The options of a replay of a random trace.
fn any_options(nodes: usize) -> impl Strategy<Value = Options> {
    let outage = (0..nodes, 0.0..300.0_f64, 1.0..200.0_f64).prop_map(|(node, from, long)| Outage {
        node,
        from: Time(from),
        until: Time(from + long),
    });
    let outages = proptest::collection::vec(outage, 0..3);
    let failures = proptest::option::weighted(0.3, (20.0..2000.0_f64).prop_map(Seconds));
    let costs = (prop_oneof![Just(0.0), Just(7.5)], prop_oneof![Just(0.0), Just(0.3)]);
    let round = proptest::option::weighted(0.2, Just(Seconds(25.0)));
    (outages, failures, costs, any::<bool>(), round, 0_u64..100).prop_map(
        |(outages, job_failures, (cost, noise), epoch, round, seed)| Options {
            seed,
            restart_cost: Some(Seconds(cost)),
            noise,
            round,
            loses: if epoch { Loses::Epoch } else { Loses::Nothing },
            incidents: Incidents { outages, job_failures, ..Incidents::default() },
            ..Options::default()
        },
    )
}

/// An observer's knowledge of a job from its events.
#[derive(Clone, Default)]
struct Seen {
    slots: Vec<Slot>,
    /// Start of training, and epoch time.
    trains: Option<(f64, f64)>,
    done: f64,
}

/// Checks a replay by its events: no GPU is used twice, no GPU of a node that is down is used, and all work
/// is done.
fn check(
    trace: &Trace,
    options: &Options,
    policy: &str,
    events: &[ReplayEvent],
) -> Result<(), TestCaseError> {
    let mut models = vec![None; trace.jobs.len()];
    for entry in &trace.jobs {
        models[entry.place] = Some(&entry.model);
    }
    let mut seen = vec![Seen::default(); trace.jobs.len()];
    let mut down: Vec<bool> = vec![false; trace.problem.nodes.len()];
    let mut moments: BTreeMap<u64, Vec<&ReplayEvent>> = BTreeMap::new();
    for event in events {
        moments.entry(event.at.0.to_bits()).or_default().push(event);
    }
    for events in moments.values_mut() {
        // A failed job may start again at once, and a start sorts before a failure by kind.
        events.sort_by_key(|event| matches!(event.kind, EventKind::Started | EventKind::Moved));
        for event in events {
            let now = event.at.0;
            let train = |progress: &mut Seen| {
                if let Some((from, epoch)) = progress.trains.take() {
                    progress.done += (now - from).max(0.0) / epoch;
                }
            };
            if let Some(node) = event.node {
                down[node] = event.kind == EventKind::NodeDown;
            }
            let Some(job) = event.job else { continue };
            let progress = &mut seen[job];
            let model = models[job].expect("a job");
            match event.kind {
                EventKind::Started | EventKind::Moved => {
                    let ran = progress.trains.is_some();
                    train(progress);
                    if ran && options.loses == Loses::Epoch {
                        progress.done = (progress.done + 1e-9).floor();
                    }
                    let problem = Problem { jobs: vec![model.clone()], ..trace.problem.clone() };
                    let sharing = find_over_time(policy, &Parameters::default()).expect("a policy").sharing();
                    let placement = Placement::new(&problem, 0, &event.slots, sharing);
                    let epoch = placement.expect("a legal placement").epoch.total();
                    progress.trains = Some((now + event.restart.map_or(0.0, |cost| cost.0), epoch));
                    progress.slots.clone_from(&event.slots);
                }
                EventKind::Stopped => {
                    train(progress);
                    if options.loses == Loses::Epoch {
                        progress.done = (progress.done + 1e-9).floor();
                    }
                    progress.slots.clear();
                }
                EventKind::Failed => {
                    train(progress);
                    progress.done = (progress.done + 1e-9).floor();
                    progress.slots.clear();
                }
                EventKind::Completed => {
                    train(progress);
                    progress.slots.clear();
                    let work = model.progress.work;
                    prop_assert!((progress.done - work).abs() < 1e-6 * work, "{} of {work}", progress.done);
                }
                EventKind::Arrived
                | EventKind::Round
                | EventKind::Task
                | EventKind::Queued
                | EventKind::NodeDown
                | EventKind::NodeBack => {}
            }
        }
        let mut used: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for slot in seen.iter().flat_map(|progress| &progress.slots) {
            *used.entry((slot.node, slot.gpu_type)).or_default() += slot.count;
        }
        for ((node, gpu_type), count) in used {
            prop_assert!(!down[node] && count <= trace.problem.nodes[node].gpus[gpu_type]);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_policy_does_all_work_once(
        problem in problems::any_problem(6, 4, true),
        arrivals in proptest::collection::vec(0_u32..200, 4),
        options in any_options(1),
    ) {
        let mut problem = problem;
        let jobs = std::mem::take(&mut problem.jobs);
        let jobs = jobs.into_iter().zip(&arrivals).map(|(job, at)| (f64::from(*at), job)).collect();
        let trace = trace(problem, jobs);
        for policy in registry().names_over_time() {
            let (record, events) = match play(&trace, &options, policy) {
                Ok(played) => played,
                Err(ReplayError::Policy(PolicyError::TooLarge { .. })) => continue,
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            };
            let again = play(&trace, &options, policy).expect("the same");
            prop_assert!(record == again.0 && events == again.1, "{} differs when played again", policy);
            prop_assert!(events.windows(2).all(|pair| pair[0].at.0 <= pair[1].at.0));
            check(&trace, &options, policy, &events)?;
            for (entry, job) in trace.jobs.iter().zip(&record.jobs) {
                prop_assert_eq!(job.completed.is_some(), job.why.is_none(), "{}", policy);
                if let Some(completed) = job.completed {
                    prop_assert!(completed.0 >= entry.arrival.0 && job.started.is_some());
                }
            }
        }
    }

    #[test]
    fn a_queue_of_single_gpus_is_the_one_by_hand(
        gpus in 1_u32..4,
        mut jobs in proptest::collection::vec((0_u32..3000, 1_u32..20), 1..15),
    ) {
        jobs.sort_unstable();
        let by_hand: Vec<(f64, f64)> =
            jobs.iter().map(|&(at, long)| (f64::from(at), f64::from(long) * 100.0)).collect();
        let model = |(place, &(at, long)): (usize, &(u32, u32))| {
            (f64::from(at), seconds(&format!("j{place}"), u64::from(long) * 100, &[100.0], 1))
        };
        let jobs: Vec<(f64, JobModel)> = jobs.iter().enumerate().map(model).collect();
        let queue = trace(problems::problem(&["v100"], &[&[gpus]], Vec::new()), jobs.clone());
        for policy in ["fifo", "fifo-het", "fifo-by-name", "yarn-cs"] {
            assert_near(&completions(&queue, &no_restart(), policy), &queue_by_hand(gpus as usize, &by_hand));
        }
        let alone = trace(problems::problem(&["v100"], &[&[1]], Vec::new()), jobs);
        let (times, ideal) = (completions(&alone, &no_restart(), "srtf"), shortest_by_hand(&by_hand));
        // Jobs with equal times may run in any order; the sums agree.
        prop_assert!((times.iter().sum::<f64>() - ideal.iter().sum::<f64>()).abs() < 1e-3);
    }
}
