//! This machine, or an allocation, as a world: what runs on its devices, and requests to the guards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::{
    Answer, Attempt, End, Gpus, Intent, Observation, Run, Sighting, Standing, State, SubmissionKey, World,
    named_ranks,
};
use crate::live::{LiveError, Prepared, Reported, Site, left_word, reported};
use crate::local::devices::Devices;
use crate::local::guard::Order;
use crate::local::processes::end_leftovers;
use crate::local::running::{Running, Surroundings};
use crate::local::wake::Waker;
use crate::model::{Cluster, JobId, JobName, Seconds, Time};
use crate::render::Launcher;
use crate::store::{StateDir, report_folder, reports, run_folder};

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

/// The devices at hand and what runs on them.
pub struct LocalWorld<'a> {
    clock: &'a dyn Clock,
    directory: &'a StateDir,
    site: LocalSite,
    devices: Devices,
    waker: &'a Waker,
    running: BTreeMap<SubmissionKey, Running>,
    /// The run that was prepared last, by its id.
    prepared: Option<(String, Prepared)>,
    /// Whether hsched is about to end, and all that runs with it.
    is_closing: bool,
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
            prepared: None,
            is_closing: false,
        }
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Time {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^52")]
        let seconds = self.clock.now().timestamp_millis() as f64 / 1000.0;
        Time(seconds)
    }

    /// Takes in that the guard of a submission has ended.
    pub fn ended(&mut self, of: &SubmissionKey, status: ExitStatus) {
        let (now, mark) = (self.now(), self.mark(of));
        let Some(own) = self.running.get_mut(of) else { return };
        if status.code().is_none() {
            end_leftovers(&mark);
        }
        own.ended = Some((own.end(status, self.is_closing), now));
        if let Some(watch) = own.watch.take() {
            self.waker.leave(watch);
        }
        self.devices.give_back(of);
    }

    /// Returns how many submissions are at work.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.running.values().filter(|own| own.ended.is_none()).count()
    }

    /// Asks all that runs to save and end, for good: whatever ends from now on is interrupted, unless it is done.
    pub fn close(&mut self) {
        self.is_closing = true;
        for own in self.running.values_mut().filter(|own| own.ended.is_none()) {
            // One whose guard has ended is heard of soon.
            let _ = own.stop();
        }
    }

    /// Ends all that runs at once.
    pub fn kill(&mut self) {
        self.is_closing = true;
        for own in self.running.values_mut().filter(|own| own.ended.is_none()) {
            let _ = own.kill();
        }
    }

    fn mark(&self, of: &SubmissionKey) -> PathBuf {
        mark(&self.site.site.state, of)
    }

    fn sighting(&self, job: &JobName, attempt: &Attempt, at: Time) -> Result<Sighting, LiveError> {
        let of = attempt.key(job);
        if let Some(own) = self.running.get(&of) {
            let standing = match &own.ended {
                Some((end, at)) => Standing::Ended { end: end.clone(), at: Some(*at) },
                None => Standing::Running { since: Some(own.since), gpus: Some(own.gpus.clone()) },
            };
            return Ok(Sighting { of, job_id: own.job_id, submit_time: None, standing, reason: None });
        }
        left_behind(&self.site.site.state, job, attempt, at)
    }

    /// Starts a submission of the run that was prepared.
    fn start(&mut self, run: &Run, intent: &Intent) -> Result<JobId, Answer> {
        let (of, job) = (run.key(intent), &run.jobs[intent.job]);
        let prepared = self.prepared.as_ref().filter(|(id, _)| *id == run.id);
        let script = prepared.and_then(|(_, own)| Some((own.path(&of), own.script(&of)?)));
        let Some((path, script)) = script else {
            return Err(Answer::Refused { message: "its script was not written".into() });
        };
        if let Err(message) = &script.text {
            return Err(Answer::Refused { message: message.clone() });
        }
        let output = script.workdir.join(format!("{}.out", of.name()));
        let farewell = if self.site.site.inside == Some(Launcher::Steps) { FAREWELL } else { Duration::ZERO };
        let order = Order { script: path, workdir: script.workdir.clone(), mark: self.mark(&of), farewell };
        let failed = |message: String| Answer::Unreachable { message };
        let folder = self.directory.make_report_folder(&of.run, &of.name());
        let folder = folder.map_err(|error| failed(error.in_one_line()))?;
        let (ranks, since) = (named_ranks(&run.problem, &intent.placement), self.now());
        let needs = self.site.site.defaults.rank_needs(job);
        let Some(lease) = self.devices.take(&of, &ranks, needs) else {
            return Err(Answer::Deferred { message: "its devices are still in use".into() });
        };
        let threads = self.site.threads.filter(|_| job.launch.cpus_per_gpu.is_none());
        let threads = threads.map(|count| ("OMP_NUM_THREADS", count.to_string()));
        let variables: Vec<(&str, String)> = threads.into_iter().chain([("HSCHED_LEASE", lease)]).collect();
        let surroundings =
            Surroundings { program: &self.site.program, output: &output, variables: &variables };
        let watch = self.waker.watch(&folder);
        match Running::start(&of, &order, &surroundings, (since, Gpus::of(&ranks)), self.waker.sender()) {
            Ok(mut own) => {
                own.watch = watch;
                let job_id = own.job_id;
                self.running.insert(of, own);
                Ok(job_id)
            }
            Err(error) => {
                self.devices.give_back(&of);
                Err(failed(format!("cannot start it or open {}: {error}", output.display())))
            }
        }
    }
}

/// Ends what an hsched that was killed may have left of a state's submissions, and returns what became of them. `root` is
/// the state directory; whoever holds its lock knows that no `hsched run` is at work there.
///
/// # Errors
/// When reports cannot be read.
pub fn aftermath(root: &Path, state: &State, at: Time) -> Result<Observation, LiveError> {
    let mut sightings = Vec::new();
    for tracked in &state.jobs {
        for own in tracked.phase.submissions() {
            end_leftovers(&mark(root, &own.attempt.key(&tracked.job.name)));
            sightings.push(left_behind(root, &tracked.job.name, &own.attempt, at)?);
        }
    }
    let Reported { epochs, odd, notes } = reported(root, state, at);
    Ok(Observation { at, cluster: Cluster::default(), sightings, strays: Vec::new(), epochs, odd, notes })
}

/// Returns how a submission ended that an earlier hsched started, or was about to.
fn left_behind(root: &Path, job: &JobName, attempt: &Attempt, at: Time) -> Result<Sighting, LiveError> {
    let of = attempt.key(job);
    let folder = report_folder(root, &of.run, &of.name());
    let word =
        reports::word(&folder, attempt.job_id).map_err(|source| LiveError::Reports { folder, source })?;
    // A script that saved did so because its hsched wanted to end.
    if let Some((job_id, status)) = word.filter(|(_, status)| *status != 85) {
        return Ok(left_word(job, attempt, job_id, status));
    }
    let standing = Standing::Ended { end: End::Interrupted, at: Some(at) };
    let job_id = attempt.job_id.unwrap_or(JobId(0));
    Ok(Sighting { of, job_id, submit_time: None, standing, reason: None })
}

/// Returns the path of a guard's mark.
fn mark(root: &Path, of: &SubmissionKey) -> PathBuf {
    run_folder(root, &of.run).join(format!("{}.guard", of.name()))
}

impl World for LocalWorld<'_> {
    type Error = LiveError;

    fn observe(&mut self, state: &State) -> Result<Observation, LiveError> {
        let at = self.now();
        let mut sightings = Vec::new();
        for tracked in &state.jobs {
            for own in tracked.phase.submissions() {
                sightings.push(self.sighting(&tracked.job.name, &own.attempt, at)?);
            }
        }
        let seen: Vec<&SubmissionKey> = sightings.iter().map(|sighting| &sighting.of).collect();
        // What the state has let go was seen to end.
        self.running.retain(|of, own| own.ended.is_none() || seen.contains(&of));
        // After the ends: epochs that were reported before them count.
        let Reported { epochs, odd, notes } = reported(&self.site.site.state, state, at);
        let cluster = self.devices.cluster();
        Ok(Observation { at, cluster, sightings, strays: Vec::new(), epochs, odd, notes })
    }

    fn prepare(&mut self, run: &Run) -> Result<(), String> {
        let prepared = Prepared::write(run, &self.site.site, self.directory);
        self.prepared = Some((run.id.clone(), prepared.map_err(|error| error.in_one_line())?));
        Ok(())
    }

    fn submit(&mut self, run: &Run, intent: &Intent) -> Answer {
        match self.start(run, intent) {
            Ok(job_id) => Answer::Submitted { job_id },
            Err(answer) => answer,
        }
    }

    fn stop(&mut self, of: &SubmissionKey, _: JobId) -> Answer {
        // One that has ended is seen to have at the next look.
        if let Some(own) = self.running.get_mut(of) {
            let _ = own.stop();
        }
        Answer::Stopped
    }

    fn cancel(&mut self, of: &SubmissionKey, _: JobId) -> Answer {
        if let Some(own) = self.running.get_mut(of) {
            let _ = own.kill();
        }
        Answer::Killed
    }

    /// There is no queue.
    fn forecast(&mut self, _: &Run) -> Option<Seconds> {
        None
    }
}
