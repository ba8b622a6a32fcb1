//! Values that a program replaces before submission, or that the author expects the shell to expand.

/// A placeholder in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    /// A name that a program replaces: `{{ gpus }}`, `{gpus}`, `<gpus>`, `@GPUS@`.
    Template,
    /// A variable of a shell, which `sbatch` does not expand: `$GPUS`, `$(nproc)`.
    Variable,
}

/// Returns the placeholder in a value.
pub(super) fn placeholder(text: &str) -> Option<Placeholder> {
    if text.contains("{{") || text.contains("{%") || text.contains("<%") {
        return Some(Placeholder::Template);
    }
    let is_variable = text.match_indices(['$', '`']).any(|(place, sign)| {
        let next = text[place + sign.len()..].chars().next();
        sign == "`" || next.is_some_and(|c| c.is_ascii_alphanumeric() || "_{(".contains(c))
    });
    if is_variable {
        return Some(Placeholder::Variable);
    }
    let pairs = [('{', '}'), ('<', '>'), ('@', '@')];
    let is_template = pairs.into_iter().any(|(open, close)| {
        let inside = text.split_once(open).and_then(|(_, rest)| rest.split_once(close));
        inside.is_some_and(|(name, _)| is_name(name.trim_start_matches(open), open))
    });
    is_template.then_some(Placeholder::Template)
}

/// Returns whether a text is a name rather than a list such as `{1..3}`.
fn is_name(text: &str, open: char) -> bool {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || "_-. ".contains(c) || open == '{' && "[]'\":|".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ' ') && text.chars().all(plain)
}

/// Returns whether a word begins a placeholder that a later word ends, such as `{{` of `{{ gpus }}`.
pub(super) fn is_open(text: &str) -> bool {
    [("{{", "}}"), ("{%", "%}"), ("<%", "%>")]
        .iter()
        .any(|(open, close)| text.rfind(open).is_some_and(|place| !text[place..].contains(close)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_told_from_values() {
        let check =
            |text: &str, expected: Option<Placeholder>| assert_eq!(placeholder(text), expected, "{text}");
        for text in [
            "{{ gpus }}",
            "gpu:{{n}}",
            "{{",
            "{nodes}",
            "gpu:{nb_gpus}",
            "{slurm['time']}",
            "<<PARTITION>>",
            "<account>",
            "{hours}:0:0",
            "@NODES@",
            "{% if x %}4{% endif %}",
        ] {
            check(text, Some(Placeholder::Template));
        }
        for text in ["$N", "${NODES}", "$(nproc)", "gpu:$GPUS", "`nproc`", "$1"] {
            check(text, Some(Placeholder::Variable));
        }
        for text in ["gpu:a100:2", "4", "a@b.org", "x_%j.out", "node[1-3]", "n{1..3}", "a<b", "cost$", "{}"] {
            check(text, None);
        }
        assert!(is_open("--nodes={{") && !is_open("--nodes={{n}}") && is_open("a{{b}}c{{"));
    }
}
