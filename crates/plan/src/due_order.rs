//! The order of jobs on one machine that minimises the number of late jobs, and then the mean completion
//! time.

use std::collections::BinaryHeap;

/// A job on a single machine, with times in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueJob {
    /// The job's run time.
    pub time: f64,
    /// Time from now to the job's deadline; infinite without a deadline.
    pub within: f64,
}

/// Relative tolerance so that rounding errors make no job late.
const ROUNDING: f64 = 1e-9;

/// Returns the indices of the jobs in the best order; without deadlines, the shortest come first.
///
/// Moore and Hodgson's rule selects the jobs that are on time. Smith's rule orders them from the end: each
/// place goes to the longest job whose deadline allows it.
pub(super) fn order(pieces: &[DueJob]) -> Vec<usize> {
    let mut due: Vec<f64> = pieces.iter().map(|piece| piece.within).collect();
    for late in late(pieces) {
        due[late] = f64::INFINITY;
    }
    let mut latest: Vec<usize> = (0..pieces.len()).collect();
    latest.sort_by(|&a, &b| due[b].total_cmp(&due[a]));
    let mut latest = latest.into_iter().peekable();
    let mut end: f64 = pieces.iter().map(|piece| piece.time).sum();
    let mut open: BinaryHeap<(u64, usize)> = BinaryHeap::new();
    let mut order = Vec::new();
    while order.len() < pieces.len() {
        // At least one of the jobs left may end at `end`, because jobs on time fit before their deadlines,
        // apart from rounding.
        while let Some(job) = latest.next_if(|&job| open.is_empty() || due[job] >= end * (1.0 - ROUNDING)) {
            open.push((length(pieces[job]), job));
        }
        let Some((_, job)) = open.pop() else { break };
        end -= pieces[job].time;
        order.push(job);
    }
    order.reverse();
    order
}

/// Returns the smallest set of jobs whose removal lets all others with a deadline be on time.
fn late(pieces: &[DueJob]) -> Vec<usize> {
    let mut by_deadline: Vec<usize> =
        (0..pieces.len()).filter(|&job| pieces[job].within.is_finite()).collect();
    by_deadline.sort_by(|&a, &b| pieces[a].within.total_cmp(&pieces[b].within));
    let (mut kept, mut late) = (BinaryHeap::new(), Vec::new());
    let mut end = 0.0;
    for job in by_deadline {
        end += pieces[job].time;
        kept.push((length(pieces[job]), job));
        if end > pieces[job].within * (1.0 + ROUNDING)
            && let Some((_, longest)) = kept.pop()
        {
            end -= pieces[longest].time;
            late.push(longest);
        }
    }
    late
}

/// Returns a job's run time as an integer with the same order.
fn length(piece: DueJob) -> u64 {
    piece.time.max(0.0).to_bits()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Returns the number of late jobs in an order, and the sum of completion times.
    fn judge(pieces: &[DueJob], order: &[usize]) -> (usize, f64) {
        let (mut end, mut late, mut sum) = (0.0, 0, 0.0);
        for &job in order {
            end += pieces[job].time;
            late += usize::from(end > pieces[job].within);
            sum += end;
        }
        (late, sum)
    }

    fn permutations(count: usize) -> Vec<Vec<usize>> {
        if count == 0 {
            return vec![Vec::new()];
        }
        let insert = |order: &Vec<usize>, place: usize| {
            let mut longer = order.clone();
            longer.insert(place, count - 1);
            longer
        };
        let shorter = permutations(count - 1);
        shorter.iter().flat_map(|order| (0..count).map(move |place| insert(order, place))).collect()
    }

    #[test]
    fn no_order_has_fewer_late_and_none_with_the_same_in_time_is_sooner_done() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let all = permutations(6);
        for _ in 0..200 {
            let mut piece = || DueJob {
                time: f64::from(random.random_range(1..10)),
                within: if random.random_bool(0.3) {
                    f64::INFINITY
                } else {
                    f64::from(random.random_range(1..30))
                },
            };
            let pieces: Vec<DueJob> = (0..6).map(|_| piece()).collect();
            let ordered = order(&pieces);
            let (late_ones, sum) = judge(&pieces, &ordered);
            assert_eq!(
                late_ones,
                all.iter().map(|other| judge(&pieces, other).0).min().unwrap_or(0),
                "{pieces:?}"
            );
            let free: Vec<DueJob> = (0..6)
                .map(|job| {
                    if late(&pieces).contains(&job) {
                        DueJob { within: f64::INFINITY, ..pieces[job] }
                    } else {
                        pieces[job]
                    }
                })
                .collect();
            let in_time = all.iter().map(|other| judge(&free, other)).filter(|(late, _)| *late == 0);
            let best = in_time.map(|(_, sum)| sum).fold(f64::INFINITY, f64::min);
            assert!((sum - best).abs() < 1e-9, "{pieces:?}: {ordered:?} {sum} {best}");
        }
    }

    #[test]
    fn without_deadlines_the_shortest_come_first() {
        let pieces = [3.0, 1.0, 2.0, 1.0].map(|time| DueJob { time, within: f64::INFINITY });
        assert_eq!(order(&pieces), [1, 3, 2, 0]);
        // The long job is just on time and the short ones can wait; a job that cannot be on time is treated
        // as if it had no deadline.
        let pieces = [(5.0, 5.0), (1.0, 9.0), (2.0, 1.0), (1.0, f64::INFINITY)];
        let pieces = pieces.map(|(time, within)| DueJob { time, within });
        assert_eq!(order(&pieces), [0, 1, 3, 2]);
    }
}
