//! How long a question takes by the size of the queue.

use hsched::clock::{Clock, SystemClock};
use hsched::queue::{Outlook, Question, forecast};

use crate::made_up;

/// Nodes and waiting jobs of each row.
const SIZES: [(usize, usize); 3] = [(8, 50), (50, 500), (200, 2000)];
const SAMPLES: usize = 30;
/// Seconds after which no more futures are looked at.
const BUDGET: f64 = 10.0;

/// Prints the time of twelve requests, at limits and in 30 futures.
pub fn main() {
    println!("| nodes | waiting | at limits | futures of the best | time |");
    println!("|---|---|---|---|---|");
    for (nodes, waiting) in SIZES {
        let (snapshot, requests) = (made_up::snapshot(nodes, waiting, 1), made_up::requests());
        let clock = SystemClock::default();
        let now = || clock.elapsed().as_secs_f64();
        let ask = |samples: usize| {
            let begin = now();
            let question =
                Question { snapshot: &snapshot, requests: &requests, seed: 1, samples, calibration: None };
            let outlooks = forecast(&question, &|| now() - begin > BUDGET);
            (outlooks, now() - begin)
        };
        let ((_, at_limits), (outlooks, time)) = (ask(0), ask(SAMPLES));
        let futures = |own: &Outlook| match own {
            Outlook::Estimated(own) => own.starts.len(),
            _ => 0,
        };
        let most = outlooks.iter().map(futures).max().unwrap_or(0);
        println!("| {nodes} | {waiting} | {at_limits:.2} s | {most} | {time:.2} s |");
    }
}
