//! The training command: whether hsched's ranks would run the same command, and remarks on it.

use serde_json::json;

use super::body::{ScriptPiece, excerpt, set};
use super::command::StartedProgram;
use super::words::split;
use super::{ImportedJob, Processes};

/// Imports the training command, unless hsched's ranks would run a different one.
pub(super) fn take_command(
    piece: &ScriptPiece,
    started: &StartedProgram,
    processes: Processes,
    imported: &mut ImportedJob,
) {
    let line = piece.line;
    match started.unclear.clone().or_else(|| other_processes(started, processes)) {
        Some(why) => {
            imported.remark(line, format!("{}: {why}; write the key command yourself", excerpt(&piece.text)));
            imported.hints.insert("command", format!("line {line}: {why}"));
        }
        None if !started.command.is_empty() => {
            imported.keys.insert("command", json!(started.command));
        }
        None => {}
    }
    for (name, value) in &started.environment {
        set(line, name, value, false, imported);
    }
    for launcher in started.launchers.iter().filter(|launcher| *launcher != "srun") {
        imported.remark(
            line,
            format!("{launcher}: dropped; hsched starts one rank per GPU with the variables of torchrun"),
        );
    }
    for remark in &started.remarks {
        imported.remark(line, remark);
    }
    if started.command.contains("SLURM_ARRAY_") {
        imported.remark(line, "the command has $SLURM_ARRAY_…: use a variable of a sweep instead");
    }
    if started.command.contains("[$TASK]") {
        imported.remark(line, "the command uses an array element, but ranks do not get arrays: assign the element to a variable first");
    }
    let words = split(&started.command).unwrap_or_default();
    replicas(line, &words, imported);
    for (key, wanted) in [("epochs", "epoch"), ("global_batch", "batch")] {
        let place = words.iter().position(|word| word.starts_with('-') && word.contains(wanted));
        let Some(word) = place.and_then(|place| words.get(place)) else { continue };
        let value = words.get(place.unwrap_or(0) + 1).filter(|_| !word.contains('='));
        let number = word.split_once('=').map(|(_, text)| text).or(value.map(String::as_str));
        if key == "global_batch"
            && !word.contains("global")
            && number.is_some_and(|number| number.parse::<u64>().is_ok())
        {
            imported.remark(line, batch_remark(word, value));
        }
        let value = value.map(|value| format!(" {value}")).unwrap_or_default();
        imported.hints.insert(key, format!("line {line} has {word}{value}"));
    }
}

/// Options for the number of GPUs over which a model's layers (tensor parallelism) or stages (pipeline
/// parallelism) are divided.
const DIVIDED: [&[&str]; 2] = [
    &["tensor-parallel-size", "tensor-model-parallel-size", "tp-size"],
    &["pipeline-parallel-size", "pipeline-model-parallel-size", "pp-size"],
];

/// Turns a program that divides its model over several GPUs into replicas of that many GPUs.
fn replicas(line: usize, words: &[String], imported: &mut ImportedJob) {
    let given = |names: &[&str]| {
        let value_of = |(place, word): (usize, &String)| {
            let (name, value) =
                word.split_once('=').map_or((word.as_str(), None), |(name, text)| (name, Some(text)));
            let name = name.strip_prefix("--")?.replace('_', "-");
            let value = value.or_else(|| words.get(place + 1).map(String::as_str))?;
            names.contains(&name.as_str()).then(|| value.parse::<u64>().ok()).flatten()
        };
        words.iter().enumerate().find_map(value_of).filter(|number| (1..=1024).contains(number))
    };
    let size: u64 = DIVIDED.iter().map(|names| given(names).unwrap_or(1)).product();
    if size <= 1 {
        return;
    }
    imported.keys.insert("replica", json!({ "gpus": size }));
    imported.todos.remove("gpus");
    imported.remark(
        line,
        format!("the program divides its model over {size} GPUs: replicas of {size} GPUs (key replica); throughput is that of a replica"),
    );
    for (key, replica_key) in [("min_gpus", "min_replicas"), ("max_gpus", "max_replicas")] {
        if let Some(gpus) = imported.keys.remove(key).and_then(|value| value.as_u64()) {
            imported.keys.insert(replica_key, json!((gpus / size).max(1)));
        }
    }
    if let Some(gpus) = imported.keys.remove("gpus").and_then(|value| value.as_u64()) {
        let count = (gpus / size).max(1);
        imported.remark(
            line,
            format!("the script asks for {gpus} GPUs, {count} of these replicas: hsched chooses how many; limit them with min_replicas and max_replicas"),
        );
    }
}

/// Returns why ranks would behave differently from the script: it does not start exactly one process per GPU.
fn other_processes(started: &StartedProgram, processes: Processes) -> Option<String> {
    let Processes { tasks, gpus } = processes;
    let is_srun = |launcher: &&String| launcher.starts_with("srun");
    let launched = started.launchers.iter().any(|launcher| !is_srun(&launcher));
    let srun = started.launchers.iter().find(is_srun);
    let process_count = match srun {
        Some(options) => srun_tasks(options).unwrap_or(tasks),
        None => 1,
    };
    let who = if srun.is_some() { "srun" } else { "the script" };
    let count = |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    (gpus > 0 && process_count != gpus && !launched).then(|| {
        let processes =
            if process_count == 1 { "1 process".to_owned() } else { format!("{process_count} processes") };
        format!("{who} starts {processes} on {}, hsched one rank on each GPU", count(gpus, "GPU"))
    })
}

/// Returns the number of tasks in the options of `srun`.
fn srun_tasks(options: &str) -> Option<u64> {
    let words: Vec<&str> = options.split_whitespace().collect();
    let apart = words.windows(2).find(|pair| ["-n", "--ntasks"].contains(&pair[0])).map(|pair| pair[1]);
    let within =
        words.iter().find_map(|word| word.strip_prefix("--ntasks=").or_else(|| word.strip_prefix("-n")));
    apart.or(within.filter(|text| !text.is_empty()))?.parse().ok()
}

/// Returns a remark on a batch size in the command.
fn batch_remark(word: &str, value: Option<&String>) -> String {
    let text = [Some(word), value.map(String::as_str)].into_iter().flatten().collect::<Vec<_>>().join(" ");
    format!("{text}: the same value on every rank; use $HSCHED_LOCAL_BATCH for the local batch of each rank")
}
