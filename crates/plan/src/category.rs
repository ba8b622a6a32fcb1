//! Categories of Algorithm 1: the number of workers of each job, in the paper's order, accessible by number
//! or in sequence.
//!
//! The order counts K₂ fastest, then K₃, …; K₁ takes the remainder. For 5 workers and 3 jobs:
//! 311, 221, 131, 212, 122, 113.

use num_bigint::BigUint;

/// Returns the number of categories of `workers` over `jobs`: C(K − 1, S − 1); 0 when K < S or S = 0.
pub(super) fn count(workers: u32, jobs: usize) -> BigUint {
    let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
    if jobs == 0 || workers < jobs { BigUint::ZERO } else { binomial(workers - 1, jobs - 1) }
}

/// Returns the first category, in which every job but the first has one worker.
pub(super) fn first(workers: u32, jobs: usize) -> Vec<u32> {
    let mut category = vec![1; jobs];
    let others = u32::try_from(jobs.saturating_sub(1)).unwrap_or(u32::MAX);
    if let Some(remainder) = category.first_mut() {
        *remainder = workers.saturating_sub(others);
    }
    category
}

/// Turns `category` into the next one; returns `false` after the last.
pub(super) fn next(category: &mut [u32]) -> bool {
    for job in 1..category.len() {
        if category[0] > 1 {
            category[0] -= 1;
            category[job] += 1;
            return true;
        }
        category[0] += category[job] - 1;
        category[job] = 1;
    }
    false
}

/// Returns category number `number`, from 0, without building those before it.
pub(super) fn unrank(mut number: BigUint, workers: u32, jobs: usize) -> Vec<u32> {
    let mut category = vec![1; jobs];
    let Some(others) = u32::try_from(jobs).ok().and_then(|jobs| jobs.checked_sub(1)) else { return category };
    let mut left = workers;
    // With one worker for the last job, the `others` before it have C(left − 2, others − 1) categories.
    let mut ways = if others > 0 { binomial(left - 2, others - 1) } else { BigUint::ZERO };
    for (job, before) in (1..jobs).rev().zip((1..=others).rev()) {
        let mut power = 1;
        // With `power` workers for this job the jobs before it have C(n, before − 1) categories.
        let mut n = left - 2;
        while number >= ways {
            number -= &ways;
            ways = ways * (n + 1 - before) / n;
            n -= 1;
            power += 1;
        }
        category[job] = power;
        left -= power;
        if before > 1 {
            ways = ways * (before - 1) / n;
        }
    }
    category[0] = left;
    category
}

fn binomial(n: u32, k: u32) -> BigUint {
    let k = k.min(n.saturating_sub(k));
    (1..=k).fold(BigUint::from(1_u32), |product, i| product * (n - k + i) / i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(workers: u32, jobs: usize) -> Vec<Vec<u32>> {
        let mut category = first(workers, jobs);
        let mut list = vec![category.clone()];
        while next(&mut category) {
            list.push(category.clone());
        }
        list
    }

    #[test]
    fn the_order_is_the_papers() {
        let text: Vec<String> =
            all(5, 3).iter().map(|c| c.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(text, ["311", "221", "131", "212", "122", "113"]);
        let fifteen = all(15, 4);
        assert_eq!(fifteen.len(), 364);
        assert_eq!(fifteen[0], [12, 1, 1, 1]);
        assert_eq!(fifteen[17], [6, 6, 2, 1]);
        assert_eq!(fifteen[158], [5, 5, 2, 3]);
    }

    #[test]
    fn unranking_is_the_same_list() {
        for (workers, jobs) in [(5, 3), (15, 4), (7, 1), (6, 6), (9, 2), (12, 5)] {
            let list = all(workers, jobs);
            assert_eq!(BigUint::from(list.len()), count(workers, jobs));
            for (number, category) in list.iter().enumerate() {
                assert_eq!(unrank(BigUint::from(number), workers, jobs), *category);
            }
        }
    }

    #[test]
    fn a_number_with_eighty_digits_is_unranked() {
        let last = count(300, 100) - 1_u32;
        assert_eq!(last.to_string().len(), 82);
        let category = unrank(last, 300, 100);
        assert_eq!((category[0], category[99], category.iter().sum::<u32>()), (1, 201, 300));
    }
}
