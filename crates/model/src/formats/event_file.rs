//! `TensorBoard`'s event files: the scalars of each tag.
//!
//! This module supports a small part of two formats: records of `TFRecord` (length, its checksum, bytes,
//! their checksum), each with a protocol buffer `Event`, of which only the step and the scalar values are
//! read. Existing crates for these formats would add a protocol buffer compiler.

use std::collections::BTreeMap;

use super::problem::ValueError;
use crate::ErrorId;

/// Bytes of a record besides its content: the length and its checksum before it, and the content's checksum
/// after it.
const HEAD: usize = 12;
const TAIL: usize = 4;

/// The scalars by tag: step and value.
pub(super) type Scalars = BTreeMap<String, Vec<(u64, f64)>>;

/// Returns whether bytes begin like an event file, with a length and its checksum.
pub(super) fn is_event_file(bytes: &[u8]) -> bool {
    length(bytes).is_some()
}

/// Returns the scalars of an event file. An incomplete last record is ignored, because it is still being
/// written.
///
/// # Errors
/// If a record is damaged.
pub(super) fn parse(bytes: &[u8]) -> Result<Scalars, ValueError> {
    let mut scalars = Scalars::new();
    let (mut rest, mut number) = (bytes, 1_u64);
    while rest.len() >= HEAD {
        let damaged = || {
            ValueError::new(format!("record {number} of the event file is damaged")).id(ErrorId::CurveFile)
        };
        let length = length(rest).ok_or_else(damaged)?;
        let Some(whole) = rest.get(HEAD..).filter(|rest| rest.len() >= length.saturating_add(TAIL)) else {
            break;
        };
        let (record, after) = whole.split_at(length);
        let sum = after.first_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
        if masked(crc32c(record)) != sum {
            return Err(damaged());
        }
        event(record, &mut scalars).map_err(|DecodeError| damaged())?;
        rest = after.get(TAIL..).unwrap_or_default();
        number += 1;
    }
    Ok(scalars)
}

/// Returns the length at the beginning of a record, if its checksum matches.
fn length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk::<8>()?;
    let sum = bytes.get(8..)?.first_chunk()?;
    let is_right = masked(crc32c(length)) == u32::from_le_bytes(*sum);
    usize::try_from(u64::from_le_bytes(*length)).ok().filter(|_| is_right)
}

/// The bytes are not a valid protocol buffer.
#[derive(Debug)]
struct DecodeError;

/// Adds the scalars of an `Event`.
fn event(bytes: &[u8], scalars: &mut Scalars) -> Result<(), DecodeError> {
    let (mut step, mut values) = (0, Vec::new());
    for field in fields(bytes) {
        match field? {
            (2, ProtocolField::Number(number)) => step = number,
            (5, ProtocolField::Bytes(summary)) => {
                for part in fields(summary) {
                    if let (1, ProtocolField::Bytes(value)) = part? {
                        values.extend(scalar(value)?);
                    }
                }
            }
            _ => {}
        }
    }
    for (tag, value) in values {
        scalars.entry(tag).or_default().push((step, value));
    }
    Ok(())
}

/// Returns the tag and number of a `Summary.Value`; `None` for pictures and other values.
fn scalar(bytes: &[u8]) -> Result<Option<(String, f64)>, DecodeError> {
    let (mut tag, mut number) = (String::new(), None);
    for field in fields(bytes) {
        match field? {
            (1, ProtocolField::Bytes(name)) => tag = String::from_utf8_lossy(name).into_owned(),
            (2, ProtocolField::Word(bits)) => number = Some(f64::from(f32::from_le_bytes(bits))),
            (8, ProtocolField::Bytes(tensor)) => number = number.or(tensor_scalar(tensor)?),
            _ => {}
        }
    }
    Ok(number.map(|number| (tag, number)))
}

/// Returns the only number of a `TensorProto` of floats or doubles; `None` for other tensors.
fn tensor_scalar(bytes: &[u8]) -> Result<Option<f64>, DecodeError> {
    let (mut kind, mut content, mut sides) = (0, &[][..], 0);
    for field in fields(bytes) {
        match field? {
            (1, ProtocolField::Number(number)) => kind = number,
            // A shape with dimensions is not a scalar.
            (2, ProtocolField::Bytes(shape)) => sides = shape.len(),
            (4..=6, ProtocolField::Bytes(bytes)) => content = bytes,
            (5, ProtocolField::Word(bits)) => return Ok(Some(f64::from(f32::from_le_bytes(bits)))),
            (6, ProtocolField::Long(bits)) => return Ok(Some(f64::from_le_bytes(bits))),
            _ => {}
        }
    }
    Ok(match (kind, content.len(), sides) {
        (1, 4, 0) => content.first_chunk().map(|bits| f64::from(f32::from_le_bytes(*bits))),
        (2, 8, 0) => content.first_chunk().map(|bits| f64::from_le_bytes(*bits)),
        _ => None,
    })
}

/// A field of a protocol buffer.
enum ProtocolField<'a> {
    Number(u64),
    Long([u8; 8]),
    Bytes(&'a [u8]),
    Word([u8; 4]),
}

/// Returns the fields of a protocol buffer with their numbers; the first invalid one gives an error and ends
/// the list.
fn fields(bytes: &[u8]) -> impl Iterator<Item = Result<(u64, ProtocolField<'_>), DecodeError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = take_field(&mut rest);
        if field.is_none() {
            rest = &[];
        }
        Some(field.ok_or(DecodeError))
    })
}

fn take_field<'a>(rest: &mut &'a [u8]) -> Option<(u64, ProtocolField<'a>)> {
    let key = take_number(rest)?;
    let field = match key & 7 {
        0 => ProtocolField::Number(take_number(rest)?),
        1 => ProtocolField::Long(*take(rest, 8)?.first_chunk()?),
        2 => {
            let length = usize::try_from(take_number(rest)?).ok()?;
            ProtocolField::Bytes(take(rest, length)?)
        }
        5 => ProtocolField::Word(*take(rest, 4)?.first_chunk()?),
        _ => return None,
    };
    Some((key >> 3, field))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// Reads a varint: seven bits per byte, lowest first.
fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The checksum of `TFRecord`: CRC-32C, rotated and offset so that checksums of checksums differ.
fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step =
        |sum: u32, byte: &u8| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 }
            })
        };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(bytes: &[u8]) -> Vec<u8> {
        let length = (bytes.len() as u64).to_le_bytes();
        let sum = |bytes: &[u8]| masked(crc32c(bytes)).to_le_bytes();
        [&length[..], &sum(&length), bytes, &sum(bytes)].concat()
    }

    fn bytes_field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).expect("short")][..], bytes].concat()
    }

    /// An event with one value, in the format of `PyTorch`'s `SummaryWriter`.
    fn scalar_event(step: u8, tag: &str, value: f32) -> Vec<u8> {
        let value_field =
            [bytes_field(1, tag.as_bytes()), vec![2 << 3 | 5], value.to_le_bytes().to_vec()].concat();
        [vec![9, 0, 0, 0, 0, 0, 0, 0, 0, 16, step], bytes_field(5, &bytes_field(1, &value_field))].concat()
    }

    #[test]
    fn the_checksum_is_that_of_its_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn scalars_are_read_by_tag() {
        let version = [vec![9, 0, 0, 0, 0, 0, 0, 0, 0], bytes_field(3, b"brain.Event:2")].concat();
        let tensor = [vec![8, 1], bytes_field(4, &0.25_f32.to_le_bytes())].concat();
        let value_field = [bytes_field(1, b"val/acc"), bytes_field(8, &tensor)].concat();
        let second = [vec![16, 2], bytes_field(5, &bytes_field(1, &value_field))].concat();
        let mut file = [
            record(&version),
            record(&scalar_event(1, "loss", 2.5)),
            record(&second),
            record(&scalar_event(2, "loss", 1.5)),
        ]
        .concat();
        assert!(is_event_file(&file));
        let expected = Scalars::from([
            ("loss".to_owned(), vec![(1, 2.5), (2, 1.5)]),
            ("val/acc".to_owned(), vec![(2, 0.25)]),
        ]);
        assert_eq!(parse(&file), Ok(expected));
        // The last record is still being written.
        file.truncate(file.len() - 3);
        assert_eq!(parse(&file).expect("the others")["loss"], [(1, 2.5)]);
        file[60] ^= 1;
        let damaged = ValueError::new("record 2 of the event file is damaged").id(ErrorId::CurveFile);
        assert_eq!(parse(&file), Err(damaged));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _any = (parse(&bytes), parse(&record(&bytes)), event(&bytes, &mut Scalars::new()));
        }
    }
}
