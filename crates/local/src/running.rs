//! A running submission: its processes with their guard, and the requests to them.

#![expect(
    clippy::disallowed_methods,
    reason = "this module starts the ranks, and opens the file that they write to"
)]

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;

use nix::fcntl::OFlag;
use nix::sys::inotify::WatchDescriptor;

use crate::gate::Gate;
use crate::guard::{GO, GuardOrder, KILL, STOP};
use crate::wake::Wake;
use hsched_engine::pool::SubmissionStart;
use hsched_engine::{End, Gpus, SubmissionKey};
use hsched_model::{JobId, Seconds, Time};

/// The name of the hidden subcommand for guards.
pub(super) const GUARD: &str = "guard";

/// The beginnings of the lines of a script that differ between runs of the same work.
const OF_RUN: [&str; 6] =
    ["#SBATCH", "hs_run=", "hs_plan=", "hs_epochs_done=", "hs_report_dir=", "hs_helper_dir="];

/// Processes with their guard.
#[derive(Debug)]
pub(super) struct GuardedProcesses {
    /// The submission for which the processes were started: once parked, another submission of the job can
    /// take them over.
    pub origin: SubmissionKey,
    pub job_id: JobId,
    pub gate: Gate,
    /// The work of the processes, as [`work`] returns it.
    pub work: String,
    pub watch: Option<WatchDescriptor>,
    words: Option<ChildStdin>,
}

/// A started submission.
#[derive(Debug)]
pub(super) struct LocalSubmission {
    /// The processes of the submission, until they have ended or are parked.
    pub guarded: Option<GuardedProcesses>,
    pub job_id: JobId,
    pub since: Time,
    pub gpus: Gpus,
    pub step: SubmissionStep,
    /// Epochs that were completed before the submission.
    pub epochs: u64,
    /// The submission's grace period for saving.
    pub grace: Seconds,
    /// Duration of the training's last epoch before this submission took it over, if known.
    pub epoch: Option<Seconds>,
    /// Whether the submission was killed on request.
    pub is_killed: bool,
    /// How and when the submission ended.
    pub ended: Option<(End, Time)>,
    /// The watch on the folder with its reports, if that is not the folder of its gate.
    pub watch: Option<WatchDescriptor>,
}

/// The progress of a submission.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SubmissionStep {
    /// The submission waits until these others have made room.
    Held {
        after: BTreeSet<SubmissionKey>,
    },
    /// The submission was parked and was asked to continue.
    GoingOn,
    AtWork,
    /// The submission was asked to park at the end of its epoch, by a given time.
    Parking {
        until: Time,
    },
    /// The submission was asked to save and end.
    Asked,
}

/// The parameters of a guard besides its order.
pub(super) struct Surroundings<'a> {
    /// The program that has the guard as a subcommand.
    pub program: &'a Path,
    /// The file to which the job's output is appended.
    pub output: &'a Path,
    pub variables: &'a [(&'static str, String)],
}

impl GuardedProcesses {
    /// Starts a guard; its end is sent to `tell`.
    ///
    /// # Errors
    /// If the output cannot be opened or the process cannot be started.
    pub(super) fn start(
        origin: &SubmissionKey,
        order: &GuardOrder,
        surroundings: &Surroundings<'_>,
        gate: Gate,
        work: String,
        tell: Sender<Wake>,
    ) -> io::Result<Self> {
        // A link that appears after this line was not created by the user.
        let follow = if surroundings.output.is_symlink() { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        let mut options = OpenOptions::new();
        let output =
            options.create(true).append(true).custom_flags(follow.bits()).open(surroundings.output)?;
        let mut guard = Command::new(surroundings.program)
            .arg(GUARD)
            .args(order.words())
            .envs(surroundings.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let (job_id, words, key) = (JobId(guard.id()), guard.stdin.take(), origin.clone());
        let wait = move || {
            if let Ok(status) = guard.wait() {
                // The receiver is gone once hsched ends.
                let _ = tell.send(Wake::Ended(key, status));
            }
        };
        thread::Builder::new().name("guard".into()).spawn(wait)?;
        Ok(Self { origin: origin.clone(), job_id, gate, work, watch: None, words })
    }

    /// Lets a guard start the script that it holds back.
    ///
    /// # Errors
    /// If the guard has ended.
    pub(super) fn go(&mut self) -> io::Result<()> {
        self.say(GO)
    }

    /// Asks the processes to save and end.
    ///
    /// # Errors
    /// If their guard has ended.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.say(STOP)
    }

    /// Ends all processes.
    ///
    /// # Errors
    /// If their guard has ended.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.say(KILL)
    }

    fn say(&mut self, word: u8) -> io::Result<()> {
        let Some(words) = &mut self.words else { return Err(io::ErrorKind::BrokenPipe.into()) };
        words.write_all(&[word])
    }
}

impl LocalSubmission {
    /// Returns a submission with these processes.
    pub(super) fn new(
        guarded: GuardedProcesses,
        since: Time,
        start: &SubmissionStart,
        epochs: u64,
        step: SubmissionStep,
    ) -> Self {
        let (job_id, gpus, grace) = (guarded.job_id, start.gpus.clone(), start.grace);
        Self {
            guarded: Some(guarded),
            job_id,
            since,
            gpus,
            step,
            epochs,
            grace,
            epoch: None,
            is_killed: false,
            ended: None,
            watch: None,
        }
    }

    /// Returns whether the submission's processes were started for `origin`.
    pub(super) fn is_of(&self, origin: &SubmissionKey) -> bool {
        self.guarded.as_ref().is_some_and(|guarded| guarded.origin == *origin)
    }

    /// Asks the submission to save and end. If the guard has already ended, the event of its end is pending.
    pub(super) fn stop(&mut self) {
        self.step = SubmissionStep::Asked;
        let _ = self.guarded.as_mut().map(GuardedProcesses::stop);
    }

    /// Ends the submission with all its processes.
    pub(super) fn kill(&mut self) {
        self.is_killed = true;
        let _ = self.guarded.as_mut().map(GuardedProcesses::kill);
    }

    /// Returns how the submission ended, according to the status of its guard; `closing` means that hsched
    /// asked all submissions to end.
    pub(super) fn end(&self, status: ExitStatus, closing: bool) -> End {
        match status.code() {
            Some(0) => End::Completed,
            Some(85 | 86 | 143) if closing => End::Interrupted,
            // Its waiting time expired at the moment when it was asked to continue.
            Some(85) if self.step == SubmissionStep::GoingOn => End::Interrupted,
            _ if self.is_killed => {
                if closing {
                    End::Interrupted
                } else {
                    End::Cancelled
                }
            }
            Some(85) => End::Saved,
            Some(code) => End::of_status(u8::try_from(code).unwrap_or(1), 0),
            // Slurm or another process has asked its guard to end.
            None if status.signal() != Some(9) => End::Interrupted,
            // Its guard was killed, but not by hsched.
            None => End::Failed { exit: 0, signal: 9 },
        }
    }
}

/// Returns the lines of a script that do not depend on its run: a parked training can continue in another run
/// with the same work.
pub(super) fn work(script: &str) -> String {
    let of_work = |line: &&str| !OF_RUN.iter().any(|candidate| line.starts_with(candidate));
    script.lines().filter(of_work).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_two_runs_do_the_same_where_all_else_is_equal() {
        let script = |run: &str, batch: u32| {
            format!(
                "#!/bin/bash\n#SBATCH --comment={run}\nhs_run={run}\nhs_plan={run}\nhs_epochs_done={batch}\n\
                 hs_report_dir=/s/{run}/report/a\nhs_helper_dir=/s/{run}\nhs_ranks=(\n  '0 0 {batch}'\n)\n"
            )
        };
        assert_eq!(work(&script("r1", 8)), work(&script("r2", 8)));
        assert_ne!(work(&script("r1", 8)), work(&script("r1", 9)));
    }
}
