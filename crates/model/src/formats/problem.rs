//! Problems of a file, each with its line, key and hint, and the list of all.

use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use crate::ErrorId;

/// Why a text is not a valid value, without its position.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}{}", hint_suffix(hint.as_deref()))]
pub struct ValueError {
    /// The kind of mistake.
    pub id: ErrorId,
    /// The problem, such as `must be at least 1, got 0`.
    pub message: String,
    /// The correction, if known.
    pub hint: Option<String>,
}

/// One problem of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileProblem {
    /// Line of the value or key, from 1.
    pub line: usize,
    /// The kind of mistake.
    pub id: ErrorId,
    /// Path of the key, such as `jobs[2].max_batch.t4`; empty for the whole file.
    pub path: String,
    /// The problem.
    pub message: String,
    /// The correction, if known.
    pub hint: Option<String>,
}

/// All problems of a file, by line; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Problems(Vec<FileProblem>);

impl ValueError {
    /// Returns an error of the general kind, without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self { id: ErrorId::Value, message: message.into(), hint: None }
    }

    /// Sets the kind of the error.
    pub fn id(self, id: ErrorId) -> Self {
        Self { id, ..self }
    }

    /// Returns the error with a hint added.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Problems {
    /// Returns the problems sorted by line, each once, or `Ok(value)` if there are none.
    ///
    /// Jobs of one sweep share most of their problems.
    ///
    /// # Errors
    /// If there is at least one problem.
    pub(super) fn unless_none<T>(mut problems: Vec<FileProblem>, value: T) -> Result<T, Self> {
        if problems.is_empty() {
            return Ok(value);
        }
        let mut seen = BTreeSet::new();
        problems.retain(|problem| seen.insert(problem.clone()));
        problems.sort_by_key(|problem| problem.line);
        Err(Self(problems))
    }

    /// Returns the problems in line order.
    pub fn as_slice(&self) -> &[FileProblem] {
        &self.0
    }

    /// Returns the problems, one per line, each after the file's name: `jobs.yaml:12: jobs[0].epochs: …`.
    pub fn in_file(&self, file: &str) -> String {
        let lines: Vec<String> = self.0.iter().map(|problem| problem.in_file(file)).collect();
        lines.join("\n")
    }
}

impl FileProblem {
    /// Returns the problem after the file's name: `jobs.yaml:12: jobs[0].epochs: …`.
    pub fn in_file(&self, file: &str) -> String {
        format!("{file}:{}: {}", self.line, Tail(self))
    }
}

impl From<FileProblem> for Problems {
    fn from(problem: FileProblem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, Tail(self))
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// A problem without its line.
struct Tail<'a>(&'a FileProblem);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileProblem { path, message, hint, .. } = self.0;
        let colon = if path.is_empty() { "" } else { ": " };
        write!(f, "{path}{colon}{message}{}", hint_suffix(hint.as_deref()))
    }
}

fn hint_suffix(hint: Option<&str>) -> String {
    hint.map(|hint| format!("; {hint}")).unwrap_or_default()
}

/// Returns the known word most similar to `word`, or `None` if none is similar enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long words take quadratic time and are not typing errors.
    if word.len() > 60 {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let word = plain(word);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &plain(candidate)), candidate))
        .filter(|&(distance, candidate)| distance <= (candidate.len().max(word.len()) / 3).max(1))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the text in quotes for a message, with control characters escaped and long text shortened.
pub fn quoted(text: &str) -> String {
    const LIMIT: usize = 60;
    let cut: String = text.chars().take(LIMIT).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{cut:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_line_key_and_remedy() {
        let problem = FileProblem {
            line: 12,
            id: ErrorId::NumberRange,
            path: "jobs[0].epochs".to_owned(),
            message: "must be at least 1, got -3".to_owned(),
            hint: None,
        };
        assert_eq!(problem.to_string(), "line 12: jobs[0].epochs: must be at least 1, got -3");
        let hinted = FileProblem { hint: Some("write 3".to_owned()), path: String::new(), ..problem };
        assert_eq!(
            Problems::from(hinted).in_file("jobs.yaml"),
            "jobs.yaml:12: must be at least 1, got -3; write 3"
        );
    }

    #[test]
    fn only_near_words_are_suggested() {
        let check = |word, expected| {
            assert_eq!(nearest(word, ["epochs", "weight", "global_batch"]), expected, "{word}");
        };
        check("epoch", Some("epochs"));
        check("Global-Batch", Some("global_batch"));
        check("wieght", Some("weight"));
        check("colour", None);
    }
}
