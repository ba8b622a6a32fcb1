//! A trouble that stays is said at once, and then at growing intervals.

use std::time::Duration;

/// How long it is not said again after the first time; each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// What goes wrong time after time.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    message: String,
    /// Before that it is not said again, and how long the pause is that ends then.
    pause: Option<(Duration, Duration)>,
}

impl Complaint {
    /// Returns whether a message is to be said now.
    pub(super) fn is_due(&mut self, message: &str, now: Duration) -> bool {
        let pause = match self.pause.filter(|_| self.message == message) {
            Some((until, _)) if now < until => return false,
            Some((_, pause)) => (pause * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        message.clone_into(&mut self.message);
        self.pause = Some((now + pause, pause));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_wrong_is_said_ever_more_seldom() {
        let mut complaint = Complaint::default();
        let said = (0..20_000_u64).step_by(4).filter(|&now| complaint.is_due("a", Duration::from_secs(now)));
        let said: Vec<u64> = said.collect();
        assert_eq!(said, [0, 60, 180, 420, 900, 1860, 3780, 7380, 10_980, 14_580, 18_180]);
        // Another one is said at once.
        assert!(complaint.is_due("b", Duration::from_secs(20_000)));
        assert!(!complaint.is_due("b", Duration::from_secs(20_001)));
    }
}
