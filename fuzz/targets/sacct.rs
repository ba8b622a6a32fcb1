//! The rows of hsched's own question to sacct.
#![no_main]

use hsched_slurm::sacct;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Bars are easier to come by than the control character that ends fields.
    if let Ok((jobs, _)) = sacct::parse(&text.replace('|', "\u{1f}")) {
        jobs.iter().for_each(|job| drop(job.tag()));
    }
    let _ = sacct::parse(text);
});
