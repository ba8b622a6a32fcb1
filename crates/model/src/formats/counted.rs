//! Numbers with their nouns, for messages.

/// Formats a number with its noun: `1 job`, `3 jobs`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
