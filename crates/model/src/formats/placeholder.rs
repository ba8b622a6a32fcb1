//! Placeholders such as `{lr}` in the texts of a job, filled with the values of a sweep.

use std::ops::Range;

use super::yaml::{ValueKind, YamlNode};

/// How a text is interpreted later, which determines how values must be quoted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// Literally.
    Plain,
    /// By a shell: values are quoted so that each stays one word or part of one.
    Shell,
}

/// Returns the names in braces in a text, each with the byte range of the whole `{name}`.
///
/// Braces after a `$` are a shell variable, not a placeholder.
pub(super) fn names(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.match_indices('{').filter_map(|(begin, _)| {
        let (name, _) = text[begin + 1..].split_once('}')?;
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_variable = text[..begin].ends_with('$');
        (is_name && !is_variable).then(|| (begin..begin + name.len() + 2, name))
    })
}

/// Returns the name if a value is exactly one placeholder.
///
/// YAML reads an unquoted `{lr}` as a map with the key `lr` and no value.
pub(super) fn alone(node: &YamlNode) -> Option<&str> {
    match &node.kind {
        ValueKind::Scalar { text, .. } => {
            names(text).find(|(place, _)| *place == (0..text.len())).map(|(_, name)| name)
        }
        ValueKind::Map(entries) => match entries.as_slice() {
            [(key, YamlNode { kind: ValueKind::Scalar { text, quoted: false }, .. })] if text.is_empty() => {
                Some(&key.text)
            }
            _ => None,
        },
        ValueKind::List(_) => None,
    }
}

/// Returns the text with values filled in for known placeholders; others stay.
pub(super) fn fill<'v>(text: &str, syntax: Syntax, value_of: impl Fn(&str) -> Option<&'v str>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut place_in_shell = ShellPlace { quote: Quote::None, before: ' ' };
    let mut done = 0;
    for (place, name) in names(text) {
        let Some(value) = value_of(name) else { continue };
        let between = &text[done..place.start];
        place_in_shell = place_in_shell.after(between);
        filled.push_str(between);
        match syntax {
            Syntax::Plain => filled.push_str(value),
            Syntax::Shell => filled.push_str(&place_in_shell.quote.protect(value)),
        }
        // A value is a part of a word, so no comment begins after it.
        place_in_shell.before = '}';
        done = place.end;
    }
    filled + &text[done..]
}

/// A position in a shell script.
#[derive(Clone, Copy)]
struct ShellPlace {
    quote: Quote,
    /// The character before it.
    before: char,
}

impl ShellPlace {
    /// Returns the position after more text.
    fn after(self, text: &str) -> Self {
        let Self { mut quote, mut before } = self;
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            // An escaped line break separates nothing.
            if quote.has_escapes() && c == '\\' && chars.next() == Some('\n') {
                continue;
            }
            let begins_word = before.is_whitespace() || ";&|()<>".contains(before);
            quote = match (quote, c) {
                (Quote::None, '\'') => Quote::Single,
                (Quote::None, '"') => Quote::Double,
                (Quote::None, '#') if begins_word => Quote::Comment,
                (Quote::Single, '\'') | (Quote::Double, '"') | (Quote::Comment, '\n') => Quote::None,
                (quote, _) => quote,
            };
            before = c;
        }
        Self { quote, before }
    }
}

/// The shell quotes around a position in a script.
#[derive(Clone, Copy, PartialEq)]
enum Quote {
    None,
    Single,
    Double,
    /// In a comment, which may contain an apostrophe, and which ends with its line.
    Comment,
}

impl Quote {
    fn has_escapes(self) -> bool {
        matches!(self, Self::None | Self::Double)
    }

    /// Returns the value quoted so that a shell reads exactly the value here.
    fn protect(self, value: &str) -> String {
        match self {
            Self::None => shell_words::quote(value).into_owned(),
            Self::Single => value.replace('\'', r"'\''"),
            Self::Comment => value.replace(['\n', '\r'], " "),
            Self::Double => {
                let escaped = |c| if matches!(c, '\\' | '"' | '$' | '`') { "\\" } else { "" };
                value.chars().flat_map(|c| escaped(c).chars().chain([c])).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(text: &str, syntax: Syntax, value: &str) -> String {
        fill(text, syntax, |name| (name == "lr").then_some(value))
    }

    #[test]
    fn only_known_names_in_braces_are_replaced() {
        let check = |text, expected| assert_eq!(filled(text, Syntax::Plain, "0.1"), expected, "{text}");
        check("runs/{lr}", "runs/0.1");
        check("{lr}{lr}", "0.10.1");
        check("${lr} $lr {LR} {lr x} {} { {lr} {lr", "${lr} $lr {LR} {lr x} {} { 0.1 {lr");
        check("{{lr}}", "{0.1}");
        check("awk '{print}' {a,b}", "awk '{print}' {a,b}");
    }

    #[test]
    fn a_value_is_quoted_where_the_shell_needs_it() {
        let check =
            |text, value, expected| assert_eq!(filled(text, Syntax::Shell, value), expected, "{text}");
        check("--lr {lr}", "1e-3", "--lr 1e-3");
        check("--lr {lr}", "a b", "--lr 'a b'");
        check("--lr={lr} x", "", "--lr='' x");
        check("--lr \"x {lr}\"", "a $b", "--lr \"x a \\$b\"");
        check("--lr 'x {lr}' {lr}", "it's", r"--lr 'x it'\''s' 'it'\''s'");
        check("# don't\n--lr {lr}", "a b", "# don't\n--lr 'a b'");
        check("# {lr}, don't\n--lr {lr}", "a;b", "# a;b, don't\n--lr 'a;b'");
        check("echo;# {lr} isn't\n{lr}", "a\nb", "echo;# a b isn't\n'a\nb'");
        check("x \\\n# it's\n{lr}", "a b", "x \\\n# it's\n'a b'");
        check("{lr}#'{lr}' {lr}", "a b", "'a b'#'a b' 'a b'");
        check("{lr} #'{lr}'\n{lr}", "a b", "'a b' #'a b'\n'a b'");
    }

    proptest! {
        /// Words are split by a crate that implements a shell's rules.
        #[test]
        fn a_shell_reads_exactly_the_value(value in "[a-z '\"$`\\\\;&|<>()*!#~]{0,12}") {
            for around in ["{lr}", "\"{lr}\"", "'{lr}'", "\\'{lr}", "'a'\"b\"{lr}"] {
                let words = shell_words::split(&filled(around, Syntax::Shell, &value)).expect("words");
                let literal = shell_words::split(&around.replace("{lr}", "@")).expect("words");
                prop_assert_eq!(words, [literal[0].replace('@', &value)]);
            }
        }
    }
}
