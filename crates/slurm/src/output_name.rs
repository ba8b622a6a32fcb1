//! Names of the files to which batch jobs print, as Slurm derives them from a pattern such as `slurm-%j.out`.

use hsched_model::{JobId, hostlist};

/// The data of a job that a pattern may use.
#[derive(Clone, Copy, Debug)]
pub struct OutputFacts<'a> {
    /// The job's id; for an array, that of the whole array.
    pub job_id: JobId,
    pub name: &'a str,
    pub user: &'a str,
    /// The nodes as a hostlist; empty if unknown.
    pub nodes: &'a str,
    pub is_array: bool,
}

/// A file name with possibly unknown numbers: those of the tasks of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputName(Vec<NamePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum NamePart {
    Text(String),
    /// The number or the id of a task.
    Number,
}

/// Slurm's task number for a job that is not an array.
pub(crate) const NO_TASK: u32 = 0xffff_fffe;

/// Maximum number width in a pattern.
const WIDEST: usize = 10;

impl OutputName {
    /// Returns the file that a pattern names; `None` if it uses unknown facts, or ends with a backslash that
    /// escapes nothing. Versions of Slurm before 24.05 leave unknown letters unchanged, as this function
    /// does.
    pub fn of(pattern: &str, facts: &OutputFacts<'_>) -> Option<Self> {
        let mut name = Self(Vec::new());
        if pattern.contains('\\') {
            // Nothing is replaced in such a pattern, and a character after a backslash stands for itself.
            let mut letters = pattern.chars();
            while let Some(letter) = letters.next() {
                name.push(if letter == '\\' { letters.next()? } else { letter });
            }
            return Some(name);
        }
        let mut letters = pattern.chars().peekable();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                name.push(letter);
                continue;
            }
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let width = digits.parse().unwrap_or(0).min(WIDEST);
            let number = |value: u32| format!("{value:0width$}");
            match letters.next() {
                Some('%') if digits.is_empty() => name.push('%'),
                Some('a' | 'j' | 'J') if facts.is_array => name.0.push(NamePart::Number),
                Some('A' | 'j' | 'J') => name.extend(&number(facts.job_id.0)),
                Some('a') => name.extend(&number(NO_TASK)),
                Some('n' | 't') => name.extend(&number(0)),
                Some('s') => name.extend("batch"),
                Some('u') => name.extend(facts.user),
                Some('x') => name.extend(facts.name),
                Some('N') => name.extend(&first_host(facts.nodes)?),
                other => {
                    name.push('%');
                    name.extend(&digits);
                    name.0.extend(other.map(|letter| NamePart::Text(letter.to_string())));
                }
            }
        }
        Some(name)
    }

    /// Returns the name if it is completely known.
    pub fn text(&self) -> Option<String> {
        let mut name = String::new();
        for part in &self.0 {
            let NamePart::Text(text) = part else { return None };
            name.push_str(text);
        }
        Some(name)
    }

    /// Returns the folder, and the pattern of the tasks' files in it; `None` if the folder itself is unknown.
    pub fn split(&self) -> Option<(String, Self)> {
        let mut folder = String::new();
        let mut rest = Self(Vec::new());
        for part in &self.0 {
            match part {
                NamePart::Number => rest.0.push(NamePart::Number),
                NamePart::Text(text) => {
                    for letter in text.chars() {
                        rest.push(letter);
                        if letter == '/' {
                            folder.push_str(&rest.text()?);
                            rest.0.clear();
                        }
                    }
                }
            }
        }
        Some((folder, rest))
    }

    /// Returns the numbers in a file name that matches the pattern; `None` for other files.
    pub fn numbers(&self, file: &str) -> Option<Vec<u64>> {
        let (mut rest, mut numbers) = (file, Vec::new());
        for (place, part) in self.0.iter().enumerate() {
            match part {
                NamePart::Text(text) => rest = rest.strip_prefix(text.as_str())?,
                NamePart::Number => {
                    let next_is_number = matches!(self.0.get(place + 1), Some(NamePart::Number));
                    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
                    let length = if next_is_number { length.min(1) } else { length };
                    numbers.push(rest.get(..length)?.parse().ok()?);
                    rest = &rest[length..];
                }
            }
        }
        rest.is_empty().then_some(numbers)
    }

    fn push(&mut self, letter: char) {
        if let Some(NamePart::Text(text)) = self.0.last_mut() {
            text.push(letter);
        } else {
            self.0.push(NamePart::Text(letter.to_string()));
        }
    }

    fn extend(&mut self, text: &str) {
        text.chars().for_each(|letter| self.push(letter));
    }
}

/// Returns the first node without its domain.
fn first_host(nodes: &str) -> Option<String> {
    let first = hostlist::expand(nodes).ok()?.into_iter().next()?;
    Some(first.split('.').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pattern: &str, is_array: bool) -> Option<OutputName> {
        let facts =
            OutputFacts { job_id: JobId(17), name: "vit", user: "ann", nodes: "v[1-2].site", is_array };
        OutputName::of(pattern, &facts)
    }

    /// The expected names are those of the files that a real Slurm 22.05 created.
    #[test]
    fn patterns_are_read_as_slurm_reads_them() {
        let check = |pattern: &str, expected: &str| {
            assert_eq!(
                name(pattern, false).and_then(|name| name.text()).as_deref(),
                Some(expected),
                "{pattern}"
            );
        };
        check("slurm-%j.out", "slurm-17.out");
        check("logs/%x-%4j_%u.out", "logs/vit-0017_ann.out");
        check("%A_%a", "17_4294967294");
        check("%J.%s.%n.%t.%3n", "17.batch.0.0.000");
        check("%N", "v1");
        check("100%%%", "100%%");
        check("%b.%12q", "%b.%12q");
        check("back\\\\%j", "back\\%j");
        check("a\\%j", "a%j");
    }

    #[test]
    fn files_of_tasks_are_told_by_their_numbers() {
        let name = name("logs/%A/t_%a.out", true).expect("a name");
        assert_eq!(name.text(), None);
        let (folder, file) = name.split().expect("a folder");
        assert_eq!(folder, "logs/17/");
        assert_eq!(file.numbers("t_3.out"), Some(vec![3]));
        assert_eq!(file.numbers("t_0012.out"), Some(vec![12]));
        for other in ["t_.out", "t_3.err", "xt_3.out", "t_3x.out"] {
            assert_eq!(file.numbers(other), None, "{other}");
        }
        assert_eq!(super::tests::name("%a/x", true).and_then(|name| name.split()), None);
    }
}
