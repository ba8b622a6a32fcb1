//! `hsched run` as a member of a pool: follows the orders of the leader, or leads itself.

use crate::app::slurm;
use crate::app::state;
use crate::commands::run::complaint::Complaints;
use crate::commands::run::local_run::LocalRun;
use crate::commands::run::turns::{Ending, RunTurns};
use hsched_engine::clock::Clock as _;
use hsched_engine::pool::{POOL, PoolReport, Worker};
use hsched_engine::store::{PoolFolder, StateDir, StateError};
use hsched_local::{Lead, MemberWork, OtherMembers, PoolWorld, member_nodes};
use hsched_ui::{Exit, Failure};

impl LocalRun<'_> {
    /// Works in the pool until this member has no work left.
    ///
    /// # Errors
    /// If a file of the pool is unusable.
    pub(super) fn run_in_pool(mut self, folder: PoolFolder) -> Result<Exit, Failure> {
        let member =
            self.target.member.clone().ok_or_else(|| internal("this member of the pool has no id"))?;
        // Checked before joining: a pool of another version stays untouched.
        folder.plan().map_err(failed)?;
        self.hear_signals()?;
        self.mps = self.start_mps();
        let report = PoolReport {
            nodes: member_nodes(&self.target.devices),
            end: self.target.end,
            ..PoolReport::default()
        };
        let worker = Worker::join(folder, member.clone(), report).map_err(failed)?;
        if let Some(folder) = OtherMembers::folder(self.directory.root(), &member) {
            self.waker.watch(&folder);
        }
        let (mut work, mut here, mut leaving) = (MemberWork::new(worker), self.here()?, None);
        let (mut has_served, mut complaints) = (false, Complaints::default());
        loop {
            let served = self.serve(&mut work, &mut here, &mut leaving);
            if let Some(exit) = served.exit {
                return Ok(exit);
            }
            has_served |= served.was_led;
            let others = match self.take_over(has_served) {
                Ok(Some(others)) => {
                    complaints.end();
                    others
                }
                Ok(None) => {
                    self.cancel_waiting_tasks();
                    let _ = work.worker.leave();
                    return Ok(Exit::Done);
                }
                Err(error) => {
                    let message = format!("cannot lead the pool: {}; retrying", error.in_one_line());
                    if complaints.is_due(&message, self.context.clock.elapsed()) {
                        self.telling.log.say(&message);
                    }
                    self.directory.unlock();
                    work.wait_for_lock(&self.context.clock);
                    continue;
                }
            };
            let lead = Lead::new(&self.context.clock, others, work.worker);
            let world = PoolWorld { here, lead: Some(lead) };
            let (world, ending) = self.run_on(world, &[], leaving)?;
            let mut lead =
                world.lead.ok_or_else(|| internal("the leader of the pool has lost its members"))?;
            match ending {
                Ending::Exit(exit) => {
                    // If the write fails, Slurm reports the end of this member; the exit status lets the next
                    // one be submitted.
                    let _ = lead.leave();
                    return Ok(exit);
                }
                Ending::HandOver(signal) => {
                    leaving = Some(signal);
                    (here, work) = (world.here, MemberWork::new(lead.into_worker()));
                    work.take_stock(&here);
                    self.directory.unlock();
                    work.wait_for_lock(&self.context.clock);
                }
            }
        }
    }

    /// Returns the other members, for the member that holds the lock and takes over; `None` if it
    /// `has_served`, all jobs have ended and no command is deferred.
    fn take_over(&self, has_served: bool) -> Result<Option<OtherMembers>, StateError> {
        let root = self.directory.root();
        if has_served {
            let peeked = StateDir::peek(root, &self.rules)?;
            if peeked.state.is_over() && peeked.deferred_commands.is_empty() {
                return Ok(None);
            }
        }
        let found = OtherMembers::find(root)?;
        found.map(Some).ok_or_else(|| StateError::Missing { path: root.join(POOL) })
    }

    /// Ends this `hsched run`: all jobs save. In a pool, another member takes over if one stays; otherwise,
    /// the next `hsched run` resumes the jobs.
    pub(super) fn end(&self, work: &mut RunTurns<'_>, signal: i32) -> Result<Ending, Failure> {
        // Ask the jobs to save first, so that they lose no work if the disk or Slurm does not answer.
        let deadline = self.ask_to_save(work, signal);
        if let Some(lead) = &mut work.session.world.lead {
            match self.has_successor(lead) {
                Ok(true) => return Ok(Ending::HandOver(signal)),
                Ok(false) => {}
                Err(error) => {
                    self.telling.log.say(&format!("no other member can take over: {}", error.in_one_line()));
                }
            }
        }
        self.close(work, signal, deadline).map(Ending::Exit)
    }

    /// Returns whether another member stays when the leader leaves.
    fn has_successor(&self, lead: &mut Lead<'_>) -> Result<bool, StateError> {
        lead.ask_to_leave()?;
        // A member that Slurm no longer lists cannot take over.
        let leader = lead.id().clone();
        slurm::mark_dead_soon(self.context, &mut lead.others, &leader)?;
        lead.others.another_stays(&leader)
    }

    /// Asks Slurm about silent members, and watches the folders of new members.
    pub(super) fn look_at_members(&self, work: &mut RunTurns<'_>) {
        let Some(lead) = &mut work.session.world.lead else { return };
        let elapsed = lead.elapsed();
        for member in lead.others.doubts(elapsed) {
            if slurm::is_over(self.context, &member) == Some(true) {
                // If the write fails, the next turn asks Slurm again.
                if lead.others.mark_over(&member).is_ok() {
                    self.telling.log.say(&format!("Slurm job {member} of the pool has ended"));
                }
            }
        }
        for member in lead.others.new_members() {
            if let Some(folder) = OtherMembers::folder(self.directory.root(), &member) {
                self.waker.watch(&folder);
            }
            self.telling.log.say(&format!("Slurm job {member} has joined the pool"));
        }
    }
}

fn internal(what: &str) -> Failure {
    Failure::new(Exit::Internal, what)
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` wants")]
pub(super) fn failed(error: StateError) -> Failure {
    state::failure(&error)
}
