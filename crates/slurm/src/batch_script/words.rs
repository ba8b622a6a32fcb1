//! Words of a shell line as written, including quotes.

/// Splits a line without its comment at blanks outside quotes and substitutions; `None` if a quote or a
/// substitution is unclosed.
pub(super) fn split(line: &str) -> Option<Vec<String>> {
    let (letters, is_closed) = letters(line);
    let (mut words, mut word) = (Vec::new(), String::new());
    for (letter, is_plain) in letters {
        if !(is_plain && letter.is_whitespace()) {
            word.push(letter);
        } else if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    is_closed.then_some(words)
}

/// Returns a line without its comment.
pub(super) fn without_comment(line: &str) -> &str {
    let length: usize = letters(line).0.iter().map(|(letter, _)| letter.len_utf8()).sum();
    line[..length].trim_end()
}

/// Returns a line without its comment and with `_` for each character that is quoted or in a substitution.
pub(super) fn bare(line: &str) -> String {
    letters(line).0.into_iter().map(|(letter, is_plain)| if is_plain { letter } else { '_' }).collect()
}

/// Returns the characters before a comment, each with whether it is outside quotes and substitutions, and whether all
/// of these are closed.
fn letters(line: &str) -> (Vec<(char, bool)>, bool) {
    let (mut all, mut open): (Vec<(char, bool)>, Vec<char>) = (Vec::new(), Vec::new());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let inside = open.last().copied();
        match (letter, inside) {
            ('\\', quote) if quote != Some('\'') => {
                all.extend(std::iter::once(letter).chain(letters.next()).map(|letter| (letter, false)));
                continue;
            }
            ('\'', Some('\''))
            | ('"', Some('"'))
            | ('`', Some('`'))
            | (')', Some('('))
            | ('}', Some('{')) => {
                open.pop();
                all.push((letter, false));
                continue;
            }
            ('\'', quote) if quote != Some('"') && quote != Some('\'') => open.push('\''),
            ('"', quote) if quote != Some('\'') => open.push('"'),
            ('`', quote) if quote != Some('\'') => open.push('`'),
            ('$', quote) if quote != Some('\'') && matches!(letters.peek(), Some('(' | '{')) => {
                open.extend(letters.peek());
                all.extend(std::iter::once(letter).chain(letters.next()).map(|letter| (letter, false)));
                continue;
            }
            ('(', Some('(')) => open.push('('),
            ('#', None) if all.last().is_none_or(|(last, is_plain)| *is_plain && last.is_whitespace()) => {
                break;
            }
            _ => {}
        }
        all.push((letter, open.is_empty()));
    }
    (all, open.is_empty())
}

/// Returns a word's text without its quotes; `None` if it has characters that the shell may expand, of which only
/// `[` and `{` may be inside quotes.
pub(super) fn literal(word: &str) -> Option<String> {
    if word.contains(['$', '`', '*', '?', '~', '<', '>', '|', '&', ';', '(', ')']) || has_bracket(word) {
        return None;
    }
    let mut words = shell_words::split(word).ok()?;
    match words.len() {
        0 => Some(String::new()),
        1 => words.pop(),
        _ => None,
    }
}

/// Returns whether a bracket of a pattern or of a list of words is outside quotes.
fn has_bracket(word: &str) -> bool {
    let (mut quote, mut letters) = (None, word.chars());
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', quote) if quote != Some('\'') => {
                letters.next();
            }
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            ('[' | '{', None) => return true,
            _ => {}
        }
    }
    false
}

/// Returns the name and the value of an assignment.
pub(super) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_quotes() {
        let check = |line: &str, expected: Option<&[&str]>| {
            let words = split(line);
            let words: Option<Vec<&str>> =
                words.as_ref().map(|words| words.iter().map(String::as_str).collect());
            assert_eq!(words.as_deref(), expected, "{line}");
        };
        check("a 'b c' \"d $(e 'f g')\" # h", Some(&["a", "'b c'", "\"d $(e 'f g')\""]));
        check("x=$(a b | c) ${d:-e f} \\  g#h", Some(&["x=$(a b | c)", "${d:-e f}", "\\ ", "g#h"]));
        check("echo 'it", None);
        check("echo $(a", None);
        check("\\", Some(&["\\"]));
        check("", Some(&[]));
    }

    #[test]
    fn a_literal_is_what_the_shell_passes_on() {
        assert_eq!(literal("'a b'c").as_deref(), Some("a bc"));
        assert_eq!(literal("\"\"").as_deref(), Some(""));
        assert_eq!(literal("$HOME/x"), None);
        assert_eq!(literal("'"), None);
        assert_eq!(["{1..5}", "c[12].yaml", "'a'{b,c}"].map(literal), [None, None, None]);
        assert_eq!(
            ["'{1}'", "\"[2]\"", "\\{3"].map(|word| literal(word).expect("a text")),
            ["{1}", "[2]", "{3"]
        );
        assert_eq!(assignment("A_1=b=c"), Some(("A_1", "b=c")));
        assert_eq!((assignment("1A=b"), assignment("--a=b")), (None, None));
    }
}
