//! The limits that apply to a pending job in each of its partitions, with the use of each.

use super::Refusal;
use super::amounts::in_words;
use super::tally::Tally;
use crate::{QueueJob, Snapshot};
use hsched_model::Seconds;

/// A limit that applies to a pending job, with its use.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitUse {
    /// Slurm's name, such as `GrpTRES`; `MaxTime`, `MaxNodes` and `TotalNodes` are limits of a partition, and
    /// `ArrayTaskThrottle` is the limit of a job array.
    pub name: String,
    /// The holder of the limit, or the group over which the limit counts: `a:ACCOUNT`, `u:ACCOUNT:USER`,
    /// `q:QOS`, `qa:QOS:ACCOUNT`, `qu:QOS:USER`, `p:PARTITION`, `array:ID`.
    pub holder: String,
    /// The counted resource; `None` for jobs and times.
    pub tres: Option<String>,
    /// The maximum; times in minutes.
    pub max: f64,
    /// Use by running jobs, or by all submitted jobs if the limit counts these; `None` for a limit on a
    /// single job or on past use.
    pub used: Option<f64>,
    /// The part used by the job's user.
    pub by_you: f64,
    /// The need of the job itself.
    pub needed: f64,
}

/// The limits of a pending job in one of its partitions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobLimits {
    pub partition: Option<String>,
    /// Limits that never allow the job to start, in the order in which Slurm checks them.
    pub never: Vec<LimitUse>,
    /// Limits with their use, in the order in which Slurm checks them.
    pub counted: Vec<LimitUse>,
}

impl LimitUse {
    /// Returns whether the limit has no room for the job beside the present use.
    pub fn is_full(&self) -> bool {
        self.used.is_some_and(|used| used + self.needed > self.max + 1e-6)
    }

    fn is_minutes(&self) -> bool {
        self.name.contains("Mins")
    }

    fn amount(&self, amount: f64) -> String {
        match self.name.as_str() {
            "MaxWall" | "MaxTime" | "GrpWall" => crate::why::span(Seconds(amount * 60.0)),
            "MaxNodes" | "TotalNodes" => in_words(Some("node"), amount, false),
            "ArrayTaskThrottle" => in_words(None, amount, false).replace("job", "task"),
            _ => in_words(self.tres.as_deref(), (amount * 10.0).round() / 10.0, self.is_minutes()),
        }
    }

    /// Returns the limit's holder in words, as in `account bio`.
    fn whose(&self) -> String {
        let parts: Vec<&str> = self.holder.split(':').collect();
        match parts[..] {
            ["a", account] => format!("account {account}"),
            ["u", account, user] => format!("user {user} in account {account}"),
            ["q", qos] => format!("QOS {qos}"),
            ["qu", qos, user] => format!("user {user} in QOS {qos}"),
            ["qa", qos, account] => format!("account {account} in QOS {qos}"),
            ["p", partition] => format!("partition {partition}"),
            ["array", id] => format!("array {id}"),
            _ => self.holder.clone(),
        }
    }

    /// Returns, as the end of a sentence, that the limit never allows the job to start.
    pub fn never(&self) -> String {
        let (max, needed) = (self.amount(self.max), self.amount(self.needed));
        let (name, whose) = (&self.name, self.whose());
        match name.as_str() {
            "MinTRES" => format!("the limit {name} of {whose} demands at least {max}, it asks for {needed}"),
            "MaxTRESPerNode" => {
                format!("the limit {name} of {whose} allows {max} on each node, it asks for {needed}")
            }
            "MaxWall" | "MaxTime" => {
                format!("its time limit is {needed}, {whose} allows {max} ({name})")
            }
            "TotalNodes" => format!("{whose} has {max}, it asks for {needed}"),
            _ => format!("the limit {name} of {whose} allows {max}, it asks for {needed}"),
        }
    }

    /// Returns the limit's use and the job's need, as a sentence.
    pub fn numbers(&self) -> String {
        let (name, whose, max) = (&self.name, self.whose(), self.amount(self.max));
        let needed = self.amount(self.needed);
        let Some(used) = self.used else {
            return format!(
                "The limit {name} of {whose} is {max}; with its time limit it asks for {needed}."
            );
        };
        let used = self.amount(used);
        let yours = if self.by_you > 0.0 {
            format!(" ({} by its user)", self.amount(self.by_you))
        } else {
            String::new()
        };
        let verdict = if self.is_full() { "has no room" } else { "has room now" };
        format!(
            "The limit {name} of {whose} is {max} and {verdict}: in use {used}{yours}, it asks for {needed}."
        )
    }
}

impl Snapshot {
    /// Returns the limits of accounts, users and QOS that apply to a pending job, by partition; empty if they
    /// are unknown.
    pub(crate) fn limits_of(&self, job: &QueueJob) -> Vec<JobLimits> {
        if self.limits.is_none() {
            return Vec::new();
        }
        let mut partitions: Vec<Option<String>> = job.partitions.iter().cloned().map(Some).collect();
        if partitions.is_empty() {
            partitions.push(None);
        }
        let is_of_user = |other: &QueueJob| other.user == job.user;
        let (Tally { rules, names, mine, all }, of_user) = Tally::of(self, &is_of_user, |known| {
            let rule = |partition: &Option<String>| known.rule_in(job, self, partition.as_deref());
            partitions.iter().map(rule).collect::<Vec<usize>>()
        });
        let of_partition = |(partition, rule): (Option<String>, usize)| JobLimits {
            partition,
            never: rules[rule].refusals.iter().map(LimitUse::of_refusal).collect::<Vec<_>>(),
            counted: rules[rule]
                .checks
                .iter()
                .filter_map(|check| {
                    let (holder, tres, _) = names.get(&check.counter)?;
                    Some(LimitUse {
                        name: check.name.clone(),
                        holder: holder.clone(),
                        tres: tres.clone(),
                        max: check.max,
                        used: Some(all.used(check.counter, 0.0)),
                        by_you: mine.used(check.counter, 0.0),
                        needed: check.amount,
                    })
                })
                .collect(),
        };
        partitions.into_iter().zip(of_user).map(of_partition).collect()
    }
}

impl LimitUse {
    fn of_refusal(refusal: &Refusal) -> Self {
        Self {
            name: refusal.limit.clone(),
            holder: refusal.holder.clone(),
            tres: refusal.tres.clone(),
            max: refusal.max,
            used: None,
            by_you: 0.0,
            needed: refusal.needed,
        }
    }
}
