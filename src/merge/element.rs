//! The elements of tensors as numbers: four floating-point formats, and integers.

use half::{bf16, f16};
use safetensors::Dtype;

/// A floating-point type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Float {
    F64,
    F32,
    F16,
    Bf16,
}

impl Float {
    /// Returns the floating-point type of an element type; `None` for every other type, such as integers.
    pub(super) fn of(kind: Dtype) -> Option<Self> {
        match kind {
            Dtype::F64 => Some(Self::F64),
            Dtype::F32 => Some(Self::F32),
            Dtype::F16 => Some(Self::F16),
            Dtype::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// Converts the elements to numbers; each conversion is exact.
    pub(super) fn numbers(self, bytes: &[u8]) -> Vec<f64> {
        match self {
            Self::F64 => read(bytes, f64::from_le_bytes),
            Self::F32 => read(bytes, |element| f32::from_le_bytes(element).into()),
            Self::F16 => read(bytes, |element| f16::from_le_bytes(element).into()),
            Self::Bf16 => read(bytes, |element| bf16::from_le_bytes(element).into()),
        }
    }

    /// Converts numbers to elements with a single rounding to nearest, ties to even.
    pub(super) fn bytes(self, numbers: &[f64]) -> Vec<u8> {
        match self {
            Self::F64 => write(numbers, f64::to_le_bytes),
            Self::F32 => write(numbers, |number| single(number).to_le_bytes()),
            Self::F16 => write(numbers, |number| f16::from_f32(to_odd(number)).to_le_bytes()),
            Self::Bf16 => write(numbers, |number| bf16::from_f32(to_odd(number)).to_le_bytes()),
        }
    }
}

fn read<const SIZE: usize>(bytes: &[u8], number: impl Fn([u8; SIZE]) -> f64) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|element| number(*element)).collect()
}

fn write<const SIZE: usize>(numbers: &[f64], element: impl Fn(f64) -> [u8; SIZE]) -> Vec<u8> {
    numbers.iter().flat_map(|number| element(*number)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "this is the rounding that is meant")]
fn single(number: f64) -> f32 {
    number as f32
}

/// Rounds a number to single precision; an inexact result has an odd last bit.
///
/// The result is a tie of a shorter format only if the number itself is one, so rounding it again gives the
/// same as rounding the number directly. The conversions of doubles in `half` look only at the first 20 bits
/// of the fraction.
fn to_odd(number: f64) -> f32 {
    let near = single(number);
    let back = f64::from(near);
    if back == number || back.is_nan() {
        return near;
    }
    let toward_zero = near.to_bits() - u32::from(back.abs() > number.abs());
    f32::from_bits(toward_zero | 1)
}

/// Returns whether the elements are integers; bool does not count as an integer.
pub(super) fn is_integer(kind: Dtype) -> bool {
    use Dtype::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(kind, I64 | I32 | I16 | I8 | U64 | U32 | U16 | U8)
}

/// Returns the value of one integer.
pub(super) fn integer(kind: Dtype, bytes: &[u8]) -> i128 {
    let is_signed = matches!(kind, Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8);
    let is_negative = is_signed && bytes.last().is_some_and(|byte| *byte >= 0x80);
    let above = if is_negative { -1 } else { 0 };
    bytes.iter().rev().fold(above, |value, byte| value << 8 | i128::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_half_reads_back() {
        for float in [Float::F16, Float::Bf16] {
            for bits in 0..=u16::MAX {
                let numbers = float.numbers(&bits.to_le_bytes());
                assert!(
                    numbers[0].is_nan() || float.bytes(&numbers) == bits.to_le_bytes(),
                    "{float:?} {bits:#x} {numbers:?}"
                );
            }
        }
        let half = Float::F16;
        assert_eq!(half.numbers(&[0x00, 0x3c, 0xff, 0x7b, 0x01, 0x00]), [1.0, 65504.0, 2f64.powi(-24)]);
        assert_eq!(half.bytes(&[65519.0, 65520.0, 2f64.powi(-25)]), [0xff, 0x7b, 0x00, 0x7c, 0x00, 0x00]);
        assert!(half.numbers(&half.bytes(&[f64::NAN]))[0].is_nan());
    }

    /// A number slightly above the middle between two halves is not a tie.
    #[test]
    fn numbers_are_rounded_once() {
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-45);
        assert_eq!(Float::F16.bytes(&[1.0 + 2f64.powi(-11), above]), [0x00, 0x3c, 0x01, 0x3c]);
        let above = 1.0 + 2f64.powi(-8) + 2f64.powi(-45);
        assert_eq!(Float::Bf16.bytes(&[1.0 + 2f64.powi(-8), above]), [0x80, 0x3f, 0x81, 0x3f]);
        assert_eq!(Float::Bf16.bytes(&[f64::MAX, -1e-300]), [0x80, 0x7f, 0x00, 0x80]);
    }

    /// Returns the distance of a number to the float with these bits; infinity counts as the next power of
    /// two after the largest float.
    fn distance(float: Float, bits: u16, number: f64) -> f64 {
        let read = |bits: u16| float.numbers(&bits.to_le_bytes())[0];
        let value = read(bits);
        let value = if value.is_infinite() { 2.0 * read(bits - 1) - read(bits - 2) } else { value };
        (value - number).abs()
    }

    proptest! {
        #[test]
        fn no_other_half_is_nearer(
            float in prop_oneof![Just(Float::F16), Just(Float::Bf16)],
            bits in 0_u16..0x7bff,
            part in 0.0..1.0,
            tie in any::<bool>(),
            beside in -1_i64..=1,
        ) {
            let (low, high) = (float.numbers(&bits.to_le_bytes())[0], float.numbers(&(bits + 1).to_le_bytes())[0]);
            let number = low + (high - low) * if tie { 0.5 } else { part };
            let number = f64::from_bits(number.to_bits().saturating_add_signed(beside));
            let rounded = u16::from_le_bytes(float.bytes(&[number]).try_into().expect("an element"));
            let near = distance(float, rounded, number);
            for other in [rounded.saturating_sub(1), rounded + 1] {
                let far = distance(float, other, number);
                prop_assert!(near < far || (near == far && rounded % 2 == 0) || other == rounded, "{number:e} {rounded:#x} {other:#x}");
            }
        }

        #[test]
        fn singles_are_rounded_as_the_machine_does(number in any::<f64>()) {
            #[expect(clippy::cast_possible_truncation, reason = "this is the rounding that is compared")]
            let known = number as f32;
            prop_assert!(number.is_nan() || Float::F32.bytes(&[number]) == known.to_le_bytes());
            prop_assert!(number.is_nan() || Float::F32.numbers(&known.to_le_bytes()) == [f64::from(known)]);
        }
    }

    #[test]
    fn integers_keep_all_their_digits() {
        assert_eq!(integer(Dtype::I64, &i64::MIN.to_le_bytes()), i128::from(i64::MIN));
        assert_eq!(integer(Dtype::U64, &u64::MAX.to_le_bytes()), i128::from(u64::MAX));
        assert_eq!(integer(Dtype::I8, &[0xff]), -1);
        assert_eq!(integer(Dtype::I16, &[0x02, 0x01]), 258);
    }
}
