//! Slurm's expected starts of pending jobs, read at most once a minute without blocking.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::app::slurm::cached_query::{SlurmQuery, ask};
use crate::settings::process_environment;
use hsched_engine::clock::SystemClock;
use hsched_engine::store::OutputCache;
use hsched_model::{JobId, Seconds, Time};
use hsched_slurm::{System, squeue, time};

/// How long an answer is valid, and the interval between calls.
const MINUTE: Seconds = Seconds(60.0);

/// Time limit of the call.
const LIMIT: Duration = Duration::from_secs(10);

/// Slurm's expected starts, as last read.
#[derive(Debug, Default)]
pub(crate) struct ExpectedStarts {
    known: BTreeMap<JobId, Time>,
    asked: Option<Time>,
    answer: Option<Receiver<BTreeMap<JobId, Time>>>,
}

impl ExpectedStarts {
    /// Collects Slurm's answer, and starts another call if the last one was at least a minute ago. `root` is
    /// the state directory, which caches the answer.
    pub(crate) fn look(&mut self, root: &Path, now: Time) {
        if let Some(starts) = self.answer.as_ref().and_then(|answer| answer.try_recv().ok()) {
            self.known = starts;
            self.answer = None;
        }
        if self.asked.is_some_and(|asked| now.is_soon_after(asked, MINUTE)) {
            return;
        }
        let (sender, receiver) = mpsc::channel();
        let root = root.to_path_buf();
        let question = move || drop(sender.send(starts(&root)));
        // If no thread can be started, no newer starts are shown.
        let is_asked = thread::Builder::new().name("expected starts".into()).spawn(question).is_ok();
        (self.asked, self.answer) = (Some(now), is_asked.then_some(receiver));
    }

    /// Returns when Slurm expects a job to start.
    pub(crate) fn of(&self, job: JobId) -> Option<Time> {
        self.known.get(&job).copied()
    }
}

/// Returns the expected starts of the user's pending jobs; if Slurm does not answer, those of the last
/// answer.
fn starts(root: &Path) -> BTreeMap<JobId, Time> {
    let slurm = System::new(process_environment(), LIMIT);
    let question = SlurmQuery { name: "own-jobs", good_for: MINUTE };
    let answers = OutputCache::of(root);
    let answer = ask(question, &squeue::command(), &slurm, &SystemClock::default(), &answers);
    let jobs = squeue::parse(answer.text.as_deref().unwrap_or_default())
        .map_or_else(|_| Vec::new(), |(jobs, _)| jobs);
    let pending = jobs.into_iter().filter(|job| job.state.is_pending());
    pending.filter_map(|job| Some((job.id, Time(time::unix(job.start_time.as_deref()?)?)))).collect()
}
