//! Decisions between two full ones: freed GPUs go to pending jobs, and a few pending jobs may replace running
//! jobs if that is a gain.
//!
//! The prices and the worth of each job stay as in the last full decision, so jobs are kept sorted and a
//! decision costs only as much as the changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::horizon::allocate::{add, fits};
use crate::horizon::outlook::PriceOutlook;
use crate::horizon::roster::Roster;
use crate::horizon::task::Task;
use crate::horizon::worth::{Worths, to_do};
use crate::kit::Want;
use crate::{Problem, ProblemChanges};

/// The jobs, sorted by the data of the last full decision.
#[derive(Clone, Debug, Default)]
pub(super) struct Quick {
    /// Number of decisions since the last full one; `None` before the first.
    since: Option<usize>,
    /// The worth of a step by job index; 0 if unknown.
    worths: Vec<f64>,
    /// Sort keys of the tasks in the last full decision and the weight then remaining, from the last to end
    /// to the first, as in [`Worths`].
    keys: Vec<f64>,
    left: Vec<f64>,
    /// Position of each job in the sorted sets.
    spots: Vec<Option<QuickSpot>>,
    /// Pending jobs by class, in descending order of worth over rent.
    waiting: BTreeMap<usize, BTreeSet<(Reverse<OrderedNumber>, usize)>>,
    /// Movable running jobs by their GPUs, in ascending order of worth per second.
    running: BTreeMap<Arc<[u32]>, BTreeSet<(OrderedNumber, usize)>>,
}

/// A non-negative number, encoded so that integers sort alike.
type OrderedNumber = u64;

#[derive(Clone, Debug)]
enum QuickSpot {
    Waiting { class: usize, rank: OrderedNumber },
    Running { counts: Arc<[u32]>, rank: OrderedNumber },
}

/// With fewer jobs than this, every decision is a full one.
const FEW: usize = 64;

/// One of every `jobs / JOBS_PER_DECISION` decisions is a full one.
const JOBS_PER_DECISION: usize = 8;

/// Maximum number of pending jobs that may replace a running one in a decision.
const PUSHES: usize = 2;

/// Horizon for counting gains, relative to the expected duration of new placements.
const FORESEEN: f64 = 2.0;

/// Input of a decision.
#[derive(Clone, Copy)]
pub(super) struct DecisionView<'a> {
    pub problem: &'a Problem,
    pub roster: &'a Roster,
    pub outlook: &'a PriceOutlook,
    pub preempts: bool,
}

impl DecisionView<'_> {
    fn task(&self, job: usize) -> Option<Task> {
        self.roster.task(self.problem.now, job)
    }
}

impl Quick {
    /// Returns whether a quick decision suffices now.
    pub(super) fn is_enough(&self, jobs: usize) -> bool {
        jobs >= FEW && self.since.is_some_and(|since| since + 1 < jobs / JOBS_PER_DECISION)
    }

    /// Drops all data, so that the next decision is a full one.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Sorts all jobs by the data of a full decision.
    pub(super) fn take_up(&mut self, view: DecisionView<'_>, jobs: &[usize], worths: Worths) {
        *self = Self { since: Some(0), keys: worths.keys, left: worths.left, ..Self::default() };
        for (&job, worth) in jobs.iter().zip(worths.of) {
            self.reserve(job);
            self.worths[job] = worth;
        }
        for &job in jobs {
            self.sort_in(view, job);
        }
    }

    /// Updates the changed jobs.
    pub(super) fn follow(&mut self, view: DecisionView<'_>) {
        let ProblemChanges::Since { came, left, other } = &view.problem.changed else { return };
        if self.since.is_none() {
            return;
        }
        for &job in left {
            self.sort_out(job);
            if let Some(worth) = self.worths.get_mut(job) {
                *worth = 0.0;
            }
        }
        came.iter().chain(other).for_each(|&job| self.sort_in(view, job));
    }

    fn reserve(&mut self, job: usize) {
        if self.worths.len() <= job {
            self.worths.resize(job + 1, 0.0);
            self.spots.resize(job + 1, None);
        }
    }

    fn sort_out(&mut self, job: usize) {
        match self.spots.get_mut(job).and_then(Option::take) {
            Some(QuickSpot::Waiting { class, rank }) => {
                let queue = self.waiting.get_mut(&class);
                queue.map(|queue| queue.remove(&(Reverse(rank), job)));
            }
            Some(QuickSpot::Running { counts, rank }) => {
                let queue = self.running.get_mut(&counts);
                queue.map(|queue| queue.remove(&(rank, job)));
            }
            None => {}
        }
    }

    fn sort_in(&mut self, view: DecisionView<'_>, job: usize) {
        self.reserve(job);
        self.sort_out(job);
        let Some(task) = view.task(job) else { return };
        if self.worths[job] <= 0.0 {
            self.worths[job] = self.worth_of(view, &task);
        }
        let worth = self.worths[job];
        let Some(place) = task.placement else {
            let bundles = &view.roster.classes.list()[task.class].bundles;
            let density = |bundle: usize| {
                worth * bundles.speed(bundle) / bundles.rent(bundle, &view.outlook.prices).max(1e-12)
            };
            let rank = (0..bundles.len()).map(density).fold(0.0, f64::max).to_bits();
            self.waiting.entry(task.class).or_default().insert((Reverse(rank), job));
            self.spots[job] = Some(QuickSpot::Waiting { class: task.class, rank });
            return;
        };
        if place.movable {
            let rank = (worth * place.speed).to_bits();
            self.running.entry(Arc::clone(&place.counts)).or_default().insert((rank, job));
            self.spots[job] = Some(QuickSpot::Running { counts: place.counts, rank });
        }
    }

    /// Returns the worth of a new job's step, from its position among the known jobs.
    fn worth_of(&self, view: DecisionView<'_>, task: &Task) -> f64 {
        let class = &view.roster.classes.list()[task.class];
        let prices = &view.outlook.prices;
        let key = to_do(task, class.fastest) * class.bundles.unit_cost(1.0, prices) / task.weight;
        let place = self.keys.partition_point(|&other| other > key);
        let left = self.left.get(place).or(self.left.last()).copied().unwrap_or(1.0);
        let mut there = vec![0.0; prices.len()];
        view.outlook.path.at(left, &mut there);
        class.bundles.unit_cost(task.weight, &there)
    }

    /// Returns the jobs that get the `idle` GPUs, given by type, and the jobs that they replace.
    pub(super) fn decide(&mut self, view: DecisionView<'_>, idle: &[u32]) -> Vec<Want> {
        self.since = self.since.map(|since| since + 1);
        let mut free: Vec<i64> = idle.iter().map(|&count| i64::from(count)).collect();
        let mut wants = Vec::new();
        self.fill(view, &mut free, &mut wants);
        if view.preempts {
            let heads = self.heads();
            for job in heads.into_iter().take(PUSHES) {
                self.push(view, job, &mut free, &mut wants);
            }
            self.fill(view, &mut free, &mut wants);
        }
        wants
    }

    /// Gives free GPUs to pending jobs, in descending order of worth over rent.
    fn fill(&mut self, view: DecisionView<'_>, free: &mut [i64], wants: &mut Vec<Want>) {
        let classes = view.roster.classes.list();
        let fitting = |class: usize, free: &[i64]| {
            let bundles = &classes[class].bundles;
            let fitting = (0..bundles.len()).filter(|&index| fits(free, bundles.counts(index)));
            fitting.collect::<Vec<usize>>()
        };
        let mut able: Vec<usize> =
            self.waiting.iter().filter(|(_, jobs)| !jobs.is_empty()).map(|(class, _)| *class).collect();
        while free.iter().any(|&free| free > 0) {
            able.retain(|class| !self.waiting[class].is_empty() && !fitting(*class, free).is_empty());
            let head = |class: &usize| self.waiting[class].first().map(|&(rank, job)| (rank, job, *class));
            let Some((_, job, class)) = able.iter().filter_map(head).min() else { return };
            let bundles = &classes[class].bundles;
            let worth = self.worths[job];
            let surplus =
                |bundle: usize| worth * bundles.speed(bundle) - bundles.rent(bundle, &view.outlook.prices);
            let best = fitting(class, free).into_iter().max_by(|&a, &b| surplus(a).total_cmp(&surplus(b)));
            let Some(best) = best else { return };
            self.sort_out(job);
            add(free, bundles.counts(best), -1);
            wants.push(Want::place(job, bundles.counts(best).to_vec()));
        }
    }

    /// Returns up to [`PUSHES`] pending jobs of each class, those with the highest worth over rent, in
    /// descending order over all classes.
    fn heads(&self) -> Vec<usize> {
        let first = |jobs: &BTreeSet<(Reverse<OrderedNumber>, usize)>| {
            jobs.iter().take(PUSHES).copied().collect::<Vec<_>>()
        };
        let mut heads: Vec<(Reverse<OrderedNumber>, usize)> = self.waiting.values().flat_map(first).collect();
        heads.sort_unstable();
        heads.into_iter().map(|(_, job)| job).collect()
    }

    /// Gives a pending job free GPUs and those of the running job whose replacement has the largest gain, if
    /// there is a gain.
    fn push(&mut self, view: DecisionView<'_>, job: usize, free: &mut [i64], wants: &mut Vec<Want>) {
        let Some(task) = view.task(job) else { return };
        let bundles = &view.roster.classes.list()[task.class].bundles;
        let foreseen = FORESEEN * view.outlook.life(view.roster.count());
        let mut best: Option<(f64, usize, usize)> = None;
        for (counts, jobs) in &self.running {
            let Some(&(rank, other)) = jobs.first() else { continue };
            let mut room = free.to_vec();
            add(&mut room, counts, 1);
            let lost = f64::from_bits(rank);
            let restart = view.problem.jobs[other].progress.restart_cost.0;
            for bundle in (0..bundles.len()).filter(|&index| fits(&room, bundles.counts(index))) {
                let speed = bundles.speed(bundle);
                let lasts = (task.left / speed).min(foreseen);
                let gain = (self.worths[job] * speed - lost) * lasts - restart * lost;
                if gain > best.map_or(0.0, |best| best.0) {
                    best = Some((gain, other, bundle));
                }
            }
        }
        let Some((_, other, bundle)) = best else { return };
        let Some(QuickSpot::Running { counts, .. }) = self.spots[other].clone() else { return };
        add(free, &counts, 1);
        add(free, bundles.counts(bundle), -1);
        self.sort_out(other);
        self.sort_out(job);
        wants.push(Want::wait(other));
        wants.push(Want::place(job, bundles.counts(bundle).to_vec()));
    }
}
