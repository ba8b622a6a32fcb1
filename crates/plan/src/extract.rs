//! Extracts: a problem reduced to some jobs and the GPUs that they may use, as the input of placers.

use std::collections::BTreeMap;

use crate::{
    Basis, Bound, Dues, Exclusion, JobModel, Placement, Problem, ProblemChanges, Progress, Rank, Slot,
    WorkerNode,
};
use hsched_model::GpuType;

/// Some jobs of a problem, without their held GPUs, and the GPUs that they may use together.
#[derive(Clone, Debug)]
pub struct Extract {
    pub problem: Problem,
    /// Index of each job in the whole problem.
    pub jobs: Vec<usize>,
    /// Index of each node in the whole problem.
    nodes: Vec<usize>,
    /// For each type, the types of the whole problem that it represents: types with the same name that the
    /// same jobs may use.
    types: Vec<Vec<usize>>,
}

impl Problem {
    /// Returns the problem of placing only `jobs`, in that order, on the GPUs that they may use.
    pub fn extract(&self, jobs: &[usize], basis: Basis) -> Extract {
        self.extract_on(jobs, &self.offered_to(jobs, basis))
    }

    /// Returns the problem of placing only `jobs`, in that order, on these GPUs by node and type.
    pub fn extract_on(&self, jobs: &[usize], gpus: &[Vec<u32>]) -> Extract {
        let types = self.classes(jobs);
        // A type that none of these jobs may use stays in the list without GPUs, so that reasons can name it.
        let is_of_use: Vec<bool> =
            types.iter().map(|members| jobs.iter().any(|&job| self.jobs[job].may_use[members[0]])).collect();
        let count = |node: usize| -> Vec<u32> {
            let sum =
                |members: &Vec<usize>| members.iter().map(|&gpu_type| gpus[node][gpu_type]).sum::<u32>();
            types.iter().zip(&is_of_use).map(|(members, &is)| if is { sum(members) } else { 0 }).collect()
        };
        let (mut nodes, mut workers) = (Vec::new(), Vec::new());
        for (number, node) in self.nodes.iter().enumerate() {
            let gpus = count(number);
            if gpus.iter().any(|count| *count > 0) {
                nodes.push(number);
                workers.push(WorkerNode::on_offer(node.name.clone(), gpus, node.intra_node));
            }
        }
        let ceiling = |members: &Vec<usize>| members.iter().map(|&gpu_type| self.ceiling[gpu_type]).sum();
        let offered: Vec<u32> =
            (0..types.len()).map(|ty| workers.iter().map(|node: &WorkerNode| node.gpus[ty]).sum()).collect();
        let problem = Self {
            gpu_types: types.iter().map(|members| self.gpu_types[members[0]].clone()).collect(),
            labels: self.labels_of(&types),
            nodes: workers,
            ceiling: types.iter().map(ceiling).collect(),
            network: self.network,
            jobs: jobs.iter().map(|&job| self.jobs[job].for_types(&types, &offered)).collect(),
            objective: self.objective,
            late: Dues::of(self).late().unwrap_or(0.0),
            seed: self.seed,
            now: self.now,
            limits: Vec::new(),
            forecasts: Vec::new(),
            start_estimates: None,
            changed: ProblemChanges::All,
        };
        Extract { problem, jobs: jobs.to_vec(), nodes, types }
    }

    /// Returns the types that some of these jobs may use, or could use if a rank fitted there. Types with one
    /// name that the same jobs may use are merged.
    fn classes(&self, jobs: &[usize]) -> Vec<Vec<usize>> {
        let reach =
            |gpu_type: usize| jobs.iter().map(|&job| self.jobs[job].may_use[gpu_type]).collect::<Vec<bool>>();
        let mut classes: Vec<(&GpuType, Vec<bool>, Vec<usize>)> = Vec::new();
        for (number, gpu_type) in self.gpu_types.iter().enumerate() {
            let reach = reach(number);
            let is_too_small = || jobs.iter().any(|&job| self.jobs[job].is_too_large_for(number));
            if !reach.contains(&true) && !is_too_small() {
                continue;
            }
            match classes.iter_mut().find(|(name, class, _)| *name == gpu_type && *class == reach) {
                Some((_, _, members)) => members.push(number),
                None => classes.push((gpu_type, reach, vec![number])),
            }
        }
        classes.into_iter().map(|(_, _, members)| members).collect()
    }

    /// Returns a name for each class: the type's name if its class is the only one of that type, or else the
    /// label of its first type.
    fn labels_of(&self, types: &[Vec<usize>]) -> Vec<String> {
        let name = |members: &Vec<usize>| &self.gpu_types[members[0]];
        let label =
            |members: &Vec<usize>| match types.iter().filter(|other| name(other) == name(members)).count() {
                1 => name(members).to_string(),
                _ => self.labels[members[0]].clone(),
            };
        types.iter().map(label).collect()
    }
}

impl JobModel {
    /// Returns whether the job's ranks need more than the nodes with a type have.
    fn is_too_large_for(&self, gpu_type: usize) -> bool {
        self.unusable
            .iter()
            .any(|(unusable, why)| *unusable == gpu_type && matches!(why, Exclusion::Needs(_)))
    }

    /// Returns the job without held GPUs, with these classes of types and numbers of offered GPUs.
    fn for_types(&self, types: &[Vec<usize>], offered: &[u32]) -> Self {
        let any_class = |gpu_type: usize| types.iter().position(|members| members.contains(&gpu_type));
        let class = |gpu_type: usize| any_class(gpu_type).filter(|&class| offered[class] > 0);
        let why_not = |gpu_type: usize| {
            if self.is_too_large_for(gpu_type) { any_class(gpu_type) } else { class(gpu_type) }
        };
        let mut unlisted: Vec<usize> = self.unlisted.iter().filter_map(|&gpu_type| class(gpu_type)).collect();
        unlisted.dedup();
        // The fields are listed individually so that fields that are replaced are not cloned first.
        Self {
            name: self.name.clone(),
            samples_per_epoch: self.samples_per_epoch,
            epochs: self.epochs,
            global_batch: self.global_batch,
            batch_quantum: self.batch_quantum,
            model_bytes: self.model_bytes,
            syncs_per_epoch: self.syncs_per_epoch,
            overlap: self.overlap,
            weight: self.weight,
            min_gpus: self.min_gpus,
            max_gpus: self.max_gpus,
            asks: self.asks,
            accumulate: self.accumulate,
            types: types.iter().map(|members| self.types[members[0]]).collect(),
            unusable: first(&self.unusable, why_not),
            sources: first(&self.sources, class),
            unlisted,
            remarks: first(&self.remarks, class),
            rounds: self.rounds.clone(),
            aims: self.aims,
            may_use: types.iter().map(|members| self.may_use[members[0]]).collect(),
            needs: self.needs,
            replica: self.replica.as_ref().map(|replica| replica.for_types(types)),
            sharing: self.sharing,
            progress: Progress {
                epochs_left: self.progress.epochs_left,
                work: self.progress.work,
                work_left: self.progress.work_left,
                as_of: self.progress.as_of,
                ..Progress::default()
            },
        }
    }
}

impl Extract {
    /// Converts a placement of the extract to one of the whole problem.
    pub(crate) fn to_whole(&self, whole: &Problem, placement: &Placement) -> Placement {
        let gpu_type = |node: usize, class: usize| {
            let has = |gpu_type: &&usize| {
                whole.nodes[node].gpus[**gpu_type] > 0 || whole.nodes[node].up[**gpu_type] > 0
            };
            self.types[class].iter().find(has).copied().unwrap_or(self.types[class][0])
        };
        renumbered(placement, |node, class| {
            let node = self.nodes[node];
            Some((node, gpu_type(node, class)))
        })
        .unwrap_or_else(|| placement.clone())
    }

    /// Converts a placement of the whole problem to one of the extract; `None` if it uses other GPUs.
    pub fn of_whole(&self, placement: &Placement) -> Option<Placement> {
        renumbered(placement, |node, gpu_type| {
            let node = self.nodes.iter().position(|known| *known == node)?;
            Some((node, self.types.iter().position(|members| members.contains(&gpu_type))?))
        })
    }

    /// Converts a bound of the extract to the whole problem's types.
    pub(crate) fn bound_to_whole(&self, whole: &Problem, bound: &Bound) -> Bound {
        let mut prices = vec![0.0; whole.gpu_types.len()];
        for (members, price) in self.types.iter().zip(&bound.prices) {
            for &gpu_type in members {
                prices[gpu_type] = *price;
            }
        }
        let mut replica_prices = vec![BTreeMap::new(); whole.gpu_types.len()];
        for (members, prices) in self.types.iter().zip(&bound.replica_prices) {
            for &gpu_type in members {
                replica_prices[gpu_type].clone_from(prices);
            }
        }
        Bound { prices, replica_prices, ..bound.clone() }
    }

    /// Converts a bound of the whole problem to the extract's types.
    pub fn bound_of_whole(&self, bound: &Bound) -> Bound {
        let sizes = |members: &Vec<usize>| bound.replica_prices.get(members[0]).cloned().unwrap_or_default();
        Bound {
            prices: self.types.iter().map(|members| bound.prices[members[0]]).collect(),
            replica_prices: self.types.iter().map(sizes).collect(),
            ..bound.clone()
        }
    }
}

/// Returns a placement with other indices for its nodes and types.
fn renumbered(
    placement: &Placement,
    number: impl Fn(usize, usize) -> Option<(usize, usize)>,
) -> Option<Placement> {
    let slot = |slot: &Slot| {
        let (node, gpu_type) = number(slot.node, slot.gpu_type)?;
        Some(Slot { node, gpu_type, ..*slot })
    };
    let rank = |rank: &Rank| {
        let (node, gpu_type) = number(rank.node, rank.gpu_type)?;
        Some(Rank { node, gpu_type, ..*rank })
    };
    Some(Placement {
        slots: placement.slots.iter().map(slot).collect::<Option<_>>()?,
        ranks: placement.ranks.iter().map(rank).collect::<Option<_>>()?,
        ..placement.clone()
    })
}

/// Converts entries of types to entries of their classes; if a class has several types, only the entries of
/// the first are kept.
fn first<T: Clone>(entries: &[(usize, T)], class: impl Fn(usize) -> Option<usize>) -> Vec<(usize, T)> {
    let mut speakers: Vec<(usize, usize)> = Vec::new();
    let mut classes = Vec::new();
    for (gpu_type, entry) in entries {
        let Some(class) = class(*gpu_type) else { continue };
        let speaker = speakers.iter().find(|(known, _)| *known == class).map(|(_, speaker)| *speaker);
        if speaker.is_none() {
            speakers.push((class, *gpu_type));
        }
        if speaker.is_none_or(|speaker| speaker == *gpu_type) {
            classes.push((class, entry.clone()));
        }
    }
    classes
}
