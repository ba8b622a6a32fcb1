//! The jobs of a job file that `hsched run` adds, and its messages about known ones.

use crate::app::after::refuse_unknown;
use crate::app::copies::refuse_others;
use crate::app::folders::{checkpoints, named};
use crate::app::state;
use crate::commands::run::local_run::LocalRun;
use crate::commands::run::turns::RunTurns;
use hsched_engine::{Event, JobState, Outcome, Phase, ResumePoint, State, apply};
use hsched_model::Job;
use hsched_ui::Failure;

impl LocalRun<'_> {
    /// Adds the jobs of the job file, except jobs that have completed and get no further epochs, unless
    /// `--restart` is given; records the events up to now.
    pub(super) fn add(
        &self,
        work: &mut RunTurns<'_>,
        jobs: &[Job],
        mut events: Vec<Event>,
    ) -> Result<(), Failure> {
        refuse_unknown(jobs, &work.session.state)?;
        refuse_others(jobs, &work.session.state)?;
        self.note_others(jobs, &work.session.state);
        let at = work.session.world.here.now();
        let mut done = Vec::new();
        for job in jobs {
            let before = work.session.state.find(&job.name);
            let is_done = before.is_some_and(|before| {
                matches!(before.phase, Phase::Ended { outcome: Outcome::Completed, .. })
                    && !is_more(job, before)
            });
            if is_done && !self.args.restart {
                done.push(job.name.as_str());
                continue;
            }
            self.note_beginning(job, &work.session.state);
            events.push(Event::Added { job: Box::new(job.clone()), restart: self.args.restart });
        }
        match done[..] {
            [] => {}
            [name] => {
                self.context.note(&format!("{name} has already completed; run it again with --restart"));
            }
            _ => {
                let names = named(&done);
                self.context.note(&format!("{names} have already completed; run them again with --restart"));
            }
        }
        for event in events.iter().filter(|event| matches!(event, Event::Added { .. })) {
            apply(&mut work.session.state, at, event, &self.rules);
        }
        if !events.is_empty() {
            work.session.keep(at, &events, &[]).map_err(|error| state::failure(&error))?;
        }
        Ok(())
    }

    /// Lists the jobs of earlier files that continue beside those of the job file.
    fn note_others(&self, jobs: &[Job], state: &State) {
        if jobs.is_empty() {
            return;
        }
        let is_other = |tracked: &&JobState| {
            !tracked.phase.is_over() && jobs.iter().all(|job| job.name != tracked.job.name)
        };
        let others: Vec<&str> =
            state.jobs.iter().filter(is_other).map(|tracked| tracked.job.name.as_str()).collect();
        if others.is_empty() {
            return;
        }
        let (names, root) = (named(&others), self.directory.root().display());
        let verb = if others.len() == 1 { "continues" } else { "continue" };
        self.context.note(&format!(
            "{names} from an earlier file {verb}, too: {root} has their state; hsched cancel ends a job, and another HSCHED_STATE_DIR keeps files apart"
        ));
    }

    /// Says from which epoch an added job starts, and notes likely mistakes.
    fn note_beginning(&self, job: &Job, state: &State) {
        let beginning = ResumePoint::of(job, state, self.args.restart);
        if let Some(clause) = beginning.clause().strip_prefix("; ") {
            self.context.note(&format!("{}: {clause}", job.name));
        }
        let folder = checkpoints(self.context, job);
        if matches!(beginning, ResumePoint::Anew { .. }) && folder.is_dir() {
            let folder = folder.display();
            self.context.note(&format!(
                "{}: its program may still resume from the checkpoint in {folder}; to start over, remove \
                 the checkpoint",
                job.name
            ));
        }
        let is_cancelled =
            |before: &JobState| matches!(before.phase, Phase::Ended { outcome: Outcome::Cancelled, .. });
        if state.find(&job.name).is_some_and(is_cancelled) {
            self.context.note(&format!(
                "{}: was cancelled, but runs again because its file was given; without a file, hsched \
                 run skips cancelled jobs",
                job.name
            ));
        }
    }
}

/// Returns whether a completed job now has more epochs than before.
fn is_more(job: &Job, before: &JobState) -> bool {
    job.epochs > before.job.epochs
}
