//! The leader's side: the state of submissions on other members, and orders to them.

use std::collections::{BTreeMap, BTreeSet};

use crate::pool::worker::read_orders;
use crate::pool::{
    Demand, MEMBERS, MemberId, Order, Orders, PoolFiles, PoolReport, WITHDRAWN, claim_path, orders_path,
    over_path, parse, report_path, write,
};
use crate::{Answer, End, SubmissionKey};
use hsched_model::{JobId, Time};

/// Known state of a submission assigned to a member.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolSighting {
    /// The member was ordered to start the submission and has not claimed it.
    Ordered,
    /// The member has claimed the submission and has not reported its end.
    Running { job_id: Option<JobId>, since: Option<Time> },
    Ended {
        end: End,
        /// The time at which the submission started; `None` if its member claimed it, but did not start it.
        since: Option<Time>,
        at: Time,
    },
    /// The submission's member could not start it.
    Refused(Answer),
    /// No member started the submission, and none will.
    NeverStarted,
    /// The submission's member is over and did not report the outcome.
    Lost,
}

/// The leader of a pool: the member that holds the lock of the state directory.
#[derive(Clone, Debug)]
pub struct Leader<F> {
    files: F,
    /// The orders given to each member.
    orders: BTreeMap<MemberId, Orders>,
    /// Members that are over: none of their processes run.
    over: BTreeSet<MemberId>,
}

impl<F: PoolFiles> Leader<F> {
    /// Takes over: reads the orders of earlier leaders.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn new(files: F) -> Result<Self, F::Error> {
        let mut leader = Self { files, orders: BTreeMap::new(), over: BTreeSet::new() };
        for member in leader.all_members()? {
            let orders = read_orders(&leader.files, &member)?;
            leader.orders.insert(member, orders);
        }
        Ok(leader)
    }

    /// Returns all members that ever joined.
    fn all_members(&self) -> Result<Vec<MemberId>, F::Error> {
        let names = self.files.list(MEMBERS)?;
        Ok(names.iter().filter_map(|name| MemberId::of_folder(name)).collect())
    }

    /// Returns the members that may be at work, with their reports.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn members(&mut self) -> Result<Vec<(MemberId, PoolReport)>, F::Error> {
        let mut members = Vec::new();
        for member in self.all_members()? {
            if self.is_over(&member)? {
                continue;
            }
            if let Some(report) = self.report(&member)? {
                members.push((member, report));
            }
        }
        Ok(members)
    }

    /// Returns whether all processes of a member have ended, according to the member itself or to Slurm.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn is_over(&mut self, member: &MemberId) -> Result<bool, F::Error> {
        if !self.over.contains(member) {
            let is_over = self.files.read(&over_path(member))?.is_some()
                || self.report(member)?.is_some_and(|report| report.left);
            if !is_over {
                return Ok(false);
            }
            self.over.insert(member.clone());
        }
        Ok(true)
    }

    /// Records that, according to Slurm, the allocation of a member is over.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn mark_over(&mut self, member: &MemberId) -> Result<(), F::Error> {
        self.files.claim(&over_path(member), "")?;
        self.over.insert(member.clone());
        Ok(())
    }

    /// Returns the state of a submission that a member was ordered to start. An unclaimed order is withdrawn
    /// with `take_back`, if its member is over, or if it no longer demands a run.
    ///
    /// # Errors
    /// If a file cannot be read or a claim cannot be written.
    pub fn sight(
        &mut self,
        of: &SubmissionKey,
        member: &MemberId,
        take_back: bool,
    ) -> Result<PoolSighting, F::Error> {
        // This is read before the report, because the last report of a member that is over is final.
        let is_over = self.is_over(member)?;
        let report = self.report(member)?.unwrap_or_default();
        if let Some(submission) = report.submissions.iter().find(|submission| submission.of == *of) {
            return Ok(match (&submission.refusal, &submission.ended) {
                (Some(answer), _) => PoolSighting::Refused(answer.clone()),
                (None, Some((end, at))) => {
                    PoolSighting::Ended { end: end.clone(), since: submission.begun(), at: *at }
                }
                (None, None) if is_over => PoolSighting::Lost,
                (None, None) => {
                    PoolSighting::Running { job_id: Some(submission.job_id), since: submission.begun() }
                }
            });
        }
        let is_ordered = self.order_of(of, member).is_some_and(|order| order.demand == Demand::Run);
        if is_ordered && !is_over && !take_back && self.files.read(&claim_path(of))?.is_none() {
            return Ok(PoolSighting::Ordered);
        }
        // The claim decides: either the member starts the submission, or this claim withdraws it.
        self.files.claim(&claim_path(of), WITHDRAWN)?;
        Ok(match self.files.read(&claim_path(of))?.as_deref() {
            Some(WITHDRAWN) => PoolSighting::NeverStarted,
            _ if is_over => PoolSighting::Lost,
            _ => PoolSighting::Running { job_id: None, since: None },
        })
    }

    /// Claims a submission that the leader starts itself, and returns whether it succeeded.
    ///
    /// # Errors
    /// If the claim cannot be written.
    pub fn claim(&self, of: &SubmissionKey, member_id: &MemberId) -> Result<bool, F::Error> {
        let (path, text) = (claim_path(of), member_id.to_string());
        // A file system that repeats a request may report its own link as a conflict.
        Ok(self.files.claim(&path, &text)? || self.files.read(&path)? == Some(text))
    }

    /// Returns the member's order for a submission.
    fn order_of(&self, of: &SubmissionKey, member: &MemberId) -> Option<&Order> {
        self.orders.get(member)?.orders.iter().find(|order| order.of == *of)
    }

    /// Returns the member ordered to start a submission.
    pub fn holder(&self, of: &SubmissionKey) -> Option<MemberId> {
        self.orders.keys().find(|member| self.order_of(of, member).is_some()).cloned()
    }

    /// Returns all orders of a member.
    pub fn orders(&self, member: &MemberId) -> &[Order] {
        self.orders.get(member).map_or(&[], |orders| &orders.orders)
    }

    /// Orders a member to start a submission. The state on disk must already contain it.
    ///
    /// # Errors
    /// If the order cannot be written; the member then does not have it.
    pub fn order(&mut self, member: &MemberId, order: Order) -> Result<(), F::Error> {
        self.change(member, |orders| orders.orders.push(order))
    }

    /// Tells a member to stop or end a submission that it was ordered to start.
    ///
    /// # Errors
    /// If the order cannot be written.
    pub fn demand(&mut self, of: &SubmissionKey, member: &MemberId, demand: Demand) -> Result<(), F::Error> {
        self.change(member, |orders| {
            for order in orders.orders.iter_mut().filter(|order| order.of == *of) {
                order.demand = order.demand.max(demand);
            }
        })
    }

    /// Allows a member to leave.
    ///
    /// # Errors
    /// If the order cannot be written.
    pub fn release(&mut self, member: &MemberId) -> Result<(), F::Error> {
        self.change(member, |orders| orders.leave = true)
    }

    /// Allows all members that have asked to leave to do so.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn release_leaving(&mut self) -> Result<(), F::Error> {
        for (member, report) in self.members()? {
            if report.leaving {
                self.release(&member)?;
            }
        }
        Ok(())
    }

    /// Returns whether another member stays when `member_id` leaves. The other member may not leave until it
    /// has the lock or is allowed to leave. A silent member may have ended without a report, so it does not
    /// count. In doubt, one member too many stays, never none.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn another_stays(
        &mut self,
        member_id: &MemberId,
        is_silent: impl Fn(&MemberId) -> bool,
    ) -> Result<bool, F::Error> {
        let members = self.members()?;
        let is_released = |member: &MemberId| self.orders.get(member).is_some_and(|orders| orders.leave);
        let stays = |member: &MemberId, report: &PoolReport| {
            !report.leaving && !is_released(member) && !is_silent(member)
        };
        Ok(members.iter().any(|(member, report)| member != member_id && stays(member, report)))
    }

    /// Drops the orders of submissions that are not `open` in the state on disk. A submission that its member
    /// may still start or run is ended first.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn tidy(&mut self, open: &BTreeSet<&SubmissionKey>) -> Result<(), F::Error> {
        for member in self.orders.keys().cloned().collect::<Vec<_>>() {
            let closed: Vec<SubmissionKey> = self
                .orders(&member)
                .iter()
                .map(|order| &order.of)
                .filter(|of| !open.contains(of))
                .cloned()
                .collect();
            let mut done = BTreeSet::new();
            for of in closed {
                match self.sight(&of, &member, true)? {
                    PoolSighting::Ended { .. }
                    | PoolSighting::Refused(_)
                    | PoolSighting::NeverStarted
                    | PoolSighting::Lost => {
                        done.insert(of);
                    }
                    PoolSighting::Ordered | PoolSighting::Running { .. } => {
                        self.demand(&of, &member, Demand::Kill)?;
                    }
                }
            }
            if !done.is_empty() {
                self.change(&member, |orders| orders.orders.retain(|order| !done.contains(&order.of)))?;
            }
        }
        Ok(())
    }

    /// Writes changed orders of a member to disk; does nothing if they are equal.
    fn change(&mut self, member: &MemberId, change: impl FnOnce(&mut Orders)) -> Result<(), F::Error> {
        let before = self.orders.get(member).cloned().unwrap_or_default();
        let mut after = before.clone();
        change(&mut after);
        if after != before {
            let path = orders_path(member);
            let text = write(&after).map_err(|what| self.files.damaged(&path, &what))?;
            self.files.replace(&path, &text)?;
            self.orders.insert(member.clone(), after);
        }
        Ok(())
    }

    fn report(&self, member: &MemberId) -> Result<Option<PoolReport>, F::Error> {
        let path = report_path(member);
        let Some(text) = self.files.read(&path)? else { return Ok(None) };
        parse(&text).map(Some).map_err(|what| self.files.damaged(&path, &what))
    }
}
