//! Traces: jobs with the times at which they arrive, on a cluster.

use crate::model::{Job, Seconds, Time};
use crate::policy::{JobModel, Paces, Problem};

/// Jobs that arrive over time, and what they run on.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The cluster, without jobs.
    pub problem: Problem,
    /// In the order of their arrival.
    pub jobs: Vec<Entry>,
    /// How fast each job is at best.
    pub paces: Paces,
}

/// A job of a trace.
#[derive(Clone, Debug)]
pub struct Entry {
    pub model: JobModel,
    /// From the trace's start.
    pub arrival: Time,
    /// What a restart costs it, where its owner said.
    pub restart_cost: Option<Seconds>,
    /// Whether its owner says how it saves its progress.
    pub saves: bool,
    /// How often it is tried again after a failure.
    pub retries: u32,
    /// Its place in the file.
    pub place: usize,
}

impl Trace {
    /// Returns the trace of the jobs of a problem, none of which holds GPUs; `jobs` are those of its file.
    #[must_use]
    pub fn new(mut problem: Problem, jobs: &[Job]) -> Self {
        let models = std::mem::take(&mut problem.jobs);
        let entry = |(place, (model, job)): (usize, (JobModel, &Job))| Entry {
            model,
            arrival: Time(job.arrival.0),
            restart_cost: job.launch.checkpoint.restart_cost,
            saves: job.launch.checkpoint.is_given(),
            retries: job.retries,
            place,
        };
        let jobs = models.into_iter().zip(jobs).enumerate().map(entry).collect();
        Self::of_entries(problem, jobs)
    }

    /// Returns the trace of these jobs on the GPUs of a problem without jobs.
    #[must_use]
    pub fn of_entries(problem: Problem, mut jobs: Vec<Entry>) -> Self {
        jobs.sort_by(|a, b| a.arrival.0.total_cmp(&b.arrival.0).then(a.place.cmp(&b.place)));
        let paces = Paces::new(&problem, jobs.iter().map(|entry| &entry.model));
        Self { problem, jobs, paces }
    }

    /// Returns the cluster with all jobs, each with its arrival.
    #[must_use]
    pub fn whole(&self) -> Problem {
        let mut problem = self.problem.clone();
        let job = |entry: &Entry| {
            let mut model = entry.model.clone();
            model.standing.arrival = entry.arrival;
            model
        };
        problem.jobs = self.jobs.iter().map(job).collect();
        problem
    }

    /// Returns when the first job arrives.
    #[must_use]
    pub fn first_arrival(&self) -> Time {
        self.jobs.first().map_or(Time(0.0), |entry| entry.arrival)
    }

    /// Returns what the jobs ask for over what the cluster has while they arrive: GPU time on the fastest type over
    /// the cluster's GPUs, counted in GPUs of that type. `None` where all arrive at once or none can run.
    #[must_use]
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
            let (Some(epoch), Some(own)) = (epoch, pace.single[fastest]) else { continue };
            asked += f64::from(entry.model.asks) * entry.model.standing.work * epoch;
            count += 1.0;
            for (sum, rate) in relative.iter_mut().zip(&pace.single) {
                *sum += rate.unwrap_or(0.0) / own;
            }
        }
        let offered = self.problem.offered();
        let equivalents: f64 =
            offered.iter().zip(&relative).map(|(count, sum)| f64::from(*count) * sum).sum::<f64>() / count;
        (span > 0.0 && equivalents > 0.0).then(|| asked / (equivalents * span))
    }

    /// Returns the trace with its arrivals spread so that it has this load; `None` where it has none.
    #[must_use]
    pub fn with_load(&self, load: f64) -> Option<Self> {
        let (factor, first) = (self.load()? / load, self.first_arrival());
        let mut trace = self.clone();
        for entry in &mut trace.jobs {
            entry.arrival = first.after(Seconds(entry.arrival.since(first).0 * factor));
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
