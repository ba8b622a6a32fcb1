//! Start estimates of submissions and their actual starts: one file for each run, kept for 90 days.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::store::StateError;
use crate::store::files::{read, replace, write_error};
use crate::{State, SubmissionKey, SubmissionRecord};
use hsched_model::{Seconds, Time};
use hsched_queue::StartPrediction;

/// How long predictions are kept.
const KEPT: Seconds = Seconds(90.0 * 86_400.0);

/// The prediction for one submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmissionPrediction {
    pub of: SubmissionKey,
    /// The GPUs in words.
    pub gpus: String,
    pub prediction: StartPrediction,
    /// Whether the submission left the queue without starting.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

/// A folder of predictions: `STATE/foretold/RUN.json`.
///
/// Files are replaced atomically and need no lock, because every process that adds the outcome of a run
/// writes the same data.
#[derive(Clone, Debug)]
pub struct Predictions {
    folder: PathBuf,
}

impl Predictions {
    /// Returns the predictions of a state directory; reads and creates nothing yet.
    pub fn of(root: &Path) -> Self {
        Self { folder: root.join("foretold") }
    }

    /// Stores the predictions for the submissions of a run, and removes old ones.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, run: &str, list: &[SubmissionPrediction]) -> Result<(), StateError> {
        let path = self.path(run);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(write_error(&path))?;
        let text = serde_json::to_string(list).map_err(|source| StateError::Json { source })?;
        replace(&path, &text, None)?;
        let now = list.iter().map(|predicted| predicted.prediction.at.0).fold(0.0, f64::max);
        for (run, old) in self.files() {
            if old.iter().all(|predicted| now - predicted.prediction.at.0 > KEPT.0) {
                // A file that stays is tried again later.
                let _ = fs::remove_file(self.path(&run));
            }
        }
        Ok(())
    }

    /// Returns the predictions of the last 90 days with their outcomes known to the state; new outcomes are
    /// written, because the state forgets jobs.
    pub fn known(&self, state: &State, now: Time) -> Vec<SubmissionPrediction> {
        let mut all = Vec::new();
        for (run, mut list) in self.files() {
            let is_new = list.iter_mut().filter_map(|predicted| predicted.settle(state)).count() > 0;
            if is_new && let Ok(text) = serde_json::to_string(&list) {
                // If this fails, the next call writes it.
                let _ = replace(&self.path(&run), &text, None);
            }
            all.extend(list.into_iter().filter(|predicted| now.since(predicted.prediction.at).0 <= KEPT.0));
        }
        all.sort_by(|a, b| a.prediction.at.0.total_cmp(&b.prediction.at.0).then(a.of.cmp(&b.of)));
        all
    }

    /// Returns the predictions by run; unreadable files are left out.
    fn files(&self) -> Vec<(String, Vec<SubmissionPrediction>)> {
        let run = |name: &str| name.strip_suffix(".json").map(str::to_owned);
        let names = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let runs = names.filter_map(|entry| run(entry.file_name().to_str()?));
        let list = |run: String| {
            let bytes = read(&self.path(&run)).ok().flatten()?;
            Some((run, serde_json::from_slice(&bytes).ok()?))
        };
        runs.filter_map(list).collect()
    }

    fn path(&self, run: &str) -> PathBuf {
        self.folder.join(format!("{run}.json"))
    }
}

impl SubmissionPrediction {
    /// Returns whether the prediction's outcome is still unknown.
    pub fn is_open(&self) -> bool {
        self.prediction.started.is_none() && !self.withdrawn
    }

    /// Records the submission's outcome if it is new.
    fn settle(&mut self, state: &State) -> Option<()> {
        if !self.is_open() {
            return None;
        }
        let tracked = state.find(&self.of.job)?;
        let is = |record: &SubmissionRecord| record.run == self.of.run && record.copy == self.of.copy;
        if let Some(submission) = tracked.submission(&self.of) {
            self.prediction.started = Some(submission.attempt.started?);
        } else if let Some(past) = tracked.past.iter().find(|past| is(&past.attempt)) {
            self.prediction.started = past.attempt.started;
            self.withdrawn = past.attempt.started.is_none();
        } else {
            // The state forgets the beaten submissions of a race.
            let is_of_run = |record: &SubmissionRecord| record.run == self.of.run;
            // Requests that joined the race later are of other runs.
            let at = self.prediction.at;
            let has_started =
                |record: &SubmissionRecord| record.started.is_some_and(|started| started.0 >= at.0);
            let submissions = tracked.phase.submissions().iter();
            self.withdrawn = tracked.phase.is_over()
                || tracked.past.iter().any(|past| is_of_run(&past.attempt))
                || submissions.map(|submission| &submission.attempt).any(has_started);
        }
        (!self.is_open()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobState;
    use hsched_queue::Estimate;

    fn told(copy: u32, at: f64) -> SubmissionPrediction {
        let job = hsched_model::JobName::new("a").expect("a name");
        let starts = [10.0, 20.0];
        SubmissionPrediction {
            of: SubmissionKey { copy, ..SubmissionKey::new(job, "r") },
            gpus: "1 t4".to_owned(),
            prediction: StartPrediction {
                at: Time(at),
                gpus: 1,
                start: Estimate::of(&starts, None),
                starts: starts.map(Seconds).into(),
                started: None,
            },
            withdrawn: false,
        }
    }

    #[test]
    fn the_beaten_submission_of_a_race_has_left_the_queue() {
        let text = "jobs: [{name: a, samples_per_epoch: 1, epochs: 1, global_batch: 1, model_size: 0, \
                    throughput: {t4: 1}, command: x}]";
        let job = hsched_model::formats::jobs::parse(text).expect("a job").remove(0);
        let withdrawn = |run: &str, started: Option<Time>| {
            let mut tracked = JobState::new(job.clone(), Time(0.0));
            let attempt = SubmissionRecord::new(run, Vec::new(), Seconds(1.0), 0, Time(1000.0));
            tracked.intend(SubmissionRecord { started, ..attempt });
            let mut beaten = told(1, 1000.0);
            let is_new = beaten.settle(&State { jobs: vec![tracked], ..State::default() }).is_some();
            (beaten.withdrawn, is_new)
        };
        assert_eq!(withdrawn("r", Some(Time(1015.0))), (true, true));
        assert_eq!(withdrawn("r", None), (false, false));
        // The winner may have joined later; a submission that started before is another one.
        assert_eq!(withdrawn("other", Some(Time(1015.0))), (true, true));
        assert_eq!(withdrawn("other", Some(Time(900.0))), (false, false));
    }

    #[test]
    fn what_became_of_a_submission_outlasts_the_job() {
        let root = tempfile::tempdir().expect("a directory");
        let predictions = Predictions::of(root.path());
        assert_eq!(predictions.known(&State::default(), Time(0.0)), []);
        predictions.keep("r", &[told(0, 1000.0), told(1, 1000.0)]).expect("written");
        let text = "jobs: [{name: a, samples_per_epoch: 1, epochs: 1, global_batch: 1, model_size: 0, \
                    throughput: {t4: 1}, command: x}]";
        let job = hsched_model::formats::jobs::parse(text).expect("a job").remove(0);
        let mut tracked = JobState::new(job, Time(0.0));
        for copy in 0..2 {
            let attempt = SubmissionRecord::new("r", Vec::new(), Seconds(1.0), 0, Time(1000.0));
            let started = (copy == 0).then_some(Time(1015.0));
            tracked.intend(SubmissionRecord { copy, started, ..attempt });
        }
        let state = State { jobs: vec![tracked], ..State::default() };
        let known = |state: &State, now: f64| -> Vec<Option<Time>> {
            predictions.known(state, Time(now)).iter().map(|predicted| predicted.prediction.started).collect()
        };
        assert_eq!(known(&state, 1020.0), [Some(Time(1015.0)), None]);
        assert_eq!(known(&State::default(), 1020.0), [Some(Time(1015.0)), None]);
        // After 90 days the predictions are dropped.
        assert_eq!(known(&State::default(), 1020.0 + 91.0 * 86_400.0), []);
        predictions.keep("s", &[told(0, 1000.0 + 91.0 * 86_400.0)]).expect("written");
        assert_eq!(fs::read_dir(root.path().join("foretold")).expect("a folder").count(), 1);
    }
}
