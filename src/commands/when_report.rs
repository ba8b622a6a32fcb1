//! The report of `hsched when`: the requests of each job, and when each would start and finish.

use serde_json::Value;

use crate::app::cluster_queue::ClusterQueue;
use crate::app::start_estimates::OptionEstimate;
use crate::commands::when::EstimatedJob;
use hsched_queue::Estimate;
use hsched_ui::report::{Report, ReportKind, ReportOption, TimeOrigin};

/// Returns the report of the estimates of each job's requests.
pub(super) fn when_report(
    told: &[EstimatedJob],
    queues: &[ClusterQueue],
    parameters: &[(&str, Value)],
) -> Report {
    let mut report = Report::new(ReportKind::When, TimeOrigin::Elapsed);
    report.parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    for estimated in told {
        let name = estimated.job.name.as_str();
        let chosen = estimated.choice.map(|choice| choice.id);
        let option = |estimate: &OptionEstimate| {
            option(name, estimate, queues, chosen.is_some_and(|id| id == estimate.id()))
        };
        report.options.extend(estimated.list.iter().map(option));
        report.notes.extend(estimated.reason().map(|reason| format!("{name}: {reason}")));
        report.notes.extend(estimated.notes.iter().cloned());
    }
    report
}

fn option(job: &str, estimate: &OptionEstimate, queues: &[ClusterQueue], chosen: bool) -> ReportOption {
    let option = &estimate.option;
    let three = |estimate: &Estimate| [estimate.low.0, estimate.median.0, estimate.high.0];
    ReportOption {
        job: job.to_owned(),
        cluster: queues[estimate.queue].name.clone(),
        partition: option.request.partition.clone(),
        account: option.request.account.clone(),
        gpu_type: option.gpu_type.to_string(),
        gpus: option.gpus,
        nodes: option.request.asks.nodes,
        chosen,
        start_s: estimate.start.forecast().map(|forecast| three(&forecast.start)),
        finish_s: estimate.done.as_ref().map(three),
        mean_finish_s: estimate.done.as_ref().map(|done| done.mean.0),
        cost: option.cost.map(|cost| cost.hours),
        cost_unit: option.cost.map(|cost| cost.unit.word().to_owned()),
    }
}
