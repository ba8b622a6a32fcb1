//! The policy: turns problems into plans.

use crate::horizon::memory;
use crate::horizon::outlook::{Crowd, PriceOutlook};
use crate::horizon::quick::{DecisionView, Quick};
use crate::horizon::roster::Roster;
use crate::horizon::task::{Instance, Task, TaskChoice};
use crate::kit::{Floor, Want};
use crate::{
    Budget, Decision, Entry, ExecutionMode, Knowledge, Make, Memory, Objective, Plan, Policy, PolicyError,
    Problem, Repacking,
};

/// The registry entry of the policy.
pub(crate) const HORIZON: Entry = Entry {
    name: "horizon",
    make: Make::Policy {
        make: |parameters| {
            let preempts = parameters.carrying != ExecutionMode::Shared;
            let parameters = HorizonParameters { preempts, repacking: parameters.repacking };
            Ok(Box::new(Horizon::new(parameters)))
        },
        watched: true,
    },
    objectives: &[Objective::MeanJct, Objective::Weighted],
    flags: &[],
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    knows_replicas: true,
};

/// The policy with its memory.
pub struct Horizon {
    parameters: HorizonParameters,
    floor: Floor,
    roster: Roster,
    outlook: PriceOutlook,
    quick: Quick,
    /// The GPU types that the prices refer to.
    labels: Vec<String>,
    /// The memory from an earlier process, until the GPU types are known.
    memory: Option<Memory>,
}

/// The extent to which the policy may move running jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HorizonParameters {
    /// Whether the policy may stop a running job in favour of others. It should not if other users could take
    /// the released GPUs.
    pub preempts: bool,
    /// Whether jobs spread over nodes are brought together, and others moved to make room for them.
    pub repacking: Repacking,
}

/// Reason for stopping a running job.
const GIVES_WAY: &str = "other jobs gain more from its GPUs";

/// Reason for a pending job.
const OTHERS_FIRST: &str = "other jobs run before it";

/// Reason for a pending job that cannot run on the offered GPUs.
const NO_GPUS: &str = "too few of the GPUs that it can use are available";

impl Default for HorizonParameters {
    /// Returns the best parameters if the policy controls all GPUs.
    fn default() -> Self {
        Self { preempts: true, repacking: Repacking::default() }
    }
}

impl Horizon {
    /// Returns the policy with an empty memory.
    pub fn new(parameters: HorizonParameters) -> Self {
        Self {
            parameters,
            floor: Floor::default(),
            roster: Roster::default(),
            outlook: PriceOutlook::default(),
            quick: Quick::default(),
            labels: Vec::new(),
            memory: None,
        }
    }

    fn view<'a>(&'a self, problem: &'a Problem) -> DecisionView<'a> {
        DecisionView {
            problem,
            roster: &self.roster,
            outlook: &self.outlook,
            preempts: self.parameters.preempts,
        }
    }

    /// Updates the changed jobs; returns whether everything was updated.
    fn follow(&mut self, problem: &Problem) -> bool {
        if let Some(outlook) = self.memory.take().and_then(|memory| memory::read(&memory, &problem.labels)) {
            self.outlook = outlook;
        } else if self.labels != problem.labels {
            self.outlook = PriceOutlook { gap: self.outlook.gap, ..PriceOutlook::default() };
        }
        self.labels.clone_from(&problem.labels);
        let anew = self.floor.sync(problem) || self.floor.total != self.roster.offered;
        self.roster.follow(problem, anew.then_some(&self.floor.total));
        let mut quick = std::mem::take(&mut self.quick);
        if anew {
            quick.forget();
        } else {
            quick.follow(self.view(problem));
        }
        self.quick = quick;
        anew
    }

    /// Returns whether the set of jobs differs from that of the previous call. Used if everything may have
    /// changed, because the problem then does not list the changes. Repeated decisions for the same jobs must
    /// not shorten the expected durations.
    fn is_another_crowd(&mut self, problem: &Problem) -> bool {
        let jobs = problem.present().count();
        let arrivals = problem.present().map(|job| problem.jobs[job].progress.arrival.0).sum();
        let crowd = Some(Crowd { jobs, arrivals });
        std::mem::replace(&mut self.outlook.crowd, crowd) != crowd
    }

    /// Makes a full decision over all jobs.
    fn full(&mut self, problem: &Problem) -> Vec<Want> {
        let jobs = self.roster.by_arrival();
        self.roster.weigh(&jobs);
        let mut tasks: Vec<Task> = Vec::with_capacity(jobs.len());
        tasks.extend(jobs.iter().filter_map(|&job| self.roster.task(problem.now, job)));
        let instance = Instance {
            classes: self.roster.classes.list(),
            tasks: &tasks,
            offered: &self.roster.offered,
            preempts: self.parameters.preempts,
        };
        let (choices, worths) = self.outlook.decide(&instance);
        let mut wants = Vec::new();
        for (task, choice) in choices.into_iter().enumerate() {
            match choice {
                TaskChoice::Take(_) => {
                    wants.push(Want::place(jobs[task], instance.counts(task, choice).to_vec()));
                }
                TaskChoice::Wait if tasks[task].is_running() => wants.push(Want::wait(jobs[task])),
                TaskChoice::Wait | TaskChoice::Stay => {}
            }
        }
        let mut quick = std::mem::take(&mut self.quick);
        quick.take_up(self.view(problem), &jobs, worths);
        self.quick = quick;
        wants
    }

    fn quick(&mut self, problem: &Problem) -> Vec<Want> {
        let mut quick = std::mem::take(&mut self.quick);
        let wants = quick.decide(self.view(problem), &self.floor.idle);
        self.quick = quick;
        wants
    }

    /// Returns the plan, in which jobs stop first and then start.
    fn plan(&mut self, problem: &Problem, wants: Vec<Want>) -> Plan {
        let mut changes = self.floor.carry_out(problem, wants, self.parameters.repacking);
        for (job, decision) in &mut changes {
            explain(problem, *job, decision);
        }
        Plan { changes, ..Plan::default() }
    }

    /// Adds reasons for the pending jobs that no decision names, and a note if the policy ignores the
    /// objective.
    fn name_who_waits(&self, problem: &Problem, plan: &mut Plan) {
        let mut named = vec![false; problem.jobs.len()];
        plan.changes.iter().for_each(|(job, _)| named[*job] = true);
        for job in problem.present().filter(|&job| !named[job] && problem.jobs[job].progress.is_ready()) {
            let why = if self.roster.has(job) { OTHERS_FIRST } else { NO_GPUS };
            plan.changes.push((job, Decision::Defer { why: why.to_owned() }));
        }
        if matches!(problem.objective, Objective::Makespan | Objective::Deadlines) {
            plan.notes.push("horizon minimises the mean completion time, whatever the objective".to_owned());
        }
    }
}

impl Policy for Horizon {
    fn name(&self) -> &'static str {
        memory::NAME
    }

    fn parameters(&self) -> String {
        let HorizonParameters { preempts, repacking } = self.parameters;
        let stops = if preempts { "may stop jobs for other jobs" } else { "never stops a job only to wait" };
        let named = Repacking::NAMES.iter().find(|(_, candidate)| *candidate == repacking);
        let repacking = named.map_or("", |(name, _)| name);
        format!("{stops}, repacking {repacking}")
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let anew = self.follow(problem);
        if self.roster.count() == 0 {
            self.outlook.rest();
        } else if !anew || self.is_another_crowd(problem) {
            self.outlook.gap.pass(problem.now.0);
        } else {
            self.outlook.gap.look(problem.now.0);
        }
        let wants = match self.roster.count() {
            0 => Vec::new(),
            jobs if self.quick.is_enough(jobs) => self.quick(problem),
            _ => self.full(problem),
        };
        let mut plan = self.plan(problem, wants);
        if anew {
            self.name_who_waits(problem, &mut plan);
        }
        Ok(plan)
    }

    fn memory(&self) -> Option<Memory> {
        memory::write(&self.outlook, &self.labels)
    }

    fn remember(&mut self, memory: &Memory) {
        self.memory = Some(memory.clone());
    }
}

/// Sets the reason of a decision that moves, stops or defers a job; a job that starts gets no reason.
fn explain(problem: &Problem, job: usize, decision: &mut Decision) {
    let before = problem.jobs[job].progress.holds.first();
    match decision {
        Decision::Place { placements, why, .. } => {
            let now = placements.first().map(|placement| problem.named(&placement.slots));
            *why = match (before, now) {
                (Some(before), Some(now)) => format!("on {now} instead of {}", problem.named(&before.slots)),
                _ => String::new(),
            };
        }
        Decision::Defer { why } => {
            if before.is_some() { GIVES_WAY } else { OTHERS_FIRST }.clone_into(why);
        }
        Decision::Adjust { .. } | Decision::Finish { .. } | Decision::Reject { .. } => {}
    }
}
