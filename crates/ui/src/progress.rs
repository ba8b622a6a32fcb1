//! A progress line on the terminal during long operations; absent without a terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whether the terminal understands no control sequences.
static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// The progress line that is currently shown.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// A spinner on stderr that ends with its scope; only one is shown at a time.
#[derive(Debug)]
pub struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Shows `message`; indicatif draws only if stderr is a terminal.
    pub fn start(message: String) -> Self {
        let plain = FORBIDDEN.load(Ordering::Relaxed);
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_message(message);
        bar.enable_steady_tick(Duration::from_millis(250));
        show(Some(bar.clone()));
        Self(bar)
    }

    /// Disables progress lines from now on.
    pub fn forbid() {
        FORBIDDEN.store(true, Ordering::Relaxed);
    }

    /// Removes the progress line from the terminal because the process ends.
    pub fn clear() {
        if let Some(bar) = show(None) {
            bar.finish_and_clear();
        }
    }

    /// Shows another message.
    pub fn say(&self, message: String) {
        self.0.set_message(message);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
        show(None);
    }
}

/// Replaces the current progress bar and returns the old one.
fn show(bar: Option<ProgressBar>) -> Option<ProgressBar> {
    std::mem::replace(&mut *SHOWN.lock().unwrap_or_else(PoisonError::into_inner), bar)
}
