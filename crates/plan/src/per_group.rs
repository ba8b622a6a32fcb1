//! A policy that decides separately for each group of nodes: no job spans two groups.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{
    Budget, Decision, Eligibility, JobModel, Memory, Plan, Policy, PolicyError, Problem, Room, WorkerNode,
};
use hsched_model::NodeName;

/// The version of the stored memory.
const VERSION: u32 = 1;

/// A policy for groups of nodes, such as the allocations of a pool.
///
/// Groups are decided one after another, each by a policy of its own, because a policy remembers what it has
/// decided about its GPUs. Each pending job of one GPU is first offered to the group with the most room for it
/// and, if it gets nothing there, to the later groups. Pending jobs that need several GPUs
/// are offered to all groups in turn.
pub struct PerGroup<G, M> {
    group: G,
    make: M,
    /// Has the name and the properties of the others, and decides nothing.
    model: Box<dyn Policy>,
    policies: BTreeMap<String, Box<dyn Policy>>,
    /// Memories of groups that have not been decided since they were read.
    memories: BTreeMap<String, Memory>,
}

impl<G, M> PerGroup<G, M>
where
    G: Fn(&NodeName) -> String,
    M: Fn() -> Box<dyn Policy>,
{
    /// Returns the policy for groups named by `group`; `make` makes the policy of one group.
    pub fn new(make: M, group: G) -> Self {
        let model = make();
        Self { group, make, model, policies: BTreeMap::new(), memories: BTreeMap::new() }
    }

    /// Returns the nodes of each group.
    fn groups(&self, problem: &Problem) -> BTreeMap<String, Vec<usize>> {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (number, node) in problem.nodes.iter().enumerate() {
            groups.entry((self.group)(&node.name)).or_default().push(number);
        }
        groups
    }

    /// Returns the policy of a group.
    fn of(&mut self, group: &str) -> &mut dyn Policy {
        let Self { make, policies, memories, .. } = self;
        let begin = || {
            let mut policy = make();
            if let Some(memory) = memories.remove(group) {
                policy.remember(&memory);
            }
            policy
        };
        policies.entry(group.to_owned()).or_insert_with(begin).as_mut()
    }
}

impl<G, M> Policy for PerGroup<G, M>
where
    G: Fn(&NodeName) -> String,
    M: Fn() -> Box<dyn Policy>,
{
    fn name(&self) -> &'static str {
        self.model.name()
    }

    fn inner(&self) -> Option<&dyn Policy> {
        Some(self.model.as_ref())
    }

    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError> {
        let groups = self.groups(problem);
        self.policies.retain(|group, _| groups.contains_key(group));
        self.memories.retain(|group, _| groups.contains_key(group));
        if let Some(group) = groups.keys().next().filter(|_| groups.len() == 1) {
            return self.of(group).decide(problem, budget);
        }
        let (names, nodes): (Vec<String>, Vec<Vec<usize>>) = groups.into_iter().unzip();
        let homes = homes(problem, &nodes);
        let mut merged = MergedPlans::default();
        for (number, (name, nodes)) in names.iter().zip(&nodes).enumerate() {
            // A job that found no room in earlier groups is offered again.
            let is_offered = |job: usize| homes[job] <= number && !merged.is_placed(job);
            let part = part(problem, nodes, is_offered);
            let plan = self.of(name).decide(&part, budget)?;
            merged.add(plan);
        }
        Ok(merged.plan())
    }

    fn memory(&self) -> Option<Memory> {
        let decided = self.policies.iter().filter_map(|(group, policy)| Some((group, policy.memory()?)));
        let waiting = self.memories.iter().map(|(group, memory)| (group, memory.clone()));
        let all: BTreeMap<&String, Memory> = waiting.chain(decided).collect();
        let text = serde_json::to_string(&all).ok().filter(|_| !all.is_empty())?;
        Some(Memory { policy: self.name().to_owned(), version: VERSION, text })
    }

    fn remember(&mut self, memory: &Memory) {
        let memories = (memory.version == VERSION).then(|| serde_json::from_str(&memory.text).ok()).flatten();
        if let Some(memories) = memories {
            (self.memories, self.policies) = (memories, BTreeMap::new());
        }
    }
}

/// The merged plans of several groups.
#[derive(Default)]
struct MergedPlans {
    plan: Plan,
    decided: BTreeMap<usize, Decision>,
    /// The decided jobs in the order of execution: within each group, jobs that release GPUs precede those
    /// that get them.
    order: Vec<usize>,
}

impl MergedPlans {
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

/// Ranks a decision by its benefit for a pending job; over several groups, the highest rank counts.
fn rank(decision: &Decision) -> u8 {
    match decision {
        Decision::Place { .. } | Decision::Adjust { .. } | Decision::Finish { .. } => 2,
        Decision::Defer { .. } => 1,
        Decision::Reject { .. } => 0,
    }
}

/// Returns the first group for each job. For a job of one GPU that can start now, this is in turn the one with
/// the most free GPUs that the job can use, minus the GPUs that earlier jobs may take there. A job that needs
/// several GPUs may fit into few groups, so it is offered to all.
fn homes(problem: &Problem, groups: &[Vec<usize>]) -> Vec<usize> {
    let (free, rooms) = (free(problem), rooms(problem));
    let mut taken = vec![0; groups.len()];
    let home = |job: &JobModel| {
        if !job.progress.is_ready() || job.least_gpus() > 1 {
            return 0;
        }
        let has_room = |node: usize| rooms[node].0 >= job.needs.cpus && rooms[node].1 >= job.needs.memory;
        let usable = |node: &usize| -> i64 {
            let by_type = free[*node].iter().zip(&job.types).filter(|(_, model)| model.is_some());
            if has_room(*node) { by_type.map(|(count, _)| *count).sum() } else { 0 }
        };
        let left = |group: usize| groups[group].iter().map(usable).sum::<i64>() - taken[group];
        let can_run = |node: &usize| {
            problem.nodes[*node].up.iter().zip(&job.types).any(|(count, model)| *count > 0 && model.is_some())
        };
        let possible = (0..groups.len()).filter(|&group| groups[group].iter().any(can_run));
        let home = possible.max_by_key(|&group| (left(group), Reverse(group))).unwrap_or(0);
        taken[home] += i64::from(job.most_gpus()).min(left(home).max(1));
        home
    };
    problem.jobs.iter().map(home).collect()
}

/// Returns the unused GPUs of each node by type.
fn free(problem: &Problem) -> Vec<Vec<i64>> {
    let all = |node: &WorkerNode| node.gpus.iter().map(|&count| i64::from(count)).collect();
    let mut free: Vec<Vec<i64>> = problem.nodes.iter().map(all).collect();
    for slot in problem.jobs.iter().flat_map(|job| &job.progress.holds).flat_map(|hold| &hold.slots) {
        free[slot.node][slot.gpu_type] -= i64::from(slot.count);
    }
    free
}

/// Returns the unused CPUs and memory of each node; the maximum value if unknown.
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

/// Returns the problem of some nodes alone: other nodes have no GPUs, and jobs that hold GPUs there or are
/// not offered are removed.
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
