//! `hlas` and `hlas-p` on a cluster: for a turn of some epochs, the job with the least service gets idle
//! groups until each of its tasks has a GPU. With fewer GPUs, it accumulates gradients.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::hlas::groups::{Groups, grouping, round_time};
use crate::hlas::ladder::Ladder;
use crate::hlas::parameters::HlasParameters;
use crate::hlas::predict::Predictor;
use hsched_model::number::{to_f64, to_u64};
use hsched_model::{JobName, Time};
use hsched_plan::kit::TaskGpu;
use hsched_plan::kit::{TaskJob, Tasks};
use hsched_plan::kit::{Turns, held, placed, slots, whole_left, within_reach};
use hsched_plan::{Budget, Decision, Memory, Plan, Policy, PolicyError, Problem};

/// The policy.
pub(crate) struct Hlas {
    parameters: HlasParameters,
    known: GangMemory,
}

/// The version of the stored memory; other versions are discarded.
const VERSION: u32 = 1;

/// The stored memory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct GangMemory {
    /// The nodes with their GPUs by label at the time when the groups were formed.
    nodes: Vec<(String, Vec<(String, u32)>)>,
    /// GPUs by index in the order of nodes and types.
    groups: Groups,
    thresholds: Vec<f64>,
    entries: u64,
    jobs: BTreeMap<JobName, GangService>,
    turns: Turns,
}

/// The progress of a job.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct GangService {
    done: u64,
    predicted: u64,
    /// Number of epochs whose service no longer counts.
    forgiven: u64,
    /// The job's position in the order of entries while it waits for a turn.
    entry: Option<u64>,
    waits_since: f64,
}

/// The state of the GPUs at one moment.
struct GpuTable {
    gpus: Vec<TaskGpu>,
    /// Whether each GPU can be assigned now.
    free: Vec<bool>,
    /// By GPU, the job that holds it, even if the job's turn is over.
    holder: Vec<Option<usize>>,
    /// Whether each GPU has a turn that ends later.
    in_turn: Vec<bool>,
}

impl Hlas {
    /// Returns the policy with these parameters.
    pub(crate) fn new(parameters: HlasParameters) -> Self {
        Self { parameters, known: GangMemory::default() }
    }

    /// Forms new groups if the nodes have changed. Default thresholds come from the first jobs that can run.
    fn sync_groups(&mut self, problem: &Problem, tasks: &Tasks) {
        let node_types = |node: &hsched_plan::WorkerNode| {
            let types = problem.labels.iter().cloned().zip(node.up.iter().copied());
            (node.name.as_str().to_owned(), types.filter(|(_, count)| *count > 0).collect())
        };
        let nodes: Vec<(String, Vec<(String, u32)>)> = problem.nodes.iter().map(node_types).collect();
        let is_new = nodes != self.known.nodes || self.known.groups.is_empty();
        if is_new {
            self.known.groups = grouping(tasks, self.parameters.grouping);
            self.known.nodes = nodes;
        }
        if is_new || self.known.thresholds.is_empty() {
            let groups = &self.known.groups;
            let rounds = tasks.jobs.iter().filter_map(|job| round_time(tasks, groups, job)).collect();
            let usual = || Ladder::usual_thresholds(rounds);
            self.known.thresholds = self.parameters.thresholds.clone().unwrap_or_else(usual);
        }
    }

    /// Counts the completed work of jobs; jobs whose turn is over go to the tail, followed by new jobs.
    /// Returns the jobs whose turn continues.
    fn sync_jobs(&mut self, problem: &Problem, jobs: &[usize]) -> BTreeSet<usize> {
        let there: BTreeSet<&JobName> = jobs.iter().map(|job| &problem.jobs[*job].name).collect();
        let is_there = |name: &JobName| there.contains(name);
        self.known.jobs.retain(|name, _| is_there(name));
        self.known.turns.keep(is_there);
        let mut go_on = BTreeSet::new();
        let mut enter: Vec<(bool, usize)> = Vec::new();
        for &job in jobs {
            let model = &problem.jobs[job];
            let Some(gang_service) = self.known.jobs.get_mut(&model.name) else {
                enter.push((true, job));
                continue;
            };
            let progress = &model.progress;
            let done = to_u64((progress.work - whole_left(progress, problem.now) + 1e-6).max(0.0));
            gang_service.predicted =
                gang_service.predicted.saturating_sub(done.saturating_sub(gang_service.done));
            gang_service.done = gang_service.done.max(done);
            if progress.running().next().is_some() && self.known.turns.over_at(problem, job).is_some() {
                go_on.insert(job);
            } else if gang_service.entry.is_none() {
                enter.push((false, job));
            }
        }
        enter.sort_unstable();
        for (_, job) in enter {
            self.enter(problem, job);
        }
        go_on
    }

    fn enter(&mut self, problem: &Problem, job: usize) {
        let model = &problem.jobs[job];
        let is_new = !self.known.jobs.contains_key(&model.name);
        let gang_service = self.known.jobs.entry(model.name.clone()).or_default();
        if self.parameters.predicts && is_new {
            gang_service.predicted = model.rounds.predicted;
        } else if self.parameters.predicts && gang_service.predicted == 0 && model.rounds.predicted == 0 {
            let done = usize::try_from(gang_service.done).unwrap_or(usize::MAX);
            let losses = model.rounds.losses.get(..done).unwrap_or_default();
            gang_service.predicted = Predictor::default().epochs_left(&model.rounds.model, losses, None);
        }
        gang_service.entry = Some(self.known.entries);
        gang_service.waits_since = problem.now.0;
        self.known.entries += 1;
        self.known.turns.end(&model.name);
    }

    /// Returns the waiting jobs by level; `tasks` lists the jobs in the order of `jobs`, and the ladder uses
    /// the indices in this order.
    fn ladder(&mut self, problem: &Problem, jobs: &[usize], tasks: &Tasks) -> Ladder {
        let mut ladder = Ladder::new(self.known.thresholds.clone());
        let mut waiting: Vec<(u64, usize, f64)> = Vec::new();
        for (place, job) in jobs.iter().enumerate() {
            let Some(gang_service) = self.known.jobs.get_mut(&problem.jobs[*job].name) else { continue };
            let (Some(entry), Some(round)) =
                (gang_service.entry, round_time(tasks, &self.known.groups, &tasks.jobs[place]))
            else {
                continue;
            };
            let service = |gang_service: &GangService| {
                let epochs = to_f64(
                    (gang_service.done + gang_service.predicted).saturating_sub(gang_service.forgiven),
                );
                epochs * round
            };
            let waited = problem.now.0 - gang_service.waits_since;
            let served = service(gang_service);
            if served > 0.0 && self.parameters.promote.is_some_and(|factor| waited > factor * served) {
                gang_service.forgiven = gang_service.done + gang_service.predicted;
            }
            waiting.push((entry, place, service(gang_service)));
        }
        waiting.sort_by_key(|(entry, ..)| *entry);
        for (_, place, service) in waiting {
            let predicted = self
                .known
                .jobs
                .get(&problem.jobs[jobs[place]].name)
                .map_or(0, |gang_service| gang_service.predicted);
            ladder.enter(place, service, predicted);
        }
        ladder
    }

    /// Assigns idle groups to a job until each of its tasks has a GPU or the job has `most` GPUs, first the
    /// groups in which it holds GPUs. Returns the assigned GPUs and removes the groups from `idle`.
    fn hand_out(
        &self,
        table: &mut GpuTable,
        idle: &mut Vec<usize>,
        job: usize,
        tasks: &TaskJob,
        most: u32,
    ) -> Vec<usize> {
        let scale = usize::try_from(tasks.scale.min(u64::from(most))).unwrap_or(usize::MAX);
        let mut order: Vec<usize> = idle.clone();
        order.sort_by_key(|group| {
            !self.known.groups[*group].iter().any(|gpu| table.holder[*gpu] == Some(job))
        });
        let mut taken = Vec::new();
        for group in order {
            let timed = |gpu: &usize| {
                Some((tasks.times[table.gpus[*gpu].gpu_type].filter(|_| table.free[*gpu])?, *gpu))
            };
            let mut usable: Vec<(f64, usize)> = self.known.groups[group].iter().filter_map(timed).collect();
            usable.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            usable.truncate(scale - taken.len());
            if !usable.is_empty() {
                idle.retain(|other| *other != group);
                taken.extend(usable.into_iter().map(|(_, gpu)| gpu));
            }
            if taken.len() == scale {
                break;
            }
        }
        for gpu in &taken {
            table.free[*gpu] = false;
        }
        taken
    }

    /// Assigns idle groups to the first jobs, one after the other; returns the changes.
    fn serve(
        &mut self,
        problem: &Problem,
        jobs: &[usize],
        tasks: &Tasks,
        mut table: GpuTable,
        mut ladder: Ladder,
    ) -> Vec<(usize, Decision)> {
        let is_idle = |group: &Vec<usize>| group.iter().all(|gpu| table.free[*gpu]);
        let mut idle: Vec<usize> =
            (0..self.known.groups.len()).filter(|group| is_idle(&self.known.groups[*group])).collect();
        let mut changes = Vec::new();
        loop {
            let groups = &self.known.groups;
            let can_use = |place: usize| {
                let mut gpus = idle.iter().flat_map(|group| &groups[*group]);
                gpus.any(|gpu| tasks.jobs[place].times[tasks.gpus[*gpu].gpu_type].is_some())
            };
            let Some(place) = ladder.first(can_use) else { break };
            let may_keep = self.parameters.keeps_gpus && ladder.is_on_first(place);
            ladder.leave(place);
            let job = jobs[place];
            let before = idle.clone();
            let most = problem.jobs[job].max_gpus;
            let gpus = self.hand_out(&mut table, &mut idle, job, &tasks.jobs[place], most);
            let wanted = slots(gpus.iter().map(|gpu| table.gpus[*gpu]));
            let Some(placement) = placed(problem, job, wanted) else {
                let least = problem.jobs[job].min_gpus;
                changes.push((job, Decision::Defer { why: why_not(gpus.len(), least) }));
                // Otherwise, later jobs could take its GPUs one by one forever.
                if may_keep && table.suffices_later(&tasks.jobs[place], gpus.len(), least) {
                    continue;
                }
                for gpu in gpus {
                    table.free[gpu] = true;
                }
                idle = before;
                continue;
            };
            for gpu in gpus {
                table.in_turn[gpu] = true;
            }
            let model = &problem.jobs[job];
            let epochs = Turns::epochs(&model.progress, placement.epoch.total(), problem.now);
            self.known.turns.begin(problem, job, epochs);
            if let Some(gang_service) = self.known.jobs.get_mut(&model.name) {
                gang_service.entry = None;
            }
            let mut given = placement.slots.clone();
            given.sort_unstable();
            if given != held(problem, job) {
                let runs = model.progress.running().next().is_some();
                let why = if runs { "its round is over, and other GPUs are idle" } else { "" };
                let why = why.to_owned();
                changes.push((job, Decision::Place { placements: vec![placement], queued: false, why }));
            }
        }
        changes
    }
}

impl Policy for Hlas {
    fn name(&self) -> &'static str {
        self.parameters.name()
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let jobs: Vec<usize> =
            problem.present().filter(|job| problem.jobs[*job].progress.is_decided_on()).collect();
        let (counts, gpus) = (problem.nodes.iter().map(|node| node.up.clone()), all_gpus(problem));
        let counts = counts.fold(vec![0; problem.gpu_types.len()], |sum, count| {
            sum.iter().zip(count).map(|(sum, up)| sum + up).collect()
        });
        let models = jobs.iter().map(|job| (&problem.jobs[*job], 0.0, 1));
        let tasks = Tasks { gpus, counts, ..Tasks::of_gangs(problem, models) };
        self.sync_groups(problem, &tasks);
        let go_on = self.sync_jobs(problem, &jobs);
        let ladder = self.ladder(problem, &jobs, &tasks);
        let table = GpuTable::new(problem, &jobs, tasks.gpus.clone(), &go_on);
        let mut changes = self.serve(problem, &jobs, &tasks, table, ladder);
        let is_named: BTreeSet<usize> = changes.iter().map(|(job, _)| *job).collect();
        for &job in jobs.iter().filter(|job| !is_named.contains(job)) {
            if self
                .known
                .jobs
                .get(&problem.jobs[job].name)
                .is_some_and(|gang_service| gang_service.entry.is_some())
            {
                let why = "other jobs have received less service, or won the tie".to_owned();
                changes.push((job, Decision::Defer { why }));
            }
        }
        // Deferred jobs come first, because some of them release GPUs.
        changes.sort_by_key(|(_, decision)| matches!(decision, Decision::Place { .. }));
        let ends = jobs.iter().filter_map(|job| self.turn_end(problem, *job, &changes));
        let wake = ends.min_by(f64::total_cmp).map(Time);
        Ok(Plan { changes, wake, ..Plan::default() })
    }

    fn memory(&self) -> Option<Memory> {
        let text = serde_json::to_string(&self.known).ok()?;
        Some(Memory { policy: self.name().to_owned(), version: VERSION, text })
    }

    fn remember(&mut self, memory: &Memory) {
        let is_own = memory.policy == self.name() && memory.version == VERSION;
        self.known = serde_json::from_str(&memory.text).ok().filter(|_| is_own).unwrap_or_default();
    }
}

impl Hlas {
    /// Returns the end of a job's turn if it continues or begins now.
    fn turn_end(&self, problem: &Problem, job: usize, changes: &[(usize, Decision)]) -> Option<f64> {
        let (model, now) = (&problem.jobs[job], problem.now.0);
        let change = changes.iter().find(|(change, _)| *change == job).map(|(_, decision)| decision);
        match change {
            None => self.known.turns.over_at(problem, job).map(|at| at.0),
            Some(Decision::Place { placements, .. }) => {
                let epoch = placements.first()?.epoch.total();
                let is_first = model.progress.started.is_none();
                let restart = if is_first { 0.0 } else { model.progress.restart_cost.0 };
                Some(now + restart + Turns::epochs(&model.progress, epoch, problem.now) * epoch)
            }
            Some(_) => None,
        }
    }
}

/// Returns why a job cannot start on this number of idle GPUs.
fn why_not(idle: usize, least: u32) -> String {
    if idle < least as usize {
        format!("fewer than {least} GPUs that it can use are idle")
    } else {
        "its batch cannot be divided over the idle GPUs".to_owned()
    }
}

/// Returns all GPUs of nodes that are up, including those in use.
fn all_gpus(problem: &Problem) -> Vec<TaskGpu> {
    let of_node = |(node, worker_node): (usize, &hsched_plan::WorkerNode)| {
        let types = worker_node.up.iter().enumerate();
        let all = types.flat_map(|(gpu_type, count)| (0..*count).map(move |_| gpu_type));
        (0..).zip(all).map(|(index, gpu_type)| TaskGpu { node, gpu_type, index }).collect::<Vec<_>>()
    };
    problem.nodes.iter().enumerate().flat_map(of_node).collect()
}

impl GpuTable {
    /// Returns the table of all GPUs; the GPUs of jobs whose turn continues are not free.
    fn new(problem: &Problem, jobs: &[usize], gpus: Vec<TaskGpu>, go_on: &BTreeSet<usize>) -> Self {
        let mut left = within_reach(problem, jobs);
        let none = vec![false; gpus.len()];
        let holder = vec![None; gpus.len()];
        let mut table = Self { free: none.clone(), holder, in_turn: none, gpus };
        for &job in jobs {
            for slot in held(problem, job) {
                for _ in 0..slot.count {
                    let is_it = |gpu: &usize| {
                        let TaskGpu { node, gpu_type, .. } = table.gpus[*gpu];
                        (node, gpu_type) == (slot.node, slot.gpu_type) && table.holder[*gpu].is_none()
                    };
                    let Some(gpu) = (0..table.gpus.len()).find(is_it) else { continue };
                    table.holder[gpu] = Some(job);
                    table.in_turn[gpu] = go_on.contains(&job);
                    let room = &mut left[slot.node][slot.gpu_type];
                    table.free[gpu] = !go_on.contains(&job) && *room > 0;
                    *room = room.saturating_sub(1);
                }
            }
        }
        for gpu in 0..table.gpus.len() {
            let TaskGpu { node, gpu_type, .. } = table.gpus[gpu];
            let room = &mut left[node][gpu_type];
            if table.holder[gpu].is_none() && *room > 0 {
                (table.free[gpu], *room) = (true, *room - 1);
            }
        }
        table
    }

    /// Returns whether a job has too few GPUs now, but enough at the ends of turns.
    fn suffices_later(&self, tasks: &TaskJob, now: usize, least: u32) -> bool {
        let is_usable = |gpu: &usize| self.in_turn[*gpu] && tasks.times[self.gpus[*gpu].gpu_type].is_some();
        let later = (0..self.gpus.len()).filter(is_usable).count();
        now < least as usize && now + later >= least as usize
    }
}
