//! The waiting time that smaller requests save, estimated from a queue.

use std::time::Duration;

use crate::app::cluster_queue::ClusterQueue;
use crate::app::context::Context;
use hsched_engine::clock::Clock;
use hsched_model::number::{to_f64, to_u32, to_u64};
use hsched_model::{Asks, FurtherOptions, GpuAsk, Request, RequestId, Seconds};
use hsched_queue::{Question, StartEstimate, forecast};
use hsched_slurm::review::{NameReview, Quantity};
use hsched_ui::ProgressLine;

/// Number of simulated futures of the queue.
const FUTURES: usize = 60;
/// Time limit of the simulations.
const BUDGET: Duration = Duration::from_secs(10);

/// Shorter waits, in seconds, count as none.
const NO_WAIT: f64 = 60.0;

/// Returns whether a review recommends requesting less of a resource.
pub(super) fn is_smaller(name_review: &NameReview) -> bool {
    let less = |quantity: &Quantity| {
        quantity.recommended.zip(quantity.asked).is_some_and(|(new, asked)| new < asked)
    };
    [&name_review.time, &name_review.memory, &name_review.cpus, &name_review.gpus].into_iter().any(less)
}

/// Returns the waiting hours that the past runs of each name would have saved; `None` without a queue, for
/// names without a smaller request, and if no start can be estimated.
///
/// Today's queue gives the fraction of the wait that a smaller request saves. The result is this fraction of
/// the past waits, because today's queue may be longer or shorter than the past ones.
pub(super) fn saved(
    context: &Context,
    names: &[NameReview],
    queue: Option<&ClusterQueue>,
) -> Vec<Option<f64>> {
    let Some(queue) = queue else { return vec![None; names.len()] };
    let _progress = ProgressLine::start("simulating the queue".to_owned());
    let mut left = names.iter().filter(|name| is_smaller(name)).count();
    let mut saved = Vec::new();
    let clock = &context.clock;
    let begin = clock.elapsed();
    for name in names {
        let is_smaller = is_smaller(name);
        let spent = clock.elapsed().saturating_sub(begin);
        let share = BUDGET.saturating_sub(spent) / u32::try_from(left.max(1)).unwrap_or(u32::MAX);
        let until = clock.elapsed() + share;
        let stop = || clock.elapsed() >= until;
        saved.push(if is_smaller { saved_hours(name, queue, &stop) } else { None });
        left -= usize::from(is_smaller);
    }
    saved
}

fn saved_hours(name: &NameReview, queue: &ClusterQueue, stop: &(dyn Fn() -> bool + Sync)) -> Option<f64> {
    let requests = [
        request(name, 0, |quantity| quantity.asked)?,
        request(name, 1, |quantity| quantity.recommended.or(quantity.asked))?,
    ];
    let question = Question {
        snapshot: &queue.snapshot,
        requests: &requests,
        seed: 0,
        samples: FUTURES,
        calibration: queue.calibration(),
    };
    let estimates = forecast(&question, stop);
    let wait = |id: u32| Some(StartEstimate::of(&estimates, RequestId(id))?.forecast()?.start.mean.0);
    let (before, after) = (wait(0)?, wait(1)?);
    let part = if before < NO_WAIT { 0.0 } else { (1.0 - after / before).clamp(0.0, 1.0) };
    Some(part * name.waited_h)
}

/// Returns the request of a name; `None` if it has no time limit.
fn request(name: &NameReview, id: u32, amount: impl Fn(&Quantity) -> Option<f64>) -> Option<Request> {
    let latest = &name.latest;
    let limit = amount(&name.time)?;
    let a_node = |all: f64| (all / to_f64(latest.nodes)).ceil();
    let gpus = amount(&name.gpus).map_or(0, |gpus| to_u32(a_node(gpus)));
    let asks = Asks {
        nodes: u32::try_from(latest.nodes).unwrap_or(u32::MAX),
        gpus: (gpus > 0)
            .then(|| GpuAsk { gpu_type: latest.gpu_type.clone(), count: gpus })
            .into_iter()
            .collect(),
        cpus: amount(&name.cpus).map(|cpus| to_u64(a_node(cpus))),
        memory_mib: amount(&name.memory).map(|mib| to_u64(mib.ceil())),
        ..Asks::default()
    };
    Some(Request {
        id: RequestId(id),
        asks,
        partition: latest.partition.clone(),
        account: None,
        limit: Seconds(limit),
        run: Seconds(name.time.used_p50.unwrap_or(limit).min(limit)),
        further: FurtherOptions::default(),
    })
}
