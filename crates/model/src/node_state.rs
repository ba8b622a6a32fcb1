//! The state of a node as printed by Slurm, and whether new jobs can start there.

use std::fmt;

/// A node's state: the printed text, and its meaning for planning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    text: String,
    availability: Availability,
}

/// Whether a node accepts new work, in ascending severity.
///
/// An unknown state must neither hide that a node is down nor make it look usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Availability {
    /// Up: its free resources can be used.
    Up,
    /// Reserved or under maintenance: up, but not for all users.
    Reserved,
    /// An unknown state; shown, but never used in planning.
    Unknown,
    /// Draining or drained: running jobs may finish, none may start.
    Drained,
    /// Powering down or rebooting: down, but comes back by itself.
    Restarting,
    /// Down, in an error state, or not answering.
    Down,
}

impl Availability {
    /// Returns the display word for the availability.
    pub fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Drained => "drained",
            Self::Restarting | Self::Down => "down",
            Self::Reserved => "reserved",
            Self::Unknown => "in an unknown state",
        }
    }
}

impl NodeState {
    /// Parses a state in the notation of `sinfo` and `scontrol` (`idle`, `mix-`, `down*`, `IDLE+DRAIN`, …).
    /// Never fails: an unknown text becomes [`Availability::Unknown`].
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        Self { text: text.to_owned(), availability: availability(text) }
    }

    /// Returns the state of a node that is up and idle.
    pub fn idle() -> Self {
        Self::parse("idle")
    }

    /// Returns the state as it was printed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the node's availability for new work.
    pub fn availability(&self) -> Availability {
        self.availability
    }
}

/// Returns the combined meaning of a state's words and marks; the most severe one decides.
fn availability(text: &str) -> Availability {
    let of_word = |word: &str| {
        let base = word.trim_end_matches(MARKS);
        let marks = word[base.len()..].chars().map(of_mark);
        let named = (!base.is_empty()).then(|| of_name(&base.to_ascii_lowercase()));
        marks.chain(named).collect::<Vec<_>>()
    };
    text.split('+').flat_map(of_word).max().unwrap_or(Availability::Unknown)
}

/// The marks that `sinfo` appends to a state.
const MARKS: [char; 9] = ['*', '~', '#', '!', '%', '$', '@', '^', '-'];

/// Returns the meaning of a mark after a state.
///
/// | mark | Slurm's meaning | for planning |
/// |---|---|---|
/// | `*` | not responding | down: gets no new work |
/// | `~` | powered off to save power | up: comes back on request |
/// | `#` | powering up or being configured | up |
/// | `!` `%` | power-down pending, powering down | restarting: unavailable until it has powered off |
/// | `$` | in a maintenance reservation | reserved |
/// | `@` | reboot pending | drained: reboots once it is idle |
/// | `^` | reboot issued | restarting |
/// | `-` | planned by backfill for a waiting job | up |
///
/// A `+` after a state (`alloc+`) means that jobs are completing, and has no effect.
fn of_mark(mark: char) -> Availability {
    match mark {
        '~' | '#' | '-' => Availability::Up,
        '$' => Availability::Reserved,
        '@' => Availability::Drained,
        '!' | '%' | '^' => Availability::Restarting,
        _ => Availability::Down,
    }
}

/// Returns the meaning of one lower-case word: a base state, a flag, or a short form of either.
///
/// | words | for planning |
/// |---|---|
/// | idle, mixed, allocated, completing, planned; powered down or powering up; cloud, dynamic, resume | up |
/// | undrain, reboot cancelled | up |
/// | drain, draining, drained; fail, failing (will fail soon, taken out like a drain); reboot requested | drained |
/// | powering down, reboot issued | restarting |
/// | down, error, future, invalid registration, external, not responding | down |
/// | reserved, maintenance, blocked by an exclusive job's topology, performance counters | reserved |
fn of_name(name: &str) -> Availability {
    match name {
        "idle" | "mix" | "mixed" | "alloc" | "allocated" | "comp" | "completing" | "plnd" | "planned"
        | "power" | "powered_down" | "powered_dn" | "power_up" | "pow_up" | "powering_up" | "cloud"
        | "dynamic_norm" | "dynamic_future" | "resume" | "resm" | "undrain" | "cancel_reboot"
        | "reboot_cancel" | "canc_r" => Availability::Up,
        "drain" | "drained" | "drng" | "draining" | "power_drain" | "fail" | "failg" | "failing" | "boot"
        | "reboot" | "reboot_requested" => Availability::Drained,
        "power_down" | "pow_dn" | "powering_down" | "powring_dn" | "reboot_issued" => {
            Availability::Restarting
        }
        "down" | "error" | "err" | "futr" | "future" | "inval" | "invalid" | "invalid_reg" | "external"
        | "no_respond" | "not_responding" => Availability::Down,
        "resv" | "reserved" | "maint" | "maintenance" | "block" | "blocked" | "npc" | "perfctrs" => {
            Availability::Reserved
        }
        _ => Availability::Unknown,
    }
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
            Self::Restarting | Self::Down => "down",
            Self::Reserved => "reserved",
            Self::Unknown => "unknown",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(expected: Availability, texts: &[&str]) {
        for text in texts {
            for spelling in [text.to_lowercase(), text.to_uppercase()] {
                assert_eq!(NodeState::parse(&spelling).availability(), expected, "{spelling}");
            }
        }
    }

    #[test]
    fn nodes_that_take_work_are_up() {
        check(Availability::Up, &["idle", "mix", "mixed", "alloc", "allocated", "allocated+", "comp"]);
        check(Availability::Up, &["completing", "planned", "plnd", "mix-", "mixed-", "mixed+planned"]);
        check(Availability::Up, &["idle~", "mix~", "mix#", "powering_up", "idle+cloud+powered_down"]);
        check(Availability::Up, &["idle+dynamic_norm", "allocated+cloud", "idle+cloud+power", " idle "]);
    }

    #[test]
    fn a_drain_wins_over_everything_but_down() {
        check(Availability::Drained, &["drain", "drained", "drng", "draining", "drain~", "drain$", "drng@"]);
        check(
            Availability::Drained,
            &["mixed+drain+dynamic_norm+maintenance+reserved", "idle+drain", "idle@"],
        );
        check(Availability::Drained, &["fail", "failg", "failing", "reboot", "boot", "idle+drain+surprise"]);
        check(
            Availability::Down,
            &["down", "drain*", "down*+drain", "down+not_responding", "down~", "down$"],
        );
        check(Availability::Down, &["idle*", "idle!*", "down^", "unk*", "fail*", "inval"]);
        check(Availability::Down, &["down+cloud+powering_down", "error", "futr", "down+surprise"]);
        check(Availability::Restarting, &["idle!", "idle%", "reboot^", "drng^", "reboot_issued"]);
        check(Availability::Restarting, &["idle+cloud+powering_down", "power_down", "drain!"]);
    }

    #[test]
    fn reserved_nodes_are_not_for_everybody() {
        check(Availability::Reserved, &["resv", "reserved", "maint", "mix$", "block", "blocked"]);
        check(Availability::Reserved, &["mixed+dynamic_norm+maintenance+reserved+planned", "idle+reserved"]);
    }

    #[test]
    fn unknown_words_are_never_planned_on() {
        check(Availability::Unknown, &["", "unk", "unknown", "?", "surprise", "idle+surprise", "n/a", "+"]);
    }

    proptest! {
        #[test]
        fn any_text_is_a_state_and_is_kept(text in "\\PC{0,20}|[a-z+*~#!%$@^-]{0,20}") {
            let state = NodeState::parse(&text);
            prop_assert_eq!(state.text(), text.trim());
        }
    }
}
