//! The possible requests of jobs and their start estimates for `watch --queue`, each with the likely requests
//! of earlier jobs in the queue.

use std::convert::Infallible;
use std::time::Duration;

use crate::app::context::Context;
use crate::app::requests::not_counted;
use crate::app::site_waits::{self, SiteWaits};
use crate::app::slurm::queue_look::{self, Freshness};
use crate::app::slurm::sbatch_options;
use hsched_engine::clock::Clock;
use hsched_engine::{Inquiry, JobRequests, Knows, Listing, SpeedsOf};
use hsched_model::number::{to_u64, to_usize};
use hsched_model::{Candidate, JobId, QueueChoice, Request, RequestId, RequestOption, Seconds, choose};
use hsched_plan::{JobStartEstimates, RequestStartEstimate};
use hsched_queue::{PendingJob, Question, QueueJob, QueuePosition, Snapshot, StartEstimate, forecast_at};

/// Number of futures in which each request is simulated, and the total time.
const SAMPLES: usize = 40;
const BUDGET: Duration = Duration::from_secs(5);

/// Simulated waits below this are not used to scale learnt ones, in seconds.
const AT_ONCE: f64 = 60.0;

/// Returns the estimates of some jobs' requests; empty if Slurm has never shown its queue, or if it hides
/// other users' jobs and no waits were learnt. Leaves out jobs for which there was no time, and pending jobs
/// if other users' jobs are hidden.
pub(crate) fn start_estimates(context: &Context, inquiries: &[Inquiry]) -> Vec<JobStartEstimates> {
    let looked = match queue_look::look(context, Freshness::AMinute) {
        Ok(looked) => looked,
        Err(failure) => {
            context.note(&format!("cannot estimate when requests start: {}", failure.message));
            return Vec::new();
        }
    };
    looked.snapshot.notes.iter().for_each(|note| context.note(note));
    let mut snapshot = looked.snapshot;
    let site = site_waits::learnt(context).filter(|site| site.basis(&snapshot).is_some());
    if snapshot.others_hidden && site.is_none() {
        return Vec::new();
    }
    let until = context.clock.elapsed() + BUDGET;
    // Jobs without a pending submission come first; the order of the others rotates.
    let (pending, ready): (Vec<&Inquiry>, Vec<&Inquiry>) =
        inquiries.iter().partition(|inquiry| inquiry.waits());
    let turn = to_usize(snapshot.taken_at.0 / 60.0) % pending.len().max(1);
    let order =
        ready.into_iter().chain(pending[turn..].iter().copied()).chain(pending[..turn].iter().copied());
    let mut list: Vec<JobStartEstimates> = Vec::new();
    let hides_others = snapshot.others_hidden;
    // The gain of a change of a pending job is simulated, which is impossible if other users' jobs are
    // hidden.
    for inquiry in order.filter(|inquiry| !hides_others || !inquiry.waits()) {
        if context.clock.elapsed() > until && !list.is_empty() {
            break;
        }
        let teller = Teller { context, inquiry, until, site: site.as_ref() };
        let start_estimates = teller.start_estimates(&snapshot);
        if !inquiry.waits() {
            snapshot.jobs.extend(teller.likely(&start_estimates, &snapshot));
        }
        list.push(start_estimates);
    }
    list
}

/// Estimates for one job.
struct Teller<'a> {
    context: &'a Context,
    inquiry: &'a Inquiry,
    /// Deadline of the answer, by the clock.
    until: Duration,
    /// The learnt model of the site, if it is used.
    site: Option<&'a SiteWaits>,
}

/// The wait of a pending submission, with the gaps between the pieces of its job.
struct Stay {
    wait: Seconds,
    /// Ratio of the learnt wait to the simulated one.
    factor: f64,
}

/// Mean waits by request id.
type Waits = Vec<(RequestId, Seconds)>;

impl Teller<'_> {
    fn start_estimates(&self, snapshot: &Snapshot) -> JobStartEstimates {
        let inquiry = self.inquiry;
        let JobRequests { requests, cut, .. } = self.listed(snapshot);
        if let Some(note) = not_counted(&inquiry.rest, &requests) {
            self.context.note(&note);
        }
        let asked: Vec<Request> = requests.iter().map(|option| option.request.clone()).collect();
        // Pending and possible requests are compared, so both get the same time.
        let begin = self.context.clock.elapsed();
        let half = self.until.saturating_sub(begin) / 2;
        let until = if inquiry.waits() { begin + half } else { self.until };
        let anew = self.waits(snapshot, &asked, &[], until);
        let estimate = |request: RequestOption| {
            let anew = wait_of(&anew, request.id());
            RequestStartEstimate { request, anew, in_place: None }
        };
        let mut requests: Vec<RequestStartEstimate> = requests.into_iter().map(estimate).collect();
        let stay = |id: Option<JobId>| self.stay(id?, snapshot, &mut requests);
        let stays: Vec<Option<Stay>> = inquiry.pending().into_iter().map(stay).collect();
        let factor = stays.iter().flatten().next().map_or(1.0, |stay| stay.factor);
        for request in &mut requests {
            request.anew = request.anew.map(|wait| Seconds(wait.0 * factor));
        }
        let stays = stays.into_iter().map(|stay| Some(stay?.wait)).collect();
        JobStartEstimates { job: inquiry.job, stays, races: inquiry.races(), requests, cut }
    }

    /// Returns the job's requests, as listed by `hsched when`.
    fn listed(&self, snapshot: &Snapshot) -> JobRequests {
        let settings = &self.context.settings;
        let options = sbatch_options::read(self.context, &self.inquiry.rest, snapshot.taken_at);
        let listing = Listing {
            job: &self.inquiry.rest,
            snapshot,
            defaults: &settings.jobs,
            rates: (settings.network, settings.intra_node),
            capacity: &settings.capacity,
            at_least: self.inquiry.at_least,
            options: &options,
        };
        let speeds: SpeedsOf<'_, Infallible> = &|_, _| Ok(self.inquiry.speeds.clone());
        let knows = Knows { speeds, resumes: &|| self.inquiry.resumes };
        // Notes were shown when the job was added.
        let Ok(mut listed) = hsched_engine::requests(&listing, &knows, &mut Vec::new());
        RequestOption::spare_own(&mut listed.requests);
        listed
    }

    /// Returns the total wait of the job with an unchanged pending submission, and records the wait for each
    /// request to which this submission can be changed in place.
    fn stay(&self, id: JobId, snapshot: &Snapshot, requests: &mut [RequestStartEstimate]) -> Option<Stay> {
        let pending = PendingJob::take(snapshot, &id.to_string())
            .filter(|pending_job| !pending_job.job.waits_for_other)?;
        // Outside the range of the other requests' ids.
        let as_it_is = pending.request(RequestId(u32::MAX));
        let mut positions = vec![(as_it_is.id, pending.position())];
        let mut asked = vec![as_it_is.clone()];
        for change in requests.iter().filter(|change| self.is_in_place(&change.request, id)) {
            let request = &change.request.request;
            let Some(position) = pending.position_after(request) else { continue };
            let partition = request.partition.clone().or_else(|| as_it_is.partition.clone());
            positions.push((request.id, position));
            asked.push(Request { partition, ..request.clone() });
        }
        let waits = self.waits(&pending.rest, &asked, &positions, self.until);
        let simulated = wait_of(&waits, as_it_is.id)?;
        let factor = self.learnt_factor(&pending, simulated);
        for change in requests.iter_mut().filter(|change| self.is_in_place(&change.request, id)) {
            let wait = wait_of(&waits, change.request.id());
            change.in_place = wait.map(|wait| Seconds(wait.0 * factor));
        }
        let wait = self.whole(&pending.job, Seconds(simulated.0 * factor), requests);
        Some(Stay { wait, factor })
    }

    /// Returns the factor for the simulated waits of a pending job and of its changes: the level is learnt
    /// from the site's waits, and the gain of a change is simulated.
    fn learnt_factor(&self, pending: &PendingJob, simulated: Seconds) -> f64 {
        let learnt = self.site.and_then(|site| site.pending_estimate(pending, None));
        learnt.filter(|_| simulated.0 >= AT_ONCE).map_or(1.0, |learnt| learnt.mean.0 / simulated.0)
    }

    fn is_in_place(&self, request: &RequestOption, id: JobId) -> bool {
        self.inquiry.in_place(request, &self.context.settings.jobs) == Some(id)
    }

    /// Returns the total wait of a pending request whose first piece waits this long.
    fn whole(&self, job: &QueueJob, wait: Seconds, requests: &[RequestStartEstimate]) -> Seconds {
        let gpus = job.asks.gpus.first();
        let is_same = |other: &&RequestStartEstimate| {
            let asks = &other.request.request.asks;
            (asks.nodes, asks.gpus.first()) == (job.asks.nodes, gpus)
        };
        let gaps = requests.iter().find(is_same).map(|same| {
            let queue_choice = QueueChoice { longest: job.limit_s, ..QueueChoice::default() };
            queue_choice
                .walltime(&self.inquiry.rest, same.request.in_one, &self.context.settings.jobs)
                .gaps(wait)
        });
        Seconds(wait.0 + gaps.map_or(0.0, |gaps| gaps.0))
    }

    /// Returns the mean wait of each request. If submissions are already pending and there was no time for a
    /// single future, the result is empty: with all jobs at their limits, these waits would be too long in
    /// comparison.
    fn waits(
        &self,
        snapshot: &Snapshot,
        requests: &[Request],
        positions: &[(RequestId, QueuePosition)],
        until: Duration,
    ) -> Waits {
        let question = Question { snapshot, requests, seed: 0, samples: SAMPLES, calibration: None };
        let clock = &self.context.clock;
        let stop = || clock.elapsed() > until;
        let mut estimates = forecast_at(&question, positions, &stop);
        // Pending and possible requests are compared, so both use the simulated futures.
        if let Some(site) = self.site.filter(|_| !self.inquiry.waits()) {
            site.correct(snapshot, requests, &mut estimates);
        }
        let sampled = |estimate: &StartEstimate| {
            estimate.start.forecast().is_some_and(|forecast| !forecast.starts.is_empty())
        };
        if self.inquiry.waits() && !estimates.iter().any(sampled) {
            return Vec::new();
        }
        let wait = |estimate: &StartEstimate| Some((estimate.id, estimate.start.forecast()?.start.mean));
        estimates.iter().filter_map(wait).collect()
    }

    /// Returns the chosen request as a pending job, which the estimates of later jobs include.
    fn likely(&self, start_estimates: &JobStartEstimates, snapshot: &Snapshot) -> Option<QueueJob> {
        let known: Vec<_> =
            start_estimates.requests.iter().map(|estimate| (&estimate.request, estimate.anew)).collect();
        let chosen = choose(&Candidate::of(&known), 0.0)?;
        let request = start_estimates.request(chosen.id)?.request.clone();
        let estimate = snapshot.priority_of(&request);
        let Request { asks, account, limit, partition, further, .. } = request;
        let begin = further.begin.filter(|begin| *begin > snapshot.taken_at);
        let priority = to_u64(estimate.priority.max(0.0));
        Some(QueueJob {
            id: format!("of {}", self.inquiry.rest.name),
            ours: true,
            account,
            partitions: partition.into_iter().collect(),
            priority: Some(priority),
            submitted: Some(snapshot.taken_at),
            limit_s: Some(limit),
            asks,
            tasks: 1,
            qos: further.qos,
            reservation: further.reservation,
            nice: further.nice,
            waits_for_other: begin.is_some(),
            reason: begin.map(|_| "BeginTime".to_owned()),
            begin,
            ..QueueJob::default()
        })
    }
}

/// Returns the wait of the request with this id, if known.
fn wait_of(waits: &Waits, id: RequestId) -> Option<Seconds> {
    waits.iter().find(|(candidate, _)| *candidate == id).map(|(_, wait)| *wait)
}
