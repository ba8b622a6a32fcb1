//! The files to which jobs print: reads a part of a file as it grows, and waits for growth.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// Number of bytes read at a time.
const BLOCK: u64 = 1 << 16;

/// A part of a file that is read incrementally.
#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    pub path: PathBuf,
    /// The next byte to read.
    pub position: u64,
    /// The byte at which the part ends; `None` if it ends with the file.
    pub end: Option<u64>,
}

impl FilePart {
    /// Returns whether the file exists.
    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Returns the next bytes; empty if there are no more yet, or no file.
    ///
    /// A file that has become shorter was truncated or replaced, and is read from its beginning.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub(crate) fn read(&mut self) -> io::Result<Vec<u8>> {
        let Some((mut file, length)) = self.open()? else { return Ok(Vec::new()) };
        if length < self.position {
            self.position = 0;
        }
        let left = self.end.unwrap_or(u64::MAX).saturating_sub(self.position).min(BLOCK);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.position))?;
        file.take(left).read_to_end(&mut bytes)?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    /// Returns the last `bytes` of the remaining part; empty without a file.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub(crate) fn tail(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        if let Some((_, length)) = self.open()? {
            let end = self.end.unwrap_or(length).min(length);
            self.position = self.position.max(end.saturating_sub(bytes));
        }
        let mut text = Vec::new();
        loop {
            let next = self.read()?;
            if next.is_empty() {
                return Ok(text);
            }
            text.extend(next);
        }
    }

    /// Moves to the beginning of the last `lines` lines.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub(crate) fn skip_to_last(&mut self, lines: u64) -> io::Result<()> {
        let Some((mut file, length)) = self.open()? else { return Ok(()) };
        let end = self.end.unwrap_or(u64::MAX).min(length);
        let (mut to, mut found) = (end, 0);
        while to > self.position {
            let from = to.saturating_sub(BLOCK).max(self.position);
            let mut block = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            file.by_ref().take(to - from).read_to_end(&mut block)?;
            for (place, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                let after = from + place as u64 + 1;
                // The final line end does not begin another line.
                found += u64::from(after < end);
                if found == lines && after < end || lines == 0 {
                    self.position = if lines == 0 { end } else { after };
                    return Ok(());
                }
            }
            to = from;
        }
        if lines == 0 {
            self.position = end.max(self.position);
        }
        Ok(())
    }

    /// Opens the file again, because only then does a network file system ask its server for the file's
    /// length.
    #[expect(clippy::disallowed_methods, reason = "the output of jobs is read here alone")]
    fn open(&self) -> io::Result<Option<(File, u64)>> {
        match File::open(&self.path) {
            Ok(file) => {
                let length = file.metadata()?.len();
                Ok(Some((file, length)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Notifies about growing files if the system supports it, but not about files on a network file system to
/// which another node writes.
#[derive(Debug)]
pub(crate) struct FileGrowth(Option<Inotify>);

impl FileGrowth {
    pub(crate) fn new() -> Self {
        Self(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok())
    }

    /// Starts watching a file; has no effect if the file does not exist yet.
    pub(crate) fn watch(&self, path: &Path) {
        if let Some(inotify) = &self.0 {
            // Adding the same file again has no effect. Without a watch, the next check finds new data.
            let _ = inotify.add_watch(path, AddWatchFlags::IN_MODIFY);
        }
    }

    /// Returns a descriptor that becomes readable after growth.
    pub(crate) fn news(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Discards pending notifications.
    pub(crate) fn forget(&self) {
        while self
            .0
            .as_ref()
            .is_some_and(|inotify| inotify.read_events().is_ok_and(|events| !events.is_empty()))
        {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the last lines of a part of a text.
    fn last(text: &str, (from, end): (u64, Option<u64>), lines: u64) -> String {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        io::Write::write_all(&mut file, text.as_bytes()).expect("writes");
        let mut part = FilePart { path: file.path().to_owned(), position: from, end };
        part.skip_to_last(lines).expect("reads");
        String::from_utf8(part.tail(u64::MAX).expect("reads")).expect("text")
    }

    #[test]
    fn the_last_lines_of_a_part_are_found() {
        let check = |part, lines, expected: &str| {
            assert_eq!(last("one\ntwo\n\nfour\nfi", part, lines), expected, "{part:?} {lines}");
        };
        check((0, None), 1, "fi");
        check((0, None), 2, "four\nfi");
        check((0, None), 4, "two\n\nfour\nfi");
        check((0, None), 9, "one\ntwo\n\nfour\nfi");
        check((0, None), 0, "");
        check((0, Some(14)), 1, "four\n");
        check((0, Some(14)), 2, "\nfour\n");
        check((4, Some(14)), 9, "two\n\nfour\n");
        check((0, Some(0)), 3, "");
        assert_eq!(last("alone", (0, None), 0), "");
    }

    #[test]
    fn lines_longer_than_a_block_are_whole() {
        let long = "x".repeat(200_000);
        let text = format!("{long}\n{long}\n");
        assert_eq!(last(&text, (0, None), 1).len(), 200_001);
        assert_eq!(last(&text, (0, None), 2).len(), 400_002);
    }

    #[test]
    fn a_file_that_was_emptied_is_read_from_its_beginning() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut part = FilePart { path: file.path().to_owned(), position: 7, end: None };
        io::Write::write_all(&mut file.as_file(), b"new").expect("writes");
        assert_eq!(part.read().expect("reads"), b"new");
        assert_eq!(part.read().expect("reads"), b"");
        let mut nowhere = FilePart { path: "/nowhere/at/all".into(), position: 0, end: None };
        assert!(nowhere.read().expect("reads").is_empty() && !nowhere.exists());
    }

    #[test]
    fn growth_is_told() {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let growth = FileGrowth::new();
        growth.watch(file.path());
        let told = |wait| {
            let mut asked = [PollFd::new(growth.news().expect("a watch"), PollFlags::POLLIN)];
            poll(&mut asked, PollTimeout::from(wait)).expect("polls") > 0
        };
        assert!(!told(0_u16));
        io::Write::write_all(&mut file, b"x").expect("writes");
        assert!(told(10_000_u16));
        growth.forget();
        assert!(!told(0_u16));
    }
}
