//! The turns of `watch`: each with the lock, from the state on disk, and back to it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use crate::app::context::{Context, Format};
use crate::app::foreseeing::prospects;
use crate::app::metrics::metrics;
use crate::app::notify::Notifier;
use crate::app::state::{self, Opened, live_failure};
use crate::app::timer::Timer;
use crate::app::unison;
use crate::app::untold;
use crate::commands::cli::print;
use crate::commands::watch::Args;
use crate::error::Failure;
use crate::exit::Exit;
use crate::ui::{Progress, Story, date, duration, merged_story, status_table};
use hsched_engine::store::wish_ids;
use hsched_engine::{Inquiry, Keeper as _, Outcome, Phase, Planner, Rules, State, Tracked, Turn, Update};
use hsched_model::formats;
use hsched_model::{Cluster, JobName, Seconds, Time};
use hsched_plan::Budget;
use hsched_slurm::live::{LiveError, SlurmWorld};

/// A `watch` with its rules.
pub(super) struct Watch<'a> {
    pub args: &'a Args,
    pub context: &'a Context,
    pub rules: Rules,
    story: RefCell<Story>,
    notifier: Notifier,
    /// Jobs that ended before are none of its business, unless it has followed them.
    begun: Time,
    /// The jobs that had not ended at one of its turns.
    followed: RefCell<BTreeSet<JobName>>,
    /// The jobs of whose output at their end something was said, or nothing.
    heard: RefCell<BTreeSet<JobName>>,
    /// What the last look noted.
    noted: RefCell<Vec<String>>,
    /// The wishes that were there when a turn ended; each leads to another turn at once, and only once.
    wishes: RefCell<BTreeSet<String>>,
}

/// A time in which turns fail.
struct Outage {
    since: Time,
    /// Why, each reason as it was said.
    said: BTreeSet<String>,
}

/// How a turn left things.
struct Left {
    /// Whether any job is there that has not ended.
    busy: bool,
    /// Whether any job ended otherwise than completed.
    failed: bool,
    /// How many jobs are in each phase, for people.
    summary: String,
    /// Where all jobs stand, once all have ended.
    table: Option<String>,
}

/// Returns how many jobs are in each phase: `2 running, 1 waiting`.
fn summary(state: &State) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for tracked in &state.jobs {
        *counts.entry(tracked.phase.word()).or_default() += 1;
    }
    let count = |(word, count): (&&str, &usize)| format!("{count} {word}");
    counts.iter().map(count).collect::<Vec<_>>().join(", ")
}

/// The longest pause while Slurm does not answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

impl<'a> Watch<'a> {
    pub(super) fn new(args: &'a Args, context: &'a Context, rules: Rules) -> Self {
        Self {
            args,
            context,
            rules,
            story: RefCell::default(),
            notifier: Notifier::new(context),
            begun: state::now(context),
            followed: RefCell::default(),
            heard: RefCell::default(),
            noted: RefCell::default(),
            wishes: RefCell::default(),
        }
    }

    /// Takes one turn.
    ///
    /// # Errors
    /// When Slurm does not answer or the state cannot be used.
    pub(super) fn once(&self) -> Result<Exit, Failure> {
        self.turn().map(|_| Exit::Done)
    }

    /// Says what a turn would do.
    ///
    /// # Errors
    /// The same as [`Self::once`].
    pub(super) fn preview(&self) -> Result<Exit, Failure> {
        self.with_world(|world, state, _, planner| {
            if let Some(note) = self.change_policy(state) {
                self.context.note(&note);
            }
            let turn = hsched_engine::look(world, state, (&self.rules, planner))?;
            let mut story = self.story.borrow_mut();
            turn.events.iter().for_each(|event| story.hear(Update::Event(event)));
            let step = turn.step.as_ref();
            step.into_iter().flat_map(|step| &step.actions).for_each(|own| story.hear(Update::Action(own)));
            drop(story);
            let notes: Vec<String> = turn.notes().cloned().collect();
            self.print(&notes, step.map_or(state, |step| &step.state));
            Ok(())
        })
        .map(|()| Exit::Done)
    }

    /// Takes turns until every job has ended, or for ever.
    ///
    /// # Errors
    /// When the state cannot be used; that Slurm does not answer is waited for.
    pub(super) fn go_on(&self) -> Result<Exit, Failure> {
        let mut pause = self.args.interval;
        let (mut summary, mut outage) = (String::new(), None::<Outage>);
        loop {
            let turn = self.turn();
            let wished = self.is_wished();
            match turn {
                Ok(left) => {
                    pause = self.args.interval;
                    summary = left.summary;
                    if let Some(outage) = outage.take() {
                        let length = state::now(self.context).since(outage.since);
                        self.say(&format!("working again after {}", duration(length)));
                    }
                    if !left.busy && !self.args.forever && !wished {
                        print(self.context, &left.table.unwrap_or_default())?;
                        return Ok(if left.failed { Exit::Failed } else { Exit::Done });
                    }
                }
                // A bad moment of Slurm or of a disk ends a turn, not the watch; a wrong file does not mend itself.
                Err(failure) if !matches!(failure.exit, Exit::BadInput | Exit::Internal | Exit::Usage) => {
                    let since = || Outage { since: state::now(self.context), said: BTreeSet::new() };
                    if outage.get_or_insert_with(since).said.insert(failure.message.clone()) {
                        self.say(&format!("{}; retrying", failure.message));
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE.max(self.args.interval));
                }
                Err(failure) => return Err(failure),
            }
            if wished {
                continue;
            }
            let seconds = formats::duration_text(Seconds(pause.as_secs_f64()));
            let _status = Progress::start(format!("{summary}; next turn in {seconds}"));
            if self.context.terminal.loses_reader_within(pause) {
                // As `head` does it: whoever read it has seen enough.
                return Ok(Exit::Done);
            }
        }
    }

    /// Returns whether something was wished while a turn held the lock; what comes later finds the lock free.
    fn is_wished(&self) -> bool {
        let wishes = state::root(self.context).map(|root| wish_ids(&root)).unwrap_or_default();
        let known = self.wishes.replace(wishes.clone());
        !wishes.is_subset(&known)
    }

    /// Takes note of another policy that planned the jobs before; returns what to say of it.
    fn change_policy(&self, state: &mut State) -> Option<String> {
        let own = self.args.policy.words();
        let before = state.planned_by.replace(own.clone());
        let before = before.filter(|before| *before != own)?;
        Some(format!(
            "the jobs were planned with {before}, but this watch plans with {own}; to keep the old \
             policy, start it with {before}"
        ))
    }

    fn turn(&self) -> Result<Left, Failure> {
        self.with_world(|world, state, ledger, planner| {
            let changed = self.change_policy(state);
            if let Some(note) = &changed {
                self.context.note(note);
                ledger.keep(world.now(), state, &[], &[])?;
            }
            let open = state.jobs.iter().filter(|tracked| !tracked.phase.is_over());
            self.followed.borrow_mut().extend(open.map(|tracked| tracked.job.name.clone()));
            untold::recall(self.context, world.directory, &mut self.story.borrow_mut());
            let mut hear = |told: Update<'_>| self.story.borrow_mut().hear(told);
            let turn = hsched_engine::turn::<_, _, LiveError>(
                world,
                ledger,
                state,
                (&self.rules, planner),
                &mut hear,
            );
            // What was done is said even where what came after it failed.
            let notes: Vec<String> = turn.iter().flat_map(Turn::notes).cloned().collect();
            self.print(&notes, state);
            self.listen(state);
            untold::forget(self.context, world.directory);
            world.directory.looked(turn?.seen.at);
            let failed = |tracked: &Tracked| {
                matches!(&tracked.phase, Phase::Ended { outcome, .. } if *outcome != Outcome::Completed)
                    && self.follows(tracked)
            };
            let failed = state.jobs.iter().any(failed);
            let busy = !state.is_over();
            let table = (!busy).then(|| self.table(state));
            Ok(Left { busy, failed, summary: summary(state), table })
        })
    }

    /// Says, once for each job that has ended, if its ranks all did the same.
    fn listen(&self, state: &State) {
        let ended = |tracked: &&Tracked| tracked.phase.is_over() && !tracked.phase.ended_before(self.begun);
        for tracked in state.jobs.iter().filter(ended) {
            if self.heard.borrow_mut().insert(tracked.job.name.clone())
                && let Some(note) = unison::remark(self.context, tracked)
            {
                self.context.note(&note);
            }
        }
    }

    /// Returns whether it has seen the job before its end, whoever noted the end.
    fn follows(&self, tracked: &Tracked) -> bool {
        !tracked.phase.ended_before(self.begun) || self.followed.borrow().contains(&tracked.job.name)
    }

    /// Does something with the world, the state on disk and its ledger, under the lock.
    fn with_world<T>(
        &self,
        act: impl FnOnce(
            &mut SlurmWorld<'_>,
            &mut State,
            &mut hsched_engine::store::Ledger<'_>,
            &mut Planner<'_>,
        ) -> Result<T, LiveError>,
    ) -> Result<T, Failure> {
        let context = self.context;
        let directory = state::open(context)?;
        let Opened { mut state, mut ledger, taken, .. } =
            state::ledger(context, &directory, &self.rules, self.args.dry_run)?;
        for event in &taken {
            self.story.borrow_mut().hear(Update::Event(event));
        }
        let complete = |cluster: &mut Cluster| state::complete(context, cluster);
        let site = state::site(context, &[])?;
        let mut world = SlurmWorld::new(&context.slurm, &context.clock, &directory, site, &complete);
        let oracle = |inquiries: &[Inquiry]| prospects(context, inquiries);
        world.oracle = Some(&oracle);
        let timer = Timer::new(&context.clock, self.args.budget);
        let (begin, stop) = (|| timer.begin(), || timer.is_over());
        let mut policy = self.args.policy.find(&self.args.policy.policy, self.args.parameters()?)?;
        let run = state::new_run(context)?;
        let mut planner = Planner {
            policy: policy.as_mut(),
            objective: self.args.policy.objective(),
            seed: self.args.policy.seed(),
            run: &run,
            budget: Budget { begin: &begin, stop: &stop },
            forecasts: Vec::new(),
            prospects: None,
        };
        act(&mut world, &mut state, &mut ledger, &mut planner).map_err(|error| live_failure(&error))
    }

    /// Returns where the jobs that it followed stand at the end; nothing for programs, which ask `hsched status`.
    fn table(&self, state: &State) -> String {
        if self.args.format == Format::Json {
            return String::new();
        }
        if state.jobs.is_empty() {
            return "no jobs: add jobs with hsched add JOBS or hsched submit JOBS\n".into();
        }
        let mut followed = state.clone();
        followed.jobs.retain(|tracked| self.follows(tracked));
        if followed.jobs.is_empty() {
            return "all jobs have ended: hsched status shows them\n".into();
        }
        let metrics = state::root(self.context).map(|root| metrics(&root, &followed)).unwrap_or_default();
        status_table(&followed, &metrics, state::now(self.context), self.context.terminal)
    }

    /// Says something about the watch itself, with the time.
    fn say(&self, what: &str) {
        let now = date(state::now(self.context));
        self.context.terminal.say(&format!("{now} {what}"));
    }

    /// Writes the lines of the log, and notes that are news.
    fn print(&self, notes: &[String], state: &State) {
        let new = self.noted.replace(notes.to_vec());
        notes.iter().filter(|note| !new.contains(note)).for_each(|note| self.context.note(note));
        let (now, colour) = (state::now(self.context), self.context.terminal.colour());
        let lines = self.story.borrow_mut().lines(state);
        if !self.args.dry_run {
            self.notifier.tell(&lines);
        }
        self.notifier.troubles().iter().for_each(|trouble| self.context.warn(trouble));
        for line in if self.args.format == Format::Table { merged_story(&lines) } else { lines } {
            let at = line.at.unwrap_or(now);
            let text = match self.args.format {
                Format::Table => line.paint(format!("{} {}", date(at), line.plain()), colour),
                Format::Json => {
                    let job = line.job.as_ref().map(JobName::as_str);
                    json!({ "at": at.0, "job": job, "topic": line.topic.word(), "text": line.text })
                        .to_string()
                }
            };
            // A reader that went away does not keep the jobs from going on.
            let _ = print(self.context, &format!("{text}\n"));
        }
    }
}
