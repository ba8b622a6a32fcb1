//! Safetensors files: the length of a header, the header as JSON, the bytes of all tensors.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::merge::element::Kind;

/// A tensor: its bytes in the order of its elements, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) kind: Kind,
    pub(super) shape: Vec<u64>,
    pub(super) bytes: Vec<u8>,
}

/// The tensors of a file by name, and what else its header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensors {
    tensors: BTreeMap<String, Tensor>,
    metadata: Option<Map<String, Value>>,
}

/// Why bytes are no such file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileError {
    #[error("is not a safetensors file: {0}")]
    Form(&'static str),
    #[error("tensor {0} has a type that cannot be merged: {1}")]
    Kind(String, String),
    #[error("the size of tensor {0} does not match its shape")]
    Size(String),
}

/// The bytes of the header's length.
const LENGTH: usize = 8;

/// The key of the header that is no tensor.
const METADATA: &str = "__metadata__";

impl Tensor {
    pub(super) fn with(&self, bytes: Vec<u8>) -> Self {
        Self { bytes, shape: self.shape.clone(), ..*self }
    }
}

impl Tensors {
    pub(super) fn new(tensors: BTreeMap<String, Tensor>, metadata: Option<Map<String, Value>>) -> Self {
        Self { tensors, metadata }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, own)| (name.as_str(), own))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    pub(super) fn metadata(&self) -> Option<&Map<String, Value>> {
        self.metadata.as_ref()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is cut off, or anything in it does not fit the rest.
    pub fn read(bytes: &[u8]) -> Result<Self, FileError> {
        let length = bytes.first_chunk::<LENGTH>().ok_or(FileError::Form("it is too short"))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (header, data) =
            bytes[LENGTH..].split_at_checked(length).ok_or(FileError::Form("its header is cut off"))?;
        let header: Map<String, Value> =
            serde_json::from_slice(header).map_err(|_| FileError::Form("its header is not JSON"))?;
        let mut file = Self { tensors: BTreeMap::new(), metadata: None };
        for (name, own) in header {
            if name == METADATA {
                file.metadata = own.as_object().cloned();
            } else {
                let tensor = tensor(&name, &own, data)?;
                file.tensors.insert(name, tensor);
            }
        }
        Ok(file)
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut header = Map::new();
        if let Some(metadata) = &self.metadata {
            header.insert(METADATA.to_owned(), Value::Object(metadata.clone()));
        }
        let mut end = 0;
        for (name, own) in &self.tensors {
            let begin = end;
            end += own.bytes.len();
            let entry = json!({"dtype": own.kind.name(), "shape": own.shape, "data_offsets": [begin, end]});
            header.insert(name.clone(), entry);
        }
        let mut text = Value::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(LENGTH), b' ');
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text);
        self.tensors.values().for_each(|own| bytes.extend(&own.bytes));
        bytes
    }
}

fn tensor(name: &str, own: &Value, data: &[u8]) -> Result<Tensor, FileError> {
    let form = || FileError::Form("the entry of a tensor is malformed");
    let dtype = own["dtype"].as_str().ok_or_else(form)?;
    let kind = Kind::named(dtype).ok_or_else(|| FileError::Kind(name.to_owned(), dtype.to_owned()))?;
    let list = |value: &Value| value.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
    let (shape, offsets) = list(&own["shape"]).zip(list(&own["data_offsets"])).ok_or_else(form)?;
    let [begin, end] = offsets[..] else { return Err(form()) };
    let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let bytes = data.get(place(begin)..place(end)).ok_or_else(|| FileError::Size(name.to_owned()))?;
    let needed = shape.iter().try_fold(kind.size() as u64, |size, own| size.checked_mul(*own));
    if needed != Some(bytes.len() as u64) {
        return Err(FileError::Size(name.to_owned()));
    }
    Ok(Tensor { kind, shape, bytes: bytes.to_vec() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_reads_back_and_a_broken_one_is_refused() {
        let kind = Kind::named("BF16").expect("a type");
        let tensors = [("a", vec![2, 1]), ("b", vec![]), ("c", vec![0])].map(|(name, shape)| {
            let count: u64 = shape.iter().product();
            (
                name.to_owned(),
                Tensor { kind, shape, bytes: vec![7; 2 * usize::try_from(count).expect("small")] },
            )
        });
        let metadata = Map::from_iter([("format".to_owned(), json!("pt"))]);
        let file = Tensors::new(tensors.into(), Some(metadata));
        let bytes = file.to_bytes();
        assert_eq!(Tensors::read(&bytes), Ok(file));
        assert_eq!(Tensors::read(&bytes[..bytes.len() - 1]), Err(FileError::Size("b".to_owned())));
        assert_eq!(Tensors::read(&bytes[..20]), Err(FileError::Form("its header is cut off")));
        assert_eq!(Tensors::read(b"PK"), Err(FileError::Form("it is too short")));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "\\{\"w\":\\{\"dtype\":\"(F32|F8|I8)\",\"shape\":\\[[0-9]{0,20}\\],\"data_offsets\":\\[[0-9]{1,20},[0-9]{1,20}\\]\\}\\}") {
            let _any = Tensors::read(&bytes);
            let mut whole = (text.len() as u64).to_le_bytes().to_vec();
            whole.extend(text.bytes().chain(bytes));
            let _any = Tensors::read(&whole);
        }
    }
}
