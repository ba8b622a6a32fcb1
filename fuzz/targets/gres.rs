//! GRES and TRES texts: no text causes a panic, and printed counts of GPUs read back with the same total.
#![no_main]

use hsched_slurm::{Gres, Tres};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let gres = Gres::parse(text);
    let one = |(gpu_type, count): &(_, u32)| format!("gpu:{gpu_type}:{count}");
    let printed: Vec<String> = gres.gpus.iter().map(one).collect();
    assert_eq!(Gres::parse(&printed.join(",")).gpu_total(), gres.gpu_total(), "{printed:?}");
    let _ = Tres::parse(text);
});
