//! Merges copies of one training: averages weights in safetensors files by the number of steps of each copy.
//!
//! Sums are computed in double precision in the order of the copies and rounded to the type of the tensor.
//! `hsched_ddp/merge.py` does the same in the copies.

mod element;
mod tensors;

use std::collections::BTreeMap;

use thiserror::Error;

use self::element::{Float, integer, is_integer};
pub use self::tensors::Tensors;
use hsched_model::number::to_f64;

/// The tensors of one copy, and its number of steps.
pub struct MergePart<'a> {
    /// Name of the copy in messages.
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

/// Returns each copy's weight: its fraction of all steps.
///
/// # Errors
/// If no copy has done a step.
pub fn weights(parts: &[MergePart<'_>]) -> Result<Vec<f64>, MergeError> {
    let total: u64 = parts.iter().map(|part| part.steps).sum();
    if total == 0 {
        return Err(MergeError::NoSteps);
    }
    Ok(parts.iter().map(|part| to_f64(part.steps) / to_f64(total)).collect())
}

/// Returns the merged tensors: weighted means, the variance of the mixture for `running_var`, and the maximum
/// of counters. Ignores copies without steps.
///
/// # Errors
/// If no copy has done a step, if the copies do not match, or if one contains NaN or infinities.
pub fn merge(parts: &[MergePart<'_>]) -> Result<Tensors, MergeError> {
    let weights = weights(parts)?;
    let taken: Vec<(&MergePart<'_>, f64)> =
        parts.iter().zip(weights).filter(|(part, _)| part.steps > 0).collect();
    let first = taken[0].0;
    for (part, _) in &taken {
        check_names(first, part)?;
        check_names(part, first)?;
    }
    let mut merged = BTreeMap::new();
    for (name, tensor) in first.tensors.iter() {
        for (part, _) in &taken[1..] {
            let other = part
                .tensors
                .get(name)
                .filter(|other| (other.kind, &other.shape) == (tensor.kind, &tensor.shape));
            if other.is_none() {
                let (file, other, tensor) = (part.name.clone(), first.name.clone(), name.to_owned());
                return Err(MergeError::Shape { file, other, tensor });
            }
        }
        let bytes = match Float::of(tensor.kind) {
            Some(float) => mean_of(&taken, name, float)?,
            None => integers(&taken, name)?,
        };
        merged.insert(name.to_owned(), tensor.with(bytes));
    }
    Ok(Tensors::new(merged, first.tensors.metadata().cloned()))
}

fn check_names(has: &MergePart<'_>, lacks: &MergePart<'_>) -> Result<(), MergeError> {
    match has.tensors.iter().find(|(name, _)| lacks.tensors.get(name).is_none()) {
        None => Ok(()),
        Some((name, _)) => Err(MergeError::Missing {
            file: lacks.name.clone(),
            other: has.name.clone(),
            tensor: name.to_owned(),
        }),
    }
}

/// Returns the numbers of one copy's tensor.
fn numbers(part: &MergePart<'_>, name: &str) -> Result<Vec<f64>, MergeError> {
    let found =
        part.tensors.get(name).and_then(|tensor| Some(Float::of(tensor.kind)?.numbers(&tensor.bytes)));
    let numbers = found.unwrap_or_default();
    if numbers.iter().any(|number| !number.is_finite()) {
        return Err(MergeError::NotFinite { file: part.name.clone(), tensor: name.to_owned() });
    }
    Ok(numbers)
}

fn mean_of(taken: &[(&MergePart<'_>, f64)], name: &str, float: Float) -> Result<Vec<u8>, MergeError> {
    let mean_name = name.strip_suffix("running_var").filter(|base| base.is_empty() || base.ends_with('.'));
    let mean_name = mean_name.map(|base| format!("{base}running_mean"));
    let has_mean =
        |text: &String| taken[0].0.tensors.get(text).is_some_and(|mean| Float::of(mean.kind).is_some());
    let Some(mean_name) = mean_name.filter(has_mean) else {
        let sum = sum(taken, |part| numbers(part, name))?;
        return Ok(float.bytes(&sum));
    };
    // Squaring the means themselves would lose precision to cancellation if they were large.
    let centres = sum(taken, |part| numbers(part, &mean_name))?;
    let variance = sum(taken, |part| {
        let (variances, means) = (numbers(part, name)?, numbers(part, &mean_name)?);
        let offsets = means.iter().zip(&centres).map(|(mean, centre)| mean - centre);
        Ok(variances.iter().zip(offsets).map(|(variance, offset)| variance + offset * offset).collect())
    })?;
    Ok(float.bytes(&variance))
}

/// Returns the weighted sum over the copies, in their order.
fn sum(
    taken: &[(&MergePart<'_>, f64)],
    values: impl Fn(&MergePart<'_>) -> Result<Vec<f64>, MergeError>,
) -> Result<Vec<f64>, MergeError> {
    let mut total: Option<Vec<f64>> = None;
    for (part, weight) in taken {
        let part_values = values(part)?;
        match &mut total {
            None => total = Some(part_values.iter().map(|value| value * weight).collect()),
            Some(total) => total.iter_mut().zip(part_values).for_each(|(sum, value)| *sum += value * weight),
        }
    }
    Ok(total.unwrap_or_default())
}

/// Returns the maximum of counters, which are single integers; other integers and booleans must be equal.
fn integers(taken: &[(&MergePart<'_>, f64)], name: &str) -> Result<Vec<u8>, MergeError> {
    let first = taken[0].0;
    let mut largest: &[u8] = &[];
    for (part, _) in taken {
        let Some(tensor) = part.tensors.get(name) else { continue };
        let is_counter = is_integer(tensor.kind) && 8 * tensor.bytes.len() == tensor.kind.bitsize();
        let is_larger = || integer(tensor.kind, &tensor.bytes) > integer(tensor.kind, largest);
        if largest.is_empty() || (is_counter && is_larger()) {
            largest = &tensor.bytes;
        } else if !is_counter && tensor.bytes != largest {
            let (file, other, tensor) = (part.name.clone(), first.name.clone(), name.to_owned());
            return Err(MergeError::Integers { file, other, tensor });
        }
    }
    Ok(largest.to_vec())
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;

    use super::*;
    use hsched_model::number::to_i64;

    fn bytes(kind: Dtype, values: &[f64]) -> Vec<u8> {
        match (Float::of(kind), kind) {
            (Some(float), _) => float.bytes(values),
            (None, kind) => values
                .iter()
                .flat_map(|value| to_i64(*value).to_le_bytes()[..kind.bitsize() / 8].to_vec())
                .collect(),
        }
    }

    fn file(tensors: &[(&str, Dtype, &[f64])]) -> Tensors {
        let tensors = tensors.iter().map(|&(name, kind, values)| {
            let shape = if values.len() == 1 { Vec::new() } else { vec![values.len()] };
            (name.to_owned(), tensors::Tensor { kind, shape, bytes: bytes(kind, values) })
        });
        Tensors::new(tensors.collect(), None)
    }

    fn merged(files: &[(&Tensors, u64)]) -> Result<Tensors, MergeError> {
        let parts = files.iter().enumerate().map(|(number, &(tensors, steps))| MergePart {
            name: format!("copy {number}"),
            tensors,
            steps,
        });
        merge(&parts.collect::<Vec<_>>())
    }

    fn values(tensors: &Tensors, name: &str) -> Vec<f64> {
        let tensor = tensors.get(name).expect("a tensor");
        Float::of(tensor.kind).expect("a float").numbers(&tensor.bytes)
    }

    #[test]
    fn a_large_mean_takes_no_digits_from_the_variance() {
        let copy =
            |mean| [("bn.running_mean", Dtype::F32, mean), ("bn.running_var", Dtype::F32, &[0.001][..])];
        let (one, two) = (copy(&[1e6][..]), copy(&[1e6 + 0.25][..]));
        let merged = merged(&[(&file(&one), 300), (&file(&two), 100)]).expect("merged");
        let variance = values(&merged, "bn.running_var")[0];
        assert!((variance - (0.001 + 0.1875 * 0.0625)).abs() < 1e-8, "{variance}");
    }

    #[test]
    fn two_copies_by_their_steps() {
        let one = [
            ("w", Dtype::F32, &[1.0, 2.0][..]),
            ("bn.running_mean", Dtype::F32, &[0.0]),
            ("bn.running_var", Dtype::F32, &[1.0]),
            ("bn.num_batches_tracked", Dtype::I64, &[300.0]),
        ];
        let two = [
            ("w", Dtype::F32, &[3.0, -2.0][..]),
            ("bn.running_mean", Dtype::F32, &[2.0]),
            ("bn.running_var", Dtype::F32, &[3.0]),
            ("bn.num_batches_tracked", Dtype::I64, &[100.0]),
        ];
        let merged = merged(&[(&file(&one), 300), (&file(&two), 100)]).expect("merged");
        assert_eq!(values(&merged, "w"), [1.5, 1.0]);
        assert_eq!(values(&merged, "bn.running_mean"), [0.5]);
        assert_eq!(values(&merged, "bn.running_var"), [2.25]);
        let counter = merged.get("bn.num_batches_tracked").expect("a tensor");
        assert_eq!(integer(counter.kind, &counter.bytes), 300);
    }

    #[test]
    fn a_copy_without_steps_is_left_out_and_whatever_does_not_fit_is_refused() {
        let tensors = file(&[("w", Dtype::F64, &[1.0, 2.0])]);
        let nan = file(&[("w", Dtype::F64, &[1.0, f64::NAN])]);
        assert_eq!(merged(&[(&tensors, 5), (&nan, 0)]).map(|all| values(&all, "w")), Ok(vec![1.0, 2.0]));
        let refused =
            |other: &Tensors| merged(&[(&tensors, 5), (other, 1)]).expect_err("refused").to_string();
        assert_eq!(refused(&nan), "w of copy 1 has numbers that are not finite");
        assert_eq!(
            refused(&file(&[("w", Dtype::F32, &[1.0, 2.0])])),
            "the shape or type of w differs between copy 1 and copy 0"
        );
        assert_eq!(
            refused(&file(&[("v", Dtype::F64, &[1.0, 2.0])])),
            "copy 1 has no tensor w, but copy 0 has one"
        );
        assert_eq!(merged(&[(&tensors, 0)]), Err(MergeError::NoSteps));
        let table = |last| file(&[("index", Dtype::I32, &[0.0, 1.0, last])]);
        assert!(merged(&[(&table(2.0), 1), (&table(2.0), 1)]).is_ok());
        assert_eq!(
            merged(&[(&table(2.0), 1), (&table(3.0), 1)]).expect_err("refused").to_string(),
            "index is not a counter, and its integers differ between copy 1 and copy 0"
        );
    }
}
