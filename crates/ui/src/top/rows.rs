//! A job as a row, and a curve as a line of characters.

use crate::metric::metric;
use crate::status::JobSummary;
use crate::terminal::harmless;
use hsched_engine::{JobState, ScriptJob};
use hsched_model::Time;
use hsched_model::number::{to_f64, to_usize};

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct TopRow {
    pub name: String,
    pub state: &'static str,
    pub gpus: String,
    /// Completed and total epochs; `None` for a script or a command.
    pub epochs: Option<(u64, u64)>,
    /// When the job ends or ended or, while it waits, when it is expected to start.
    pub ends: String,
    pub metric: String,
    /// Values of the metric by epoch; epochs without one are left out.
    pub curve: Vec<f64>,
    /// Whether the job is stuck.
    pub is_stuck: bool,
    pub is_over: bool,
}

/// Characters of a sparkline, from the lowest to the highest value.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl TopRow {
    /// Returns the row of a job; `start` is its expected start as text.
    pub fn of_job(
        tracked: &JobState,
        named_metric: Option<&(String, f64)>,
        curve: Vec<f64>,
        start: Option<String>,
        now: Time,
    ) -> Self {
        let summary = JobSummary::new(tracked);
        let gpus = summary.race_gpus().or_else(|| Some(summary.attempt?.gpus.to_string()));
        Self {
            name: tracked.job.name.to_string(),
            state: tracked.phase.word(),
            gpus: gpus.unwrap_or_else(|| "-".to_owned()),
            epochs: (!tracked.job.is_command()).then_some((tracked.epochs_done, tracked.job.epochs)),
            ends: start.or_else(|| summary.ends(now)).unwrap_or_else(|| "-".to_owned()),
            metric: named_metric.map_or_else(|| "-".to_owned(), |(name, value)| metric(name, *value)),
            curve,
            is_stuck: summary.stall().is_some(),
            is_over: tracked.phase.is_over(),
        }
    }

    /// Returns the row of a script.
    pub fn of_script(script: &ScriptJob, start: Option<String>) -> Self {
        Self {
            name: script.name.to_string(),
            state: script.word(),
            gpus: "-".to_owned(),
            epochs: None,
            ends: start.unwrap_or_else(|| "-".to_owned()),
            metric: harmless(&script.last.1),
            curve: Vec::new(),
            is_stuck: false,
            is_over: script.is_over(),
        }
    }
}

/// Returns values as one line of a maximum length; if there are more values, each character is the mean of
/// several. Values that are not finite are left out.
pub(super) fn sparkline(values: &[f64], width: usize) -> String {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let count = finite.len().min(width);
    let mean = |place: usize| {
        let (from, to) = (place * finite.len() / count, (place + 1) * finite.len() / count);
        finite[from..to].iter().sum::<f64>() / to_f64((to - from) as u64)
    };
    let means: Vec<f64> = (0..count).map(mean).collect();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let level = |value: &f64| {
        let part = if high > low { (value - low) / (high - low) } else { 0.0 };
        LEVELS[to_usize((part * 7.0).round()).min(7)]
    };
    means.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_fits_its_width_and_spans_all_levels() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[8.0, 6.0, 3.0, 1.0], 2), "█▁");
        assert_eq!(sparkline(&[2.0, f64::NAN, 2.0], 9), "▁▁");
        assert_eq!((sparkline(&[], 9), sparkline(&[1.0], 0)), (String::new(), String::new()));
        let long: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(sparkline(&long, 7).chars().count(), 7);
    }
}
