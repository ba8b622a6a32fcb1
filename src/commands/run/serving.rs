//! A member of a pool under another leader: waits for orders and for the lock.

use std::time::Duration;

use crate::commands::run::closing::{MARGIN, NOTICE, stronger};
use crate::commands::run::complaint::Complaints;
use crate::commands::run::local_run::LocalRun;
use crate::commands::run::turns::LOOK_POOL;
use hsched_engine::clock::Clock as _;
use hsched_engine::pool::MemberId;
use hsched_engine::store::StateError;
use hsched_local::{Instructions, LocalWorld, MemberWork, Wake};
use hsched_model::Seconds;
use hsched_ui::Exit;

/// How service under another leader ended: with an exit code, or with the lock.
pub(super) struct ServiceEnd {
    pub exit: Option<Exit>,
    /// Whether another member has led in the meantime.
    pub was_led: bool,
}

/// This long before the end of its allocation, a member without running jobs leaves even without permission.
const LAST: Seconds = Seconds(10.0);

impl LocalRun<'_> {
    /// Follows orders until this member may leave or gets the lock. `leaving` is the signal that asks it to
    /// end, if one has arrived.
    pub(super) fn serve(
        &self,
        work: &mut MemberWork,
        here: &mut LocalWorld<'_>,
        leaving: &mut Option<i32>,
    ) -> ServiceEnd {
        let clock = &self.context.clock;
        let (mut was_led, mut closing, mut trouble) = (false, None, Complaints::default());
        loop {
            let locked = if work.may_lock(clock) { self.directory.try_lock() } else { Ok(false) };
            let has_lock = locked.as_ref().is_ok_and(|has_lock| *has_lock);
            // If this member has the lock, these are the last orders of the previous leader.
            let told = self.obey(work, here, locked.as_ref().err(), &mut trouble);
            if has_lock {
                return ServiceEnd { exit: None, was_led };
            }
            was_led = true;
            if let Some(left) = self.nodes_left(here) {
                here.keep_nodes(&left);
                let is_left = |_: &MemberId, name: &str| left.iter().any(|node| node.as_str() == name);
                let _ = work.worker.keep_nodes(is_left);
            }
            let now = here.now();
            if leaving.is_none() && self.last_moment(here.longest_grace()).is_some_and(|last| now >= last) {
                *leaving = Some(0);
            }
            if leaving.is_some() && closing.is_none() {
                // If the write fails, the next report repeats it: the jobs save in any case.
                let _ = work.worker.ask_to_leave();
                if !here.is_closing() {
                    self.telling.log.say("leaving the pool: asking the running jobs to save and exit");
                }
                here.close();
                closing = Some(now.after(Seconds(here.longest_grace().0 + MARGIN.0)));
            }
            if closing.is_some_and(|until| now >= until) {
                here.kill();
            }
            let is_last = self.target.end.is_some_and(|end| now.0 >= end.0 - LAST.0) && here.left() == 0;
            if told.may_leave || closing.is_some() && is_last {
                // If the write fails, Slurm reports the end of this member.
                let _ = work.worker.leave();
                return ServiceEnd { exit: Some(Exit::Done), was_led };
            }
            if self.listen(here, leaving) && closing.is_some() {
                here.kill();
            }
        }
    }

    /// Carries out orders; logs a failure to do so, or to get the lock, at growing intervals.
    fn obey(
        &self,
        work: &mut MemberWork,
        here: &mut LocalWorld<'_>,
        unlocked: Option<&StateError>,
        trouble: &mut Complaints,
    ) -> Instructions {
        let told = work.work(here, &self.context.clock);
        match told.trouble.as_ref().or(unlocked) {
            None => drop(trouble.end()),
            Some(error) => {
                let message = error.in_one_line();
                if trouble.is_due(&message, self.context.clock.elapsed()) {
                    self.telling.log.say(&format!("{message}; retrying"));
                }
            }
        }
        told
    }

    /// Waits for an event, at most for the polling interval; returns whether a signal other than
    /// Slurm's notice arrived, which kills jobs that are already asked to save.
    fn listen(&self, here: &mut LocalWorld<'_>, leaving: &mut Option<i32>) -> bool {
        let mut is_pressed = false;
        for wake in self.waker.wait(Some(Duration::from_secs_f64(LOOK_POOL.0))) {
            match wake {
                Wake::Ended(of, status) => here.ended(&of, status),
                Wake::Signal(signal) if self.comes_early(signal, here.now()) => {}
                Wake::Signal(signal) => {
                    *leaving = Some(stronger(*leaving, signal));
                    is_pressed |= signal != NOTICE;
                }
                Wake::Reported | Wake::Gated | Wake::Wished | Wake::Pool => {}
            }
        }
        is_pressed
    }
}
