//! Clocks: the system clock, and one for tests that advances only in `sleep`. No other module reads the time,
//! except that `store` checks the age of leftover files.

use std::cell::Cell;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

use hsched_model::Time;
use hsched_model::number::to_f64;

/// A source of the current time, which can also wait.
pub trait Clock {
    /// Returns the date and time.
    fn now(&self) -> DateTime<Utc>;

    /// Returns the time since the clock was created; it never decreases.
    fn elapsed(&self) -> Duration;

    /// Waits.
    fn sleep(&self, duration: Duration);

    /// Returns the Unix time in seconds, with millisecond precision.
    fn time(&self) -> Time {
        Time(to_f64(self.now().timestamp_millis()) / 1000.0)
    }
}

/// The system clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

/// A clock that advances only in `sleep`.
#[derive(Clone, Debug)]
pub struct ManualClock {
    start: DateTime<Utc>,
    elapsed: Cell<Duration>,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this module is where time is read")]
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this module is where time is read")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this module is where time is spent")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

impl ManualClock {
    /// Returns a clock that starts at `start`.
    pub fn new(start: DateTime<Utc>) -> Self {
        Self { start, elapsed: Cell::default() }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        let elapsed = TimeDelta::from_std(self.elapsed.get()).unwrap_or(TimeDelta::MAX);
        self.start.checked_add_signed(elapsed).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    fn elapsed(&self) -> Duration {
        self.elapsed.get()
    }

    fn sleep(&self, duration: Duration) {
        self.elapsed.set(self.elapsed.get().saturating_add(duration));
    }
}
