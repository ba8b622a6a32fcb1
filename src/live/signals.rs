//! Signals held back while an answer of Slurm is on its way to the journal.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Holds back the signals that end a process, until the returned value is dropped.
pub(super) fn hold() -> Option<Held> {
    let before = ending().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok()?;
    Some(Held(before))
}

fn ending() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect()
}

/// The signals that end a process, as a question instead: for who has something to undo first.
#[derive(Debug)]
pub struct Interrupts {
    held: SignalFd,
    _mask: Held,
}

impl Interrupts {
    /// Takes the signals over, until it is dropped.
    ///
    /// # Errors
    /// When the system does not let it.
    pub fn take() -> Result<Self, Errno> {
        let before = ending().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let held = SignalFd::with_flags(&ending(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { held, _mask: Held(before) })
    }

    /// Returns whether a signal came since the last call.
    #[must_use]
    pub fn came(&self) -> bool {
        matches!(self.held.read_signal(), Ok(Some(_)))
    }
}

/// Signals held back: the mask from before.
#[derive(Debug)]
pub(super) struct Held(SigSet);

impl Drop for Held {
    fn drop(&mut self) {
        // Cannot fail for signals that exist; nothing could be done about it here either.
        let _ = self.0.thread_set_mask();
    }
}
