//! Turns a job file and a cluster into a checked plan, for `plan` and `submit`.

use std::path::Path;
use std::time::Duration;

use clap::Parser;

use crate::app::after::{self, behind};
use crate::app::context::Context;
use crate::app::file_kind;
use crate::app::goals;
use crate::app::guesses;
use crate::app::input::{self, ClusterWithNotes};
use crate::app::offer::{CapacityChoice, OfferRequest, OfferedGpus, keep_partitions, offer};
use crate::app::policy_args::PolicyArgs;
use crate::app::replicas;
use crate::app::slow_nodes;
use crate::app::speeds::{self, SpeedArgs};
use crate::app::start_estimates;
use crate::app::state;
use crate::app::type_names;
use crate::settings::CommandLineSetting;
use hsched_engine::clock::Clock;
use hsched_model::formats;
use hsched_model::{Access, Cluster, Deadline, ErrorId, Job, QueueChoice, Seconds};
use hsched_plan::plan_file::{Capacity, PlanFile, PlanFileError, SolvedProblem};
use hsched_plan::{
    Bound, Budget, CheckedPlan, Decision, Eligibility, Parameters, Plan, PolicyError, Problem, Verdict,
};
use hsched_ui::{Exit, Failure, ProgressLine};

/// Options for planning.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(crate) struct PlanningArgs {
    #[command(flatten)]
    source: input::ClusterArgs,
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free].
    #[arg(long, value_enum, value_name = "WHICH")]
    capacity: Option<CapacityChoice>,
    /// Request the nodes of the plan by name, instead of any nodes with the same GPUs.
    #[arg(long)]
    pub pin: bool,
    #[command(flatten)]
    pub speeds: SpeedArgs,
    /// Do not compute a lower bound for plans of policies other than optimal.
    #[arg(long)]
    no_bound: bool,
    /// Stop the search after this time, such as 10s or 2m, and use the best plan found so far [default: 1s for optimal
    /// and for lower bounds, unlimited for other policies; 20s for submit --queue].
    #[arg(long, value_name = "TIME", value_parser = start_estimates::duration, allow_hyphen_values = true)]
    budget: Option<Duration>,
}

/// Default time for a search without a natural end.
pub(crate) const USUAL_BUDGET: Duration = Duration::from_secs(1);

impl PlanningArgs {
    /// Returns the settings that the flags give.
    pub(crate) fn flags(&self) -> Vec<CommandLineSetting> {
        self.speeds.flags()
    }

    /// Returns the name of the file with the cluster; `None` if Slurm is called.
    pub(crate) fn cluster(&self) -> Option<String> {
        self.source.name()
    }

    /// Returns whether all options except `--pin` have their defaults.
    pub(crate) fn says_nothing(&self) -> bool {
        #[derive(Parser)]
        struct Nothing {
            #[command(flatten)]
            planning: PlanningArgs,
        }
        let nothing = Nothing::parse_from([""]).planning;
        Self { pin: nothing.pin, ..self.clone() } == nothing
    }

    /// Returns the same options with all GPUs of nodes that are up, because a pending job may get any of
    /// them.
    pub(crate) fn over_all_up(&self) -> Self {
        Self { capacity: Some(CapacityChoice::Up), ..self.clone() }
    }

    /// Returns a function that tells whether the time of a search starting now has run out: the budget, or
    /// else `usual`.
    pub(crate) fn stop(&self, context: &Context, usual: Option<Duration>) -> impl Fn() -> bool {
        let (clock, start) = (context.clock, context.clock.elapsed());
        let budget = self.budget.or(usual);
        move || budget.is_some_and(|budget| clock.elapsed().saturating_sub(start) >= budget)
    }

    /// Returns a function that tells whether a fraction of the time for searches starting now has passed: of
    /// the budget, or else of `usual`.
    pub(crate) fn stop_by_parts(&self, context: &Context, usual: Duration) -> impl Fn(f64) -> bool {
        let (clock, start) = (context.clock, context.clock.elapsed());
        let budget = self.budget.unwrap_or(usual);
        move |part: f64| clock.elapsed().saturating_sub(start) >= budget.mul_f64(part)
    }
}

/// A plan with the problem that it solves.
pub(crate) struct PlanningResult {
    pub jobs: Vec<Job>,
    pub problem: Problem,
    pub plan: CheckedPlan,
    /// The bound for the placed jobs.
    pub proven: Option<Bound>,
    pub file: PlanFile,
}

impl PlanningResult {
    /// Returns the exit code of a plan: 3 if a job was rejected or none was placed.
    pub(crate) fn exit(&self) -> Exit {
        let verdicts = self.plan.verdicts();
        let rejected = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Reject { .. }));
        let placed = verdicts.iter().any(|verdict| verdict.placement().is_some());
        if rejected || !placed { Exit::Unplaced } else { Exit::Done }
    }
}

/// Jobs and GPUs, ready for any policy.
pub(crate) struct PlanningInput {
    pub jobs: Vec<Job>,
    pub cluster: Cluster,
    pub capacity: Capacity,
    pub access: Access,
    /// For each job, whether other jobs hold GPUs that it could use.
    could_use_held: Vec<bool>,
    /// Notes on what was excluded and why.
    pub notes: Vec<String>,
    pub problem: Problem,
}

/// Plans the jobs of a job file.
///
/// # Errors
/// If a file or setting is invalid, Slurm does not answer, or the policy does not support the problem.
pub(crate) fn plan(
    args: &PlanningArgs,
    context: &Context,
    text: &str,
    path: &Path,
) -> Result<PlanningResult, Failure> {
    let PlanningInput { jobs, cluster, capacity, access, could_use_held, mut notes, problem } =
        prepare(args, context, text, path)?;
    let name = &args.policy.policy;
    let (plan, solve) = solve(name, args, context, &jobs, &problem)?;
    let other = |problem: &Problem| Ok(self::solve(name, args, context, &jobs, problem)?.0);
    notes.extend(guesses::warning(&problem, &plan, other)?);
    notes.extend(pieces(context, &cluster, &jobs, &problem, &plan));
    notes.extend(type_names::of_rejected(&jobs, &problem, &plan));
    notes.extend(busy(args.source.is_live(), &could_use_held, &jobs, &plan).map(str::to_owned));
    let proven = bound(args, context, &problem, &plan, &mut Vec::new());
    let solved = SolvedProblem {
        problem: &problem,
        jobs: &jobs,
        cluster: &cluster,
        access: &access,
        plan: &plan,
        policy: name,
        solve: Some(solve),
        proven: proven.as_ref(),
    };
    let file = PlanFile::new(solved, notes, capacity, args.pin);
    Ok(PlanningResult { jobs, problem, plan, proven: proven.map(|(bound, _)| bound), file })
}

/// Returns advice if a job waits although it could use GPUs that other jobs hold.
fn busy(live: bool, could_use_held: &[bool], jobs: &[Job], plan: &CheckedPlan) -> Option<&'static str> {
    // A job with predecessors waits for them, not for GPUs.
    let waits = |(verdict, (job, could_use_held)): (&Verdict, (&Job, &bool))| {
        *could_use_held && job.after.is_empty() && matches!(verdict, Verdict::Defer { .. })
    };
    let waits = plan.verdicts().iter().zip(jobs.iter().zip(could_use_held)).any(waits);
    waits.then_some(if live {
        "the GPUs are in use; --capacity up plans as if they were free, and hsched add with hsched watch \
         --queue queues for them"
    } else {
        "the GPUs are in use; --capacity up plans as if they were free"
    })
}

/// Returns a note for each job that a time limit ends before it is done.
fn pieces(
    context: &Context,
    cluster: &Cluster,
    jobs: &[Job],
    problem: &Problem,
    plan: &CheckedPlan,
) -> Vec<String> {
    let defaults = &context.settings.jobs;
    let note = |(number, (job, verdict)): (usize, (&Job, &Verdict))| {
        let placement = verdict.placement()?;
        let queue_choice =
            QueueChoice::usual(cluster.time_limit(job, defaults), placement.basis(&problem.jobs[number]));
        let walltime = queue_choice.walltime(job, placement.jct(job.epochs), defaults);
        let cut = walltime.cut(job.resumes())?;
        Some(if job.resumes() {
            format!("{}: the time limit splits the job into {cut}; each run queues again", job.name)
        } else {
            format!("{}: {cut}", job.name)
        })
    };
    jobs.iter().zip(plan.verdicts()).enumerate().filter_map(note).collect()
}

/// Returns the plan of a file after another check, because it may be outdated or edited.
///
/// # Errors
/// If the file is not a plan, or its plan is invalid (exit 78).
pub(crate) fn read(text: &str, path: &Path) -> Result<PlanningResult, Failure> {
    let wrong = |what: String| {
        let message = format!("{}: {what}", input::name(path));
        Failure::new(Exit::BadInput, message)
            .id(ErrorId::PlanFile)
            .hint("create the plan again with hsched plan")
    };
    let unusable = |error: PlanFileError| wrong(Failure::from_error(Exit::BadInput, &error).message);
    let file = PlanFile::parse(text).map_err(unusable)?;
    let specs: Vec<_> = file.jobs.iter().map(|job| job.spec.clone()).collect();
    let jobs = formats::jobs::from_json(&specs).map_err(|problems| {
        let list: Vec<String> = problems
            .as_slice()
            .iter()
            .map(|problem| format!("{}: {}", problem.path.replacen(']', "].spec", 1), problem.message))
            .collect();
        wrong(list.join("; "))
    })?;
    if let Some((job, planned)) = jobs.iter().zip(&file.jobs).find(|(job, planned)| job.name != planned.name)
    {
        return Err(wrong(format!(
            "job {:?} contains the spec of job {:?}",
            planned.name.as_str(),
            job.name.as_str()
        )));
    }
    let problem = file.problem(&jobs).map_err(unusable)?;
    let plan = file.plan(&problem).map_err(unusable)?;
    let plan = hsched_plan::verify(&problem, plan).map_err(|violations| {
        let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
        wrong(format!("the plan is invalid: {}", list.join("; ")))
    })?;
    file.check(&problem, &plan).map_err(unusable)?;
    Ok(PlanningResult { jobs, problem, plan, proven: None, file })
}

/// Returns the problem of placing the jobs of a job file.
///
/// # Errors
/// If a file or setting is invalid, or Slurm does not answer.
pub(crate) fn prepare(
    args: &PlanningArgs,
    context: &Context,
    text: &str,
    path: &Path,
) -> Result<PlanningInput, Failure> {
    let mut jobs = input::jobs(text, path)?;
    let ClusterWithNotes { mut cluster, mut notes } = input::cluster(context, &args.source)?;
    if args.source.is_live() {
        slow_nodes::keep_off(context, &cluster, &mut jobs);
    }
    let access = keep_partitions(&mut cluster, &jobs, context, &mut notes)?;
    notes.extend(file_kind::note_examples(text, path, "submit"));
    type_names::note_misspelt(&cluster, &jobs, &mut notes);
    after::note_unknown(&jobs, &mut notes);
    notes.extend(goals::remarks(&jobs, state::now(context)));
    let live = args.source.is_live();
    let types = Problem::types_of(&cluster);
    let speeds = args.speeds.matrix(context, &jobs, &types)?;
    let request = OfferRequest {
        wanted: args.capacity,
        is_live: live,
        cluster: &cluster,
        access: &access,
        jobs: &jobs,
        speeds: &speeds,
    };
    let OfferedGpus { capacity, mut problem, could_use_held } = offer(&request, context, &mut notes)?;
    notes.extend(speeds::advice(context, &jobs, &problem));
    problem.seed = args.policy.seed();
    problem.objective = args.policy.objective();
    for (model, job) in problem.jobs.iter_mut().zip(&jobs) {
        // A plan starts now.
        if let Some(Deadline::At(at)) = job.deadline {
            model.aims.deadline = Some(problem.now.after(at.since(state::now(context))));
        }
    }
    for (model, job) in problem.jobs.iter_mut().zip(&jobs) {
        if !job.after.is_empty() {
            model.progress.waits = Eligibility::Never;
        }
    }
    Ok(PlanningInput { jobs, cluster, capacity, access, could_use_held, notes, problem })
}

/// Returns a policy's checked plan, and the time that it took.
///
/// # Errors
/// If the policy does not support the problem, or violates its rules.
pub(crate) fn solve(
    name: &str,
    args: &PlanningArgs,
    context: &Context,
    jobs: &[Job],
    problem: &Problem,
) -> Result<(CheckedPlan, Seconds), Failure> {
    replicas::refuse_policy(name, &args.policy.words(), problem)?;
    let mut policy = args.policy.find(name, Parameters::default())?;
    let _progress = ProgressLine::start(format!("{name}: planning (jobs: {})", problem.jobs.len()));
    let start = context.clock.elapsed();
    let taken = || context.clock.elapsed().saturating_sub(start);
    let usual = policy.needs_budget().then_some(USUAL_BUDGET);
    let stop = args.stop(context, usual);
    let plan = policy.decide(problem, &Budget::until(&stop));
    let time = taken();
    let plan = plan.map(|plan| with_those_behind(jobs, plan));
    let plan =
        plan.and_then(|plan| hsched_plan::checked(policy.name(), problem, plan)).map_err(
            |error| match error {
                PolicyError::BreaksRules { .. } => Failure::from_error(Exit::Internal, &error)
                    .hint("please report this, with the job and cluster files"),
                PolicyError::TooLarge { .. } | PolicyError::SingleGpus { .. } => {
                    Failure::from_error(Exit::Failed, &error).id(ErrorId::PolicyUnfit)
                }
            },
        )?;
    Ok((plan, Seconds(time.as_secs_f64())))
}

/// Defers all jobs with predecessors, because policies do not decide about them.
fn with_those_behind(jobs: &[Job], mut plan: Plan) -> Plan {
    plan.changes.retain(|(job, _)| jobs[*job].after.is_empty());
    plan.changes.extend(those_behind(jobs));
    plan
}

/// Returns the decisions to defer jobs with predecessors.
pub(crate) fn those_behind(jobs: &[Job]) -> Vec<(usize, Decision)> {
    let defer = |(number, job): (usize, &Job)| Some((number, Decision::Defer { why: behind(job)? }));
    jobs.iter().enumerate().filter_map(defer).collect()
}

/// The bound of a plan's jobs, and the time for it if separate from the policy's.
pub(crate) type ProvenBound = (Bound, Option<Seconds>);

/// Returns a lower bound for all plans of the placed jobs: the policy's own, one of `known` for the same
/// jobs, or a new one, which is added to `known`. `None` if none is wanted or nothing is placed.
pub(crate) fn bound(
    args: &PlanningArgs,
    context: &Context,
    problem: &Problem,
    plan: &CheckedPlan,
    known: &mut Vec<(Vec<usize>, ProvenBound)>,
) -> Option<ProvenBound> {
    let jobs = plan.placed();
    if let Some(bound) = &plan.plan().bound {
        let proven = (bound.clone(), None);
        known.push((jobs, proven.clone()));
        return Some(proven);
    }
    if args.no_bound {
        return None;
    }
    if let Some((_, proven)) = known.iter().find(|(others, _)| *others == jobs) {
        return Some(proven.clone());
    }
    let _progress = ProgressLine::start("computing a lower bound".to_owned());
    let start = context.clock.elapsed();
    let taken = || context.clock.elapsed().saturating_sub(start);
    let bound = hsched_plan::bound(problem, &jobs, &args.stop(context, Some(USUAL_BUDGET)))?;
    let proven = (bound, Some(Seconds(taken().as_secs_f64())));
    known.push((jobs, proven.clone()));
    Some(proven)
}
