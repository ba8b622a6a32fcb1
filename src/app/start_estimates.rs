//! Start estimates of one job's requests: snapshots, forecasts, and the choice of a request.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::app::after::behind;
use crate::app::context::Context;
use crate::app::input;
use crate::app::predictions::{self, PastPredictions};
use crate::app::requests::requests;
use crate::app::site_waits::{self, SiteWaits};
use crate::app::slurm::queue_look::{self, AgedSnapshot, Freshness};
use crate::app::speeds::SpeedArgs;
use crate::app::state;
use hsched_model::formats;
use hsched_model::formats::ValueError;
use hsched_model::{
    Candidate, Choice, ErrorId, Job, Request, RequestId, RequestOption, Seconds, choose, worth_a_look,
};
use hsched_queue::{
    Calibration, Estimate, Growth, GrowthSource, PriorityEstimate, Question, Snapshot, Start, StartEstimate,
    forecast, jobs_in_words,
};
use hsched_ui::{Exit, Failure, Terminal};

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
    /// Returns the default choice.
    pub(crate) fn usual() -> Self {
        Self { cost_weight: 0.0, futures: None, refresh: false }
    }

    /// Returns the number of futures for a single job.
    pub(crate) fn futures_alone(&self) -> u32 {
        self.futures.unwrap_or(60)
    }

    /// Returns the number of futures for jobs that are planned together; each of them needs many simulations.
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

/// A queue and its source.
pub(crate) struct ClusterQueue {
    /// The cluster's name, or else the file's.
    pub name: String,
    pub snapshot: Snapshot,
    pub age: Seconds,
    /// Calibration from past predictions for this cluster.
    pub learnt: Option<PastPredictions>,
    /// The model of the cluster's waits, learnt from looks.
    pub site: Option<SiteWaits>,
    /// Whether the queue was read from Slurm, so that `--refresh` can read it again.
    is_live: bool,
}

impl ClusterQueue {
    /// Returns Slurm's queue as it was read.
    pub(crate) fn live(context: &Context, looked: AgedSnapshot) -> Self {
        let name = looked.snapshot.cluster.clone().unwrap_or_else(|| "this cluster".to_owned());
        Self {
            name,
            snapshot: looked.snapshot,
            age: looked.age,
            learnt: predictions::learnt(context),
            site: None,
            is_live: true,
        }
    }

    /// Returns the queue as it is now, if this look is too old for the conclusion that a job starts at once;
    /// `None` if it is not, or if Slurm does not show a newer one.
    ///
    /// # Errors
    /// If Slurm's answer cannot be read.
    pub(crate) fn newer(&self, context: &Context) -> Result<Option<Self>, Failure> {
        if !self.is_live || self.age < queue_look::FRESH {
            return Ok(None);
        }
        let queue = Self::live(context, queue_look::look(context, Freshness::Seconds)?);
        Ok((queue.age < self.age).then(|| queue.with_site(context)))
    }

    /// Returns the queue with the model learnt from looks.
    pub(crate) fn with_site(self, context: &Context) -> Self {
        Self { site: site_waits::learnt(context), ..self }
    }

    /// Returns when the queue was read, for the first line of an answer, if its age matters.
    pub(crate) fn seen_earlier(&self) -> Option<String> {
        self.is_old().then(|| self.seen())
    }

    /// Returns this first line, or an empty text.
    pub(crate) fn first_line(&self, terminal: Terminal) -> String {
        let line = |seen: String| hsched_ui::wrap(&seen, terminal.width(), "  ") + "\n";
        self.seen_earlier().map_or_else(String::new, line)
    }

    /// Returns when the queue was read, for a note, if its age does not matter.
    pub(crate) fn seen_now(&self) -> Option<String> {
        (!self.is_old()).then(|| self.seen())
    }

    /// Returns when the queue was read, in words; for an older look, also how to read it again.
    fn seen(&self) -> String {
        let age = match self.age.0 {
            seconds if seconds < 600.0 => format!("{seconds:.0} s"),
            _ => hsched_ui::duration(self.age),
        };
        // A look is older than this only if Slurm is slow or does not answer, which a note reports.
        let can_be_read = self.is_old() && self.age < queue_look::MINUTE;
        let again = if can_be_read { "; --refresh reads it again" } else { "" };
        format!("{}: queue seen {age} ago{again}", self.name)
    }

    /// Returns whether the queue was read so long ago that its age matters.
    fn is_old(&self) -> bool {
        self.is_live && self.age >= queue_look::WORTH_SAYING
    }

    /// Returns a note on the assumed growth of pending jobs' priorities, if it was not measured directly.
    pub(crate) fn growth(&self) -> Option<String> {
        if !self.snapshot.jobs.iter().any(|job| job.running.is_none() && !job.ours) {
            return None;
        }
        let Growth { per_hour, source, by_weights } = self.snapshot.growth();
        let known = match (source, by_weights) {
            (GrowthSource::Looks, _) | (GrowthSource::Ages, None) => return None,
            (GrowthSource::Ages, Some(weights)) => format!(
                "priorities grow by {per_hour:.0} an hour by the ages of pending jobs, but by {weights:.0} by PriorityWeightAge"
            ),
            (GrowthSource::Weights, _) => {
                format!("priorities grow by {per_hour:.0} an hour by PriorityWeightAge")
            }
            (GrowthSource::Unknown, _) => "how priorities grow is unknown".to_owned(),
        };
        Some(format!("{}: {known}: look again in 15 min", self.name))
    }

    /// Returns a note on each limit that delays the user's jobs, with how much of it the user and others use.
    pub(crate) fn reached_limits(&self) -> impl Iterator<Item = String> {
        let name = &self.name;
        self.snapshot.reached_limits().into_iter().map(move |limit| format!("{name}: {limit}"))
    }

    /// Returns the calibration of the estimates' intervals.
    pub(crate) fn calibration(&self) -> Option<Calibration> {
        self.learnt.map(|(calibration, _)| calibration)
    }

    /// Returns whether estimates of requests are learnt.
    pub(crate) fn is_learnt(&self) -> bool {
        self.site.as_ref().is_some_and(|site| site.basis(&self.snapshot).is_some())
    }

    /// Returns a note on the basis of the estimates: what they were learnt from, or that past starts
    /// calibrate their intervals.
    pub(crate) fn rests_on(&self) -> Option<String> {
        let learnt = self.site.as_ref().and_then(|site| site.basis(&self.snapshot));
        let learnt = learnt
            .map(|basis| format!("{}: start estimates are {basis} ({} starts)", self.name, basis.starts));
        learnt.or_else(|| self.corrected())
    }

    /// Returns a note that past starts calibrate its intervals, if they do.
    pub(crate) fn corrected(&self) -> Option<String> {
        let (_, count) = self.learnt?;
        Some(format!(
            "the intervals are calibrated with {count} past starts; hsched when --score shows \
            the accuracy"
        ))
    }
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
        self.snapshot.iter().map(|path| of_file(context, path)).collect()
    }
}

/// Returns the queue of a saved snapshot.
///
/// # Errors
/// If the file is not a snapshot (exit 78).
pub(crate) fn of_file(context: &Context, path: &Path) -> Result<ClusterQueue, Failure> {
    let text = input::text(path)?;
    let snapshot = Snapshot::parse(&text).map_err(|error| {
        let message = format!("{}: {error}", input::name(path));
        Failure::new(Exit::BadInput, message)
            .id(ErrorId::SnapshotFile)
            .hint("hsched when --save FILE saves a snapshot")
    })?;
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let name = snapshot.cluster.clone().unwrap_or(stem);
    let age = state::now(context).since(snapshot.taken_at);
    // Predictions for this cluster do not apply to another one.
    Ok(ClusterQueue { name, snapshot, age, learnt: None, site: None, is_live: false })
}

/// The possible requests of a job, before their starts are estimated.
#[derive(Debug)]
pub(crate) struct PossibleRequests {
    /// Requests by queue.
    requests: Vec<Vec<RequestOption>>,
    /// Why there are none.
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
    /// Removes the requests for which Slurm may preempt running jobs of the user; if all are such, notes it.
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
