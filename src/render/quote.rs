//! Quoting for the two readers of a job script: the shell, and sbatch's reader of `#SBATCH` lines.

use std::borrow::Cow;

/// Returns `word` so that a shell reads it as one word and nothing in it acts.
pub(super) fn shell(word: &str) -> String {
    if word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(&b)) && !word.is_empty() {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns `option` so that sbatch reads it from a `#SBATCH` line as one option.
///
/// A `#SBATCH` line ends at a newline whatever the quotes: options with one must be refused before.
#[must_use]
pub fn directive(option: &str) -> Cow<'_, str> {
    Cow::Borrowed(option)
}
