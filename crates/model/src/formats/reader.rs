//! Typed access to a tree of values: every reader reports errors and continues.
//!
//! A reader returns `None` after it has reported an error. A file with an error has no result, so callers may
//! continue with any placeholder value to find further problems.

mod fields;
mod scalars;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

pub(super) use self::fields::Fields;
use super::number::parse_number;
use super::problem::{FileProblem, Problems, ValueError, nearest, quoted};
use super::yaml::{self, ValueKind, YamlNode};
use crate::ErrorId;

/// Collects the errors found by readers.
#[derive(Default)]
pub(super) struct Sink {
    problems: RefCell<Vec<FileProblem>>,
    /// Whether the file is JSON, where a bare number is a duration in seconds or a number of bytes.
    is_json: bool,
}

/// A value with its path and the error sink.
#[derive(Clone)]
pub(super) struct ReaderValue<'a> {
    node: &'a YamlNode,
    path: ValuePath<'a>,
    sink: &'a Sink,
}

/// The position of a value in its file; formatted only for an error, because long traces have a million
/// values.
#[derive(Clone)]
enum ValuePath<'a> {
    Root,
    Key(Rc<ValuePath<'a>>, &'a str),
    Item(Rc<ValuePath<'a>>, usize),
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simple = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '+');
        match self {
            Self::Root => Ok(()),
            Self::Item(list, index) => write!(f, "{list}[{index}]"),
            Self::Key(map, key) => {
                let dot = if matches!(**map, Self::Root) { "" } else { "." };
                if !key.is_empty() && key.len() <= 60 && key.chars().all(simple) {
                    write!(f, "{map}{dot}{key}")
                } else {
                    write!(f, "{map}{dot}{}", quoted(key))
                }
            }
        }
    }
}

/// Reads a whole file: `read` receives its root and reports errors into the value's sink.
///
/// # Errors
/// If the text is not YAML, or `read` reported a problem.
pub(super) fn read_file<T>(
    text: &str,
    read: impl FnOnce(&ReaderValue<'_>) -> Option<T>,
) -> Result<T, Problems> {
    read_tree(&yaml::parse(text)?, is_json(text), read)
}

/// Reads a whole file from its tree.
///
/// # Errors
/// If `read` reported a problem.
pub(super) fn read_tree<T>(
    node: &YamlNode,
    is_json: bool,
    read: impl FnOnce(&ReaderValue<'_>) -> Option<T>,
) -> Result<T, Problems> {
    let sink = Sink { is_json, ..Sink::default() };
    let result = read(&ReaderValue { node, path: ValuePath::Root, sink: &sink });
    let problems = sink.problems.into_inner();
    Problems::unless_none(problems, result)?.ok_or_else(|| {
        // This is reached only if a reader forgot to report an error; a file must never be partially read
        // without a message.
        let message = "cannot be read".to_owned();
        Problems::from(FileProblem { line: 1, id: ErrorId::Value, path: String::new(), message, hint: None })
    })
}

/// Returns whether a text begins like a JSON object, with a quoted key.
fn is_json(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix('{');
    inside.is_some_and(|inside| inside.trim_start().starts_with('"'))
}

impl<'a> ReaderValue<'a> {
    pub(super) fn line(&self) -> usize {
        self.node.line
    }

    pub(super) fn node(&self) -> &'a YamlNode {
        self.node
    }

    /// Returns another tree to be read in place of this one.
    pub(super) fn with<'b>(&self, node: &'b YamlNode) -> ReaderValue<'b>
    where
        'a: 'b,
    {
        ReaderValue { node, path: self.path.clone(), sink: self.sink }
    }

    /// Reports a problem with this value.
    pub(super) fn report(&self, error: ValueError) {
        let ValueError { id, message, hint } = error;
        let problem = FileProblem { line: self.node.line, id, path: self.path.to_string(), message, hint };
        self.sink.problems.borrow_mut().push(problem);
    }

    /// Unwraps a result, reporting its error.
    pub(super) fn accept<T>(&self, result: Result<T, ValueError>) -> Option<T> {
        result.map_err(|error| self.report(error)).ok()
    }

    /// Returns whether this is a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.node.kind, ValueKind::List(_))
    }

    /// Returns whether this is a map.
    pub(super) fn is_map(&self) -> bool {
        matches!(self.node.kind, ValueKind::Map(_))
    }

    /// Returns whether this is a single value and not null.
    pub(super) fn is_scalar(&self) -> bool {
        matches!(self.node.kind, ValueKind::Scalar { .. }) && !self.is_nothing()
    }

    /// Reports that this is not a map, with a hint.
    pub(super) fn not_a_map(&self, hint: &str) {
        self.report(self.shape_error("a map of keys and values").hint(hint));
    }

    /// Reads the items of a list; a key without a value has none.
    pub(super) fn items(&self) -> Vec<Self> {
        match &self.node.kind {
            ValueKind::List(nodes) => {
                let list = Rc::new(self.path.clone());
                let item = |(index, node)| self.inner(node, ValuePath::Item(Rc::clone(&list), index));
                nodes.iter().enumerate().map(item).collect()
            }
            _ if self.is_nothing() => Vec::new(),
            _ => self.wrong_shape("a list").unwrap_or_default(),
        }
    }

    /// Reads the entries of a map with unique keys; a key without a value has none.
    pub(super) fn entries(&self) -> Vec<(&'a str, Self)> {
        let entries = match &self.node.kind {
            ValueKind::Map(entries) => entries,
            _ if self.is_nothing() => return Vec::new(),
            _ => return self.wrong_shape("a map of keys and values").unwrap_or_default(),
        };
        let map = Rc::new(self.path.clone());
        let mut first_lines = BTreeMap::new();
        let mut once = Vec::with_capacity(entries.len());
        for (key, node) in entries {
            let value = self.inner(node, ValuePath::Key(Rc::clone(&map), &key.text));
            if let Some(first) = first_lines.get(&key.text) {
                let message = format!("appears twice; the first is on line {first}");
                value.at(key.line).report(ValueError::new(message).id(ErrorId::RepeatedKey));
            } else {
                first_lines.insert(&key.text, key.line);
                once.push((key.text.as_str(), value));
            }
        }
        once
    }

    /// Returns the entries of a map without reporting other values, for checks of values that are read
    /// elsewhere.
    pub(super) fn entries_quietly(&self) -> Vec<(&'a str, Self)> {
        let ValueKind::Map(entries) = &self.node.kind else {
            return Vec::new();
        };
        let map = Rc::new(self.path.clone());
        let entry = |(key, node): &'a (yaml::YamlKey, YamlNode)| {
            (key.text.as_str(), self.inner(node, ValuePath::Key(Rc::clone(&map), &key.text)))
        };
        entries.iter().map(entry).collect()
    }

    /// Reads a map that has only known keys.
    pub(super) fn fields(&self, known: &[&str]) -> Fields<'a> {
        self.fields_but(known, |_| false, |_| None)
    }

    /// Reads the map of a file, ignoring keys that begin with `x-`, which hold anchors.
    pub(super) fn fields_with_anchors(&self, known: &[&str]) -> Fields<'a> {
        let hint = |key: &str, value: &Self| {
            value
                .is_map()
                .then(|| format!("for anchors, call it x-{key}: hsched ignores keys that begin with x-"))
        };
        self.fields_but(known, |key| key.starts_with("x-"), |(key, value)| hint(key, value))
    }

    fn fields_but(
        &self,
        known: &[&str],
        is_left_alone: impl Fn(&str) -> bool,
        hint: impl Fn((&str, &Self)) -> Option<String>,
    ) -> Fields<'a> {
        let (mut values, mut misspelt) = (BTreeMap::new(), Vec::new());
        for (key, value) in self.entries() {
            if known.contains(&key) {
                values.insert(key, value);
            } else if !is_left_alone(key) {
                let near = nearest(key, known.iter().copied());
                misspelt.extend(near.map(ToOwned::to_owned));
                let hint = near.map(did_you_mean).or_else(|| hint((key, &value)));
                let error = ValueError::new("is not a known key").id(ErrorId::UnknownKey);
                value.at(self.key_line(key)).report(ValueError { hint, ..error });
            }
        }
        Fields { map: self.clone(), values, misspelt }
    }

    /// Returns whether the key has no value.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(&self.node.kind, ValueKind::Scalar { text, quoted: false } if is_null(text))
    }

    fn inner(&self, node: &'a YamlNode, path: ValuePath<'a>) -> Self {
        Self { node, path, sink: self.sink }
    }

    /// Returns a place for reporting at another line.
    fn at(&self, line: usize) -> ProblemPlace<'_> {
        ProblemPlace { line, path: &self.path, sink: self.sink }
    }

    fn key_line(&self, key: &str) -> usize {
        let ValueKind::Map(entries) = &self.node.kind else {
            return self.node.line;
        };
        entries
            .iter()
            .find(|(candidate, _)| candidate.text == key)
            .map_or(self.node.line, |(key, _)| key.line)
    }

    fn shape_error(&self, expected: &str) -> ValueError {
        let found = match &self.node.kind {
            _ if self.is_nothing() => "nothing".to_owned(),
            ValueKind::Scalar { text, quoted: true } => format!("the text {}", quoted(text)),
            ValueKind::Scalar { text, .. } => quoted(text),
            ValueKind::List(_) => "a list".to_owned(),
            ValueKind::Map(_) => "a map".to_owned(),
        };
        ValueError::new(format!("must be {expected}, got {found}")).id(ErrorId::WrongShape)
    }

    fn wrong_shape<T>(&self, expected: &str) -> Option<T> {
        let error = self.shape_error(expected);
        let is_number = |text: &str| parse_number(text).is_ok();
        self.report(match &self.node.kind {
            ValueKind::Scalar { text, quoted: true } if is_number(text) => error.hint("remove the quotes"),
            _ if self.is_nothing() => error.hint("remove the key or give it a value"),
            _ => error,
        });
        None
    }
}

/// A place to report at.
struct ProblemPlace<'a> {
    line: usize,
    path: &'a ValuePath<'a>,
    sink: &'a Sink,
}

impl ProblemPlace<'_> {
    fn report(&self, error: ValueError) {
        let ValueError { id, message, hint } = error;
        let problem = FileProblem { line: self.line, id, path: self.path.to_string(), message, hint };
        self.sink.problems.borrow_mut().push(problem);
    }
}

/// Reads all items even after an invalid one, so that every problem is found.
pub(super) fn all<T>(items: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let items: Vec<Option<T>> = items.collect();
    items.into_iter().collect()
}

/// Returns the error with the most similar known word as its hint, if there is one.
pub(super) fn with_nearest<'k>(
    error: ValueError,
    word: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> ValueError {
    match nearest(word, known) {
        Some(near) => error.hint(did_you_mean(near)),
        None => error,
    }
}

fn did_you_mean(near: &str) -> String {
    format!("did you mean {near}?")
}

/// Returns whether a plain scalar is YAML's null.
fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}
