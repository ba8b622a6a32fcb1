//! Commands that hsched uses to read from Slurm, as one list: for the bundle of a bug report, and for
//! recorded output. Most calls about past jobs begin at a time that the caller gives.
//!
//! Calls that change something (`sbatch`, `scancel`, `scontrol update`) are not included.

mod hide;
mod names;

use chrono::{DateTime, Utc};

use crate::queue::{self, history, jobs, limits};
use crate::record::FIELD_END;
use crate::script_changes::{self, past_runs_command};
use crate::{
    CommandLine, JobId, accounting, allocation, permission, pool_jobs, sacct, scontrol_job, sinfo, site,
    squeue,
};

pub use self::names::NameReplacer;

/// A call with the layout of its output.
#[derive(Clone, Debug)]
pub struct Call {
    /// Name of the call's output, without an extension.
    pub name: String,
    pub command: CommandLine,
    layout: OutputLayout,
}

/// Layout of output, which determines where names may occur.
#[derive(Clone, Copy, Debug)]
enum OutputLayout {
    /// Values of these fields, separated by control characters.
    Records(&'static [&'static str]),
    /// Lines of values, separated by this character.
    Lines(char, &'static [&'static str]),
    /// `KEY=value KEY=value`.
    Keys,
    /// One `KEY = value` per line.
    Config,
    /// Words, some of which may be host names.
    Words,
    /// The id and state of a job, and its command, separated by blanks.
    JobCommand,
}

const SHARES: [&str; 6] = ["Account", "User", "RawShares", "RawUsage", "FairShare", "GrpTRESRaw"];
const ASSOCIATIONS: [&str; 8] =
    ["Cluster", "Account", "Partition", "QOS", "MaxJobs", "MaxSubmit", "GrpTRES", "MaxTRES"];

/// Returns the calls for a user and a release of Slurm, including the details of some of the user's jobs, and the
/// past jobs with one name.
pub fn calls(
    user: &str,
    release: Option<(u32, u32)>,
    now: DateTime<Utc>,
    since: DateTime<Utc>,
    jobs: &[JobId],
    name: &str,
) -> Vec<Call> {
    let call = |name: &str, command, layout| Call { name: name.to_owned(), command, layout };
    let mut calls = vec![
        call("version", site::version_command("sinfo"), OutputLayout::Words),
        call("version-sbatch", site::version_command("sbatch"), OutputLayout::Words),
        call("ping", site::ping_command(), OutputLayout::Words),
        call("config", site::config_command(), OutputLayout::Config),
        call("sinfo", sinfo::command(), OutputLayout::Records(&sinfo::FIELDS)),
        call("squeue", squeue::command(), OutputLayout::Records(&squeue::FIELDS)),
        call("squeue-all", jobs::command(release), OutputLayout::Records(&jobs::FIELDS)),
        call("partitions", site::partitions_command(), OutputLayout::Keys),
        call("reservations", queue::reservations_command(), OutputLayout::Keys),
        call("associations", permission::command(user), OutputLayout::Lines('|', &ASSOCIATIONS)),
        call("limits", limits::associations_command(), OutputLayout::Lines('|', &limits::ASSOCIATION_FIELDS)),
        call("qos", limits::qos_command(), OutputLayout::Lines('|', &limits::QOS_FIELDS)),
        call("default-account", queue::default_account_command(user), OutputLayout::Keys),
        call("shares", queue::shares_command(), OutputLayout::Lines('|', &SHARES)),
        call("sacct", sacct::own_command(jobs, user, since), OutputLayout::Lines(FIELD_END, &sacct::FIELDS)),
        call("history", history::command(now, &[]), OutputLayout::Lines(FIELD_END, &history::FIELDS)),
        call("accounting", site::accounting_command(), OutputLayout::Lines('|', &["JobIDRaw"])),
        call(
            "past-jobs",
            accounting::command(user, since),
            OutputLayout::Lines(FIELD_END, &accounting::COLUMNS),
        ),
        call(
            "named",
            sacct::named_command(name, user, since),
            OutputLayout::Lines(FIELD_END, &sacct::FIELDS),
        ),
        call(
            "past-runs",
            past_runs_command(name, user, now),
            OutputLayout::Lines(FIELD_END, &script_changes::PAST_RUN_FIELDS),
        ),
        call("pool", pool_jobs::command(), OutputLayout::JobCommand),
    ];
    for id in jobs {
        let ended = sacct::any_user_command(*id, since);
        calls.push(call(&format!("ended-{id}"), ended, OutputLayout::Lines(FIELD_END, &sacct::FIELDS)));
        calls.push(call(&format!("job-{id}"), scontrol_job::command(*id), OutputLayout::Keys));
        calls.push(call(&format!("allocation-{id}"), allocation::command(*id), OutputLayout::Keys));
    }
    calls
}
