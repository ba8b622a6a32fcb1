//! The records that sinfo prints for hsched's own call.
#![no_main]

use hsched_slurm::sinfo;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Bars and line ends are more likely than the control characters that frame records.
    let _ = sinfo::parse(&text.replace('|', "\u{1f}").replace('\n', "\u{1e}\n"));
    let _ = sinfo::parse(text);
});
