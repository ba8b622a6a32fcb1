//! Signals held back while an answer of Slurm is on its way to the journal.

use nix::sys::signal::{SigSet, Signal};

/// Holds back the signals that end a process, until the returned value is dropped.
pub(super) fn hold() -> Option<Held> {
    let mut signals = SigSet::empty();
    signals.extend([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.thread_block().ok()?;
    Some(Held(signals))
}

/// Signals held back.
#[derive(Debug)]
pub(super) struct Held(SigSet);

impl Drop for Held {
    fn drop(&mut self) {
        // Cannot fail for signals that exist; nothing could be done about it here either.
        let _ = self.0.thread_unblock();
    }
}
