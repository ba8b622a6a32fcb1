//! Detection of stuck jobs from samples of their ranks and from their reports.
//!
//! A healthy training also has long pauses: its first step may compile, and checkpoints and evaluations leave
//! GPUs idle. A pause counts as a stall only if it is longer than such pauses usually are, longer than the
//! reported activity of the program usually takes, and longer than the job's longest harmless pause.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::mark::intend;
use crate::stall_tracks::{Track, tracks};
use crate::{Action, Activity, AfterStop, JobState, NodeSamples, State, SubmissionKey, SubmissionRecord};
use hsched_model::{Seconds, StuckRule, Time};

/// A training that is stuck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    pub kind: StallKind,
    pub since: Time,
    /// Time of the look that showed the stall.
    pub seen: Time,
    /// The affected ranks.
    pub ranks: Vec<usize>,
    /// The probable cause, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// How a training is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StallKind {
    /// Processes of ranks are stopped, for example by SIGSTOP.
    Stopped,
    /// GPUs are idle.
    Idle,
    /// No rank makes a step.
    NoStep,
    /// No rank reports an epoch.
    NoEpoch,
    /// A node has stopped sending samples.
    Silent,
}

/// The longest pause that is never reported.
const PAUSE: f64 = 600.0;

/// The longest pause that is not reported before the first step while CPUs are busy, because data are loaded
/// or kernels are compiled.
const START: f64 = 1800.0;

/// The longest pause that is not reported while the program reports an activity other than a step or waiting
/// for data, such as saving or evaluating.
const BUSY_OTHERWISE: f64 = 3600.0;

/// Maximum length of a pause relative to the longest harmless one.
const LONGER: f64 = 1.5;

/// Maximum time without a step, in step times.
const STEPS: f64 = 20.0;

/// Maximum time without an epoch, in epoch times.
const EPOCHS: f64 = 3.0;

/// CPU use from which a rank counts as working.
const WORKING: f64 = 0.2;

/// Observations of a running submission.
struct Course<'a> {
    tracked: &'a JobState,
    attempt: &'a SubmissionRecord,
    tracks: Vec<Track<'a>>,
    now: Time,
}

/// Returns how a running submission is stuck, from its reports and the samples of its nodes; `None` if it
/// makes progress or the data are insufficient.
pub(crate) fn stall(
    tracked: &JobState,
    attempt: &SubmissionRecord,
    nodes: &[NodeSamples],
    now: Time,
) -> Option<Stall> {
    let started = attempt.started?;
    let tracks = tracks(nodes, started);
    let course = Course { tracked, attempt, tracks, now };
    course
        .stopped()
        .or_else(|| course.silent(nodes))
        .or_else(|| course.idle())
        .or_else(|| course.without_step())
        .or_else(|| course.without_epoch())
}

impl Course<'_> {
    /// Returns a stall with the ranks whose main process was stopped in their last sample.
    fn stopped(&self) -> Option<Stall> {
        let stopped = |track: &&Track<'_>| track.last().state == Some('T');
        let tracks: Vec<&Track<'_>> = self.tracks.iter().filter(stopped).collect();
        let since = tracks
            .iter()
            .map(|track| track.since(|sample| sample.state == Some('T')).0)
            .min_by(f64::total_cmp)?;
        Some(self.stall(StallKind::Stopped, Time(since), tracks.iter().map(|track| track.rank), None))
    }

    /// Returns a stall with the ranks of a node that sends no samples, if an epoch is also late.
    fn silent(&self, nodes: &[NodeSamples]) -> Option<Stall> {
        if self.silence().0 <= 1.2 * self.epoch().0 + 30.0 {
            return None;
        }
        let silent = |node: &&NodeSamples| {
            let last = seen(node)?;
            (self.now.since(last).0 > 1.25 * node.interval.0 + 15.0).then_some((node.node.clone(), last))
        };
        let (node, since) = nodes.iter().find_map(|node| silent(&node))?;
        let rank = self.tracks.iter().filter(|track| *track.node == node).map(|track| track.rank);
        let ranks: Vec<usize> = rank.collect();
        (!ranks.is_empty()).then(|| self.stall(StallKind::Silent, since, ranks, Some(node.to_string())))
    }

    /// Returns a stall with the ranks whose GPUs have been idle for too long.
    fn idle(&self) -> Option<Stall> {
        let limit = self.limit();
        let quiet = |track: &Track<'_>| {
            let since = track.quiet_since()?;
            let is_due = track.last().gpu.is_some() || self.is_overdue(limit);
            (track.end().since(since).0 >= limit && is_due).then_some((track.rank, since))
        };
        let quiet_ranks: Vec<(usize, Time)> = self.tracks.iter().filter_map(quiet).collect();
        // The stall begins with the last rank that became idle; before that, a rank was at work.
        let since = quiet_ranks.iter().map(|(_, since)| *since).max_by(|a, b| a.0.total_cmp(&b.0))?;
        let cause = self.cause();
        let is_hanging = quiet_ranks.len() == self.tracks.len() && cause.is_none() && self.has_worked();
        let kind = if is_hanging { StallKind::NoStep } else { StallKind::Idle };
        Some(self.stall(kind, since, quiet_ranks.into_iter().map(|(rank, _)| rank), cause))
    }

    /// Returns a stall if no rank has made a step for too long; only for jobs whose ranks count their steps.
    fn without_step(&self) -> Option<Stall> {
        let still: Option<Vec<Time>> = self.tracks.iter().map(Track::same_step_since).collect();
        let since = still?.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let end = self.tracks.iter().map(|track| track.end().0).fold(since.0, f64::max);
        let step = self.tracks.iter().filter_map(Track::step).fold(0.0, f64::max);
        let is_long = end - since.0 >= self.limit().max(STEPS * step);
        let ranks = self.tracks.iter().map(|track| track.rank);
        is_long.then(|| self.stall(StallKind::NoStep, since, ranks, self.cause()))
    }

    /// Returns a stall if no epoch has been reported for too long since the submission's last one; only for
    /// jobs whose ranks do not count their steps.
    fn without_epoch(&self) -> Option<Stall> {
        let counts = self.tracks.iter().any(|track| track.last().steps.is_some());
        let since = self.tracked.epoch_at.filter(|_| self.has_reported() && !counts)?;
        // An epoch that is longer than others may contain a pause.
        let is_long = self.now.since(since).0 > self.limit() + EPOCHS * self.epoch().0;
        is_long.then(|| self.stall(StallKind::NoEpoch, since, [], None))
    }

    /// Returns the maximum length of a pause.
    fn limit(&self) -> f64 {
        let says = |track: &Track<'_>| {
            track.last().activity.is_some_and(|activity| !matches!(activity, Activity::Data | Activity::Step))
        };
        let works = |track: &Track<'_>| track.load().is_some_and(|load| load >= WORKING);
        let usual = match () {
            () if self.tracks.iter().any(says) => BUSY_OTHERWISE,
            () if !self.has_worked() && self.tracks.iter().any(works) => START,
            () => PAUSE,
        };
        usual.max(LONGER * self.tracked.pause.map_or(0.0, |pause| pause.0))
    }

    /// Returns whether this submission has used a GPU, made a step or finished an epoch.
    fn has_worked(&self) -> bool {
        let busy =
            |track: &Track<'_>| track.points.iter().any(|(_, candidate)| candidate.is_idle() == Some(false));
        let stepped = |track: &Track<'_>| track.last().steps.is_some_and(|steps| steps > 0);
        self.has_reported() || self.tracks.iter().any(|track| busy(track) || stepped(track))
    }

    /// Returns a condition of some ranks that explains why the others wait.
    fn cause(&self) -> Option<String> {
        let of = |what: &str, is: &dyn Fn(&Track<'_>) -> bool| {
            let ranks: Vec<usize> =
                self.tracks.iter().filter(|track| is(track)).map(|track| track.rank).collect();
            let (noun, verb) = if ranks.len() == 1 { ("rank", "waits") } else { ("ranks", "wait") };
            (!ranks.is_empty()).then(|| format!("{noun} {} {verb} for {what}", numbers(&ranks)))
        };
        of("data", &|track| track.last().activity == Some(Activity::Data))
            .or_else(|| of("the disk", &|track| track.last().state == Some('D')))
    }

    /// Returns the reported or else the predicted length of an epoch.
    fn epoch(&self) -> Seconds {
        self.tracked.epoch.filter(|_| self.has_reported()).unwrap_or(self.attempt.epoch)
    }

    /// Returns the time since the last epoch of this submission, or since its start.
    fn silence(&self) -> Seconds {
        let last = self.tracked.epoch_at.into_iter().chain(self.attempt.started);
        let last = last.map(|time| time.0).max_by(f64::total_cmp).unwrap_or(self.now.0);
        self.now.since(Time(last))
    }

    /// Returns whether an epoch is late; `pause` is how long a pause in it may be.
    fn is_overdue(&self, pause: f64) -> bool {
        // Before the first report, a rank that uses no CPU is more likely to hang than to evaluate.
        let allowed = if self.has_reported() { pause } else { 60.0 };
        self.silence().0 > 1.5 * self.epoch().0 + allowed
    }

    /// Returns whether this submission has reported an epoch.
    fn has_reported(&self) -> bool {
        self.tracked.epochs_done > self.attempt.epochs_before
    }

    fn stall(
        &self,
        kind: StallKind,
        since: Time,
        ranks: impl IntoIterator<Item = usize>,
        cause: Option<String>,
    ) -> Stall {
        Stall {
            kind,
            since: Time(since.0.min(self.now.0)),
            seen: self.now,
            ranks: ranks.into_iter().collect(),
            cause,
        }
    }
}

/// Asks stuck submissions to save and end if their jobs' rules say so, and marks that in the state.
pub(super) fn end(state: &mut State, at: Time) -> Vec<Action> {
    let one = |tracked: &JobState| {
        let submission = tracked
            .phase
            .submissions()
            .iter()
            .find(|submission| submission.is_running() && submission.attempt.stall.is_some())?;
        let (attempt, stall) = (&submission.attempt, submission.attempt.stall.as_ref()?);
        let why = stall.text(attempt.gpus.total());
        (tracked.job.stuck != StuckRule::Warn).then_some(Action::Stop {
            of: attempt.key(&tracked.job.name),
            job_id: attempt.job_id?,
            then: AfterStop::Stalled,
            why,
        })
    };
    let actions: Vec<Action> = state.jobs.iter().filter_map(one).collect();
    for action in &actions {
        intend(state, action, AfterStop::Stalled, at);
    }
    actions
}

impl JobState {
    /// Replaces the stalls of running submissions with these, for an observation without a turn.
    pub fn show_stalls(&mut self, stalls: &[(SubmissionKey, Stall)]) {
        let name = self.job.name.clone();
        for submission in self.phase.submissions_mut() {
            let seen = stalls.iter().find(|(of, _)| *of == submission.attempt.key(&name));
            submission.attempt.stall = seen.map(|(_, stall)| stall.clone());
        }
    }
}

/// Returns when a node last sent a sample.
fn seen(node: &NodeSamples) -> Option<Time> {
    let last = node.samples.last().map(|sample| sample.at).into_iter();
    last.chain(node.written).max_by(|a, b| a.0.total_cmp(&b.0))
}

impl Stall {
    /// Returns a message about the problem and its duration; `all` is the number of the job's ranks.
    pub fn text(&self, all: u32) -> String {
        let time = span(self.seen.since(self.since));
        let ranks = numbers(&self.ranks);
        let (noun, was) = if self.ranks.len() == 1 { ("rank", "was") } else { ("ranks", "were") };
        let mut text = match self.kind {
            StallKind::Stopped => {
                return format!("{noun} {ranks} {was} stopped by a signal {time} ago; SIGCONT resumes");
            }
            StallKind::Silent => {
                let node = self.cause.as_deref().unwrap_or_default();
                return format!("no sign of life from {noun} {ranks} on node {node} for {time}");
            }
            StallKind::Idle => {
                let gpus = if all == 1 { "GPU" } else { "GPUs" };
                format!("{} of {all} {gpus} idle for {time}", self.ranks.len())
            }
            StallKind::NoStep => format!("no step for {time}"),
            StallKind::NoEpoch => format!("no epoch for {time}"),
        };
        let _ = match &self.cause {
            Some(cause) => write!(text, " ({cause})"),
            None if self.kind != StallKind::Idle && all > 1 => write!(text, ": hangs in all-reduce?"),
            None => Ok(()),
        };
        text
    }
}

fn numbers(ranks: &[usize]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Formats a time in whole seconds, in minutes, or in hours and minutes.
fn span(time: Seconds) -> String {
    let minutes = (time.0 / 60.0).floor();
    match () {
        () if time.0 < 100.0 => format!("{:.0} s", time.0.max(0.0)),
        () if minutes < 100.0 => format!("{minutes:.0} min"),
        () => format!("{:.0} h {:.0} min", (minutes / 60.0).floor(), minutes % 60.0),
    }
}

#[cfg(test)]
mod tests;
