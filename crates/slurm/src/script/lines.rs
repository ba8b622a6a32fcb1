//! The lines of a script that contain options, and those that only resemble them.

use super::placeholders::is_open;
use super::request::LineRemark;
use super::source::SlurmVersion;
use super::words::{ScriptWord, SplitError, is_blank, separator, split};

/// The option lines of a script.
#[derive(Debug, Default)]
pub(super) struct ScriptLines {
    /// Words of the option lines of each component; at least one component.
    pub components: Vec<ComponentLines>,
    pub notes: Vec<LineRemark>,
}

/// The option lines of a component of a het job.
#[derive(Debug, Default)]
pub(super) struct ComponentLines {
    pub words: Vec<ScriptWord>,
    /// Why a line cannot be split; `sbatch` then refuses the script.
    pub error: Option<String>,
}

/// A line of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptLine<'a> {
    /// Line number, from 1.
    pub number: usize,
    /// Byte offset in the file.
    pub start: usize,
    pub bytes: &'a [u8],
}

impl ScriptLine<'_> {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes).trim_end().to_owned()
    }

    fn remark(&self, why: impl Into<String>) -> LineRemark {
        LineRemark { line: Some(self.number), text: self.text(), why: why.into() }
    }
}

/// Returns why `sbatch` refuses a file as a script, if it does.
pub(super) fn refusal(script: &[u8]) -> Option<&'static str> {
    if script.is_empty() {
        Some("Batch script is empty!")
    } else if !script.starts_with(b"#!") {
        Some(
            "This does not look like a batch script. The first line must start with #! followed by the path to an interpreter.",
        )
    } else if script.contains(&0) {
        Some("The Slurm controller does not allow scripts that contain a NULL character '\\0'.")
    } else if script.windows(2).any(|pair| pair == b"\r\n") {
        Some("Batch script contains DOS line breaks (\\r\\n) instead of expected UNIX line breaks (\\n).")
    } else {
        None
    }
}

/// Returns the lines of a file.
pub(super) fn lines(script: &[u8]) -> impl Iterator<Item = ScriptLine<'_>> {
    let mut start = 0;
    let ends = script.ends_with(b"\n");
    let count = script.split(|byte| *byte == b'\n').count() - usize::from(ends || script.is_empty());
    script.split(|byte| *byte == b'\n').take(count).enumerate().map(move |(index, bytes)| {
        let line = ScriptLine { number: index + 1, start, bytes };
        start += bytes.len() + 1;
        line
    })
}

/// Reads the option lines, up to the first command.
pub(super) fn read(script: &[u8], file_name: &str, version: SlurmVersion) -> ScriptLines {
    let mut found = ScriptLines { components: vec![ComponentLines::default()], notes: Vec::new() };
    let mut first_command = None;
    for line in lines(script) {
        let directive = directive(line.bytes);
        match (first_command, directive) {
            (None, Some(length)) => found.take(line, length, file_name, version),
            (Some(command), Some(_)) => found.notes.push(
                line.remark(format!("Slurm ignores it: it stands after the first command (line {command})")),
            ),
            (None, None) => {
                if let Some(why) = lookalike(line.bytes) {
                    found.notes.push(line.remark(why));
                } else if is_command(line.bytes) {
                    first_command = Some(line.number);
                }
            }
            (Some(_), None) => {}
        }
    }
    found
}

impl ScriptLines {
    /// Reads an option line; `length` is the length of its `#SBATCH`.
    fn take(&mut self, line: ScriptLine, length: usize, file_name: &str, version: SlurmVersion) {
        let (start, text) = (line.start + length, &line.bytes[length..]);
        if length == b"#SLURM".len() {
            self.notes.push(line.remark("sbatch reads #SLURM as #SBATCH, with a warning"));
        }
        let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
        if let Some(word) = separator(&text[blanks..]) {
            self.components.push(ComponentLines::default());
            if word == "packjob" {
                self.notes.push(line.remark("packjob is an old name for hetjob"));
            }
        }
        let Some(component) = self.components.last_mut() else { return };
        if component.error.is_some() {
            return;
        }
        match split(text, start, line.number, version.is_at_least(24, 5)) {
            Ok(words) => {
                if let Some((dropped, why)) = words.dropped {
                    let why = format!("Slurm ignores this part of the line: {why}");
                    self.notes.push(LineRemark { line: Some(line.number), text: dropped, why });
                }
                component.words.extend(joined(words.words));
            }
            Err(error) => {
                let text = String::from_utf8_lossy(text);
                let text = text.trim_start();
                component.error = Some(match error {
                    SplitError::OpenQuote(quote) => {
                        format!("{file_name}: line {}: Unmatched `{quote}` in [{text}]", line.number)
                    }
                    SplitError::Colon => {
                        format!("{file_name}: line {}: Unexpected `:` in [{text}]", line.number)
                    }
                });
            }
        }
        if line.bytes.trim_ascii_end().ends_with(b"\\") {
            self.notes.push(line.remark(
                "Slurm ignores the backslash at the end; the next line counts only if it begins with #SBATCH",
            ));
        }
    }
}

/// Returns the words of a line, with the words of a placeholder joined.
fn joined(words: Vec<ScriptWord>) -> Vec<ScriptWord> {
    let mut all: Vec<ScriptWord> = Vec::new();
    let mut open = false;
    for word in words {
        match all.last_mut().filter(|_| open) {
            Some(last) => last.join(&word),
            None => all.push(word),
        }
        open = all.last().is_some_and(|last| is_open(&last.text));
    }
    all
}

/// Returns the length of the word that begins an option line.
fn directive(line: &[u8]) -> Option<usize> {
    [b"#SBATCH".as_slice(), b"#SLURM"].into_iter().find(|word| line.starts_with(word)).map(<[u8]>::len)
}

fn is_command(line: &[u8]) -> bool {
    line.iter().find(|byte| !is_blank(**byte)).is_some_and(|byte| *byte != b'#')
}

/// Returns why a comment that resembles an option line is not one.
fn lookalike(line: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(line);
    let comment = text.trim_start();
    let body = comment.trim_start_matches('#').trim_start();
    let word: String = body.chars().take_while(char::is_ascii_alphanumeric).collect();
    let has_options = body[word.len()..].trim_start().starts_with('-');
    if !comment.starts_with('#') || !has_options || !is_like_sbatch(&word) {
        return None;
    }
    Some(if word != "SBATCH" {
        if word.eq_ignore_ascii_case("SBATCH") {
            "Slurm ignores it: #SBATCH must be in capital letters"
        } else {
            "Slurm ignores it: it does not begin with #SBATCH"
        }
    } else if comment.starts_with("##") {
        "Slurm ignores it: it begins with ##"
    } else if comment.len() < text.len() {
        "Slurm ignores it: there are blanks before #SBATCH"
    } else {
        "Slurm ignores it: there are blanks between # and SBATCH"
    })
}

/// Returns whether a word is `SBATCH` in any case, or in capital letters with one letter changed, missing or
/// added, or with some exchanged.
fn is_like_sbatch(word: &str) -> bool {
    let wanted = "SBATCH";
    if word.eq_ignore_ascii_case(wanted) {
        return true;
    }
    if word.contains(|c: char| c.is_ascii_lowercase()) {
        return false;
    }
    let same_begin = wanted.bytes().zip(word.bytes()).take_while(|(a, b)| a == b).count();
    let same_end = wanted.bytes().rev().zip(word.bytes().rev()).take_while(|(a, b)| a == b).count();
    let (shorter, longer) = (wanted.len().min(word.len()), wanted.len().max(word.len()));
    let same = (same_begin + same_end).min(shorter);
    let sorted = |text: &str| {
        let mut letters = text.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    longer - same <= 1 || sorted(word) == sorted(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> ScriptLines {
        read(text.as_bytes(), "x.sh", SlurmVersion::DEFAULT)
    }

    fn words(text: &str) -> Vec<String> {
        let components = script(text).components;
        components
            .iter()
            .map(|component| {
                component.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    fn notes(text: &str) -> Vec<(usize, String)> {
        script(text).notes.into_iter().map(|note| (note.line.unwrap_or_default(), note.why)).collect()
    }

    #[test]
    fn options_end_at_the_first_command() {
        let text = "#!/bin/bash\n\n# x\n  # y\n#SBATCH -N2\nset -e\n#SBATCH -n4\n";
        assert_eq!(words(text), ["-N2"]);
        assert_eq!(
            notes(text),
            [(7, "Slurm ignores it: it stands after the first command (line 6)".to_owned())]
        );
        assert_eq!(
            words("#!/bin/sh\n#SBATCH--time=7\n#SBATCH\t-N2\n#SBATCH\n#SLURM -n1"),
            ["--time=7 -N2 -n1"]
        );
        assert_eq!(words("#!/bin/sh\n#SBATCHX -N2"), ["X -N2"]);
    }

    #[test]
    fn components_begin_at_hetjob() {
        assert_eq!(words("#!/bin/sh\n#SBATCH -N1\n#SBATCH HetJob -n1\n#SBATCH -N2\n"), ["-N1", "-N2"]);
        assert_eq!(words("#!/bin/sh\n#SBATCH packjob\n"), ["", ""]);
    }

    #[test]
    fn lines_that_look_like_options_are_noted() {
        for line in [
            " #SBATCH -N2",
            "##SBATCH -N2",
            "# SBATCH --nodes=2",
            "#sbatch -N2",
            "#SBTACH -N2",
            "#SBATH -N2",
            "#SBATCHH -N2",
        ] {
            let noted = notes(&format!("#!/bin/sh\n{line}\n"));
            assert_eq!(noted.len(), usize::from(line != "#SBATCHH -N2"), "{line}: {noted:?}");
        }
        assert!(notes("#!/bin/sh\n# SBATCH lines follow\n# batch -x\n#STRETCH -x\n").is_empty());
        assert_eq!(notes("#!/bin/sh\n#SBATCH -N2 \\\n").len(), 1);
    }

    #[test]
    fn a_placeholder_with_blanks_is_one_word() {
        assert_eq!(
            script("#!/bin/sh\n#SBATCH --nodes={{ n }} -t {{ hours | int }}:00 -n 2\n").components[0]
                .words
                .iter()
                .map(|word| word.text.as_str())
                .collect::<Vec<_>>(),
            ["--nodes={{ n }}", "-t", "{{ hours | int }}:00", "-n", "2"]
        );
    }

    #[test]
    fn files_that_are_no_scripts_are_refused() {
        assert!(refusal(b"").is_some() && refusal(b"\n#!/bin/sh\n").is_some());
        assert!(refusal(b"\xef\xbb\xbf#!/bin/sh\n").is_some() && refusal(b"#!/bin/sh\na\0\n").is_some());
        assert!(refusal(b"#!/bin/sh\necho a\r\n").is_some());
        assert_eq!((refusal(b"#!/bin/sh\necho a\rb\n"), refusal(b"#!\n")), (None, None));
    }

    #[test]
    fn lines_know_where_they_begin() {
        let starts = |text: &str| lines(text.as_bytes()).map(|line| line.start).collect::<Vec<_>>();
        assert_eq!(starts("a\nbc\n\nd"), [0, 2, 5, 6]);
        assert_eq!((starts("a\n"), starts("")), (vec![0], vec![]));
    }
}
