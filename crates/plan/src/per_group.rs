//! A policy that decides for each group of nodes alone: no job is spread over two groups.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{Budget, Decision, Eligibility, JobModel, Plan, Policy, PolicyError, Problem, Room, WorkerNode};
use hsched_model::NodeName;

/// A policy for nodes in groups, such as the allocations of a pool.
///
/// Groups are decided on one after the other. Each job that waits is offered to the group first that has most room for it, and if it gets
/// nothing there to those that come after.
pub struct PerGroup<G> {
    policy: Box<dyn Policy>,
    group: G,
}

impl<G, K: Ord> PerGroup<G>
where
    G: Fn(&NodeName) -> K,
{
    /// Returns the policy for groups that `group` names.
    pub fn new(policy: Box<dyn Policy>, group: G) -> Self {
        Self { policy, group }
    }

    /// Returns the nodes of each group.
    fn groups(&self, problem: &Problem) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
        for (number, node) in problem.nodes.iter().enumerate() {
            groups.entry((self.group)(&node.name)).or_default().push(number);
        }
        groups.into_values().collect()
    }
}

impl<G, K: Ord> Policy for PerGroup<G>
where
    G: Fn(&NodeName) -> K,
{
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn inner(&self) -> Option<&dyn Policy> {
        Some(self.policy.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Policy> {
        Some(self.policy.as_mut())
    }

    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError> {
        let groups = self.groups(problem);
        if groups.len() < 2 {
            return self.policy.decide(problem, budget);
        }
        let homes = homes(problem, &groups);
        let mut merged = Merged::default();
        for (number, nodes) in groups.iter().enumerate() {
            // What found no place in the groups before is offered again.
            let is_offered = |job: usize| homes[job] <= number && !merged.is_placed(job);
            let plan = self.policy.decide(&part(problem, nodes, is_offered), budget)?;
            merged.add(plan);
        }
        Ok(merged.plan())
    }
}

/// The plans of several groups as one.
#[derive(Default)]
struct Merged {
    plan: Plan,
    decided: BTreeMap<usize, Decision>,
    /// The jobs that are decided on, in the order in which that is carried out: those that give GPUs back before those that get
    /// them, as each group has them.
    order: Vec<usize>,
}

impl Merged {
    fn is_placed(&self, job: usize) -> bool {
        matches!(self.decided.get(&job), Some(Decision::Place { .. }))
    }

    fn add(&mut self, plan: Plan) {
        for (job, decision) in plan.changes {
            if self.decided.get(&job).is_none_or(|before| rank(&decision) > rank(before)) {
                self.order.retain(|other| *other != job);
                self.order.push(job);
                self.decided.insert(job, decision);
            }
        }
        let Plan { wake, questions, inquiries, requests, notes, categories, stopped, .. } = plan;
        let all = &mut self.plan;
        all.wake = [all.wake, wake].into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
        all.questions.extend(questions);
        all.inquiries.extend(inquiries);
        all.requests.extend(requests);
        for note in notes {
            if !all.notes.contains(&note) {
                all.notes.push(note);
            }
        }
        all.categories = [all.categories, categories].into_iter().flatten().reduce(u64::saturating_add);
        all.stopped |= stopped;
    }

    fn plan(mut self) -> Plan {
        self.plan.changes =
            self.order.into_iter().filter_map(|job| Some((job, self.decided.remove(&job)?))).collect();
        self.plan
    }
}

/// Returns how much a decision does for a job that waits: of several groups the one counts that does most.
fn rank(decision: &Decision) -> u8 {
    match decision {
        Decision::Place { .. } | Decision::Adjust { .. } | Decision::Finish { .. } => 2,
        Decision::Defer { .. } => 1,
        Decision::Reject { .. } => 0,
    }
}

/// Returns the group that each job is offered to first: each in turn the one with the most free GPUs that it can use, less what the jobs
/// before it may take there. What needs several GPUs may fit into few groups, and is offered to all.
fn homes(problem: &Problem, groups: &[Vec<usize>]) -> Vec<usize> {
    let (free, rooms) = (free(problem), rooms(problem));
    let mut taken = vec![0; groups.len()];
    let home = |job: &JobModel| {
        if !job.progress.holds.is_empty() || job.least_gpus() > 1 {
            return 0;
        }
        let has_room = |node: usize| rooms[node].0 >= job.needs.cpus && rooms[node].1 >= job.needs.memory;
        let usable = |node: &usize| -> i64 {
            let by_type = free[*node].iter().zip(&job.types).filter(|(_, model)| model.is_some());
            if has_room(*node) { by_type.map(|(count, _)| *count).sum() } else { 0 }
        };
        let left = |group: usize| groups[group].iter().map(usable).sum::<i64>() - taken[group];
        let home = (0..groups.len()).max_by_key(|&group| (left(group), Reverse(group))).unwrap_or(0);
        taken[home] += i64::from(job.most_gpus()).min(left(home).max(1));
        home
    };
    problem.jobs.iter().map(home).collect()
}

/// Returns the GPUs of each node by type that no job has.
fn free(problem: &Problem) -> Vec<Vec<i64>> {
    let all = |node: &WorkerNode| node.gpus.iter().map(|&count| i64::from(count)).collect();
    let mut free: Vec<Vec<i64>> = problem.nodes.iter().map(all).collect();
    for slot in problem.jobs.iter().flat_map(|job| &job.progress.holds).flat_map(|hold| &hold.slots) {
        free[slot.node][slot.gpu_type] -= i64::from(slot.count);
    }
    free
}

/// Returns the CPUs and the memory of each node that no job has; the largest number where nobody knows.
fn rooms(problem: &Problem) -> Vec<(u64, u64)> {
    let all = |node: &WorkerNode| {
        let host = node.host.unwrap_or_default();
        let free = |room: Option<Room>| room.map_or(u64::MAX, |room| room.free);
        (free(host.cpus), free(host.memory))
    };
    let mut rooms: Vec<(u64, u64)> = problem.nodes.iter().map(all).collect();
    for job in &problem.jobs {
        for slot in job.progress.holds.iter().flat_map(|hold| &hold.slots) {
            let ((cpus, memory), count) = (&mut rooms[slot.node], u64::from(slot.count));
            *cpus = cpus.saturating_sub(count * job.needs.cpus);
            *memory = memory.saturating_sub(count.saturating_mul(job.needs.memory));
        }
    }
    rooms
}

/// Returns the problem of some nodes alone: the others have no GPUs, and jobs that hold GPUs there or are not offered are gone.
fn part(problem: &Problem, nodes: &[usize], is_offered: impl Fn(usize) -> bool) -> Problem {
    let mut part = problem.clone();
    part.ceiling.fill(0);
    for (number, node) in part.nodes.iter_mut().enumerate() {
        if nodes.contains(&number) {
            let most = node.gpus.iter().zip(&node.up).map(|(gpus, up)| *gpus.max(up));
            part.ceiling.iter_mut().zip(most).for_each(|(sum, count)| *sum += count);
        } else {
            node.gpus.fill(0);
            node.up.fill(0);
        }
    }
    for (number, job) in part.jobs.iter_mut().enumerate() {
        let holds = &job.progress.holds;
        let mut slots = holds.iter().flat_map(|hold| &hold.slots).peekable();
        let is_elsewhere = slots.peek().is_some() && slots.all(|slot| !nodes.contains(&slot.node));
        if is_elsewhere || !is_offered(number) {
            job.progress.waits = Eligibility::Gone;
            job.progress.holds.clear();
        }
    }
    part
}
