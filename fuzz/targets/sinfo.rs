//! The records of hsched's own question to sinfo.
#![no_main]

use hsched_slurm::sinfo;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Bars and line ends are easier to come by than the control characters that frame records.
    let _ = sinfo::parse(&text.replace('|', "\u{1f}").replace('\n', "\u{1e}\n"));
    let _ = sinfo::parse(text);
});
