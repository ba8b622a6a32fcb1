//! What the engine learns from epochs and whole runs: seconds per step by GPU type and batch, the length of
//! an epoch, and the cost of a restart.

use hsched_engine::{
    Action, BackendKind, End, EpochReport, Event, JobState, News, PastAttempt, Phase, RankReport, Rules,
    SubmissionRecord, apply, step,
};
use hsched_model::{Job, Seconds, Time};
use hsched_plan::throughput::SampleSource;
use hsched_plan::{Budget, Plan, Policy, PolicyError, Problem};

use hsched_fixtures::engine_states::{
    attempt, cluster, gpu, heard, job, key, planner, rules, running, state,
};

#[test]
fn an_epoch_counts_once_and_teaches() {
    let tracked = running(job("a", "{v100: 500}", ""), attempt("r", "v1", "v100", 2, 0), 0);
    let mut state = state(vec![tracked]);
    let rank = |rank| RankReport {
        rank,
        node: None,
        samples: 500,
        compute: Seconds(5.0),
        step: None,
        probes: Vec::new(),
        share: None,
    };
    let report = EpochReport {
        epoch: 1,
        at: Time(9.0),
        length: Some(Seconds(6.0)),
        ranks: vec![rank(0), rank(1), rank(9)],
        metrics: Vec::new(),
    };
    let event = Event::News { of: key("a", "r"), news: News::Epoch(report) };
    let learnt = apply(&mut state, Time(9.0), &event, &rules());
    let Some(Action::Learn { samples, .. }) = learnt else { panic!("{learnt:?}") };
    // 500 samples in 5 s, 50 per step: half a second per step, from the computing time without waits.
    assert_eq!(samples.iter().map(|sample| (sample.batch, sample.seconds)).collect::<Vec<_>>(), [(50, 0.5)]);
    let measured = state.cache.estimate(&samples[0].key).expect("a speed");
    assert!((measured.speed.step(50, None) - 0.5).abs() < 1e-9);
    assert_eq!(apply(&mut state, Time(9.0), &event, &rules()), None);
    assert_eq!(state.jobs[0].epochs_done, 1);
}

/// The samples from `news` of a run of `job` on the ranks of `attempt`: type, batch and seconds per step.
fn learnt(job: Job, attempt: SubmissionRecord, past: usize, news: News) -> Vec<(String, u64, f64)> {
    let done = attempt.epochs_before;
    let ended = PastAttempt { attempt: attempt.clone(), ended: Time(0.0), end: End::Saved, epochs: done };
    let tracked = JobState { past: vec![ended; past], ..running(job, attempt, done) };
    let mut state = state(vec![tracked]);
    let event = heard("a", "r", news);
    let action = apply(&mut state, Time(9.0), &event, &rules());
    let Some(Action::Learn { samples, .. }) = action else { return Vec::new() };
    assert!(samples.iter().all(|sample| sample.source == SampleSource::Epoch), "{samples:?}");
    samples
        .into_iter()
        .map(|sample| (sample.key.gpu_type.to_string(), sample.batch, sample.seconds))
        .collect()
}

/// A report of rank 0 that contains only the end of an epoch.
fn bare_epoch(epoch: u64, length: Option<f64>) -> News {
    News::Epoch(EpochReport {
        epoch,
        at: Time(9.0),
        length: length.map(Seconds),
        ranks: Vec::new(),
        metrics: Vec::new(),
    })
}

fn sample(gpu_type: &str, batch: u64, seconds: f64) -> (String, u64, f64) {
    (gpu_type.to_owned(), batch, seconds)
}

#[test]
fn a_bare_epoch_teaches_by_its_length() {
    let job = |more: &str| job("a", "{v100: 100, t4: 25}", more);
    let talking =
        |done| SubmissionRecord { communication: Seconds(2.0), ..attempt("r", "v1", "v100", 2, done) };
    // 12 s, of which the exchange takes 2 s: ten steps of 1 s with 50 samples each.
    assert_eq!(learnt(job(""), talking(0), 0, bare_epoch(1, Some(12.0))), [sample("v100", 50, 1.0)]);
    // The same batch in three micro-batches.
    let small = job(", max_batch: {v100: 20}");
    assert_eq!(learnt(small, talking(0), 0, bare_epoch(1, Some(32.0))), [sample("v100", 17, 1.0)]);
    assert_eq!(learnt(job(""), talking(0), 0, bare_epoch(1, None)), []);
    assert_eq!(learnt(job(""), talking(0), 0, bare_epoch(1, Some(1.5))), []);
    // The first epoch after a stop may be partial; the second is whole.
    assert_eq!(learnt(job(""), talking(3), 1, bare_epoch(4, Some(12.0))), []);
    assert_eq!(learnt(job(""), talking(3), 1, bare_epoch(5, Some(12.0))), [sample("v100", 50, 1.0)]);
}

#[test]
fn a_bare_epoch_of_several_types_scales_what_was_thought_of_them() {
    let mixed = |fast: u64| {
        let mut attempt = attempt("r", "v1", "v100", 2, 0);
        attempt.ranks[1].gpu_type = gpu("t4");
        (attempt.ranks[0].batch, attempt.ranks[1].batch) = (fast, 100 - fast);
        attempt
    };
    let job = job("a", "{v100: 100, t4: 25}", "");
    // Expected: 0.8 s each. Observed: steps of 1.2 s.
    let even = learnt(job.clone(), mixed(80), 0, bare_epoch(1, Some(12.0)));
    assert_eq!(even.iter().map(|(_, batch, _)| *batch).collect::<Vec<_>>(), [20, 80]);
    assert!(even.iter().all(|(.., seconds)| (seconds - 1.2).abs() < 1e-12), "{even:?}");
    // Expected: 0.5 s, and 2 s for the T4, for which the others wait. Observed: 1 s.
    let waiting = learnt(job, mixed(50), 0, bare_epoch(1, Some(10.0)));
    assert_eq!(waiting, [sample("t4", 50, 1.0), sample("v100", 50, 0.25)]);
}

#[test]
fn a_silent_job_teaches_by_its_length_once_it_is_over() {
    let ended_at = |at: f64, end| News::Ended { end, at: Time(at) };
    let ended = |end| ended_at(1000.0, end);
    let job = || job("a", "{v100: 100}", "");
    let whole = || attempt("r", "v1", "v100", 2, 0);
    // Ten epochs of ten steps in 1000 s.
    assert_eq!(learnt(job(), whole(), 0, ended(End::Completed)), [sample("v100", 50, 10.0)]);
    // In a short run, the startup may take too large a part.
    assert_eq!(learnt(job(), whole(), 0, ended_at(599.0, End::Completed)), []);
    assert_eq!(learnt(job(), whole(), 0, ended(End::TimedOut)), []);
    assert_eq!(learnt(job(), whole(), 1, ended(End::Completed)), []);
    assert_eq!(learnt(job(), attempt("r", "v1", "v100", 2, 4), 0, ended(End::Completed)), []);
}

/// The restart cost that a policy sees.
struct Costs(Option<Seconds>);

impl Policy for Costs {
    fn name(&self) -> &'static str {
        "costs"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        self.0 = Some(problem.jobs[0].progress.restart_cost);
        Ok(Plan::default())
    }
}

#[test]
fn an_epoch_whose_length_nobody_reports_takes_the_time_since_the_one_before() {
    let seen = |reports: &[(u64, f64, Option<f64>)]| {
        let mut state =
            state(vec![running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 1, 2), 2)]);
        for &(epoch, at, length) in reports {
            let length = length.map(Seconds);
            let report = EpochReport { epoch, at: Time(at), length, ranks: Vec::new(), metrics: Vec::new() };
            let learnt = apply(&mut state, Time(200.0), &heard("a", "r", News::Epoch(report)), &rules());
            assert_eq!(learnt.is_some(), length.is_some(), "waiting for others is no speed");
        }
        state.jobs[0].epoch
    };
    // The start time counts for the first submission only.
    assert_eq!(seen(&[(3, 50.0, None)]), None);
    assert_eq!(seen(&[(3, 50.0, None), (4, 51.5, None)]), Some(Seconds(1.5)));
    assert_eq!(seen(&[(3, 50.0, None), (6, 53.0, None)]), Some(Seconds(1.0)));
    assert_eq!(seen(&[(3, 50.0, None), (4, 51.5, None), (5, 51.5, None)]), Some(Seconds(1.5)));
    assert_eq!(seen(&[(3, 50.0, None), (4, 60.0, Some(2.0))]), Some(Seconds(2.0)));
}

#[test]
fn what_a_restart_costs_is_measured_where_there_is_no_queue() {
    let told = |job: Job, backend: BackendKind, starts: &[f64]| {
        let mut state = state(vec![]);
        for &cost in starts {
            let rules = Rules { backend, ..rules() };
            let mut tracked = running(job.clone(), attempt("r", "v1", "v100", 1, 0), 0);
            tracked.startup = state.jobs.pop().and_then(|before: JobState| before.startup);
            if let Phase::Submitted(submissions) = &mut tracked.phase {
                submissions[0].attempt.started = Some(Time(100.0));
            }
            state.jobs.push(tracked);
            for (epoch, at) in [(1, 102.0 + cost), (2, 104.0 + cost)] {
                let length = Some(Seconds(2.0));
                let report =
                    EpochReport { epoch, at: Time(at), length, ranks: Vec::new(), metrics: Vec::new() };
                apply(&mut state, Time(200.0), &heard("a", "r", News::Epoch(report)), &rules);
            }
        }
        if starts.is_empty() {
            state.jobs.push(running(job, attempt("r", "v1", "v100", 1, 0), 0));
        }
        let mut policy = Costs(None);
        let cluster = cluster(&[("v1", "v100", 4, 1, "mixed")]);
        let how = Rules { backend, ..rules() };
        let _step = step(state, Time(300.0), &[], &cluster, &how, &mut planner(&mut policy));
        policy.0.expect("it is asked").0
    };
    let usual = || job("a", "{v100: 100}", "");
    let said = || job("a", "{v100: 100}", ", checkpoint: {restart_cost: 7s}");
    assert_eq!(told(usual(), BackendKind::Devices, &[]), 5.0);
    assert_eq!(told(said(), BackendKind::Devices, &[]), 7.0);
    assert!((told(said(), BackendKind::Devices, &[3.0]) - 3.0).abs() < 1e-9);
    // Earlier starts keep most of the weight: a single quick start does not make a job cheap to move.
    assert!((told(usual(), BackendKind::Devices, &[3.0, 1.0]) - 2.4).abs() < 1e-9);
    // A wait in the queue costs more than the start.
    assert_eq!(told(said(), BackendKind::Queue, &[3.0]), 7.0);
}
