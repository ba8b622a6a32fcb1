//! Limits that delay the user's pending jobs, and how much of each limit is in use.

use std::collections::BTreeMap;
use std::fmt;

use super::amounts::in_words;
use super::tally::Tally;
use crate::Snapshot;

/// A limit without room for a pending job of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct ReachedLimit {
    /// The group over which the limit counts: `a:ACCOUNT`, `u:ACCOUNT:USER`, `q:QOS`, `qa:QOS:ACCOUNT` or
    /// `qu:QOS:USER`.
    pub holder: String,
    /// The counted resource; `None` for jobs.
    pub tres: Option<String>,
    pub max: f64,
    /// Whether the limit counts the remaining minutes of running jobs' time limits.
    pub is_minutes: bool,
    /// Use by running jobs of the user, and by running jobs of others.
    pub by_you: f64,
    pub by_others: f64,
    /// The user's pending jobs that the limit delays.
    pub jobs: Vec<String>,
}

impl Snapshot {
    /// Returns the known limits that delay the user's pending jobs.
    pub fn reached_limits(&self) -> Vec<ReachedLimit> {
        if self.limits.is_none() {
            return Vec::new();
        }
        let waits = |job: &&crate::QueueJob| job.ours && job.running.is_none() && job.waits_for_limit();
        let (Tally { rules, names, mine, all }, pending) = Tally::of(self, &|job| job.ours, |known| {
            let waiting = self.jobs.iter().filter(waits);
            let rule = |job: &crate::QueueJob| Some((job.id.clone(), known.rule_of(job, self)?));
            waiting.filter_map(rule).collect::<Vec<_>>()
        });
        let mut reached: BTreeMap<usize, ReachedLimit> = BTreeMap::new();
        for (id, rule) in pending {
            let Some(check) = all.full(&rules[rule], 0.0) else { continue };
            let Some((holder, tres, is_minutes)) = names.get(&check.counter) else { continue };
            let (used, by_you) = (all.used(check.counter, 0.0), mine.used(check.counter, 0.0));
            let new = || ReachedLimit {
                holder: holder.clone(),
                tres: tres.clone(),
                max: check.max,
                is_minutes: *is_minutes,
                by_you,
                by_others: used - by_you,
                jobs: Vec::new(),
            };
            reached.entry(check.counter).or_insert_with(new).jobs.push(id);
        }
        reached.into_values().collect()
    }
}

impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose: Vec<&str> = self.holder.split(':').collect();
        let whose = match whose[..] {
            ["a", account] => format!("account {account}"),
            ["u", account, _] => format!("yours in account {account}"),
            ["qu", qos, _] => format!("a user in QOS {qos}"),
            ["qa", qos, account] => format!("account {account} in QOS {qos}"),
            _ => format!("QOS {}", self.holder.trim_start_matches("q:")),
        };
        let of = if whose.starts_with("yours") { "limit" } else { "limit of" };
        let most = in_words(self.tres.as_deref(), self.max, self.is_minutes);
        let jobs = match &self.jobs[..] {
            [one] => format!("your job {one} waits"),
            several => format!("{} of your jobs wait", several.len()),
        };
        let (you, others) = (self.by_you.round(), self.by_others.round());
        write!(f, "{jobs}: the {of} {whose} ({most}) is reached, {others} in use by others, {you} by you")
    }
}
