//! The lines of the log for single events: which events are reported, and which are not.

use hsched_engine::{
    Action, Answer, BackendKind, End, EpochReport, Event, JobState, News, Observation, PastAttempt, Phase,
    Piece, QueueReason, QueueState, Rules, Sighting, Stage, State, Submission, SubmissionRecord, TypeTrial,
    Update, apply, notice,
};
use hsched_model::{Job, JobId, Seconds, Time};
use hsched_plan::throughput::{LearnRule, Sample, SampleSource, SpeedKey};
use hsched_ui::{JobSummary, Story};

use hsched_fixtures::engine_states::{
    answered, attempt, cluster, gpu, job, key, look, name, phase, rules, running, sighting, state,
};

/// A state that knows one job, which waits.
fn knowing(job: Job) -> State {
    state(vec![JobState::new(job, Time(0.0))])
}

/// Returns the messages about samples, each with a batch and a rate, one after the other; with `fresh`, each
/// sample is reported by a new process.
fn learnt(fresh: bool, samples: &[(u64, f64)]) -> Vec<String> {
    learnt_of("", fresh, samples)
}

/// Returns the messages about samples of a job with additional keys.
fn learnt_of(more: &str, fresh: bool, samples: &[(u64, f64)]) -> Vec<String> {
    let job = job("a", "{t4: 100}", more);
    let key = SpeedKey::of(&job, &gpu("t4"));
    let (mut state, mut story) = (knowing(job), Story::default());
    let mut lines = Vec::new();
    for &(batch, rate) in samples {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let seconds = batch as f64 / rate;
        let source = SampleSource::Report;
        let sample = Sample { key: key.clone(), batch, seconds, steps: 1, at: 0.0, source };
        let lesson = state.cache.learn(&sample, LearnRule { weight: 1.0, contributor: "me" });
        if fresh {
            story = Story::default();
        }
        let (samples, lessons) = (vec![sample], vec![lesson]);
        story.hear(Update::Action(&Action::Learn { job: name("a"), samples, lessons }));
        lines.extend(story.lines(&state).into_iter().map(|line| line.text));
    }
    lines
}

#[test]
fn the_first_speed_and_notable_changes_are_told_once() {
    let samples = [(10, 150.0), (10, 151.0), (10, 151.0), (10, 165.0)];
    let first = "measured t4 150/s at batch 10 (job file: 100/s)";
    assert_eq!(learnt(true, &samples), [first, "measured t4 165/s at batch 10 (before: 151/s)"]);
    assert_eq!(learnt(false, &samples), [first, "measured t4 165/s at batch 10 (before: 150/s)"]);
    // First, the speed of the job file; then, small changes that add up.
    let slow = [(10, 101.0), (10, 103.0), (10, 107.0)];
    assert_eq!(learnt(false, &slow), ["measured t4 107/s at batch 10 (before: 101/s)"]);
    // With two batch sizes, the speed also applies to others.
    let sizes = [(10, 150.0), (40, 200.0), (40, 201.0)];
    assert_eq!(learnt(true, &sizes)[1..], ["measured t4 200/s (before: 150/s)"]);
}

#[test]
fn the_speed_of_a_replica_is_compared_with_that_of_a_replica() {
    let told = |speed: f64| learnt_of(", replica: {gpus: 4, efficiency: 0.75}", false, &[(10, speed)]);
    assert_eq!(told(310.0), Vec::<String>::new());
    assert_eq!(told(400.0), ["measured 4 t4 400/s at batch 10 (job file: 300/s)"]);
}

/// Returns the messages about these observations, one after the other, and the resulting job.
fn seen(job: JobState, looks: Vec<Observation>) -> (Vec<String>, JobState) {
    let (mut state, mut story, mut lines) = (state(vec![job]), Story::default(), Vec::new());
    for look in looks {
        let events = notice(&state, &look);
        for event in &events {
            apply(&mut state, look.at, event, &rules());
            story.hear(Update::Event(event));
        }
        lines.extend(story.lines(&state).into_iter().map(|line| line.text));
    }
    (lines, state.jobs.remove(0))
}

#[test]
fn a_node_that_left_is_not_back() {
    let nodes = |nodes: &[(&str, &str)]| {
        let nodes: Vec<_> = nodes.iter().map(|&(name, state)| (name, "v100", 1, 0, state)).collect();
        Observation { cluster: cluster(&nodes), ..look(9.0, Vec::new()) }
    };
    let looks = vec![
        nodes(&[("v1", "down"), ("v2", "idle"), ("v3.job7", "down")]),
        nodes(&[("v1", "down"), ("v2", "idle")]),
        nodes(&[("v1", "idle"), ("v2", "idle")]),
    ];
    let (lines, _) = seen(JobState::new(job("a", "{v100: 100}", ""), Time(0.0)), looks);
    assert_eq!(lines, ["node v1 is down", "node v3.job7 is no longer used", "node v1 is back"]);
}

#[test]
fn a_job_that_fails_at_once_in_the_same_way_says_how_to_end_it() {
    let failed = |exit| End::Failed { exit, signal: 0 };
    let told = |before: End, ended: f64| {
        let attempt = SubmissionRecord { started: Some(Time(0.0)), ..attempt("q", "v1", "v100", 1, 0) };
        let past = vec![PastAttempt { attempt, ended: Time(ended), end: before, epochs: 0 }];
        let looks = vec![reports(1.0, std::iter::empty()), ends(failed(3), 5.0)];
        seen(JobState { past, ..runs("") }, looks).0.pop().unwrap_or_default()
    };
    let hint = "it failed in the same way before: hsched cancel ends it, and retries: 0 in its file prevents retries";
    assert!(told(failed(3), 4.0).ends_with(hint), "{}", told(failed(3), 4.0));
    for (before, ended) in [(failed(4), 4.0), (failed(3), 40.0), (End::NodeFailed, 4.0)] {
        assert!(!told(before, ended).contains("hsched cancel"));
    }
}

/// A running job of ten epochs with a time limit of a minute.
fn runs(more: &str) -> JobState {
    running(job("a", "{v100: 100}", &format!(", time: 1m{more}")), attempt("r", "v1", "v100", 1, 0), 0)
}

/// Like [`runs`], submitted with a time limit in seconds.
fn runs_for(limit: f64) -> JobState {
    let attempt = SubmissionRecord { limit: Some(Seconds(limit)), ..attempt("r", "v1", "v100", 1, 0) };
    running(job("a", "{v100: 100}", ""), attempt, 0)
}

fn ends(end: End, at: f64) -> Observation {
    look(at, vec![sighting(7, QueueState::Ended { end, at: Some(Time(at)), since: None })])
}

fn reports(at: f64, epochs: impl Iterator<Item = u64>) -> Observation {
    let report =
        |epoch| EpochReport { epoch, at: Time(at), length: None, ranks: Vec::new(), metrics: Vec::new() };
    let epochs = epochs.map(|epoch| (key("a", "r"), report(epoch))).collect();
    let queue_state = QueueState::Running { since: Some(Time(0.0)), gpus: None };
    Observation { epochs, ..look(at, vec![sighting(7, queue_state)]) }
}

#[test]
fn why_it_waits_is_told_at_first_and_when_it_is_stuck() {
    let pending = |reason: &str, is_stuck| {
        let reason = Some(QueueReason { text: reason.to_owned(), is_stuck });
        look(9.0, vec![Sighting { reason, ..sighting(7, QueueState::Pending) }])
    };
    let meant = SubmissionRecord { job_id: None, ..attempt("r", "v1", "v100", 1, 0) };
    let tracked = JobState {
        phase: phase(meant, Stage::Meant),
        ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0))
    };
    let looks = [("Priority", false), ("Resources", false), ("JobHeldUser", true), ("JobHeldUser", true)];
    let looks = looks.into_iter().map(|(reason, is_stuck)| pending(reason, is_stuck)).collect();
    let (lines, tracked) = seen(tracked, looks);
    assert_eq!(lines, ["pending as job 7: Priority", "pending: JobHeldUser; it will not start by itself"]);
    assert_eq!(tracked.phase.attempt().and_then(|record| record.reason.as_deref()), Some("JobHeldUser"));
    assert_eq!(JobSummary::new(&tracked).last(Time(20.0)), "pending as job 7 (JobHeldUser), 11.0 s ago");
}

#[test]
fn each_request_of_a_race_has_its_own_reason() {
    let meant = |run| SubmissionRecord { job_id: None, ..attempt(run, "v1", "v100", 1, 0) };
    let submissions = ["r", "r2"].map(|run| Submission { attempt: meant(run), stage: Stage::Meant });
    let phase = Phase::Submitted(submissions.to_vec());
    let tracked = JobState { phase, ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0)) };
    let pending = |run: &str, id, reason: &str| {
        let reason = Some(QueueReason { text: reason.to_owned(), is_stuck: false });
        Sighting { of: key("a", run), reason, ..sighting(id, QueueState::Pending) }
    };
    let looks = vec![look(9.0, vec![pending("r", 7, "Resources"), pending("r2", 8, "Priority")])];
    let (lines, _) = seen(tracked, looks);
    assert_eq!(lines, ["pending as job 7: Resources", "pending as job 8: Priority"]);
}

#[test]
fn a_stop_that_saved_nothing_is_called_an_interruption() {
    let known = |tracked: JobState| seen(tracked, vec![reports(1.0, std::iter::empty())]).1;
    let told = |tracked, looks| seen(known(tracked), looks).0;
    let at_limit = told(runs_for(60.0), vec![ends(End::Cut, 50.0)]);
    assert_eq!(at_limit, ["was interrupted at its time limit; starts over, in 30 s at the earliest"]);
    let (limit, grace) = (Some(Seconds(3600.0)), Some(Seconds(600.0)));
    let early = SubmissionRecord { limit, grace, ..attempt("r", "v1", "v100", 1, 0) };
    let early = running(job("a", "{v100: 100}", ""), early, 0);
    assert_eq!(told(early, vec![ends(End::Cut, 3010.0)]), at_limit);
    assert_eq!(
        told(runs(""), vec![ends(End::Cut, 5.0)]),
        ["was interrupted; starts over, in 30 s at the earliest"]
    );
    let deaf = told(runs(""), vec![reports(4.0, 1..=1), ends(End::Unhandled, 5.0)]);
    assert_eq!(
        deaf[1..],
        [concat!(
            "was interrupted: its command does not handle SIGUSR1; ",
            "repeats epochs, because its program wrote no checkpoint"
        )]
    );
    let deaf = told(runs_for(60.0), vec![ends(End::Unhandled, 50.0)]);
    assert_eq!(
        deaf,
        [
            "was interrupted at its time limit: its command does not handle SIGUSR1; starts over, in 30 s at the earliest"
        ]
    );
    let saved = told(runs(""), vec![ends(End::Saved, 5.0)]);
    assert_eq!(saved, ["saved a checkpoint; resumes from its checkpoint, in 30 s at the earliest"]);
    let saved = told(runs(""), vec![reports(4.0, 1..=1), ends(End::Saved, 5.0)]);
    assert_eq!(saved[1..], ["saved a checkpoint; resumes after epoch 1 of 10"]);
    let ended = |more: &str| told(runs(more), vec![reports(4.0, 1..=1), ends(End::Interrupted, 5.0)]);
    assert_eq!(ended("")[1..], ["was interrupted; resumes after epoch 1 of 10, if its program saves"]);
    assert_eq!(ended(", checkpoint: {grace: 5s}")[1..], ["was interrupted; resumes after epoch 1 of 10"]);
    let failed = End::Failed { exit: 7, signal: 0 };
    let last = told(runs(", retries: 1"), vec![ends(failed.clone(), 5.0)]);
    assert_eq!(last, ["failed with exit status 7, last retry; starts over, in 30 s at the earliest"]);
    let over = seen(known(runs(", retries: 0")), vec![ends(failed, 5.0)]).1;
    assert_eq!(over.last.1, "failed with exit status 7");
}

#[test]
fn a_job_that_stops_again_and_again_fails_for_that() {
    let past = PastAttempt {
        attempt: attempt("q", "v1", "v100", 1, 0),
        ended: Time(0.0),
        end: End::TimedOut,
        epochs: 0,
    };
    let tracked = JobState { past: vec![past; 4], cuts: 4, failures: 1, ..runs(", retries: 1") };
    let (_, over) = seen(tracked, vec![ends(End::Saved, 5.0)]);
    assert_eq!(over.last.1, "failed: stopped 5 times without finishing an epoch");
}

#[test]
fn what_reports_leave_unsaid_is_said() {
    let told = |epochs: u64| {
        let looks = vec![reports(4.0, 1..=epochs), ends(End::Completed, 5.0)];
        seen(runs(""), looks).1.last.1
    };
    assert_eq!(told(0), "completed, but its ranks reported no epoch");
    let two = JobState { phase: phase(attempt("r", "v1", "v100", 2, 0), Stage::Running), ..runs("") };
    let silent = seen(two, vec![ends(End::Completed, 5.0)]).1.last.1;
    assert_eq!(
        silent,
        "completed, but its ranks reported no epoch; if its command is not distributed, set max_gpus: 1"
    );
    assert_eq!(told(1), "completed, but its ranks reported only 1 of 10 epochs");
    assert_eq!(told(9), "completed, but its ranks reported only 9 of 10 epochs: epochs count from 1");
    assert_eq!(told(10), "completed");
    let beyond = |at| {
        let odd = vec![(key("a", "r"), "line 3 is about epoch 11".to_owned())];
        Observation { odd, ..reports(at, 11..=11) }
    };
    let (lines, tracked) = seen(runs(""), vec![reports(4.0, 1..=10), beyond(5.0), beyond(6.0)]);
    assert_eq!(lines[11..], ["reports: line 3 is about epoch 11"]);
    assert_eq!(tracked.epochs_done, 10);
}

#[test]
fn a_silent_job_is_overdue() {
    let epoch = |at: f64| JobState {
        epochs_done: 9,
        epoch: Some(Seconds(100.0)),
        epoch_at: Some(Time(at)),
        ..runs("")
    };
    let overdue = |tracked: JobState, now: f64| tracked.overdue(Time(now)).map(|silence| silence.0);
    assert_eq!((overdue(epoch(1000.0), 1300.0), overdue(epoch(1000.0), 1301.0)), (None, Some(301.0)));
    let long = |at| JobState { job: Job { epochs: 90, ..Job::clone(&runs("").job) }.into(), ..epoch(at) };
    assert_eq!(overdue(long(1000.0), 1301.0), Some(301.0), "it need not be near its end");
    let short = |at| JobState { epoch: Some(Seconds(1.0)), ..epoch(at) };
    assert_eq!((overdue(short(1000.0), 1060.0), overdue(short(1000.0), 1061.0)), (None, Some(61.0)));
    // The prediction is ten epochs of 10 s.
    assert_eq!((overdue(runs(""), 100.0), overdue(runs(""), 101.0)), (None, Some(101.0)));
}

#[test]
fn a_job_that_slurm_does_not_show_is_waited_for() {
    let (lines, _) = seen(runs(""), vec![look(9.0, vec![])]);
    assert_eq!(lines, ["not in the queue; waiting a minute to be sure"]);
}

#[test]
fn a_type_on_which_the_first_run_failed_is_named() {
    let mut tracked = runs(", retries: 1");
    let Phase::Submitted(submissions) = &mut tracked.phase else { panic!("{:?}", tracked.phase) };
    submissions[0].attempt.trials.0.insert(gpu("v100"), TypeTrial::Estimated);
    let failed = End::Failed { exit: 7, signal: 0 };
    let (_, tracked) = seen(tracked, vec![reports(1.0, std::iter::empty())]);
    let (lines, _) = seen(tracked, vec![ends(failed, 5.0)]);
    assert_eq!(
        lines,
        [
            "failed with exit status 7, last retry; starts over, in 30 s at the earliest; hsched no longer uses v100 for it (not in its job file; hsched add lifts this)"
        ]
    );
}

#[test]
fn a_second_request_is_queued_also() {
    let first = Submission { attempt: attempt("r", "v1", "v100", 1, 0), stage: Stage::Pending };
    let second = attempt("s", "a1", "a100", 2, 0);
    let second = Submission { attempt: SubmissionRecord { job_id: None, ..second }, stage: Stage::Meant };
    let job = JobState {
        phase: Phase::Submitted(vec![first, second]),
        ..knowing(job("a", "{v100: 100, a100: 200}", "")).jobs.remove(0)
    };
    let (mut state, mut story) = (state(vec![job]), Story::default());
    let event = answered("a", "s", Answer::Submitted { job_id: JobId(79) });
    apply(&mut state, Time(1.0), &event, &rules());
    story.hear(Update::Event(&event));
    let told = story.lines(&state).remove(0).text;
    assert!(told.starts_with("also queued as job 79 on 2 a100 (a1)"), "{told}");
}

#[test]
fn a_request_that_fails_while_others_of_its_race_wait_starts_nothing_over() {
    let race = |run: &str, node: &str, stage: Stage| {
        let attempt =
            SubmissionRecord { race: true, joins: Some("r".to_owned()), ..attempt(run, node, "v100", 1, 0) };
        Submission { attempt, stage }
    };
    let phase = Phase::Submitted(vec![race("r", "v1", Stage::Running), race("s", "v1", Stage::Pending)]);
    let (mut state, mut story) = (state(vec![JobState { phase, ..runs("") }]), Story::default());
    let end = End::Untaken(Box::new(End::Failed { exit: 1, signal: 0 }));
    let event = Event::News { of: key("a", "r"), news: News::Ended { end, at: Time(5.0) } };
    apply(&mut state, Time(5.0), &event, &rules());
    story.hear(Update::Event(&event));
    let told = story.lines(&state).remove(0).text;
    assert_eq!(told, "failed with exit status 1; its other requests stay in the queue");
}

#[test]
fn what_is_cancelled_and_why_is_one_sentence() {
    let first = Submission { attempt: attempt("r", "v1", "v100", 1, 0), stage: Stage::Running };
    let second = Submission { attempt: attempt("s", "a1", "a100", 2, 0), stage: Stage::Pending };
    let told = |submissions: &[Submission], why: &str| {
        let phase = Phase::Submitted(submissions.to_vec());
        let job = JobState { phase, ..runs("") };
        let mut story = Story::default();
        let (of, why) = (key("a", "s"), why.to_owned());
        story.hear(Update::Action(&Action::Cancel { of, job_id: JobId(79), why }));
        story.lines(&state(vec![job])).remove(0).text
    };
    let raced = told(&[first, second.clone()], "another request started first");
    assert_eq!(raced, "another request started first; cancelling this one");
    assert_eq!(told(&[second], "requested by the user"), "cancelling: requested by the user");
}

#[test]
fn the_next_submission_of_a_chain_is_its_continuation() {
    let first = Submission { attempt: attempt("r", "v1", "v100", 1, 0), stage: Stage::Running };
    let follows = Some(Piece { of: key("a", "r"), job_id: JobId(7) });
    let next = SubmissionRecord { job_id: None, follows, ..attempt("s", "v1", "v100", 1, 0) };
    let next = Submission { attempt: next, stage: Stage::Meant };
    let job = JobState { phase: Phase::Submitted(vec![first, next]), ..runs("") };
    let (mut state, mut story) = (state(vec![job]), Story::default());
    let event = answered("a", "s", Answer::Submitted { job_id: JobId(123) });
    apply(&mut state, Time(1.0), &event, &rules());
    story.hear(Update::Event(&event));
    let told = story.lines(&state).remove(0).text;
    assert!(told.starts_with("continuation queued as job 123 on 1 v100 (v1)"), "{told}");
    assert_eq!(state.jobs[0].last.1, "continuation queued as job 123 on 1 v100");
}

#[test]
fn a_preview_does_not_refer_to_a_state_that_it_does_not_store() {
    let last = |mut story: Story| {
        for job in ["a", "b", "c", "d"] {
            story.hear(Update::Action(&Action::Wait { job: name(job), why: "no GPUs".into() }));
        }
        story.lines(&state(Vec::new())).pop().map(|line| line.text)
    };
    assert_eq!(
        last(Story::of(BackendKind::Devices)).as_deref(),
        Some("2 more jobs are waiting: hsched status shows why")
    );
    assert_eq!(last(Story::preview()).as_deref(), Some("2 more jobs are waiting"));
}

#[test]
fn where_there_is_no_queue_submissions_are_processes() {
    let told = |backend: BackendKind, answer: Answer| {
        let rules = Rules { backend, ..rules() };
        let job = JobState {
            phase: phase(attempt("r", "v1", "v100", 1, 0), Stage::Meant),
            ..knowing(job("a", "{v100: 100}", "")).jobs.remove(0)
        };
        let (mut state, mut story) = (state(vec![job]), Story::of(backend));
        let event = answered("a", "r", answer);
        apply(&mut state, Time(1.0), &event, &rules);
        story.hear(Update::Event(&event));
        (story.lines(&state).remove(0).text, state.jobs.remove(0).last.1)
    };
    let both = |answer: &dyn Fn() -> Answer| {
        [BackendKind::Queue, BackendKind::Devices].map(|backend| told(backend, answer()))
    };
    let [queue, devices] = both(&|| Answer::Submitted { job_id: JobId(7) });
    assert!(
        queue.0.starts_with("submitted as job 7 on 1 v100") && queue.1.starts_with("submitted as job 7"),
        "{queue:?}"
    );
    assert!(devices.0.starts_with("started on 1 v100") && devices.1.starts_with("started"), "{devices:?}");
    let message = || "no such folder".to_owned();
    let [queue, devices] = both(&|| Answer::Refused { message: message() });
    assert_eq!(
        (queue.0.as_str(), devices.0.as_str()),
        ("refused by Slurm: no such folder", "cannot be started: no such folder")
    );
    let [queue, devices] = both(&|| Answer::Deferred { message: message() });
    assert!(queue.0.starts_with("Slurm does not accept it now, will retry: "), "{queue:?}");
    assert!(devices.0.starts_with("cannot be started now, will retry: "), "{devices:?}");
    let [queue, devices] = both(&|| Answer::Unreachable { message: message() });
    assert_eq!(
        (queue.0.as_str(), devices.0.as_str()),
        ("could not be submitted: no such folder", "could not be started: no such folder")
    );
}
