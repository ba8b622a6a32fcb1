//! Limits on past use that delay a request until the use counts less.

use super::{Limit, Subject, TresAmounts};
use crate::{QueueJob, Reason, Snapshot};

impl Snapshot {
    /// Returns whether a limit on past use delays a request: one that is used up, or one for which a pending
    /// job of the user waits.
    pub(crate) fn is_spent(&self, subject: Subject<'_>, amounts: &TresAmounts) -> bool {
        // Every job is billed.
        let has = |tres: &str| tres == "billing" || amounts.get(tres).is_some_and(|amount| *amount > 0.0);
        let is_used_up = |limit: &&Limit| {
            limit.used.is_some_and(|used| used >= limit.max) && limit.tres.as_deref().is_some_and(has)
        };
        let mut used_up = self.limits.iter().flatten().filter(is_used_up);
        let mut waiting = self.jobs.iter().filter(|job| job.ours && job.waits_for_decay());
        used_up.any(|limit| self.counts_for(subject, &limit.holder, &limit.name, limit.tres.as_deref()))
            || waiting.any(|job| self.waits_for_same(job, subject))
    }

    /// Returns whether the limit for which a pending job waits is also one of a request. If it is unknown, a
    /// limit of a QOS delays all jobs of the QOS, and one of an account those of the account.
    fn waits_for_same(&self, job: &QueueJob, subject: Subject<'_>) -> bool {
        let is_of_qos = job.qos.as_deref().is_none_or(|name| subject.qos == Some(name));
        let is_of_account = job.account.as_deref() == subject.account;
        let Some(named) = Reason::read(job.reason.as_deref().unwrap_or_default()).limit else {
            return is_of_qos && is_of_account;
        };
        match self.uncounted_limit(job, &named) {
            Some(limit) => self.counts_for(subject, &limit.holder, &limit.name, limit.tres.as_deref()),
            None if named.is_of_qos => is_of_qos,
            None => is_of_account,
        }
    }

    /// Returns whether the limit of a holder counts for a request: a QOS that has it overrides the next one and
    /// all accounts.
    fn counts_for(&self, subject: Subject<'_>, holder: &str, name: &str, tres: Option<&str>) -> bool {
        let is_set = |holder: &str| {
            self.limits.iter().flatten().any(|limit| {
                (limit.holder.as_str(), limit.name.as_str(), limit.tres.as_deref()) == (holder, name, tres)
            })
        };
        let qualities = self.qualities(subject);
        let account = subject.account.unwrap_or_default();
        let is_own = match holder.split(':').collect::<Vec<_>>()[..] {
            ["q", name] => qualities.contains(&name),
            ["a", name] => self.accounts_above(account).contains(&name),
            ["u", name, user] => name == account && subject.user == Some(user),
            _ => false,
        };
        if !is_own {
            return false;
        }
        let of_qos = qualities.iter().map(|qos| format!("q:{qos}")).find(|qos| is_set(qos));
        of_qos.map_or(!holder.starts_with("q:"), |of_qos| of_qos == holder)
    }
}
