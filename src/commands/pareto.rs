//! `hsched plan --pareto`: plans that trade off mean completion time, fairness and cost.

use std::path::Path;

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::pareto::{ParetoFront, front};
use crate::app::planning::PlanningArgs;
use crate::commands::cli::{json_text, print};
use hsched_ui::{Exit, Failure, ParetoRow, pareto_text};

/// Lists the non-dominated plans of a job file.
///
/// # Errors
/// If a file or setting is wrong, Slurm does not answer, or stdout cannot be written.
pub(super) fn run(
    context: &Context,
    args: &PlanningArgs,
    text: &str,
    path: &Path,
    format: Format,
) -> Result<Exit, Failure> {
    let front = front(args, context, text, path)?;
    let text = match format {
        Format::Json => json_text(&json(&front)?)?,
        Format::Table => {
            let rows: Vec<ParetoRow> = front.plans.iter().map(|(plan, _)| row(plan)).collect();
            pareto_text(&rows, front.unit, front.problem.jobs.len(), &front.notes, context.terminal)
        }
    };
    print(context, &text)?;
    Ok(front.exit())
}

fn row(plan: &hsched_plan::ParetoPlan) -> ParetoRow {
    ParetoRow {
        placed: plan.plan.placed().len(),
        mean: plan.mean,
        fairness: plan.fairness,
        cost: plan.cost,
        gap: ParetoFront::gap(plan),
    }
}

fn json(front: &ParetoFront) -> Result<Value, Failure> {
    let mut plans = Vec::new();
    for (plan, file) in &front.plans {
        let file = serde_json::to_value(file).map_err(|error| Failure::from_error(Exit::Internal, &error))?;
        plans.push(json!({
            "mean_s": plan.mean,
            "fairness": plan.fairness,
            "cost": plan.cost,
            "bound_s": plan.bound,
            "gap": ParetoFront::gap(plan),
            "certificate": front.certificate(plan),
            "plan": file,
        }));
    }
    Ok(json!({
        "schema": "hsched.pareto/1",
        "cost_unit": front.unit.map(hsched_model::Unit::word),
        "plans": plans,
        "notes": front.notes,
    }))
}
