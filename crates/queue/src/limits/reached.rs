//! Limits that delay the user's pending jobs, and how much of each limit is in use.

use std::collections::BTreeMap;
use std::fmt;

use super::amounts::in_words;
use super::asked_tres;
use super::tally::Tally;
use crate::{Request, Snapshot};

/// A limit without room for a pending job of the user, or for a request.
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
    /// Returns the known limits that delay the user's pending jobs: for each job that waits for a limit, the
    /// first one without room.
    pub fn reached_limits(&self) -> Vec<ReachedLimit> {
        if self.limits.is_none() {
            return Vec::new();
        }
        let waits = |job: &&crate::QueueJob| job.ours && job.running.is_none() && job.waits_for_limit();
        let (tally, pending) = Tally::of(self, &|job| job.ours, |known| {
            let waiting = self.jobs.iter().filter(waits);
            let rule = |job: &crate::QueueJob| Some((job.id.clone(), known.rule_of(job, self)?));
            waiting.filter_map(rule).collect::<Vec<_>>()
        });
        let mut reached: BTreeMap<usize, ReachedLimit> = BTreeMap::new();
        for (id, rule) in pending {
            let Some((counter, limit)) = tally.reached(rule) else { continue };
            reached.entry(counter).or_insert(limit).jobs.push(id);
        }
        reached.into_values().collect()
    }

    /// Returns the limit that delays a request in each of its partitions: the first one in the first partition.
    pub fn reached_limit_of(&self, request: &Request) -> Option<ReachedLimit> {
        self.limits.as_ref()?;
        let amounts = asked_tres(&request.asks);
        let (tally, mut rules) = Tally::of(self, &|job| job.ours, |known| {
            let subjects = self.subjects_of(request).into_iter();
            subjects.map(|subject| known.limits.of(subject, &amounts)).collect::<Vec<_>>()
        });
        rules.retain(|rule| tally.rules[*rule].refusal().is_none());
        let reached: Option<Vec<ReachedLimit>> =
            rules.into_iter().map(|rule| Some(tally.reached(rule)?.1)).collect();
        reached?.into_iter().next()
    }
}

impl Tally {
    /// Returns the first limit of a rule that has no room now, with its counter.
    fn reached(&self, rule: usize) -> Option<(usize, ReachedLimit)> {
        let check = self.all.full(&self.rules[rule], 0.0)?;
        let (holder, tres, is_minutes) = self.names.get(&check.counter)?;
        let (used, by_you) = (self.all.used(check.counter, 0.0), self.mine.used(check.counter, 0.0));
        let limit = ReachedLimit {
            holder: holder.clone(),
            tres: tres.clone(),
            max: check.max,
            is_minutes: *is_minutes,
            by_you,
            by_others: used - by_you,
            jobs: Vec::new(),
        };
        Some((check.counter, limit))
    }
}

impl ReachedLimit {
    /// Returns whether two limits are the same one, regardless of the jobs that they delay.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.holder, &self.tres, self.is_minutes) == (&other.holder, &other.tres, other.is_minutes)
    }

    /// Returns the limit and its use: `limit of account bio (11 GPUs) is reached: 9 in use by others, 2 by you`.
    pub fn use_in_words(&self) -> String {
        let [limit, amounts] = self.words();
        format!("{limit}: {amounts}")
    }

    fn words(&self) -> [String; 2] {
        let whose: Vec<&str> = self.holder.split(':').collect();
        let whose = match whose[..] {
            ["a", account] => format!("of account {account}"),
            ["u", account, _] => format!("yours in account {account}"),
            ["qu", qos, _] => format!("of a user in QOS {qos}"),
            ["qa", qos, account] => format!("of account {account} in QOS {qos}"),
            _ => format!("of QOS {}", self.holder.trim_start_matches("q:")),
        };
        let most = in_words(self.tres.as_deref(), self.max, self.is_minutes);
        let (you, others) = (self.by_you.round(), self.by_others.round());
        [format!("limit {whose} ({most}) is reached"), format!("{others} in use by others, {you} by you")]
    }
}

impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = match &self.jobs[..] {
            [one] => format!("your job {one} waits"),
            several => format!("{} of your jobs wait", several.len()),
        };
        let [limit, amounts] = self.words();
        write!(f, "{jobs}: the {limit}, {amounts}")
    }
}
