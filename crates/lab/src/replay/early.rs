//! The rules by which a job of a trace may end before its last epoch.

use hsched_model::{GoalMode, Job, Stop, StopRule};
use hsched_plan::curve::{CurvePoint, Goal, MetricKind};

/// The stopping rule of a job, and its data.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyRule {
    pub stop: Stop,
    pub mode: GoalMode,
    /// The kind of the target's metric.
    pub kind: MetricKind,
    /// The value at which the job may stop.
    pub target: Option<f64>,
    /// The target's metric after each epoch, including future ones.
    pub values: Vec<f64>,
}

impl EarlyRule {
    /// Returns the rule of a job; `None` if it never stops early, or the trace does not contain its metrics.
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

    /// Returns the reports after a number of epochs.
    pub fn reports(&self, epochs: usize) -> Vec<CurvePoint> {
        (1..)
            .zip(self.values.iter().take(epochs))
            .map(|(epoch, &value)| CurvePoint { epoch, value })
            .collect()
    }

    /// Returns the goal of a job with a number of epochs.
    pub fn goal(&self, epochs: u64) -> Goal {
        let min_reports = Goal::MIN_REPORTS;
        Goal { mode: self.mode, kind: self.kind, epochs, target: self.target, tolerance: None, min_reports }
    }
}
