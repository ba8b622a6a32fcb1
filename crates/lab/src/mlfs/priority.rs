//! Priorities: the contribution of a task to the training, and the needs of its computation.

use crate::mlfs::MlfsParameters;
use hsched_model::GraphJob;
use hsched_model::number::to_f64;

/// The minimum time in seconds, a round of the paper: it keeps the priority of late tasks finite.
const SHORTEST: f64 = 60.0;

/// The priority of a task and its two parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priority {
    /// Eq. 3.
    pub ml: f64,
    /// Eq. 5.
    pub computation: f64,
    /// Eq. 6.
    pub whole: f64,
}

/// The inputs of a task's priority besides its children; times in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PriorityInputs<'a> {
    pub urgency: f64,
    pub losses: &'a [f64],
    pub size: f64,
    /// The time in which the task must complete so that the tasks that depend on it can meet the deadline.
    pub to_deadline: Option<f64>,
    pub left: f64,
    /// Waiting time; 0 while the task runs. `mlf-h` passes the negative arrival time instead.
    pub waited: f64,
}

impl PriorityInputs<'_> {
    /// Returns the fraction of the loss's total decrease that the last epoch contributed, from 0 to 1; 1 with
    /// fewer than two losses.
    pub(crate) fn fall(self) -> f64 {
        fall(self.losses)
    }

    /// Returns the two parts of the priority that come from the task itself (eqs. 2 and 4).
    pub(crate) fn parts(self, parameters: &MlfsParameters) -> (f64, f64) {
        let iteration = to_f64(self.losses.len()) + 1.0;
        let ml = self.urgency / iteration * fall(self.losses) * self.size;
        let [deadline, left, waited] = parameters.terms;
        let soon = |time: f64| parameters.unit / time.max(SHORTEST);
        let computation = self.to_deadline.map_or(0.0, |time| deadline * soon(time))
            + left * soon(self.left)
            + waited * self.waited / parameters.unit;
        (ml, computation)
    }
}

/// Returns the fraction of the loss's total decrease that the last epoch contributed, from 0 to 1; 1 with
/// fewer than two losses.
fn fall(losses: &[f64]) -> f64 {
    let [first, .., before, last] = losses else {
        // With two losses, the last decrease is the total one.
        return if let [first, last] = losses { f64::from(first > last) } else { 1.0 };
    };
    let (whole, last_fall) = (first - last, before - last);
    if whole <= 0.0 || last_fall <= 0.0 { 0.0 } else { (last_fall / whole).clamp(0.0, 1.0) }
}

/// Combines the parts (eq. 6).
pub(crate) fn whole((ml, computation): (f64, f64), parameters: &MlfsParameters) -> Priority {
    let whole = parameters.alpha * ml + (1.0 - parameters.alpha) * computation;
    Priority { ml, computation, whole }
}

/// Returns the priorities of a job's tasks at a time in seconds from the trace's start.
pub(super) fn of_graph(job: &GraphJob, now: f64, parameters: &MlfsParameters) -> Vec<Priority> {
    let mut parts = vec![(0.0, 0.0); job.tasks.len()];
    // The longest chain of work below each task.
    let mut below = vec![0.0_f64; job.tasks.len()];
    for number in job.children_first().unwrap_or_default() {
        let task = &job.tasks[number];
        let chain = |child: &usize| below[*child] + job.tasks[*child].left;
        below[number] = task.children.iter().map(chain).fold(0.0, f64::max);
        let inputs = PriorityInputs {
            urgency: job.urgency,
            losses: &job.losses,
            size: task.size,
            to_deadline: job.deadline.map(|deadline| deadline - below[number] - now),
            left: task.left,
            waited: if task.on.is_some() { 0.0 } else { task.waited },
        };
        let sum = |part: fn(&(f64, f64)) -> f64| -> f64 {
            task.children.iter().map(|&child| part(&parts[child])).sum()
        };
        let (ml, computation) = inputs.parts(parameters);
        let (below_ml, below_computation) = (sum(|pair| pair.0), sum(|pair| pair.1));
        parts[number] =
            (ml + parameters.gamma * below_ml, computation + parameters.gamma * below_computation);
    }
    parts.into_iter().map(|part| whole(part, parameters)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::GraphTask;

    #[test]
    fn the_last_fall_counts_as_part_of_the_whole() {
        let check = |losses: &[f64], expected: f64| assert_eq!(fall(losses), expected, "{losses:?}");
        check(&[], 1.0);
        check(&[2.0], 1.0);
        check(&[2.0, 1.0], 1.0);
        check(&[1.0, 2.0], 0.0);
        check(&[3.0, 2.0, 1.0], 0.5);
        check(&[3.0, 1.0, 2.0], 0.0);
        check(&[1.0, 3.0, 2.0], 0.0);
        check(&[1.0, 3.0, 0.5], 1.0);
    }

    #[test]
    fn what_waits_for_a_task_counts() {
        let task = |id: &str, size, left, children: &[usize]| GraphTask {
            id: id.to_owned(),
            size,
            left,
            waited: 900.0,
            children: children.to_vec(),
            demand: [0.0; 4],
            on: None,
        };
        let job = GraphJob {
            name: "x".to_owned(),
            urgency: 2.0,
            losses: vec![2.0, 1.5, 1.2],
            deadline: Some(18_000.0),
            arrival: 0.0,
            volumes: Vec::new(),
            tasks: vec![
                task("0", 0.5, 1800.0, &[1, 2]),
                task("1", 0.25, 3600.0, &[3]),
                task("2", 0.125, 1200.0, &[3]),
                task("3", 0.125, 600.0, &[]),
            ],
        };
        let expected = [
            (0.18, 4.664_548_128, 3.319_183_69),
            (0.065_625, 2.083_382_353, 1.478_055_147),
            (0.042_187_5, 2.683_382_353, 1.891_023_897),
            (0.023_437_5, 1.987_5, 1.398_281_25),
        ];
        let priorities = of_graph(&job, 7200.0, &MlfsParameters::default());
        for (priority, (ml, computation, whole)) in priorities.iter().zip(expected) {
            let is_near = |a: f64, b: f64| (a - b).abs() < 1e-8;
            let near = is_near(priority.ml, ml)
                && is_near(priority.computation, computation)
                && is_near(priority.whole, whole);
            assert!(near, "{priority:?}");
        }
    }
}
