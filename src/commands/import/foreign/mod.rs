//! Converts files of other tools to job file entries: sweeps of Weights & Biases and Hydra, tasks of
//! SkyPilot.
//!
//! As for batch scripts, remarks with line numbers list what has no counterpart, and the user fills in the
//! missing values.

mod hydra;
mod skypilot;
mod wandb;

use serde_json::{Map, Value, json};

use hsched_model::ErrorId;
use hsched_model::formats::is_sweep_key;
use hsched_slurm::batch_script::ImportedJob;
use hsched_ui::{Exit, Failure};

/// A file of another tool, as a tree without positions; lines are found by the names of keys.
struct ForeignFile<'a> {
    text: &'a str,
    keys: &'a Map<String, Value>,
}

/// Reads a file of another tool; `None` if it has no known format. `name` is the job's name if the file has
/// none; `source` names the file in errors.
///
/// # Errors
/// If the text is not YAML.
pub(super) fn read(text: &str, name: &str, source: &str) -> Result<Option<ImportedJob>, Failure> {
    let tree: Value = yaml_serde::from_str(text).map_err(|error| {
        Failure::new(Exit::BadInput, format!("{source} is not YAML: {error}")).id(ErrorId::YamlSyntax)
    })?;
    let Some(keys) = tree.as_object() else { return Ok(None) };
    let file = ForeignFile { text, keys };
    let mut imported = ImportedJob::default();
    imported.set_name(None, name);
    let has = |key: &str| keys.contains_key(key);
    if keys.get("parameters").is_some_and(Value::is_object) && has("method") {
        wandb::read(&file, &mut imported);
    } else if keys.get("hydra").is_some_and(Value::is_object) {
        hydra::read(&file, &mut imported);
    } else if file.text_of("run").is_some()
        || keys.get("resources").is_some_and(|key| key.get("accelerators").is_some())
    {
        skypilot::read(&file, &mut imported);
    } else {
        return Ok(None);
    }
    imported.remarks.sort_by_key(|remark| remark.line);
    Ok(Some(imported))
}

impl ForeignFile<'_> {
    /// Returns the first line that begins with a key, from 1; the first line of the file if there is none, as
    /// in JSON on one line.
    fn line(&self, key: &str) -> usize {
        let begins = |line: &str| {
            let line = line.trim_start().trim_start_matches("- ").trim_start_matches(['"', '\'']);
            line.strip_prefix(key)
                .is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
        };
        self.text.lines().position(begins).map_or(1, |place| place + 1)
    }

    /// Returns the text of a top-level key.
    fn text_of(&self, key: &str) -> Option<&str> {
        self.keys.get(key)?.as_str()
    }

    /// Adds a remark for each top-level key outside `known`.
    fn remark_others(&self, known: &[&str], imported: &mut ImportedJob) {
        for key in self.keys.keys().filter(|key| !known.contains(&key.as_str())) {
            imported.remark(self.line(key), format!("{key}: hsched has nothing like it; left out"));
        }
    }

    /// Sets the job's name from the file.
    fn name(&self, key: &str, imported: &mut ImportedJob) {
        if let Some(name) = self.text_of(key) {
            imported.set_name(Some(&(self.line(key), name.to_owned())), name);
        }
    }
}

/// Converts a key of another tool to a key of a sweep, which is also the name of a placeholder: `model.lr`
/// becomes `model_lr`.
fn sweep_key(key: &str) -> Option<String> {
    let plain: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    is_sweep_key(&plain).then_some(plain)
}

/// Sets the number of combinations to draw.
fn search(samples: Option<u64>, imported: &mut ImportedJob) {
    match samples {
        Some(samples) => drop(imported.keys.insert("search", json!({ "samples": samples }))),
        None => imported.todo("search", "how many combinations to draw: {samples: 20}"),
    }
}
