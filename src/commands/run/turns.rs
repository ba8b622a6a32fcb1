//! The turns of `hsched run`: each when something has happened; and the end, when all jobs save.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::app::context::Context;
use crate::app::session::{PlanOptions, Session};
use crate::app::slurm;
use crate::app::state;
use crate::commands::run::target::ExecutionTarget;
use crate::commands::run::telling::Telling;
use crate::commands::run::{Args, assumed};
use crate::error::Failure;
use crate::exit::Exit;
use crate::local::{LocalSite, LocalWorld, Wake, Waker};
use hsched_engine::live::{Site, on_endings};
use hsched_engine::store::StateDir;
use hsched_engine::{BackendKind, Event, Planner, Rules, State, Update, due};
use hsched_model::{GpuType, Job, Seconds, Time};
use hsched_plan::Policy;

/// A `hsched run` at work.
pub(super) struct LocalRun<'a> {
    pub(super) args: &'a Args,
    pub(super) context: &'a Context,
    directory: &'a StateDir,
    pub(super) rules: Rules,
    target: ExecutionTarget,
    waker: Waker,
    pub(super) telling: Telling<'a>,
}

/// What a `hsched run` changes.
pub(super) struct Work<'s> {
    pub session: Session<'s, LocalWorld<'s>>,
    policy: Box<dyn Policy>,
}

/// A turn that was taken.
struct Turned {
    at: Time,
    /// Whether something was asked of the world.
    asked: bool,
}

/// Why a session waits no more.
pub(super) enum Woken {
    /// Something has happened, or is due.
    Turn,
    /// A signal asks it to end.
    Ending(i32),
}

/// The program that this process is, whatever has become of its file.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Reports are taken in together that come within this time: epochs may be short, and jobs many.
const TOGETHER: Duration = Duration::from_millis(500);

/// When a policy is asked again that wanted it at once.
const SOON: Seconds = Seconds(1.0);

/// How soon a turn is tried again that failed.
const AGAIN: Seconds = Seconds(2.0);

/// How often is looked for what other machines write.
const LOOK: Seconds = Seconds(5.0);

/// How often is looked whether jobs get on.
const LOOK_AT_SAMPLES: Seconds = Seconds(30.0);

/// How often while jobs give up their devices to others.
const LOOK_SWITCHING: Seconds = Seconds(0.2);

/// How long before the end of the allocation all is over: Slurm's clock has no seconds, and the next one must be asked for.
const BEFORE_END: Seconds = Seconds(30.0);

/// What jobs get beyond their grace, before they are killed.
const MARGIN: Seconds = Seconds(5.0);

const INTERRUPT: i32 = nix::sys::signal::Signal::SIGINT as i32;

impl<'a> LocalRun<'a> {
    pub(super) fn new(
        args: &'a Args,
        context: &'a Context,
        directory: &'a StateDir,
        target: ExecutionTarget,
    ) -> Result<Self, Failure> {
        let deferred = directory.make_wishes_folder().map_err(|error| state::failure(&error))?;
        let waker = Waker::new(&deferred).map_err(|error| Failure::from_error(Exit::Failed, &error))?;
        let restart_cost = assumed::restart_cost(&context.settings);
        let mut rules =
            Rules { backend: BackendKind::Devices, pinned: true, restart_cost, ..state::rules(context) };
        let fair = target.fair_cpus().unwrap_or(u32::MAX);
        rules.defaults.cpus_per_gpu = rules.defaults.cpus_per_gpu.min(fair);
        let telling = Telling::new(context, args.format, args.dry_run);
        Ok(Self { args, context, directory, rules, target, waker, telling })
    }

    /// Runs the state's jobs and those that are given, until all have ended or a signal asks it to end.
    ///
    /// # Errors
    /// When the state cannot be used.
    pub(super) fn run(self, jobs: &[Job]) -> Result<Exit, Failure> {
        let mut session =
            Session::of_devices(self.context, self.directory, self.rules.clone(), self.args.dry_run)?;
        let inside = Some(self.target.launcher);
        let defaults = self.rules.defaults.clone();
        let site = Site { defaults, inside, ..state::site(self.context, &[])? };
        let site = LocalSite { site, program: PathBuf::from(OWN_PROGRAM), threads: self.target.threads };
        let devices = self.target.devices.clone();
        let world = LocalWorld::new(&self.context.clock, self.directory, site, devices, &self.waker);
        let policy = self.args.policy.find()?;
        if !self.args.dry_run {
            self.telling.recall(self.directory, &session.state);
        }
        self.telling.log.hear_all(&session.taken);
        let seen = session.look()?;
        self.telling.log.hear_all(&seen.events);
        let mut work = Work { session: session.on(world), policy };
        self.add(&mut work, jobs, seen.events)?;
        if self.args.dry_run {
            return self.preview(&mut work).map(|()| Exit::Done);
        }
        let tell = self.waker.sender();
        on_endings(move |signal| drop(tell.send(Wake::Signal(signal))))
            .map_err(|error| Failure::from_error(Exit::Failed, &error))?;
        match self.measure(&mut work)? {
            Some(signal) => self.close(&mut work, signal),
            None => self.go_on(&mut work),
        }
    }

    /// Takes turns until the end.
    fn go_on(&self, work: &mut Work<'_>) -> Result<Exit, Failure> {
        let begun = work.session.world.now();
        if self.last_moment(&work.session.state).is_some_and(|last| last <= begun) {
            let message = "the allocation ends too soon for a new job to save a checkpoint";
            return Err(Failure::new(Exit::Failed, message)
                .hint("request more time from Slurm, or set a shorter checkpoint.grace"));
        }
        let mut trouble = BTreeSet::new();
        loop {
            let turned = self.turn_or_trouble(work, &mut trouble)?;
            if work.session.state.is_over() {
                self.clear(work);
                return self.telling.finish(&work.session.state, begun);
            }
            // What was asked for is there at once.
            if turned.asked {
                continue;
            }
            let last = self.last_moment(&work.session.state);
            let again = (!trouble.is_empty()).then(|| turned.at.after(AGAIN));
            let due = earliest([self.due(&work.session.state, turned.at), work.session.world.due()]);
            if due.is_none() && trouble.is_empty() && work.session.world.at_work() == 0 {
                self.clear(work);
                return self.telling.give_up(&work.session.state);
            }
            let due = earliest([due, self.next_look(turned.at, &work.session.world), last, again]);
            let ending = match self.wait(work, due) {
                Woken::Ending(signal) => Some(signal),
                Woken::Turn => last.filter(|last| work.session.world.now() >= *last).map(|_| 0),
            };
            if let Some(signal) = ending {
                return self.close(work, signal);
            }
        }
    }

    /// Takes a turn. A bad moment of the disk ends a turn, and not the jobs: the turn is tried again, and each `trouble` said
    /// once until one succeeds. That one begins by writing down what the world has answered since the last that did.
    fn turn_or_trouble(
        &self,
        work: &mut Work<'_>,
        trouble: &mut BTreeSet<String>,
    ) -> Result<Turned, Failure> {
        self.look_at_nodes(work);
        let kept = if trouble.is_empty() { Ok(()) } else { Self::keep(work, &[]) };
        match kept.and_then(|()| self.take_in(work)).and_then(|()| self.turn(work)) {
            Ok(turned) => {
                if !std::mem::take(trouble).is_empty() {
                    self.telling.log.say("working again");
                }
                Ok(turned)
            }
            Err(failure) if failure.exit == Exit::Failed => {
                if trouble.insert(failure.message.clone()) {
                    self.telling.log.say(&format!("{}; retrying", failure.message));
                }
                Ok(Turned { at: work.session.world.now(), asked: false })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Asks Slurm for the nodes of the allocation, if one may be lost. Without an answer they are as before.
    fn look_at_nodes(&self, work: &mut Work<'_>) {
        let Some(job) = self.target.job.filter(|_| work.session.world.doubts_nodes()) else { return };
        let Ok(left) = slurm::allocated_nodes(self.context, job) else { return };
        // With none left this process is about to end, too.
        if !left.is_empty() {
            work.session.world.keep_nodes(&left);
        }
    }

    /// Writes down the state, and these events as what has happened last.
    fn keep(work: &mut Work<'_>, events: &[Event]) -> Result<(), Failure> {
        let now = work.session.world.now();
        work.session.keep(now, events, &[]).map_err(|error| state::failure(&error))
    }

    /// Takes in the deferred commands that wait.
    fn take_in(&self, work: &mut Work<'_>) -> Result<(), Failure> {
        let taken = work.session.take_in()?;
        self.telling.log.hear_all(&taken);
        Ok(())
    }

    /// Returns when the next turn is due without news; the last one was at `at`.
    pub(super) fn due(&self, state: &State, at: Time) -> Option<Time> {
        let soon = state.decided.is_none().then(|| at.after(SOON));
        earliest([due(state, &self.rules, at), soon])
    }

    /// Returns when is looked for what other machines have written, where they do, and else for what samples of the jobs show; the
    /// last time was at `at`.
    pub(super) fn next_look(&self, at: Time, world: &LocalWorld<'_>) -> Option<Time> {
        match () {
            () if self.target.job.is_none() => (world.at_work() > 0).then(|| at.after(LOOK_AT_SAMPLES)),
            () if world.is_switching() => Some(at.after(LOOK_SWITCHING)),
            () => Some(at.after(LOOK)),
        }
    }

    /// Ends all processes that are parked, and waits for their end.
    fn clear(&self, work: &mut Work<'_>) {
        work.session.world.close();
        while work.session.world.left() > 0 {
            let due = work.session.world.due();
            let is_asked = matches!(self.wait(work, due), Woken::Ending(_));
            if is_asked || due.is_some_and(|due| work.session.world.now() >= due) {
                work.session.world.kill();
            }
        }
    }

    /// Returns when all jobs must be asked to save, for the allocation to end after they have.
    fn last_moment(&self, state: &State) -> Option<Time> {
        let end = self.target.end?;
        Some(Time(end.0 - self.longest_grace(state).0 - MARGIN.0 - BEFORE_END.0))
    }

    /// Waits until something happens or a moment has come.
    pub(super) fn wait(&self, work: &mut Work<'_>, due: Option<Time>) -> Woken {
        let now = work.session.world.now();
        let until = |due: Time| Duration::try_from_secs_f64(due.since(now).0.max(0.0)).unwrap_or_default();
        let mut woken = self.waker.wait(due.map(until));
        let is_switching = work.session.world.is_switching();
        let calm = |wake: &Wake| *wake == Wake::Reported || *wake == Wake::Gated && !is_switching;
        if !woken.is_empty() && woken.iter().all(calm) {
            woken.extend(self.waker.wait_for_others(TOGETHER, &self.context.clock, calm));
        }
        let mut ending = None;
        for wake in woken {
            match wake {
                Wake::Ended(of, status) => work.session.world.ended(&of, status),
                Wake::Signal(signal) => ending = Some(signal),
                Wake::Reported | Wake::Gated | Wake::Wished => {}
            }
        }
        ending.map_or(Woken::Turn, Woken::Ending)
    }

    /// Takes a turn.
    fn turn(&self, work: &mut Work<'_>) -> Result<Turned, Failure> {
        let Work { session, policy } = work;
        let notes = assumed::fill(&mut session.state, &self.types());
        session.state.planned_by = Some(self.args.policy.words());
        let turn =
            self.planned(policy.as_mut(), |planner| session.turn(planner, &self.telling.log, notes))?;
        let turn = turn?;
        let asked = turn.step.is_some_and(|step| step.actions.iter().any(hsched_engine::Action::is_request));
        Ok(Turned { at: turn.seen.at, asked })
    }

    /// Says what the first turn would do.
    fn preview(&self, work: &mut Work<'_>) -> Result<(), Failure> {
        let Work { session, policy } = work;
        let notes = assumed::fill(&mut session.state, &self.types());
        self.planned(policy.as_mut(), |planner| session.preview(planner, &self.telling.log, notes))?
    }

    /// Lets the policy plan, within its budget.
    pub(super) fn planned<T>(
        &self,
        policy: &mut dyn Policy,
        act: impl FnOnce(&mut Planner<'_>) -> T,
    ) -> Result<T, Failure> {
        let (objective, seed) = (self.args.policy.objective(), self.args.policy.seed());
        let options = PlanOptions { objective, seed, budget: self.args.budget };
        options.with_planner(self.context, policy, act)
    }

    /// Has all jobs save, waits for them, and writes down how they ended; those that take too long are killed. Decides
    /// nothing any more. `signal` is 0 where no signal asked for it. Ctrl-C is always 130; 85 means that something is left to run.
    fn close(&self, work: &mut Work<'_>, signal: i32) -> Result<Exit, Failure> {
        let at_work = work.session.world.at_work();
        if at_work > 0 {
            let again = if signal == INTERRUPT { "; press Ctrl-C again to kill them" } else { "" };
            let why = if signal == 0 { "the allocation is about to end; " } else { "" };
            self.telling
                .log
                .say(&format!("{why}asking the running jobs ({at_work}) to save and exit{again}"));
        }
        work.session.world.close();
        let deadline =
            work.session.world.now().after(Seconds(self.longest_grace(&work.session.state).0 + MARGIN.0));
        let mut is_killed = false;
        while work.session.world.left() > 0 {
            let due = (!is_killed).then_some(deadline);
            let again = matches!(self.wait(work, due), Woken::Ending(_));
            if !is_killed && (again || work.session.world.now() >= deadline) {
                is_killed = true;
                work.session.world.kill();
            }
        }
        let kept = self.catch_up(work);
        self.telling.log.end();
        if let Err(failure) = &kept {
            // The next hsched run tells what is not written down.
            self.telling.log.say(&format!(
                "{}: the last events are not in the state; the next hsched run reads them from the reports",
                failure.message
            ));
        }
        let over = kept.is_ok() && work.session.state.is_over();
        let done = if over {
            self.telling.finish(&work.session.state, work.session.world.now())?
        } else {
            Exit::Saved
        };
        if !over {
            self.telling.log.say(&format!("stopped; to resume: {}", self.args.again()));
        }
        Ok(if signal == INTERRUPT { Exit::Interrupted } else { done })
    }

    /// Brings the state up to date with what the world shows, and tells what has happened when that is written down.
    fn catch_up(&self, work: &mut Work<'_>) -> Result<(), Failure> {
        let seen = work.session.look()?;
        Self::keep(work, &seen.events)?;
        self.telling.log.hear_all(&seen.events);
        seen.learnt.iter().for_each(|learnt| self.telling.log.hear(Update::Action(learnt)));
        self.telling.log.print(&[], &work.session.state);
        Ok(())
    }

    fn longest_grace(&self, state: &State) -> Seconds {
        let open = state.jobs.iter().filter(|tracked| !tracked.phase.is_over());
        let grace = open.map(|job| job.job.launch.checkpoint.grace.unwrap_or(self.rules.defaults.grace).0);
        Seconds(grace.fold(0.0, f64::max))
    }

    pub(super) fn types(&self) -> Vec<GpuType> {
        self.target.devices.gpu_types()
    }
}

pub(super) fn earliest<const N: usize>(moments: [Option<Time>; N]) -> Option<Time> {
    moments.into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0))
}
