//! The trainings that are parked: their processes wait for the devices that others have meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use crate::local::devices::{DeviceIndex, Lease};
use crate::local::gate::{GateRequest, RankMemory, RankWord, Stand};
use crate::local::memory::{ParkingStep, Peak, SharedDevice, way};
use crate::local::running::Guarded;
use hsched_engine::{State, SubmissionKey};
use hsched_model::{JobName, NodeName, Seconds, Time};

/// How long processes that wait may take to end, in seconds.
const TO_END: Seconds = Seconds(10.0);

/// A parked training.
#[derive(Debug)]
pub(super) struct Parked {
    pub guarded: Guarded,
    pub lease: Lease,
    /// The epochs that it had done.
    pub epochs: u64,
    /// How long the last one took, where that is known.
    pub epoch: Option<Seconds>,
    memory: Vec<RankMemory>,
    hold: ParkingHold,
}

/// What a parked training has of its devices.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ParkingHold {
    Kept,
    /// It was asked to move what it has there to the host.
    Moving,
    Moved,
    /// It was asked to end, for which it has some time.
    Ending {
        until: Time,
    },
}

/// All that are parked, by the submission that their processes were started for.
#[derive(Debug, Default)]
pub(super) struct Parking {
    parked: BTreeMap<SubmissionKey, Parked>,
    peaks: BTreeMap<JobName, Peak>,
    /// Those that have failed beside others on their devices: they get devices without.
    alone: BTreeSet<JobName>,
}

/// What is to happen to those that wait, for people.
pub(super) type ParkingNotes = (JobName, String);

impl Parked {
    /// Returns a training all of whose ranks have said that they wait.
    pub(super) fn new(
        guarded: Guarded,
        lease: Lease,
        done: (u64, Option<Seconds>),
        words: &[RankWord],
    ) -> Self {
        let (epochs, epoch) = done;
        let memory = words.iter().map(|word| word.memory).collect();
        let is_moved = words.iter().any(|word| word.state == Stand::Offloaded);
        let hold = if is_moved { ParkingHold::Moved } else { ParkingHold::Kept };
        Self { guarded, lease, epochs, epoch, memory, hold }
    }

    /// Returns whether its values are in the host's memory.
    pub(super) fn is_moved(&self) -> bool {
        matches!(self.hold, ParkingHold::Moving | ParkingHold::Moved)
    }

    fn job(&self) -> &JobName {
        &self.guarded.origin.job
    }

    fn end(&mut self, now: Time) {
        if matches!(self.hold, ParkingHold::Ending { .. }) {
            return;
        }
        self.hold = ParkingHold::Ending { until: now.after(TO_END) };
        if self.guarded.gate.end().is_err() {
            let _ = self.guarded.kill();
        }
    }

    /// Returns the bytes that are held of a device.
    fn held(&self, place: &DeviceIndex) -> Option<&RankMemory> {
        let rank = self.lease.devices.iter().position(|device| device == place)?;
        self.memory.get(rank)
    }
}

impl Parking {
    pub(super) fn enter(&mut self, parked: Parked) {
        self.peaks.insert(parked.job().clone(), Peak::of(&parked.memory));
        self.parked.insert(parked.guarded.origin.clone(), parked);
    }

    pub(super) fn len(&self) -> usize {
        self.parked.len()
    }

    /// Returns which training of a submission's job can go on for it: one that does the same and has done as much.
    pub(super) fn find(&self, of: &SubmissionKey, work: &str, epochs: u64) -> Option<&Parked> {
        let is_it = |parked: &&Parked| {
            is_of(&parked.guarded.origin, of)
                && parked.guarded.work == work
                && parked.epochs == epochs
                && !matches!(parked.hold, ParkingHold::Ending { .. })
        };
        self.parked.values().find(is_it)
    }

    /// Takes out one that goes on, or whose processes have ended.
    pub(super) fn leave(&mut self, origin: &SubmissionKey) -> Option<Parked> {
        self.parked.remove(origin)
    }

    /// Returns how many wait on a device.
    pub(super) fn crowd(&self, node: &NodeName, device: usize) -> usize {
        let waits = |parked: &&Parked| {
            parked.lease.devices.iter().any(|(name, place)| name == node && *place == device)
        };
        self.parked.values().filter(waits).count()
    }

    /// Returns the memory of a node's host that those who wait have said to need.
    pub(super) fn needs_on(&self, node: &NodeName) -> u64 {
        let needs = |parked: &Parked| {
            let ranks = parked.lease.devices.iter().filter(|(name, _)| name == node).count() as u64;
            ranks * parked.lease.needs.memory
        };
        self.parked.values().map(needs).sum()
    }

    /// Returns the host's memory that a job takes that is started: what it took before, or else as much as any.
    pub(super) fn estimate(&self, job: &JobName) -> u64 {
        let most = || self.peaks.values().map(|peak| peak.host).max();
        self.peaks.get(job).map(|peak| peak.host).or_else(most).unwrap_or(0)
    }

    /// Makes room for a submission on devices: others that wait there keep their memory, move it, or end. Returns those to
    /// wait for, and what is to be said. `spare` is the host's memory that is left beside it, where that is known.
    pub(super) fn make_room(
        &mut self,
        of: &SubmissionKey,
        lease: &Lease,
        spare: Option<i64>,
        now: Time,
    ) -> (BTreeSet<SubmissionKey>, Vec<ParkingNotes>) {
        let way = self.way(of, lease, spare);
        let (mut after, mut said) = (BTreeSet::new(), Vec::new());
        for (origin, parked) in &mut self.parked {
            let shares = parked.lease.devices.iter().any(|place| lease.devices.contains(place));
            let is_short = spare.is_some_and(|spare| spare < 0);
            // What it does is not what waits, or the devices are not.
            let is_replaced = is_of(origin, of);
            if is_replaced || is_short || shares && way == ParkingStep::End {
                if !matches!(parked.hold, ParkingHold::Ending { .. }) {
                    let why = if is_replaced {
                        "its parked processes are stopped: they do not match its new placement".to_owned()
                    } else {
                        format!(
                            "no longer parked: {} needs the memory; it will resume from its checkpoint",
                            of.job
                        )
                    };
                    said.push((parked.job().clone(), why));
                }
                parked.end(now);
            } else if shares && way == ParkingStep::Offload && parked.hold == ParkingHold::Kept {
                parked.hold = ParkingHold::Moving;
                said.push((parked.job().clone(), format!("moving to host memory: {} gets the GPU", of.job)));
                if parked.guarded.gate.say(GateRequest::Offload).is_err() {
                    parked.end(now);
                }
            }
            if (shares || is_replaced || is_short)
                && !matches!(parked.hold, ParkingHold::Kept | ParkingHold::Moved)
            {
                after.insert(origin.clone());
            }
        }
        (after, said)
    }

    fn way(&self, of: &SubmissionKey, lease: &Lease, spare: Option<i64>) -> ParkingStep {
        if self.alone.contains(&of.job) {
            return ParkingStep::End;
        }
        let shared = |place: &DeviceIndex| {
            let there: Vec<(&Parked, &RankMemory)> =
                self.parked.values().filter_map(|parked| Some((parked, parked.held(place)?))).collect();
            let total = there.iter().filter_map(|(_, memory)| memory.device).max();
            let held =
                |(parked, memory): &(&Parked, &RankMemory)| if parked.is_moved() { 0 } else { memory.held };
            SharedDevice { total, held: there.iter().map(held).collect() }
        };
        let devices: Vec<SharedDevice> = lease.devices.iter().map(shared).collect();
        way(&devices, self.peaks.get(&of.job).and_then(|peak| peak.device), spare)
    }

    /// Returns whether a training has not let go yet of what it is to give up.
    pub(super) fn is_in_the_way(&self, origin: &SubmissionKey) -> bool {
        self.parked
            .get(origin)
            .is_some_and(|parked| matches!(parked.hold, ParkingHold::Moving | ParkingHold::Ending { .. }))
    }

    /// Records what those that wait have said, and kills those that do not end.
    pub(super) fn take_in(&mut self, now: Time) {
        for parked in self.parked.values_mut() {
            match parked.hold {
                ParkingHold::Moving if parked.guarded.gate.all(Stand::Offloaded).is_some() => {
                    parked.hold = ParkingHold::Moved;
                }
                ParkingHold::Ending { until } if now >= until => {
                    parked.hold = ParkingHold::Ending { until: now.after(TO_END) };
                    let _ = parked.guarded.kill();
                }
                _ => {}
            }
        }
    }

    /// Ends those whose jobs are over.
    pub(super) fn end_done(&mut self, state: &State, now: Time) {
        for parked in self.parked.values_mut() {
            if state.find(parked.job()).is_none_or(|tracked| tracked.phase.is_over()) {
                parked.end(now);
            }
        }
    }

    /// Ends all that wait.
    pub(super) fn end_all(&mut self, now: Time) {
        self.parked.values_mut().for_each(|parked| parked.end(now));
    }

    /// Kills all that wait.
    pub(super) fn kill(&mut self) {
        self.parked.values_mut().for_each(|parked| drop(parked.guarded.kill()));
    }

    /// Returns whether a failure may be due to those that wait on the same devices: it is taken for that once for each
    /// job.
    pub(super) fn is_to_blame(&mut self, job: &JobName, lease: &Lease) -> bool {
        let is_there = |parked: &Parked| {
            lease.devices.iter().any(|place| parked.held(place).is_some_and(|memory| memory.device.is_some()))
        };
        self.parked.values().any(is_there) && self.alone.insert(job.clone())
    }

    /// Returns whether somebody is to say something.
    pub(super) fn is_moving(&self) -> bool {
        self.parked.keys().any(|origin| self.is_in_the_way(origin))
    }

    /// Returns when patience with one of them ends.
    pub(super) fn due(&self) -> Option<Time> {
        let until = |parked: &Parked| {
            if let ParkingHold::Ending { until } = parked.hold { Some(until) } else { None }
        };
        self.parked.values().filter_map(until).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Returns whether a training was started for the same job, and the same of its copies.
fn is_of(origin: &SubmissionKey, of: &SubmissionKey) -> bool {
    (&origin.job, origin.copy) == (&of.job, of.copy)
}
