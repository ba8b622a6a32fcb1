//! A member that is not the leader: it carries out orders on its own devices.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::world::LocalWorld;
use hsched_engine::clock::Clock;
use hsched_engine::pool::{Duty, Order, Worker};
use hsched_engine::store::{PoolFolder, StateError};
use hsched_engine::{End, SubmissionKey};
use hsched_model::Time;

/// Time between the heartbeats of a member.
pub(super) const BEAT: Duration = Duration::from_secs(3);

/// Delay before a member that has handed over the lead, or could not take it, takes the lock again, so that
/// others get it first.
const OTHERS_FIRST: Duration = Duration::from_secs(4);

/// A member that carries out orders.
pub struct MemberWork {
    pub worker: Worker<PoolFolder>,
    /// Time of the member's last heartbeat.
    beat: Duration,
    /// Earliest time at which the member takes the lock.
    locks_from: Duration,
}

/// The outcome of a member's work.
#[derive(Debug, Default)]
pub struct Instructions {
    /// Whether the member may leave.
    pub may_leave: bool,
    /// The error of the first pool file that could not be read or written; the operation is repeated later.
    pub trouble: Option<StateError>,
}

impl MemberWork {
    /// Returns the worker of a member that has joined.
    pub fn new(worker: Worker<PoolFolder>) -> Self {
        Self { worker, beat: Duration::ZERO, locks_from: Duration::ZERO }
    }

    /// Lets other members take the lock first.
    pub fn wait_for_lock(&mut self, clock: &dyn Clock) {
        self.locks_from = clock.elapsed() + OTHERS_FIRST;
    }

    /// Returns whether the member may take the lock now.
    pub fn may_lock(&self, clock: &dyn Clock) -> bool {
        clock.elapsed() >= self.locks_from
    }

    /// Reports the submissions that the member started as leader; data that cannot be written now is part of
    /// the next report.
    pub fn take_stock(&mut self, here: &LocalWorld<'_>) {
        let known: BTreeSet<SubmissionKey> =
            self.worker.submissions().iter().map(|submission| submission.of.clone()).collect();
        for (of, job_id, since) in here.at_work_now().filter(|(of, ..)| !known.contains(of)) {
            let _ = self.worker.started(&of, job_id, since);
        }
        let _ = self.report_ends(here);
    }

    /// Carries out the orders and reports ended submissions. If one file cannot be written, all other steps
    /// are still done.
    pub fn work(&mut self, here: &mut LocalWorld<'_>, clock: &dyn Clock) -> Instructions {
        let mut told = Instructions::default();
        here.switch(clock.time());
        // A run that ran out of memory beside others gets a GPU of its own as soon as the leader sees its end.
        self.worker.note_alone(here.sharing.alone());
        let mut done = self.report_ends(here);
        let (duties, read) = match self.worker.duties() {
            Ok(duties) => (duties, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        done = done.and(read);
        for duty in duties {
            match duty {
                Duty::Start(order) => {
                    let started = self.start(here, &order, clock.time());
                    done = done.and(started);
                }
                Duty::Decline(of) => {
                    let declined = self.worker.ended([(of, End::Interrupted, clock.time())]);
                    done = done.and(declined);
                }
                Duty::Stop(of) => here.end(&of),
                Duty::Kill(of) => drop(here.cancel(&of)),
                Duty::Forget(of) => here.forget(&of),
                Duty::Leave => told.may_leave = here.left() == 0,
            }
        }
        if clock.elapsed().saturating_sub(self.beat) >= BEAT {
            let beaten = self.worker.beat();
            if beaten.is_ok() {
                self.beat = clock.elapsed();
            }
            done = done.and(beaten);
        }
        told.trouble = done.err();
        told.may_leave &= told.trouble.is_none();
        told
    }

    fn start(&mut self, here: &mut LocalWorld<'_>, order: &Order, at: Time) -> Result<(), StateError> {
        match here.begin(&order.of, &order.start, String::new()) {
            Ok(job_id) => self.worker.started(&order.of, job_id, at),
            Err(answer) => self.worker.refused(&order.of, answer, at),
        }
    }

    fn report_ends(&mut self, here: &LocalWorld<'_>) -> Result<(), StateError> {
        let open = self.worker.submissions().iter().filter(|submission| submission.ended.is_none());
        let ended = open.filter_map(|submission| {
            let (end, at) = here.end_of(&submission.of)?;
            Some((submission.of.clone(), end, at))
        });
        let ended: Vec<(SubmissionKey, End, Time)> = ended.collect();
        if ended.is_empty() { Ok(()) } else { self.worker.ended(ended) }
    }
}
