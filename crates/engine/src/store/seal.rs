//! A checksum as the last field of a JSON object, so that damage is noticed.
//!
//! It is the SHA-256 of all text before that field. A seal only wraps text and does not interpret it; the
//! sealed text is still JSON, with one more field.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Format of a seal.
pub(super) struct Seal {
    /// End of the unsealed object.
    close: &'static str,
    /// The text before and after the digits.
    open: &'static str,
    end: &'static str,
    /// Number of hexadecimal digits of the checksum.
    digits: usize,
}

/// The seal of a readable file, on a separate line.
pub(super) const FILE: Seal =
    Seal { close: "\n}\n", open: ",\n  \"sha256\": \"", end: "\"\n}\n", digits: 64 };

/// The seal of a one-line object; the first digits suffice against accidental damage.
pub(super) const LINE: Seal = Seal { close: "}", open: ",\"sha256\":\"", end: "\"}", digits: 12 };

/// The result of a checksum test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealVerdict {
    /// The text is unchanged.
    Whole,
    /// The text has changed.
    Damaged,
    /// The text has no checksum.
    Unsealed,
}

impl Seal {
    /// Returns the text of a non-empty object with its checksum.
    pub(super) fn put(&self, mut text: String) -> String {
        let length = text.strip_suffix(self.close).map_or(text.len(), str::len);
        text.truncate(length);
        let digits = self.checksum(text.as_bytes());
        text.push_str(self.open);
        text.push_str(&digits);
        text.push_str(self.end);
        text
    }

    /// Checks a text against its checksum.
    pub(super) fn check(&self, text: &[u8]) -> SealVerdict {
        let sealed = text.strip_suffix(self.end.as_bytes()).and_then(|rest| {
            let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(self.digits)?)?;
            Some((rest.strip_suffix(self.open.as_bytes())?, digits))
        });
        match sealed {
            None => SealVerdict::Unsealed,
            Some((body, digits)) if self.checksum(body).as_bytes() == digits => SealVerdict::Whole,
            Some(_) => SealVerdict::Damaged,
        }
    }

    fn checksum(&self, body: &[u8]) -> String {
        let mut digits = String::new();
        for byte in Sha256::digest(body) {
            let _ = write!(digits, "{byte:02x}");
        }
        digits.truncate(self.digits);
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_object_is_json_with_one_field_more() {
        // `printf '{\n  "a": 1' | sha256sum`
        let sum = "d298ee5b852fc7dfacbb4dbf9c73da22d8a55ccb56c156043c930b278c39e889";
        let text = FILE.put("{\n  \"a\": 1\n}\n".to_owned());
        assert_eq!(text, format!("{{\n  \"a\": 1,\n  \"sha256\": \"{sum}\"\n}}\n"));
        assert_eq!(LINE.put("{\"a\":1}".to_owned()), "{\"a\":1,\"sha256\":\"8b0f0d75aabe\"}");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for (seal, text) in [(FILE, "{\n  \"a\": 1\n}\n"), (LINE, "{\"a\":1}")] {
            assert_eq!(seal.check(text.as_bytes()), SealVerdict::Unsealed);
            let sealed = seal.put(text.to_owned()).into_bytes();
            assert_eq!(seal.check(&sealed), SealVerdict::Whole);
            for bit in 0..8 * sealed.len() {
                let mut flipped = sealed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(seal.check(&flipped), SealVerdict::Whole, "bit {bit}");
            }
            for length in 0..sealed.len() {
                assert_ne!(seal.check(&sealed[..length]), SealVerdict::Whole, "{length} bytes");
            }
        }
    }
}
