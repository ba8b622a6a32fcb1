//! The turns of `watch`: each takes the lock, reads the state from disk and writes it back.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::app::context::{Context, Format};
use crate::app::metrics::metrics;
use crate::app::session::{Log, PlanOptions, QueueSession};
use crate::app::slurm::script_moves::{self, MoveOptions};
use crate::app::slurm::script_submission;
use crate::app::state;
use crate::app::unison;
use crate::app::unread_events;
use crate::commands::cli::print;
use crate::commands::watch::Args;
use hsched_engine::store::{deferred_ids, script_chains};
use hsched_engine::{Event, JobState, Outcome, Phase, Planner, Rules, ScriptJob, State, Update};
use hsched_model::formats;
use hsched_model::{JobName, Seconds, Time};
use hsched_ui::{Exit, Failure, ProgressLine, duration, scripts_table, status_table};

/// A `watch` with its options.
pub(super) struct Watch<'a> {
    pub args: &'a Args,
    pub context: &'a Context,
    pub rules: Rules,
    log: Log<'a>,
    /// Time at which the `watch` began. Jobs that ended earlier are ignored unless this `watch` has followed
    /// them.
    begun: Time,
    /// Jobs and scripts that had not ended at the beginning of one of this `watch`'s turns.
    followed: RefCell<BTreeSet<JobName>>,
    /// Jobs whose output was already examined at their end.
    heard: RefCell<BTreeSet<JobName>>,
    /// Deferred commands that were waiting at the end of a turn. Each causes another turn at once, but only
    /// once.
    deferred: RefCell<BTreeSet<String>>,
}

/// A period in which turns fail.
struct TurnOutage {
    since: Time,
    /// The messages that were already printed.
    said: BTreeSet<String>,
}

/// The result of a turn.
struct TurnResult {
    /// Whether any job has not ended.
    busy: bool,
    /// Whether any followed job or script has failed or was cancelled.
    failed: bool,
    /// Number of jobs in each phase, for people.
    summary: String,
    /// The final table, once all jobs have ended.
    table: Option<String>,
}

/// Returns the number of jobs in each phase: `2 running, 1 waiting`.
fn summary(state: &State) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let scripts = state.scripts.iter().map(ScriptJob::word);
    for word in state.jobs.iter().map(|tracked| tracked.phase.word()).chain(scripts) {
        *counts.entry(word).or_default() += 1;
    }
    let count = |(word, count): (&&str, &usize)| format!("{count} {word}");
    counts.iter().map(count).collect::<Vec<_>>().join(", ")
}

/// The longest pause after a turn that failed, unless `--interval` is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

impl<'a> Watch<'a> {
    pub(super) fn new(args: &'a Args, context: &'a Context, rules: Rules) -> Self {
        Self {
            args,
            context,
            rules,
            log: Log::of_queue(context, args.format, args.dry_run),
            begun: state::now(context),
            followed: RefCell::default(),
            heard: RefCell::default(),
            deferred: RefCell::default(),
        }
    }

    /// Takes one turn.
    ///
    /// # Errors
    /// If Slurm does not answer or the state is unusable.
    pub(super) fn once(&self) -> Result<Exit, Failure> {
        self.turn().map(|_| Exit::Done)
    }

    /// Prints the actions of a turn without taking them.
    ///
    /// # Errors
    /// As for [`Self::once`].
    pub(super) fn preview(&self) -> Result<Exit, Failure> {
        self.with_session(|session, planner| {
            if let Some(note) = self.change_policy(&mut session.state) {
                self.context.note(&note);
            }
            session.preview(planner, &self.log, Vec::new())?;
            self.move_scripts(session)
        })
        .map(|()| Exit::Done)
    }

    /// Takes turns until all jobs have ended, or forever.
    ///
    /// # Errors
    /// If the state is unusable; if Slurm does not answer, it waits.
    pub(super) fn go_on(&self) -> Result<Exit, Failure> {
        let mut pause = self.args.interval;
        let (mut summary, mut outage) = (String::new(), None::<TurnOutage>);
        loop {
            let turn = self.turn();
            let wished = self.is_wished();
            match turn {
                Ok(left) => {
                    pause = self.args.interval;
                    summary = left.summary;
                    if let Some(outage) = outage.take() {
                        let length = state::now(self.context).since(outage.since);
                        self.log.say(&format!("working again after {}", duration(length)));
                    }
                    if !left.busy && !self.args.forever && !wished {
                        print(self.context, &left.table.unwrap_or_default())?;
                        return Ok(if left.failed { Exit::Failed } else { Exit::Done });
                    }
                }
                // A temporary failure of Slurm or a disk ends only the turn; an invalid file stays invalid.
                Err(failure) if !matches!(failure.exit, Exit::BadInput | Exit::Internal | Exit::Usage) => {
                    let since = || TurnOutage { since: state::now(self.context), said: BTreeSet::new() };
                    if outage.get_or_insert_with(since).said.insert(failure.message.clone()) {
                        self.log.say(&format!("{}; retrying", failure.message));
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE.max(self.args.interval));
                }
                Err(failure) => return Err(failure),
            }
            if wished {
                continue;
            }
            let seconds = formats::duration_text(Seconds(pause.as_secs_f64()));
            let _status = ProgressLine::start(format!("{summary}; next turn in {seconds}"));
            if self.context.terminal.loses_reader_within(pause) {
                // The reader closed the pipe, as `head` does: it needs no more output.
                return Ok(Exit::Done);
            }
        }
    }

    /// Returns whether a command was deferred while a turn held the lock; later commands find the lock free.
    fn is_wished(&self) -> bool {
        let deferred = state::root(self.context).map(|root| deferred_ids(&root)).unwrap_or_default();
        let known = self.deferred.replace(deferred.clone());
        !deferred.is_subset(&known)
    }

    /// Records a change of policy since the last turn; returns the message about it.
    fn change_policy(&self, state: &mut State) -> Option<String> {
        let policy_words = self.args.policy.words();
        let before = state.planned_by.replace(policy_words.clone());
        let before = before.filter(|before| *before != policy_words)?;
        Some(format!(
            "the jobs were planned with {before}, but this watch plans with {policy_words}; to keep the old \
             policy, start it with {before}"
        ))
    }

    fn turn(&self) -> Result<TurnResult, Failure> {
        self.with_session(|session, planner| {
            if let Some(note) = self.change_policy(&mut session.state) {
                self.context.note(&note);
                session.keep(session.world.now(), &[], &[]).map_err(|error| state::failure(&error))?;
            }
            let open = session.state.jobs.iter().filter(|tracked| !tracked.phase.is_over());
            self.followed.borrow_mut().extend(open.map(|tracked| tracked.job.name.clone()));
            let open = session.state.scripts.iter().filter(|script| !script.is_over());
            self.followed.borrow_mut().extend(open.map(|script| script.name.clone()));
            self.log.recall(session.directory, &session.state);
            let turn = session.turn(planner, &self.log, Vec::new());
            if turn.is_ok() {
                self.move_scripts(session)?;
            }
            let state = &session.state;
            self.listen(state);
            unread_events::forget(self.context, session.directory);
            turn?;
            let failed = |tracked: &JobState| {
                matches!(&tracked.phase, Phase::Ended { outcome, .. } if *outcome != Outcome::Completed)
                    && self.follows(tracked)
            };
            let has_failed =
                |script: &&ScriptJob| script.is_over() && script.word() != Outcome::Completed.word();
            let failed = state.jobs.iter().any(failed)
                || state.scripts.iter().filter(has_failed).any(|script| self.follows_script(script));
            let busy = !state.is_over();
            let table = (!busy).then(|| self.table(state));
            Ok(TurnResult { busy, failed, summary: summary(state), table })
        })
    }

    /// Resubmits scripts that were cancelled for a new request, and moves pending ones with `--queue`.
    fn move_scripts(&self, session: &mut QueueSession<'_>) -> Result<(), Failure> {
        let mut tell = |event: &Event| self.log.hear(Update::Event(event));
        let mut notes = Vec::new();
        if !self.args.dry_run {
            script_submission::submit_next(self.context, session, &mut tell)?;
        }
        if self.args.queue {
            let options = MoveOptions {
                seed: self.args.policy.seed(),
                budget: self.args.budget,
                dry_run: self.args.dry_run,
            };
            notes = script_moves::examine(self.context, session, options, &mut tell)?;
        }
        self.log.print(&notes, &session.state);
        Ok(())
    }

    /// Reports, once for each job that ended after this `watch` began, if all its ranks did the same work.
    fn listen(&self, state: &State) {
        let ended = |tracked: &&JobState| tracked.phase.is_over() && !tracked.phase.ended_before(self.begun);
        for tracked in state.jobs.iter().filter(ended) {
            if self.heard.borrow_mut().insert(tracked.job.name.clone())
                && let Some(note) = unison::remark(self.context, tracked)
            {
                self.context.note(&note);
            }
        }
    }

    /// Returns whether the job had not ended when this `watch` began, or at one of its turns.
    fn follows(&self, tracked: &JobState) -> bool {
        !tracked.phase.ended_before(self.begun) || self.followed.borrow().contains(&tracked.job.name)
    }

    /// Returns whether the script had not ended when this `watch` began, or at one of its turns.
    fn follows_script(&self, script: &ScriptJob) -> bool {
        let is_new = script.end.as_ref().is_none_or(|end| end.at >= self.begun);
        is_new || self.followed.borrow().contains(&script.name)
    }

    /// Runs a function on the state and its world under the lock.
    fn with_session<T>(
        &self,
        act: impl FnOnce(&mut QueueSession<'_>, &mut Planner<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Self { context, args, .. } = self;
        let directory = state::open(context)?;
        let rules = self.rules.clone();
        let mut session = QueueSession::of_queue(context, &directory, rules, &[], args.dry_run)?;
        self.log.hear_all(&session.taken);
        let mut policy = args.policy.find(&args.policy.policy, args.parameters()?)?;
        let (objective, seed) = (args.policy.objective(), args.policy.seed());
        let options = PlanOptions { objective, seed, budget: args.budget };
        options.with_planner(context, policy.as_mut(), |planner| act(&mut session, planner))?
    }

    /// Returns the final table of the followed jobs; empty for JSON, as programs call `hsched status`.
    fn table(&self, state: &State) -> String {
        if self.args.format == Format::Json {
            return String::new();
        }
        if state.jobs.is_empty() && state.scripts.is_empty() {
            let chains = state::root(self.context).map(|root| script_chains(&root)).unwrap_or_default();
            if chains.iter().any(|chain| !chain.state().is_over()) {
                return "no jobs to follow: scripts in pieces continue by themselves; hsched status shows them\n".into();
            }
            return "no jobs: add jobs with hsched add JOBS or hsched submit JOBS\n".into();
        }
        let mut followed = state.clone();
        followed.jobs.retain(|tracked| self.follows(tracked));
        let scripts: Vec<&ScriptJob> =
            state.scripts.iter().filter(|script| self.follows_script(script)).collect();
        let now = state::now(self.context);
        let scripts = scripts_table(&scripts, now, self.context.terminal);
        if followed.jobs.is_empty() && !scripts.is_empty() {
            return scripts;
        }
        if followed.jobs.is_empty() {
            return "all jobs have ended: hsched status shows them\n".into();
        }
        let metrics = state::root(self.context).map(|root| metrics(&root, &followed)).unwrap_or_default();
        status_table(&followed, &metrics, now, self.context.terminal) + &scripts
    }
}
