//! Limits that the queue model ignores: those on past use and on submitted jobs.

use super::{Limit, LimitUse, asked_tres};
use crate::{LimitReason, QueueJob, Snapshot};

impl Snapshot {
    /// Returns the limit on past use or on submitted jobs that a job's reason names, if known: the limit of
    /// the first holder that has one. The past use itself is unknown.
    pub(crate) fn uncounted_limit(&self, job: &QueueJob, named: &LimitReason) -> Option<LimitUse> {
        let is_on_submission = named.is_on_submission();
        if !is_on_submission && !named.is_on_past_use() {
            return None;
        }
        let holders =
            if named.is_of_qos { self.holders_of_qos(job) } else { self.holders_of_association(job) };
        let limits = self.limits.as_deref().unwrap_or_default();
        let find = |holder: &String| {
            limits.iter().find(|limit| {
                limit.holder == *holder && limit.name == named.limit && named.counts(limit.tres.as_deref())
            })
        };
        let limit = holders.iter().find_map(find)?;
        let minutes = self.limit_of(job) / 60.0;
        let needed = match limit.tres.as_deref() {
            Some(tres) => asked_tres(&job.asks).get(tres).copied().unwrap_or(0.0) * minutes,
            None if is_on_submission => f64::from(job.tasks.max(1)),
            None => minutes,
        };
        let submitted = |is_own: bool| {
            // The job itself is what the limit is asked for.
            let counted =
                self.jobs.iter().filter(|other| other.id != job.id && self.is_of(other, job, limit));
            let counted = counted.filter(|other| !is_own || other.user == job.user);
            counted.fold(0.0, |sum, other| sum + f64::from(other.tasks.max(1)))
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
            ["q", _] => self.holders_of_qos(other).contains(&limit.holder),
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

#[cfg(test)]
mod tests {
    use crate::{LimitUse, Reason, Snapshot};

    /// Returns a queue with pending jobs of ann's, of which job 1 waits for a reason, in a partition with a QOS.
    fn queue(reason: &str, limits: &str) -> Snapshot {
        let job = |id: u32| {
            format!(
                r#"{{"id": "{id}", "user": "ann", "ours": true, "account": "bio", "qos": "normal", "partitions": ["gpu"],
                "reason": "{reason}", "priority": 100, "limit_s": 3600, "asks": {{"cpus": 16}}}}"#
            )
        };
        Snapshot::parse(&format!(
            r#"{{"schema": "hsched.queue/1", "taken_at": 100, "user": "ann", "nodes": [],
            "partitions": [{{"name": "gpu", "limit_qos": "part"}}], "limits": [{limits}], "jobs": [{}, {}, {}]}}"#,
            job(1),
            job(2),
            job(3)
        ))
        .expect("a snapshot")
    }

    fn named(reason: &str, limits: &str) -> LimitUse {
        let snapshot = queue(reason, limits);
        let limit = Reason::read(reason).limit.expect("a limit");
        snapshot.uncounted_limit(&snapshot.jobs[0], &limit).expect("the limit")
    }

    #[test]
    fn the_resource_of_a_reason_chooses_the_limit() {
        let limits = r#"{"holder": "a:bio", "name": "GrpTRESMins", "tres": "cpu", "max": 900000},
            {"holder": "a:bio", "name": "GrpTRESMins", "tres": "gres/gpu", "max": 6000}"#;
        assert_eq!(named("AssocGrpGRESMinutes", limits).tres.as_deref(), Some("gres/gpu"));
        assert_eq!(named("AssocGrpCPUMinutesLimit", limits).tres.as_deref(), Some("cpu"));
    }

    #[test]
    fn a_limit_on_submission_counts_the_other_jobs_of_its_qos() {
        let limits = r#"{"holder": "q:part", "name": "MaxSubmitJobsPerUser", "max": 3}"#;
        let found = named("QOSMaxSubmitJobPerUserLimit", limits);
        assert_eq!((found.used, found.by_you, found.needed), (Some(2.0), 2.0, 1.0));
        let alone = queue("", "");
        let counted = Snapshot { jobs: alone.jobs[..1].to_vec(), ..queue("", limits) };
        let limit = Reason::read("QOSMaxSubmitJobPerUserLimit").limit.expect("a limit");
        let used = counted.uncounted_limit(&counted.jobs[0], &limit).and_then(|limit| limit.used);
        assert!(used.is_some_and(f64::is_sign_positive), "{used:?}");
    }
}
