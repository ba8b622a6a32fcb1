//! Slurm as a world: one `squeue` and one `sinfo` a look, and one `sacct` when a job has left the queue.

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
    HeldSignals, LiveError, Prepared, Reported, ScriptContext, Tag, hold, reported, scripts,
};
use hsched_engine::store::samples::RecentSamples;
use hsched_engine::store::{StateDir, lay_output};
use hsched_engine::{
    Amendment, Answer, GpuRequest, Inquiry, JobStartEstimates, NewShares, Observation, PlannedSubmission,
    Run, ScriptJob, ScriptSighting, State, Submission, SubmissionKey, TaggedJob, World,
};
use hsched_model::{Bytes, Cluster, JobId, JobName, QueueChoice, Seconds, Time};

/// How much longer than the job itself accounting is asked about.
const SACCT_MARGIN_S: i64 = 3600;

/// What says what jobs may ask of the queue, and when that would start.
pub type StartEstimator<'a> = Box<dyn Fn(&[Inquiry]) -> Vec<JobStartEstimates> + 'a>;

/// What adds to a cluster what Slurm does not say of it; returns notes.
pub type Complete<'a> = Box<dyn Fn(&mut Cluster) -> Vec<String> + 'a>;

/// The real cluster.
pub struct SlurmWorld<'a> {
    pub runner: &'a dyn Runner,
    pub clock: &'a dyn Clock,
    pub directory: &'a StateDir,
    pub site: ScriptContext,
    /// What the cluster itself does not say: types of untyped GPUs, rates of nodes; returns notes.
    pub complete: Complete<'a>,
    /// Knows when requests would start, where somebody does.
    pub start_estimator: Option<StartEstimator<'a>>,
    /// What was prepared, by the run's id.
    prepared: BTreeMap<String, Prepared>,
    /// What the owners of outputs that were made should know, one sentence for each directory.
    pub noted: BTreeSet<String>,
    /// The names in Slurm of the jobs of scripts, as last looked for.
    slurm_names: BTreeMap<JobName, String>,
    /// The samples of what runs, as last read.
    samples: RecentSamples,
    /// Signals held back until the answer of the last request is written down.
    held: Option<HeldSignals>,
}

impl<'a> SlurmWorld<'a> {
    /// Returns the cluster that `runner` speaks to.
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

    /// Returns what the queue, accounting and reports show, without a look at the nodes, and the jobs in the queue that
    /// hsched submitted.
    ///
    /// # Errors
    /// When Slurm does not answer or prints nonsense.
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
        let Reported { epochs, odd, stalls, unfit, notes: unread } =
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

    /// Returns the time.
    pub fn now(&self) -> Time {
        self.clock.time()
    }

    /// Writes the plan and the scripts of a run to disk, unless they are there.
    ///
    /// # Errors
    /// When the run's id is taken, or something cannot be written.
    pub fn write_run(&mut self, run: &Run) -> Result<(), LiveError> {
        if self.prepared.contains_key(&run.id) {
            return Ok(());
        }
        self.prepared.insert(run.id.clone(), Prepared::write(run, &self.site, self.directory)?);
        Ok(())
    }

    /// Looks for a job whose submission had no clear answer.
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

    /// Gives way to signals; the answer of the last request must be written down by then.
    pub fn let_go(&mut self) {
        self.held = None;
    }

    /// Holds back signals that end a process: one that came in between sbatch's answer and its record would lose the
    /// job. Those that came since the last request are heard first.
    fn hold(&mut self) {
        self.let_go();
        self.held = Some(hold());
    }

    /// Submits once, and returns what came of it.
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

    /// Submits a script as it is, once, with the comment by which it is known.
    ///
    /// `runner` is for a script that is submitted again, with the environment and from the directory of the first time.
    pub fn submit_script(&mut self, script: &ScriptJob, path: &str, runner: Option<&dyn Runner>) -> Answer {
        let of = script.key();
        let runner = runner.unwrap_or(self.runner);
        self.send(&of, &script_command(script, path), runner)
    }

    /// Cancels a script's job if it is still pending.
    pub fn cancel_pending(&mut self, script: &ScriptJob, job_id: JobId) -> Answer {
        self.signal(&scancel::cancel_pending(&script.slurm_name, job_id), Answer::Killed)
    }

    /// Changes what the pending job of a script asks for, by a command of `scontrol`.
    pub fn amend_script(&mut self, command: &CommandLine) -> Answer {
        self.hold();
        amended(scontrol_update::send(self.runner, command))
    }

    fn signal(&mut self, command: &CommandLine, done: Answer) -> Answer {
        self.hold();
        match scancel::send(self.runner, command) {
            // The end is seen in the queue.
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
        // The queue first: what it shows as ended has given its GPUs back by the time of the second look.
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

    fn stop(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer {
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

    /// As `sbatch --test-only` says.
    fn forecast(&mut self, run: &Run) -> Option<Seconds> {
        let scripts = scripts(run, &self.site).ok()?;
        let text = scripts.into_iter().next()?.text.ok()?;
        let command = sbatch::test_command(&text, &self.site.sbatch);
        let TestOnlyAnswer::Starts(date) = sbatch::test(self.runner, &command).ok()? else { return None };
        Some(Time(time::unix(&date)?).since(self.now()))
    }
}

/// Returns what came of a request to change a job.
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

/// Returns what Slurm is asked to change.
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
