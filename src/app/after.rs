//! Checks that the predecessors of jobs exist.

use std::collections::{BTreeMap, BTreeSet};

use hsched_engine::State;
use hsched_model::formats;
use hsched_model::{ErrorId, Job, JobName};
use hsched_ui::{Exit, Failure};

/// Returns why a job with predecessors cannot be requested yet.
pub(crate) fn behind(job: &Job) -> Option<String> {
    let names: Vec<&str> = job.after.iter().map(JobName::as_str).collect();
    let which = if names.len() > 1 { "they have" } else { "it has" };
    (!names.is_empty())
        .then(|| format!("depends on {}: hsched watch submits it once {which} completed", names.join(", ")))
}

/// Adds a note for each predecessor that is not in the file; it may have been added before.
pub(crate) fn note_unknown(jobs: &[Job], notes: &mut Vec<String>) {
    for job in jobs {
        let unknown = job.after.iter().filter(|name| jobs.iter().all(|other| other.name != **name));
        for name in unknown {
            let near = did_you_mean(job, name, jobs).unwrap_or_default();
            notes.push(format!("{} depends on {name}, which is not in this file{near}", job.name));
        }
    }
}

/// Returns `; did you mean NAME?` with the job name that is most similar to a predecessor of `dependent`.
fn did_you_mean(dependent: &Job, name: &JobName, jobs: &[Job]) -> Option<String> {
    let others = jobs.iter().filter(|job| job.name != dependent.name);
    let near = formats::nearest(name.as_str(), others.map(|job| job.name.as_str()))?;
    Some(format!("; did you mean {near}?"))
}

/// Refuses jobs whose predecessors are neither among them nor in the state, or that would wait for
/// themselves.
///
/// # Errors
/// If there is one of these; the message names the first one.
pub(crate) fn refuse_unknown(jobs: &[Job], state: &State) -> Result<(), Failure> {
    let known = state.jobs.iter().map(|tracked| &*tracked.job).chain(jobs);
    // Jobs of the file replace others with the same names.
    let known: BTreeMap<&JobName, &Job> = known.map(|job| (&job.name, job)).collect();
    for job in jobs {
        if let Some(name) = job.after.iter().find(|name| !known.contains_key(name)) {
            let near = did_you_mean(job, name, jobs).unwrap_or_default();
            let message = format!("{} depends on {name}, but there is no job of that name{near}", job.name);
            return Err(Failure::new(Exit::BadInput, message).id(ErrorId::UnknownDependency).hint(format!(
                "add {name} first, or put both jobs in one file; hsched status lists the \
                    jobs"
            )));
        }
        if waits_for_itself(job, &known) {
            let message = format!("{} depends on itself: check the key `after` of the jobs", job.name);
            return Err(Failure::new(Exit::BadInput, message).id(ErrorId::DependencyCycle));
        }
    }
    Ok(())
}

/// Returns whether a job is among its own direct or indirect predecessors.
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
