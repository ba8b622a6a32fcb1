//! Carries out a plan: the submissions, stops, cancellations and updates that lead from the state to the plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::mark::{intend, wait_for};
use crate::view::View;
use crate::{
    Action, AfterStop, BackendKind, Inquiry, JobState, PlannedSubmission, Planner, Rules, Run, Stage, State,
    Submission, SubmissionRecord, Trials, WaitQuestion,
};
use hsched_model::{Access, Cluster, Job, Time};
use hsched_plan::plan_file::{Capacity, PlanFile, SolvedProblem};
use hsched_plan::{
    Basis, CheckedPlan, Decision, HeldPlacement, JobModel, Placement, Plan, PolicyError, Problem, Sharing,
    Slot, verify,
};

/// Two epoch times that differ by at most this fraction count as equal: the new shares are not worth a stop.
const SAME: f64 = 0.01;

/// Actions to take, and questions to answer first.
#[derive(Default)]
pub(super) struct Effects {
    pub actions: Vec<Action>,
    pub questions: Vec<WaitQuestion>,
    pub inquiries: Vec<Inquiry>,
}

/// How the placements of a decision differ from those of a job.
struct PlacementChange<'p> {
    /// Indices of the job's submissions whose placements are not among those of the decision.
    given_up: Vec<usize>,
    /// The placements of the decision that no submission has yet.
    new: Vec<&'p Placement>,
}

/// A decision that gives a job GPUs, the first or further ones.
struct GpuDecision<'p> {
    job: usize,
    decision: &'p Decision,
    /// The new placements, at least one.
    new: Vec<&'p Placement>,
}

/// Turns a plan into actions.
pub(super) struct PlanExecutor<'a> {
    pub view: &'a View,
    pub plan: &'a CheckedPlan,
    pub cluster: &'a Cluster,
    pub rules: &'a Rules,
    run: &'a str,
    policy: &'static str,
    /// How the policy divides batches.
    pub sharing: Sharing,
    pub at: Time,
}

/// Returns the actions of a plan, and marks them in the state first.
///
/// A job is submitted when its GPUs are free, or at once if the plan queues it. If other jobs must release
/// the GPUs first, the policy is asked again after that.
pub(super) fn execute_plan(
    state: &mut State,
    view: &View,
    plan: &CheckedPlan,
    cluster: &Cluster,
    rules: &Rules,
    planner: &Planner<'_>,
    at: Time,
) -> Effects {
    let (run, policy, sharing) = (planner.run, planner.policy.name(), planner.policy.sharing());
    let carrier = PlanExecutor { view, plan, cluster, rules, run, policy, sharing, at };
    let asked = plan.plan().questions.iter();
    let questions = asked.map(|(job, placement)| carrier.question(state, *job, placement)).collect();
    let inquiries = plan.plan().inquiries.iter().map(|job| carrier.inquiry(state, *job)).collect();
    let mut actions = Vec::new();
    for (job, decision) in &plan.plan().changes {
        actions.extend(carrier.end(state, *job, decision));
        actions.extend(carrier.amend(state, *job, decision));
    }
    let next = carrier.next_pieces(state);
    actions.extend(carrier.submit(state, &next, planner.policy.queues()));
    Effects { actions, questions, inquiries }
}

impl PlanExecutor<'_> {
    /// Returns the requests that remove a job from the GPUs that it has or waits for, if the decision names
    /// other GPUs or none.
    fn end(&self, state: &mut State, job: usize, decision: &Decision) -> Vec<Action> {
        let name = &self.view.names[job];
        let tracked = self.view.tracked(state, job);
        if tracked.phase.submissions().is_empty() {
            return Vec::new();
        }
        let all: Vec<usize> = (0..tracked.phase.submissions().len()).collect();
        let (ending, why, then) = match decision {
            Decision::Place { placements, why, .. } => {
                let trials =
                    placements.first().map(|placement| Trials::of(&self.view.problem, job, placement));
                let why = format!("{why}{}", trials.unwrap_or_default().clause());
                (self.change(state, job, placements).given_up, why, AfterStop::GoOn)
            }
            Decision::Defer { why } | Decision::Reject { why } => (all.clone(), why.clone(), AfterStop::GoOn),
            Decision::Finish { why } => (all.clone(), why.clone(), AfterStop::Finish),
            Decision::Adjust { .. } => return Vec::new(),
        };
        let request = |place: usize| {
            let Submission { attempt, stage } = tracked.phase.submissions().get(place)?;
            let (of, job_id, why) = (attempt.key(name), attempt.job_id?, why.clone());
            match stage {
                Stage::Running => Some(Action::Stop { of, job_id, then, why }),
                Stage::Pending => Some(Action::Cancel { of, job_id, why }),
                Stage::Meant | Stage::Stopping { .. } => None,
            }
        };
        // The pending next piece of a submission ends with it.
        let is_next = |place: &usize| tracked.is_next(&tracked.phase.submissions()[*place].attempt);
        let ending = if ending.is_empty() {
            ending
        } else {
            all.into_iter().filter(|place| ending.contains(place) || is_next(place)).collect()
        };
        let actions: Vec<Action> = ending.into_iter().filter_map(request).collect();
        for action in &actions {
            intend(state, action, then, self.at);
        }
        actions
    }

    /// Compares the placements of a decision with those of a job: the same GPUs with equally good shares are
    /// no change.
    fn change<'p>(&self, state: &State, job: usize, placements: &'p [Placement]) -> PlacementChange<'p> {
        let mut change = PlacementChange { given_up: Vec::new(), new: placements.iter().collect() };
        let tracked = self.view.tracked(state, job);
        for (place, hold) in self.view.problem.jobs[job].progress.holds.iter().enumerate() {
            // A submission that adopts new shares while running is not stopped for them.
            let takes = tracked
                .phase
                .submissions()
                .get(place)
                .is_some_and(|submission| submission.attempt.takes_shares(&tracked.job));
            let problem = &self.view.problem;
            match change.new.iter().position(|placement| is_same(problem, job, hold, placement, takes)) {
                Some(place) => drop(change.new.remove(place)),
                None => change.given_up.push(place),
            }
        }
        change
    }

    /// Returns the actions that submit pending jobs, or further submissions of jobs, on the GPUs that the
    /// plan gives them, and the reasons why other jobs keep waiting.
    fn submit(&self, state: &mut State, next: &[(usize, Decision)], queues: bool) -> Vec<Action> {
        let mut actions = Vec::new();
        let problem = &self.view.problem;
        let mut unclaimed = problem.unclaimed();
        let (mut chosen, mut queued) = (Vec::new(), false);
        // Any other decision about a job whose next piece is queued now is left for another turn.
        let decided =
            self.plan.plan().changes.iter().filter(|(job, _)| next.iter().all(|named| named.0 != *job));
        for (job, decision) in decided.chain(next) {
            let waits = problem.jobs[*job].progress.holds.is_empty();
            match decision {
                Decision::Place { placements, queued: is_queued, .. } => {
                    let change = self.change(state, *job, placements);
                    // A replacement waits for the end of the submission that it replaces.
                    if change.new.is_empty() || !change.given_up.is_empty() {
                        continue;
                    }
                    let slots = change.new.iter().flat_map(|placement| &placement.slots);
                    if *is_queued || unclaimed.take(problem.jobs[*job].needs, slots) {
                        chosen.push(GpuDecision { job: *job, decision, new: change.new });
                        queued |= is_queued;
                    } else {
                        let why = self.giver(*job, placements);
                        actions.extend(wait_for(self.view.tracked_mut(state, *job), &why, self.at));
                    }
                }
                Decision::Adjust { placement, in_place: false, .. } => {
                    chosen.push(GpuDecision { job: *job, decision, new: vec![placement] });
                    queued = true;
                }
                Decision::Defer { why } | Decision::Reject { why } if waits => {
                    actions.extend(wait_for(self.view.tracked_mut(state, *job), why, self.at));
                }
                Decision::Finish { why } if waits => {
                    self.view.tracked_mut(state, *job).finish_early(self.at, why);
                }
                _ => {}
            }
        }
        if chosen.is_empty() {
            return actions;
        }
        let basis = if queued { Basis::Queue } else { Basis::Free };
        match self.run(state, &chosen, next, basis, queues) {
            Ok(run) => {
                for intent in &run.submissions {
                    self.mark(self.view.tracked_mut(state, chosen[intent.job].job), &run, intent);
                }
                actions.push(Action::Submit(Box::new(run)));
            }
            Err(error) => {
                let why = format!("not submitted: {error}");
                let wait = |chosen: &GpuDecision<'_>| {
                    wait_for(self.view.tracked_mut(state, chosen.job), &why, self.at)
                };
                actions.extend(chosen.iter().filter_map(wait));
            }
        }
        actions
    }

    /// Returns why a job waits: the job that holds its GPUs, if one does.
    fn giver(&self, job: usize, placements: &[Placement]) -> String {
        let wanted = || placements.iter().flat_map(|placement| &placement.slots);
        let others = self.view.problem.jobs.iter().zip(&self.view.names).enumerate();
        let jobs = others.filter(|(named, _)| *named != job).map(|(_, other)| other);
        let has = |job: &JobModel| {
            let held = job.progress.holds.iter().flat_map(|hold| &hold.slots);
            held.into_iter()
                .any(|held| wanted().any(|slot| (slot.node, slot.gpu_type) == (held.node, held.gpu_type)))
        };
        let giver = { jobs }.find(|(job, _)| has(job)).map(|(_, name)| name);
        giver.map_or_else(
            || "waiting for its GPUs to be released".to_owned(),
            |name| format!("waiting for {name} to release its GPUs"),
        )
    }

    /// Returns the run that submits the chosen placements, with the problem restricted to their jobs.
    ///
    /// # Errors
    /// If these jobs alone break a rule that they kept together with all others.
    fn run(
        &self,
        state: &State,
        chosen: &[GpuDecision<'_>],
        next: &[(usize, Decision)],
        basis: Basis,
        queues: bool,
    ) -> Result<Run, PolicyError> {
        let whole_plan = self.plan.plan();
        let jobs: Vec<usize> = chosen.iter().map(|chosen| chosen.job).collect();
        let extract = self.view.problem.extract_on(&jobs, &self.given(chosen, basis));
        let in_extract = |decision: &Decision| match decision {
            Decision::Place { placements, queued, why } => Decision::Place {
                placements: placements.iter().filter_map(|placement| extract.of_whole(placement)).collect(),
                queued: *queued,
                why: why.clone(),
            },
            Decision::Adjust { placement, why, .. } => Decision::Place {
                placements: extract.of_whole(placement).into_iter().collect(),
                queued: true,
                why: why.clone(),
            },
            other => other.clone(),
        };
        let plan = Plan {
            changes: chosen.iter().map(|chosen| in_extract(chosen.decision)).enumerate().collect(),
            categories: whole_plan.categories,
            stopped: whole_plan.stopped,
            bound: whole_plan.bound.as_ref().map(|bound| extract.bound_of_whole(bound)),
            ..Plan::default()
        };
        let plan = hsched_plan::checked(self.policy, &extract.problem, plan)?;
        let intents = |(number, chosen): (usize, &GpuDecision<'_>)| {
            let placements: Vec<Placement> =
                chosen.new.iter().filter_map(|placement| extract.of_whole(placement)).collect();
            let copies = self.free_copies(state, chosen.job);
            let tracked = self.view.tracked(state, chosen.job);
            let intent = |(copy, (placement, whole)): (u32, (Placement, &&Placement))| {
                let least_limit = tracked.least_limit();
                let intent =
                    PlannedSubmission { least_limit, ..PlannedSubmission::new(number, copy, placement) };
                let is_next = next.iter().any(|(job, _)| *job == chosen.job);
                match () {
                    () if is_next => self.next_piece(intent, tracked, chosen.job, whole),
                    () if queues => self.queued_submission(intent, tracked, chosen.job, whole),
                    () => intent,
                }
            };
            copies
                .zip(placements.into_iter().zip(&chosen.new))
                .map(intent)
                .collect::<Vec<PlannedSubmission>>()
        };
        let submissions = chosen.iter().enumerate().flat_map(intents).collect();
        Ok(self.run_of(state, &jobs, extract.problem, &plan, submissions))
    }

    /// Returns the copy numbers that the job does not use, in ascending order.
    fn free_copies(&self, state: &State, job: usize) -> impl Iterator<Item = u32> + use<> {
        let submissions = self.view.tracked(state, job).phase.submissions();
        let taken: BTreeSet<u32> = submissions.iter().map(|submission| submission.attempt.copy).collect();
        (0..).filter(move |copy| !taken.contains(copy))
    }

    /// Returns the GPUs that the jobs may use, by node and type; at least those that the plan gives them. The
    /// plan knows each job's CPUs and memory, whereas an offer assumes the neediest job.
    fn given(&self, chosen: &[GpuDecision<'_>], basis: Basis) -> Vec<Vec<u32>> {
        let jobs: Vec<usize> = chosen.iter().map(|chosen| chosen.job).collect();
        let mut offered = self.view.problem.offered_to(&jobs, basis);
        let mut taken: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for GpuDecision { decision, .. } in chosen {
            let placements = match decision {
                Decision::Place { placements, .. } => &placements[..],
                Decision::Adjust { placement, .. } => std::slice::from_ref(placement),
                _ => continue,
            };
            for slot in placements.iter().flat_map(|placement| &placement.slots) {
                *taken.entry((slot.node, slot.gpu_type)).or_default() += slot.count;
            }
        }
        for ((node, gpu_type), count) in taken {
            let most = &mut offered[node][gpu_type];
            *most = count.max(*most);
        }
        offered
    }

    /// Returns the run of a plan for some jobs of the view.
    fn run_of(
        &self,
        state: &State,
        jobs: &[usize],
        problem: Problem,
        plan: &CheckedPlan,
        submissions: Vec<PlannedSubmission>,
    ) -> Run {
        let tracked: Vec<&JobState> = jobs.iter().map(|&job| self.view.tracked(state, job)).collect();
        let jobs: Vec<Job> = jobs.iter().map(|&job| self.view.rest(state, job)).collect();
        let access = Access::new(self.cluster, &jobs, &self.rules.defaults);
        let solved = SolvedProblem {
            problem: &problem,
            jobs: &jobs,
            cluster: self.cluster,
            access: &access,
            plan,
            policy: self.policy,
            solve: None,
            proven: None,
        };
        let file = PlanFile::new(solved, Vec::new(), Capacity::Free, self.rules.pinned);
        Run {
            id: self.run.to_owned(),
            jobs,
            epochs_done: tracked.iter().map(|job| job.epochs_done).collect(),
            problem,
            file,
            submissions,
        }
    }

    /// Records that a job is about to be submitted.
    fn mark(&self, tracked: &mut JobState, run: &Run, intent: &PlannedSubmission) {
        let attempt = SubmissionRecord { unmeasured: tracked.unmeasured, ..run.attempt(intent, self.at) };
        let walltime = run.walltime(intent, &self.rules.defaults);
        tracked.intend(match self.rules.backend {
            BackendKind::Queue => attempt.within(
                walltime,
                tracked.resumes(),
                tracked.job.launch.checkpoint.grace.unwrap_or(self.rules.defaults.grace),
            ),
            // Local devices have no time limit that cuts a job.
            BackendKind::Devices => attempt,
        });
    }

    /// Returns the question to the world how long a job would wait for some GPUs. Other jobs that are to move
    /// may still hold these GPUs.
    fn question(&self, state: &State, job: usize, placement: &Placement) -> WaitQuestion {
        let all: Vec<usize> = (0..self.view.names.len()).collect();
        let extract = self.view.problem.extract(&all, Basis::Free);
        let submission = || {
            let placement = extract.of_whole(placement)?;
            let decision = Decision::place(placement.clone());
            let plan = Plan { changes: vec![(job, decision)], ..Plan::default() };
            let plan = verify(&extract.problem, plan).ok()?;
            let intents = vec![PlannedSubmission::new(job, 0, placement)];
            Some(Box::new(self.run_of(state, &all, extract.problem, &plan, intents)))
        };
        WaitQuestion { job, slots: placement.slots.clone(), submission: submission() }
    }
}

/// Returns whether a submission has exactly the GPUs of a placement, with equally good shares or shares that
/// it can adopt while running.
fn is_same(
    problem: &Problem,
    job: usize,
    hold: &HeldPlacement,
    placement: &Placement,
    takes_shares: bool,
) -> bool {
    // The time of a running submission is that of whole samples.
    let (before, after) = match hold.stage {
        hsched_plan::HoldStage::Leaving { .. } => return false,
        hsched_plan::HoldStage::Running { epoch, .. } => {
            (epoch, placement.epoch_as_shared(problem, &problem.jobs[job]))
        }
        _ => (hold.epoch, placement.epoch),
    };
    let is_as_good = takes_shares || (after.total() - before).abs() <= SAME * before;
    let slots = |slots: &[Slot]| slots.iter().copied().collect::<BTreeSet<Slot>>();
    is_as_good && slots(&hold.slots) == slots(&placement.slots)
}
