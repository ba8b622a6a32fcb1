//! Ownership of jobs: the user who read the queue, the QOS of a job, and the accounts above an account.

use std::collections::BTreeSet;

use crate::limits::asked_tres;
use crate::{LiftedBy, QueueJob, QueuePartition, Reason, Request, Snapshot};

/// Slurm's default QOS.
pub(super) const USUAL_QOS: &str = "normal";

impl Snapshot {
    /// Returns the user who read the queue.
    pub(super) fn own_user(&self) -> Option<&str> {
        let of_job = || self.jobs.iter().find(|job| job.ours)?.user.as_deref();
        let of_shares = || self.shares.as_ref()?.branches.iter().find(|branch| branch.ours)?.user.as_deref();
        self.user.as_deref().or_else(of_job).or_else(of_shares)
    }

    /// Returns the account of a request that sets none.
    pub fn own_account(&self) -> Option<&str> {
        let only = if self.accounts.len() == 1 { self.accounts.first() } else { None };
        self.accounts.iter().find(|account| account.default).or(only).map(|account| account.name.as_str())
    }

    /// Returns the QOS of a request that sets none.
    pub(super) fn own_qos(&self, account: Option<&str>) -> &str {
        let found = self.accounts.iter().find(|known| account == Some(known.name.as_str()));
        let is_like =
            |job: &&QueueJob| job.ours && account.is_none_or(|name| job.account.as_deref() == Some(name));
        let of_job = || self.jobs.iter().find(is_like)?.qos.as_deref();
        found.and_then(|account| account.qos.as_deref()).or_else(of_job).unwrap_or(USUAL_QOS)
    }

    /// Returns whether Slurm shows the accounts of the user, but not their limits.
    pub fn lacks_limits(&self) -> bool {
        self.limits.is_none() && !self.accounts.is_empty()
    }

    /// Returns whether a limit that Slurm does not show, or one on past use, delays a request. A limit that
    /// Slurm does not show is one for which a pending job of the user waits; for a limit of an account, only
    /// jobs of the request's account count.
    pub(super) fn has_unread_limit(&self, request: &Request) -> bool {
        let subject = self.subject_of(request);
        let is_like = |job: &QueueJob| {
            let is_of_account = job.reason.as_deref().is_some_and(|reason| reason.starts_with("Assoc"));
            !is_of_account || subject.account.is_none() || job.account.as_deref() == subject.account
        };
        let is_unread = |job: &QueueJob| job.ours && job.waits_for_limit() && is_like(job);
        let amounts = asked_tres(&request.asks);
        self.limits.is_none() && self.jobs.iter().any(is_unread)
            || self.subjects_of(request).into_iter().all(|subject| self.is_spent(subject, &amounts))
    }

    /// Returns an account and those above it, the nearest first.
    pub(super) fn accounts_above<'a>(&'a self, account: &'a str) -> Vec<&'a str> {
        let mut list = vec![account];
        while let Some(parent) = list.last().and_then(|account| self.parent_accounts.get(*account)) {
            if list.contains(&parent.as_str()) {
                break;
            }
            list.push(parent);
        }
        list
    }
}

impl QueuePartition {
    /// Returns whether jobs of an account may use the partition.
    pub(super) fn allows_account(&self, account: Option<&str>) -> bool {
        lets_in(self.accounts.as_ref(), &self.deny_accounts, account)
    }

    /// Returns whether jobs of a QOS may use the partition.
    pub(super) fn allows_qos(&self, qos: Option<&str>) -> bool {
        lets_in(self.qos.as_ref(), &self.deny_qos, qos)
    }
}

/// Returns whether a name is allowed, or not denied if all others are allowed.
fn lets_in(allowed: Option<&BTreeSet<String>>, denied: &BTreeSet<String>, name: Option<&str>) -> bool {
    match allowed {
        Some(allowed) => name.is_some_and(|name| allowed.contains(name)),
        None => name.is_none_or(|name| !denied.contains(name)),
    }
}

impl QueueJob {
    /// Returns whether a job waits for a limit of its QOS or association.
    pub(crate) fn waits_for_limit(&self) -> bool {
        self.running.is_none() && self.reason.as_deref().is_some_and(crate::limits::is_limit_reason)
    }

    /// Returns whether a job waits until past use counts less.
    pub(super) fn waits_for_decay(&self) -> bool {
        let is_decay = |reason| Reason::read(reason).lifted_by == LiftedBy::Decay;
        self.running.is_none() && self.reason.as_deref().is_some_and(is_decay)
    }
}
