//! The implementation of the engine's interface by the simulated cluster.

use std::convert::Infallible;

use crate::simulate::SimulatedWorld;
use hsched_engine::{
    AfterStop, Amendment, Answer, Observation, PlannedSubmission, Run, State, SubmissionKey,
};
use hsched_model::{JobId, Seconds};

impl hsched_engine::World for SimulatedWorld {
    type Error = Infallible;

    fn observe(&mut self, state: &State) -> Result<Observation, Infallible> {
        let mut seen = Observation::new(self.now(), self.cluster());
        for submission in self.submissions() {
            let Some(tracked) = state.find(&submission.of.job) else { continue };
            if tracked.submission(&submission.of).is_some() {
                seen.sightings.push(submission.sighting());
                let new = submission.reports.iter().filter(|report| report.epoch > tracked.epochs_done);
                seen.epochs.extend(new.map(|report| (submission.of.clone(), report.clone())));
            }
        }
        Ok(seen)
    }

    fn prepare(&mut self, _: &Run) -> Result<(), String> {
        Ok(())
    }

    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer {
        Answer::Submitted { job_id: self.enqueue(run, intent) }
    }

    fn stop(&mut self, _: &SubmissionKey, job_id: JobId, _: AfterStop) -> Answer {
        let message = format!("job {job_id} is not running");
        if self.signal(job_id) { Answer::Stopped } else { Answer::NotStopped { message } }
    }

    fn cancel(&mut self, _: &SubmissionKey, job_id: JobId) -> Answer {
        let message = format!("job {job_id} has ended");
        if self.kill(job_id) { Answer::Killed } else { Answer::NotStopped { message } }
    }

    fn amend(&mut self, _: &SubmissionKey, job_id: JobId, to: &Amendment) -> Answer {
        let message = format!("job {job_id} is no longer waiting");
        if self.change(job_id, to) { Answer::Amended } else { Answer::NotAmended { message } }
    }

    fn forecast(&mut self, run: &Run) -> Option<Seconds> {
        self.queue_wait(run, run.submissions.first()?)
    }
}
