//! The state in the journal: the whole state or a change.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::store::state_before;
use crate::store::state_file::{Claim, StateFile};
use crate::{JobState, NodeTimes, State};
use hsched_model::{JobName, Time};

/// A journal entry with the state stored at that time.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StateRecord {
    /// The whole state.
    State(StateFile),
    /// The changes since the previous record.
    Change(StateDifference),
}

/// The keys of records in journal entries; the first is that of the whole state.
const KEYS: [&str; 2] = ["state", "change"];

/// The difference between two states.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StateDifference {
    #[serde(flatten)]
    claim: Claim,
    /// Times of ranks on each node, if they have changed: they are long and only change with epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_times: Option<NodeTimes>,
    /// The rest of the state with only its new or changed jobs.
    #[serde(flatten)]
    state: State,
    /// The names of removed jobs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    forgotten: BTreeSet<JobName>,
}

impl StateRecord {
    /// Returns the record of a state that follows an earlier one; `None` if they are equal.
    pub(super) fn of(file: &StateFile, earlier: Option<&StateFile>) -> Option<Self> {
        let Some(earlier) = earlier else { return Some(Self::State(file.clone())) };
        if earlier.state == file.state && earlier.claim == file.claim {
            return None;
        }
        let change = StateDifference::between(earlier, file);
        // A change cannot express a new order of jobs.
        Some(if change.keeps_order(earlier, file) { Self::Change(change) } else { Self::State(file.clone()) })
    }

    /// Returns the record in a journal entry; `None` if the entry is about something else.
    ///
    /// # Errors
    /// If this version cannot read it.
    pub(super) fn read(mut what: Map<String, Value>) -> Result<Option<Self>, String> {
        let Some(key) = KEYS.into_iter().find(|key| is_record(&what, key)) else { return Ok(None) };
        let Some(mut value) = what.remove(key) else { return Ok(None) };
        // A change does not state the version that wrote it.
        if key == KEYS[1] {
            state_before::upgrade_jobs(&mut value);
        } else {
            state_before::upgrade(&mut value);
        }
        let record = serde_json::from_value(Value::Object(Map::from_iter([(key.to_owned(), value)])));
        match record.map_err(|error| error.to_string())? {
            Self::State(file) if file.is_unsealed() => Err(format!("its schema is {}", file.schema)),
            Self::State(file) => file.check().map(|()| Some(Self::State(file))),
            record @ Self::Change(_) => Ok(Some(record)),
        }
    }

    /// Applies the record of journal entry `seq`; a change without a preceding state has no effect.
    pub(super) fn play(self, file: &mut Option<StateFile>, seq: u64, at: Time) {
        match self {
            Self::State(whole) => *file = Some(whole),
            Self::Change(change) => {
                if let Some(file) = file {
                    change.play(file);
                }
            }
        }
        if let Some(file) = file {
            (file.seq, file.at) = (seq, Some(at));
        }
    }
}

/// Returns whether an entry has a record under this key; events of nodes also have a `state`, which is one
/// word.
fn is_record(what: &Map<String, Value>, key: &str) -> bool {
    what.get(key).is_some_and(Value::is_object)
}

impl StateDifference {
    fn between(earlier: &StateFile, file: &StateFile) -> Self {
        let before: BTreeMap<&JobName, &JobState> = by_name(&earlier.state).collect();
        let names: BTreeSet<&JobName> = by_name(&file.state).map(|(name, _)| name).collect();
        let is_new = |(name, job): &(&JobName, &JobState)| before.get(name) != Some(job);
        let jobs = by_name(&file.state).filter(is_new).map(|(_, job)| job.clone()).collect();
        let forgotten = before.keys().filter(|name| !names.contains(*name));
        Self {
            claim: file.claim.clone(),
            forgotten: forgotten.map(|name| (*name).clone()).collect(),
            node_times: (earlier.state.node_times != file.state.node_times)
                .then(|| file.state.node_times.clone()),
            state: State { jobs, node_times: NodeTimes::default(), ..file.state.clone() },
        }
    }

    /// Returns whether the remaining jobs keep their order and new ones follow them.
    fn keeps_order(&self, earlier: &StateFile, file: &StateFile) -> bool {
        let before: BTreeSet<&JobName> = by_name(&earlier.state).map(|(name, _)| name).collect();
        let names = || by_name(&file.state).map(|(name, _)| name);
        let known = by_name(&earlier.state).map(|(name, _)| name);
        let stay = known.filter(|name| !self.forgotten.contains(*name));
        stay.chain(names().filter(|name| !before.contains(name))).eq(names())
    }

    fn play(self, file: &mut StateFile) {
        let Self { claim, node_times, mut state, forgotten } = self;
        state.node_times = node_times.unwrap_or_else(|| std::mem::take(&mut file.state.node_times));
        let changed = std::mem::take(&mut state.jobs);
        let mut jobs = std::mem::take(&mut file.state.jobs);
        jobs.retain(|job| !forgotten.contains(&job.job.name));
        let places: BTreeMap<JobName, usize> =
            jobs.iter().enumerate().map(|(place, job)| (job.job.name.clone(), place)).collect();
        for job in changed {
            match places.get(&job.job.name) {
                Some(&place) => jobs[place] = job,
                None => jobs.push(job),
            }
        }
        (file.claim, file.state) = (claim, State { jobs, ..state });
    }
}

fn by_name(state: &State) -> impl Iterator<Item = (&JobName, &JobState)> {
    state.jobs.iter().map(|job| (&job.job.name, job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_nodes_are_written_when_they_change_and_kept_until_then() {
        let times = r#"[{"model": "m", "type": "t4", "batch": 8, "nodes": {"n1": [[1.0, 2.0]]}}]"#;
        let file = |times: &str, decided: u64| {
            let state = State {
                node_times: serde_json::from_str(times).expect("times"),
                decided: Some(decided),
                ..State::default()
            };
            StateFile::new(&state, 1, Time(0.0), Claim::default())
        };
        let mut played = None;
        let mut before: Option<StateFile> = None;
        for (times, decided, is_written) in
            [(times, 1, true), (times, 2, false), ("[]", 3, true), (times, 4, true)]
        {
            let file = file(times, decided);
            let record = StateRecord::of(&file, before.as_ref()).expect("a change");
            let text = serde_json::to_string(&record).expect("JSON");
            assert_eq!(text.contains("node_times"), is_written, "{text}");
            let Value::Object(what) = serde_json::from_str(&text).expect("JSON") else { panic!() };
            StateRecord::read(what).expect("readable").expect("a record").play(&mut played, 1, Time(0.0));
            assert_eq!(played.as_ref().map(|played| &played.state), Some(&file.state));
            before = Some(file);
        }
    }

    #[test]
    fn what_happened_to_a_node_is_no_record_though_it_has_a_state() {
        let entry = serde_json::json!({ "event": "node_down", "node": "v1", "state": "drained" });
        let Value::Object(what) = entry else { panic!() };
        assert!(matches!(StateRecord::read(what), Ok(None)));
    }
}
