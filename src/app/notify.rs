//! The user's notification command, called for jobs that have ended, will not start or are stuck; it runs in
//! parallel and can delay only the end of hsched.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::app::context::Context;
use crate::settings::process_environment;
use hsched_slurm::{CommandLine, Runner, System};
use hsched_ui::{StoryLine, StoryTopic, Terminal};

/// How long the command may run before it is killed.
const LIMIT: Duration = Duration::from_secs(30);

/// Passes news to the command: one call at a time, with everything new since the previous call began.
pub(crate) struct Notifier {
    /// `None` without a command, or after the last news.
    news: Option<Sender<String>>,
    troubles: Mutex<Receiver<String>>,
    worker: Option<JoinHandle<()>>,
    terminal: Terminal,
}

impl Notifier {
    /// Returns the notifier for the setting `notify`, which does nothing if that is empty.
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

    /// Passes the notable lines to the command, one per line.
    pub(crate) fn tell(&self, lines: &[StoryLine]) {
        let is_told = |line: &&StoryLine| {
            matches!(line.topic, StoryTopic::Completed | StoryTopic::GivenUp | StoryTopic::Stuck)
        };
        let told: Vec<String> = lines.iter().filter(is_told).map(StoryLine::plain).collect();
        if let Some(news) = self.news.as_ref().filter(|_| !told.is_empty()) {
            // Fails only if the worker has panicked.
            let _ = news.send(told.join("\n") + "\n");
        }
    }

    /// Returns errors since the last call.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.troubles.lock().map(|troubles| troubles.try_iter().collect()).unwrap_or_default()
    }
}

impl Drop for Notifier {
    /// Waits until the command has received everything or its time has run out, and prints errors.
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

/// Calls the command with incoming news until the channel is closed.
fn call(line: &str, news: &Receiver<String>, trouble: &Sender<String>) {
    let system = System::new(process_environment(), LIMIT);
    while let Ok(first) = news.recv() {
        let text: String = std::iter::once(first).chain(news.try_iter()).collect();
        let command = CommandLine::new("sh", ["-c", line]);
        if let Err(error) = system.run(&CommandLine { stdin: Some(text), ..command }) {
            // The receiver reads this at the latest when hsched ends.
            let _ = trouble.send(format!("the command of --notify failed: {error}"));
        }
    }
}
