//! A job's allocation as printed by scontrol: no text causes a panic, and no node appears twice.
#![no_main]

use hsched_model::JobId;
use hsched_slurm::allocation;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let allocation = allocation::parse(text, JobId(1));
    for (place, node) in allocation.nodes.iter().enumerate() {
        assert!(allocation.nodes[..place].iter().all(|other| other.name != node.name));
    }
});
