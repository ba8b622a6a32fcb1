//! The requests of several jobs, chosen together: what `plan --queue` shows and `submit --queue` submits.

use crate::app::context::Context;
use crate::app::speeds::SpeedArgs;
use crate::app::start_estimates::{self, OptionEstimate, Possible, Queue, SearchArgs};
use crate::error::Failure;
use crate::ui::ProgressLine;
use hsched_model::{Job, Request, RequestId, RequestOption};
use hsched_queue::{Chosen, Jobs, Offer, Start, StartEstimate, choose_together, race};

/// Requests of a job that are looked at together with those of others: the best alone.
const MOST_OF_JOB: usize = 8;

/// What was found for some jobs.
pub(crate) struct Through {
    /// The requests of each job, as if it were the only one; the first to finish first.
    pub alone: Vec<Vec<OptionEstimate>>,
    /// Why a job has none.
    pub nothing: Vec<Option<String>>,
    /// What was chosen among those; `None` where nothing could ever start, or nobody can tell.
    pub chosen: Vec<Option<Chosen>>,
    /// What was left out, for people.
    pub notes: Vec<String>,
}

/// Chooses a request for each job, all of them in one queue.
///
/// # Errors
/// When the measured speeds cannot be read.
pub(crate) fn choose(
    context: &Context,
    speeds: &SpeedArgs,
    jobs: &[&Job],
    queue: &Queue,
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
        let job_requests = start_estimates::possible(context, speeds, job, queues)?;
        notes.extend(
            job_requests.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>(),
        );
        possible.push(job_requests);
    }
    for (number, job_requests) in possible.iter().enumerate() {
        let first = Possible::first_alike(&possible, number);
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
    Ok(Through { alone, nothing, chosen, notes })
}

/// Returns what is best for a job as if it were alone: in a queue that is hidden, and by what was learnt, none is in another's way.
fn as_alone(list: &[OptionEstimate], cost_weight: f64) -> Option<Chosen> {
    let id = start_estimates::best(list, cost_weight)?.id;
    let forecast = OptionEstimate::of(list, id)?.start.forecast()?;
    Some(Chosen { id, start: forecast.start, finish: forecast.finish, starts: Vec::new() })
}

/// Returns what counts of each request of a job, beside those of others.
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
    /// Returns what was chosen for each job, as it is with the others in the queue.
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

    /// Returns up to this many requests of each job to queue at once, the chosen one first; if it is unknown when they
    /// start, those that run shortest.
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
            // What is foretold may be wrong: the next best are worth their place in line, too.
            let possible = list.iter().filter(|estimate| !estimate.start.is_never()).map(OptionEstimate::id);
            ids.extend(possible.filter(|id| !ids.contains(id)).collect::<Vec<RequestId>>());
            let others = ids.into_iter().take(wanted).skip(1);
            let others = others.filter_map(|id| OptionEstimate::of(list, id).cloned());
            std::iter::once(chosen).chain(others).collect()
        };
        self.alone.iter().zip(together).map(of_job).collect()
    }
}
