//! This machine or an allocation as a world: the submissions on its devices, and the requests to their
//! guards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use nix::sys::inotify::WatchDescriptor;

use crate::devices::Devices;
use crate::ended_run::left_behind;
use crate::parking::{Parking, ParkingNotes};
use crate::processes::end_leftovers;
use crate::running::LocalSubmission;
use crate::slot_memory::SlotMemory;
use crate::slots::GpuSharing;
use crate::wake::Waker;
use hsched_engine::clock::Clock;
use hsched_engine::live::{LiveError, PreparedRun, ReportedData, ScriptContext, reported, word_end};
use hsched_engine::pool::MemberId;
use hsched_engine::store::samples::RecentSamples;
use hsched_engine::store::{StateDir, report_folder, reports, run_folder};
use hsched_engine::{
    AfterStop, Answer, End, NewShares, Observation, QueueState, Rules, Run, Sighting, State, SubmissionKey,
    SubmissionRecord,
};
use hsched_model::{JobId, JobName, NodeName, Seconds, Time};

/// The parameters of a local world besides its devices.
#[derive(Clone, Debug)]
pub struct LocalSite {
    pub site: ScriptContext,
    /// The program that has the guard as a subcommand: hsched itself.
    pub program: PathBuf,
    /// Threads of a rank if its job does not set `cpus_per_gpu`; `None` leaves the choice to the program.
    pub threads: Option<u64>,
    /// The pool member that this process is.
    pub member: Option<MemberId>,
    /// Variables of all submissions.
    pub variables: Vec<(&'static str, String)>,
}

/// Time between two queries for the remaining nodes.
const BETWEEN_QUESTIONS: Seconds = Seconds(4.0);

/// The available devices and the submissions on them.
pub struct LocalWorld<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) directory: &'a StateDir,
    pub(super) site: LocalSite,
    pub(super) devices: Devices,
    pub(super) waker: &'a Waker,
    pub(super) running: BTreeMap<SubmissionKey, LocalSubmission>,
    pub(super) parking: Parking,
    pub(super) sharing: GpuSharing,
    pub(super) slot_memory: SlotMemory,
    /// Messages for people about switches, in order.
    pub(super) said: Vec<ParkingNotes>,
    /// The last samples of running submissions.
    samples: RecentSamples,
    /// The run that was prepared last, with its id.
    pub(super) prepared: Option<(String, PreparedRun)>,
    /// When a submission last lost a node.
    lost: Option<Time>,
    /// When the remaining nodes were last asked for.
    asked: Option<Time>,
    /// Whether hsched is about to end with all its submissions.
    pub(super) is_closing: bool,
}

impl<'a> LocalWorld<'a> {
    /// Returns the world of these devices, without submissions.
    pub fn new(
        clock: &'a dyn Clock,
        directory: &'a StateDir,
        site: LocalSite,
        devices: Devices,
        waker: &'a Waker,
    ) -> Self {
        Self {
            clock,
            directory,
            site,
            devices,
            waker,
            running: BTreeMap::new(),
            parking: Parking::default(),
            sharing: GpuSharing::default(),
            slot_memory: SlotMemory::default(),
            said: Vec::new(),
            samples: RecentSamples::default(),
            prepared: None,
            lost: None,
            asked: None,
            is_closing: false,
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.clock.time()
    }

    /// Records that a guard has ended; `origin` is the submission for which it was started.
    pub fn ended(&mut self, origin: &SubmissionKey, status: ExitStatus) {
        let now = self.now();
        if status.code().is_none() {
            let left = end_leftovers(&self.mark(origin));
            self.said.extend(left.map(|left| (origin.job.clone(), left)));
        }
        if let Some(parked) = self.parking.leave(origin) {
            self.leave(parked.guarded.watch);
            return;
        }
        let Some((of, running)) = self.running.iter_mut().find(|(_, running)| running.is_of(origin)) else {
            return;
        };
        let of = of.clone();
        let mut end = running.end(status, self.is_closing);
        let watches = [running.guarded.take().and_then(|guarded| guarded.watch), running.watch.take()];
        if matches!(end, End::Failed { .. })
            && let Some(lease) = self.devices.lease(&of)
            && self.parking.is_to_blame(&of.job, lease)
        {
            let why = "may have run out of memory beside parked jobs; restarting on GPUs without parked jobs";
            self.said.push((of.job.clone(), why.to_owned()));
            end = End::Interrupted;
        }
        if self.sharing.is_to_blame(&of, &end) {
            let why = "ran out of memory while sharing its GPU; restarting on a GPU of its own";
            self.said.push((of.job.clone(), why.to_owned()));
            end = End::Interrupted;
        }
        let word = || {
            let folder = report_folder(&self.site.site.state, &of.run, &of.name());
            reports::word(&folder, None).ok().flatten().and_then(word_end)
        };
        if end == End::Interrupted && self.is_closing && matches!(word(), Some(End::Cut | End::Unhandled)) {
            end = End::InterruptedUnsaved;
        }
        if matches!(end, End::Saved | End::Failed { exit: 143, .. }) {
            // Without the script's last word, it is unknown whether the processes saved.
            let unknown = if end == End::Saved { End::Cut } else { end };
            end = word().unwrap_or(unknown);
        }
        if end == End::NodeFailed {
            (self.lost, self.asked) = (Some(now), None);
        }
        running.ended = Some((end, now));
        self.devices.give_back(&of);
        for watch in watches {
            self.leave(watch);
        }
    }

    fn leave(&self, watch: Option<WatchDescriptor>) {
        if let Some(watch) = watch {
            self.waker.leave(watch);
        }
    }

    /// Returns whether to ask for the remaining nodes now, because one may have been lost; if so, records the
    /// time. Slurm may take minutes to notice.
    pub fn doubts_nodes(&mut self) -> bool {
        let now = self.now();
        let within = |at: Option<Time>, most: Seconds| at.is_some_and(|at| now.since(at) < most);
        let is_due = within(self.lost, Rules::NOTICED) && !within(self.asked, BETWEEN_QUESTIONS);
        if is_due {
            self.asked = Some(now);
        }
        is_due
    }

    /// Records the remaining nodes.
    pub fn keep_nodes(&mut self, left: &[NodeName]) {
        self.devices.keep(left);
    }

    /// Returns the number of submissions that have not ended.
    pub fn at_work(&self) -> usize {
        self.running.values().filter(|running| running.ended.is_none()).count()
    }

    /// Returns the number of submissions with processes, running or parked.
    pub fn left(&self) -> usize {
        self.at_work() + self.parking.len()
    }

    /// Returns the longest grace period of the submissions that have not ended.
    pub fn longest_grace(&self) -> Seconds {
        let open = self.running.values().filter(|running| running.ended.is_none());
        Seconds(open.map(|running| running.grace.0).fold(0.0, f64::max))
    }

    /// Returns whether all running submissions have been asked to end.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Asks all running submissions to save and end, and ends the parked ones. An end in response to this
    /// request counts as an interruption.
    pub fn close(&mut self) {
        if std::mem::replace(&mut self.is_closing, true) {
            return;
        }
        self.running.values_mut().filter(|running| running.ended.is_none()).for_each(LocalSubmission::stop);
        self.parking.end_all(self.now());
    }

    /// Ends all running and parked submissions at once.
    pub fn kill(&mut self) {
        self.is_closing = true;
        self.running.values_mut().filter(|running| running.ended.is_none()).for_each(LocalSubmission::kill);
        self.parking.kill();
    }

    /// Returns the messages about switches since the last call.
    pub fn said(&mut self) -> Vec<ParkingNotes> {
        std::mem::take(&mut self.said)
    }

    pub(super) fn mark(&self, of: &SubmissionKey) -> PathBuf {
        mark(&self.site.site.state, of)
    }

    /// Returns whether a submission belongs to this process, not to another member of its pool.
    pub(super) fn is_here(&self, attempt: &SubmissionRecord) -> bool {
        self.site.member.is_none() || member_of(attempt) == self.site.member
    }

    /// Returns the end of a submission that ran here; `None` if it has not ended, or did not run here.
    pub(super) fn end_of(&self, of: &SubmissionKey) -> Option<(End, Time)> {
        self.running.get(of)?.ended.clone()
    }

    /// Returns the submissions of this process that have not ended, with their job ids and start times.
    pub(super) fn at_work_now(&self) -> impl Iterator<Item = (SubmissionKey, JobId, Time)> {
        let open = self.running.iter().filter(|(_, running)| running.ended.is_none());
        open.map(|(of, running)| (of.clone(), running.job_id, running.since))
    }

    /// Forgets an ended submission.
    pub(super) fn forget(&mut self, of: &SubmissionKey) {
        self.running.retain(|key, running| running.ended.is_none() || key != of);
    }

    fn sighting(&self, job: &JobName, attempt: &SubmissionRecord, at: Time) -> Result<Sighting, LiveError> {
        let of = attempt.key(job);
        if let Some(running) = self.running.get(&of) {
            let queue_state = match &running.ended {
                Some((end, at)) => {
                    QueueState::Ended { end: end.clone(), at: Some(*at), since: Some(running.since) }
                }
                None if self.waits(&of) => QueueState::Pending,
                None => QueueState::Running { since: Some(running.since), gpus: Some(running.gpus.clone()) },
            };
            return Ok(Sighting {
                of,
                job_id: running.job_id,
                submit_time: None,
                state: queue_state,
                reason: None,
            });
        }
        left_behind(&self.site.site.state, job, attempt, at)
    }
}

/// Adds a message about a submission's reports to those of the observation.
pub(super) fn add_odd(odd: &mut Vec<(SubmissionKey, String)>, of: SubmissionKey, message: String) {
    match odd.iter_mut().find(|(other, _)| *other == of) {
        Some((_, what)) => *what = format!("{what}; {message}"),
        None => odd.push((of, message)),
    }
}

/// Returns the pool member to which a submission was assigned.
pub(super) fn member_of(attempt: &SubmissionRecord) -> Option<MemberId> {
    MemberId::of_node(&attempt.ranks.first()?.node)
}

/// Returns a run with the node names that Slurm and programs use.
fn plain(run: &Run) -> Run {
    let mut run = run.clone();
    run.problem.nodes.iter_mut().for_each(|node| node.name = MemberId::plain(&node.name));
    run
}

/// Returns the answer if a device is not free yet.
pub(super) fn in_use() -> Answer {
    Answer::Deferred { message: "its devices are still in use".into() }
}

/// Returns the answer if no devices were found for a submission. If no other submission uses any, none will
/// become free.
pub(super) fn not_found(devices: &Devices) -> Answer {
    match devices.users().next() {
        Some(_) => in_use(),
        None => Answer::Unreachable { message: "it needs more devices than there are".into() },
    }
}

/// Returns the path of a guard's mark.
pub(super) fn mark(root: &Path, of: &SubmissionKey) -> PathBuf {
    run_folder(root, &of.run).join(format!("{}.guard", of.name()))
}

impl LocalWorld<'_> {
    /// Returns the observation of this process's submissions and devices. First ends the parked trainings of
    /// ended jobs and continues switches.
    pub(super) fn observe(&mut self, state: &State) -> Result<Observation, LiveError> {
        let at = self.now();
        self.parking.end_done(state, at);
        self.switch(at);
        let mut sightings = Vec::new();
        for tracked in &state.jobs {
            for submission in tracked.phase.submissions() {
                if self.is_here(&submission.attempt) {
                    sightings.push(self.sighting(&tracked.job.name, &submission.attempt, at)?);
                }
            }
        }
        let seen: Vec<&SubmissionKey> = sightings.iter().map(|sighting| &sighting.of).collect();
        // Ended submissions that are no longer in the state are not needed any more.
        self.running.retain(|of, running| running.ended.is_none() || seen.contains(&of));
        // Reports are read after the ends, so that epochs reported before the ends count.
        let ReportedData { epochs, mut odd, stalls, unfit, notes } =
            reported(&self.site.site.state, state, &mut self.samples, at);
        self.slot_memory.keep(|of| self.running.contains_key(of));
        let root = &self.site.site.state;
        let folder = |of: &SubmissionKey| report_folder(root, &of.run, &of.name());
        for (of, excess) in self.slot_memory.excesses(folder) {
            add_odd(&mut odd, of, excess);
        }
        Ok(Observation {
            sightings,
            epochs,
            odd,
            stalls,
            unfit,
            notes,
            ..Observation::new(at, self.devices.cluster_without(|of| self.waits(of)))
        })
    }

    /// Writes the scripts of a run.
    pub(super) fn prepare(&mut self, run: &Run) -> Result<(), String> {
        let plain = self.site.member.is_some().then(|| plain(run));
        let prepared = PreparedRun::write(plain.as_ref().unwrap_or(run), &self.site.site, self.directory);
        self.prepared = Some((run.id.clone(), prepared.map_err(|error| error.in_one_line())?));
        Ok(())
    }

    /// Asks a submission to park at the end of its epoch if it continues later and can park soon, or else to
    /// save and end.
    pub(super) fn stop(&mut self, of: &SubmissionKey, then: AfterStop) -> Answer {
        self.park_or_stop(of, then);
        Answer::Stopped
    }

    /// Asks a submission to save and end.
    pub(super) fn end(&mut self, of: &SubmissionKey) {
        if let Some(running) = self.running.get_mut(of) {
            running.stop();
        }
    }

    /// Ends a submission at once.
    pub(super) fn cancel(&mut self, of: &SubmissionKey) -> Answer {
        if let Some(running) = self.running.get_mut(of) {
            running.kill();
        }
        Answer::Killed
    }

    /// Writes new shares to the place where the ranks of a submission read them.
    pub(super) fn share(&mut self, of: &SubmissionKey, shares: &NewShares) -> Answer {
        // The processes of a parked training know only the run for which they were started.
        if !self.running.get(of).is_some_and(|running| running.is_of(of)) {
            return Answer::NotShared {
                message: "its processes were started for another submission".to_owned(),
            };
        }
        self.write_shares(of, shares)
    }

    pub(super) fn write_shares(&self, of: &SubmissionKey, shares: &NewShares) -> Answer {
        match self.directory.write_shares(of, shares) {
            Ok(()) => Answer::Shared,
            Err(error) => Answer::NotShared { message: error.in_one_line() },
        }
    }

    /// Returns whether a submission runs here.
    pub(super) fn has(&self, of: &SubmissionKey) -> bool {
        self.running.contains_key(of)
    }
}
