//! The report of a plan: which job gets which GPUs in its first placement.

use serde_json::{Map, Value};

use hsched_plan::Objective;
use hsched_plan::plan_file::{PlanFile, PlanVerdict, PlannedJob};
use hsched_ui::report::{
    Counter, GpuHolding, PolicyRow, Report, ReportJob, ReportKind, ReportRun, TimeOrigin, Timeline,
};

/// Returns the report of a plan.
pub(super) fn plan_report(file: &PlanFile, parameters: Map<String, Value>) -> Report {
    let mut report = Report::new(ReportKind::Plan, TimeOrigin::Elapsed);
    report.parameters = parameters;
    report.notes.clone_from(&file.notes);
    let reason = |job: &PlannedJob| Some(format!("{}: {}", job.name, job.reason.as_ref()?));
    report.notes.extend(file.jobs.iter().filter_map(reason));
    let one = |job: &PlannedJob| ReportJob {
        name: job.name.to_string(),
        arrival_s: 0.0,
        deadline_s: job.deadline_s,
    };
    report.jobs = file.jobs.iter().map(one).collect();
    let mut timeline = Timeline::default();
    for node in &file.nodes {
        node.gpus
            .iter()
            .for_each(|gpus| timeline.add(node.name.as_str(), gpus.gpu_type.as_str(), gpus.count));
    }
    let held = |(job, planned): (usize, &PlannedJob)| {
        let gpus =
            planned.gpus.iter().map(|gpus| (gpus.node.to_string(), gpus.gpu_type.to_string(), gpus.count));
        Some(GpuHolding { job, start: 0.0, work: 0.0, end: planned.jct_s?, gpus: gpus.collect() })
    };
    let held: Vec<GpuHolding> = file.jobs.iter().enumerate().filter_map(held).collect();
    let (mut queue, mut in_use) = (Counter::default(), Counter::default());
    let deferred = file.jobs.iter().filter(|job| job.verdict == PlanVerdict::Defer);
    deferred.for_each(|_| queue.change(0.0, 1.0));
    for job in &held {
        let gpus = job.gpus.iter().map(|(_, _, count)| f64::from(*count)).sum::<f64>();
        in_use.change(job.start, gpus);
        in_use.change(job.end, -gpus);
    }
    let is_mean = file.objective == Objective::MeanJct;
    let row = PolicyRow {
        mean_jct_s: file.mean_jct_s,
        lower_bound_s: file.lower_bound.filter(|_| is_mean),
        ratio: file.gap.filter(|_| is_mean).map(|gap| 1.0 + gap),
        makespan_s: file.makespan_s,
        deadlines_met: file.deadlines_met,
        ..PolicyRow::default()
    };
    report.runs.push(ReportRun {
        name: file.policy.clone(),
        row,
        started_s: file.jobs.iter().map(|job| job.jct_s.map(|_| 0.0)).collect(),
        ended_s: file.jobs.iter().map(|job| job.jct_s).collect(),
        spans: timeline.spans(held),
        queue: queue.steps(),
        in_use: in_use.steps(),
    });
    report.gpus = timeline.gpus().to_vec();
    report
}
