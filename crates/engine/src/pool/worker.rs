//! A member that is not the leader: reads its orders, claims the submissions that it starts and reports the
//! outcomes.

use std::collections::BTreeSet;

use crate::pool::{
    Demand, MemberId, Order, Orders, PoolFiles, PoolReport, StartedSubmission, claim_path, orders_path,
    parse, report_path, write,
};
use crate::{Answer, End, SubmissionKey};
use hsched_model::{JobId, JobName, Time};

/// A task for a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Duty {
    /// Start this claimed submission and report it by [`Worker::started`] or [`Worker::refused`].
    Start(Box<Order>),
    /// Do not start this claimed submission; report that by [`Worker::ended`].
    Decline(SubmissionKey),
    /// Ask the submission to save and end.
    Stop(SubmissionKey),
    /// End the submission.
    Kill(SubmissionKey),
    /// Forget this submission; the leader has seen its end.
    Forget(SubmissionKey),
    /// Leave; the worker is allowed to.
    Leave,
}

/// A worker's side of the protocol.
#[derive(Clone, Debug)]
pub struct Worker<F> {
    files: F,
    id: MemberId,
    report: PoolReport,
    /// The last demand for each submission.
    asked: Vec<(SubmissionKey, Demand)>,
    /// The submissions in the leader's orders that the worker has claimed or tried to claim.
    claimed: BTreeSet<SubmissionKey>,
    /// The submissions whose end the leader has seen.
    forgotten: BTreeSet<SubmissionKey>,
}

impl<F: PoolFiles> Worker<F> {
    /// Joins the pool: after the first report the leader may send orders.
    ///
    /// # Errors
    /// If the report cannot be written.
    pub fn join(files: F, member_id: MemberId, report: PoolReport) -> Result<Self, F::Error> {
        let (asked, claimed, forgotten) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut worker = Self { files, id: member_id, report, asked, claimed, forgotten };
        worker.beat()?;
        Ok(worker)
    }

    /// Returns the worker's id.
    pub fn id(&self) -> &MemberId {
        &self.id
    }

    /// Returns the submissions that the worker started or could not start and that the leader has not
    /// dropped.
    pub fn submissions(&self) -> &[StartedSubmission] {
        &self.report.submissions
    }

    /// Reports that the member is alive.
    ///
    /// # Errors
    /// If the report cannot be written.
    pub fn beat(&mut self) -> Result<(), F::Error> {
        self.report.beat += 1;
        self.write()
    }

    /// Reads the orders and returns the tasks; the caller must carry out all of them. Submissions to start
    /// are already claimed.
    ///
    /// # Errors
    /// If orders cannot be read, or if a claim cannot be written and no other task exists; the next call
    /// tries again.
    pub fn duties(&mut self) -> Result<Vec<Duty>, F::Error> {
        let orders = read_orders(&self.files, &self.id)?;
        let (mut duties, mut trouble) = (Vec::new(), None);
        let is_ordered = |of: &SubmissionKey| orders.orders.iter().any(|order| order.of == *of);
        for submission in &self.report.submissions {
            if submission.ended.is_some() && !is_ordered(&submission.of) {
                self.claimed.remove(&submission.of);
                self.forgotten.insert(submission.of.clone());
                duties.push(Duty::Forget(submission.of.clone()));
            }
        }
        self.report.submissions.retain(|submission| submission.ended.is_none() || is_ordered(&submission.of));
        for order in orders.orders {
            match self.report.submissions.iter().find(|submission| submission.of == order.of) {
                None => match self.take(order) {
                    Ok(duty) => duties.extend(duty),
                    Err(error) => trouble = trouble.or(Some(error)),
                },
                Some(submission) if submission.ended.is_none() => duties.extend(self.ask(&order)),
                Some(_) => {}
            }
        }
        self.asked.retain(|(of, _)| self.report.submissions.iter().any(|submission| submission.of == *of));
        let is_claimed = |duty: &Duty| matches!(duty, Duty::Start(_) | Duty::Decline(_));
        let has_open = trouble.is_some() || duties.iter().any(is_claimed);
        if orders.leave
            && !has_open
            && self.report.submissions.iter().all(|submission| submission.ended.is_some())
        {
            duties.push(Duty::Leave);
        }
        match trouble {
            Some(error) if duties.is_empty() => Err(error),
            _ => Ok(duties),
        }
    }

    /// Claims a new order unless it was taken back.
    fn take(&mut self, order: Order) -> Result<Option<Duty>, F::Error> {
        if self.forgotten.contains(&order.of) {
            return Ok(None);
        }
        let (path, id_text) = (claim_path(&order.of), self.id.to_string());
        if order.demand != Demand::Run || self.report.leaving {
            // A call that failed may have claimed it, so the leader waits for a report about it.
            let is_own = self.claimed.contains(&order.of) && self.files.read(&path)? == Some(id_text);
            return Ok(is_own.then_some(Duty::Decline(order.of)));
        }
        self.claimed.insert(order.of.clone());
        // If the claim is already this member's, it was made by a call that failed later.
        let is_own = self.files.claim(&path, &id_text)? || self.files.read(&path)? == Some(id_text);
        Ok(is_own.then(|| Duty::Start(Box::new(order))))
    }

    /// Returns the demand for a running submission if it is new.
    fn ask(&mut self, order: &Order) -> Option<Duty> {
        let before =
            self.asked.iter().find(|(of, _)| *of == order.of).map_or(Demand::Run, |(_, demand)| *demand);
        if order.demand <= before {
            return None;
        }
        self.asked.retain(|(of, _)| *of != order.of);
        self.asked.push((order.of.clone(), order.demand));
        match order.demand {
            Demand::Run => None,
            Demand::Stop => Some(Duty::Stop(order.of.clone())),
            Demand::Kill => Some(Duty::Kill(order.of.clone())),
        }
    }

    /// Reports that a claimed submission runs.
    ///
    /// # Errors
    /// If the report cannot be written; the next one contains it.
    pub fn started(&mut self, of: &SubmissionKey, job_id: JobId, since: Time) -> Result<(), F::Error> {
        self.report.submissions.push(StartedSubmission {
            of: of.clone(),
            job_id,
            since,
            ended: None,
            refusal: None,
        });
        self.write()
    }

    /// Reports that a claimed submission was not started, and why.
    ///
    /// # Errors
    /// If the report cannot be written; the next one contains it.
    pub fn refused(&mut self, of: &SubmissionKey, refusal: Answer, at: Time) -> Result<(), F::Error> {
        self.note_end(of.clone(), End::Interrupted, at, Some(refusal));
        self.write()
    }

    /// Reports that claimed submissions have ended.
    ///
    /// # Errors
    /// If the report cannot be written; the next one contains it.
    pub fn ended(
        &mut self,
        ends: impl IntoIterator<Item = (SubmissionKey, End, Time)>,
    ) -> Result<(), F::Error> {
        for (of, end, at) in ends {
            self.note_end(of, end, at, None);
        }
        self.write()
    }

    /// Adds jobs that need GPUs of their own to the next report.
    pub fn note_alone(&mut self, jobs: &BTreeSet<JobName>) {
        self.report.alone.extend(jobs.iter().cloned());
    }

    fn note_end(&mut self, of: SubmissionKey, end: End, at: Time, refusal: Option<Answer>) {
        match self.report.submissions.iter_mut().find(|submission| submission.of == of) {
            Some(submission) if submission.ended.is_some() => {}
            Some(submission) => submission.ended = Some((end, at)),
            None => {
                let ended = Some((end, at));
                let job_id = StartedSubmission::NEVER;
                self.report.submissions.push(StartedSubmission { of, job_id, since: at, ended, refusal });
            }
        }
    }

    /// Reports which nodes Slurm has removed from the allocation.
    ///
    /// # Errors
    /// If the report cannot be written; the next one contains it.
    pub fn keep_nodes(&mut self, is_left: impl Fn(&MemberId, &str) -> bool) -> Result<(), F::Error> {
        for node in &mut self.report.nodes {
            node.is_lost = !is_left(&self.id, MemberId::plain(&node.name).as_str());
        }
        self.write()
    }

    /// Asks to leave: the member accepts no more orders and stops its submissions.
    ///
    /// # Errors
    /// If the report cannot be written.
    pub fn ask_to_leave(&mut self) -> Result<(), F::Error> {
        self.report.leaving = true;
        self.write()
    }

    /// Leaves the pool for good. All its processes must have ended.
    ///
    /// # Errors
    /// If the report cannot be written; Slurm then reports that the member is over.
    pub fn leave(&mut self) -> Result<(), F::Error> {
        (self.report.leaving, self.report.left) = (true, true);
        self.write()
    }

    fn write(&mut self) -> Result<(), F::Error> {
        let path = report_path(&self.id);
        let text = write(&self.report).map_err(|what| self.files.damaged(&path, &what))?;
        self.files.replace(&path, &text)
    }
}

/// Returns the orders of a member; empty if none were written.
pub(super) fn read_orders<F: PoolFiles>(files: &F, member: &MemberId) -> Result<Orders, F::Error> {
    let path = orders_path(member);
    let Some(text) = files.read(&path)? else { return Ok(Orders::default()) };
    parse(&text).map_err(|what| files.damaged(&path, &what))
}
