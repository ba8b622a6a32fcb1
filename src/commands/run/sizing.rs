//! The size of a pool: its leader submits more allocations, cancels pending ones that are not needed, and
//! dismisses idle members.

use std::path::PathBuf;
use std::time::Duration;

use crate::app::pool_size;
use crate::app::slurm::{self, PoolAllocation};
use crate::commands::run::local_run::LocalRun;
use crate::commands::run::turns::RunTurns;
use hsched_engine::pool::{ArrayChange, PoolPlan};
use hsched_engine::store::PoolFolder;
use hsched_engine::{JobState, Phase};
use hsched_local::{Lead, MAY_IDLE};
use hsched_model::Job;

/// Time between queries of the pool's allocations in Slurm while the pool may grow or shrink.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// Delay after a refused submission before the next one.
const AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// The leader's data about the size of its pool.
#[derive(Debug, Default)]
pub(super) struct PoolSizer {
    /// Time of the next query to Slurm.
    not_before: Duration,
    /// Number of pending allocations, or of pending tasks that are needed, when Slurm was last asked.
    pub(super) pending: usize,
    /// The time since which the leader has been idle.
    idle: Option<Duration>,
    /// Slurm's message for the last refused submission.
    pub(super) refusal: Option<String>,
    /// The needed number of running tasks for which the job arrays required no change at the last look;
    /// `None` otherwise.
    pub(super) settled: Option<u32>,
    /// The last limit that Slurm was asked to set for an array.
    pub(super) throttled: Option<ArrayChange>,
}

impl PoolSizer {
    /// Returns whether an allocation is pending.
    pub(super) fn is_growing(&self) -> bool {
        self.pending > 0
    }
}

impl LocalRun<'_> {
    /// Adjusts the pool to the number of allocations that its jobs can use. Returns whether the leader itself
    /// is no longer needed.
    pub(super) fn size(&self, work: &mut RunTurns<'_>, sizing: &mut PoolSizer) -> bool {
        let RunTurns { session, .. } = work;
        let is_here_idle = session.world.here.at_work() == 0;
        let Some(lead) = &mut session.world.lead else { return false };
        let Some(plan) = PoolFolder::find(self.directory.root()).and_then(|pool| pool.plan().ok()) else {
            return false;
        };
        let elapsed = lead.elapsed();
        // A job that needs several GPUs never starts on slots.
        let most = self.rules.most_gpus.unwrap_or(u32::MAX);
        let can_start = |tracked: &&JobState| is_waiting(tracked) && tracked.job.least_gpus() <= most;
        let waiting = session.state.jobs.iter().filter(can_start);
        let waiting: Vec<&Job> = waiting.map(|tracked| &*tracked.job).collect();
        let busy = u32::from(!is_here_idle) + u32::try_from(lead.others.busy()).unwrap_or(u32::MAX - 1);
        let needed = pool_size::needed(busy, &waiting, plan.capacity, plan.slots, plan.at_most());
        let present = 1 + lead.others.at_work().count();
        let is_settled = plan.array.is_none() || sizing.settled == Some(needed);
        if (present != needed as usize || sizing.pending > 0 || !is_settled) && elapsed >= sizing.not_before {
            sizing.not_before = elapsed + BETWEEN_LOOKS;
            match plan.array {
                Some(array) => self.resize_array(&plan, array, needed, elapsed, sizing),
                None => self.resize(&plan, needed as usize, elapsed, sizing),
            }
        }
        // Slurm would start another task in place of an idle one that leaves.
        let may_shrink = waiting.is_empty() && is_settled;
        if may_shrink {
            self.release_idle(lead, elapsed);
        }
        let is_idle = is_here_idle && may_shrink && lead.others.are_busy();
        sizing.idle = sizing.idle.or(Some(elapsed)).filter(|_| is_idle);
        sizing.idle.is_some_and(|since| elapsed.saturating_sub(since) >= MAY_IDLE)
    }

    /// Submits or cancels allocations until the required number is in the queue.
    fn resize(&self, plan: &PoolPlan, needed: usize, elapsed: Duration, sizing: &mut PoolSizer) {
        let jobs = slurm::pool_allocations(self.context, &plan.scripts, self.target.job);
        let Some(mut jobs) = jobs else { return };
        while jobs.len() < needed {
            let is_free = |script: &&PathBuf| jobs.iter().all(|job| job.script != **script);
            let Some(script) = plan.scripts.iter().find(is_free) else { break };
            match slurm::submit(self.context, script, &plan.sbatch) {
                Ok(id) => {
                    sizing.refusal = None;
                    self.telling.log.say(&format!("submitted Slurm job {id} for the pool"));
                    jobs.push(PoolAllocation { job: id, is_pending: true, script: script.clone() });
                }
                Err(error) => {
                    self.is_refused(error.failure.message, elapsed, sizing);
                    break;
                }
            }
        }
        let mut surplus = jobs.len().saturating_sub(needed);
        let mut pending = jobs.iter().filter(|job| job.is_pending).count();
        for job in jobs.iter().rev().filter(|job| job.is_pending) {
            if surplus == 0 {
                break;
            }
            let name = crate::commands::pack::NAME;
            if slurm::cancel_pending(self.context, name, job.job) {
                (surplus, pending) = (surplus - 1, pending - 1);
                self.telling.log.say(&format!("cancelled pending Slurm job {}: no longer needed", job.job));
            }
        }
        sizing.pending = pending;
    }

    /// Notes a refused submission; the next one follows after a while.
    pub(super) fn is_refused(&self, message: String, elapsed: Duration, sizing: &mut PoolSizer) {
        sizing.not_before = elapsed + AFTER_REFUSAL;
        if sizing.refusal.as_ref() != Some(&message) {
            self.telling
                .log
                .say(&format!("cannot submit another Slurm job for the pool: {message}; retrying"));
            sizing.refusal = Some(message);
        }
    }

    fn release_idle(&self, lead: &mut Lead<'_>, elapsed: Duration) {
        for member in lead.others.release_idle(elapsed).unwrap_or_default() {
            self.telling.log.say(&format!("releasing Slurm job {member}: it is idle"));
        }
    }
}

/// Returns whether a job waits for devices.
fn is_waiting(tracked: &JobState) -> bool {
    tracked.awaits.is_none() && matches!(tracked.phase, Phase::Waiting { .. })
}
