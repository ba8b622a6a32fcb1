//! Parses one settings file: TOML text to entries with line numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::entry::{EntryValue, Layer, Origin, SettingEntry};
use super::keys::{Key, SetBy, node_names};
use super::problem::SettingsProblem;
use hsched_model::formats::ValueError;
use hsched_model::{ErrorId, NodeName};

/// A file that is being parsed.
struct File<'a> {
    layer: Layer,
    path: &'a Path,
    text: &'a str,
    entries: Vec<SettingEntry>,
    problems: Vec<SettingsProblem>,
}

/// Returns the entries of a file's text, and its problems.
pub(super) fn parse(layer: Layer, path: &Path, text: &str) -> (Vec<SettingEntry>, Vec<SettingsProblem>) {
    let mut file = File { layer, path, text, entries: Vec::new(), problems: Vec::new() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let message = format!("not valid TOML: {}", error.message());
        file.report(&span, "", ValueError::new(message).id(ErrorId::Setting));
    }
    // Values that were recovered from broken text may be wrong.
    if errors.is_empty() {
        for (name, value) in table.get_ref() {
            file.take(name, value);
        }
        file.check_overlaps();
    }
    (file.entries, file.problems)
}

impl File<'_> {
    fn take(&mut self, name: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let key = match Key::named(name.get_ref()) {
            Ok(key) => key,
            Err(error) => return self.report(&name.span(), name.get_ref(), error),
        };
        if self.layer == Layer::Project && key.set_by == SetBy::NoProject {
            let error = ValueError::new("must not be set in a project file")
                .id(ErrorId::SettingPlace)
                .hint(format!("set it in your own settings file or with {}", key.variable()));
            return self.report(&name.span(), key.name, error);
        }
        match value.get_ref() {
            DeValue::Table(table) if key.table => {
                for (item, value) in table {
                    let item_name = item.get_ref().clone().into_owned();
                    self.push(key, item_name, &item.span(), typed(value.get_ref()));
                }
            }
            _ if key.table => {
                let error = ValueError::new(format!("must be a {}", key.form))
                    .id(ErrorId::WrongShape)
                    .hint(format!("start it with [{}]", key.name));
                self.report(&value.span(), key.name, error);
            }
            value => self.push(key, String::new(), &name.span(), typed(value)),
        }
    }

    fn push(&mut self, key: &'static Key, item: String, span: &Range<usize>, typed: EntryValue) {
        let origin = self.origin(span);
        self.entries.push(SettingEntry { key, item, typed, origin });
    }

    fn report(&mut self, span: &Range<usize>, key: &str, error: ValueError) {
        let origin = self.origin(span);
        self.problems.push(SettingsProblem { origin, key: key.to_owned(), error });
    }

    fn origin(&self, span: &Range<usize>) -> Origin {
        let before = self.text.as_bytes().iter().take(span.start);
        let line = before.filter(|&&byte| byte == b'\n').count() + 1;
        Origin::File { layer: self.layer, path: self.path.to_owned(), line }
    }

    /// Reports nodes that two hostlists of the file contain, at most one for each hostlist: TOML tables have
    /// no order that could decide.
    fn check_overlaps(&mut self) {
        let mut first: BTreeMap<NodeName, &str> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.key.name == "node_gbps") {
            for name in node_names(&entry.item).unwrap_or_default() {
                let Some(other) = first.insert(name.clone(), &entry.item) else {
                    continue;
                };
                let error = ValueError::new(format!("{name} is already included in {other:?} in this file"))
                    .id(ErrorId::Setting);
                let (origin, key) = (entry.origin.clone(), format!("node_gbps.{}", entry.item));
                self.problems.push(SettingsProblem { origin, key, error });
                break;
            }
        }
    }
}

fn typed(value: &DeValue<'_>) -> EntryValue {
    match value {
        DeValue::String(text) => EntryValue::Text(text.clone().into_owned()),
        DeValue::Integer(number) => EntryValue::Number(decimal(number)),
        DeValue::Float(number) => EntryValue::Number(number.as_str().to_owned()),
        DeValue::Boolean(on) => EntryValue::Switch(*on),
        DeValue::Datetime(_) => EntryValue::Other("a date"),
        DeValue::Table(_) => EntryValue::Other("a table (quote a key that contains a dot)"),
        DeValue::Array(items) => {
            let text = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
                DeValue::String(text) => Some(text.clone().into_owned()),
                _ => None,
            };
            let items: Option<Vec<String>> = items.iter().map(text).collect();
            items.map_or(EntryValue::Other("a list with items that are not text"), EntryValue::List)
        }
    }
}

/// Converts an integer in any of TOML's bases to decimal digits.
fn decimal(number: &DeInteger<'_>) -> String {
    let parsed = i128::from_str_radix(number.as_str(), number.radix());
    parsed.map_or_else(|_| number.to_string(), |number| number.to_string())
}
