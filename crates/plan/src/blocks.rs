//! The division of an epoch among ranks, identical to that of `hsched_ddp.BatchSampler`.

/// Returns each rank's samples in an epoch of `samples`, given its samples in a full global batch.
pub(super) fn samples_by_rank(samples: u64, batches: &[u64]) -> Vec<u64> {
    let (whole, last) = blocks(samples, batches);
    let mut sums: Vec<u64> = batches.iter().map(|batch| whole * batch).collect();
    for block in last {
        for (sum, part) in sums.iter_mut().zip(parts(block, batches)) {
            *sum += part;
        }
    }
    sums
}

/// Returns the number of blocks that are full global batches, and the sizes of the blocks after them.
///
/// The samples after the last full global batch form a separate block. If they are less than a quarter of
/// one, or fewer than the ranks, they are merged with the last full batch, if there is one, into two blocks
/// that differ by at most one sample, or into one if two would still be too small.
fn blocks(samples: u64, batches: &[u64]) -> (u64, Vec<u64>) {
    let (batch, ranks) = (batches.iter().sum::<u64>(), batches.len() as u64);
    let (whole, rest) = (samples / batch, samples % batch);
    let both = batch + rest;
    if rest == 0 {
        (whole, Vec::new())
    } else if whole == 0 || (rest >= ranks && rest >= batch.div_ceil(4)) {
        (whole, vec![rest])
    } else if both / 2 >= ranks {
        (whole - 1, vec![both.div_ceil(2), both / 2])
    } else {
        (whole - 1, vec![both])
    }
}

/// Returns the ranks' parts of a block in proportion to their batches. No part is empty if the block has
/// enough samples, and a rank with several samples per batch gets at least two if possible.
fn parts(block: u64, batches: &[u64]) -> Vec<u64> {
    let batch: u64 = batches.iter().sum();
    let all = |least: u64| batches.iter().map(|&batch| batch.min(least)).sum::<u64>();
    let least = [2, 1].into_iter().find(|&least| all(least) <= block).unwrap_or(0);
    let (mut edge, mut before, mut after, mut begin) = (0, 0, all(least), 0);
    let part = |&samples: &u64| {
        before += samples;
        after -= samples.min(least);
        let ideal = u128::from(before) * u128::from(block) / u128::from(batch);
        edge = u64::try_from(ideal).unwrap_or(block).max(edge + samples.min(least));
        let end = edge.min(block - after);
        end - std::mem::replace(&mut begin, end)
    };
    batches.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_remains_is_never_too_small_for_a_step() {
        assert_eq!(blocks(96, &[24, 8]), (3, vec![]));
        assert_eq!(blocks(104, &[24, 8]), (3, vec![8]));
        assert_eq!(blocks(103, &[24, 8]), (2, vec![20, 19]));
        assert_eq!(blocks(7, &[24, 8]), (0, vec![7]));
        assert_eq!(blocks(28, &[3, 1, 1, 1, 1, 1]), (2, vec![6, 6]), "more ranks than samples left");
        assert_eq!(blocks(27, &[3, 1, 1, 1, 1, 1]), (2, vec![11]), "not even two blocks for six ranks");
    }

    #[test]
    fn a_shorter_block_is_divided_in_proportion() {
        assert_eq!(parts(160, &[276, 118, 118]), [86, 37, 37]);
        assert_eq!(parts(16, &[31, 1]), [15, 1]);
        assert_eq!(parts(6, &[10, 10, 1, 1, 1]), [2, 1, 1, 1, 1]);
        assert_eq!(parts(4, &[6, 2]), [2, 2], "no single sample");
        assert_eq!(parts(3, &[6, 2]), [2, 1]);
        assert_eq!(parts(1, &[6, 2]), [0, 1], "fewer samples than ranks, which cannot be trained");
    }

    proptest! {
        #[test]
        fn every_rank_takes_part_in_every_step(
            batches in proptest::collection::vec(1_u64..12, 1..8),
            samples in 1_u64..200,
        ) {
            let (batch, ranks) = (batches.iter().sum::<u64>(), batches.len() as u64);
            prop_assert_eq!(samples_by_rank(samples, &batches).iter().sum::<u64>(), samples);
            let (whole, last) = blocks(samples, &batches);
            prop_assert_eq!(whole * batch + last.iter().sum::<u64>(), samples);
            prop_assert!(2 * ranks > batch || whole + last.len() as u64 == samples.div_ceil(batch));
            for &block in last.iter().filter(|_| samples >= ranks) {
                let parts = parts(block, &batches);
                prop_assert_eq!(parts.iter().sum::<u64>(), block);
                prop_assert!(parts.iter().all(|&part| part > 0), "{parts:?}");
                prop_assert!(block > batch || parts.iter().zip(&batches).all(|(part, batch)| part <= batch));
                let single = parts.iter().zip(&batches).any(|(&part, &batch)| part < 2 && batch > 1);
                prop_assert!(!single || block < 2 * ranks, "{parts:?}");
            }
            if 4 * ranks <= batch {
                prop_assert_eq!((whole, last), blocks(samples, &[batch]), "the number of ranks counts");
            }
        }
    }
}
