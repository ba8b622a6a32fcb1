//! The GPUs that some jobs of a problem may use together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{HeldPlacement, Problem, Slot, WorkerNode};
use hsched_model::{GpuType, RankNeeds, hostlist, keep_to_ranks};

/// The GPUs that count as offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Free GPUs, and those that the jobs hold themselves.
    Free,
    /// All GPUs of nodes that are up, including those in use, minus those that jobs of the problem have or
    /// wait for.
    Queue,
    /// All GPUs of nodes that are up, including those in use or waited for, within the limits that other
    /// jobs leave.
    Line,
}

/// Unclaimed resources: GPUs by node and type, with the CPUs and memory of their nodes.
#[derive(Clone, Debug)]
pub struct UnclaimedResources {
    gpus: Vec<Vec<u32>>,
    left: Vec<HostRemainder>,
}

/// The maximum number of ranks for which a node has CPUs and memory.
#[derive(Clone, Copy, Debug)]
struct Most {
    ranks: u64,
    /// The resource that sets this maximum.
    scarce: &'static str,
}

/// Remaining CPUs and memory of a node.
#[derive(Clone, Copy, Debug)]
struct HostRemainder {
    cpus: Option<u64>,
    memory: Option<u64>,
}

impl Problem {
    /// Returns the GPUs that `jobs` may use, by node and type, if all other jobs keep the resources that they
    /// have and are promised, as far as `basis` counts them.
    ///
    /// A node offers no more GPUs than it has CPUs and memory for, assuming the neediest job that may run
    /// there.
    pub fn offered_to(&self, jobs: &[usize], basis: Basis) -> Vec<Vec<u32>> {
        let others = self.others(jobs, basis);
        let (mut gpus, mut left) = self.not_held(&others, basis);
        let most = self.ranks_by_host(&gpus, &left);
        for (gpus, most) in gpus.iter_mut().zip(most) {
            keep_to_ranks(gpus.iter_mut(), most.map_or(u64::MAX, |most| most.ranks));
        }
        for &job in &others {
            let promised = |hold: &&HeldPlacement| match basis {
                Basis::Free => hold.is_promised(),
                Basis::Queue => true,
                Basis::Line => false,
            };
            for hold in self.jobs[job].progress.holds.iter().filter(promised) {
                self.take_promised(job, hold, &mut gpus, &mut left);
            }
        }
        self.keep_to_limits(&others, &mut gpus);
        gpus
    }

    /// Returns messages, one sentence each, for GPUs that `jobs` cannot use because the nodes lack CPUs or
    /// memory.
    pub fn stranded(&self, jobs: &[usize], basis: Basis) -> Vec<String> {
        let (gpus, left) = self.not_held(&self.others(jobs, basis), basis);
        let mut found: Vec<(String, Vec<&str>)> = Vec::new();
        for ((node, gpus), most) in self.nodes.iter().zip(&gpus).zip(self.ranks_by_host(&gpus, &left)) {
            let wanted: u64 = gpus.iter().map(|&count| u64::from(count)).sum();
            let Some(Most { ranks, scarce }) = most.filter(|most| most.ranks < wanted) else { continue };
            let reason = format!(
                "only {ranks} of {wanted} GPUs per node are usable: not enough {scarce} for more ranks (the largest cpus_per_gpu and memory_per_gpu of all jobs count)"
            );
            match found.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, nodes)) => nodes.push(node.name.as_str()),
                None => found.push((reason, vec![node.name.as_str()])),
            }
        }
        found.into_iter().map(|(reason, nodes)| format!("{}: {reason}", hostlist::compress(nodes))).collect()
    }

    /// Returns the jobs that keep their GPUs while `jobs` are placed; with [`Basis::Queue`], all jobs.
    fn others(&self, jobs: &[usize], basis: Basis) -> Vec<usize> {
        let mut is_in = vec![false; self.jobs.len()];
        if basis != Basis::Queue {
            for &job in jobs {
                is_in[job] = true;
            }
        }
        (0..self.jobs.len()).filter(|&job| !is_in[job]).collect()
    }

    /// Returns GPUs by node and type, with the CPUs and memory of the nodes: with `Basis::Free`, those that
    /// `others` do not hold; otherwise all of the nodes that are up.
    fn not_held(&self, others: &[usize], basis: Basis) -> (Vec<Vec<u32>>, Vec<HostRemainder>) {
        let start = |node: &WorkerNode| match basis {
            Basis::Free => (node.gpus.clone(), HostRemainder::free(node)),
            Basis::Queue | Basis::Line => (node.up.clone(), HostRemainder::whole(node)),
        };
        let (mut gpus, mut left): (Vec<Vec<u32>>, Vec<HostRemainder>) = self.nodes.iter().map(start).unzip();
        if basis == Basis::Free {
            for &job in others {
                self.take_running(job, &mut gpus, &mut left);
            }
        }
        (gpus, left)
    }

    /// Returns the resources that no job has or is promised.
    pub fn unclaimed(&self) -> UnclaimedResources {
        let mut gpus: Vec<Vec<u32>> = self.nodes.iter().map(|node| node.gpus.clone()).collect();
        let mut left: Vec<HostRemainder> = self.nodes.iter().map(HostRemainder::free).collect();
        for job in 0..self.jobs.len() {
            self.take_running(job, &mut gpus, &mut left);
        }
        for (job, model) in self.jobs.iter().enumerate() {
            for hold in model.progress.holds.iter().filter(|hold| hold.is_promised()) {
                self.take_promised(job, hold, &mut gpus, &mut left);
            }
        }
        UnclaimedResources { gpus, left }
    }

    fn take_running(&self, job: usize, gpus: &mut [Vec<u32>], left: &mut [HostRemainder]) {
        let model = &self.jobs[job];
        for slot in model.progress.running().flat_map(|hold| &hold.slots) {
            let count = &mut gpus[slot.node][slot.gpu_type];
            *count = count.saturating_sub(slot.count);
            left[slot.node].take(model.needs, slot.count);
        }
    }

    /// Returns the number of ranks for which each node has CPUs and memory left, for the neediest job that
    /// may use one of these GPUs; `None` for a node without such GPUs, and for all nodes if no host is known.
    fn ranks_by_host(&self, gpus: &[Vec<u32>], left: &[HostRemainder]) -> Vec<Option<Most>> {
        if self.nodes.iter().all(|node| node.host.is_none()) {
            return vec![None; self.nodes.len()];
        }
        let needs: Vec<RankNeeds> =
            (0..self.gpu_types.len()).map(|gpu_type| self.most_needed(gpu_type)).collect();
        let most = |(gpus, left): (&Vec<u32>, &HostRemainder)| {
            let usable = gpus.iter().zip(&needs).filter(|(count, _)| **count > 0).map(|(_, needs)| *needs);
            let needs = usable.reduce(RankNeeds::max)?;
            let by_cpus = needs.ranks(left.cpus, None);
            let ranks = left.ranks(needs);
            Some(Most { ranks, scarce: if by_cpus == ranks { "CPUs" } else { "memory" } })
        };
        gpus.iter().zip(left).map(most).collect()
    }

    /// Returns the largest needs of a rank among the jobs that may use a type.
    fn most_needed(&self, gpu_type: usize) -> RankNeeds {
        let users = self.jobs.iter().filter(|job| job.may_use[gpu_type]).map(|job| job.needs);
        users.reduce(RankNeeds::max).unwrap_or_default()
    }

    /// Subtracts the resources promised to a submission: from its own nodes, or else from others that the job
    /// may use, because Slurm gives a pending job any nodes of the right kind.
    fn take_promised(
        &self,
        job: usize,
        hold: &HeldPlacement,
        gpus: &mut [Vec<u32>],
        left: &mut [HostRemainder],
    ) {
        let needs = self.jobs[job].needs;
        let mut missing: BTreeMap<&GpuType, u32> = BTreeMap::new();
        for slot in &hold.slots {
            let taken = take(&mut gpus[slot.node][slot.gpu_type], slot.count);
            left[slot.node].take(needs, taken);
            *missing.entry(&self.gpu_types[slot.gpu_type]).or_default() += slot.count - taken;
        }
        missing.retain(|_, count| *count > 0);
        if missing.is_empty() {
            return;
        }
        for (gpus, left) in gpus.iter_mut().zip(left) {
            for (gpu_type, free) in
                gpus.iter_mut().enumerate().filter(|(gpu_type, _)| self.jobs[job].may_use[*gpu_type])
            {
                if let Some(missing) = missing.get_mut(&self.gpu_types[gpu_type]) {
                    let taken = take(free, *missing);
                    *missing -= taken;
                    left.take(needs, taken);
                }
            }
        }
    }

    /// Reduces the GPUs to the number that the limits leave beside those of other jobs. GPUs on nodes with
    /// many GPUs of a type are kept first, because jobs run faster on few nodes.
    fn keep_to_limits(&self, others: &[usize], gpus: &mut [Vec<u32>]) {
        if self.limits.is_empty() {
            return;
        }
        let mut left: Vec<u32> = self.limits.iter().map(|limit| limit.most).collect();
        let limit = |gpu_type| self.limits.iter().position(|limit| limit.gpu_types.contains(&gpu_type));
        for slot in others.iter().flat_map(|&job| &self.jobs[job].progress.holds).flat_map(|hold| &hold.slots)
        {
            if let Some(limit) = limit(slot.gpu_type) {
                left[limit] = left[limit].saturating_sub(slot.count);
            }
        }
        for (limit, mut left) in self.limits.iter().zip(left) {
            let count = |gpus: &[u32]| limit.gpu_types.iter().map(|&gpu_type| gpus[gpu_type]).sum::<u32>();
            let mut order: Vec<usize> = (0..gpus.len()).collect();
            order.sort_by_key(|&node| Reverse(count(&gpus[node])));
            for node in order {
                for &gpu_type in &limit.gpu_types {
                    gpus[node][gpu_type] = take(&mut left, gpus[node][gpu_type]);
                }
            }
        }
    }
}

impl UnclaimedResources {
    /// Marks the GPUs of some slots as free, together with the other resources of their ranks.
    pub fn give_back<'a>(&mut self, needs: RankNeeds, slots: impl Iterator<Item = &'a Slot>) {
        for slot in slots {
            self.gpus[slot.node][slot.gpu_type] += slot.count;
            self.left[slot.node].give(needs, slot.count);
        }
    }

    /// Takes the GPUs of some slots with the other resources of the job's ranks, if all of them are
    /// available; returns whether they are.
    pub fn take<'a>(&mut self, needs: RankNeeds, slots: impl Iterator<Item = &'a Slot>) -> bool {
        let mut rest = self.clone();
        for slot in slots {
            let count = &mut rest.gpus[slot.node][slot.gpu_type];
            let left = &mut rest.left[slot.node];
            if *count < slot.count || left.ranks(needs) < slot.count.into() {
                return false;
            }
            *count -= slot.count;
            left.take(needs, slot.count);
        }
        *self = rest;
        true
    }
}

impl HostRemainder {
    fn free(node: &WorkerNode) -> Self {
        let host = node.host.unwrap_or_default();
        Self { cpus: host.cpus.map(|room| room.free), memory: host.memory.map(|room| room.free) }
    }

    fn whole(node: &WorkerNode) -> Self {
        let host = node.host.unwrap_or_default();
        Self { cpus: host.cpus.map(|room| room.total), memory: host.memory.map(|room| room.total) }
    }

    fn take(&mut self, needs: RankNeeds, ranks: u32) {
        let less =
            |room: Option<u64>, need: u64| Some(room?.saturating_sub(need.saturating_mul(ranks.into())));
        (self.cpus, self.memory) = (less(self.cpus, needs.cpus), less(self.memory, needs.memory));
    }

    fn give(&mut self, needs: RankNeeds, ranks: u32) {
        let more =
            |room: Option<u64>, need: u64| Some(room?.saturating_add(need.saturating_mul(ranks.into())));
        (self.cpus, self.memory) = (more(self.cpus, needs.cpus), more(self.memory, needs.memory));
    }

    /// Returns the number of ranks that fit.
    fn ranks(self, needs: RankNeeds) -> u64 {
        needs.ranks(self.cpus, self.memory)
    }
}

/// Takes up to `wanted`; returns the number taken.
fn take(free: &mut u32, wanted: u32) -> u32 {
    let taken = wanted.min(*free);
    *free -= taken;
    taken
}
