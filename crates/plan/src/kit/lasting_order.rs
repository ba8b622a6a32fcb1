//! Running jobs in blocks, in an order that persists between decisions.
//!
//! When a job is offered its fastest type with room, it keeps its GPUs if they fit and no better type has
//! room. For a whole block of jobs, this holds as long as the GPUs left before it are within precomputed
//! limits. A decision therefore checks the blocks, and single jobs only where something changes.

use crate::kit::line::OrderKey;
use crate::kit::scheduling_state::{SchedulingState, Seat};
use crate::{Problem, ProblemChanges};

/// Running jobs by rank.
#[derive(Default)]
pub struct LastingOrder {
    blocks: Vec<JobBlock>,
    /// The rank of each job that is in a block.
    ranks: Vec<Option<OrderKey>>,
}

/// Consecutive jobs, at least one.
pub(super) struct JobBlock {
    jobs: Vec<(OrderKey, usize)>,
    limits: Option<BlockLimits>,
}

/// Limits on the remaining GPUs by type within which all jobs of a block keep their GPUs.
struct BlockLimits {
    /// The GPUs that the jobs hold together: the lower limit.
    held: Vec<u32>,
    /// From this number of free GPUs on, one of the jobs would change to this type.
    tempting: Vec<u32>,
}

/// Maximum number of jobs in a block.
const MOST: usize = 128;

impl LastingOrder {
    /// Updates the changed jobs after the state was updated; `rank` returns the rank of a running job.
    pub fn sync(&mut self, problem: &Problem, state: &SchedulingState, rank: impl Fn(&Seat) -> OrderKey) {
        let all: Vec<usize>;
        let changed: Vec<usize> = match &problem.changed {
            ProblemChanges::All => {
                *self = Self::default();
                all = problem.present().collect();
                all
            }
            ProblemChanges::Since { came, left, other } => {
                left.iter().chain(came).chain(other).copied().collect()
            }
        };
        for job in changed {
            let running = state.line.is_running(job).then(|| rank(&state.seats[job]));
            self.set(job, running);
        }
    }

    /// Changes the rank of a job, or removes it if it does not run.
    pub fn set(&mut self, job: usize, rank: Option<OrderKey>) {
        if self.ranks.len() <= job {
            self.ranks.resize(job + 1, None);
        }
        if let Some(before) = std::mem::replace(&mut self.ranks[job], rank) {
            self.remove((before, job));
        }
        if let Some(rank) = rank {
            self.insert((rank, job));
        }
    }

    fn remove(&mut self, place: (OrderKey, usize)) {
        let at = self.blocks.partition_point(|block| block.last() < place);
        let Some(block) = self.blocks.get_mut(at) else { return };
        if let Ok(position) = block.jobs.binary_search(&place) {
            block.jobs.remove(position);
            block.limits = None;
            if block.jobs.is_empty() {
                self.blocks.remove(at);
            }
        }
    }

    fn insert(&mut self, place: (OrderKey, usize)) {
        let at = self.blocks.partition_point(|block| block.last() < place);
        // A rank after all others belongs to the last block.
        let at = at.min(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(JobBlock { jobs: vec![place], limits: None });
            return;
        };
        let position = block.jobs.partition_point(|other| *other < place);
        block.jobs.insert(position, place);
        block.limits = None;
        if block.jobs.len() > MOST {
            let jobs = block.jobs.split_off(MOST / 2);
            self.blocks.insert(at + 1, JobBlock { jobs, limits: None });
        }
    }

    /// Returns all running jobs in order.
    pub fn all(&self) -> Vec<(OrderKey, usize)> {
        self.blocks.iter().flat_map(|block| &block.jobs).copied().collect()
    }

    /// Returns the blocks in order, with their limits.
    pub(super) fn blocks(&mut self, state: &SchedulingState) -> &[JobBlock] {
        for block in &mut self.blocks {
            if block.limits.is_none() {
                block.limits = Some(BlockLimits::of(&block.jobs, state));
            }
        }
        &self.blocks
    }
}

impl JobBlock {
    pub(super) fn jobs(&self) -> &[(OrderKey, usize)] {
        &self.jobs
    }

    /// Returns the key of the block's last job.
    pub(super) fn last(&self) -> (OrderKey, usize) {
        self.jobs.last().copied().unwrap_or_default()
    }

    /// Returns whether all jobs of the block keep their GPUs; if so, subtracts these GPUs from the remaining
    /// room.
    pub(super) fn keeps_all(&self, room: &mut [u32]) -> bool {
        let Some(BlockLimits { held, tempting }) = &self.limits else { return false };
        let keeps =
            room.iter().zip(held).zip(tempting).all(|((room, held), most)| held <= room && room < most);
        if keeps {
            room.iter_mut().zip(held).for_each(|(room, held)| *room -= held);
        }
        keeps
    }
}

impl BlockLimits {
    fn of(jobs: &[(OrderKey, usize)], state: &SchedulingState) -> Self {
        let types = state.floor.total.len();
        let mut limits = Self { held: vec![0; types], tempting: vec![u32::MAX; types] };
        for &(_, job) in jobs {
            let (Seat { now, stick, .. }, rates) = (state.seats[job], state.rates(job));
            let Some(now) = now else {
                // The job holds other GPUs than it requests, so it is checked each time.
                limits.tempting.fill(0);
                return limits;
            };
            let sticky = rates.speeds[now] * stick;
            for gpu_type in (0..types).filter(|&gpu_type| gpu_type != now) {
                let speed = rates.speeds[gpu_type];
                // Of equally fast types, the last is used.
                if speed > sticky || (speed == sticky && gpu_type > now && speed > 0.0) {
                    let from = limits.held[gpu_type] + rates.gpus(gpu_type);
                    limits.tempting[gpu_type] = limits.tempting[gpu_type].min(from);
                }
            }
            limits.held[now] += rates.gpus(now);
            if sticky <= 0.0 {
                limits.tempting.fill(0);
                return limits;
            }
        }
        limits
    }
}
