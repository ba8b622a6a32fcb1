//! How a local world reassigns devices from one job to another: the training is parked and continued later if
//! possible; otherwise it saves, ends and restarts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::devices::Lease;
use crate::gate::{Gate, GateRequest, RankWord, Stand};
use crate::parking::ParkedTraining;
use crate::probe;
use crate::running::{LocalSubmission, SubmissionStep};
use crate::world::LocalWorld;
use hsched_engine::pool::SubmissionStart;
use hsched_engine::render::Launcher;
use hsched_engine::store::{report_folder, reports};
use hsched_engine::{AfterStop, End, SubmissionKey};
use hsched_model::{Bytes, JobId, NodeName, Seconds, Time};

/// Maximum wait for the end of an epoch, in seconds: a training that takes longer is asked to save and end
/// within the engine's patience.
const TO_PARK: Seconds = Seconds(20.0);

impl LocalWorld<'_> {
    /// Asks a submission to park at the end of its epoch if it continues later and can park soon, or else to
    /// save and end.
    pub(super) fn park_or_stop(&mut self, of: &SubmissionKey, then: AfterStop) {
        let (now, left) = (self.now(), self.epoch_left(of));
        // An ended submission is detected at the next observation.
        let Some(running) = self.running.get_mut(of).filter(|running| running.ended.is_none()) else {
            return;
        };
        if let SubmissionStep::Asked | SubmissionStep::Parking { .. } = running.step {
            return;
        }
        let Some(guarded) = &mut running.guarded else { return };
        let why = match &running.step {
            // The submission has not resumed and is still parked, or its script was not started.
            SubmissionStep::Held { .. } if guarded.gate.parked().is_some() => {
                running.step = SubmissionStep::Parking { until: now };
                return;
            }
            SubmissionStep::Held { .. } => None,
            _ if then != AfterStop::GoOn => None,
            _ if !guarded.gate.can_park() => Some("its program does not support parking".to_owned()),
            _ if left.is_some_and(|left| left > TO_PARK) => {
                Some(format!("its epoch needs more than {} s", TO_PARK.0))
            }
            _ => match guarded.gate.say(GateRequest::Park) {
                Ok(()) => {
                    running.step = SubmissionStep::Parking { until: now.after(TO_PARK) };
                    return;
                }
                Err(error) => Some(format!("hsched could not ask it to wait: {error}")),
            },
        };
        if let Some(why) = why {
            self.said.push((of.job.clone(), format!("saves and exits instead of parking: {why}")));
        }
        running.stop();
    }

    /// Returns the remaining time of a submission's current epoch, if known.
    fn epoch_left(&self, of: &SubmissionKey) -> Option<Seconds> {
        let running = self.running.get(of)?;
        let folder = report_folder(&self.site.site.state, &of.run, &of.name());
        let last = reports::epochs(&folder, 1, 0, self.now()).ok()?.pop();
        let length = last.and_then(|last| last.length).or(running.epoch)?;
        let begun = reports::written(&folder).map_or(running.since, |at| Time(at.0.max(running.since.0)));
        Some(Seconds((length.0 - self.now().since(begun).0).max(0.0)))
    }

    /// Lets a parked training continue as a submission once the submissions on its devices have made room.
    ///
    /// # Errors
    /// If the new owner of the processes cannot be recorded; they then stay parked.
    pub(super) fn adopt(
        &mut self,
        of: &SubmissionKey,
        origin: &SubmissionKey,
        start: &SubmissionStart,
        max_memory: Option<Bytes>,
    ) -> io::Result<JobId> {
        let root = &self.site.site.state;
        let [folder, before] = [of, origin].map(|key| report_folder(root, &key.run, &key.name()));
        fs::copy(self.mark(origin), self.mark(of))?;
        reports::take_over(&before, &folder, fs::metadata(&start.output).map_or(0, |data| data.len()))?;
        let Some(parked) = self.parking.leave(origin) else { return Err(io::ErrorKind::NotFound.into()) };
        let after = self.make_room(of, &parked.lease, true);
        let whence = if parked.is_moved() { ", with its tensors from host memory" } else { "" };
        self.said.push((of.job.clone(), format!("resumes where it was parked{whence}")));
        let (job_id, now) = (parked.guarded.job_id, self.now());
        self.occupy(of, parked.lease, &start.output, max_memory);
        let mut running =
            LocalSubmission::new(parked.guarded, now, start, parked.epochs, SubmissionStep::Held { after });
        running.epoch = parked.epoch;
        running.watch = self.waker.watch(&folder);
        self.running.insert(of.clone(), running);
        self.release();
        Ok(job_id)
    }

    /// Makes room for a submission; returns the submissions to wait for: parked ones that must release memory,
    /// and those that use GPUs which it needs exclusively. `is_there` means that its processes already occupy
    /// their memory.
    pub(super) fn make_room(
        &mut self,
        of: &SubmissionKey,
        lease: &Lease,
        is_there: bool,
    ) -> BTreeSet<SubmissionKey> {
        let spare = self.spare(of, lease, is_there);
        let (mut after, said) = self.parking.make_room(of, lease, spare, self.now());
        self.said.extend(said);
        after.extend(self.devices.in_the_way(lease));
        after
    }

    /// Assigns devices to a submission that starts or continues, and records its neighbours and the memory of
    /// its slot.
    pub(super) fn occupy(
        &mut self,
        of: &SubmissionKey,
        lease: Lease,
        output: &Path,
        max_memory: Option<Bytes>,
    ) {
        self.devices.take(of, lease);
        self.sharing.begin(of, output, &self.devices);
        self.slot_memory.begin(of, max_memory, &self.devices);
    }

    /// Returns the host memory left beside a submission and all parked jobs, in bytes, if it is known;
    /// negative if there is too little.
    fn spare(&self, of: &SubmissionKey, lease: &Lease, is_there: bool) -> Option<i64> {
        let bytes = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let nodes: BTreeSet<&NodeName> = lease.devices.iter().map(|(node, _)| node).collect();
        let declared = nodes.iter().filter_map(|node| {
            let ranks = lease.devices.iter().filter(|(name, _)| name == *node).count() as u64;
            let needs = ranks * lease.needs.memory + self.parking.needs_on(node);
            Some(bytes(self.devices.free_memory(node)?) - bytes(needs))
        });
        let is_here = self.site.site.inside == Some(Launcher::Local);
        let measured = is_here.then(|| {
            let new = if is_there { 0 } else { self.parking.estimate(&of.job) };
            bytes(probe::available_memory()) - bytes(new)
        });
        declared.chain(measured).min()
    }

    /// Records the answers of ranks: submissions that are parked release their devices, those that take too
    /// long are asked to save and end, and held ones start once there is room. Does nothing while hsched is
    /// closing.
    pub(super) fn switch(&mut self, now: Time) {
        if self.is_closing {
            return;
        }
        let of_step = |running: &LocalSubmission| {
            matches!(running.step, SubmissionStep::Parking { .. } | SubmissionStep::GoingOn)
                && running.ended.is_none()
        };
        let moving: Vec<SubmissionKey> =
            self.running.iter().filter(|(_, running)| of_step(running)).map(|(of, _)| of.clone()).collect();
        for of in moving {
            let Some(running) = self.running.get_mut(&of) else { continue };
            let gate = running.guarded.as_ref().map(|guarded| &guarded.gate);
            match running.step {
                SubmissionStep::Parking { until } => match gate.and_then(Gate::parked) {
                    Some(words) => self.park(&of, &words, now),
                    None if now >= until => {
                        running.stop();
                        let why = "saves and exits instead of parking: its epoch took too long";
                        self.said.push((of.job.clone(), why.to_owned()));
                    }
                    None => {}
                },
                SubmissionStep::GoingOn if gate.is_some_and(|gate| gate.all(Stand::Running).is_some()) => {
                    running.step = SubmissionStep::AtWork;
                }
                _ => {}
            }
        }
        self.parking.take_in(now);
        self.release();
    }

    /// Records that all ranks of a submission are parked; for the engine, the submission has ended.
    fn park(&mut self, of: &SubmissionKey, words: &[RankWord], now: Time) {
        let folder = report_folder(&self.site.site.state, &of.run, &of.name());
        let Some(running) = self.running.get_mut(of) else { return };
        let Some(guarded) = running.guarded.take() else { return };
        let last = reports::epochs(&folder, 1, 0, now).unwrap_or_default().pop();
        let Some(lease) = self.devices.lease(of).cloned() else { return };
        let epoch = last.as_ref().and_then(|last| last.length).or(running.epoch);
        running.ended = Some((End::Saved, now));
        let watch = running.watch.take();
        self.devices.give_back(of);
        if let Some(watch) = watch {
            self.waker.leave(watch);
        }
        let epochs = last.map_or(running.epochs, |last| last.epoch);
        self.said
            .push((of.job.clone(), format!("parked after epoch {epochs}: its processes stay in memory")));
        self.parking.enter(ParkedTraining::new(guarded, lease, (epochs, epoch), words));
    }

    /// Starts held submissions that no longer wait for other submissions.
    fn release(&mut self) {
        let Self { running, parking, site, devices, clock, .. } = self;
        for (of, running_job) in running.iter_mut() {
            let (SubmissionStep::Held { after }, Some(guarded)) =
                (&mut running_job.step, &mut running_job.guarded)
            else {
                continue;
            };
            // A submission with a lease uses a GPU that the held submission needs exclusively.
            after.retain(|other| parking.is_in_the_way(other) || devices.lease(other).is_some());
            if !after.is_empty() {
                continue;
            }
            if guarded.origin == *of {
                let _ = guarded.go();
                (running_job.step, running_job.since) = (SubmissionStep::AtWork, clock.time());
            } else {
                let folder = report_folder(&site.site.state, &of.run, &of.name());
                // If the request cannot be written now, it is written at the next check.
                if guarded.gate.say(GateRequest::Go { reports: &folder }).is_ok() {
                    running_job.step = SubmissionStep::GoingOn;
                }
            }
        }
    }

    /// Returns whether a submission waits until other submissions release its GPU; the engine sees it as pending.
    pub(super) fn waits(&self, of: &SubmissionKey) -> bool {
        let held = |running: &LocalSubmission| match &running.step {
            SubmissionStep::Held { after } => running.ended.is_none() && self.waits_for_slots(after),
            _ => false,
        };
        self.running.get(of).is_some_and(held)
    }

    /// Returns whether one of the submissions to wait for still uses devices. Its end wakes hsched.
    pub(super) fn waits_for_slots(&self, after: &BTreeSet<SubmissionKey>) -> bool {
        after.iter().any(|other| self.devices.lease(other).is_some())
    }

    /// Returns whether any submission is about to park, or waits until parked trainings have made room.
    pub fn is_switching(&self) -> bool {
        let is_moving = |running: &LocalSubmission| match &running.step {
            SubmissionStep::Parking { .. } => true,
            SubmissionStep::Held { after } => !self.waits_for_slots(after),
            _ => false,
        };
        self.running.values().any(|running| running.ended.is_none() && is_moving(running))
            || self.parking.is_moving()
    }

    /// Returns the next deadline for a job's answer.
    pub fn due(&self) -> Option<Time> {
        let until = |running: &LocalSubmission| match running.step {
            SubmissionStep::Parking { until } if running.ended.is_none() => Some(until),
            _ => None,
        };
        let parking = self.running.values().filter_map(until);
        parking.chain(self.parking.due()).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}
