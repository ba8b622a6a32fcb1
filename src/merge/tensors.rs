//! The tensors of a safetensors file.
//!
//! The crate `safetensors` reads and checks headers. It would write `__metadata__` in a varying order, so
//! this module writes the header itself: the same tensors give the same bytes.

use std::collections::BTreeMap;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::element::{Float, is_integer};

/// A tensor: its elements in order as little-endian bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) kind: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

/// The tensors of a file by name, and the other entries of its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensors {
    tensors: BTreeMap<String, Tensor>,
    metadata: Option<BTreeMap<String, String>>,
}

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileError {
    #[error("is not a safetensors file: {0}")]
    Form(&'static str),
    #[error("is not a safetensors file: its header cannot be read: {0}")]
    Header(String),
    #[error("tensor {0} has a type that cannot be merged: {1}")]
    Kind(String, Dtype),
}

/// Size of the length field of the header, in bytes.
const LENGTH: usize = 8;

/// The header key that is not a tensor.
const METADATA: &str = "__metadata__";

impl Tensor {
    pub(super) fn with(&self, bytes: Vec<u8>) -> Self {
        Self { bytes, shape: self.shape.clone(), ..*self }
    }
}

impl Tensors {
    pub(super) fn new(tensors: BTreeMap<String, Tensor>, metadata: Option<BTreeMap<String, String>>) -> Self {
        Self { tensors, metadata }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    pub(super) fn metadata(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.as_ref()
    }

    /// Parses a file.
    ///
    /// # Errors
    /// If it is not a valid safetensors file, or a tensor has a type that cannot be merged.
    pub fn read(bytes: &[u8]) -> Result<Self, FileError> {
        let length = bytes.first_chunk::<LENGTH>().ok_or(FileError::Form("it is too short"))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (header, data) =
            bytes[LENGTH..].split_at_checked(length).ok_or(FileError::Form("its header is cut off"))?;
        let header: Metadata = serde_json::from_slice(header)
            .map_err(|error| FileError::Header(wrong_entry(header).unwrap_or_else(|| error.to_string())))?;
        if header.data_len() != data.len() {
            return Err(FileError::Form("its tensors are not as long as its header says"));
        }
        let metadata = header.metadata().clone().map(|entries| entries.into_iter().collect());
        let tensors = header.tensors().into_iter().map(|(name, info)| tensor(name, info, data));
        Ok(Self { tensors: tensors.collect::<Result<_, _>>()?, metadata })
    }

    /// Returns the bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut header = Map::new();
        if let Some(metadata) = &self.metadata {
            header.insert(METADATA.to_owned(), json!(metadata));
        }
        let mut end = 0;
        for (name, tensor) in &self.tensors {
            let begin = end;
            end += tensor.bytes.len();
            let entry = json!({"dtype": tensor.kind, "shape": tensor.shape, "data_offsets": [begin, end]});
            header.insert(name.clone(), entry);
        }
        let mut text = Value::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(LENGTH), b' ');
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text);
        self.tensors.values().for_each(|tensor| bytes.extend(&tensor.bytes));
        bytes
    }
}

/// Returns the problem of the first invalid entry in a refused header; `None` if the header is not a JSON
/// object, or if each of its entries is valid by itself.
fn wrong_entry(header: &[u8]) -> Option<String> {
    let entries: Map<String, Value> = serde_json::from_slice(header).ok()?;
    entries.into_iter().filter(|(name, _)| name != METADATA).find_map(|(name, entry)| {
        let why = match serde_json::from_value::<TensorInfo>(entry) {
            Err(error) => error.to_string(),
            Ok(info) => {
                let (begin, end) = info.data_offsets;
                let at_begin = TensorInfo { data_offsets: (0, end.saturating_sub(begin)), ..info };
                Metadata::new(None, vec![(String::new(), at_begin)]).err()?.to_string()
            }
        };
        Some(format!("tensor {name}: {why}"))
    })
}

fn tensor(name: String, info: &TensorInfo, data: &[u8]) -> Result<(String, Tensor), FileError> {
    let kind = info.dtype;
    if Float::of(kind).is_none() && !is_integer(kind) && kind != Dtype::BOOL {
        return Err(FileError::Kind(name, kind));
    }
    let (begin, end) = info.data_offsets;
    let bytes = data.get(begin..end).unwrap_or_default().to_vec();
    Ok((name, Tensor { kind, shape: info.shape.clone(), bytes }))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;

    fn file_with(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
    }

    #[test]
    fn a_file_reads_back_and_a_broken_one_is_refused() {
        let kind = Dtype::BF16;
        let tensors = [("a", vec![2, 1]), ("b", vec![]), ("c", vec![0])].map(|(name, shape)| {
            let count: usize = shape.iter().product();
            (name.to_owned(), Tensor { kind, shape, bytes: vec![7; 2 * count] })
        });
        let metadata = ["source", "format", "epoch"].map(|key| (key.to_owned(), "pt".to_owned()));
        let file = Tensors::new(tensors.into(), Some(metadata.into()));
        let bytes = file.to_bytes();
        assert_snapshot!(String::from_utf8_lossy(&bytes[8..bytes.len() - 6]), @r#"{"__metadata__":{"epoch":"pt","format":"pt","source":"pt"},"a":{"data_offsets":[0,4],"dtype":"BF16","shape":[2,1]},"b":{"data_offsets":[4,6],"dtype":"BF16","shape":[]},"c":{"data_offsets":[6,6],"dtype":"BF16","shape":[0]}}"#);
        assert_eq!(Tensors::read(&bytes), Ok(file));
        let cut = Tensors::read(&bytes[..bytes.len() - 1]);
        assert_eq!(cut, Err(FileError::Form("its tensors are not as long as its header says")));
        assert_eq!(Tensors::read(&bytes[..20]), Err(FileError::Form("its header is cut off")));
        assert_eq!(Tensors::read(b"PK"), Err(FileError::Form("it is too short")));
    }

    #[test]
    fn a_bad_header_is_refused_with_what_is_wrong() {
        let refused = |header: &str| {
            let header = header.replace("HUGE", &u64::MAX.to_string());
            Tensors::read(&file_with(&header, &[0; 8])).expect_err("refused").to_string()
        };
        let said = [
            "PK",
            r#"{"w": {"dtype": "F32", "shape": [2]}}"#,
            r#"{"w": {"dtype": "F7", "shape": [2], "data_offsets": [0, 8]}}"#,
            r#"{"w": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}}"#,
            r#"{"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}"#,
            r#"{"v": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}, "w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}"#,
            r#"{"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}"#,
            r#"{"__metadata__": {"format": 1}}"#,
            r#"{"w": {"dtype": "F32", "shape": [HUGE, HUGE], "data_offsets": [0, HUGE]}}"#,
            r#"{"w": {"dtype": "U8", "shape": [HUGE], "data_offsets": [0, HUGE]}}"#,
        ]
        .map(refused);
        assert_snapshot!(said.join("\n"), @"
        is not a safetensors file: its header cannot be read: expected value at line 1 column 1
        is not a safetensors file: its header cannot be read: tensor w: missing field `data_offsets`
        is not a safetensors file: its header cannot be read: tensor w: unknown variant `F7`, expected one of `BOOL`, `F4`, `F6_E2M3`, `F6_E3M2`, `U8`, `I8`, `F8_E5M2`, `F8_E4M3`, `F8_E8M0`, `F8_E4M3FNUZ`, `F8_E5M2FNUZ`, `I16`, `U16`, `F16`, `BF16`, `I32`, `U32`, `F32`, `C64`, `F64`, `I64`, `U64`
        tensor w has a type that cannot be merged: F8_E4M3
        is not a safetensors file: its header cannot be read: tensor w: invalid shape, data type, or offset for tensor
        is not a safetensors file: its header cannot be read: invalid offset for tensor `w`
        is not a safetensors file: its header cannot be read: tensor w: invalid shape, data type, or offset for tensor
        is not a safetensors file: its header cannot be read: invalid type: integer `1`, expected a string at line 1 column 29
        is not a safetensors file: its header cannot be read: tensor w: overflow computing buffer size from shape and/or element type
        is not a safetensors file: its header cannot be read: tensor w: overflow computing buffer size from shape and/or element type
        ");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "\\{\"w\":\\{\"dtype\":\"(F32|F8|I8)\",\"shape\":\\[[0-9]{0,20}\\],\"data_offsets\":\\[[0-9]{1,20},[0-9]{1,20}\\]\\}\\}") {
            let _any = Tensors::read(&bytes);
            let _any = Tensors::read(&file_with(&text, &bytes));
        }
    }
}
