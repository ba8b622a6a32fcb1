//! The numbers of the newest journal line and the newest snapshot, in a separate file: the other files must
//! reach them. A truncated journal and an older copy of a file look intact by themselves.
//!
//! It is written last and read first, so it never claims more than the other files contain. It has a fixed
//! length and is overwritten in place.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Deserialize;

use crate::store::files::private;
use crate::store::names::NEWEST;
use crate::store::seal::{LINE, SealVerdict};

/// Line numbers of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Newest {
    /// The last line.
    pub line: u64,
    /// The last line included in the newest snapshot.
    pub state: u64,
}

impl Newest {
    /// Reads the numbers; `None` if they are missing or damaged.
    pub(super) fn read(root: &Path) -> Option<Self> {
        let text = fs::read(root.join(NEWEST)).ok()?;
        let line = text.strip_suffix(b"\n")?;
        (LINE.check(line) == SealVerdict::Whole).then(|| serde_json::from_slice(line).ok()).flatten()
    }

    /// Writes the numbers; `sync` also waits until they are on disk. If the file cannot be written, it is
    /// removed, because missing numbers are better than old ones.
    pub(super) fn write(self, root: &Path, sync: bool) {
        let path = root.join(NEWEST);
        let text = LINE.put(format!("{{\"line\":{:>20},\"state\":{:>20}}}", self.line, self.state)) + "\n";
        let write = || -> io::Result<()> {
            let file = private().write(true).truncate(false).open(&path)?;
            file.write_all_at(text.as_bytes(), 0)?;
            if file.metadata()?.len() != text.len() as u64 {
                file.set_len(text.len() as u64)?;
            }
            if sync { file.sync_data() } else { Ok(()) }
        };
        if write().is_err() {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, path) = (folder.path(), folder.path().join(NEWEST));
        assert_eq!(Newest::read(root), None);
        let numbers = Newest { line: u64::MAX, state: 7 };
        numbers.write(root, true);
        assert_eq!(Newest::read(root), Some(numbers));
        let text = fs::read(&path).expect("a file");
        fs::write(&path, text.repeat(2)).expect("a file");
        assert_eq!(Newest::read(root), None);
        Newest { line: 8, state: 7 }.write(root, false);
        assert_eq!(Newest::read(root), Some(Newest { line: 8, state: 7 }));
        let text = fs::read(&path).expect("a file");
        for bit in 0..8 * text.len() {
            let mut flipped = text.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, flipped).expect("a file");
            assert_eq!(Newest::read(root), None, "bit {bit}");
            fs::write(&path, &text[..bit / 8]).expect("a file");
            assert_eq!(Newest::read(root), None, "{} bytes", bit / 8);
        }
    }
}
