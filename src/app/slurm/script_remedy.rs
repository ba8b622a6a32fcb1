//! Advice for a script that `sbatch` refuses, by its reason.

/// Words of reasons, and the advice.
const REMEDIES: [(&str, &str); 11] = [
    ("this cluster has no partition", "look at one of these: hsched when FILE -- --partition=NAME"),
    ("DOS line breaks", "remove them: sed -i 's/\\r$//' FILE"),
    ("does not look like a batch script", "let its first line be #!/bin/bash, without anything before it"),
    ("is ambiguous; possibilities", "write the option in full, as one of these"),
    ("unrecognized option", "see sbatch --help for how the option is written, or delete it"),
    ("Invalid --time specification", "write the time as hours:minutes:seconds: --time=4:00:00"),
    ("Invalid --mem", "write the memory as a whole number of M or G: --mem=16G"),
    ("mutually exclusive", "keep one of the two options"),
    ("Invalid directive found", "put # before a comment, and quotes around a value with blanks"),
    ("Unmatched", "close the quote"),
    ("Invalid numeric value", "write a whole number"),
];

/// Returns advice for a reason of `sbatch`, if there is any; `file` is the script's name.
pub(crate) fn remedy(reason: &str, file: &str) -> Option<String> {
    let (_, remedy) = REMEDIES.iter().find(|(words, _)| reason.contains(words))?;
    Some(remedy.replace("FILE", file))
}

#[cfg(test)]
mod tests {
    use super::remedy;

    #[test]
    fn known_reasons_have_a_remedy() {
        let text = remedy("Batch script contains DOS line breaks", "a.sh");
        assert_eq!(text.as_deref(), Some("remove them: sed -i 's/\\r$//' a.sh"));
        assert!(
            remedy("line 3: Invalid --time specification", "a.sh")
                .is_some_and(|text| text.contains("4:00:00"))
        );
        assert_eq!(remedy("something else", "a.sh"), None);
    }
}
