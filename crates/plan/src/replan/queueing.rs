//! Jobs that find nothing free: what to wait for in the cluster's queue, and what to change of what they wait for.

use crate::replan::Scene;
use crate::replan::draft::Draft;
use crate::{
    Basis, Candidate, Decision, Extract, Hold, JobModel, Outlook, Pending, Placement, Plan, PolicyError,
    Remedy, Slot, Stage, choose, options, remedy,
};
use hsched_model::{GpuType, Seconds, Time};

/// Pending requests are asked about anew after this, if nothing happens before: ten minutes.
const ASK_AGAIN: Seconds = Seconds(600.0);

/// Why a job that cannot go on after a time limit asks for nothing.
const NOTHING_SUITS: &str = "every possible time limit is shorter than the job, and the job starts over \
    after each; if its program can resume, add the job again with the key checkpoint";

/// The requests of a job, as placements of the problem of that job alone.
struct Requests {
    extract: Extract,
    options: Vec<Placement>,
}

/// GPUs by node and type that requests of this decision are for: one decision asks for no node twice.
type Asked = Vec<Vec<u32>>;

impl Scene<'_> {
    /// Returns the jobs of which it must be known when their requests would start: those that wait there or may have to.
    pub(super) fn to_ask_about(&self, ready: &[usize]) -> Vec<usize> {
        if self.problem.outlooks.is_some() {
            return Vec::new();
        }
        let jobs = 0..self.problem.jobs.len();
        jobs.filter(|job| ready.contains(job) || is_pending(&self.problem.jobs[*job])).collect()
    }

    /// Returns when pending requests are asked about anew.
    pub(super) fn next_asking(&self) -> Option<Time> {
        self.problem.jobs.iter().any(is_pending).then(|| self.problem.now.after(ASK_AGAIN))
    }

    /// Returns a plan for jobs on free GPUs, without those that are done before on others that they have to wait for.
    ///
    /// # Errors
    /// When the placer gives no plan.
    pub(super) fn base(&self, ready: &[usize]) -> Result<Option<Draft>, PolicyError> {
        let base = self.draft(ready, Basis::Free)?;
        let Some(draft) = base.as_ref().filter(|_| self.rules.queue) else { return Ok(base) };
        let is_late = |job: &usize| {
            if draft.placement(self, *job).is_some_and(|own| self.is_too_short(*job, &own)) {
                return true;
            }
            let own = draft.placement(self, *job).map(|own| own.jct(self.problem.jobs[*job].epochs).0);
            let queued = self.outlook(*job).and_then(|outlook| self.soonest(*job, outlook));
            own.zip(queued).is_some_and(|(free, queued)| queued < free)
        };
        let soon: Vec<usize> = ready.iter().copied().filter(|job| !is_late(job)).collect();
        if soon.len() == ready.len() { Ok(base) } else { self.draft(&soon, Basis::Free) }
    }

    /// Returns what `base` gives, or else requests of the other jobs that are ready, and what to change of those that are pending.
    pub(super) fn with_queue(&self, base: Option<Draft>, ready: &[usize], notes: &mut Vec<String>) -> Plan {
        let places = base.as_ref().is_some_and(Draft::places);
        let base = base.map(|base| base.into_plan(self, Basis::Free)).unwrap_or_default();
        if places {
            // What is free is given away first; the others are asked about again.
            return Plan { wake: Some(self.problem.now), ..base };
        }
        if self.problem.outlooks.as_ref().is_some_and(Vec::is_empty) {
            return self.in_the_dark(ready, notes).unwrap_or(base);
        }
        let mut asked: Asked = self.problem.nodes.iter().map(|node| vec![0; node.gpus.len()]).collect();
        let mut changes = Vec::new();
        for (job, model) in self.problem.jobs.iter().enumerate() {
            if is_pending(model) {
                changes.extend(self.remedy(job, &mut asked).map(|decision| (job, decision)));
            }
        }
        let mut left_out = false;
        for &job in ready {
            match self.begin(job, &mut asked) {
                Ok(decision) => changes.push((job, decision)),
                Err(later) => {
                    left_out |= later;
                    // It says why, or that the job can never be placed.
                    let why = base.changes.iter().find(|(own, _)| *own == job).cloned();
                    changes.extend(why.or_else(|| Some((job, self.nothing_suits(job)?))));
                }
            }
        }
        Plan { changes, wake: left_out.then_some(self.problem.now), ..Plan::default() }
    }

    /// Returns what the placer would have the jobs wait for, where nobody can say when anything starts: each as if it got all that is
    /// there, within what a job takes at most.
    fn in_the_dark(&self, ready: &[usize], notes: &mut Vec<String>) -> Option<Plan> {
        match self.draft(ready, Basis::Queue) {
            Ok(draft) => Some(draft.filter(Draft::places)?.into_plan(self, Basis::Queue)),
            Err(error) => {
                notes.push(error.to_string());
                None
            }
        }
    }

    fn outlook(&self, job: usize) -> Option<&Outlook> {
        self.problem.outlooks.iter().flatten().find(|own| own.job == job)
    }

    /// Returns whether the time limit of a request for these GPUs would end a job that cannot go on.
    fn is_too_short(&self, job: usize, placement: &Placement) -> bool {
        let Some(outlook) = self.outlook(job) else { return false };
        let Requests { extract, options } = self.requests(job);
        let own = kind(&self.problem.gpu_types, &placement.slots);
        let is_this = |option: &Placement| kind(&extract.problem.gpu_types, &option.slots) == own;
        let place = options.iter().position(is_this);
        place.and_then(|place| outlook.options.get(place)).is_some_and(|prospect| prospect.too_short)
    }

    /// Returns that no time limit suits a job, where that is so.
    fn nothing_suits(&self, job: usize) -> Option<Decision> {
        let options = &self.outlook(job)?.options;
        let why = || Decision::Defer { why: NOTHING_SUITS.to_owned() };
        (!options.is_empty() && options.iter().all(|own| own.too_short)).then(why)
    }

    fn requests(&self, job: usize) -> Requests {
        let extract = self.problem.extract(&[job], Basis::Line);
        let options = options(&extract.problem, 0);
        Requests { extract, options }
    }

    /// Returns the requests of a job with what is known of them.
    fn candidates(&self, job: usize, requests: &Requests, outlook: &Outlook) -> Vec<Candidate> {
        let model = &self.problem.jobs[job];
        let there: Vec<Vec<(GpuType, u32, usize)>> =
            model.standing.holds.iter().map(|hold| kind(&self.problem.gpu_types, &hold.slots)).collect();
        let candidate = |(own, prospect): (&Placement, &crate::Prospect)| Candidate {
            run: own.jct(model.epochs).0,
            gpus: u32::try_from(own.ranks.len()).unwrap_or(u32::MAX),
            anew: prospect.anew.map(|wait| wait.0),
            in_place: prospect.in_place.map(|wait| wait.0),
            is_there: there.contains(&kind(&requests.extract.problem.gpu_types, &own.slots)),
        };
        requests.options.iter().zip(&outlook.options).map(candidate).collect()
    }

    /// Returns when the best request of a job would be done.
    fn soonest(&self, job: usize, outlook: &Outlook) -> Option<f64> {
        let requests = self.requests(job);
        let all = self.candidates(job, &requests, outlook);
        all.iter().filter_map(|own| Some(own.anew? + own.run)).min_by(f64::total_cmp)
    }

    /// Returns the request to begin with.
    ///
    /// # Errors
    /// Whether there is one for which another decision is needed, as this one asks for its nodes already.
    fn begin(&self, job: usize, asked: &mut Asked) -> Result<Decision, bool> {
        let requests = self.requests(job);
        // There may have been no time to ask about it.
        let outlook = self.outlook(job).ok_or(true)?;
        let number = choose(&self.candidates(job, &requests, outlook)).ok_or(false)?;
        let option = &requests.options[number];
        let placement = self.settle(job, &requests, option, asked).ok_or(true)?;
        Ok(Decision::Place { placements: vec![placement], queued: true, why: String::new() })
    }

    /// Returns what to do with the pending requests of a job; nothing where they are to be kept.
    fn remedy(&self, job: usize, asked: &mut Asked) -> Option<Decision> {
        let (requests, outlook) = (self.requests(job), self.outlook(job)?);
        let holds = &self.problem.jobs[job].standing.holds;
        let epochs = self.epochs(job);
        let waits =
            holds.iter().zip(&outlook.stays).filter_map(|(hold, wait)| Some((wait.as_ref()?.0, hold)));
        let waits: Vec<(f64, &Hold)> = waits.collect();
        let first = |time: &dyn Fn(&(f64, &Hold)) -> f64| waits.iter().map(time).min_by(f64::total_cmp);
        let pending = Pending {
            start: first(&|(wait, _)| *wait)?,
            finish: first(&|(wait, hold)| wait + epochs * hold.epoch)?,
            entries: holds.len(),
            races: outlook.races,
        };
        let candidates = self.candidates(job, &requests, outlook);
        let decided = remedy(&pending, &candidates);
        let (Remedy::Amend(number) | Remedy::Beside(number) | Remedy::Replace(number)) = decided else {
            return None;
        };
        let placement = self.settle(job, &requests, &requests.options[number], asked)?;
        let own = candidates[number];
        let wait = if let Remedy::Amend(_) = decided { own.in_place } else { own.anew };
        let (before, after) = (hours(pending.finish), hours(wait? + own.run));
        let gpus = self.problem.named(&placement.slots);
        if let Remedy::Replace(_) = decided {
            let why = format!(
                "with a new request for {gpus}, the job finishes in {after} instead of \
                {before}"
            );
            return Some(Decision::Place { placements: vec![placement], queued: true, why });
        }
        let why = format!("finishes in {after} instead of {before} (estimated)");
        Some(Decision::Adjust { placement, in_place: matches!(decided, Remedy::Amend(_)), why })
    }

    /// Returns a request on nodes that this decision asks for nothing else of, and notes that it does now.
    fn settle(
        &self,
        job: usize,
        requests: &Requests,
        option: &Placement,
        asked: &mut Asked,
    ) -> Option<Placement> {
        let room = self.problem.offered_to(&[job], Basis::Line);
        let model = requests.extract.to_whole(self.problem, option);
        let first = model.slots.first()?;
        let name = &self.problem.gpu_types[first.gpu_type];
        let may_use = |own: &usize| {
            self.problem.gpu_types[*own] == *name && self.problem.jobs[job].types[*own].is_some()
        };
        let types: Vec<usize> = (0..self.problem.gpu_types.len()).filter(may_use).collect();
        let slot = |node: usize| {
            let left = |own: &&usize| room[node][**own].saturating_sub(asked[node][**own]) >= first.count;
            types.iter().find(left).map(|&gpu_type| Slot { node, gpu_type, count: first.count })
        };
        let slots: Vec<Slot> =
            (0..self.problem.nodes.len()).filter_map(slot).take(model.slots.len()).collect();
        if slots.len() < model.slots.len() {
            return None;
        }
        let placement = Placement::new(self.problem, job, &slots, model.sharing)?;
        for slot in &slots {
            asked[slot.node][slot.gpu_type] += slot.count;
        }
        Some(placement)
    }
}

/// Returns whether a job waits in the queue and nowhere else.
fn is_pending(job: &JobModel) -> bool {
    let holds = &job.standing.holds;
    !holds.is_empty() && holds.iter().all(|hold| hold.stage == Stage::Queued)
}

/// Returns what some GPUs are for Slurm: how many nodes with so many of a type.
fn kind(gpu_types: &[GpuType], slots: &[Slot]) -> Vec<(GpuType, u32, usize)> {
    let mut kinds: Vec<(GpuType, u32, usize)> = Vec::new();
    for slot in slots {
        let gpu_type = &gpu_types[slot.gpu_type];
        match kinds.iter_mut().find(|own| own.0 == *gpu_type && own.1 == slot.count) {
            Some(own) => own.2 += 1,
            None => kinds.push((gpu_type.clone(), slot.count, 1)),
        }
    }
    kinds.sort();
    kinds
}

fn hours(seconds: f64) -> String {
    if seconds < 5400.0 { format!("{:.0} min", seconds / 60.0) } else { format!("{:.1} h", seconds / 3600.0) }
}
