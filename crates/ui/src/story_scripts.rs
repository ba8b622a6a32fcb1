//! Lines of a story about scripts: one for each relevant event.

use crate::story_line::{StoryLine, StoryTopic, line};
use hsched_engine::{Answer, Event, News, Outcome, ScriptJob, State};

/// Returns the script of an event.
pub(super) fn script_of<'s>(event: &Event, state: &'s State) -> Option<&'s ScriptJob> {
    let name = match event {
        Event::CancelAsked { job } => job,
        Event::Answer { of, .. } | Event::News { of, .. } => &of.job,
        _ => return None,
    };
    state.script(name)
}

/// Returns the line of an event about a script, if the event is relevant.
pub(super) fn tell_script(event: &Event, script: &ScriptJob) -> Option<StoryLine> {
    let (topic, text) = match event {
        Event::CancelAsked { .. } => (StoryTopic::Order, "cancel requested".to_owned()),
        Event::Answer { answer, .. } => tell_answer(answer, script)?,
        Event::News { news, .. } => tell_news(news, script)?,
        _ => return None,
    };
    Some(line(&script.name, topic, text))
}

fn tell_answer(answer: &Answer, script: &ScriptJob) -> Option<(StoryTopic, String)> {
    Some(match answer {
        Answer::Submitted { job_id } => (StoryTopic::Submission, format!("submitted as job {job_id}")),
        Answer::Refused { .. } | Answer::Deferred { .. } | Answer::Unreachable { .. } => {
            (StoryTopic::GivenUp, script.last.1.clone())
        }
        Answer::Unclear { message } => (
            StoryTopic::Queue,
            format!("unclear whether Slurm received the request, checking the queue: {message}"),
        ),
        Answer::NotStopped { message } => (StoryTopic::Stop, format!("could not be cancelled: {message}")),
        Answer::Amended | Answer::NotAmended { .. } => (StoryTopic::Queue, script.last.1.clone()),
        Answer::Stopped | Answer::Killed | Answer::Shared | Answer::NotShared { .. } => return None,
    })
}

fn tell_news(news: &News, script: &ScriptJob) -> Option<(StoryTopic, String)> {
    Some(match news {
        News::Missing => (StoryTopic::Queue, "not in the queue; waiting a minute to be sure".to_owned()),
        News::NeverSubmitted => (StoryTopic::GivenUp, script.last.1.clone()),
        News::Queued { job_id, .. } => (StoryTopic::Queue, format!("pending as job {job_id}")),
        News::Started { job_id, .. } => (StoryTopic::Start, format!("running as job {job_id}")),
        News::Ended { at, .. } => match script.end.as_ref().map(|end| &end.outcome) {
            Some(Outcome::Completed) => {
                let time = crate::duration(at.since(script.added));
                (StoryTopic::Completed, format!("completed, {time} after it was submitted"))
            }
            Some(Outcome::Failed { reason }) => {
                (StoryTopic::GivenUp, format!("{reason}; hsched logs {} shows its output", script.name))
            }
            _ if script.is_between() => (StoryTopic::Queue, script.last.1.clone()),
            _ => (StoryTopic::GivenUp, "cancelled".to_owned()),
        },
        News::Waits(_) | News::Facts(_) | News::Epoch(_) | News::Odd { .. } | News::Stalled(_) => {
            return None;
        }
    })
}
