//! stdout and stderr, with their properties.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};

use crate::Failure;
use hsched_model::formats::FileProblem;

/// The destination of output.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent property")]
pub struct Terminal {
    width: usize,
    colour: bool,
    watched: bool,
    cuts: bool,
    ascii: bool,
}

/// Properties of the terminal from the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalKind {
    /// Columns, if the user has set them.
    pub columns: Option<usize>,
    /// Whether the terminal understands no control sequences.
    pub is_dumb: bool,
    /// Whether the terminal can show only ASCII.
    pub is_ascii: bool,
}

/// Width of a terminal whose width is unknown.
const USUAL: usize = 80;

/// Width of tables in pipes and files, which is practically unlimited.
const UNLIMITED: usize = 100_000;

/// Minimum assumed width of a terminal: tables need some room.
const NARROWEST: usize = 40;

/// ASCII replacements for characters of pictures and sentences.
const PLAIN: [(&str, char); 12] = [
    ("█▇▆", '#'),
    ("▒▅▄", '+'),
    ("░▃▂", '-'),
    ("▁·", '.'),
    ("●", 'o'),
    ("─┄–", '-'),
    ("│", '|'),
    ("└", '+'),
    ("×", 'x'),
    ("→", '>'),
    ("≤", '<'),
    ("…", '~'),
];

/// Returns a text with hsched's own special characters replaced by ASCII; other characters stay.
fn plain(text: &str) -> String {
    let stands_for = |c: char| PLAIN.iter().find(|(all, _)| all.contains(c)).map_or(c, |(_, ascii)| *ascii);
    text.replace('±', "+/-").chars().map(stands_for).collect()
}

impl Terminal {
    /// Returns the current terminal. `colour` is the user's choice; with `None`, colour is enabled if stdout
    /// is a terminal with colours. If stdout is not a terminal, lines are limited to `columns`, or unlimited
    /// without it.
    pub fn new(colour: Option<bool>, kind: TerminalKind) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let known = terminal_size::terminal_size().filter(|_| is_terminal);
        let known = known.map(|(width, _)| usize::from(width.0)).or(kind.columns);
        let usual = if is_terminal { USUAL } else { UNLIMITED };
        let width = known.map_or(usual, |width| width.max(NARROWEST));
        Self {
            width,
            colour: colour.unwrap_or(is_terminal && !kind.is_dumb),
            watched: is_terminal && !kind.is_dumb,
            cuts: is_terminal,
            ascii: kind.is_ascii,
        }
    }

    /// Returns the number of columns for tables; for a terminal, its current width.
    pub fn width(self) -> usize {
        let known = terminal_size::terminal_size().filter(|_| self.cuts);
        known.map_or(self.width, |(width, _)| usize::from(width.0).max(NARROWEST))
    }

    /// Returns whether words that are longer than their column are cut.
    pub(super) fn cuts(self) -> bool {
        self.cuts
    }

    /// Returns whether text may be coloured.
    pub fn colour(self) -> bool {
        self.colour
    }

    /// Returns whether stdout is a terminal with control sequences, which a person presumably reads.
    pub fn is_watched(self) -> bool {
        self.watched
    }

    /// Writes text to stdout. JSON is always UTF-8.
    ///
    /// # Errors
    /// If stdout cannot be written, for example because the pipe is closed.
    pub fn print(self, text: &str) -> io::Result<()> {
        if text.starts_with('{') {
            return self.pass_on(text.as_bytes());
        }
        self.pass_on(self.shown(text).as_bytes())
    }

    /// Returns a text in a form that the terminal can show: with pictures and dashes in ASCII if it shows
    /// only ASCII.
    pub(super) fn shown(self, text: &str) -> Cow<'_, str> {
        if self.ascii && !text.is_ascii() { Cow::Owned(plain(text)) } else { Cow::Borrowed(text) }
    }

    /// Writes bytes of other programs to stdout unchanged.
    ///
    /// # Errors
    /// As for [`Self::print`].
    pub fn pass_on(self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// Waits for this time or until the program that reads stdout has ended; returns whether it has.
    pub fn loses_reader_within(self, wait: Duration) -> bool {
        self.loses_reader_before(wait, None)
    }

    /// Waits like [`Self::loses_reader_within`], but also returns once data is available from `news`.
    pub fn loses_reader_before(self, wait: Duration, news: Option<BorrowedFd<'_>>) -> bool {
        let stdout = io::stdout();
        // A closed terminal does not count: a watch in the background continues without it.
        let is_read =
            fstat(stdout.as_fd()).is_ok_and(|stat| is_pipe(SFlag::from_bits_truncate(stat.st_mode)));
        // Without requested events, only a closed reader wakes `poll`.
        let asked = PollFd::new(stdout.as_fd(), PollFlags::empty());
        let mut asked = if is_read { vec![asked] } else { Vec::new() };
        asked.extend(news.map(|news| PollFd::new(news, PollFlags::POLLIN)));
        // A signal can only shorten the wait.
        let heard = poll(&mut asked, PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX));
        heard.is_ok() && is_read && asked[0].any() == Some(true)
    }

    /// Writes a line for people to stderr; errors are ignored because they cannot be reported.
    ///
    /// Control characters except line feeds and tabs are escaped, so that texts of other programs and files
    /// cannot control the terminal.
    pub fn say(self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", self.shown(&harmless(line)));
    }

    /// Writes a failure to stderr, and as JSON to stdout if JSON was requested.
    pub fn fail(self, failure: &Failure, json: bool) {
        self.say(&failure.to_string());
        if json {
            let mut error = serde_json::json!({
                "code": failure.exit.word(), "id": failure.id.word(), "message": failure.message,
                "hints": failure.hints
            });
            if !failure.problems.is_empty() {
                error["problems"] = failure.problems.iter().map(problem_json).collect();
            }
            let _ = self.print(&format!("{}\n", serde_json::json!({ "error": error })));
        }
        // Programs that read stderr expect the text without this line.
        if io::stderr().is_terminal() && failure.id != failure.exit.id() {
            self.say(&format!("more: hsched help error {}", failure.id.word()));
        }
    }
}

fn problem_json(problem: &FileProblem) -> serde_json::Value {
    let FileProblem { line, id, path, message, hint } = problem;
    serde_json::json!({ "line": line, "id": id.word(), "key": path, "message": message, "hint": hint })
}

fn is_pipe(mode: SFlag) -> bool {
    [SFlag::S_IFIFO, SFlag::S_IFSOCK].contains(&(mode & SFlag::S_IFMT))
}

/// Returns a text of other programs with all control characters except line feeds and tabs escaped, so that
/// it cannot control the terminal.
pub(super) fn harmless(line: &str) -> String {
    let mut text = String::new();
    for character in line.chars() {
        match character {
            '\n' | '\t' => text.push(character),
            _ if character.is_control() => text.extend(character.escape_default()),
            _ => text.push(character),
        }
    }
    text
}
