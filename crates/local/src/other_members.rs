//! The other members of a pool as seen by the leader: their devices and their submissions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::devices::{Device, DeviceIndex, Devices, Lease};
use crate::ended_run::left_behind;
use crate::slot_memory::SlotMemory;
use crate::world::{member_of, not_found};
use hsched_engine::live::LiveError;
use hsched_engine::pool::{
    Demand, Leader, MemberId, MemberNode, Order, PoolReport, PoolSighting, SubmissionStart,
};
use hsched_engine::store::{PoolFolder, StateError};
use hsched_engine::{Answer, QueueState, Sighting, State, SubmissionKey, SubmissionRecord};
use hsched_model::{Bytes, JobId, JobName, Node, NodeState, PlacedRank, RankNeeds, Seconds, Time, Usage};

/// How long a member may be silent; it sends a heartbeat every few seconds.
const SILENCE: Duration = Duration::from_secs(8);

/// Interval at which Slurm is asked whether a silent member has ended.
const BETWEEN_DOUBTS: Duration = Duration::from_secs(3);

/// How long a member may be idle before it leaves.
pub const MAY_IDLE: Duration = Duration::from_secs(20);

/// How long before the end of an allocation its jobs must be asked to save, in addition to their grace
/// period: Slurm's times are in whole minutes, and the next allocation must be submitted.
pub const BEFORE_END: Seconds = Seconds(35.0);

/// How long before the end of an allocation Slurm signals it, in addition to the grace period of its jobs. A
/// member also knows the end by itself.
pub const NOTICE_BEFORE: Seconds = Seconds(25.0);

/// The members other than the leader.
pub struct OtherMembers {
    leader: Leader<PoolFolder>,
    /// The state directory.
    root: PathBuf,
    others: BTreeMap<MemberId, OtherMember>,
    /// When Slurm was last asked about each silent member.
    asked: BTreeMap<MemberId, Duration>,
    slot_memory: SlotMemory,
}

/// A member other than the leader.
struct OtherMember {
    report: PoolReport,
    devices: Devices,
    /// When the member's report last changed.
    heard: Duration,
    /// The time since which the member has been idle.
    idle: Option<Duration>,
    is_silent: bool,
    is_released: bool,
    /// Why the member accepts no orders; `None` if it does.
    why_closed: Option<&'static str>,
    /// Whether the member has joined since the last call of `new_members`.
    is_new: bool,
}

impl OtherMembers {
    /// Takes over the pool of a state directory whose lock the caller holds; `None` if the directory belongs
    /// to no pool.
    ///
    /// # Errors
    /// If a file of the pool cannot be read.
    pub fn find(root: &Path) -> Result<Option<Self>, StateError> {
        let Some(folder) = PoolFolder::find(root) else { return Ok(None) };
        let leader = Leader::new(folder)?;
        let (others, asked, slot_memory) = (BTreeMap::new(), BTreeMap::new(), SlotMemory::default());
        Ok(Some(Self { leader, root: root.to_owned(), others, asked, slot_memory }))
    }

    /// Reads the reports of the other members, drops orders of submissions that are not open in `state`, and
    /// lets members leave that have asked to. `local` is the leader, `elapsed` the time since it began, and
    /// `grace` the grace period of jobs that set none.
    ///
    /// # Errors
    /// If a file of the pool cannot be read or written.
    pub(super) fn look(
        &mut self,
        local: &MemberId,
        state: &State,
        (now, elapsed): (Time, Duration),
        grace: Seconds,
    ) -> Result<(), StateError> {
        let open: Vec<SubmissionKey> = state
            .jobs
            .iter()
            .flat_map(|job| {
                job.phase.submissions().iter().map(|submission| submission.attempt.key(&job.job.name))
            })
            .collect();
        self.leader.tidy(&open.iter().collect())?;
        let to_save = state.longest_grace(grace);
        let members = self.leader.members()?;
        self.others.retain(|id, _| members.iter().any(|(member, _)| member == id));
        for (member, report) in members {
            if member == *local {
                continue;
            }
            let before = self.others.remove(&member);
            let is_same = |before: &&OtherMember| before.report.beat == report.beat;
            let heard = before.as_ref().filter(is_same).map_or(elapsed, |before| before.heard);
            let devices = self.devices(&member, &report);
            let is_idle = report.submissions.iter().all(|submission| submission.ended.is_some())
                && self.leader.orders(&member).is_empty();
            let idle = before.as_ref().and_then(|before| before.idle).or(Some(elapsed)).filter(|_| is_idle);
            let is_silent = elapsed.saturating_sub(heard) >= SILENCE;
            let is_released = before.as_ref().is_some_and(|before| before.is_released);
            let is_new = before.is_none_or(|before| before.is_new);
            let is_late = report.end.is_some_and(|end| now.0 >= end.0 - to_save.0 - BEFORE_END.0);
            let why_closed = match () {
                () if is_silent => Some("does not answer"),
                () if report.leaving => Some("is ending"),
                () if is_late => Some("is about to end"),
                () if is_released => Some("is not needed"),
                () => None,
            };
            let other =
                OtherMember { report, devices, heard, idle, is_silent, is_released, why_closed, is_new };
            self.others.insert(member, other);
        }
        self.follow_memory(state);
        self.slot_memory.keep(|of| open.contains(of));
        self.leader.release_leaving()
    }

    /// Compares the memory of submissions on slots of other members with their limits from now on.
    fn follow_memory(&mut self, state: &State) {
        let Self { others, slot_memory, .. } = self;
        for other in others.values().filter(|other| other.devices.has_slots()) {
            for of in other.devices.users() {
                if !slot_memory.knows(of) {
                    let most = state.find(&of.job).and_then(|tracked| tracked.job.max_memory);
                    slot_memory.begin(of, most, &other.devices);
                }
            }
        }
    }

    /// Returns messages about submissions of other members that have reported more memory than they may use.
    pub(super) fn excesses(
        &mut self,
        folder: impl Fn(&SubmissionKey) -> PathBuf,
    ) -> Vec<(SubmissionKey, String)> {
        self.slot_memory.excesses(folder)
    }

    /// Returns the jobs that need GPUs of their own, according to the other members.
    pub(super) fn alone(&self) -> impl Iterator<Item = JobName> {
        self.others.values().flat_map(|other| other.report.alone.iter().cloned())
    }

    /// Returns the memory of a slot if it is less than ranks on another member need.
    pub(super) fn too_small(&self, ranks: &[PlacedRank], need: Bytes) -> Option<Bytes> {
        let member = ranks.first().and_then(|rank| MemberId::of_node(&rank.node))?;
        self.others.get(&member)?.devices.too_small(ranks, need)
    }

    /// Returns the devices of a member; devices of its orders count as in use until the submissions end.
    fn devices(&self, member: &MemberId, report: &PoolReport) -> Devices {
        let mut devices = Devices::new(report.nodes.iter().map(node).collect())
            .with_units(report.nodes.iter().flat_map(units));
        let has_ended = |of: &SubmissionKey| {
            report.submissions.iter().any(|submission| submission.of == *of && submission.ended.is_some())
        };
        for order in self.leader.orders(member).iter().filter(|order| !has_ended(&order.of)) {
            devices.take(&order.of, Lease::of(&order.start));
        }
        devices
    }

    /// Returns the nodes of the other members; those of members that accept no orders are down.
    pub(super) fn nodes(&self) -> Vec<Node> {
        let of_member = |(member, other): (&MemberId, &OtherMember)| {
            let mut nodes = other.devices.cluster().nodes;
            if let Some(why) = other.why_closed {
                for node in &mut nodes {
                    node.state = NodeState::parse("down");
                    node.reason = Some(format!("Slurm job {} {why}", member.job()));
                }
            }
            nodes
        };
        self.others.iter().flat_map(of_member).collect()
    }

    /// Returns the observed state of a submission of another member; `None` if the submission belongs to no
    /// member of a pool. Withdraws the order if the member is silent and has not claimed the submission.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub(super) fn sighting(
        &mut self,
        job: &JobName,
        attempt: &SubmissionRecord,
        at: Time,
    ) -> Result<Option<Sighting>, LiveError> {
        let Some(member) = member_of(attempt) else { return Ok(None) };
        let of = attempt.key(job);
        let is_silent = self.others.get(&member).is_some_and(|other| other.is_silent);
        let sight = self.leader.sight(&of, &member, is_silent)?;
        let own_id = attempt.job_id.unwrap_or(member.job());
        let seen = |job_id: JobId, state: QueueState| Sighting {
            of: of.clone(),
            job_id,
            submit_time: None,
            state,
            reason: None,
        };
        let running = |since: Option<Time>| QueueState::Running { since, gpus: None };
        Ok(Some(match sight {
            PoolSighting::Ordered => seen(own_id, running(None)),
            PoolSighting::Running { since, .. } => seen(own_id, running(since)),
            PoolSighting::Refused(answer) => seen(own_id, QueueState::NotStarted(answer)),
            PoolSighting::Ended { end, since, at } => {
                seen(own_id, QueueState::Ended { end, at: Some(at), since })
            }
            // Its script may have recorded its end under the process id of its guard.
            PoolSighting::NeverStarted | PoolSighting::Lost => {
                let unnumbered = SubmissionRecord { job_id: None, ..attempt.clone() };
                Sighting { job_id: own_id, ..left_behind(&self.root, job, &unnumbered, at)? }
            }
        }))
    }

    /// Claims a submission for the leader.
    pub(super) fn claim(&self, of: &SubmissionKey, member_id: &MemberId) -> Result<(), Answer> {
        match self.leader.claim(of, member_id) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Answer::Deferred { message: "another member has claimed it".into() }),
            Err(error) => Err(Answer::Unreachable { message: error.in_one_line() }),
        }
    }

    /// Orders a member to start a submission on its devices; `alone` means that the submission gets all slots
    /// of its GPUs.
    pub(super) fn order(
        &mut self,
        of: &SubmissionKey,
        ranks: &[PlacedRank],
        needs: RankNeeds,
        alone: bool,
        mut start: SubmissionStart,
    ) -> Result<JobId, Answer> {
        let failed = |message: String| Answer::Unreachable { message };
        let member = ranks.first().and_then(|rank| MemberId::of_node(&rank.node));
        let other = member.as_ref().and_then(|member| self.others.get_mut(member));
        let (Some(member), Some(other)) = (member, other) else {
            return Err(Answer::Deferred { message: "its allocation has ended".into() });
        };
        let lease =
            other.devices.find(ranks, needs, alone, |_, _| 0).ok_or_else(|| not_found(&other.devices))?;
        (start.devices, start.beside) = (lease.devices.clone(), lease.beside.clone());
        start.needs = (needs.cpus, needs.memory);
        let order = Order { of: of.clone(), demand: Demand::Run, start };
        self.leader.order(&member, order).map_err(|error| failed(error.in_one_line()))?;
        other.devices.take(of, lease);
        other.idle = None;
        Ok(member.job())
    }

    /// Sends a demand to the member that runs a submission; does nothing if no member has an order for it.
    ///
    /// # Errors
    /// If the order cannot be written.
    pub(super) fn demand(&mut self, of: &SubmissionKey, demand: Demand) -> Result<(), StateError> {
        self.leader.holder(of).map_or(Ok(()), |member| self.leader.demand(of, &member, demand))
    }

    /// Returns the silent members about which to ask Slurm now, and records that it is asked.
    pub fn doubts(&mut self, elapsed: Duration) -> Vec<MemberId> {
        let silent = self.others.iter().filter(|(_, other)| other.is_silent).map(|(id, _)| id.clone());
        let due: Vec<MemberId> = silent
            .filter(|id| {
                self.asked.get(id).is_none_or(|asked| elapsed.saturating_sub(*asked) >= BETWEEN_DOUBTS)
            })
            .collect();
        self.asked.extend(due.iter().map(|id| (id.clone(), elapsed)));
        due
    }

    /// Records that a member has ended according to Slurm.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn mark_over(&mut self, member: &MemberId) -> Result<(), StateError> {
        self.leader.mark_over(member)?;
        self.others.remove(member);
        Ok(())
    }

    /// Returns all members that may be running.
    ///
    /// # Errors
    /// If a file of the pool cannot be read.
    pub fn members(&mut self) -> Result<Vec<MemberId>, StateError> {
        Ok(self.leader.members()?.into_iter().map(|(member, _)| member).collect())
    }

    /// Returns the members that joined since the last call.
    pub fn new_members(&mut self) -> Vec<MemberId> {
        let new = self
            .others
            .iter_mut()
            .filter_map(|(id, other)| std::mem::take(&mut other.is_new).then(|| id.clone()));
        new.collect()
    }

    /// Returns the members that accept orders.
    pub fn at_work(&self) -> impl Iterator<Item = &MemberId> {
        self.others.iter().filter(|(_, other)| other.why_closed.is_none()).map(|(id, _)| id)
    }

    /// Returns how many other members have work, including those that accept no more orders.
    pub fn busy(&self) -> usize {
        self.others.values().filter(|other| other.idle.is_none()).count()
    }

    /// Returns whether another member that accepts orders has work.
    pub fn are_busy(&self) -> bool {
        self.others.values().any(|other| other.idle.is_none() && other.why_closed.is_none())
    }

    /// Dismisses the members that accept orders and have been idle for at least `MAY_IDLE`, and returns them.
    ///
    /// # Errors
    /// If an order cannot be written.
    pub fn release_idle(&mut self, elapsed: Duration) -> Result<Vec<MemberId>, StateError> {
        let mut gone = Vec::new();
        for (member, other) in &mut self.others {
            let is_idle = other.idle.is_some_and(|since| elapsed.saturating_sub(since) >= MAY_IDLE);
            if is_idle && other.why_closed.is_none() {
                self.leader.release(member)?;
                (other.is_released, other.why_closed) = (true, Some("is not needed"));
                gone.push(member.clone());
            }
        }
        Ok(gone)
    }

    /// Returns whether another member stays when `member_id`, the leader, leaves. First dismisses all members
    /// that have asked to leave, because the leader cannot do so once it has left.
    ///
    /// # Errors
    /// If a file of the pool cannot be read or written.
    pub fn another_stays(&mut self, member_id: &MemberId) -> Result<bool, StateError> {
        self.leader.release_leaving()?;
        let others = &self.others;
        self.leader.another_stays(member_id, |member| others.get(member).is_some_and(|other| other.is_silent))
    }

    /// Returns the folder with the reports of a member.
    pub fn folder(root: &Path, member: &MemberId) -> Option<PathBuf> {
        Some(PoolFolder::find(root)?.path(&format!("members/{member}")))
    }
}

/// Returns a node as described by its member, with its devices.
fn node(member_node: &MemberNode) -> (Node, Vec<Device>) {
    let mut node = Node::new(member_node.name.clone());
    node.cpus = member_node.cpus.map(|total| Usage { total, used: 0 });
    node.memory = member_node.memory.map(|total| Usage { total, used: 0 });
    if member_node.is_lost {
        node.state = NodeState::parse("down");
    }
    let device = |(place, device): (usize, &hsched_engine::pool::MemberDevice)| Device {
        gpu_type: device.gpu_type.clone(),
        name: place.to_string(),
        memory: device.memory.map(Bytes),
    };
    (node, member_node.devices.iter().enumerate().map(device).collect())
}

/// Returns the slots of a node as described by its member, with the numbers of their GPUs.
fn units(member_node: &MemberNode) -> impl Iterator<Item = (DeviceIndex, usize)> {
    let devices = member_node.devices.iter().enumerate();
    devices.filter_map(|(place, device)| Some(((member_node.name.clone(), place), device.unit?)))
}

/// Returns the nodes of a member for its report.
pub fn member_nodes(devices: &Devices) -> Vec<MemberNode> {
    let nodes = devices.nodes().iter().map(|(node, node_devices)| MemberNode {
        name: node.name.clone(),
        cpus: node.cpus.map(|cpus| cpus.total),
        memory: node.memory.map(|memory| memory.total),
        devices: node_devices
            .iter()
            .enumerate()
            .map(|(place, device)| hsched_engine::pool::MemberDevice {
                gpu_type: device.gpu_type.clone(),
                memory: device.memory.map(|memory| memory.0),
                unit: devices.unit(&node.name, place),
            })
            .collect(),
        is_lost: false,
    });
    nodes.collect()
}

#[cfg(test)]
mod tests;
