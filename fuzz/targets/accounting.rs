//! Saved output of sacct, and the reviews of its runs.
#![no_main]

use hsched_model::Time;
use hsched_slurm::accounting::Accounting;
use hsched_slurm::{review, time};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(found) = Accounting::parse(bytes, |text| time::without_zone(text).map(Time)) {
        for name_review in review::review(&found.runs) {
            assert!(name_review.cut_share() <= 0.02, "{name_review:?}");
        }
    }
});
