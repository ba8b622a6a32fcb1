//! Time to load and write measured speeds: loading 10 000 speeds at two batch sizes takes less than 20 ms.

use std::fmt::Write as _;

use divan::Bencher;
use hsched_engine::store::SpeedFile;

/// The allocator of the program, so that its times are measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// Returns a file with this number of speeds.
fn file(count: usize) -> String {
    let mut rows = String::new();
    for number in 0..count {
        let (model, gpu_type) = (number / 10, number % 10);
        let seconds = 0.01 + 1e-7 * f64::from(u32::try_from(number).unwrap_or(0)) / 3.0;
        let point = |batch: u64, seconds: f64| {
            format!(
                "{{\"batch\":{batch},\"seconds\":{seconds},\"variance\":0.00041234567,\"count\":12,\"steps\":1200,\
                 \"seen\":20,\"at\":1790000000.0,\"source\":\"report\"}}"
            )
        };
        let separator = if number == 0 { "" } else { ",\n" };
        let _ = write!(
            rows,
            "{separator}{{\"model\":\"model-{model}\",\"gpu_type\":\"gpu{gpu_type}\",\"precision\":\"bf16\",\
             \"contributor\":\"0123456789abcdef\",\"observations\":24,\"points\":[{},{}]}}",
            point(64, seconds),
            point(128, 1.9 * seconds)
        );
    }
    format!("{{\"schema\": \"hsched.cache/1\", \"contributor\": \"me\", \"speeds\": [\n{rows}\n]}}\n")
}

#[divan::bench]
fn load(bencher: Bencher<'_, '_>) {
    let text = file(10_000);
    bencher.bench(|| SpeedFile::parse(divan::black_box(&text)));
}

#[divan::bench]
fn write(bencher: Bencher<'_, '_>) {
    let file = SpeedFile::parse(&file(10_000)).ok();
    bencher.bench(|| divan::black_box(&file).as_ref().map(SpeedFile::to_json));
}
