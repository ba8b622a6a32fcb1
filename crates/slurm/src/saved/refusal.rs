//! Texts that are refused, with their names.

use serde_json::Value;

use super::clean::CleanLine;
use super::error::SavedError;
use super::fields::{begins_field, in_header};
use super::looks::{counts, is_job_state, is_state};
use crate::record::{excerpt, one_line};
use hsched_model::hostlist;

/// Keys of JSON values, and their origin.
const JSON: [(&str, &str); 11] = [
    ("jobs", "jobs (squeue, sacct or scontrol show jobs, as JSON)"),
    ("job_id", "a job (as JSON)"),
    ("pbs_version", "nodes of PBS (pbsnodes -F json); hsched reads only Slurm"),
    ("apiVersion", "output of Kubernetes; hsched reads only Slurm"),
    ("reservations", "reservations (scontrol show reservations --json)"),
    ("statistics", "the controller's statistics (sdiag --json)"),
    ("licenses", "licenses (scontrol show licenses --json)"),
    ("associations", "accounting (sacctmgr --json)"),
    ("pings", "the controller's ping (scontrol ping --json)"),
    ("partitions", "partitions (scontrol show partitions --json)"),
    ("schema", "an hsched file without a cluster"),
];

/// Beginnings of lines, and their origin.
const TEXTS: [(&str, &str); 31] = [
    ("JobId=", "jobs (scontrol show job)"),
    ("PartitionName=", "partitions (scontrol show partition)"),
    ("ReservationName=", "reservations (scontrol show reservation)"),
    ("No reservations", "reservations (scontrol show reservation)"),
    ("RESV_NAME", "reservations (sinfo -T)"),
    ("sdiag output", "the controller's statistics (sdiag)"),
    ("Configuration data as of", "the configuration (scontrol show config)"),
    ("Slurmctld(primary)", "the controller's ping (scontrol ping)"),
    ("%YAML", "YAML of Slurm; use --json, which hsched reads"),
    ("#SBATCH", "a job script"),
    ("#!/", "a script"),
    ("jobs:", "a job file of hsched"),
    ("GPU TOTAL", "a table of hsched; use --format json or yaml"),
    ("NODES STATE PARTITIONS", "a table of hsched; use --format json or yaml"),
    ("sinfo:", "an error message of sinfo"),
    ("slurm_load", "an error message of Slurm"),
    ("scontrol:", "an error message of scontrol"),
    ("bash:", "an error message of the shell"),
    ("-bash:", "an error message of the shell"),
    ("zsh:", "an error message of the shell"),
    ("ssh:", "an error message of ssh"),
    ("| NVIDIA-SMI", "output of nvidia-smi on one machine"),
    ("GPU 0:", "output of nvidia-smi on one machine"),
    ("Hostname Partition", "output of pestat; hsched reads what sinfo prints"),
    ("Mom = ", "nodes of PBS (pbsnodes); hsched reads only Slurm"),
    ("HOST_NAME", "hosts of LSF (bhosts); hsched reads only Slurm"),
    ("HOSTNAME ARCH", "hosts of Grid Engine (qhost); hsched reads only Slurm"),
    ("NAME STATUS", "nodes of Kubernetes (kubectl get nodes); hsched reads only Slurm"),
    ("# HELP", "metrics for Prometheus"),
    ("<!DOCTYPE", "an HTML page"),
    ("<html", "an HTML page"),
];

/// Words in the headers of other tables, and their origin.
const HEADERS: [(&str, &str); 11] = [
    ("JOBID", "jobs (squeue)"),
    ("NODELIST(REASON)", "jobs (squeue)"),
    ("TRES_PER_NODE", "jobs (squeue)"),
    ("ST", "jobs (squeue)"),
    ("JobID", "jobs (sacct)"),
    ("JobIDRaw", "jobs (sacct)"),
    ("JobName", "jobs (sacct)"),
    ("TIMESTAMP", "reasons why nodes are down (sinfo -R)"),
    ("EffectvUsage", "shares (sshare)"),
    ("ControlHost", "accounting (sacctmgr)"),
    ("QUEUE", "a table of partitions (spart)"),
];

/// Columns that `sinfo -R` never has, so that a table with one of them is another table.
const NOT_OF_REASONS: [&str; 5] = ["GRES", "GRES_USED", "PARTITION", "CPUS", "MEMORY"];

/// Characters between words.
const SEPARATORS: [char; 6] = ['|', ' ', '\t', ',', ';', '\u{1f}'];

/// Maximum number of lines examined.
const HEAD: usize = 20;

/// Returns whether a line names the columns of a table of jobs.
pub(super) fn is_header_of_jobs(line: &str) -> bool {
    let named =
        |word: &str| HEADERS.iter().any(|(candidate, what)| *candidate == word && what.starts_with("jobs"));
    let words = || line.split(SEPARATORS).filter(|word| !word.is_empty());
    words().count() > 1 && words().any(named)
}

/// Returns the lines that identify a text: those not typed by a person, or the messages of a program.
fn told<'a>(lines: &'a [CleanLine<'_>], noise: &'a [CleanLine<'_>]) -> Vec<&'a str> {
    let printed = lines.iter().filter(|line| line.command.is_none() || line.text.starts_with('#'));
    let told: Vec<&str> = printed.take(HEAD).map(|line| line.text.trim()).collect();
    if told.is_empty() { noise.iter().take(HEAD).map(|line| line.text.trim()).collect() } else { told }
}

/// Returns why lines that certainly are of another kind are refused.
pub(super) fn known(lines: &[CleanLine<'_>], noise: &[CleanLine<'_>]) -> Option<SavedError> {
    let all = told(lines, noise);
    let words = |line: &&'_ str| -> Vec<String> { line.split(SEPARATORS).map(str::to_owned).collect() };
    let is_state = |word: &String| is_job_state(word);
    let numbered = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
    let begins = TEXTS.iter().find(|(start, _)| all.iter().any(|line| one_line(line).starts_with(start)));
    let header = || {
        let has = |text: &str| all.iter().any(|line| words(line).iter().any(|word| word == text));
        HEADERS.iter().find(|(candidate, _)| has(candidate) && !is_other_table(candidate, &all))
    };
    // `R` may be a job's state or something else.
    let in_words = || all.iter().any(|line| words(line).iter().any(|word| word.len() > 3 && is_state(word)));
    let in_letters = || all.iter().all(|line| numbered(line) && words(line).iter().any(is_state));
    let what = if lines.iter().any(|line| is_configuration(&line.text)) {
        "slurm.conf or gres.conf"
    } else if let Some((_, what)) = begins.or_else(header) {
        what
    } else if in_words() || in_letters() {
        "jobs without a header line (squeue or sacct)"
    } else {
        return None;
    };
    let first_line = excerpt(all.first().copied().unwrap_or_default());
    Some(SavedError::Other { what: what.to_owned(), first_line })
}

/// Returns why lines of unknown kind are refused.
pub(super) fn of_text(lines: &[CleanLine<'_>], noise: &[CleanLine<'_>]) -> SavedError {
    let all = told(lines, noise);
    let words = || all.iter().flat_map(|line| line.split(SEPARATORS));
    let header = HEADERS
        .iter()
        .find(|(word, _)| words().any(|candidate| candidate == *word) && !is_other_table(word, &all));
    let what =
        header.map(|(_, what)| (*what).to_owned()).or_else(|| all.iter().find_map(|line| of_sinfo(line)));
    let what = what.or_else(|| shape(&all).map(str::to_owned));
    let first_line = excerpt(all.first().copied().unwrap_or_default());
    what.map_or(SavedError::Unknown { first_line: first_line.clone() }, |what| SavedError::Other {
        what,
        first_line,
    })
}

/// Returns whether a header line has this word and others that tables with this word lack.
fn is_other_table(word: &str, lines: &[&str]) -> bool {
    let is_own = |line: &&&str| line.split(SEPARATORS).any(|candidate| candidate == word);
    let is_other = |line: &&str| line.split(SEPARATORS).any(|candidate| NOT_OF_REASONS.contains(&candidate));
    word == "TIMESTAMP" && lines.iter().filter(is_own).any(is_other)
}

/// Returns whether a line has a word that begins like a field name of sinfo.
pub(super) fn has_field(line: &str) -> bool {
    line.split(SEPARATORS).any(begins_field)
}

/// Returns why a header line with fields of sinfo is unusable: columns that are missing, run together,
/// truncated or unknown.
fn of_sinfo(line: &str) -> Option<String> {
    if !has_field(line) {
        return None;
    }
    let words = line.split(SEPARATORS).filter(|word| !word.is_empty());
    let unknown: Vec<&str> = words.filter(|word| in_header(word).is_none()).collect();
    Some(if unknown.is_empty() {
        "a table of sinfo without node names (NODELIST) or node counts (NODES)".to_owned()
    } else {
        format!(
            "a table of sinfo with columns that run together, are truncated or are unknown: {}",
            unknown.join(", ")
        )
    })
}

/// Returns why a text with non-text characters is refused.
pub(super) fn of_binary(text: &str) -> SavedError {
    SavedError::Other { what: "a binary file".to_owned(), first_line: excerpt(text) }
}

/// Returns whether lines look like a table of sinfo without a header line: at least half of them have several
/// values, one of which occurs only in such a table.
pub(super) fn is_headerless(lines: &[&str]) -> bool {
    let is_told = |word: &str| {
        word.starts_with("gpu:")
            || word == "(null)"
            || (word.len() > 2 && is_state(word))
            || counts(word).is_some_and(|counts| counts.len() == 4)
    };
    let is_list = |word: &str| word.contains('[') && hostlist::expand(word).is_ok();
    let is_row = |line: &&&str| {
        let words = || line.split(SEPARATORS).filter(|word| !word.is_empty());
        words().count() > 1 && (words().any(is_told) || line.split(['|', ' ', '\t', ';']).any(is_list))
    };
    let rows = lines.iter().filter(is_row).count();
    rows > 0 && rows * 2 >= lines.len()
}

/// Classifies lines without known words by their shape.
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
        () if all(&is_total) => Some("totals of all nodes (sinfo -o '%F %C'), without GPU types"),
        () if lines.iter().any(|line| is_step(line)) => Some("jobs and their steps (sacct)"),
        () if all(&is_word) => Some("a list of words without any state or resources"),
        () if is_csv => Some("CSV without any column of sinfo"),
        () => None,
    }
}

/// Returns whether a line belongs to a configuration file, which also names nodes.
pub(super) fn is_configuration(line: &str) -> bool {
    const KEYS: [&str; 5] =
        ["ClusterName=", "SlurmctldHost=", "ControlMachine=", "SlurmdPort=", "AutoDetect="];
    const OF_NODES: [&str; 4] = [" Name=", " CPUs=", " Procs=", " File="];
    let line = line.trim();
    let is_node = line.strip_prefix("NodeName=").is_some_and(|rest| {
        let name = rest.split_whitespace().next().unwrap_or("");
        name.contains('[') || OF_NODES.iter().any(|key| line.contains(key))
    });
    is_node
        || KEYS.iter().any(|key| line.starts_with(key))
        || (line.starts_with("Name=") && line.contains("File="))
}

/// Returns why a JSON value is refused.
pub(super) fn of_json(value: &Value, text: &str) -> SavedError {
    let first_line = excerpt(&text.chars().take(200).collect::<String>());
    let known = JSON.iter().find(|(key, _)| value.get(*key).is_some()).map(|(_, what)| (*what).to_owned());
    let nodes = value.get("nodes").unwrap_or(value);
    let first =
        nodes.as_array().and_then(|nodes| nodes.first()).or_else(|| nodes.as_object()?.values().next());
    let keys = first.and_then(Value::as_object).map(|node| node.keys().take(8).cloned().collect::<Vec<_>>());
    let what = known.unwrap_or_else(|| match keys {
        Some(keys) if !keys.is_empty() => {
            format!(
                "JSON of another program: Slurm's nodes have name, state and gres, these have {}",
                keys.join(", ")
            )
        }
        _ => "JSON without nodes".to_owned(),
    });
    SavedError::Other { what: excerpt(&what), first_line }
}

/// Returns why an hsched file is refused.
pub(super) fn of_schema(schema: &str, text: &str) -> SavedError {
    let first_line = excerpt(&text.chars().take(200).collect::<String>());
    let what = if schema.starts_with("hsched.plan/") {
        "an hsched plan"
    } else {
        "an hsched file or another program, without a cluster"
    };
    SavedError::Other { what: what.to_owned(), first_line }
}
