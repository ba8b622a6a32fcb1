//! Reads sweeps: the keys and values of a job that is run several times.

use std::collections::BTreeMap;

use super::super::launch::{one_line, variable};
use super::super::problem::{ValueError, quoted};
use super::super::reader::ReaderValue;
use super::super::search::Values;
use super::super::yaml::{ValueKind, YamlNode};
use super::{SweepKey, SweepKeys, VITAL, inner, name_part, text};
use crate::{ErrorId, JobName};

/// Reports a search without a sweep to draw from.
pub(super) fn report_idle(search: &ReaderValue<'_>) {
    search.report(
        ValueError::new("needs a sweep")
            .id(ErrorId::SearchRange)
            .hint("add sweep: {lr: {log_uniform: [1e-5, 1e-1]}}"),
    );
}

/// Reports a sweep or a search in a file for trials.
pub(super) fn report_chosen(value: &ReaderValue<'_>) {
    let error = ValueError::new("is not for trials: the optimiser chooses the values");
    value.report(error.hint("remove it from this file"));
}

/// Reads a sweep; a key without valid values gets a placeholder value, so that its placeholders cause no
/// further problems.
pub(super) fn read_sweep(value: &ReaderValue<'_>) -> SweepKeys {
    let entries = value.entries();
    if entries.is_empty() && (value.is_map() || value.is_nothing()) {
        value.report(
            ValueError::new("must have at least one key with a list of values").id(ErrorId::SweepValues),
        );
    }
    let mut is_sound = !entries.is_empty();
    let mut keys: BTreeMap<String, &str> = BTreeMap::new();
    let mut axes = Vec::with_capacity(entries.len());
    for (key, list) in entries {
        let variable = key.to_uppercase();
        is_sound &= list.accept(check_key(key, &variable, keys.insert(variable.clone(), key))).is_some();
        let values = if list.is_map() {
            Values::read(&list, |choice| {
                let (values, all_sound) = read_values(choice);
                all_sound.then(|| values.into())
            })
        } else {
            let (values, all_sound) = read_values(&list);
            is_sound &= all_sound;
            (!values.is_empty()).then(|| Values::List(values.into()))
        };
        is_sound &= values.is_some();
        let stand_in = || YamlNode {
            line: list.line(),
            kind: ValueKind::Scalar { text: "1".to_owned(), quoted: false },
        };
        let values = values.unwrap_or_else(|| Values::List([stand_in()].into()));
        axes.push(SweepKey { key: key.to_owned(), variable, values });
    }
    SweepKeys { axes, search: None, trial: None, is_sound }
}

pub(super) fn check_key(key: &str, upper: &str, taken: Option<&str>) -> Result<(), ValueError> {
    if let Some(other) = taken {
        return Err(ValueError::new(format!("sets the variable {upper}, which the key {other} also sets"))
            .id(ErrorId::SweepKey));
    }
    let is_name = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        let hint = "use only letters, digits and _, and do not start with a digit";
        return Err(ValueError::new(format!("{} cannot be a placeholder", quoted(key)))
            .id(ErrorId::SweepPlaceholder)
            .hint(hint));
    }
    if VITAL.contains(&upper) || variable(upper).is_err() || variable(key).is_err() {
        let message = format!("would overwrite the variable {upper}");
        return Err(ValueError::new(message).id(ErrorId::SweepKey).hint("choose another name"));
    }
    Ok(())
}

/// Returns the valid values of a list, and whether all are valid.
fn read_values(list: &ReaderValue<'_>) -> (Vec<YamlNode>, bool) {
    if let ValueKind::Scalar { text, .. } = &list.node().kind {
        let error = ValueError::new(format!("must be a list, got {}", quoted(text))).id(ErrorId::SweepValues);
        list.report(error.hint(format!("write [{text}]")));
        return (Vec::new(), false);
    }
    let items = list.items();
    if items.is_empty() && (list.is_list() || list.is_nothing()) {
        list.report(ValueError::new("must have at least one value").id(ErrorId::SweepValues));
    }
    let mut parts: BTreeMap<String, String> = BTreeMap::new();
    let values: Vec<YamlNode> = items
        .iter()
        .filter_map(|item| {
            let text = item.parsed(one_line)?;
            if let Some(first) = parts.insert(name_part(&text), text.clone()) {
                item.report(if first == text {
                    let hint = "to run it several times, add a key such as seed: [1, 2]";
                    ValueError::new(format!("{} appears twice", quoted(&text)))
                        .id(ErrorId::SweepValues)
                        .hint(hint)
                } else {
                    let message =
                        format!("{} gives a job the same name as {}", quoted(&text), quoted(&first));
                    ValueError::new(message)
                        .id(ErrorId::NameTaken)
                        .hint("these values differ only in characters that names cannot have")
                });
                return None;
            }
            Some(item.node().clone())
        })
        .collect();
    let all_sound = !items.is_empty() && values.len() == items.len();
    (values, all_sound)
}

/// Returns the name of a job with a sweep if it and the names of its variants are valid; otherwise reports
/// the reason.
///
/// A missing or invalid name is reported by the reader of the job.
pub(super) fn base_name<'a>(job: &ReaderValue<'a>, sweep: &SweepKeys) -> Option<&'a str> {
    let value = inner(job, "name")?;
    let ValueKind::Scalar { text: base, .. } = &value.node().kind else { return None };
    JobName::new(base).ok()?;
    let longest = sweep.axes.iter().filter_map(|axis| match &axis.values {
        Values::List(values) => {
            values.iter().max_by_key(|value| text(value).len()).map(|value| (axis, value.clone()))
        }
        Values::Uniform { .. } | Values::LogUniform { .. } => None,
    });
    let longest = sweep.name(base, sweep.count(), &longest.collect::<Vec<_>>());
    let checked = JobName::new(&longest).map_err(|error| {
        ValueError::new(format!("with the values of its sweep, the {error}"))
            .id(ErrorId::NameFormat)
            .hint("shorten it, the keys or the values")
    });
    value.accept(checked).map(|_| base.as_str())
}
