//! When a job of a trace may end before its last epoch.

use hsched_model::{GoalMode, Job, Stop, StopRule};
use hsched_plan::curve::{CurvePoint, Goal, MetricKind};

/// By which rule a job may stop, and by what it goes.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyRule {
    pub stop: Stop,
    pub mode: GoalMode,
    /// Of the target's metric.
    pub kind: MetricKind,
    /// The value that is enough.
    pub target: Option<f64>,
    /// What its target's metric is after each epoch, also after those to come.
    pub values: Vec<f64>,
}

impl EarlyRule {
    /// Returns when a job may stop; `None` where it never does, or the trace does not say how its training goes.
    pub fn of(job: &Job) -> Option<Self> {
        let target = job.target.as_ref()?;
        let may_stop = job.stop.rule.max(job.stop.when_busy) > StopRule::Epochs;
        (may_stop && !job.losses.is_empty()).then(|| Self {
            stop: job.stop.clone(),
            mode: target.mode,
            kind: MetricKind::of(&target.metric),
            target: target.value,
            values: job.losses.clone(),
        })
    }

    /// Returns what is known after so many epochs.
    pub fn reports(&self, epochs: usize) -> Vec<CurvePoint> {
        (1..)
            .zip(self.values.iter().take(epochs))
            .map(|(epoch, &value)| CurvePoint { epoch, value })
            .collect()
    }

    /// Returns what a job of so many epochs is to reach.
    pub fn goal(&self, epochs: u64) -> Goal {
        let min_reports = Goal::MIN_REPORTS;
        Goal { mode: self.mode, kind: self.kind, epochs, target: self.target, tolerance: None, min_reports }
    }
}
