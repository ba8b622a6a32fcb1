//! Commands to Slurm whose answers are cached; a slow Slurm is called rarely.

use hsched_engine::clock::Clock;
use hsched_engine::store::{CachedOutput, OutputCache};
use hsched_model::Seconds;
use hsched_slurm::{CommandLine, Runner};

/// A query, and how long its answer is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlurmQuery<'a> {
    /// Names the file of the answer.
    pub name: &'a str,
    pub good_for: Seconds,
}

/// An answer that takes this long indicates that Slurm is overloaded.
pub(crate) const SLOW: Seconds = Seconds(5.0);
/// How long to wait before calling an overloaded Slurm again.
const REST: Seconds = Seconds(900.0);
/// How long to wait before calling Slurm again after an immediate failure.
const PAUSE: Seconds = Seconds(60.0);

/// Returns the answer to a query: the cached one while it is valid, else a new one, else the last one. For
/// some time after a slow answer or a failure, it returns the last one without calling Slurm.
///
/// The answer is cached; if it cannot be written, the next call queries again.
pub(crate) fn ask(
    question: SlurmQuery<'_>,
    command: &CommandLine,
    runner: &dyn Runner,
    clock: &dyn Clock,
    answers: &OutputCache,
) -> CachedOutput {
    let now = clock.time();
    let known = answers.get(question.name);
    let rest = if known.took >= SLOW { REST } else { PAUSE };
    let is_good = known.text.is_some() && now.is_soon_after(known.at, question.good_for);
    let is_resting = (known.failure.is_some() || known.took >= SLOW) && now.is_soon_after(known.tried, rest);
    if is_good && known.took < SLOW || is_resting {
        return known;
    }
    let begin = clock.elapsed();
    let result = runner.run(command);
    let took = Seconds(clock.elapsed().saturating_sub(begin).as_secs_f64());
    let answer = match result {
        Ok(output) => CachedOutput { text: Some(output.stdout), at: now, tried: now, took, failure: None },
        Err(error) => CachedOutput { tried: now, took, failure: Some(error.to_string()), ..known },
    };
    // A full or read-only state directory only costs another query.
    let _ = answers.keep(question.name, &answer);
    answer
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    use chrono::DateTime;

    use super::*;
    use hsched_engine::clock::ManualClock;
    use hsched_slurm::{CommandError, CommandOutput};

    /// A slow Slurm that may fail.
    struct Site {
        clock: ManualClock,
        takes: Cell<Duration>,
        fails: Cell<bool>,
        asked: RefCell<u32>,
    }

    impl Runner for Site {
        fn run(&self, command: &CommandLine) -> Result<CommandOutput, CommandError> {
            *self.asked.borrow_mut() += 1;
            self.clock.sleep(self.takes.get());
            if self.fails.get() {
                return Err(CommandError::failed(command, "exit status: 1", "no"));
            }
            Ok(CommandOutput { stdout: format!("answer {}", self.asked.borrow()), stderr: String::new() })
        }
    }

    const QUESTION: SlurmQuery = SlurmQuery { name: "squeue", good_for: Seconds(60.0) };

    /// Runs a check with a site and its query function.
    fn check(run: impl FnOnce(&Site, &dyn Fn() -> CachedOutput)) {
        let root = tempfile::tempdir().expect("a directory");
        let site = Site {
            clock: ManualClock::new(DateTime::from_timestamp(1_795_273_000, 0).expect("a date")),
            takes: Cell::new(Duration::ZERO),
            fails: Cell::new(false),
            asked: RefCell::new(0),
        };
        let command = CommandLine::new("squeue", ["-h"]);
        let answers = OutputCache::of(root.path());
        run(&site, &|| ask(QUESTION, &command, &site, &site.clock, &answers));
    }

    #[test]
    fn an_answer_is_good_for_a_while() {
        check(|site, ask| {
            let first = ask();
            site.clock.sleep(Duration::from_secs(59));
            assert_eq!((ask(), *site.asked.borrow()), (first, 1));
            site.clock.sleep(Duration::from_secs(2));
            assert_eq!((ask().text.as_deref(), *site.asked.borrow()), (Some("answer 2"), 2));
        });
    }

    #[test]
    fn a_slow_slurm_rests_for_a_quarter_of_an_hour() {
        check(|site, ask| {
            site.takes.set(Duration::from_secs(6));
            ask();
            site.clock.sleep(Duration::from_secs(880));
            assert_eq!((ask().text.as_deref(), *site.asked.borrow()), (Some("answer 1"), 1));
            site.clock.sleep(Duration::from_secs(20));
            assert_eq!((ask().text.as_deref(), *site.asked.borrow()), (Some("answer 2"), 2));
        });
    }

    #[test]
    fn the_last_answer_stands_where_there_is_no_other() {
        check(|site, ask| {
            ask();
            site.clock.sleep(Duration::from_secs(100));
            site.fails.set(true);
            for _ in 0..3 {
                let answer = ask();
                assert_eq!(answer.text.as_deref(), Some("answer 1"));
                assert_eq!(answer.failure.as_deref(), Some("squeue: exit status: 1: no"));
            }
            assert_eq!(*site.asked.borrow(), 2);
            site.clock.sleep(Duration::from_secs(61));
            site.fails.set(false);
            assert_eq!((ask().failure, *site.asked.borrow()), (None, 3));
        });
    }
}
