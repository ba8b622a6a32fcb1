//! The requests of several jobs, chosen together, for `plan --queue` and `submit --queue`.

use crate::app::cluster_queue::ClusterQueue;
use crate::app::context::Context;
use crate::app::speeds::SpeedArgs;
use crate::app::start_estimates::{self, OptionEstimate, PossibleRequests, SearchArgs};
use hsched_model::{Job, Request, RequestId, RequestOption};
use hsched_queue::{JobChoice, Jobs, Offer, Start, StartEstimate, choose_together, race};
use hsched_ui::{Failure, ProgressLine};

/// Maximum number of requests per job considered together with those of other jobs: the best ones of the job
/// alone.
const MOST_OF_JOB: usize = 8;

/// The result for some jobs.
pub(crate) struct Through {
    /// Up to [`MOST_OF_JOB`] requests of each job, the best ones as if it were alone, in order of their ends.
    pub alone: Vec<Vec<OptionEstimate>>,
    /// Why a job has none.
    pub nothing: Vec<Option<String>>,
    /// The choices among those; `None` if no request can ever start, or nothing can be estimated.
    pub chosen: Vec<Option<JobChoice>>,
    /// Notes on exclusions.
    pub notes: Vec<String>,
}

/// Chooses a request for each job, while all jobs wait in one queue.
///
/// # Errors
/// If the measured speeds cannot be read.
pub(crate) fn choose(
    context: &Context,
    speeds: &SpeedArgs,
    jobs: &[&Job],
    queue: &ClusterQueue,
    search: SearchArgs,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Through, Failure> {
    let _progress = ProgressLine::start(format!("planning through the queue (jobs: {})", jobs.len()));
    let (mut notes, mut alone, mut nothing): (Vec<String>, Vec<Vec<OptionEstimate>>, Vec<Option<String>>) =
        Default::default();
    let futures = search.futures_together();
    let queues = std::slice::from_ref(queue);
    let mut possible = Vec::new();
    for job in jobs {
        let mut job_requests = start_estimates::possible(context, speeds, job, queues)?;
        job_requests.spare_own(job);
        notes.extend(
            job_requests.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>(),
        );
        possible.push(job_requests);
    }
    for (number, job_requests) in possible.iter().enumerate() {
        let first = PossibleRequests::first_alike(&possible, number);
        if first < number {
            alone.push(alone[first].clone());
            nothing.push(nothing[first].clone());
            continue;
        }
        let mut found = start_estimates::estimate_starts(job_requests, queues, seed, futures, stop);
        found.list.truncate(MOST_OF_JOB);
        alone.push(found.list);
        nothing.push(found.nothing);
    }
    let options: Vec<Vec<Offer>> = alone.iter().map(|list| offers(list)).collect();
    let samples = usize::try_from(futures).unwrap_or(1);
    let calibration = queue.calibration();
    let cost_weight = search.cost_weight;
    let asked =
        Jobs { snapshot: &queue.snapshot, options: &options, cost_weight, seed, samples, calibration };
    let mut chosen = choose_together(&asked, stop);
    if queue.snapshot.others_hidden || queue.is_learnt() {
        chosen = alone.iter().map(|list| as_alone(list, cost_weight)).collect();
    }
    for (choice, list) in chosen.iter_mut().zip(&alone).filter(|(choice, _)| choice.is_none()) {
        *choice = as_alone(list, cost_weight);
    }
    Ok(Through { alone, nothing, chosen, notes })
}

/// Returns the best choice for a job as if it were alone: with a hidden queue, or with learnt estimates,
/// requests do not affect each other. It also stands in for a choice for which the time did not suffice.
fn as_alone(list: &[OptionEstimate], cost_weight: f64) -> Option<JobChoice> {
    let id = start_estimates::best(list, cost_weight)?.id;
    let forecast = OptionEstimate::of(list, id)?.start.forecast()?;
    Some(JobChoice { id, start: forecast.start, finish: forecast.finish, starts: forecast.starts.clone() })
}

/// Returns a job's requests in the form needed to choose them together with others.
fn offers(list: &[OptionEstimate]) -> Vec<Offer> {
    let costs = RequestOption::costs(&list.iter().map(|estimate| &estimate.option).collect::<Vec<_>>());
    let offer = |(estimate, cost): (&OptionEstimate, Option<f64>)| {
        let gaps =
            estimate.start.forecast().map(|forecast| estimate.option.walltime.gaps(forecast.start.mean).0);
        let rest = estimate.option.run.0 - estimate.option.request.run.0 + gaps.unwrap_or(0.0);
        Offer { request: estimate.option.request.clone(), rest, cost }
    };
    list.iter().zip(costs).map(offer).collect()
}

impl Through {
    /// Returns the choice for each job, with the others in the queue.
    pub(crate) fn together(&self) -> Vec<Option<OptionEstimate>> {
        let all = self.alone.iter().zip(&self.chosen);
        all.map(|(list, chosen)| {
            let chosen = chosen.as_ref()?;
            let mut foretold = OptionEstimate::of(list, chosen.id)?.clone();
            if let Start::Estimated(forecast) = &mut foretold.start {
                (forecast.start, forecast.finish) = (chosen.start, chosen.finish);
                forecast.starts.clone_from(&chosen.starts);
            }
            foretold.done = start_estimates::done(&foretold.option, &foretold.start);
            Some(foretold)
        })
        .collect()
    }

    /// Returns up to this many requests of each job to queue at the same time, the chosen one first; if
    /// starts are unknown, those with the shortest runs.
    pub(crate) fn entries(&self, wanted: usize) -> Vec<Vec<OptionEstimate>> {
        let together = self.together();
        let of_job = |(list, chosen): (&Vec<OptionEstimate>, Option<OptionEstimate>)| {
            let Some(chosen) = chosen else {
                let possible = list.iter().filter(|estimate| !estimate.start.is_never());
                return possible.take(wanted).cloned().collect();
            };
            let requests: Vec<&Request> = list.iter().map(|estimate| &estimate.option.request).collect();
            let estimate = |option_estimate: &OptionEstimate| StartEstimate {
                id: option_estimate.id(),
                start: option_estimate.start.clone(),
            };
            let estimates: Vec<StartEstimate> = list.iter().map(estimate).collect();
            let mut ids = race(&requests, &estimates, Some(chosen.id()), wanted);
            // Estimates may be wrong, so the next best requests are also worth queueing.
            let possible = list.iter().filter(|estimate| !estimate.start.is_never()).map(OptionEstimate::id);
            ids.extend(possible.filter(|id| !ids.contains(id)).collect::<Vec<RequestId>>());
            let others = ids.into_iter().take(wanted).skip(1);
            let others = others.filter_map(|id| OptionEstimate::of(list, id).cloned());
            std::iter::once(chosen).chain(others).collect()
        };
        self.alone.iter().zip(together).map(of_job).collect()
    }
}
