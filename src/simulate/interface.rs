//! The simulated cluster as the engine sees it.

use std::convert::Infallible;

use crate::engine::{self, Batch, News, Observation, State};
use crate::model::{JobId, JobName, Seconds};
use crate::simulate::World;

impl engine::World for World {
    type Error = Infallible;

    fn observe(&mut self, state: &State) -> Result<Observation, Infallible> {
        let mut seen = Observation {
            at: self.now(),
            cluster: self.cluster(),
            sightings: Vec::new(),
            strays: Vec::new(),
            epochs: Vec::new(),
            odd: Vec::new(),
            notes: Vec::new(),
        };
        for own in self.submissions() {
            let Some(tracked) = state.find(&own.job.name) else { continue };
            if tracked.phase.attempt().is_some_and(|attempt| attempt.run == own.run) {
                seen.sightings.push(own.sighting());
                let new = own.reports.iter().filter(|report| report.epoch > tracked.epochs_done);
                seen.epochs.extend(new.map(|report| (own.job.name.clone(), own.run.clone(), report.clone())));
            }
        }
        Ok(seen)
    }

    fn prepare(&mut self, _: &Batch) -> Result<(), String> {
        Ok(())
    }

    fn submit(&mut self, batch: &Batch, job: usize) -> News {
        match self.enqueue(batch, job) {
            Some(job_id) => News::Submitted { job_id },
            None => News::Refused { message: "the plan does not place it".to_owned() },
        }
    }

    fn stop(&mut self, _: &JobName, job_id: JobId) -> News {
        let message = format!("job {job_id} does not run");
        if self.signal(job_id) { News::Stopped } else { News::NotStopped { message } }
    }

    fn cancel(&mut self, _: &JobName, job_id: JobId) -> News {
        let message = format!("job {job_id} is over");
        if self.kill(job_id) { News::Killed } else { News::NotStopped { message } }
    }

    fn forecast(&mut self, batch: &Batch) -> Option<Seconds> {
        self.queue_wait(batch, *batch.submitted.first()?)
    }
}
