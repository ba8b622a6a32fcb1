//! Processes of this machine from /proc: their descendants, their identity if process ids are reused, and the
//! processes that a killed guard has left behind.

#![expect(clippy::disallowed_methods, reason = "the system shows processes only as files in /proc")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use hsched_engine::clock::{Clock as _, SystemClock};

/// A process id with the start time in ticks since boot, which distinguishes processes with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub pid: i32,
    parent: i32,
    session: i32,
    start: u64,
    /// Whether the process has ended but was not reaped.
    is_dead: bool,
}

/// How long killed processes may take to end; one that waits for a broken device or file system does not end.
pub(super) const MOST: Duration = Duration::from_secs(30);

/// Time between checks for killed processes.
const PAUSE: Duration = Duration::from_millis(20);

impl Process {
    /// Returns the process with an id.
    pub(super) fn find(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses a line of `/proc/PID/stat`; the program name in parentheses may contain any characters.
    fn parse(pid: i32, text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            pid,
            is_dead: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    /// Returns all running processes.
    fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pid = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        entries.filter_map(pid).filter_map(Self::find).filter(|process| !process.is_dead).collect()
    }

    /// Returns the descendants of a process.
    pub(super) fn descendants(pid: i32) -> Vec<Self> {
        let all = Self::all();
        let (mut known, mut found) = (BTreeSet::from([pid]), Vec::new());
        loop {
            let new: Vec<Self> = all
                .iter()
                .filter(|process| known.contains(&process.parent) && !known.contains(&process.pid))
                .copied()
                .collect();
            if new.is_empty() {
                return found;
            }
            known.extend(new.iter().map(|process| process.pid));
            found.extend(new);
        }
    }

    /// Sends a signal; returns whether this user may do that. A process that has ended in the meantime needs none.
    pub(super) fn signal(self, signal: Signal) -> bool {
        kill(Pid::from_raw(self.pid), signal) != Err(Errno::EPERM)
    }

    /// Returns the process's id and the name of its program.
    fn text(self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        format!("{} ({})", self.pid, name.trim())
    }

    /// Returns whether the process's environment contains the token of a guard.
    fn carries(self, token: &str) -> bool {
        // The environment of other users' processes is unreadable.
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        let word = format!("{TOKEN}={token}");
        environment.split(|byte| *byte == 0).any(|candidate| candidate == word.as_bytes())
    }
}

/// The environment variable that identifies processes that have left the session of their guard and lost
/// their parent.
pub(super) const TOKEN: &str = "HSCHED_GUARD";

/// The identity of a guard, which it writes before it starts the script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pid: i32,
    start: u64,
    boot: String,
    /// The value of [`TOKEN`] in the environment of the guard's processes; guards of hsched 0.1.0 had none.
    pub token: Option<String>,
}

impl Mark {
    /// Returns the mark of a guard before it starts its script.
    ///
    /// # Errors
    /// If random numbers cannot be read from the system.
    pub(super) fn new(guard: Process) -> io::Result<Self> {
        let token = format!("{:016x}{:016x}", getrandom::u64()?, getrandom::u64()?);
        Ok(Self { pid: guard.pid, start: guard.start, boot: boot(), token: Some(token) })
    }

    /// Returns the mark as the line that [`Self::parse`] reads.
    pub(super) fn text(&self) -> String {
        let Self { pid, start, boot, token } = self;
        format!("{pid} {start} {boot} {}\n", token.as_deref().unwrap_or_default())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        Some(Self {
            pid: words.next()?.parse().ok()?,
            start: words.next()?.parse().ok()?,
            boot: words.next()?.to_owned(),
            token: words.next().map(str::to_owned),
        })
    }

    /// Returns the remaining processes of a guard: itself, its session, and all with its token.
    fn left(&self, all: &[Process]) -> Vec<Process> {
        let this_process = i32::try_from(std::process::id()).unwrap_or_default();
        // A session id is not reused while the session has members. If another process has this id, no member
        // is left.
        let leader = all.iter().find(|other| other.pid == self.pid);
        let has_session = leader.is_none_or(|leader| leader.start == self.start);
        let is_left = |other: &&Process| {
            let is_member = || has_session && other.session == self.pid;
            let carries = || self.token.as_ref().is_some_and(|token| other.carries(token));
            other.pid != this_process && other.start >= self.start && (is_member() || carries())
        };
        all.iter().filter(is_left).copied().collect()
    }
}

/// Kills the processes that `find` returns until it returns no process that this user may signal, or `pause`
/// returns false; returns a sentence about the remaining processes.
pub(super) fn kill_all(
    find: impl Fn() -> Vec<Process>,
    kill: impl Fn(Process) -> bool,
    mut pause: impl FnMut() -> bool,
) -> Option<String> {
    loop {
        let left = find();
        // Each gets the signal.
        let may_end = left.iter().filter(|process| kill(**process)).count() > 0;
        if may_end && pause() {
            continue;
        }
        let names: Vec<String> = left.into_iter().map(Process::text).collect();
        return (!names.is_empty()).then(|| {
            let names = names.join(", ");
            format!("these processes belong to another user or do not react, and may still use GPUs: {names}")
        });
    }
}

/// Ends the remaining processes of a guard by its mark; returns a sentence about those that cannot be ended. A
/// guard that was not killed has left no other processes, even if its mark remains.
pub(super) fn end_leftovers(mark: &Path) -> Option<String> {
    let text = fs::read_to_string(mark).unwrap_or_default();
    let mark = Mark::parse(&text).filter(|mark| mark.boot == boot())?;
    let clock = SystemClock::default();
    let pause = || {
        thread::sleep(PAUSE);
        clock.elapsed() < MOST
    };
    kill_all(|| mark.left(&Process::all()), |process| process.signal(Signal::SIGKILL), pause)
}

/// Returns the identifier of this boot of the system.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_line_of_the_system_is_read_whatever_the_program_is_called() {
        let rest = "S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 2";
        let read = |name: &str| Process::parse(12, &format!("12 ({name}) {rest}\n"));
        let expected = Process { pid: 12, parent: 7, session: 9, start: 4711, is_dead: false };
        assert_eq!(read("python"), Some(expected));
        assert_eq!(read("a) R 1 2 (b"), Some(expected));
        assert_eq!(Process::parse(12, "nonsense"), None);
    }

    /// Kills processes, of which -1 is of another user and no negative one ends; returns the pauses and the message.
    fn pauses(processes: &[i32], most: u32) -> (u32, Option<String>) {
        let process = |&pid| Process { pid, parent: 1, session: 1, start: 1, is_dead: false };
        let processes: Vec<Process> = processes.iter().map(process).collect();
        let killed = RefCell::new(BTreeSet::new());
        let find = || {
            let is_left = |process: &&Process| process.pid < 0 || !killed.borrow().contains(&process.pid);
            processes.iter().filter(is_left).copied().collect()
        };
        let kill = |process: Process| {
            killed.borrow_mut().insert(process.pid);
            process.pid != -1
        };
        let mut count = 0;
        let told = kill_all(find, kill, || {
            count += 1;
            count < most
        });
        (count, told)
    }

    #[test]
    fn processes_that_cannot_be_ended_are_named_and_not_waited_for() {
        let left = |names: &str| {
            Some(format!(
                "these processes belong to another user or do not react, and may still use GPUs: {names}"
            ))
        };
        assert_eq!(pauses(&[], 9), (0, None));
        assert_eq!(pauses(&[7, 8], 9), (1, None));
        assert_eq!(pauses(&[-1], 9), (0, left("-1 ()")));
        assert_eq!(pauses(&[-1, 7], 9), (1, left("-1 ()")));
        assert_eq!(pauses(&[7, -2, -1], 9), (9, left("-2 (), -1 ()")));
    }

    #[test]
    fn this_process_is_found_and_told_by_its_start() {
        let pid = i32::try_from(std::process::id()).expect("a number");
        let process = Process::find(pid).expect("is alive");
        assert!(Process::all().contains(&process));
        assert!(Process::descendants(process.parent).iter().any(|other| other.pid == pid));
    }

    /// Starts a process with these words prepended, as arguments of `env`.
    fn start(words: &[&str]) -> (std::process::Child, Process) {
        let child = std::process::Command::new("env").args(words).args(["sleep", "60"]).spawn();
        let child = child.expect("starts");
        // Until `env` has executed the last program, environment and session are still the old ones.
        let name = format!("/proc/{}/comm", child.id());
        while fs::read_to_string(&name).expect("is alive") != "sleep\n" {
            thread::yield_now();
        }
        let process = Process::find(i32::try_from(child.id()).expect("a number")).expect("is alive");
        (child, process)
    }

    fn end(mut child: std::process::Child) {
        child.kill().expect("ends");
        child.wait().expect("ends");
    }

    #[test]
    fn a_mark_of_another_start_or_boot_ends_nothing() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("mark");
        let (mut child, process) = start(&[&format!("{TOKEN}=abc")]);
        let mark = Mark { pid: process.pid, start: process.start, boot: boot(), token: None };
        let later = Mark { start: mark.start + 1, token: Some("abc".to_owned()), ..mark.clone() };
        for text in [later.text(), mark.text().replace('-', "+"), String::new(), "x y".to_owned()] {
            fs::write(&path, text).expect("writes");
            assert_eq!(end_leftovers(&path), None);
            assert_eq!(child.try_wait().expect("asks"), None);
        }
        end(child);
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_as_hsched_0_1_0_wrote_it() {
        let process = Process::find(std::process::id().cast_signed()).expect("is alive");
        let mark = Mark::new(process).expect("random numbers");
        assert_eq!(Mark::parse(&mark.text()), Some(mark.clone()));
        assert_eq!(mark.token.as_ref().map(String::len), Some(32));
        let before = Mark { token: None, ..mark };
        assert_eq!(Mark::parse(&format!("{} {} {}\n", process.pid, process.start, boot())), Some(before));
    }

    #[test]
    fn what_left_the_session_of_its_guard_is_ended_by_the_whole_token_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("mark");
        let (guard, process) = start(&[]);
        let mark = Mark::new(process).expect("random numbers");
        fs::write(&path, mark.text()).expect("writes");
        end(guard);
        let token = mark.token.expect("a token");
        let variable = |name: &str, token: &str| format!("{name}={token}");
        let others = [
            variable(TOKEN, &format!("{token}0")),
            variable(TOKEN, &token[1..]),
            variable("OTHER", &token),
            variable("OTHER", &variable(TOKEN, &token)),
        ];
        let others: Vec<_> = others.iter().map(|variable| start(&["setsid", "env", variable]).0).collect();
        let (mut left, _) = start(&[&variable(TOKEN, &token), "setsid"]);
        assert_eq!(end_leftovers(&path), None);
        assert_eq!(left.wait().expect("ends").code(), None);
        for mut other in others {
            assert_eq!(other.try_wait().expect("asks"), None);
            end(other);
        }
    }
}
