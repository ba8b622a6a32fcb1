//! Commands that hsched uses to read from Slurm, as one list: for the bundle of a bug report, and for
//! recorded output. Calls that only single commands of hsched need are not included, such as those for the
//! history of the user's own jobs (`accounting`), which is long, and for the jobs of a pool.
//!
//! Calls that change something (`sbatch`, `scancel`, `scontrol update`) are not included.

mod hide;
mod names;

use chrono::{DateTime, Utc};

use crate::queue::{self, history, jobs, limits};
use crate::{CommandLine, JobId, allocation, permission, sacct, scontrol_job, sinfo, site, squeue};

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
}

const SHARES: [&str; 6] = ["Account", "User", "RawShares", "RawUsage", "FairShare", "GrpTRESRaw"];
const ASSOCIATIONS: [&str; 8] =
    ["Cluster", "Account", "Partition", "QOS", "MaxJobs", "MaxSubmit", "GrpTRES", "MaxTRES"];

/// Returns the calls for a user and a release of Slurm, including the details of some of the user's jobs.
pub fn calls(
    user: &str,
    release: Option<(u32, u32)>,
    now: DateTime<Utc>,
    since: DateTime<Utc>,
    jobs: &[JobId],
) -> Vec<Call> {
    let call = |name: &str, command, layout| Call { name: name.to_owned(), command, layout };
    let mut calls = vec![
        call("version", site::version_command("sinfo"), OutputLayout::Words),
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
        call(
            "sacct",
            sacct::command(jobs, since),
            OutputLayout::Lines(crate::record::FIELD_END, &sacct::FIELDS),
        ),
        call(
            "history",
            history::command(now, &[]),
            OutputLayout::Lines(crate::record::FIELD_END, &history::FIELDS),
        ),
    ];
    for id in jobs {
        calls.push(call(&format!("job-{id}"), scontrol_job::command(*id), OutputLayout::Keys));
        calls.push(call(&format!("allocation-{id}"), allocation::command(*id), OutputLayout::Keys));
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that change something.
    const NOT_READ: [&str; 3] = ["sbatch", "scancel", "scontrol update"];

    #[test]
    fn every_reading_call_of_the_parsers_is_listed() {
        let now = DateTime::from_timestamp(1_795_000_000, 0).expect("a date");
        let calls = calls("alice", Some((22, 5)), now, now, &[JobId(7)]);
        let listed: Vec<String> = calls.iter().map(|call| call.command.to_string()).collect();
        assert!(listed.iter().all(|call| NOT_READ.iter().all(|word| !call.starts_with(word))), "{listed:?}");
        for begin in [
            "sinfo --version",
            "scontrol ping",
            "scontrol show config",
            "sinfo -h -N",
            "squeue --me",
            "squeue --all",
            "scontrol -o show partition",
            "scontrol -o show reservation",
            "sacctmgr -n -P show assoc 'user=",
            "sacctmgr -n -P show assoc 'format=",
            "sacctmgr -n -P show qos",
            "scontrol -o show assoc_mgr",
            "sshare",
            "sacct -n",
            "sacct --allusers",
            "scontrol -o show job 7",
            "scontrol -d show job 7",
        ] {
            assert_eq!(
                listed.iter().filter(|call| call.starts_with(begin)).count(),
                1,
                "{begin}: {listed:?}"
            );
        }
    }
}
