//! `watch --queue` in the simulated cluster, killed at every write: no request is lost or made twice.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;

use hsched_engine::{
    AfterStop, Amendment, Answer, GpuRequest, Inquiry, JobState, Observation, Outcome, Phase,
    PlannedSubmission, Run, State, SubmissionKey, World,
};
use hsched_lab::simulate;
use hsched_model::{JobId, Seconds, Time};
use hsched_plan::JobStartEstimates;

use crate::deaths::{Died, Disk};
use crate::queue_watch::{answer, queueing};
use hsched_fixtures::engine_states::{gpu, job, planner, rules};
use hsched_fixtures::sites;

/// Four V100 that another job holds for a while, and two T4.
const CLUSTER: &str = "nodes:\n  - {name: v1, gpus: {v100: 4}}\n  - {name: t1, gpus: {t4: 2}}\n";

/// The simulated cluster, which estimates starts by a script and counts requests.
struct Seer {
    world: simulate::SimulatedWorld,
    /// Number of submissions by name, and number of changes.
    submitted: BTreeMap<String, u32>,
    changed: u32,
}

impl World for Seer {
    type Error = Infallible;

    fn observe(&mut self, state: &State) -> Result<Observation, Infallible> {
        self.world.observe(state)
    }

    fn prepare(&mut self, run: &Run) -> Result<(), String> {
        self.world.prepare(run)
    }

    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer {
        *self.submitted.entry(run.key(intent).name()).or_default() += 1;
        self.world.submit(run, intent)
    }

    fn stop(&mut self, of: &SubmissionKey, job_id: JobId, then: AfterStop) -> Answer {
        self.world.stop(of, job_id, then)
    }

    fn cancel(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer {
        self.world.cancel(of, job_id)
    }

    fn amend(&mut self, of: &SubmissionKey, job_id: JobId, to: &Amendment) -> Answer {
        self.changed += 1;
        self.world.amend(of, job_id, to)
    }

    /// At first, four V100 are best; then, two V100; later, the T4 are free.
    fn start_estimates(&mut self, inquiries: &[Inquiry]) -> Vec<JobStartEstimates> {
        let now = self.world.now().0;
        let wait = |kind: &GpuRequest| match (kind.gpu_type == gpu("t4"), kind.per_node) {
            (true, _) if now >= 150.0 => (0.0, 50.0),
            (true, _) => (50.0, 50.0),
            (false, 4) if now < 90.0 => (1.0, 20.0),
            (false, 2) if now >= 90.0 => (9.0, 9.0),
            (false, _) => (30.0, 30.0),
        };
        let stays = if now < 90.0 { 1.0 } else { 20.0 };
        let cluster = sites::cluster(CLUSTER);
        inquiries.iter().map(|inquiry| answer(&cluster, inquiry, stays, &wait)).collect()
    }

    fn forecast(&mut self, _: &Run) -> Option<Seconds> {
        None
    }
}

/// Plays the story with a process that dies once at this write; returns the number of writes that were left
/// until the death.
fn play(dies_at: u32, before: bool) -> u32 {
    let jobs = [
        hsched_model::Job {
            samples_per_epoch: 100_000,
            ..job("other", "{v100: 100}", ", min_gpus: 4, max_gpus: 4")
        },
        hsched_model::Job { samples_per_epoch: 360_000, ..job("a", "{v100: 100, t4: 50}", ", max_gpus: 4") },
    ];
    let world =
        simulate::SimulatedWorld::new(sites::site(sites::cluster(CLUSTER), &jobs), Vec::new(), Time(0.0));
    let mut seer = Seer { world, submitted: BTreeMap::new(), changed: 0 };
    let mut state = State { jobs: vec![JobState::new(jobs[0].clone(), Time(0.0))], ..State::default() };
    let left = Cell::new(0);
    for turn in 0..4000 {
        let mut policy = queueing();
        let run = format!("r{turn}");
        let mut planner = planner(policy.as_mut());
        planner.run = &run;
        let mut disk = Disk { state: state.clone(), left: &left, before };
        let mut in_memory = state.clone();
        let went: Result<_, Died> =
            hsched_engine::turn(&mut seer, &mut disk, &mut in_memory, &rules(), &mut planner, &mut |_| ());
        if went.is_ok() {
            assert_eq!(in_memory, disk.state, "the state on disk is another one than that in memory");
        }
        state = disk.state;
        if turn == 1 {
            // The job `other` runs now.
            state.jobs.push(JobState::new(jobs[1].clone(), Time(0.0)));
            left.set(dies_at);
        }
        seer.world.pass(Seconds(30.0));
        if state.jobs.len() == 2 && state.is_over() {
            break;
        }
    }
    for tracked in &state.jobs {
        let done = matches!(tracked.phase, Phase::Ended { outcome: Outcome::Completed, .. });
        assert!(done, "killed at write {dies_at}: {} is {:?}", tracked.job.name, tracked.phase);
    }
    assert!(
        seer.submitted.values().all(|count| *count == 1),
        "killed at write {dies_at}: {:?}",
        seer.submitted
    );
    let names: Vec<&str> = seer.submitted.keys().map(String::as_str).collect();
    assert!(
        names == ["a", "a.c1", "other"] || names == ["a", "other"],
        "killed at write {dies_at}: {names:?}"
    );
    // Repeating the same change is harmless. If the process is late, the T4 are free before it changes the
    // request.
    assert!(seer.changed <= 2, "killed at write {dies_at}: {} changes", seer.changed);
    let is_whole = (names.len(), seer.changed) == (3, 1);
    assert!(
        left.get() == 0 || is_whole,
        "without a death there is one change and one request beside: {names:?}"
    );
    left.get()
}

#[test]
fn whoever_is_killed_at_any_write_loses_and_doubles_nothing() {
    for before in [false, true] {
        // The last story is the first one without a death.
        let deaths = (1..200).take_while(|&number| play(number, before) == 0).count();
        assert!(deaths >= 8, "only {deaths} writes");
    }
}
