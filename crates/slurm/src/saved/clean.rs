//! The lines of a saved text, without the additions of terminals, pagers, mail and chat.

use std::borrow::Cow;

use crate::record::{FIELD_END, RECORD_END};

/// A line with its number in the text, from 1.
#[derive(Clone, Debug)]
pub(super) struct CleanLine<'a> {
    pub number: usize,
    pub text: Cow<'a, str>,
    /// The typed command, if the line is a shell prompt; empty if nothing was typed.
    pub command: Option<String>,
}

/// First words of typed commands that a saved text may contain.
const COMMANDS: [&str; 11] =
    ["sinfo", "scontrol", "squeue", "sacct", "srun", "sbatch", "salloc", "ssh", "hsched", "exit", "logout"];

/// Beginnings of lines that terminals, shells and pagers write, in lower case.
const NOISE: [&str; 22] = [
    "connection to ",
    "connection refused",
    "connection closed",
    "connection reset",
    "connection timed out",
    "broken pipe",
    "permission denied",
    "last login",
    "logout",
    "exit",
    "script started",
    "script done",
    "killed",
    "terminated",
    "segmentation fault",
    "press ",
    "[press ",
    "(end)",
    "...skipping",
    "every ",
    "^c",
    "welcome to",
];

/// Returns the text without terminal colors and other control sequences, with ordinary blanks, and with `|`
/// for the ends of fields and records.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    let text = text.trim_start_matches('\u{feff}');
    let odd =
        |c: char| (c.is_control() && !matches!(c, '\n' | '\r' | '\t')) || matches!(c, '\u{a0}' | '\u{200b}');
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let text = text.replace([FIELD_END, RECORD_END], "|").replace('\u{a0}', " ").replace('\u{200b}', "");
    Cow::Owned(anstream::adapter::strip_str(&text).to_string())
}

/// Returns the lines that may be output or prompts, and the lines that certainly are neither. Blank lines and
/// rules are in neither list.
pub(super) fn lines(text: &str) -> (Vec<CleanLine<'_>>, Vec<CleanLine<'_>>) {
    let (mut kept, mut noise) = (Vec::new(), Vec::new());
    for (index, raw) in text.split('\n').enumerate() {
        let (text, number) = (bare(raw), index + 1);
        if raw.trim().is_empty() || is_frame(text) {
            continue;
        }
        let command = command(text).map(str::to_owned);
        let is_noise = text.trim().is_empty() || (command.is_none() && is_noise(text));
        let text = Cow::Borrowed(if text.trim().is_empty() { raw } else { text });
        let line = CleanLine { number, text, command };
        if is_noise { &mut noise } else { &mut kept }.push(line);
    }
    (kept, noise)
}

/// Returns a line without overwritten text, the quote markers of mail (`>`) and a pager's prompt.
fn bare(line: &str) -> &str {
    let mut line = line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or("");
    while let Some(quoted) = line.trim_start().strip_prefix('>') {
        line = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    let paged = line.trim_start();
    match ["--More--", "-- More --"].iter().find_map(|prompt| paged.strip_prefix(prompt)) {
        Some(rest) => {
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest)
        }
        None => line,
    }
}

/// Returns whether a line is the edge of a code block, a rule, or the time that `sinfo -l` prints first.
fn is_frame(line: &str) -> bool {
    let line = line.trim();
    let days = ["Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "];
    let is_date = days.iter().any(|day| line.starts_with(day)) && line.matches(':').count() == 2;
    let is_rule = line.len() > 3 && line.chars().all(|c| matches!(c, '-' | '=' | '+' | '|' | ':' | ' '));
    line.starts_with("```") || line.starts_with("~~~") || is_rule || is_date
}

/// Returns the typed text if a line is a prompt (`[user@host ~]$ sinfo`) or a command alone.
fn command(line: &str) -> Option<&str> {
    let line = line.trim();
    let is_command = |text: &str| text.split_whitespace().next().is_some_and(|word| COMMANDS.contains(&word));
    if is_command(line) {
        return Some(line);
    }
    // The name of an environment may come first: (base) user@host:~$
    let prompt = line.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(line, |(_, rest)| rest);
    prompt.match_indices(['$', '#', '%', '>', '❯', '➜', 'λ']).find_map(|(at, mark)| {
        let (before, after) = (prompt[..at].trim_end(), &prompt[at + mark.len()..]);
        let ends = after.is_empty() || after.starts_with(' ');
        let is_prompt = before.is_empty()
            || names_somebody(before)
            || (before.starts_with('[') && before.ends_with(']') && before.contains(' '))
            || is_command(after);
        (ends && is_prompt).then(|| after.trim())
    })
}

/// Returns whether a text begins with `user@host`, as many prompts do.
fn names_somebody(text: &str) -> bool {
    let Some((user, rest)) = text.split_once('@') else { return false };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let user = user.strip_prefix('[').unwrap_or(user);
    !user.is_empty() && user.chars().all(is_name) && rest.starts_with(is_name)
}

/// Returns whether a terminal, shell or pager wrote a line; no table contains such lines.
fn is_noise(line: &str) -> bool {
    let line = line.trim();
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    // `sinfo: error: …` and `bash: …` are messages, but sinfo prints `CLUSTER: name`.
    let says = first.strip_suffix(':').is_some_and(|word| {
        let is_program = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '-');
        !word.is_empty() && word.chars().all(is_program) && word != "CLUSTER" && !rest.is_empty()
    });
    let screens = first == "lines" && rest.starts_with(|c: char| c.is_ascii_digit());
    let lower = line.get(..line.len().min(40)).unwrap_or(line).to_lowercase();
    says || screens || matches!(line, "~" | ":" | "|") || NOISE.iter().any(|start| lower.starts_with(start))
}
