//! The gate of a training that hsched has started: requests to its ranks, and their answers. docs/training.md
//! describes the protocol.

#![expect(
    clippy::disallowed_methods,
    reason = "the ranks and hsched exchange messages in files; this module writes and reads them"
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

/// A gate: files under a path that is unique to a start of a job.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    path: PathBuf,
    ranks: usize,
    /// Number of the last request.
    number: u64,
}

/// A request of hsched to a training.
#[derive(Clone, Copy, Debug)]
pub(super) enum GateRequest<'a> {
    Park,
    Offload,
    /// Continue, and report into a folder.
    Go {
        reports: &'a Path,
    },
}

/// The answer of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct RankWord {
    /// Number of the last request that the rank has read.
    number: u64,
    pub state: Stand,
    /// Whether the rank's program parks on request at the end of an epoch.
    #[serde(default)]
    parks: bool,
    #[serde(default)]
    pub memory: RankMemory,
}

/// The state of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stand {
    Waiting,
    Running,
    Parked,
    Offloaded,
}

/// The memory use of a rank in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct RankMemory {
    /// Peak use of host memory.
    #[serde(default)]
    pub host: u64,
    /// Total memory of the rank's device; `None` if it computes on the CPU.
    #[serde(default)]
    pub device: Option<u64>,
    /// Device memory in use.
    #[serde(default)]
    pub held: u64,
    /// Peak use of device memory.
    #[serde(default)]
    pub peak: u64,
}

impl Gate {
    /// Returns a new gate in a folder.
    pub(super) fn new(folder: &Path, ranks: usize) -> Self {
        Self { path: folder.join(GATE), ranks, number: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a request for all ranks and wakes them.
    ///
    /// # Errors
    /// If the request cannot be written; it then has no effect.
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

    /// Asks a parked training to end, as a rank does that has waited too long.
    ///
    /// # Errors
    /// If the request cannot be written.
    pub(super) fn end(&self) -> io::Result<()> {
        fs::write(self.beside(".stop"), "")?;
        self.ring();
        Ok(())
    }

    /// Returns the answers of the ranks; `None` if one of the answers is missing or incomplete.
    pub(super) fn words(&self) -> Option<Vec<RankWord>> {
        let word =
            |rank: usize| serde_json::from_slice(&fs::read(self.beside(&format!(".{rank}"))).ok()?).ok();
        (0..self.ranks).map(word).collect()
    }

    /// Returns the answers of the ranks once all of them have read the last request and are in the given
    /// state.
    pub(super) fn all(&self, state: Stand) -> Option<Vec<RankWord>> {
        let words = self.words()?;
        words.iter().all(|word| (word.number, word.state) == (self.number, state)).then_some(words)
    }

    /// Returns the answers of the ranks once all of them are parked, or all are offloaded, in response to the
    /// last request.
    pub(super) fn parked(&self) -> Option<Vec<RankWord>> {
        self.all(Stand::Parked).or_else(|| self.all(Stand::Offloaded))
    }

    /// Returns whether all ranks run, have read the last request, and can park.
    pub(super) fn can_park(&self) -> bool {
        self.all(Stand::Running).is_some_and(|words| words.iter().all(|word| word.parks))
    }

    /// Wakes all ranks. A rank that does not listen polls the file.
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
