//! Conversions between counts and floats: like `as`, with a named function for each lossy conversion.
//!
//! Counts (epochs, samples, steps, bytes, Unix seconds) are far below 2^53, up to which floats represent
//! every integer.

/// An integer type that can be converted to a float.
pub trait Count: Copy {
    /// Returns the closest float; exact up to 2^53.
    fn real(self) -> f64;
}

impl Count for u64 {
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "the nearest real number is meant")]
    fn real(self) -> f64 {
        self as f64
    }
}

impl Count for i64 {
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "the nearest real number is meant")]
    fn real(self) -> f64 {
        self as f64
    }
}

impl Count for usize {
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "the nearest real number is meant")]
    fn real(self) -> f64 {
        self as f64
    }
}

/// Returns the float closest to a count; exact up to 2^53.
#[inline]
pub fn to_f64(count: impl Count) -> f64 {
    count.real()
}

/// Returns the integer part of a number, limited to the range of `u64`; 0 for NaN.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, NaN is 0")]
pub fn to_u64(number: f64) -> u64 {
    number as u64
}

/// Returns the integer part of a number, limited to the range of `usize`; 0 for NaN.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, NaN is 0")]
pub fn to_usize(number: f64) -> usize {
    number as usize
}

/// Returns the integer part of a number, limited to the range of `u32`; 0 for NaN.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, NaN is 0")]
pub fn to_u32(number: f64) -> u32 {
    number as u32
}

/// Returns the integer part of a number, rounded toward 0 and limited to the range of `i64`; 0 for NaN.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "saturates, NaN is 0")]
pub fn to_i64(number: f64) -> i64 {
    number as i64
}

/// Returns a list index as `u32`, which takes half the space; lists with more than 2^32 entries do not fit
/// into memory.
#[inline]
pub fn to_index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_up_to_2_to_the_53() {
        let most = 1_u64 << 53;
        assert_eq!(to_u64(to_f64(most)), most);
        assert_eq!(to_f64(most + 1), to_f64(most));
        assert_eq!((to_f64(-3_i64), to_f64(7_usize)), (-3.0, 7.0));
        assert_eq!(to_f64(u64::MAX), 2_f64.powi(64));
    }

    #[test]
    fn numbers_are_cut_to_their_whole_part_and_to_what_there_is() {
        assert_eq!((to_u64(2.9), to_usize(2.9), to_u32(2.9)), (2, 2, 2));
        assert_eq!((to_i64(2.9), to_i64(-2.9)), (2, -2));
        assert_eq!((to_u64(-1.0), to_usize(-0.5), to_u32(f64::NEG_INFINITY)), (0, 0, 0));
        assert_eq!((to_u64(1e30), to_usize(f64::INFINITY), to_u32(1e10)), (u64::MAX, usize::MAX, u32::MAX));
        assert_eq!((to_i64(1e30), to_i64(-1e30)), (i64::MAX, i64::MIN));
        assert_eq!((to_u64(f64::NAN), to_usize(f64::NAN), to_u32(f64::NAN), to_i64(f64::NAN)), (0, 0, 0, 0));
        assert_eq!((to_index(7), to_index(usize::MAX)), (7, u32::MAX));
    }
}
