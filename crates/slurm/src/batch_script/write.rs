//! An imported job as text: a job file with gaps to fill in, and comments on the rest.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::ImportedJob;
use hsched_model::formats::{TODO, flow, job_keys};

/// Required keys that scripts do not contain, with their placeholders.
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
            let line = match (self.keys.get(key.name), UNKNOWN.iter().find(|(name, _)| *name == key.name)) {
                (Some(value), _) => format!("{}: {}", key.name, flow(value)),
                (None, Some((_, what))) => {
                    let hint = self.hints.get(key.name).map(|hint| format!("; {}", one_line(hint)));
                    format!("{}: {TODO}   # {what}{}", key.name, hint.unwrap_or_default())
                }
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
        let required = UNKNOWN.iter().map(|(key, _)| *key).filter(|key| !self.keys.contains_key(key));
        required.chain(self.todos.keys().copied())
    }

    /// Adds a comment about a missing key.
    fn comment(&self, key: &str, out: &mut String) {
        match (key, &self.array) {
            ("throughput", _) => out.push_str(
                "    #throughput: {v100: 100}   # samples/s on one GPU of each type, if known; otherwise hsched probe measures them\n",
            ),
            ("sweep", Some((_, array))) => {
                let tasks = one_line(array.split('%').next().unwrap_or(array));
                let _ = writeln!(out, "    #sweep: {{task: [{tasks}]}}   # one job for each value; the command gets it as $TASK");
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
