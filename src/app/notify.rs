//! A command of the user's that is told of jobs that ended or will not start; it runs beside hsched and cannot hold it up.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::app::context::Context;
use crate::settings::process_environment;
use crate::ui::{StoryLine, StoryTopic, Terminal};
use hsched_slurm::{CommandLine, Runner, System};

/// How long the command may take; then it is killed.
const LIMIT: Duration = Duration::from_secs(30);

/// Hands news to the command: one call at a time, with all that is new since the last one began.
pub(crate) struct Notifier {
    /// `None` where there is no command, or nothing more is to come.
    news: Option<Sender<String>>,
    troubles: Mutex<Receiver<String>>,
    worker: Option<JoinHandle<()>>,
    terminal: Terminal,
}

impl Notifier {
    /// Returns the notifier of the setting `notify`, which does nothing where that is empty.
    pub(crate) fn new(context: &Context) -> Self {
        let (trouble, troubles) = mpsc::channel();
        let (troubles, terminal) = (Mutex::new(troubles), context.terminal);
        let Some(line) = context.settings.notify.clone() else {
            return Self { news: None, troubles, worker: None, terminal };
        };
        let (news, heard) = mpsc::channel();
        let worker = thread::spawn(move || call(&line, &heard, &trouble));
        Self { news: Some(news), troubles, worker: Some(worker), terminal }
    }

    /// Tells the command what people want to be told of, each on a line.
    pub(crate) fn tell(&self, lines: &[StoryLine]) {
        let is_told = |line: &&StoryLine| {
            matches!(line.topic, StoryTopic::Completed | StoryTopic::GivenUp | StoryTopic::Stuck)
        };
        let told: Vec<String> = lines.iter().filter(is_told).map(StoryLine::plain).collect();
        if let Some(news) = self.news.as_ref().filter(|_| !told.is_empty()) {
            // Only a worker that has panicked hears nothing.
            let _ = news.send(told.join("\n") + "\n");
        }
    }

    /// Returns what went wrong since this was asked last.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.troubles.lock().map(|troubles| troubles.try_iter().collect()).unwrap_or_default()
    }
}

impl Drop for Notifier {
    /// Waits until the command has been told everything, or its time is over, and says what went wrong.
    fn drop(&mut self) {
        self.news = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
        for trouble in self.troubles() {
            self.terminal.say(&format!("warning: {trouble}"));
        }
    }
}

/// Calls the command with what comes, until nothing more can.
fn call(line: &str, news: &Receiver<String>, trouble: &Sender<String>) {
    let system = System::new(process_environment(), LIMIT);
    while let Ok(first) = news.recv() {
        let text: String = std::iter::once(first).chain(news.try_iter()).collect();
        let command = CommandLine::new("sh", ["-c", line]);
        if let Err(error) = system.run(&CommandLine { stdin: Some(text), ..command }) {
            // Whoever began this reads it at the latest when hsched ends.
            let _ = trouble.send(format!("the command of --notify failed: {error}"));
        }
    }
}
