//! The end of `hsched run`: all jobs save, and their ends are recorded.

use crate::app::slurm;
use crate::commands::run::turns::{LocalRun, RunTurns, WakeReason};
use crate::error::Failure;
use crate::exit::Exit;
use crate::local::BEFORE_END;
use hsched_engine::{State, Update};
use hsched_model::{Seconds, Time};

/// Time beyond their grace period before jobs are killed.
pub(super) const MARGIN: Seconds = Seconds(5.0);

const INTERRUPT: i32 = nix::sys::signal::Signal::SIGINT as i32;

/// The signal with which Slurm announces the end of an allocation.
const NOTICE: i32 = nix::sys::signal::Signal::SIGUSR1 as i32;

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

    /// Returns whether a signal tells a member of a pool nothing new. The member knows when its allocation
    /// ends, and Slurm may send the signal a minute too early. If the allocation ends sooner than planned,
    /// for example because of a preemption, the signal counts.
    pub(super) fn comes_early(&self, signal: i32, now: Time) -> bool {
        let (Some(job), Some(end), Some(_)) = (self.target.job, self.target.end, &self.target.member) else {
            return false;
        };
        let is_due = self.last_moment(Seconds(0.0)).is_some_and(|last| now >= last);
        signal == NOTICE
            && !is_due
            && slurm::allocation_end(self.context, job).is_some_and(|said| said.0 >= end.0 - 1.0)
    }

    /// Asks all jobs to save, with a message; returns when slow jobs are killed. `signal` is 0 if no signal
    /// caused it.
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

    /// Waits until all jobs have saved and records their ends; kills those that still run at the `deadline`.
    /// Makes no more decisions. The exit code is 130 after Ctrl-C, and 85 if work is left.
    pub(super) fn close(
        &self,
        work: &mut RunTurns<'_>,
        signal: i32,
        deadline: Time,
    ) -> Result<Exit, Failure> {
        let mut is_killed = false;
        while work.session.world.here.left() > 0 {
            let due = (!is_killed).then_some(deadline);
            // The end of the allocation may be known before Slurm announces it; this must not reduce the
            // jobs' time.
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
            self.telling.finish(&work.session.state, work.session.world.here.now())?
        } else {
            Exit::Saved
        };
        if !over {
            self.telling.log.say(&format!("stopped; to resume: {}", self.args.again()));
        }
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
