//! `hsched submit --queue`: submits the requests that `hsched plan --queue` chooses for the earliest mean
//! completion.

use std::path::Path;
use std::time::Duration;

use crate::app::after::behind;
use crate::app::cluster_queue::ClusterQueue;
use crate::app::context::Context;
use crate::app::entries::{self, Entries};
use crate::app::planning::{self, PlanningArgs};
use crate::app::slurm::queue_look::{self, Freshness};
use crate::app::start_estimates::{self, OptionEstimate, SearchArgs};
use crate::app::through_queue;
use crate::commands::when::gpus;
use crate::settings::Feature;
use hsched_model::{ErrorId, Job, Time};
use hsched_queue::Start;
use hsched_ui::{Exit, Failure, duration, rough_duration, start_estimate};

/// Default reason of a job without a request.
const NOTHING: &str = "none of its requests can start on this cluster";

/// Default time of the search.
const USUAL_BUDGET: Duration = Duration::from_secs(20);

/// Options for requests that wait in the queue.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Queue")]
pub(super) struct ThroughArgs {
    /// Submit the requests that `hsched plan --queue` chooses: for each job the GPUs, account, partition and time
    /// limit that minimise the mean completion time, including the wait in the queue.
    #[arg(long, conflicts_with_all = ["capacity", "cluster", "from", "pin", "together", "pack"])]
    queue: bool,
    /// Queue up to N requests of each job. When one starts, hsched cancels the others. N above 1 implies --queue.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3),
          conflicts_with_all = ["capacity", "cluster", "from", "pin", "together", "pack"])]
    race: u8,
    #[command(flatten)]
    search: SearchArgs,
}

impl ThroughArgs {
    /// Returns whether jobs go through the queue.
    pub(super) fn is_wanted(&self) -> bool {
        self.queue || self.race > 1
    }

    /// Returns the flags for the choice of requests.
    pub(super) fn search(&self) -> SearchArgs {
        self.search
    }

    /// Refuses options that would have no effect.
    ///
    /// # Errors
    /// If an option for the choice of requests is given, but no requests are chosen.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.is_wanted() || !self.search.is_given() {
            return Ok(());
        }
        Err(start_estimates::without_queue("--cost-weight, --futures and --refresh"))
    }

    /// Returns the entries to submit for the jobs of a file at the indices `numbers`, and the time of the
    /// queue snapshot.
    ///
    /// # Errors
    /// If the file is invalid, the site forbids races, Slurm does not answer, or no job has a request that
    /// can start.
    pub(super) fn entries(
        &self,
        context: &Context,
        planning: &PlanningArgs,
        sbatch: &[String],
        text: &str,
        path: &Path,
        numbers: impl FnOnce(&[Job]) -> Result<Vec<usize>, Failure>,
    ) -> Result<(Entries, Time), Failure> {
        if self.race > 1 {
            context.refuse_forbidden(Feature::Race)?;
        }
        let input = planning::prepare(&planning.over_all_up(), context, text, path)?;
        let numbers = numbers(&input.jobs)?;
        let looked = queue_look::look_at_nodes_at_least(context, Freshness::of(self.search.refresh))?;
        let queue = ClusterQueue::live(context, looked).with_site(context);
        let asked = |&number: &usize| {
            let mut job = input.jobs[number].clone();
            job.launch.sbatch.extend_from_slice(sbatch);
            job
        };
        let asked: Vec<Job> = numbers.iter().map(asked).collect();
        let jobs: Vec<&Job> = asked.iter().collect();
        let stop = planning.stop(context, Some(USUAL_BUDGET));
        let seed = planning.policy.seed();
        let found =
            through_queue::choose(context, &planning.speeds, &jobs, &queue, self.search, seed, &stop)?;
        let wanted = usize::from(self.race);
        let requests = found.entries(wanted);
        let mut notes: Vec<String> = [&input.notes[..], &queue.snapshot.notes, &found.notes].concat();
        notes.extend(jobs.iter().zip(&requests).filter_map(|(job, estimates)| fewer(job, estimates, wanted)));
        let all_behind = jobs.iter().all(|job| behind(job).is_some());
        let chosen_for = |(estimates, nothing): (Vec<OptionEstimate>, &Option<String>)| {
            if estimates.is_empty() {
                Err(nothing.clone().unwrap_or_else(|| NOTHING.to_owned()))
            } else {
                Ok(estimates)
            }
        };
        let chosen = requests.into_iter().zip(&found.nothing).map(chosen_for);
        let chosen = numbers.iter().copied().zip(chosen).collect();
        let entries = entries::entries(input, chosen, &context.settings.jobs)?;
        notes.splice(0..0, queue.seen_earlier());
        notes.extend(queue.rests_on());
        notes.extend(
            entries
                .intents
                .iter()
                .zip(&entries.foretold)
                .map(|(intent, estimate)| told(&entries.planned.jobs[intent.job], estimate)),
        );
        for note in &notes {
            context.note(note);
        }
        if entries.intents.is_empty() && !all_behind {
            for &number in &numbers {
                let (job, verdict) =
                    (&entries.planned.jobs[number], &entries.planned.plan.verdicts()[number]);
                if let Some(why) = verdict.reason().filter(|_| behind(job).is_none()) {
                    context.note(&format!("{}: {why}", job.name));
                }
            }
            let failure = Failure::new(Exit::Unplaced, "no job has a request that can start on this cluster")
                .id(ErrorId::NoRequest);
            return Err(failure.hint("hsched when JOBS lists the requests"));
        }
        Ok((entries, queue.snapshot.taken_at))
    }
}

/// Returns the predictions for a request as one line.
fn told(job: &Job, estimate: &OptionEstimate) -> String {
    let asked = format!("{}: {} for {}", job.name, gpus(estimate), duration(estimate.option.request.limit));
    match (&estimate.start, estimate.done) {
        (Start::Estimated(_), Some(done)) => {
            let start = match start_estimate(&estimate.start) {
                now if now == "now" => now,
                later => format!("in {later}"),
            };
            let done = rough_duration(done.mean);
            format!("{asked}, starts {start}, done in {done} on average (estimated)")
        }
        _ => format!("{asked}, start unknown"),
    }
}

/// Returns a note if a job has at least one request, but fewer than wanted.
fn fewer(job: &Job, estimates: &[OptionEstimate], wanted: usize) -> Option<String> {
    let (name, found) = (&job.name, estimates.len());
    (0 < found && found < wanted)
        .then(|| format!("{name}: only {found} of {wanted} requests, because it can use no other GPUs"))
}
