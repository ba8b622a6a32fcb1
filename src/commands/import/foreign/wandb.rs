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
            Some(values) => {
                if let Parameter::Values(values) = &values {
                    draws |= values.is_object();
                    sweep.insert(name.clone(), as_texts(values));
                }
                arguments.push(Argument { key: key.clone(), name, values });
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

/// A parameter of the program, whose values have the placeholder `name`.
struct Argument {
    key: String,
    name: String,
    values: Parameter,
}

impl Argument {
    /// Returns the word `--KEY=VALUE`, with this text before the key.
    fn word(&self, begin: &str) -> CommandWord {
        let flag = format!("{begin}{}", self.key);
        let shell_flag = shell_words::quote(&flag);
        // hsched quotes the value of a placeholder in a line for the shell.
        let (value, shell_value) = match &self.values {
            Parameter::Constant(value) => (text(value), shell_words::quote(&text(value)).into_owned()),
            Parameter::Values(_) => (format!("{{{}}}", self.name), format!("{{{}}}", self.name)),
        };
        CommandWord { list: Some(format!("{flag}={value}")), shell: format!("{shell_flag}={shell_value}") }
    }

    /// Returns the word in which booleans are flags: `--KEY` if true, nothing if false; `Err` if only some values of the
    /// sweep are booleans.
    fn flag(&self) -> Result<Option<CommandWord>, &str> {
        let flag = format!("--{}", self.key);
        match &self.values {
            Parameter::Constant(Value::Bool(is_set)) => Ok(is_set.then(|| CommandWord::plain(flag))),
            Parameter::Values(Value::Array(list)) if list.iter().all(Value::is_boolean) => {
                let (name, flag) = (&self.name, shell_words::quote(&flag));
                Ok(Some(CommandWord::of_shell(format!("$([ {{{name}}} = True ] && echo {flag})"))))
            }
            Parameter::Values(Value::Array(list)) if list.iter().any(Value::is_boolean) => Err(&self.key),
            _ => Ok(Some(self.word("--"))),
        }
    }
}

/// A word of the command.
struct CommandWord {
    /// The word in a list of words; `None` if only a shell can make it.
    list: Option<String>,
    /// The word in a line for the shell.
    shell: String,
}

impl CommandWord {
    fn plain(word: String) -> Self {
        Self { shell: shell_words::quote(&word).into_owned(), list: Some(word) }
    }

    fn of_shell(shell: String) -> Self {
        Self { list: None, shell }
    }
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
        let is_flat = list.iter().all(|item| !item.is_object() && !item.is_array());
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
fn command(file: &ForeignFile<'_>, arguments: &[Argument], imported: &mut ImportedJob) {
    let given = file.keys.get("command").and_then(Value::as_array);
    let words: Vec<String> = match given {
        Some(list) => list.iter().map(text).collect(),
        None => COMMAND.map(str::to_owned).to_vec(),
    };
    let program = file.text_of("program");
    if program.is_none() && words.iter().any(|word| word == "${program}") {
        imported.hints.insert("command", "the file names no program".to_owned());
        return;
    }
    let mut made = Vec::new();
    for word in words {
        match expanded(&word, program, arguments) {
            Ok(expanded) => made.extend(expanded),
            Err(why) => {
                let hint = format!("line {} has {word}, {why}", file.line("command"));
                imported.hints.insert("command", hint);
                return;
            }
        }
    }
    let list: Option<Vec<&str>> = made.iter().map(|word| word.list.as_deref()).collect();
    let line = || made.iter().map(|word| word.shell.as_str()).collect::<Vec<_>>().join(" ");
    imported.keys.insert("command", list.map_or_else(|| json!(line()), |list| json!(list)));
}

/// Returns the words for a word of the command, which may be a macro.
///
/// # Errors
/// Why hsched has no words for it.
fn expanded(word: &str, program: Option<&str>, arguments: &[Argument]) -> Result<Vec<CommandWord>, String> {
    let each = |begin: &str| arguments.iter().map(|argument| argument.word(begin)).collect();
    let is_name = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    Ok(match word {
        "${env}" => Vec::new(),
        "${interpreter}" => vec![CommandWord::plain("python".to_owned())],
        "${program}" => program.iter().map(|name| CommandWord::plain((*name).to_owned())).collect(),
        "${args}" => each("--"),
        "${args_no_hyphens}" => each(""),
        "${args_no_boolean_flags}" => {
            let flags: Result<Vec<_>, &str> = arguments.iter().map(Argument::flag).collect();
            let flags = flags.map_err(|key| format!("and only some values of {key} are booleans"))?;
            flags.into_iter().flatten().collect()
        }
        other if other.starts_with("${") => {
            let variable = other.strip_prefix("${envvar:").and_then(|rest| rest.strip_suffix('}'));
            let name = variable.filter(is_name).ok_or("which hsched has nothing like")?;
            vec![CommandWord::of_shell(format!("\"${name}\""))]
        }
        _ => vec![CommandWord::plain(word.to_owned())],
    })
}

/// Returns a value as W&B's agent, a Python program, writes it in a command: `True`, `None`.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => "None".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the values of a sweep, with texts for those that W&B writes in another way.
fn as_texts(values: &Value) -> Value {
    let one = |value: &Value| match value {
        Value::Bool(_) | Value::Null => json!(text(value)),
        other => other.clone(),
    };
    values.as_array().map_or_else(|| values.clone(), |list| list.iter().map(one).collect())
}
