//! The size of a pool whose allocations are tasks of a job array.

use std::path::Path;
use std::time::Duration;

use crate::app::slurm;
use crate::commands::run::local_run::LocalRun;
use crate::commands::run::sizing::PoolSizer;
use hsched_engine::clock::Clock as _;
use hsched_engine::pool::{ArrayChange, ArrayPlan, PoolPlan, QueuedArray, another_waits, array_changes};
use hsched_engine::store::PoolFolder;
use hsched_model::JobId;
use hsched_model::formats::counted;

/// Times to ask Slurm at the end of a member whether another task waits, and the pause between them.
const LOOKS_AT_END: u32 = 3;
const BETWEEN_LOOKS_AT_END: Duration = Duration::from_secs(1);

impl LocalRun<'_> {
    /// Lets as many tasks of the job array run as are needed: by its limit (`%N`) as long as tasks wait, else by
    /// another array.
    pub(super) fn resize_array(
        &self,
        plan: &PoolPlan,
        size: ArrayPlan,
        needed: u32,
        elapsed: Duration,
        sizing: &mut PoolSizer,
    ) {
        sizing.settled = None;
        let Some(script) = plan.scripts.first() else { return };
        let Some(arrays) = slurm::pool_arrays(self.context, script) else { return };
        let sum = |count: fn(&QueuedArray) -> u32| arrays.iter().map(count).sum::<u32>();
        let missing = needed.saturating_sub(sum(|array| array.running));
        sizing.pending = missing.min(sum(|array| array.pending)) as usize;
        let mut is_changed = false;
        for change in array_changes(&arrays, needed) {
            is_changed |= match change {
                ArrayChange::Throttle { array, at_once } => {
                    let shown =
                        arrays.iter().find(|queued| queued.id == array).and_then(|queued| queued.at_once);
                    self.throttle(array, at_once, shown, sizing)
                }
                ArrayChange::Cancel { array } => self.cancel_tasks(array),
                ArrayChange::Submit { at_once } => {
                    let size = ArrayPlan { at_once, ..size };
                    self.submit_array(script, &plan.sbatch, size, elapsed, sizing)
                }
            };
        }
        sizing.settled = (!is_changed).then_some(needed);
    }

    /// Sets the limit of an array, or cancels its waiting tasks if that has not worked before; `shown` is the
    /// limit in the queue. Returns whether the queue may have changed.
    fn throttle(&self, array: JobId, at_once: u32, shown: Option<u32>, sizing: &mut PoolSizer) -> bool {
        let change = ArrayChange::Throttle { array, at_once };
        if sizing.throttled == Some(change) {
            // Slurm does not show the limit of a task that it has requeued.
            return shown.is_some() && self.cancel_tasks(array);
        }
        if slurm::throttle(self.context, array, at_once) {
            sizing.throttled = Some(change);
        }
        true
    }

    /// Submits another array; returns true, because the next look must show it.
    fn submit_array(
        &self,
        script: &Path,
        sbatch: &[String],
        size: ArrayPlan,
        elapsed: Duration,
        sizing: &mut PoolSizer,
    ) -> bool {
        match slurm::submit_array(self.context, script, sbatch, size) {
            Ok((id, tasks)) => {
                sizing.refusal = None;
                let tasks = counted(tasks as usize, "task");
                self.telling.log.say(&format!("submitted job array {id} for the pool: {tasks}"));
            }
            Err(error) => self.is_refused(error.failure.message, elapsed, sizing),
        }
        true
    }

    /// Cancels the pending tasks of an array; returns true, because the queue may have changed.
    fn cancel_tasks(&self, array: JobId) -> bool {
        if slurm::cancel_pending(self.context, crate::commands::pack::NAME, array) {
            self.telling
                .log
                .say(&format!("cancelled the waiting tasks of job array {array}: no longer needed"));
        }
        true
    }

    /// Cancels all tasks that wait, because no job is left for them. A task that starts nevertheless ends at once.
    pub(super) fn cancel_waiting_tasks(&self) {
        let arrays =
            self.array_plan().and_then(|plan| slurm::pool_arrays(self.context, plan.scripts.first()?));
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
            slurm::pool_arrays(self.context, script)
        });
        answer.is_some_and(|arrays| another_waits(&arrays))
    }

    /// Returns the plan of this pool if its allocations are tasks of a job array.
    fn array_plan(&self) -> Option<PoolPlan> {
        let plan = PoolFolder::find(self.directory.root())?.plan().ok()?;
        plan.array.is_some().then_some(plan)
    }
}
