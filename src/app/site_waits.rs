//! A site's waits, learnt from looks at its queue.

use std::time::Duration;

use crate::app::context::Context;
use crate::app::state;
use hsched_engine::clock::Clock;
use hsched_engine::store::{LastLook, SiteLooks, StateError};
use hsched_model::number::to_u64;
use hsched_queue::learnt::{Comparison, LearntBasis, MOST_JOBS, SiteModel};
use hsched_queue::{Estimate, Forecast, PendingJob, Request, RequestId, Snapshot, Start, StartEstimate};

/// Time for simulating starts of pending jobs after a look, from which the simulation's accuracy is measured
/// later.
const PLAYER_BUDGET: Duration = Duration::from_secs(1);

/// Seed of the models, so that equal looks give equal estimates.
const SEED: u64 = 1;

/// The learnt model of the site.
pub(crate) struct SiteWaits {
    model: SiteModel,
    last: LastLook,
}

/// Stores a look at the queue, unless it is too soon after the last one. A note reports a failure.
pub(crate) fn keep(context: &Context, snapshot: &Snapshot) {
    let Ok(root) = state::root(context) else { return };
    if let Err(error) = kept(context, &SiteLooks::of(&root), snapshot) {
        context.note(&format!(
            "the look at the queue was not kept, from which waits are learnt: {}",
            state::failure(&error).message
        ));
    }
}

fn kept(context: &Context, looks: &SiteLooks, snapshot: &Snapshot) -> Result<(), StateError> {
    let mut last = looks.last()?;
    if !last.log.is_due(snapshot.taken_at) {
        return Ok(());
    }
    let names = last.clone();
    let number = |name: &str| names.number(name);
    let settled = last.log.observe(snapshot, &number);
    // The look is stored before the simulation's estimates, which are only needed later.
    looks.keep(&last, settled)?;
    let clock = &context.clock;
    let until = clock.elapsed() + PLAYER_BUDGET;
    let seed = to_u64(snapshot.taken_at.0);
    if last.log.estimate_pending(snapshot, &number, seed, &|| clock.elapsed() > until) {
        looks.keep_last(&last)?;
    }
    Ok(())
}

/// Returns the learnt model, and stores its score if that has changed; `None` if too few starts were
/// observed, or the looks cannot be read.
pub(crate) fn learnt(context: &Context) -> Option<SiteWaits> {
    let looks = SiteLooks::of(&state::root(context).ok()?);
    let mut last = looks.last().ok()?;
    let settled = looks.settled(MOST_JOBS);
    let model = SiteModel::learn(&last.log, &settled, last.score, SEED)?;
    if last.score != Some(model.score) {
        last.score = Some(model.score);
        // If this fails, the next command computes it again.
        let _ = looks.keep_last(&last);
    }
    Some(SiteWaits { model, last })
}

impl SiteWaits {
    /// Returns the basis of the estimates if they are learnt.
    pub(crate) fn basis(&self, snapshot: &Snapshot) -> Option<LearntBasis> {
        self.model.is_used(snapshot.others_hidden).then_some(self.model.basis)
    }

    /// Returns the basis of the model, whether or not it is used.
    pub(crate) fn basis_of_all(&self) -> LearntBasis {
        self.model.basis
    }

    /// Returns the accuracy of both methods on the same starts of the last two weeks.
    pub(crate) fn comparison(&self) -> Option<Comparison> {
        self.model.score.comparison
    }

    /// Replaces the estimates of requests by learnt ones, if these are used here. A request that can never
    /// start, or that depends on a hidden limit, is not changed.
    pub(crate) fn correct(&self, snapshot: &Snapshot, requests: &[Request], estimates: &mut [StartEstimate]) {
        let Some(basis) = self.basis(snapshot) else { return };
        let told = |request: &Request| {
            let start = StartEstimate::of(estimates, request.id)?;
            Some(start.forecast().filter(|forecast| !forecast.is_by_limits())?.start)
        };
        let player: Vec<Option<Estimate>> = requests.iter().map(told).collect();
        let learnt = self.model.estimates(snapshot, requests, &player, &|name| self.last.number(name));
        for (request, start) in requests.iter().zip(learnt) {
            let Some(estimate) = estimates.iter_mut().find(|estimate| estimate.id == request.id) else {
                continue;
            };
            let is_hidden = snapshot.others_hidden && matches!(estimate.start, Start::Unknown(_));
            let known = estimate.start.forecast();
            if known.is_some() || is_hidden {
                estimate.start = Start::Estimated(forecast(basis, start, request, known));
            }
        }
    }

    /// Returns the learnt start of a request if it is used here; `None` keeps the simulated one.
    pub(crate) fn start(&self, snapshot: &Snapshot, request: &Request, simulated: &Start) -> Option<Start> {
        let mut estimates = [StartEstimate { id: request.id, start: simulated.clone() }];
        self.correct(snapshot, std::slice::from_ref(request), &mut estimates);
        let [StartEstimate { start, .. }] = estimates;
        start.forecast().is_some_and(|forecast| forecast.learnt.is_some()).then_some(start)
    }

    /// Returns the learnt start of a pending job if it is used here; `None` keeps the simulated one.
    pub(crate) fn pending_start(&self, pending: &PendingJob, simulated: &Start) -> Option<Start> {
        let snapshot = &pending.rest;
        let known = simulated.forecast();
        let is_hidden = snapshot.others_hidden && matches!(simulated, Start::Unknown(_));
        if known.is_none() && !is_hidden {
            return None;
        }
        let start = self.pending_estimate(pending, known.map(|known| known.start))?;
        Some(Start::Estimated(forecast(self.basis(snapshot)?, start, &pending.request(RequestId(0)), known)))
    }

    /// Returns the learnt remaining wait of a pending job if it is used here. For a job that no look has
    /// shown, the wait begins now; `player` is the simulation's estimate.
    pub(crate) fn pending_estimate(
        &self,
        pending: &PendingJob,
        player: Option<Estimate>,
    ) -> Option<Estimate> {
        let snapshot = &pending.rest;
        self.basis(snapshot)?;
        let number = |name: &str| self.last.number(name);
        let last = self.last.log.looked_at;
        if pending.job.submitted.is_some_and(|submitted| last.is_none_or(|last| submitted <= last)) {
            return self.model.pending_start(&pending.job, snapshot.taken_at, &number);
        }
        let request = pending.request(RequestId(0));
        self.model.estimates(snapshot, &[request], &[player], &number).into_iter().next()
    }
}

/// Returns a learnt estimate, with the known data on the place in the queue.
fn forecast(basis: LearntBasis, start: Estimate, request: &Request, known: Option<&Forecast>) -> Forecast {
    Forecast {
        at_limits: known.and_then(|known| known.at_limits),
        start,
        finish: start.later(request.run),
        first: known.map_or(0.0, |known| known.first),
        // There are no futures, so they cannot be matched between requests.
        starts: Vec::new(),
        past_waits: 0,
        learnt: Some(basis),
        waiting: known.map_or(0, |known| known.waiting),
        ahead: known.map_or(0, |known| known.ahead),
    }
}
