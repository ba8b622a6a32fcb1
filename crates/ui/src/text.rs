//! Text for people, with line breaks between words.

/// Breaks a text between words so that no line is longer than `width` characters unless a word is. A word
/// longer than a line is broken only after commas and pluses. Lines after the first begin with `indent`.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    broken(text, width, indent, false)
}

/// Breaks a text like [`wrap`], but also cuts words that are longer than a line, so that no line is
/// longer than `width` characters.
pub(super) fn wrap_cut(text: &str, width: usize, indent: &str) -> String {
    broken(text, width, indent, true)
}

fn broken(text: &str, width: usize, indent: &str, cuts: bool) -> String {
    let room = width.saturating_sub(indent.len()).max(1);
    let mut lines = String::new();
    let mut column = 0;
    for word in words(text) {
        for (number, part) in parts(&word, room, cuts).into_iter().enumerate() {
            let length = part.chars().count();
            let gap = usize::from(column > 0 && number == 0);
            if column > 0 && column + gap + length > width {
                lines.push('\n');
                lines.push_str(indent);
                column = indent.len();
            } else if gap == 1 {
                lines.push(' ');
                column += 1;
            }
            lines.push_str(&part);
            column += length;
        }
    }
    lines
}

/// Shortens a name to a maximum length by leaving out its middle: variants of one job differ at the end.
pub(super) fn shortened(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.to_owned();
    }
    let head = most / 3;
    let tail = name.chars().skip(count - most.saturating_sub(head + 1));
    name.chars().take(head).chain(['…']).chain(tail).take(most).collect()
}

/// Truncates a line to a maximum length and marks the missing end.
pub(super) fn cut(line: &str, most: usize) -> String {
    if line.chars().count() <= most {
        return line.to_owned();
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).take(most).collect()
}

/// Returns the parts of a text that `wrap` keeps whole if possible.
pub(super) fn unbroken(text: &str) -> Vec<String> {
    let parts = |word: &String| word.split_inclusive([',', '+']).map(str::to_owned).collect::<Vec<_>>();
    words(text).iter().flat_map(parts).collect()
}

/// Returns the words of a text; a unit or a percent sign stays with its number.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(number) if is_unit(word) && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Returns whether a word, without the punctuation after it, is a unit.
fn is_unit(word: &str) -> bool {
    let bare = word.trim_end_matches([',', ';', '.', ':', ')']);
    word.starts_with('%') || ["h", "min", "s", "d", "GB", "GiB", "MB"].contains(&bare)
}

/// Splits a word into parts of at most `room` characters; unless it may be cut anywhere, only after commas
/// and pluses, so parts can be longer.
fn parts(word: &str, room: usize, cuts: bool) -> Vec<String> {
    let is_break = |c: &char| matches!(c, ',' | '+');
    let mut rest: Vec<char> = word.chars().collect();
    let mut parts = Vec::new();
    while rest.len() > room {
        let first = || rest.iter().position(is_break).filter(|_| !cuts);
        let place = rest[..room].iter().rposition(is_break).or_else(first).map(|place| place + 1);
        let Some(place) = place.or(cuts.then_some(room)).filter(|place| *place < rest.len()) else { break };
        let tail = rest.split_off(place);
        parts.push(rest.into_iter().collect());
        rest = tail;
    }
    parts.push(rest.into_iter().collect());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_the_width() {
        let check = |text: &str, expected: &str| assert_eq!(wrap_cut(text, 10, "  "), expected);
        check("", "");
        check("short", "short");
        check("some words that go on", "some words\n  that go\n  on");
        check("gpu[1,3,5-7] x", "gpu[1,3,\n  5-7] x");
        check("abcdefghijkl", "abcdefgh\n  ijkl");
        check("gained +139.9 %", "gained\n  +139.9 %");
        check("after 12 h; then", "after\n  12 h;\n  then");
        assert_eq!(
            [shortened("abcdefghij", 7), shortened("abc", 3), shortened("abc", 0)],
            ["ab…ghij", "abc", ""]
        );
        assert_eq!([cut("abcdef", 4), cut("abc", 3), cut("abc", 0)], ["abc…", "abc", ""]);
        assert_eq!(wrap("an abcdefghijkl,b", 10, "  "), "an\n  abcdefghijkl,\n  b");
    }
}
