//! Explains why a pending job is pending, and whether time alone will start it.

use crate::why::partition::Breach;
use crate::why::room::PendingRoom;
use crate::why::words::{named, span};
use crate::why::{Ahead, JobFacts, StateKind, WaitExplanation};
use crate::{LiftedBy, LimitReason, LimitUse, PendingJob, QueueJob, Reason, Snapshot};
use hsched_model::formats::counted;
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// Returns why a queued job is pending; `at` formats a time.
pub fn explain(
    snapshot: &Snapshot,
    pending: &PendingJob,
    facts: Option<&JobFacts>,
    at: &dyn Fn(Time) -> String,
) -> WaitExplanation {
    let job = &pending.job;
    let reason = Reason::read(job.reason.as_deref().unwrap_or_default());
    let explainer = PendingExplainer { snapshot, pending, facts, at, reason: &reason };
    let (blocks, counted) = explainer.blocks();
    let is_blocked = !blocks.is_empty() && blocks.iter().all(|(_, breaches)| !breaches.is_empty());
    let kind = explainer.kind(is_blocked);
    let limit = explainer.limit(&blocks, &counted, is_blocked);
    let mut why = match kind {
        StateKind::Held => vec![format!("It is held: {}", lower(&reason.meaning))],
        _ => Vec::new(),
    };
    if is_blocked {
        why.extend(explainer.never(&blocks));
    } else if kind == StateKind::Never {
        why.push(format!("It will never start as it is: {}", lower(&reason.meaning)));
    }
    let mut ahead = None;
    if kind == StateKind::Waits {
        ahead = Ahead::of(pending).filter(|_| competes(&reason));
        why.push(explainer.by_slurm(ahead.as_ref()));
        if let Some(limit) = &limit {
            why.push(limit.numbers());
        }
        if competes(&reason) {
            why.extend(explainer.place(ahead.as_ref()));
        }
    }
    why.extend(explainer.details());
    if let Some((leader, _)) = job.id.split_once('+') {
        why.push(format!(
            "It is a component of job {leader}: all components start together, when there is room for all."
        ));
    }
    let way_out = reason.way_out.replace("{id}", &update_id(&job.id));
    let way_out = Some(way_out).filter(|text| !text.is_empty()).into_iter().collect();
    WaitExplanation { kind, reason: job.reason.clone(), why, way_out, limit, ahead }
}

/// Returns an id in the form of `scontrol update`: for pending array tasks, without the limit on running
/// tasks, or the array's id if Slurm abbreviates the list of tasks.
pub fn update_id(id: &str) -> String {
    match id.split_once("_[") {
        Some((array, list)) if list.contains("...") => array.to_owned(),
        Some((array, list)) => {
            let list = list.trim_end_matches(']').split('%').next().unwrap_or_default();
            format!("{array}_[{list}]")
        }
        None => id.to_owned(),
    }
}

/// Returns whether an id denotes a component of a heterogeneous job (`9+1`).
pub fn is_component(id: &str) -> bool {
    id.contains('+')
}

/// Returns whether a job with this reason waits for its turn.
fn competes(reason: &Reason) -> bool {
    matches!(reason.name.as_str(), "" | "None" | "Priority" | "Resources" | "ReqNodeNotAvail")
}

/// Returns a sentence with its first letter in lower case, unless the first word is Slurm.
fn lower(sentence: &str) -> String {
    let mut chars = sentence.chars();
    let first = chars.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    if sentence.starts_with("Slurm") { sentence.to_owned() } else { first + chars.as_str() }
}

/// The conditions that never allow a job to start in each of its partitions.
type PartitionBlocks = Vec<(Option<String>, Vec<Breach>)>;

/// The job to explain.
struct PendingExplainer<'a> {
    snapshot: &'a Snapshot,
    pending: &'a PendingJob,
    facts: Option<&'a JobFacts>,
    at: &'a dyn Fn(Time) -> String,
    reason: &'a Reason,
}

impl PendingExplainer<'_> {
    fn job(&self) -> &QueueJob {
        &self.pending.job
    }

    /// Returns the conditions that never allow the job to start, by partition, and the limits that count
    /// running jobs.
    fn blocks(&self) -> (PartitionBlocks, Vec<LimitUse>) {
        let job = self.job();
        let limits = self.snapshot.limits_of(job);
        let mut counted: Vec<LimitUse> = Vec::new();
        let mut names: Vec<Option<String>> = job.partitions.iter().cloned().map(Some).collect();
        if names.is_empty() {
            names.push(None);
        }
        let blocks = names.into_iter().map(|name| {
            let of = limits.iter().find(|limits| limits.partition == name);
            for limit in of.iter().flat_map(|limits| &limits.counted) {
                if !counted.contains(limit) {
                    counted.push(limit.clone());
                }
            }
            let never = of.iter().flat_map(|limits| &limits.never).cloned();
            let never = never.map(|limit| Breach { words: limit.never(), limit: Some(limit) });
            let of_partition = name.iter().flat_map(|name| self.snapshot.breaches(job, name));
            (name.clone(), of_partition.chain(never).collect::<Vec<_>>())
        });
        (blocks.collect(), counted)
    }

    fn kind(&self, is_blocked: bool) -> StateKind {
        let job = self.job();
        let is_of_scheduler = matches!(self.reason.name.as_str(), "" | "None" | "Priority" | "Resources");
        if self.reason.lifted_by == LiftedBy::Release || job.priority == Some(0) && is_of_scheduler {
            return StateKind::Held;
        }
        // With several partitions, the reason belongs to the last one that Slurm tried.
        let is_of_one_partition = job.partitions.len() > 1
            && (self.reason.limit.is_some()
                || matches!(
                    self.reason.name.as_str(),
                    "PartitionTimeLimit"
                        | "PartitionNodeLimit"
                        | "PartitionConfig"
                        | "QOSNotAllowed"
                        | "AccountNotAllowed"
                ));
        let is_lasting = self.reason.lifted_by == LiftedBy::Change && !is_of_one_partition;
        if is_blocked || is_lasting { StateKind::Never } else { StateKind::Waits }
    }

    /// Returns the limit that delays the job: the one that Slurm names, else one that never allows it to
    /// start, else one without room.
    fn limit(&self, blocks: &PartitionBlocks, counted: &[LimitUse], is_blocked: bool) -> Option<LimitUse> {
        let never = || blocks.iter().flat_map(|(_, list)| list).filter_map(|breach| breach.limit.as_ref());
        let is_named = |limit: &&LimitUse| match &self.reason.limit {
            Some(named) => is_of(limit, named),
            None => is_of_partition(limit, &self.reason.name),
        };
        let full = || counted.iter().filter(|limit| limit.is_full());
        let found = if is_blocked {
            let named = never().find(is_named);
            named.or_else(|| never().next())
        } else {
            let named = never().find(is_named).filter(|_| self.reason.lifted_by == LiftedBy::Change);
            named.or_else(|| full().find(is_named)).or_else(|| counted.iter().find(is_named)).or_else(|| {
                // A job that Slurm has not considered yet may be blocked by a limit when its turn comes.
                full().next().filter(|_| competes(self.reason))
            })
        };
        let uncounted = || self.snapshot.uncounted_limit(self.job(), self.reason.limit.as_ref()?);
        found.cloned().or_else(|| self.throttle()).or_else(uncounted)
    }

    /// Returns the limit on running tasks of the job's array, if Slurm reports it as reached.
    fn throttle(&self) -> Option<LimitUse> {
        let array = self.job().array.as_ref().filter(|_| self.reason.name == "JobArrayTaskLimit")?;
        let runs = |job: &&QueueJob| job.running.is_some() && job.array.as_ref() == Some(array);
        let running = to_f64(self.snapshot.jobs.iter().filter(runs).count());
        Some(LimitUse {
            name: "ArrayTaskThrottle".to_owned(),
            holder: format!("array:{array}"),
            tres: None,
            max: f64::from(self.job().at_once?),
            used: Some(running),
            by_you: running,
            needed: 1.0,
        })
    }

    /// Returns the conditions that never allow the job to start in any partition, in sentences.
    fn never(&self, blocks: &PartitionBlocks) -> Vec<String> {
        let first = |list: &[Breach]| {
            let is_named = |breach: &&Breach| {
                let named = self.reason.limit.as_ref();
                breach.limit.as_ref().is_some_and(|limit| match named {
                    Some(named) => is_of(limit, named),
                    None => is_of_partition(limit, &self.reason.name),
                })
            };
            list.iter().find(is_named).or(list.first()).map(|breach| breach.words.clone())
        };
        let mut words: Vec<String> = blocks.iter().filter_map(|(_, list)| first(list)).collect();
        words.dedup();
        vec![format!("It will never start as it is: {}.", words.join("; "))]
    }

    /// Returns Slurm's explanation, as a sentence.
    fn by_slurm(&self, ahead: Option<&Ahead>) -> String {
        let meaning = &self.reason.meaning;
        if self.reason.name == "Priority" && ahead.is_some_and(|ahead| ahead.jobs.is_empty()) {
            // Slurm gives this reason for all jobs of a partition after the first that cannot start.
            return "Slurm gives the reason Priority: jobs that come first wait for other nodes, or Slurm has not looked at it again."
                .to_owned();
        }
        match (self.job().reason.as_deref(), self.reason.name.as_str()) {
            (None, _) | (_, "") => meaning.to_string(),
            (Some(_), _) if self.reason.lifted_by == LiftedBy::Unknown => meaning.to_string(),
            (Some(_), name) => format!("Slurm gives the reason {name}: {}", lower(meaning)),
        }
    }

    /// Describes the jobs before this one and the available room, in sentences.
    fn place(&self, ahead: Option<&Ahead>) -> Vec<String> {
        if self.snapshot.others_hidden {
            return vec!["The site hides the jobs of others: who is before it is unknown.".to_owned()];
        }
        let mut list = ahead.map(Ahead::sentences).unwrap_or_default();
        let Some(room) = PendingRoom::of(self.pending) else {
            list.push("hsched finds no node that could hold it.".to_owned());
            return list;
        };
        let free: Vec<String> = room.free.iter().map(|node| node.as_str().to_owned()).collect();
        let nodes = counted(room.needed, "node");
        let possible = counted(room.possible.len(), "node");
        list.push(match (room.is_there(), &room.reserved) {
            (true, Some(reserved)) => format!(
                "It would fit on {} now, but reservation {} begins there at {}, before its time limit ({}) would end.",
                named(&free),
                reserved.name,
                (self.at)(reserved.start),
                span(Seconds(self.snapshot.limit_of(self.job()))),
            ),
            (true, None) if ahead.is_some_and(|ahead| ahead.jobs.is_empty()) => format!(
                "It would fit on {} now: Slurm starts it when it looks at its queue next, unless a rule that hsched does not see keeps it.",
                named(&free)
            ),
            (true, None) => {
                format!("It would fit on {} now, but Slurm keeps the room for jobs before it.", named(&free))
            }
            (false, _) => format!(
                "It needs {nodes}; of {possible} that could hold it, {} now{}.",
                match free.len() {
                    0 => "none has room".to_owned(),
                    1 => "1 has room".to_owned(),
                    count => format!("{count} have room"),
                },
                match ahead {
                    Some(ahead) if ahead.jobs.is_empty() => ": it waits until jobs or reservations there end",
                    _ => "",
                }
            ),
        });
        list
    }

    /// Returns other details about the reason, in sentences.
    fn details(&self) -> Vec<String> {
        let job = self.job();
        match self.reason.name.as_str() {
            "Dependency" | "DependencyNeverSatisfied" => self.dependencies(),
            "BeginTime" => {
                let begin = job.begin.or_else(|| self.facts?.eligible);
                begin.map(|begin| format!("It may start from {} on.", (self.at)(begin))).into_iter().collect()
            }
            "Reservation" | "ReservationDeleted" | "ReservationInvalid" => self.reservation(),
            "Licenses" => {
                let licenses = self.facts.and_then(|facts| facts.licenses.as_deref());
                licenses.map(|names| format!("It asks for {names}.")).into_iter().collect()
            }
            "DeadLine" => {
                let deadline = self.facts.and_then(|facts| facts.deadline);
                deadline.map(|end| format!("Its deadline is {}.", (self.at)(end))).into_iter().collect()
            }
            "PartitionDown" | "PartitionInactive" => {
                vec![format!("Its partition: {}.", job.partitions.join(", "))]
            }
            "ReqNodeNotAvail" if !self.reason.rest.is_empty() => {
                vec![format!("Slurm adds: {}.", self.reason.rest)]
            }
            "QOSNotAllowed" | "AccountNotAllowed" => {
                vec![format!("Slurm says: {}.", job.reason.clone().unwrap_or_default())]
            }
            "JobHoldMaxRequeue" | "LaunchFailedHeld" | "RequeuedHeld" => {
                let restarts = self.facts.map_or(0, |facts| facts.restarts);
                let restarts = usize::try_from(restarts).unwrap_or(usize::MAX);
                (restarts > 0)
                    .then(|| format!("Slurm has restarted it: {}.", counted(restarts, "time")))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Describes the jobs on which this one depends, in sentences.
    fn dependencies(&self) -> Vec<String> {
        let one = |id: &String| {
            let is_meant = |job: &&QueueJob| job.id == *id || job.array.as_ref() == Some(id);
            let known: Vec<&QueueJob> = self.snapshot.jobs.iter().filter(is_meant).collect();
            let ends = known.iter().filter_map(|job| {
                let since = job.running.as_ref()?.since;
                Some(Time(since.0 + self.snapshot.limit_of(job)))
            });
            let last = ends.max_by(|a, b| a.0.total_cmp(&b.0));
            match (known.iter().find(|job| job.running.is_none()), last) {
                (Some(pending), _) => format!(
                    "Job {id} is before it and is pending itself ({}).",
                    pending.reason.as_deref().unwrap_or("no reason given")
                ),
                (None, Some(end)) => {
                    format!("Job {id} is before it and runs, until {} at the latest.", (self.at)(end))
                }
                (None, None) => format!("Job {id} is before it and is not in the queue."),
            }
        };
        let mut list: Vec<String> = self.job().after.iter().map(one).collect();
        if let Some(dependency) =
            self.facts.and_then(|facts| facts.dependency.as_deref()).filter(|_| list.is_empty())
        {
            list.push(format!("It depends on {dependency}."));
        }
        list
    }

    /// Describes the times of the job's reservation, in sentences.
    fn reservation(&self) -> Vec<String> {
        let Some(name) = &self.job().reservation else { return Vec::new() };
        let Some(known) = self.snapshot.reservations.iter().find(|known| known.name == *name) else {
            return vec![format!("Slurm shows no reservation {name}.")];
        };
        let (begin, end) = ((self.at)(known.start), (self.at)(known.end));
        let nodes = counted(known.nodes.len(), "node");
        vec![if known.start > self.snapshot.taken_at {
            format!("Reservation {name} ({nodes}) begins at {begin} and ends at {end}.")
        } else {
            format!(
                "Reservation {name} ({nodes}) has begun and ends at {end}: its nodes are in use, or its time is too short."
            )
        }]
    }
}

/// Returns whether a limit is the one that a reason names.
fn is_of(limit: &LimitUse, named: &LimitReason) -> bool {
    limit.name == named.limit
        && named.counts(limit.tres.as_deref())
        && limit.holder.starts_with('q') == named.is_of_qos
}

/// Returns whether a limit of a partition is the one that a reason is about.
fn is_of_partition(limit: &LimitUse, reason: &str) -> bool {
    match reason {
        "PartitionTimeLimit" => limit.name == "MaxTime",
        "PartitionNodeLimit" => ["MaxNodes", "TotalNodes"].contains(&limit.name.as_str()),
        "PartitionConfig" => limit.holder.starts_with("p:"),
        _ => false,
    }
}
