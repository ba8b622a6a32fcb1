//! Compares an observation with the state and returns the differences as events.

use std::collections::{BTreeMap, BTreeSet};

use crate::script_notice::script_news;
use crate::{
    End, EpochReport, Event, JobState, News, Observation, PastAttempt, QueueState, Rules, Sighting, Stage,
    Stall, StallKind, State, Submission, SubmissionKey, SubmissionRecord,
};
use hsched_model::{Availability, JobName, Node, NodeName, Time};

/// The parts of an observation, by submission or by job.
struct Sights<'a> {
    seen: &'a Observation,
    sightings: BTreeMap<&'a SubmissionKey, &'a Sighting>,
    strays: BTreeMap<&'a JobName, &'a Sighting>,
    epochs: BTreeMap<&'a SubmissionKey, Vec<&'a EpochReport>>,
    odd: BTreeMap<&'a SubmissionKey, &'a String>,
    stalls: BTreeMap<&'a SubmissionKey, &'a Stall>,
    unfit: BTreeMap<&'a SubmissionKey, &'a End>,
}

impl<'a> Sights<'a> {
    fn new(seen: &'a Observation) -> Self {
        let mut epochs: BTreeMap<&SubmissionKey, Vec<&EpochReport>> = BTreeMap::new();
        for (of, report) in &seen.epochs {
            epochs.entry(of).or_default().push(report);
        }
        // The first of several sightings counts.
        Self {
            seen,
            sightings: seen.sightings.iter().rev().map(|sighting| (&sighting.of, sighting)).collect(),
            strays: seen.strays.iter().rev().map(|sighting| (&sighting.of.job, sighting)).collect(),
            epochs,
            odd: seen.odd.iter().rev().map(|(of, what)| (of, what)).collect(),
            stalls: seen.stalls.iter().map(|(of, stall)| (of, stall)).collect(),
            unfit: seen.unfit.iter().map(|(of, end)| (of, end)).collect(),
        }
    }
}

/// Returns the events since the state was last updated.
///
/// Epochs precede the end of the submission that reported them.
pub fn notice(state: &State, seen: &Observation) -> Vec<Event> {
    let sights = Sights::new(seen);
    let mut events = nodes(state, seen);
    for tracked in &state.jobs {
        events.extend(stray(tracked, &sights));
        for submission in tracked.phase.submissions() {
            events.extend(news(tracked, submission, &sights));
        }
    }
    events.extend(state.scripts.iter().flat_map(|script| script_news(script, seen)));
    events
}

/// Returns the events of one submission.
fn news(tracked: &JobState, submission: &Submission, sights: &Sights<'_>) -> Vec<Event> {
    let (attempt, seen) = (&submission.attempt, sights.seen);
    let key = attempt.key(&tracked.job.name);
    let sighting = sights.sightings.get(&key).copied();
    if let Some(QueueState::NotStarted(answer)) = sighting.map(|sighting| &sighting.state) {
        return vec![Event::Answer { of: key, answer: answer.clone() }];
    }
    let mut news: Vec<News> =
        sighting.and_then(|sighting| start(submission, sighting, seen)).into_iter().collect();
    let reason = sighting.and_then(|sighting| sighting.reason.clone());
    news.extend(reason.filter(|reason| attempt.reason.as_ref() != Some(&reason.text)).map(News::Waits));
    let odd = sights.odd.get(&key).copied().filter(|what| attempt.odd.as_ref() != Some(*what));
    news.extend(odd.map(|what| News::Odd { what: what.clone() }));
    let mut done = tracked.epochs_done;
    for &report in sights.epochs.get(&key).into_iter().flatten() {
        if report.epoch > done && report.epoch <= tracked.job.epochs {
            done = report.epoch;
            news.push(News::Epoch(report.clone()));
        }
    }
    news.extend(stalled(submission, sights.stalls.get(&key).copied(), done > tracked.epochs_done));
    match sighting.map(|sighting| &sighting.state) {
        Some(QueueState::Ended { end: End::NodeFailed, at: Some(lost), .. })
            if outlives(tracked, attempt, *lost, seen.at, sights.epochs.get(&key)) => {}
        Some(QueueState::Ended { end, at, .. }) => {
            let at = at.unwrap_or(seen.at);
            // Ranks may have lived longer than Slurm assumed.
            let lived = reported_at(tracked, attempt).filter(|last| *end == End::NodeFailed && last.0 > at.0);
            // The submission's file names the node.
            let told = sights.unfit.get(&key).filter(|_| matches!(end, End::Unfit { .. }));
            let end = told.map_or(end, |told| *told).clone();
            news.push(News::Ended { end, at: lived.unwrap_or(at) });
        }
        Some(_) => {}
        None => news.extend(missing(tracked, attempt, done > tracked.epochs_done, seen)),
    }
    news.into_iter().map(|news| Event::News { of: key.clone(), news }).collect()
}

/// Returns the event that a running submission is stuck or makes progress again. A change of the idle rank or
/// of the idle time alone is not news. If an epoch is `reported` now, only idle GPUs and stopped ranks count.
fn stalled(submission: &Submission, seen: Option<&Stall>, reported: bool) -> Option<News> {
    let outlasts = |stall: &&Stall| matches!(stall.kind, StallKind::Idle | StallKind::Stopped);
    let seen = seen.filter(|stall| !reported || outlasts(stall));
    let kind = |stall: &Stall| stall.kind;
    let is_same = submission.attempt.stall.as_ref().map(kind) == seen.map(kind);
    (submission.is_running() && !is_same).then(|| News::Stalled(seen.cloned()))
}

/// Returns the event for an earlier submission in the queue, which is either the one presumed lost or blocks
/// a new submission of its job, or the event that none blocks the job any longer.
fn stray(tracked: &JobState, sights: &Sights<'_>) -> Option<Event> {
    let sighting = sights.strays.get(&tracked.job.name).copied();
    if let Some(sighting) = sighting.filter(|_| tracked.takes_up_lost()) {
        // A submission from before the job was added again may have been for other work.
        let lost = |past: &PastAttempt| {
            past.attempt.key(&tracked.job.name) == sighting.of
                && past.end == End::Vanished
                && past.ended >= tracked.added
        };
        if tracked.past.iter().any(lost) {
            let (of, job_id) = (sighting.of.clone(), sighting.job_id);
            return Some(Event::Found { of, job_id, submit_time: sighting.submit_time.clone() });
        }
    }
    let job_id = sighting.filter(|_| !tracked.phase.is_over()).map(|sighting| sighting.job_id);
    (job_id != tracked.stray && !tracked.phase.is_over())
        .then(|| Event::Stray { job: tracked.job.name.clone(), job_id })
}

/// Returns the news of a submission that was queued or has started, if there is any.
fn start(submission: &Submission, sighting: &Sighting, seen: &Observation) -> Option<News> {
    let Submission { attempt, stage } = submission;
    let (job_id, submit_time) = (sighting.job_id, sighting.submit_time.clone());
    let known =
        attempt.job_id == Some(job_id) && attempt.submit_time == submit_time && attempt.missing.is_none();
    match &sighting.state {
        QueueState::Pending => {
            let queued = matches!(stage, Stage::Pending | Stage::Stopping { .. });
            (!(known && queued)).then_some(News::Queued { job_id, submit_time })
        }
        QueueState::Running { since, gpus } => {
            let at = since.unwrap_or(seen.at);
            // The GPUs may become known later than the start.
            let moved = gpus.as_ref().is_some_and(|gpus| *gpus != attempt.gpus);
            (attempt.started.is_none() || !known || moved).then(|| News::Started {
                job_id,
                submit_time,
                at,
                gpus: gpus.clone(),
            })
        }
        // The submission was too short to be seen running.
        QueueState::Ended { since: Some(at), .. } if attempt.started.is_none() || !known => {
            Some(News::Started { job_id, submit_time, at: *at, gpus: None })
        }
        QueueState::Ended { .. } => (!known).then_some(News::Queued { job_id, submit_time }),
        QueueState::NotStarted(_) => None,
    }
}

/// Returns the event for a submission that Slurm does not list; `reports` says that a new epoch was seen now.
fn missing(
    tracked: &JobState,
    attempt: &SubmissionRecord,
    reports: bool,
    seen: &Observation,
) -> Option<News> {
    let Some(since) = attempt.missing else { return Some(News::Missing) };
    if reports || is_heard_of(tracked, attempt, seen.at) {
        // Regardless of Slurm's answer, the ranks are at work, so the job must not be started a second time.
        return None;
    }
    let for_long = seen.at.since(since);
    match attempt.job_id {
        None => (for_long >= Rules::UNCLEAR).then_some(News::NeverSubmitted),
        Some(_) => (for_long >= Rules::VANISHED).then_some(News::Ended { end: End::Vanished, at: seen.at }),
    }
}

/// Returns whether a submission has reported an epoch so recently that the next one is not due yet.
fn is_heard_of(tracked: &JobState, attempt: &SubmissionRecord, now: Time) -> bool {
    reported_at(tracked, attempt).is_some_and(|at| now.since(at).0 < patience(tracked, attempt))
}

/// Returns when a submission reported its last known epoch.
fn reported_at(tracked: &JobState, attempt: &SubmissionRecord) -> Option<Time> {
    tracked.epoch_at.filter(|_| tracked.epochs_done > attempt.epochs_before)
}

/// Returns how many seconds a submission that reports may stay silent.
fn patience(tracked: &JobState, attempt: &SubmissionRecord) -> f64 {
    let epoch = tracked.epoch.unwrap_or(attempt.epoch);
    Rules::VANISHED.0.max((Rules::SILENT_EPOCHS * epoch.0).min(Rules::LONGEST_SILENCE.0))
}

/// Returns whether ranks keep training although Slurm lost their node: they have reported since then, and
/// recently. The wait for them is bounded, because a submission's processes end when the next one starts.
fn outlives(
    tracked: &JobState,
    attempt: &SubmissionRecord,
    lost: Time,
    now: Time,
    new: Option<&Vec<&EpochReport>>,
) -> bool {
    let known = reported_at(tracked, attempt);
    let new = new.into_iter().flatten().filter(|report| report.epoch > tracked.epochs_done);
    let last = new.map(|report| report.at).chain(known).max_by(|a, b| a.0.total_cmp(&b.0));
    now.since(lost).0 < Rules::LONGEST_SILENCE.0
        && last.is_some_and(|last| last.0 > lost.0 && now.since(last).0 < patience(tracked, attempt))
}

/// Returns the events of nodes that went down, came back or left; empty if the cluster was not observed.
fn nodes(state: &State, seen: &Observation) -> Vec<Event> {
    if seen.cluster.nodes.is_empty() {
        return Vec::new();
    }
    let usable = |node: &Node| node.state.availability() == Availability::Up;
    let down: Vec<&Node> =
        seen.cluster.nodes.iter().filter(|node| !usable(node) && !node.gpus.is_empty()).collect();
    let names: BTreeSet<&NodeName> = down.iter().map(|node| &node.name).collect();
    let is_reserved = |node: &Node| node.state.availability() == Availability::Reserved;
    // A reserved node may also fail, and one that was down may be reserved; earlier versions did not
    // distinguish them.
    let has_changed = |node: &Node| state.nodes_reserved.contains(&node.name) != is_reserved(node);
    let new = down.iter().filter(|node| !state.nodes_down.contains(&node.name) || has_changed(node));
    let new = new.map(|node| Event::NodeDown {
        node: node.name.clone(),
        state: node.state.availability(),
        reason: node.reason.clone(),
    });
    let no_longer = state.nodes_down.iter().filter(|name| !names.contains(name));
    let no_longer = no_longer.map(|name| match seen.cluster.node(name) {
        Some(node) if usable(node) => Event::NodeBack { node: name.clone() },
        // For example, the node of a member that has left its pool.
        _ => Event::NodeGone { node: name.clone() },
    });
    new.chain(no_longer).collect()
}
