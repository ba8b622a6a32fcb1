//! Events that commands notice but do not log: stored in the state directory for the log of `watch` or `run`.

use crate::app::context::Context;
use crate::app::state;
use hsched_engine::store::{StateDir, UnreadEvent};
use hsched_engine::{Event, State, Update};
use hsched_model::{JobName, Time};
use hsched_ui::{Story, StoryLine, StoryTopic};

/// Stores events for the next log; `state` is the resulting state. If that fails, the events are printed
/// here.
pub(crate) fn leave(context: &Context, directory: &StateDir, state: &State, at: Time, events: &[Event]) {
    let mut story = Story::default();
    for event in events {
        story.hear(Update::Event(event));
    }
    let lines = story.lines(state);
    let unread = |line: &StoryLine| UnreadEvent {
        at: at.0,
        job: line.job.as_ref().map(ToString::to_string),
        topic: line.topic.word().to_owned(),
        text: line.text.clone(),
    };
    if let Err(error) = directory.leave_untold(lines.iter().map(unread).collect()) {
        let lost = lines.iter().map(StoryLine::plain).collect::<Vec<_>>().join("\n  ");
        let why = state::failure(&error).message;
        context.warn(&format!("cannot save these events for the log of hsched watch ({why}):\n  {lost}"));
    }
}

/// Adds the stored events to a log, which shows them first.
pub(crate) fn recall(context: &Context, directory: &StateDir, story: &mut Story) {
    match directory.unread() {
        Ok(unread) => story.recall(unread.into_iter().filter_map(line).collect()),
        Err(error) => context.warn(&state::failure(&error).message),
    }
}

/// Removes the events that were shown.
pub(crate) fn forget(context: &Context, directory: &StateDir) {
    if let Err(error) = directory.forget_untold() {
        context.warn(&state::failure(&error).message);
    }
}

/// Converts a stored line; `None` for topics written by a later version.
fn line(untold: UnreadEvent) -> Option<StoryLine> {
    let job = untold.job.map(|name| JobName::new(&name)).transpose().ok()?;
    Some(StoryLine {
        at: Some(Time(untold.at)),
        job,
        topic: StoryTopic::of_word(&untold.topic)?,
        text: untold.text,
    })
}
