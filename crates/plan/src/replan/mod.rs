//! A policy that uses a placer to place pending jobs on free GPUs; moves, detours and pending requests follow
//! rules.

mod detours;
mod draft;
mod moves;
mod queueing;

use crate::{
    Basis, Budget, Decision, Eligibility, HoldStage, Memory, Placer, Plan, Policy, PolicyError, Problem,
    Progress, Sharing,
};
use hsched_model::Seconds;

/// A policy over time, based on a placer.
pub struct Replan {
    placer: Box<dyn Placer>,
    rules: Replanning,
}

/// The parameters of policies based on a placer. `SharedPolicy` uses some of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replanning {
    pub moves: Moves,
    /// Whether jobs that find no free GPUs wait in the cluster's queue for GPUs in use.
    pub queue: bool,
    /// Minimum gain of moves relative to the total remaining time; a smaller gain is not worth a stop.
    pub least_gain: f64,
    /// Epoch times that differ by at most this fraction count as equal.
    pub same: f64,
    /// Maximum number of running jobs tried individually for moves, those with the most remaining time.
    pub tried: usize,
    /// How long a submission waits in the queue before other free GPUs are considered.
    pub queue_patience: Seconds,
    /// Maximum epoch time on these other GPUs, relative to that on the requested ones.
    pub detour: f64,
    /// Maximum number of long-waiting jobs considered in one decision.
    pub looked_at: usize,
}

/// Whether running jobs are stopped to move them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moves {
    Never,
    /// Jobs are moved if the gain exceeds the costs by this fraction.
    Auto {
        margin: f64,
    },
}

impl Moves {
    /// The default margin.
    pub const USUAL_MARGIN: f64 = 0.5;

    /// Returns the setting in words.
    pub(super) fn words(self) -> String {
        match self {
            Self::Never => "no moves".to_owned(),
            Self::Auto { margin } => format!("moves with margin {margin}"),
        }
    }
}

impl Default for Replanning {
    fn default() -> Self {
        Self {
            moves: Moves::Never,
            queue: false,
            least_gain: 0.01,
            same: 0.01,
            tried: 20,
            queue_patience: Seconds(600.0),
            detour: 2.0,
            looked_at: 20,
        }
    }
}

/// A decision in progress.
struct ReplanContext<'a> {
    problem: &'a Problem,
    placer: &'a dyn Placer,
    rules: &'a Replanning,
    budget: &'a Budget<'a>,
}

impl Replan {
    /// Returns the policy for a placer.
    pub fn new(placer: Box<dyn Placer>, rules: Replanning) -> Self {
        Self { placer, rules }
    }
}

impl Policy for Replan {
    fn name(&self) -> &'static str {
        self.placer.name()
    }

    fn parameters(&self) -> String {
        let moves = self.rules.moves.words();
        let queue = if self.rules.queue { "queue" } else { "free GPUs" };
        let parameters = self.placer.parameters();
        let parameters = if parameters.is_empty() { parameters } else { format!("{parameters}, ") };
        format!("{parameters}{moves}, {queue}")
    }

    fn needs_budget(&self) -> bool {
        self.placer.needs_budget()
    }

    fn sharing(&self) -> Sharing {
        self.placer.sharing()
    }

    fn queues(&self) -> bool {
        self.rules.queue
    }

    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError> {
        let context = ReplanContext { problem, placer: self.placer.as_ref(), rules: &self.rules, budget };
        let mut plan = context.decide();
        let next = if self.rules.queue { context.next_asking() } else { context.next_late() };
        plan.wake = plan.wake.or(next);
        Ok(plan)
    }

    fn memory(&self) -> Option<Memory> {
        self.placer.memory()
    }

    fn remember(&mut self, memory: &Memory) {
        self.placer.remember(memory);
    }
}

impl ReplanContext<'_> {
    /// Returns jobs whose start estimates are needed, a detour, moves, or a plan for the jobs that may get
    /// GPUs now.
    fn decide(&self) -> Plan {
        let problem = self.problem;
        let ready = (0..problem.jobs.len()).filter(|&job| problem.jobs[job].progress.is_ready());
        let givers = self.givers();
        let giver = |job: usize| givers.iter().copied().find(|&giver| self.wants_nodes_of(job, giver));
        let (waiting, ready): (Vec<usize>, Vec<usize>) = ready.partition(|&job| giver(job).is_some());
        let wait = |job: usize| {
            let why = format!("waiting for {} to release its GPUs", problem.jobs[giver(job)?].name);
            Some((job, Decision::Defer { why }))
        };
        let waiting: Vec<(usize, Decision)> = waiting.into_iter().filter_map(wait).collect();
        if self.rules.queue {
            let unasked = self.to_ask_about(&ready);
            if !unasked.is_empty() {
                return Plan { inquiries: unasked, ..Plan::default() };
            }
        }
        let mut notes = Vec::new();
        if givers.is_empty() && !self.rules.queue {
            match self.detour() {
                Ok(None) => {}
                Ok(Some(plan)) => return plan,
                Err(error) => notes.push(error.to_string()),
            }
        }
        let base = match self.base(&ready) {
            Ok(base) => base,
            Err(error) => {
                let why = format!("not planned: {error}");
                let refused = ready.into_iter().map(|job| (job, Decision::Defer { why: why.clone() }));
                return Plan {
                    changes: waiting.into_iter().chain(refused).collect(),
                    notes,
                    ..Plan::default()
                };
            }
        };
        let mut wake = None;
        if let Moves::Auto { margin } = self.rules.moves
            && givers.is_empty()
            && !self.is_tried_again()
        {
            match self.moves(&ready, base.as_ref(), margin) {
                Ok(moves) if !moves.plan.changes.is_empty() || !moves.plan.questions.is_empty() => {
                    return moves.plan;
                }
                Ok(moves) => wake = moves.later.then_some(problem.now),
                Err(error) => notes.push(error.to_string()),
            }
        }
        let mut plan = if self.rules.queue {
            self.with_queue(base, &ready, &mut notes)
        } else {
            base.map(|base| base.into_plan(self, Basis::Free)).unwrap_or_default()
        };
        plan.changes.splice(0..0, waiting);
        Plan { wake: wake.or(plan.wake), notes, ..plan }
    }

    /// Returns the jobs that are about to release their GPUs.
    fn givers(&self) -> Vec<usize> {
        let gives = |job: &usize| {
            let holds = &self.problem.jobs[*job].progress.holds;
            holds.iter().any(|hold| matches!(hold.stage, HoldStage::Leaving { gives_back: true, .. }))
        };
        (0..self.problem.jobs.len()).filter(gives).collect()
    }

    /// Returns whether a job may use nodes on which another one has GPUs.
    fn wants_nodes_of(&self, job: usize, other: usize) -> bool {
        let slots = self.problem.jobs[other].progress.holds.iter().flat_map(|hold| &hold.slots);
        slots.into_iter().any(|slot| self.problem.jobs[job].may_use[slot.gpu_type])
    }

    /// Returns whether a job is about to be retried: it needs its GPUs again, and a job moved there would
    /// soon have to leave.
    fn is_tried_again(&self) -> bool {
        let later = |progress: &Progress| progress.holds.is_empty() && progress.waits == Eligibility::Later;
        self.problem.jobs.iter().any(|job| later(&job.progress))
    }
}
