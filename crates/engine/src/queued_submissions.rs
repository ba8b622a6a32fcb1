//! Pending requests of `watch --queue`: tables for alternative GPUs, questions about them and updates.

use crate::mark::intend;
use crate::plan_executor::PlanExecutor;
use crate::{
    Action, AfterStop, Amendment, GpuRequest, Inquiry, JobState, PlannedSubmission, Stage, State, Submission,
    named_ranks,
};
use hsched_model::{Cluster, Node, PlacedRank, QueueChoice, RequestOption, Seconds, SpeedBasis};
use hsched_plan::throughput::ThroughputMatrix;
use hsched_plan::{Basis, Decision, Extract, Placement, Problem, options};

impl PlanExecutor<'_> {
    /// Returns the submission for a placement: it can be changed while it is pending, and the job may have
    /// other pending submissions at the same time.
    pub(super) fn queued_submission(
        &self,
        intent: PlannedSubmission,
        tracked: &JobState,
        job: usize,
        placement: &Placement,
    ) -> PlannedSubmission {
        let first = tracked.phase.submissions().iter().find(|submission| submission.attempt.race);
        let request = self.request(job, placement);
        let problem = &self.view.problem;
        let basis = placement.basis(&problem.jobs[job]);
        let run = placement.jct(tracked.rest().epochs);
        PlannedSubmission {
            race: true,
            joins: first.map(|submission| submission.attempt.race_run().to_owned()),
            follows: first.and_then(|submission| submission.attempt.follows.clone()),
            queue_choice: Some(self.queue_choice(
                tracked,
                request,
                GpuRequest::of(&named_ranks(problem, placement)).as_ref(),
                run,
                basis,
            )),
            spares: if self.rules.pinned || tracked.past.iter().any(|past| past.attempt.cannot_start()) {
                Vec::new()
            } else {
                spares(problem, job, placement, self.cluster, self.goes_elsewhere(tracked))
            },
            ..intent
        }
    }

    /// Returns the update of a pending request in place, if one was decided and the request allows it.
    pub(super) fn amend(&self, state: &mut State, job: usize, decision: &Decision) -> Option<Action> {
        let Decision::Adjust { placement, in_place: true, why } = decision else { return None };
        let (tracked, problem) = (self.view.tracked(state, job), &self.view.problem);
        let (rest, ranks) = (tracked.rest(), named_ranks(problem, placement));
        let kind = GpuRequest::of(&ranks)?;
        let submission = Submission::changeable(tracked.phase.submissions(), &kind)?;
        let request = self.request(job, placement);
        let run = placement.jct(rest.epochs);
        let basis = placement.basis(&problem.jobs[job]);
        let queue_choice = self.queue_choice(tracked, request, Some(&kind), run, basis);
        let walltime = queue_choice.walltime(&rest, run, &self.rules.defaults);
        let needs = self.rules.defaults.rank_needs(&rest);
        let amendment = Amendment {
            kind: Some(kind),
            ranks,
            epoch: Seconds(placement.epoch.total()),
            communication: Seconds(placement.epoch.comm),
            minutes: walltime.minutes,
            cpus: needs.cpus,
            memory: needs.memory,
            pieces: walltime.cut(tracked.resumes()),
            queue_choice: self.goes_elsewhere(tracked).then_some(queue_choice),
        };
        let (of, job_id) = (submission.attempt.key(&tracked.job.name), submission.attempt.job_id?);
        let action = Action::Amend { of, job_id, to: Box::new(amendment), why: why.clone() };
        intend(state, &action, AfterStop::GoOn, self.at);
        Some(action)
    }

    /// Returns the question to the world about all requests of a job.
    pub(super) fn inquiry(&self, state: &State, job: usize) -> Inquiry {
        let tracked = self.view.tracked(state, job);
        let (rest, types) = (self.view.rest(state, job), Problem::types_of(self.cluster));
        let jobs = std::slice::from_ref(&rest);
        let mut speeds = ThroughputMatrix::new(jobs, &types, &state.cache, self.rules.defaults.estimate);
        tracked.avoids.iter().for_each(|gpu_type| speeds.leave_out(0, gpu_type));
        Inquiry {
            job,
            speeds,
            at_least: tracked.least_limit(),
            resumes: tracked.resumes(),
            goes_elsewhere: self.goes_elsewhere(tracked),
            submissions: tracked.phase.submissions().to_vec(),
            rest,
        }
    }

    /// Returns the queue choice of a submission for some GPUs and a run time: that of its request, else that
    /// of the first submission that has one, else the first queue choice that suits the job, else the first
    /// one.
    fn queue_choice(
        &self,
        tracked: &JobState,
        request: Option<&RequestOption>,
        kind: Option<&GpuRequest>,
        run: Seconds,
        basis: SpeedBasis,
    ) -> QueueChoice {
        let at_least = tracked.least_limit();
        let of_request = request.map(|option| option.queue_choice.clone());
        let before = || {
            let submissions = tracked.phase.submissions().iter();
            let choice =
                submissions.clone().find_map(|submission| submission.attempt.queue_choice.clone())?;
            // The cost may be that of other GPUs.
            Some(QueueChoice { billed_per_hour: None, ..choice })
        };
        let known = of_request.or_else(before).unwrap_or_else(|| {
            let mut ways = self.cluster.ways(&tracked.job, &self.rules.defaults);
            let suits = |way: &QueueChoice| {
                self.suits(tracked, &QueueChoice { basis, at_least, ..way.clone() }, kind, run)
            };
            // If the nodes are already chosen, Slurm chooses among all partitions.
            let suiting = ways.iter().position(suits).filter(|_| !self.rules.pinned);
            ways.swap_remove(suiting.unwrap_or(0))
        });
        QueueChoice { basis, at_least, ..known }
    }

    /// Returns whether a queue choice suits a job: a partition must have the GPUs, and if the job cannot resume,
    /// its remaining run must fit the time limit.
    fn suits(
        &self,
        tracked: &JobState,
        queue_choice: &QueueChoice,
        kind: Option<&GpuRequest>,
        run: Seconds,
    ) -> bool {
        let whole = || queue_choice.walltime(&tracked.rest(), run, &self.rules.defaults).suits(false);
        kind.is_none_or(|kind| self.reaches(queue_choice, kind)) && (tracked.resumes() || whole())
    }

    /// Returns whether a partition of a queue choice has as many nodes with these GPUs as the request needs.
    fn reaches(&self, queue_choice: &QueueChoice, kind: &GpuRequest) -> bool {
        let Some(names) = &queue_choice.partition else { return true };
        let has = |node: &&Node, name: &str| {
            let gpus = node.gpus.iter().filter(|stock| stock.gpu_type == kind.gpu_type);
            let is_in = node.partitions.is_empty() || node.partitions.contains(name);
            is_in && gpus.map(|stock| stock.total).sum::<u32>() >= kind.per_node
        };
        let count = |name: &str| self.cluster.nodes.iter().filter(|node| has(node, name)).count();
        names.split(',').any(|name| count(name.trim()) >= kind.nodes as usize)
    }

    /// Returns whether requests of a job may use another account or partition.
    fn goes_elsewhere(&self, tracked: &JobState) -> bool {
        self.cluster.leaves_ways(&tracked.job, &self.rules.defaults)
    }

    /// Returns the request by which a job waits for some GPUs: the one chosen for them, else the earliest
    /// request for the same GPUs.
    fn request(&self, job: usize, placement: &Placement) -> Option<&RequestOption> {
        let problem = &self.view.problem;
        // A pinned placement fixes the nodes and therefore the partition.
        let start_estimates = problem
            .start_estimates
            .iter()
            .flatten()
            .find(|estimates| estimates.job == job && !self.rules.pinned)?;
        let kind = GpuRequest::of(&named_ranks(problem, placement))?;
        let chosen = self.plan.plan().requests.iter().find(|(request, _)| *request == job);
        let chosen = chosen.and_then(|(_, id)| start_estimates.request(*id));
        if let Some(option) = chosen.filter(|option| GpuRequest::asked(option) == kind) {
            return Some(option);
        }
        let alike =
            start_estimates.requests.iter().filter(|estimate| GpuRequest::asked(&estimate.request) == kind);
        let known =
            alike.filter_map(|estimate| Some((estimate.request.waits(estimate.anew?).0, &estimate.request)));
        known.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, option)| option)
    }
}

/// Returns the other ranks that a script gets tables for: other numbers of GPUs of the same type, and the
/// same number if the job may use other accounts or partitions.
///
/// For GPUs without a type Slurm reports only the number, so they get no tables.
pub fn spares(
    problem: &Problem,
    job: usize,
    placement: &Placement,
    cluster: &Cluster,
    goes_elsewhere: bool,
) -> Vec<Vec<PlacedRank>> {
    let ranks = named_ranks(problem, placement);
    let is_untyped = |rank: &PlacedRank| cluster.node(&rank.node).is_some_and(|node| node.untyped.is_some());
    let Some(planned_kind) = GpuRequest::of(&ranks).filter(|_| !ranks.iter().any(is_untyped)) else {
        return Vec::new();
    };
    let Extract { problem, .. } = problem.extract(&[job], Basis::Line);
    let types =
        (0..problem.gpu_types.len()).filter(|&number| problem.gpu_types[number] == planned_kind.gpu_type);
    let most = |number: usize| (problem.jobs[0].max_gpus.min(problem.ceiling[number]), u32::MAX);
    let all = types.flat_map(|number| options(&problem, 0, number, most(number)));
    let is_other = |ranks: &Vec<PlacedRank>| {
        GpuRequest::of(ranks).is_some_and(|kind| goes_elsewhere || kind != planned_kind)
    };
    all.map(|option| named_ranks(&problem, &option)).filter(is_other).collect()
}

impl Submission {
    /// Returns the pending submission of a job that can be changed to request these GPUs, because its script
    /// has a table for them.
    pub(super) fn changeable<'s>(all: &'s [Self], kind: &GpuRequest) -> Option<&'s Self> {
        let can = |submission: &&Self| {
            let Self { attempt, stage } = submission;
            *stage == Stage::Pending && attempt.amendment.is_none() && attempt.tables.contains(kind)
        };
        all.iter().find(can)
    }
}
