//! The records of hsched's own question to squeue.
#![no_main]

use hsched_slurm::squeue;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Bars and line ends are easier to come by than the control characters that frame records.
    if let Ok((jobs, _)) = squeue::parse(&text.replace('|', "\u{1f}").replace('\n', "\u{1e}\n")) {
        jobs.iter().for_each(|job| drop(job.tag()));
    }
    let _ = squeue::parse(text);
});
