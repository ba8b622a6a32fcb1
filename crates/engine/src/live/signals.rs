//! Signals that end a process: held back until an answer of Slurm is in the journal. An interrupt ends the
//! process with a separate exit code.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// Locked until an answer is in the journal; an interrupt waits for the lock.
static ANSWER: Mutex<()> = Mutex::new(());

/// Whether an interrupt has arrived.
static CAME: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Whether some code handles interrupts itself; otherwise an interrupt ends the process.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Calls `end`, which ends the process, on an interrupt (Ctrl-C) after a pending answer is stored, unless
/// [`Interrupts`] or [`on_endings`] handles interrupts.
///
/// If interrupts were ignored at start, as for background jobs of a shell, they stay ignored.
///
/// # Errors
/// If the system refuses.
pub fn on_interrupt(end: impl Fn() + Send + 'static) -> io::Result<()> {
    if is_ignored(SIGINT) {
        return Ok(());
    }
    let mut interrupts = Signals::new([SIGINT])?;
    let wait = move || {
        for _ in interrupts.forever() {
            if !ASKED.load(Ordering::SeqCst) {
                let _answered = answer();
                end();
            }
        }
    };
    // The thread inherits the mask: signals that the main thread blocks must not reach this one.
    let others = Mask::block(others())?;
    thread::Builder::new().name("interrupts".into()).spawn(wait)?;
    drop(others);
    flag::register(SIGINT, Arc::clone(&CAME)).map(drop)
}

/// Passes each further SIGINT, SIGTERM, SIGHUP and SIGUSR1 to `tell` instead of letting it end the process,
/// except signals that were ignored at start.
///
/// # Errors
/// If the system refuses.
pub fn on_endings(tell: impl Fn(i32) + Send + 'static) -> io::Result<()> {
    let wanted = [SIGINT, SIGTERM, SIGHUP, SIGUSR1].into_iter().filter(|&signal| !is_ignored(signal));
    let mut endings = Signals::new(wanted)?;
    ASKED.store(true, Ordering::SeqCst);
    let listen = move || endings.forever().for_each(tell);
    thread::Builder::new().name("endings".into()).spawn(listen).map(drop)
}

/// Returns whether a signal was ignored when this process started.
#[expect(clippy::disallowed_methods, reason = "the system shows this only in a file")]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

fn answer() -> MutexGuard<'static, ()> {
    ANSWER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds back the signals that end a process until the returned value is dropped. Only one thread may do so
/// at a time.
pub fn hold() -> HeldSignals {
    let mut answer = self::answer();
    // An interrupt that has arrived in the meantime is handled first.
    while CAME.load(Ordering::SeqCst) && !ASKED.load(Ordering::SeqCst) {
        drop(answer);
        thread::yield_now();
        answer = self::answer();
    }
    HeldSignals { _mask: Mask::block(others()).ok(), _answer: answer }
}

/// Returns the signals besides an interrupt that end the process.
fn others() -> SigSet {
    [Signal::SIGTERM, Signal::SIGHUP].into_iter().collect()
}

/// Signals that would end the process, as a flag to poll: for code that must clean up first.
#[derive(Debug)]
pub struct Interrupts {
    held: SignalFd,
    _mask: Mask,
}

impl Interrupts {
    /// Takes over the signals until the value is dropped.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn take() -> Result<Self, Errno> {
        let mut ending = others();
        ending.add(Signal::SIGINT);
        let mask = Mask::block(ending)?;
        let held = SignalFd::with_flags(&ending, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        ASKED.store(true, Ordering::SeqCst);
        Ok(Self { held, _mask: mask })
    }

    /// Returns whether a signal has arrived since the last call.
    pub fn came(&self) -> bool {
        CAME.swap(false, Ordering::SeqCst) || matches!(self.held.read_signal(), Ok(Some(_)))
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        // An interrupt that was not polled before is discarded.
        CAME.store(false, Ordering::SeqCst);
        ASKED.store(false, Ordering::SeqCst);
    }
}

/// Signals held back.
#[derive(Debug)]
pub struct HeldSignals {
    _mask: Option<Mask>,
    _answer: MutexGuard<'static, ()>,
}

/// Blocked signals, with the previous mask.
#[derive(Debug)]
struct Mask(SigSet);

impl Mask {
    fn block(signals: SigSet) -> Result<Self, Errno> {
        signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).map(Self)
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        // This cannot fail for existing signals, and an error could not be handled here.
        let _ = self.0.thread_set_mask();
    }
}
