//! The words of a script's option line, split as by `sbatch`, with the position of each byte.

use super::options::{OptionSource, ValueText};

/// A word of a script's line or of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptWord {
    pub text: String,
    pub place: Place,
    /// The first of the words joined to this one, at which `sbatch` would stop.
    pub joined: Option<String>,
    /// Position of each byte of the text in the file; empty for words outside the file, for joined words and
    /// for words that are not UTF-8.
    bytes: Vec<Byte>,
}

/// Place of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A line of the script, from 1.
    Line(usize),
    /// A word of the command line, from 0.
    Argument(usize),
}

/// Position of a word's byte in the file, including a backslash before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Byte {
    start: usize,
    end: usize,
    /// Number of the surrounding pair of quotes, from 1, and the quote character.
    quotes: Option<(usize, u8)>,
}

impl ScriptWord {
    /// Returns a word of the command line.
    pub(super) fn argument(text: &str, index: usize) -> Self {
        Self { text: text.to_owned(), place: Place::Argument(index), joined: None, bytes: Vec::new() }
    }

    /// Returns the source of a part of the word, with its byte range in the file.
    pub(super) fn source(&self, value: Option<(usize, usize)>) -> OptionSource {
        match self.place {
            Place::Argument(index) => OptionSource::CommandLine(index),
            Place::Line(line) => OptionSource::Script {
                line,
                value: value.and_then(|(start, end)| self.value_text(start, end)),
            },
        }
    }

    /// Appends a word that belongs to the same placeholder; the value's position in the file is dropped.
    pub(super) fn join(&mut self, other: &Self) {
        self.text = format!("{} {}", self.text, other.text);
        self.joined.get_or_insert_with(|| other.text.clone());
        self.bytes.clear();
    }

    pub(super) fn line(&self) -> Option<usize> {
        match self.place {
            Place::Line(line) => Some(line),
            Place::Argument(_) => None,
        }
    }

    /// Returns the byte range in the file of a part of the text.
    fn value_text(&self, start: usize, end: usize) -> Option<ValueText> {
        let (first, last) = (self.bytes.get(start)?, self.bytes.get(end.checked_sub(1)?)?);
        // A value that begins inside quotes and ends outside them cannot be replaced on its own.
        (first.quotes == last.quotes).then(|| ValueText {
            bytes: first.start..last.end,
            quote: first.quotes.map(|(_, quote)| char::from(quote)),
        })
    }
}

/// A line that cannot be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SplitError {
    /// The quote is not closed.
    OpenQuote(char),
    /// A word begins with a colon.
    Colon,
}

/// The words of a line, and the part that `sbatch` drops silently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub words: Vec<ScriptWord>,
    /// The dropped text from the word at which `sbatch` stops, with the reason.
    pub dropped: Option<(String, &'static str)>,
}

/// Splits the text after `#SBATCH`; `start` is its offset in the file.
///
/// # Errors
/// If a quote is not closed, or a word begins with a colon.
pub(super) fn split(
    text: &[u8],
    start: usize,
    line: usize,
    escapes_blanks: bool,
) -> Result<Words, SplitError> {
    let mut found = Words::default();
    let mut at = 0;
    loop {
        at += text[at..].iter().take_while(|byte| is_blank(**byte)).count();
        let rest = &text[at..];
        match rest.first() {
            None | Some(b'#') => return Ok(found),
            Some(b':') => return Err(SplitError::Colon),
            Some(_) if separator(rest).is_some() => {
                let tail = &rest[separator(rest).unwrap_or_default().len()..];
                found.drop_rest(tail, "hetjob at the start of a line ends its options");
                return Ok(found);
            }
            Some(_) => {}
        }
        let (raw, mut bytes, length) = word(rest, start + at, escapes_blanks)?;
        at += length;
        if raw.is_empty() {
            found.drop_rest(&text[at..], "an empty word ends the options of a line");
            return Ok(found);
        }
        let text = String::from_utf8(raw).unwrap_or_else(|error| {
            bytes.clear();
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        found.words.push(ScriptWord { text, place: Place::Line(line), joined: None, bytes });
    }
}

impl Words {
    /// Records dropped text unless it is a comment.
    fn drop_rest(&mut self, rest: &[u8], why: &'static str) {
        let rest = String::from_utf8_lossy(rest).trim().to_owned();
        if !rest.is_empty() && !rest.starts_with('#') {
            self.dropped = Some((rest, why));
        }
    }
}

/// Returns the bytes of the first word of a text, their positions, and the length of the text that it takes.
fn word(text: &[u8], start: usize, escapes_blanks: bool) -> Result<(Vec<u8>, Vec<Byte>, usize), SplitError> {
    let (mut raw, mut bytes) = (Vec::new(), Vec::new());
    let (mut at, mut quotes, mut count) = (0, None, 0);
    let mut escape = None;
    while let Some(byte) = text.get(at).copied().filter(|byte| quotes.is_some() || !is_blank(*byte)) {
        match (escape, quotes, byte) {
            (None, _, b'\\') => {
                escape = Some(at);
                at += 1;
                // Only newer versions keep a blank after a backslash.
                if !escapes_blanks || text.get(at) != Some(&b' ') {
                    continue;
                }
            }
            (None, Some((_, quote)), byte) if byte == quote => {
                (quotes, at) = (None, at + 1);
                continue;
            }
            (None, None, b'"' | b'\'') => {
                count += 1;
                (quotes, at) = (Some((count, byte)), at + 1);
                continue;
            }
            (None, None, b'#') => break,
            _ => {}
        }
        let begin = escape.take().unwrap_or(at);
        raw.push(text[at]);
        bytes.push(Byte { start: start + begin, end: start + at + 1, quotes });
        at += 1;
    }
    match quotes {
        Some((_, quote)) => Err(SplitError::OpenQuote(char::from(quote))),
        None => Ok((raw, bytes, at)),
    }
}

/// Returns the word that begins another component of a het job, if the text begins with it.
pub(super) fn separator(text: &[u8]) -> Option<&'static str> {
    ["hetjob", "packjob"].into_iter().find(|word| {
        let length = word.len();
        text.get(..length).is_some_and(|begin| begin.eq_ignore_ascii_case(word.as_bytes()))
            && text.get(length).is_none_or(|byte| is_blank(*byte))
    })
}

/// Returns whether C's `isspace` is true.
pub(super) fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let found = split(text.as_bytes(), 0, 1, true).expect("it can be split");
        found.words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_split_as_sbatch_splits_them() {
        assert_eq!(words(" --time=7\t-N2 # nodes' --x"), ["--time=7", "-N2"]);
        assert_eq!(words("--time=7# seven"), ["--time=7"]);
        assert_eq!(words("-J 'my job' \"-o a b\" a\"b c\"d"), ["-J", "my job", "-o a b", "ab cd"]);
        assert_eq!(words(r"a\#b a\nb\\c my\ job"), ["a#b", r"anb\c", "my job"]);
        assert_eq!(words("-n 1 hetjob -N 2"), ["-n", "1"]);
        assert_eq!(words("--comment \"\" -N 2"), ["--comment"]);
        assert_eq!(words("hetjobs x"), ["hetjobs", "x"]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn older_versions_end_a_word_at_an_escaped_blank() {
        let found = split(br"--job-name=my\ job", 0, 1, false).expect("it can be split");
        assert_eq!(
            found.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>(),
            ["--job-name=my", "job"]
        );
    }

    #[test]
    fn what_is_dropped_is_noted() {
        let dropped =
            |text: &str| split(text.as_bytes(), 0, 1, true).expect("words").dropped.map(|part| part.0);
        assert_eq!(dropped("hetjob --gres=gpu:2").as_deref(), Some("--gres=gpu:2"));
        assert_eq!(dropped("--comment '' -N 2").as_deref(), Some("-N 2"));
        assert_eq!(dropped("hetjob # gpus"), None);
    }

    #[test]
    fn a_quote_without_an_end_and_a_colon_are_refused() {
        let error = |text: &str| split(text.as_bytes(), 0, 1, true).err();
        assert_eq!(error("--job-name=\"my job"), Some(SplitError::OpenQuote('"')));
        assert_eq!(error("-N1 : -N2"), Some(SplitError::Colon));
        assert_eq!(error("-J it's"), Some(SplitError::OpenQuote('\'')));
    }

    #[test]
    fn a_value_knows_its_bytes() {
        let value = |text: &str, start: usize| {
            let word = split(text.as_bytes(), 10, 1, true).expect("words").words.remove(0);
            let end = word.text.len();
            let found = match word.source(Some((start, end))) {
                OptionSource::Script { value, .. } => value?,
                _ => return None,
            };
            let bytes = found.bytes.start - 10..found.bytes.end - 10;
            Some((text[bytes].to_owned(), found.quote))
        };
        assert_eq!(value("--time=7 # x", 7), Some(("7".to_owned(), None)));
        assert_eq!(value("--time=\"7\"", 7), Some(("7".to_owned(), Some('"'))));
        assert_eq!(value("'--time=7 0'", 7), Some(("7 0".to_owned(), Some('\''))));
        assert_eq!(value(r"-Ja\ b", 2), Some((r"a\ b".to_owned(), None)));
        assert_eq!(value("-Ja\" \"b", 2), Some(("a\" \"b".to_owned(), None)));
        assert_eq!(value("'-C'a", 1), None);
    }
}
