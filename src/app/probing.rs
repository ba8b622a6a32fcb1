//! One round of probes: submitted together, stopped when they have a measurement, and followed until all have
//! ended.
//!
//! Probes are jobs of a separate state that is not stored, so `watch` neither sees nor restarts them. The
//! journal records each submission before and after the request. Even if hsched is killed, Slurm ends the
//! probes after a few minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::app::context::Context;
use crate::app::session::QueueSession;
use crate::app::slurm::sbatch_options::refuse_options;
use crate::app::slurm::{self, QueueWorld};
use crate::app::state::{self, live_failure};
use crate::app::wanted::MissingSpeed;
use crate::app::{speeds, submission};
use hsched_engine::clock::Clock;
use hsched_engine::live::Interrupts;
use hsched_engine::store::{StateDir, report_folder, reports, run_folder};
use hsched_engine::{
    Action, AfterStop, BackendKind, Event, JobState, News, Outcome, Phase, PlannedSubmission, Run, State,
    StepTiming, SubmissionKey, TurnExecutor, Update, World, apply, notice,
};
use hsched_model::{Access, Cluster, ErrorId, Estimates, Holdings, Job, JobId, JobName, Seconds};
use hsched_plan::plan_file::{Capacity, PlanFile, SolvedProblem};
use hsched_plan::throughput::{Cache, LearnRule, Sample, SampleSource, SpeedKey, ThroughputMatrix};
use hsched_plan::{Basis, Budget, CheckedPlan, ClusterView, Parameters, Problem, Verdict, checked};
use hsched_ui::{Exit, Failure, ProgressLine, Story};

/// The pause between two observations, and between two checks for Ctrl-C.
const PAUSE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

/// Time limit of the planning search, which is short because all GPUs of a type are equivalent.
const BUDGET: Duration = Duration::from_secs(1);

/// The inputs of rounds.
pub(crate) struct Prober<'a> {
    pub context: &'a Context,
    pub cluster: &'a Cluster,
    /// Time limit of a probe.
    pub limit: Seconds,
    pub interrupts: Interrupts,
}

/// The measurements of a probe.
pub(crate) struct ProbeResult {
    pub key: SpeedKey,
    pub samples: Vec<Sample>,
    /// Why there are no samples.
    pub trouble: Option<String>,
}

impl ProbeResult {
    /// Returns the number of measured batch sizes.
    pub(crate) fn sizes(&self) -> usize {
        self.samples.iter().map(|sample| sample.batch).collect::<BTreeSet<_>>().len()
    }
}

/// The probes of a round, and their measurements so far.
struct ProbeRound {
    run: String,
    keys: BTreeMap<JobName, SpeedKey>,
    state: State,
    learnt: Vec<(JobName, Vec<Sample>)>,
    stopped: BTreeSet<JobName>,
    /// Measurements of ended probes, already in the cache.
    found: BTreeMap<JobName, ProbeResult>,
    story: Story,
}

impl Prober<'_> {
    /// Measures the first batch of each speed that gets a separate GPU; the others wait for the next round.
    ///
    /// # Errors
    /// If Slurm does not answer, no GPU is up, or a probe is already in the queue. After the submission, a
    /// missing answer is no error, and other errors, such as an interrupt by the user, cancel the probes.
    pub(crate) fn round(&self, wanted: &[MissingSpeed]) -> Result<Vec<ProbeResult>, Failure> {
        let context = self.context;
        let run = state::new_run(context)?;
        let checkpoints = run_folder(&state::root(context)?, &run).join("checkpoints");
        let probe = |missing_speed: &MissingSpeed| {
            missing_speed.probe(missing_speed.batches[0], self.limit, &checkpoints)
        };
        let jobs = wanted.iter().map(probe).collect::<Result<Vec<Job>, Failure>>()?;
        let keys =
            jobs.iter().map(|job| job.name.clone()).zip(wanted.iter().map(MissingSpeed::key)).collect();
        let submitted = self.run(&run, jobs)?;
        let state = State {
            jobs: submitted.jobs.iter().map(|job| JobState::new(job.clone(), state::now(context))).collect(),
            ..State::default()
        };
        let mut round = ProbeRound {
            run,
            keys,
            state,
            learnt: Vec::new(),
            stopped: BTreeSet::new(),
            found: BTreeMap::new(),
            story: Story::default(),
        };
        self.submit(&mut round, submitted)?;
        if let Err(failure) = self.follow(&mut round) {
            return Err(self.give_up(&mut round, failure));
        }
        let found: Vec<ProbeResult> = std::mem::take(&mut round.found).into_values().collect();
        if found.iter().all(|found| found.trouble.is_none()) {
            // Reports and checkpoints are no longer needed; leftover files do no harm.
            state::open(context)?.remove_run(&round.run);
        }
        Ok(found)
    }

    /// Returns a run that places as many probes as there are GPUs, including those in use.
    fn run(&self, id: &str, jobs: Vec<Job>) -> Result<Run, Failure> {
        let settings = &self.context.settings;
        let sbatch = jobs.iter().flat_map(|job| &job.launch.sbatch);
        refuse_options(settings.jobs.sbatch.iter().chain(sbatch))?;
        let access = Access::new(self.cluster, &jobs, &settings.jobs);
        let speeds =
            ThroughputMatrix::new(&jobs, &Problem::types_of(self.cluster), &Cache::default(), Estimates::Off);
        let rates = (settings.network, settings.intra_node);
        let cluster_view =
            ClusterView { cluster: self.cluster, access: &access, held: &Holdings::new(), rates };
        let problem = Problem::live(cluster_view, &jobs, &speeds)
            .map_err(|error| Failure::from_error(Exit::BadInput, &error).id(ErrorId::ClusterFile))?;
        let all: Vec<usize> = (0..jobs.len()).collect();
        let notes = problem.stranded(&all, Basis::Queue);
        let problem = problem.extract(&all, Basis::Queue).problem;
        let plan = self.plan(&problem)?;
        let placed = plan.placed();
        if placed.is_empty() {
            let reason = plan.verdicts().iter().find_map(Verdict::reason).unwrap_or("no GPU is up");
            return Err(
                Failure::new(Exit::Unplaced, format!("cannot measure anything: {reason}")).id(ErrorId::NoGpu)
            );
        }
        let policy = hsched_lab::registry().names()[0];
        let solved = SolvedProblem {
            problem: &problem,
            jobs: &jobs,
            cluster: self.cluster,
            access: &access,
            plan: &plan,
            policy,
            solve: None,
            proven: None,
        };
        let file = PlanFile::new(solved, notes, Capacity::Free, false);
        let (id, epochs_done) = (id.to_owned(), vec![0; jobs.len()]);
        let submissions = PlannedSubmission::of(&plan, placed).collect();
        Ok(Run { id, jobs, epochs_done, problem, file, submissions })
    }

    fn plan(&self, problem: &Problem) -> Result<CheckedPlan, Failure> {
        let mut policy = hsched_lab::find(hsched_lab::registry().names()[0], &Parameters::default())
            .map_err(|error| Failure::from_error(Exit::Internal, &error))?;
        let begin = self.context.clock.elapsed();
        let stop = || self.context.clock.elapsed().saturating_sub(begin) >= BUDGET;
        let plan = policy.decide(problem, &Budget::until(&stop));
        let plan = plan.and_then(|plan| checked(policy.name(), problem, plan));
        plan.map_err(|error| Failure::from_error(Exit::Failed, &error).id(ErrorId::PolicyUnfit))
    }

    /// Submits the probes, each recorded before and after the request.
    fn submit(&self, round: &mut ProbeRound, mut run: Run) -> Result<(), Failure> {
        let context = self.context;
        let directory = state::open(context)?;
        let rules = state::rules(context);
        let mut session = QueueSession::of_queue(context, &directory, rules, &[], false)?;
        let (seen, queue) =
            session.world.observe_jobs(&State::default()).map_err(|error| live_failure(&error))?;
        let names: Vec<&JobName> =
            run.submissions.iter().map(|submission| &run.jobs[submission.job].name).collect();
        if let Some(twice) = submission::in_queue(&names, &queue, &State::default(), BackendKind::Queue) {
            let message = format!("already in the queue: {}", twice.jobs);
            return Err(Failure::new(Exit::Failed, message)
                .id(ErrorId::AlreadyQueued)
                .hint("cancel them with scancel, or wait for them to end"));
        }
        submission::mark_submitted(&mut round.state, &mut run, seen.at, &session.rules.defaults);
        // Probes without a GPU follow in the next round.
        round.state.jobs.retain(|tracked| tracked.phase.is_submitted());
        let action = Action::Submit(Box::new(run));
        let failure = |error| state::failure(&error);
        session.keep(seen.at, &[], std::slice::from_ref(&action)).map_err(failure)?;
        // The probes are not part of the stored state.
        let mut executor = TurnExecutor {
            world: &mut *session.world,
            keeper: &mut session.ledger,
            state: &mut round.state,
            rules: &session.rules,
            tell: &mut |_| (),
        };
        executor.carry_out(&action, seen.at).map_err(failure)?;
        for tracked in &round.state.jobs {
            context.terminal.say(&format!("{}: {}", tracked.job.name, tracked.last.1));
        }
        Ok(())
    }

    /// Observes until every probe has ended.
    fn follow(&self, round: &mut ProbeRound) -> Result<(), Failure> {
        let progress = ProgressLine::start("waiting for probes".into());
        loop {
            let over = round.found.len();
            if over == round.state.jobs.len() {
                return Ok(());
            }
            progress.say(format!("{over} of {} probes have ended", round.state.jobs.len()));
            let begin = self.context.clock.elapsed();
            while self.context.clock.elapsed().saturating_sub(begin) < PAUSE {
                if self.interrupts.came() {
                    return Err(Failure::new(Exit::Interrupted, "interrupted"));
                }
                self.context.clock.sleep(TICK);
            }
            match self.look(round) {
                // The next look tries again; the probes end by themselves in any case.
                Err(failure) if matches!(failure.exit, Exit::SlurmUnavailable | Exit::Locked) => {}
                other => other?,
            }
            self.keep(round, &is_over)?;
        }
    }

    /// Records the observation, and stops probes that have a measurement.
    fn look(&self, round: &mut ProbeRound) -> Result<(), Failure> {
        let directory = state::open(self.context)?;
        let rules = state::rules(self.context);
        self.with_world(&directory, |world| {
            let (seen, _) = world.observe_jobs(&round.state).map_err(|error| live_failure(&error))?;
            for event in notice(&round.state, &seen) {
                round.story.hear(Update::Event(&event));
                // The length of the whole probe is not a measurement, because the probe may end after a few
                // steps.
                let is_epoch = matches!(event, Event::News { news: News::Epoch(_), .. });
                if let Some(Action::Learn { job, samples, .. }) =
                    apply(&mut round.state, seen.at, &event, &rules)
                    && is_epoch
                {
                    round.learnt.push((job, samples));
                }
            }
            for tracked in &round.state.jobs {
                let name = &tracked.job.name;
                let Some(attempt) = tracked.phase.running() else { continue };
                let Some(job_id) = attempt.job_id else { continue };
                let shown = tracked.epochs_done > 0 || !self.trials(round, name)?.is_empty();
                // A program that ends by itself gets the time until the next observation.
                if shown && !round.stopped.insert(name.clone()) {
                    world.stop(&attempt.key(name), job_id, AfterStop::Cancel);
                }
            }
            for line in round.story.lines(&round.state) {
                self.context.terminal.say(&line.plain());
            }
            Ok(())
        })
    }

    /// Returns the trial steps that a probe has reported: sizes and times.
    fn trials(&self, round: &ProbeRound, name: &JobName) -> Result<Vec<StepTiming>, Failure> {
        let folder = report_folder(&state::root(self.context)?, &round.run, name.as_str());
        reports::probes(&folder).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot read the reports in {}: {error}", folder.display()))
                .id(ErrorId::FileUnreadable)
        })
    }

    /// Adds the measurements of probes that are `done` to the cache, each once.
    fn keep(&self, round: &mut ProbeRound, done: &dyn Fn(&JobState) -> bool) -> Result<(), Failure> {
        let new = |tracked: &&JobState| done(tracked) && !round.found.contains_key(&tracked.job.name);
        let found = |tracked: &JobState| {
            Ok(self.found(round, tracked)?.map(|found| (tracked.job.name.clone(), found)))
        };
        let new: Vec<(JobName, ProbeResult)> = round
            .state
            .jobs
            .iter()
            .filter(new)
            .filter_map(|tracked| found(tracked).transpose())
            .collect::<Result<_, Failure>>()?;
        learn(self.context, new.iter().flat_map(|(_, found)| &found.samples))?;
        round.found.extend(new);
        Ok(())
    }

    /// Returns the measurements of a probe: its epoch or trial steps, or else why there are none.
    fn found(&self, round: &ProbeRound, tracked: &JobState) -> Result<Option<ProbeResult>, Failure> {
        let name = &tracked.job.name;
        let Some(key) = round.keys.get(name).cloned() else { return Ok(None) };
        let mut samples: Vec<Sample> = round
            .learnt
            .iter()
            .filter(|(job_name, _)| job_name == name)
            .flat_map(|(_, samples)| samples.clone())
            .collect();
        for sample in &mut samples {
            if sample.source == SampleSource::Report {
                sample.source = SampleSource::Probe;
            }
        }
        if samples.is_empty() {
            let at = state::now(self.context).0;
            let trial = |timed: StepTiming| Sample {
                key: key.clone(),
                batch: timed.batch,
                seconds: timed.time.0,
                steps: 1,
                at,
                source: SampleSource::Probe,
            };
            samples = self.trials(round, name)?.into_iter().map(trial).collect();
        }
        let trouble = if samples.is_empty() { Some(self.trouble(round, tracked)?) } else { None };
        Ok(Some(ProbeResult { key, samples, trouble }))
    }

    fn trouble(&self, round: &ProbeRound, tracked: &JobState) -> Result<String, Failure> {
        let folder = report_folder(&state::root(self.context)?, &round.run, tracked.job.name.as_str());
        let why = match &tracked.phase {
            _ if let Some(lacking) = reports::lacking(&folder) => {
                format!("its report has {lacking}; a speed needs both samples and compute_s (above 0)")
            }
            Phase::Ended { outcome: Outcome::Failed { reason }, .. } => {
                format!("{reason}; it reported nothing")
            }
            Phase::Ended { outcome: Outcome::Completed, .. } => "ended without a report".to_owned(),
            _ => {
                let minutes = self.limit.0 / 60.0;
                format!("{}; it reported nothing within {minutes:.0} min", tracked.last.1)
            }
        };
        Ok(format!("{why} (see {}.out)", tracked.job.name))
    }

    /// Stores the measurements, cancels all probes that have not ended, and reports both.
    fn give_up(&self, round: &mut ProbeRound, failure: Failure) -> Failure {
        let kept = self.keep(round, &|_| true);
        let measured = round.found.iter().filter(|(_, found)| found.trouble.is_none()).map(|(name, _)| name);
        let measured: Vec<&str> = measured.map(JobName::as_str).collect();
        let failure = match kept {
            Err(kept) => failure.hint(format!("the measurements could not be stored: {}", kept.message)),
            Ok(()) if measured.is_empty() => failure.hint("there are no measurements yet"),
            Ok(()) => failure.hint(format!("the measurements are stored: {}", measured.join(", "))),
        };
        let left = round.state.jobs.iter().filter(|tracked| !is_over(tracked));
        let queue_job = |tracked: &JobState| {
            let attempt = tracked.phase.attempt()?;
            Some((attempt.key(&tracked.job.name), attempt.job_id?))
        };
        let jobs: Vec<(SubmissionKey, JobId)> = left.filter_map(queue_job).collect();
        let list = jobs.iter().map(|(_, id)| id.to_string()).collect::<Vec<_>>().join(" ");
        let cancelled = state::open(self.context).and_then(|directory| {
            self.with_world(&directory, |world| {
                for (of, id) in &jobs {
                    // A probe that cannot be cancelled ends at its time limit.
                    world.cancel(of, *id);
                }
                Ok(())
            })
        });
        match cancelled {
            Ok(()) => failure.hint(format!("the probes were cancelled: jobs {list}")),
            Err(_) => failure.hint(format!("cancel the probes with: scancel {list}")),
        }
    }

    fn with_world<T>(
        &self,
        directory: &StateDir,
        act: impl FnOnce(&mut QueueWorld<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        act(&mut slurm::world(self.context, directory, &[])?)
    }
}

/// Adds samples to the cache of measured speeds.
fn learn<'a>(context: &Context, samples: impl Iterator<Item = &'a Sample>) -> Result<(), Failure> {
    let samples: Vec<&Sample> = samples.collect();
    if samples.is_empty() {
        return Ok(());
    }
    speeds::change(context, false, |file| {
        let rule = LearnRule { weight: context.settings.learning_rate, contributor: &file.contributor };
        for sample in samples {
            file.cache.learn(sample, rule);
        }
        Ok(())
    })
}

/// Returns whether a probe has ended for Slurm, even if the engine would retry it.
fn is_over(tracked: &JobState) -> bool {
    matches!(tracked.phase, Phase::Ended { .. } | Phase::Waiting { .. })
}
