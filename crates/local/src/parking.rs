//! The parked jobs: their processes wait until they get devices back from other jobs.

use std::collections::{BTreeMap, BTreeSet};

use crate::devices::{DeviceIndex, Lease};
use crate::gate::{GateRequest, RankMemory, RankWord, Stand};
use crate::memory::{ParkingStep, Peak, SharedDevice, way};
use crate::running::GuardedProcesses;
use hsched_engine::{State, SubmissionKey};
use hsched_model::{JobName, NodeName, Seconds, Time};

/// How long parked processes may take to end, in seconds.
const TO_END: Seconds = Seconds(10.0);

/// A parked training.
#[derive(Debug)]
pub(super) struct ParkedTraining {
    pub guarded: GuardedProcesses,
    pub lease: Lease,
    /// Completed epochs when the training was parked.
    pub epochs: u64,
    /// Duration of the last epoch, if known.
    pub epoch: Option<Seconds>,
    memory: Vec<RankMemory>,
    hold: ParkingHold,
}

/// The memory that a parked training keeps on its devices.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ParkingHold {
    Kept,
    /// The training was asked to move its data to the host.
    Moving,
    Moved,
    /// The training was asked to end by a given time.
    Ending {
        until: Time,
    },
}

/// All parked jobs by the submission for which their processes were started.
#[derive(Debug, Default)]
pub(super) struct Parking {
    parked: BTreeMap<SubmissionKey, ParkedTraining>,
    peaks: BTreeMap<JobName, Peak>,
    /// Jobs that failed beside others on their devices: they get devices without parked jobs.
    alone: BTreeSet<JobName>,
}

/// A message for people about a parked training, with the job's name.
pub(super) type ParkingNotes = (JobName, String);

impl ParkedTraining {
    /// Returns a training whose ranks have all reported that they are parked.
    pub(super) fn new(
        guarded: GuardedProcesses,
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

    /// Returns whether the training's data is in host memory or on its way there.
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

    /// Returns the memory use of the training's rank on a device of a lease. A training or a lease with slots
    /// beside its device has the whole GPU.
    fn held(&self, place: &DeviceIndex, lease: &Lease) -> Option<&RankMemory> {
        let is_there = |device: &DeviceIndex| {
            device == place || lease.beside.contains(device) || self.lease.beside.contains(place)
        };
        let rank = self.lease.devices.iter().position(is_there)?;
        self.memory.get(rank)
    }
}

impl Parking {
    pub(super) fn enter(&mut self, parked: ParkedTraining) {
        self.peaks.insert(parked.job().clone(), Peak::of(&parked.memory));
        self.parked.insert(parked.guarded.origin.clone(), parked);
    }

    pub(super) fn len(&self) -> usize {
        self.parked.len()
    }

    /// Returns a parked training that can continue a submission: one of the same job and copy, with the same
    /// work and the same completed epochs, that has not been asked to end.
    pub(super) fn find(&self, of: &SubmissionKey, work: &str, epochs: u64) -> Option<&ParkedTraining> {
        let is_it = |parked: &&ParkedTraining| {
            is_of(&parked.guarded.origin, of)
                && parked.guarded.work == work
                && parked.epochs == epochs
                && !matches!(parked.hold, ParkingHold::Ending { .. })
        };
        self.parked.values().find(is_it)
    }

    /// Removes a training that continues or whose processes have ended.
    pub(super) fn leave(&mut self, origin: &SubmissionKey) -> Option<ParkedTraining> {
        self.parked.remove(origin)
    }

    /// Returns how many jobs are parked on a device.
    pub(super) fn crowd(&self, node: &NodeName, device: usize) -> usize {
        let waits = |parked: &&ParkedTraining| {
            parked.lease.devices.iter().any(|(name, place)| name == node && *place == device)
        };
        self.parked.values().filter(waits).count()
    }

    /// Returns the host memory that the parked jobs on a node have requested, in bytes.
    pub(super) fn needs_on(&self, node: &NodeName) -> u64 {
        let needs = |parked: &ParkedTraining| {
            let ranks = parked.lease.devices.iter().filter(|(name, _)| name == node).count() as u64;
            ranks * parked.lease.needs.memory
        };
        self.parked.values().map(needs).sum()
    }

    /// Returns the estimated host memory of a job: its earlier peak, or else the largest of any job, or 0 if
    /// no job was parked yet.
    pub(super) fn estimate(&self, job: &JobName) -> u64 {
        let most = || self.peaks.values().map(|peak| peak.host).max();
        self.peaks.get(job).map(|peak| peak.host).or_else(most).unwrap_or(0)
    }

    /// Makes room for a submission on devices: jobs parked there keep their memory, move it, or end. Parked
    /// processes of the same copy of its job end, and all parked jobs end if the host has too little memory.
    /// Returns the submissions to wait for, and messages. `spare` is the host memory left beside the
    /// submission, if known.
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
            let shares = lease.devices.iter().any(|place| parked.held(place, lease).is_some());
            let is_short = spare.is_some_and(|spare| spare < 0);
            // A parked training of the same job was not continued: it has other work or other devices.
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
            let there: Vec<(&ParkedTraining, &RankMemory)> = self
                .parked
                .values()
                .filter_map(|parked| Some((parked, parked.held(place, lease)?)))
                .collect();
            let total = there.iter().filter_map(|(_, memory)| memory.device).max();
            let held = |(parked, memory): &(&ParkedTraining, &RankMemory)| {
                if parked.is_moved() { 0 } else { memory.held }
            };
            SharedDevice { total, held: there.iter().map(held).collect() }
        };
        let devices: Vec<SharedDevice> = lease.devices.iter().map(shared).collect();
        way(&devices, self.peaks.get(&of.job).and_then(|peak| peak.device), spare)
    }

    /// Returns whether a training still holds memory that it must release.
    pub(super) fn is_in_the_way(&self, origin: &SubmissionKey) -> bool {
        self.parked
            .get(origin)
            .is_some_and(|parked| matches!(parked.hold, ParkingHold::Moving | ParkingHold::Ending { .. }))
    }

    /// Records the answers of parked jobs and kills those that do not end in time.
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

    /// Ends the parked processes of jobs that have ended.
    pub(super) fn end_done(&mut self, state: &State, now: Time) {
        for parked in self.parked.values_mut() {
            if state.find(parked.job()).is_none_or(|tracked| tracked.phase.is_over()) {
                parked.end(now);
            }
        }
    }

    /// Ends all parked jobs.
    pub(super) fn end_all(&mut self, now: Time) {
        self.parked.values_mut().for_each(|parked| parked.end(now));
    }

    /// Kills all parked jobs.
    pub(super) fn kill(&mut self) {
        self.parked.values_mut().for_each(|parked| drop(parked.guarded.kill()));
    }

    /// Returns whether jobs parked on the same devices may have caused a job's failure. This is assumed once
    /// per job; from then on, jobs parked on its devices end before it starts.
    pub(super) fn is_to_blame(&mut self, job: &JobName, lease: &Lease) -> bool {
        let is_there = |parked: &ParkedTraining| {
            lease
                .devices
                .iter()
                .any(|place| parked.held(place, lease).is_some_and(|memory| memory.device.is_some()))
        };
        self.parked.values().any(is_there) && self.alone.insert(job.clone())
    }

    /// Returns whether any parked training still holds memory that it must release.
    pub(super) fn is_moving(&self) -> bool {
        self.parked.keys().any(|origin| self.is_in_the_way(origin))
    }

    /// Returns the next deadline of a parked training.
    pub(super) fn due(&self) -> Option<Time> {
        let until = |parked: &ParkedTraining| {
            if let ParkingHold::Ending { until } = parked.hold { Some(until) } else { None }
        };
        self.parked.values().filter_map(until).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Returns whether a training was started for the same job, and the same copy of it.
fn is_of(origin: &SubmissionKey, of: &SubmissionKey) -> bool {
    (&origin.job, origin.copy) == (&of.job, of.copy)
}

#[cfg(test)]
mod tests;
