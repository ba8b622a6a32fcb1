//! The cluster's scheduling parameters and the data that it hides, from its configuration; the growth of
//! priorities, from two looks at the queue.

use std::collections::{BTreeMap, BTreeSet};

use crate::amount;
use crate::queue::limits::SiteLimits;
use crate::site::{Config, PartitionLimits};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};
use hsched_queue::{AgeWeight, QueueJob, Scheduling};

/// The shortest time between two looks that gives a growth rate: Slurm recomputes priorities every five
/// minutes.
const APART: Seconds = Seconds(900.0);

/// Returns the scheduling parameters in the configuration.
pub(super) fn scheduling(config: &Config) -> Scheduling {
    let parameter = |key: &str| {
        let list = config.get("SchedulerParameters").unwrap_or_default();
        list.split(',')
            .find_map(|item| item.trim().strip_prefix(key)?.strip_prefix('=')?.trim().parse::<u32>().ok())
    };
    let kind = config.get("SchedulerType");
    let backfill = kind.map(|kind| kind.ends_with("backfill"));
    let seconds = |value: Option<u32>, usual: u32| Some(Seconds(f64::from(value.unwrap_or(usual))));
    let known = backfill == Some(true);
    Scheduling {
        // Slurm's defaults apply if the site sets no value.
        interval_s: seconds(parameter("bf_interval"), 30).filter(|_| known),
        depth: Some(parameter("bf_max_job_test").unwrap_or(500)).filter(|_| known),
        window_s: seconds(parameter("bf_window").map(|minutes| minutes.saturating_mul(60)), 86400)
            .filter(|_| known),
        backfill,
        whole_nodes: config.get("SelectType").is_some_and(|kind| kind.ends_with("linear")),
        priority_per_hour: None,
        overtime_s: config.get("OverTimeLimit").and_then(overtime).filter(|over| over.0 > 0.0),
        age: age(config),
    }
}

/// Parses `5 min` as a time; `None` for `UNLIMITED`.
fn overtime(text: &str) -> Option<Seconds> {
    let minutes: u32 = text.split_whitespace().next()?.parse().ok()?;
    Some(Seconds(f64::from(minutes) * 60.0))
}

/// Returns a note if jobs may preempt others, which estimates take into account only in part; `qos_preempts` are the
/// QOS whose jobs make room for others.
pub(super) fn preemption(
    config: &Config,
    partitions: &[PartitionLimits],
    qos_preempts: &BTreeMap<String, BTreeSet<String>>,
) -> Option<String> {
    let kind = config.get("PreemptType").filter(|kind| !kind.ends_with("none"))?;
    let is_off = config.get("PreemptMode").is_some_and(|mode| mode.eq_ignore_ascii_case("off"));
    let is_on = !is_off || partitions.iter().any(|partition| partition.preempted);
    // Without different tiers, no job preempts another.
    let tiers: BTreeSet<u32> = partitions.iter().filter_map(|partition| partition.tier).collect();
    let is_needless = kind.ends_with("partition_prio") && tiers.len() == 1;
    (is_on && !is_needless).then(|| {
        if suspends(config) && qos_preempts.is_empty() {
            "Slurm may suspend jobs here (PreemptMode=SUSPEND): they keep their GPUs and memory, so no request counts as starting in their place; that your job itself may be suspended is ignored".to_owned()
        } else {
            format!("Slurm may preempt jobs here (PreemptType={kind}): a request starts in place of the running jobs that it may preempt; that your job itself may be preempted is ignored")
        }
    })
}

/// Returns whether preempted jobs are suspended, unless their partition or QOS has another mode.
fn suspends(config: &Config) -> bool {
    config.get("PreemptMode").is_some_and(|mode| mode.to_ascii_uppercase().contains("SUSPEND"))
}

/// Returns the contribution of each QOS to the priority of its jobs, from the QOS priorities; empty if QOS
/// has no weight.
pub(super) fn qos_priority(config: &Config, qos: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let is_weighed = config.get("PriorityType").is_none_or(|kind| kind.ends_with("multifactor"));
    let weight = config.number("PriorityWeightQOS").filter(|weight| is_weighed && *weight > 0);
    let highest = qos.values().copied().fold(0.0, f64::max);
    let Some(weight) = weight.filter(|_| highest > 0.0) else { return BTreeMap::new() };
    qos.iter().map(|(name, priority)| (name.clone(), to_f64(weight) * priority / highest)).collect()
}

/// Returns the QOS whose jobs each QOS may preempt, without those whose preempted jobs keep their GPUs, because Slurm
/// suspends them; empty if Slurm does not preempt by QOS, or if preemption is off.
pub(super) fn qos_preempts(config: &Config, site: &SiteLimits) -> BTreeMap<String, BTreeSet<String>> {
    let mode = config.get("PreemptMode").unwrap_or_default().to_ascii_uppercase();
    if !by_qos(config) || mode == "OFF" {
        return BTreeMap::new();
    }
    // The preempted job's QOS decides what happens to it, not its partition.
    let frees_gpus = |qos: &String| {
        let mode = site.qos_modes.get(qos).unwrap_or(&mode);
        mode.split(',').any(|word| ["CANCEL", "REQUEUE"].contains(&word.trim()))
    };
    let mut preempts = site.qos_preempts.clone();
    if mode.split(',').any(|word| word.trim() == "WITHIN") {
        for name in site.qos_priority.keys() {
            preempts.entry(name.clone()).or_default().insert(name.clone());
        }
    }
    for lower in preempts.values_mut() {
        lower.retain(|qos| frees_gpus(qos));
    }
    preempts.retain(|_, lower| !lower.is_empty());
    preempts
}

/// Returns whether Slurm preempts jobs by their QOS.
pub fn by_qos(config: &Config) -> bool {
    config.get("PreemptType").is_some_and(|kind| kind.ends_with("preempt/qos"))
}

/// Returns the weight of age in priorities; `None` if they do not follow from weights, or if the weight or
/// the maximum age is unknown.
fn age(config: &Config) -> Option<AgeWeight> {
    let is_weighed = config.get("PriorityType").is_none_or(|kind| kind.ends_with("multifactor"));
    let max_s = config.get("PriorityMaxAge").and_then(amount::duration).filter(|age| age.0 > 0.0)?;
    let weight = config.number("PriorityWeightAge").filter(|_| is_weighed)?;
    Some(AgeWeight { weight: to_f64(weight), max_s })
}

/// Returns notes on the data that a site hides from users.
pub(super) fn hidden(config: &Config) -> Vec<String> {
    let told = [
        ("jobs", "other users' jobs are hidden (PrivateData=jobs)"),
        ("usage", "other users' past jobs are hidden (PrivateData=usage)"),
        ("reservations", "reservations are hidden (PrivateData=reservations)"),
        ("nodes", "nodes are hidden (PrivateData=nodes)"),
        ("partitions", "some partitions are hidden (PrivateData=partitions)"),
    ];
    told.into_iter()
        .filter(|(word, _)| config.lists("PrivateData", word))
        .map(|(_, note)| note.to_owned())
        .collect()
}

/// Returns the hourly growth of a pending job's priority: the median over jobs that were pending at both
/// looks.
///
/// `None` if the looks are too close together, or if no job was pending at both.
pub(super) fn growth(earlier: &BTreeMap<String, u64>, at: Time, jobs: &[QueueJob], now: Time) -> Option<f64> {
    let apart = now.since(at);
    if apart < APART {
        return None;
    }
    // Jobs that gain no age give no information about jobs that do.
    let waiting = jobs.iter().filter(|job| job.running.is_none() && !job.waits_for_other);
    let grown = |job: &QueueJob| Some(to_f64(job.priority?) - to_f64(*earlier.get(&job.id)?));
    let mut grown: Vec<f64> = waiting.filter_map(grown).collect();
    grown.sort_by(f64::total_cmp);
    let median = grown.get(grown.len() / 2)?;
    Some((median * 3600.0 / apart.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::limits::{self, AccountTable};
    use hsched_queue::Snapshot;

    #[test]
    fn what_is_not_configured_is_slurms_default() {
        let seen = scheduling(&Config::parse(
            "SchedulerType = sched/backfill\nSchedulerParameters = bf_interval=120,bf_window=5760,bf_continue\nSelectType = select/cons_tres\n",
        ));
        assert_eq!((seen.interval_s, seen.window_s), (Some(Seconds(120.0)), Some(Seconds(345_600.0))));
        assert_eq!((seen.depth, seen.backfill, seen.whole_nodes), (Some(500), Some(true), false));
        let plain = scheduling(&Config::parse("SchedulerType = sched/builtin\nSelectType = select/linear\n"));
        assert_eq!((plain.backfill, plain.depth, plain.whole_nodes), (Some(false), None, true));
        assert_eq!(scheduling(&Config::parse("")).backfill, None);
    }

    #[test]
    fn what_is_allowed_beyond_limits_is_read() {
        let over = |text: &str| scheduling(&Config::parse(&format!("OverTimeLimit = {text}\n"))).overtime_s;
        assert_eq!((over("5 min"), over("0 min"), over("UNLIMITED")), (Some(Seconds(300.0)), None, None));
    }

    #[test]
    fn preemption_is_said_where_it_is_on() {
        let check = |config: &str, tiers: [u32; 2], expected: bool| {
            let text =
                tiers.map(|tier| format!("PartitionName=p{tier} PriorityTier={tier} State=UP\n")).concat();
            let note = preemption(&Config::parse(config), &crate::site::partitions(&text), &BTreeMap::new());
            assert_eq!(note.is_some(), expected, "{config} {tiers:?}");
        };
        check("PreemptType = preempt/partition_prio\nPreemptMode = REQUEUE\n", [1, 2], true);
        check("PreemptType = preempt/partition_prio\nPreemptMode = REQUEUE\n", [1, 1], false);
        check("PreemptType = preempt/partition_prio\nPreemptMode = OFF\n", [1, 2], false);
        check("PreemptType = preempt/qos\nPreemptMode = CANCEL\n", [1, 1], true);
        check("PreemptType = preempt/none\nPreemptMode = OFF\n", [1, 2], false);
        check("PreemptType = preempt/partition_prio\nPreemptMode = GANG,SUSPEND\n", [1, 2], true);
        check("", [1, 2], false);
    }

    #[test]
    fn a_qos_preempts_those_that_it_names() {
        // As printed by `sacctmgr show qos` of Slurm 24.11.
        let text = "normal|||0||cluster\nlow|||0||cluster\nhigh|||100|low,normal,slow,kill|cluster\nfair|||0||requeue,within\n\
                    slow|||0||suspend\nkill|||0||cancel\n";
        let fields = ["Name", "Flags", "GrpJobs", "Priority", "Preempt", "PreemptMode"];
        let none = AccountTable { fields: &[], text: "" };
        let site = limits::parse(none, AccountTable { fields: &fields, text }, None);
        let preempts = |config: &str| {
            let found = qos_preempts(&Config::parse(config), &site);
            let lines = found.iter().map(|(name, lower)| {
                format!("{name}: {}", lower.iter().map(String::as_str).collect::<Vec<_>>().join(","))
            });
            lines.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(
            preempts("PreemptType = preempt/qos\nPreemptMode = REQUEUE\n"),
            "fair: fair; high: kill,low,normal"
        );
        assert_eq!(
            preempts("PreemptType = preempt/qos\nPreemptMode = REQUEUE,WITHIN\n"),
            "fair: fair; high: high,kill,low,normal; kill: kill; low: low; normal: normal"
        );
        assert_eq!(preempts("PreemptType = preempt/qos\nPreemptMode = OFF\n"), "");
        assert_eq!(
            preempts("PreemptType = preempt/qos\nPreemptMode = GANG,SUSPEND\n"),
            "fair: fair; high: kill"
        );
        assert_eq!(preempts("PreemptType = preempt/partition_prio\nPreemptMode = REQUEUE\n"), "");
    }

    #[test]
    fn a_qos_adds_its_part_of_the_weight() {
        let qos = BTreeMap::from([("high".to_owned(), 200.0), ("normal".to_owned(), 50.0)]);
        let adds = |config: &str| qos_priority(&Config::parse(config), &qos);
        assert_eq!(adds("PriorityWeightQOS = 1000\n")["normal"], 250.0);
        assert!(adds("PriorityWeightQOS = 0\n").is_empty() && adds("").is_empty());
    }

    #[test]
    fn what_is_hidden_is_said() {
        let check = |value: &str, count: usize| {
            assert_eq!(hidden(&Config::parse(&format!("PrivateData = {value}\n"))).len(), count, "{value}");
        };
        check("none", 0);
        check("accounts,jobs,usage,users", 2);
        check("reservations,nodes", 2);
    }

    #[test]
    fn growth_is_that_of_jobs_that_waited_at_both_looks() {
        let jobs = |priorities: &[(&str, u64)]| {
            let jobs: Vec<String> = priorities
                .iter()
                .map(|(id, priority)| format!(r#"{{"id": "{id}", "asks": {{}}, "priority": {priority}}}"#))
                .collect();
            let text = format!(
                r#"{{"schema": "hsched.queue/1", "taken_at": 0, "nodes": [], "jobs": [{}]}}"#,
                jobs.join(",")
            );
            Snapshot::parse(&text).expect("a snapshot").jobs
        };
        let earlier = BTreeMap::from([("1".to_owned(), 100), ("2".to_owned(), 500), ("3".to_owned(), 7)]);
        let now = jobs(&[("1", 200), ("2", 600), ("9", 1)]);
        assert_eq!(growth(&earlier, Time(0.0), &now, Time(1800.0)), Some(200.0));
        assert_eq!(growth(&earlier, Time(0.0), &now, Time(600.0)), None);
        assert_eq!(growth(&earlier, Time(0.0), &jobs(&[("9", 1)]), Time(1800.0)), None);
        assert_eq!(growth(&earlier, Time(0.0), &jobs(&[("1", 50)]), Time(1800.0)), Some(0.0));
    }
}
