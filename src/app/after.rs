//! Whether jobs come after jobs that there are.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::State;
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{Job, JobName};

/// Returns why a job cannot be asked for yet, if it comes after others.
pub(crate) fn behind(job: &Job) -> Option<String> {
    let names: Vec<&str> = job.after.iter().map(JobName::as_str).collect();
    let which = if names.len() > 1 { "those have" } else { "that has" };
    (!names.is_empty())
        .then(|| format!("comes after {}: hsched watch submits it when {which} completed", names.join(", ")))
}

/// Refuses jobs that come after one that neither they nor the state have, or that would wait for themselves.
///
/// # Errors
/// Names the first such job.
pub(crate) fn refuse_unknown(jobs: &[Job], state: &State) -> Result<(), Failure> {
    let known = state.jobs.iter().map(|tracked| &tracked.job).chain(jobs);
    // Those of the file replace others of their names.
    let known: BTreeMap<&JobName, &Job> = known.map(|job| (&job.name, job)).collect();
    for job in jobs {
        if let Some(name) = job.after.iter().find(|name| !known.contains_key(name)) {
            let message = format!("{} comes after {name}, and there is no job of that name", job.name);
            return Err(Failure::new(Exit::BadInput, message)
                .hint(format!("add {name} first, or put both into one file; hsched status lists the jobs")));
        }
        if waits_for_itself(job, &known) {
            let message = format!("{} would wait for itself: check `after` of the jobs", job.name);
            return Err(Failure::new(Exit::BadInput, message));
        }
    }
    Ok(())
}

/// Returns whether a job is among those before it, near or far.
fn waits_for_itself(job: &Job, known: &BTreeMap<&JobName, &Job>) -> bool {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&JobName> = job.after.iter().collect();
    while let Some(name) = next.pop() {
        if *name == job.name {
            return true;
        }
        if seen.insert(name) {
            next.extend(known.get(name).into_iter().flat_map(|before| &before.after));
        }
    }
    false
}
