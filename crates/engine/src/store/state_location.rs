//! Properties of the state directory's location: whether it is writable, lockable and visible to other nodes.

use std::fs::{self, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::statfs;

/// A location for a state directory; inspecting it changes nothing.
#[derive(Debug)]
pub struct StateLocation {
    /// The directory itself, or its nearest existing parent.
    pub existing: PathBuf,
    /// Permission bits of that directory.
    pub mode: u32,
    /// Why files cannot be written there.
    pub unwritable: Option<io::Error>,
    /// Why files there cannot be locked.
    pub unlockable: Option<io::Error>,
    /// Bytes that this user can still write, if the system reports it.
    pub free: Option<u64>,
    /// The file system's name, and whether other nodes can see the folder; `None` if unknown.
    pub file_system: Option<(&'static str, bool)>,
}

/// File systems by the kernel's number, and whether each is a network file system.
const FILE_SYSTEMS: [(u64, &str, bool); 16] = [
    (0x6969, "NFS", true),
    (0x0BD0_0BD0, "Lustre", true),
    (0x4750_4653, "GPFS", true),
    (0x1983_0326, "BeeGFS", true),
    (0x00C3_6400, "CephFS", true),
    (0xAAD7_AAEA, "PanFS", true),
    (0x5346_414F, "AFS", true),
    (0xFE53_4D42, "SMB", true),
    (0xFF53_4D42, "CIFS", true),
    (0x0102_1994, "tmpfs", false),
    (0x8584_58F6, "ramfs", false),
    (0xEF53, "ext4", false),
    (0x5846_5342, "XFS", false),
    (0x9123_683E, "Btrfs", false),
    (0x2FC1_2FC1, "ZFS", false),
    (0x794C_7630, "overlay", false),
];

impl StateLocation {
    /// Inspects a directory, or the place where it would be created.
    ///
    /// Tests writing and locking with an unnamed file that disappears immediately.
    ///
    /// # Errors
    /// If no parent directory can be inspected, or the nearest existing parent is not a directory.
    pub fn look(directory: &Path) -> io::Result<Self> {
        let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned();
        let data = fs::metadata(&existing)?;
        if !data.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("{} is not a directory", existing.display()),
            ));
        }
        let (unwritable, unlockable) = match tempfile::tempfile_in(&existing) {
            Ok(mut file) => {
                let locked = file.try_lock().map_err(|error| match error {
                    TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
                    TryLockError::Error(error) => error,
                });
                (file.write_all(b"hsched").err(), locked.err())
            }
            Err(error) => (Some(error), None),
        };
        let status = statfs(&existing).ok();
        Ok(Self {
            mode: data.permissions().mode() & 0o7777,
            unwritable,
            unlockable,
            #[expect(
                clippy::useless_conversion,
                clippy::cast_sign_loss,
                reason = "its type differs between systems"
            )]
            free: status.map(|status| {
                u64::from(status.blocks_available()).saturating_mul(status.block_size() as u64)
            }),
            #[expect(clippy::cast_sign_loss, reason = "a number of 32 bits, signed on some systems")]
            file_system: status
                .and_then(|status| file_system(status.filesystem_type().0 as u64 & 0xFFFF_FFFF)),
            existing,
        })
    }
}

fn file_system(number: u64) -> Option<(&'static str, bool)> {
    FILE_SYSTEMS.iter().find(|(known, ..)| *known == number).map(|&(_, name, shared)| (name, shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_looked_at_without_a_trace() {
        let root = tempfile::tempdir().expect("a directory");
        let place = StateLocation::look(&root.path().join("not/yet")).expect("looks");
        assert_eq!(place.existing, root.path());
        assert!(place.unwritable.is_none() && place.unlockable.is_none(), "{place:?}");
        assert!(place.free.is_some_and(|free| free > 0), "{place:?}");
        assert_eq!(fs::read_dir(root.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = StateLocation::look(&file.path().join("state")).expect_err("no directory");
        assert!(error.to_string().contains("not a directory"), "{error}");
    }

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        assert_eq!(
            (file_system(0x6969), file_system(0xEF53), file_system(1)),
            (Some(("NFS", true)), Some(("ext4", false)), None)
        );
    }
}
