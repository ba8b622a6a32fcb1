//! Windows line ends of a script that did not start.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use hsched_model::Command;

/// Number of words of a command that may name its script, such as `bash -e run.sh`.
const WORDS: usize = 3;

/// Number of bytes read to find the first line.
const FIRST_LINE: u64 = 256;

/// Returns a message that a script of the command has Windows line ends, with the command that removes them;
/// `None` if no script has them. With such a line end, the system searches for an interpreter whose name ends
/// with a carriage return.
pub(crate) fn windows_line_ends(command: &Command, workdir: &Path) -> Option<String> {
    let words = match command {
        Command::Words(words) => words.clone(),
        Command::Shell(text) => shell_words::split(text).ok()?,
    };
    let script = words.into_iter().take(WORDS).find(|word| has_windows_line_end(&workdir.join(word)))?;
    Some(format!("{script} has Windows line ends: sed -i 's/\\r$//' {}", shell_words::quote(&script)))
}

/// Returns whether a file is a script whose first line ends with a carriage return.
#[expect(clippy::disallowed_methods, reason = "only the first line of a file of the user is read")]
fn has_windows_line_end(path: &Path) -> bool {
    let mut begin = Vec::new();
    // A pipe would block the reader.
    let is_read = path.is_file()
        && File::open(path).and_then(|file| file.take(FIRST_LINE).read_to_end(&mut begin)).is_ok();
    let line = begin.split(|&byte| byte == b'\n').next().unwrap_or_default();
    is_read && line.len() < begin.len() && line.starts_with(b"#!") && line.ends_with(b"\r")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test writes the scripts of a user")]
    fn a_script_with_windows_line_ends_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("writes");
        write("run it.sh", "#!/bin/sh\r\ntrue\r\n");
        write("good.sh", "#!/bin/sh\ntrue\r\n");
        write("data.csv", "a,b\r\n");
        let found = |text: &str| windows_line_ends(&Command::Shell(text.to_owned()), folder.path());
        let remedy = "run it.sh has Windows line ends: sed -i 's/\\r$//' 'run it.sh'";
        assert_eq!(found("'run it.sh' --lr 1").as_deref(), Some(remedy));
        assert_eq!(found("bash -e 'run it.sh'").as_deref(), Some(remedy));
        let words = Command::Words(vec!["run it.sh".to_owned()]);
        assert_eq!(windows_line_ends(&words, folder.path()).as_deref(), Some(remedy));
        for other in ["./good.sh", "missing.sh", "cat data.csv", ".", "'"] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
