//! The runs of one job name, and their review.

use std::collections::BTreeMap;

use crate::SlurmState;
use crate::accounting::AccountedRun;
use crate::review::advice::{self, ENOUGH, ResourceNeeds, Rounding};
use crate::review::quantiles::{quantile, sorted};
use crate::review::{gpus, lines};
use hsched_model::number::to_f64;

/// The review of all runs of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct NameReview {
    /// The job's name as printed.
    pub name: String,
    pub runs: usize,
    /// In seconds.
    pub time: Quantity,
    /// In MiB per node.
    pub memory: Quantity,
    /// For the whole job.
    pub cpus: Quantity,
    /// For the whole job; its use is in `idle_share`.
    pub gpus: Quantity,
    /// The idle fraction of the GPUs; `None` if it was not measured.
    pub idle_share: Option<f64>,
    /// The runs that did not complete, by their state in lower case.
    pub failures: BTreeMap<String, usize>,
    /// Number of runs that completed or ended because of their time or memory limit: a recommendation could
    /// have cut them.
    pub ended: usize,
    /// Number of those runs that the recommendations would have cut.
    pub cut: usize,
    pub waited_h: f64,
    /// The recommended options of `sbatch`.
    pub sbatch: Vec<String>,
    /// The newest run, whose request counts as the present one.
    pub latest: AccountedRun,
}

/// Request, use and recommendation for one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantity {
    pub asked: Option<f64>,
    pub used_p50: Option<f64>,
    pub used_p95: Option<f64>,
    /// `None` if no change is recommended.
    pub recommended: Option<f64>,
}

/// Returns reviews of past runs by name; names with more runs come first.
pub fn review(runs: &[AccountedRun]) -> Vec<NameReview> {
    let mut by_name: BTreeMap<&str, Vec<&AccountedRun>> = BTreeMap::new();
    for run in runs {
        by_name.entry(&run.name).or_default().push(run);
    }
    let mut reviews: Vec<NameReview> = by_name.into_values().filter_map(|runs| of_name(&runs)).collect();
    reviews.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.name.cmp(&b.name)));
    reviews
}

/// A run that was stopped after at least this fraction of the present time limit, or that had at least this
/// fraction of the present memory, counts as stopped at the present request, because Slurm may end a run
/// slightly early.
const SAME: f64 = 0.98;

/// Assumed need of a stopped run beyond its limit, in seconds or MiB.
const MORE: f64 = 1.0;

fn of_name(runs: &[&AccountedRun]) -> Option<NameReview> {
    let latest =
        *runs.iter().max_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal))?;
    let mut failures = BTreeMap::new();
    for run in runs.iter().filter(|run| run.state != SlurmState::Completed) {
        *failures.entry(run.state.to_string().to_lowercase()).or_insert(0) += 1;
    }
    let ended: Vec<&AccountedRun> = runs.iter().copied().filter(|run| could_be_cut(run)).collect();
    let whole = || ended.iter().copied().filter(|run| run.state != SlurmState::OutOfMemory);
    let waited = runs.iter().map(|run| run.waited().0).sum::<f64>();
    let mut review = NameReview {
        name: latest.name.clone(),
        runs: runs.len(),
        time: used(latest.limit.map(|limit| limit.0), whole().map(|run| run.elapsed().0)),
        memory: used(latest.memory.map(|memory| memory.mib), ended.iter().filter_map(|run| run.used_mib())),
        cpus: used(latest.cpus.map(to_f64), whole().filter_map(AccountedRun::used_cpus)),
        gpus: Quantity { asked: latest.gpus.map(f64::from), ..Quantity::default() },
        idle_share: gpus::idle_share(whole()),
        failures,
        ended: ended.len(),
        cut: 0,
        waited_h: waited / 3600.0,
        sbatch: Vec::new(),
        latest: latest.clone(),
    };
    if runs.len() >= ENOUGH {
        review.recommend(&ended);
    }
    review.sbatch = lines::options(&review, latest);
    Some(review)
}

/// Returns the sort key of a run among those of its name.
fn order(run: &AccountedRun) -> (f64, f64) {
    (run.submitted.unwrap_or(run.started).0, run.started.0)
}

/// Returns whether Slurm ended a run for another job or to start it again, which says nothing about the run.
fn is_interrupted(state: &SlurmState) -> bool {
    matches!(state, SlurmState::Preempted | SlurmState::Requeued | SlurmState::RequeueHold)
}

fn could_be_cut(run: &AccountedRun) -> bool {
    matches!(run.state, SlurmState::Completed | SlurmState::Timeout | SlurmState::OutOfMemory)
}

fn used(asked: Option<f64>, uses: impl Iterator<Item = f64>) -> Quantity {
    let uses = sorted(uses);
    Quantity { asked, used_p50: quantile(&uses, 0.5), used_p95: quantile(&uses, 0.95), recommended: None }
}

impl NameReview {
    /// Returns the fraction of the runs counted in `ended` that the recommendations would have cut.
    pub fn cut_share(&self) -> f64 {
        to_f64(self.cut) / to_f64(self.ended.max(1))
    }

    /// Returns the runs that Slurm preempted or requeued (`interrupted`), or all others that did not complete, by their
    /// state in lower case.
    pub fn incomplete(&self, interrupted: bool) -> impl Iterator<Item = (&str, usize)> {
        let is_meant = move |kind: &str| is_interrupted(&SlurmState::parse(kind)) == interrupted;
        let kinds = self.failures.iter().map(|(kind, runs)| (kind.as_str(), *runs));
        kinds.filter(move |(kind, _)| is_meant(kind))
    }

    /// Returns the number of runs that were not interrupted.
    pub fn uninterrupted(&self) -> usize {
        self.runs - self.incomplete(true).map(|(_, runs)| runs).sum::<usize>()
    }

    /// Adds the recommendations, from the runs that could have been cut.
    fn recommend(&mut self, ended: &[&AccountedRun]) {
        let may_cut = advice::may_cut(ended.len());
        let time = self.time.asked.map(|asked| time_needs(asked, ended));
        self.time.recommended = time.and_then(|needs| advice::recommended(&needs, may_cut, TIME));
        self.cut = self.count_cut(ended);
        let left = may_cut.saturating_sub(self.cut);
        let memory = self.memory.asked.map(|asked| memory_needs(asked, ended));
        self.memory.recommended = memory.and_then(|needs| advice::recommended(&needs, left, MEMORY));
        self.cut = self.count_cut(ended);
        // In unforeseeable cases, such as a request that has been reduced since, the recommendations may cut
        // more runs.
        if self.cut > may_cut {
            self.memory.recommended = None;
            self.cut = self.count_cut(ended);
        }
        if self.cut > may_cut {
            self.time.recommended = None;
            self.cut = self.count_cut(ended);
        }
        let whole = || ended.iter().copied().filter(|run| run.state != SlurmState::OutOfMemory);
        let cores = sorted(whole().filter_map(AccountedRun::used_cpus));
        self.cpus.recommended =
            self.latest.cpus.and_then(|asked| cpus(asked, lines::tasks(&self.latest), &cores));
        self.gpus.recommended =
            self.latest.gpus.and_then(|asked| gpus::recommended(asked, whole())).map(f64::from);
    }

    fn count_cut(&self, ended: &[&AccountedRun]) -> usize {
        ended.iter().filter(|run| self.cuts(run)).count()
    }

    /// Returns whether the recommended time or memory would have ended a run.
    fn cuts(&self, run: &AccountedRun) -> bool {
        let elapsed = run.elapsed().0;
        let by_time = self
            .time
            .recommended
            .is_some_and(|limit| elapsed > limit || (run.state == SlurmState::Timeout && elapsed >= limit));
        let by_memory = self.memory.recommended.is_some_and(|mib| {
            let had = run.memory.map_or(0.0, |memory| memory.mib);
            run.used_mib().is_some_and(|used| used > mib)
                || (run.state == SlurmState::OutOfMemory && had >= mib)
        });
        by_time || by_memory
    }
}

fn time_needs(asked: f64, ended: &[&AccountedRun]) -> ResourceNeeds {
    let timed_out = |run: &&&AccountedRun| run.state == SlurmState::Timeout;
    let at_limit = |run: &&&AccountedRun| timed_out(run) && run.elapsed().0 >= SAME * asked;
    let whole = ended.iter().filter(|run| run.state != SlurmState::OutOfMemory && !at_limit(run));
    ResourceNeeds {
        asked,
        uses: sorted(whole.map(|run| run.elapsed().0 + if timed_out(&run) { MORE } else { 0.0 })),
        stopped: ended.iter().filter(at_limit).count(),
    }
}

fn memory_needs(asked: f64, ended: &[&AccountedRun]) -> ResourceNeeds {
    let had = |run: &AccountedRun| run.memory.map_or(0.0, |memory| memory.mib);
    let ran_out = |run: &&&AccountedRun| run.state == SlurmState::OutOfMemory;
    let at_limit = |run: &&&AccountedRun| ran_out(run) && had(run) >= SAME * asked;
    let uses = ended.iter().filter(|run| !at_limit(run)).filter_map(|run| {
        let more = ran_out(&run).then(|| had(run) + MORE);
        run.used_mib().into_iter().chain(more).reduce(f64::max)
    });
    ResourceNeeds { asked, uses: sorted(uses), stopped: ended.iter().filter(at_limit).count() }
}

/// Margin for runs that temporarily use more CPUs.
const CPU_ROOM: f64 = 1.2;

/// Returns the recommended CPUs, the same number per task; `None` if no change is recommended. Fewer CPUs do
/// not end a run, so rare peaks are ignored.
fn cpus(asked: u64, tasks: u64, cores: &[f64]) -> Option<f64> {
    let usual = quantile(cores, advice::USUAL).filter(|_| cores.len() >= ENOUGH)?;
    let (asked, tasks) = (to_f64(asked), to_f64(tasks));
    let wanted = (usual * CPU_ROOM / tasks).ceil().max(1.0) * tasks;
    (wanted <= advice::worth_it(asked, usual)).then_some(wanted)
}

/// Limits are whole minutes; longer ones are rounded up more coarsely.
const TIME: Rounding = Rounding {
    up: |seconds| {
        up(seconds, &[(1800.0, 60.0), (7200.0, 300.0), (43_200.0, 900.0), (172_800.0, 1800.0)], 3600.0)
    },
    down: |seconds| (seconds / 60.0).floor() * 60.0,
};

/// Memory is rounded down to whole MiB; or up, with a step of 64 MiB below 2 GiB, 512 MiB below 8 GiB, and
/// 1 GiB from there on.
const MEMORY: Rounding =
    Rounding { up: |mib| up(mib, &[(2048.0, 64.0), (8192.0, 512.0)], 1024.0), down: f64::floor };

/// Rounds up to the step of the first range that contains the value.
fn up(value: f64, steps: &[(f64, f64)], last: f64) -> f64 {
    let step = steps.iter().find(|(below, _)| value < *below).map_or(last, |(_, step)| *step);
    (value / step).ceil() * step
}
