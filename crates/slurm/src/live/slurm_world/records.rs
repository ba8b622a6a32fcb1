//! Accounting data about submissions that have left the queue, and about requested stops.

use super::{SACCT_MARGIN_S, SlurmWorld, moment};
use crate::live::observe;
use crate::{CommandError, JobRecord, sacct, scontrol_job};
use hsched_engine::live::{LiveError, left_word, word_end};
use hsched_engine::store::{claim_file, report_folder, reports};
use hsched_engine::{End, QueueState, ScriptJob, Sighting, State, SubmissionRecord};
use hsched_model::{JobId, JobName, Time};

impl SlurmWorld<'_> {
    /// Distinguishes submissions that saved before they stopped on request from interrupted ones: Slurm shows
    /// the same exit status for both, but the script's last word or the reports differ.
    pub(super) fn judge_stops(
        &self,
        state: &State,
        seen: &mut [Sighting],
        at: Time,
    ) -> Result<(), LiveError> {
        for Sighting { of, job_id, state: queue_state, .. } in seen {
            let QueueState::Ended { end, .. } = queue_state else { continue };
            let submission = state.find(&of.job).and_then(|tracked| tracked.submission(of));
            let Some(attempt) = submission.map(|submission| &submission.attempt) else { continue };
            if !matches!(end, End::Saved | End::Failed { exit: 143, .. }) {
                continue;
            }
            let folder = report_folder(&self.site.state, &of.run, &of.name());
            let unread = |source| LiveError::Reports { folder: folder.clone(), source };
            let word = reports::word(&folder, Some(*job_id)).map_err(unread)?;
            if let Some(told) = word.and_then(word_end) {
                *end = told;
            } else if *end == End::Saved {
                let new = reports::epochs(&folder, attempt.ranks.len(), attempt.epochs_before, at);
                if new.map_err(unread)?.is_empty() {
                    *end = End::Cut;
                }
            }
        }
        Ok(())
    }

    /// Distinguishes submissions that left a race from the one that did the job, because all of them end with
    /// status 0. A submission that fails without a claim leaves the job to the others.
    ///
    /// A submission that completed without a visible claim stays undecided, because on a shared file system
    /// the claim may become visible later.
    pub(super) fn judge_races(&self, state: &State, seen: Vec<Sighting>) -> Result<Vec<Sighting>, LiveError> {
        let mut judged = Vec::new();
        for mut sighting in seen {
            let tracked = state.find(&sighting.of.job);
            let submission =
                tracked.and_then(|job| job.submission(&sighting.of)).map(|submission| &submission.attempt);
            let race = submission.filter(|submission| submission.race);
            let QueueState::Ended { end, .. } = &mut sighting.state else {
                judged.push(sighting);
                continue;
            };
            if let Some(race) = race {
                let after = race.follows.as_ref().map(|piece| piece.job_id);
                let claim = claim_file(&self.site.state, race.race_run(), sighting.of.job.as_str(), after);
                let taken = reports::claimed(&claim)
                    .map_err(|source| LiveError::Reports { folder: claim.clone(), source })?;
                let Some(judged) = observe::end_in_race(end, sighting.job_id, taken) else { continue };
                *end = judged;
            }
            judged.push(sighting);
        }
        Ok(judged)
    }

    /// Returns Slurm's records of submissions and of scripts' jobs that have left the queue.
    pub(super) fn records_of(
        &self,
        left: &[(&JobName, &SubmissionRecord)],
        scripts: &[&ScriptJob],
        notes: &mut Vec<String>,
    ) -> Result<Vec<JobRecord>, LiveError> {
        let jobs = left.iter().map(|(_, attempt)| (attempt.job_id, attempt.meant.0));
        let scripts = scripts.iter().map(|script| (script.submission.job_id, script.submission.meant.0));
        let all: Vec<(Option<JobId>, f64)> = jobs.chain(scripts).collect();
        let ids: Vec<JobId> = all.iter().filter_map(|(id, _)| *id).collect();
        let first = all.iter().map(|(_, meant)| *meant).min_by(f64::total_cmp);
        match (ids.is_empty(), first) {
            (false, Some(first)) => self.records(&ids, Time(first), notes),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns how submissions that have left the queue ended, according to accounting, the controller, or
    /// the script's last word.
    pub(super) fn endings(
        &self,
        left: &[(&JobName, &SubmissionRecord)],
        records: &[JobRecord],
    ) -> Result<Vec<Sighting>, LiveError> {
        let ending = |&(job, attempt): &(&JobName, &SubmissionRecord)| {
            let recorded = observe::recorded(job, attempt, records).map(Ok);
            recorded.or_else(|| self.word_of(job, attempt).transpose())
        };
        left.iter().filter_map(ending).collect()
    }

    /// Returns Slurm's records of these jobs: from accounting or, if `sacct` fails or is missing, from the
    /// controller.
    fn records(
        &self,
        ids: &[JobId],
        first: Time,
        notes: &mut Vec<String>,
    ) -> Result<Vec<JobRecord>, LiveError> {
        let since = moment(first) - chrono::TimeDelta::seconds(SACCT_MARGIN_S);
        match self.ask(&sacct::command(ids, since)) {
            Ok(printed) => {
                let (records, unread) = sacct::parse(&printed)?;
                notes.extend(unread);
                return Ok(records);
            }
            // Accounting does not exist, or not for this user.
            Err(CommandError::Failed { .. } | CommandError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let mut records = Vec::new();
        for &id in ids {
            match self.ask(&scontrol_job::command(id)) {
                Ok(printed) => records.extend(scontrol_job::parse(&printed)?.0),
                // The job is no longer known, or `scontrol` is missing: only the script's last word remains.
                Err(CommandError::Failed { .. } | CommandError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(records)
    }

    fn word_of(&self, job: &JobName, attempt: &SubmissionRecord) -> Result<Option<Sighting>, LiveError> {
        let key = attempt.key(job);
        let folder = report_folder(&self.site.state, &key.run, &key.name());
        let word =
            reports::word(&folder, attempt.job_id).map_err(|source| LiveError::Reports { folder, source })?;
        Ok(word.map(|word| left_word(job, attempt, word)))
    }
}
