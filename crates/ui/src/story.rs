//! Events of jobs and nodes, one line each: the log of `watch` and of the demo.

use std::collections::{BTreeMap, BTreeSet};

use crate::duration;
use crate::learnt::LearntSpeeds;
use crate::story_line::{StoryLine, StoryTopic, line};
use crate::story_switch::add_switch;
use crate::story_words::{prediction, tell};
use hsched_engine::pool::MemberId;
use hsched_engine::{
    Action, AfterStop, BackendKind, Event, Gpus, News, PlannedSubmission, Run, Stage, State, Submission,
    SubmissionKey, Trials, Update,
};
use hsched_model::{Availability, JobName, NodeName, Seconds, hostlist};

/// Turns events into lines and leaves out repetitions.
#[derive(Debug, Default)]
pub struct Story {
    /// Events since the last lines.
    events: Vec<Event>,
    actions: Vec<Action>,
    /// Jobs whose waiting was already reported.
    waits: BTreeSet<JobName>,
    speeds: LearntSpeeds,
    /// Messages of the world since the last lines.
    switches: Vec<(JobName, String)>,
    /// Where submissions go.
    backend: BackendKind,
    /// Whether nothing is stored, so that no other command shows these jobs.
    is_preview: bool,
    /// Earlier events, which are printed first.
    recalled: Vec<StoryLine>,
}

impl Story {
    /// Returns a story of submissions to this backend.
    pub fn of(backend: BackendKind) -> Self {
        Self { backend, ..Self::default() }
    }

    /// Returns the story of a turn on devices that stores nothing.
    pub fn preview() -> Self {
        Self { is_preview: true, ..Self::of(BackendKind::Devices) }
    }

    /// Records an event or an action of the engine.
    pub fn hear(&mut self, told: Update<'_>) {
        match told {
            Update::Event(event) => self.events.push(event.clone()),
            Update::Action(action) => self.actions.push(action.clone()),
        }
    }

    /// Adds earlier lines, which are printed first.
    pub fn recall(&mut self, lines: Vec<StoryLine>) {
        self.recalled.extend(lines);
    }

    /// Records how a job releases its devices or gets them back.
    pub fn switch(&mut self, job: JobName, text: String) {
        self.switches.push((job, text));
    }

    /// Returns the lines for the events since the last call; `state` is the state after them.
    ///
    /// Actions come after the events that caused them; an action and its answer share one line.
    pub fn lines(&mut self, state: &State) -> Vec<StoryLine> {
        let (events, actions) = (std::mem::take(&mut self.events), std::mem::take(&mut self.actions));
        let mut told = std::mem::take(&mut self.recalled);
        let mut lines = nodes(&events);
        let is_answer = |event: &&Event| matches!(event, Event::Answer { .. });
        let mut seen = Vec::new();
        for event in events.iter().filter(|event| !is_answer(event) && !is_overtaken(event, &events)) {
            seen.extend(tell(event, state, self.backend));
        }
        explain_waits(&mut seen, &events);
        lines.append(&mut seen);
        for action in &actions {
            lines.extend(self.action(action, state, &events));
        }
        lines.extend(events.iter().filter(is_answer).filter_map(|event| tell(event, state, self.backend)));
        for (job, text) in self.switches.drain(..) {
            add_switch(&mut lines, &job, text);
        }
        shorten_waits(&mut lines, self.is_preview);
        for line in &lines {
            if let (Some(job), StoryTopic::Submission) = (&line.job, line.topic) {
                self.waits.remove(job);
            }
        }
        told.append(&mut lines);
        told
    }

    fn action(&mut self, action: &Action, state: &State, events: &[Event]) -> Vec<StoryLine> {
        match action {
            Action::Submit(run) => {
                let is_answered = |key: &SubmissionKey| {
                    events.iter().any(|event| matches!(event, Event::Answer { of, .. } if of == key))
                };
                let open = run.submissions.iter().filter(|intent| !is_answered(&run.key(intent)));
                open.map(|intent| planned(run, intent, state, self.backend)).collect()
            }
            Action::Stop { of: SubmissionKey { job, .. }, why, .. } => {
                let tracked = state.find(job);
                let is_stalled = |submission: &Submission| {
                    matches!(submission.stage, Stage::Stopping { then: AfterStop::Stalled, .. })
                };
                let what = match tracked {
                    Some(job) if job.stopped_early().is_some() => format!("stopping {why}"),
                    Some(job) if job.phase.submissions().iter().any(is_stalled) => {
                        format!("stopping: {why}")
                    }
                    _ => format!("stopping to move: {why}"),
                };
                vec![line(job, StoryTopic::Stop, what)]
            }
            Action::Cancel { of: SubmissionKey { job, .. }, why, .. } => {
                let is_one_of_several = state.find(job).is_some_and(|job| job.phase.submissions().len() > 1);
                let what = if is_one_of_several {
                    format!("{why}; cancelling this one")
                } else {
                    format!("cancelling: {why}")
                };
                vec![line(job, StoryTopic::Cancel, what)]
            }
            Action::Amend { of: SubmissionKey { job, .. }, to, why, .. } => {
                let gpus = Gpus::of(&to.ranks);
                let limit = duration(to.limit());
                let queue_choice = to.queue_choice.as_ref();
                let named = |what: &str, name: Option<&String>| name.map(|name| format!(", {what} {name}"));
                let account =
                    named("account", queue_choice.and_then(|queue_choice| queue_choice.account.as_ref()));
                let partition =
                    named("partition", queue_choice.and_then(|queue_choice| queue_choice.partition.as_ref()));
                let place = [account, partition].into_iter().flatten().collect::<String>();
                let what = format!("changing its request to {gpus}, limit {limit}{place}: {why}");
                vec![line(job, StoryTopic::Queue, what)]
            }
            Action::Share { of: SubmissionKey { job, .. }, why, .. } => {
                vec![line(job, StoryTopic::Speed, format!("new batch shares while it runs: {why}"))]
            }
            Action::Wait { job, why } => {
                // The reason changes with every job ahead of it, so waiting is reported once, until the
                // job is submitted.
                let is_news = self.waits.insert(job.clone());
                is_news.then(|| line(job, StoryTopic::Wait, format!("waiting: {why}"))).into_iter().collect()
            }
            Action::GiveUp { job, why } => vec![line(job, StoryTopic::GivenUp, format!("failed: {why}"))],
            Action::Learn { job, samples, lessons } => {
                // A job without samples only has an epoch time, which may differ from run to run.
                let tracked = state.find(job).filter(|tracked| !tracked.job.is_plain);
                let said = tracked.and_then(|tracked| {
                    let given = (!tracked.assumed).then(|| tracked.job.with_speeds_of_replicas());
                    self.speeds.tell(given.as_ref().map(|job| &job.throughput), samples, lessons)
                });
                said.map(|said| line(job, StoryTopic::Speed, said)).into_iter().collect()
            }
        }
    }
}

/// Returns whether an event reports as pending a submission that has ended since.
fn is_overtaken(event: &Event, events: &[Event]) -> bool {
    let Event::News { of, news: News::Queued { .. } | News::Waits(_) } = event else { return false };
    let ended =
        |other: &Event| matches!(other, Event::News { of: key, news: News::Ended { .. } } if key == of);
    events.iter().any(ended)
}

/// Adds Slurm's reasons to the lines of submissions that were just found in the queue. For other submissions,
/// it reports that a job is stuck, but not that another job is ahead.
fn explain_waits(lines: &mut Vec<StoryLine>, events: &[Event]) {
    for event in events {
        let Event::News { of, news: News::Waits(reason) } = event else { continue };
        let job = &of.job;
        // A racing job has several pending submissions, each with a different reason.
        let queued = events.iter().find_map(|event| match event {
            Event::News { of: key, news: News::Queued { job_id, .. } } if key == of => {
                Some(format!("job {job_id}"))
            }
            _ => None,
        });
        let stuck = if reason.is_stuck { "; it will not start by itself" } else { "" };
        let is_meant = |line: &&mut StoryLine| {
            let is_queued = queued.as_ref().is_some_and(|queued| line.text.ends_with(queued.as_str()));
            line.job.as_ref() == Some(job) && line.topic == StoryTopic::Queue && is_queued
        };
        if let Some(line) = lines.iter_mut().find(is_meant) {
            line.text = format!("{}: {}{stuck}", line.text, reason.text);
            if reason.is_stuck {
                line.topic = StoryTopic::Stuck;
            }
        } else if reason.is_stuck {
            lines.push(line(job, StoryTopic::Stuck, format!("pending: {}{stuck}", reason.text)));
        }
    }
}

/// Maximum number of jobs that a combined line names.
const NAMED: usize = 3;

/// Combines consecutive lines about the queue or about stuck jobs that have the same text.
pub fn merged(lines: &[StoryLine]) -> Vec<StoryLine> {
    let same = |a: &StoryLine, b: &StoryLine| {
        a.job.is_some()
            && b.job.is_some()
            && matches!(a.topic, StoryTopic::Queue | StoryTopic::Stuck)
            && (a.at, a.topic, &a.text) == (b.at, b.topic, &b.text)
    };
    let one = |alike: &[StoryLine]| {
        if let [only] = alike {
            return only.clone();
        }
        let names = alike.iter().take(NAMED).filter_map(|line| line.job.as_ref()).map(JobName::as_str);
        let names = names.collect::<Vec<_>>().join(", ");
        let more = alike.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        StoryLine { job: None, text: format!("{names}{more}: {}", alike[0].text), ..alike[0].clone() }
    };
    lines.chunk_by(same).map(one).collect()
}

/// Maximum number of jobs whose waiting is reported individually.
const WAITS_TOLD: usize = 3;

/// Combines the lines about many waiting jobs; `hsched status` does not know those of a preview.
fn shorten_waits(lines: &mut Vec<StoryLine>, is_preview: bool) {
    let waits = lines.iter().filter(|line| line.topic == StoryTopic::Wait).count();
    if waits <= WAITS_TOLD {
        return;
    }
    let mut told = 0;
    lines.retain(|line| {
        told += usize::from(line.topic == StoryTopic::Wait);
        line.topic != StoryTopic::Wait || told < WAITS_TOLD
    });
    let more = waits - WAITS_TOLD + 1;
    let why = if is_preview { "" } else { ": hsched status shows why" };
    let text = format!("{more} more jobs are waiting{why}");
    lines.push(StoryLine { at: None, job: None, topic: StoryTopic::Wait, text });
}

/// Returns the line of a job that is about to be submitted, or started.
fn planned(run: &Run, intent: &PlannedSubmission, state: &State, backend: BackendKind) -> StoryLine {
    let (gpus, job) = (run.gpus(intent), &run.jobs[intent.job]);
    let is_unmeasured = state.find(&job.name).is_some_and(|tracked| tracked.unmeasured);
    let prediction = prediction(job, Seconds(intent.placement.epoch.total()), is_unmeasured);
    let clause = Trials::of(&run.problem, intent.job, &intent.placement).clause();
    let verb = match backend {
        BackendKind::Queue => "submitted",
        BackendKind::Devices => "started",
    };
    line(&job.name, StoryTopic::Submission, format!("to be {verb} on {gpus}{prediction}{clause}"))
}

/// Returns one line for each group of nodes that were lost in the same way and for the same reason, and one
/// line for all nodes that are back.
fn nodes(events: &[Event]) -> Vec<StoryLine> {
    // The node of another Slurm job of a pool is not down when that job leaves.
    let is_of_pool = |name: &NodeName| MemberId::plain(name) != *name;
    let mut away: BTreeMap<(bool, Availability, Option<&str>), Vec<&NodeName>> = BTreeMap::new();
    let mut back = Vec::new();
    for event in events {
        match event {
            Event::NodeDown { node, state, reason } => {
                away.entry((is_of_pool(node), *state, reason.as_deref())).or_default().push(node);
            }
            Event::NodeBack { node } => back.push(node),
            _ => {}
        }
    }
    let named = |names: &[&NodeName], what: &str| {
        let list = hostlist::compress(names.iter().map(|name| name.as_str()));
        if names.len() == 1 { format!("node {list} is {what}") } else { format!("nodes {list} are {what}") }
    };
    let about = |topic, text| StoryLine { at: None, job: None, topic, text };
    let mut lines: Vec<StoryLine> = away
        .iter()
        .map(|((is_of_pool, state, reason), names)| {
            let because = reason.map_or(String::new(), |reason| format!(" ({reason})"));
            let continues = matches!(state, Availability::Drained | Availability::Reserved);
            let jobs = if continues { "; jobs running there continue" } else { "" };
            let what = if *is_of_pool { "no longer used" } else { state.word() };
            about(StoryTopic::NodeDown, format!("{}{because}{jobs}", named(names, what)))
        })
        .collect();
    if !back.is_empty() {
        lines.push(about(StoryTopic::NodeBack, named(&back, "back")));
    }
    lines
}
