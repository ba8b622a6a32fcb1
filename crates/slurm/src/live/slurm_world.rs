//! Slurm as a world: one `squeue` and one `sinfo` per observation, and one `sacct` if jobs have left the
//! queue; without accounting, one `scontrol` for each of them.

mod records;

use hsched_model::number::to_i64;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::live::observe::UserQueue;
use crate::live::script_jobs::{self, script_command};
use crate::scontrol_update::{JobUpdate, OtherGpus};
use crate::{
    CommandError, CommandLine, QueuedJob, Reply, RequestError, Runner, TestOnlyAnswer, read, sbatch, scancel,
    scontrol_update, sinfo, squeue, time,
};
use hsched_engine::clock::Clock;
use hsched_engine::live::{
    HeldSignals, LiveError, PreparedRun, ReportedData, ScriptContext, Tag, hold, reported, scripts,
};
use hsched_engine::store::samples::RecentSamples;
use hsched_engine::store::{StateDir, lay_output};
use hsched_engine::{
    AfterStop, Amendment, Answer, GpuRequest, Inquiry, JobStartEstimates, NewShares, Observation,
    PlannedSubmission, Run, ScriptJob, ScriptSighting, State, Submission, SubmissionKey, TaggedJob, World,
};
use hsched_model::{Bytes, Cluster, JobId, JobName, QueueChoice, Seconds, Time};

/// How long before the earliest of the submissions an accounting query begins.
const SACCT_MARGIN_S: i64 = 3600;

/// Returns the possible requests of jobs with their start estimates.
type StartEstimator<'a> = Box<dyn Fn(&[Inquiry]) -> Vec<JobStartEstimates> + 'a>;

/// Adds to a cluster the data that Slurm does not provide; returns notes.
type Complete<'a> = Box<dyn Fn(&mut Cluster) -> Vec<String> + 'a>;

/// The real cluster.
pub struct SlurmWorld<'a> {
    pub runner: &'a dyn Runner,
    pub clock: &'a dyn Clock,
    pub directory: &'a StateDir,
    pub site: ScriptContext,
    /// Adds data that the cluster does not provide: types of untyped GPUs, rates of nodes; returns notes.
    pub complete: Complete<'a>,
    /// Estimates when requests would start, if available.
    pub start_estimator: Option<StartEstimator<'a>>,
    /// Prepared runs, by run id.
    prepared: BTreeMap<String, PreparedRun>,
    /// Notes for the user on created output files, one sentence for each directory.
    pub noted: BTreeSet<String>,
    /// The Slurm names of scripts' jobs, as last read.
    slurm_names: BTreeMap<JobName, String>,
    /// The samples of running submissions, as last read.
    samples: RecentSamples,
    /// Signals held back until the answer to the last request is stored.
    held: Option<HeldSignals>,
}

impl<'a> SlurmWorld<'a> {
    /// Returns the cluster reached by `runner`.
    pub fn new(
        runner: &'a dyn Runner,
        clock: &'a dyn Clock,
        directory: &'a StateDir,
        site: ScriptContext,
        complete: Complete<'a>,
    ) -> Self {
        Self {
            runner,
            clock,
            directory,
            site,
            complete,
            start_estimator: None,
            prepared: BTreeMap::new(),
            noted: BTreeSet::new(),
            slurm_names: BTreeMap::new(),
            samples: RecentSamples::default(),
            held: None,
        }
    }

    /// Returns an observation from the queue, accounting and reports, without the nodes, and the queued jobs
    /// that hsched submitted.
    ///
    /// # Errors
    /// If Slurm does not answer or prints unreadable output, or if reports cannot be read.
    pub fn observe_jobs(&mut self, state: &State) -> Result<(Observation, Vec<TaggedJob>), LiveError> {
        let (queue, mut notes) = squeue::parse(&self.ask(&squeue::command())?)?;
        let seen = self.observe_queue(state, &queue, Cluster::default(), self.now(), &mut notes)?;
        Ok((seen, queue.iter().filter_map(QueuedJob::tagged).collect()))
    }

    fn observe_queue(
        &mut self,
        state: &State,
        queue: &[QueuedJob],
        cluster: Cluster,
        at: Time,
        notes: &mut Vec<String>,
    ) -> Result<Observation, LiveError> {
        let names = state.scripts.iter().map(|script| (script.name.clone(), script.slurm_name.clone()));
        self.slurm_names = names.collect();
        let queue = UserQueue::new(queue);
        let (mut sightings, mut left) = (Vec::new(), Vec::new());
        for tracked in &state.jobs {
            for Submission { attempt, .. } in tracked.phase.submissions() {
                match queue.sighting(&tracked.job.name, attempt, &cluster) {
                    Some(sighting) => sightings.push(sighting),
                    None => left.push((&tracked.job.name, attempt)),
                }
            }
        }
        let (scripts, gone): (Vec<_>, Vec<_>) = state
            .scripts
            .iter()
            .map(|script| (script, script_jobs::sighting(&queue, script)))
            .partition(|(_, sighting)| sighting.is_some());
        let mut scripts: Vec<ScriptSighting> =
            scripts.into_iter().filter_map(|(_, sighting)| sighting).collect();
        let gone: Vec<&ScriptJob> =
            gone.into_iter().map(|(script, _)| script).filter(|script| !script.is_over()).collect();
        let records = self.records_of(&left, &gone, notes)?;
        sightings.extend(self.endings(&left, &records)?);
        scripts.extend(gone.iter().filter_map(|script| script_jobs::recorded(script, &records)));
        self.judge_stops(state, &mut sightings, at)?;
        let sightings = self.judge_races(state, sightings)?;
        let ReportedData { epochs, odd, stalls, unfit, notes: unread } =
            reported(&self.site.state, state, &mut self.samples, at);
        notes.extend(unread.into_iter().chain(self.noted.iter().cloned()));
        let strays = queue.strays(state, &cluster);
        Ok(Observation {
            at,
            cluster,
            sightings,
            strays,
            scripts,
            epochs,
            odd,
            stalls,
            unfit,
            notes: std::mem::take(notes),
        })
    }

    fn ask(&self, command: &CommandLine) -> Result<String, CommandError> {
        read(self.runner, command, &|pause: Duration| self.clock.sleep(pause)).map(|output| output.stdout)
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.clock.time()
    }

    /// Writes the plan and the scripts of a run to disk, unless this world has already written them.
    ///
    /// # Errors
    /// If the run's id is taken, or a file cannot be written.
    pub fn write_run(&mut self, run: &Run) -> Result<(), LiveError> {
        if self.prepared.contains_key(&run.id) {
            return Ok(());
        }
        self.prepared.insert(run.id.clone(), PreparedRun::write(run, &self.site, self.directory)?);
        Ok(())
    }

    /// Searches for the job of an unconfirmed submission.
    fn find(&self, of: &SubmissionKey) -> Option<JobId> {
        let printed = self.ask(&squeue::command()).ok()?;
        let wanted = Tag::of(of);
        let (queue, _) = squeue::parse(&printed).ok()?;
        queue
            .into_iter()
            .filter(|queued| queued.tag().as_ref() == Some(&wanted))
            .map(|queued| queued.id)
            .min()
    }

    /// Releases held signals; the answer to the last request must be stored by then.
    fn let_go(&mut self) {
        self.held = None;
    }

    /// Holds back signals that end a process: a signal between sbatch's answer and its record would lose the
    /// job. Signals since the last request are handled first.
    fn hold(&mut self) {
        self.let_go();
        self.held = Some(hold());
    }

    /// Submits once and returns the answer.
    fn send(&mut self, of: &SubmissionKey, command: &CommandLine, runner: &dyn Runner) -> Answer {
        self.hold();
        match sbatch::submit(runner, command) {
            Ok(submitted) => Answer::Submitted { job_id: submitted.id },
            Err(RequestError::Refused { message }) => Answer::Refused { message },
            Err(RequestError::Deferred { message }) => Answer::Deferred { message },
            Err(RequestError::Unreachable { source }) => Answer::Unreachable { message: source.to_string() },
            Err(RequestError::Unclear { message }) => match self.find(of) {
                Some(job_id) => Answer::Submitted { job_id },
                None => Answer::Unclear { message },
            },
        }
    }

    /// Submits a script unchanged, once, with its identifying comment.
    ///
    /// For a resubmission, `runner` has the environment and directory of the first submission; `None` stands
    /// for the runner of this world.
    pub fn submit_script(&mut self, script: &ScriptJob, path: &str, runner: Option<&dyn Runner>) -> Answer {
        let of = script.key();
        let runner = runner.unwrap_or(self.runner);
        self.send(&of, &script_command(script, path), runner)
    }

    /// Cancels a script's job if it is still pending.
    pub fn cancel_pending(&mut self, script: &ScriptJob, job_id: JobId) -> Answer {
        self.signal(&scancel::cancel_pending(&script.slurm_name, job_id), Answer::Killed)
    }

    /// Updates the request of a script's pending job with a command of `scontrol`.
    pub fn amend_script(&mut self, command: &CommandLine) -> Answer {
        self.hold();
        amended(scontrol_update::send(self.runner, command))
    }

    fn signal(&mut self, command: &CommandLine, done: Answer) -> Answer {
        self.hold();
        match scancel::send(self.runner, command) {
            // The end is observed in the queue.
            Ok(Reply::Done | Reply::Ended) => done,
            Err(RequestError::Unclear { message }) => Answer::Unclear { message },
            Err(RequestError::Refused { message } | RequestError::Deferred { message }) => {
                Answer::NotStopped { message }
            }
            Err(RequestError::Unreachable { source }) => Answer::NotStopped { message: source.to_string() },
        }
    }
}

impl World for SlurmWorld<'_> {
    type Error = LiveError;

    fn observe(&mut self, state: &State) -> Result<Observation, LiveError> {
        self.let_go();
        // The queue is read first: jobs that it shows as ended have released their GPUs before the nodes are
        // read.
        let (queue, mut notes) = squeue::parse(&self.ask(&squeue::command())?)?;
        let (mut cluster, unread) = sinfo::parse(&self.ask(&sinfo::command())?)?;
        notes.extend(unread);
        notes.extend((self.complete)(&mut cluster));
        let at = self.now();
        self.observe_queue(state, &queue, cluster, at, &mut notes)
    }

    fn prepare(&mut self, run: &Run) -> Result<(), String> {
        self.write_run(run).map_err(|error| error.in_one_line())
    }

    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer {
        let of = run.key(intent);
        let prepared = self.prepared.get(&run.id);
        let Some((prepared, script)) = prepared.and_then(|prepared| Some((prepared, prepared.script(&of)?)))
        else {
            return Answer::Refused { message: "its script was not written".into() };
        };
        if let Err(message) = &script.text {
            return Answer::Refused { message: message.clone() };
        }
        match lay_output(&script.output()) {
            Ok(note) => self.noted.extend(note),
            Err(message) => return Answer::Refused { message },
        }
        let path = prepared.path(&of).display().to_string();
        let runner = self.runner;
        self.send(&of, &sbatch::command(&path, &self.site.sbatch), runner)
    }

    fn stop(&mut self, of: &SubmissionKey, job_id: JobId, _: AfterStop) -> Answer {
        self.signal(&scancel::stop(&of.name(), job_id), Answer::Stopped)
    }

    fn cancel(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer {
        let name = self.slurm_names.get(&of.job).cloned().unwrap_or_else(|| of.name());
        self.signal(&scancel::cancel(&name, job_id), Answer::Killed)
    }

    fn amend(&mut self, _: &SubmissionKey, job_id: JobId, to: &Amendment) -> Answer {
        self.hold();
        amended(scontrol_update::send(self.runner, &scontrol_update::command(job_id, &update(to))))
    }

    fn share(&mut self, of: &SubmissionKey, _: JobId, shares: &NewShares) -> Answer {
        match self.directory.write_shares(of, shares) {
            Ok(()) => Answer::Shared,
            Err(error) => Answer::NotShared { message: error.in_one_line() },
        }
    }

    fn start_estimates(&mut self, inquiries: &[Inquiry]) -> Vec<JobStartEstimates> {
        self.start_estimator.as_ref().map_or_else(Vec::new, |estimate| estimate(inquiries))
    }

    /// Uses `sbatch --test-only`.
    fn forecast(&mut self, run: &Run) -> Option<Seconds> {
        let scripts = scripts(run, &self.site).ok()?;
        let text = scripts.into_iter().next()?.text.ok()?;
        let command = sbatch::test_command(&text, &self.site.sbatch);
        let TestOnlyAnswer::Starts(date) = sbatch::test(self.runner, &command).ok()? else { return None };
        Some(Time(time::unix(&date)?).since(self.now()))
    }
}

/// Returns the answer for an update of a job.
fn amended(done: Result<(), RequestError>) -> Answer {
    match done {
        Ok(()) => Answer::Amended,
        Err(RequestError::Unclear { message }) => Answer::Unclear { message },
        Err(RequestError::Refused { message } | RequestError::Deferred { message }) => {
            Answer::NotAmended { message }
        }
        Err(RequestError::Unreachable { source }) => Answer::NotAmended { message: source.to_string() },
    }
}

/// Returns the update for Slurm.
fn update(to: &Amendment) -> JobUpdate {
    let gpus = to.kind.clone().map(|GpuRequest { nodes, per_node, gpu_type }| {
        let memory = Bytes(to.memory).whole_mebibytes().saturating_mul(per_node.into());
        let memory_mib = (memory > 0).then_some(memory);
        OtherGpus { nodes, per_node, gpu_type, cpus: to.cpus, memory_mib }
    });
    let QueueChoice { account, partition, .. } = to.queue_choice.clone().unwrap_or_default();
    JobUpdate { minutes: to.minutes, gpus, account, partition }
}

fn moment(time: Time) -> DateTime<Utc> {
    DateTime::from_timestamp(to_i64(time.0), 0).unwrap_or_default()
}
