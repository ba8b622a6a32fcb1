//! Random search: how many combinations of a sweep's values to draw, and from which ranges.

use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::problem::{ValueError, quoted};
use super::reader::ReaderValue;
use super::yaml::{ValueKind, YamlNode};
use crate::ErrorId;
use crate::number::{to_f64, to_usize};

/// Maximum number of combinations of one search.
const SAMPLE_LIMIT: u64 = 10_000;

/// The possible values of a sweep's key.
#[derive(Clone)]
pub(super) enum Values {
    /// Scalars, at least one; a placeholder if the file has no valid ones.
    List(Rc<[YamlNode]>),
    Uniform {
        low: f64,
        high: f64,
    },
    /// Uniform in the logarithm; both bounds are positive.
    LogUniform {
        low: f64,
        high: f64,
    },
}

/// The content of `search` in a job file.
#[derive(Clone, Copy)]
pub(super) struct SearchKeys {
    pub(super) samples: usize,
    seed: u64,
}

impl SearchKeys {
    /// Reads the search; `None` if a part of it is invalid.
    pub(super) fn read(value: &ReaderValue<'_>) -> Option<Self> {
        let fields = value.fields(&["samples", "seed"]);
        let samples = fields.required("samples").and_then(|samples| samples.whole(1..=SAMPLE_LIMIT));
        let seed = fields.get("seed").map_or(Some(0), |seed| seed.whole(0..=u64::MAX));
        Some(Self { samples: to_usize(to_f64(samples?)), seed: seed? })
    }

    /// Draws the values of a combination, numbered from 0. A combination does not depend on the number of
    /// draws, so a search can be enlarged.
    pub(super) fn draw<'v>(self, number: usize, axes: impl Iterator<Item = &'v Values>) -> Vec<YamlNode> {
        let stream = u64::try_from(number).unwrap_or(u64::MAX).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = Pcg64Mcg::seed_from_u64(self.seed ^ stream);
        axes.map(|values| values.at(random.random::<f64>())).collect()
    }
}

impl Values {
    /// Returns the value at this fraction, in [0, 1), of the range.
    fn at(&self, part: f64) -> YamlNode {
        match self {
            Self::List(nodes) => {
                let place = to_usize(part * to_f64(nodes.len())).min(nodes.len() - 1);
                nodes[place].clone()
            }
            Self::Uniform { low, high } => number(low + part * (high - low)),
            Self::LogUniform { low, high } => number(low * (part * (high / low).ln()).exp()),
        }
    }

    /// Reads a range such as `{log_uniform: [1e-5, 1e-1]}`; `list` reads the values under `choice`.
    pub(super) fn read(
        value: &ReaderValue<'_>,
        list: impl FnOnce(&ReaderValue<'_>) -> Option<Rc<[YamlNode]>>,
    ) -> Option<Self> {
        let fields = value.fields(&["choice", "uniform", "log_uniform"]);
        let given = |key: &str| fields.get(key).map(|value| (key.to_owned(), value.clone()));
        let all: Vec<_> = ["choice", "uniform", "log_uniform"].into_iter().filter_map(given).collect();
        let [(key, inner)] = all.as_slice() else {
            value.report(
                ValueError::new("must have one of the keys choice, uniform, log_uniform")
                    .id(ErrorId::SearchRange)
                    .hint("write {log_uniform: [1e-5, 1e-1]}"),
            );
            return None;
        };
        if key == "choice" {
            return list(inner).map(Self::List);
        }
        let bounds = inner.items();
        let [low, high] = bounds.as_slice() else {
            inner.report(
                ValueError::new("must be a list of two numbers")
                    .id(ErrorId::SearchRange)
                    .hint("write [1e-5, 1e-1]"),
            );
            return None;
        };
        let (low, high) = (low.number()?, high.number()?);
        if low >= high {
            inner
                .report(ValueError::new(format!("must rise, got {low} and {high}")).id(ErrorId::SearchRange));
            return None;
        }
        if key == "uniform" {
            return Some(Self::Uniform { low, high });
        }
        if low <= 0.0 {
            inner.report(
                ValueError::new(format!("must be above 0, got {}", quoted(&low.to_string())))
                    .id(ErrorId::SearchRange),
            );
            return None;
        }
        Some(Self::LogUniform { low, high })
    }
}

/// Returns a number with six significant digits.
fn number(value: f64) -> YamlNode {
    let rounded = format!("{value:.5e}").parse::<f64>().unwrap_or(value);
    YamlNode { line: 0, kind: ValueKind::Scalar { text: rounded.to_string(), quoted: false } }
}
