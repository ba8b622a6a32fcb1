//! Whether running jobs should be stopped to go on elsewhere: what that saves against what it costs.

use std::collections::BTreeMap;

use crate::engine::plan::{Draft, Planner, Scope};
use crate::engine::{Action, Attempt, Gpus, Phase, Tracked};
use crate::model::{Job, JobName, Offer, OfferedNode, Time};
use crate::policy::{Objective, Problem, Slot, epoch_as_shared, equal_share_times};

/// The gain must be more than this part of all the time that is still to come: less is not worth a stop.
const LEAST_GAIN: f64 = 0.01;

/// Two epochs that differ by less than this part of them are equally long.
const SAME: f64 = 0.01;

/// The most running jobs that are tried one by one: those with the most time to come.
const TRIED: usize = 20;

/// Returns whether a job may be stopped to go on elsewhere: it runs, and has done an epoch where it is, so that
/// what is known of its speeds there was measured.
pub(super) fn is_movable(tracked: &Tracked) -> bool {
    matches!(&tracked.phase, Phase::Running(attempt)
        if attempt.job_id.is_some() && tracked.epochs_done > attempt.epochs_before)
        && tracked.epochs_left() > 0
}

/// A running job, and how it does where it is.
struct Candidate<'a> {
    tracked: &'a Tracked,
    attempt: &'a Attempt,
    /// Time of an epoch with its present shares, by the speeds known now.
    epoch: f64,
    /// How far it has come in the epoch under way, which a stop may cost it, as time.
    under_way: f64,
}

/// What would come of some moves.
struct Choice<'a> {
    draft: Draft,
    moved: Vec<&'a Candidate<'a>>,
    /// Sum of weighted times to come, or the longest.
    value: f64,
    costs: f64,
}

/// What is to be done about moves.
#[derive(Debug, Default)]
pub(super) struct Stops {
    pub actions: Vec<Action>,
    /// Whether some would pay when the epochs under way are done: it is worth another look.
    pub later: bool,
}

/// Returns the stops of the moves that pay best, if any pays.
///
/// # Errors
/// Why the policy gives no plan, for people.
pub(super) fn stops(
    scope: &Scope<'_>,
    (ready, base): (&[&Tracked], Option<&Draft>),
    (at, margin): (Time, f64),
    planner: &Planner<'_>,
) -> Result<Stops, String> {
    let candidates: Vec<Candidate<'_>> =
        scope.jobs.iter().filter_map(|tracked| as_candidate(tracked, at, scope)).collect();
    let mut movable: Vec<&Candidate<'_>> =
        candidates.iter().filter(|candidate| is_movable(candidate.tracked)).collect();
    if movable.is_empty() {
        return Ok(Stops::default());
    }
    movable.sort_by(|a, b| b.rest().total_cmp(&a.rest()).then(a.tracked.job.name.cmp(&b.tracked.job.name)));
    let shares = shares(ready, &candidates, scope);
    let world = Scene { scope, ready, base, candidates: &candidates, shares, planner };
    let alone = movable.iter().take(TRIED).map(|&candidate| vec![candidate]);
    let sets = std::iter::once(movable.clone()).chain(alone.filter(|_| movable.len() > 1));
    let now = world.value_of_staying();
    let worth = |option: &Choice<'_>| now - option.value - option.costs * (1.0 + margin);
    let choices: Vec<Option<Choice<'_>>> =
        sets.map(|movers| world.option(movers)).collect::<Result<_, _>>()?;
    let Some(mut best) = choices.into_iter().flatten().max_by(|a, b| worth(a).total_cmp(&worth(b))) else {
        return Ok(Stops::default());
    };
    // Between two epochs nothing is lost.
    let lost: f64 =
        best.moved.iter().map(|candidate| world.weight(candidate.tracked) * candidate.under_way).sum();
    if worth(&best) > LEAST_GAIN * now {
        best.costs += world.queue_waits(&best);
    }
    let pays = |lost: f64| worth(&best) + lost > LEAST_GAIN * now;
    if !pays(0.0) {
        return Ok(Stops { actions: Vec::new(), later: pays(lost) });
    }
    Ok(Stops {
        actions: best.moved.iter().filter_map(|candidate| stop(candidate, &best)).collect(),
        later: false,
    })
}

/// Returns how long the jobs that are ready would take with an equal share of the GPUs, where that can be told.
fn shares(ready: &[&Tracked], candidates: &[Candidate<'_>], scope: &Scope<'_>) -> BTreeMap<JobName, f64> {
    if ready.is_empty() {
        return BTreeMap::new();
    }
    let running: Vec<&Tracked> = candidates.iter().map(|candidate| candidate.tracked).collect();
    let jobs: Vec<Job> = ready.iter().chain(&running).map(|tracked| tracked.rest()).collect();
    let times = scope.problem(&jobs, &scope.offer(&running));
    let times = times.map_or_else(Vec::new, |problem| equal_share_times(&problem));
    let named = ready.iter().map(|tracked| tracked.job.name.clone()).zip(times);
    named.filter(|(_, time)| time.is_finite()).collect()
}

/// What moves are weighed in.
struct Scene<'a> {
    scope: &'a Scope<'a>,
    ready: &'a [&'a Tracked],
    base: Option<&'a Draft>,
    candidates: &'a [Candidate<'a>],
    /// What the jobs that are ready would take with an equal share of all GPUs.
    shares: BTreeMap<JobName, f64>,
    planner: &'a Planner<'a>,
}

impl<'a> Scene<'a> {
    /// Returns the time to come when nobody moves.
    fn value_of_staying(&self) -> f64 {
        let running = self.candidates.iter().map(|candidate| (candidate.tracked, Some(candidate.rest())));
        let ready =
            self.ready.iter().map(|&tracked| (tracked, self.base.and_then(|base| rest_in(base, tracked))));
        self.value(&running.chain(ready).collect::<Vec<_>>())
    }

    /// Returns what comes of it when these jobs may move; those that end up where they are do not.
    fn option(&self, mut movers: Vec<&'a Candidate<'a>>) -> Result<Option<Choice<'a>>, String> {
        // Each round fixes at least one job in its place.
        loop {
            let free: Vec<&Tracked> = movers.iter().map(|candidate| candidate.tracked).collect();
            let jobs: Vec<&Tracked> = free.iter().chain(self.ready).copied().collect();
            let draft = self.scope.draft(&jobs, self.scope.offer(&free), self.planner)?;
            let Some(draft) = draft else { return Ok(None) };
            // A running job is never stopped to wait.
            let (staying, moved): (Vec<&Candidate<'_>>, Vec<&Candidate<'_>>) =
                movers.iter().copied().partition(|candidate| candidate.is_same(&draft));
            let homeless =
                moved.iter().any(|candidate| draft.placement(&candidate.tracked.job.name).is_none());
            if homeless || moved.is_empty() {
                return Ok(None);
            }
            if staying.is_empty() {
                return Ok(Some(self.weigh(draft, moved)));
            }
            movers = moved;
        }
    }

    fn weigh(&self, draft: Draft, moved: Vec<&'a Candidate<'a>>) -> Choice<'a> {
        let is_moved = |name: &JobName| moved.iter().any(|candidate| candidate.tracked.job.name == *name);
        let running = self.candidates.iter().map(|candidate| {
            let rest = if is_moved(&candidate.tracked.job.name) {
                rest_in(&draft, candidate.tracked)
            } else {
                Some(candidate.rest())
            };
            (candidate.tracked, rest)
        });
        let ready = self.ready.iter().map(|&tracked| (tracked, rest_in(&draft, tracked)));
        let value = self.value(&running.chain(ready).collect::<Vec<_>>());
        let cost = |candidate: &&Candidate<'_>| {
            let own = candidate
                .tracked
                .job
                .launch
                .checkpoint
                .restart_cost
                .unwrap_or(self.scope.rules.restart_cost)
                .0;
            self.weight(candidate.tracked) * own
        };
        let costs = moved.iter().map(cost).sum();
        Choice { draft, moved, value, costs }
    }

    /// Returns what the queue would cost the jobs that move.
    fn queue_waits(&self, option: &Choice<'_>) -> f64 {
        let batch = option.draft.clone().into_batch(self.planner, self.scope.cluster.clone());
        let wait = |candidate: &&Candidate<'_>| {
            let (index, placement) = option.draft.placement(&candidate.tracked.job.name)?;
            let wanted = Gpus::of(&option.draft.ranks(placement));
            // While it holds some of them itself, the queue's answer would be about its own end.
            let own = wanted.0.keys().any(|node| candidate.attempt.gpus.0.contains_key(node));
            let wait = (!own).then(|| (self.planner.queue_wait)(&batch, index)).flatten()?;
            Some(self.weight(candidate.tracked) * wait.0)
        };
        option.moved.iter().filter_map(wait).sum()
    }

    fn weight(&self, tracked: &Tracked) -> f64 {
        match self.planner.objective {
            Objective::Weighted => tracked.job.weight,
            Objective::MeanJct | Objective::Makespan => 1.0,
        }
    }

    /// Returns the sum of the jobs' times to come, or the longest. A job without a place waits for the first to end
    /// and then takes as long as with an equal share of all GPUs.
    fn value(&self, jobs: &[(&Tracked, Option<f64>)]) -> f64 {
        let first = jobs.iter().filter_map(|(_, rest)| *rest).min_by(f64::total_cmp).unwrap_or(0.0);
        let share = |tracked: &Tracked| self.shares.get(&tracked.job.name).copied().unwrap_or(first);
        let time = |(tracked, rest): &(&Tracked, Option<f64>)| rest.unwrap_or_else(|| first + share(tracked));
        let times = jobs.iter().map(|own| self.weight(own.0) * time(own));
        if self.planner.objective == Objective::Makespan {
            times.max_by(f64::total_cmp).unwrap_or(0.0)
        } else {
            times.sum()
        }
    }
}

impl Candidate<'_> {
    /// Returns the time that its epochs still take where it is.
    fn rest(&self) -> f64 {
        epochs(self.tracked) * self.epoch - self.under_way
    }

    /// Returns whether a draft leaves it where it is, or on GPUs that are as good.
    fn is_same(&self, draft: &Draft) -> bool {
        let Some((_, placement)) = draft.placement(&self.tracked.job.name) else { return false };
        let planned = Gpus::of(&draft.ranks(placement));
        let epoch = placement.epoch.total();
        planned.by_type() == self.attempt.gpus.by_type() && (epoch - self.epoch).abs() <= SAME * self.epoch
    }
}

fn rest_in(draft: &Draft, tracked: &Tracked) -> Option<f64> {
    let (_, placement) = draft.placement(&tracked.job.name)?;
    Some(epochs(tracked) * placement.epoch.total())
}

fn epochs(tracked: &Tracked) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "epochs are far below 2^52")]
    let epochs = tracked.epochs_left() as f64;
    epochs
}

/// Returns how a running job does where it is; `None` for jobs that do not run.
fn as_candidate<'a>(tracked: &'a Tracked, at: Time, scope: &Scope<'_>) -> Option<Candidate<'a>> {
    let Phase::Running(attempt) = &tracked.phase else { return None };
    let node = |name| {
        let gpus =
            attempt.gpus.0.get(name)?.iter().map(|(gpu_type, &count)| (gpu_type.clone(), count)).collect();
        let intra_node = scope.cluster.node(name)?.intra_node;
        Some(OfferedNode { name: name.clone(), gpus, intra_node })
    };
    let offer = Offer { nodes: attempt.gpus.0.keys().filter_map(node).collect(), notes: Vec::new() };
    let problem = scope.problem(&[tracked.rest()], &offer);
    let epoch = problem.and_then(|problem| present_epoch(&problem, attempt)).unwrap_or(attempt.epoch.0);
    let begun = tracked.epoch_at.into_iter().chain(attempt.started).map(|time| time.0).max_by(f64::total_cmp);
    let under_way = begun.map_or(0.0, |begun| at.since(Time(begun)).0.min(epoch));
    Some(Candidate { tracked, attempt, epoch, under_way })
}

/// Returns the time of an epoch with the shares that the ranks have, on the only job of a problem.
fn present_epoch(problem: &Problem, attempt: &Attempt) -> Option<f64> {
    let number = |name| problem.gpu_types.iter().position(|own| own == name);
    let shares = attempt.ranks.iter().map(|rank| Some((number(&rank.gpu_type)?, rank.batch)));
    let slots = problem.nodes.iter().enumerate().flat_map(|(node, own)| {
        own.gpus.iter().enumerate().map(move |(gpu_type, &count)| Slot { node, gpu_type, count })
    });
    let slots: Vec<Slot> = slots.filter(|slot| slot.count > 0).collect();
    let time = epoch_as_shared(problem, problem.jobs.first()?, &shares.collect::<Option<Vec<_>>>()?, &slots)?;
    Some(time.total())
}

fn stop(candidate: &Candidate<'_>, choice: &Choice<'_>) -> Option<Action> {
    let (_, placement) = choice.draft.placement(&candidate.tracked.job.name)?;
    let gpus = Gpus::of(&choice.draft.ranks(placement));
    let (before, after) = (candidate.epoch, placement.epoch.total());
    let others = if after > before { "to make room for other jobs: " } else { "" };
    let same = gpus.by_type() == candidate.attempt.gpus.by_type();
    let place = if same { "with new batch shares".to_owned() } else { format!("on {gpus}") };
    let why = format!(
        "{others}{} per epoch {place} instead of {}, {} epochs left{}",
        seconds(after),
        seconds(before),
        candidate.tracked.epochs_left(),
        choice.draft.trials(&candidate.tracked.job.name).clause()
    );
    let (job, run, job_id) =
        (candidate.tracked.job.name.clone(), candidate.attempt.run.clone(), candidate.attempt.job_id?);
    Some(Action::Stop { job, run, job_id, why })
}

/// Returns a time with about three digits.
fn seconds(time: f64) -> String {
    match time {
        _ if time < 9.995 => format!("{time:.2} s"),
        _ if time < 99.95 => format!("{time:.1} s"),
        _ => format!("{time:.0} s"),
    }
}
