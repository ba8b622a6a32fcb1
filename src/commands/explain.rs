//! `hsched plan --explain`: explains the choice of GPUs.

use crate::app::context::{Context, Format};
use crate::app::planning::PlanningResult;
use crate::commands::cli::{json_text, print};
use hsched_model::{ErrorId, formats};
use hsched_plan::Verdict;
use hsched_ui::{Exit, ExplainedPlan, Failure, ProgressLine};

/// Explains the plan: a summary of all jobs if `name` is empty, or one job in full.
///
/// # Errors
/// If the plan has no job with that name (the failure names the most similar one), or stdout cannot be
/// written.
pub(super) fn explain_plan(
    planned: &PlanningResult,
    context: &Context,
    name: &str,
    format: Format,
    stop: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let PlanningResult { problem, plan, file, .. } = planned;
    let jobs = if name.is_empty() { (0..problem.jobs.len()).collect() } else { vec![find(planned, name)?] };
    let progress = ProgressLine::start("computing GPU prices".to_owned());
    let placed = plan.verdicts().iter().map(Verdict::placement).enumerate();
    let placed: Vec<usize> = placed.filter_map(|(job, placement)| placement.map(|_| job)).collect();
    let known = plan.plan().bound.clone();
    let bound = known.or_else(|| hsched_plan::bound(problem, &placed, stop));
    let explanation = hsched_plan::explain(problem, plan, bound.as_ref(), &jobs);
    drop(progress);
    let explained = ExplainedPlan { problem, plan, policy: &file.policy, explanation: &explanation };
    let text = match format {
        Format::Json => json_text(&explained.json())?,
        Format::Table if name.is_empty() => explained.overview(context.terminal),
        Format::Table => explained.details(context.terminal),
    };
    print(context, &text)
}

fn find(planned: &PlanningResult, name: &str) -> Result<usize, Failure> {
    let known = || planned.jobs.iter().map(|job| job.name.as_str());
    known().position(|candidate| candidate == name).ok_or_else(|| {
        let failure = Failure::new(Exit::Usage, format!("--explain {name}: no such job in the job file"))
            .id(ErrorId::UnknownJob);
        match formats::nearest(name, known()) {
            Some(near) => failure.hint(format!("did you mean {near}?")),
            None => failure.hint(format!("jobs in the file: {}", known().collect::<Vec<_>>().join(", "))),
        }
    })
}
