//! Plans that trade off mean completion time, fairness and cost, each with a file for `submit`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::app::context::Context;
use crate::app::planning::{PlanningArgs, PlanningInput, prepare, those_behind};
use hsched_model::catalogue::reference_units;
use hsched_model::{ErrorId, Seconds, Unit};
use hsched_plan::plan_file::{PlanFile, PlanVerdict, SolvedProblem};
use hsched_plan::{Bound, Parameters, ParetoPlan, PolicyError, Problem};
use hsched_ui::{Exit, Failure, ProgressLine};

/// The policy that makes the plans: the only one that proves bounds.
const POLICY: &str = "optimal";

/// Default time for the search.
const USUAL_BUDGET: Duration = Duration::from_secs(10);

/// Non-dominated plans, by mean completion time.
pub(crate) struct ParetoFront {
    pub problem: Problem,
    pub plans: Vec<(ParetoPlan, PlanFile)>,
    /// The unit of the plans' costs; `None` if an offered GPU type has no price.
    pub unit: Option<Unit>,
    pub notes: Vec<String>,
}

/// Returns the plans of a job file.
///
/// # Errors
/// If a file or setting is invalid, Slurm does not answer, or the policy does not support the problem or
/// violates its rules.
pub(crate) fn front(
    args: &PlanningArgs,
    context: &Context,
    text: &str,
    path: &Path,
) -> Result<ParetoFront, Failure> {
    let PlanningInput { jobs, cluster, capacity, access, notes, problem, .. } =
        prepare(args, context, text, path)?;
    let mut policy = args.policy.find(POLICY, Parameters::default())?;
    let prices = prices(&problem);
    let stop = args.stop_by_parts(context, USUAL_BUDGET);
    let progress = ProgressLine::start(format!("looking for plans (jobs: {})", problem.jobs.len()));
    let plans = hsched_plan::pareto(&problem, policy.as_mut(), those_behind(&jobs), prices.as_deref(), &stop);
    drop(progress);
    let plans = plans.map_err(|error| match error {
        PolicyError::BreaksRules { .. } => Failure::from_error(Exit::Internal, &error)
            .hint("please report this, with the job and cluster files"),
        PolicyError::TooLarge { .. } | PolicyError::SingleGpus { .. } => {
            Failure::from_error(Exit::Failed, &error).id(ErrorId::PolicyUnfit)
        }
    })?;
    let with_file = |pareto_plan: ParetoPlan| {
        let proven = pareto_plan.plan.plan().bound.clone().map(|bound| (bound, None::<Seconds>));
        let solved = SolvedProblem {
            problem: &problem,
            jobs: &jobs,
            cluster: &cluster,
            access: &access,
            plan: &pareto_plan.plan,
            policy: POLICY,
            solve: None,
            proven: proven.as_ref(),
        };
        let file = PlanFile::new(solved, notes.clone(), capacity, args.pin);
        (pareto_plan, file)
    };
    let plans = plans.into_iter().map(with_file).collect();
    Ok(ParetoFront { plans, unit: prices.map(|_| Unit::Rgu), notes, problem })
}

impl ParetoFront {
    /// Returns the exit code: 3 if a job was rejected or none was placed.
    pub(crate) fn exit(&self) -> Exit {
        match self.plans.first() {
            Some((_, file)) if file.jobs.iter().all(|job| job.verdict != PlanVerdict::Reject) => Exit::Done,
            _ => Exit::Unplaced,
        }
    }

    /// Returns an upper bound on the relative distance between a plan's mean completion time and the lowest
    /// of any plan that is at least as fair; `None` if nothing is proven.
    pub(crate) fn gap(plan: &ParetoPlan) -> Option<f64> {
        (plan.bound > 0.0).then(|| (plan.mean / plan.bound - 1.0).max(0.0))
    }

    /// Returns the prices and weights that prove a plan's bound, by name.
    pub(crate) fn certificate(&self, plan: &ParetoPlan) -> serde_json::Value {
        let Bound { root, prices, replica_prices, weights, .. } = &plan.certificate;
        let by_type: serde_json::Map<_, _> =
            self.problem.labels.iter().cloned().zip(prices.iter().map(|price| (*price).into())).collect();
        let name = |job: usize| self.problem.jobs[job].name.to_string();
        let placed = plan.plan.placed().into_iter().map(name);
        let by_job: serde_json::Map<_, _> =
            placed.zip(weights.iter().map(|weight| (*weight).into())).collect();
        let mut certificate = serde_json::json!({ "prices": by_type, "weights": by_job, "root_bound": root });
        if replica_prices.iter().any(|prices| !prices.is_empty()) {
            let of_type = |(label, prices): (&String, &BTreeMap<u32, f64>)| {
                (!prices.is_empty()).then(|| (label.clone(), serde_json::json!(prices)))
            };
            let by_size: serde_json::Map<_, _> =
                self.problem.labels.iter().zip(replica_prices).filter_map(of_type).collect();
            certificate["replica_prices"] = by_size.into();
        }
        certificate
    }
}

/// Returns the price of a GPU hour by type, in reference units; `None` if an offered type has none.
fn prices(problem: &Problem) -> Option<Vec<f64>> {
    let offered = problem.offered();
    let price = |(gpu_type, count): (&hsched_model::GpuType, &u32)| {
        if *count == 0 { Some(0.0) } else { reference_units(gpu_type) }
    };
    problem.gpu_types.iter().zip(&offered).map(price).collect()
}
