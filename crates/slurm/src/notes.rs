//! Notes for the user; nodes with the same remark share one note.

use std::collections::BTreeMap;

use hsched_model::{NodeName, hostlist};

/// Notes in order of appearance, each once.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    order: Vec<String>,
    nodes: BTreeMap<String, Vec<String>>,
}

impl Notes {
    /// Adds a note.
    pub(crate) fn say(&mut self, note: String) {
        self.entry(note);
    }

    /// Adds a note on a node; nodes with the same note share a line.
    pub(crate) fn of(&mut self, node: &NodeName, note: String) {
        self.entry(note).push(node.as_str().to_owned());
    }

    /// Returns the lines.
    pub(crate) fn into_lines(mut self) -> Vec<String> {
        let line = |note: String| {
            let names = self.nodes.remove(&note).unwrap_or_default();
            if names.is_empty() {
                return note;
            }
            format!("{}: {note}", hostlist::compress(names.iter().map(String::as_str)))
        };
        self.order.into_iter().map(line).collect()
    }

    fn entry(&mut self, note: String) -> &mut Vec<String> {
        if !self.nodes.contains_key(&note) {
            self.order.push(note.clone());
        }
        self.nodes.entry(note).or_default()
    }
}
