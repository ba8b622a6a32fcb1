//! Text for people: lines broken between words.

/// Returns the text with line breaks between words so that no line is longer than `width` characters, if no word is; a word
/// longer than a line is cut behind commas and pluses alone. Lines after the first begin with `indent`.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    broken(text, width, indent, false)
}

/// Does the same, and cuts words that are longer than a line: no line is longer than `width` characters.
pub(super) fn wrap_cut(text: &str, width: usize, indent: &str) -> String {
    broken(text, width, indent, true)
}

fn broken(text: &str, width: usize, indent: &str, cuts: bool) -> String {
    let room = width.saturating_sub(indent.len()).max(1);
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        for (number, part) in parts(word, room, cuts).into_iter().enumerate() {
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

/// Returns the parts of a text that `wrap` keeps whole where it can.
pub(super) fn unbroken(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().flat_map(|word| word.split_inclusive([',', '+']))
}

/// Returns a word in parts of at most `room` characters, or of more if it must not be cut elsewhere than behind a comma or plus.
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
        assert_eq!(wrap("an abcdefghijkl,b", 10, "  "), "an\n  abcdefghijkl,\n  b");
    }
}
