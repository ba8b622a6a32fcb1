//! Jobs that find no free GPUs: which requests to queue, and how to change pending ones.

use crate::replan::ReplanContext;
use crate::replan::draft::PlanDraft;
use crate::{
    Basis, Decision, Extract, HeldPlacement, HoldStage, Instead, JobModel, JobStartEstimates,
    PendingEstimates, Placement, Plan, PolicyError, RequestRemedy, RequestStartEstimate, Slot, is_legal,
    remedy,
};
use hsched_model::{Candidate, GpuType, RequestId, RequestOption, Seconds, Time, choose};

/// Time after which pending requests are re-evaluated without other changes: 10 min.
const ASK_AGAIN: Seconds = Seconds(600.0);

/// Reason for a job without requests that cannot resume after a time limit.
const NOTHING_SUITS: &str = "every possible time limit is shorter than the job, and the job starts over \
    after each; if its program can resume, add the job again with the key checkpoint";

/// GPUs requested in this decision by node and type; a decision requests no GPU twice.
type RequestCounts = Vec<Vec<u32>>;

/// The GPUs that a job could use without competition: by node and type, and the problem of the job alone on
/// these.
struct SoleRoom {
    offered: Vec<Vec<u32>>,
    alone: Extract,
}

impl ReplanContext<'_> {
    /// Returns the jobs whose start estimates are needed: those with pending requests, or that may need one.
    /// Empty if the problem already has start estimates.
    pub(super) fn to_ask_about(&self, ready: &[usize]) -> Vec<usize> {
        if self.problem.start_estimates.is_some() {
            return Vec::new();
        }
        let jobs = 0..self.problem.jobs.len();
        jobs.filter(|job| ready.contains(job) || is_pending(&self.problem.jobs[*job])).collect()
    }

    /// Returns when pending requests are re-evaluated.
    pub(super) fn next_asking(&self) -> Option<Time> {
        self.problem.jobs.iter().any(is_pending).then(|| self.problem.now.after(ASK_AGAIN))
    }

    /// Returns a plan for jobs on free GPUs. If jobs may queue, it leaves out jobs that would end sooner on
    /// GPUs for which they have to wait, and jobs for which every time limit on these GPUs is too short.
    ///
    /// # Errors
    /// If the placer gives no plan.
    pub(super) fn base(&self, ready: &[usize]) -> Result<Option<PlanDraft>, PolicyError> {
        let base = self.draft(ready, Basis::Free)?;
        let Some(draft) = base.as_ref().filter(|_| self.rules.queue) else { return Ok(base) };
        let is_late = |job: &usize| {
            if draft.placement(self, *job).is_some_and(|placement| self.is_too_short(*job, &placement)) {
                return true;
            }
            let runtime =
                draft.placement(self, *job).map(|placement| placement.jct(self.problem.jobs[*job].epochs).0);
            let queued = self.start_estimates(*job).and_then(|estimates| self.soonest(*job, estimates));
            runtime.zip(queued).is_some_and(|(free, queued)| queued < free)
        };
        let soon: Vec<usize> = ready.iter().copied().filter(|job| !is_late(job)).collect();
        if soon.len() == ready.len() { Ok(base) } else { self.draft(&soon, Basis::Free) }
    }

    /// Returns the plan of `base` if it places jobs, or else requests for the ready jobs and changes to the
    /// pending ones.
    pub(super) fn with_queue(
        &self,
        base: Option<PlanDraft>,
        ready: &[usize],
        notes: &mut Vec<String>,
    ) -> Plan {
        let places = base.as_ref().is_some_and(PlanDraft::places);
        let base = base.map(|base| base.into_plan(self, Basis::Free)).unwrap_or_default();
        if places {
            // Free GPUs are assigned first; the other jobs are considered in the next decision.
            return Plan { wake: Some(self.problem.now), ..base };
        }
        if self.problem.start_estimates.as_ref().is_some_and(Vec::is_empty) {
            return self.in_the_dark(ready, notes).unwrap_or(base);
        }
        let mut asked = self.asked_for_nothing();
        let (mut changes, mut requests) = (Vec::new(), Vec::new());
        for (job, model) in self.problem.jobs.iter().enumerate() {
            if is_pending(model)
                && let Some((decision, id)) = self.remedy(job, &mut asked)
            {
                changes.push((job, decision));
                requests.push((job, id));
            }
        }
        let mut left_out = false;
        for &job in ready {
            match self.begin(job, &mut asked) {
                Ok((decision, id)) => {
                    changes.push((job, decision));
                    requests.push((job, id));
                }
                Err(later) => {
                    left_out |= later;
                    // The placer gives the reason, or states that the job can never be placed.
                    let why = base.changes.iter().find(|(change, _)| *change == job).cloned();
                    changes.extend(why.or_else(|| Some((job, self.nothing_suits(job)?))));
                }
            }
        }
        Plan { changes, requests, wake: left_out.then_some(self.problem.now), ..Plan::default() }
    }

    /// Returns the placer's requests if no start estimates exist: its plan for the ready jobs as if the GPUs
    /// that other users hold were free.
    fn in_the_dark(&self, ready: &[usize], notes: &mut Vec<String>) -> Option<Plan> {
        match self.draft(ready, Basis::Queue) {
            Ok(draft) => Some(draft.filter(PlanDraft::places)?.into_plan(self, Basis::Queue)),
            Err(error) => {
                notes.push(error.to_string());
                None
            }
        }
    }

    fn start_estimates(&self, job: usize) -> Option<&JobStartEstimates> {
        self.problem.start_estimates.iter().flatten().find(|estimates| estimates.job == job)
    }

    /// Returns whether the time limit of every request for these GPUs would end a job that cannot resume.
    fn is_too_short(&self, job: usize, placement: &Placement) -> bool {
        let Some(start_estimates) = self.start_estimates(job) else { return false };
        let blocks = kind(&self.problem.gpu_types, &placement.slots);
        let is_possible = start_estimates.requests.iter().any(|other| kind_of(&other.request) == blocks);
        !is_possible && start_estimates.cut.iter().any(|other| kind_of(other) == blocks)
    }

    /// Returns the decision to defer a job that no time limit suits; `None` if one does.
    fn nothing_suits(&self, job: usize) -> Option<Decision> {
        let JobStartEstimates { requests, cut, .. } = self.start_estimates(job)?;
        let why = || Decision::Defer { why: NOTHING_SUITS.to_owned() };
        (requests.is_empty() && !cut.is_empty()).then(why)
    }

    /// Returns the requests of a job whose GPUs it may use here.
    fn able<'p>(&self, job: usize, start_estimates: &'p JobStartEstimates) -> Vec<&'p RequestStartEstimate> {
        let (room, nothing) = (self.room(job), self.asked_for_nothing());
        let is_able = |estimate: &&RequestStartEstimate| {
            self.settle(job, &room, &estimate.request, &mut nothing.clone()).is_some()
        };
        start_estimates.requests.iter().filter(is_able).collect()
    }

    /// Returns the data of a job's requests that the choice needs.
    fn candidates(&self, job: usize, start_estimates: &JobStartEstimates) -> Vec<Candidate> {
        let able = self.able(job, start_estimates);
        Candidate::of(&able.iter().map(|estimate| (&estimate.request, estimate.anew)).collect::<Vec<_>>())
    }

    /// Returns the number of seconds until a job would end with its best request.
    fn soonest(&self, job: usize, start_estimates: &JobStartEstimates) -> Option<f64> {
        self.candidates(job, start_estimates).iter().map(|candidate| candidate.finish).min_by(f64::total_cmp)
    }

    /// Returns the first request of a job.
    ///
    /// # Errors
    /// True if another decision is needed, because this one has already requested the GPUs or there is no
    /// estimate yet; false if no request suits the job.
    fn begin(&self, job: usize, asked: &mut RequestCounts) -> Result<(Decision, RequestId), bool> {
        // There may have been no time to estimate the job's requests.
        let start_estimates = self.start_estimates(job).ok_or(true)?;
        let chosen = choose(&self.candidates(job, start_estimates), 0.0).ok_or(false)?;
        let request = start_estimates.request(chosen.id).ok_or(false)?;
        let placement = self.settle(job, &self.room(job), request, asked).ok_or(true)?;
        let decision = Decision::Place { placements: vec![placement], queued: true, why: String::new() };
        Ok((decision, chosen.id))
    }

    /// Returns the alternatives to a job's pending requests: all requests, in place or submitted again.
    fn instead(&self, job: usize, start_estimates: &JobStartEstimates) -> Vec<Instead> {
        let holds = &self.problem.jobs[job].progress.holds;
        let there: Vec<GpuBlocks> =
            holds.iter().map(|hold| kind(&self.problem.gpu_types, &hold.slots)).collect();
        let other = |estimate: &RequestStartEstimate| {
            let waits = |start: Option<Seconds>| start.map(|start| estimate.request.waits(start).0);
            Instead {
                id: estimate.request.id(),
                run: estimate.request.run.0,
                anew: waits(estimate.anew),
                in_place: waits(estimate.in_place),
                is_there: there.contains(&kind_of(&estimate.request)),
            }
        };
        self.able(job, start_estimates).into_iter().map(other).collect()
    }

    /// Returns the remedy for a job's pending requests, and the request to use; `None` if they stay as they
    /// are.
    fn remedy(&self, job: usize, asked: &mut RequestCounts) -> Option<(Decision, RequestId)> {
        let start_estimates = self.start_estimates(job)?;
        let holds = &self.problem.jobs[job].progress.holds;
        let epochs = self.epochs(job);
        let waits = holds
            .iter()
            .zip(&start_estimates.stays)
            .filter_map(|(hold, wait)| Some((wait.as_ref()?.0, hold)));
        let waits: Vec<(f64, &HeldPlacement)> = waits.collect();
        let first =
            |time: &dyn Fn(&(f64, &HeldPlacement)) -> f64| waits.iter().map(time).min_by(f64::total_cmp);
        let pending = PendingEstimates {
            start: first(&|(wait, _)| *wait)?,
            finish: first(&|(wait, hold)| wait + epochs * hold.epoch)?,
            entries: holds.len(),
            races: start_estimates.races,
        };
        let all = self.instead(job, start_estimates);
        let decided = remedy(&pending, &all);
        let (RequestRemedy::Amend(id) | RequestRemedy::Beside(id) | RequestRemedy::Replace(id)) = decided
        else {
            return None;
        };
        let placement = self.settle(job, &self.room(job), start_estimates.request(id)?, asked)?;
        let remedy = all.iter().find(|remedy| remedy.id == id)?;
        let wait = if let RequestRemedy::Amend(_) = decided { remedy.in_place } else { remedy.anew };
        let (before, after) = (hours(pending.finish), hours(wait? + remedy.run));
        let gpus = self.problem.named(&placement.slots);
        if let RequestRemedy::Replace(_) = decided {
            let why = format!(
                "with a new request for {gpus}, the job finishes in {after} instead of \
                {before}"
            );
            return Some((Decision::Place { placements: vec![placement], queued: true, why }, id));
        }
        let why = format!("finishes in {after} instead of {before} (estimated)");
        Some((Decision::Adjust { placement, in_place: matches!(decided, RequestRemedy::Amend(_)), why }, id))
    }

    /// Returns the GPUs that a job could use without competition.
    fn room(&self, job: usize) -> SoleRoom {
        let offered = self.problem.offered_to(&[job], Basis::Line);
        SoleRoom { alone: self.problem.extract_on(&[job], &offered), offered }
    }

    fn asked_for_nothing(&self) -> RequestCounts {
        self.problem.nodes.iter().map(|node| vec![0; node.gpus.len()]).collect()
    }

    /// Returns GPUs for a request, of those that this decision has not requested yet, and marks them as
    /// requested; `None` if too few are left or the job may not run on them.
    fn settle(
        &self,
        job: usize,
        room: &SoleRoom,
        request: &RequestOption,
        asked: &mut RequestCounts,
    ) -> Option<Placement> {
        let (nodes, count) = (request.request.asks.nodes as usize, request.per_node());
        let may_use = |ty: &usize| {
            self.problem.gpu_types[*ty] == request.gpu_type && self.problem.jobs[job].types[*ty].is_some()
        };
        let types: Vec<usize> = (0..self.problem.gpu_types.len()).filter(may_use).collect();
        let slot = |node: usize| {
            let left = |ty: &&usize| room.offered[node][**ty].saturating_sub(asked[node][**ty]) >= count;
            types.iter().find(left).map(|&gpu_type| Slot { node, gpu_type, count })
        };
        let slots: Vec<Slot> = (0..self.problem.nodes.len()).filter_map(slot).take(nodes).collect();
        if slots.len() < nodes {
            return None;
        }
        let placement = Placement::new(self.problem, job, &slots, self.placer.sharing())?;
        if !is_legal(&room.alone.problem, 0, &room.alone.of_whole(&placement)?) {
            return None;
        }
        for slot in &slots {
            asked[slot.node][slot.gpu_type] += slot.count;
        }
        Some(placement)
    }
}

/// Returns whether a job is pending in the queue and has no running submission.
fn is_pending(job: &JobModel) -> bool {
    let holds = &job.progress.holds;
    !holds.is_empty() && holds.iter().all(|hold| hold.stage == HoldStage::Queued)
}

/// GPUs in the form of a Slurm request: type, number per node, number of nodes.
type GpuBlocks = Vec<(GpuType, u32, usize)>;

/// Returns the GPUs of a request.
fn kind_of(request: &RequestOption) -> GpuBlocks {
    vec![(request.gpu_type.clone(), request.per_node(), request.request.asks.nodes as usize)]
}

/// Returns GPUs in the form of a Slurm request.
fn kind(gpu_types: &[GpuType], slots: &[Slot]) -> GpuBlocks {
    let mut kinds = GpuBlocks::new();
    for slot in slots {
        let gpu_type = &gpu_types[slot.gpu_type];
        match kinds.iter_mut().find(|kind| kind.0 == *gpu_type && kind.1 == slot.count) {
            Some(block) => block.2 += 1,
            None => kinds.push((gpu_type.clone(), slot.count, 1)),
        }
    }
    kinds.sort();
    kinds
}

fn hours(seconds: f64) -> String {
    if seconds < 5400.0 { format!("{:.0} min", seconds / 60.0) } else { format!("{:.1} h", seconds / 3600.0) }
}
