//! The resources held by running jobs, kept up to date, and the capacity rules of
//! [`verify`](super::verify()).

use std::collections::{BTreeMap, BTreeSet};

use crate::verify::placements;
use crate::{Decision, JobModel, Plan, Problem, Room, Slot, Violation, WorkerNode};

/// The GPUs, CPUs and memory held by running jobs, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenResources {
    /// GPUs by node and type.
    gpus: Vec<Vec<i64>>,
    /// CPUs and bytes of memory by node.
    hosts: Vec<HostDelta>,
    /// GPUs by type.
    types: Vec<i64>,
}

/// Changes of CPUs and bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HostDelta {
    cpus: i128,
    memory: i128,
}

/// The changes of a plan: negative for resources that its named jobs hold, positive for those that they
/// receive.
#[derive(Default)]
struct PlanDelta {
    gpus: BTreeMap<(usize, usize), i64>,
    hosts: BTreeMap<usize, HostDelta>,
    types: BTreeMap<usize, i64>,
    /// Nodes and types that the plan assigns; only these are checked, not GPUs that jobs already hold.
    given: BTreeSet<(usize, usize)>,
}

impl TakenResources {
    /// Returns the resources held by a problem's running jobs.
    pub fn of(problem: &Problem) -> Self {
        let types = problem.gpu_types.len();
        let mut taken = Self {
            gpus: vec![vec![0; types]; problem.nodes.len()],
            hosts: vec![HostDelta::default(); problem.nodes.len()],
            types: vec![0; types],
        };
        for job in problem.present() {
            let model = &problem.jobs[job];
            for slot in model.progress.running().flat_map(|hold| &hold.slots) {
                taken.add(model, slot, 1);
            }
        }
        taken
    }

    /// Adds GPUs that a job now holds.
    pub fn take(&mut self, job: &JobModel, slots: &[Slot]) {
        for slot in slots {
            self.add(job, slot, 1);
        }
    }

    /// Subtracts GPUs that a job no longer holds.
    pub fn release(&mut self, job: &JobModel, slots: &[Slot]) {
        for slot in slots {
            self.add(job, slot, -1);
        }
    }

    fn add(&mut self, job: &JobModel, slot: &Slot, sign: i64) {
        let count = sign * i64::from(slot.count);
        self.gpus[slot.node][slot.gpu_type] += count;
        self.types[slot.gpu_type] += count;
        self.hosts[slot.node].add(job, count);
    }

    /// Returns the resources of nodes and the limits that a plan exceeds.
    pub(super) fn exceeded(&self, problem: &Problem, plan: &Plan) -> Vec<Violation> {
        let mut free = PlanDelta::default();
        for (job, _) in &plan.changes {
            let model = &problem.jobs[*job];
            for slot in model.progress.running().flat_map(|hold| &hold.slots) {
                free.add(model, slot, -1);
            }
        }
        let (mut queued, mut asked) = (free.clone_changes(), PlanDelta::default());
        for (job, decision) in &plan.changes {
            let waits = matches!(decision, Decision::Place { queued: true, .. } | Decision::Adjust { .. });
            let change = if waits { &mut queued } else { &mut free };
            for slot in placements(decision).iter().flat_map(|placement| &placement.slots) {
                change.add(&problem.jobs[*job], slot, 1);
                change.given.insert((slot.node, slot.gpu_type));
                if waits {
                    asked.add(&problem.jobs[*job], slot, 1);
                    asked.given.insert((slot.node, slot.gpu_type));
                }
            }
        }
        let mut violations = Vec::new();
        self.exceeded_gpus(problem, &free, |node| &node.gpus, &mut violations);
        // A pending job may wait for GPUs held by other jobs of the problem.
        Self::default().exceeded_gpus(problem, &asked, |node| &node.up, &mut violations);
        self.exceeded_hosts(problem, &free, &mut violations);
        for change in [&free, &queued] {
            self.exceeded_limits(problem, change, &mut violations);
        }
        violations
    }

    fn exceeded_gpus(
        &self,
        problem: &Problem,
        change: &PlanDelta,
        of: impl Fn(&WorkerNode) -> &Vec<u32>,
        violations: &mut Vec<Violation>,
    ) {
        for &(node, gpu_type) in &change.given {
            let offered = problem.nodes.get(node).and_then(|n| of(n).get(gpu_type)).copied().unwrap_or(0);
            let before = self.gpus.get(node).and_then(|counts| counts.get(gpu_type)).copied().unwrap_or(0);
            let given = before + change.gpus.get(&(node, gpu_type)).copied().unwrap_or(0);
            if given > i64::from(offered) {
                let name = |text: Option<&str>| text.unwrap_or("?").to_owned();
                violations.push(Violation::Capacity {
                    node: name(problem.nodes.get(node).map(|n| n.name.as_str())),
                    gpu_type: name(problem.labels.get(gpu_type).map(String::as_str)),
                    given: given.unsigned_abs(),
                    offered: offered.into(),
                });
            }
        }
    }

    /// Checks CPUs and memory for the ranks on each node.
    fn exceeded_hosts(&self, problem: &Problem, change: &PlanDelta, violations: &mut Vec<Violation>) {
        let nodes: BTreeSet<usize> = change.given.iter().map(|(node, _)| *node).collect();
        for number in nodes {
            let Some(node) = problem.nodes.get(number) else { continue };
            let Some(host) = node.host else { continue };
            let before = self.hosts.get(number).copied().unwrap_or_default();
            let change = change.hosts.get(&number).copied().unwrap_or_default();
            let lacks =
                |room: Option<Room>, wanted: i128| room.is_some_and(|room| wanted > i128::from(room.free));
            for (what, lacks) in [
                ("CPUs", lacks(host.cpus, before.cpus + change.cpus)),
                ("memory", lacks(host.memory, before.memory + change.memory)),
            ] {
                if lacks {
                    violations.push(Violation::Host { node: node.name.to_string(), what });
                }
            }
        }
    }

    /// Checks the limits on the total held by all jobs.
    fn exceeded_limits(&self, problem: &Problem, change: &PlanDelta, violations: &mut Vec<Violation>) {
        for limit in &problem.limits {
            let is_given = change.given.iter().any(|(_, gpu_type)| limit.gpu_types.contains(gpu_type));
            let held = |gpu_type: &usize| {
                let before = self.types.get(*gpu_type).copied().unwrap_or(0);
                before + change.types.get(gpu_type).copied().unwrap_or(0)
            };
            let held: i64 = limit.gpu_types.iter().map(held).sum();
            if is_given && held > i64::from(limit.most) {
                let gpu_type = limit.gpu_types.first().and_then(|ty| problem.gpu_types.get(*ty));
                let gpu_type = gpu_type.map_or_else(|| "?".to_owned(), ToString::to_string);
                violations.push(Violation::Limit { gpu_type, held: held.unsigned_abs(), most: limit.most });
            }
        }
    }
}

impl PlanDelta {
    /// Returns the same amounts without assignments.
    fn clone_changes(&self) -> Self {
        Self {
            gpus: self.gpus.clone(),
            hosts: self.hosts.clone(),
            types: self.types.clone(),
            given: BTreeSet::new(),
        }
    }

    fn add(&mut self, job: &JobModel, slot: &Slot, sign: i64) {
        let count = sign * i64::from(slot.count);
        *self.gpus.entry((slot.node, slot.gpu_type)).or_default() += count;
        *self.types.entry(slot.gpu_type).or_default() += count;
        self.hosts.entry(slot.node).or_default().add(job, count);
    }
}

impl HostDelta {
    fn add(&mut self, job: &JobModel, ranks: i64) {
        self.cpus += i128::from(job.needs.cpus) * i128::from(ranks);
        self.memory += i128::from(job.needs.memory) * i128::from(ranks);
    }
}
