//! A policy that decides for each group of nodes alone: no job is spread over two groups.

use std::collections::BTreeMap;

use crate::{Budget, Decision, Eligibility, Plan, Policy, PolicyError, Problem};
use hsched_model::NodeName;

/// A policy for nodes in groups, such as the allocations of a pool.
///
/// Groups are decided on one after the other: a job that waits and gets GPUs in one is not seen by the next.
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
        let mut merged = Plan::default();
        let mut decided: BTreeMap<usize, Decision> = BTreeMap::new();
        let mut order = Vec::new();
        for nodes in &groups {
            let placed = |job: usize| matches!(decided.get(&job), Some(Decision::Place { .. }));
            let plan = self.policy.decide(&part(problem, nodes, placed), budget)?;
            for (job, decision) in plan.changes {
                if !decided.contains_key(&job) {
                    order.push(job);
                }
                let is_better = |before: &Decision| rank(&decision) > rank(before);
                if decided.get(&job).is_none_or(is_better) {
                    decided.insert(job, decision);
                }
            }
            merged.wake = [merged.wake, plan.wake].into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
            for note in plan.notes {
                if !merged.notes.contains(&note) {
                    merged.notes.push(note);
                }
            }
            merged.stopped |= plan.stopped;
        }
        // Those that give GPUs back come before those that get them, as each group has them.
        merged.changes = order.into_iter().filter_map(|job| Some((job, decided.remove(&job)?))).collect();
        Ok(merged)
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

/// Returns the problem of some nodes alone: the others have no GPUs, and jobs that hold GPUs there are gone.
fn part(problem: &Problem, nodes: &[usize], placed: impl Fn(usize) -> bool) -> Problem {
    let mut part = problem.clone();
    for (number, node) in part.nodes.iter_mut().enumerate() {
        if !nodes.contains(&number) {
            node.gpus.fill(0);
            node.up.fill(0);
        }
    }
    for (number, job) in part.jobs.iter_mut().enumerate() {
        let holds = &job.progress.holds;
        let mut slots = holds.iter().flat_map(|hold| &hold.slots).peekable();
        let is_elsewhere = slots.peek().is_some() && slots.all(|slot| !nodes.contains(&slot.node));
        if is_elsewhere || placed(number) {
            job.progress.waits = Eligibility::Gone;
            job.progress.holds.clear();
        }
    }
    part
}
