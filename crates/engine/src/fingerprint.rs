//! The fingerprint of a decision's input: if it is unchanged, no new decision is needed.
//!
//! It is computed from the state and the cluster themselves; without a change, no planning problem is built.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use crate::view::{gives_back, is_movable, is_ready};
use crate::{JobState, KeptOff, Planner, Rules, Stage, State, Submission};
use hsched_model::number::{to_f64, to_i64};
use hsched_model::{
    Access, Availability, Cluster, Estimates, GpuType, Node, NodeName, RankNeeds, Time, Usage,
};
use hsched_plan::throughput::{Cache, MeasuredSpeed, SpeedKey};

/// The inputs of a decision as text, one on each line. No name contains a line break, and only names of
/// models contain blanks.
#[derive(Default)]
struct Description(String);

/// Resources of the jobs' submissions on a node.
#[derive(Default)]
struct NodeLoad<'a> {
    /// By type: GPUs that running submissions hold, and GPUs promised to pending ones.
    gpus: BTreeMap<&'a GpuType, (u32, u32)>,
    /// CPUs that running submissions hold.
    cpus: u64,
    memory: u64,
}

/// Returns a number that represents the inputs of a decision, except the progress of epochs, the time and
/// start estimates.
pub(super) fn fingerprint(
    state: &State,
    at: Time,
    cluster: &Cluster,
    rules: &Rules,
    planner: &Planner<'_>,
) -> u64 {
    let open: Vec<&JobState> = state.jobs.iter().filter(|tracked| !tracked.phase.is_over()).collect();
    let mut text = Description::default();
    let (policy, parameters) = (planner.policy.name(), planner.policy.parameters());
    text.line([policy, &format!("({parameters})"), planner.objective.name(), &planner.seed.to_string()]);
    for tracked in &open {
        text.job(tracked, at);
    }
    if !open.is_empty() {
        for (gpu_type, most) in &rules.capacity {
            text.line(["limit", gpu_type.as_str(), &most.to_string()]);
        }
        text.nodes(&open, cluster, rules);
        text.kept_off(&open, &KeptOff::new(state, cluster, &rules.defaults, at));
        text.speeds(&open, &state.cache, rules.defaults.estimate);
    }
    let digest = Sha256::digest(text.0);
    digest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

impl Description {
    fn line<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) {
        for (number, word) in words.into_iter().enumerate() {
            if number > 0 {
                self.0.push(' ');
            }
            self.0.push_str(word);
        }
        self.0.push('\n');
    }

    /// Adds the scheduling state of a job.
    fn job(&mut self, tracked: &JobState, at: Time) {
        let name = tracked.job.name.as_str();
        let submissions = tracked.phase.submissions();
        if submissions.is_empty() {
            let word = if is_ready(tracked, at) { "ready" } else { "waiting" };
            self.line(["job", name, word]);
        }
        for submission in submissions {
            let movable = if is_movable(tracked, submission) { "movable" } else { "-" };
            let leaving = if gives_back(submission, at) { "leaving" } else { "-" };
            self.line(["job", name, submission.stage.word(), movable, leaving, &submission.attempt.run]);
        }
    }

    /// Adds the nodes that each job must avoid.
    fn kept_off(&mut self, open: &[&JobState], kept_off: &KeptOff<'_>) {
        for tracked in open {
            let job = kept_off.planned(tracked);
            if !job.avoided.is_empty() {
                let words = ["kept_off", job.name.as_str()].into_iter();
                self.line(words.chain(job.avoided.iter().map(NodeName::as_str)));
            }
        }
    }

    /// Adds the GPUs of each node that the jobs have or may get, and how many ranks fit on its CPUs and
    /// memory.
    fn nodes(&mut self, open: &[&JobState], cluster: &Cluster, rules: &Rules) {
        let access = Access::new(cluster, open.iter().map(|tracked| &*tracked.job), &rules.defaults);
        let needs: BTreeSet<(u64, u64)> = open
            .iter()
            .map(|tracked| rules.defaults.rank_needs(&tracked.job))
            .map(|needs| (needs.cpus, needs.memory))
            .collect();
        let by_node = node_loads(open, rules);
        let nothing = NodeLoad::default();
        for node in cluster.nodes.iter().filter(|node| access.reach(node).is_some()) {
            let on_node = by_node.get(&node.name).unwrap_or(&nothing);
            let counts: Vec<u32> = on_node.left_of(node).collect();
            let all: u64 = counts.iter().map(|&count| u64::from(count)).sum();
            if all == 0 {
                continue;
            }
            let room = |usage: Option<Usage>, held: u64| usage.map(|usage| usage.free().saturating_add(held));
            let (cpus, memory) = (room(node.cpus, on_node.cpus), room(node.memory, on_node.memory));
            let ranks = needs.iter().map(|&(own_cpus, own_memory)| {
                RankNeeds { cpus: own_cpus, memory: own_memory }.ranks(cpus, memory).min(all)
            });
            let numbers = counts.iter().map(ToString::to_string).chain(["for".to_owned()]);
            let numbers: Vec<String> = numbers.chain(ranks.map(|ranks| ranks.to_string())).collect();
            self.line(["node", node.name.as_str()].into_iter().chain(numbers.iter().map(String::as_str)));
        }
    }

    /// Adds the measured speeds rounded to steps of 5 %, so that a repeated measurement changes nothing.
    /// Speeds from job files do not change: a user who edits them adds the job again.
    fn speeds(&mut self, open: &[&JobState], cache: &Cache, estimate: Estimates) {
        let measured: Vec<(SpeedKey, MeasuredSpeed)> = cache.estimates().collect();
        if measured.is_empty() {
            return;
        }
        // For jobs planned with estimates, speeds of other models matter as well.
        let wanted: BTreeSet<(Option<&str>, u64)> = open
            .iter()
            .map(|tracked| {
                let estimate = tracked.job.estimate.unwrap_or(estimate);
                let model = (estimate == Estimates::Off).then_some(tracked.job.model.as_str());
                (model, tracked.job.global_batch)
            })
            .collect();
        for (model, batch) in wanted {
            let size = to_f64(batch);
            // Sorted by model.
            let first =
                model.map_or(0, |model| measured.partition_point(|(key, _)| key.model.as_str() < model));
            for (key, MeasuredSpeed { speed, .. }) in &measured[first..] {
                if model.is_some_and(|model| model != key.model) {
                    break;
                }
                let time = to_i64(((speed.alpha() + speed.beta() * size).ln() / 0.05).round());
                let precision =
                    key.precision.map_or_else(|| "-".to_owned(), |precision| format!("{precision:?}"));
                let (batch, time) = (batch.to_string(), time.to_string());
                let size = if key.gpus > 1 { format!("*{}", key.gpus) } else { String::new() };
                let gpu_type = format!("{}{size}", key.gpu_type);
                self.line(["speed", &batch, &key.model, &gpu_type, &precision, &time]);
            }
        }
    }
}

/// Returns the resources of the submissions of some jobs, by node.
fn node_loads<'a>(open: &[&'a JobState], rules: &Rules) -> BTreeMap<&'a NodeName, NodeLoad<'a>> {
    let mut all: BTreeMap<&NodeName, NodeLoad<'_>> = BTreeMap::new();
    let submissions = open.iter().flat_map(|job| job.phase.submissions().iter().map(move |sub| (job, sub)));
    for (tracked, Submission { attempt, stage }) in submissions {
        let runs = *stage == Stage::Running;
        // A started submission that is being cancelled holds its GPUs until it has ended.
        let waits = !runs && (attempt.started.is_none() || !matches!(stage, Stage::Stopping { .. }));
        let needs = rules.defaults.rank_needs(&tracked.job);
        for (node, gpu_type, count) in attempt.gpus.iter() {
            let on_node = all.entry(node).or_default();
            let (held, promised) = on_node.gpus.entry(gpu_type).or_default();
            if runs {
                *held += count;
                on_node.cpus += u64::from(count) * needs.cpus;
                on_node.memory += u64::from(count) * needs.memory;
            } else if waits {
                *promised += count;
            }
        }
    }
    all
}

impl NodeLoad<'_> {
    /// Returns a node's GPUs of each type that are free or held, without the promised ones.
    fn left_of(&self, node: &Node) -> impl Iterator<Item = u32> {
        let is_up = node.state.availability() == Availability::Up;
        node.gpus.iter().map(move |stock| {
            let (held, promised) = self.gpus.get(&stock.gpu_type).copied().unwrap_or_default();
            let free = if is_up { stock.free() } else { 0 };
            free.saturating_add(held).min(stock.total).saturating_sub(promised)
        })
    }
}
