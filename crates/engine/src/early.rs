//! Early stops: ends jobs before their last epoch according to the rules in their job files, from the metrics
//! that rank 0 reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::mark::intend;
use crate::{Action, AfterStop, JobState, Phase, Stage, State, Submission};
use hsched_model::number::to_f64;
use hsched_model::{Availability, Cluster, Node, Seconds, Stop, StopRule, Time};
use hsched_plan::curve::{
    CurvePoint, CurveVerdict, Goal, MetricKind, behind, bracket, first_rung, judge_running,
};

/// An early stop: a job need not train until its last epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlyEnd {
    /// Reason, such as `nothing to gain (best 0.781, expected 0.784 ± 0.006)`.
    pub why: String,
    /// Whether the job's rule allows the stop; if not, hsched prints one note about it.
    pub allowed: bool,
    /// Number of epochs done when the stop was decided; `None` in states of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// Number of epochs that a program may report after the decision to stop it before it counts as ignoring the
/// request: the epoch that it was training, and one more until it gets the signal.
const EPOCHS_TO_EXIT: u64 = 2;

/// A training with less time left than this may end before a request to stop takes effect.
const SHORT: Seconds = Seconds(5.0);

/// The maximum number of points of a job's stored curve.
const MOST_REPORTS: usize = 1000;

/// Mean utilisation above which a cluster counts as busy, `h_s`.
const BUSY: f64 = 0.9;

/// Ends jobs that may stop early: returns the requests for that, and messages about jobs that could stop but
/// have no rule that allows it.
pub(super) fn stop(state: &mut State, at: Time, cluster: &Cluster) -> (Vec<Action>, Vec<String>) {
    let (mut actions, mut notes) = (Vec::new(), Vec::new());
    let is_full = is_full(cluster);
    state.settle_places();
    for place in 0..state.jobs.len() {
        let others_wait = state.others_wait(&state.jobs[place]);
        let behind = state.behind(&state.jobs[place]);
        let tracked = &mut state.jobs[place];
        let epoch = Some(tracked.epochs_done);
        if tracked.phase.is_over() || tracked.early.as_ref().is_some_and(|early| early.allowed) {
            continue;
        }
        if let Some(why) = behind.or_else(|| tracked.may_stop(others_wait || is_full)) {
            tracked.early = Some(EarlyEnd { why, allowed: true, epoch });
        } else if tracked.early.is_none() {
            let Some(why) = tracked.might_stop() else { continue };
            notes.push(format!(
                "{}: would stop {}, but its job file does not allow it",
                tracked.job.name,
                tracked.stopped(&why)
            ));
            tracked.early = Some(EarlyEnd { why, allowed: false, epoch });
        }
    }
    for place in 0..state.jobs.len() {
        actions.extend(end(state, place, at));
    }
    (actions, notes)
}

/// Returns the requests that end a job that may stop, and marks them in the state. A job without a submission
/// ends at once.
fn end(state: &mut State, place: usize, at: Time) -> Vec<Action> {
    let tracked = &mut state.jobs[place];
    let Some(early) = tracked.early.clone().filter(|early| early.allowed) else { return Vec::new() };
    if let Phase::Waiting { .. } = tracked.phase {
        tracked.finish_early(at, &early.why);
        return Vec::new();
    }
    let why = tracked.stopped(&early.why);
    let name = tracked.job.name.clone();
    let mut actions = Vec::new();
    for Submission { attempt, stage } in tracked.phase.submissions_mut() {
        let Some(job_id) = attempt.job_id else { continue };
        let (of, why) = (attempt.key(&name), why.clone());
        match stage {
            Stage::Running => actions.push(Action::Stop { of, job_id, then: AfterStop::Finish, why }),
            Stage::Pending => actions.push(Action::Cancel { of, job_id, why }),
            // The job was to continue later.
            Stage::Stopping { then: then @ AfterStop::GoOn, .. } => *then = AfterStop::Finish,
            Stage::Meant | Stage::Stopping { .. } => {}
        }
    }
    for action in &actions {
        intend(state, action, AfterStop::Finish, at);
    }
    actions
}

/// Returns whether the cluster is busy, by the mean utilisation of its nodes' GPUs, CPUs and memory.
fn is_full(cluster: &Cluster) -> bool {
    let degrees: Vec<f64> = cluster.nodes.iter().filter_map(degree).collect();
    let count = to_f64(degrees.len());
    degrees.iter().sum::<f64>() > BUSY * count
}

/// Returns ‖u‖/√M, where u holds the used fractions of a node's M resources; `None` for a node that accepts
/// no work or has no GPUs.
fn degree(node: &Node) -> Option<f64> {
    if node.state.availability() != Availability::Up || node.gpu_total() == 0 {
        return None;
    }
    let used: u32 = node.gpus.iter().map(|stock| stock.used).sum();
    let part = |used: u64, total: u64| (total > 0).then(|| to_f64(used) / to_f64(total));
    let others = [node.cpus, node.memory].into_iter().flatten();
    let parts = others.map(|usage| (usage.total.saturating_sub(usage.free()), usage.total));
    let parts: Vec<f64> = parts
        .chain([(u64::from(used), u64::from(node.gpu_total()))])
        .filter_map(|(used, total)| part(used, total))
        .collect();
    let count = to_f64(parts.len());
    Some((parts.iter().map(|part| part * part).sum::<f64>() / count).sqrt())
}

impl State {
    /// Returns whether another job of the state waits for GPUs, submitted or not.
    fn others_wait(&self, tracked: &JobState) -> bool {
        let waits = |job: &JobState| match &job.phase {
            Phase::Waiting { .. } => job.awaits.is_none(),
            phase => phase.foremost().is_some_and(|submission| submission.stage == Stage::Pending),
        };
        self.jobs.iter().any(|job| job.job.name != tracked.job.name && waits(job))
    }
}

impl State {
    /// Assigns positions to the jobs of each sweep with a halving rule, after the jobs that already have one.
    fn settle_places(&mut self) {
        let mut next: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let mut places: Vec<Option<u64>> = self.jobs.iter().map(|job| job.place).collect();
        for (job, place) in self.jobs.iter().filter_map(|job| Some((job.halved()?, job.place?))) {
            let next = next.entry(job).or_default();
            *next = (*next).max(place + 1);
        }
        for (job, place) in self.jobs.iter().zip(&mut places).filter(|(_, place)| place.is_none()) {
            let Some(sweep) = job.halved() else { continue };
            let next = next.entry(sweep).or_default();
            *place = Some(*next);
            *next += 1;
        }
        self.jobs.iter_mut().zip(places).for_each(|(job, place)| job.place = place);
    }

    /// Returns why a job of a sweep with a halving rule stops: it is not among the best at the rung that it
    /// has reached. The comparison covers the jobs of its bracket.
    fn behind(&self, tracked: &JobState) -> Option<String> {
        let (sweep, target, stop) = (tracked.halved()?, tracked.job.target.as_ref()?, &tracked.job.stop);
        let bracket_of = |job: &JobState| bracket(job.place.unwrap_or_default(), stop.brackets);
        let own_bracket = bracket_of(tracked);
        let is_other = |job: &&JobState| {
            job.halved() == Some(sweep) && job.job.name != tracked.job.name && bracket_of(job) == own_bracket
        };
        let others = self.jobs.iter().filter(is_other);
        let others: Vec<&[CurvePoint]> = others.map(|job| job.curve.as_slice()).collect();
        let limits = (tracked.job.epochs, first_rung(tracked.job.epochs, stop.not_before, own_bracket));
        let ranking = behind(&tracked.curve, &others, target.mode, limits)?;
        let (rung, place, of, kept) = (ranking.rung, ranking.place, ranking.of, ranking.kept);
        Some(format!(
            "halving (place {place} of {of} so far at epoch {rung}; it may continue up to place {kept})"
        ))
    }
}

impl JobState {
    /// Returns the model and the metric of a job with a halving rule. Jobs with the same model and metric
    /// form a sweep and are compared with each other.
    pub(super) fn halved(&self) -> Option<(&str, &str)> {
        let target = self.job.target.as_ref().filter(|_| self.job.stop.rule == StopRule::Halving)?;
        Some((&self.job.model, &target.metric))
    }

    /// Returns the verdict of the job's own rule on its metric curve; `None` if the job has no target, has
    /// not reported its metric or has no epochs left.
    pub fn verdict(&self, busy: bool) -> Option<CurveVerdict> {
        self.judged(&self.job.stop, busy)
    }

    /// Returns the verdict of the most permissive rule for the job's target on its metric curve.
    pub fn free_verdict(&self) -> Option<CurveVerdict> {
        let has_value = self.job.target.as_ref().is_some_and(|target| target.value.is_some());
        let rule = if has_value { StopRule::Target } else { StopRule::Best };
        self.judged(&Stop { rule, give_up: true, ..self.job.stop.clone() }, false)
    }

    fn judged(&self, stop: &Stop, busy: bool) -> Option<CurveVerdict> {
        let target = self.job.target.as_ref()?;
        let goal = Goal {
            mode: target.mode,
            kind: MetricKind::of(&target.metric),
            epochs: self.job.epochs,
            target: target.value,
            tolerance: None,
            min_reports: Goal::MIN_REPORTS,
        };
        judge_running(&self.curve, &goal, stop, busy).filter(|_| self.epochs_left() > 0)
    }

    /// Returns why the job may stop now; `None` if it may not.
    fn may_stop(&self, busy: bool) -> Option<String> {
        self.verdict(busy).filter(|verdict| verdict.stop).and_then(|verdict| verdict.why())
    }

    /// Returns why the job could stop if the user allowed it.
    fn might_stop(&self) -> Option<String> {
        self.free_verdict().filter(|verdict| verdict.stop).and_then(|verdict| verdict.why())
    }

    /// Returns how many epochs the program has trained since the job's rule decided to stop it; `None` if no
    /// rule stopped it, or if a program that exits on request may train that many.
    pub(super) fn trained_on(&self) -> Option<u64> {
        let early = self.early.as_ref().filter(|early| early.allowed)?;
        let epochs = self.epochs_done.saturating_sub(early.epoch?);
        (epochs > EPOCHS_TO_EXIT).then_some(epochs)
    }

    /// Returns the end of a sentence which says that a completed job trained all its epochs although its rule
    /// had stopped it; `None` if it did not.
    pub(super) fn ignored_stop(&self) -> Option<String> {
        let early = self.early.as_ref().filter(|_| self.trained_on().is_some() && self.epochs_left() == 0)?;
        let (epoch, all) = (early.epoch?, self.job.epochs);
        let left = self.epoch.map(|length| length.0 * to_f64(all - epoch.min(all)));
        let why = if left.is_some_and(|left| left < SHORT.0) {
            "its epochs are too short to stop it in time"
        } else {
            "its command does not exit on SIGUSR1"
        };
        Some(format!("all {all} epochs, although it was asked to stop after epoch {epoch}: {why}"))
    }

    /// Returns text with the epoch at which the job stops and the reason.
    fn stopped(&self, why: &str) -> String {
        format!("at epoch {} of {}: {why}", self.epochs_done, self.job.epochs)
    }

    /// Returns text with the epoch at which the job's rule stopped it and the reason; `None` if no rule did,
    /// or if all epochs are done.
    pub fn stopped_early(&self) -> Option<String> {
        let early = self.early.as_ref().filter(|early| early.allowed && self.epochs_left() > 0)?;
        Some(format!("stopped {}", self.stopped(&early.why)))
    }

    /// Records the target's metric after an epoch.
    pub(super) fn remember(&mut self, epoch: u64, metrics: &[(String, f64)]) {
        let Some(target) = &self.job.target else { return };
        let Some((_, value)) = metrics.iter().find(|(name, _)| *name == target.metric) else { return };
        self.curve.push(CurvePoint { epoch, value: *value });
        if self.curve.len() > MOST_REPORTS {
            // Every second point is dropped; the remaining ones describe a long curve equally well.
            let mut place = 0;
            self.curve.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }
}
