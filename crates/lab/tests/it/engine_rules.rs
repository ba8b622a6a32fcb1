//! The engine's rules on tiny states: the effect of events on jobs.

use hsched_engine::{
    Answer, End, EpochReport, Event, JobState, News, Observation, Outcome, PastAttempt, Phase, QueueState,
    ResumePoint, Sighting, Stage, State, SubmissionRecord, apply, notice,
};
use hsched_model::{Availability, Job, JobId, NodeName, Seconds, Time};

use hsched_fixtures::engine_states::{
    answered, attempt, cluster, heard, job, key, look, only, phase, rules, running, sighting, state,
};

/// The state of a job that has run since epoch 2 and ends with `done` epochs.
fn after(end: End, done: u64, failures: u32) -> JobState {
    let tracked = running(job("a", "{v100: 100}", ", retries: 1"), attempt("r", "v1", "v100", 1, 2), done);
    let mut state = state(vec![JobState { failures, ..tracked }]);
    let news = News::Ended { end, at: Time(50.0) };
    let event = heard("a", "r", news);
    apply(&mut state, Time(60.0), &event, &rules());
    state.jobs.remove(0)
}

fn not_before(tracked: &JobState) -> Option<f64> {
    match &tracked.phase {
        Phase::Waiting { not_before, .. } => not_before.map(|time| time.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_that_was_cut_resumes_at_once_after_progress_and_later_without() {
    for end in [End::Saved, End::TimedOut, End::Cut, End::Unhandled] {
        let went_on = after(end.clone(), 5, 0);
        assert_eq!((went_on.failures, not_before(&went_on)), (0, None));
        let fruitless = after(end, 2, 0);
        assert_eq!((fruitless.failures, not_before(&fruitless)), (0, Some(90.0)));
    }
}

#[test]
fn what_fails_uses_retries_until_none_is_left() {
    for end in [End::Failed { exit: 3, signal: 0 }, End::OutOfMemory, End::Deadline, End::Other("ODD".into())]
    {
        let again = after(end.clone(), 5, 0);
        assert_eq!((again.failures, not_before(&again), again.epochs_done), (1, Some(90.0), 5), "{end}");
        let over = after(end.clone(), 5, 1);
        assert!(matches!(&over.phase, Phase::Ended { outcome: Outcome::Failed { .. }, .. }), "{end}");
    }
}

#[test]
fn what_the_job_is_not_to_blame_for_uses_no_retry() {
    for end in [End::NodeFailed, End::BootFailed, End::Preempted, End::Vanished] {
        let again = after(end.clone(), 5, 1);
        assert_eq!((again.failures, again.fruitless, not_before(&again)), (1, 1, Some(90.0)), "{end}");
    }
}

#[test]
fn a_completed_or_cancelled_job_is_over() {
    assert!(matches!(after(End::Completed, 10, 0).phase, Phase::Ended { outcome: Outcome::Completed, .. }));
    assert!(matches!(after(End::NodeFailed, 10, 0).phase, Phase::Ended { outcome: Outcome::Completed, .. }));
    assert!(matches!(after(End::Cancelled, 5, 0).phase, Phase::Ended { outcome: Outcome::Cancelled, .. }));
    // A program without reports is trusted if it states that it is done.
    let silent = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 1, 0), 0);
    let mut state = state(vec![silent]);
    let news = News::Ended { end: End::Completed, at: Time(1.0) };
    apply(&mut state, Time(1.0), &heard("a", "r", news), &rules());
    assert!(
        state.is_over() && state.jobs[0].last.1.contains("reported no epoch"),
        "{:?}",
        state.jobs[0].last
    );
}

/// Adds `job` after a job with this outcome and these completed epochs; returns the clause about where it
/// resumes, and its new state.
fn begun_again((outcome, done): (Option<Outcome>, u64), job: Job, restart: bool) -> (String, JobState) {
    let past = PastAttempt {
        attempt: attempt("r", "v1", "v100", 1, 0),
        ended: Time(5.0),
        end: End::Failed { exit: 1, signal: 0 },
        epochs: done,
    };
    let waiting = JobState::new(self::job("a", "{v100: 100}", ""), Time(0.0));
    let phase = outcome.map_or(waiting.phase.clone(), |outcome| Phase::Ended { at: Time(5.0), outcome });
    let before =
        JobState { phase, epochs_done: done, failures: 4, fruitless: 2, past: vec![past], ..waiting };
    let mut state = state(vec![before]);
    let said = ResumePoint::of(&job, &state, restart).clause();
    let event = Event::Added { job: Box::new(job), restart };
    apply(&mut state, Time(60.0), &event, &rules());
    (said, state.jobs.remove(0))
}

#[test]
fn a_job_that_is_added_again_goes_on_where_it_was_or_says_why_not() {
    let same = || job("a", "{v100: 100}", "");
    let failed = || Some(Outcome::Failed { reason: "failed with exit status 1".into() });
    let check = |before, job, restart, said: &str, done| {
        let (clause, after) = begun_again(before, job, restart);
        assert_eq!((clause.as_str(), after.epochs_done), (said, done));
        // The job's retries count from this addition, and its history remains.
        assert_eq!((after.failures, after.fruitless, after.past.len(), not_before(&after)), (0, 0, 1, None));
    };
    let on = "; resumes after epoch 4 of 10";
    check((failed(), 4), same(), false, on, 4);
    check((Some(Outcome::Cancelled), 4), same(), false, on, 4);
    check((None, 4), same(), false, on, 4);
    check((failed(), 10), same(), false, "; resumes after epoch 9 of 10", 9);
    check((failed(), 0), same(), true, "", 0);
    check((failed(), 4), same(), true, "; starts over: --restart", 0);
    check((Some(Outcome::Completed), 10), same(), false, "; starts over: it has already completed", 0);
    let other = |change: &dyn Fn(&mut Job)| {
        let mut job = same();
        change(&mut job);
        job
    };
    let cases: [(Job, &str); 4] = [
        (other(&|job| job.model = "b".into()), "model changed from a to b"),
        (other(&|job| job.samples_per_epoch = 7), "samples_per_epoch changed from 1000 to 7"),
        (other(&|job| job.global_batch = 64), "global_batch changed from 100 to 64"),
        (other(&|job| job.epochs = 3), "4 epochs are done, but epochs is now 3"),
    ];
    for (job, why) in cases {
        check((failed(), 4), job, false, &format!("; starts over: {why}"), 0);
    }
    check((failed(), 4), other(&|job| job.epochs = 20), false, "; resumes after epoch 4 of 20", 4);
}

#[test]
fn a_waiting_job_that_is_added_again_unchanged_keeps_the_time_of_its_addition() {
    let same = || job("a", "{v100: 100}", "");
    let added = |before, job, restart| begun_again(before, job, restart).1.added;
    let (earlier, now) = (Time(0.0), Time(60.0));
    assert_eq!(added((None, 4), same(), false), earlier);
    assert_eq!(added((None, 0), same(), false), earlier);
    assert_eq!(added((None, 4), Job { epochs: 20, ..same() }, false), earlier);
    assert_eq!(added((None, 4), same(), true), now);
    assert_eq!(added((None, 0), Job { model: "b".into(), ..same() }, false), now);
    let mut other = same();
    other.launch.env.push(("LR".into(), "1".into()));
    assert_eq!(added((None, 4), other, false), now);
    assert_eq!(added((Some(Outcome::Cancelled), 4), same(), false), now);
}

#[test]
fn waits_double_while_no_epoch_is_done() {
    let rules = rules();
    let delays: Vec<f64> = [0, 1, 2, 3, 7, 60].map(|count| rules.delay(count).0).to_vec();
    assert_eq!(delays, [0.0, 30.0, 60.0, 120.0, 1800.0, 1800.0]);
}

#[test]
fn news_of_another_run_and_of_a_job_that_has_ended_change_nothing() {
    let tracked = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 1, 0), 3);
    let ended = JobState {
        phase: Phase::Ended { at: Time(1.0), outcome: Outcome::Completed },
        ..JobState::new(job("b", "{v100: 100}", ""), Time(0.0))
    };
    let before = state(vec![tracked, ended]);
    let epoch = EpochReport {
        epoch: 4,
        at: Time(9.0),
        length: Some(Seconds(2.0)),
        ranks: Vec::new(),
        metrics: Vec::new(),
    };
    for (job, run) in [("a", "other"), ("b", "r"), ("c", "r")] {
        let ended = News::Ended { end: End::Saved, at: Time(9.0) };
        let events = [
            heard(job, run, News::Epoch(epoch.clone())),
            heard(job, run, ended),
            answered(job, run, Answer::Killed),
        ];
        for event in events {
            let mut after = before.clone();
            assert_eq!(apply(&mut after, Time(9.0), &event, &rules()), None);
            assert_eq!(after, before);
        }
    }
}

#[test]
fn a_submission_without_an_answer_is_found_or_made_again() {
    let meant = SubmissionRecord { job_id: None, ..attempt("r", "v1", "v100", 1, 0) };
    let tracked = JobState {
        phase: phase(meant, Stage::Meant),
        ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0))
    };
    let mut state = state(vec![tracked]);
    let mut see = |at: f64, sightings: Vec<Sighting>| {
        let events = notice(&state, &look(at, sightings));
        for event in &events {
            apply(&mut state, Time(at), event, &rules());
        }
        state.jobs[0].phase.clone()
    };
    assert_eq!(see(1.0, vec![]).word(), "submitting");
    assert_eq!(see(60.0, vec![]).word(), "submitting");
    let found = see(60.5, vec![sighting(9, QueueState::Pending)]);
    let attempt = only(&found, "pending");
    assert_eq!((attempt.job_id, attempt.missing), (Some(JobId(9)), None));
    // First known, then missing: a minute later, the submission counts as lost, and the job waits again
    // without using a retry.
    assert_eq!(see(70.0, vec![]).word(), "pending");
    assert_eq!(see(129.0, vec![]).word(), "pending");
    assert!(matches!(see(130.0, vec![]), Phase::Waiting { .. }));
}

#[test]
fn a_job_that_slurm_does_not_show_is_not_gone_while_it_reports() {
    let check = |length: f64, times: &[f64], lost: f64| {
        let attempt = SubmissionRecord { epoch: Seconds(length), ..attempt("r", "v1", "v100", 1, 0) };
        let mut state = state(vec![running(job("a", "{v100: 100}", ""), attempt, 0)]);
        let mut see = |at: f64, epoch: Option<u64>| {
            let report = |epoch| EpochReport {
                epoch,
                at: Time(at),
                length: Some(Seconds(length)),
                ranks: Vec::new(),
                metrics: Vec::new(),
            };
            let epochs = epoch.map(|epoch| (key("a", "r"), report(epoch)));
            let seen = Observation { epochs: epochs.into_iter().collect(), ..look(at, vec![]) };
            for event in &notice(&state, &seen) {
                apply(&mut state, Time(at), event, &rules());
            }
            state.jobs[0].phase.word() == "running"
        };
        assert!(see(0.0, None));
        for (epoch, &at) in (1..).zip(times) {
            assert!(see(at, Some(epoch)), "{length}: gone with its report at {at}");
        }
        assert!(see(lost - 1.0, None), "{length}: gone before {lost}");
        assert!(!see(lost, None), "{length}: still there at {lost}");
    };
    check(10.0, &[], 60.0);
    check(10.0, &[50.0, 100.0, 200.0], 260.0);
    // Once an epoch has been reported, longer epochs extend the waiting time.
    check(100.0, &[], 60.0);
    check(100.0, &[50.0, 150.0, 300.0], 500.0);
}

#[test]
fn a_job_whose_ranks_report_from_a_lost_node_is_not_started_beside_them() {
    // Epochs of 100 s; the node is lost at 1000 s, and `reports` arrive at these times. Returns when the
    // submission ends.
    let ends = |reports: &[f64], end: &End| {
        let attempt = SubmissionRecord { epoch: Seconds(100.0), ..attempt("r", "v1", "v100", 1, 0) };
        let job = Job { epochs: 90, ..job("a", "{v100: 100}", "") };
        let mut state = state(vec![running(job, attempt, 0)]);
        let mut see = |at: f64| {
            let report = |(number, at): (u64, &f64)| {
                let (length, at) = (Some(Seconds(100.0)), Time(*at));
                let report =
                    EpochReport { epoch: number, at, length, ranks: Vec::new(), metrics: Vec::new() };
                (key("a", "r"), report)
            };
            let epochs =
                (1..).zip(reports).filter(|(_, reported_at)| **reported_at <= at).map(report).collect();
            let lost = QueueState::Ended { end: end.clone(), at: Some(Time(1000.0)), since: None };
            let seen = Observation { epochs, ..look(at, vec![sighting(7, lost)]) };
            for event in &notice(&state, &seen) {
                apply(&mut state, Time(at), event, &rules());
            }
            !state.jobs[0].phase.is_submitted()
        };
        (100..400).map(|time| f64::from(time) * 10.0).skip(1).find(|at| *at > 1000.0 && see(*at))
    };
    // If no report came after the loss, the submission is gone.
    assert_eq!(ends(&[], &End::NodeFailed), Some(1010.0));
    assert_eq!(ends(&[900.0, 1000.0], &End::NodeFailed), Some(1010.0));
    // The submission is silent for two epochs.
    assert_eq!(ends(&[900.0, 1005.0, 1105.0], &End::NodeFailed), Some(1310.0));
    // The wait for reports is limited, because the submission's processes end when the next submission
    // starts.
    let for_ever: Vec<f64> = (1..30).map(|epoch| 905.0 + 100.0 * f64::from(epoch)).collect();
    assert_eq!(ends(&for_ever, &End::NodeFailed), Some(1600.0));
    assert_eq!(ends(&for_ever, &End::Saved), Some(1010.0));
}

#[test]
fn epochs_come_before_the_end_that_follows_them() {
    let tracked = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 1, 0), 1);
    let report = |epoch| {
        (
            key("a", "r"),
            EpochReport { epoch, at: Time(9.0), length: None, ranks: Vec::new(), metrics: Vec::new() },
        )
    };
    let end = QueueState::Ended { end: End::Saved, at: Some(Time(8.0)), since: None };
    let seen =
        Observation { epochs: vec![report(1), report(2), report(3)], ..look(9.0, vec![sighting(7, end)]) };
    let word = |event: Event| match event {
        Event::News { news: News::Epoch(report), .. } => format!("epoch {}", report.epoch),
        Event::News { news: News::Ended { .. }, .. } => "ended".to_owned(),
        Event::News { news: News::Queued { .. }, .. } => "queued".to_owned(),
        other => panic!("{other:?}"),
    };
    let words: Vec<String> = notice(&state(vec![tracked]), &seen).into_iter().map(word).collect();
    assert_eq!(words, ["queued", "epoch 2", "epoch 3", "ended"]);
}

#[test]
fn a_submission_that_nobody_saw_run_has_started() {
    let phase = phase(attempt("r", "v1", "v100", 1, 0), Stage::Pending);
    let mut state = state(vec![JobState { phase, ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0)) }]);
    let end = QueueState::Ended { end: End::Completed, at: Some(Time(8.0)), since: Some(Time(3.0)) };
    for event in &notice(&state, &look(9.0, vec![sighting(7, end)])) {
        apply(&mut state, Time(9.0), event, &rules());
    }
    let past = &state.jobs[0].past[0];
    assert_eq!((past.attempt.started, past.ended), (Some(Time(3.0)), Time(8.0)));
}

#[test]
fn nodes_that_go_and_come_are_noticed_once() {
    let mut known = State::default();
    let see = |node_state: &str| {
        let cluster = cluster(&[("v1", "v100", 2, 0, node_state)]);
        let seen = Observation { cluster, ..look(1.0, vec![]) };
        let events = notice(&known, &seen);
        for event in &events {
            apply(&mut known, Time(1.0), event, &rules());
        }
        events.len()
    };
    assert_eq!(["idle", "down*", "down", "drained", "idle", "mixed"].map(see), [0, 1, 0, 0, 1, 0]);
}

#[test]
fn a_failure_on_a_node_that_is_down_is_a_lost_node() {
    let on_node = || running(job("a", "{v100: 100}", ", retries: 0"), attempt("r", "v1", "v100", 2, 0), 3);
    let down = Event::NodeDown {
        node: NodeName::new("v1").expect("a name"),
        state: Availability::Down,
        reason: None,
    };
    let news = News::Ended { end: End::Failed { exit: 233, signal: 0 }, at: Time(10.0) };
    let failed = heard("a", "r", news);
    // The order of the two events does not matter.
    for events in [[&down, &failed], [&failed, &down]] {
        let mut state = state(vec![on_node()]);
        for event in events {
            apply(&mut state, Time(12.0), event, &rules());
        }
        let tracked = &state.jobs[0];
        assert!(matches!(tracked.phase, Phase::Waiting { .. }), "{:?}", tracked.phase);
        assert_eq!((tracked.failures, &tracked.past[0].end), (0, &End::NodeFailed));
    }
    // A node that is found down much later is unrelated to the failure.
    let mut state = state(vec![on_node()]);
    apply(&mut state, Time(12.0), &failed, &rules());
    apply(&mut state, Time(700.0), &down, &rules());
    assert!(state.is_over());
}

#[test]
fn a_program_that_fails_after_its_last_epoch_has_failed_and_is_not_run_again() {
    let end = End::Failed { exit: 7, signal: 0 };
    let over = after(end, 10, 0);
    let Phase::Ended { outcome: Outcome::Failed { reason }, .. } = &over.phase else {
        panic!("{:?}", over.phase)
    };
    assert!(reason.contains("all epochs were done"), "{reason}");
}
