//! Start estimates of one job's requests: snapshots, forecasts, and the choice of a request.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::app::after::behind;
use crate::app::cluster_queue::{self, ClusterQueue};
use crate::app::context::Context;
use crate::app::requests::requests;
use crate::app::slurm::queue_look::{self, Freshness};
use crate::app::speeds::SpeedArgs;
use hsched_model::formats;
use hsched_model::formats::ValueError;
use hsched_model::{
    Candidate, Choice, ErrorId, Job, Request, RequestId, RequestOption, Seconds, choose, worth_a_look,
};
use hsched_queue::{Estimate, PriorityEstimate, Question, Start, StartEstimate, forecast, jobs_in_words};
use hsched_ui::{Exit, Failure};

/// Options for the queue.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Queue")]
pub(crate) struct QueueViewArgs {
    /// Read a saved snapshot of the queue instead of asking Slurm. `hsched when` compares clusters if it gets one
    /// snapshot of each.
    #[arg(long, value_name = "FILE", conflicts_with = "refresh")]
    pub snapshot: Vec<PathBuf>,
    #[command(flatten)]
    pub search: SearchArgs,
}

/// Flags for the choice of a request.
#[derive(Clone, Copy, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Queue")]
pub(crate) struct SearchArgs {
    /// Value of one RGU-hour or billing-hour, in hours of completion time. With 0, hsched chooses the request that
    /// finishes first, or a cheaper one that finishes within 5 % or 10 min of it.
    #[arg(long, value_name = "HOURS", default_value_t = 0.0, value_parser = weight)]
    pub cost_weight: f64,
    /// Number of simulated futures of the queue, if the time of --budget allows [default: 60; 24 when jobs are
    /// planned together].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    futures: Option<u32>,
    /// Read Slurm's queue now, instead of using what was read up to a minute ago.
    #[arg(long)]
    pub refresh: bool,
}

impl SearchArgs {
    /// Returns the number of futures for a single job.
    pub(crate) fn futures_alone(&self) -> u32 {
        self.futures.unwrap_or(60)
    }

    /// Returns the number of futures for jobs that are planned together; each future then needs many
    /// simulations.
    pub(crate) fn futures_together(&self) -> u32 {
        self.futures.unwrap_or(24)
    }

    /// Returns whether any of these flags was given.
    pub(crate) fn is_given(&self) -> bool {
        self.cost_weight > 0.0 || self.futures.is_some() || self.refresh
    }
}

fn weight(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "must be a number".to_owned())?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("must be 0 or more".to_owned()) }
}

/// Returns the failure of flags that have no effect without `--queue`.
pub(crate) fn without_queue(flags: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{flags} only work with --queue"))
        .id(ErrorId::OptionNeeds)
        .hint("add --queue")
}

/// Parses the time of `--budget`.
pub(crate) fn duration(text: &str) -> Result<Duration, ValueError> {
    let time = formats::parse_duration(text)?;
    Duration::try_from_secs_f64(time.0)
        .map_err(|error| ValueError::new(error.to_string()).id(ErrorId::TimeFormat))
}

/// A request with its estimate.
#[derive(Clone)]
pub(crate) struct OptionEstimate {
    /// Index of the queue.
    pub queue: usize,
    pub option: RequestOption,
    pub start: Start,
    /// When the whole training would be done; `None` if its start is unknown.
    pub done: Option<Estimate>,
    pub priority: PriorityEstimate,
}

impl OptionEstimate {
    /// Returns the request's number among those of its job.
    pub(crate) fn id(&self) -> RequestId {
        self.option.request.id
    }

    /// Returns the request with this number.
    pub(crate) fn of(list: &[Self], id: RequestId) -> Option<&Self> {
        list.iter().find(|estimate| estimate.id() == id)
    }
}

impl QueueViewArgs {
    /// Returns whether any of these options was given.
    pub(crate) fn is_given(&self) -> bool {
        !self.snapshot.is_empty() || self.search.is_given()
    }

    /// Returns the queues for planning, Slurm's with the model learnt from looks.
    ///
    /// # Errors
    /// The errors of `queues`.
    pub(crate) fn learnt_queues(&self, context: &Context) -> Result<Vec<ClusterQueue>, Failure> {
        let queues = self.queues(context)?;
        if !self.snapshot.is_empty() {
            return Ok(queues);
        }
        Ok(queues.into_iter().map(|queue| queue.with_site(context)).collect())
    }

    /// Returns the queues for planning: those of the files, or else Slurm's.
    ///
    /// # Errors
    /// If a file is not a snapshot (exit 78), or Slurm does not answer (exit 69).
    pub(crate) fn queues(&self, context: &Context) -> Result<Vec<ClusterQueue>, Failure> {
        if self.snapshot.is_empty() {
            let looked = queue_look::look(context, Freshness::of(self.search.refresh))?;
            return Ok(vec![ClusterQueue::live(context, looked)]);
        }
        self.snapshot.iter().map(|path| cluster_queue::of_file(context, path)).collect()
    }
}

/// The possible requests of a job, before their starts are estimated.
#[derive(Debug)]
pub(crate) struct PossibleRequests {
    /// Requests by queue.
    requests: Vec<Vec<RequestOption>>,
    /// Why there are none in at least one of the queues.
    nothing: Option<String>,
    /// Notes on the job's speeds and on exclusions.
    pub notes: Vec<String>,
}

/// The estimates of a job's requests.
#[derive(Clone)]
pub(crate) struct JobEstimates {
    /// Estimates, ordered by the estimated ends of the requests.
    pub list: Vec<OptionEstimate>,
    /// Why there are none.
    pub nothing: Option<String>,
}

/// Returns the exit code: done if at least one job of a file got a request and no other job lacks one. Jobs
/// with predecessors need none yet.
pub(crate) fn exit<'a>(jobs: impl Iterator<Item = (&'a Job, bool)>) -> Exit {
    let (mut some, mut all) = (false, true);
    for (job, got) in jobs {
        some |= got;
        all &= got || behind(job).is_some();
    }
    if some && all { Exit::Done } else { Exit::Unplaced }
}

/// Returns the possible requests of a job in some queues. A job with predecessors has none yet.
///
/// # Errors
/// If the measured speeds cannot be read.
pub(crate) fn possible(
    context: &Context,
    speeds: &SpeedArgs,
    job: &Job,
    queues: &[ClusterQueue],
) -> Result<PossibleRequests, Failure> {
    let mut possible = PossibleRequests { requests: Vec::new(), nothing: behind(job), notes: Vec::new() };
    if possible.nothing.is_some() {
        return Ok(possible);
    }
    for queue in queues {
        let (mut options, none) = requests(context, speeds, job, &queue.snapshot, &mut possible.notes)?;
        possible.nothing = possible.nothing.or(none);
        let known: usize = possible.requests.iter().map(Vec::len).sum();
        for (number, option) in options.iter_mut().enumerate() {
            option.request.id = RequestId(u32::try_from(known + number).unwrap_or(u32::MAX));
        }
        possible.requests.push(options);
    }
    Ok(possible)
}

impl PossibleRequests {
    /// Removes the requests for which Slurm may preempt running jobs of the user. If a queue has no others,
    /// keeps them and adds a note.
    pub(crate) fn spare_own(&mut self, job: &Job) {
        for options in &mut self.requests {
            RequestOption::spare_own(options);
        }
        let stopped: BTreeSet<String> =
            self.requests.iter().flatten().flat_map(|option| option.preempts.clone()).collect();
        if !stopped.is_empty() {
            let jobs = jobs_in_words(&stopped.into_iter().collect::<Vec<_>>());
            let note =
                format!("{}: Slurm may stop (preempt) your running {jobs} for any of its requests", job.name);
            self.notes.push(note);
        }
    }

    /// Returns the first entry with the same requests as the job at this index, for which the estimates are
    /// identical.
    pub(crate) fn first_alike(list: &[Self], number: usize) -> usize {
        let possible = &list[number];
        let alike =
            |other: &Self| (&other.requests, &other.nothing) == (&possible.requests, &possible.nothing);
        list[..number].iter().position(alike).unwrap_or(number)
    }
}

/// Returns the estimates of a job's requests, each as if it were the only one in its queue.
pub(crate) fn estimate_starts(
    possible: &PossibleRequests,
    queues: &[ClusterQueue],
    seed: u64,
    futures: u32,
    stop: &(dyn Fn() -> bool + Sync),
) -> JobEstimates {
    let mut list = Vec::new();
    for ((number, queue), options) in queues.iter().enumerate().zip(&possible.requests) {
        let asked: Vec<Request> = options.iter().map(|option| option.request.clone()).collect();
        let samples = usize::try_from(futures).unwrap_or(usize::MAX);
        let calibration = queue.calibration();
        let question = Question { snapshot: &queue.snapshot, requests: &asked, seed, samples, calibration };
        let mut estimates = forecast(&question, stop);
        if let Some(site) = &queue.site {
            site.correct(&queue.snapshot, &asked, &mut estimates);
        }
        for option in options {
            let Some(start) = StartEstimate::of(&estimates, option.request.id).cloned() else { continue };
            let priority = queue.snapshot.priority_of(&option.request);
            let done = done(option, &start);
            list.push(OptionEstimate { queue: number, option: option.clone(), start, done, priority });
        }
    }
    let finish = |estimate: &OptionEstimate| estimate.done.map_or(f64::INFINITY, |done| done.mean.0);
    // If no start can be estimated, requests are sorted by run time.
    let is_never = |estimate: &OptionEstimate| estimate.start.is_never();
    list.sort_by(|a, b| {
        let soonest = is_never(a).cmp(&is_never(b)).then(finish(a).total_cmp(&finish(b)));
        soonest.then(a.option.run.0.total_cmp(&b.option.run.0))
    });
    let nothing = possible.nothing.clone().filter(|_| list.is_empty());
    JobEstimates { list, nothing }
}

/// Returns when the whole training would be done. Each piece waits as long as the first, partly while the
/// previous piece runs.
pub(crate) fn done(option: &RequestOption, start: &Start) -> Option<Estimate> {
    let forecast = start.forecast()?;
    let whole = |start: Seconds| Seconds(option.waits(start).0 + option.run.0);
    let Estimate { low, median, high, mean } = forecast.start;
    Some(Estimate { low: whole(low), median: whole(median), high: whole(high), mean: whole(mean) })
}

/// Returns the chosen request; `cost_weight` is the value of a unit of cost in hours.
pub(crate) fn best(list: &[OptionEstimate], cost_weight: f64) -> Option<Choice> {
    choose(&candidates(list), cost_weight)
}

/// Returns the requests that are not dominated in time and cost, and the chosen one.
pub(crate) fn without_beaten(
    list: &[OptionEstimate],
    chosen: Option<&OptionEstimate>,
) -> Vec<OptionEstimate> {
    let best = worth_showing(list);
    let is_chosen =
        |option_estimate: &OptionEstimate| chosen.is_some_and(|chosen| chosen.id() == option_estimate.id());
    let kept = list
        .iter()
        .filter(|option_estimate| best.contains(&option_estimate.id()) || is_chosen(option_estimate));
    kept.cloned().collect()
}

/// Returns the requests that are not dominated in time and cost.
pub(crate) fn worth_showing(list: &[OptionEstimate]) -> Vec<RequestId> {
    worth_a_look(&candidates(list))
}

/// Returns the candidates: the requests with a known start.
fn candidates(list: &[OptionEstimate]) -> Vec<Candidate> {
    let start = |option_estimate: &OptionEstimate| {
        option_estimate.start.forecast().map(|forecast| forecast.start.mean)
    };
    Candidate::of(
        &list
            .iter()
            .map(|option_estimate| (&option_estimate.option, start(option_estimate)))
            .collect::<Vec<_>>(),
    )
}
