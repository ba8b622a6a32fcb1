//! The policy `allox`: matches jobs to GPU types and positions in their order so that the sum of completion
//! times is minimal.

use hsched_plan::kit::Want;
use hsched_plan::kit::by_arrival;
use hsched_plan::kit::{SchedulingState, fastest};
use hsched_plan::solve::Transport;
use hsched_plan::{Budget, Entry, Knowledge, Make, Plan, Policy, PolicyError, Problem, Repacking};

pub(super) const ALLOX: Entry = Entry {
    name: "allox",
    make: Make::Policy { make: |_| Ok(Box::new(Allox::staying())), watched: false },
    objectives: &[],
    flags: &[],
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    knows_replicas: false,
};

/// The variant that also matches running jobs again.
pub(super) const ALLOX_P: Entry = Entry {
    name: "allox-p",
    make: Make::Policy { make: |_| Ok(Box::new(Allox::preemptive())), watched: false },
    ..ALLOX
};

/// `AlloX`, or its variant that also matches running jobs again.
struct Allox {
    name: &'static str,
    preempts: bool,
    state: SchedulingState,
}

/// A type and a position in its order, counted from the end: 1 for the jobs that run last.
struct MatchColumn {
    gpu_type: usize,
    from_end: u32,
}

impl Allox {
    fn staying() -> Self {
        Self { name: "allox", preempts: false, state: SchedulingState::default() }
    }

    fn preemptive() -> Self {
        Self { name: "allox-p", preempts: true, state: SchedulingState::default() }
    }

    /// Returns jobs with their matched types, those with the earliest positions first.
    fn matching(&self, problem: &Problem, jobs: &[usize]) -> Vec<(usize, usize)> {
        let state = &self.state;
        let asked: u32 = jobs.iter().map(|&job| state.rates(job).asks).sum();
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        // Number of jobs that run side by side on a type: its GPUs divided by the mean request of a job.
        let beside = |gpu_type: usize| {
            let exact = u64::from(state.floor.total[gpu_type]) * u64::from(count) / u64::from(asked.max(1));
            u32::try_from(exact).unwrap_or(u32::MAX).max(1)
        };
        let types = 0..state.floor.total.len();
        let wide: u32 = types.clone().map(beside).sum();
        let levels = count.div_ceil(wide.max(1)) + 1;
        let column = |gpu_type| (1..=levels).map(move |from_end| MatchColumn { gpu_type, from_end });
        let columns: Vec<MatchColumn> = types.flat_map(column).collect();
        let time = |job: usize, gpu_type: usize| {
            problem.jobs[job].progress.left(problem.now) / state.rates(job).speeds[gpu_type]
        };
        let value =
            |job: usize, column: &MatchColumn| -time(job, column.gpu_type) * f64::from(column.from_end);
        let values = jobs.iter().flat_map(|&job| columns.iter().map(move |column| value(job, column)));
        let mut transport = Transport::new(values.collect(), columns.len());
        let capacity: Vec<u32> = columns.iter().map(|column| beside(column.gpu_type)).collect();
        if !transport.solve(&vec![1; jobs.len()], &capacity) {
            return Vec::new();
        }
        let mut matched: Vec<(u32, f64, usize, usize)> = Vec::new();
        for (row, &job) in jobs.iter().enumerate() {
            if let Some(column) = transport.row(row).iter().position(|units| *units > 0) {
                let MatchColumn { gpu_type, from_end } = columns[column];
                matched.push((from_end, time(job, gpu_type), job, gpu_type));
            }
        }
        // Jobs in positions farther from the end come first.
        matched.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        matched.into_iter().map(|(_, _, job, gpu_type)| (job, gpu_type)).collect()
    }
}

impl Policy for Allox {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        self.state.sync(problem, &|model, _| by_arrival(model.progress.arrival));
        let mut running = self.state.line.running().to_vec();
        running.retain(|_| self.preempts);
        let state = &self.state;
        let able = |job: &usize| state.rates(*job).best > 0.0;
        let mut jobs: Vec<usize> = running.into_iter().chain(state.line.waiting()).filter(able).collect();
        jobs.sort_by_key(|&job| (by_arrival(problem.jobs[job].progress.arrival), job));
        let mut room = if self.preempts { state.floor.total.clone() } else { state.floor.idle.clone() };
        let mut chosen: Vec<Option<usize>> = vec![None; problem.jobs.len()];
        for (job, gpu_type) in self.matching(problem, &jobs) {
            let rates = state.rates(job);
            if rates.speeds[gpu_type] > 0.0 && room[gpu_type] >= rates.asks {
                room[gpu_type] -= rates.asks;
                chosen[job] = Some(gpu_type);
            }
        }
        // The jobs that did not get their matched type get the GPUs that remain, the shortest jobs first.
        let time = |job: usize| problem.jobs[job].progress.left(problem.now) / state.rates(job).best;
        let mut rest: Vec<usize> = jobs.iter().copied().filter(|&job| chosen[job].is_none()).collect();
        rest.sort_by(|&a, &b| time(a).total_cmp(&time(b)));
        for job in rest {
            chosen[job] = fastest(state.rates(job), &room, None);
            if let Some(gpu_type) = chosen[job] {
                room[gpu_type] -= state.rates(job).asks;
            }
        }
        let want = |job: usize| match chosen[job] {
            Some(gpu_type) if state.type_of(job) == Some(gpu_type) => None,
            Some(gpu_type) => Some(Want::place(job, state.counts(job, gpu_type))),
            None => state.line.is_running(job).then(|| Want::wait(job)),
        };
        let wants: Vec<Want> = jobs.into_iter().filter_map(want).collect();
        Ok(Plan { changes: self.state.floor.carry_out(problem, wants, Repacking::Off), ..Plan::default() })
    }
}
