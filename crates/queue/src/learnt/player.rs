//! The simulation's estimates for pending jobs, for comparison with their actual starts.

use crate::learnt::seen_job::NumberOf;
use crate::learnt::site_log::{SiteLog, key};
use crate::{Forecast, PendingJob, Question, RequestId, Snapshot, forecast_at};

/// Number of futures per job: only quantiles are compared, and no request is chosen by them.
const SAMPLES: usize = 20;

/// Maximum number of jobs estimated per look.
const JOBS: usize = 6;

impl SiteLog {
    /// Stores the simulation's estimates for some pending jobs of the last look that have none, for as many
    /// as time allows; returns whether any were stored.
    pub fn estimate_pending(
        &mut self,
        snapshot: &Snapshot,
        number: NumberOf,
        seed: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> bool {
        let mut has_new = false;
        let new: Vec<u64> = self.without_estimate().collect();
        // Different seeds select different jobs.
        let step = new.len().div_ceil(JOBS).max(1);
        let first = usize::try_from(seed).unwrap_or_default() % step;
        let ids: Vec<&String> = snapshot.jobs.iter().map(|job| &job.id).collect();
        let keys: Vec<u64> = snapshot.jobs.iter().map(|job| key(job, number)).collect();
        for job in new.into_iter().skip(first).step_by(step) {
            if stop() {
                break;
            }
            let place = keys.iter().position(|key| *key == job);
            let taken = place.and_then(|place| PendingJob::take(snapshot, ids[place]));
            let Some(pending) = taken else { continue };
            let requests = [pending.request(RequestId(0))];
            let question = Question {
                snapshot: &pending.rest,
                requests: &requests,
                seed,
                samples: SAMPLES,
                calibration: None,
            };
            let estimates = forecast_at(&question, &[(RequestId(0), pending.position())], stop);
            let forecast = estimates.first().and_then(|estimate| estimate.start.forecast());
            let is_told = |forecast: &&Forecast| !forecast.starts.is_empty() || forecast.past_waits > 0;
            if let Some(forecast) = forecast.filter(is_told) {
                self.set_player(job, &forecast.start);
                has_new = true;
            }
        }
        has_new
    }
}
