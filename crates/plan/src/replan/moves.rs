//! Decides whether running jobs should be stopped to move them, by comparing the saving with the cost.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::fairness::equal_share_times;
use crate::replan::ReplanContext;
use crate::replan::draft::PlanDraft;
use crate::{
    Basis, Decision, Dues, HeldPlacement, HoldStage, Objective, Placement, Plan, PolicyError, WaitForecast,
};
use hsched_model::number::to_f64;

/// A running job, and its performance on its present GPUs.
struct Resident<'a> {
    job: usize,
    hold: &'a HeldPlacement,
    /// Epoch time with the present shares at the speeds known now, in seconds.
    epoch: f64,
    /// Progress in the current epoch, which a stop may lose, in seconds.
    under_way: f64,
    movable: bool,
}

/// The result of some moves.
struct MoveResult<'a> {
    draft: PlanDraft,
    moved: Vec<&'a Resident<'a>>,
    value: PlanValue,
    costs: f64,
}

/// The remaining cost of all jobs.
#[derive(Clone, Copy)]
struct PlanValue {
    /// Number of jobs that miss their deadlines; 0 for other objectives.
    late: usize,
    /// Sum of weighted times, or the longest time.
    time: f64,
}

/// A job's remaining time in seconds; `None` if it has no placement.
struct ToCome {
    job: usize,
    time: Option<f64>,
    /// Additional delay that is counted elsewhere but may make the job late.
    delay: f64,
}

/// The decision about moves.
#[derive(Default)]
pub(super) struct MovePlan {
    /// The moves, or the questions that must be answered first; empty if no move is beneficial.
    pub plan: Plan,
    /// Whether moves would be beneficial after the current epochs, so that another check is due.
    pub later: bool,
}

/// The reference values for moves.
struct Scales<'a> {
    context: &'a ReplanContext<'a>,
    ready: &'a [usize],
    base: Option<&'a PlanDraft>,
    residents: &'a [Resident<'a>],
    margin: f64,
    dues: Dues,
    /// Remaining time of each ready job with an equal share of all GPUs.
    shares: BTreeMap<usize, f64>,
}

impl ReplanContext<'_> {
    /// Returns the most beneficial moves, if any.
    ///
    /// # Errors
    /// If the placer gives no plan.
    pub(super) fn moves(
        &self,
        ready: &[usize],
        base: Option<&PlanDraft>,
        margin: f64,
    ) -> Result<MovePlan, PolicyError> {
        let residents = self.residents();
        let mut movable: Vec<&Resident<'_>> = residents.iter().filter(|resident| resident.movable).collect();
        if movable.is_empty() {
            return Ok(MovePlan::default());
        }
        let name = |resident: &Resident<'_>| &self.problem.jobs[resident.job].name;
        movable.sort_by(|a, b| self.rest(b).total_cmp(&self.rest(a)).then(name(a).cmp(name(b))));
        let shares = self.shares(ready, &residents);
        let dues = Dues::of(self.problem);
        let scales = Scales { context: self, ready, base, residents: &residents, margin, dues, shares };
        let alone = movable.iter().take(self.rules.tried).map(|&resident| vec![resident]);
        let sets = std::iter::once(movable.clone()).chain(alone.filter(|_| movable.len() > 1));
        let now = scales.value_of_staying();
        let worth = |choice: &MoveResult<'_>| now.time - choice.value.time - choice.costs * (1.0 + margin);
        // One late job fewer outweighs any time.
        let better = |a: &MoveResult<'_>, b: &MoveResult<'_>| {
            b.value.late.cmp(&a.value.late).then(worth(a).total_cmp(&worth(b)))
        };
        let choices: Vec<Option<MoveResult<'_>>> =
            sets.map(|movers| scales.choice(movers)).collect::<Result<_, _>>()?;
        let Some(mut best) = choices.into_iter().flatten().max_by(better) else {
            return Ok(MovePlan::default());
        };
        // A move between two epochs would not lose this progress.
        let lost: f64 =
            best.moved.iter().map(|resident| self.weight(resident.job) * resident.under_way).sum();
        let least = self.rules.least_gain * now.time;
        let pays = |choice: &MoveResult<'_>| match choice.value.late.cmp(&now.late) {
            Ordering::Less => true,
            Ordering::Equal => worth(choice) > least,
            Ordering::Greater => false,
        };
        if pays(&best) {
            match scales.queue_waits(&best) {
                Ok(waits) => scales.delay(&mut best, &waits),
                Err(questions) => {
                    return Ok(MovePlan { plan: Plan { questions, ..Plan::default() }, later: false });
                }
            }
        }
        if !pays(&best) {
            let later = best.value.late <= now.late && worth(&best) + lost > least;
            return Ok(MovePlan { plan: Plan::default(), later });
        }
        let changes = best.moved.iter().filter_map(|resident| self.move_of(resident, &best)).collect();
        Ok(MovePlan { plan: Plan { changes, ..Plan::default() }, later: false })
    }

    fn residents(&self) -> Vec<Resident<'_>> {
        let resident = |job: usize, hold| match hold {
            &HeldPlacement { stage: HoldStage::Running { epoch, under_way, movable, .. }, .. } => {
                Some(Resident { job, hold, epoch, under_way, movable })
            }
            _ => None,
        };
        let jobs = self.problem.jobs.iter().enumerate();
        jobs.flat_map(|(job, model)| model.progress.holds.iter().filter_map(move |hold| resident(job, hold)))
            .collect()
    }

    /// Returns the run times of the ready jobs with an equal share of the GPUs, if known.
    fn shares(&self, ready: &[usize], residents: &[Resident<'_>]) -> BTreeMap<usize, f64> {
        if ready.is_empty() {
            return BTreeMap::new();
        }
        let jobs: Vec<usize> =
            ready.iter().copied().chain(residents.iter().map(|resident| resident.job)).collect();
        let extract = self.problem.extract(&jobs, Basis::Free).problem;
        let all: Vec<usize> = (0..extract.jobs.len()).collect();
        let times = equal_share_times(&extract, &all);
        ready.iter().copied().zip(times).filter(|(_, time)| time.is_finite()).collect()
    }

    fn weight(&self, job: usize) -> f64 {
        self.problem.objective.weight(&self.problem.jobs[job])
    }

    /// Returns the time for a running job's remaining epochs on its present GPUs.
    fn rest(&self, resident: &Resident<'_>) -> f64 {
        self.epochs(resident.job) * resident.epoch - resident.under_way
    }

    pub(super) fn epochs(&self, job: usize) -> f64 {
        to_f64(self.problem.jobs[job].progress.epochs_left)
    }

    fn rest_in(&self, draft: &PlanDraft, job: usize) -> Option<f64> {
        Some(self.epochs(job) * draft.epoch(job)?)
    }

    /// Returns whether a draft gives a running job the same numbers of GPUs by type, at about the same speed.
    fn is_same(&self, resident: &Resident<'_>, draft: &PlanDraft) -> bool {
        let (Some(placement), Some(epoch)) = (draft.placement(self, resident.job), draft.epoch(resident.job))
        else {
            return false;
        };
        let same_gpus = self.problem.by_name(&placement.slots) == self.problem.by_name(&resident.hold.slots);
        same_gpus && (epoch - resident.epoch).abs() <= self.rules.same * resident.epoch
    }

    fn move_of(&self, resident: &Resident<'_>, choice: &MoveResult<'_>) -> Option<(usize, Decision)> {
        let placement = choice.draft.placement(self, resident.job)?;
        let problem = self.problem;
        let (before, after) = (resident.epoch, choice.draft.epoch(resident.job)?);
        let others = if after > before { "makes room for other jobs, " } else { "" };
        let same = problem.by_name(&placement.slots) == problem.by_name(&resident.hold.slots);
        let gpus = problem.named(&placement.slots);
        let place = if same { "with new batch shares".to_owned() } else { format!("on {gpus}") };
        let why = format!(
            "{others}{} per epoch {place} instead of {}, {} epochs left",
            seconds(after),
            seconds(before),
            problem.jobs[resident.job].progress.epochs_left
        );
        Some((resident.job, Decision::Place { placements: vec![placement], queued: false, why }))
    }
}

impl<'a> Scales<'a> {
    /// Returns the remaining cost without moves.
    fn value_of_staying(&self) -> PlanValue {
        let to_come = |job: usize, time: Option<f64>| ToCome { job, time, delay: 0.0 };
        let running =
            self.residents.iter().map(|resident| to_come(resident.job, Some(self.context.rest(resident))));
        let rest = |job: usize| self.base.and_then(|base| self.context.rest_in(base, job));
        let ready = self.ready.iter().map(|&job| to_come(job, rest(job)));
        self.value(&running.chain(ready).collect::<Vec<_>>())
    }

    /// Returns the result if these jobs may move; those that end up on their present GPUs do not count as
    /// moved. `None` if no job moves, or if one would get no GPUs.
    fn choice(&self, mut movers: Vec<&'a Resident<'a>>) -> Result<Option<MoveResult<'a>>, PolicyError> {
        // Each pass excludes at least one job, which stays on its GPUs.
        loop {
            let free = movers.iter().map(|resident| resident.job);
            let jobs: Vec<usize> = free.chain(self.ready.iter().copied()).collect();
            let Some(draft) = self.context.draft(&jobs, Basis::Free)? else { return Ok(None) };
            // A running job is never stopped only to wait.
            let (stay, moved): (Vec<&Resident<'_>>, Vec<&Resident<'_>>) =
                movers.iter().copied().partition(|resident| self.context.is_same(resident, &draft));
            let homeless = moved.iter().any(|resident| draft.epoch(resident.job).is_none());
            if homeless || moved.is_empty() {
                return Ok(None);
            }
            if stay.is_empty() {
                return Ok(Some(self.weigh(draft, moved)));
            }
            movers = moved;
        }
    }

    fn weigh(&self, draft: PlanDraft, moved: Vec<&'a Resident<'a>>) -> MoveResult<'a> {
        let weighted =
            |resident: &&Resident<'_>| self.context.weight(resident.job) * self.restart(resident.job);
        let costs = moved.iter().map(weighted).sum();
        let value = self.value_of_moving(&draft, &moved, &BTreeMap::new());
        MoveResult { draft, moved, value, costs }
    }

    /// Returns the remaining cost if these jobs move, some of them after this many seconds in the queue.
    ///
    /// A move must keep a margin before a deadline that is as large as its required gain.
    fn value_of_moving(
        &self,
        draft: &PlanDraft,
        moved: &[&Resident<'_>],
        waits: &BTreeMap<usize, f64>,
    ) -> PlanValue {
        let context = self.context;
        let wait = |job: usize| waits.get(&job).copied().unwrap_or(0.0);
        let running = self.residents.iter().map(|resident| {
            if moved.iter().any(|other| other.job == resident.job) {
                let delay = (self.restart(resident.job) + wait(resident.job)) * (1.0 + self.margin);
                ToCome { job: resident.job, time: context.rest_in(draft, resident.job), delay }
            } else {
                ToCome { job: resident.job, time: Some(context.rest(resident)), delay: 0.0 }
            }
        });
        let place = |&job: &usize| ToCome { job, time: context.rest_in(draft, job), delay: 0.0 };
        self.value(&running.chain(self.ready.iter().map(place)).collect::<Vec<_>>())
    }

    /// Adds waits in the queue of this many seconds to a choice.
    fn delay(&self, choice: &mut MoveResult<'_>, waits: &BTreeMap<usize, f64>) {
        choice.costs += waits.iter().map(|(&job, wait)| self.context.weight(job) * wait).sum::<f64>();
        choice.value = self.value_of_moving(&choice.draft, &choice.moved, waits);
    }

    /// Returns the restart cost of a job, in seconds.
    fn restart(&self, job: usize) -> f64 {
        self.context.problem.jobs[job].progress.restart_cost.0
    }

    /// Returns how many seconds the moved jobs would wait in the queue.
    ///
    /// # Errors
    /// The questions for the queue that must be answered first.
    fn queue_waits(&self, choice: &MoveResult<'_>) -> Result<BTreeMap<usize, f64>, Vec<(usize, Placement)>> {
        let problem = self.context.problem;
        let (mut waits, mut questions) = (BTreeMap::new(), Vec::new());
        for resident in &choice.moved {
            let Some(placement) = choice.draft.placement(self.context, resident.job) else { continue };
            // While jobs that are to be moved still hold GPUs of these nodes, the queue estimate would only
            // reflect their ends.
            let mut held = choice.moved.iter().flat_map(|mover| &mover.hold.slots);
            if held.any(|held| placement.slots.iter().any(|slot| slot.node == held.node)) {
                continue;
            }
            let is_about =
                |known: &&WaitForecast| known.job == resident.job && known.slots == placement.slots;
            match problem.forecasts.iter().find(is_about) {
                Some(known) => {
                    waits.insert(resident.job, known.wait.map_or(0.0, |wait| wait.0));
                }
                None => questions.push((resident.job, placement)),
            }
        }
        if questions.is_empty() { Ok(waits) } else { Err(questions) }
    }

    /// Returns the number of late jobs, and the sum of remaining times or the longest one. A job without a
    /// placement waits for the first job to end, and then takes as long as with an equal share of all GPUs.
    fn value(&self, jobs: &[ToCome]) -> PlanValue {
        let first = jobs.iter().filter_map(|job| job.time).min_by(f64::total_cmp).unwrap_or(0.0);
        let share = |job: usize| self.shares.get(&job).copied().unwrap_or(first);
        let time = |job: &ToCome| job.time.unwrap_or_else(|| first + share(job.job));
        let is_late =
            |job: &&ToCome| self.dues.due(job.job).is_some_and(|due| due.is_late(time(job) + job.delay));
        let late = jobs.iter().filter(is_late).count();
        let times = jobs.iter().map(|job| self.context.weight(job.job) * time(job));
        let time = if self.context.problem.objective == Objective::Makespan {
            times.max_by(f64::total_cmp).unwrap_or(0.0)
        } else {
            times.sum()
        };
        PlanValue { late, time }
    }
}

/// Formats a time with about three digits.
fn seconds(time: f64) -> String {
    match time {
        _ if time < 9.995 => format!("{time:.2} s"),
        _ if time < 99.95 => format!("{time:.1} s"),
        _ => format!("{time:.0} s"),
    }
}
