//! A turn of a member, which carries out its orders or leads the pool with a minimal engine.

use std::collections::BTreeSet;

use hsched_engine::pool::{Duty, Leader, MemberId, PoolSighting, Worker};
use hsched_engine::{End, SubmissionKey};
use hsched_model::{JobId, Time};

use crate::pool::disk::{self, Files, WriteError, write};
use crate::pool::model::{Job, Member, Moment, Plant};
use crate::pool::{id, key, order};

impl Moment {
    pub(super) fn turn(&mut self, number: usize, silent: Option<usize>, to: usize) -> Result<(), WriteError> {
        let is_led = self.members.iter().any(|member| matches!(member, Member::Leading(_)));
        let mut member = std::mem::replace(&mut self.members[number], Member::Killed);
        let turned = match &mut member {
            Member::Working(worker) => self.turn_of_worker(number, worker, is_led),
            Member::Leading(both) => self.turn_of_leader(number, both, silent, to),
            _ => Ok(None),
        };
        let (next, done) = match turned {
            Ok(next) => (next, Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.members[number] = next.unwrap_or(member);
        done
    }

    /// Takes a turn of a member that does not lead; returns its new state, `None` if it stays the same.
    fn turn_of_worker(
        &mut self,
        number: usize,
        worker: &mut Worker<Files>,
        is_led: bool,
    ) -> Result<Option<Member>, WriteError> {
        let is_released = self.obey(number, worker)?;
        if !is_led {
            // The lock is free, so the member takes it.
            let leader = Leader::new(Files)?;
            return Ok(Some(Member::Leading(Box::new((worker.clone(), leader, None)))));
        }
        if self.late.contains(&number) {
            let asked = worker.ask_to_leave();
            self.stop_all(number, worker)?;
            asked?;
        }
        if is_released {
            worker.leave()?;
        }
        Ok(is_released.then_some(Member::Over))
    }

    /// Takes a turn of the leader; returns its new state, `None` if it stays the same.
    fn turn_of_leader(
        &mut self,
        number: usize,
        (worker, leader, decided): &mut (Worker<Files>, Leader<Files>, Option<bool>),
        silent: Option<usize>,
        to: usize,
    ) -> Result<Option<Member>, WriteError> {
        self.beat(worker)?;
        if let Some(has_successor) = *decided {
            self.successors += u32::from(has_successor);
            // If the leader cannot record that it leaves, Slurm reports that it is over.
            return match worker.leave() {
                Err(WriteError::Killed) => Err(WriteError::Killed),
                _ => Ok(Some(Member::Over)),
            };
        }
        self.lead(number, leader, silent, to)?;
        if self.late.contains(&number) {
            worker.ask_to_leave()?;
            self.stop_all(number, worker)?;
            self.fold(number, leader, None)?;
            leader.release_leaving()?;
            let is_trusting = self.setting.plant == Plant::TrustLeavers && leader.members()?.len() > 1;
            let stays = is_trusting
                || leader.another_stays(&id(number), |member| silent.map(id).as_ref() == Some(member))?;
            *decided = Some(!stays && !self.is_done() && !self.task_waits());
        }
        Ok(None)
    }

    /// If writes may fail in this setting, writes the report again, as members do every few seconds; this
    /// includes data that could not be written before.
    fn beat(&self, worker: &mut Worker<Files>) -> Result<(), WriteError> {
        if self.setting.most.failures > 0 { worker.beat() } else { Ok(()) }
    }

    /// Carries out all of a worker's tasks even if some fail; returns whether it may leave.
    fn obey(&mut self, number: usize, worker: &mut Worker<Files>) -> Result<bool, WriteError> {
        let (mut is_released, mut done) = (false, self.beat(worker));
        let duties = worker.duties()?;
        disk::survived()?;
        for duty in duties {
            let did = match duty {
                Duty::Start(order) => {
                    self.start(&order.of, number);
                    worker.started(&order.of, JobId(1), Time(0.0))
                }
                Duty::Decline(of) => worker.ended([(of, End::Interrupted, Time(0.0))]),
                Duty::Stop(of) | Duty::Kill(of) => {
                    self.running.remove(&(of.clone(), number));
                    let end = if self.words.contains(&of) { End::Completed } else { End::Interrupted };
                    worker.ended([(of, end, Time(0.0))])
                }
                Duty::Forget(_) => Ok(()),
                Duty::Leave => {
                    is_released = true;
                    Ok(())
                }
            };
            disk::survived()?;
            done = done.and(did);
        }
        done.map(|()| is_released)
    }

    fn stop_all(&mut self, number: usize, worker: &mut Worker<Files>) -> Result<(), WriteError> {
        let submissions: Vec<SubmissionKey> =
            self.running.iter().filter(|(_, member)| *member == number).map(|(of, _)| of.clone()).collect();
        self.running.retain(|(_, member)| *member != number);
        worker.ended(submissions.into_iter().map(|of| (of, End::Interrupted, Time(0.0))))
    }

    fn start(&mut self, of: &SubmissionKey, number: usize) {
        if self.running.iter().any(|(candidate, _)| candidate.job == of.job) {
            self.wrong = Some(format!("{} runs twice", of.job));
        }
        if self.words.iter().any(|candidate| candidate.job == of.job) {
            self.wrong = Some(format!("{} runs again", of.job));
        }
        self.running.insert((of.clone(), number));
    }

    /// Takes a turn of the leader, which gives the first waiting job to member `to`.
    fn lead(
        &mut self,
        number: usize,
        leader: &mut Leader<Files>,
        silent: Option<usize>,
        to: usize,
    ) -> Result<(), WriteError> {
        // The leader asks Slurm about all members.
        for other in 0..self.members.len() {
            let is_silent = silent == Some(other) && self.setting.plant == Plant::BuryTheSilent;
            if matches!(self.members[other], Member::Over) || is_silent {
                leader.mark_over(&id(other))?;
            }
        }
        self.fold(number, leader, silent)?;
        leader.release_leaving()?;
        let is_busy = |member: &MemberId, jobs: &[Job]| {
            jobs.iter().any(|job| matches!(job, Job::Open { member: holder, .. } if holder == member))
        };
        let is_open = to == number && !self.late.contains(&number)
            || leader.members()?.iter().any(|(member, report)| *member == id(to) && !report.leaving);
        let first = self.jobs.iter().position(|job| *job == Job::Waiting);
        let Some(job) = first.filter(|_| is_open && !is_busy(&id(to), &self.jobs) && silent != Some(to))
        else {
            return Ok(());
        };
        let run = self.runs;
        self.runs += 1;
        let of = key(job, run);
        if self.setting.plant == Plant::OrderBeforeState && to != number {
            leader.order(&id(to), order(&of))?;
        }
        self.save(|world| world.jobs[job] = Job::Open { run, member: id(to) })?;
        if to == number {
            let may = self.setting.plant == Plant::StartUnclaimed || leader.claim(&of, &id(number))?;
            assert!(may, "nobody else knows of it");
            self.start(&of, number);
        } else if self.setting.plant != Plant::OrderBeforeState {
            leader.order(&id(to), order(&of))?;
        }
        Ok(())
    }

    /// Updates the state with the outcomes of submissions.
    fn fold(
        &mut self,
        number: usize,
        leader: &mut Leader<Files>,
        silent: Option<usize>,
    ) -> Result<(), WriteError> {
        let keys: BTreeSet<SubmissionKey> = (0..self.jobs.len())
            .filter_map(|job| match &self.jobs[job] {
                Job::Open { run, .. } => Some(key(job, *run)),
                _ => None,
            })
            .collect();
        leader.tidy(&keys.iter().collect())?;
        for job in 0..self.jobs.len() {
            let Job::Open { run, member } = self.jobs[job].clone() else { continue };
            let of = key(job, run);
            let index = (0..self.members.len()).find(|&other| id(other) == member);
            let has_completed = self.words.contains(&of);
            let after = if index == Some(number) {
                let runs = self.running.contains(&(of.clone(), number));
                if has_completed {
                    Job::Done
                } else if runs {
                    continue;
                } else {
                    Job::Waiting
                }
            } else {
                match leader.sight(&of, &member, index.is_some() && index == silent)? {
                    PoolSighting::Ordered | PoolSighting::Running { .. } => continue,
                    PoolSighting::Ended { end: End::Completed, .. } => Job::Done,
                    PoolSighting::Lost if has_completed => Job::Done,
                    PoolSighting::Ended { .. }
                    | PoolSighting::Refused(_)
                    | PoolSighting::NeverStarted
                    | PoolSighting::Lost => Job::Waiting,
                }
            };
            self.save(|world| world.jobs[job] = after)?;
        }
        Ok(())
    }

    /// Changes the state on disk.
    fn save(&mut self, change: impl FnOnce(&mut Self)) -> Result<(), WriteError> {
        write(|_| ())?;
        change(self);
        Ok(())
    }
}
