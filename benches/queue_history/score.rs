//! The accuracy of the estimates.

use std::collections::BTreeMap;

use hsched_model::number::to_f64;
use hsched_waits::WaitRecord;

/// A wait and its estimate, in seconds.
#[derive(Clone, Copy)]
struct Scored {
    wait: f64,
    low: f64,
    median: f64,
    high: f64,
}

impl Scored {
    fn is_within(&self, factor: f64) -> bool {
        (self.wait / self.median).ln().abs() <= factor.ln()
    }

    fn is_held(&self) -> bool {
        (self.low..=self.high).contains(&self.wait)
    }
}

/// Prints the percentage of the waits within a factor of two and of three of the median, and the percentage
/// within the interval, with the median ratio of its ends. Jobs without a known start are left out.
pub fn print(waits: &[WaitRecord], estimates: &BTreeMap<usize, [f64; 3]>) {
    println!("{:<5} {:>7} {:>6} {:>6} {:>6} {:>7}", "", "JOBS", "X2", "X3", "HELD", "WIDTH");
    let scored = |needs_gpus: bool| -> Vec<Scored> {
        let scored = |(place, &[low, median, high]): (&usize, &[f64; 3])| {
            let record = &waits[*place];
            let wait = record.started?.since(record.asked).0.max(1.0);
            (record.gpus > 0.0 || !needs_gpus).then_some(Scored { wait, low, median, high })
        };
        estimates.iter().filter_map(scored).collect()
    };
    for (name, list) in [("all", scored(false)), ("GPU", scored(true))] {
        let share = |count: usize| 100.0 * to_f64(count) / to_f64(list.len().max(1));
        let within = |factor: f64| share(list.iter().filter(|score| score.is_within(factor)).count());
        let (two, three) = (within(2.0), within(3.0));
        let held = share(list.iter().filter(|score| score.is_held()).count());
        let mut widths: Vec<f64> = list.iter().map(|score| score.high / score.low).collect();
        widths.sort_by(f64::total_cmp);
        let width = widths.get(widths.len() / 2).copied().unwrap_or_default();
        println!("{name:<5} {:>7} {two:>6.1} {three:>6.1} {held:>6.1} {width:>7.1}", list.len());
    }
}
