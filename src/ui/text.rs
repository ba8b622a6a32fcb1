//! Text for people: lines broken between words.

/// Returns the text with line breaks between words so that no line is longer than `width` characters, where
/// words allow; lines after the first begin with `indent`.
pub(super) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            lines.push('\n');
            lines.push_str(indent);
            column = indent.len();
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}
