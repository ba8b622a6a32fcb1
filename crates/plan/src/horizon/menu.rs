//! Several plans, from one without moves to one with almost free moves, and the choice among them.

use crate::horizon::allocate::{Valuation, allocate};
use crate::horizon::task::{Instance, TaskChoice};

/// Assumed durations of new placements, relative to the expected duration.
const LIVES: [f64; 4] = [0.5, 1.5, 5.0, 1e6];

/// Horizon for counting gains, relative to the expected duration of new placements.
const FORESEEN: f64 = 2.0;

/// Minimum difference between two scores.
const TIE: f64 = 1e-12;

/// Returns the plan with the best score; `terms.life` is the expected duration of new placements, in seconds.
pub(super) fn best_plan(instance: &Instance<'_>, terms: Valuation<'_>) -> Vec<TaskChoice> {
    let plan = |life: f64| allocate(instance, Valuation { life: life * terms.life, ..terms });
    if instance.tasks.iter().all(|task| task.restart <= 0.0) {
        return plan(1e9);
    }
    let base = plan(0.0);
    let mut best = (0.0, None);
    for life in LIVES {
        let other = plan(life);
        let score = score(instance, &terms, &base, &other);
        if score > best.0 + TIE {
            best = (score, Some(other));
        }
    }
    best.1.unwrap_or(base)
}

/// Returns the gain of a plan over the one without moves of running tasks, minus its restart costs.
fn score(instance: &Instance<'_>, terms: &Valuation<'_>, base: &[TaskChoice], plan: &[TaskChoice]) -> f64 {
    let (mut gain, mut loss, mut weighted, mut cost) = (0.0, 0.0, 0.0, 0.0);
    for (task, task_state) in instance.tasks.iter().enumerate() {
        let (before, after) = (instance.speed(task, base[task]), instance.speed(task, plan[task]));
        let worth = terms.worth[task];
        let change = worth * (after - before);
        if change > 0.0 {
            gain += change;
            weighted += change * task_state.left / after;
        } else {
            loss -= change;
        }
        let restart = worth * task_state.restart_now();
        if task_state.is_running() && plan[task] != TaskChoice::Stay {
            // A task that gets slower will later get its speed back, with another restart.
            let shrinks = after > 0.0 && after < before;
            cost += restart * before.max(after) * if shrinks { 2.0 } else { 1.0 };
        } else if !task_state.is_running() && (after > 0.0) != (before > 0.0) {
            cost += restart * (after - before);
        }
    }
    let lasts = if gain > 0.0 { weighted / gain } else { 0.0 };
    (gain - loss) * lasts.min(FORESEEN * terms.life) - cost
}
