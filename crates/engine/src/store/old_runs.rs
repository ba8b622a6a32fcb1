//! Removes the folders of forgotten runs and jobs.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use chrono::NaiveDateTime;

use crate::store::held::changed;
use crate::{Rules, State};
use hsched_model::Time;
use hsched_model::number::to_f64;

/// Beginning of a run's id: its creation time.
pub(super) const RUN_TIME: &str = "%Y%m%dT%H%M%S";

/// Removes runs that belong to no submission of a job or script and are older than the time for which jobs
/// are kept, and old fences of unknown jobs. The age of a run with an id of the user's is that of its plan.
///
/// Other files stay. A folder that cannot be removed is tried again later.
pub(super) fn remove(root: &Path, state: &State, now: Time) {
    let attempts = state.jobs.iter().flat_map(|tracked| {
        let past = tracked.past.iter().map(|past| &past.attempt);
        tracked.phase.submissions().iter().map(|submission| &submission.attempt).chain(past)
    });
    let scripts = state.scripts.iter().map(|script| script.submission.run.as_str());
    let remembered: BTreeSet<&str> = attempts.map(|attempt| attempt.run.as_str()).chain(scripts).collect();
    for entry in fs::read_dir(root.join("runs")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let run = name.to_str().unwrap_or_default();
        let made = made_at(run).or_else(|| changed(&entry.path().join("plan.json")));
        if made.is_some_and(|made| now.since(made) > Rules::REMEMBERED) && !remembered.contains(run) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    for entry in fs::read_dir(root.join("fences")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let job = name.to_str().map(|name| name.split_once(':').map_or(name, |(job, _copy)| job));
        let is_known =
            job.is_none_or(|job| state.jobs.iter().any(|candidate| candidate.job.name.as_str() == job));
        // The folder was last changed when the job's last submission started. A newer fence may belong to a
        // job that is missing only in this state.
        if !is_known && changed(&entry.path()).is_some_and(|begun| now.since(begun) > Rules::REMEMBERED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the creation time in a run's id.
fn made_at(run: &str) -> Option<Time> {
    let (time, _random) = run.split_once('-')?;
    let made = NaiveDateTime::parse_from_str(time, RUN_TIME).ok()?.and_utc();
    Some(Time(to_f64(made.timestamp())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobState, SubmissionRecord};
    use hsched_model::Seconds;

    #[test]
    fn old_runs_without_a_job_are_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let runs = ["20260101T000000-00000a", "20260101T000000-00000b", "20260301T000000-00000c", "notes"];
        for run in runs {
            fs::create_dir_all(root.path().join("runs").join(run).join("report")).expect("a folder");
        }
        let text = "jobs: [{name: a, samples_per_epoch: 1, epochs: 1, global_batch: 1, model_size: 0, \
                    throughput: {t4: 1}, command: x}]";
        let job = hsched_model::formats::jobs::parse(text).expect("a job").remove(0);
        let attempt = SubmissionRecord::new(runs[1], Vec::new(), Seconds(1.0), 0, Time(0.0));
        let mut tracked = JobState::new(job, Time(0.0));
        tracked.intend(attempt);
        let now = made_at(runs[2]).expect("a time").after(Seconds(3600.0));
        remove(root.path(), &State { jobs: vec![tracked], ..State::default() }, now);
        let left = runs.map(|run| root.path().join("runs").join(run).exists());
        assert_eq!(left, [false, true, true, true]);
    }

    #[test]
    fn a_run_with_an_id_of_the_user_is_as_old_as_its_plan() {
        let root = tempfile::tempdir().expect("a folder");
        let run = root.path().join("runs/mine");
        fs::create_dir_all(&run).expect("a folder");
        fs::write(run.join("plan.json"), "{}").expect("a plan");
        let made = changed(&run.join("plan.json")).expect("a time");
        let mut is_left = |age: f64| {
            remove(root.path(), &State::default(), Time(made.0 + age));
            run.exists()
        };
        assert_eq!([Rules::REMEMBERED.0 - 1.0, Rules::REMEMBERED.0 + 1.0].map(&mut is_left), [true, false]);
    }

    #[test]
    fn fences_of_forgotten_jobs_are_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let now = Time(4e6);
        let ages = [("a", 3e6), ("a:c2", 3e6), ("b", 3e6), ("b:c1", 3e6), ("young", 1e6)];
        for (name, age) in ages {
            let fence = root.path().join("fences").join(name);
            fs::create_dir_all(&fence).expect("a folder");
            std::os::unix::fs::symlink("7", fence.join("1")).expect("a number");
            let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs_f64(now.0 - age);
            fs::File::open(&fence).and_then(|folder| folder.set_modified(then)).expect("a time");
        }
        let text = "jobs: [{name: a, samples_per_epoch: 1, epochs: 1, global_batch: 1, model_size: 0, \
                    throughput: {t4: 1}, command: x}]";
        let job = hsched_model::formats::jobs::parse(text).expect("a job").remove(0);
        let state = State { jobs: vec![JobState::new(job, Time(0.0))], ..State::default() };
        remove(root.path(), &state, now);
        let left = ages.map(|(name, _)| root.path().join("fences").join(name).exists());
        assert_eq!(left, [true, true, false, false, true]);
    }
}
