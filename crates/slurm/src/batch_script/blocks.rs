//! Groups of lines: loops, conditions, functions, subshells and here-documents.

use std::collections::VecDeque;

use super::body::excerpt;
use super::words::bare;
use super::{ImportedJob, LogicalLine};

/// Words that open and close groups.
pub(super) const OPENING: [&str; 7] = ["if", "for", "while", "until", "select", "case", "{"];
const CLOSING: [&str; 4] = ["fi", "done", "esac", "}"];

/// Words after which a command begins.
const BEFORE_COMMANDS: [&str; 10] = [";", "then", "do", "else", "&&", "||", "|", "!", "{", "("];

/// Returns how many more blocks a line opens than it closes.
pub(super) fn depth(text: &str) -> i32 {
    depth_of(&bare(text))
}

fn depth_of(bare: &str) -> i32 {
    let spaced = bare.replace(';', " ; ");
    let (mut depth, mut before) = (0, ";");
    for word in spaced.split_whitespace() {
        // A pattern of `case` ends with a bracket.
        let begins = BEFORE_COMMANDS.contains(&before) || before.ends_with(')');
        let opens = OPENING.contains(&word) || word == "(";
        let closes = CLOSING.contains(&word) || word == ")";
        depth += i32::from(begins && opens) - i32::from(begins && closes);
        before = word;
    }
    depth
}

/// Returns whether a line begins a function.
pub(super) fn is_function(text: &str) -> bool {
    body_of(&bare(text)).is_some()
}

/// Returns what follows the name of a function in a line that begins one.
fn body_of(bare: &str) -> Option<&str> {
    let is_name = |name: &str| {
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "=$;&|(){}<>".contains(c))
    };
    let after_brackets = |text: &str| {
        let rest = text.trim_start().strip_prefix('(')?.trim_start().strip_prefix(')')?;
        Some(text.len() - rest.len())
    };
    if let Some(rest) = bare.strip_prefix("function ") {
        let rest = rest.trim_start();
        let end = rest.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(rest.len());
        return Some(&rest[end + after_brackets(&rest[end..]).unwrap_or(0)..]);
    }
    let (name, _) = bare.split_once('(').filter(|(name, _)| is_name(name.trim_end()))?;
    after_brackets(&bare[name.len()..]).map(|length| &bare[name.len() + length..])
}

/// Drops a function with its body, which begins in the same line or in the next one.
pub(super) fn skip_function(
    line: &LogicalLine,
    lines: &mut VecDeque<&LogicalLine>,
    imported: &mut ImportedJob,
) {
    let bare = bare(&line.text);
    let begin = body_of(&bare).unwrap_or_default().trim();
    let mut has_begun = !begin.is_empty();
    let mut depth = depth_of(begin);
    while depth > 0 || !has_begun {
        let Some(next) = lines.pop_front() else { break };
        depth += self::depth(&next.text);
        has_begun = true;
    }
    let is_whole = has_begun && depth <= 0;
    let why = if is_whole { "dropped; hsched does not import functions" } else { "its end is missing" };
    imported.remark(line.number, format!("{}: {why}", excerpt(&line.text)));
}

/// Returns the end marker of the here-document that a line begins.
pub(super) fn here_document(text: &str) -> Option<String> {
    let bare = bare(text);
    let place = bare.find("<<").filter(|place| !bare[*place..].starts_with("<<<") && !bare.contains("(("))?;
    let rest: String = text.chars().skip(bare[..place].chars().count() + 2).collect();
    let rest = rest.strip_prefix('-').unwrap_or(&rest).trim_start();
    let word: String =
        rest.chars().take_while(|letter| !letter.is_whitespace() && !";|&<>()".contains(*letter)).collect();
    let word = word.replace(['"', '\'', '\\'], "");
    (!word.is_empty()).then_some(word)
}

/// Drops the command of a here-document with its text.
pub(super) fn skip_document(
    line: &LogicalLine,
    end: &str,
    lines: &mut VecDeque<&LogicalLine>,
    imported: &mut ImportedJob,
) {
    let mut is_whole = false;
    while let Some(next) = lines.pop_front() {
        if next.text == end {
            is_whole = true;
            break;
        }
    }
    let why = if is_whole { "here-document; put its text into a file" } else { "its end is missing" };
    imported.remark(line.number, format!("{}: {why}", excerpt(&line.text)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_outside_quotes() {
        let check = |text: &str, expected: i32| assert_eq!(depth(text), expected, "{text}");
        check("if true; then", 1);
        check("echo \"Starting; if it fails, mail me\"", 0);
        check("echo 'a; for b'  # ; if", 0);
        check("ls | while read f; do", 1);
        check("(", 1);
        check(")", -1);
        check("(cd a; ls)", 0);
        check("a) if true; then x; fi ;;", 0);
        check("for i in 1 2; do echo $(if a; then b; fi); done", 0);
    }

    #[test]
    fn here_documents_end_at_their_marker() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(here_document(text).as_deref(), expected, "{text}");
        };
        check("cat <<EOF", Some("EOF"));
        check("cat <<-'EOF' > x", Some("EOF"));
        check("cat <<EOF>c.yaml", Some("EOF"));
        check("cat <<\\EOF", Some("EOF"));
        check("cat <<\"EOF\" | tee x", Some("EOF"));
        check("echo \"<< start >>\"", None);
        check("cat <<< $X", None);
        check("x=$((1 << 2))", None);
        check("((x = 1 << 2))", None);
    }

    #[test]
    fn functions_are_known_by_their_first_line() {
        let is = [
            "f() {",
            "f () {",
            "f ()",
            "f(){ rm x; }",
            "function f {",
            "function f() {",
            "function f",
            "a-b.c() (",
        ];
        let not = ["echo \"f()\"", "(cd x)", "a=()", "functions x", "x=$(f)", "if (a)", "((a))"];
        assert_eq!(is.map(is_function), [true; 8]);
        assert_eq!(not.map(is_function), [false; 7]);
    }
}
