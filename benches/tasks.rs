//! Time in which `hare` orders and schedules single tasks, as a table: `cargo bench --bench tasks`.

#![expect(clippy::print_stdout, reason = "prints its table")]

use hsched_engine::clock::{Clock, SystemClock};
use hsched_lab::hare::{Assign, RoundOrder, order, schedule};
use hsched_plan::kit::{TaskGpu, TaskJob, Tasks};

/// For each row: the number of GPUs of each of the four types, and the number of jobs.
const SIZES: [(u32, usize); 3] = [(8, 100), (25, 1000), (250, 10_000)];

/// Speeds on each type, relative to the first.
const SPEEDS: [f64; 4] = [1.0, 0.4, 0.2, 0.15];

/// The allocator of the program, so that its times are measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("| GPUs | jobs | tasks | order | available | finish | insert |");
    println!("|---|---|---|---|---|---|---|");
    for (gpus, jobs) in SIZES {
        row(gpus, jobs);
    }
}

fn row(gpus: u32, jobs: usize) {
    let clock = SystemClock::default();
    let elapsed = || clock.elapsed().as_secs_f64();
    let tasks = tasks(gpus, jobs);
    let start = elapsed();
    let RoundOrder { rounds, .. } = order(&tasks);
    let ordered = elapsed() - start;
    let mut count = 0;
    let [available, finish, insert] = Assign::NAMES.map(|(_, assign)| {
        let start = elapsed();
        count = schedule(&tasks, &rounds, assign).len();
        elapsed() - start
    });
    let all = tasks.gpus.len();
    println!(
        "| {all} | {jobs} | {count} | {ordered:.4} s | {available:.3} s | {finish:.3} s | {insert:.3} s |"
    );
}

/// Returns jobs of 5 to 50 rounds of 1 to 8 tasks, which arrive over about the time that the GPUs need for
/// them.
fn tasks(gpus: u32, jobs: usize) -> Tasks {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let counts = vec![gpus; SPEEDS.len()];
    let of_type = |gpu_type: usize| (0..gpus).map(move |index| TaskGpu { node: gpu_type, gpu_type, index });
    let mut at = 0.0;
    let job = |_| {
        at -= 2500.0 / f64::from(gpus) * (1.0 - random.next()).ln();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small, and not negative"
        )]
        let (rounds, scale) =
            ((5.0 * 10_f64.powf(random.next())) as u64, [1, 2, 4, 8][(random.next() * 4.0) as usize]);
        let time = 10.0 + 110.0 * random.next();
        let times = SPEEDS.iter().map(|speed| Some(time / speed)).collect();
        let sync = if scale > 1 { 0.5 } else { 0.0 };
        TaskJob { arrival: at, weight: 1.0 + 4.0 * random.next(), rounds, scale, times, sync }
    };
    let jobs = (0..jobs).map(job).collect();
    Tasks { gpus: (0..SPEEDS.len()).flat_map(of_type).collect(), counts, jobs }
}

/// A sequence of numbers from [0, 1).
struct Random(u64);

impl Random {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 * 0.5_f64.powi(53)
    }
}
