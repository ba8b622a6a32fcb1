//! From job file and cluster to a checked plan: what `plan` and `submit` share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueEnum};

use crate::catalogue::{self, recognise};
use crate::clock::Clock;
use crate::commands::context::Context;
use crate::commands::input::{self, Seen};
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{
    Cluster, GpuType, Holdings, Job, JobName, Node, NodeName, Offer, PlacedRank, RankNeeds, Seconds,
};
use crate::policy::{self, CheckedPlan, Memory, Objective, Parameters, Placement, Problem, Rank, Verdict};
use crate::slurm::holdings;
use crate::spec;
use crate::store::{PlanFile, Solved};
use crate::throughput::ThroughputMatrix;
use crate::ui::Progress;

/// What can be said about how to plan.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(super) struct PlanningArgs {
    #[command(flatten)]
    source: input::ClusterArgs,
    /// The algorithm. All use every GPU that the jobs can use; the plan says where fewer would be faster.
    #[arg(long, value_name = "NAME", default_value = policy::names()[0],
          value_parser = PossibleValuesParser::new(policy::names()))]
    policy: String,
    /// Which GPUs may be used [default: limits where the settings have a capacity table, else free].
    #[arg(long, value_enum, value_name = "WHICH")]
    capacity: Option<Capacity>,
    /// Run on the very nodes of the plan, not only on nodes of their kind.
    #[arg(long)]
    pub pin: bool,
    /// What to minimise.
    #[arg(long, value_name = "WHAT", default_value = "mean-jct",
          value_parser = PossibleValuesParser::new(Objective::NAMES.map(|(name, _)| name)))]
    objective: String,
    /// jps: where its range of categories begins, as a fraction of all.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.7, value_parser = fraction)]
    alpha: f64,
    /// jps: weight of speed against fairness.
    #[arg(long, value_name = "FRACTION", default_value_t = 1.0, value_parser = fraction)]
    beta: f64,
    /// jps: how many categories it draws.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// End the search after this long and take the best plan so far, such as 1s or 2m [default: no limit].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,
}

impl PlanningArgs {
    /// Returns whether nothing but `--pin` was said.
    pub(super) fn says_nothing(&self) -> bool {
        #[derive(Parser)]
        struct Nothing {
            #[command(flatten)]
            planning: PlanningArgs,
        }
        let nothing = Nothing::parse_from([""]).planning;
        Self { pin: nothing.pin, ..self.clone() } == nothing
    }
}

/// Which GPUs a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Capacity {
    /// Those free now, and those that jobs of this plan hold.
    Free,
    /// All on nodes that are up.
    Up,
    /// As many of each type as the settings' capacity table says.
    Limits,
}

/// A plan with the problem that it solves.
pub(super) struct Planned {
    pub jobs: Vec<Job>,
    pub problem: Problem,
    pub plan: CheckedPlan,
    pub file: PlanFile,
}

impl Planned {
    /// Returns the exit code of a plan: 3 where a job was rejected or none placed.
    pub(super) fn exit(&self) -> Exit {
        let verdicts = self.plan.verdicts();
        let rejected = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Reject { .. }));
        let placed = verdicts.iter().any(|verdict| verdict.placement().is_some());
        if rejected || !placed { Exit::Unplaced } else { Exit::Done }
    }

    /// Returns the ranks of a placement with their names.
    pub(super) fn named_ranks(&self, placement: &Placement) -> Vec<PlacedRank> {
        let rank = |rank: &Rank| PlacedRank {
            node: self.problem.nodes[rank.node].name.clone(),
            gpu_type: self.problem.gpu_types[rank.gpu_type].clone(),
            local_rank: rank.local_rank,
            batch: rank.batch,
            samples: rank.samples,
        };
        placement.ranks.iter().map(rank).collect()
    }
}

/// Jobs and GPUs, ready to be planned by any policy.
pub(super) struct Desk {
    jobs: Vec<Job>,
    cluster: Cluster,
    capacity: Capacity,
    offer: Offer,
    pub problem: Problem,
}

/// Plans the jobs of a job file.
///
/// # Errors
/// When a file or setting is wrong, Slurm does not answer, or the policy cannot treat the problem.
pub(super) fn plan(
    args: &PlanningArgs,
    context: &Context,
    text: &str,
    path: &Path,
) -> Result<Planned, Failure> {
    let Desk { jobs, cluster, capacity, offer, problem } = prepare(args, context, text, path)?;
    let (plan, solve) = solve(&args.policy, args, context, &problem)?;
    let specs = jobs.iter().map(spec::jobs::to_json).collect();
    let solved = Solved { problem: &problem, plan: &plan, policy: &args.policy, solve };
    let file = PlanFile::new(solved, specs, &offer, &cluster, (capacity.name(), args.pin));
    Ok(Planned { jobs, problem, plan, file })
}

/// Returns the problem of placing the jobs of a job file.
///
/// # Errors
/// When a file or setting is wrong, or Slurm does not answer.
pub(super) fn prepare(
    args: &PlanningArgs,
    context: &Context,
    text: &str,
    path: &Path,
) -> Result<Desk, Failure> {
    let jobs = input::jobs(text, path)?;
    let Seen { mut cluster, mut notes } = input::cluster(context, &args.source)?;
    keep_partitions(&mut cluster, &jobs, context, &mut notes)?;
    note_misspelt_types(&cluster, &jobs, &mut notes);
    let (capacity, offer) = offer(args, context, &cluster, &jobs, notes)?;
    let types = Problem::types_of(&cluster);
    let speeds = ThroughputMatrix::from_job_files(&jobs, &types);
    let rates = (context.settings.network, context.settings.intra_node);
    let mut problem = Problem::new(&cluster, &offer, &jobs, &speeds, rates)
        .map_err(|error| Failure::from_error(Exit::BadInput, &error))?;
    problem.seed = args.seed;
    let named = Objective::NAMES.iter().find(|(name, _)| *name == args.objective);
    problem.objective = named.map_or_else(Objective::default, |&(_, objective)| objective);
    Ok(Desk { jobs, cluster, capacity, offer, problem })
}

/// Returns a policy's plan, checked, and the time that it took.
///
/// # Errors
/// When the policy cannot treat the problem.
pub(super) fn solve(
    name: &str,
    args: &PlanningArgs,
    context: &Context,
    problem: &Problem,
) -> Result<(CheckedPlan, Seconds), Failure> {
    let parameters = Parameters { alpha: args.alpha, beta: args.beta, samples: args.samples };
    let policy = policy::find(name, parameters)
        .ok_or_else(|| Failure::new(Exit::Internal, format!("policy {name} is not registered")))?;
    let _progress = Progress::start(format!("{name} is planning {} jobs", problem.jobs.len()));
    let start = context.clock.elapsed();
    let taken = || context.clock.elapsed().saturating_sub(start);
    let stop = || args.budget.is_some_and(|budget| taken() >= budget);
    let plan = policy.plan(problem, &mut Memory::default(), &stop);
    let time = taken();
    let plan = plan.map_err(|error| Failure::from_error(Exit::Failed, &error))?;
    let plan = policy::verify(problem, plan).map_err(|violations| {
        let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
        let message = format!("policy {name} gave a plan that breaks rules: {}", list.join("; "));
        Failure::new(Exit::Internal, message).hint("please report this with the job and cluster files")
    })?;
    Ok((plan, Seconds(time.as_secs_f64())))
}

/// Returns what the plan may use, with notes on what it may not.
fn offer(
    args: &PlanningArgs,
    context: &Context,
    cluster: &Cluster,
    jobs: &[Job],
    notes: Vec<String>,
) -> Result<(Capacity, Offer), Failure> {
    let settings = &context.settings;
    let usual = if settings.capacity.is_empty() { Capacity::Free } else { Capacity::Limits };
    let capacity = args.capacity.unwrap_or(usual);
    let cpus = jobs.iter().map(|job| job.launch.cpus_per_gpu.unwrap_or(settings.cpus_per_gpu));
    let memory = jobs.iter().filter_map(|job| job.launch.memory_per_gpu.or(settings.memory_per_gpu));
    let needs =
        RankNeeds { cpus: cpus.max().unwrap_or(1).into(), memory: memory.max().map_or(0, |memory| memory.0) };
    let mut notes = notes;
    let mut offer = match capacity {
        Capacity::Free => {
            let mine = held_by(jobs, context, cluster, args.source.is_live(), &mut notes)?;
            Offer::free(cluster, needs, &mine)
        }
        Capacity::Up => Offer::up(cluster, needs),
        Capacity::Limits if settings.capacity.is_empty() => {
            let message = "--capacity limits needs a [capacity] table in the settings";
            return Err(Failure::new(Exit::BadInput, message).hint("or give it here: --set capacity.v100=8"));
        }
        Capacity::Limits => Offer::limits(cluster, needs, &settings.capacity),
    };
    notes.append(&mut offer.notes);
    offer.notes = notes;
    Ok((capacity, offer))
}

/// Returns what running jobs of this plan hold: planned anew, they would give it back.
fn held_by(
    jobs: &[Job],
    context: &Context,
    cluster: &Cluster,
    live: bool,
    notes: &mut Vec<String>,
) -> Result<Holdings, Failure> {
    if !live {
        return Ok(Holdings::new());
    }
    let (queue, unread) = input::queue(context)?;
    notes.extend(unread);
    let own = queue.iter().filter(|queued| {
        let tag = queued.tag();
        tag.is_some_and(|tag| jobs.iter().any(|job| job.name.as_str() == tag.job))
    });
    let own: Vec<_> = own.collect();
    for queued in own.iter().filter(|queued| queued.state.holds_nodes()) {
        let (id, name) = (&queued.shown_id, &queued.name);
        notes.push(format!("job {id} ({name}) is running: its GPUs count as free for this plan"));
    }
    let (held, unclear) = holdings(own.iter().copied(), cluster);
    notes.extend(unclear);
    Ok(held)
}

/// Leaves out nodes on which the jobs' partitions cannot run.
///
/// # Errors
/// When a partition has no node, or the jobs' partitions have different ones: a plan knows one set of nodes.
fn keep_partitions(
    cluster: &mut Cluster,
    jobs: &[Job],
    context: &Context,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let default = cluster.partitions.iter().find(|partition| partition.default);
    let default = default.map(|partition| partition.name.clone());
    let setting = context.settings.partition.clone().or(default);
    let mut nodes_of: BTreeMap<String, (&JobName, BTreeSet<NodeName>)> = BTreeMap::new();
    for job in jobs {
        let Some(names) = job.launch.partition.as_ref().or(setting.as_ref()) else { continue };
        if !nodes_of.contains_key(names) {
            nodes_of.insert(names.clone(), (&job.name, partition_nodes(cluster, names)?));
        }
    }
    let mut sets = nodes_of.iter();
    let Some((names, (job, nodes))) = sets.next() else { return Ok(()) };
    if let Some((other, (other_job, _))) = sets.find(|(_, (_, others))| others != nodes) {
        let message = format!(
            "{job} goes to partition {names}, {other_job} to {other}, and these have different nodes; \
             a plan is for jobs that share their nodes"
        );
        let hint = "plan them from separate job files, or for one partition: submit --partition";
        return Err(Failure::new(Exit::BadInput, message).hint(hint));
    }
    let (names, nodes, all) = (names.clone(), nodes.clone(), cluster.nodes.len());
    cluster.nodes.retain(|node| nodes.contains(&node.name));
    let left_out = all - cluster.nodes.len();
    if left_out > 0 {
        notes.push(format!("{left_out} of {all} nodes left out: not in partition {names}"));
    }
    Ok(())
}

/// Returns the nodes of one partition, or of several with commas; all where the cluster names no partitions.
fn partition_nodes(cluster: &Cluster, names: &str) -> Result<BTreeSet<NodeName>, Failure> {
    let known: BTreeSet<&str> =
        cluster.nodes.iter().flat_map(|node| &node.partitions).map(String::as_str).collect();
    let wanted: BTreeSet<&str> = names.split(',').map(str::trim).collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.is_empty() && !known.contains(*name)) {
        let message = format!("partition {unknown:?} has no node in this cluster");
        let hint = match spec::nearest(unknown, known.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("there are: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        };
        return Err(Failure::new(Exit::BadInput, message).hint(hint));
    }
    let belongs =
        |node: &&Node| known.is_empty() || node.partitions.iter().any(|own| wanted.contains(own.as_str()));
    Ok(cluster.nodes.iter().filter(belongs).map(|node| node.name.clone()).collect())
}

/// Adds a note for each GPU type of a job that neither the cluster nor the catalogue has, but nearly.
///
/// A type of the catalogue is meant for another cluster: a V100 is one letter from a P100.
fn note_misspelt_types(cluster: &Cluster, jobs: &[Job], notes: &mut Vec<String>) {
    let (known, table): (_, Vec<&str>) = (Problem::types_of(cluster), catalogue::names().collect());
    let is_known = |name: &str| known.iter().any(|own| own.as_str().eq_ignore_ascii_case(name));
    for job in jobs {
        let named = job.throughput.keys().chain(job.gpu_types.iter().flatten()).chain(job.max_batch.keys());
        let named: BTreeSet<&str> = named.map(GpuType::as_str).collect();
        for name in named.into_iter().filter(|name| !is_known(name) && recognise(name).is_none()) {
            let own = known.iter().map(GpuType::as_str);
            if let Some(near) = spec::nearest(name, own.chain(table.iter().copied())) {
                notes.push(format!("{}: no GPU type is known as {name}; did you mean {near}?", job.name));
            }
        }
    }
}

impl Capacity {
    fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Up => "up",
            Self::Limits => "limits",
        }
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("must be between 0 and 1".into()) }
}

fn duration(text: &str) -> Result<Duration, String> {
    let time = spec::parse_duration(text).map_err(|error| error.to_string())?;
    Duration::try_from_secs_f64(time.0).map_err(|error| error.to_string())
}
