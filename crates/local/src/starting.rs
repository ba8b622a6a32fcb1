//! How a local world starts a submission: on free devices, or by continuing its parked training.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::devices::Lease;
use crate::gate::Gate;
use crate::guard::GuardOrder;
use crate::running::{GuardedProcesses, LocalSubmission, SubmissionStep, Surroundings, work};
use crate::slot_memory::gibibytes;
use crate::world::{LocalWorld, in_use, not_found};
use hsched_engine::pool::SubmissionStart;
use hsched_engine::render::Launcher;
use hsched_engine::store::laid_by_another;
use hsched_engine::{Answer, Gpus, PlannedSubmission, Run, SubmissionKey, named_ranks};
use hsched_model::{Bytes, JobId, NodeName};

/// How long `srun` may take to end its tasks.
const FAREWELL: Duration = Duration::from_secs(20);

impl LocalWorld<'_> {
    /// Starts a submission of the prepared run, or lets its parked training continue.
    pub(super) fn start(&mut self, run: &Run, intent: &PlannedSubmission) -> Result<JobId, Answer> {
        let (of, job) = (run.key(intent), &run.jobs[intent.job]);
        let (start, text) = self.describe(run, intent)?;
        self.make_folder(&of, &start)?;
        let work = work(&text);
        let parked = self.parking.find(&of, &work, start.epochs);
        let parked = parked
            .filter(|parked| self.devices.is_free(&parked.lease))
            .map(|parked| parked.guarded.origin.clone());
        if let Some(origin) = parked {
            let adopted = self.adopt(&of, &origin, &start, job.max_memory);
            return adopted.map_err(|error| Answer::Unreachable { message: error.to_string() });
        }
        let ranks = named_ranks(&run.problem, &intent.placement);
        let needs = self.site.site.defaults.rank_needs(job);
        let crowd = |node: &NodeName, device: usize| self.parking.crowd(node, device);
        let too_small = job.max_memory.and_then(|need| self.devices.too_small(&ranks, need));
        let alone = too_small.is_some() || self.sharing.wants_alone(&of.job);
        let lease = self.devices.find(&ranks, needs, alone, crowd).ok_or_else(|| not_found(&self.devices))?;
        let job_id = self.begin_on(lease, &of, &start, work, job.max_memory)?;
        self.say_too_small(&of, too_small);
        Ok(job_id)
    }

    /// Says that a job gets a GPU of its own, if its slot is too small.
    pub(super) fn say_too_small(&mut self, of: &SubmissionKey, too_small: Option<Bytes>) {
        if let Some(slot) = too_small {
            let why =
                format!("needs more memory than the {} of a slot: it gets a GPU of its own", gibibytes(slot));
            self.said.push((of.job.clone(), why));
        }
    }

    /// Returns the start of a submission of the prepared run, without its devices, and the text of its
    /// script.
    pub(super) fn describe(
        &self,
        run: &Run,
        intent: &PlannedSubmission,
    ) -> Result<(SubmissionStart, String), Answer> {
        let (of, job) = (run.key(intent), &run.jobs[intent.job]);
        let prepared = self.prepared.as_ref().filter(|(id, _)| *id == run.id);
        let script = prepared.and_then(|(_, scripts)| Some((scripts.path(&of), scripts.script(&of)?)));
        let Some((path, script)) = script else {
            return Err(Answer::Refused { message: "its script was not written".into() });
        };
        let text = script.text.clone().map_err(|message| Answer::Refused { message })?;
        let start = SubmissionStart {
            script: path,
            workdir: script.workdir.clone(),
            output: script.output(),
            devices: Vec::new(),
            beside: Vec::new(),
            needs: (0, 0),
            gpus: Gpus::of(&named_ranks(&run.problem, &intent.placement)),
            epochs: run.epochs_done[intent.job],
            threads: self.site.threads.filter(|_| job.launch.cpus_per_gpu.is_none()),
            grace: job.launch.checkpoint.grace.unwrap_or(self.site.site.defaults.grace),
        };
        Ok((start, text))
    }

    /// Creates the folder for the reports of a submission; refuses an output file that is another user's
    /// link.
    fn make_folder(&self, of: &SubmissionKey, start: &SubmissionStart) -> Result<PathBuf, Answer> {
        let folder = self.directory.make_report_folder(&of.run, &of.name());
        let folder = folder.map_err(|error| Answer::Unreachable { message: error.in_one_line() })?;
        match laid_by_another(&start.output) {
            Some(message) => Err(Answer::Refused { message }),
            None => Ok(folder),
        }
    }

    /// Starts a submission on the devices that another member has chosen for it. `work` is the work of its
    /// script, or empty if it is unknown.
    pub(super) fn begin(
        &mut self,
        of: &SubmissionKey,
        start: &SubmissionStart,
        work: String,
    ) -> Result<JobId, Answer> {
        self.begin_on(Lease::of(start), of, start, work, None)
    }

    fn begin_on(
        &mut self,
        lease: Lease,
        of: &SubmissionKey,
        start: &SubmissionStart,
        work: String,
        max_memory: Option<Bytes>,
    ) -> Result<JobId, Answer> {
        let folder = self.make_folder(of, start)?;
        if !self.devices.is_free(&lease) {
            return Err(in_use());
        }
        let after = self.make_room(of, &lease, false);
        let farewell = if self.site.site.inside == Some(Launcher::Steps) { FAREWELL } else { Duration::ZERO };
        let (mark, is_held) = (self.mark(of), !after.is_empty());
        let SubmissionStart { script, workdir, output, .. } = start.clone();
        let order = GuardOrder { script, workdir, mark, farewell, is_held };
        let gate = Gate::new(&folder, lease.devices.len());
        let variables = self.variables(start.threads, &lease, &gate);
        let surroundings =
            Surroundings { program: &self.site.program, output: &output, variables: &variables };
        let watch = self.waker.watch(&folder);
        let guarded = GuardedProcesses::start(of, &order, &surroundings, gate, work, self.waker.sender());
        let mut guarded = guarded.map_err(|error| {
            let message = format!("cannot start it or open {}: {error}", output.display());
            // These errors would repeat; any other may be temporary.
            match error.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory => Answer::Refused { message },
                _ => Answer::Unreachable { message },
            }
        })?;
        guarded.watch = watch;
        let (job_id, step) =
            (guarded.job_id, if is_held { SubmissionStep::Held { after } } else { SubmissionStep::AtWork });
        self.occupy(of, lease, &output, max_memory);
        let running = LocalSubmission::new(guarded, self.now(), start, start.epochs, step);
        self.running.insert(of.clone(), running);
        Ok(job_id)
    }

    /// Returns the variables that a submission's processes get only from their environment.
    fn variables(&self, threads: Option<u64>, lease: &Lease, gate: &Gate) -> Vec<(&'static str, String)> {
        let threads = threads.map(|count| ("OMP_NUM_THREADS", count.to_string()));
        // A path that is not UTF-8 cannot be passed in a variable.
        let gate = gate.path().to_str().map(|path| ("HSCHED_GATE", path.to_owned()));
        let slots = self.devices.slots(lease).map(|count| ("HSCHED_SLOTS", count.to_string()));
        let lease = ("HSCHED_LEASE", self.devices.words(lease));
        let common = self.site.variables.iter().cloned();
        threads.into_iter().chain(gate).chain(slots).chain([lease]).chain(common).collect()
    }
}
