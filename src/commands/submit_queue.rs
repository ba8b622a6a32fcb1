//! `hsched submit --queue`: the requests that are done soonest on average, chosen as `hsched plan --queue` chooses them.

use std::path::Path;
use std::time::Duration;

use crate::app::after::behind;
use crate::app::context::Context;
use crate::app::entries::{self, Entries};
use crate::app::foretelling::{self, Foretold, Queue, SearchArgs};
use crate::app::planning::{self, PlanningArgs};
use crate::app::{queue_look, through_queue};
use crate::commands::when::gpus;
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{Job, Time};
use crate::queue::{Estimate, Outlook};
use crate::settings::Feature;
use crate::ui::duration;

/// How long the search takes unless told otherwise.
const USUAL_BUDGET: Duration = Duration::from_secs(20);

/// What can be said about requests that wait in the queue.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Queue")]
pub(super) struct ThroughArgs {
    /// Submit what `hsched plan --queue` chooses: for each job the GPUs, account, partition and time limit with which all are
    /// done soonest on average, wait in the queue and run together.
    #[arg(long, conflicts_with_all = ["capacity", "cluster", "from", "pin", "together"])]
    queue: bool,
    /// Queue so many of these requests of each job: the first to start trains, the others leave the queue or end at once. More than 1
    /// implies --queue.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3),
          conflicts_with_all = ["capacity", "cluster", "from", "pin", "together"])]
    race: u8,
    #[command(flatten)]
    search: SearchArgs,
}

impl ThroughArgs {
    /// Returns whether jobs are to go through the queue.
    pub(super) fn is_wanted(&self) -> bool {
        self.queue || self.race > 1
    }

    /// Refuses what would do nothing.
    ///
    /// # Errors
    /// When something is said of the choice of requests, and none is to be made.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.is_wanted() || !self.search.is_given() {
            return Ok(());
        }
        Err(foretelling::without_queue("--cost-weight and --futures"))
    }

    /// Returns what is to be submitted for the jobs of a file that `numbers` picks, and when the queue was looked at.
    ///
    /// # Errors
    /// When the file is wrong, or Slurm does not answer.
    pub(super) fn entries(
        &self,
        context: &Context,
        planning: &PlanningArgs,
        (text, path): (&str, &Path),
        numbers: impl FnOnce(&[Job]) -> Result<Vec<usize>, Failure>,
    ) -> Result<(Entries, Time), Failure> {
        if self.race > 1 {
            context.refuse_forbidden(Feature::Race)?;
        }
        let desk = planning::prepare(&planning.over_all_up(), context, text, path)?;
        let numbers = numbers(&desk.jobs)?;
        let looked = queue_look::look_at_nodes_at_least(context)?;
        let queue = Queue::live(context, looked);
        let jobs: Vec<&Job> = numbers.iter().map(|&number| &desk.jobs[number]).collect();
        let stop = planning.stop(context, Some(USUAL_BUDGET));
        let search = (self.search, planning.policy.seed());
        let found = through_queue::choose((context, &planning.speeds), &jobs, &queue, search, &stop)?;
        let wanted = usize::from(self.race);
        let requests = found.entries(wanted);
        let mut notes: Vec<String> = [&desk.notes[..], &queue.snapshot.notes, &found.notes].concat();
        let each = jobs.iter().zip(requests.iter().zip(&found.nothing));
        notes.extend(each.filter_map(|(job, (own, nothing))| fewer(job, own, nothing.as_deref(), wanted)));
        let all_behind = jobs.iter().all(|job| behind(job).is_some());
        let chosen = numbers.into_iter().zip(requests).collect();
        let entries = entries::entries(desk, chosen, &context.settings.jobs, &mut notes)?;
        notes.extend(queue.corrected());
        notes.extend(
            entries
                .intents
                .iter()
                .zip(&entries.foretold)
                .map(|(intent, own)| told(&entries.planned.jobs[intent.job], own)),
        );
        for note in &notes {
            context.note(note);
        }
        if entries.intents.is_empty() && !all_behind {
            let failure = Failure::new(Exit::Unplaced, "no job has a request that could ever start");
            return Err(failure.hint("hsched when JOBS shows the requests that were looked at"));
        }
        Ok((entries, queue.snapshot.taken_at))
    }
}

/// Returns what is foretold of a request, in a line.
fn told(job: &Job, own: &Foretold) -> String {
    let asked = format!("{}: {} for {}", job.name, gpus(own), duration(own.own.request.limit));
    match (&own.outlook, own.done) {
        (Outlook::Estimated(forecast), Some(done)) => {
            let Estimate { low, median, high, .. } = forecast.start;
            let start = if high.0 < 60.0 {
                "now".to_owned()
            } else {
                let [low, median, high] = [low, median, high].map(duration);
                format!("in {median} ({low} to {high})")
            };
            let done = duration(done.mean);
            format!("{asked}, starts {start}, done in {done} on average (estimated)")
        }
        _ => format!("{asked}, nobody can tell when it starts"),
    }
}

/// Returns that a job has fewer requests than wanted, if so. That it comes after others is said when it is not submitted.
fn fewer(job: &Job, own: &[Foretold], nothing: Option<&str>, wanted: usize) -> Option<String> {
    let (name, found) = (&job.name, own.len());
    match found {
        0 if behind(job).is_some() => None,
        0 => Some(format!("{name}: {}", nothing.unwrap_or("no request of it could ever start here"))),
        _ if found < wanted => {
            Some(format!("{name}: {found} of {wanted} requests, for there are no other GPUs for it"))
        }
        _ => None,
    }
}
