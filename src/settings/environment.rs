//! Converts environment variables and flags to entries.
//!
//! `HSCHED_` plus a key's name in capitals sets the key; an empty variable counts as unset. Unknown variables are
//! ignored unless they look like typing errors: job scripts, which may call hsched, set variables with this
//! prefix. The names of those in `templates/` are not similar to keys.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::decided::full_name;
use super::entry::{EntryValue, Origin, SettingEntry};
use super::keys::{KEYS, Key};
use super::problem::SettingsProblem;
use hsched_model::ErrorId;
use hsched_model::formats::{ValueError, nearest, quoted};

/// A setting from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLineSetting {
    /// The flag as typed, such as `--set` or `--account`.
    pub name: String,
    /// Key, such as `account` or `capacity.v100`.
    pub key: String,
    pub value: String,
}

/// Prefix of variables that set keys.
const PREFIX: &str = "HSCHED_";

/// Variable with the path of the site's settings file, instead of the default one.
pub const SITE_FILE_VARIABLE: &str = "HSCHED_SITE_CONFIG";
/// Variable with the path of the user's settings file, instead of the default one.
pub const USER_FILE_VARIABLE: &str = "HSCHED_CONFIG";

impl CommandLineSetting {
    /// Returns the setting of a flag that is named like its key, if it was given.
    pub fn of_key(key: &str, value: Option<&str>) -> Option<Self> {
        Some(Self { name: format!("--{key}"), key: key.to_owned(), value: value?.to_owned() })
    }

    /// Returns the setting of `--set KEY=VALUE`.
    ///
    /// # Errors
    /// If there is no `=`, which the error says.
    pub fn set(text: &str) -> Result<Self, ValueError> {
        // A hostlist contains no `=`, but a value may.
        let (key, value) = text.split_once('=').ok_or_else(|| {
            ValueError::new(format!("--set takes KEY=VALUE, got {}", quoted(text)))
                .id(ErrorId::Setting)
                .hint("write it like --set account=def-me or --set capacity.v100=8")
        })?;
        Ok(Self { name: "--set".to_owned(), key: key.trim().to_owned(), value: value.to_owned() })
    }
}

/// Variable with which users ask all programs for uncoloured output (no-color.org); hsched's own settings
/// take precedence.
const NO_COLOR: &str = "NO_COLOR";

/// Returns the setting of the variable `NO_COLOR`, if it is not empty.
pub(super) fn no_color(variables: &BTreeMap<String, OsString>) -> Option<SettingEntry> {
    let key = KEYS.iter().find(|key| key.name == "color")?;
    let typed = EntryValue::Word("never".to_owned());
    let origin = Origin::Environment { variable: NO_COLOR.to_owned() };
    let entry = SettingEntry { key, item: String::new(), typed, origin };
    variables.get(NO_COLOR).is_some_and(|value| !value.is_empty()).then_some(entry)
}

/// Returns whether a variable may be a setting.
pub(super) fn is_ours(variable: &str) -> bool {
    variable.starts_with(PREFIX) || variable == NO_COLOR
}

/// Adds the settings of environment variables.
pub(super) fn read_environment(
    variables: &BTreeMap<String, OsString>,
    entries: &mut Vec<SettingEntry>,
    problems: &mut Vec<SettingsProblem>,
) {
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix(PREFIX).filter(|_| !value.is_empty()) else {
            continue;
        };
        let origin = Origin::Environment { variable: variable.clone() };
        let Some(key) = KEYS.iter().find(|key| key.variable() == *variable) else {
            problems.extend(slip(name, variable, &origin));
            continue;
        };
        match value.to_str() {
            Some(text) => add(key, "", text, &origin, entries, problems),
            None => problems.push(problem(
                &origin,
                key.name,
                ValueError::new("must be UTF-8 text").id(ErrorId::Setting),
            )),
        }
    }
}

/// Adds the settings of flags, in their order.
pub(super) fn read_flags(
    flags: &[CommandLineSetting],
    entries: &mut Vec<SettingEntry>,
    problems: &mut Vec<SettingsProblem>,
) {
    for CommandLineSetting { name, key, value } in flags {
        let origin = Origin::Flag { name: name.clone() };
        let (head, item) = key.split_once('.').unwrap_or((key, ""));
        match Key::named(head) {
            Ok(found) if !item.is_empty() && !found.table => {
                let error = ValueError::new(format!(
                    "is not a key: {head} is not a table (its value is {})",
                    found.form
                ))
                .id(ErrorId::UnknownKey);
                problems.push(problem(&origin, key, error));
            }
            Ok(found) => add(found, item, value, &origin, entries, problems),
            Err(error) => problems.push(problem(&origin, key, error)),
        }
    }
}

/// Adds one value; a whole table has the form `v100=8,t4=4`.
fn add(
    key: &'static Key,
    item: &str,
    text: &str,
    origin: &Origin,
    entries: &mut Vec<SettingEntry>,
    problems: &mut Vec<SettingsProblem>,
) {
    let mut push = |item: &str, text: &str| {
        let typed = EntryValue::Word(text.to_owned());
        entries.push(SettingEntry { key, item: item.to_owned(), typed, origin: origin.clone() });
    };
    if !key.table || !item.is_empty() {
        return push(item, text);
    }
    for part in outside_brackets(text).into_iter().map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some((item, value)) if !item.trim().is_empty() => push(item.trim(), value.trim()),
            _ => {
                let message = format!("must be NAME=VALUE, got {}", quoted(part));
                problems.push(problem(
                    origin,
                    &full_name(key, ""),
                    ValueError::new(message).id(ErrorId::Setting),
                ));
            }
        }
    }
}

/// Splits at commas outside of a hostlist's brackets.
fn outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let splits = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(splits).collect()
}

/// Returns a problem if an unknown variable is similar to one that sets a key or names a settings file.
fn slip(name: &str, variable: &str, origin: &Origin) -> Option<SettingsProblem> {
    if [SITE_FILE_VARIABLE, USER_FILE_VARIABLE].contains(&variable) {
        return None;
    }
    let near = nearest(name, KEYS.iter().map(|key| key.name).chain(["site_config", "config"]))?;
    let hint = format!("did you mean {PREFIX}{}? If not, unset it", near.to_uppercase());
    Some(problem(origin, "", ValueError::new("is not a known variable").id(ErrorId::UnknownKey).hint(hint)))
}

fn problem(origin: &Origin, key: &str, error: ValueError) -> SettingsProblem {
    SettingsProblem { origin: origin.clone(), key: key.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_takes_a_variable_with_another_meaning() {
        for key in &KEYS {
            let variable = key.variable();
            assert!(variable != SITE_FILE_VARIABLE && variable != USER_FILE_VARIABLE, "{variable}");
        }
    }
}
