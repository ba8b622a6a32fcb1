//! GRES and TRES texts: every part is kept, either in the counts or as printed.
#![no_main]

use hsched_slurm::{Gres, Tres};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let gres = Gres::parse(text);
    // Its printed form reads back as the same.
    let one = |(gpu_type, count): &(_, u32)| format!("gpu:{gpu_type}:{count}");
    let printed: Vec<String> = gres.gpus.iter().map(one).collect();
    assert_eq!(Gres::parse(&printed.join(",")).gpu_total(), gres.gpu_total(), "{printed:?}");
    let _ = Tres::parse(text);
});
