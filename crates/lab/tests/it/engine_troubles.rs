//! The engine's decisions on tiny states: lost requests, jobs that do not end, and jobs that fit nowhere.

use std::sync::Arc;

use hsched_engine::{
    AfterStop, Answer, End, Event, JobState, News, Observation, Phase, QueueState, Sighting, Stage,
    StopProgress, SubmissionRecord, apply, notice,
};
use hsched_model::{Estimates, Job, JobId, NodeName, Partition, Seconds, Time, Usage};
use hsched_plan::Moves;

use hsched_fixtures::engine_states::{
    answered, attempt, cluster, heard, how, job, key, look, name, only, phase, rules, running, sighting,
    state, stopping, take, take_after, take_by, words,
};

#[test]
fn a_submission_that_was_given_up_is_found_again_and_others_stand_in_the_way() {
    let meant = SubmissionRecord { job_id: None, ..attempt("r", "v1", "v100", 1, 0) };
    let tracked = JobState {
        phase: phase(meant, Stage::Meant),
        ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0))
    };
    let mut state = state(vec![tracked]);
    let mut see = |at: f64, strays: Vec<Sighting>| {
        let seen = Observation { strays, ..look(at, vec![]) };
        for event in notice(&state, &seen) {
            apply(&mut state, Time(at), &event, &rules());
        }
        state.clone()
    };
    see(0.0, vec![]);
    assert!(matches!(see(61.0, vec![]).jobs[0].phase, Phase::Waiting { .. }));
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle")]);
    let run = |run: &str| Sighting { of: key("a", run), ..sighting(9, QueueState::Pending) };
    let blocked = see(500.0, vec![run("of-somebody")]);
    assert_eq!(words(&take(blocked, 500.0, &cluster, &how(Moves::Never)).actions), [""; 0]);
    let free = see(501.0, vec![]);
    assert_eq!(words(&take(free, 501.0, &cluster, &how(Moves::Never)).actions), ["submit a on 2 v100"]);
    let found = see(502.0, vec![run("r")]);
    let attempt = only(&found.jobs[0].phase, "pending");
    assert_eq!((attempt.job_id, attempt.ranks.len(), found.jobs[0].past.len()), (Some(JobId(9)), 1, 0));
}

#[test]
fn a_request_that_got_lost_is_made_again_and_one_that_was_refused_is_taken_back() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle"), ("t1", "t4", 2, 2, "alloc")]);
    let slow = || {
        let job = job("a", "{v100: 100, t4: 20}", ", max_gpus: 2");
        running(job, attempt("r", "t1", "t4", 2, 0), 1)
    };
    let auto = how(Moves::Auto { margin: 0.5 });
    let first = take(state(vec![slow()]), 1.0, &cluster, &auto);
    assert_eq!(words(&first.actions), ["stop a"]);
    // hsched is killed before the answer, so the next turn repeats the request.
    assert_eq!(words(&take(first.state.clone(), 2.0, &cluster, &auto).actions), ["stop a"]);
    let hear = |answer| {
        let mut state = first.state.clone();
        apply(&mut state, Time(2.0), &answered("a", "r", answer), &auto.rules);
        state
    };
    assert_eq!(words(&take(hear(Answer::Stopped), 3.0, &cluster, &auto).actions), [""; 0]);
    let refused = hear(Answer::NotStopped { message: "no".into() });
    assert!(refused.jobs[0].phase.word() == "running" && refused.decided.is_none());
}

#[test]
fn jobs_of_different_partitions_share_the_nodes_of_both() {
    let mut cluster = cluster(&[("v1", "v100", 2, 0, "idle")]);
    cluster.nodes[0].partitions = ["long", "short"].map(str::to_owned).into();
    let jobs = ["long", "short"].map(|partition| {
        JobState::new(job(partition, "{v100: 100}", &format!(", partition: {partition}")), Time(0.0))
    });
    let done = take(state(jobs.to_vec()), 1.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&done.actions), ["submit long on 1 v100, submit short on 1 v100"]);
    // Jobs of a partition without nodes wait, and other jobs do not wait for them.
    let jobs = ["long", "none"].map(|partition| {
        JobState::new(job(partition, "{v100: 100}", &format!(", partition: {partition}")), Time(0.0))
    });
    let done = take(state(jobs.to_vec()), 1.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&done.actions), ["none waits", "submit long on 2 v100"]);
    // A job that releases its GPUs delays only jobs that could use them.
    cluster.nodes[0].partitions = ["long".to_owned()].into();
    let mut other = cluster.nodes[0].clone();
    (other.name, other.partitions) = (NodeName::new("v2").expect("a name"), ["short".to_owned()].into());
    cluster.nodes.push(other);
    let job =
        |text: &str| JobState::new(job(text, "{v100: 100}", &format!(", partition: {text}")), Time(0.0));
    let stage = stopping(0.0, AfterStop::GoOn, StopProgress::Asked);
    let stopping = phase(attempt("r", "v1", "v100", 2, 0), stage);
    let mut jobs = vec![job("long"), job("short"), job("long")];
    Arc::make_mut(&mut jobs[0].job).name = name("stopping");
    jobs[0].phase = stopping;
    let done = take(state(jobs), 1.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&done.actions), ["long waits", "submit short on 2 v100"]);
}

#[test]
fn a_job_that_slurm_does_not_manage_to_end_is_not_waited_for_for_ever() {
    let cluster = cluster(&[("v1", "v100", 4, 2, "mixed")]);
    let submission = SubmissionRecord { started: Some(Time(0.0)), ..attempt("r", "v1", "v100", 2, 0) };
    let stuck = JobState {
        phase: phase(submission, stopping(0.0, AfterStop::GoOn, StopProgress::Killed)),
        ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0))
    };
    let waiting = JobState::new(job("b", "{v100: 100}", ""), Time(0.0));
    let early = take(state(vec![stuck, waiting]), 299.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&early.actions), ["cancel a", "b waits"]);
    let late = take(early.state, 300.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&late.actions), ["cancel a", "submit b on 2 v100"]);
}

#[test]
fn a_long_queue_keeps_a_job_where_it_is() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle"), ("t1", "t4", 2, 2, "alloc")]);
    let slow = || {
        let job = job("a", "{v100: 100, t4: 20}", ", max_gpus: 2");
        running(job, attempt("r", "t1", "t4", 2, 0), 1)
    };
    // Nine epochs would take 5 s each instead of 25 s, which saves 180 s.
    let check = |wait: Option<f64>, expected: &[&str]| {
        let how = how(Moves::Auto { margin: 0.5 });
        let done = take_after(state(vec![slow()]), 1.0, &cluster, (&how, wait));
        assert_eq!(words(&done.actions), expected, "{wait:?}");
    };
    check(None, &["stop a"]);
    check(Some(60.0), &["stop a"]);
    check(Some(150.0), &[]);
}

#[test]
fn a_policy_without_a_plan_is_the_reason_why_jobs_wait() {
    let cluster = cluster(&[("v1", "v100", 40, 0, "idle"), ("t1", "t4", 40, 0, "idle")]);
    let jobs: Vec<JobState> = (0..30)
        .map(|number| JobState::new(job(&format!("j{number}"), "{v100: 100, t4: 50}", ""), Time(0.0)))
        .collect();
    let how = how(Moves::Never);
    let done = take_by("has", state(jobs), 1.0, &cluster, &how);
    assert_eq!(words(&done.actions).len(), 30);
    let Phase::Waiting { reason, .. } = &done.state.jobs[0].phase else { panic!() };
    assert!(
        reason.starts_with("not planned: policy has: ") && reason.ends_with("use --policy jps"),
        "{reason}"
    );
    // While the policy and the state stay the same, nothing is decided or reported again; another policy
    // decides again.
    assert_eq!(words(&take_by("has", done.state.clone(), 2.0, &cluster, &how).actions), [""; 0]);
    assert_eq!(words(&take_by("jps", done.state, 3.0, &cluster, &how).actions).len(), 1);
}

#[test]
fn types_that_the_job_file_does_not_list_are_used_on_wish_alone_and_given_up_after_a_first_failure() {
    let cluster = cluster(&[("v1", "v100", 1, 0, "idle"), ("p1", "p100", 4, 0, "idle")]);
    let mut how = how(Moves::Never);
    let new_job = |more: &str| JobState::new(job("a", "{v100: 100}", more), Time(0.0));
    let without = take(state(vec![new_job("")]), 1.0, &cluster, &how);
    assert_eq!(words(&without.actions), ["submit a on 1 v100"]);
    let wished = take(state(vec![new_job(", estimate: all")]), 1.0, &cluster, &how);
    assert_eq!(words(&wished.actions), ["submit a on 4 p100 + 1 v100"]);
    how.rules.defaults.estimate = Estimates::All;
    assert_eq!(
        words(&take(state(vec![new_job(", estimate: off")]), 1.0, &cluster, &how).actions),
        words(&without.actions)
    );
    let mut then = take(state(vec![new_job("")]), 1.0, &cluster, &how).state;
    let attempt = then.jobs[0].phase.attempt().expect("an attempt");
    assert_eq!(attempt.trials.clause(), " (estimated: speed on p100 was never measured)");
    // The job fails there before its first epoch, so the type is excluded with a message.
    let failed = News::Ended { end: End::Failed { exit: 1, signal: 0 }, at: Time(5.0) };
    let event = heard("a", "next", failed);
    apply(&mut then, Time(5.0), &event, &how.rules);
    assert_eq!(
        then.jobs[0].last.1,
        "failed with exit status 1 in its first run on p100, which the job file does not list; hsched no longer uses p100 for this job; \
         2 of 3 retries left"
    );
    assert_eq!(words(&take(then.clone(), 60.0, &cluster, &how).actions), ["submit a on 1 v100"]);
    // The user adds the job again, so the type may be tried again.
    let added = Event::Added { job: Box::new(Job::clone(&then.jobs[0].job)), restart: false };
    apply(&mut then, Time(61.0), &added, &how.rules);
    assert_eq!(words(&take(then, 62.0, &cluster, &how).actions), ["submit a on 4 p100 + 1 v100"]);
}

#[test]
fn a_time_limit_that_cuts_a_job_is_said() {
    let mut cluster = cluster(&[("v1", "v100", 1, 0, "idle")]);
    let limit = Partition { name: "short".into(), default: true, max_time: Some(Seconds(60.0)) };
    cluster.partitions.push(limit);
    let said = |more: &str| {
        let jobs = state(vec![JobState::new(job("a", "{v100: 10}", more), Time(0.0))]);
        let then = take(jobs, 1.0, &cluster, &how(Moves::Never));
        then.state.jobs[0].phase.attempt().expect("an attempt").pieces.clone()
    };
    assert_eq!(
        said(", checkpoint: {grace: 10s}").as_deref(),
        Some("at least 20 runs of 1 min (needs checkpoints)")
    );
    let loses = "longer than its time limit of 1 min; the job starts over after the limit; if its program can resume, add the key checkpoint";
    assert_eq!(said("").as_deref(), Some(loses));
}

#[test]
fn a_job_that_fits_no_node_holds_nobody_up_and_one_that_fits_some_goes_there() {
    let mut cluster = cluster(&[("v1", "v100", 4, 0, "idle"), ("v2", "v100", 4, 0, "idle")]);
    for (node, total) in cluster.nodes.iter_mut().zip([16, 128]) {
        node.cpus = Some(Usage { total, used: 0 });
    }
    let new_job = |name: &str, cpus: u32| {
        let keys = format!(", max_gpus: 4, cpus_per_gpu: {cpus}");
        JobState::new(job(name, "{v100: 100}", &keys), Time(0.0))
    };
    let jobs = vec![new_job("greedy", 200), new_job("large", 32), new_job("small", 4)];
    let done = take(state(jobs), 1.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&done.actions), ["greedy waits", "submit large on 4 v100, submit small on 4 v100"]);
    assert_eq!(
        done.state.jobs[0].last.1,
        "cannot use any available GPU type (v100@v1: a rank needs 200 CPUs, more than such a node has; \
         v100@v2: a rank needs 200 CPUs, more than such a node has)"
    );
    let node = |job: usize| only(&done.state.jobs[job].phase, "submitting").gpus.0.keys().next().cloned();
    assert_eq!(
        [1, 2].map(|job| node(job).map(|name| name.to_string())),
        [Some("v2".into()), Some("v1".into())]
    );
}

/// A new request would start at the end of the queue, so a request is not cancelled for nodes that come back
/// by themselves or by their administrator.
#[test]
fn a_pending_request_is_cancelled_only_if_its_nodes_are_down() {
    let after_a_minute = |node: &str| {
        let pending = JobState {
            phase: phase(attempt("r", "v1", "v100", 1, 0), Stage::Pending),
            ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0))
        };
        let cluster = cluster(&[("v1", "v100", 1, 0, node)]);
        words(&take(state(vec![pending]), 60.0, &cluster, &how(Moves::Never)).actions)
    };
    for comes_back in ["maint", "resv", "idle$", "drained", "idle@", "idle!", "idle%", "idle^", "surprise"] {
        assert_eq!(after_a_minute(comes_back), [""; 0], "{comes_back}");
    }
    for down in ["down", "idle*", "drain*"] {
        assert_eq!(after_a_minute(down), ["cancel a"], "{down}");
    }
}
