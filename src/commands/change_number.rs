//! The number of a change in a list, as given on the command line.

/// Parses the number of a change. Numbers that no list has are accepted, because only the command that has the list
/// can say which numbers exist.
pub(super) fn parse(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "it must be the number of a change in the list, such as 1".to_owned())
}

/// Returns the place of a change in its list, from 0; `None` if no list has this number.
pub(super) fn place(number: i64) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}
