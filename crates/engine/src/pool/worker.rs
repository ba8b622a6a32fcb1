//! A member that is not the leader: reads its orders, claims what it starts, and reports what became of it.

use std::collections::BTreeSet;

use crate::pool::{
    Demand, MemberId, Order, Orders, PoolFiles, PoolReport, StartedSubmission, claim_path, orders_path,
    parse, report_path, write,
};
use crate::{Answer, End, SubmissionKey};
use hsched_model::{JobId, Time};

/// What a worker has to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Duty {
    /// It has claimed this submission: it starts it and says so by [`Worker::started`] or [`Worker::refused`].
    Start(Box<Order>),
    /// It has claimed this submission, has not started it, and is not to start it any more: it says so by [`Worker::ended`].
    Decline(SubmissionKey),
    /// It asks the submission to save and end.
    Stop(SubmissionKey),
    /// It ends the submission.
    Kill(SubmissionKey),
    /// The leader has seen the end of this submission.
    Forget(SubmissionKey),
    /// It may leave.
    Leave,
}

/// A worker's side of the protocol.
#[derive(Clone, Debug)]
pub struct Worker<F> {
    files: F,
    own: MemberId,
    report: PoolReport,
    /// What it was asked for last, by submission.
    asked: Vec<(SubmissionKey, Demand)>,
    /// The submissions that it has claimed by order, or has tried to.
    claimed: BTreeSet<SubmissionKey>,
    /// The submissions whose end the leader has seen.
    forgotten: BTreeSet<SubmissionKey>,
}

impl<F: PoolFiles> Worker<F> {
    /// Joins the pool: from the first report on the leader may send orders.
    ///
    /// # Errors
    /// When the report cannot be written.
    pub fn join(files: F, member_id: MemberId, report: PoolReport) -> Result<Self, F::Error> {
        let (asked, claimed, forgotten) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let mut worker = Self { files, own: member_id, report, asked, claimed, forgotten };
        worker.beat()?;
        Ok(worker)
    }

    /// Returns its id.
    pub fn id(&self) -> &MemberId {
        &self.own
    }

    /// Returns what it has started and the leader has not dropped.
    pub fn submissions(&self) -> &[StartedSubmission] {
        &self.report.submissions
    }

    /// Says that it lives.
    ///
    /// # Errors
    /// When the report cannot be written.
    pub fn beat(&mut self) -> Result<(), F::Error> {
        self.report.beat += 1;
        self.write()
    }

    /// Reads the orders and returns what to do about them, all of which the caller must do. What it is to start is claimed.
    ///
    /// # Errors
    /// When orders cannot be read, or a claim cannot be written and there is nothing else to do: the next call tries it again.
    pub fn duties(&mut self) -> Result<Vec<Duty>, F::Error> {
        let orders = read_orders(&self.files, &self.own)?;
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
                Some(own) if own.ended.is_none() => duties.extend(self.ask(&order)),
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

    /// Claims an order that is new, unless it was taken back.
    fn take(&mut self, order: Order) -> Result<Option<Duty>, F::Error> {
        if self.forgotten.contains(&order.of) {
            return Ok(None);
        }
        let (path, own) = (claim_path(&order.of), self.own.to_string());
        if order.demand != Demand::Run || self.report.leaving {
            // A call that failed may have claimed it: then the leader waits for word of it.
            let is_own = self.claimed.contains(&order.of) && self.files.read(&path)? == Some(own);
            return Ok(is_own.then_some(Duty::Decline(order.of)));
        }
        self.claimed.insert(order.of.clone());
        // One that is its own already was made by a call that failed after it.
        let is_own = self.files.claim(&path, &own)? || self.files.read(&path)? == Some(own);
        Ok(is_own.then(|| Duty::Start(Box::new(order))))
    }

    /// Returns what a running submission is asked for anew.
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
    /// When the report cannot be written; the next one has it.
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
    /// When the report cannot be written; the next one has it.
    pub fn refused(&mut self, of: &SubmissionKey, refusal: Answer, at: Time) -> Result<(), F::Error> {
        self.note_end(of.clone(), End::Interrupted, at, Some(refusal));
        self.write()
    }

    /// Reports that claimed submissions have ended.
    ///
    /// # Errors
    /// When the report cannot be written; the next one has it.
    pub fn ended(
        &mut self,
        ends: impl IntoIterator<Item = (SubmissionKey, End, Time)>,
    ) -> Result<(), F::Error> {
        for (of, end, at) in ends {
            self.note_end(of, end, at, None);
        }
        self.write()
    }

    fn note_end(&mut self, of: SubmissionKey, end: End, at: Time, refusal: Option<Answer>) {
        match self.report.submissions.iter_mut().find(|submission| submission.of == of) {
            Some(own) if own.ended.is_some() => {}
            Some(own) => own.ended = Some((end, at)),
            None => {
                let (job_id, ended) = (JobId(0), Some((end, at)));
                self.report.submissions.push(StartedSubmission { of, job_id, since: at, ended, refusal });
            }
        }
    }

    /// Reports which nodes Slurm has taken away.
    ///
    /// # Errors
    /// When the report cannot be written; the next one has it.
    pub fn keep_nodes(&mut self, is_left: impl Fn(&MemberId, &str) -> bool) -> Result<(), F::Error> {
        for node in &mut self.report.nodes {
            node.is_lost = !is_left(&self.own, MemberId::plain(&node.name).as_str());
        }
        self.write()
    }

    /// Asks to leave: it takes no more orders, and stops what it has started.
    ///
    /// # Errors
    /// When the report cannot be written.
    pub fn ask_to_leave(&mut self) -> Result<(), F::Error> {
        self.report.leaving = true;
        self.write()
    }

    /// Leaves for good. Nothing of it may run any more.
    ///
    /// # Errors
    /// When the report cannot be written: then Slurm says that it is over.
    pub fn leave(&mut self) -> Result<(), F::Error> {
        (self.report.leaving, self.report.left) = (true, true);
        self.write()
    }

    fn write(&mut self) -> Result<(), F::Error> {
        let path = report_path(&self.own);
        let text = write(&self.report).map_err(|what| self.files.damaged(&path, &what))?;
        self.files.replace(&path, &text)
    }
}

/// Returns the orders of a member; none where nobody has written any.
pub(super) fn read_orders<F: PoolFiles>(files: &F, member: &MemberId) -> Result<Orders, F::Error> {
    let path = orders_path(member);
    let Some(text) = files.read(&path)? else { return Ok(Orders::default()) };
    parse(&text).map_err(|what| files.damaged(&path, &what))
}
