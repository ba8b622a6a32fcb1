//! Lines of a story about single events.

use crate::duration;
use crate::story_line::{StoryLine, StoryTopic, line};
use crate::story_scripts::{script_of, tell_script};
use hsched_engine::{
    AfterStop, Answer, BackendKind, End, Event, JobState, News, Outcome, PastAttempt, Phase, SharesStage,
    Stage, State, Submission, SubmissionKey, SubmissionRecord,
};
use hsched_model::{GpuType, Job, JobId, NodeName, Seconds, hostlist};

/// Run time below which a failed submission failed at once.
const AT_ONCE: Seconds = Seconds(10.0);

/// Returns the line for an event, if the event is relevant.
pub(super) fn tell(event: &Event, state: &State, backend: BackendKind) -> Option<StoryLine> {
    if let Some(script) = script_of(event, state) {
        return tell_script(event, script);
    }
    match event {
        Event::Added { job, .. } => {
            let text = match job {
                job if job.is_command() => "added".to_owned(),
                job if job.is_plain => format!("added: {} epochs", job.epochs),
                job => format!("added: {} epochs of {} samples", job.epochs, job.samples_per_epoch),
            };
            Some(line(&job.name, StoryTopic::Order, text))
        }
        Event::CancelAsked { job } => Some(line(job, StoryTopic::Order, "cancel requested".into())),
        Event::Answer { of, answer } => {
            let tracked = state.find(&of.job)?;
            let (topic, text) = tell_answer(answer, tracked, attempt(tracked, of), backend)?;
            Some(line(&of.job, topic, text))
        }
        Event::News { of, news } => {
            let tracked = state.find(&of.job)?;
            let (topic, text) = tell_news(news, tracked, attempt(tracked, of))?;
            Some(line(&of.job, topic, text))
        }
        Event::Stray { job, job_id } => {
            let id = (*job_id)?;
            let text = format!("waiting: job {id}, an earlier submission, is still in the queue");
            Some(line(job, StoryTopic::Queue, text))
        }
        Event::Found { of: SubmissionKey { job, .. }, job_id, .. } => {
            Some(line(job, StoryTopic::Queue, format!("found in the queue as job {job_id}")))
        }
        Event::NodeDown { .. } | Event::NodeBack { .. } | Event::NodeGone { .. } => None,
    }
}

/// Returns the data of a current or ended submission.
fn attempt<'a>(tracked: &'a JobState, of: &SubmissionKey) -> Option<&'a SubmissionRecord> {
    let past = || tracked.past.iter().map(|past| &past.attempt).find(|record| record.key(&of.job) == *of);
    tracked.submission(of).map(|submission| &submission.attempt).or_else(past)
}

fn tell_answer(
    answer: &Answer,
    tracked: &JobState,
    attempt: Option<&SubmissionRecord>,
    backend: BackendKind,
) -> Option<(StoryTopic, String)> {
    let told = match answer {
        Answer::Submitted { job_id } => {
            let Some(attempt) = attempt else {
                return Some((StoryTopic::Submission, backend.submitted(*job_id)));
            };
            let prediction = prediction(&tracked.job, attempt.epoch, attempt.unmeasured);
            let place = place(attempt);
            let pieces = attempt.pieces.as_ref().map_or_else(String::new, |pieces| format!(", {pieces}"));
            let clause = pieces + &attempt.trials.clause();
            let what = match () {
                () if tracked.is_next(attempt) => backend.continued(*job_id),
                () if is_beside(tracked, *job_id) => backend.beside(*job_id),
                () => backend.submitted(*job_id),
            };
            (StoryTopic::Submission, format!("{what} on {place}{prediction}{clause}"))
        }
        Answer::Refused { message } => (fate(tracked), format!("{}: {message}", backend.refused())),
        Answer::Deferred { message } => {
            (StoryTopic::Queue, format!("{}, will retry: {message}", backend.deferred()))
        }
        Answer::Unreachable { message } => (StoryTopic::Queue, format!("{}: {message}", backend.failed())),
        Answer::Unclear { message } => {
            (StoryTopic::Queue, format!("unclear whether it was submitted, checking the queue: {message}"))
        }
        Answer::Amended => (
            StoryTopic::Queue,
            "its request was changed; it keeps its place in the \
            queue"
                .to_owned(),
        ),
        Answer::NotAmended { message } => {
            (StoryTopic::Queue, format!("its request was not changed: {message}"))
        }
        Answer::NotShared { message } => {
            (StoryTopic::Stop, format!("its shares were not changed: {message}"))
        }
        Answer::NotStopped { message } => (StoryTopic::Stop, format!("could not be stopped: {message}")),
        Answer::Stopped | Answer::Killed | Answer::Shared => return None,
    };
    Some(told)
}

fn tell_news(
    news: &News,
    tracked: &JobState,
    attempt: Option<&SubmissionRecord>,
) -> Option<(StoryTopic, String)> {
    let is_next = attempt.is_some_and(|record| tracked.is_next(record));
    let told = match news {
        News::Missing => (StoryTopic::Queue, "not in the queue; waiting a minute to be sure".to_owned()),
        News::Odd { what } => (StoryTopic::Report, format!("reports: {what}")),
        News::NeverSubmitted => (StoryTopic::Queue, "Slurm never received it; submitting again".to_owned()),
        News::Queued { job_id, .. } => {
            let what = if is_next { "continuation " } else { "" };
            (StoryTopic::Queue, format!("{what}pending as job {job_id}"))
        }
        News::Started { .. } if is_next => {
            (StoryTopic::Start, format!("continuation running on {}", attempt.map(place)?))
        }
        News::Started { .. } => (StoryTopic::Start, format!("running on {}", attempt.map(place)?)),
        News::Epoch(report) => {
            let length = report.length.map_or(String::new(), |length| format!(" ({})", duration(length)));
            let new = attempt.and_then(|record| record.new_shares.as_ref());
            let is_first = new.is_some_and(|new| new.stage == SharesStage::Adopted { epoch: report.epoch });
            let shares = if is_first { " with its new batch shares" } else { "" };
            (
                StoryTopic::Epoch,
                format!("epoch {} of {} done{shares}{length}", report.epoch, tracked.job.epochs),
            )
        }
        News::Ended { end, .. } => {
            // The end as the engine interprets it: a failure of ranks may be the consequence of a lost node.
            let same = |past: &&PastAttempt| {
                attempt.is_some_and(|record| {
                    (&record.run, record.copy) == (&past.attempt.run, past.attempt.copy)
                })
            };
            let past = tracked.past.iter().rev().find(same);
            let end = past.map_or(end, |past| &past.end);
            if is_told(end, tracked) {
                return None;
            }
            let said = past.map_or_else(|| end.to_string(), |past| tracked.ending(past));
            let saved = *end == End::Saved && !tracked.phase.is_over();
            (if saved { StoryTopic::Saved } else { fate(tracked) }, ended(end, &said, tracked))
        }
        News::Stalled(Some(stall)) => {
            (StoryTopic::Stuck, stall.text(attempt.map_or(1, |attempt| attempt.gpus.total())))
        }
        News::Stalled(None) => (StoryTopic::Stuck, "makes progress again".to_owned()),
        News::Waits(_) | News::Facts(_) => return None,
    };
    Some(told)
}

/// Returns whether another submission's line covers the end of this one: of several submissions, only the one
/// that completed the job is reported.
fn is_told(end: &End, tracked: &JobState) -> bool {
    let completed = |past: &PastAttempt| past.end == End::Completed;
    match &tracked.phase {
        Phase::Ended { outcome: Outcome::Completed, .. } => {
            *end != End::Completed && tracked.past_since_added().any(completed)
        }
        Phase::Ended { .. } => false,
        _ => *end == End::Yielded,
    }
}

/// Returns whether a submission has completed the job and only its other submissions remain.
fn is_done(tracked: &JobState) -> bool {
    let leaves = |submission: &Submission| {
        matches!(submission.stage, Stage::Stopping { then: AfterStop::Done(_), .. })
    };
    tracked.phase.submissions().iter().any(leaves)
}

/// Returns the predicted epoch time for the end of a sentence.
pub(super) fn prediction(job: &Job, epoch: Seconds, is_unmeasured: bool) -> String {
    match is_unmeasured {
        true if job.is_command() => String::new(),
        true => "; its speed is not known yet".to_owned(),
        false if job.is_command() => format!("; predicted {}", duration(epoch)),
        false => format!("; predicted {} per epoch", duration(epoch)),
    }
}

/// Returns whether another submission of the job is in the queue already.
fn is_beside(tracked: &JobState, job_id: JobId) -> bool {
    let waits =
        |submission: &Submission| submission.stage == Stage::Pending && submission.attempt.job_id.is_some();
    tracked
        .phase
        .submissions()
        .iter()
        .any(|submission| waits(submission) && submission.attempt.job_id != Some(job_id))
}

/// Returns the GPUs of a submission and their nodes.
fn place(attempt: &SubmissionRecord) -> String {
    format!("{} ({})", attempt.gpus, hostlist::compress(attempt.gpus.0.keys().map(NodeName::as_str)))
}

/// Returns the topic for a submission's end by its consequence for the job.
fn fate(tracked: &JobState) -> StoryTopic {
    match &tracked.phase {
        Phase::Ended { outcome: Outcome::Completed, .. } => StoryTopic::Completed,
        Phase::Ended { .. } => StoryTopic::GivenUp,
        _ if is_done(tracked) => StoryTopic::Completed,
        _ => StoryTopic::End,
    }
}

/// Returns the output file of the job's ranks.
fn output(tracked: &JobState) -> String {
    let folder = tracked.job.launch.workdir.as_deref().map_or(String::new(), |folder| format!("{folder}/"));
    let last = tracked.past.last().map(|past| past.attempt.key(&tracked.job.name).name());
    format!("{folder}{}.out", last.as_deref().unwrap_or(tracked.job.name.as_str()))
}

fn ended(end: &End, said: &str, tracked: &JobState) -> String {
    let (done, all) = (tracked.epochs_done, tracked.job.epochs);
    match &tracked.phase {
        Phase::Ended { at, outcome: Outcome::Completed } => {
            let shortfall = tracked.shortfall();
            format!("completed, {} after it was added{shortfall}", duration(at.since(tracked.added)))
        }
        Phase::Ended { outcome: outcome @ Outcome::Failed { .. }, .. } => {
            format!("{outcome}; see {}", output(tracked))
        }
        Phase::Ended { outcome: Outcome::Cancelled, .. } => "cancelled".to_owned(),
        _ if *end == End::Completed && is_done(tracked) => {
            let now = tracked.past.last().map_or(tracked.added, |past| past.ended);
            format!(
                "completed, {} after it was added{}",
                duration(now.since(tracked.added)),
                tracked.shortfall()
            )
        }
        _ => {
            let left = tracked.retries_left();
            // The engine adds this text if the end has used a retry.
            let left = if tracked.last.1.ends_with(&left) { format!(", {left}") } else { String::new() };
            let waits =
                |submission: &Submission| submission.attempt.race && submission.stage == Stage::Pending;
            let then = match done {
                _ if tracked.phase.submissions().iter().any(waits) => {
                    "its other requests stay in the queue".to_owned()
                }
                0 if *end == End::Saved => "resumes from its checkpoint".to_owned(),
                0 => "starts over".to_owned(),
                _ if tracked.repeats_epochs() => JobState::REPEATS.to_owned(),
                _ => format!("resumes after epoch {done} of {all}{}", tracked.if_saved()),
            };
            format!("{said}{left}; {then}{}{}{}", pause(tracked), given_up(tracked), repeated(tracked))
        }
    }
}

/// Returns the wait before a job is retried, as the end of a clause.
fn pause(tracked: &JobState) -> String {
    match &tracked.phase {
        Phase::Waiting { not_before: Some(moment), .. } if *moment > tracked.last.0 => {
            let wait = moment.since(tracked.last.0);
            let wait = if wait.0 < 600.0 { format!("{:.0} s", wait.0) } else { duration(wait) };
            format!(", in {wait} at the earliest")
        }
        _ => String::new(),
    }
}

/// Returns how to end a job if its last two submissions failed at once in the same way, for the end of a
/// sentence.
fn repeated(tracked: &JobState) -> &'static str {
    let at_once = |past: &&PastAttempt| {
        let ran = past.attempt.started.map(|started| past.ended.since(started));
        past.epochs == 0 && ran.is_some_and(|ran| ran < AT_ONCE)
    };
    let mut last = tracked.past_since_added().rev().take(2).filter(at_once).map(|past| &past.end);
    match (last.next(), last.next()) {
        (Some(end @ End::Failed { .. }), Some(before)) if end == before => {
            "; it failed in the same way before: hsched cancel ends it, and retries: 0 in its file prevents retries"
        }
        _ => "",
    }
}

/// Returns the GPU types that are not tried again for a job after the end of its last submission, for the end
/// of a sentence.
fn given_up(tracked: &JobState) -> String {
    let Some(last) = tracked.past.last().filter(|last| last.epochs == 0) else { return String::new() };
    let given_up = tracked.avoids.iter().filter(|gpu_type| last.attempt.trials.0.contains_key(gpu_type));
    let names: Vec<&str> = given_up.map(GpuType::as_str).collect();
    if names.is_empty() {
        return String::new();
    }
    let names = names.join(" and ");
    format!("; hsched no longer uses {names} for it (not in its job file; hsched add lifts this)")
}
