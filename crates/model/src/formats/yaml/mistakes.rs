//! Explains syntax errors of YAML, common mistakes in plain words.

use saphyr_parser::ScanError;

use super::problem;
use crate::formats::problem::FileProblem;

/// Returns a syntax error as a problem in the file.
pub(super) fn syntax_problem(text: &str, error: &ScanError) -> FileProblem {
    // The end of a text without a final newline counts as a separate line.
    let line = error.marker().line().clamp(1, text.lines().count().max(1));
    let at_end = error.marker().index() >= text.trim_end().chars().count();
    if let Some((line, why, hint)) = usual_mistake(text, line, error.info()) {
        return FileProblem {
            hint: Some(hint.to_owned()),
            ..problem(line, format!("not valid YAML: {why}"))
        };
    }
    let hint = match error.info() {
        "simple key expected" => Some("a key must be followed by a colon"),
        _ if at_end => Some("is the file cut off?"),
        _ => None,
    };
    let hint = hint.map(ToOwned::to_owned);
    FileProblem { hint, ..problem(line, format!("not valid YAML: {}", error.info())) }
}

/// Returns the line of a common mistake with a description and a hint, which the scanner's own message lacks.
fn usual_mistake(text: &str, line: usize, said: &str) -> Option<(usize, &'static str, &'static str)> {
    let lines = || text.lines().zip(1..);
    let at_line = lines().find(|(_, number)| *number == line).map_or("", |(text, _)| text);
    // The scanner may report the previous line.
    let near = lines().filter(|(_, number)| (line..=line + 1).contains(number));
    let indent = |text: &str| text.len() - text.trim_start().len();
    let tab = near
        .filter(|(line_text, _)| line_text[..indent(line_text)].contains('\t'))
        .map(|(_, number)| number)
        .next();
    if let (Some(number), true) = (tab, said.contains("tab") || said.contains("indent")) {
        return Some((number, "a tab indents this line", "use spaces"));
    }
    if said.contains("mapping values are not allowed") {
        return Some(if at_line.matches(": ").count() > 1 || at_line.trim_end().ends_with("::") {
            (line, "the value has a colon followed by a space", "put the value in single quotes")
        } else {
            (
                line,
                "a key is in the wrong place",
                "align it with the other keys, and put values with a colon in quotes",
            )
        });
    }
    let has_hostlist = at_line.contains('{') && at_line.contains('[') && !at_line.contains(": [");
    if said.contains("flow mapping") && has_hostlist {
        return Some((
            line,
            "a value between braces contains brackets",
            "put the value in quotes, as in {name: \"n[1-2]\"}",
        ));
    }
    let is_escape = ["hexadecimal", "escape"].iter().any(|word| said.contains(word));
    (is_escape && at_line.contains('\\')).then_some((
        line,
        "a backslash in double quotes starts an escape",
        "put the value in single quotes, or write each backslash twice",
    ))
}

#[cfg(test)]
mod tests {
    use crate::formats::yaml::parse;
    use crate::formats::yaml::tests::check;

    #[test]
    fn usual_mistakes_are_said_in_plain_words() {
        let tab = "not valid YAML: a tab indents this line; use spaces";
        check("jobs:\n  - name: a\n\tepochs: 3\n", &format!("line 3: {tab}"));
        check("a: 1\n\tb: 2", &format!("line 2: {tab}"));
        check("a:\n\t- b\n", &format!("line 2: {tab}"));
        check(
            "a: 1\nb: python t.py: x\nc: 2\n",
            "line 2: not valid YAML: the value has a colon followed by a space; put the value in single quotes",
        );
        check(
            "a: 1\n  b: 2\n",
            "line 2: not valid YAML: a key is in the wrong place; align it with the other keys, and put values with a colon in quotes",
        );
        check(
            "nodes:\n- {name: n[1-2], gpus: {v100: 4}}\n",
            "line 2: not valid YAML: a value between braces contains brackets; put the value in quotes, as in {name: \"n[1-2]\"}",
        );
        for path in ["\"C:\\Users\\x\"", "\"C:\\data\""] {
            check(
                &format!("a: 1\nb: {path}\n"),
                "line 2: not valid YAML: a backslash in double quotes starts an escape; put the value in single quotes, or write each backslash twice",
            );
        }
        // A tab inside a value is not indentation.
        check("a: x\ty\nb: 1\n", "1:{a=1:x\ty b=2:1}");
    }

    #[test]
    fn cut_off_files_name_a_line() {
        for text in ["a: 1\nb: [1, 2", "a: 1\nb: \"x", "a: 1\nb", "a: 1\nb: {x: 1,", "a: 1\n\tb: 2"] {
            let problem = parse(text).expect_err(text);
            assert!(problem.message.starts_with("not valid YAML: "), "{text}: {problem}");
            assert!((1..=2).contains(&problem.line), "{text}: {problem}");
        }
    }
}
