//! The records that squeue prints for hsched's own call.
#![no_main]

use hsched_slurm::squeue;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Bars and line ends are more likely than the control characters that frame records.
    if let Ok((jobs, _)) = squeue::parse(&text.replace('|', "\u{1f}").replace('\n', "\u{1e}\n")) {
        jobs.iter().for_each(|job| drop(job.tag()));
    }
    let _ = squeue::parse(text);
});
