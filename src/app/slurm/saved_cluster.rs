//! Clusters in saved output of Slurm, as tables, JSON or bundles of `hsched doctor`.

use std::error::Error;
use std::path::{Path, PathBuf};

use crate::app::input::{self, ClusterWithNotes, name};
use hsched_model::ErrorId;
use hsched_model::formats;
use hsched_slurm::saved::{self, Columns, Saved, SavedBundle};
use hsched_slurm::sinfo;
use hsched_ui::{Exit, Failure};

/// The byte order mark of little-endian UTF-16.
const UTF16_MARK: &[u8] = &[0xff, 0xfe];

/// The saved output of a cluster.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct SavedClusterArgs {
    /// Read saved Slurm output instead of asking Slurm; - reads standard input.
    ///
    /// Accepts output of `scontrol show node`, `scontrol show nodes --json`, `sinfo --json`, tables of `sinfo` that name
    /// or count nodes, cluster files, output of `hsched inventory --format json`, and bundles of `hsched doctor --bundle`.
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    from: Option<PathBuf>,
    /// Format of the table given to --from, if it has no header line.
    ///
    /// This is the argument of `sinfo -o` or `-O`, such as '%N|%G|%T' or 'NodeList:|,Gres:|,StateLong:|'.
    #[arg(long, value_name = "FORMAT", requires = "from")]
    columns: Option<Columns>,
}

impl SavedClusterArgs {
    /// Returns the file of `--from`.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.from.as_deref()
    }

    /// Returns the cluster of `--from`; `None` without it.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid (exit 78).
    pub(crate) fn read(&self) -> Option<Result<ClusterWithNotes, Failure>> {
        Some(read(self.from.as_deref()?, self.columns.as_ref()))
    }
}

/// Returns the cluster in a file of any supported kind.
fn read(path: &Path, columns: Option<&Columns>) -> Result<ClusterWithNotes, Failure> {
    let bytes = input::bytes(path)?;
    if SavedBundle::is_bundle(&bytes) {
        return bundled_cluster(&bytes, path);
    }
    let (text, mut notes) = match String::from_utf8(bytes) {
        Ok(text) => (text, Vec::new()),
        Err(error) if error.as_bytes().starts_with(UTF16_MARK) => (utf16(error.as_bytes()), Vec::new()),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            (text, vec![format!("{}: not valid UTF-8; invalid bytes are shown as \u{fffd}", name(path))])
        }
    };
    let wrong = |error: &dyn Error| {
        let failure = Failure::from_error(Exit::BadInput, error).id(ErrorId::ClusterFile);
        Failure { message: format!("{} {}", name(path), failure.message), ..failure }
    };
    let (cluster, said) = match saved::read(&text, columns) {
        Ok(Saved::ClusterFile) => return input::cluster_file(&text, path),
        Ok(Saved::Inventory(json)) => formats::inventory::parse(&json).map_err(|error| wrong(&error))?,
        Ok(Saved::Printed(cluster, notes)) => (cluster, notes),
        Err(error) if error.is_of_another_kind() => return Err(wrong(&error).hint(saved::READABLE)),
        Err(error) => return Err(wrong(&error)),
    };
    notes.extend(said);
    Ok(ClusterWithNotes { cluster, notes })
}

/// Returns the cluster of a bundle.
fn bundled_cluster(bytes: &[u8], path: &Path) -> Result<ClusterWithNotes, Failure> {
    let wrong = |error: &dyn Error| {
        let failure = Failure::from_error(Exit::BadInput, error).id(ErrorId::ClusterFile);
        Failure { message: format!("{} {}", name(path), failure.message), ..failure }
    };
    let bundle = SavedBundle::parse(bytes).map_err(|error| wrong(&error))?;
    let printed = bundle.output("sinfo").map_err(|error| wrong(&error))?;
    let (cluster, notes) = sinfo::parse(printed).map_err(|error| wrong(&error))?;
    Ok(ClusterWithNotes { cluster, notes })
}

/// Decodes text written by a Windows shell.
fn utf16(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}
