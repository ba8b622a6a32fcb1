//! Selects the jobs that a plan can place, and how many workers they can use together.
//!
//! The paper gives every job a worker and uses every worker. If that is impossible (more jobs than GPUs, a
//! limit, a type that no job can use), this module finds the nearest problem for which it is possible.

mod fit;

use self::fit::{GpuNeeds, fits, is_of_blocks, usable_workers};
use crate::dual::Dual;
use crate::due_order::{self, DueJob};
use crate::fairness::EqualShare;
use crate::replica::NodeShapes;
use crate::throughput::UnusableType;
use crate::{Exclusion, JobModel, Objective, Problem, ReplicaModel, Sharing, TypeModel, Verdict};

/// The jobs to place and the workers to use.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Admission {
    /// Jobs to place, ascending.
    pub jobs: Vec<usize>,
    /// Number of workers to use: at first the most that these jobs can use, fewer after failed attempts.
    pub workers: u32,
    /// The verdicts of the jobs not admitted.
    left_out: Vec<(usize, Verdict)>,
    /// Number of times that the number of workers was lowered for these jobs.
    attempts: u32,
    /// Whether it is known that each job has legal GPUs if it is alone.
    is_checked: bool,
}

/// Number of times that the number of workers is lowered by one before larger steps are taken.
const PATIENCE: u32 = 64;

impl Admission {
    fn new(problem: &Problem) -> Self {
        Self::without(problem, &[])
    }

    /// Admits all jobs but the impossible ones if they fit with their minimum of GPUs; otherwise as many as
    /// fit, in the order of [`most_urgent_first`].
    fn without(problem: &Problem, impossible: &[usize]) -> Self {
        let mut left_out = Vec::new();
        let mut candidates = Vec::new();
        let (offered, nodes) = (problem.offered(), NodeShapes::offered(problem));
        for (job, model) in problem.jobs.iter().enumerate() {
            let is_impossible = impossible.binary_search(&job).is_ok();
            let why = || is_impossible.then(cannot_split);
            match alone(problem, model, &offered, &nodes).or_else(why) {
                Some(verdict) => left_out.push((job, verdict)),
                None => candidates.push(job),
            }
        }
        let mut admitted = candidates.clone();
        if !fits(problem, &admitted) {
            candidates = most_urgent_first(problem, &candidates);
            admitted.clear();
            let is_plain = !candidates.iter().any(|&job| is_of_blocks(problem, job));
            let mut needs = GpuNeeds::least(problem, &[]);
            let mut waiting = Vec::new();
            let offered: u32 = offered.iter().sum();
            let mut needed = 0;
            for job in candidates {
                let least = problem.jobs[job].min_gpus;
                // A job that needs more GPUs than are left needs no check. There may be thousands of such
                // jobs.
                if needed + least > offered {
                    waiting.push(job);
                    continue;
                }
                admitted.push(job);
                *needs.of(problem, job) += least;
                if if is_plain { needs.fit() } else { fits(problem, &admitted) } {
                    needed += least;
                } else {
                    admitted.pop();
                    *needs.of(problem, job) -= least;
                    waiting.push(job);
                }
            }
            for (place, job) in waiting.into_iter().enumerate() {
                left_out.push((job, waits(place + 1, &problem.jobs[job])));
            }
            admitted.sort_unstable();
        }
        let workers = usable_workers(problem, &admitted);
        Self { jobs: admitted, workers, left_out, attempts: 0, is_checked: false }
    }

    /// Returns the problem without the jobs that have no legal GPUs even if they are alone. Such a job would
    /// make every attempt fail, and it may keep others waiting.
    fn checked(mut self, problem: &Problem, stop: &dyn Fn() -> bool) -> Self {
        let mut impossible = Vec::new();
        while !self.is_checked {
            let more = Dual::impossible(problem, &self.jobs, stop);
            if more.is_empty() {
                self.is_checked = true;
            } else {
                impossible.extend(more);
                impossible.sort_unstable();
                self = Self::without(problem, &impossible);
            }
        }
        self
    }

    /// Returns the nearest smaller problem, for a problem without a legal solution: first with fewer workers,
    /// then without the least urgent job.
    fn relaxed(mut self, problem: &Problem) -> Self {
        let least = self.jobs.iter().map(|&job| problem.jobs[job].least_gpus()).sum();
        if self.workers > least {
            // After some steps of one, each step is half of what remains; on a cluster with thousands of
            // workers, steps of one would take too long.
            self.attempts += 1;
            let room = self.workers - least;
            self.workers -= if self.attempts <= PATIENCE { 1 } else { room.div_ceil(2) };
            return self;
        }
        self.without_the_longest(problem)
    }

    /// Returns the problem without the least urgent job.
    fn without_the_longest(mut self, problem: &Problem) -> Self {
        if let Some(&job) = most_urgent_first(problem, &self.jobs).last() {
            self.jobs.retain(|&other| other != job);
            self.left_out.push((job, cannot_split()));
        }
        self.attempts = 0;
        self.workers = usable_workers(problem, &self.jobs);
        self
    }

    /// Returns all verdicts in job order; `placed` has the verdicts on the admitted jobs, in the order of
    /// `jobs`.
    fn verdicts(self, placed: Vec<Verdict>) -> Vec<Verdict> {
        let mut all: Vec<(usize, Verdict)> = self.jobs.into_iter().zip(placed).chain(self.left_out).collect();
        all.sort_by_key(|&(job, _)| job);
        all.into_iter().map(|(_, verdict)| verdict).collect()
    }
}

/// Returns a verdict for every job: admits jobs and lets `attempt` place them, and relaxes the problem until
/// an attempt succeeds, no job is left, or `stop` returns true. `attempt` gives the verdicts in the order of
/// [`Admission::jobs`], with batches divided as `sharing` says.
///
/// # Errors
/// The first error of `attempt`.
pub(super) fn place<E>(
    problem: &Problem,
    sharing: Sharing,
    stop: &dyn Fn() -> bool,
    attempt: impl FnMut(&Admission) -> Result<Option<Vec<Verdict>>, E>,
) -> Result<Vec<Verdict>, E> {
    relaxing(problem, sharing, stop, Admission::relaxed, attempt)
}

/// Like [`place`], for an `attempt` that chooses the number of workers itself: if it fails, only the number
/// of jobs is reduced.
pub(super) fn place_jobs<E>(
    problem: &Problem,
    stop: &dyn Fn() -> bool,
    attempt: impl FnMut(&Admission) -> Result<Option<Vec<Verdict>>, E>,
) -> Result<Vec<Verdict>, E> {
    relaxing(problem, Sharing::Balanced, stop, Admission::without_the_longest, attempt)
}

fn relaxing<E>(
    problem: &Problem,
    sharing: Sharing,
    stop: &dyn Fn() -> bool,
    relax: impl Fn(Admission, &Problem) -> Admission,
    mut attempt: impl FnMut(&Admission) -> Result<Option<Vec<Verdict>>, E>,
) -> Result<Vec<Verdict>, E> {
    let mut admission = Admission::new(problem);
    while !admission.jobs.is_empty() {
        if let Some(placed) = attempt(&admission)? {
            return Ok(admission.verdicts(placed));
        }
        if stop() {
            let reason = "the time budget ran out before a plan was found".to_owned();
            let waiting = vec![Verdict::Defer { reason }; admission.jobs.len()];
            return Ok(admission.verdicts(waiting));
        }
        let jobs = admission.jobs.clone();
        // Equal shares may be legal where balanced ones are not.
        if sharing == Sharing::Balanced {
            admission = admission.checked(problem, stop);
        }
        if admission.jobs == jobs {
            admission = relax(admission, problem);
        }
    }
    Ok(admission.verdicts(Vec::new()))
}

fn cannot_split() -> Verdict {
    let reason =
        "the global batch cannot be split over the available GPUs: it is too small, or they are too unequal";
    Verdict::Defer { reason: reason.into() }
}

fn waits(place: usize, job: &JobModel) -> Verdict {
    let min_gpus = job.min_gpus;
    let left = if job.replica.is_some() {
        let replicas = if min_gpus == 1 { "a replica".to_owned() } else { format!("{min_gpus} replicas") };
        format!("no room is left for {replicas} beside the other jobs")
    } else if min_gpus == 1 {
        "no GPU is left".to_owned()
    } else {
        format!("fewer than {min_gpus} GPUs are left")
    };
    Verdict::Defer { reason: format!("{left}; number {place} among the waiting jobs") }
}

/// Returns why a job could not be placed even on its own; `None` if it could.
pub fn refusal(problem: &Problem, job: usize) -> Option<String> {
    alone(problem, &problem.jobs[job], &problem.offered(), &NodeShapes::offered(problem))?
        .reason()
        .map(str::to_owned)
}

/// Advice for a job with an unknown speed.
const ADVICE: &str = ": add throughput to the job or run hsched probe; if its speed on another GPU type is known, --estimate all is enough";
/// Advice if an unknown speed may be the reason.
const SPEED: &str = "that throughput has one of these types";

fn alone(problem: &Problem, job: &JobModel, offered: &[u32], nodes: &NodeShapes) -> Option<Verdict> {
    let name = |ty: usize| problem.labels[ty].as_str();
    let usable: Vec<usize> = (0..job.types.len()).filter(|&ty| job.types[ty].is_some()).collect();
    if problem.gpu_types.is_empty() {
        return Some(Verdict::Reject { reason: "the cluster has no GPUs".into() });
    }
    if usable.is_empty() {
        // If no GPUs are offered, there are no reasons by type. The message then lists the types of the whole
        // cluster.
        let reasons = job.unusable.iter().map(|(ty, reason)| format!("{}: {reason}", name(*ty)));
        let reason = if job.unusable.is_empty() {
            let all: Vec<&str> = (0..problem.gpu_types.len()).map(name).collect();
            format!(
                "cannot use any GPU type of this cluster ({}): check gpu_types and precision, and {SPEED}",
                all.join(", ")
            )
        } else {
            let lacks = |(_, why): &(usize, Exclusion)| *why == Exclusion::Speed(UnusableType::NoThroughput);
            let advice = if job.unusable.iter().any(lacks) { ADVICE } else { "" };
            let reasons = reasons.collect::<Vec<_>>().join("; ");
            format!("cannot use any available GPU type ({reasons}){advice}")
        };
        return Some(Verdict::Reject { reason });
    }
    if job.min_gpus > job.max_gpus {
        let (least, most) = (job.min_gpus, job.max_gpus);
        let (key, what) =
            if job.replica.is_some() { ("min_replicas", "replicas") } else { ("min_gpus", "ranks") };
        let reason =
            format!("{key} is {least}, but its limits and global batch limit the number of {what} to {most}");
        return Some(Verdict::Reject { reason });
    }
    let most = |counts: &[u32]| {
        let of = |ty: &usize| u64::from(counts[*ty]);
        let single = |ty: &&usize| job.types[**ty].is_some_and(|model| model.single_rank);
        let whole: u64 = usable.iter().filter(|ty| !single(ty)).map(of).sum();
        let slice = usable.iter().filter(single).map(of).sum::<u64>().min(1);
        whole.max(slice)
    };
    if let Some(replica) = &job.replica {
        return alone_in_replicas(problem, job, replica, &usable, nodes);
    }
    let least = u64::from(job.min_gpus);
    let needs = || {
        let types: Vec<&str> = usable.iter().map(|&ty| name(ty)).collect();
        match (types.as_slice(), least) {
            ([only], 1) => format!("needs a {only}"),
            ([only], _) => format!("needs {least} {only}"),
            (_, 1) => format!("needs a GPU of type {}", types.join(", ")),
            _ => format!("needs {least} GPUs of types {}", types.join(", ")),
        }
    };
    let (ever, now) = (most(&problem.ceiling), most(offered));
    if least > ever {
        let needs = needs();
        let reason = format!("{needs}; a job can have at most {ever} on this cluster");
        return Some(Verdict::Reject { reason });
    }
    if least > now {
        let reason = format!("{}; {now} available now", needs());
        return Some(Verdict::Defer { reason });
    }
    without_memory(problem, job, offered)
}

/// Returns why a job's GPUs can never hold its global batch, or not now; `None` if they can.
fn without_memory(problem: &Problem, job: &JobModel, offered: &[u32]) -> Option<Verdict> {
    let batch = job.global_batch;
    let reason = |room: u64, when: &str| {
        format!(
            "its global batch is {batch}, but its GPUs hold at most {room} samples{when}: set accumulate: true, or raise max_batch or the number of GPUs"
        )
    };
    let (ever, now) = (most_samples(job, &problem.ceiling), most_samples(job, offered));
    if batch > ever {
        return Some(Verdict::Reject { reason: reason(ever, "") });
    }
    (batch > now).then(|| Verdict::Defer { reason: reason(now, " now") })
}

/// Returns the maximum number of samples of a step that a job with these GPUs by type can hold.
fn most_samples(job: &JobModel, counts: &[u32]) -> u64 {
    if job.accumulate {
        return u64::MAX;
    }
    let room = |model: &TypeModel| {
        let memory = model.max_batch.unwrap_or(u64::MAX);
        memory - memory % job.batch_quantum
    };
    let types = job.types.iter().zip(counts).filter(|(_, count)| **count > 0);
    let mut types: Vec<(u64, u32, bool)> = types
        .filter_map(|(model, count)| model.map(|model| (room(&model), *count, model.single_rank)))
        .collect();
    types.sort_unstable_by(|a, b| b.cmp(a));
    let (mut sum, mut left) = (0_u64, job.max_gpus);
    for (room, count, _) in types.iter().filter(|(.., single)| !single) {
        let count = left.min(*count);
        sum = sum.saturating_add(u64::from(count).saturating_mul(*room));
        left -= count;
    }
    let slices = types.iter().filter(|(.., single)| *single).map(|(room, ..)| *room);
    slices.fold(sum, u64::max)
}

/// Returns why a job could not have its minimum number of replicas even on its own; `None` if it could.
fn alone_in_replicas(
    problem: &Problem,
    job: &JobModel,
    replica: &ReplicaModel,
    usable: &[usize],
    nodes: &NodeShapes,
) -> Option<Verdict> {
    let least = u64::from(job.min_gpus);
    let most = job.most_replicas(nodes);
    let slices = usable.iter().any(|&ty| job.types[ty].is_some_and(|model| model.single_rank));
    let now: u64 = usable.iter().map(|&ty| u64::from(most[ty])).sum();
    let now = if slices && least > 1 { whole_gpus(job, &most) } else { now };
    let size = |&ty: &usize| format!("{} {}", replica.sizes[ty], problem.labels[ty]);
    let sizes = usable.iter().map(size).collect::<Vec<_>>().join(" or ");
    let on_node = if replica.same_node { " on one node" } else { "" };
    if least > replica.ever {
        let largest = |&ty: &usize| {
            let most = replica.largest.get(ty).copied().unwrap_or(0);
            format!("{most} {}", problem.labels[ty])
        };
        let largest = usable.iter().map(largest).collect::<Vec<_>>().join(" or ");
        let reason = if replica.same_node && replica.ever == 0 {
            format!("a replica needs {sizes}{on_node}; the largest has {largest}")
        } else {
            let ever = replica.ever;
            format!("needs {least} replicas of {sizes}{on_node}; this cluster can hold {ever}")
        };
        return Some(Verdict::Reject { reason });
    }
    (least > now).then(|| {
        let replicas = if least == 1 { "a replica".to_owned() } else { format!("{least} replicas") };
        let reason = format!("needs {replicas} of {sizes}{on_node}; {now} can be placed now");
        Verdict::Defer { reason }
    })
}

/// Returns the number of these replicas, given by type, that run on whole GPUs.
fn whole_gpus(job: &JobModel, most: &[u32]) -> u64 {
    let whole =
        most.iter().zip(&job.types).filter(|(_, model)| model.is_some_and(|model| !model.single_rank));
    whole.map(|(&count, _)| u64::from(count)).sum()
}

/// Returns the jobs in the order in which to run them if they cannot all run at once: shortest first
/// minimises the mean completion time, and shortest relative to weight minimises the weighted mean. With
/// deadlines, the order minimises first the number of late jobs and then the mean.
fn most_urgent_first(problem: &Problem, jobs: &[usize]) -> Vec<usize> {
    if problem.objective == Objective::Deadlines {
        return fewest_late_first(problem, jobs);
    }
    by_time(problem, jobs, |job| problem.objective.weight(&problem.jobs[job]))
}

/// Returns the jobs in an order that minimises the number of late jobs if the cluster trains them one after
/// another.
fn fewest_late_first(problem: &Problem, jobs: &[usize]) -> Vec<usize> {
    let share = EqualShare::new(problem, jobs.len());
    let all: u32 = problem.offered().iter().sum();
    let piece = |&job: &usize| {
        let model = &problem.jobs[job];
        let time = share.full_cluster_time(job);
        // A job that cannot use all GPUs takes less of the cluster, for longer.
        let alone = time * f64::from(all) / f64::from(model.max_gpus.clamp(1, all.max(1)));
        let within = model.aims.deadline.map_or(f64::INFINITY, |deadline| deadline.0 - problem.now.0);
        DueJob { time, within: within - (alone - time) }
    };
    let pieces: Vec<DueJob> = jobs.iter().map(piece).collect();
    due_order::order(&pieces).into_iter().map(|number| jobs[number]).collect()
}

/// Returns the jobs in ascending order of their run time alone on the whole cluster.
pub(super) fn shortest_first(problem: &Problem, jobs: &[usize]) -> Vec<usize> {
    by_time(problem, jobs, |_| 1.0)
}

fn by_time(problem: &Problem, jobs: &[usize], weight: impl Fn(usize) -> f64) -> Vec<usize> {
    let share = EqualShare::new(problem, jobs.len());
    let timed = jobs.iter().map(|&job| (share.full_cluster_time(job) / weight(job), job));
    let mut timed: Vec<(f64, usize)> = timed.collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    timed.into_iter().map(|(_, job)| job).collect()
}
