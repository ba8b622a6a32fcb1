//! A cluster's queue as a command sees it: a look at Slurm's queue or a saved snapshot, its age, and what is
//! known about its estimates.

use std::path::Path;

use crate::app::context::Context;
use crate::app::input;
use crate::app::predictions::{self, PastPredictions};
use crate::app::site_waits::{self, SiteWaits};
use crate::app::slurm::queue_look::{self, AgedSnapshot, Freshness};
use crate::app::state;
use hsched_model::{ErrorId, Seconds};
use hsched_queue::{Calibration, Growth, GrowthSource, Snapshot};
use hsched_ui::{Exit, Failure, Terminal};

/// A queue and its source.
pub(crate) struct ClusterQueue {
    /// The cluster's name or, if it is unknown, the file's or `this cluster`.
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
    /// `None` if it is not, if it was not read from Slurm, or if Slurm does not show a newer one.
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

    /// Returns the source of a note: `cluster NAME` or, if the cluster's name is unknown, `self.name`.
    pub(crate) fn label(&self) -> String {
        self.snapshot.cluster.as_ref().map_or_else(|| self.name.clone(), |name| format!("cluster {name}"))
    }

    /// Returns when the queue was read, for the first line of an answer, if its age matters.
    pub(crate) fn seen_earlier(&self) -> Option<String> {
        self.is_old().then(|| self.seen())
    }

    /// Returns [`Self::seen_earlier`] as a line wrapped for a terminal, or an empty text.
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
        format!("{}: queue seen {age} ago{again}", self.label())
    }

    /// Returns whether the queue was read from Slurm so long ago that its age matters.
    fn is_old(&self) -> bool {
        self.is_live && self.age >= queue_look::WORTH_SAYING
    }

    /// Returns a note on the growth of pending jobs' priorities, if jobs of others are pending and the growth
    /// is unknown, is taken from the configuration (unless it is 0) or, by the jobs' ages, contradicts it.
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
            // Without growth, another look shows no other order.
            (GrowthSource::Weights, _) if per_hour < 0.5 => return None,
            (GrowthSource::Weights, _) => {
                format!("priorities grow by {per_hour:.0} an hour by PriorityWeightAge")
            }
            (GrowthSource::Unknown, _) => "how priorities grow is unknown".to_owned(),
        };
        Some(format!("{}: {known}: look again in 15 min", self.label()))
    }

    /// Returns a note on each limit that delays the user's jobs, with how much of it the user and others use.
    pub(crate) fn reached_limits(&self) -> impl Iterator<Item = String> {
        let label = self.label();
        self.snapshot.reached_limits().into_iter().map(move |limit| format!("{label}: {limit}"))
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
            .map(|basis| format!("{}: start estimates are {basis} ({} starts)", self.label(), basis.starts));
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

/// Returns the queue of a saved snapshot.
///
/// # Errors
/// If the file cannot be read or is not a snapshot (exit 78).
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
