//! Repeats the messages of persistent problems at growing intervals.

use std::collections::BTreeMap;
use std::time::Duration;

/// Pause before the first repetition; each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Problems of an operation that is repeated until it succeeds.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    /// For each message, the time of its next repetition and the length of the pause before it.
    pauses: BTreeMap<String, (Duration, Duration)>,
}

impl Complaints {
    /// Returns whether to print a message now.
    pub(super) fn is_due(&mut self, message: &str, now: Duration) -> bool {
        let pause = match self.pauses.get(message) {
            Some((until, _)) if now < *until => return false,
            Some((_, pause)) => (*pause * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        // If a message has not come back for this long, its problem is over.
        self.pauses.retain(|_, (until, _)| now < *until + LONGEST_PAUSE);
        self.pauses.insert(message.to_owned(), (now + pause, pause));
        true
    }

    /// Returns whether there is no problem.
    pub(super) fn is_empty(&self) -> bool {
        self.pauses.is_empty()
    }

    /// Forgets all problems after a success; returns whether there were any.
    pub(super) fn end(&mut self) -> bool {
        !std::mem::take(&mut self.pauses).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times at which messages were printed, if each of these arrives four seconds after the
    /// previous one.
    fn said(messages: &[&str]) -> Vec<(u64, String)> {
        let mut complaints = Complaints::default();
        let come = (0..5000_u64).step_by(4).zip(messages.iter().cycle());
        come.filter(|(now, message)| complaints.is_due(message, Duration::from_secs(*now)))
            .map(|(now, message)| (now, (*message).to_owned()))
            .collect()
    }

    #[test]
    fn what_stays_wrong_is_said_ever_more_seldom() {
        let times: Vec<u64> = said(&["a"]).into_iter().map(|(now, _)| now).collect();
        assert_eq!(times, [0, 60, 180, 420, 900, 1860, 3780]);
    }

    #[test]
    fn messages_that_take_turns_are_said_as_seldom_as_one() {
        let said = said(&["a", "b"]);
        let of = |word: &str| said.iter().filter(|(_, message)| message == word).count();
        assert_eq!((of("a"), of("b"), &said[..2]), (7, 7, &[(0, "a".to_owned()), (4, "b".to_owned())][..]));
    }

    #[test]
    fn a_problem_that_comes_back_after_a_success_is_said_at_once() {
        let mut complaints = Complaints::default();
        assert!(complaints.is_due("a", Duration::ZERO) && !complaints.is_empty());
        assert!(complaints.end() && complaints.is_empty() && !complaints.end());
        assert!(complaints.is_due("a", Duration::from_secs(1)));
    }
}
