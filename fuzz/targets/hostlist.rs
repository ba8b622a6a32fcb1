//! Hostlists: a compressed list expands to the same names.
#![no_main]

use std::collections::BTreeSet;

use hsched_model::hostlist::{compress, expand};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(names) = expand(text) else { return };
    if names.len() > 1000 || names.iter().any(|name| name.contains(|c: char| c == ',' || c.is_whitespace())) {
        return;
    }
    let names: BTreeSet<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let folded = compress(names.iter().copied());
    let again = expand(&folded).expect("own text");
    assert_eq!(again.iter().map(String::as_str).collect::<BTreeSet<_>>(), names, "{folded}");
});
