//! The protocol with Slurm is explored exhaustively rather than sampled: the engine's real turns with every
//! answer to every request, a crash at every write, and all possible events of jobs and nodes in between, in
//! every order, up to a number of faults.
//!
//! At every moment, a job has at most as many submissions as the plan has, no job is lost, and all jobs can
//! end without further faults.

mod graph;
mod moment;
mod slurm;
mod turn;

use hsched_engine::{JobState, State};
use hsched_model::{Job, Time};
use hsched_plan::{
    Budget, Decision, HoldStage, Placement, Plan, Policy, PolicyError, Problem, Sharing, Slot,
};

use self::graph::Graph;
use self::moment::{ExplorerRules, Moment};
use self::slurm::Slurm;
use hsched_fixtures::engine_states::{job, rules};

/// A deliberate bug that the exploration must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    None,
    /// Slurm jobs are not recognised by their comments.
    NoComments,
    /// Intents are written only with the first answer.
    IntentsForgotten,
    /// A request without a clear answer counts as refused.
    LateIsRefused,
    /// A job that Slurm does not list counts as still in the queue.
    GoneIsPending,
}

/// Gives each job in turn the best free GPUs if the job waits, or if it may move to a better GPU than its
/// own.
struct Ladder {
    copies: usize,
}

impl Policy for Ladder {
    fn name(&self) -> &'static str {
        "ladder"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let held = problem.jobs.iter().flat_map(|job| &job.progress.holds).flat_map(|hold| &hold.slots);
        let mut taken: Vec<usize> = held.map(|slot| slot.node).collect();
        let mut changes = Vec::new();
        for (job, model) in problem.jobs.iter().enumerate() {
            let below = match model.progress.holds.as_slice() {
                [] if model.progress.is_ready() => problem.nodes.len(),
                [hold]
                    if matches!(hold.stage, HoldStage::Running { movable: true, .. }) && self.copies == 1 =>
                {
                    hold.slots.first().map_or(0, |slot| slot.node)
                }
                _ => 0,
            };
            let slot = |node: usize| {
                let gpu_type = problem.nodes[node].gpus.iter().position(|count| *count > 0)?;
                Some(Slot { node, gpu_type, count: 1 })
            };
            let free = (0..below).filter(|node| !taken.contains(node)).filter_map(slot);
            let slots: Vec<Slot> = free.take(self.copies).collect();
            let placed = slots.iter().map(|slot| Placement::new(problem, job, &[*slot], Sharing::Balanced));
            let placements: Vec<Placement> =
                placed.map(|placement| placement.expect("a legal one")).collect();
            taken.extend(slots.iter().map(|slot| slot.node));
            if !placements.is_empty() {
                let why = "a better GPU is free".to_owned();
                changes.push((job, Decision::Place { placements, queued: false, why }));
            }
        }
        Ok(Plan { changes, ..Plan::default() })
    }
}

/// Explores jobs with these numbers of epochs and a number of faults. Requests arrive at most `latest` ticks
/// late.
fn explore(epochs: &[u64], faults: u8, plant: Plant, (copies, latest): (usize, u8)) -> Result<Graph, String> {
    let named = |(name, &epochs): (&str, &u64)| {
        let job = Job { epochs, ..job(name, "{a: 100, b: 50}", ", retries: 1") };
        JobState::new(job, Time(0.0))
    };
    let jobs: Vec<JobState> = ["a", "b", "c"].into_iter().zip(epochs).map(named).collect();
    let state = State { jobs, ..State::default() };
    let first = Moment { state, slurm: Slurm::new(epochs), at: Time(0.0), faults };
    Graph::explore(first, &ExplorerRules { rules: rules(), plant, copies, latest }, &mut Ladder { copies })
}

/// Checks that no moment has an error, and that these events occur.
fn check(epochs: &[u64], faults: u8, how: (usize, u8), happens: &[&str]) {
    let graph = explore(epochs, faults, Plant::None, how).unwrap_or_else(|story| panic!("{story}"));
    let (moments, ways, compared) = (graph.len(), graph.ways(), graph.compared);
    println!("{epochs:?}, {faults} faults: {moments} moments, {ways} ways, {compared} compared");
    for what in happens {
        assert!(graph.passes(what), "never: {what}");
    }
}

/// Words of the events that must occur in an exploration with at least one fault.
const FAULTS: [&str; 11] = [
    "refused",
    "deferred",
    "answer lost",
    "late",
    "killed before that is written",
    "killed before the first request",
    "never arrives",
    "fails",
    "is forgotten",
    "dies, and its ranks say so",
    "returns",
];

#[test]
fn two_jobs_and_a_move() {
    check(&[1, 2], 1, (1, 1), &FAULTS);
    check(&[1, 2], 0, (1, 1), &["b saves"]);
}

#[test]
fn three_jobs_and_a_move() {
    check(&[1, 2, 1], 0, (1, 1), &["b saves"]);
}

#[test]
fn copies_of_a_job() {
    check(&[1], 1, (2, 1), &["a.c1 is cancelled"]);
}

#[test]
#[ignore = "takes minutes (tests/long)"]
fn two_jobs_and_a_move_with_two_faults() {
    check(&[1, 2], 2, (1, 1), &FAULTS);
}

#[test]
#[ignore = "takes minutes (tests/long)"]
fn three_jobs_and_a_move_with_a_fault() {
    check(&[1, 2, 1], 1, (1, 1), &FAULTS);
}

#[test]
#[ignore = "takes minutes (tests/long)"]
fn copies_of_a_job_with_two_faults() {
    check(&[1], 2, (2, 0), &FAULTS);
}

#[test]
fn planted_bugs_are_found() {
    let found = |plant: Plant, what: &str| {
        let story = explore(&[1], 1, plant, (1, 1)).expect_err("a bug");
        assert!(story.ends_with(what), "{plant:?}\n{story}");
    };
    found(Plant::NoComments, "2 submissions are alive");
    found(Plant::IntentsForgotten, "2 submissions are alive");
    found(Plant::LateIsRefused, "2 submissions are alive");
    found(Plant::GoneIsPending, "the jobs can never end");
}
