//! The table of `hsched status`, for jobs in all phases at a fixed time.

use std::sync::Arc;

use hsched_engine::{
    End, JobState, MetricRange, Outcome, PastAttempt, Phase, Stage, State, Submission, SubmissionRecord,
};
use hsched_model::formats;
use hsched_model::{GpuType, Job, JobId, JobName, NodeName, PlacedRank, Seconds, Time};
use hsched_ui::{JobMetric, JobSummary, Metrics, Terminal, TerminalKind, status_details, status_table};
use insta::assert_snapshot;

use hsched_fixtures::engine_states::phase;

/// A terminal of 80 columns without colour.
fn plain() -> Terminal {
    Terminal::new(Some(false), TerminalKind { columns: Some(80), ..TerminalKind::default() })
}

const NOW: Time = Time(100_000.0);

fn job(name: &str) -> Job {
    let text = format!(
        "jobs: [{{name: {name}, samples_per_epoch: 100, epochs: 20, global_batch: 8, model_size: 0, \
         throughput: {{v100: 3.5}}, command: train}}]"
    );
    formats::jobs::parse(&text).expect("a job").remove(0)
}

/// A submission of an hour ago on two types of GPUs, which has been running for half an hour.
fn attempt() -> SubmissionRecord {
    let rank = |node: &str, gpu_type: &str| PlacedRank {
        node: NodeName::new(node).expect("a name"),
        gpu_type: GpuType::new(gpu_type).expect("a type"),
        local_rank: 0,
        batch: 4,
        samples: 50,
    };
    let ranks = vec![rank("b1", "v100"), rank("a1", "t4"), rank("a2", "t4")];
    let before = SubmissionRecord::new("r7", ranks, Seconds(120.0), 0, Time(NOW.0 - 3600.0));
    SubmissionRecord { job_id: Some(JobId(17)), started: Some(Time(NOW.0 - 1800.0)), ..before }
}

fn tracked(name: &str, phase: Phase, (ago, said): (f64, &str)) -> JobState {
    let last = (Time(NOW.0 - ago), said.to_owned());
    JobState { phase, last, ..JobState::new(job(name), Time(NOW.0 - 7200.0)) }
}

fn ended(ago: f64, outcome: Outcome) -> Phase {
    Phase::Ended { at: Time(NOW.0 - ago), outcome }
}

fn running() -> JobState {
    let said = (50.0, "epoch 10 of 20 done");
    JobState {
        epochs_done: 10,
        epoch: Some(Seconds(180.0)),
        epoch_at: Some(Time(NOW.0 - 50.0)),
        ..tracked("runs", phase(attempt(), Stage::Running), said)
    }
}

#[test]
fn every_phase_is_shown_and_nothing_is_hidden() {
    let waiting = |not_before: Option<f64>, reason: &str| Phase::Waiting {
        not_before: not_before.map(|wait| Time(NOW.0 + wait)),
        reason: reason.to_owned(),
    };
    let reason = "failed with exit status 9 (4 failures, no retries left)".to_owned();
    let state = State {
        jobs: vec![
            running(),
            tracked("waits", waiting(None, "no GPU is left"), (60.0, "no GPU is left")),
            tracked("tries", waiting(Some(90.0), "lost a node\u{1b}[31m"), (30.0, "lost a node")),
            tracked("fails", ended(600.0, Outcome::Failed { reason }), (600.0, "failed: exit status 9")),
        ],
        nodes_down: ["n1", "n2"].map(|name| NodeName::new(name).expect("a name")).into(),
        ..State::default()
    };
    assert_snapshot!(status_table(&state, &Metrics::new(), NOW, plain()), @r"
    JOB    STATE    GPUS           EPOCHS  EPOCH TIME         ENDS
    runs   running  2 t4 + 1 v100   10/20  120.0 s → 180.0 s  in 30 min 00 s
    waits  waiting  -                0/20  -                  -
      no GPU is left (for 60.0 s)
    tries  waiting  -                0/20  -                  -
      lost a node\u{1b}[31m; retry in 90.0 s
    fails  failed   -                0/20  -                  10 min 00 s ago
      failed with exit status 9 (4 failures, no retries left)

    nodes unavailable at the last turn: n[1-2]
    1 running, 2 waiting, 1 failed
    ");
}

#[test]
fn when_all_have_ended_the_summary_says_how_long_it_took() {
    let jobs = vec![
        tracked("a", ended(3600.0, Outcome::Completed), (3600.0, "completed")),
        tracked("b", ended(1800.0, Outcome::Completed), (1800.0, "completed")),
        tracked("c", ended(60.0, Outcome::Cancelled), (60.0, "cancelled")),
    ];
    let text = status_table(&State { jobs, ..State::default() }, &Metrics::new(), NOW, plain());
    assert_snapshot!(text.lines().last().expect("a summary"), @"2 completed, 1 cancelled: 1 h 59 min in total, mean completion time 1 h 15 min");
}

/// It is unknown which of several racing requests the job will use.
#[test]
fn requests_that_race_are_all_shown() {
    let rank = |gpu_type: &str| PlacedRank {
        node: NodeName::new("n").expect("a name"),
        gpu_type: GpuType::new(gpu_type).expect("a type"),
        local_rank: 0,
        batch: 8,
        samples: 100,
    };
    let submission = |id: u32, gpu_type: &str| Submission {
        attempt: SubmissionRecord {
            job_id: Some(JobId(id)),
            ..SubmissionRecord::new("r1", vec![rank(gpu_type)], Seconds(9.0), 0, NOW)
        },
        stage: Stage::Pending,
    };
    let race = tracked(
        "r",
        Phase::Submitted(vec![submission(5, "v100"), submission(6, "t4")]),
        (60.0, "submitted as job 6 on 1 t4"),
    );
    let state = State { jobs: vec![race.clone()], ..State::default() };
    let text = status_table(&state, &Metrics::new(), NOW, plain());
    assert!(text.contains("1 v100 or 1 t4"), "{text}");
    assert!(
        text.contains("2 requests pending (jobs 5, 6), 60.0 s ago; the first to start trains the job"),
        "{text}"
    );
    let text = status_details(JobSummary::new(&race), None, &Vec::new(), NOW, plain());
    assert!(text.contains("  gpus       1 v100 or 1 t4\n"), "{text}");
}

#[test]
fn a_job_in_full_has_all_its_submissions() {
    let first = SubmissionRecord { run: "r6".into(), started: Some(Time(NOW.0 - 3000.0)), ..attempt() };
    let past = vec![PastAttempt { attempt: first, ended: Time(NOW.0 - 2400.0), end: End::Saved, epochs: 4 }];
    let now = SubmissionRecord { epochs_before: 4, ..attempt() };
    let job = JobState { past, phase: phase(now, Stage::Running), failures: 1, ..running() };
    let files = vec![("script", "/state/runs/r7/runs.sbatch".to_owned())];
    let metric = JobMetric { name: "val_loss".to_owned(), range: MetricRange::of(9, 0.3) };
    assert_snapshot!(status_details(JobSummary::new(&job), Some(&metric), &files, NOW, plain()), @r"
    runs: running
      last       epoch 10 of 20 done, 50.0 s ago
      added      2 h 00 min ago
      epochs     10 of 20 done
      metric     val_loss 0.3000
      gpus       2 t4 + 1 v100 on a[1-2],b1
      epoch time predicted 120.0 s, observed 180.0 s
      ends       in 27 min 00 s
      retries    1 of 3 used
      script     /state/runs/r7/runs.sbatch

    RUN  JOB ID  GPUS           NODES      EPOCHS  RAN          END
    r6       17  2 t4 + 1 v100  a[1-2],b1       4  10 min 00 s  saved a checkpoint
    r7       17  2 t4 + 1 v100  a[1-2],b1       6  30 min 00 s  running
    ");
}

#[test]
fn metrics_have_a_column_and_the_best_is_named() {
    let job = |name: &str| tracked(name, ended(60.0, Outcome::Completed), (60.0, "completed"));
    let mut state = State { jobs: ["a", "b", "c"].map(job).into(), ..State::default() };
    state.jobs.iter_mut().for_each(|job| "net".clone_into(&mut Arc::make_mut(&mut job.job).model));
    let metric = |name: &str, last: f64| {
        let known = JobMetric { name: "loss".to_owned(), range: MetricRange::of(9, last) };
        (JobName::new(name).expect("a name"), known)
    };
    let metrics = Metrics::from([metric("a", 0.123_456), metric("b", 12.0)]);
    let text = status_table(&state, &metrics, NOW, plain());
    let cells = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect("a row");
        line.split("  ").last().expect("a cell").trim().to_owned()
    };
    assert_eq!(
        [cells("JOB"), cells("a "), cells("b "), cells("c ")],
        ["METRIC", "loss 0.1235", "loss 12.00", "-"]
    );
    assert!(text.ends_with("best loss: a with 0.1235\n"), "{text}");
    // Losses of different models are not comparable.
    "other".clone_into(&mut Arc::make_mut(&mut state.jobs[1].job).model);
    assert!(!status_table(&state, &metrics, NOW, plain()).contains("best loss"));
    // A second sweep has its own best run.
    Arc::make_mut(&mut state.jobs[1].job).model = state.jobs[0].job.model.clone();
    for name in ["d", "e"] {
        let mut other = job(name);
        "second".clone_into(&mut Arc::make_mut(&mut other.job).model);
        state.jobs.push(other);
    }
    let metrics = metrics.into_iter().chain([metric("d", 7.0), metric("e", 6.0)]).collect();
    let text = status_table(&state, &metrics, NOW, plain());
    assert!(text.ends_with("best loss of net: a with 0.1235\nbest loss of second: e with 6.000\n"), "{text}");
}
