//! Reads names, lists and maps of GPU types, and speeds.

use std::collections::{BTreeMap, BTreeSet};

use super::number::parse_number;
use super::problem::{ValueError, quoted};
use super::reader::{ReaderValue, all};
use crate::{ErrorId, GpuType, Seconds, Speed};

/// Reads samples per second, or `{alpha_ms, beta_ms}` of an affine step time.
pub(super) fn read_speed(value: &ReaderValue<'_>) -> Option<Speed> {
    if !value.is_map() {
        return value.ranged(Speed::rate, "from 1e-9 to 1e12 samples/s");
    }
    let fields = value.fields(&["alpha_ms", "beta_ms"]);
    let read = |key| fields.required(key).and_then(|value| Some((value, value.number()?)));
    let (alpha, beta) = (read("alpha_ms"), read("beta_ms"));
    let ((alpha_value, alpha), (beta_value, beta)) = (alpha?, beta?);
    let (alpha_s, beta_s) = (Seconds(alpha / 1000.0), Seconds(beta / 1000.0));
    if Speed::affine(alpha_s, Seconds(1.0)).is_none() {
        alpha_value
            .report(ValueError::new(format!("must be from 0 to 1e12, got {alpha}")).id(ErrorId::SpeedFormat));
    }
    if Speed::affine(Seconds(0.0), beta_s).is_none() {
        beta_value.report(
            ValueError::new(format!("must be from 1e-9 to 1e12, got {beta}")).id(ErrorId::SpeedFormat),
        );
    }
    Speed::affine(alpha_s, beta_s)
}

/// Parses a speed on a command line: `644`, or `alpha_ms=80,beta_ms=4.21` as in job files.
///
/// # Errors
/// If it is not a speed.
pub fn parse_speed(text: &str) -> Result<Speed, ValueError> {
    if !text.contains("_ms") {
        let rate = parse_number(text)?;
        return Speed::rate(rate).ok_or_else(|| {
            ValueError::new(format!("must be from 1e-9 to 1e12 samples/s, got {rate}"))
                .id(ErrorId::SpeedFormat)
        });
    }
    let inside = text.trim().trim_start_matches('{').trim_end_matches('}');
    let (mut alpha, mut beta) = (None, None);
    for part in inside.split(',') {
        let (key, number) = part.split_once(['=', ':']).unwrap_or((part, ""));
        let slot = match key.trim() {
            "alpha_ms" => &mut alpha,
            "beta_ms" => &mut beta,
            other => {
                return Err(ValueError::new(format!("{} is not part of a step time", quoted(other)))
                    .id(ErrorId::SpeedFormat));
            }
        };
        if slot.replace(parse_number(number.trim())?).is_some() {
            return Err(ValueError::new(format!("has {} twice", key.trim())).id(ErrorId::SpeedFormat));
        }
    }
    let speed = alpha
        .zip(beta)
        .and_then(|(alpha, beta)| Speed::affine(Seconds(alpha / 1000.0), Seconds(beta / 1000.0)));
    speed.ok_or_else(|| {
        ValueError::new("needs alpha_ms, from 0 to 1e12, and beta_ms, from 1e-9 to 1e12")
            .id(ErrorId::SpeedFormat)
    })
}

/// Reads a map keyed by GPU type.
pub(super) fn by_type<T>(
    value: &ReaderValue<'_>,
    read: impl Fn(&ReaderValue<'_>) -> Option<T>,
) -> Option<BTreeMap<GpuType, T>> {
    let entries = all(value.entries().into_iter().map(|(key, item)| {
        let gpu_type = item.accept(parse_type(key));
        let read = read(&item);
        Some((gpu_type?, read?))
    }));
    Some(entries?.into_iter().collect())
}

/// Parses a GPU type.
///
/// # Errors
/// If it is not a valid name.
pub fn parse_type(text: &str) -> Result<GpuType, ValueError> {
    GpuType::new(text).ok_or_else(|| {
        ValueError::new(format!("{} is not a GPU type", quoted(text)))
            .id(ErrorId::GpuType)
            .hint("a GPU type has only letters, digits and - _ . + /, for example v100")
    })
}

/// Reads a non-empty list of GPU types.
pub(super) fn read_types(value: &ReaderValue<'_>) -> Option<BTreeSet<GpuType>> {
    let items = value.items();
    if items.is_empty() && (value.is_list() || value.is_nothing()) {
        value.report(
            ValueError::new("must name at least one GPU type")
                .id(ErrorId::WrongShape)
                .hint("remove the key to allow all"),
        );
    }
    Some(all(items.iter().map(|item| item.parsed(parse_type)))?.into_iter().collect())
}
