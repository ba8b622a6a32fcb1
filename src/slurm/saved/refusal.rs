//! Texts that are not read, by their names.

use serde_json::Value;

use super::error::SavedError;
use crate::slurm::record::excerpt;

/// Keys of JSON values and what they come from.
const JSON: [(&str, &str); 9] = [
    ("jobs", "jobs (squeue, sacct or scontrol show jobs, as JSON)"),
    ("partitions", "partitions (scontrol show partitions --json)"),
    ("partition", "partitions (scontrol show partitions --json)"),
    ("reservations", "reservations (scontrol show reservations --json)"),
    ("statistics", "the controller's statistics (sdiag --json)"),
    ("licenses", "licenses (scontrol show licenses --json)"),
    ("associations", "accounting (sacctmgr --json)"),
    ("pings", "the controller's ping (scontrol ping --json)"),
    ("schema", "a file of hsched that holds no cluster"),
];

/// Beginnings of lines and what they come from.
const TEXTS: [(&str, &str); 14] = [
    ("JobId=", "jobs (scontrol show job)"),
    ("PartitionName=", "partitions (scontrol show partition)"),
    ("ReservationName=", "reservations (scontrol show reservation)"),
    ("No reservations", "reservations (scontrol show reservation)"),
    ("sdiag output", "the controller's statistics (sdiag)"),
    ("Configuration data as of", "the configuration (scontrol show config)"),
    ("Slurmctld(primary)", "the controller's ping (scontrol ping)"),
    ("%YAML", "Slurm's YAML; --json says the same and is read"),
    ("#SBATCH", "a job script"),
    ("#!/", "a script"),
    ("jobs:", "a job file of hsched"),
    ("sinfo:", "an error of sinfo"),
    ("slurm_load", "an error of Slurm"),
    ("scontrol:", "an error of scontrol"),
];

/// Words in headers of tables and what they come from.
const HEADERS: [(&str, &str); 8] = [
    ("JOBID", "jobs (squeue)"),
    ("NODELIST(REASON)", "jobs (squeue)"),
    ("JobID", "jobs (sacct)"),
    ("JobIDRaw", "jobs (sacct)"),
    ("TIMESTAMP", "the reasons of nodes (sinfo -R)"),
    ("PARTITION", "a table of partitions (sinfo without NODELIST)"),
    ("QUEUE", "a table of partitions (spart)"),
    ("NODELIST", "a table of sinfo with column names that are cut off or not known"),
];

/// What stands between words.
const SEPARATORS: [char; 6] = ['|', ' ', '\t', ',', '\u{1f}', '\u{1e}'];

/// States of jobs that no node has.
const JOB_STATES: [&str; 8] =
    ["RUNNING", "PENDING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "PREEMPTED", "NODE_FAIL"];

/// Returns why a text is refused.
pub(super) fn of_text(text: &str) -> SavedError {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first_line = excerpt(lines().next().unwrap_or_default());
    let named = || {
        if is_configuration(text) {
            return Some("slurm.conf or gres.conf");
        }
        let head = || lines().take(10);
        let text = TEXTS.iter().find(|(start, _)| head().any(|line| line.starts_with(start)));
        let words = || head().flat_map(|line| line.split(SEPARATORS));
        let header = || HEADERS.iter().find(|(word, _)| words().any(|own| own == *word));
        let lines = || head().collect::<Vec<_>>();
        let known = text.or_else(header).map(|(_, what)| *what).or_else(|| headerless(&lines()));
        known.or_else(|| shape(&lines()))
    };
    match named() {
        Some(what) => SavedError::Other { what, first_line },
        None => SavedError::Unknown { first_line },
    }
}

/// Returns what a table without a header line seems to be.
fn headerless(lines: &[&str]) -> Option<&'static str> {
    let words = || lines.iter().flat_map(|line| line.split(SEPARATORS)).map(str::trim);
    if words().any(|word| JOB_STATES.contains(&word.trim_end_matches('+'))) {
        return Some("jobs without a header line (squeue or sacct)");
    }
    let is_gres = |word: &str| word.starts_with("gpu:") || word == "(null)";
    let is_state = |word: &str| {
        let word = word.trim_end_matches(['*', '-', '~', '#', '@', '$', '!', '%', '^', '+']);
        ["idle", "mix", "mixed", "alloc", "allocated", "down", "drain", "drained", "draining"].contains(&word)
    };
    let several = lines.iter().any(|line| line.contains(SEPARATORS));
    (several && words().any(|word| is_gres(word) || is_state(word)))
        .then_some("sinfo without its header line, and nothing in it names nodes or counts them")
}

/// Returns what lines of no known words are, by their shape.
fn shape(lines: &[&str]) -> Option<&'static str> {
    let all = |fits: &dyn Fn(&str) -> bool| lines.iter().all(|line| fits(line));
    let is_word = |line: &str| !line.contains(SEPARATORS) && !line.contains(['{', ':', '=']);
    let is_total = |line: &str| {
        let counts: Vec<&str> = line.split(['/', ' ']).collect();
        counts.len() >= 4 && counts.iter().all(|count| count.parse::<u64>().is_ok())
    };
    let is_step = |line: &str| {
        let id = line.split(['|', ',', ' ']).next().and_then(|id| id.split_once('.'));
        id.is_some_and(|(job, step)| job.parse::<u64>().is_ok() && !step.is_empty())
    };
    let columns = |line: &str| line.split(',').count();
    let is_csv =
        lines.len() > 1 && lines.first().is_some_and(|first| columns(first) > 1 && !first.contains(' '));
    match () {
        () if all(&is_total) => Some("sums over all nodes (sinfo -o '%F %C'), which name no kind of GPU"),
        () if lines.iter().any(|line| is_step(line)) => Some("jobs and their steps (sacct)"),
        () if lines.len() > 1 && all(&is_word) => Some("a list of words without any state or resources"),
        () if is_csv => Some("a table with commas whose columns are none of sinfo's"),
        () => None,
    }
}

/// Returns whether the text is a configuration file: such lines name nodes too.
pub(super) fn is_configuration(text: &str) -> bool {
    let starts = |keys: &[&str]| text.lines().any(|line| keys.iter().any(|key| line.trim().starts_with(key)));
    let node = |line: &str| line.trim().starts_with("NodeName=");
    let gres = |line: &str| node(line) && line.contains(" Name=");
    starts(&["ClusterName=", "SlurmctldHost=", "ControlMachine=", "SlurmdPort="]) || text.lines().any(gres)
}

/// Returns why a JSON value is refused.
pub(super) fn of_json(value: &Value, text: &str) -> SavedError {
    let first_line = excerpt(&text.chars().take(200).collect::<String>());
    let named = JSON.iter().find(|(key, _)| value.get(*key).is_some()).map(|(_, what)| *what);
    let what = named.unwrap_or("JSON without nodes");
    SavedError::Other { what, first_line }
}

/// Returns why a file of hsched is refused.
pub(super) fn of_schema(schema: &str, text: &str) -> SavedError {
    let first_line = excerpt(&text.chars().take(200).collect::<String>());
    let what = if schema.starts_with("hsched.plan/") {
        "a plan of hsched"
    } else {
        "a file of hsched, or another program, that holds no cluster"
    };
    SavedError::Other { what, first_line }
}
