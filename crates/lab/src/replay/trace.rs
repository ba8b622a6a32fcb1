//! Traces: jobs with arrival times on a cluster.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::replay::EarlyRule;
use crate::trace::TraceFile;
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Job, JobName, NodeName, Seconds, Time};
use hsched_plan::{JobModel, Paces, Placement, Problem, Sharing, Slot};

/// Jobs that arrive over time, and their cluster.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The cluster without jobs.
    pub problem: Problem,
    /// In order of arrival.
    pub jobs: Vec<TraceJob>,
    /// The maximum speeds of the jobs.
    pub paces: Paces,
    /// The time at which the replay begins; jobs may have arrived before.
    pub now: Time,
}

/// A job of a trace.
#[derive(Clone, Debug)]
pub struct TraceJob {
    pub model: JobModel,
    /// From time 0, which may be earlier than the start of the replay.
    pub arrival: Time,
    /// The job's restart cost, if the user set one.
    pub restart_cost: Option<Seconds>,
    /// Whether the user stated how the job saves its progress.
    pub saves: bool,
    /// Maximum number of retries after a failure.
    pub retries: u32,
    /// Indices in the file of the jobs that have to complete before this one may start.
    pub after: Vec<usize>,
    /// The job's index in the file.
    pub place: usize,
    /// Maximum number of copies under `hadare`; `None` uses the number of nodes.
    pub copies: Option<u32>,
    /// The rule by which the job may end before its last epoch.
    pub early: Option<EarlyRule>,
    /// The job's progress when the trace begins; `None` if the job has never run.
    pub begun: Option<InitialProgress>,
}

/// A job that ran before the trace begins.
#[derive(Clone, Debug, PartialEq)]
pub struct InitialProgress {
    /// Completed epochs, with fractions.
    pub done: f64,
    /// The GPUs that the job holds when the trace begins, if any.
    pub held: Option<Placement>,
}

/// Why the initial state of the jobs is impossible.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NoSuchState {
    #[error("jobs hold {count} {gpu_type} of {node}, but the node has {there}")]
    TooMany { node: NodeName, gpu_type: GpuType, count: u32, there: u32 },
    #[error("job {job} holds GPUs that the cluster does not have or that the job cannot use")]
    CannotRun { job: JobName },
    #[error("job {job} has begun (steps_done, held), but arrives after the start of the trace")]
    NotThere { job: JobName },
    #[error("job {job} depends on {name}, but there is no such job")]
    ComesAfterNone { job: JobName, name: JobName },
    #[error("job {job} has done {done} of its {steps} steps: no step is left")]
    Done { job: JobName, done: f64, steps: f64 },
}

/// The parts of an entry.
type EntryParts<'a> = (((JobModel, &'a Job), Option<InitialProgress>), Vec<usize>);

/// Returns the indices of each job's predecessors.
fn places_before(jobs: &[Job]) -> Result<Vec<Vec<usize>>, NoSuchState> {
    let places: BTreeMap<&JobName, usize> =
        jobs.iter().zip(0..).map(|(job, place)| (&job.name, place)).collect();
    let place = |job: &Job, name: &JobName| {
        let none = || NoSuchState::ComesAfterNone { job: job.name.clone(), name: name.clone() };
        places.get(name).copied().ok_or_else(none)
    };
    jobs.iter().map(|job| job.after.iter().map(|name| place(job, name)).collect()).collect()
}

impl Trace {
    /// Returns the trace of the jobs of a problem in which they hold no GPUs; `file` has them in the same
    /// order.
    ///
    /// # Errors
    /// If the file gives the jobs an impossible initial state or unknown predecessors (`NoSuchState`).
    pub fn new(mut problem: Problem, file: &TraceFile) -> Result<Self, NoSuchState> {
        let now = Time(file.now.0);
        let begun: Vec<Option<InitialProgress>> = (0..file.jobs.len())
            .map(|job| begun(&problem, job, &file.jobs[job], now))
            .collect::<Result<_, _>>()?;
        check_held(&problem, &begun)?;
        let after = places_before(&file.jobs)?;
        let models = std::mem::take(&mut problem.jobs);
        let entry = |(place, (((model, job), begun), after)): (usize, EntryParts<'_>)| TraceJob {
            model,
            arrival: Time(job.arrival.0),
            restart_cost: job.launch.checkpoint.restart_cost,
            saves: job.launch.checkpoint.is_given(),
            retries: job.retries,
            after,
            copies: job.launch.copies.map(|copies| copies.max),
            place,
            early: EarlyRule::of(job),
            begun,
        };
        let jobs = models.into_iter().zip(&file.jobs).zip(begun).zip(after).enumerate().map(entry).collect();
        Ok(Self { now, ..Self::of_entries(problem, jobs) })
    }

    /// Returns the trace of these jobs on the GPUs of a problem without jobs.
    pub fn of_entries(problem: Problem, mut jobs: Vec<TraceJob>) -> Self {
        jobs.sort_by(|a, b| a.arrival.0.total_cmp(&b.arrival.0).then(a.place.cmp(&b.place)));
        let paces = Paces::new(&problem, jobs.iter().map(|entry| &entry.model));
        Self { problem, jobs, paces, now: Time(0.0) }
    }

    /// Returns whether the trace begins at time 0 and no job ran before.
    pub fn is_whole(&self) -> bool {
        self.now.0 <= 0.0 && self.jobs.iter().all(|entry| entry.begun.is_none())
    }

    /// Returns the cluster with all jobs, each with its arrival.
    pub fn whole(&self) -> Problem {
        let mut problem = self.problem.clone();
        let job = |entry: &TraceJob| {
            let mut model = entry.model.clone();
            model.progress.arrival = entry.arrival;
            model
        };
        problem.jobs = self.jobs.iter().map(job).collect();
        problem
    }

    /// Returns a job whose replicas have several GPUs, if there is one.
    pub fn job_of_replicas(&self) -> Option<&JobName> {
        self.jobs
            .iter()
            .map(|entry| &entry.model)
            .find(|model| model.has_several_gpus())
            .map(|model| &model.name)
    }

    /// Returns the arrival of the first job.
    pub fn first_arrival(&self) -> Time {
        self.jobs.first().map_or(Time(0.0), |entry| entry.arrival)
    }

    /// Returns the ratio of requested to available GPU time during the arrivals, in GPUs of the fastest type.
    /// `None` if all jobs arrive at once or none can run.
    pub fn load(&self) -> Option<f64> {
        let span = self.jobs.last()?.arrival.since(self.first_arrival()).0;
        let fastest = self.fastest_type()?;
        let mut asked = 0.0;
        let mut relative = vec![0.0; self.problem.gpu_types.len()];
        let mut count = 0.0;
        for (job, entry) in self.jobs.iter().enumerate() {
            let pace = self.paces.of(job);
            let epoch =
                pace.asked[fastest].or_else(|| pace.asked.iter().copied().flatten().min_by(f64::total_cmp));
            let (Some(epoch), Some(single)) = (epoch, pace.single[fastest]) else { continue };
            let gpus = entry.model.asks * entry.model.size(fastest);
            asked += f64::from(gpus) * entry.model.progress.work * epoch;
            count += 1.0;
            for (sum, rate) in relative.iter_mut().zip(&pace.single) {
                *sum += rate.unwrap_or(0.0) / single;
            }
        }
        let offered = self.problem.offered();
        let equivalents: f64 =
            offered.iter().zip(&relative).map(|(count, sum)| f64::from(*count) * sum).sum::<f64>() / count;
        (span > 0.0 && equivalents > 0.0).then(|| asked / (equivalents * span))
    }

    /// Returns the trace with its arrivals scaled to this load, and each deadline as long after the arrival
    /// as before; `None` if [`Self::load`] is `None`.
    pub fn with_load(&self, load: f64) -> Option<Self> {
        let (factor, first) = (self.load()? / load, self.first_arrival());
        let mut trace = self.clone();
        for entry in &mut trace.jobs {
            let before = entry.arrival;
            entry.arrival = first.after(Seconds(before.since(first).0 * factor));
            if let Some(deadline) = &mut entry.model.aims.deadline {
                deadline.0 += entry.arrival.0 - before.0;
            }
        }
        Some(trace)
    }

    /// Returns the type on which most jobs are fastest.
    fn fastest_type(&self) -> Option<usize> {
        let types = self.problem.gpu_types.len();
        let mut wins = vec![0_usize; types];
        for job in 0..self.jobs.len() {
            let single = self.paces.of(job).single.iter().enumerate();
            let rated = single.filter_map(|(ty, rate)| Some((*rate.as_ref()?, ty)));
            if let Some((_, ty)) = rated.min_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))) {
                wins[ty] += 1;
            }
        }
        (0..types).filter(|&ty| wins[ty] > 0).min_by_key(|&ty| (std::cmp::Reverse(wins[ty]), ty))
    }
}

/// Returns the progress of a job when the trace begins.
fn begun(
    problem: &Problem,
    number: usize,
    job: &Job,
    now: Time,
) -> Result<Option<InitialProgress>, NoSuchState> {
    if job.steps_done <= 0.0 && job.held.is_empty() {
        return Ok(None);
    }
    let (epochs, steps) = (to_f64(job.epochs), to_f64(job.samples_per_epoch.div_ceil(job.global_batch)));
    if job.steps_done >= steps * epochs {
        return Err(NoSuchState::Done { job: job.name.clone(), done: job.steps_done, steps: steps * epochs });
    }
    if job.arrival.0 > now.0 {
        return Err(NoSuchState::NotThere { job: job.name.clone() });
    }
    let slot = |((node, gpu_type), count): (&(NodeName, GpuType), &u32)| {
        let node = problem.nodes.iter().position(|candidate| candidate.name == *node)?;
        Some(Slot { node, gpu_type: problem.type_on(node, gpu_type)?, count: *count })
    };
    let slots: Option<Vec<Slot>> = job.held.iter().map(slot).collect();
    let held = match slots {
        Some(slots) if slots.is_empty() => None,
        slots => {
            let placement =
                slots.and_then(|slots| Placement::new(problem, number, &slots, Sharing::Balanced));
            Some(placement.ok_or_else(|| NoSuchState::CannotRun { job: job.name.clone() })?)
        }
    };
    Ok(Some(InitialProgress { done: job.steps_done / steps, held }))
}

fn check_held(problem: &Problem, begun: &[Option<InitialProgress>]) -> Result<(), NoSuchState> {
    let mut taken = std::collections::BTreeMap::<(usize, usize), u32>::new();
    let placements = begun.iter().flatten().filter_map(|begun| begun.held.as_ref());
    for slot in placements.flat_map(|placement| &placement.slots) {
        *taken.entry((slot.node, slot.gpu_type)).or_default() += slot.count;
    }
    for ((node, gpu_type), count) in taken {
        let (worker_node, there) = (&problem.nodes[node], problem.nodes[node].gpus[gpu_type]);
        if count > there {
            let (node, gpu_type) = (worker_node.name.clone(), problem.gpu_types[gpu_type].clone());
            return Err(NoSuchState::TooMany { node, gpu_type, count, there });
        }
    }
    Ok(())
}
