//! Converts chosen requests to a run that submits them: GPUs, shares, and queue choices.

use crate::app::planning::{PlanningInput, PlanningResult, those_behind};
use crate::app::start_estimates::OptionEstimate;
use hsched_engine::{PlannedSubmission, spares};
use hsched_model::{Cluster, JobDefaults, RequestOption};
use hsched_plan::plan_file::{Capacity, PlanFile, SolvedProblem};
use hsched_plan::{CheckedPlan, Decision, Placement, Plan, Problem, Sharing, Slot, verify};
use hsched_ui::{Exit, Failure};

/// The policy name in plan files of plans through the queue.
const THROUGH_QUEUE: &str = "queue";

/// Why a job of a plan through the queue has no GPUs in it.
const BEHIND: &str = "its request is queued behind another job of this plan that may use the same GPUs";

/// Why a job has no request although some exist.
const NO_ROOM: &str = "no request fits on the nodes that are up";

/// The submissions, and the prediction for each, in the same order.
pub(crate) struct Entries {
    pub planned: PlanningResult,
    pub intents: Vec<PlannedSubmission>,
    pub foretold: Vec<OptionEstimate>,
}

/// The index of a job, and its chosen requests or why there are none.
pub(crate) type ChosenFor = (usize, Result<Vec<OptionEstimate>, String>);

/// Returns the submissions of the requests chosen for some jobs. The plan says why a job has none.
///
/// The jobs wait for GPUs held by others and by each other, so the plan places as many as fit at the same
/// time.
///
/// # Errors
/// If no valid plan of the jobs exists, which is an internal error.
pub(crate) fn entries(
    input: PlanningInput,
    chosen: Vec<ChosenFor>,
    defaults: &JobDefaults,
) -> Result<Entries, Failure> {
    let (mut intents, mut all, mut without) = (Vec::new(), Vec::new(), those_behind(&input.jobs));
    for (job, requests) in chosen {
        let (requests, why) =
            requests.map_or_else(|why| (Vec::new(), why), |request| (request, NO_ROOM.to_owned()));
        let placed = |option_estimate: OptionEstimate| {
            Some((placement(&input.problem, &input.cluster, job, &option_estimate.option)?, option_estimate))
        };
        let placed: Vec<(Placement, OptionEstimate)> = requests.into_iter().filter_map(placed).collect();
        if placed.is_empty() && without.iter().all(|(behind, _)| *behind != job) {
            without.push((job, Decision::Defer { why }));
        }
        for (copy, (placement, estimate)) in (0..).zip(placed) {
            // Further requests may later be queued beside a single one, and it may be changed while pending.
            let goes_elsewhere = input.cluster.leaves_ways(&input.jobs[job], defaults);
            let spares = spares(&input.problem, job, &placement, &input.cluster, goes_elsewhere);
            let queue_choice = Some(estimate.option.queue_choice.clone());
            intents.push(PlannedSubmission {
                race: true,
                queue_choice,
                spares,
                ..PlannedSubmission::new(job, copy, placement)
            });
            all.push(estimate);
        }
    }
    let plan = at_one_time(&input, &intents, without)
        .ok_or_else(|| Failure::new(Exit::Internal, "the plan for the chosen requests is invalid"))?;
    let solved = SolvedProblem {
        problem: &input.problem,
        jobs: &input.jobs,
        cluster: &input.cluster,
        access: &input.access,
        plan: &plan,
        policy: THROUGH_QUEUE,
        solve: None,
        proven: None,
    };
    let file = PlanFile::new(solved, Vec::new(), Capacity::Up, false);
    let PlanningInput { jobs, problem, .. } = input;
    Ok(Entries {
        planned: PlanningResult { jobs, problem, plan, proven: None, file },
        intents,
        foretold: all,
    })
}

/// Returns a job's placement on GPUs of a request's type, with the same number on each node; `None` if none
/// is legal.
fn placement(problem: &Problem, cluster: &Cluster, job: usize, option: &RequestOption) -> Option<Placement> {
    let nodes = usize::try_from(option.request.asks.nodes).ok()?;
    let count = option.per_node();
    let partition = option.request.partition.as_ref();
    let is_in = |node: usize| {
        let known = cluster.node(&problem.nodes[node].name).map(|node| &node.partitions);
        known.is_none_or(|partitions| {
            partitions.is_empty() || partition.is_none_or(|name| partitions.contains(name))
        })
    };
    let slot = |node: usize| {
        let mut types = (0..problem.gpu_types.len()).filter(|&ty| problem.gpu_types[ty] == option.gpu_type);
        let gpu_type = types
            .find(|&ty| problem.jobs[job].types[ty].is_some() && problem.nodes[node].gpus[ty] >= count)?;
        is_in(node).then_some(Slot { node, gpu_type, count })
    };
    let slots: Vec<Slot> = (0..problem.nodes.len()).filter_map(slot).take(nodes).collect();
    let placement =
        (slots.len() == nodes).then(|| Placement::new(problem, job, &slots, Sharing::Balanced)).flatten()?;
    checked(problem, vec![(job, Decision::place(placement.clone()))]).map(|_| placement)
}

/// Returns the plan that gives GPUs to as many jobs as fit together, in order. `changes` has the decisions on
/// the jobs without requests; the jobs that do not fit wait.
fn at_one_time(
    PlanningInput { problem, .. }: &PlanningInput,
    intents: &[PlannedSubmission],
    mut changes: Vec<(usize, Decision)>,
) -> Option<CheckedPlan> {
    let mut plan = checked(problem, changes.clone());
    for intent in intents.iter().filter(|intent| intent.copy == 0) {
        let mut next = changes.clone();
        next.push((intent.job, Decision::place(intent.placement.clone())));
        let beside = checked(problem, next.clone());
        if beside.is_none() {
            next.pop();
            next.push((intent.job, Decision::Defer { why: BEHIND.to_owned() }));
        }
        plan = beside.or_else(|| checked(problem, next.clone()));
        changes = next;
    }
    plan
}

fn checked(problem: &Problem, changes: Vec<(usize, Decision)>) -> Option<CheckedPlan> {
    verify(problem, Plan { changes, ..Plan::default() }).ok()
}
