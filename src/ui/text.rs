//! Text for people: lines broken between words.

/// Returns the text with line breaks between words so that no line is longer than `width` characters; a word
/// longer than a line is cut. Lines after the first begin with `indent`.
pub(super) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let room = width.saturating_sub(indent.len()).max(1);
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for (part, letters) in letters.chunks(room).enumerate() {
            let gap = usize::from(column > 0 && part == 0);
            if column > 0 && column + gap + letters.len() > width {
                lines.push('\n');
                lines.push_str(indent);
                column = indent.len();
            } else if gap == 1 {
                lines.push(' ');
                column += 1;
            }
            lines.extend(letters);
            column += letters.len();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_the_width() {
        let check = |text: &str, expected: &str| assert_eq!(wrap(text, 10, "  "), expected);
        check("", "");
        check("short", "short");
        check("some words that go on", "some words\n  that go\n  on");
        check("gpu[001-003,005-007] x", "gpu[001-\n  003,005-\n  007] x");
    }
}
