//! The turns of `watch`: each with the lock, from the state on disk, and back to it.

use std::time::Duration;

use crate::clock::Clock;
use crate::commands::cli::print;
use crate::commands::context::Context;
use crate::commands::state::{self, live_failure};
use crate::commands::watch::Args;
use crate::engine::{self, Outcome, Phase, Planner, Rules, State, Told};
use crate::error::Failure;
use crate::exit::Exit;
use crate::live::{LiveError, SlurmWorld};
use crate::model::{Cluster, Seconds};
use crate::policy::{self, Objective, Parameters};
use crate::store::new_run_id;

/// A `watch` with its rules.
pub(super) struct Watch<'a> {
    pub args: &'a Args,
    pub context: &'a Context,
    pub rules: Rules,
}

/// How a turn left things.
struct Left {
    /// Whether any job is there that has not ended.
    busy: bool,
    /// Whether any job ended otherwise than completed.
    failed: bool,
}

/// The longest pause while Slurm does not answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

impl Watch<'_> {
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
            let turn = engine::look(world, state, (&self.rules, planner))?;
            turn.events.iter().for_each(|event| self.tell(Told::Event(event)));
            turn.step.actions.iter().for_each(|action| self.tell(Told::Action(action)));
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
        loop {
            match self.turn() {
                Ok(left) if !left.busy && !self.args.forever => {
                    return Ok(if left.failed { Exit::Failed } else { Exit::Done });
                }
                Ok(_) => pause = self.args.interval,
                Err(failure) if matches!(failure.exit, Exit::SlurmUnavailable | Exit::Locked) => {
                    self.context.terminal.say(&format!("{}; trying again", failure.message));
                    pause = (pause * 2).min(LONGEST_PAUSE.max(self.args.interval));
                }
                Err(failure) => return Err(failure),
            }
            self.context.clock.sleep(pause);
        }
    }

    fn turn(&self) -> Result<Left, Failure> {
        self.with_world(|world, state, ledger, planner| {
            engine::turn::<_, _, LiveError>(world, ledger, state, (&self.rules, planner), &mut |told| self.tell(told))?;
            let failed = |phase: &Phase| {
                matches!(phase, Phase::Ended { outcome, .. } if *outcome != Outcome::Completed)
            };
            Ok(Left { busy: !state.is_over(), failed: state.jobs.iter().any(|tracked| failed(&tracked.phase)) })
        })
    }

    /// Does something with the world, the state on disk and its ledger, under the lock.
    fn with_world<T>(
        &self,
        act: impl FnOnce(
            &mut SlurmWorld<'_>,
            &mut State,
            &mut crate::store::Ledger<'_>,
            &Planner<'_>,
        ) -> Result<T, LiveError>,
    ) -> Result<T, Failure> {
        let context = self.context;
        let directory = state::open(context)?;
        let (mut state, mut ledger) =
            directory.ledger(&self.rules).map_err(|error| state::failure(&error))?;
        let complete = |cluster: &mut Cluster| state::complete(context, cluster);
        let site = state::site(context, &[])?;
        let mut world = SlurmWorld::new(&context.slurm, &context.clock, &directory, site.clone(), &complete);
        world.pinned = self.args.pin;
        // Asked while the world is at work on something else.
        let asked = SlurmWorld::new(&context.slurm, &context.clock, &directory, site, &complete);
        let queue_wait =
            |batch: &engine::Batch, job: usize| -> Option<Seconds> { asked.queue_wait(batch, job) };
        let begin = context.clock.elapsed();
        let stop = || context.clock.elapsed().saturating_sub(begin) >= self.args.budget;
        let policy = policy::find(&self.args.policy, Parameters::default()).ok_or_else(|| {
            Failure::new(Exit::Internal, format!("policy {} is not registered", self.args.policy))
        })?;
        let named = Objective::NAMES.iter().find(|(name, _)| *name == self.args.objective);
        let run = new_run_id(context.clock.now());
        let planner = Planner {
            policy: policy.as_ref(),
            objective: named.map_or_else(Objective::default, |&(_, objective)| objective),
            seed: self.args.seed,
            run: &run,
            stop: &stop,
            queue_wait: &queue_wait,
        };
        act(&mut world, &mut state, &mut ledger, &planner).map_err(|error| live_failure(&error))
    }

    /// Writes a line of the log.
    fn tell(&self, told: Told<'_>) {
        let text = format!("{told:?}");
        let _ = print(self.context, &format!("{}\n", text.chars().take(300).collect::<String>()));
    }
}
