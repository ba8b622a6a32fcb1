//! Starts of a job with changes, scaled to a better estimate of its start without changes.
//!
//! The gain of a change is known only from the simulation. If the start without changes was learnt from looks
//! at the site, starts with changes keep their simulated ratio to it.

use crate::estimate::Estimate;
use crate::{ChangeEstimate, ChangeEstimates, Forecast, Start, StartAdvice};
use hsched_model::Seconds;

/// A simulated start in less than this many seconds is not used as a reference.
const AT_ONCE: f64 = 60.0;

impl Estimate {
    /// Returns the estimate with all times multiplied by a factor.
    fn times(self, factor: f64) -> Self {
        let of = |time: Seconds| Seconds(time.0 * factor);
        Self { low: of(self.low), median: of(self.median), high: of(self.high), mean: of(self.mean) }
    }
}

/// Returns the start with a change, by the ratio of the simulated medians with and without it; `None` if
/// there is no ratio.
fn in_proportion(changed: &Start, simulated: &Start, better: &Start) -> Option<Start> {
    let (before, better, changed) = (simulated.forecast()?, better.forecast()?, changed.forecast()?);
    let part = changed.start.median.0 / before.start.median.0;
    let is_known = before.start.median.0 >= AT_ONCE && part.is_finite();
    let run = changed.finish.median.0 - changed.start.median.0;
    let start = better.start.times(part);
    let finish = start.later(Seconds(run));
    is_known.then(|| {
        Start::Estimated(Forecast {
            start,
            finish,
            starts: Vec::new(),
            learnt: better.learnt,
            ..changed.clone()
        })
    })
}

/// Returns how much sooner one start is than another, by the medians.
fn sooner(before: &Start, after: &Start) -> Option<Seconds> {
    let (before, after) = (before.forecast()?, after.forecast()?);
    Some(Seconds(before.start.median.0 - after.start.median.0))
}

impl ChangeEstimates {
    /// Returns the estimates with a better one for the unchanged job; changes that cannot be scaled are
    /// dropped.
    #[must_use]
    pub fn corrected(self, better: Start) -> Self {
        let Self { as_is, list } = self;
        let corrected = |estimate: ChangeEstimate| {
            let start = in_proportion(&estimate.start, &as_is, &better)?;
            let median = |start: &Start| start.forecast().map_or(0.0, |forecast| forecast.start.median.0);
            let run = estimate.done.map(|done| done.median.0 - median(&estimate.start));
            let done = run.zip(start.forecast()).map(|(run, forecast)| forecast.start.later(Seconds(run)));
            Some(ChangeEstimate { sooner: sooner(&better, &start), start, done, ..estimate })
        };
        Self { list: list.into_iter().filter_map(corrected).collect(), as_is: better }
    }
}

impl StartAdvice {
    /// Returns the advice with a better estimate for the unchanged pending job, like
    /// `ChangeEstimates::corrected`.
    #[must_use]
    pub fn corrected(self, better: Start) -> Self {
        let Self { as_is, advice, is_looked_for } = self;
        let simulated = as_is.unwrap_or(Start::Never);
        let corrected = |mut advice: crate::Advice| {
            advice.start = in_proportion(&advice.start, &simulated, &better)?;
            advice.sooner = sooner(&better, &advice.start);
            Some(advice)
        };
        let advice = advice.into_iter().filter_map(corrected).collect();
        Self { as_is: Some(better), advice, is_looked_for }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(median: f64, is_learnt: bool) -> Start {
        let [low, median, high] = [median / 2.0, median, median * 4.0].map(Seconds);
        let start = Estimate { low, median, high, mean: high };
        let finish = start.later(Seconds(100.0));
        let learnt = is_learnt.then_some(crate::learnt::LearntBasis { days: 14.0, starts: 40 });
        Start::Estimated(Forecast {
            at_limits: None,
            start,
            finish,
            first: 0.0,
            starts: vec![median],
            past_waits: 0,
            learnt,
            waiting: 0,
            ahead: 0,
        })
    }

    #[test]
    fn changes_keep_their_ratio_to_the_start_as_it_is() {
        let scaled = in_proportion(&start(900.0, false), &start(3600.0, false), &start(7200.0, true));
        let forecast = scaled.as_ref().and_then(Start::forecast).expect("a start");
        assert_eq!((forecast.start.median, forecast.start.high), (Seconds(1800.0), Seconds(7200.0)));
        assert_eq!(forecast.finish.median, Seconds(1900.0));
        assert!(forecast.learnt.is_some() && forecast.starts.is_empty());
    }

    #[test]
    fn what_starts_at_once_in_the_simulation_is_no_measure() {
        assert_eq!(in_proportion(&start(10.0, false), &start(20.0, false), &start(7200.0, true)), None);
        assert_eq!(in_proportion(&start(10.0, false), &Start::Never, &start(7200.0, true)), None);
    }
}
