//! Results of forgotten jobs: the file `results` of the state directory, one JSON object per line, oldest
//! first.
//!
//! A result is written before its job and the job's reports are removed from the state. If hsched is killed
//! in between, the next turn writes the same line again; of two lines with the same key, the later one
//! counts.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::collections::BTreeMap;
use std::io::Write;
use std::iter;
use std::path::{Path, PathBuf};

use crate::run_result::{Reports, attempts, curve};
use crate::store::files::{private, read, replace, write_error};
use crate::store::samples::{Extent, samples};
use crate::store::{StateError, report_folder, reports};
use crate::{EpochReport, JobState, RunResult, SampledUse, State, SubmissionRecord};
use hsched_model::{JobName, Time};

const NAME: &str = "results";

/// Maximum length of the file in bytes, about 10,000 results. Beyond it, the oldest half is dropped.
const LONGEST: usize = 16 << 20;

/// Metrics of a training by epoch.
pub type MetricCurves = BTreeMap<u64, Vec<(String, f64)>>;

/// Results of a state directory.
#[derive(Debug, Default)]
pub struct Results {
    /// Results of forgotten jobs in the order in which they were forgotten, then of those in the state.
    pub runs: Vec<RunResult>,
    /// Metrics by epoch of the jobs in the state; those of forgotten jobs were removed with their reports.
    pub curves: BTreeMap<JobName, MetricCurves>,
    /// Numbers of unreadable lines, from 1.
    pub damaged: Vec<usize>,
}

impl Results {
    /// Reads the stored results of forgotten jobs, and adds the jobs of a state.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn read(root: &Path, state: &State, now: Time) -> Result<Self, StateError> {
        let text = read(&root.join(NAME))?.unwrap_or_default();
        let mut results = Self::default();
        let mut places: BTreeMap<_, usize> = BTreeMap::new();
        let mut add = |runs: &mut Vec<RunResult>, run: RunResult| {
            let place = *places.entry(run.key()).or_insert(runs.len());
            match runs.get_mut(place) {
                Some(known) => *known = run,
                None => runs.push(run),
            }
        };
        let lines = (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.is_empty());
        for (number, line) in lines {
            match serde_json::from_slice::<RunResult>(line) {
                Ok(run) => add(&mut results.runs, run.without_earlier()),
                Err(_) => results.damaged.push(number),
            }
        }
        for tracked in &state.jobs {
            let reported = reported(root, tracked, now);
            add(&mut results.runs, RunResult::new(tracked, &reported, now));
            results.curves.insert(tracked.job.name.clone(), curve(tracked, &reported));
        }
        Ok(results)
    }
}

/// Stores the results of jobs that have run or ended in `before` and are missing from `after`.
///
/// # Errors
/// If they cannot be written; the jobs must then stay in the state.
pub(super) fn keep(root: &Path, before: &State, after: &State, now: Time) -> Result<(), StateError> {
    let stays = |tracked: &&JobState| {
        after.find(&tracked.job.name).is_some_and(|job| job.added.0.to_bits() == tracked.added.0.to_bits())
    };
    let has_result =
        |tracked: &&JobState| tracked.phase.is_over() || tracked.past_since_added().next().is_some();
    let mut text = Vec::new();
    for tracked in before.jobs.iter().filter(|tracked| !stays(tracked)).filter(has_result) {
        let run = RunResult::new(tracked, &reported(root, tracked, now), now).replaced(now);
        serde_json::to_writer(&mut text, &run).map_err(|source| StateError::Json { source })?;
        text.push(b'\n');
    }
    if text.is_empty() {
        return Ok(());
    }
    let path = root.join(NAME);
    let known = read(&path)?.unwrap_or_default();
    if known.len() + text.len() > LONGEST {
        let later = &known[known.len().min(LONGEST / 2)..];
        let whole = later.iter().position(|byte| *byte == b'\n').map_or(later, |end| &later[end + 1..]);
        return replace(&path, [whole, &text].concat(), None);
    }
    // A truncated line must not corrupt the next one.
    if known.last().is_some_and(|last| *last != b'\n') {
        text.insert(0, b'\n');
    }
    let append = || {
        let mut file = private().append(true).open(&path)?;
        file.write_all(&text)?;
        file.sync_data()
    };
    append().map_err(write_error(&path))
}

/// Returns the report files of each submission: past ones first, then current ones. Unreadable files count as
/// empty.
fn reported(root: &Path, tracked: &JobState, now: Time) -> Vec<Reports> {
    let (first, last) = (Time(f64::NEG_INFINITY), Time(f64::INFINITY));
    let of_one = |(attempt, end): (&SubmissionRecord, Time)| {
        let folder = folder(root, tracked, attempt);
        let begin = attempt.started.filter(|_| shares_samples(&folder)).unwrap_or(first);
        let sampled = SampledUse::of(&samples(&folder, Extent::All), &(begin..=end));
        Reports { epochs: epochs(root, tracked, attempt, now), sampled }
    };
    // The samples of a parked training go on in the folder of its first submission.
    let next = attempts(tracked).skip(1).map(|next| shares_samples(&folder(root, tracked, next)));
    let ends = tracked.past.iter().zip(next.chain(iter::repeat(false)));
    let ends = ends.map(|(past, is_parked)| if is_parked { past.ended } else { last });
    attempts(tracked).zip(ends.chain(iter::repeat(last))).map(of_one).collect()
}

/// Returns whether a submission has the samples of an earlier one, whose processes it has taken over.
fn shares_samples(folder: &Path) -> bool {
    folder.join("samples").is_symlink()
}

fn epochs(root: &Path, tracked: &JobState, attempt: &SubmissionRecord, now: Time) -> Vec<EpochReport> {
    reports::epochs(&folder(root, tracked, attempt), 1, 0, now).unwrap_or_default()
}

fn folder(root: &Path, tracked: &JobState, attempt: &SubmissionRecord) -> PathBuf {
    let key = attempt.key(&tracked.job.name);
    report_folder(root, &key.run, &key.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, Outcome, PastAttempt, Phase};
    use hsched_model::formats::jobs;
    use hsched_model::{Job, Seconds};

    fn job(name: &str, added: f64) -> JobState {
        let text = format!(
            "jobs: [{{name: {name}, samples_per_epoch: 1, epochs: 3, global_batch: 1, model_size: 0, throughput: {{t4: 1}}, command: [python, 'a b.py'], env: {{LR: '0.1'}}}}]"
        );
        let job = jobs::parse(&text).expect("a job").remove(0);
        let phase = Phase::Ended { at: Time(added + 9.0), outcome: Outcome::Completed };
        JobState { phase, ..JobState::new(job, Time(added)) }
    }

    fn state(jobs: &[JobState]) -> State {
        State { jobs: jobs.to_vec(), ..State::default() }
    }

    fn names(root: &Path, state: &State) -> Vec<(String, f64)> {
        let results = Results::read(root, state, Time(50.0)).expect("reads");
        results.runs.iter().map(|run| (run.name.to_string(), run.added.0)).collect()
    }

    #[test]
    fn forgotten_and_replaced_jobs_are_kept_once() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let (a, b, again) = (job("a", 1.0), job("b", 2.0), job("a", 3.0));
        let before = state(&[a.clone(), b.clone()]);
        assert_eq!(names(root, &before), [("a".to_owned(), 1.0), ("b".to_owned(), 2.0)]);
        for _killed_in_between in 0..2 {
            keep(root, &before, &state(&[b.clone(), again.clone()]), Time(20.0)).expect("writes");
        }
        let after = state(&[b, again]);
        let expected = [("a".to_owned(), 1.0), ("b".to_owned(), 2.0), ("a".to_owned(), 3.0)];
        assert_eq!(names(root, &after), expected);
        let run = Results::read(root, &state(&[]), Time(50.0)).expect("reads").runs.remove(0);
        assert_eq!((run.state.as_str(), run.ended), ("completed", Some(Time(10.0))));
        let variables = "HSCHED_REPORT=/dev/stdout HSCHED_CHECKPOINT_DIR=\"$(mktemp -d)\" HSCHED_EPOCHS=3 HSCHED_EPOCHS_DONE=0";
        assert_eq!(run.command, format!("{variables} LR=0.1 python 'a b.py'"));
    }

    #[test]
    fn a_job_that_was_replaced_before_its_end_no_longer_waits() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let attempt = SubmissionRecord::new("r", Vec::new(), Seconds(1.0), 0, Time(2.0));
        let past = PastAttempt { attempt, ended: Time(5.0), end: End::Interrupted, epochs: 0 };
        let ended = job("a", 1.0);
        let phase = JobState::new(Job::clone(&ended.job), Time(1.0)).phase;
        let waits = JobState { phase, past: vec![past], ..ended };
        keep(root, &state(&[waits]), &state(&[job("a", 9.0)]), Time(9.0)).expect("writes");
        let run = Results::read(root, &State::default(), Time(50.0)).expect("reads").runs.remove(0);
        assert_eq!((run.state.as_str(), run.ended), ("cancelled", Some(Time(9.0))));
        assert_eq!(run.why.as_deref(), Some("replaced by a later job of the same name"));
    }

    #[test]
    fn samples_of_a_parked_training_count_for_the_submission_that_ran() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let past = |run: &str, started: f64, ended: f64| {
            let attempt = SubmissionRecord::new(run, Vec::new(), Seconds(1.0), 0, Time(started));
            let attempt = SubmissionRecord { started: Some(Time(started)), ..attempt };
            PastAttempt { attempt, ended: Time(ended), end: End::Interrupted, epochs: 0 }
        };
        let tracked =
            JobState { past: vec![past("r1", 0.0, 600.0), past("r2", 1200.0, 1800.0)], ..job("a", 0.0) };
        let folders: Vec<PathBuf> =
            attempts(&tracked).map(|attempt| folder(root, &tracked, attempt)).collect();
        let line = |at: u32| format!("{{\"at\": {at}, \"ranks\": [0], \"gpu\": [0]}}\n");
        let lines: String = (0..=30).map(|minute| line(60 * minute)).collect();
        let header = "{\"schema\": \"hsched.samples/1\", \"node\": \"n1\", \"interval_s\": 60}\n";
        std::fs::create_dir_all(folders[0].join("samples")).expect("a folder");
        std::fs::write(folders[0].join("samples/n1.jsonl"), format!("{header}{lines}")).expect("writes");
        std::fs::create_dir_all(&folders[1]).expect("a folder");
        reports::take_over(&folders[0], &folders[1], 0).expect("links");
        let sampled = reported(root, &tracked, Time(9e9)).into_iter().map(|reports| reports.sampled.sampled);
        assert_eq!(sampled.collect::<Vec<_>>(), [Seconds(600.0), Seconds(660.0)]);
    }

    #[test]
    fn a_line_that_was_cut_spoils_no_other() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        std::fs::write(root.join(NAME), "{\"name\": \"half").expect("writes");
        keep(root, &state(&[job("a", 1.0)]), &state(&[]), Time(20.0)).expect("writes");
        let results = Results::read(root, &state(&[]), Time(50.0)).expect("reads");
        assert_eq!((results.runs.len(), results.damaged), (1, vec![1]));
    }

    #[test]
    fn the_oldest_are_dropped_from_a_file_that_has_become_too_long() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let line = |name: &str| {
            keep(root, &state(&[job(name, 1.0)]), &state(&[]), Time(20.0)).expect("writes");
        };
        line("oldest");
        let one = std::fs::read(root.join(NAME)).expect("reads");
        std::fs::write(root.join(NAME), one.repeat(LONGEST / one.len())).expect("writes");
        line("newest");
        let length = std::fs::metadata(root.join(NAME)).expect("a file").len();
        assert!(length < (LONGEST as u64) * 2 / 3, "{length}");
        assert_eq!(names(root, &state(&[])).last().expect("one").0, "newest");
    }
}
