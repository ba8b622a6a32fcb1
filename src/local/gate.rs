//! The gate of a training that hsched has started: what is wanted of its ranks, and what they say. docs/training.md has the
//! protocol.

#![expect(
    clippy::disallowed_methods,
    reason = "the ranks and hsched tell each other by files; this is where hsched writes and reads them"
)]

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use serde::Deserialize;
use serde_json::json;

/// The name of a gate in the folder of the ranks' reports.
pub(super) const GATE: &str = "gate";

/// A gate: files beside a path of which no other start of a job has the same.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    path: PathBuf,
    ranks: usize,
    /// The number of the last request.
    number: u64,
}

/// What hsched wants of a training.
#[derive(Clone, Copy, Debug)]
pub(super) enum GateRequest<'a> {
    Park,
    Offload,
    /// To go on, and to report into a folder.
    Go {
        reports: &'a Path,
    },
}

/// What a rank says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct RankWord {
    /// The last request that it has read.
    number: u64,
    pub state: Stand,
    /// Whether its program waits at the end of an epoch where it is asked to.
    #[serde(default)]
    parks: bool,
    #[serde(default)]
    pub memory: RankMemory,
}

/// Where a rank stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stand {
    Waiting,
    Running,
    Parked,
    Offloaded,
}

/// The memory of a rank in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct RankMemory {
    /// The most that it has had of its host's.
    #[serde(default)]
    pub host: u64,
    /// All that its device has; `None` where it computes on none.
    #[serde(default)]
    pub device: Option<u64>,
    /// What it holds of that.
    #[serde(default)]
    pub held: u64,
    /// The most that it has held.
    #[serde(default)]
    pub peak: u64,
}

impl Gate {
    /// Returns a gate in a folder in which there is none.
    pub(super) fn new(folder: &Path, ranks: usize) -> Self {
        Self { path: folder.join(GATE), ranks, number: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Says what is wanted, for all ranks to read, and rings for them.
    ///
    /// # Errors
    /// When it cannot be written: then it is not wanted.
    pub(super) fn say(&mut self, want: GateRequest<'_>) -> io::Result<()> {
        let number = self.number + 1;
        let request = match want {
            GateRequest::Park => json!({ "number": number, "want": "park" }),
            GateRequest::Offload => json!({ "number": number, "want": "offload" }),
            GateRequest::Go { reports } => json!({ "number": number, "want": "go", "reports": reports }),
        };
        let new = self.beside(".new");
        fs::write(&new, request.to_string())?;
        fs::rename(new, &self.path)?;
        self.number = number;
        self.ring();
        Ok(())
    }

    /// Ends a training that waits, as a rank would that waited for too long.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn end(&self) -> io::Result<()> {
        fs::write(self.beside(".stop"), "")?;
        self.ring();
        Ok(())
    }

    /// Returns what the ranks say; `None` where one of them has said nothing.
    pub(super) fn words(&self) -> Option<Vec<RankWord>> {
        let word =
            |rank: usize| serde_json::from_slice(&fs::read(self.beside(&format!(".{rank}"))).ok()?).ok();
        (0..self.ranks).map(word).collect()
    }

    /// Returns what the ranks say, once all of them have read the last request and stand so.
    pub(super) fn all(&self, state: Stand) -> Option<Vec<RankWord>> {
        let words = self.words()?;
        words.iter().all(|word| (word.number, word.state) == (self.number, state)).then_some(words)
    }

    /// Returns what the ranks say, once all of them wait in their training as it was wanted last.
    pub(super) fn parked(&self) -> Option<Vec<RankWord>> {
        self.all(Stand::Parked).or_else(|| self.all(Stand::Offloaded))
    }

    /// Returns whether all ranks run, have read what was wanted before, and wait when they are asked to.
    pub(super) fn can_park(&self) -> bool {
        self.all(Stand::Running).is_some_and(|words| words.iter().all(|word| word.parks))
    }

    /// A rank that does not listen looks at the file in its own time.
    fn ring(&self) {
        for rank in 0..self.ranks {
            let mut options = OpenOptions::new();
            options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
            let _ =
                options.open(self.beside(&format!(".{rank}.bell"))).and_then(|mut bell| bell.write_all(b"!"));
        }
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(end);
        PathBuf::from(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_heard_when_all_of_them_say_the_number() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut gate = Gate::new(folder.path(), 2);
        let word = |rank: usize, text: &str| {
            fs::write(folder.path().join(format!("gate.{rank}")), text).expect("writes");
        };
        assert_eq!(gate.words(), None);
        word(0, r#"{"number": 0, "state": "running", "pid": 1, "parks": true, "memory": {"host": 7}}"#);
        assert!(!gate.can_park());
        word(1, r#"{"number": 0, "state": "running", "pid": 2, "parks": false}"#);
        assert!(!gate.can_park() && gate.all(Stand::Running).is_some());
        word(1, r#"{"number": 0, "state": "running", "pid": 2, "parks": true}"#);
        assert!(gate.can_park());
        gate.say(GateRequest::Park).expect("writes");
        let request = fs::read_to_string(folder.path().join("gate")).expect("a file");
        assert_eq!(request, r#"{"number":1,"want":"park"}"#);
        assert!(gate.all(Stand::Running).is_none());
        word(0, r#"{"number": 1, "state": "parked"}"#);
        word(1, r#"{"number": 1, "state": "par"#);
        assert!(gate.all(Stand::Parked).is_none());
        word(1, r#"{"number": 1, "state": "parked", "memory": {"device": 10, "held": 2, "peak": 3}}"#);
        let words = gate.all(Stand::Parked).expect("all have heard");
        assert_eq!(words[1].memory, RankMemory { host: 0, device: Some(10), held: 2, peak: 3 });
        gate.say(GateRequest::Go { reports: Path::new("/r") }).expect("writes");
        assert!(gate.all(Stand::Parked).is_none());
        gate.end().expect("writes");
        assert!(folder.path().join("gate.stop").exists());
    }
}
