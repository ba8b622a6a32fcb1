//! The types of tensors' elements, and their bytes as numbers.

/// A type of elements, by its name in safetensors files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    name: &'static str,
    size: usize,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Bits of the exponent and of the fraction.
    Float(u32, u32),
    Signed,
    Unsigned,
}

const fn kind(name: &'static str, size: usize, form: Form) -> Kind {
    Kind { name, size, form }
}

const KINDS: [Kind; 13] = [
    kind("F64", 8, Form::Float(11, 52)),
    kind("F32", 4, Form::Float(8, 23)),
    kind("F16", 2, Form::Float(5, 10)),
    kind("BF16", 2, Form::Float(8, 7)),
    kind("I64", 8, Form::Signed),
    kind("I32", 4, Form::Signed),
    kind("I16", 2, Form::Signed),
    kind("I8", 1, Form::Signed),
    kind("U64", 8, Form::Unsigned),
    kind("U32", 4, Form::Unsigned),
    kind("U16", 2, Form::Unsigned),
    kind("U8", 1, Form::Unsigned),
    Kind::BOOL,
];

impl Default for Kind {
    fn default() -> Self {
        Self::BOOL
    }
}

impl Kind {
    pub(super) const BOOL: Self = kind("BOOL", 1, Form::Unsigned);

    /// Returns the type of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.name == name)
    }

    pub(super) fn name(self) -> &'static str {
        self.name
    }

    /// Returns the bytes of an element.
    pub(super) fn size(self) -> usize {
        self.size
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self.form, Form::Float(..))
    }

    /// Returns the elements as numbers; those of integers may lose their last digits.
    pub(super) fn numbers(self, bytes: &[u8]) -> Vec<f64> {
        bytes.chunks_exact(self.size).map(|own| self.number(own)).collect()
    }

    /// Returns numbers as elements, each rounded once to the nearest, ties to even.
    pub(super) fn bytes(self, numbers: &[f64]) -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| self.element(*number).to_le_bytes().into_iter().take(self.size))
            .collect()
    }

    /// Returns the first element of integers.
    pub(super) fn integer(self, bytes: &[u8]) -> i128 {
        let bits = bits(bytes.get(..self.size).unwrap_or_default());
        let width = 8 * u32::try_from(self.size).unwrap_or(8);
        let negative = self.form == Form::Signed && bits >> (width - 1) & 1 == 1;
        i128::from(bits) - if negative { 1_i128 << width } else { 0 }
    }

    #[expect(clippy::cast_precision_loss, reason = "integers are only told to people")]
    fn number(self, bytes: &[u8]) -> f64 {
        let bits = bits(bytes);
        match self.form {
            Form::Float(_, 52) => f64::from_bits(bits),
            Form::Float(exponent, fraction) => decoded(bits, exponent, fraction),
            Form::Signed | Form::Unsigned => self.integer(bytes) as f64,
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "integers fit their type")]
    fn element(self, number: f64) -> u64 {
        match self.form {
            Form::Float(_, 52) => number.to_bits(),
            Form::Float(exponent, fraction) => encoded(number, exponent, fraction),
            Form::Signed => number as i64 as u64,
            Form::Unsigned => number as u64,
        }
    }
}

fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// Returns 2 to this power, for powers of normal doubles.
fn power(exponent: i64) -> f64 {
    f64::from_bits(u64::try_from(exponent + 1023).unwrap_or(0) << 52)
}

/// Returns the number that a shorter float stands for.
fn decoded(bits: u64, exponent_bits: u32, fraction_bits: u32) -> f64 {
    let (most, bias) = ((1_u64 << exponent_bits) - 1, (1_i64 << (exponent_bits - 1)) - 1);
    let (exponent, fraction) = (bits >> fraction_bits & most, bits & ((1 << fraction_bits) - 1));
    let sign = if bits >> (exponent_bits + fraction_bits) & 1 == 1 { -1.0 } else { 1.0 };
    let whole = if exponent == 0 { fraction } else { fraction | 1 << fraction_bits };
    if exponent == most {
        return sign * if fraction == 0 { f64::INFINITY } else { f64::NAN };
    }
    let scale = i64::try_from(exponent.max(1)).unwrap_or(0) - bias - i64::from(fraction_bits);
    #[expect(clippy::cast_precision_loss, reason = "at most 24 bits")]
    let whole = whole as f64;
    sign * whole * power(scale)
}

/// Returns the shorter float nearest to a number, of two equally near the even one.
fn encoded(number: f64, exponent_bits: u32, fraction_bits: u32) -> u64 {
    let (most, bias) = ((1_u64 << exponent_bits) - 1, (1_i64 << (exponent_bits - 1)) - 1);
    let sign = u64::from(number.is_sign_negative()) << (exponent_bits + fraction_bits);
    let infinity = most << fraction_bits;
    if number.is_nan() {
        return sign | infinity | 1 << (fraction_bits - 1);
    }
    let size = number.abs();
    let exponent = i64::try_from(size.to_bits() >> 52).unwrap_or(0) - 1023;
    if exponent > bias {
        return sign | infinity;
    }
    let exponent = exponent.max(1 - bias);
    // Exact: a number divided by a power of two.
    let steps = (size * power(i64::from(fraction_bits) - exponent)).round_ties_even();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 25 bits")]
    let steps = steps as u64;
    // What is rounded up to the next power of two carries into the exponent, and the largest into infinity.
    let above = u64::try_from(exponent + bias - 1).unwrap_or(0);
    sign | ((above << fraction_bits) + steps)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_half_reads_back() {
        for kind in ["F16", "BF16"].map(|name| Kind::named(name).expect("a type")) {
            for bits in 0..=u16::MAX {
                let number = kind.number(&bits.to_le_bytes());
                assert!(
                    number.is_nan() || kind.element(number) == u64::from(bits),
                    "{} {bits:#x} {number}",
                    kind.name()
                );
            }
        }
        let half = Kind::named("F16").expect("a type");
        assert_eq!(half.numbers(&[0x00, 0x3c, 0xff, 0x7b, 0x01, 0x00]), [1.0, 65504.0, 2f64.powi(-24)]);
        assert_eq!(half.bytes(&[65519.0, 65520.0, 2f64.powi(-25)]), [0xff, 0x7b, 0x00, 0x7c, 0x00, 0x00]);
    }

    proptest! {
        #[test]
        fn singles_are_rounded_as_the_machine_does(number in any::<f64>()) {
            let kind = Kind::named("F32").expect("a type");
            #[expect(clippy::cast_possible_truncation, reason = "this is the rounding that is compared")]
            let known = number as f32;
            prop_assert!(number.is_nan() || kind.bytes(&[number]) == known.to_le_bytes());
            prop_assert!(number.is_nan() || kind.numbers(&known.to_le_bytes()) == [f64::from(known)]);
        }
    }

    #[test]
    fn integers_keep_all_their_digits() {
        let kind = |name| Kind::named(name).expect("a type");
        assert_eq!(kind("I64").integer(&i64::MIN.to_le_bytes()), i128::from(i64::MIN));
        assert_eq!(kind("U64").integer(&u64::MAX.to_le_bytes()), i128::from(u64::MAX));
        assert_eq!(kind("I8").integer(&[0xff]), -1);
    }
}
