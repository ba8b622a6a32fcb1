//! The guard of a submission: a separate process that starts the script, relays hsched's messages, and ends
//! all processes when the script or hsched ends, or a signal asks the guard to end.

#![expect(clippy::disallowed_methods, reason = "this module starts the ranks, and marks what it starts")]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, read, setsid};

use crate::processes::{MOST, Mark, Process, TOKEN, kill_all};
use hsched_engine::clock::{Clock as _, SystemClock};

// Messages of hsched to a guard, one byte each; end of file means that hsched has ended.
/// Asks the script to save and end.
pub(super) const STOP: u8 = b's';
/// Ends the script and all its processes without asking them to save.
pub(super) const KILL: u8 = b'k';
/// Starts the script that a guard holds back.
pub(super) const GO: u8 = b'g';

/// The program that a guard starts, and its working directory.
#[derive(Clone, Debug)]
pub struct GuardOrder {
    /// The bash script.
    pub script: PathBuf,
    pub workdir: PathBuf,
    /// The file that identifies the guard, so that a later hsched can find the remaining processes.
    pub mark: PathBuf,
    /// Time that processes get after SIGTERM if the guard ends before the script: `srun` needs a moment to
    /// end its tasks on other nodes.
    pub farewell: Duration,
    /// Whether the script waits for a message of hsched.
    pub is_held: bool,
}

impl GuardOrder {
    /// Returns the order as arguments of a command line.
    pub(super) fn words(&self) -> [OsString; 5] {
        let [script, workdir, mark] =
            [&self.script, &self.workdir, &self.mark].map(|path| path.clone().into_os_string());
        [script, workdir, mark, self.farewell.as_secs().to_string().into(), self.is_held.to_string().into()]
    }
}

/// Why a guard ends.
#[derive(Clone, Copy, Debug)]
enum GuardEnd {
    /// The guarded script has ended with this status.
    Script(u8),
    /// hsched asks for the end, or has ended.
    Hsched,
    /// Another process asks for it, for example because Slurm ends the allocation.
    Signal(Signal),
}

/// Exit status of a script that saved and can be resumed.
const SAVED: u8 = 85;

/// Status of a script that the request to stop killed: it had not set its trap yet, so no rank had started.
const KILLED_BY_STOP: u8 = 128 + Signal::SIGUSR1 as u8;

/// Time between checks for killed processes, in milliseconds, if no signal arrives.
const PAUSE_MS: u16 = 50;

/// Starts a script and supervises it; returns its exit status, which is 128 or more after a signal, or 137 if
/// hsched killed the script or has ended, and 85 if a request to stop ended the script before any rank
/// started. A signal from a process other than hsched ends the script, and then the guard itself, so hsched
/// can distinguish it from a failure of the job. Before the script starts, such a signal ends the guard at
/// once.
///
/// When it returns, all processes of the script have ended, except those of other users (a script can start them
/// with `sudo`) and those that SIGKILL has not ended within 30 s; they are named in the output. If standard input ends, hsched, which holds the
/// other end, has ended, and the guard kills the script.
///
/// # Errors
/// If the script cannot be started, or a system call fails.
pub fn guard(order: &GuardOrder) -> io::Result<u8> {
    // Leaves the terminal's session: its Ctrl-C is meant for hsched.
    setsid()?;
    // Orphaned processes become children of this process, not of the system's init.
    set_child_subreaper(true)?;
    let heard: SigSet =
        [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    heard.thread_block()?;
    let signals = SignalFd::with_flags(&heard, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let process =
        Process::find(Pid::this().as_raw()).ok_or_else(|| io::Error::other("/proc is not available"))?;
    let own_mark = Mark::new(process)?;
    write_mark(&order.mark, &own_mark.text())?;
    let stdin = io::stdin();
    let cause = if let Some(end) = early_end(&stdin, &signals, order.is_held)? {
        end
    } else {
        let script = start(order, &own_mark, &heard)?;
        let script = Pid::from_raw(script.id().cast_signed());
        let cause = attend(script, &signals, &stdin).inspect_err(|_| end_all(process.pid, &signals))?;
        if !matches!(cause, GuardEnd::Script(_)) && !order.farewell.is_zero() {
            say_farewell(process.pid, &signals, order.farewell);
        }
        end_all(process.pid, &signals);
        cause
    };
    // No process is left that could be ended, so the mark has no further use.
    let _ = fs::remove_file(&order.mark);
    match cause {
        GuardEnd::Script(status) => return Ok(status),
        GuardEnd::Hsched => {}
        GuardEnd::Signal(signal) => {
            heard.thread_unblock()?;
            raise(signal)?;
        }
    }
    Ok(128 + 9)
}

/// Starts the script with the guard's token and with no blocked signals, which it would inherit.
fn start(order: &GuardOrder, mark: &Mark, heard: &SigSet) -> io::Result<Child> {
    heard.thread_unblock()?;
    let mut script = Command::new("bash");
    script.arg(&order.script).current_dir(&order.workdir).stdin(Stdio::null());
    let script = script.envs(mark.token.iter().map(|token| (TOKEN, token))).spawn();
    heard.thread_block()?;
    script
}

/// Relays messages until the guard has a reason to end; returns the reason. The script may still be running.
fn attend(script: Pid, signals: &SignalFd, stdin: &io::Stdin) -> io::Result<GuardEnd> {
    let mut is_asked = false;
    loop {
        let signal = told(signals);
        // Check before waiting: a child that ended before signals were blocked caused no event.
        let status = reap(script);
        match (status, signal) {
            // Slurm may have signaled the script as well, so its failure counts as the signal's.
            (Some(1..=84 | 86..) | None, Some(signal)) => return Ok(GuardEnd::Signal(signal)),
            (Some(KILLED_BY_STOP), _) if is_asked => return Ok(GuardEnd::Script(SAVED)),
            (Some(status), _) => return Ok(GuardEnd::Script(status)),
            (None, None) => {}
        }
        let mut waiting =
            [PollFd::new(signals.as_fd(), PollFlags::POLLIN), PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let said = waiting[1].revents().is_some_and(|events| !events.is_empty());
        let mut words = [0; 16];
        if said {
            match read(stdin, &mut words) {
                Ok(0) => return Ok(GuardEnd::Hsched),
                Ok(count) if words[..count].contains(&KILL) => return Ok(GuardEnd::Hsched),
                // The script was not reaped yet, so its process id cannot belong to another process.
                Ok(_) => {
                    is_asked = true;
                    let _ = kill(script, Signal::SIGUSR1);
                }
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Reads the pending signals; returns one that asks for the end.
fn told(signals: &SignalFd) -> Option<Signal> {
    let mut told = None;
    while let Ok(Some(signal)) = signals.read_signal() {
        let signal = Signal::try_from(signal.ssi_signo.cast_signed()).ok();
        told = told.or(signal.filter(|signal| *signal != Signal::SIGCHLD));
    }
    told
}

/// Reaps all ended children; returns the status of the script if it is one of them.
fn reap(script: Pid) -> Option<u8> {
    let mut status = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == script => status = u8::try_from(code & 0xff).ok(),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == script => {
                status = u8::try_from(128 + signal as i32).ok();
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return status,
            Ok(_) => {}
        }
    }
}

/// Asks all descendants of this process to end, and waits for them, but not longer than `most`.
fn say_farewell(pid: i32, signals: &SignalFd, most: Duration) {
    let clock = SystemClock::default();
    for process in Process::descendants(pid) {
        process.signal(Signal::SIGTERM);
    }
    while clock.elapsed() < most && !Process::descendants(pid).is_empty() {
        rest(signals);
    }
}

/// Kills all descendants of this process, and names those that cannot be ended in the job's output.
fn end_all(pid: i32, signals: &SignalFd) {
    let clock = SystemClock::default();
    let pause = || {
        rest(signals);
        clock.elapsed() < MOST
    };
    let left = kill_all(|| Process::descendants(pid), |process| process.signal(Signal::SIGKILL), pause);
    if let Some(left) = left {
        // The output may be closed.
        let _ = io::Write::write_all(&mut io::stderr(), format!("hsched: {left}\n").as_bytes());
    }
}

/// Waits briefly for ended children and reaps them.
fn rest(signals: &SignalFd) {
    let mut waiting = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut waiting, PAUSE_MS);
    while signals.read_signal().is_ok_and(|signal| signal.is_some()) {}
    while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status != WaitStatus::StillAlive) {}
}

/// Reads the messages that arrive before the start, and waits for the start if the script is held; returns
/// why the guard ends without starting the script, if it does.
fn early_end(stdin: &io::Stdin, signals: &SignalFd, mut is_held: bool) -> io::Result<Option<GuardEnd>> {
    loop {
        let most = if is_held { PollTimeout::NONE } else { PollTimeout::ZERO };
        let mut waiting =
            [PollFd::new(stdin.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        poll(&mut waiting, most)?;
        if let Some(signal) = told(signals) {
            return Ok(Some(GuardEnd::Signal(signal)));
        }
        if waiting[0].revents().is_some_and(|events| !events.is_empty()) {
            // At the end of file, hsched has ended.
            let mut word = [KILL];
            read(stdin, &mut word)?;
            match word[0] {
                GO => is_held = false,
                STOP => return Ok(Some(GuardEnd::Script(SAVED))),
                _ => return Ok(Some(GuardEnd::Hsched)),
            }
        } else if !is_held {
            return Ok(None);
        }
    }
}

/// Writes the mark atomically.
fn write_mark(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&new)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    fs::rename(new, path)
}
