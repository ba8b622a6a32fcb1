//! The use of each server and GPU.

use crate::mlfs::MlfsParameters;
use hsched_model::number::to_f64;
use hsched_model::{GraphTask, RESOURCES, Server};

/// Tolerance when comparing uses with limits.
const SLACK: f64 = 1e-9;

/// Servers with their use.
pub(super) struct Loads<'a> {
    servers: &'a [Server],
    limits: [f64; RESOURCES],
    gpu_limit: f64,
    exclusive: bool,
    used: Vec<[f64; RESOURCES]>,
    gpus: Vec<Vec<f64>>,
}

impl<'a> Loads<'a> {
    /// Returns servers without tasks.
    pub(super) fn new(servers: &'a [Server], parameters: &MlfsParameters) -> Self {
        let server = parameters.server_limit;
        // If GPUs are exclusive, a limit below 1 would leave the last GPU of a server empty.
        let [gpu_limit, of_gpus] =
            if parameters.exclusive { [1.0; 2] } else { [parameters.gpu_limit, server] };
        Self {
            servers,
            limits: [of_gpus, server, server, server],
            gpu_limit,
            exclusive: parameters.exclusive,
            used: vec![[0.0; RESOURCES]; servers.len()],
            gpus: servers.iter().map(|server| vec![0.0; server.gpus]).collect(),
        }
    }

    pub(super) fn add(&mut self, (server, gpu): (usize, usize), task: &GraphTask) {
        self.change(server, gpu, task, 1.0);
    }

    pub(super) fn remove(&mut self, (server, gpu): (usize, usize), task: &GraphTask) {
        self.change(server, gpu, task, -1.0);
    }

    fn change(&mut self, server: usize, gpu: usize, task: &GraphTask, sign: f64) {
        for (used, demand) in self.used[server].iter_mut().zip(task.demand) {
            *used += sign * demand;
        }
        if let Some(load) = self.gpus[server].get_mut(gpu) {
            *load += sign * task.demand[0];
        }
    }

    pub(super) fn count(&self) -> usize {
        self.servers.len()
    }

    /// Returns u, the use of a server as fractions of its resources.
    pub(super) fn parts(&self, server: usize) -> [f64; RESOURCES] {
        self.parts_of(server, self.used[server])
    }

    /// Returns amounts as fractions of a server's resources.
    pub(super) fn parts_of(&self, server: usize, amounts: [f64; RESOURCES]) -> [f64; RESOURCES] {
        let has = self.servers[server].has;
        std::array::from_fn(|resource| part(amounts[resource], has[resource]))
    }

    /// Returns which resources of a server are overloaded; the GPUs are overloaded even if only one of them
    /// is.
    pub(super) fn over(&self, server: usize) -> [bool; RESOURCES] {
        let parts = self.parts(server);
        let mut over = std::array::from_fn(|resource| parts[resource] > self.limits[resource] + SLACK);
        over[0] |= (0..self.gpus[server].len()).any(|gpu| self.is_gpu_over(server, gpu));
        over
    }

    pub(super) fn is_over(&self, server: usize) -> bool {
        self.over(server).contains(&true)
    }

    pub(super) fn is_gpu_over(&self, server: usize, gpu: usize) -> bool {
        self.gpus[server].get(gpu).is_some_and(|load| *load > self.gpu_limit + SLACK)
    }

    /// Returns the GPU of a server for a task, if the task fits.
    pub(super) fn fit(&self, server: usize, task: &GraphTask) -> Option<usize> {
        let after: [f64; RESOURCES] =
            std::array::from_fn(|resource| self.used[server][resource] + task.demand[resource]);
        let parts = self.parts_of(server, after);
        if parts.iter().zip(self.limits).any(|(part, limit)| *part > limit + SLACK) {
            return None;
        }
        let (gpu, load) =
            self.gpus[server].iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1).then(a.0.cmp(&b.0)))?;
        let fits = load + task.demand[0] <= self.gpu_limit + SLACK;
        (fits && (!self.exclusive || *load <= SLACK)).then_some(gpu)
    }

    /// Returns O, the mean degree of use.
    pub(super) fn overload(&self) -> f64 {
        let degree = |server: usize| {
            let parts = self.parts(server);
            (parts.iter().map(|part| part * part).sum::<f64>() / 4.0).sqrt()
        };
        let count = to_f64(self.servers.len());
        (0..self.servers.len()).map(degree).sum::<f64>() / count.max(1.0)
    }
}

/// Returns an amount as a fraction of what a server has; if it has none, infinity, or 0 for no amount.
fn part(amount: f64, has: f64) -> f64 {
    if amount <= SLACK * has.clamp(1e-300, 1.0) { 0.0 } else { amount / has }
}
