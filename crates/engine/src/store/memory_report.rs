//! The most device memory that a run has reported, read as its report grows.

#![expect(clippy::disallowed_methods, reason = "the reports are state, and this module reads them")]

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::store::report_line::EpochLine;
use hsched_model::Bytes;

/// The part of rank 0's report that has been read, and the most memory in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    most: Option<Bytes>,
    /// The length of the lines that have been read.
    length: u64,
}

impl MemoryReport {
    /// Reads the lines that the report in this folder has gained, and returns the most memory in all of them;
    /// `None` if there is none yet. A file that cannot be read now is read at the next call.
    pub fn read(&mut self, folder: &Path) -> Option<Bytes> {
        if let Ok(new) = self.gained(folder) {
            let end = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
            let text = String::from_utf8_lossy(&new[..end]);
            let said = text.lines().filter_map(|line| EpochLine::parse(line).ok()?.max_memory).max();
            self.most = self.most.max(said.map(Bytes));
            self.length += end as u64;
        }
        self.most
    }

    /// Returns the text after the lines that have been read, or the whole file if it has become shorter.
    fn gained(&mut self, folder: &Path) -> io::Result<Vec<u8>> {
        let mut file = File::open(folder.join("rank-0.jsonl"))?;
        if file.metadata()?.len() < self.length {
            self.length = 0;
        }
        file.seek(SeekFrom::Start(self.length))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;

    #[test]
    fn each_line_is_read_once_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rank-0.jsonl");
        let mut report = MemoryReport::default();
        assert_eq!(report.read(folder.path()), None);
        let mut add = |text: &str| {
            let mut file = fs::OpenOptions::new().append(true).create(true).open(&path).expect("a file");
            file.write_all(text.as_bytes()).expect("writes");
            (report.read(folder.path()).map(|most| most.0), report.length)
        };
        let first = "{\"epoch\": 1, \"max_memory\": 5}\n";
        let length = first.len() as u64;
        assert_eq!(add(first), (Some(5), length));
        assert_eq!(add("{\"epoch\": 2, \"max_mem"), (Some(5), length));
        assert_eq!(add("ory\": 9}\n"), (Some(9), 2 * length));
        assert_eq!(add("odd\n{\"epoch\": 3, \"max_memory\": 7}\n"), (Some(9), 3 * length + 4));
        // A file that was replaced by a shorter one is read from its beginning.
        fs::write(&path, "{\"epoch\": 1, \"max_memory\": 11}\n").expect("writes");
        assert_eq!(report.read(folder.path()), Some(Bytes(11)));
    }
}
