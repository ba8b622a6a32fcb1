//! An imported job as text: a job file with gaps to fill in, and comments on the rest.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::ImportedJob;
use hsched_model::formats::{TODO, flow, job_keys};

/// Keys that scripts do not contain, each with an explanation. A job that divides its work over GPUs needs
/// all of them; a job on at most one GPU needs only its command, and its epochs if it has the key `target` or
/// `stop`.
const UNKNOWN: [(&str, &str); 5] = [
    ("samples_per_epoch", "training samples per epoch"),
    ("epochs", "total number of epochs"),
    ("global_batch", "samples per step over all ranks; the same for every placement"),
    ("model_size", "bytes that the ranks exchange after each step (4 per parameter in fp32), such as 46.8MB"),
    ("command", "what each rank runs, such as python train.py"),
];

impl ImportedJob {
    /// Returns the job file, with comments; `source` is the script's name.
    pub fn to_yaml(&self, source: &str) -> String {
        let mut out = format!("# Written by hsched import from {}.\n", one_line(source));
        if self.unknown().next().is_some() {
            let _ = writeln!(out, "# Replace every {TODO}; hsched plan lists the remaining ones.");
        }
        if !self.remarks.is_empty() {
            out.push_str("# Dropped or changed:\n");
        }
        for remark in &self.remarks {
            let _ = writeln!(out, "#   line {}: {}", remark.line, one_line(&remark.text));
        }
        out.push_str("jobs:\n");
        let mut indent = "  - ";
        for key in job_keys() {
            let hint =
                || self.hints.get(key.name).map(|hint| format!("; {}", one_line(hint))).unwrap_or_default();
            let line = match (self.keys.get(key.name), UNKNOWN.iter().find(|(name, _)| *name == key.name)) {
                (Some(value), _) => format!("{}: {}", key.name, flow(value)),
                (None, Some((name, what))) if self.is_needed(name) => {
                    format!("{}: {TODO}   # {what}{}", key.name, hint())
                }
                (None, Some(("epochs", what))) => {
                    format!("#epochs: 1   # {what}, if the program reports them{}", hint())
                }
                (None, Some(_)) => continue,
                (None, None) => {
                    let Some(why) = self.todos.get(key.name) else {
                        self.comment(key.name, &mut out);
                        continue;
                    };
                    format!("{}: {TODO}   # {}", key.name, one_line(why))
                }
            };
            let _ = writeln!(out, "{indent}{line}");
            indent = "    ";
        }
        out
    }

    /// Returns the job file as JSON, which has no comments.
    pub fn to_json(&self) -> Value {
        let known = self.keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let unknown = self.unknown().map(|key| (key.to_owned(), json!(TODO)));
        json!({ "jobs": [known.chain(unknown).collect::<Map<String, Value>>()] })
    }

    /// Returns the keys that the user must fill in.
    pub fn unknown(&self) -> impl Iterator<Item = &'static str> {
        let required = UNKNOWN.iter().map(|(key, _)| *key);
        let required = required.filter(|key| self.is_needed(key) && !self.keys.contains_key(key));
        required.chain(self.todos.keys().copied())
    }

    /// Returns whether the job must have this key of `UNKNOWN`.
    fn is_needed(&self, key: &str) -> bool {
        match key {
            "command" => true,
            "epochs" => !self.is_plain() || ["target", "stop"].iter().any(|key| self.keys.contains_key(key)),
            _ => !self.is_plain(),
        }
    }

    /// Returns whether the job uses at most one GPU.
    fn is_plain(&self) -> bool {
        let is_one =
            |key: &str| self.keys.get(key).is_none_or(|count| count.as_u64().is_some_and(|count| count <= 1));
        let is_known = !["gpus", "min_gpus", "max_gpus"].iter().any(|key| self.todos.contains_key(key));
        is_known
            && !self.keys.contains_key("replica")
            && ["gpus", "min_gpus", "max_gpus"].iter().all(|key| is_one(key))
    }

    /// Adds a comment about a missing key.
    fn comment(&self, key: &str, out: &mut String) {
        match (key, &self.array) {
            ("throughput", _) => {
                let what = if self.is_needed("samples_per_epoch") {
                    "samples/s on one GPU of each type, if known; otherwise hsched probe measures them"
                } else {
                    "epochs/s on one GPU of each type; hsched plan and watch need them, run and submit --pack do not"
                };
                let _ = writeln!(out, "    #throughput: {{v100: 100}}   # {what}");
            }
            ("sweep", Some((_, array))) => {
                let tasks = one_line(array.split('%').next().unwrap_or(array));
                let _ = writeln!(
                    out,
                    "    #sweep: {{task: [{tasks}]}}   # one job for each value; the command gets it as $TASK"
                );
            }
            _ => {}
        }
    }
}

/// Returns a text in one line, so that it cannot end a comment.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || "\u{85}\u{2028}\u{2029}\u{feff}".contains(c) { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::UNKNOWN;
    use hsched_model::formats::job_keys;

    #[test]
    fn what_is_left_to_fill_in_is_all_that_a_job_file_needs_beside_a_name() {
        let needed = job_keys().filter(|key| key.is_required()).map(|key| key.name);
        let unknown: Vec<&str> = UNKNOWN.iter().map(|(name, _)| *name).collect();
        assert_eq!(needed.filter(|name| *name != "name").collect::<Vec<_>>(), unknown);
    }
}
