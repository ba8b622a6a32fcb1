//! Task files of SkyPilot (docs.skypilot.co, YAML reference).

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::ForeignFile;
use hsched_model::formats::parse_type;
use hsched_slurm::batch_script::{self, ImportedJob};

/// Supported keys.
const KNOWN: [&str; 7] = ["name", "workdir", "num_nodes", "resources", "envs", "setup", "run"];

/// Supported keys of `resources`.
const OF_RESOURCES: [&str; 3] = ["accelerators", "any_of", "ordered"];

pub(super) fn read(file: &ForeignFile<'_>, imported: &mut ImportedJob) {
    let nodes = file.keys.get("num_nodes").and_then(Value::as_u64).unwrap_or(1);
    body(file, nodes, imported);
    file.name("name", imported);
    file.remark_others(&KNOWN, imported);
    if let Some(directory) = file.text_of("workdir") {
        imported.keys.insert("workdir", json!(directory));
        imported.remark(file.line("workdir"), "workdir: the job runs in this directory; nothing is copied");
    }
    for (name, value) in file.keys.get("envs").and_then(Value::as_object).into_iter().flatten() {
        match value {
            Value::Null => {
                imported.remark(file.line(name), format!("{name}: has no value; set it under env"));
            }
            Value::String(text) => imported.put("env", name, text),
            other => imported.put("env", name, &other.to_string()),
        }
    }
    resources(file, nodes, imported);
}

/// Reads the task's commands as the body of a batch script, so that launchers and preparations are
/// interpreted in the same way.
fn body(file: &ForeignFile<'_>, nodes: u64, imported: &mut ImportedJob) {
    let Some(run) = file.text_of("run") else { return };
    let head = format!("#!/bin/bash\n#SBATCH --nodes={nodes} --ntasks-per-node=1\n");
    let name = imported.keys.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    *imported = batch_script::read(&(head + run), &name);
    // The lines of the block are below the key, or on its line.
    let is_block = run.contains('\n');
    let first = file.line("run") + usize::from(is_block);
    // Remarks on the two header lines do not concern this file.
    imported.remarks.retain(|remark| remark.line > 2);
    for remark in &mut imported.remarks {
        remark.line = remark.line - 3 + first;
    }
    if nodes > 1 {
        imported.remark(file.line("num_nodes"), "num_nodes: hsched chooses on how many nodes the GPUs are");
    }
    for key in ["gpus", "min_gpus", "max_gpus", "cpus_per_gpu"] {
        imported.keys.remove(key);
    }
    if run.contains("SKYPILOT_") {
        imported.remark(
            first,
            "variables SKYPILOT_…: hsched sets RANK, WORLD_SIZE, MASTER_ADDR and others instead",
        );
    }
    let node_setup = imported.keys.remove("node_setup");
    let lines = file.text_of("setup").unwrap_or_default().lines().filter(|line| !line.trim().is_empty());
    let node_setup = node_setup.as_ref().and_then(Value::as_array).into_iter().flatten();
    for line in lines.map(|line| json!(line.trim_end())).chain(node_setup.cloned()) {
        imported.push("node_setup", line);
    }
    if file.keys.contains_key("setup") {
        imported.remark(
            file.line("setup"),
            "setup: runs once per node at each start of the job, not once per cluster",
        );
    }
}

/// Imports the accelerators, with the types of all alternatives.
fn resources(file: &ForeignFile<'_>, nodes: u64, imported: &mut ImportedJob) {
    let Some(resources) = file.keys.get("resources").and_then(Value::as_object) else { return };
    for key in resources.keys().filter(|key| !OF_RESOURCES.contains(&key.as_str())) {
        imported.remark(file.line(key), format!("{key}: left out; Slurm's options go under sbatch"));
    }
    let alternatives =
        ["any_of", "ordered"].into_iter().filter_map(|key| resources.get(key)?.as_array()).flatten();
    let all = alternatives
        .filter_map(|alternative| alternative.get("accelerators"))
        .chain(resources.get("accelerators"));
    let found: Vec<(String, f64)> = all.flat_map(accelerators).collect();
    let line = file.line("accelerators");
    let mut types: Vec<String> = Vec::new();
    for (name, _) in &found {
        let name = name.to_lowercase();
        match parse_type(&name) {
            Ok(_) if !types.contains(&name) => types.push(name),
            Ok(_) => {}
            Err(_) => imported.remark(line, format!("{name:?} is not a GPU type: set gpu_types yourself")),
        }
    }
    if !types.is_empty() {
        imported.keys.insert("gpu_types", json!(types));
    }
    let mut counts: Vec<u64> = Vec::new();
    for (_, count) in &found {
        let whole = (1..=4096_u64).find(|whole| (hsched_model::number::to_f64(*whole) - count).abs() < 1e-9);
        match whole {
            Some(count) if !counts.contains(&(count * nodes)) => counts.push(count * nodes),
            Some(_) => {}
            None => imported.todo("gpus", format!("line {line} asks for {count} GPUs")),
        }
    }
    match counts.as_slice() {
        [count] => drop(imported.keys.insert("gpus", json!(count))),
        [] => {}
        several => {
            let mut text = String::new();
            for count in several {
                let _ = write!(text, "{}{count}", if text.is_empty() { "" } else { ", " });
            }
            imported.todo("gpus", format!("line {line} has alternatives with {text} GPUs"));
        }
    }
}

/// Returns the types and counts of `A100:8`, `{A100: 8}`, and lists of them.
fn accelerators(value: &Value) -> Vec<(String, f64)> {
    match value {
        Value::String(text) => {
            let (name, count) = text.split_once(':').unwrap_or((text, "1"));
            count.trim().parse().map(|count| (name.trim().to_owned(), count)).into_iter().collect()
        }
        Value::Object(map) => {
            map.iter().map(|(name, count)| (name.clone(), count.as_f64().unwrap_or(1.0))).collect()
        }
        Value::Array(items) => items.iter().flat_map(accelerators).collect(),
        _ => Vec::new(),
    }
}
