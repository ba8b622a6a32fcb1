//! A world after the end of an `hsched run`: it shows how the jobs ended and starts none.

use std::path::Path;

use crate::other_members::OtherMembers;
use crate::processes::end_leftovers;
use crate::world::mark;
use hsched_engine::clock::Clock;
use hsched_engine::live::{LiveError, ReportedData, left_word, reported};
use hsched_engine::pool::Demand;
use hsched_engine::store::samples::RecentSamples;
use hsched_engine::store::{report_folder, reports};
use hsched_engine::{
    AfterStop, Answer, End, Observation, PlannedSubmission, QueueState, Run, Sighting, State, SubmissionKey,
    SubmissionRecord, World,
};
use hsched_model::{Cluster, JobId, JobName, Seconds, Time};

/// The remains of an `hsched run`. A process that holds the lock of its state directory knows that the run
/// has ended.
pub struct EndedRun<'a> {
    clock: &'a dyn Clock,
    /// The state directory.
    root: &'a Path,
}

/// Why nothing starts here.
const NOT_RUNNING: &str = "hsched run is not running";

impl<'a> EndedRun<'a> {
    /// Returns the remains of the `hsched run` of the state directory `root`.
    pub fn new(clock: &'a dyn Clock, root: &'a Path) -> Self {
        Self { clock, root }
    }
}

impl EndedRun<'_> {
    /// Sends a demand to the pool member that runs a submission.
    fn demand(&self, of: &SubmissionKey, demand: Demand, done: Answer) -> Answer {
        let told = OtherMembers::find(self.root).and_then(|pool| match pool {
            Some(mut pool) => pool.demand(of, demand),
            None => Ok(()),
        });
        match told {
            Ok(()) => done,
            Err(error) => Answer::Unreachable { message: error.in_one_line() },
        }
    }
}

impl World for EndedRun<'_> {
    type Error = LiveError;

    /// Ends processes that a killed hsched may have left behind, and returns the ends of the submissions.
    /// Submissions of pool members may still be running.
    fn observe(&mut self, state: &State) -> Result<Observation, LiveError> {
        let (root, at) = (self.root, self.clock.time());
        let mut pool = OtherMembers::find(root)?;
        let (mut sightings, mut left) = (Vec::new(), Vec::new());
        for tracked in &state.jobs {
            // The job's last submission has ended, but its processes may have been parked.
            if let Some(past) = tracked.past.last().filter(|_| pool.is_none()) {
                left.extend(end_leftovers(&mark(root, &past.attempt.key(&tracked.job.name))));
            }
            for submission in tracked.phase.submissions() {
                // The members of a pool continue without a leader.
                let of_pool = match &mut pool {
                    Some(pool) => pool.sighting(&tracked.job.name, &submission.attempt, at)?,
                    None => None,
                };
                if let Some(sighting) = of_pool {
                    sightings.push(sighting);
                    continue;
                }
                left.extend(end_leftovers(&mark(root, &submission.attempt.key(&tracked.job.name))));
                sightings.push(left_behind(root, &tracked.job.name, &submission.attempt, at)?);
            }
        }
        // Except in a pool, the processes of the run have ended, so none of them is stuck.
        let ReportedData { epochs, odd, unfit, mut notes, stalls: _ } =
            reported(root, state, &mut RecentSamples::default(), at);
        notes.extend(left);
        let nothing = Observation::new(at, Cluster::default());
        Ok(Observation { sightings, epochs, odd, unfit, notes, ..nothing })
    }

    fn prepare(&mut self, _: &Run) -> Result<(), String> {
        Err(NOT_RUNNING.to_owned())
    }

    fn submit(&mut self, _: &Run, _: &PlannedSubmission) -> Answer {
        Answer::Unreachable { message: NOT_RUNNING.to_owned() }
    }

    /// The processes ended with the `hsched run`; members of a pool are notified.
    fn stop(&mut self, of: &SubmissionKey, _: JobId, _: AfterStop) -> Answer {
        self.demand(of, Demand::Stop, Answer::Stopped)
    }

    /// The processes ended with the `hsched run`; members of a pool are notified.
    fn cancel(&mut self, of: &SubmissionKey, _: JobId) -> Answer {
        self.demand(of, Demand::Kill, Answer::Killed)
    }

    /// There is no queue.
    fn forecast(&mut self, _: &Run) -> Option<Seconds> {
        None
    }
}

/// Returns the end of a submission that an earlier hsched started or was about to start.
pub(super) fn left_behind(
    root: &Path,
    job: &JobName,
    attempt: &SubmissionRecord,
    at: Time,
) -> Result<Sighting, LiveError> {
    let of = attempt.key(job);
    let folder = report_folder(root, &of.run, &of.name());
    let word = reports::word(&folder, attempt.job_id);
    let word = word.map_err(|source| LiveError::Reports { folder: folder.clone(), source })?;
    // A script that saved, or was ended with its ranks, ended because its hsched ended.
    if let Some(word) = word.filter(|word| !matches!(word.status, 85 | 137 | 143)) {
        return Ok(left_word(job, attempt, word));
    }
    let is_done = reports::all_returned(&folder, attempt.ranks.len(), attempt.gpus.0.len());
    let is_done = is_done.map_err(|source| LiveError::Reports { folder, source })?;
    let end = if is_done { End::Completed } else { End::Interrupted };
    let queue_state = QueueState::Ended { end, at: Some(at), since: None };
    let job_id = attempt.job_id.unwrap_or(JobId(0));
    Ok(Sighting { of, job_id, submit_time: None, state: queue_state, reason: None })
}
