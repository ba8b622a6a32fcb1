//! stdout and stderr, with what is known about them.

use std::io::{self, IsTerminal, Write};

use crate::error::Failure;

/// Where output goes.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    width: usize,
    colour: bool,
    watched: bool,
}

/// Width of tables where there is no terminal to ask: what every terminal shows.
const USUAL: usize = 80;

/// What no terminal is taken to be narrower than: tables need some room.
const NARROWEST: usize = 40;

impl Terminal {
    /// Returns the terminal; `colour` is the user's wish, `None` for colour where stdout is a terminal.
    #[must_use]
    pub fn new(colour: Option<bool>) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let known = terminal_size::terminal_size().filter(|_| is_terminal);
        let width = known.map_or(USUAL, |(width, _)| usize::from(width.0).max(NARROWEST));
        Self { width, colour: colour.unwrap_or(is_terminal), watched: is_terminal }
    }

    /// Returns the number of columns that tables may take.
    #[must_use]
    pub fn width(self) -> usize {
        self.width
    }

    /// Returns whether text may be coloured.
    #[must_use]
    pub fn colour(self) -> bool {
        self.colour
    }

    /// Returns whether stdout is a terminal, with somebody before it.
    #[must_use]
    pub fn is_watched(self) -> bool {
        self.watched
    }

    /// Writes data to stdout.
    ///
    /// # Errors
    /// When stdout cannot be written; a closed pipe among them.
    pub fn print(self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Writes a line for people to stderr; a stderr that cannot be written has nobody to tell.
    ///
    /// Other programs' texts and files have no power over the terminal: control characters are escaped.
    pub fn say(self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", harmless(line));
    }

    /// Writes a failure to stderr, and as JSON to stdout for those who asked for JSON.
    pub fn fail(self, failure: &Failure, json: bool) {
        self.say(&failure.to_string());
        if json {
            let error = serde_json::json!({
                "error": { "code": failure.exit.word(), "message": failure.message, "hints": failure.hints }
            });
            let _ = self.print(&format!("{error}\n"));
        }
    }
}

/// Returns a text of other programs with its control characters escaped, so that it has no power over the terminal.
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
