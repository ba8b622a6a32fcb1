//! Sweep configurations of Weights & Biases (docs.wandb.ai, "Sweep configuration options").

use serde_json::{Map, Value, json};

use super::{ForeignFile, search, sweep_key};
use hsched_slurm::batch_script::ImportedJob;

/// Supported keys.
const KNOWN: [&str; 8] =
    ["name", "program", "method", "metric", "parameters", "command", "early_terminate", "run_cap"];

/// Maximum number of integers of a range that is written as a list.
const LONGEST_LIST: i64 = 1000;

/// The default command.
const COMMAND: [&str; 4] = ["${env}", "${interpreter}", "${program}", "${args}"];

pub(super) fn read(file: &ForeignFile<'_>, imported: &mut ImportedJob) {
    file.name("name", imported);
    file.remark_others(&KNOWN, imported);
    let mut arguments = Vec::new();
    let mut sweep = Map::new();
    let mut draws = false;
    for (key, value) in file.keys["parameters"].as_object().into_iter().flatten() {
        let line = file.line(key);
        let Some(name) = sweep_key(key) else {
            imported
                .remark(line, format!("{key}: cannot be the key of a sweep; add it to the command yourself"));
            continue;
        };
        match values(key, value, line, imported) {
            Some(Parameter::Constant(value)) => arguments.push((key.clone(), plain(&value))),
            Some(Parameter::Values(values)) => {
                draws |= values.is_object();
                arguments.push((key.clone(), format!("{{{name}}}")));
                sweep.insert(name, values);
            }
            None => {
                imported.remark(
                    line,
                    format!("{key}: not known to hsched; add it to the sweep and to the command yourself"),
                );
            }
        }
    }
    let method = file.text_of("method").unwrap_or_default();
    if method != "grid" || draws {
        search(file.keys.get("run_cap").and_then(Value::as_u64), imported);
        if method == "bayes" {
            imported.remark(file.line("method"), "method: bayes: hsched draws values at random");
        }
    }
    if !sweep.is_empty() {
        imported.keys.insert("sweep", Value::Object(sweep));
    }
    goal(file, imported);
    command(file, &arguments, imported);
}

/// The values of a parameter over the runs.
enum Parameter {
    Constant(Value),
    /// A list or a range of a sweep.
    Values(Value),
}

/// Returns a parameter's values; `None` if hsched has no equivalent.
fn values(key: &str, value: &Value, line: usize, imported: &mut ImportedJob) -> Option<Parameter> {
    if let Some(constant) = value.get("value") {
        return (!constant.is_object() && !constant.is_array())
            .then(|| Parameter::Constant(constant.clone()));
    }
    if let Some(list) = value.get("values").and_then(Value::as_array) {
        if value.get("probabilities").is_some() {
            imported.remark(line, format!("{key}: probabilities: all values are drawn equally often"));
        }
        let is_flat = list.iter().all(|item| !item.is_object() && !item.is_array() && !item.is_null());
        return (is_flat && !list.is_empty()).then(|| Parameter::Values(json!(list)));
    }
    let (low, high) = (value.get("min")?, value.get("max")?);
    let whole = low.as_i64().zip(high.as_i64());
    let (least, most) = (low.as_f64()?, high.as_f64()?);
    let said = value.get("distribution").and_then(Value::as_str);
    let distribution = said.unwrap_or(if whole.is_some() { "int_uniform" } else { "uniform" });
    match (distribution, whole) {
        ("int_uniform", Some((low, high))) if (0..LONGEST_LIST).contains(&high.saturating_sub(low)) => {
            Some(Parameter::Values(json!((low..=high).collect::<Vec<_>>())))
        }
        ("uniform", _) => Some(Parameter::Values(json!({ "uniform": [least, most] }))),
        ("log_uniform_values", _) => Some(Parameter::Values(json!({ "log_uniform": [least, most] }))),
        ("log_uniform", _) => Some(Parameter::Values(json!({ "log_uniform": [least.exp(), most.exp()] }))),
        _ => None,
    }
}

/// Imports the metric, and the rule for early termination.
fn goal(file: &ForeignFile<'_>, imported: &mut ImportedJob) {
    let metric = file.keys.get("metric");
    let name = metric.and_then(|metric| metric.get("name")).and_then(Value::as_str);
    if let Some(name) = name {
        let goal = metric.and_then(|metric| metric.get("goal")).and_then(Value::as_str);
        let mode = if goal == Some("maximize") { "max" } else { "min" };
        let mut target = json!({ "metric": name, "mode": mode });
        if let Some(value) = metric.and_then(|metric| metric.get("target")).filter(|value| value.is_number())
        {
            target["value"] = value.clone();
        }
        imported.keys.insert("target", target);
        imported.remark(
            file.line("metric"),
            format!("metric: hsched reads {name} from the reports, not from W&B"),
        );
    }
    if file.keys.contains_key("early_terminate") {
        let line = file.line("early_terminate");
        if name.is_some() {
            imported.keys.insert("stop", json!({ "rule": "halving" }));
            imported
                .remark(line, "early_terminate: became stop: {rule: halving}; hsched chooses the brackets");
        } else {
            imported.remark(line, "early_terminate: left out, because the file has no metric");
        }
    }
}

/// Imports the command, with the values of constant parameters and a placeholder for each other parameter.
fn command(file: &ForeignFile<'_>, arguments: &[(String, String)], imported: &mut ImportedJob) {
    let given = file.keys.get("command").and_then(Value::as_array);
    let words: Vec<String> = match given {
        Some(list) => list.iter().map(plain).collect(),
        None => COMMAND.map(str::to_owned).to_vec(),
    };
    let program = file.text_of("program");
    if program.is_none() && words.iter().any(|word| word == "${program}") {
        imported.hints.insert("command", "the file names no program".to_owned());
        return;
    }
    let mut made = Vec::new();
    let each = |begin: &str| arguments.iter().map(|(key, value)| format!("{begin}{key}={value}")).collect();
    for word in words {
        let expanded: Vec<String> = match word.as_str() {
            "${env}" => Vec::new(),
            "${interpreter}" => vec!["python".to_owned()],
            "${program}" => program.iter().map(ToString::to_string).collect(),
            "${args}" => each("--"),
            "${args_no_hyphens}" => each(""),
            other if other.starts_with("${") => {
                let line = file.line("command");
                let why = format!("line {line} has {other}, which hsched has nothing like");
                imported.hints.insert("command", why);
                return;
            }
            _ => vec![word],
        };
        made.extend(expanded);
    }
    imported.keys.insert("command", json!(made));
}

/// Formats a scalar for a command.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
