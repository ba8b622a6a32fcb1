//! The events that wake `hsched run`: the end of a process, a report, a deferred command, a signal. Between
//! them it sleeps.

use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::gate::GATE;
use hsched_engine::SubmissionKey;
use hsched_engine::clock::Clock;
use hsched_engine::pool::{ORDERS, REPORT};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The guard of a submission has ended.
    Ended(SubmissionKey, ExitStatus),
    /// A rank has written a report.
    Reported,
    /// A rank has written its state into its gate.
    Gated,
    /// A command was deferred.
    Wished,
    /// A member of the pool has written a report, or its leader has written orders.
    Pool,
    /// A signal has arrived.
    Signal(i32),
}

/// Receives events.
#[derive(Debug)]
pub struct Waker {
    sender: Sender<Wake>,
    receiver: Receiver<Wake>,
    files: Arc<Inotify>,
    deferred: WatchDescriptor,
}

impl Waker {
    /// Starts to listen; `deferred` is the folder of deferred commands.
    ///
    /// # Errors
    /// If the system cannot watch files.
    pub fn new(deferred: &Path) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let files = Arc::new(Inotify::init(InitFlags::IN_CLOEXEC)?);
        // Files of deferred commands are renamed into place when complete.
        let deferred = files.add_watch(deferred, AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CREATE)?;
        let (inotify, tell) = (Arc::clone(&files), sender.clone());
        let listen = move || {
            while let Ok(events) = inotify.read_events() {
                for event in events {
                    let name = event.name.as_ref().and_then(|name| name.to_str()).unwrap_or_default();
                    let wake = match event.wd {
                        wd if wd == deferred => Wake::Wished,
                        _ if name.starts_with("rank-") => Wake::Reported,
                        _ if is_word(name) => Wake::Gated,
                        _ if name == REPORT || name == ORDERS => Wake::Pool,
                        _ => continue,
                    };
                    if tell.send(wake).is_err() {
                        return;
                    }
                }
            }
        };
        thread::Builder::new().name("files".into()).spawn(listen)?;
        Ok(Self { sender, receiver, files, deferred })
    }

    /// Returns a sender of events.
    pub fn sender(&self) -> Sender<Wake> {
        self.sender.clone()
    }

    /// Listens for reports and gate files of ranks, or for files of a pool member, in a folder; the watch
    /// ends with the folder. `None` if the folder cannot be watched.
    pub fn watch(&self, folder: &Path) -> Option<WatchDescriptor> {
        // Gate files are renamed into place when complete.
        self.files.add_watch(folder, AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVED_TO).ok()
    }

    /// Removes a watch that [`Self::watch`] returned.
    pub(super) fn leave(&self, watch: WatchDescriptor) {
        if watch != self.deferred {
            let _ = self.files.rm_watch(watch);
        }
    }

    /// Waits for an event for at most this time, or forever with `None`. Returns all pending events in order.
    pub fn wait(&self, most: Option<Duration>) -> Vec<Wake> {
        let first = match most {
            Some(most) => self.receiver.recv_timeout(most),
            None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        first.into_iter().chain(self.receiver.try_iter()).collect()
    }

    /// Waits for this time or until an event arrives that is not `calm`; returns the events.
    pub fn wait_for_others(
        &self,
        most: Duration,
        clock: &dyn Clock,
        calm: impl Fn(&Wake) -> bool,
    ) -> Vec<Wake> {
        let begun = clock.elapsed();
        let mut all = Vec::new();
        while all.iter().all(&calm) {
            let Some(left) = most.checked_sub(clock.elapsed().saturating_sub(begun)) else { break };
            all.extend(self.receiver.recv_timeout(left));
        }
        all.extend(self.receiver.try_iter());
        all
    }
}

/// Returns whether a file of this name holds a rank's state.
fn is_word(name: &str) -> bool {
    let rank = name.strip_prefix(GATE).and_then(|rest| rest.strip_prefix('.'));
    rank.is_some_and(|rank| !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit()))
}
