//! Measurement of unknown speeds before the jobs start, if there are several GPU types: a short run of each
//! job on one device of each type, as in `hsched probe`.

use crate::app::context::Context;
use crate::app::state::{self, live_failure};
use crate::app::wanted::{MissingSpeed, wanted};
use crate::commands::run::local_run::LocalRun;
use crate::commands::run::turns::{RunTurns, WakeReason, earliest};
use hsched_engine::live::LiveError;
use hsched_engine::store::{report_folder, reports, run_folder};
use hsched_engine::{
    Action, JobState, KeepsNothing, State, StepTiming, SubmissionRecord, Update, World as _,
};
use hsched_model::{Job, JobName, Seconds, Time};
use hsched_plan::throughput::{LearnRule, Sample, SampleSource, SpeedCell, ThroughputMatrix};
use hsched_ui::Failure;
use std::collections::BTreeSet;

/// Time limit of a short run.
const LIMIT: Seconds = Seconds(600.0);

impl LocalRun<'_> {
    /// Measures the jobs without a known speed that can use several types; returns the signal that asked
    /// hsched to end, if there was one.
    ///
    /// # Errors
    /// If the name of a job is too long to derive that of a short run, or reports cannot be read.
    pub(super) fn measure(&self, work: &mut RunTurns<'_>) -> Result<Option<i32>, Failure> {
        let wanted = self.unknown(&work.session.state);
        if wanted.is_empty() {
            return Ok(None);
        }
        let run = state::new_run(self.context)?;
        let folder = run_folder(&state::root(self.context)?, &run).join("checkpoints");
        let probe =
            |missing_speed: &MissingSpeed| missing_speed.probe(missing_speed.batches[0], LIMIT, &folder);
        let probes = wanted.iter().map(probe).collect::<Result<Vec<Job>, Failure>>()?;
        self.telling.log.say(&format!("measuring first: {}", names(&wanted)));
        let at = work.session.world.here.now();
        let mut state = State {
            // Their speeds are not from the job file.
            jobs: probes
                .into_iter()
                .map(|job| JobState { assumed: true, unmeasured: true, ..JobState::new(job, at) })
                .collect(),
            cache: work.session.state.cache.clone(),
            contributor: work.session.state.contributor.clone(),
            ..State::default()
        };
        let ending = self.follow(work, &mut state)?;
        self.learn(&mut state, &wanted, work.session.world.here.now());
        work.session.state.cache = state.cache;
        Ok(ending)
    }

    /// Returns the speeds to measure: those of jobs without a known speed on any type, if several types are
    /// to be measured; none of jobs that are only a command.
    fn unknown(&self, state: &State) -> Vec<MissingSpeed> {
        let types = self.target.devices.gpu_types();
        let open = state.jobs.iter().filter(|tracked| !tracked.phase.is_over());
        let jobs: Vec<&Job> = open.map(|tracked| &*tracked.job).collect();
        let speeds = ThroughputMatrix::new(&jobs, &types, &state.cache, self.rules.defaults.estimate);
        let is_known = |job: usize| speeds.row(job).iter().any(|cell| matches!(cell, SpeedCell::Known(_)));
        let unknown: Vec<Job> = (0..jobs.len())
            .filter(|&job| !is_known(job) && !jobs[job].is_command())
            .map(|job| jobs[job].clone())
            .collect();
        let wanted = wanted(&unknown, &types, &state.cache, false);
        // With a single type, there is nothing to compare.
        let several = |missing_speed: &MissingSpeed| {
            wanted.iter().filter(|other| other.job.name == missing_speed.job.name).count() > 1
        };
        wanted.iter().filter(|missing_speed| several(missing_speed)).cloned().collect()
    }

    /// Runs the short jobs until each has reported its speed or ended.
    fn follow(&self, work: &mut RunTurns<'_>, state: &mut State) -> Result<Option<i32>, Failure> {
        let mut policy = self.args.policy.find()?;
        let mut stopped = BTreeSet::new();
        loop {
            let world = &mut *work.session.world;
            let turn = self.planned(policy.as_mut(), |planner| {
                let tell = &mut |told: Update<'_>| self.telling.log.hear(told);
                hsched_engine::turn::<_, _, LiveError>(
                    world,
                    &mut KeepsNothing,
                    state,
                    &self.rules,
                    planner,
                    tell,
                )
            })?;
            self.telling.log.print_only(state);
            let turn = turn.map_err(|error| live_failure(&error))?;
            let shown: Vec<JobName> = state
                .jobs
                .iter()
                .filter(|tracked| has_shown(self.context, tracked, turn.seen.at))
                .map(|tracked| tracked.job.name.clone())
                .filter(|name| stopped.insert(name.clone()))
                .collect();
            for name in &shown {
                let attempt = state.find(name).and_then(|tracked| tracked.phase.attempt());
                if let Some((key, id)) = attempt.and_then(|record| Some((record.key(name), record.job_id?))) {
                    work.session.world.cancel(&key, id);
                }
            }
            if state.is_over() {
                return Ok(None);
            }
            if turn.step.is_some_and(|step| step.actions.iter().any(Action::is_request)) {
                continue;
            }
            let at = turn.seen.at;
            let next = self.due(state, at).or(Some(at.after(Seconds(LIMIT.0 / 10.0))));
            if let WakeReason::Ending(signal) =
                self.wait(work, earliest([next, self.next_look(at, &work.session.world)]))
            {
                return Ok(Some(signal));
            }
        }
    }

    /// Records the steps that a job timed with `training.probe`, if it has reported no epoch.
    fn learn(&self, state: &mut State, wanted: &[MissingSpeed], now: Time) {
        let State { jobs, cache, contributor, .. } = state;
        let rule = LearnRule { weight: self.rules.learning_rate, contributor };
        for (tracked, missing_speed) in
            jobs.iter().zip(wanted).filter(|(tracked, _)| tracked.epochs_done == 0)
        {
            for timed in trials(self.context, tracked, tracked.past.last().map(|past| &past.attempt)) {
                let (key, batch, seconds) = (missing_speed.key(), timed.batch, timed.time.0);
                let source = SampleSource::Probe;
                cache.learn(&Sample { key, batch, seconds, steps: 1, at: now.0, source }, rule);
            }
        }
    }
}

/// Returns whether a job has reported its speed or reached the time limit.
fn has_shown(context: &Context, tracked: &JobState, now: Time) -> bool {
    let Some(started) = tracked.phase.running().and_then(|attempt| attempt.started) else { return false };
    tracked.epochs_done > 0
        || now.since(started).0 >= LIMIT.0
        || !trials(context, tracked, tracked.phase.running()).is_empty()
}

/// Returns the steps that a submission timed with `training.probe`; empty if they cannot be read.
fn trials(context: &Context, tracked: &JobState, attempt: Option<&SubmissionRecord>) -> Vec<StepTiming> {
    let Some((attempt, root)) = attempt.zip(state::root(context).ok()) else { return Vec::new() };
    reports::probes(&report_folder(&root, &attempt.run, tracked.job.name.as_str())).unwrap_or_default()
}

/// Returns the list of measured jobs and types for messages.
fn names(wanted: &[MissingSpeed]) -> String {
    let one =
        |missing_speed: &MissingSpeed| format!("{} on {}", missing_speed.job.name, missing_speed.gpu_type);
    wanted.iter().map(one).collect::<Vec<_>>().join(", ")
}
