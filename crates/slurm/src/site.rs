//! A site's Slurm setup: versions, configuration, controllers and partitions.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDateTime;

use crate::CommandLine;
use crate::amount::{duration, is_unlimited};
use crate::record::value;
use hsched_model::Seconds;

/// The controller's configuration in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    values: BTreeMap<String, String>,
    /// The controller's time when it answered, in the time zone of this machine.
    pub time: Option<NaiveDateTime>,
}

/// A partition's limits from `scontrol show partition`.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of Slurm")]
pub struct PartitionLimits {
    pub name: String,
    /// `UP`, `DOWN`, `DRAIN`, `INACTIVE` or a value of later versions.
    pub state: String,
    pub default: bool,
    /// Maximum walltime; `None` if unlimited or unreadable.
    pub max_time: Option<Seconds>,
    /// Maximum number of nodes per job; `None` if unlimited or unreadable.
    pub max_nodes: Option<u64>,
    /// Walltime of jobs that set none; `None` means the maximum.
    pub default_time: Option<Seconds>,
    /// `PriorityTier`, and the partition's factor in job priorities.
    pub tier: Option<u32>,
    pub job_factor: Option<u32>,
    /// Whether each job gets its nodes exclusively.
    pub exclusive: bool,
    /// Whether the partition's jobs may be preempted (`PreemptMode`).
    pub preempted: bool,
    /// Whether preempted jobs are suspended.
    pub suspends: bool,
    /// `TRESBillingWeights` as printed; empty if there are none.
    pub billing: String,
    /// The allowed accounts and qualities of service; empty means all.
    pub allow_accounts: Vec<String>,
    pub allow_qos: Vec<String>,
    /// The QOS whose limits apply to its jobs.
    pub limit_qos: Option<String>,
    /// The denied accounts and qualities of service; empty means none.
    pub deny_accounts: Vec<String>,
    pub deny_qos: Vec<String>,
}

/// Returns the command line that prints a program's version without asking the controller.
pub fn version_command(program: &'static str) -> CommandLine {
    CommandLine::new(program, ["--version"])
}

/// Returns the command line that asks whether the controllers answer.
pub fn ping_command() -> CommandLine {
    CommandLine::new("scontrol", ["ping"])
}

/// Returns the command line that prints the configuration.
pub fn config_command() -> CommandLine {
    CommandLine::new("scontrol", ["show", "config"])
}

/// Returns the command line that prints all partitions, one per line.
pub fn partitions_command() -> CommandLine {
    CommandLine::new("scontrol", ["-o", "show", "partition"])
}

/// Returns the command line that reads a small part of the accounting data.
pub fn accounting_command() -> CommandLine {
    CommandLine::new("sacct", ["-n", "-X", "-P", "-o", "JobIDRaw"])
}

/// Returns the version in `slurm 23.11.4` or `slurm-wlm 22.05.8`.
pub fn version(text: &str) -> Option<String> {
    let number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    text.split_whitespace().find(number).map(ToOwned::to_owned)
}

/// Returns the release of a version, such as `(22, 5)`: clients and controllers of one release are
/// compatible.
pub fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Returns whether any controller is up, or `None` if the text does not show it.
pub fn is_up(ping: &str) -> Option<bool> {
    // "Slurmctld(primary) at host is UP"; before 18.08 "Slurmctld(primary/backup) at a/b are UP/DOWN".
    let lines = ping.lines().filter(|line| line.starts_with("Slurmctld"));
    let states: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next_back()).collect();
    (!states.is_empty()).then(|| states.iter().any(|state| state.split('/').any(|word| word == "UP")))
}

impl Config {
    /// Parses the output of `scontrol show config`; other lines are skipped.
    pub fn parse(text: &str) -> Self {
        let mut config = Self::default();
        for line in text.lines() {
            if let Some(time) = line.strip_prefix("Configuration data as of ") {
                config.time = NaiveDateTime::parse_from_str(time.trim(), "%Y-%m-%dT%H:%M:%S").ok();
            } else if let Some((key, value)) = line.split_once('=') {
                config.values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        config
    }

    /// Returns a key's value, ignoring the key's case; `None` if it is missing or empty, or a word such as
    /// `(null)` or `none`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(&key.to_ascii_lowercase()).and_then(|text| value(text))
    }

    /// Returns whether a comma-separated list, such as `SchedulerParameters`, contains the word, alone or
    /// with a value (`word=value`), in any case.
    pub fn lists(&self, key: &str, word: &str) -> bool {
        let list = self.get(key).unwrap_or_default();
        list.split(',').any(|item| item.split('=').next().unwrap_or("").trim().eq_ignore_ascii_case(word))
    }

    /// Returns the number at the beginning of a value such as `300 sec`.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.split_whitespace().next()?.parse().ok()
    }

    /// Returns the release of Slurm that the controller runs.
    pub fn release(&self) -> Option<(u32, u32)> {
        release(self.get("SLURM_VERSION")?)
    }

    /// Returns whether the configuration says that no database stores accounting data.
    pub fn lacks_accounting(&self) -> bool {
        self.values.contains_key("accountingstoragetype") && !self.has_accounting()
    }

    /// Returns the names of the generic resources that jobs may request; `None` if the configuration does not
    /// show them.
    pub fn gres_types(&self) -> Option<BTreeSet<String>> {
        self.values.get("grestypes")?;
        let names = self.get("GresTypes").unwrap_or_default().split(',').map(str::trim);
        Some(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Returns whether a database stores accounting data.
    pub fn has_accounting(&self) -> bool {
        // Printed as "accounting_storage/none" until 23.02, and as "(null)" since then.
        self.get("AccountingStorageType").is_some_and(|kind| kind.ends_with("slurmdbd"))
    }
}

/// Parses the partitions in the output of `scontrol -o show partition`.
pub fn partitions(text: &str) -> Vec<PartitionLimits> {
    let field = |line: &str, key: &str| {
        let found = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.unwrap_or_default().to_owned()
    };
    let list = |text: &str| -> Vec<String> {
        let names = value(text).filter(|text| !text.eq_ignore_ascii_case("all")).unwrap_or_default();
        names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let partition = |line: &str| {
        let time = field(line, "MaxTime");
        PartitionLimits {
            name: field(line, "PartitionName"),
            state: field(line, "State"),
            default: field(line, "Default").eq_ignore_ascii_case("yes"),
            max_time: if is_unlimited(&time) { None } else { duration(&time) },
            max_nodes: field(line, "MaxNodes").parse().ok(),
            default_time: duration(&field(line, "DefaultTime")),
            tier: field(line, "PriorityTier").parse().ok(),
            job_factor: field(line, "PriorityJobFactor").parse().ok(),
            // The second name applies from 26.05 on.
            exclusive: field(line, "OverSubscribe").starts_with("EXCLUSIVE")
                || field(line, "Exclusive") == "NODE",
            preempted: !matches!(field(line, "PreemptMode").as_str(), "" | "OFF"),
            suspends: field(line, "PreemptMode").contains("SUSPEND"),
            billing: field(line, "TRESBillingWeights"),
            allow_accounts: list(&field(line, "AllowAccounts")),
            allow_qos: list(&field(line, "AllowQos")),
            limit_qos: value(&field(line, "QoS")).map(str::to_owned),
            deny_accounts: list(&field(line, "DenyAccounts")),
            deny_qos: list(&field(line, "DenyQos")),
        }
    };
    text.lines().filter(|line| line.contains("PartitionName=")).map(partition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_distributions_and_of_slurm_itself_are_read() {
        assert_eq!(version("slurm-wlm 22.05.8\n").as_deref(), Some("22.05.8"));
        assert_eq!(version("slurm 25.11.0-0rc1").as_deref(), Some("25.11.0-0rc1"));
        assert_eq!(version("command not found"), None);
        assert_eq!(
            (release("22.05.8"), release("25.11.0-0rc1"), release("x")),
            (Some((22, 5)), Some((25, 11)), None)
        );
    }

    #[test]
    fn one_controller_that_is_up_is_enough() {
        let check = |text: &str, expected| assert_eq!(is_up(text), expected, "{text}");
        check("Slurmctld(primary) at vm is UP\n", Some(true));
        check("Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP\n", Some(true));
        check(
            "Slurmctld(primary) at vm is DOWN\n*****\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n",
            Some(false),
        );
        check("Slurmctld(primary/backup) at a/b are UP/DOWN\n", Some(true));
        check("", None);
    }

    #[test]
    fn configurations_of_several_versions_are_read() {
        let old = Config::parse(
            "Configuration data as of 2026-11-21T11:50:36\nAccountingStorageType   = accounting_storage/none\n\
             MinJobAge               = 300 sec\nSchedulerParameters     = bf_interval=1,disable_hetjob_steps\n\
             LaunchParameters        = (null)\n\nSlurmctld(primary) at vm is UP\n",
        );
        assert_eq!(old.time.map(|time| time.to_string()).as_deref(), Some("2026-11-21 11:50:36"));
        assert_eq!(
            (old.number("MinJobAge"), old.get("LaunchParameters"), old.has_accounting()),
            (Some(300), None, false)
        );
        assert!(
            old.lists("schedulerparameters", "disable_hetjob_steps")
                && old.lists("SchedulerParameters", "bf_interval")
        );
        let new = Config::parse("AccountingStorageType   = (null)\n");
        assert!(!new.has_accounting() && new.time.is_none());
        assert!(Config::parse("AccountingStorageType = accounting_storage/slurmdbd").has_accounting());
    }

    #[test]
    fn partitions_keep_their_limits() {
        let seen = partitions(
            "PartitionName=gpu AllowGroups=ALL Default=YES MaxNodes=UNLIMITED MaxTime=UNLIMITED State=UP TotalCPUs=80\n\
             PartitionName=debug Default=NO DefaultTime=00:30:00 MaxNodes=2 MaxTime=01:00:00 State=INACTIVE\n",
        );
        let [gpu, debug] = seen.as_slice() else { panic!("two: {seen:?}") };
        assert_eq!((gpu.name.as_str(), gpu.default, gpu.max_time, gpu.max_nodes), ("gpu", true, None, None));
        assert_eq!(
            (debug.state.as_str(), debug.max_time, debug.max_nodes),
            ("INACTIVE", Some(Seconds(3600.0)), Some(2))
        );
        assert_eq!(partitions("No partitions in the system\n"), []);
    }
}
