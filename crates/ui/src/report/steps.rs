//! Step functions over time, as lists of changes.

use super::data::thousandths;

/// Approximate maximum number of changes that are kept, which is more than a screen has columns.
const MOST: usize = 4000;

/// Collects changes of a number in any order.
#[derive(Clone, Debug, Default)]
pub struct Counter(Vec<(f64, f64)>);

impl Counter {
    /// Changes the number by `by`.
    pub fn change(&mut self, at: f64, by: f64) {
        self.0.push((at, by));
    }

    /// Returns the number from each change on. If there are very many changes, close ones are merged: their
    /// maximum, followed by their last value.
    pub fn steps(mut self) -> Vec<(f64, f64)> {
        self.0.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut steps: Vec<(f64, f64)> = Vec::new();
        let mut number = 0.0;
        for (at, by) in self.0 {
            number += by;
            match steps.last_mut() {
                Some((last, value)) if *last == thousandths(at) => *value = number,
                _ => steps.push((thousandths(at), number)),
            }
        }
        steps.dedup_by(|later, earlier| later.1 == earlier.1);
        thinned(steps)
    }
}

/// Reduces the steps to about [`MOST`].
fn thinned(steps: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return steps };
    if steps.len() <= MOST {
        return steps;
    }
    let width = (last.0 - first.0) * 2.0 / hsched_model::number::to_f64(MOST);
    let mut kept: Vec<(f64, f64)> = Vec::with_capacity(MOST + 2);
    let mut rest = steps.as_slice();
    while let Some((begin, _)) = rest.first() {
        let length = rest.partition_point(|(at, _)| *at <= begin + width);
        let (part, later) = rest.split_at(length);
        let most = part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        kept.extend(most);
        kept.extend(part.last().copied().filter(|part| most.is_some_and(|most| most.0 < part.0)));
        rest = later;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_time_are_one_step() {
        let mut counter = Counter::default();
        for (at, by) in [(2.0, -1.0), (0.0, 1.0), (0.0, 1.0), (2.0, 3.0)] {
            counter.change(at, by);
        }
        assert_eq!(counter.steps(), [(0.0, 2.0), (2.0, 4.0)]);
    }

    #[test]
    fn of_many_steps_peaks_and_the_end_are_kept() {
        let mut counter = Counter::default();
        for at in 0..20_000_u32 {
            counter.change(f64::from(at), if at % 2 == 0 { 1.0 } else { -1.0 });
        }
        counter.change(9_999.5, 7.0);
        counter.change(9_999.6, -7.0);
        let steps = counter.steps();
        assert!(steps.len() <= MOST + 2, "{}", steps.len());
        assert_eq!(steps.iter().map(|step| step.1).fold(0.0, f64::max), 7.0);
        assert_eq!(steps.last(), Some(&(19_999.0, 0.0)));
    }
}
