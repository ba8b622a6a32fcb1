//! The turns of `hsched run`, one after each event; and the end, when all jobs save.

use std::time::Duration;

use crate::app::session::{PlanOptions, Session};
use crate::app::slurm;
use crate::app::state;
use crate::commands::run::assumed;
use crate::commands::run::closing::stronger;
use crate::commands::run::complaint::Complaints;
use crate::commands::run::local_run::LocalRun;
use crate::commands::run::sizing::PoolSizer;
use hsched_engine::clock::Clock as _;
use hsched_engine::render::Launcher;
use hsched_engine::{Event, Planner, State, due};
use hsched_local::{LocalWorld, PoolWorld, Wake};
use hsched_model::{ErrorId, Job, NodeName, Seconds, Time};
use hsched_plan::Policy;
use hsched_ui::{Exit, Failure};

/// The mutable data of `hsched run`.
pub(super) struct RunTurns<'s> {
    pub session: Session<'s, PoolWorld<'s>>,
    policy: Box<dyn Policy>,
}

/// The result of a turn.
struct TurnResult {
    at: Time,
    /// Whether the turn gave commands to the world.
    asked: bool,
}

/// Why a session stops waiting.
pub(super) enum WakeReason {
    /// An event has occurred or is due.
    Turn,
    /// A signal asks hsched to end.
    Ending(i32),
}

/// How the turns end.
pub(super) enum Ending {
    Exit(Exit),
    /// This member leaves because of this signal, and another one of the pool takes over.
    HandOver(i32),
}

/// Time within which reports are handled together, because epochs may be short and jobs may be many.
const TOGETHER: Duration = Duration::from_millis(500);

/// Delay before a policy is called again that asked for an immediate call.
const SOON: Seconds = Seconds(1.0);

/// Delay before a failed turn is repeated.
const AGAIN: Seconds = Seconds(2.0);

/// Time between checks for files that other machines write.
const LOOK: Seconds = Seconds(5.0);

/// Time between checks for files that other machines write, in a pool.
pub(super) const LOOK_POOL: Seconds = Seconds(1.0);

/// Time between checks whether jobs make progress.
const LOOK_AT_SAMPLES: Seconds = Seconds(30.0);

/// Time between checks while jobs hand over their devices.
const LOOK_SWITCHING: Seconds = Seconds(0.2);

impl LocalRun<'_> {
    /// Runs the jobs on a world; `leaving` is the signal that asked this process to end earlier, if any.
    pub(super) fn run_on<'s>(
        &'s self,
        world: PoolWorld<'s>,
        jobs: &[Job],
        leaving: Option<i32>,
    ) -> Result<(PoolWorld<'s>, Ending), Failure> {
        let mut session =
            Session::of_devices(self.context, self.directory, self.rules.clone(), self.args.dry_run)?;
        let policy = self.policy(world.lead.is_some())?;
        if !self.args.dry_run {
            self.telling.recall(self.directory, &session.state);
        }
        self.telling.log.hear_all(&session.taken);
        let seen = session.look()?;
        self.telling.log.hear_all(&seen.events);
        let mut work = RunTurns { session: session.on(world), policy };
        self.add(&mut work, jobs, seen.events)?;
        let ending = self.turns(&mut work, leaving)?;
        Ok((*work.session.world, ending))
    }

    /// Measures missing speeds, except in a pool, and takes turns; with `--dry-run`, only shows the first.
    fn turns(&self, work: &mut RunTurns<'_>, leaving: Option<i32>) -> Result<Ending, Failure> {
        if self.args.dry_run {
            return self.preview(work).map(|()| Ending::Exit(Exit::Done));
        }
        // The types of future allocations are unknown.
        let leaving = match leaving {
            None if work.session.world.lead.is_none() => self.measure(work)?,
            leaving => leaving,
        };
        match leaving {
            Some(signal) => self.end(work, signal),
            None => self.go_on(work),
        }
    }

    /// Takes turns until the end.
    fn go_on(&self, work: &mut RunTurns<'_>) -> Result<Ending, Failure> {
        let begun = work.session.world.here.now();
        let last = self.last_moment(self.longest_grace(&work.session.state));
        let is_late = last.is_some_and(|last| last <= begun);
        // If even a whole allocation is too short, each further one would also end at once.
        let age = self.context.clock.elapsed().as_secs_f64();
        let is_too_short = last.is_some_and(|last| last.0 <= begun.0 - age);
        if is_late && work.session.world.lead.is_some() && !is_too_short {
            return self.end(work, 0);
        }
        if is_late {
            let message = "the allocation ends too soon for a new job to save a checkpoint";
            return Err(Failure::new(Exit::Failed, message)
                .id(ErrorId::TimeTooShort)
                .hint("request more time from Slurm, or set a shorter checkpoint.grace"));
        }
        let (mut trouble, mut sizing) = (Complaints::default(), PoolSizer::default());
        loop {
            let turned = self.turn_or_trouble(work, &mut trouble)?;
            if work.session.state.is_over() {
                self.clear(work);
                self.cancel_waiting_tasks();
                return self.telling.finish(&work.session.state).map(Ending::Exit);
            }
            if self.size(work, &mut sizing) {
                return self.end(work, 0);
            }
            let last = self.last_moment(self.longest_grace(&work.session.state));
            let again = (!trouble.is_empty()).then(|| turned.at.after(AGAIN));
            // The effects of commands are visible at once, and events in the meantime are read before the
            // next turn.
            let at_once = turned.asked.then_some(turned.at);
            let due =
                earliest([at_once, self.due(&work.session.state, turned.at), work.session.world.here.due()]);
            let rests = work.session.world.here.at_work() == 0 && is_at_rest(&work.session.state);
            // Future allocations may have other devices.
            if due.is_none() && trouble.is_empty() && rests && !sizing.is_growing() {
                self.clear(work);
                self.cancel_waiting_tasks();
                return self.telling.give_up(&work.session.state).map(Ending::Exit);
            }
            let due = earliest([due, self.next_look(turned.at, &work.session.world), last, again]);
            let ending = match self.wait(work, due) {
                WakeReason::Ending(signal) => Some(signal),
                WakeReason::Turn => last.filter(|last| work.session.world.here.now() >= *last).map(|_| 0),
            };
            if let Some(signal) = ending {
                return self.end(work, signal);
            }
        }
    }

    /// Takes a turn. A temporary failure of the disk ends only the turn, not the jobs: the turn is repeated,
    /// and each message at growing intervals until a turn succeeds. That turn first records all answers of the
    /// world since the last successful one.
    fn turn_or_trouble(
        &self,
        work: &mut RunTurns<'_>,
        trouble: &mut Complaints,
    ) -> Result<TurnResult, Failure> {
        self.look_at_nodes(work);
        self.look_at_members(work);
        let kept = if trouble.is_empty() { Ok(()) } else { Self::keep(work, &[]) };
        match kept.and_then(|()| self.take_in(work)).and_then(|()| self.turn(work)) {
            Ok(turned) => {
                if trouble.end() {
                    self.telling.log.say("working again");
                }
                Ok(turned)
            }
            Err(failure) if failure.exit == Exit::Failed => {
                if trouble.is_due(&failure.message, self.context.clock.elapsed()) {
                    self.telling.log.say(&format!("{}; retrying", failure.message));
                }
                Ok(TurnResult { at: work.session.world.here.now(), asked: false })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Asks Slurm for the nodes of the allocation if one may be lost. Without an answer, they stay unchanged.
    fn look_at_nodes(&self, work: &mut RunTurns<'_>) {
        let Some(left) = self.nodes_left(&mut work.session.world.here) else { return };
        work.session.world.here.keep_nodes(&left);
    }

    /// Returns the remaining nodes of the allocation if one may be lost and Slurm answers.
    pub(super) fn nodes_left(&self, here: &mut LocalWorld<'_>) -> Option<Vec<NodeName>> {
        let has_steps = self.target.launcher == Launcher::Steps;
        let job = self.target.job.filter(|_| has_steps && here.doubts_nodes())?;
        // If no node is left, this process is about to end as well.
        slurm::allocated_nodes(self.context, job).ok().filter(|left| !left.is_empty())
    }

    /// Records the state with these events as the latest ones.
    pub(super) fn keep(work: &mut RunTurns<'_>, events: &[Event]) -> Result<(), Failure> {
        let now = work.session.world.here.now();
        work.session.keep(now, events, &[]).map_err(|error| state::failure(&error))
    }

    /// Applies the waiting deferred commands.
    fn take_in(&self, work: &mut RunTurns<'_>) -> Result<(), Failure> {
        let taken = work.session.take_in()?;
        self.telling.log.hear_all(&taken);
        Ok(())
    }

    /// Returns when the next turn is due if nothing happens before; `at` is the time of the last turn.
    pub(super) fn due(&self, state: &State, at: Time) -> Option<Time> {
        let soon = state.decided.is_none().then(|| at.after(SOON));
        earliest([due(state, &self.rules, at), soon])
    }

    /// Returns when to check next for files of other machines, if there are any, or else for samples of the
    /// jobs; `at` is the time of the last check.
    pub(super) fn next_look(&self, at: Time, world: &PoolWorld<'_>) -> Option<Time> {
        match &world.lead {
            None if self.target.job.is_none() => {
                (world.here.at_work() > 0).then(|| at.after(LOOK_AT_SAMPLES))
            }
            _ if world.here.is_switching() => Some(at.after(LOOK_SWITCHING)),
            Some(_) => Some(at.after(LOOK_POOL)),
            None => Some(at.after(LOOK)),
        }
    }

    /// Waits for an event, at most until the given time.
    pub(super) fn wait(&self, work: &mut RunTurns<'_>, due: Option<Time>) -> WakeReason {
        let now = work.session.world.here.now();
        let until = |due: Time| Duration::try_from_secs_f64(due.since(now).0.max(0.0)).unwrap_or_default();
        let mut woken = self.waker.wait(due.map(until));
        let is_switching = work.session.world.here.is_switching();
        let calm = |wake: &Wake| *wake == Wake::Reported || *wake == Wake::Gated && !is_switching;
        let may_wait = due.is_none_or(|due| due > now);
        if may_wait && !woken.is_empty() && woken.iter().all(calm) {
            woken.extend(self.waker.wait_for_others(TOGETHER, &self.context.clock, calm));
        }
        let mut ending = None;
        for wake in woken {
            match wake {
                Wake::Ended(of, status) => work.session.world.here.ended(&of, status),
                Wake::Signal(signal) if self.comes_early(signal, now) => {}
                Wake::Signal(signal) => ending = Some(stronger(ending, signal)),
                Wake::Reported | Wake::Gated | Wake::Wished | Wake::Pool => {}
            }
        }
        ending.map_or(WakeReason::Turn, WakeReason::Ending)
    }

    /// Takes a turn.
    fn turn(&self, work: &mut RunTurns<'_>) -> Result<TurnResult, Failure> {
        let RunTurns { session, policy } = work;
        let notes = assumed::fill(&mut session.state, &session.world.gpu_types());
        session.state.planned_by = Some(self.args.policy.words());
        let turn =
            self.planned(policy.as_mut(), |planner| session.turn(planner, &self.telling.log, notes))?;
        let turn = turn?;
        let asked = turn.step.is_some_and(|step| step.actions.iter().any(hsched_engine::Action::is_request));
        Ok(TurnResult { at: turn.seen.at, asked })
    }

    /// Prints the actions of the first turn without taking them.
    fn preview(&self, work: &mut RunTurns<'_>) -> Result<(), Failure> {
        let RunTurns { session, policy } = work;
        let notes = assumed::fill(&mut session.state, &session.world.gpu_types());
        self.planned(policy.as_mut(), |planner| session.preview(planner, &self.telling.log, notes))?
    }

    /// Lets the policy plan within its time budget.
    pub(super) fn planned<T>(
        &self,
        policy: &mut dyn Policy,
        act: impl FnOnce(&mut Planner<'_>) -> T,
    ) -> Result<T, Failure> {
        let (objective, seed) = (self.args.policy.objective(), self.args.policy.seed());
        let options = PlanOptions { objective, seed, budget: self.args.budget };
        options.with_planner(self.context, policy, act)
    }
}

/// Returns whether no job has a submission.
fn is_at_rest(state: &State) -> bool {
    state.jobs.iter().all(|tracked| tracked.phase.submissions().is_empty())
}

pub(super) fn earliest<const N: usize>(moments: [Option<Time>; N]) -> Option<Time> {
    moments.into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0))
}
