//! The end of `hsched run`: all jobs save, and their ends are recorded.

use crate::app::slurm;
use crate::commands::run::local_run::LocalRun;
use crate::commands::run::turns::{RunTurns, WakeReason};
use hsched_engine::store::StateDir;
use hsched_engine::{State, Update};
use hsched_local::{BEFORE_END, NOTICE_BEFORE};
use hsched_model::{Seconds, Time};
use hsched_ui::{Exit, Failure};

/// Time beyond the jobs' grace period before jobs are killed.
pub(super) const MARGIN: Seconds = Seconds(5.0);

const INTERRUPT: i32 = nix::sys::signal::Signal::SIGINT as i32;

const TERMINATE: i32 = nix::sys::signal::Signal::SIGTERM as i32;

/// The signal with which Slurm announces the end of an allocation.
pub(super) const NOTICE: i32 = nix::sys::signal::Signal::SIGUSR1 as i32;

/// How much earlier than asked Slurm may send the signal: a minute, plus some seconds for the transmission.
const EARLY: Seconds = Seconds(65.0);

impl LocalRun<'_> {
    /// Ends all parked processes and waits until they are gone.
    pub(super) fn clear(&self, work: &mut RunTurns<'_>) {
        work.session.world.here.close();
        while work.session.world.here.left() > 0 {
            let due = work.session.world.here.due();
            let is_asked = matches!(self.wait(work, due), WakeReason::Ending(_));
            if is_asked || due.is_some_and(|due| work.session.world.here.now() >= due) {
                work.session.world.here.kill();
            }
        }
    }

    /// Returns when jobs with this grace period must be asked to save so that they finish before the
    /// allocation ends.
    pub(super) fn last_moment(&self, grace: Seconds) -> Option<Time> {
        let end = self.target.end?;
        Some(Time(end.0 - grace.0 - BEFORE_END.0))
    }

    /// Returns whether a signal gives a member of a pool no new information, and prints a note if so. The
    /// member knows when its allocation ends, and Slurm may announce the end a minute too early, once. The
    /// signal counts if the allocation ends sooner than planned, for example because of a preemption, if
    /// Slurm does not answer, or if the signal is not Slurm's.
    pub(super) fn comes_early(&self, signal: i32, now: Time) -> bool {
        let (Some(job), Some(end), Some(_)) = (self.target.job, self.target.end, &self.target.member) else {
            return false;
        };
        if signal != NOTICE || self.is_announced.get() || !self.may_be_announced(end, now) {
            return false;
        }
        if slurm::allocation_end(self.context, job).is_none_or(|said| said.0 < end.0 - 1.0) {
            return false;
        }
        self.is_announced.set(true);
        self.telling.log.say(
            "SIGUSR1 is taken for Slurm's notice of the end, which comes up to a minute early: the jobs save in \
             time; a second SIGUSR1 makes them save now",
        );
        true
    }

    /// Returns whether Slurm may announce the end of the allocation now, before it is due.
    fn may_be_announced(&self, end: Time, now: Time) -> bool {
        // Uses the grace periods of all jobs, as `submit --pack` did. If the state is unreadable, the
        // announcement remains possible.
        let Ok(peeked) = StateDir::peek(self.directory.root(), &self.rules) else { return true };
        let default = self.rules.defaults.grace;
        let jobs = peeked.state.jobs.iter();
        let graces = jobs.map(|tracked| tracked.job.launch.checkpoint.grace.unwrap_or(default).0);
        is_announced_early(end, Seconds(graces.fold(0.0, f64::max)), now)
    }

    /// Asks all jobs to save and prints a message; returns the time at which jobs that are still running will
    /// be killed. `signal` is 0 if no signal caused it.
    pub(super) fn ask_to_save(&self, work: &mut RunTurns<'_>, signal: i32) -> Time {
        let at_work = work.session.world.here.at_work();
        if at_work > 0 {
            let again = if signal == INTERRUPT { "; press Ctrl-C again to kill them" } else { "" };
            let why = if signal == 0 { "the allocation is about to end; " } else { "" };
            self.telling
                .log
                .say(&format!("{why}asking the running jobs ({at_work}) to save and exit{again}"));
        }
        work.session.world.here.close();
        let grace = self.longest_grace(&work.session.state);
        work.session.world.here.now().after(Seconds(grace.0 + MARGIN.0))
    }

    /// Waits until all jobs have saved and records their ends; kills those that still run at the `deadline`,
    /// or when a signal other than Slurm's notice arrives. Calls no policy. The exit code is 130 after
    /// Ctrl-C, and 85 if work is left that no further task of the job array continues.
    pub(super) fn close(
        &self,
        work: &mut RunTurns<'_>,
        signal: i32,
        deadline: Time,
    ) -> Result<Exit, Failure> {
        let mut is_killed = false;
        while work.session.world.here.left() > 0 {
            let due = (!is_killed).then_some(deadline);
            // If hsched asked the jobs to save before Slurm announced the end of the allocation, Slurm's
            // notice may follow: it must not reduce the jobs' time.
            let again = matches!(self.wait(work, due), WakeReason::Ending(signal) if signal != NOTICE);
            if !is_killed && (again || work.session.world.here.now() >= deadline) {
                is_killed = true;
                work.session.world.here.kill();
            }
        }
        let kept = self.catch_up(work);
        self.telling.log.end();
        if let Err(failure) = &kept {
            // The next `hsched run` reports the events that were not recorded.
            self.telling.log.say(&format!(
                "{}: the last events are not in the state; the next hsched run reads them from the reports",
                failure.message
            ));
        }
        let over = kept.is_ok() && work.session.state.is_over();
        let done = if over {
            self.cancel_waiting_tasks();
            self.telling.finish(&work.session.state)?
        } else if self.another_task_waits() {
            self.telling.log.say("stopped; the next task of the job array continues");
            Exit::Done
        } else {
            self.telling.log.say(&format!("stopped; to resume: {}", self.args.again()));
            Exit::Saved
        };
        Ok(if signal == INTERRUPT { Exit::Interrupted } else { done })
    }

    /// Updates the state from the world, records the events, and then reports them.
    fn catch_up(&self, work: &mut RunTurns<'_>) -> Result<(), Failure> {
        let seen = work.session.look()?;
        Self::keep(work, &seen.events)?;
        self.telling.log.hear_all(&seen.events);
        seen.learnt.iter().for_each(|learnt| self.telling.log.hear(Update::Action(learnt)));
        self.telling.log.print(&[], &work.session.state);
        Ok(())
    }

    pub(super) fn longest_grace(&self, state: &State) -> Seconds {
        state.longest_grace(self.rules.defaults.grace)
    }
}

/// Returns the more important of two signals: SIGTERM, then Ctrl-C, then other signals, then Slurm's notice.
pub(super) fn stronger(first: Option<i32>, second: i32) -> i32 {
    let rank = |signal: i32| match signal {
        TERMINATE => 4,
        INTERRUPT => 3,
        0 => 0,
        NOTICE => 1,
        _ => 2,
    };
    first.filter(|first| rank(*first) > rank(second)).unwrap_or(second)
}

/// Returns whether Slurm may announce the end of a member's allocation at this time, before a member whose
/// jobs need no time to save has to act. `grace` is the longest grace period of the pool's jobs.
fn is_announced_early(end: Time, grace: Seconds, now: Time) -> bool {
    let first = end.0 - grace.0 - NOTICE_BEFORE.0 - EARLY.0;
    (first..end.0 - BEFORE_END.0).contains(&now.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANGUP: i32 = nix::sys::signal::Signal::SIGHUP as i32;

    #[test]
    fn of_signals_that_come_together_the_strongest_counts() {
        let check = |signals: &[i32], expected: i32| {
            let heard = signals.iter().fold(None, |heard, signal| Some(stronger(heard, *signal)));
            assert_eq!(heard, Some(expected), "{signals:?}");
        };
        check(&[NOTICE], NOTICE);
        check(&[TERMINATE, NOTICE], TERMINATE);
        check(&[NOTICE, TERMINATE], TERMINATE);
        check(&[INTERRUPT, TERMINATE, NOTICE], TERMINATE);
        check(&[INTERRUPT, HANGUP, NOTICE], INTERRUPT);
        check(&[NOTICE, HANGUP], HANGUP);
        // 0 stands for no signal: the allocation is about to end.
        check(&[0, NOTICE], NOTICE);
    }

    /// The allocation ends at 1000, and its jobs may take 60 s to save, so Slurm is asked for its notice at
    /// 915.
    #[test]
    fn slurm_announces_an_end_up_to_a_minute_early() {
        let check = |now: f64, expected: bool| {
            assert_eq!(is_announced_early(Time(1000.0), Seconds(60.0), Time(now)), expected, "{now}");
        };
        // Only a person sends a signal this early.
        check(500.0, false);
        check(849.0, false);
        check(855.0, true);
        check(915.0, true);
        // The member must act now in any case.
        check(966.0, false);
    }
}
