//! The possible requests of a job, and notes on those that were excluded.

use crate::app::context::Context;
use crate::app::folders;
use crate::app::slurm;
use crate::app::speeds::SpeedArgs;
use hsched_engine::{JobRequests, Knows, Listing};
use hsched_model::{Job, RequestOption, Seconds, Walltime};
use hsched_queue::Snapshot;
use hsched_ui::{Failure, duration};

/// The requests of a job; if there are none, the reason.
pub(crate) type Requests = (Vec<RequestOption>, Option<String>);

/// Returns the requests of a job on the cluster of a snapshot; adds notes on its speeds and on exclusions.
///
/// # Errors
/// If the measured speeds cannot be read.
pub(crate) fn requests(
    context: &Context,
    speeds: &SpeedArgs,
    job: &Job,
    snapshot: &Snapshot,
    notes: &mut Vec<String>,
) -> Result<Requests, Failure> {
    let settings = &context.settings;
    let options = slurm::sbatch_options::read(context, job, snapshot.taken_at);
    let listing = Listing {
        job,
        snapshot,
        defaults: &settings.jobs,
        rates: (settings.network, settings.intra_node),
        capacity: &settings.capacity,
        at_least: None,
        options: &options,
    };
    let knows = Knows {
        speeds: &|jobs, types| speeds.matrix(context, jobs, types),
        resumes: &|| folders::resumes(context, job),
    };
    let listed = hsched_engine::requests(&listing, &knows, notes)?;
    notes.extend(not_counted(job, &listed.requests));
    let of_limits = too_short(job, &listed, notes);
    if listed.possible > JobRequests::MOST {
        notes.push(format!(
            "{}: {} requests are possible; hsched looks at {} of them",
            job.name,
            listed.possible,
            JobRequests::MOST
        ));
    }
    let nothing = of_limits.or(listed.nothing);
    let nothing = nothing.unwrap_or_else(|| "no request is possible for this job".to_owned());
    let nothing = listed.requests.is_empty().then_some(nothing);
    Ok((listed.requests, nothing))
}

/// Returns a note on relevant options that a job's estimates ignore.
pub(crate) fn not_counted(job: &Job, requests: &[RequestOption]) -> Option<String> {
    let left = &requests.first()?.not_counted;
    (!left.is_empty()).then(|| format!("{}: not counted: {}", job.name, left.join(" ")))
}

/// Notes which requests a time limit would end before the job is done; if these are all of them, returns that
/// as the reason instead.
fn too_short(job: &Job, listed: &JobRequests, notes: &mut Vec<String>) -> Option<String> {
    let cut = &listed.cut;
    if cut.is_empty() {
        return None;
    }
    let mut limits: Vec<(u64, String)> =
        cut.iter().map(|option| (option.walltime.minutes, option.walltime.length())).collect();
    limits.sort();
    limits.dedup();
    let limits = limits.into_iter().map(|(_, length)| length).collect::<Vec<_>>().join(", ");
    let loses = Walltime::LOSES;
    if listed.requests.is_empty() {
        let run = duration(Seconds(cut.iter().map(|option| option.run.0).fold(f64::INFINITY, f64::min)));
        return Some(format!(
            "every time limit here ({limits}) is shorter than the job ({run} at best), and {loses}"
        ));
    }
    let (left_out, all) = (cut.len(), listed.possible + cut.len());
    notes.push(format!(
        "{}: {left_out} of {all} requests are left out: their time limit ({limits}) is shorter than \
         the job, and {loses}",
        job.name
    ));
    None
}
