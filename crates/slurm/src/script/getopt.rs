//! Options among words, parsed by the rules of `getopt_long`, as in `sbatch`.

use super::names::{LongName, ValueRule, long_name, short_name};
use super::options::OptionSource;
use super::source::SlurmVersion;
use super::words::ScriptWord;

/// An option found among words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundOption {
    /// Full name, without dashes.
    pub name: &'static str,
    /// Whether the option is defined by a site's plugin.
    pub is_plugin: bool,
    pub value: Option<String>,
    pub source: OptionSource,
    /// Line of the option itself, even if its value is on the next line.
    pub line: Option<usize>,
    /// The words as written.
    pub text: String,
    /// A word at which `sbatch` stops, inside a placeholder with blanks.
    pub stray: Option<String>,
}

/// Why the options end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OptionsEnd {
    /// There are no more words.
    Words,
    /// The word at this index is not an option, or follows `--`.
    Other(usize),
    /// The word at this index is an option that `sbatch` refuses, for this reason.
    Refused(usize, String),
}

/// Returns the full names and values of all options among the words of a command line; other words are
/// skipped.
pub(crate) fn named_options(words: &[String], version: SlurmVersion) -> Vec<(&'static str, Option<String>)> {
    let words: Vec<ScriptWord> =
        words.iter().enumerate().map(|(index, word)| ScriptWord::argument(word, index)).collect();
    let (mut all, mut rest) = (Vec::new(), &words[..]);
    loop {
        let (found, end) = options(rest, version);
        all.extend(found.into_iter().map(|found_option| (found_option.name, found_option.value)));
        match end {
            OptionsEnd::Words => return all,
            OptionsEnd::Other(place) | OptionsEnd::Refused(place, _) => {
                rest = rest.get(place + 1..).unwrap_or_default();
            }
        }
    }
}

/// Returns the letters of the options in a word such as `-HN2`, whose end is the value of the last one; empty for other
/// words.
pub fn option_letters(word: &str) -> Vec<char> {
    let mut found = Vec::new();
    for letter in word.strip_prefix('-').unwrap_or_default().chars().take_while(|letter| *letter != '-') {
        found.push(letter);
        let takes = short_name(SlurmVersion::DEFAULT, letter).map(|known| known.takes);
        if takes != Some(ValueRule::Nothing) {
            break;
        }
    }
    found
}

/// Returns the options at the beginning of some words, and what ends them.
pub(super) fn options(words: &[ScriptWord], version: SlurmVersion) -> (Vec<FoundOption>, OptionsEnd) {
    let mut reader = WordReader { words, version, at: 0, found: Vec::new() };
    loop {
        let Some(word) = words.get(reader.at) else { return (reader.found, OptionsEnd::Words) };
        let here = reader.at;
        let step = match word.text.as_bytes() {
            b"--" if here + 1 == words.len() => return (reader.found, OptionsEnd::Words),
            b"--" => return (reader.found, OptionsEnd::Other(here + 1)),
            [b'-', b'-', ..] => reader.long(word),
            [b'-', _, ..] => reader.letters(word),
            _ => return (reader.found, OptionsEnd::Other(here)),
        };
        if let Err(why) = step {
            return (reader.found, OptionsEnd::Refused(here, why));
        }
    }
}

struct WordReader<'a> {
    words: &'a [ScriptWord],
    version: SlurmVersion,
    at: usize,
    found: Vec<FoundOption>,
}

impl<'a> WordReader<'a> {
    /// Reads an option such as `--time=7` or `--time 7`.
    fn long(&mut self, word: &'a ScriptWord) -> Result<(), String> {
        self.at += 1;
        let text = &word.text;
        let (written, value) = match text.find('=') {
            Some(equals) => (&text[2..equals], Some(equals + 1)),
            None => (&text[2..], None),
        };
        let known = long_name(self.version, written).map_err(|possible| {
            if possible.is_empty() {
                return format!("unrecognized option '{text}'");
            }
            let list: Vec<String> = possible.iter().map(|name| format!("'--{name}'")).collect();
            format!("option '{text}' is ambiguous; possibilities: {}", list.join(" "))
        })?;
        match (known.takes(), value) {
            (ValueRule::Nothing, Some(_)) => {
                Err(format!("option '--{}' doesn't allow an argument", known.name()))
            }
            (_, Some(start)) => {
                self.push(known, word, Some((word, start)));
                Ok(())
            }
            (ValueRule::Value, None) => {
                let next = self.next();
                let next = next.ok_or_else(|| format!("option '--{}' requires an argument", known.name()))?;
                self.push(known, word, Some((next, 0)));
                Ok(())
            }
            (ValueRule::Nothing | ValueRule::MaybeValue, None) => {
                self.push(known, word, None);
                Ok(())
            }
        }
    }

    /// Reads options such as `-N2`, `-N 2` and `-HN2`.
    fn letters(&mut self, word: &'a ScriptWord) -> Result<(), String> {
        self.at += 1;
        for (place, letter) in word.text.char_indices().skip(1) {
            let known =
                short_name(self.version, letter).ok_or_else(|| format!("invalid option -- '{letter}'"))?;
            let rest = place + letter.len_utf8();
            let has_rest = rest < word.text.len();
            let value = match known.takes {
                ValueRule::Nothing => None,
                ValueRule::MaybeValue => has_rest.then_some((word, rest)),
                ValueRule::Value if has_rest => Some((word, rest)),
                ValueRule::Value => {
                    let next = self.next();
                    let next = next.ok_or_else(|| format!("option requires an argument -- '{letter}'"))?;
                    Some((next, 0))
                }
            };
            let takes_rest = known.takes != ValueRule::Nothing;
            self.push(LongName::Option(known), word, value);
            if takes_rest {
                break;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<&'a ScriptWord> {
        let next = self.words.get(self.at)?;
        self.at += 1;
        Some(next)
    }

    /// Adds an option; its value, if there is one, is the rest of a word from the given position.
    fn push(&mut self, known: LongName, word: &ScriptWord, value: Option<(&ScriptWord, usize)>) {
        let text = match value {
            Some((other, 0)) => format!("{} {}", word.text, other.text),
            _ => word.text.clone(),
        };
        let source = match value {
            Some((holder, start)) => holder.source(Some((start, holder.text.len()))),
            None => word.source(None),
        };
        self.found.push(FoundOption {
            name: known.name(),
            is_plugin: matches!(known, LongName::Plugin(..)),
            value: value.map(|(holder, start)| holder.text[start..].to_owned()),
            source,
            line: word.line(),
            text,
            stray: value.map_or(word, |(holder, _)| holder).joined.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, OptionsEnd) {
        let words: Vec<ScriptWord> =
            text.split(' ').enumerate().map(|(index, word)| ScriptWord::argument(word, index)).collect();
        let (found, end) = options(&words, SlurmVersion::DEFAULT);
        let show = |found: FoundOption| match found.value {
            Some(value) => format!("{}={value}", found.name),
            None => found.name.to_owned(),
        };
        (found.into_iter().map(show).collect(), end)
    }

    #[test]
    fn options_are_found_in_every_spelling() {
        let all = |text: &str| {
            let (found, end) = read(text);
            assert_eq!(end, OptionsEnd::Words, "{text}");
            found.join(" ")
        };
        assert_eq!(all("-N2 -n 4 --part=gpu --time 7"), "nodes=2 ntasks=4 partition=gpu time=7");
        assert_eq!(all("-HN2 --exclusive --nice=5 --hold"), "hold nodes=2 exclusive nice=5 hold");
        assert_eq!(all("--tasks=2 --cluster=a -t=7"), "ntasks-per-node=2 clusters=a time==7");
        assert_eq!(all("--job-name -x --comment --time=7"), "job-name=-x comment=--time=7");
        assert_eq!(all("--container-image x.sqsh --killable"), "container-image=x.sqsh killable");
        assert_eq!(all("-N1 --"), "nodes=1");
    }

    #[test]
    fn letters_end_at_a_value() {
        let check = |word: &str, expected: &str| {
            assert_eq!(option_letters(word).iter().collect::<String>(), expected, "{word}");
        };
        check("-QW", "QW");
        check("-HQN2", "HQN");
        check("-xW", "x");
        check("-kNp", "k");
        check("-N", "N");
        check("-Y1", "Y");
        for word in ["-", "--", "--wait", "n1", ""] {
            check(word, "");
        }
    }

    #[test]
    fn what_getopt_refuses_is_refused_in_its_words() {
        let why = |text: &str| match read(text).1 {
            OptionsEnd::Refused(_, why) => why,
            end => panic!("{text}: {end:?}"),
        };
        assert_eq!(why("--foo=1"), "unrecognized option '--foo=1'");
        assert_eq!(
            why("--mem-per=2G"),
            "option '--mem-per=2G' is ambiguous; possibilities: '--mem-per-cpu' '--mem-per-gpu'"
        );
        assert_eq!(why("-Y 1"), "invalid option -- 'Y'");
        assert_eq!(why("--hold=1"), "option '--hold' doesn't allow an argument");
        assert_eq!(why("--time"), "option '--time' requires an argument");
        assert_eq!(why("-N"), "option requires an argument -- 'N'");
    }

    #[test]
    fn a_word_that_is_no_option_ends_them() {
        assert_eq!(read("-N1 x -n2").1, OptionsEnd::Other(1));
        assert_eq!(read("-N1 -- -n2").1, OptionsEnd::Other(2));
        assert_eq!(read("- -n2").1, OptionsEnd::Other(0));
    }
}
