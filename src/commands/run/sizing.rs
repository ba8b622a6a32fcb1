//! The size of a pool: its leader submits more allocations, cancels pending ones that are not needed, and
//! dismisses idle members.

use std::path::Path;
use std::time::Duration;

use crate::app::pool_size;
use crate::app::slurm;
use crate::commands::run::turns::{LocalRun, RunTurns};
use hsched_engine::clock::Clock as _;
use hsched_engine::pool::{ArrayChange, ArrayPlan, PoolPlan, another_waits, array_changes};
use hsched_engine::store::PoolFolder;
use hsched_engine::{JobState, Phase};
use hsched_local::{Lead, MAY_IDLE};
use hsched_model::{Job, JobId};
use hsched_slurm::pool_jobs::{self, PoolJob};
use hsched_slurm::{CommandError, Runner as _, scancel};

/// How often Slurm is asked for the pool's allocations while the pool may grow or shrink.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// Delay after a refused submission before the next one.
const AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// Times to ask Slurm at the end of a member whether another task waits, and the pause between them.
const LOOKS_AT_END: u32 = 3;
const BETWEEN_LOOKS_AT_END: Duration = Duration::from_secs(1);

/// The leader's data about the size of its pool.
#[derive(Debug, Default)]
pub(super) struct Sizing {
    /// Time of the next query to Slurm.
    not_before: Duration,
    /// Allocations that were pending when Slurm was last asked.
    pending: usize,
    /// The time since which the leader has been idle.
    idle: Option<Duration>,
    /// Slurm's message for the last refused submission.
    refusal: Option<String>,
    /// The number of running tasks for which the job arrays needed no change.
    settled: Option<u32>,
    /// The last limit that Slurm was asked to set for an array.
    throttled: Option<ArrayChange>,
}

impl Sizing {
    /// Returns whether an allocation is pending.
    pub(super) fn is_growing(&self) -> bool {
        self.pending > 0
    }
}

impl LocalRun<'_> {
    /// Adjusts the pool to the number of allocations that its jobs can use. Returns whether the leader itself
    /// is no longer needed.
    pub(super) fn size(&self, work: &mut RunTurns<'_>, sizing: &mut Sizing) -> bool {
        let RunTurns { session, .. } = work;
        let is_here_idle = session.world.here.at_work() == 0;
        let Some(lead) = &mut session.world.lead else { return false };
        let Some(plan) = PoolFolder::find(self.directory.root()).and_then(|pool| pool.plan().ok()) else {
            return false;
        };
        let elapsed = lead.elapsed();
        let waiting = session.state.jobs.iter().filter(|tracked| is_waiting(tracked));
        let waiting: Vec<&Job> = waiting.map(|tracked| &*tracked.job).collect();
        let busy = u32::from(!is_here_idle) + u32::try_from(lead.others.busy()).unwrap_or(u32::MAX - 1);
        let needed = pool_size::needed(busy, &waiting, plan.capacity, plan.at_most());
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
    fn resize(&self, plan: &PoolPlan, needed: usize, elapsed: Duration, sizing: &mut Sizing) {
        let Ok(printed) = self.context.ask(&pool_jobs::command()) else { return };
        let mut jobs = pool_jobs::parse(&printed, &plan.scripts);
        while jobs.len() < needed {
            let is_free =
                |script: &&std::path::PathBuf| jobs.iter().all(|job| Path::new(&job.script) != **script);
            let Some(script) = plan.scripts.iter().find(is_free) else { break };
            match slurm::submit(self.context, script, &plan.sbatch) {
                Ok(id) => {
                    sizing.refusal = None;
                    self.telling.log.say(&format!("submitted Slurm job {id} for the pool"));
                    let script = script.display().to_string();
                    jobs.push(PoolJob { id, state: hsched_slurm::SlurmState::Pending, script });
                }
                Err(error) => {
                    self.is_refused(slurm::not_submitted(&error).message, elapsed, sizing);
                    break;
                }
            }
        }
        let mut surplus = jobs.len().saturating_sub(needed);
        let mut pending = jobs.iter().filter(|job| job.state.is_pending()).count();
        for job in jobs.iter().rev().filter(|job| job.state.is_pending()) {
            if surplus == 0 {
                break;
            }
            let name = crate::commands::pack::NAME;
            if scancel::send(&self.context.slurm, &scancel::cancel_pending(name, job.id)).is_ok() {
                (surplus, pending) = (surplus - 1, pending - 1);
                self.telling.log.say(&format!("cancelled pending Slurm job {}: no longer needed", job.id));
            }
        }
        sizing.pending = pending;
    }

    /// Lets as many tasks of the job array run as are needed: by its limit (`%N`) as long as tasks wait, else by
    /// another array.
    fn resize_array(
        &self,
        plan: &PoolPlan,
        array: ArrayPlan,
        needed: u32,
        elapsed: Duration,
        sizing: &mut Sizing,
    ) {
        sizing.settled = None;
        let Some(script) = plan.scripts.first() else { return };
        let Ok(arrays) = slurm::arrays(self.context, script) else { return };
        let (pending, running) = arrays
            .iter()
            .fold((0, 0), |(pending, running), array| (pending + array.pending, running + array.running));
        sizing.pending = needed.saturating_sub(running).min(pending) as usize;
        let mut is_changed = false;
        for change in array_changes(&arrays, needed) {
            match change {
                // Slurm does not show the limit of a task that it has requeued.
                ArrayChange::Throttle { array, .. } if sizing.throttled == Some(change) => {
                    let shown =
                        arrays.iter().find(|queued| queued.id == array).and_then(|queued| queued.at_once);
                    if shown.is_some() {
                        is_changed = true;
                        self.cancel_tasks(array);
                    }
                }
                ArrayChange::Throttle { array, at_once } => {
                    is_changed = true;
                    let answer = self.context.slurm.run(&pool_jobs::throttle(array, at_once));
                    // It also fails for tasks that have ended, so the next look shows whether it has worked.
                    if matches!(answer, Ok(_) | Err(CommandError::Failed { .. })) {
                        sizing.throttled = Some(change);
                    }
                }
                ArrayChange::Cancel { array } => {
                    is_changed = true;
                    self.cancel_tasks(array);
                }
                ArrayChange::Submit { at_once } => {
                    is_changed = true;
                    match slurm::submit_array(
                        self.context,
                        script,
                        &plan.sbatch,
                        ArrayPlan { at_once, ..array },
                    ) {
                        Ok((id, tasks)) => {
                            sizing.refusal = None;
                            self.telling
                                .log
                                .say(&format!("submitted job array {id} for the pool: {tasks} tasks"));
                        }
                        Err(error) => self.is_refused(slurm::not_submitted(&error).message, elapsed, sizing),
                    }
                }
            }
        }
        sizing.settled = (!is_changed).then_some(needed);
    }

    /// Cancels the tasks of an array that wait.
    fn cancel_tasks(&self, array: JobId) {
        if scancel::send(&self.context.slurm, &scancel::cancel_pending(crate::commands::pack::NAME, array))
            .is_ok()
        {
            self.telling
                .log
                .say(&format!("cancelled the waiting tasks of job array {array}: no longer needed"));
        }
    }

    /// Cancels all tasks that wait, because no job is left for them. A task that starts nevertheless ends at once.
    pub(super) fn cancel_waiting_tasks(&self) {
        let Some(plan) = self.array_plan() else { return };
        let arrays = plan.scripts.first().and_then(|script| slurm::arrays(self.context, script).ok());
        for array in arrays.iter().flatten().filter(|array| array.pending > 0) {
            self.cancel_tasks(array.id);
        }
    }

    /// Returns whether another task of the job array waits, so that Slurm starts it when this one has ended. Without an
    /// answer, the pool must not rely on it.
    pub(super) fn another_task_waits(&self) -> bool {
        let Some(plan) = self.array_plan() else { return false };
        let Some(script) = plan.scripts.first() else { return false };
        let answer = (0..LOOKS_AT_END).find_map(|look| {
            if look > 0 {
                self.context.clock.sleep(BETWEEN_LOOKS_AT_END);
            }
            slurm::arrays(self.context, script).ok()
        });
        answer.is_some_and(|arrays| another_waits(&arrays))
    }

    /// Returns the plan of this pool if its allocations are tasks of a job array.
    fn array_plan(&self) -> Option<PoolPlan> {
        let plan = PoolFolder::find(self.directory.root())?.plan().ok()?;
        plan.array.is_some().then_some(plan)
    }

    /// Notes a refused submission; the next one follows after a while.
    fn is_refused(&self, message: String, elapsed: Duration, sizing: &mut Sizing) {
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
