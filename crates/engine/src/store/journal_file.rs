//! The journal's file: numbered lines with checksums; only the last line may be truncated.

use std::fs::File;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::store::seal::{LINE, SealVerdict};
use hsched_model::Time;

/// One line.
#[derive(Debug, Deserialize)]
pub(super) struct JournalLine {
    /// Line number, from 1 across all journals of a state directory.
    pub seq: u64,
    /// Unix seconds.
    pub at: f64,
    #[serde(flatten)]
    pub what: Map<String, Value>,
}

/// A line that is about to be written.
#[derive(Serialize)]
struct NewLine<T> {
    seq: u64,
    at: f64,
    #[serde(flatten)]
    what: T,
}

/// A line's number; other keys are ignored.
#[derive(Deserialize)]
struct Number {
    seq: u64,
}

/// The readable part of a journal.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// The lines after the requested one.
    pub lines: Vec<JournalLine>,
    /// The number of the last line; 0 if there is none.
    pub last: u64,
    /// The faults found, as messages.
    pub faults: Vec<String>,
    /// Length of the complete lines in bytes; an incomplete last line, if there is one, follows them.
    pub length: u64,
    /// Whether the previous line was intact.
    is_sound: bool,
}

/// The version that wrote a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// This version: every line has a checksum.
    Own,
    /// Version 0.1.0, which had no checksums and ended a truncated line with a newline.
    Before,
}

/// Beginning of every line.
pub(super) const BEGINNING: &[u8] = b"{\"seq\":";

/// Maximum number of faults that are reported individually.
const MOST_FAULTS: usize = 3;

/// Returns entries (JSON objects) as lines of the journal after line `seq`, and the number of the last line.
///
/// # Errors
/// If one cannot be written as JSON.
pub(super) fn text(
    mut seq: u64,
    at: Time,
    entries: impl IntoIterator<Item = impl Serialize>,
) -> io::Result<(String, u64)> {
    let mut text = String::new();
    for what in entries {
        seq += 1;
        let line = serde_json::to_string(&NewLine { seq, at: at.0, what }).map_err(io::Error::other)?;
        text.push_str(&LINE.put(line));
        text.push('\n');
    }
    Ok((text, seq))
}

/// Appends lines to the file and waits until they are on disk.
///
/// # Errors
/// If they cannot be written; the file is then unchanged.
pub(super) fn append(file: &mut File, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let length = file.metadata()?.len();
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
    if written.is_err() {
        // If this also fails, the next reader ignores the incomplete line.
        let _ = file.set_len(length);
    }
    written
}

impl Journal {
    /// Reads a journal. Lines up to number `after` are checked but not returned.
    pub(super) fn read(bytes: &[u8], after: u64, writer: Writer) -> Self {
        let mut journal = Self::default();
        for (index, raw) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let number = index + 1;
            let Some(line) = raw.strip_suffix(b"\n") else {
                journal.take_end(raw, number, after, writer);
                break;
            };
            journal.length += raw.len() as u64;
            journal.take(line, number, after, writer);
        }
        if journal.faults.len() > MOST_FAULTS {
            let more = journal.faults.len() - MOST_FAULTS;
            journal.faults.truncate(MOST_FAULTS);
            journal.faults.push(format!("and {more} more"));
        }
        journal
    }

    /// Returns whether the journal is empty or contains only part of its first line.
    pub(super) fn is_blank(&self) -> bool {
        self.last == 0 && self.faults.is_empty()
    }

    /// Reads the text after the last newline: a truncated line, or a complete one with a damaged newline.
    fn take_end(&mut self, raw: &[u8], number: usize, after: u64, writer: Writer) {
        let whole = raw.split_last().filter(|(_, line)| LINE.check(line) == SealVerdict::Whole);
        if let Some((_, line)) = whole {
            self.take(line, number, after, writer);
            self.fault(format!("the end of line {number} is damaged"));
        } else if !raw.starts_with(&BEGINNING[..raw.len().min(BEGINNING.len())]) {
            self.fault(format!("line {number} is not a journal entry of hsched"));
        }
    }

    /// Reads one line.
    fn take(&mut self, line: &[u8], number: usize, after: u64, writer: Writer) {
        let is_right = writer == Writer::Before || LINE.check(line) == SealVerdict::Whole;
        let seq = is_right.then(|| serde_json::from_slice::<Number>(line).ok()).flatten();
        let Some(Number { seq }) = seq else {
            return self.fault(format!("line {number} does not match its checksum"));
        };
        if seq <= self.last {
            return self.fault(format!("line {number} is out of order"));
        }
        if self.is_sound && seq != self.last + 1 {
            self.fault(format!("lines are missing before line {number}"));
        }
        (self.is_sound, self.last) = (true, seq);
        if seq > after {
            match serde_json::from_slice(line) {
                Ok(line) => self.lines.push(line),
                Err(error) => self.fault(format!("line {number} cannot be read: {error}")),
            }
        }
    }

    fn fault(&mut self, what: String) {
        self.faults.push(what);
        self.is_sound = false;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(after: u64, count: usize) -> String {
        text(after, Time(1.5), (0..count).map(|_| json!({ "event": "stopped" }))).expect("a text").0
    }

    #[test]
    fn a_line_has_its_number_and_its_checksum() {
        // `printf '{"seq":7,"at":1.5,"event":"stopped"' | sha256sum`
        let expected = "{\"seq\":7,\"at\":1.5,\"event\":\"stopped\",\"sha256\":\"2384e251697e\"}\n";
        assert_eq!(lines(6, 1), expected);
        let journal = Journal::read(lines(6, 3).as_bytes(), 7, Writer::Own);
        let numbers: Vec<u64> = journal.lines.iter().map(|line| line.seq).collect();
        assert_eq!((numbers, journal.last), (vec![8, 9], 9));
    }

    #[test]
    fn what_is_wrong_with_a_journal_is_said() {
        let check = |text: &str, writer, faults: &[&str], last: u64| {
            let journal = Journal::read(text.as_bytes(), 0, writer);
            assert_eq!(journal.faults, faults, "{text}");
            assert_eq!(journal.last, last, "{text}");
        };
        let whole = lines(0, 3);
        let second = whole.lines().nth(1).expect("a line");
        check("", Writer::Own, &[], 0);
        check(&whole, Writer::Own, &[], 3);
        // The last line may be truncated anywhere.
        for cut in 1..=lines(3, 1).len() {
            let text = whole.clone() + &lines(3, 1);
            let length = text.len() - cut;
            let journal = Journal::read(&text.as_bytes()[..length], 0, Writer::Own);
            assert_eq!((journal.last, journal.length, journal.faults.len()), (3, whole.len() as u64, 0));
        }
        check(
            &whole.replace(second, &second.replace("stopped", "stoppee")),
            Writer::Own,
            &["line 2 does not match its checksum"],
            3,
        );
        let mut without = whole.clone();
        without.replace_range(..=second.len(), "");
        check(&without, Writer::Own, &[], 3);
        check(&(lines(0, 1) + &lines(2, 1)), Writer::Own, &["lines are missing before line 2"], 3);
        check(&(whole.clone() + second + "\n"), Writer::Own, &["line 4 is out of order"], 3);
        check(&(whole.trim_end().to_owned() + "\u{b}"), Writer::Own, &["the end of line 3 is damaged"], 3);
        check(&(whole.clone() + "\0\0\0"), Writer::Own, &["line 4 is not a journal entry of hsched"], 3);
        let bare = "{\"seq\":1,\"at\":1.5}\n{\"se\n{\"seq\":2,\"at\":1.5}\n";
        check(bare, Writer::Before, &["line 2 does not match its checksum"], 2);
        let faults = [
            "line 1 does not match its checksum",
            "line 2 does not match its checksum",
            "line 3 does not match its checksum",
        ];
        check(bare, Writer::Own, &faults, 0);
        let noise = "x\n".repeat(9);
        let journal = Journal::read(noise.as_bytes(), 0, Writer::Own);
        assert_eq!((journal.faults.len(), journal.faults[3].as_str()), (4, "and 6 more"));
    }
}
