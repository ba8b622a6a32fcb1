//! A submission at work: its guard, and what was asked of it.

#![expect(
    clippy::disallowed_methods,
    reason = "this room starts the ranks, and opens the file that they write to"
)]

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use nix::sys::inotify::WatchDescriptor;

use crate::engine::{End, Gpus, SubmissionKey};
use crate::local::guard::{KILL, Order, STOP};
use crate::local::wake::Wake;
use crate::model::{JobId, Time};

/// The name of the hidden subcommand that is a guard.
const GUARD: &str = "guard";

/// A submission that was started.
#[derive(Debug)]
pub(super) struct Running {
    pub job_id: JobId,
    pub since: Time,
    pub gpus: Gpus,
    /// Whether it was killed because somebody wanted that.
    pub is_killed: bool,
    /// How it ended, and when.
    pub ended: Option<(End, Time)>,
    pub watch: Option<WatchDescriptor>,
    words: Option<ChildStdin>,
}

/// What a guard gets beside its order.
pub(super) struct Surroundings<'a> {
    /// The program that has the guard as a subcommand.
    pub program: &'a Path,
    /// The file to which the job writes, at its end.
    pub output: &'a Path,
    pub variables: &'a [(&'static str, String)],
}

impl Running {
    /// Starts a guard; its end is told to `tell`.
    ///
    /// # Errors
    /// When the output cannot be opened or the system starts no process.
    pub(super) fn start(
        of: &SubmissionKey,
        order: &Order,
        surroundings: &Surroundings<'_>,
        (since, gpus): (Time, Gpus),
        tell: Sender<Wake>,
    ) -> io::Result<Self> {
        let output = OpenOptions::new().create(true).append(true).open(surroundings.output)?;
        let mut guard = Command::new(surroundings.program)
            .arg(GUARD)
            .args(order.words())
            .envs(surroundings.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let (job_id, words, own) = (JobId(guard.id()), guard.stdin.take(), of.clone());
        let wait = move || {
            if let Ok(status) = guard.wait() {
                // Nobody listens any more when hsched ends.
                let _ = tell.send(Wake::Ended(own, status));
            }
        };
        thread::Builder::new().name("guard".into()).spawn(wait)?;
        Ok(Self { job_id, since, gpus, is_killed: false, ended: None, watch: None, words })
    }

    /// Asks it to save and end.
    ///
    /// # Errors
    /// When its guard has ended.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.say(STOP)
    }

    /// Ends it with all its processes.
    ///
    /// # Errors
    /// When its guard has ended.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.is_killed = true;
        self.say(KILL)
    }

    fn say(&mut self, word: u8) -> io::Result<()> {
        let Some(words) = &mut self.words else { return Err(io::ErrorKind::BrokenPipe.into()) };
        words.write_all(&[word])
    }

    /// Returns how a submission ended by the status of its guard; `closing` says that hsched wanted all to end.
    pub(super) fn end(&self, status: ExitStatus, closing: bool) -> End {
        match status.code() {
            Some(0) => End::Completed,
            Some(85) if closing => End::Interrupted,
            _ if self.is_killed => {
                if closing {
                    End::Interrupted
                } else {
                    End::Cancelled
                }
            }
            Some(85) => End::Saved,
            Some(code) => End::Failed { exit: u8::try_from(code).unwrap_or(1), signal: 0 },
            // Its guard was killed, and by nobody here.
            None => End::Failed { exit: 0, signal: 9 },
        }
    }
}
