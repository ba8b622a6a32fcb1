//! The transfer of devices between jobs under `hsched run`, added to the lines about these jobs.

use crate::story_line::{StoryLine, StoryTopic};
use hsched_model::JobName;

/// Adds how a job released its devices or got them back to the last line about a save or a submission of the
/// job, or adds a line if there is none.
pub(super) fn add_switch(lines: &mut Vec<StoryLine>, job: &JobName, text: String) {
    let is_switch = |story_line: &&mut StoryLine| {
        story_line.job.as_ref() == Some(job)
            && matches!(story_line.topic, StoryTopic::Saved | StoryTopic::Submission)
    };
    match lines.iter_mut().rev().find(is_switch) {
        Some(line) => line.text = format!("{}; {text}", line.text),
        None => lines.push(StoryLine { at: None, job: Some(job.clone()), topic: StoryTopic::Switch, text }),
    }
}
