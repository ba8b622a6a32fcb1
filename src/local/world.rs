//! This machine, or an allocation, as a world: what runs on its devices, and requests to the guards.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::inotify::WatchDescriptor;

use crate::local::devices::{Devices, Lease};
use crate::local::ended_run::left_behind;
use crate::local::gate::Gate;
use crate::local::guard::Order;
use crate::local::parking::{Parking, Said};
use crate::local::processes::end_leftovers;
use crate::local::running::{Guarded, Running, Step, Surroundings, work};
use crate::local::slots::Sharing;
use crate::local::wake::Waker;
use hsched_engine::clock::Clock;
use hsched_engine::live::{LiveError, Prepared, Reported, Site, reported, word_end};
use hsched_engine::render::Launcher;
use hsched_engine::store::samples::RecentSamples;
use hsched_engine::store::{StateDir, laid_by_another, report_folder, reports, run_folder};
use hsched_engine::{
    Answer, End, Gpus, NewShares, Observation, PlannedSubmission, QueueState, Rules, Run, Sighting, State,
    SubmissionKey, SubmissionRecord, World, named_ranks,
};
use hsched_model::{JobId, JobName, NodeName, Seconds, Time};

/// What a local world needs to know beside its devices.
#[derive(Clone, Debug)]
pub struct LocalSite {
    pub site: Site,
    /// The program that has the guard as a subcommand: hsched itself.
    pub program: PathBuf,
    /// Threads that a rank may use where its job does not say; `None` leaves it to the program.
    pub threads: Option<u64>,
}

/// How long `srun` may take to end its tasks.
const FAREWELL: Duration = Duration::from_secs(20);

/// How soon it is asked again which nodes are left.
const ASK_AGAIN: Seconds = Seconds(4.0);

/// The devices at hand and what runs on them.
pub struct LocalWorld<'a> {
    clock: &'a dyn Clock,
    directory: &'a StateDir,
    pub(super) site: LocalSite,
    pub(super) devices: Devices,
    pub(super) waker: &'a Waker,
    pub(super) running: BTreeMap<SubmissionKey, Running>,
    pub(super) parking: Parking,
    sharing: Sharing,
    /// What people should know of switches, in order.
    pub(super) said: Vec<Said>,
    /// The samples of what runs, as last read.
    samples: RecentSamples,
    /// The run that was prepared last, by its id.
    prepared: Option<(String, Prepared)>,
    /// When a submission lost a node, the last time.
    lost: Option<Time>,
    /// When somebody was asked last which nodes are left.
    asked: Option<Time>,
    /// Whether hsched is about to end, and all that runs with it.
    pub(super) is_closing: bool,
}

impl<'a> LocalWorld<'a> {
    /// Returns the devices with nothing on them.
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
            sharing: Sharing::default(),
            said: Vec::new(),
            samples: RecentSamples::default(),
            prepared: None,
            lost: None,
            asked: None,
            is_closing: false,
        }
    }

    /// Returns the time.
    pub fn now(&self) -> Time {
        self.clock.time()
    }

    /// Takes in that a guard has ended; `origin` is the submission that it was started for.
    pub fn ended(&mut self, origin: &SubmissionKey, status: ExitStatus) {
        let now = self.now();
        if status.code().is_none() {
            end_leftovers(&self.mark(origin));
        }
        if let Some(parked) = self.parking.leave(origin) {
            self.leave(parked.guarded.watch);
            return;
        }
        let Some((of, own)) = self.running.iter_mut().find(|(_, running)| running.is_of(origin)) else {
            return;
        };
        let of = of.clone();
        let mut end = own.end(status, self.is_closing);
        let watches = [own.guarded.take().and_then(|own| own.watch), own.watch.take()];
        if matches!(end, End::Failed { .. })
            && let Some(lease) = self.devices.lease(&of)
            && self.parking.is_to_blame(&of.job, lease)
        {
            let why = "parked jobs may have left it too little memory; it will start again without them";
            self.said.push((of.job.clone(), why.to_owned()));
            end = End::Interrupted;
        }
        if self.sharing.is_to_blame(&of, &end) {
            let why = "it ran out of memory beside others on its GPU; it will start again alone";
            self.said.push((of.job.clone(), why.to_owned()));
            end = End::Interrupted;
        }
        if matches!(end, End::Saved | End::Failed { exit: 143, .. }) {
            let folder = report_folder(&self.site.site.state, &of.run, &of.name());
            let word = reports::word(&folder, None).ok().flatten();
            // Without a word it cannot be known what the processes wrote.
            let unknown = if end == End::Saved { End::Cut } else { end };
            end = word.and_then(word_end).unwrap_or(unknown);
        }
        if end == End::NodeFailed {
            (self.lost, self.asked) = (Some(now), None);
        }
        own.ended = Some((end, now));
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

    /// Returns whether somebody should say which nodes are left: one may have been lost. Slurm may take minutes to notice.
    pub fn doubts_nodes(&mut self) -> bool {
        let now = self.now();
        let within = |at: Option<Time>, most: Seconds| at.is_some_and(|at| now.since(at) < most);
        let is_due = within(self.lost, Rules::NOTICED) && !within(self.asked, ASK_AGAIN);
        if is_due {
            self.asked = Some(now);
        }
        is_due
    }

    /// Takes in which nodes are left.
    pub fn keep_nodes(&mut self, left: &[NodeName]) {
        self.devices.keep(left);
    }

    /// Returns how many submissions are at work.
    pub fn at_work(&self) -> usize {
        self.running.values().filter(|running| running.ended.is_none()).count()
    }

    /// Returns how many have processes: those at work, and those that are parked.
    pub fn left(&self) -> usize {
        self.at_work() + self.parking.len()
    }

    /// Asks all that runs to save and end, for good: whatever ends from now on is interrupted, unless it is done.
    pub fn close(&mut self) {
        self.is_closing = true;
        self.running.values_mut().filter(|running| running.ended.is_none()).for_each(Running::stop);
        self.parking.end_all(self.now());
    }

    /// Ends all that runs at once.
    pub fn kill(&mut self) {
        self.is_closing = true;
        self.running.values_mut().filter(|running| running.ended.is_none()).for_each(Running::kill);
        self.parking.kill();
    }

    /// Returns what people should know of switches since the last call.
    pub fn said(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.said)
    }

    pub(super) fn mark(&self, of: &SubmissionKey) -> PathBuf {
        mark(&self.site.site.state, of)
    }

    fn sighting(&self, job: &JobName, attempt: &SubmissionRecord, at: Time) -> Result<Sighting, LiveError> {
        let of = attempt.key(job);
        if let Some(running) = self.running.get(&of) {
            let queue_state = match &running.ended {
                Some((end, at)) => QueueState::Ended { end: end.clone(), at: Some(*at) },
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

    /// Starts a submission of the run that was prepared, or lets the training go on that is parked for it.
    fn start(&mut self, run: &Run, intent: &PlannedSubmission) -> Result<JobId, Answer> {
        let (of, job) = (run.key(intent), &run.jobs[intent.job]);
        let failed = |message: String| Answer::Unreachable { message };
        let prepared = self.prepared.as_ref().filter(|(id, _)| *id == run.id);
        let script = prepared.and_then(|(_, own)| Some((own.path(&of), own.script(&of)?.clone())));
        let Some((path, script)) = script else {
            return Err(Answer::Refused { message: "its script was not written".into() });
        };
        let output = script.output();
        let text = script.text.map_err(|message| Answer::Refused { message })?;
        let folder = self.directory.make_report_folder(&of.run, &of.name());
        let folder = folder.map_err(|error| failed(error.in_one_line()))?;
        if let Some(message) = laid_by_another(&output) {
            return Err(Answer::Refused { message });
        }
        let (ranks, work) = (named_ranks(&run.problem, &intent.placement), work(&text));
        let gpus = Gpus::of(&ranks);
        let epochs = run.epochs_done[intent.job];
        let parked = self.parking.find(&of, &work, epochs);
        let parked = parked
            .filter(|parked| self.devices.is_free(&parked.lease))
            .map(|parked| parked.guarded.origin.clone());
        if let Some(origin) = parked {
            return self.adopt(&of, &origin, gpus, &output).map_err(|error| failed(error.to_string()));
        }
        let needs = self.site.site.defaults.rank_needs(job);
        let crowd = |node: &NodeName, device: usize| self.parking.crowd(node, device);
        let Some(lease) = self.devices.find(&ranks, needs, self.sharing.wants_alone(&of.job), crowd) else {
            return Err(Answer::Deferred { message: "its devices are still in use".into() });
        };
        let after = self.make_room(&of, &lease, false);
        let farewell = if self.site.site.inside == Some(Launcher::Steps) { FAREWELL } else { Duration::ZERO };
        let (mark, is_held) = (self.mark(&of), !after.is_empty());
        let order = Order { script: path, workdir: script.workdir.clone(), mark, farewell, is_held };
        let gate = Gate::new(&folder, ranks.len());
        let threads = self.site.threads.filter(|_| job.launch.cpus_per_gpu.is_none());
        let variables = self.variables(threads, &lease, &gate);
        let surroundings =
            Surroundings { program: &self.site.program, output: &output, variables: &variables };
        let watch = self.waker.watch(&folder);
        let guarded = Guarded::start(&of, &order, &surroundings, gate, work, self.waker.sender());
        let mut guarded = guarded.map_err(|error| {
            let message = format!("cannot start it or open {}: {error}", output.display());
            // The same will be said the next time; anything else may pass.
            match error.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory => Answer::Refused { message },
                _ => failed(message),
            }
        })?;
        guarded.watch = watch;
        let (job_id, step) = (guarded.job_id, if is_held { Step::Held { after } } else { Step::AtWork });
        self.devices.take(&of, lease);
        self.sharing.begin(&of, &output, &self.devices);
        self.running.insert(of, Running::new(guarded, self.now(), gpus, epochs, step));
        Ok(job_id)
    }

    /// Returns what a submission's processes get from their environment alone.
    fn variables(&self, threads: Option<u64>, lease: &Lease, gate: &Gate) -> Vec<(&'static str, String)> {
        let threads = threads.map(|count| ("OMP_NUM_THREADS", count.to_string()));
        // A path that is no text is none that a variable can have.
        let gate = gate.path().to_str().map(|path| ("HSCHED_GATE", path.to_owned()));
        let lease = ("HSCHED_LEASE", self.devices.words(lease));
        threads.into_iter().chain(gate).chain([lease]).collect()
    }
}

/// Returns the path of a guard's mark.
pub(super) fn mark(root: &Path, of: &SubmissionKey) -> PathBuf {
    run_folder(root, &of.run).join(format!("{}.guard", of.name()))
}

impl World for LocalWorld<'_> {
    type Error = LiveError;

    fn observe(&mut self, state: &State) -> Result<Observation, LiveError> {
        let at = self.now();
        self.parking.end_done(state, at);
        self.switch(at);
        let mut sightings = Vec::new();
        for tracked in &state.jobs {
            for submission in tracked.phase.submissions() {
                sightings.push(self.sighting(&tracked.job.name, &submission.attempt, at)?);
            }
        }
        let seen: Vec<&SubmissionKey> = sightings.iter().map(|sighting| &sighting.of).collect();
        // What the state has let go was seen to end.
        self.running.retain(|of, running| running.ended.is_none() || seen.contains(&of));
        // After the ends: epochs that were reported before them count.
        let Reported { epochs, odd, stalls, notes } =
            reported(&self.site.site.state, state, &mut self.samples, at);
        let cluster = self.devices.cluster();
        Ok(Observation {
            at,
            cluster,
            sightings,
            strays: Vec::new(),
            scripts: Vec::new(),
            epochs,
            odd,
            stalls,
            notes,
        })
    }

    fn prepare(&mut self, run: &Run) -> Result<(), String> {
        let prepared = Prepared::write(run, &self.site.site, self.directory);
        self.prepared = Some((run.id.clone(), prepared.map_err(|error| error.in_one_line())?));
        Ok(())
    }

    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer {
        match self.start(run, intent) {
            Ok(job_id) => Answer::Submitted { job_id },
            Err(answer) => answer,
        }
    }

    fn stop(&mut self, of: &SubmissionKey, _: JobId) -> Answer {
        self.park_or_stop(of);
        Answer::Stopped
    }

    fn cancel(&mut self, of: &SubmissionKey, _: JobId) -> Answer {
        if let Some(running) = self.running.get_mut(of) {
            running.kill();
        }
        Answer::Killed
    }

    fn share(&mut self, of: &SubmissionKey, _: JobId, shares: &NewShares) -> Answer {
        // The processes of a training that was parked know the run for which they were started.
        if !self.running.get(of).is_some_and(|running| running.is_of(of)) {
            return Answer::NotShared {
                message: "its processes were started for another submission".to_owned(),
            };
        }
        match self.directory.write_shares(of, shares) {
            Ok(()) => Answer::Shared,
            Err(error) => Answer::NotShared { message: error.in_one_line() },
        }
    }

    /// There is no queue.
    fn forecast(&mut self, _: &Run) -> Option<Seconds> {
        None
    }
}
