//! Allocates whole GPUs to tasks by worth and rent: in order, in passes over the remaining GPUs, and by
//! exchanges between two tasks.

use crate::horizon::task::{Instance, Task, TaskChoice};

/// The inputs of a plan.
#[derive(Clone, Copy)]
pub(super) struct Valuation<'a> {
    /// The worth of a step of each task.
    pub worth: &'a [f64],
    /// The rent per second of each bundle of each class; empty for classes without tasks.
    pub rents: &'a [Vec<f64>],
    /// Price of a GPU by type.
    pub prices: &'a [f64],
    /// Expected duration of a new placement, in seconds; 0 for a plan in which no running task moves.
    pub life: f64,
}

/// A plan under construction.
struct AllocationDraft<'a> {
    instance: &'a Instance<'a>,
    terms: Valuation<'a>,
    /// Fraction of its speed that a task would keep on new GPUs after the restart cost.
    keep: Vec<f64>,
    /// Unused GPUs by type; negative if running tasks hold more than is offered.
    free: Vec<i64>,
    choices: Vec<TaskChoice>,
    /// The worth per second of each task's choice.
    values: Vec<f64>,
}

/// A choice, with its worth per second before and after subtracting its rent.
#[derive(Clone, Copy)]
struct ValuedChoice {
    choice: TaskChoice,
    value: f64,
    surplus: f64,
}

/// Price factors of the passes over the remaining GPUs.
const SALES: [f64; 3] = [0.5, 0.1, 0.0];

/// Number of tasks between which exchanges are tried, the first in order.
const EXCHANGED: usize = 60;

/// Number of exchange rounds.
const ROUNDS: usize = 2;

/// Price factor for the first of two exchanging tasks, which leaves GPUs to the other.
const EXCHANGE_PRICE: f64 = 0.3;

/// Relative gains below this are rounding errors.
const ROUNDING: f64 = 1e-9;

/// Minimum difference between two surpluses.
const TIE: f64 = 1e-12;

/// Minimum fraction of its speed that a task keeps, even if its placement is expected to be very short.
const LEAST_KEPT: f64 = 0.02;

/// Returns the choice of each task.
pub(super) fn allocate(instance: &Instance<'_>, terms: Valuation<'_>) -> Vec<TaskChoice> {
    let mut allocation = AllocationDraft::new(instance, terms);
    let order = allocation.order();
    for &task in &order {
        allocation.choose_again(task, 1.0);
    }
    for sale in SALES {
        for &task in &order {
            if allocation.free.iter().all(|&free| free <= 0) {
                break;
            }
            allocation.choose_again(task, sale);
        }
    }
    allocation.exchange(&order[..order.len().min(EXCHANGED)]);
    allocation.leave_none_waiting(&order);
    allocation.choices
}

impl<'a> AllocationDraft<'a> {
    fn new(instance: &'a Instance<'a>, terms: Valuation<'a>) -> Self {
        let free = instance.offered.iter().map(|&count| i64::from(count)).collect();
        let tasks = instance.tasks.len();
        let keep =
            |(task, task_state): (usize, &Task)| kept(task_state, instance.class(task).fastest, terms.life);
        let keep = instance.tasks.iter().enumerate().map(keep).collect();
        let (choices, values) = (vec![TaskChoice::Wait; tasks], vec![0.0; tasks]);
        let mut allocation = Self { instance, terms, keep, free, choices, values };
        if !instance.preempts {
            // Running tasks may not be stopped, so their GPUs are set aside for them first.
            for (task, value) in (0..tasks)
                .filter(|&task| instance.tasks[task].is_running())
                .map(|task| (task, terms.worth[task] * instance.tasks[task].speed()))
            {
                allocation.take(task, ValuedChoice { choice: TaskChoice::Stay, value, surplus: 0.0 });
            }
        }
        allocation
    }

    fn is_frozen(&self, task: usize) -> bool {
        self.instance.tasks[task]
            .placement
            .as_ref()
            .is_some_and(|place| self.terms.life <= 0.0 || !place.movable)
    }

    /// Returns the worth of one second on other GPUs with this speed.
    fn value(&self, task: usize, speed: f64) -> f64 {
        let (task_state, keep) = (&self.instance.tasks[task], self.keep[task]);
        // A task that gets slower will later get its speed back, with another restart.
        let again = if speed < task_state.speed() { task_state.speed() * (1.0 - keep) } else { 0.0 };
        self.terms.worth[task] * (speed * keep - again)
    }

    /// Returns the worth of one second of waiting; a running task will have to restart, or cannot wait if the
    /// plan may not preempt tasks.
    fn value_of_waiting(&self, task: usize) -> f64 {
        let task_state = &self.instance.tasks[task];
        match task_state.is_running() {
            true if self.instance.preempts => {
                -self.terms.worth[task] * task_state.speed() * (1.0 - self.keep[task])
            }
            true => f64::NEG_INFINITY,
            false => 0.0,
        }
    }

    /// Returns the worth of each bundle to a task, and its rent.
    fn bundles(&self, task: usize) -> impl Iterator<Item = (usize, f64, f64)> {
        let task_state = &self.instance.tasks[task];
        let present = task_state.placement.as_ref().and_then(|place| place.bundle);
        let speeds = self.instance.class(task).bundles.speeds();
        let rents = &self.terms.rents[task_state.class];
        speeds.iter().zip(rents).enumerate().map(move |(bundle, (&speed, &rent))| {
            let stays = present == Some(bundle);
            let value =
                if stays { self.terms.worth[task] * task_state.speed() } else { self.value(task, speed) };
            (bundle, value, rent)
        })
    }

    /// Returns the tasks in the order in which they choose: those that may not move come first, then in
    /// descending order of worth over rent of the bundle with the largest surplus.
    fn order(&self) -> Vec<usize> {
        let worth_of_rent = |task: usize| {
            if self.is_frozen(task) {
                return f64::INFINITY;
            }
            // A task that may not wait has the same priority as one that would lose all of its speed by
            // waiting.
            let waiting =
                self.value_of_waiting(task).max(-self.terms.worth[task] * self.instance.tasks[task].speed());
            let mut best = (0.0, f64::NEG_INFINITY);
            for (_, value, rent) in self.bundles(task) {
                let (value, rent) = (value - waiting, rent.max(TIE));
                if value - rent > best.1 {
                    best = (value / rent, value - rent);
                }
            }
            best.0
        };
        let eager: Vec<f64> = (0..self.choices.len()).map(worth_of_rent).collect();
        let mut order: Vec<usize> = (0..eager.len()).collect();
        order.sort_by(|&a, &b| eager[b].total_cmp(&eager[a]).then(a.cmp(&b)));
        order
    }

    /// Returns a task's best choice among these GPUs, at a fraction of the prices.
    fn choose(&self, task: usize, free: &[i64], part: f64) -> ValuedChoice {
        let task_state = &self.instance.tasks[task];
        let stay = |counts: &[u32]| {
            let value = self.terms.worth[task] * task_state.speed();
            ValuedChoice {
                choice: TaskChoice::Stay,
                value,
                surplus: value - part * rent(counts, self.terms.prices),
            }
        };
        if let Some(place) = task_state.placement.as_ref().filter(|_| self.is_frozen(task)) {
            return stay(&place.counts);
        }
        let waiting = self.value_of_waiting(task);
        let mut best = ValuedChoice { choice: TaskChoice::Wait, value: waiting, surplus: waiting };
        if let Some(place) = task_state.placement.as_ref().filter(|place| fits(free, &place.counts)) {
            let stay = stay(&place.counts);
            if stay.surplus > best.surplus {
                best = stay;
            }
        }
        let list = &self.instance.class(task).bundles;
        for (bundle, value, rent) in self.bundles(task) {
            let surplus = value - part * rent;
            if surplus > best.surplus + TIE && fits(free, list.counts(bundle)) {
                best = ValuedChoice { choice: TaskChoice::Take(bundle), value, surplus };
            }
        }
        best
    }

    /// Replaces a task's choice.
    fn take(&mut self, task: usize, offer: ValuedChoice) {
        add(&mut self.free, self.instance.counts(task, self.choices[task]), 1);
        add(&mut self.free, self.instance.counts(task, offer.choice), -1);
        (self.choices[task], self.values[task]) = (offer.choice, offer.value);
    }

    fn choose_again(&mut self, task: usize, part: f64) {
        let mut free = std::mem::take(&mut self.free);
        add(&mut free, self.instance.counts(task, self.choices[task]), 1);
        let offer = self.choose(task, &free, part);
        add(&mut free, self.instance.counts(task, self.choices[task]), -1);
        self.free = free;
        self.take(task, offer);
    }

    /// Lets one task choose among the free GPUs and those of another task, and the other among the rest, if
    /// both together gain.
    fn exchange(&mut self, order: &[usize]) {
        let mut free = self.free.clone();
        for _ in 0..ROUNDS {
            let mut any = false;
            for (a, b) in order.iter().flat_map(|&a| order.iter().map(move |&b| (a, b))) {
                if a == b || self.is_frozen(a) || self.is_frozen(b) || self.have_the_same(a, b) {
                    continue;
                }
                free.copy_from_slice(&self.free);
                add(&mut free, self.instance.counts(a, self.choices[a]), 1);
                add(&mut free, self.instance.counts(b, self.choices[b]), 1);
                let first = self.choose(a, &free, EXCHANGE_PRICE);
                add(&mut free, self.instance.counts(a, first.choice), -1);
                let second = self.choose(b, &free, 0.0);
                let least = ROUNDING * (self.values[a].abs() + self.values[b].abs());
                if first.value + second.value > self.values[a] + self.values[b] + least {
                    self.take(a, first);
                    self.take(b, second);
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Returns whether the second task has no GPUs, or the same as the first.
    fn have_the_same(&self, a: usize, b: usize) -> bool {
        let (taken, other) =
            (self.instance.counts(a, self.choices[a]), self.instance.counts(b, self.choices[b]));
        other.is_empty() || taken == other
    }

    /// Leaves no task waiting beside usable GPUs, even if the gain is small.
    fn leave_none_waiting(&mut self, order: &[usize]) {
        for &task in order.iter().filter(|&&task| self.choices[task] == TaskChoice::Wait).collect::<Vec<_>>()
        {
            let bundles = &self.instance.class(task).bundles;
            let fitting = (0..bundles.len()).filter(|&bundle| fits(&self.free, bundles.counts(bundle)));
            let fastest = fitting.max_by(|&a, &b| bundles.speed(a).total_cmp(&bundles.speed(b)));
            if let Some(bundle) = fastest {
                let place = self.instance.tasks[task].placement.as_ref();
                let stays = place.is_some_and(|place| place.bundle == Some(bundle));
                let choice = if stays { TaskChoice::Stay } else { TaskChoice::Take(bundle) };
                self.take(task, ValuedChoice { choice, value: self.values[task], surplus: 0.0 });
            }
        }
    }
}

/// Returns the fraction of its speed that a task keeps if it restarts and then runs for `life` seconds or
/// until it ends.
fn kept(task: &Task, fastest: f64, life: f64) -> f64 {
    let restart = task.restart_now();
    if restart <= 0.0 {
        return 1.0;
    }
    let rest = task.left / task.speed().max(0.3 * fastest);
    (1.0 - restart / rest.min(life).max(1.02 * restart)).max(LEAST_KEPT)
}

/// Returns whether this many GPUs of each type are free.
pub(super) fn fits(free: &[i64], counts: &[u32]) -> bool {
    counts.iter().zip(free).all(|(&count, &free)| count == 0 || i64::from(count) <= free)
}

/// Adds or removes GPUs.
pub(super) fn add(free: &mut [i64], counts: &[u32], sign: i64) {
    for (free, &count) in free.iter_mut().zip(counts) {
        *free += sign * i64::from(count);
    }
}

fn rent(counts: &[u32], prices: &[f64]) -> f64 {
    counts.iter().zip(prices).map(|(&count, price)| f64::from(count) * price).sum()
}
