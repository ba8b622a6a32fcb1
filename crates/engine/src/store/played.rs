//! The lines of a journal, applied to an earlier state.

use crate::store::journal;
use crate::store::journal_file::{Journal, JournalLine, Writer};
use crate::store::state_file::StateFile;
use crate::store::state_record::StateRecord;
use crate::{Event, Rules, State, apply};
use hsched_model::Time;

/// A state with the journal applied as far as possible.
pub(super) struct JournaledState {
    /// The state according to the snapshot and the last record, without the answers after it; `None` if there
    /// is neither.
    pub recorded: Option<StateFile>,
    /// The last line up to which nothing is missing, counted from the snapshot or the last record of the
    /// whole state; 0 if there is none.
    pub reached: u64,
    /// The time of that line, or of the snapshot if there is no line after it.
    pub at: Option<Time>,
    /// Whether the journal contained the whole state, so that the snapshot was not needed.
    pub is_of_journal: bool,
    /// The journal, without the applied lines.
    pub journal: Journal,
    answers: Vec<(Time, Event)>,
    /// Number of complete lines after the snapshot.
    lines: u64,
}

impl JournaledState {
    /// Applies the lines after a snapshot. After a gap, only answers count until the next record of the whole
    /// state; answers about submissions unknown to the state change nothing.
    ///
    /// # Errors
    /// If this version cannot read a line; the text says which.
    pub(super) fn of(start: Option<StateFile>, text: &[u8], writer: Writer) -> Result<Self, String> {
        let known = start.as_ref().map_or(0, |file| file.seq);
        let mut journal = Journal::read(text, known, writer);
        let lines = std::mem::take(&mut journal.lines);
        let mut is_gapless = start.is_some();
        let count = lines.len() as u64;
        let at = start.as_ref().and_then(|file| file.at);
        let mut played = Self {
            recorded: start,
            reached: known,
            at,
            is_of_journal: false,
            journal,
            answers: Vec::new(),
            lines: count,
        };
        for JournalLine { seq, at, what } in lines {
            let (at, answer) = (Time(at), journal::answer(&what));
            let record = StateRecord::read(what).map_err(|what| format!("entry {seq}: {what}"))?;
            let is_whole = matches!(record, Some(StateRecord::State(_)));
            is_gapless = is_whole || (is_gapless && seq == played.reached + 1);
            match record {
                Some(record) if is_gapless => {
                    // The record includes the earlier answers.
                    played.answers.clear();
                    record.play(&mut played.recorded, seq, at);
                    played.is_of_journal |= is_whole;
                }
                Some(_) => {}
                None => played.answers.extend(answer.map(|answer| (at, answer))),
            }
            if is_gapless {
                (played.reached, played.at) = (seq, Some(at));
            }
        }
        Ok(played)
    }

    /// Returns whether the journal begins with its first line and has neither a record nor an answer: hsched
    /// was killed before it had written the first record, and thus before the first request to Slurm.
    pub(super) fn has_no_record(&self) -> bool {
        let is_whole = self.journal.faults.is_empty() && self.journal.last == self.lines;
        is_whole && self.recorded.is_none() && self.answers.is_empty()
    }

    /// Returns the state with the answers after the last record.
    pub(super) fn state(&self, rules: &Rules) -> State {
        let mut state = self.recorded.as_ref().map(|file| file.state.clone()).unwrap_or_default();
        for (at, answer) in &self.answers {
            apply(&mut state, *at, answer, rules);
        }
        state
    }
}
