//! Slurm's side of the model: the job arrays whose tasks are the members, and the leader's requests to them.

use hsched_engine::pool::{ArrayChange, QueuedArray, another_waits, array_changes};
use hsched_model::JobId;

use crate::pool::disk::{WriteError, write};
use crate::pool::id;
use crate::pool::model::{Array, Job, Member, Moment, Plant};

/// Maximum number of arrays in an exploration.
const MOST_ARRAYS: usize = 2;

impl Moment {
    /// Returns whether Slurm may start a member: it is the next task of its array, and fewer tasks of the
    /// array run than its limit allows. Without an array, each member is a job of its own.
    pub(super) fn may_start(&self, number: usize) -> bool {
        let Some(place) = self.arrays.iter().rposition(|array| array.first <= number) else { return true };
        let tasks = self.tasks(place);
        let is_next =
            tasks.clone().find(|task| matches!(self.members[*task], Member::Pending)) == Some(number);
        let running = tasks.filter(|task| self.runs(*task)).count();
        is_next && running < self.arrays[place].at_once as usize
    }

    /// Records an error if a task starts although as many tasks run as are allowed.
    pub(super) fn check_size(&mut self) {
        let running = (0..self.members.len()).filter(|member| self.runs(*member)).count();
        if self.setting.at_once.is_some_and(|most| running >= most as usize) {
            self.wrong = Some("too many tasks run".to_owned());
        }
    }

    /// Returns whether Slurm will start another task.
    pub(super) fn task_waits(&self) -> bool {
        another_waits(&self.queue()) || self.setting.plant == Plant::TrustTheArray
    }

    /// Adjusts the number of running tasks to what the jobs need. If nothing has to change and no job waits,
    /// dismisses idle members.
    pub(super) fn resize(&mut self, number: usize) -> Result<(), WriteError> {
        let Some(most) = self.setting.at_once else { return Ok(()) };
        let is_busy = |member: usize, jobs: &[Job]| {
            jobs.iter().any(|job| matches!(job, Job::Open { member: holder, .. } if *holder == id(member)))
        };
        let busy = (0..self.members.len())
            .filter(|&member| self.runs(member) && is_busy(member, &self.jobs))
            .count();
        let waiting = self.jobs.iter().filter(|job| **job == Job::Waiting).count();
        let needed = u32::try_from(busy + waiting).expect("few").clamp(1, most);
        let changes = array_changes(&self.queue(), needed);
        for change in &changes {
            self.request(*change, most)?;
        }
        if !changes.is_empty() || waiting > 0 {
            return Ok(());
        }
        let Member::Leading(mut leading) = std::mem::replace(&mut self.members[number], Member::Killed)
        else {
            return Ok(());
        };
        let idle = (0..self.members.len()).filter(|&member| member != number && !is_busy(member, &self.jobs));
        let idle: Vec<usize> =
            idle.filter(|&member| matches!(self.members[member], Member::Working(_))).collect();
        let released = idle.into_iter().try_for_each(|member| leading.1.release(&id(member)));
        self.members[number] = Member::Leading(leading);
        released
    }

    /// Sends a request to Slurm unless the leader was killed before.
    fn request(&mut self, change: ArrayChange, most: u32) -> Result<(), WriteError> {
        write(|_| ())?;
        match change {
            ArrayChange::Throttle { array, at_once } => self.arrays[array.0 as usize].at_once = at_once,
            ArrayChange::Cancel { array } => {
                for task in self.tasks(array.0 as usize) {
                    if matches!(self.members[task], Member::Pending) {
                        self.members[task] = Member::Over;
                    }
                }
            }
            ArrayChange::Submit { at_once } if self.arrays.len() < MOST_ARRAYS => {
                let at_once = if self.setting.plant == Plant::SubmitWholeArray { most } else { at_once };
                self.arrays.push(Array { first: self.members.len(), at_once });
                self.members.extend([Member::Pending, Member::Pending]);
            }
            ArrayChange::Submit { .. } => {}
        }
        Ok(())
    }

    /// Returns the arrays in Slurm's queue.
    fn queue(&self) -> Vec<QueuedArray> {
        let count = |place: usize, counts: &dyn Fn(usize) -> bool| {
            u32::try_from(self.tasks(place).filter(|task| counts(*task)).count()).expect("few")
        };
        let array = |(place, array): (usize, &Array)| QueuedArray {
            id: JobId(u32::try_from(place).expect("few")),
            pending: count(place, &|task| matches!(self.members[task], Member::Pending)),
            running: count(place, &|task| self.runs(task)),
            at_once: Some(array.at_once),
        };
        self.arrays.iter().enumerate().map(array).collect()
    }

    fn tasks(&self, place: usize) -> std::ops::Range<usize> {
        let end = self.arrays.get(place + 1).map_or(self.members.len(), |next| next.first);
        self.arrays[place].first..end
    }

    /// Returns whether a member has an allocation.
    fn runs(&self, member: usize) -> bool {
        !matches!(self.members[member], Member::Pending | Member::Over)
    }
}
