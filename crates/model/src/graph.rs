//! Plain-number descriptions of jobs (as task graphs) and servers.

/// The resources of a server: GPUs, CPUs, memory, bandwidth.
pub const RESOURCES: usize = 4;

/// A server with its resources, in any units; unknown amounts are infinite.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub name: String,
    pub gpus: usize,
    pub has: [f64; RESOURCES],
}

/// A job of interdependent tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphJob {
    pub name: String,
    /// L, from 0 to 10.
    pub urgency: f64,
    /// The loss after each reported epoch.
    pub losses: Vec<f64>,
    /// Seconds from the trace's start.
    pub deadline: Option<f64>,
    /// Seconds from the trace's start.
    pub arrival: f64,
    /// MB between two tasks, given by index.
    pub volumes: Vec<(usize, usize, f64)>,
    pub tasks: Vec<GraphTask>,
}

/// A part of a model on a part of the data.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphTask {
    pub id: String,
    /// S, the task's part of the model's parameters.
    pub size: f64,
    /// r, its remaining seconds.
    pub left: f64,
    /// w, its waiting time in seconds.
    pub waited: f64,
    /// Indices of the tasks that wait for this task.
    pub children: Vec<usize>,
    /// Demand in the units of servers.
    pub demand: [f64; RESOURCES],
    /// Indices of the task's server and GPU; `None` if the task is not placed.
    pub on: Option<(usize, usize)>,
}

impl GraphTask {
    /// Returns whether the task has no remaining work.
    pub fn is_done(&self) -> bool {
        self.left <= 0.0
    }
}

impl GraphJob {
    /// Returns the tasks in an order in which each follows the tasks that wait for it; `None` if there is a
    /// cycle.
    pub fn children_first(&self) -> Option<Vec<usize>> {
        let mut waiting_for: Vec<usize> = self.tasks.iter().map(|task| task.children.len()).collect();
        let mut parents = vec![Vec::new(); self.tasks.len()];
        for (number, task) in self.tasks.iter().enumerate() {
            task.children.iter().for_each(|&child| parents[child].push(number));
        }
        let mut order: Vec<usize> = (0..self.tasks.len()).filter(|&task| waiting_for[task] == 0).collect();
        let mut next = 0;
        while let Some(&task) = order.get(next) {
            next += 1;
            for &parent in &parents[task] {
                waiting_for[parent] -= 1;
                if waiting_for[parent] == 0 {
                    order.push(parent);
                }
            }
        }
        (order.len() == self.tasks.len()).then_some(order)
    }
}
