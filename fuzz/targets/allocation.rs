//! What a job has of its nodes, as scontrol prints it: no text panics, and no node is there twice.
#![no_main]

use hsched_slurm::allocation;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let allocation = allocation::parse(text);
    for (place, node) in allocation.nodes.iter().enumerate() {
        assert!(allocation.nodes[..place].iter().all(|other| other.name != node.name));
    }
});
