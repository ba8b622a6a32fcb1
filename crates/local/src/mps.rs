//! NVIDIA's MPS daemon, with which runs that share a GPU compute on it at the same time. The daemon runs
//! under a guard, so it ends with hsched, even if hsched is killed.

#![expect(clippy::disallowed_methods, reason = "it starts the daemon, under a guard")]

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::guard::{GuardOrder, STOP};
use crate::processes::end_leftovers;
use crate::running::GUARD;
use hsched_engine::pool::MemberId;
use hsched_engine::store::StateDir;

/// The script that starts the daemon and ends it.
const SCRIPT: &str = include_str!("../../../templates/mps.sh");

/// A running daemon; it ends when this is dropped.
#[derive(Debug)]
pub struct MpsDaemon {
    guard: Child,
    /// The folder with the daemon's pipe and its logs.
    folder: String,
}

impl MpsDaemon {
    /// Starts the daemon for the GPUs that this process sees; first ends a daemon that a killed guard left
    /// behind. `program` has the guard as a subcommand. Each member of a pool has its own daemon.
    ///
    /// # Errors
    /// If the script cannot be written, or the daemon is not installed or does not start; the message is the
    /// end of a sentence.
    pub fn start(program: &Path, directory: &StateDir, member: Option<&MemberId>) -> Result<Self, String> {
        let name = member.map_or_else(|| "mps".to_owned(), |member| format!("mps-{member}"));
        let script = directory.root().join(format!("{name}.sh"));
        let mark = directory.root().join(format!("{name}.guard"));
        // If a daemon is left, this one does not start, and says so.
        let _ = end_leftovers(&mark);
        directory.write_script(&script, SCRIPT).map_err(|error| error.in_one_line())?;
        let farewell = Duration::from_secs(10);
        let order = GuardOrder { script, workdir: PathBuf::from("/"), mark, farewell, is_held: false };
        let start = || -> io::Result<(Child, String)> {
            let mut guard = Command::new(program)
                .arg(GUARD)
                .args(order.words())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()?;
            let mut line = String::new();
            if let Some(stdout) = guard.stdout.take() {
                BufReader::new(stdout).read_line(&mut line)?;
            }
            Ok((guard, line))
        };
        let (mut guard, line) = start().map_err(|error| format!("it cannot be started: {error}"))?;
        if let Some(folder) = line.trim_end().strip_prefix("ready ") {
            return Ok(Self { guard, folder: folder.to_owned() });
        }
        let _ = guard.wait();
        Err(if line.is_empty() { "its script ended".to_owned() } else { line.trim_end().to_owned() })
    }

    /// Returns the variables by which programs find the daemon.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let of = |name: &str| format!("{}/{name}", self.folder);
        vec![("CUDA_MPS_PIPE_DIRECTORY", of("pipe")), ("CUDA_MPS_LOG_DIRECTORY", of("log"))]
    }
}

impl Drop for MpsDaemon {
    fn drop(&mut self) {
        // `wait` would close the guard's standard input: the guard would conclude that hsched has ended, and
        // end the script before it has told the daemon to quit.
        let mut words = self.guard.stdin.take();
        if let Some(words) = &mut words {
            // If the guard has ended, the daemon has also ended.
            let _ = words.write_all(&[STOP]);
        }
        // The script waits for the daemon only for a limited time.
        let _ = self.guard.wait();
        drop(words);
    }
}
