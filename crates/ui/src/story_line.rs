//! One line of a story, and its topic.

use hsched_model::{JobName, Time};

/// One line of a story.
#[derive(Clone, Debug, PartialEq)]
pub struct StoryLine {
    /// When the event was noticed, if that was before the turn that prints it.
    pub at: Option<Time>,
    /// The job of the line; lines about nodes have none.
    pub job: Option<JobName>,
    pub topic: StoryTopic,
    /// The text, without the name of the job.
    pub text: String,
}

/// The topic of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoryTopic {
    /// A command of the user.
    Order,
    Submission,
    /// A submission is pending or missing in Slurm, its request changes, or a call for it failed.
    Queue,
    /// A submission is pending and will not start by itself, or a training is stuck or no longer stuck.
    Stuck,
    Start,
    Epoch,
    /// Reports that are not counted.
    Report,
    /// A submission saved and ended, on request or by itself, and the job continues.
    Saved,
    /// A submission failed, was refused or was interrupted, and the job continues.
    End,
    Completed,
    /// The job has ended without completing.
    GivenUp,
    NodeDown,
    NodeBack,
    Stop,
    /// The transfer of devices between jobs under `hsched run`.
    Switch,
    Cancel,
    Wait,
    Speed,
}

impl StoryTopic {
    const ALL: [Self; 18] = [
        Self::Order,
        Self::Submission,
        Self::Queue,
        Self::Stuck,
        Self::Start,
        Self::Epoch,
        Self::Report,
        Self::Saved,
        Self::End,
        Self::Completed,
        Self::GivenUp,
        Self::NodeDown,
        Self::NodeBack,
        Self::Stop,
        Self::Switch,
        Self::Cancel,
        Self::Wait,
        Self::Speed,
    ];

    /// Returns the topic as one word for JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Submission => "submission",
            Self::Queue => "queue",
            Self::Stuck => "stuck",
            Self::Start => "start",
            Self::Epoch => "epoch",
            Self::Report => "report",
            Self::Saved => "saved",
            Self::End => "end",
            Self::Completed => "completed",
            Self::GivenUp => "given_up",
            Self::NodeDown => "node_down",
            Self::NodeBack => "node_back",
            Self::Stop => "stop",
            Self::Switch => "switch",
            Self::Cancel => "cancel",
            Self::Wait => "wait",
            Self::Speed => "speed",
        }
    }

    /// Returns the topic for a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.word() == word)
    }

    /// Returns the terminal code for the colour of lines about this topic.
    fn colour(self) -> Option<&'static str> {
        match self {
            Self::Completed | Self::NodeBack => Some("32"),
            Self::GivenUp | Self::NodeDown | Self::End => Some("31"),
            Self::Stop | Self::Speed | Self::Report => Some("33"),
            _ => None,
        }
    }
}

impl StoryLine {
    /// Returns the line with the job's name in front.
    pub fn plain(&self) -> String {
        match &self.job {
            Some(job) => format!("{job}: {}", self.text),
            None => self.text.clone(),
        }
    }

    /// Returns text in the colour of this line's topic, if colour is enabled.
    pub fn paint(&self, text: String, colour: bool) -> String {
        match self.topic.colour().filter(|_| colour) {
            Some(code) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            None => text,
        }
    }
}

pub(super) fn line(job: &JobName, topic: StoryTopic, text: String) -> StoryLine {
    StoryLine { at: None, job: Some(job.clone()), topic, text }
}
