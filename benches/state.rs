//! Time to store and read the state of 1000 running jobs.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up should fail")]

use divan::Bencher;
use hsched_engine::store::StateDir;
use hsched_engine::{JobState, Keeper, Phase, Rules, Stage, State, Submission, SubmissionRecord};
use hsched_model::formats;
use hsched_model::{BitRate, GpuType, JobId, NodeName, PlacedRank, Seconds, Time};

const NOW: Time = Time(1.8e9);

/// The allocator of the program, so that its times are measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn rules() -> Rules {
    let rate = BitRate::new(10.0).expect("a rate");
    Rules::new(rate, rate)
}

/// Returns a state of 1000 jobs that run on four GPUs each.
fn state() -> State {
    let rank = |local_rank| PlacedRank {
        node: NodeName::new("gpu17").expect("a name"),
        gpu_type: GpuType::new("v100").expect("a type"),
        local_rank,
        batch: 128,
        samples: 25_000,
    };
    let running = |number: u32| {
        let text = format!(
            "jobs: [{{name: job-{number}, samples_per_epoch: 100000, epochs: 90, global_batch: 512, \
             model_size: 46.8MB, throughput: {{v100: 644, t4: 275}}, command: python train.py --lr 0.1, \
             workdir: /home/me/project}}]"
        );
        let job = formats::jobs::parse(&text).expect("a job").remove(0);
        let ranks = (0..4).map(rank).collect();
        let attempt = SubmissionRecord {
            job_id: Some(JobId(number)),
            submit_time: Some("2026-09-21T10:00:00".into()),
            started: Some(Time(1.79e9)),
            ..SubmissionRecord::new("20260921T100000-0a1b2c", ranks, Seconds(83.75), 2, Time(1.79e9))
        };
        let phase = Phase::Submitted(vec![Submission { attempt, stage: Stage::Running }]);
        JobState { phase, epochs_done: 3, ..JobState::new(job, Time(1.78e9)) }
    };
    State { jobs: (0..1000).map(running).collect(), ..State::default() }
}

/// Stores the state after one job or all jobs have finished an epoch.
#[divan::bench(args = [1, 1000])]
fn keep(bencher: Bencher<'_, '_>, jobs: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = StateDir::open(folder.path()).expect("opens");
    let (_, mut ledger) = directory.ledger(&rules(), NOW).expect("reads");
    let mut state = state();
    bencher.bench_local(|| {
        state.jobs.iter_mut().take(jobs).for_each(|tracked| tracked.epochs_done += 1);
        ledger.keep(NOW, &state, &[], &[]).expect("keeps");
    });
}

/// Reads the state, whose journal has a record of all jobs and this many records of one job.
#[divan::bench(args = [0, 1000])]
fn read(bencher: Bencher<'_, '_>, records: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = StateDir::open(folder.path()).expect("opens");
    let (_, mut ledger) = directory.ledger(&rules(), NOW).expect("reads");
    let mut state = state();
    for _ in 0..=records {
        state.jobs[0].epochs_done += 1;
        ledger.keep(NOW, &state, &[], &[]).expect("keeps");
    }
    bencher.bench_local(|| StateDir::peek(folder.path(), &rules()).expect("reads"));
}
