//! What a story says otherwise where jobs are processes and not in Slurm's queue, and how devices go from job to job there.

use crate::model::JobName;
use crate::ui::story::{StoryLine, Topic};

/// Says of a process what is said of jobs in Slurm's queue.
pub(super) fn speak_of_processes(line: &mut StoryLine) {
    let said = [
        ("submitted as job ", "started as process "),
        ("refused by Slurm: ", "cannot be started: "),
        ("Slurm does not accept it now, will retry: ", "cannot be started now, will retry: "),
        ("could not be submitted: ", "could not be started, will retry: "),
        ("gave up: refused by Slurm: ", "gave up: cannot be started: "),
    ];
    if let Some((slurm, own)) = said.iter().find(|(slurm, _)| line.text.starts_with(slurm)) {
        line.text = format!("{own}{}", &line.text[slurm.len()..]);
    }
}

/// Adds how a job gave up its devices, or got them back, to the line that says so; where there is none, it is one of its own.
pub(super) fn add_switch(lines: &mut Vec<StoryLine>, job: &JobName, text: String) {
    let own = |own: &&mut StoryLine| {
        own.job.as_ref() == Some(job) && matches!(own.topic, Topic::Saved | Topic::Submission)
    };
    match lines.iter_mut().rev().find(own) {
        Some(line) => line.text = format!("{}; {text}", line.text),
        None => lines.push(StoryLine { job: Some(job.clone()), topic: Topic::Switch, text }),
    }
}
