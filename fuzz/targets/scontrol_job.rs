//! A job as `scontrol show job` prints it.
#![no_main]

use hsched_slurm::scontrol_job;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok((jobs, _)) = scontrol_job::parse(text) {
        jobs.iter().for_each(|job| drop(job.tag()));
    }
});
