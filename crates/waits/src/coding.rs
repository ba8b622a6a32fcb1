//! Codes of features: the index of one of at most 63 ranges. If a feature has more than 63 values, the ranges
//! have about equally many rows each; otherwise, each value has its own range.

use hsched_model::number::{to_f64, to_u64, to_usize};

use crate::grower::CODES;

/// The bounds of a feature's ranges, in order; code 0 means unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coding {
    bounds: Vec<f32>,
}

impl Coding {
    /// Returns the ranges for some values.
    pub(crate) fn of(values: impl Iterator<Item = f32>) -> Self {
        let mut values: Vec<f32> = values.filter(|value| !value.is_nan()).collect();
        values.sort_by(f32::total_cmp);
        let count = values.len();
        let mut distinct = values.clone();
        distinct.dedup();
        let most = CODES - 1;
        if distinct.len() > most {
            let at = |range: usize| values[to_usize(to_f64(range * count) / to_f64(most)).min(count - 1)];
            distinct = (0..most).map(at).collect();
            distinct.dedup();
        }
        let bounds = distinct.windows(2).map(|pair| f32::midpoint(pair[0], pair[1])).collect();
        Self { bounds }
    }

    pub(crate) fn code(&self, value: f32) -> u8 {
        if value.is_nan() {
            return 0;
        }
        let below = self.bounds.partition_point(|bound| *bound < value);
        u8::try_from(to_u64(to_f64(below + 1))).unwrap_or(u8::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_have_a_code_each_and_many_share_them() {
        let few = Coding::of([3.0, 1.0, 3.0, f32::NAN].into_iter());
        assert_eq!([f32::NAN, 0.0, 1.0, 2.5, 9.0].map(|value| few.code(value)), [0, 1, 1, 2, 2]);
        let many = Coding::of((0..1000_u16).map(f32::from));
        let mut codes: Vec<u8> = (0..1000_u16).map(|value| many.code(f32::from(value))).collect();
        codes.dedup();
        assert_eq!(codes, (1..64).collect::<Vec<u8>>());
    }
}
