//! Quoting for the two readers of a job script: the shell, and sbatch's reader of `#SBATCH` lines.

use std::fmt::Write as _;

/// Returns `word` quoted so that bash reads it literally, as one word on one line.
pub(crate) fn shell(word: &str) -> String {
    if is_plain(word) {
        return word.to_owned();
    }
    if !word.contains(is_control) {
        return single(word);
    }
    // sbatch refuses some control characters in scripts, but accepts them as escapes.
    let mut quoted = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            c if is_control(c) => drop(write!(quoted, "\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// Returns `text` quoted as one word for a shell, with its lines as they are, or on one line if it has
/// control characters other than line breaks and tabs.
pub(crate) fn lines(text: &str) -> String {
    let is_escaped = |c: char| is_control(c) && !matches!(c, '\n' | '\t');
    if text.contains(is_escaped) { shell(text) } else { single(text) }
}

fn single(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns `option` so that sbatch reads it from a `#SBATCH` line as one word.
///
/// sbatch treats a backslash as an escape even inside single quotes, and an unquoted `#` as a comment. A line
/// break ends the option despite quotes, so options with one must be refused before.
pub(super) fn directive(option: &str) -> String {
    if is_plain(option) {
        return option.to_owned();
    }
    format!("'{}'", option.replace('\\', r"\\").replace('\'', r"\'"))
}

/// Returns whether both readers take `word` literally.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&b))
}

/// Returns whether a character would end or corrupt a line.
pub(super) fn is_control(c: char) -> bool {
    u32::from(c) < 32 || c == '\u{7f}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_could_act_on_is_quoted() {
        let check = |word: &str, quoted: &str| assert_eq!(shell(word), quoted);
        check("train.py", "train.py");
        check("", "''");
        check("$(touch /pwned)", "'$(touch /pwned)'");
        check("it's", r"'it'\''s'");
        check("~", "'~'");
        check("a\nb'c\\", r"$'a\x0ab\'c\\'");
    }

    #[test]
    fn the_lines_of_a_command_stay_readable() {
        assert_eq!(
            lines("for i in 1; do\n\techo it's $i\ndone"),
            "'for i in 1; do\n\techo it'\\''s $i\ndone'"
        );
        assert_eq!(lines("a\x07\nb"), r"$'a\x07\x0ab'");
    }

    #[test]
    fn what_sbatch_could_split_is_quoted() {
        let check = |word: &str, quoted: &str| assert_eq!(directive(word), quoted);
        check("--gres=gpu:v100:2", "--gres=gpu:v100:2");
        check("--chdir=/a b#c", "'--chdir=/a b#c'");
        check(r#"--comment={"a":"\'"}"#, r#"'--comment={"a":"\\\'"}'"#);
    }
}
