//! Remedies for a pending job: each is simulated in the same futures as the unchanged job.

use std::cmp::Ordering;

use crate::why::worth::worthwhile;
use crate::why::{Remedy, StateKind, is_component};
use crate::{
    Calibration, Change, ChangeQuestion, ChangeSet, LimitReason, PastRuns, PendingJob, Question, QueueJob,
    QueuePosition, Reason, Request, RequestId, Snapshot, Start, StartEstimate, WaitExplanation,
    estimate_changes, forecast_at,
};
use hsched_model::Seconds;

/// A remedy, and the job's start with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    pub remedy: Remedy,
    /// The job's request with the remedy.
    pub request: Request,
    pub start: Start,
    /// Difference of the medians; `None` if the start without changes is unknown.
    pub sooner: Option<Seconds>,
}

/// The start of a pending job, and the remedies that make it start sooner.
#[derive(Clone, Debug, PartialEq)]
pub struct StartAdvice {
    /// `None` if there is no estimate, as for a held job.
    pub as_is: Option<Start>,
    pub advice: Vec<Advice>,
    /// Whether remedies are wanted and the job can be changed: it is the user's own, and not a component of a
    /// heterogeneous job.
    pub is_looked_for: bool,
}

/// Parameters of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Futures {
    pub seed: u64,
    pub samples: usize,
    pub calibration: Option<Calibration>,
}

/// Maximum number of futures in which each remedy is simulated.
const FEW: usize = 24;

/// Maximum number of remedies listed.
const MOST: usize = 8;

/// A start in less than this many seconds counts as immediate.
const NOW: f64 = 60.0;

impl StartAdvice {
    /// Returns whether the unchanged job starts immediately, even at the upper end of the estimate's
    /// interval.
    pub fn is_now(&self) -> bool {
        self.as_is.as_ref().and_then(Start::forecast).is_some_and(|forecast| forecast.start.high.0 < NOW)
    }

    /// Returns when a pending job starts without changes and, with `advised`, the remedies that make it start
    /// sooner.
    ///
    /// `past` are the past runs with the job's name. `stops` return whether time has run out: for the
    /// unchanged job, and for all.
    pub fn of(
        pending: &PendingJob,
        explanation: &WaitExplanation,
        past: &PastRuns,
        futures: Futures,
        advised: bool,
        stops: [&(dyn Fn() -> bool + Sync); 2],
    ) -> Self {
        let [first, stop] = stops;
        let adviser = Adviser {
            pending,
            explanation,
            past,
            futures,
            stop,
            reason: Reason::read(explanation.reason.as_deref().unwrap_or_default()),
        };
        let as_is = adviser.as_is(first);
        let is_looked_for = advised && pending.job.ours && !is_component(&pending.job.id);
        if !is_looked_for || pending.rest.others_hidden && as_is.is_none() {
            return Self { as_is, advice: Vec::new(), is_looked_for };
        }
        let mut advice = adviser.remedies(as_is.as_ref());
        advice.extend(adviser.changes());
        let before = as_is.as_ref().and_then(Start::forecast).map(|forecast| forecast.start.median);
        for item in &mut advice {
            let after = item.start.forecast().map(|forecast| forecast.start.median);
            item.sooner = before.zip(after).map(|(before, after)| Seconds(before.0 - after.0));
        }
        advice.retain(|advice| !advice.start.is_never() && adviser.is_let_in(advice));
        let as_it_is = as_is.as_ref().and_then(Start::forecast);
        let mut advice = worthwhile(advice, as_it_is);
        advice.sort_by(compare);
        advice.truncate(MOST);
        // As in `hsched when`, changes without drawbacks come first, and changes that end other jobs last. Each
        // group is in the order of the starts that are shown.
        let shown =
            |advice: &Advice| advice.start.forecast().map_or(f64::INFINITY, |start| start.start.median.0);
        advice.sort_by(|one, other| one.cost().cmp(&other.cost()).then(shown(one).total_cmp(&shown(other))));
        Self { as_is, advice, is_looked_for }
    }
}

/// Compares remedies: the earliest start first, then the lowest cost, then the longest time for the job.
fn compare(one: &Advice, other: &Advice) -> Ordering {
    let minutes = |advice: &Advice| {
        advice.start.forecast().map_or(f64::INFINITY, |forecast| (forecast.start.mean.0 / 60.0).floor())
    };
    let by_start = minutes(one).total_cmp(&minutes(other)).then(one.cost().cmp(&other.cost()));
    by_start.then(other.request.limit.0.total_cmp(&one.request.limit.0))
}

/// A pending job for which remedies are sought.
pub(super) struct Adviser<'a> {
    pub(super) pending: &'a PendingJob,
    pub(super) explanation: &'a WaitExplanation,
    pub(super) past: &'a PastRuns,
    futures: Futures,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    pub(super) reason: Reason,
}

impl Adviser<'_> {
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.pending.rest
    }

    /// Returns the start of the unchanged job; `None` if the model has no estimate.
    fn as_is(&self, stop: &(dyn Fn() -> bool + Sync)) -> Option<Start> {
        let is_known = match self.explanation.kind {
            StateKind::Waits => match self.reason.name.as_str() {
                "" | "None" | "Priority" | "Resources" | "ReqNodeNotAvail" => true,
                "BeginTime" => self.pending.job.begin.is_some(),
                "Reservation" => self.has_reservation(),
                _ => {
                    // The futures do not simulate the end of limits without numbers, of limits on past use
                    // and of limits on submitted jobs.
                    let is_simulated =
                        |limit: LimitReason| !limit.is_on_past_use() && !limit.is_on_submission();
                    self.explanation.limit.is_some() && self.reason.limit.is_some_and(is_simulated)
                }
            },
            _ => false,
        };
        is_known.then(|| {
            let request = self.pending.request(RequestId(0));
            let starts =
                Self::played(self.snapshot(), vec![request], self.pending.position(), self.futures, stop);
            starts.into_iter().next().unwrap_or(Start::Never)
        })
    }

    /// Returns whether a partition accepts the job with a remedy, and the remedy changes what the job's
    /// reason refers to.
    fn is_let_in(&self, advice: &Advice) -> bool {
        let (Remedy::InPlace(set) | Remedy::NewJob(set)) = &advice.remedy else { return true };
        let request = &advice.request;
        let partitions: Vec<String> =
            request.partition.iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
        let changed = QueueJob {
            asks: request.asks.clone(),
            account: request.account.clone(),
            qos: request.further.qos.clone(),
            limit_s: Some(request.limit),
            ..self.pending.job.clone()
        };
        let is_open = |name: &String| self.snapshot().breaches(&changed, name).is_empty();
        let is_taken = partitions.is_empty() || partitions.iter().any(is_open);
        is_taken && set.changes.iter().any(|change| self.is_about(change))
    }

    /// Returns whether a change affects the subject of the reason.
    fn is_about(&self, change: &Change) -> bool {
        use Change::{Account, Cpus, GpuType, Gpus, Limit, Memory, Partition, Qos};
        let is_of_size = matches!(change, GpuType(_) | Gpus { .. } | Cpus(_) | Memory(_));
        let is_elsewhere = matches!(change, Partition(_) | Account(_) | Qos(_));
        match (self.reason.name.as_str(), self.reason.limit.map(|limit| limit.limit)) {
            ("PartitionDown" | "PartitionInactive", _) => matches!(change, Partition(_)),
            ("InvalidAccount" | "AccountNotAllowed", _) => matches!(change, Account(_) | Partition(_)),
            ("InvalidQOS" | "QOSNotAllowed", _) => matches!(change, Qos(_) | Partition(_)),
            ("PartitionTimeLimit", _) | (_, Some("MaxWall")) => is_elsewhere || matches!(change, Limit(_)),
            ("BadConstraints" | "PartitionNodeLimit", _)
            | (_, Some("MaxTRES" | "MaxTRESPerNode" | "MinTRES")) => is_elsewhere || is_of_size,
            _ => true,
        }
    }

    fn has_reservation(&self) -> bool {
        let name = self.pending.job.reservation.as_ref();
        self.snapshot().reservations.iter().any(|known| Some(&known.name) == name)
    }

    /// Simulates requests at a position, each alone.
    fn played(
        snapshot: &Snapshot,
        mut requests: Vec<Request>,
        position: QueuePosition,
        Futures { seed, samples, calibration }: Futures,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Start> {
        (0..).zip(&mut requests).for_each(|(number, request)| request.id = RequestId(number));
        let positions: Vec<(RequestId, QueuePosition)> =
            requests.iter().map(|request| (request.id, position)).collect();
        let question = Question { snapshot, requests: &requests, seed, samples, calibration };
        let estimates = forecast_at(&question, &positions, stop);
        let start =
            |request: &Request| StartEstimate::of(&estimates, request.id).cloned().unwrap_or(Start::Never);
        requests.iter().map(start).collect()
    }

    /// Returns the futures for remedies: fewer than for the unchanged job, which needs an interval.
    fn few(&self) -> Futures {
        Futures { samples: self.futures.samples.min(FEW), ..self.futures }
    }

    /// Returns the job's position once it competes; a held job has no priority itself.
    fn competing(&self) -> QueuePosition {
        let position = self.pending.position();
        if position.priority > 0.0 {
            return position;
        }
        let estimate = self.snapshot().priority_of(&self.pending.request(RequestId(0)));
        QueuePosition { priority: estimate.priority, ..position }
    }

    /// Returns the remedies for the job's reason and limit, time limits short enough for the job to start
    /// before others, and remedies that end other jobs.
    fn remedies(&self, as_is: Option<&Start>) -> Vec<Advice> {
        let request = self.pending.request(RequestId(0));
        let mut tried: Vec<(Remedy, Request)> = Vec::new();
        let free = Request {
            further: hsched_model::FurtherOptions { begin: None, ..request.further.clone() },
            ..request.clone()
        };
        match self.reason.name.as_str() {
            "JobHeldUser" | "JobHoldMaxRequeue" | "LaunchFailedHeld" | "RequeuedHeld" => {
                tried.push((Remedy::Release, free));
            }
            "BeginTime" => tried.push((Remedy::StartNow, free)),
            "Dependency" | "DependencyNeverSatisfied" => tried.push((Remedy::NoDependency, free)),
            "Reservation" | "ReservationDeleted" | "ReservationInvalid" => {
                let further = hsched_model::FurtherOptions { reservation: None, ..request.further.clone() };
                tried.push((Remedy::NoReservation, Request { further, ..request.clone() }));
            }
            "JobArrayTaskLimit" => {
                let more = self.pending.job.at_once.unwrap_or(1).saturating_add(1);
                tried.push((Remedy::Throttle(more), free));
            }
            _ => {}
        }
        if let Some(set) = self.explanation.limit.as_ref().and_then(|limit| self.within(limit, &request)) {
            let changed = set.applied(&request);
            let is_new = set.changes.iter().any(is_for_a_new_job);
            tried.push((if is_new { Remedy::NewJob(set) } else { Remedy::InPlace(set) }, changed));
        }
        for change in self.elsewhere().into_iter().chain(self.holes(&request).into_iter().map(Change::Limit))
        {
            let set = ChangeSet { drawbacks: self.drawbacks(&change, &request), changes: vec![change] };
            tried.push((Remedy::InPlace(set.clone()), set.applied(&request)));
        }
        tried.retain(|(_, changed)| self.past.allow(&request, changed));
        let requests: Vec<Request> = tried.iter().map(|(_, request)| request.clone()).collect();
        let starts = Self::played(self.snapshot(), requests, self.competing(), self.few(), self.stop);
        let remedies =
            tried.into_iter().zip(starts).map(|((remedy, request), start)| (remedy, request, start));
        let others = if as_is.is_some() { self.others() } else { Vec::new() };
        let cancelled = others.into_iter().map(|job| {
            let mut snapshot = self.snapshot().clone();
            snapshot.jobs.retain(|other| other.id != job.id);
            let request = self.pending.request(RequestId(0));
            let starts =
                Self::played(&snapshot, vec![request], self.pending.position(), self.few(), self.stop);
            let start = starts.into_iter().next().unwrap_or(Start::Never);
            let remedy = Remedy::Cancel {
                id: job.id.clone(),
                asks: job.asks.clone(),
                is_running: job.running.is_some(),
            };
            (remedy, self.pending.request(RequestId(0)), start)
        });
        let known = remedies.chain(cancelled).filter(|(_, _, start)| start.forecast().is_some());
        known.map(|(remedy, request, start)| Advice { remedy, request, start, sooner: None }).collect()
    }

    /// Returns the changes of the job itself, in place and as a new job.
    fn changes(&self) -> Vec<Advice> {
        let is_tried =
            matches!(self.explanation.kind, StateKind::Waits | StateKind::Never) && self.pending.job.ours;
        let lifts = self.reason.limit.is_some()
            || matches!(
                self.reason.name.as_str(),
                "" | "None"
                    | "Priority"
                    | "Resources"
                    | "ReqNodeNotAvail"
                    | "PartitionDown"
                    | "PartitionInactive"
                    | "PartitionTimeLimit"
                    | "PartitionNodeLimit"
                    | "PartitionConfig"
                    | "QOSNotAllowed"
                    | "AccountNotAllowed"
                    | "InvalidAccount"
                    | "InvalidQOS"
                    | "BadConstraints"
                    | "Constraints"
            );
        if !is_tried || !lifts {
            return Vec::new();
        }
        let request = self.pending.request(RequestId(0));
        let in_place = |changes: &[Change]| !changes.iter().any(is_for_a_new_job);
        let anew = |changes: &[Change]| {
            changes.iter().any(is_for_a_new_job)
                && !changes.iter().any(|change| matches!(change, Change::Cpus(_)))
        };
        let keeps = |changes: &[Change]| {
            let set = ChangeSet { changes: changes.to_vec(), drawbacks: Vec::new() };
            let position = self.pending.position_after(&set.applied(&request))?;
            Some(if position.priority > 0.0 { position } else { self.competing() })
        };
        let loses = |changes: &[Change]| changes.is_empty().then(|| self.pending.position());
        let mut list = self.estimated(&request, &in_place, &keeps, true);
        list.extend(self.estimated(&request, &anew, &loses, false));
        list
    }

    fn estimated(
        &self,
        request: &Request,
        is_possible: &dyn Fn(&[Change]) -> bool,
        position: &dyn Fn(&[Change]) -> Option<QueuePosition>,
        is_in_place: bool,
    ) -> Vec<Advice> {
        let Futures { seed, samples, calibration } = self.few();
        let question = ChangeQuestion {
            snapshot: self.snapshot(),
            request,
            past: self.past,
            run_of: &|request| self.past.usual_run(request),
            is_possible,
            position,
            seed,
            samples,
            calibration,
        };
        let found = estimate_changes(&question, self.stop).list;
        let advice = |estimate: crate::ChangeEstimate| Advice {
            remedy: if is_in_place { Remedy::InPlace(estimate.set) } else { Remedy::NewJob(estimate.set) },
            request: estimate.request,
            start: estimate.start,
            sooner: None,
        };
        found.into_iter().map(advice).collect()
    }
}

/// Returns whether a pending job cannot be changed in this way, because other options depend on its CPUs and
/// on the number and type of its GPUs.
fn is_for_a_new_job(change: &Change) -> bool {
    matches!(change, Change::GpuType(_) | Change::Gpus { .. } | Change::Cpus(_))
}
