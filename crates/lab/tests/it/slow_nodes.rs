//! Slow nodes on the simulated cluster: they are reported after three epochs, avoided by jobs whose rule says
//! so, and used again after a week.

use std::collections::{BTreeMap, BTreeSet};

use hsched_engine::{Action, End, EpochReport, Event, KeptOff, News, Phase, RankReport, Update, apply};
use hsched_lab::find;
use hsched_lab::simulate::{Delays, Play, PlayOptions, SimulatedSite, SimulatedWorld};
use hsched_model::{Job, JobDefaults, Seconds, Time};
use hsched_plan::{Objective, Parameters};

use hsched_fixtures::engine_states::{attempt, cluster, heard, job, rules, running, state};
use hsched_fixtures::sites;

const DAY: f64 = 86_400.0;

/// A job of four epochs on one GPU.
fn new_job(name: &str, avoid_slow: bool) -> Job {
    Job { epochs: 4, avoid_slow, model: "m".to_owned(), ..job(name, "{v100: 100}", ", max_gpus: 1") }
}

/// Runs jobs that are added at these times on three nodes with a GPU each, of which v2 is slower by a
/// quarter; returns the excluded nodes by job, and the play.
fn nodes_of(orders: &[(f64, Job)]) -> (BTreeMap<String, String>, Play<'static>) {
    let nodes = ["v1", "v2", "v3"].map(|name| (name, "v100", 1, 0, "idle"));
    let first = Delays { start: Seconds(1.0), ..Delays::default() };
    let site = SimulatedSite {
        slow: BTreeMap::from([(sites::node("v2"), 1.25)]),
        delays: first,
        ..sites::site(cluster(&nodes), &orders.iter().map(|(_, job)| job.clone()).collect::<Vec<Job>>())
    };
    let rules: &'static _ = Box::leak(Box::new(rules()));
    let options = PlayOptions { rules, objective: Objective::MeanJct, seed: 0, patience: u64::MAX };
    let order =
        |(at, job): &(f64, Job)| (Time(*at), Event::Added { job: Box::new(job.clone()), restart: false });
    let world = SimulatedWorld::new(site, Vec::new(), Time(0.0));
    let policy = find("horizon", &Parameters::default()).expect("a policy");
    let mut play = Play::new(world, orders.iter().map(order).collect(), policy, options);
    let mut excluded = BTreeMap::new();
    while !play.is_over() {
        play.turn(&mut |update| {
            if let Update::Action(Action::Submit(run)) = update {
                for submission in &run.submissions {
                    let job = &run.jobs[submission.job];
                    let names = job.avoided.iter().map(ToString::to_string).collect::<Vec<_>>();
                    excluded.insert(job.name.to_string(), names.join(","));
                }
            }
        });
        play.world.pass(Seconds(5.0));
    }
    (excluded, play)
}

/// Returns the nodes on which jobs whose names begin with `begin` have run.
fn used(play: &Play<'_>, begin: &str) -> BTreeSet<String> {
    let jobs = play.state.jobs.iter().filter(|tracked| tracked.job.name.as_str().starts_with(begin));
    jobs.flat_map(|tracked| &tracked.past)
        .flat_map(|past| past.attempt.gpus.0.keys())
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_slow_node_is_named_avoided_and_tried_again_after_a_week() {
    let mut orders: Vec<(f64, Job)> =
        (1..=3).map(|number| (0.0, new_job(&format!("a{number}"), true))).collect();
    orders.extend((1..=3).map(|number| (3000.0, new_job(&format!("b{number}"), true))));
    orders.extend((1..=3).map(|number| (6000.0, new_job(&format!("c{number}"), false))));
    orders.extend((1..=3).map(|number| (9.0 * DAY, new_job(&format!("d{number}"), true))));
    let (excluded, play) = nodes_of(&orders);
    let all: BTreeSet<String> = ["v1", "v2", "v3"].map(str::to_owned).into();
    let others: BTreeSet<String> = ["v1", "v3"].map(str::to_owned).into();
    assert_eq!([used(&play, "a"), used(&play, "b"), used(&play, "c")], [all.clone(), others, all.clone()]);
    // A week after the node was last slow, it is used again.
    assert_eq!(used(&play, "d"), all);
    let names = |begin: &str| -> BTreeSet<&str> {
        excluded.iter().filter(|(name, _)| name.starts_with(begin)).map(|(_, nodes)| nodes.as_str()).collect()
    };
    assert_eq!(
        [names("a"), names("b"), names("c"), names("d")],
        [[""].into(), ["v2"].into(), [""].into(), [""].into()]
    );
    let slow = play.state.node_times.slow(play.world.now());
    let [only] = slow.as_slice() else { panic!("{slow:?}") };
    assert_eq!((only.node.as_str(), only.gpu_type.as_str()), ("v2", "v100"));
    assert!((only.slower - 0.25).abs() < 0.01, "{only:?}");
}

#[test]
fn epochs_of_a_slow_node_teach_no_speed_of_its_type() {
    let model = |name: &str| Job { model: "m".to_owned(), ..job(name, "{v100: 100}", "") };
    let on = |name: &str, node: &str| running(model(name), attempt("r", node, "v100", 1, 0), 0);
    let mut state = state(vec![on("a", "v1"), on("b", "v2")]);
    let mut learns = |name: &str, epoch: u64, compute: f64| {
        let at = Time(100.0 * hsched_model::number::to_f64(epoch));
        let rank = RankReport {
            rank: 0,
            node: None,
            samples: 1000,
            compute: Seconds(compute),
            step: None,
            probes: Vec::new(),
            share: None,
        };
        let report = EpochReport { epoch, at, length: None, ranks: vec![rank], metrics: Vec::new() };
        let action = apply(&mut state, at, &heard(name, "r", News::Epoch(report)), &rules());
        matches!(action, Some(Action::Learn { .. }))
    };
    for epoch in 1..=3 {
        assert!(learns("a", epoch, 10.0));
    }
    // The third epoch shows that the node is slow.
    assert_eq!([1, 2, 3, 4].map(|epoch| learns("b", epoch, 12.5)), [true, true, false, false]);
    assert!(learns("a", 4, 10.0));
    // An epoch as fast as elsewhere shows that the node is no longer slow.
    assert!(learns("b", 5, 10.0));
}

#[test]
fn a_node_whose_check_failed_costs_no_retry_and_is_avoided_for_a_day() {
    let first = running(
        job("a", "{v100: 100}", ", retries: 0, preflight: true"),
        attempt("r", "v1", "v100", 1, 0),
        0,
    );
    let mut state = state(vec![first]);
    let end = End::Unfit { node: Some(sites::node("v1")), why: "GPU 0 does not answer".to_owned() };
    apply(&mut state, Time(50.0), &heard("a", "r", News::Ended { end, at: Time(50.0) }), &rules());
    let tracked = &state.jobs[0];
    let Phase::Waiting { reason, .. } = &tracked.phase else { panic!("{:?}", tracked.phase) };
    assert!(reason.contains("failed its check on node v1: GPU 0 does not answer"), "{reason}");
    assert_eq!(tracked.failures, 0);
    let nodes = |names: &[&'static str], at: f64| -> Vec<String> {
        let cluster = cluster(&names.iter().map(|name| (*name, "v100", 1, 0, "idle")).collect::<Vec<_>>());
        let defaults = JobDefaults::default();
        let kept_off = KeptOff::new(&state, &cluster, &defaults, Time(at));
        kept_off.nodes(&tracked.job, &tracked.unfit).iter().map(ToString::to_string).collect()
    };
    assert_eq!(nodes(&["v1", "v2"], 60.0), ["v1"]);
    assert_eq!(nodes(&["v1", "v2"], 60.0 + DAY), [""; 0]);
    assert_eq!(nodes(&["v1.job7", "v2.job7"], 60.0), ["v1.job7"], "of a pool");
    // If there is no other node, the job is not kept off this one.
    assert_eq!(nodes(&["v1"], 60.0), [""; 0]);
}

#[test]
fn a_job_that_could_run_nowhere_else_is_not_kept_off() {
    let wide = |name: &str| Job { min_gpus: 3, max_gpus: Some(3), ..new_job(name, true) };
    let mut orders: Vec<(f64, Job)> =
        (1..=3).map(|number| (0.0, new_job(&format!("a{number}"), true))).collect();
    orders.push((3000.0, wide("wide")));
    let (excluded, play) = nodes_of(&orders);
    assert_eq!(play.state.node_times.slow(play.world.now()).len(), 1);
    assert_eq!((used(&play, "wide").len(), excluded["wide"].as_str()), (3, ""));
}
