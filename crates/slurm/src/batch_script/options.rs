//! Options of `sbatch`: those that become keys of a job, those passed on to Slurm, and those that hsched
//! decides.

use serde_json::json;

use super::ImportedJob;
use crate::script::{OptionSource, ScriptOption, ScriptReading};

/// Options that are not imported, and why.
const LEFT: [(&str, &str); 22] = [
    ("output", "the output goes to NAME.out in the workdir"),
    ("open-mode", "hsched opens the output in append mode"),
    ("requeue", "hsched resubmits jobs itself (key retries)"),
    ("no-requeue", "hsched resubmits jobs itself (key retries)"),
    ("comment", "hsched uses the comment to find its jobs"),
    ("nodelist", "hsched chooses the nodes"),
    ("nodefile", "hsched chooses the nodes"),
    ("clusters", "run hsched on the cluster itself"),
    ("gpu-bind", "every rank must see all GPUs of its node"),
    ("gpus-per-socket", "hsched chooses the GPUs"),
    ("ntasks-per-core", "hsched starts one rank per GPU"),
    ("ntasks-per-gpu", "hsched starts one rank per GPU"),
    ("ntasks-per-socket", "hsched starts one rank per GPU"),
    ("ntasks-per-tres", "hsched starts one rank per GPU"),
    ("tres-per-task", "hsched chooses the GPUs"),
    ("mincpus", "set cpus_per_gpu"),
    ("time-min", "the job requests the predicted time plus a margin, up to the key time"),
    ("wait", "hsched does not wait for its jobs"),
    ("parsable", "hsched reads what sbatch prints"),
    ("test-only", "use hsched submit --dry-run"),
    ("ignore-pbs", "hsched writes the job script"),
    ("wrap", "hsched writes the job script"),
];

/// Options that become no key here: those whose values are fields of the request, and those that only change
/// what `sbatch` prints.
const REQUESTED: [&str; 16] = [
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "cpus-per-task",
    "cpus-per-gpu",
    "gpus",
    "gpus-per-node",
    "gpus-per-task",
    "gres",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "time",
    "help",
    "usage",
    "verbose",
];

/// Imports the options that need no interpretation; of several with the same name, only the last one counts,
/// except for `--mail-type`.
pub(super) fn read(reading: &ScriptReading, imported: &mut ImportedJob) {
    if let Some(why) = &reading.refused {
        imported.remark(1, format!("sbatch refuses the script: {why}"));
    }
    for note in &reading.notes {
        let text =
            if note.text.is_empty() { note.why.clone() } else { format!("{}: {}", note.text, note.why) };
        imported.remark(note.line.unwrap_or(1), text);
    }
    let options: Vec<&ScriptOption> = reading.options.iter().filter(|option| option.component == 0).collect();
    for (place, option) in options.iter().enumerate() {
        let is_last = !options[place + 1..].iter().any(|other| other.name == option.name);
        if is_last || option.name == "mail-type" {
            take(option, line(option), imported);
        }
    }
    for unknown in &reading.unknown {
        imported.remark(
            unknown.line.unwrap_or(1),
            format!("{}: {}; write the key yourself", unknown.text, unknown.why),
        );
    }
}

/// Returns the line of an option; 1 if it is not from the script.
pub(super) fn line(option: &ScriptOption) -> usize {
    match option.source {
        OptionSource::Script { line, .. } => line,
        OptionSource::Environment(_) | OptionSource::CommandLine(_) => 1,
    }
}

fn take(option: &ScriptOption, line: usize, imported: &mut ImportedJob) {
    let (name, value) = (option.name.as_str(), option.value.as_deref());
    let shown = value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"));
    if let Some((_, why)) = LEFT.iter().find(|(left, _)| *left == name) {
        return imported.remark(line, format!("{shown}: {why}"));
    }
    match (name, value) {
        (name, _) if REQUESTED.contains(&name) => other_resources(name, value, line, imported),
        ("job-name", Some(value)) => imported.set_name(Some(&(line, value.to_owned())), ""),
        ("account" | "partition" | "qos" | "chdir", Some(value)) if !value.is_empty() => {
            let key = match name {
                "account" => "account",
                "partition" => "partition",
                "qos" => "qos",
                _ => "workdir",
            };
            imported.keys.insert(key, json!(value));
        }
        ("array", Some(value)) if !value.is_empty() => imported.array = Some((line, value.to_owned())),
        ("signal", Some(value)) => {
            if !signal(line, value, imported) {
                imported
                    .remark(line, format!("{shown}: hsched cannot read this value; set the key yourself"));
            }
        }
        (_, Some("")) => {}
        _ => imported.push("sbatch", shown),
    }
}

/// Adds remarks on generic resources other than GPUs.
fn other_resources(name: &str, value: Option<&str>, line: usize, imported: &mut ImportedJob) {
    for part in value.filter(|_| name == "gres").into_iter().flat_map(|value| value.split(',')) {
        let part = part.strip_prefix("gres/").unwrap_or(part);
        let is_gpu = part.split([':', '=']).next() == Some("gpu");
        if !is_gpu && !part.is_empty() && !part.eq_ignore_ascii_case("none") {
            imported.remark(
                line,
                format!("--gres={part}: hsched requests only GPUs with --gres and leaves this out"),
            );
        }
    }
}

/// Imports the signal that warns the job of its end, and its time: `B:USR1@120`. Returns whether the value
/// could be read.
fn signal(line: usize, value: &str, imported: &mut ImportedJob) -> bool {
    let (signal, time) = value.split_once('@').unwrap_or((value, "60"));
    let Ok(seconds) = time.parse::<u32>() else { return false };
    let signal = signal.rsplit(':').next().unwrap_or(signal).to_ascii_uppercase();
    let signal = signal.trim_start_matches("SIG");
    imported.put("checkpoint", "grace", &format!("{}s", seconds.max(1)));
    if !["USR1", "10"].contains(&signal) {
        imported.remark(
            line,
            format!(
                "--signal={value}: hsched sends SIGUSR1, not {signal}; the training must save on SIGUSR1"
            ),
        );
    }
    true
}
