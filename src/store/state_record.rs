//! The state in the journal: all of it, or what has changed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::store::state_file::{StateFile, StateHead};
use crate::store::state_job::StateJob;

/// An entry of the journal about the state as it was kept at that moment.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// All of it.
    State(StateFile),
    /// What has changed since the previous record.
    Change(Change),
}

/// The keys of records in the journal's entries; the first is that of the whole state.
const KEYS: [&str; 2] = ["state", "change"];

/// The difference between two states.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Change {
    #[serde(flatten)]
    head: StateHead,
    /// The jobs that are new or different, each in full.
    jobs: Vec<StateJob>,
    /// The names of jobs that are no longer known.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    forgotten: BTreeSet<String>,
}

impl Record {
    /// Returns the record of a state that follows an earlier one; `None` when they are equal.
    pub(super) fn of(file: &StateFile, earlier: Option<&StateFile>) -> Option<Self> {
        let Some(earlier) = earlier else { return Some(Self::State(file.clone())) };
        let change = Change::between(earlier, file);
        if change.jobs.is_empty() && change.forgotten.is_empty() && earlier.head == file.head {
            return None;
        }
        // A change cannot express that jobs have changed places.
        Some(if change.keeps_order(earlier, file) { Self::Change(change) } else { Self::State(file.clone()) })
    }

    /// Returns the record in an entry of the journal; `None` when the entry is about something else.
    ///
    /// # Errors
    /// When this version cannot read it.
    pub(super) fn read(mut what: Map<String, Value>) -> Result<Option<Self>, String> {
        let Some((key, value)) = KEYS.into_iter().find_map(|key| what.remove_entry(key)) else {
            return Ok(None);
        };
        let record = serde_json::from_value(Value::Object(Map::from_iter([(key, value)])));
        match record.map_err(|error| error.to_string())? {
            Self::State(file) if file.is_unsealed() => Err(format!("its schema is {}", file.schema)),
            record => Ok(Some(record)),
        }
    }

    /// Returns whether an entry of the journal is a record of the whole state.
    pub(super) fn is_whole(what: &Map<String, Value>) -> bool {
        what.contains_key(KEYS[0])
    }

    /// Applies the record; a change needs an earlier state.
    pub(super) fn play(self, file: &mut Option<StateFile>) {
        match self {
            Self::State(whole) => *file = Some(whole),
            Self::Change(change) => {
                if let Some(file) = file {
                    change.play(file);
                }
            }
        }
    }
}

impl Change {
    fn between(earlier: &StateFile, file: &StateFile) -> Self {
        let before: BTreeMap<&str, &StateJob> = by_name(earlier).collect();
        let names: BTreeSet<&str> = by_name(file).map(|(name, _)| name).collect();
        let is_new = |(name, job): &(&str, &StateJob)| before.get(name) != Some(job);
        Self {
            head: file.head.clone(),
            jobs: by_name(file).filter(is_new).map(|(_, job)| job.clone()).collect(),
            forgotten: before.keys().filter(|name| !names.contains(*name)).map(ToString::to_string).collect(),
        }
    }

    /// Returns whether the remaining jobs keep their order and new ones follow them.
    fn keeps_order(&self, earlier: &StateFile, file: &StateFile) -> bool {
        let before: BTreeSet<&str> = by_name(earlier).map(|(name, _)| name).collect();
        let names = || by_name(file).map(|(name, _)| name);
        let stay = by_name(earlier).map(|(name, _)| name).filter(|name| !self.forgotten.contains(*name));
        stay.chain(names().filter(|name| !before.contains(name))).eq(names())
    }

    fn play(self, file: &mut StateFile) {
        file.head = self.head;
        file.jobs.retain(|job| job.name().is_some_and(|name| !self.forgotten.contains(name)));
        let places: BTreeMap<String, usize> =
            by_name(file).enumerate().map(|(place, (name, _))| (name.to_owned(), place)).collect();
        for job in self.jobs {
            match job.name().and_then(|name| places.get(name)) {
                Some(&place) => file.jobs[place] = job,
                None => file.jobs.push(job),
            }
        }
    }
}

fn by_name(file: &StateFile) -> impl Iterator<Item = (&str, &StateJob)> {
    file.jobs.iter().filter_map(|job| Some((job.name()?, job)))
}
