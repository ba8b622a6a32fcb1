//! Processes of this machine, as /proc shows them: who descends from whom, and which is which after numbers were reused.

#![expect(clippy::disallowed_methods, reason = "the system tells of processes in files alone")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process with what tells it from another one of the same number: when it was started, in ticks since the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub pid: i32,
    parent: i32,
    session: i32,
    start: u64,
    /// Whether it has ended and only waits to be asked how.
    is_dead: bool,
}

/// The pause between two looks at processes that were killed.
const PAUSE: Duration = Duration::from_millis(20);

impl Process {
    /// Returns the process of a number.
    pub(super) fn find(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads a line of `/proc/PID/stat`; the program's name, in parentheses, may have any characters.
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

    /// Returns all processes that are alive.
    fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pid = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        entries.filter_map(pid).filter_map(Self::find).filter(|own| !own.is_dead).collect()
    }

    /// Returns the processes that descend from one.
    pub(super) fn descendants(pid: i32) -> Vec<Self> {
        let all = Self::all();
        let (mut known, mut found) = (BTreeSet::from([pid]), Vec::new());
        loop {
            let new: Vec<Self> = all
                .iter()
                .filter(|own| known.contains(&own.parent) && !known.contains(&own.pid))
                .copied()
                .collect();
            if new.is_empty() {
                return found;
            }
            known.extend(new.iter().map(|own| own.pid));
            found.extend(new);
        }
    }

    pub(super) fn signal(self, signal: Signal) {
        // One that has ended meanwhile is as wanted.
        let _ = kill(Pid::from_raw(self.pid), signal);
    }

    /// Returns the line that tells this process from every other one.
    pub(super) fn mark(self) -> String {
        format!("{} {} {}\n", self.pid, self.start, boot())
    }
}

/// Ends what a guard has left behind, by the mark that it wrote before it started anything: the guard and its session.
/// No mark, no leftovers.
pub(super) fn end_leftovers(mark: &Path) {
    let Ok(text) = fs::read_to_string(mark) else { return };
    let mut words = text.split_whitespace();
    let Some((pid, start)) = words.next().and_then(|pid| pid.parse::<i32>().ok()).zip(words.next()) else {
        return;
    };
    let Some(start) = start.parse::<u64>().ok().filter(|_| words.next() == Some(boot().as_str())) else {
        return;
    };
    // Its number stays taken while its session has members; another leader means that none of ours is left.
    loop {
        let leader = Process::find(pid).filter(|own| !own.is_dead);
        if leader.is_some_and(|own| own.start != start) {
            return;
        }
        let all = Process::all();
        let own: Vec<&Process> = all.iter().filter(|own| own.session == pid && own.start >= start).collect();
        if own.is_empty() {
            return;
        }
        for process in own {
            process.signal(Signal::SIGKILL);
        }
        thread::sleep(PAUSE);
    }
}

/// Returns what tells this boot of the system from others.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn this_process_is_found_and_told_by_its_start() {
        let pid = i32::try_from(std::process::id()).expect("a number");
        let own = Process::find(pid).expect("is alive");
        assert!(Process::all().contains(&own));
        assert!(Process::descendants(own.parent).iter().any(|other| other.pid == pid));
    }

    #[test]
    fn a_mark_of_another_start_or_boot_ends_nothing() {
        let folder = tempfile::tempdir().expect("a directory");
        let mark = folder.path().join("mark");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("starts");
        let own = Process::find(i32::try_from(child.id()).expect("a number")).expect("is alive");
        let wrong = Process { start: own.start + 1, ..own };
        for text in [wrong.mark(), own.mark().replace('-', "+"), String::new(), "x y".to_owned()] {
            fs::write(&mark, text).expect("writes");
            end_leftovers(&mark);
            assert_eq!(child.try_wait().expect("asks"), None);
        }
        child.kill().expect("ends");
        child.wait().expect("ends");
    }
}
