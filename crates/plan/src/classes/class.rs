//! Classes of jobs with equal speeds, which share one list of bundles.

use std::collections::BTreeMap;

use crate::classes::Bundles;
use crate::classes::candidates::{self, BundleLimits};
use crate::pricing::Rings;
use crate::{JobModel, Problem, Progress, TypeModel, WorkerNode, cost};
use hsched_model::NodeName;
use hsched_model::number::to_f64;

/// Jobs with the same model, batch and limits.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// The bundles of the class on all GPUs of the cluster.
    whole: Bundles,
    /// The bundles that fit the offered GPUs.
    pub bundles: Bundles,
    /// The highest speed on the offered GPUs, in steps per second; 0 if there is no bundle.
    pub fastest: f64,
}

/// All classes seen so far, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    list: Vec<Class>,
    /// A representative job of each class, with one step per epoch.
    models: Vec<JobModel>,
    by_key: BTreeMap<Vec<u64>, usize>,
    site: Option<BundleSite>,
    /// Offered GPUs by type.
    offered: Vec<u32>,
}

/// Inputs of bundles besides the job.
#[derive(Clone, Debug)]
struct BundleSite {
    /// Maximum number of GPUs that could be offered, by type.
    ceiling: Vec<u32>,
    rings: Rings,
    seen: SeenNodes,
}

/// The nodes of a problem, with the most GPUs observed on each of them.
#[derive(Clone, Debug, PartialEq)]
struct SeenNodes {
    /// Names of the GPU types.
    labels: Vec<String>,
    names: Vec<NodeName>,
    /// The most GPUs observed on each node, and its link rate in bytes per second.
    shapes: Vec<(Vec<u32>, f64)>,
}

/// Number of bits after the leading one that are kept of the synchronisations per step, rounded down.
/// multiple of the batch thus do not create separate classes, and no job appears slower than it is.
const SYNC_BITS: u32 = 10;

/// Maximum number of bundles of a class that are listed completely.
const MOST_LISTED: usize = 50_000;

/// If a class has at most this many bundles, none is dropped: on a small cluster, the remaining GPUs may fit
/// no other bundle.
const FEW: usize = 256;

impl Classes {
    /// Updates the GPUs from a problem: those that could be offered, and those that are offered. If the GPUs
    /// that could be offered or their links have changed, all classes are dropped.
    pub(crate) fn look_at(&mut self, problem: &Problem, offered: &[u32]) {
        let site = BundleSite::of(problem, self.site.as_ref());
        if !self.site.as_ref().is_some_and(|known| known.is_same(&site)) {
            *self = Self { site: Some(site), offered: offered.to_vec(), ..Self::default() };
        }
        if self.offered != offered {
            self.offered = offered.to_vec();
            self.list.iter_mut().for_each(|class| class.offer(offered));
        }
    }

    /// Returns the number of a job's class; a new class gets the candidate bundles.
    pub(crate) fn number(&mut self, job: &JobModel) -> usize {
        let model = in_steps(job);
        let key = key(&model);
        if let Some(number) = self.by_key.get(&key) {
            return *number;
        }
        let whole = self.site.as_ref().map(|site| site.cut(&model)).unwrap_or_default();
        self.list.push(Class::new(whole, &self.offered));
        self.models.push(model);
        self.by_key.insert(key, self.list.len() - 1);
        self.list.len() - 1
    }

    pub(crate) fn list(&self) -> &[Class] {
        &self.list
    }

    /// Returns all bundles of a class, if there are few enough to list.
    pub(crate) fn all_bundles(&self, class: usize) -> Option<Bundles> {
        let (site, model) = (self.site.as_ref()?, &self.models[class]);
        let counts = candidates::all(&site.limits(model), MOST_LISTED)?;
        let bundles = Bundles::new(site.ceiling.len(), site.with_speeds(model, counts));
        Some(in_gpus(model, bundles))
    }
}

impl Class {
    /// Returns the class with these bundles and this number of offered GPUs by type.
    pub(crate) fn new(whole: Bundles, offered: &[u32]) -> Self {
        let mut class = Self { whole, bundles: Bundles::default(), fastest: 0.0 };
        class.offer(offered);
        class
    }

    fn offer(&mut self, offered: &[u32]) {
        self.bundles = self.whole.within(offered);
        self.fastest = self.bundles.fastest().map_or(0.0, |bundle| self.bundles.speed(bundle));
    }
}

impl SeenNodes {
    /// Returns the nodes with the GPUs that they have now or had in `known`.
    fn of(labels: &[String], nodes: &[WorkerNode], known: Option<&Self>) -> Self {
        // A problem lacks nodes that are down, so the places of the others change: nodes are matched by name.
        let known = known.filter(|known| known.labels == labels);
        let known = known.into_iter().flat_map(|known| known.names.iter().zip(&known.shapes));
        let known: BTreeMap<&NodeName, &[u32]> = known.map(|(name, (gpus, _))| (name, &gpus[..])).collect();
        let shape = |node: &WorkerNode| {
            let before = known.get(&node.name);
            let gpu = |ty: usize| {
                let before = before.map_or(0, |gpus| gpus[ty]);
                node.gpus[ty].max(node.up[ty]).max(before)
            };
            ((0..labels.len()).map(gpu).collect(), node.intra_node.bytes_per_second())
        };
        let names = nodes.iter().map(|node| node.name.clone()).collect();
        Self { labels: labels.to_vec(), names, shapes: nodes.iter().map(shape).collect() }
    }

    /// Returns the number of GPUs of a type.
    fn count(&self, ty: usize) -> u32 {
        self.shapes.iter().map(|(gpus, _)| gpus[ty]).sum()
    }
}

impl BundleSite {
    /// Returns the site of a problem. It includes GPUs that were observed on a node earlier, because they may
    /// just be down or in use now.
    fn of(problem: &Problem, known: Option<&Self>) -> Self {
        let seen = SeenNodes::of(&problem.labels, &problem.nodes, known.map(|known| &known.seen));
        let ceiling = (0..).zip(&problem.ceiling).map(|(ty, most)| seen.count(ty).max(*most)).collect();
        let rings = Rings::of(problem.network.bytes_per_second(), seen.shapes.iter().cloned());
        Self { ceiling, rings, seen }
    }

    fn is_same(&self, other: &Self) -> bool {
        let rate = |site: &Self| site.rings.network;
        (&self.ceiling, &self.seen, rate(self)) == (&other.ceiling, &other.seen, rate(other))
    }

    fn limits(&self, model: &JobModel) -> BundleLimits {
        let usable = |ty: usize| model.types[ty].is_some() && model.may_use[ty];
        let most =
            |ty: usize| if model.has_several_gpus() { self.replicas(model, ty) } else { self.ceiling[ty] };
        let gpus = (0..self.ceiling.len()).map(|ty| if usable(ty) { most(ty) } else { 0 }).collect();
        let alone =
            model.types.iter().map(|type_model| type_model.is_some_and(|model| model.single_rank)).collect();
        BundleLimits { least: model.min_gpus.max(1), most: model.max_gpus, gpus, alone }
    }

    /// Returns the maximum number of replicas of a job on a type. All GPUs that were never observed count,
    /// because their number per node is unknown.
    fn replicas(&self, model: &JobModel, ty: usize) -> u32 {
        let (size, block) = (model.size(ty), model.block(ty));
        let whole: u32 = self.seen.shapes.iter().map(|(gpus, _)| gpus[ty] / block * block).sum();
        (whole + self.ceiling[ty].saturating_sub(self.seen.count(ty))) / size
    }

    fn cut(&self, model: &JobModel) -> Bundles {
        let counts = candidates::candidates(&self.limits(model));
        let kept = self.with_speeds(model, counts);
        if model.min_gpus == model.max_gpus || kept.len() <= FEW {
            return in_gpus(model, Bundles::new(self.ceiling.len(), kept));
        }
        in_gpus(model, candidates::cut(self.ceiling.len(), kept))
    }

    /// Returns the legal counts of replicas, with their speeds.
    fn with_speeds(&self, model: &JobModel, counts: Vec<Vec<u32>>) -> Vec<(Vec<u32>, f64)> {
        let several = model.has_several_gpus().then(|| self.rings.of_replicas(model));
        let rings = several.as_ref().unwrap_or(&self.rings);
        let candidates = counts.into_iter().filter_map(|counts| {
            let ring = rings.fastest(&counts);
            let step =
                cost::compute_time(model, &counts)? + cost::comm_time(model, counts.iter().sum(), ring);
            Some((counts, step.recip()))
        });
        candidates.collect()
    }
}

/// Converts bundles of a job's replicas to bundles of GPUs.
fn in_gpus(model: &JobModel, bundles: Bundles) -> Bundles {
    if !model.has_several_gpus() {
        return bundles;
    }
    let gpus = |index: usize| (model.gpus(bundles.counts(index)), bundles.speed(index));
    Bundles::new(model.types.len(), (0..bundles.len()).map(gpus).collect())
}

/// Returns the number of steps per epoch.
pub(crate) fn steps_per_epoch(job: &JobModel) -> f64 {
    let (samples, batch) = (to_f64(job.samples_per_epoch), to_f64(job.global_batch));
    samples / batch
}

/// Returns the job with one step per epoch, without the properties that do not affect its speeds.
fn in_steps(job: &JobModel) -> JobModel {
    let syncs = job.syncs_per_epoch / steps_per_epoch(job) * (1.0 + 1e-12);
    let cut = f64::MANTISSA_DIGITS - 1 - SYNC_BITS;
    JobModel {
        name: job.name.clone(),
        samples_per_epoch: job.global_batch,
        epochs: 1,
        syncs_per_epoch: f64::from_bits(syncs.to_bits() >> cut << cut),
        unusable: Vec::new(),
        sources: Vec::new(),
        unlisted: Vec::new(),
        remarks: Vec::new(),
        progress: Progress::default(),
        ..job.clone()
    }
}

/// Returns all inputs of a class's speeds.
fn key(model: &JobModel) -> Vec<u64> {
    let comm = model.model_bytes * model.syncs_per_epoch * (1.0 - model.overlap);
    let mut key = vec![
        model.global_batch,
        model.batch_quantum,
        comm.to_bits(),
        model.min_gpus.into(),
        model.max_gpus.into(),
        model.accumulate.into(),
    ];
    for (type_model, may_use) in model.types.iter().zip(&model.may_use) {
        TypeModel::add_key(type_model.as_ref().filter(|_| *may_use), &mut key);
    }
    key.extend(model.replica_key());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::BitRate;

    #[test]
    fn a_node_keeps_its_gpus_and_gets_none_of_one_that_is_down() {
        let seen = |nodes: &[(&str, u32)], known: Option<&SeenNodes>| {
            let node = |(name, gpus): &(&str, u32)| {
                let rate = BitRate::new(10.0).expect("a rate");
                WorkerNode::on_offer(NodeName::new(name).expect("a name"), vec![*gpus], rate)
            };
            let nodes: Vec<WorkerNode> = nodes.iter().map(node).collect();
            SeenNodes::of(&["t4".to_owned()], &nodes, known)
        };
        let first = seen(&[("a", 8), ("b", 4), ("c", 2)], None);
        let gpus = |nodes: &[(&str, u32)]| -> Vec<u32> {
            seen(nodes, Some(&first)).shapes.iter().map(|(gpus, _)| gpus[0]).collect()
        };
        assert_eq!(gpus(&[("b", 4), ("c", 2)]), [4, 2]);
        assert_eq!(gpus(&[("a", 8), ("b", 1), ("c", 2)]), [8, 4, 2]);
    }
}
