//! Snapshots as JSON, written and read, with checks for edited files.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use thiserror::Error;

use crate::snapshot::{SCHEMA, Scheduling, Snapshot};
use hsched_model::{NodeName, Seconds, Time};

/// Why a text is not a snapshot.
#[derive(Debug, Error)]
pub enum SnapshotError {
    #[error("not a snapshot of a queue: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the snapshot has schema {0:?}; this version reads {SCHEMA:?}")]
    Schema(String),
    #[error("the snapshot has an invalid time: {0}")]
    Time(String),
    #[error("the snapshot lists node {0} twice")]
    Node(NodeName),
}

impl Snapshot {
    /// Returns an empty snapshot.
    pub fn empty(taken_at: Time) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            taken_at,
            cluster: None,
            nodes: Vec::new(),
            partitions: Vec::new(),
            closed_partitions: BTreeMap::new(),
            closed_default: None,
            reservations: Vec::new(),
            jobs: Vec::new(),
            scheduling: Scheduling::default(),
            others_hidden: false,
            accounts: Vec::new(),
            shares: None,
            history: None,
            history_since: None,
            history_until: None,
            limits: None,
            parent_accounts: BTreeMap::new(),
            qos_flags: BTreeMap::new(),
            qos_priority: BTreeMap::new(),
            qos_preempts: BTreeMap::new(),
            gres_types: None,
            user: None,
            notes: Vec::new(),
        }
    }

    /// Parses a snapshot.
    ///
    /// # Errors
    /// If the text is not JSON, has another schema, names a node twice, or contains impossible values.
    pub fn parse(text: &str) -> Result<Self, SnapshotError> {
        #[derive(Deserialize)]
        struct SnapshotHeader {
            schema: String,
        }
        let header: SnapshotHeader = serde_json::from_str(text)?;
        if header.schema != SCHEMA {
            return Err(SnapshotError::Schema(header.schema));
        }
        let mut unknown = BTreeSet::new();
        let mut note = |path: serde_ignored::Path<'_>| {
            let path = path.to_string();
            // The same key of several jobs counts once.
            let words = path.split('.').filter(|word| word.parse::<usize>().is_err() && *word != "?");
            unknown.insert(words.collect::<Vec<_>>().join("."));
        };
        let json = &mut serde_json::Deserializer::from_str(text);
        let mut snapshot: Self = serde_ignored::deserialize(json, &mut note)?;
        let mut names = BTreeSet::new();
        if let Some(node) = snapshot.nodes.iter().find(|node| !names.insert(&node.name)) {
            return Err(SnapshotError::Node(node.name.clone()));
        }
        snapshot.check_times()?;
        snapshot.name_limits();
        if !unknown.is_empty() {
            let keys = unknown.into_iter().collect::<Vec<_>>().join(", ");
            snapshot.notes.push(format!("the snapshot has keys that this version does not know: {keys}"));
        }
        Ok(snapshot)
    }

    /// Returns the snapshot as JSON with one entry per line.
    ///
    /// # Errors
    /// If it cannot be represented as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    /// Checks that no queued job has a negative time limit, and that no reservation or past run ends before
    /// it begins.
    fn check_times(&self) -> Result<(), SnapshotError> {
        let wrong = |what: String| Err(SnapshotError::Time(what));
        let is_duration = |time: &Option<Seconds>| time.is_none_or(|time| time.0 >= 0.0);
        if let Some(job) = self.jobs.iter().find(|job| !is_duration(&job.limit_s)) {
            return wrong(format!("the time limit of job {} is negative", job.id));
        }
        if let Some(reservation) =
            self.reservations.iter().find(|reservation| reservation.end < reservation.start)
        {
            return wrong(format!("reservation {} ends before it starts", reservation.name));
        }
        let history = self.history.as_deref().unwrap_or_default();
        if history.iter().any(|job| job.started.is_some_and(|start| job.ended < start)) {
            return wrong("a past job ends before it starts".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeUse;

    const SMALL: &str = r#"{
        "schema": "hsched.queue/1", "taken_at": 1000.0,
        "nodes": [{"name": "n1", "gpus": [{"type": "a100", "count": 4}]}, {"name": "n2", "use": "drained"}],
        "jobs": [
            {"id": "7", "limit_s": 3600, "asks": {"gpus": [{"type": "a100", "count": 1}]},
             "running": {"since": 900.0, "holds": [{"node": "n1", "gpus": [{"type": "a100", "count": 1}]}]}},
            {"id": "8_[1-5%2]", "array": "8", "tasks": 5, "at_once": 2, "asks": {"nodes": 2, "gpus": [{"count": 4}]}}
        ]
    }"#;

    #[test]
    fn what_is_left_out_is_unknown_and_what_is_saved_is_read() {
        let snapshot = Snapshot::parse(SMALL).expect("a snapshot");
        let [running, array] = snapshot.jobs.as_slice() else { panic!("{:?}", snapshot.jobs) };
        assert_eq!(
            (running.tasks, running.asks.nodes, running.limit_s, running.priority),
            (1, 1, Some(Seconds(3600.0)), None)
        );
        assert_eq!((array.tasks, array.at_once, array.asks.nodes), (5, Some(2), 2));
        assert_eq!((snapshot.nodes[0].usable, snapshot.nodes[1].usable), (NodeUse::Up, NodeUse::Drained));
        assert_eq!((snapshot.history.as_ref(), snapshot.scheduling.backfill), (None, None));
        let text = snapshot.to_json().expect("JSON");
        assert_eq!(Snapshot::parse(&text).expect("a snapshot"), snapshot);
        assert!(!text.contains("null"), "{text}");
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let check = |from: &str, to: &str, words: &str| {
            assert!(SMALL.contains(from), "{from}");
            let error = Snapshot::parse(&SMALL.replace(from, to)).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        };
        check("queue/1", "queue/2", "has schema \"hsched.queue/2\"; this version reads \"hsched.queue/1\"");
        check("\"n2\"", "\"n1\"", "lists node n1 twice");
        check("\"limit_s\": 3600", "\"limit_s\": -1", "the time limit of job 7 is negative");
    }

    #[test]
    fn unknown_keys_are_noted_once() {
        let text = SMALL.replace("\"limit_s\"", "\"limitt_s\"").replace("\"id\"", "\"new\": [1], \"id\"");
        let snapshot = Snapshot::parse(&text).expect("a snapshot");
        let note = "the snapshot has keys that this version does not know: jobs.limitt_s, jobs.new";
        assert_eq!((snapshot.notes, snapshot.jobs[0].limit_s), (vec![note.to_owned()], None));
    }
}
