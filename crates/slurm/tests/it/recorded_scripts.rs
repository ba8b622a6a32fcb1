//! Interpretations of public scripts and small experiments by a real Slurm, compared with the reader's
//! result.
//!
//! The recordings are outside the repository; without them, the tests print a note and pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hsched_model::formats::parse_duration;
use hsched_model::number::to_u64;
use hsched_slurm::batch_script::{self, ImportedJob};
use hsched_slurm::script::{ScriptReading, ScriptSource, SlurmVersion, read_script};
use serde_json::Value;

/// The recorded versions of Slurm.
const VERSIONS: [&str; 2] = ["22.05", "24.11"];

/// A script with its command line and environment, and the results of the versions.
struct Case {
    name: String,
    script: Vec<u8>,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    answers: BTreeMap<&'static str, Value>,
}

/// Cases that the recorded cluster refused because of its own partitions, nodes, features, licenses, jobs or
/// files. The reader must list the names that it cannot check.
const ONLY_THE_SITE_KNOWS: [&str; 24] = [
    "031", "172", "453", "454", "455", "466", "467", "489", "497", "532", "536", "558", "559", "563", "567",
    "568", "569", "595", "625", "626", "632", "636", "634", "603",
];

/// Numbers and versions of the cases with fields that the recording took from the nodes of its cluster or
/// from a held job, or that it names differently from Slurm: Slurm counts `gpu:1K` as 1024 GPUs.
const OF_THE_RECORDING: [(&str, &str); 6] = [
    ("278", "22.05"),
    ("278", "24.11"),
    ("290", "24.11"),
    ("299", "24.11"),
    ("300", "24.11"),
    ("301", "24.11"),
];

#[test]
fn the_reader_agrees_with_slurm() {
    let (Some(scripts), Some(experiments)) = (scripts(), experiments()) else { return };
    assert!(scripts.len() >= 133 && experiments.len() >= 585);
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for case in scripts.iter().chain(&experiments) {
        for version in VERSIONS {
            let Some(answer) = case.answers.get(version).filter(|value| !value["accepted"].is_null()) else {
                continue;
            };
            checked += 1;
            let found = differences(case, version, answer);
            if found.is_empty() == OF_THE_RECORDING.contains(&(case.number(), version)) {
                wrong.push(format!("{} {version}: {}", case.name, found.join("; ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The import of each script: imported values equal Slurm's result, and every other value has a remark or a
/// TODO.
#[test]
fn nothing_is_imported_wrong_in_silence() {
    let (Some(scripts), Some(experiments)) = (scripts(), experiments()) else { return };
    let mut wrong = Vec::new();
    for case in scripts.iter().chain(&experiments) {
        let answer = &case.answers["24.11"];
        let Ok(script) = std::str::from_utf8(&case.script) else { continue };
        let is_beside = !case.arguments.is_empty() || !case.environment.is_empty();
        if is_beside || answer["accepted"].is_null() || OF_THE_RECORDING.contains(&(case.number(), "24.11")) {
            continue;
        }
        let imported = batch_script::read(script, "x");
        let found = silent_mistakes(case, answer, &imported);
        if !found.is_empty() {
            wrong.push(format!("{}: {}", case.name, found.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the differences between an import and Slurm that have neither a remark nor a TODO.
fn silent_mistakes(case: &Case, answer: &Value, imported: &ImportedJob) -> Vec<String> {
    let says = |words: &[&str]| {
        imported.remarks.iter().any(|remark| words.iter().any(|word| remark.text.contains(word)))
    };
    if answer["accepted"] == false {
        let is_said = says(&["sbatch refuses", "plugin"]) || ONLY_THE_SITE_KNOWS.contains(&case.number());
        return if is_said { Vec::new() } else { vec![format!("Slurm refuses it: {}", answer["message"])] };
    }
    let request = &answer["request"];
    let key = |name: &str| imported.keys.get(name).cloned().unwrap_or(Value::Null);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    if request["het"] != 0 {
        let is_said = imported.todos.contains_key("gpus") && says(&["heterogeneous"]);
        return if is_said { Vec::new() } else { vec!["a heterogeneous job".to_owned()] };
    }
    let (gpus, tasks) = (number(&request["gpus_total"]), number(&request["ntasks"]));
    let cpus = tasks * number(&request["cpus_per_task"]);
    let least = if key("gpus").is_null() { key("min_gpus") } else { key("gpus") };
    let own_cpus = number(&key("cpus_per_gpu"));
    let checks = [
        ("gpus", imported.todos.contains_key("gpus") || number(&least) == gpus),
        (
            "gpu_types",
            request["gpu_type"].is_null()
                || key("gpu_types").to_string().contains(&request["gpu_type"].to_string())
                || says(&["not a GPU type"]),
        ),
        ("nodes", number(&request["nodes_min"]) < 2 || says(&["nodes"])),
        (
            "cpus",
            gpus == 0
                || own_cpus == number(&request["cpus_per_gpu"])
                || own_cpus * gpus == cpus
                || own_cpus == 0 && cpus == 1
                || says(&["CPUs for"]),
        ),
        (
            "memory",
            request["mem_mb_per_node"].is_null() || !key("memory_per_gpu").is_null() || says(&["--mem"]),
        ),
        ("time", time(&key("time")) == request["time_limit_s"] || says(&["no time limit"])),
        ("partition", key("partition") == request["partition"]),
        ("qos", key("qos") == request["qos"]),
        ("array", request["array_tasks"].is_null() || says(&["--array"])),
    ];
    checks
        .into_iter()
        .filter(|(_, is_right)| !is_right)
        .map(|(name, _)| format!("{name}: {request}"))
        .collect()
}

/// Returns the seconds of a key `time`.
fn time(value: &Value) -> Value {
    let seconds = value.as_str().and_then(|text| parse_duration(text).ok()).map(|duration| duration.0);
    seconds.map_or(Value::Null, |seconds| to_u64(seconds).into())
}

impl Case {
    fn number(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    fn read(&self, version: &str) -> ScriptReading {
        read_script(&ScriptSource {
            script: Some(&self.script),
            file_name: "x.sh",
            command_line: &self.arguments,
            environment: &self.environment,
            version: SlurmVersion::parse(version),
        })
    }
}

/// Returns the differences between the reading of a case and an answer.
fn differences(case: &Case, version: &str, answer: &Value) -> Vec<String> {
    let reading = case.read(version);
    if answer["accepted"] == false {
        let message = answer["message"].as_str().unwrap_or_default();
        let is_plugin = message.contains("unrecognized option") && !reading.notes.is_empty();
        let is_named = ONLY_THE_SITE_KNOWS.contains(&case.number())
            && !(reading.unknown.is_empty() && reading.site_names.is_empty());
        let is_refused = reading.refused.is_some() || is_plugin || is_named;
        return if is_refused { Vec::new() } else { vec![format!("Slurm refuses it: {message}")] };
    }
    if let Some(why) = reading.refused {
        return vec![format!("refused, but Slurm takes it: {why}")];
    }
    let json = reading.to_json();
    // Slurm prints the maximum number of nodes only for some jobs, and always for those that it cannot place
    // or that are held.
    let prints_nodes = answer["placeable"] == true && !["522", "553"].contains(&case.number());
    let mut found = fields("", &answer["request"], &json["request"], prints_nodes);
    let none = Vec::new();
    let components = answer["request"]["components"].as_array().unwrap_or(&none);
    for (index, component) in components.iter().enumerate() {
        let read = &json["request"]["components"][index];
        found.extend(fields(&format!("component {index}: "), component, read, prints_nodes));
    }
    found
}

/// Returns the fields that differ.
fn fields(prefix: &str, answer: &Value, read: &Value, prints_nodes: bool) -> Vec<String> {
    let fields = answer.as_object().expect("a request");
    fields
        .iter()
        .filter(|(name, value)| *name != "nodes_max" || prints_nodes && !value.is_null())
        .filter(|(name, value)| *name != "components" && read[name.as_str()] != **value)
        .map(|(name, value)| format!("{prefix}{name} is {value}, read as {}", read[name.as_str()]))
        .collect()
}

fn scripts() -> Option<Vec<Case>> {
    let mut all: BTreeMap<String, Case> = BTreeMap::new();
    for version in VERSIONS {
        for answer in records(&format!("oracle-{version}.jsonl"))? {
            let name = answer["n"].as_str().expect("a number").to_owned();
            let case = all.entry(name.clone()).or_insert_with(|| Case {
                script: fs::read(folder().join(format!("{name}.sh"))).expect("a script"),
                name,
                arguments: Vec::new(),
                environment: BTreeMap::new(),
                answers: BTreeMap::new(),
            });
            case.answers.insert(version, answer);
        }
    }
    Some(all.into_values().collect())
}

fn experiments() -> Option<Vec<Case>> {
    let case = |record: Value| {
        let words = record["args"].as_array().expect("words").iter();
        let variables = record["env"].as_object().expect("variables").iter();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        Case {
            name: format!("{} {}", text(&record["n"]), text(&record["name"])),
            script: text(&record["script"]).into_bytes(),
            arguments: words.map(text).collect(),
            environment: variables.map(|(name, value)| (name.clone(), text(value))).collect(),
            answers: VERSIONS.iter().map(|version| (*version, record[*version].clone())).collect(),
        }
    };
    Some(records("tiny.jsonl")?.into_iter().map(case).collect())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/scripts")
}

/// Returns the lines of a file of JSON objects, if it exists beside the repository.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn records(name: &str) -> Option<Vec<Value>> {
    let path = folder().join(name);
    let Ok(text) = fs::read_to_string(&path) else {
        println!("skipped: no {}", path.display());
        return None;
    };
    Some(text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}
