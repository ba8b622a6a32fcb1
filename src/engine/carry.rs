//! From what shall hold to what is to be done: the jobs to submit, to stop and to leave waiting.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::decide::{intend, wait_for};
use crate::engine::view::View;
use crate::engine::{Action, Attempt, Batch, Phase, Planner, Question, Rules, State, Then, Tracked, Trials};
use crate::model::{Cluster, Offer, OfferedNode, Time};
use crate::policy::{
    self, Basis, CheckedPlan, Decision, JobModel, Placement, Plan, PolicyError, Problem, Slot, Stage,
    WorkerNode, verify,
};

/// Two epochs that differ by less than this part of them are equally long: other shares are not worth a stop.
const SAME: f64 = 0.01;

/// What is to be done, and what must be known first.
#[derive(Default)]
pub(super) struct Course {
    pub actions: Vec<Action>,
    pub questions: Vec<Question>,
}

/// A plan on its way to actions.
struct Carrier<'a> {
    view: &'a View,
    plan: &'a CheckedPlan,
    cluster: &'a Cluster,
    rules: &'a Rules,
    run: &'a str,
    policy: &'static str,
    at: Time,
}

/// Returns what follows from a plan, and marks in the state what is about to be done.
///
/// What a job gets is submitted when it is free: where others give it up first, the policy is asked again by then.
pub(super) fn course(
    state: &mut State,
    (view, plan): (&View, &CheckedPlan),
    (cluster, rules): (&Cluster, &Rules),
    planner: &Planner<'_>,
    at: Time,
) -> Course {
    let carrier = Carrier { view, plan, cluster, rules, run: planner.run, policy: planner.policy.name(), at };
    let asked = plan.plan().questions.iter();
    let questions = asked.map(|(job, placement)| carrier.question(state, *job, placement)).collect();
    let mut actions = Vec::new();
    for (job, decision) in &plan.plan().changes {
        actions.extend(carrier.end(state, *job, decision));
    }
    actions.extend(carrier.submit(state));
    Course { actions, questions }
}

impl Carrier<'_> {
    /// Returns the request that takes a job from the GPUs that it has or waits for, where the decision is about others.
    fn end(&self, state: &mut State, job: usize, decision: &Decision) -> Option<Action> {
        let name = &self.view.names[job];
        let tracked = state.find(name)?;
        let (why, then) = match decision {
            Decision::Place { placements, why, .. } => {
                if self.is_where_it_is(job, placements) {
                    return None;
                }
                let trials = placements.first().map(|own| Trials::of(&self.view.problem, job, own));
                (format!("{why}{}", trials.unwrap_or_default().clause()), Then::GoOn)
            }
            Decision::Defer { why } | Decision::Reject { why } => (why.clone(), Then::GoOn),
            Decision::Finish { why } => (why.clone(), Then::Finish),
        };
        let (job, run) = (name.clone(), tracked.phase.attempt().map(|attempt| attempt.run.clone()));
        let job_id = tracked.phase.attempt().and_then(|attempt| attempt.job_id);
        let action = match (&tracked.phase, run.zip(job_id)) {
            (Phase::Running(_), Some((run, job_id))) => Action::Stop { job, run, job_id, why },
            (Phase::Pending(_), Some((run, job_id))) => Action::Cancel { job, run, job_id, why },
            _ => return None,
        };
        intend(state, &action, then, self.at);
        Some(action)
    }

    /// Returns whether a job has just these GPUs, in shares that are as good.
    fn is_where_it_is(&self, job: usize, placements: &[Placement]) -> bool {
        let holds = &self.view.problem.jobs[job].standing.holds;
        let same = |placement: &Placement| {
            let wanted: BTreeSet<Slot> = placement.slots.iter().copied().collect();
            holds.iter().any(|hold| {
                let epoch = if let Stage::Running { epoch, .. } = hold.stage { epoch } else { hold.epoch };
                let is_as_good = (placement.epoch.total() - epoch).abs() <= SAME * epoch;
                is_as_good && hold.slots.iter().copied().collect::<BTreeSet<Slot>>() == wanted
            })
        };
        !holds.is_empty() && placements.iter().all(same)
    }

    /// Returns the submission of what the plan gives to jobs that wait, and the reasons why others go on waiting.
    fn submit(&self, state: &mut State) -> Vec<Action> {
        let mut actions = Vec::new();
        let problem = &self.view.problem;
        let waits = |job: usize| problem.jobs[job].standing.holds.is_empty();
        let mut unclaimed = problem.unclaimed();
        let (mut jobs, mut queued) = (Vec::new(), false);
        for (job, decision) in self.plan.plan().changes.iter().filter(|(job, _)| waits(*job)) {
            let name = &self.view.names[*job];
            match decision {
                Decision::Place { placements, queued: is_queued, .. } => {
                    let mut slots = placements.iter().flat_map(|placement| &placement.slots);
                    let why = if placements.len() > 1 {
                        Some("not submitted: several copies of a job are not supported yet".to_owned())
                    } else if !is_queued && !unclaimed.take(problem.jobs[*job].needs, &mut slots) {
                        Some(self.giver(placements))
                    } else {
                        None
                    };
                    match why {
                        Some(why) => actions.extend(wait_for(state, name, &why, self.at)),
                        None => jobs.push(*job),
                    }
                    queued |= is_queued;
                }
                Decision::Defer { why } | Decision::Reject { why } => {
                    jobs.push(*job);
                    actions.extend(wait_for(state, name, why, self.at));
                }
                Decision::Finish { why } => {
                    if let Some(tracked) = state.find_mut(name) {
                        tracked.finish_early(self.at, why);
                    }
                }
            }
        }
        if jobs.is_empty() {
            return actions;
        }
        let basis = if queued { Basis::Queue } else { Basis::Free };
        match self.batch(state, &jobs, basis) {
            Ok(batch) if batch.submitted.is_empty() => {}
            Ok(batch) => {
                for &index in &batch.submitted {
                    self.mark(state, &batch, index);
                }
                actions.push(Action::Submit(Box::new(batch)));
            }
            Err(error) => {
                let why = format!("not submitted: {error}");
                let names = jobs.iter().map(|&job| &self.view.names[job]);
                actions.extend(names.filter_map(|name| wait_for(state, name, &why, self.at)));
            }
        }
        actions
    }

    /// Returns that a job waits for one that holds its GPUs.
    fn giver(&self, placements: &[Placement]) -> String {
        let wanted = || placements.iter().flat_map(|placement| &placement.slots);
        let jobs = self.view.problem.jobs.iter().zip(&self.view.names);
        let has = |job: &JobModel| {
            let held = job.standing.holds.iter().flat_map(|hold| &hold.slots);
            held.into_iter()
                .any(|held| wanted().any(|slot| (slot.node, slot.gpu_type) == (held.node, held.gpu_type)))
        };
        let giver = jobs.into_iter().find(|(job, _)| has(job)).map(|(_, name)| name);
        giver.map_or_else(
            || "waiting for its GPUs to be released".to_owned(),
            |name| format!("waiting for {name} to release its GPUs"),
        )
    }

    /// Returns what is submitted of some jobs' decisions, with the problem as those jobs had it.
    ///
    /// # Errors
    /// When the jobs alone break a rule that they kept with all others.
    fn batch(&self, state: &State, jobs: &[usize], basis: Basis) -> Result<Batch, PolicyError> {
        let own = self.plan.plan();
        let decision = |job: &usize| own.changes.iter().find(|(own, _)| own == job).map(|(_, own)| own);
        let decisions: Vec<&Decision> = jobs.iter().filter_map(decision).collect();
        let extract = self.view.problem.extract_on(jobs, &self.given(jobs, &decisions, basis));
        let in_extract = |decision: &Decision| match decision {
            Decision::Place { placements, queued, why } => Decision::Place {
                placements: placements.iter().filter_map(|own| extract.of_whole(own)).collect(),
                queued: *queued,
                why: why.clone(),
            },
            other => other.clone(),
        };
        let plan = Plan {
            changes: decisions.into_iter().map(in_extract).enumerate().collect(),
            categories: own.categories,
            stopped: own.stopped,
            bound: own.bound.as_ref().map(|bound| extract.bound_of_whole(bound)),
            ..Plan::default()
        };
        let plan = policy::checked(self.policy, &extract.problem, plan)?;
        Ok(self.batch_of(state, jobs, extract.problem, plan))
    }

    /// Returns the GPUs that the jobs may use, by node and type, at least those that the plan gives them: it knows what
    /// each job needs beside its GPUs, and an offer counts with the neediest.
    fn given(&self, jobs: &[usize], decisions: &[&Decision], basis: Basis) -> Vec<Vec<u32>> {
        let mut offered = self.view.problem.offered_to(jobs, basis);
        let mut taken: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for decision in decisions {
            let Decision::Place { placements, .. } = decision else { continue };
            for slot in placements.iter().flat_map(|placement| &placement.slots) {
                *taken.entry((slot.node, slot.gpu_type)).or_default() += slot.count;
            }
        }
        for ((node, gpu_type), count) in taken {
            let own = &mut offered[node][gpu_type];
            *own = count.max(*own);
        }
        offered
    }

    /// Returns the batch of a plan for some jobs of the view.
    fn batch_of(&self, state: &State, jobs: &[usize], problem: Problem, plan: CheckedPlan) -> Batch {
        let tracked: Vec<&Tracked> =
            jobs.iter().filter_map(|&job| state.find(&self.view.names[job])).collect();
        Batch {
            run: self.run.to_owned(),
            jobs: tracked.iter().map(|own| own.rest()).collect(),
            submitted: plan.placed(),
            epochs_done: tracked.iter().map(|own| own.epochs_done).collect(),
            offer: self.offer(&problem),
            problem,
            plan,
            cluster: self.cluster.clone(),
            policy: self.policy.to_owned(),
        }
    }

    /// Returns the GPUs of a problem by name, in the order of the nodes' devices.
    fn offer(&self, problem: &Problem) -> Offer {
        let node = |own: &WorkerNode| {
            let node = self.cluster.node(&own.name)?;
            let mut counts = BTreeMap::new();
            for (gpu_type, count) in problem.gpu_types.iter().zip(&own.gpus) {
                *counts.entry(gpu_type).or_insert(0) += count;
            }
            let count = |gpu_type| Some((gpu_type, *counts.get(gpu_type)?)).filter(|(_, count)| *count > 0);
            let gpus = node.gpus.iter().filter_map(|stock| count(&stock.gpu_type));
            let gpus = gpus.map(|(gpu_type, count)| (gpu_type.clone(), count)).collect();
            Some(OfferedNode { name: own.name.clone(), gpus, intra_node: node.intra_node })
        };
        Offer { nodes: problem.nodes.iter().filter_map(node).collect(), notes: Vec::new() }
    }

    /// Writes down that a job is about to be submitted.
    fn mark(&self, state: &mut State, batch: &Batch, index: usize) {
        let (job, Some(placement)) = (&batch.jobs[index], batch.plan.verdicts()[index].placement()) else {
            return;
        };
        let Some(tracked) = state.find_mut(&job.name) else { return };
        let limit = self.cluster.time_limit(job, &self.rules.defaults);
        let pieces = self.rules.defaults.walltime(job, placement.jct(job.epochs), limit).in_pieces();
        let planned = (&batch.problem, index, placement);
        let attempt = Attempt::planned(self.run, planned, tracked.epochs_done, self.at);
        tracked.intend(Attempt { pieces, ..attempt });
    }

    /// Returns what to ask the world about a job on some GPUs, which others may hold that move away.
    fn question(&self, state: &State, job: usize, placement: &Placement) -> Question {
        let all: Vec<usize> = (0..self.view.names.len()).collect();
        let extract = self.view.problem.extract(&all, Basis::Free);
        let batch = || {
            let own = Decision::place(extract.of_whole(placement)?);
            let plan = Plan { changes: vec![(job, own)], ..Plan::default() };
            let plan = verify(&extract.problem, plan).ok()?;
            Some(Box::new(self.batch_of(state, &all, extract.problem.clone(), plan)))
        };
        Question { job, slots: placement.slots.clone(), batch: batch() }
    }
}
