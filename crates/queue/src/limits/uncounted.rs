//! Limits that the queue model ignores: those on past use and on submitted jobs.

use super::{Limit, LimitUse, asked_tres};
use crate::{LimitReason, QueueJob, Snapshot};

impl Snapshot {
    /// Returns the limit on past use or on submitted jobs that a job's reason names, if known: the limit of
    /// the first holder that has one. The past use itself is unknown.
    pub(crate) fn uncounted_limit(&self, job: &QueueJob, named: &LimitReason) -> Option<LimitUse> {
        let is_on_submission = named.limit.contains("SubmitJobs");
        if !is_on_submission && !named.is_on_past_use() {
            return None;
        }
        let holders =
            if named.is_of_qos { self.holders_of_qos(job) } else { self.holders_of_association(job) };
        let limits = self.limits.as_deref().unwrap_or_default();
        let find = |holder: &String| {
            limits.iter().find(|limit| limit.holder == *holder && limit.name == named.limit)
        };
        let limit = holders.iter().find_map(find)?;
        let minutes = self.limit_of(job) / 60.0;
        let needed = match limit.tres.as_deref() {
            Some(tres) => asked_tres(&job.asks).get(tres).copied().unwrap_or(0.0) * minutes,
            None if is_on_submission => f64::from(job.tasks.max(1)),
            None => minutes,
        };
        let submitted = |is_own: bool| {
            let counted = self.jobs.iter().filter(|other| self.is_of(other, job, limit));
            let counted = counted.filter(|other| !is_own || other.user == job.user);
            counted.map(|other| f64::from(other.tasks.max(1))).sum::<f64>()
        };
        Some(LimitUse {
            name: limit.name.clone(),
            holder: limit.holder.clone(),
            tres: limit.tres.clone(),
            max: limit.max,
            used: is_on_submission.then(|| submitted(false)),
            by_you: if is_on_submission { submitted(true) } else { 0.0 },
            needed,
        })
    }

    fn holders_of_qos(&self, job: &QueueJob) -> Vec<String> {
        let partitions = self.partitions.iter().filter(|partition| job.partitions.contains(&partition.name));
        let of_partitions = partitions.filter_map(|partition| partition.limit_qos.as_deref());
        of_partitions.chain(job.qos.as_deref()).map(|qos| format!("q:{qos}")).collect()
    }

    fn holders_of_association(&self, job: &QueueJob) -> Vec<String> {
        let Some(account) = job.account.as_deref() else { return Vec::new() };
        let user = job.user.iter().map(|user| format!("u:{account}:{user}"));
        user.chain(self.accounts_above(account).into_iter().map(|name| format!("a:{name}"))).collect()
    }

    /// Returns whether a job counts towards a limit on submitted jobs that applies to another one.
    fn is_of(&self, other: &QueueJob, job: &QueueJob, limit: &Limit) -> bool {
        let account = other.account.as_deref().unwrap_or_default();
        let is_there = match limit.holder.split(':').collect::<Vec<_>>()[..] {
            ["a", name] => self.accounts_above(account).contains(&name),
            ["u", name, user] => name == account && other.user.as_deref() == Some(user),
            ["q", name] => other.qos.as_deref() == Some(name),
            _ => false,
        };
        is_there
            && match limit.name.as_str() {
                "MaxSubmitJobs" | "MaxSubmitJobsPerUser" => other.user == job.user,
                "MaxSubmitJobsPerAccount" => other.account == job.account,
                _ => true,
            }
    }
}
