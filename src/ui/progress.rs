//! A line on the terminal while something takes long; nothing where nobody watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A spinner on stderr that ends with its scope.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Shows `message`; indicatif draws only where stderr is a terminal.
    #[must_use]
    pub fn start(message: String) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_message(message);
        bar.enable_steady_tick(Duration::from_millis(250));
        Self(bar)
    }

    /// Shows another message.
    pub fn say(&self, message: String) {
        self.0.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
