//! All answers from Slurm, combined into one snapshot.

use std::collections::BTreeMap;

use crate::ParseError;
use crate::queue::jobs::{self, QueueLook};
use crate::queue::limits::{self, AccountTable};
use crate::queue::site_limits::add_limits;
use crate::queue::{accounts, history, nodes, partitions, reservations, scheduling};
use crate::site::{self, Config};
use hsched_model::{Cluster, Time};
use hsched_queue::Snapshot;

/// Output of Slurm's commands; `None` if one gave no answer.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    pub squeue: &'a str,
    /// The nodes printed by `sinfo`, with types for untyped GPUs.
    pub cluster: &'a Cluster,
    pub config: Option<&'a str>,
    pub partitions: Option<&'a str>,
    pub reservations: Option<&'a str>,
    /// Usage of accounts and users, with the time of the query.
    pub shares: Option<(Time, &'a str)>,
    /// The user's record, with the default account.
    pub default_account: Option<&'a str>,
    /// The associations and the QOS, with their limits.
    pub limits: Option<(&'a str, &'a str)>,
    /// Ended jobs, with the time of the query.
    pub history: Option<(Time, &'a str)>,
    /// Jobs that ended after the history was queried, with the time of the query.
    pub later: Option<(Time, &'a str)>,
    /// An earlier `squeue` output with its time, to measure the growth of priorities.
    pub earlier: Option<(Time, &'a str)>,
}

/// Returns the queue at the time of the look, with notes on hidden and unreadable data.
///
/// # Errors
/// If the jobs cannot be read at all.
pub fn snapshot(texts: Texts<'_>, look: QueueLook<'_>) -> Result<Snapshot, ParseError> {
    let (found, mut notes) = jobs::parse(texts.squeue, texts.cluster, look)?;
    let config = Config::parse(texts.config.unwrap_or_default());
    let partition_limits = site::partitions(texts.partitions.unwrap_or_default());
    let (kept, unread) = reservations::reservations(texts.reservations.unwrap_or_default());
    notes.extend(unread);
    // Operators can see data that are hidden from other users.
    let none_of_others = found.iter().all(|job| job.ours);
    if none_of_others {
        notes.extend(scheduling::hidden(&config));
    }
    let unseen = nodes::unseen(texts.cluster, &found);
    let others_hidden = unseen.is_some() || none_of_others && config.lists("PrivateData", "jobs");
    notes.extend(unseen);
    let (mut history, mut history_since, mut history_until) = (None, None, None);
    if let Some((at, text)) = texts.history {
        match history::parse(text, texts.cluster) {
            Ok((mut ended, odd)) => {
                notes.extend(odd);
                history_since = Some(history::since(&ended, at));
                history_until = Some(at);
                if let Some((until, text)) = texts.later.filter(|(later, _)| *later > at)
                    && let Ok((later, odd)) = history::parse(text, texts.cluster)
                {
                    notes.extend(odd);
                    ended.extend(later.into_iter().filter(|job| at < job.ended && job.ended <= until));
                    history_until = Some(until);
                }
                history = Some(ended);
            }
            Err(error) => notes.push(error.to_string()),
        }
    }
    let (shares_at, shares) = texts.shares.unwrap_or((look.at, ""));
    let mut scheduling = scheduling::scheduling(&config);
    scheduling.priority_per_hour = texts.earlier.and_then(|(at, text)| {
        let (earlier, _) = jobs::parse(text, texts.cluster, QueueLook { at, ..look }).ok()?;
        let waiting = earlier.into_iter().filter(|job| job.running.is_none());
        let priorities: BTreeMap<String, u64> =
            waiting.filter_map(|job| Some((job.id, job.priority?))).collect();
        scheduling::growth(&priorities, at, &found, look.at)
    });
    let mut seen = Snapshot {
        cluster: config.get("ClusterName").map(str::to_owned),
        nodes: nodes::nodes(texts.cluster),
        partitions: partitions::partitions(&partition_limits, &config),
        closed_partitions: partitions::closed(&partition_limits),
        closed_default: partitions::closed_default(&partition_limits),
        reservations: kept,
        accounts: accounts::accounts(shares, look.user, &config, &partition_limits),
        shares: accounts::shares(shares, look.user, &config),
        jobs: found,
        scheduling,
        others_hidden,
        history,
        history_since,
        history_until,
        notes,
        ..Snapshot::empty(look.at)
    };
    seen.gres_types = config.gres_types();
    seen.user = Some(look.user.to_owned());
    let tables = texts.limits.map(|(associations, qos)| {
        let associations = AccountTable { fields: &limits::ASSOCIATION_FIELDS, text: associations };
        (associations, AccountTable { fields: &limits::QOS_FIELDS, text: qos })
    });
    accounts::mark_default(&mut seen.accounts, texts.default_account.unwrap_or_default(), look.user);
    add_limits(&mut seen, &config, tables);
    accounts::add_past_use(seen.limits.as_deref_mut().unwrap_or_default(), shares);
    seen.count_use_since(shares_at);
    // Without a QOS that preempts others, Slurm preempts no job by QOS.
    let is_needless = scheduling::by_qos(&config) && texts.limits.is_some() && seen.qos_preempts.is_empty();
    let preemption = scheduling::preemption(&config, &partition_limits, &seen.qos_preempts);
    let preemption = preemption.filter(|_| !is_needless);
    let has_limits = seen.limits.iter().flatten().any(|limit| !limit.holder.starts_with("q:"));
    let default = accounts::unknown_default(&seen.accounts).filter(|_| has_limits);
    let said = seen.overrun_note().into_iter().chain(default).chain(preemption);
    seen.notes.extend(said);
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinfo::tests::cluster;
    use crate::time;

    #[test]
    fn what_has_no_answer_is_missing_and_the_rest_is_there() {
        let cluster = cluster(&["v1|gpu*|1:00|mixed|gpu:v100:20|gpu:v100:19|8/8/0/16|64000|1000|v100|none"]);
        let job = "7|PENDING|man|bio|normal|gpu|PRIORITY|2026-11-22T10:00:00|N/A|1:00:00|1|3|3|cpu=1|gres:gpu:1|N/A|N/A|N/A||(null)|(null)|OK|Priority\u{1e}\n"
            .replace('|', "\u{1f}");
        let at = Time(time::unix("2026-11-22T12:00:00").expect("a date"));
        let look = QueueLook { at, user: "me" };
        let (now, before) = (job.replace("PRIORITY", "300"), job.replace("PRIORITY", "100"));
        let earlier = Some((Time(at.0 - 7200.0), before.as_str()));
        let squeue = now.as_str();
        let bare = Texts {
            squeue,
            cluster: &cluster,
            config: None,
            partitions: None,
            reservations: None,
            shares: None,
            default_account: None,
            limits: None,
            history: None,
            later: None,
            earlier,
        };
        let seen = snapshot(bare, look).expect("a snapshot");
        assert_eq!((seen.jobs.len(), seen.nodes.len(), seen.history.is_none()), (1, 1, true));
        assert_eq!(
            seen.notes,
            ["19 GPUs are in use, but the visible jobs have only 0: other jobs are hidden"]
        );
        assert_eq!(seen.scheduling.priority_per_hour, Some(100.0));
        let config = Some("ClusterName = dev\nPrivateData = jobs\n");
        let seen = snapshot(Texts { config, ..bare }, look).expect("a snapshot");
        assert_eq!(seen.cluster.as_deref(), Some("dev"));
        assert!(seen.notes.len() == 1 && seen.others_hidden);
        let mine = now.replace("man", "me");
        let seen = snapshot(Texts { squeue: &mine, config, ..bare }, look).expect("a snapshot");
        assert_eq!(seen.notes[0], "other users' jobs are hidden (PrivateData=jobs)");
        assert!(seen.others_hidden);
        assert!(snapshot(Texts { squeue: "what\nis\u{1e}this\u{1e}", ..bare }, look).is_err());
    }

    #[test]
    fn what_ended_since_the_history_was_asked_for_is_added_once() {
        let cluster = cluster(&["v1|gpu*|1:00|idle|gpu:v100:4|(null)|0/8/0/8|1|0||"]);
        let job = |end: &str| {
            format!("bin|bio|gpu|COMPLETED|2026-11-22T08:00:00|2026-11-22T09:00:00|2026-11-22T{end}|720|1|4|cpu=4||v1\n")
                .replace('|', "\u{1f}")
        };
        let (whole, later) = (job("10:00:00"), job("10:00:00") + &job("11:30:00"));
        let time = |text: &str| Time(time::unix(&format!("2026-11-22T{text}")).expect("a date"));
        let texts = Texts {
            squeue: "",
            cluster: &cluster,
            config: None,
            partitions: None,
            reservations: None,
            shares: None,
            default_account: None,
            limits: None,
            history: Some((time("10:30:00"), &whole)),
            later: Some((time("11:40:00"), &later)),
            earlier: None,
        };
        let look = QueueLook { at: time("12:00:00"), user: "me" };
        let ends = |texts| {
            let seen = snapshot(texts, look).expect("a snapshot");
            let ends: Vec<Time> = seen.history.iter().flatten().map(|job| job.ended).collect();
            (ends, seen.history_until)
        };
        assert_eq!(ends(texts), (vec![time("10:00:00"), time("11:30:00")], Some(time("11:40:00"))));
        // An answer older than the history adds no jobs.
        let old = Texts { later: Some((time("10:20:00"), &later)), ..texts };
        assert_eq!(ends(old), (vec![time("10:00:00")], Some(time("10:30:00"))));
    }
}
