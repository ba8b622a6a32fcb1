//! Merges copies of one training: weights in safetensors files, averaged by the steps of each copy.
//!
//! Sums are made in double precision in the order of the copies and rounded to the tensor's own type. `hsched_merge.py` does
//! the same where the copies train.

mod element;
mod safetensors;

use std::collections::BTreeMap;

use thiserror::Error;

use self::element::Kind;
pub use self::safetensors::{FileError, Tensors};

/// The tensors of one copy, and the steps that it did.
pub struct Part<'a> {
    /// What messages call it.
    pub name: String,
    pub tensors: &'a Tensors,
    pub steps: u64,
}

/// Why copies cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MergeError {
    #[error("no copy trained a step")]
    NoSteps,
    #[error("{file} has no tensor {tensor}, but {other} has one")]
    Missing { file: String, other: String, tensor: String },
    #[error("the shape or type of {tensor} differs between {file} and {other}")]
    Shape { file: String, other: String, tensor: String },
    #[error("{tensor} of {file} has numbers that are not finite")]
    NotFinite { file: String, tensor: String },
    #[error("{tensor} is not a counter, and its integers differ between {file} and {other}")]
    Integers { file: String, other: String, tensor: String },
}

/// Returns each copy's weight: its part of all steps.
///
/// # Errors
/// When no copy did a step.
pub fn weights(parts: &[Part<'_>]) -> Result<Vec<f64>, MergeError> {
    let total: u64 = parts.iter().map(|part| part.steps).sum();
    if total == 0 {
        return Err(MergeError::NoSteps);
    }
    Ok(parts.iter().map(|part| real(part.steps) / real(total)).collect())
}

/// Returns the merged tensors: means by weight, the variance of the mixture for `running_var`, the largest of counters.
/// Copies without steps are left out.
///
/// # Errors
/// When the copies do not fit each other, or one has numbers that are not finite.
pub fn merge(parts: &[Part<'_>]) -> Result<Tensors, MergeError> {
    let weights = weights(parts)?;
    let taken: Vec<(&Part<'_>, f64)> = parts.iter().zip(weights).filter(|(part, _)| part.steps > 0).collect();
    let first = taken[0].0;
    for (part, _) in &taken {
        check_names(first, part)?;
        check_names(part, first)?;
    }
    let mut merged = BTreeMap::new();
    for (name, own) in first.tensors.iter() {
        for (part, _) in &taken[1..] {
            let other =
                part.tensors.get(name).filter(|other| (other.kind, &other.shape) == (own.kind, &own.shape));
            if other.is_none() {
                let (file, other, tensor) = (part.name.clone(), first.name.clone(), name.to_owned());
                return Err(MergeError::Shape { file, other, tensor });
            }
        }
        let bytes =
            if own.kind.is_float() { mean_of(&taken, name, own.kind)? } else { integers(&taken, name)? };
        merged.insert(name.to_owned(), own.with(bytes));
    }
    Ok(Tensors::new(merged, first.tensors.metadata().cloned()))
}

fn check_names(has: &Part<'_>, lacks: &Part<'_>) -> Result<(), MergeError> {
    match has.tensors.iter().find(|(name, _)| lacks.tensors.get(name).is_none()) {
        None => Ok(()),
        Some((name, _)) => Err(MergeError::Missing {
            file: lacks.name.clone(),
            other: has.name.clone(),
            tensor: name.to_owned(),
        }),
    }
}

/// Returns a tensor's numbers of one copy.
fn numbers(part: &Part<'_>, name: &str) -> Result<Vec<f64>, MergeError> {
    let numbers = part.tensors.get(name).map_or_else(Vec::new, |own| own.kind.numbers(&own.bytes));
    if numbers.iter().any(|number| !number.is_finite()) {
        return Err(MergeError::NotFinite { file: part.name.clone(), tensor: name.to_owned() });
    }
    Ok(numbers)
}

fn mean_of(taken: &[(&Part<'_>, f64)], name: &str, kind: Kind) -> Result<Vec<u8>, MergeError> {
    let mean_name = name.strip_suffix("running_var").filter(|base| base.is_empty() || base.ends_with('.'));
    let mean_name = mean_name.map(|base| format!("{base}running_mean"));
    let has_mean = |own: &String| taken[0].0.tensors.get(own).is_some_and(|mean| mean.kind.is_float());
    let Some(mean_name) = mean_name.filter(has_mean) else {
        let sum = sum(taken, |part| numbers(part, name))?;
        return Ok(kind.bytes(&sum));
    };
    let squares = sum(taken, |part| {
        let (own, means) = (numbers(part, name)?, numbers(part, &mean_name)?);
        Ok(own.iter().zip(means).map(|(own, mean)| own + mean * mean).collect())
    })?;
    let means = sum(taken, |part| numbers(part, &mean_name))?;
    let variance: Vec<f64> = squares.iter().zip(means).map(|(own, mean)| own - mean * mean).collect();
    Ok(kind.bytes(&variance))
}

/// Returns the sum of what copies have, by weight, in their order.
fn sum(
    taken: &[(&Part<'_>, f64)],
    values: impl Fn(&Part<'_>) -> Result<Vec<f64>, MergeError>,
) -> Result<Vec<f64>, MergeError> {
    let mut total: Option<Vec<f64>> = None;
    for (part, weight) in taken {
        let own = values(part)?;
        match &mut total {
            None => total = Some(own.iter().map(|value| value * weight).collect()),
            Some(total) => total.iter_mut().zip(own).for_each(|(sum, value)| *sum += value * weight),
        }
    }
    Ok(total.unwrap_or_default())
}

/// Returns the largest of counters, which are single numbers; other integers must be equal.
fn integers(taken: &[(&Part<'_>, f64)], name: &str) -> Result<Vec<u8>, MergeError> {
    let of =
        |part: &Part<'_>| part.tensors.get(name).map(|own| (own.kind, own.bytes.clone())).unwrap_or_default();
    let first = taken[0].0;
    let (kind, mut largest) = of(first);
    let is_counter = largest.len() == kind.size() && kind != Kind::BOOL;
    for (part, _) in &taken[1..] {
        let (_, own) = of(part);
        if is_counter {
            if kind.integer(&own) > kind.integer(&largest) {
                largest = own;
            }
        } else if own != largest {
            let (file, other, tensor) = (part.name.clone(), first.name.clone(), name.to_owned());
            return Err(MergeError::Integers { file, other, tensor });
        }
    }
    Ok(largest)
}

#[expect(clippy::cast_precision_loss, reason = "steps are far below 2^52")]
fn real(steps: u64) -> f64 {
    steps as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tensors: &[(&str, &str, &[f64])]) -> Tensors {
        let tensors = tensors.iter().map(|(name, kind, values)| {
            let kind = Kind::named(kind).expect("a type");
            let shape = if values.len() == 1 { Vec::new() } else { vec![values.len() as u64] };
            ((*name).to_owned(), safetensors::Tensor { kind, shape, bytes: kind.bytes(values) })
        });
        Tensors::new(tensors.collect(), None)
    }

    fn merged(files: &[(&Tensors, u64)]) -> Result<Tensors, MergeError> {
        let parts = files.iter().enumerate().map(|(number, &(tensors, steps))| Part {
            name: format!("copy {number}"),
            tensors,
            steps,
        });
        merge(&parts.collect::<Vec<_>>())
    }

    fn values(tensors: &Tensors, name: &str) -> Vec<f64> {
        let own = tensors.get(name).expect("a tensor");
        own.kind.numbers(&own.bytes)
    }

    #[test]
    fn two_copies_by_their_steps() {
        let one = [
            ("w", "F32", &[1.0, 2.0][..]),
            ("bn.running_mean", "F32", &[0.0]),
            ("bn.running_var", "F32", &[1.0]),
            ("bn.num_batches_tracked", "I64", &[300.0]),
        ];
        let two = [
            ("w", "F32", &[3.0, -2.0][..]),
            ("bn.running_mean", "F32", &[2.0]),
            ("bn.running_var", "F32", &[3.0]),
            ("bn.num_batches_tracked", "I64", &[100.0]),
        ];
        let merged = merged(&[(&file(&one), 300), (&file(&two), 100)]).expect("merged");
        assert_eq!(values(&merged, "w"), [1.5, 1.0]);
        assert_eq!(values(&merged, "bn.running_mean"), [0.5]);
        assert_eq!(values(&merged, "bn.running_var"), [2.25]);
        assert_eq!(values(&merged, "bn.num_batches_tracked"), [300.0]);
    }

    #[test]
    fn a_copy_without_steps_is_left_out_and_whatever_does_not_fit_is_refused() {
        let own = file(&[("w", "F64", &[1.0, 2.0])]);
        let nan = file(&[("w", "F64", &[1.0, f64::NAN])]);
        assert_eq!(merged(&[(&own, 5), (&nan, 0)]).map(|all| values(&all, "w")), Ok(vec![1.0, 2.0]));
        let refused = |other: &Tensors| merged(&[(&own, 5), (other, 1)]).expect_err("refused").to_string();
        assert_eq!(refused(&nan), "w of copy 1 has numbers that are not finite");
        assert_eq!(
            refused(&file(&[("w", "F32", &[1.0, 2.0])])),
            "the shape or type of w differs between copy 1 and copy 0"
        );
        assert_eq!(
            refused(&file(&[("v", "F64", &[1.0, 2.0])])),
            "copy 1 has no tensor w, but copy 0 has one"
        );
        assert_eq!(merged(&[(&own, 0)]), Err(MergeError::NoSteps));
        let table = |last| file(&[("index", "I32", &[0.0, 1.0, last])]);
        assert!(merged(&[(&table(2.0), 1), (&table(2.0), 1)]).is_ok());
        assert_eq!(
            merged(&[(&table(2.0), 1), (&table(3.0), 1)]).expect_err("refused").to_string(),
            "index is not a counter, and its integers differ between copy 1 and copy 0"
        );
    }
}
