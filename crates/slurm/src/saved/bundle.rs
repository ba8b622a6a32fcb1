//! Bundles: the output of the calls with which hsched reads from Slurm (`site_calls`), as one compressed
//! archive (`hsched.bundle/1`).
//!
//! `manifest.json` lists the calls; each output is in `NAME.txt`. All files are in the folder
//! `hsched-bundle`.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use hsched_model::number::to_u64;

const SCHEMA: &str = "hsched.bundle/1";
const FOLDER: &str = "hsched-bundle";
const MANIFEST: &str = "manifest.json";

/// Maximum size of a decompressed archive in bytes.
const LIMIT: u64 = 256 << 20;

/// First bytes of every gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The content of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedBundle {
    pub schema: String,
    /// The version of hsched that created it.
    pub hsched: String,
    /// The version of Slurm's commands, if they print one.
    pub slurm: Option<String>,
    /// Time of the bundle's creation, in Unix seconds.
    pub taken_at: f64,
    pub calls: Vec<BundledCall>,
}

/// A call and its output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BundledCall {
    pub name: String,
    pub command: String,
    /// Why there is no output.
    pub error: Option<String>,
    #[serde(skip)]
    pub output: String,
}

/// Why a bundle cannot be read.
#[derive(Debug, Error)]
pub enum BundleError {
    #[error(
        "is compressed, but not a complete bundle of hsched doctor --bundle; decompress other texts first (gunzip)"
    )]
    Unreadable,
    #[error(
        "is a compressed archive without {FOLDER}/{MANIFEST}: it is not a bundle of hsched doctor --bundle"
    )]
    NoManifest,
    #[error("its {MANIFEST} cannot be read: {0}")]
    Manifest(#[from] serde_json::Error),
    #[error("has schema {0:?}; this version reads {SCHEMA:?}")]
    Schema(String),
    #[error("has no output of {0}: {1}")]
    Missing(&'static str, String),
}

impl SavedBundle {
    /// Returns a bundle of calls.
    pub fn new(slurm: Option<String>, taken_at: f64, calls: Vec<BundledCall>) -> Self {
        let hsched = env!("CARGO_PKG_VERSION").to_owned();
        Self { schema: SCHEMA.to_owned(), hsched, slurm, taken_at, calls }
    }

    /// Returns whether these bytes are a gzip file.
    pub fn is_bundle(bytes: &[u8]) -> bool {
        bytes.starts_with(&GZIP)
    }

    /// Returns the bytes of the archive.
    ///
    /// # Errors
    /// If the archive cannot store a part of it, such as a name that contains `..`.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        let manifest = serde_json::to_string_pretty(self)? + "\n";
        let texts = self.calls.iter().map(|call| (format!("{}.txt", call.name), call.output.as_str()));
        for (name, text) in std::iter::once((MANIFEST.to_owned(), manifest.as_str())).chain(texts) {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(to_u64(self.taken_at.max(0.0)));
            archive.append_data(&mut header, format!("{FOLDER}/{name}"), text.as_bytes())?;
        }
        let mut compressed = archive.into_inner()?;
        compressed.flush()?;
        compressed.finish()
    }

    /// Returns the bundle in an archive. Nothing is unpacked to disk.
    ///
    /// # Errors
    /// If it is not an archive, not a bundle, or from a later version.
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        let mut archive = tar::Archive::new(GzDecoder::new(bytes).take(LIMIT));
        let mut files = BTreeMap::new();
        // The messages of these errors quote the content, which may be anything.
        let unreadable = |_: io::Error| BundleError::Unreadable;
        for entry in archive.entries().map_err(unreadable)? {
            let mut entry = entry.map_err(unreadable)?;
            let path = entry.path().map_err(unreadable)?.to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).map_err(unreadable)?;
            files.insert(path, String::from_utf8_lossy(&content).into_owned());
        }
        let manifest = files.get(&format!("{FOLDER}/{MANIFEST}")).ok_or(BundleError::NoManifest)?;
        let mut bundle: Self = serde_json::from_str(manifest)?;
        if bundle.schema != SCHEMA {
            return Err(BundleError::Schema(bundle.schema));
        }
        for call in &mut bundle.calls {
            call.output = files.remove(&format!("{FOLDER}/{}.txt", call.name)).unwrap_or_default();
        }
        Ok(bundle)
    }

    /// Returns the output of a call.
    ///
    /// # Errors
    /// If the bundle lacks it; the error has the reason.
    pub fn output(&self, name: &'static str) -> Result<&str, BundleError> {
        let call = self.calls.iter().find(|call| call.name == name);
        let call = call.ok_or_else(|| BundleError::Missing(name, "the call was not made".to_owned()))?;
        match &call.error {
            Some(error) => Err(BundleError::Missing(name, error.clone())),
            None => Ok(&call.output),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn bundle() -> SavedBundle {
        let call = |name: &str, error: Option<&str>| BundledCall {
            name: name.to_owned(),
            command: format!("{name} -h"),
            error: error.map(str::to_owned),
            output: if error.is_none() { format!("{name}\u{1f}1\u{1e}\n") } else { String::new() },
        };
        SavedBundle::new(
            Some("22.05.8".to_owned()),
            1_795_000_000.0,
            vec![call("sinfo", None), call("sshare", Some("denied"))],
        )
    }

    #[test]
    fn a_bundle_is_read_as_it_was_written() {
        let bytes = bundle().to_bytes().expect("an archive");
        assert!(SavedBundle::is_bundle(&bytes) && !SavedBundle::is_bundle(b"NODELIST"));
        assert_eq!(bytes, bundle().to_bytes().expect("an archive"), "the same bundle, other bytes");
        let read = SavedBundle::parse(&bytes).expect("a bundle");
        assert_eq!(read, bundle());
        assert_eq!(read.output("sinfo").ok(), Some("sinfo\u{1f}1\u{1e}\n"));
        let why = |name| read.output(name).expect_err("no output").to_string();
        assert_eq!(why("sshare"), "has no output of sshare: denied");
        assert_eq!(why("squeue"), "has no output of squeue: the call was not made");
    }

    #[test]
    fn other_archives_and_broken_ones_are_refused() {
        let bytes = bundle().to_bytes().expect("an archive");
        assert!(matches!(SavedBundle::parse(&bytes[..bytes.len() / 2]), Err(BundleError::Unreadable)));
        let mut table = GzEncoder::new(Vec::new(), Compression::fast());
        table.write_all("NODELIST|STATE|GRES\nn1|idle|gpu:a100:4\n".repeat(50).as_bytes()).expect("a table");
        let refusal = SavedBundle::parse(&table.finish().expect("bytes")).expect_err("no bundle");
        assert!(refusal.to_string().starts_with("is compressed, but not"), "{refusal}");
        assert!(refusal.source().is_none());
        let empty = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let empty = empty.into_inner().and_then(GzEncoder::finish).expect("an archive");
        assert!(matches!(SavedBundle::parse(&empty), Err(BundleError::NoManifest)));
        let later =
            SavedBundle { schema: "hsched.bundle/2".to_owned(), ..bundle() }.to_bytes().expect("an archive");
        assert!(
            matches!(SavedBundle::parse(&later), Err(BundleError::Schema(schema)) if schema == "hsched.bundle/2")
        );
    }
}
