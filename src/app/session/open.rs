//! How a session opens: read the state, check its cluster, apply the deferred commands.

use crate::app::context::Context;
use crate::app::session::Backend;
use crate::app::slurm::{self, QueueWorld};
use crate::app::{deferred_commands, false_ends, state};
use crate::error::Failure;
use crate::local::EndedRun;
use hsched_engine::store::{Ledger, StateDir};
use hsched_engine::{BackendKind, Event, Keeper as _, Rules, State};

/// What stands for the cluster of jobs that `hsched run` runs.
pub(crate) const LOCAL_CLUSTER: &str = "hsched run";

/// A state that may be changed, and the world in which its jobs run.
pub(crate) struct Session<'a, W: ?Sized = dyn Backend + 'a> {
    pub context: &'a Context,
    /// The state directory; whoever made this value holds its lock.
    pub directory: &'a StateDir,
    pub rules: Rules,
    pub state: State,
    pub ledger: Ledger<'a>,
    pub world: Box<W>,
    /// What the deferred commands that were applied at the opening changed, and what a look for them showed; it is written
    /// down.
    pub taken: Vec<Event>,
    /// Whether nothing is written down and nothing asked of the world.
    pub dry_run: bool,
}

/// A session whose jobs are in the queue of a batch system.
pub(crate) type QueueSession<'a> = Session<'a, QueueWorld<'a>>;

impl<'a> QueueSession<'a> {
    /// Opens the state of a directory whose jobs are in the queue; `sbatch` are options for each submission. Warns about
    /// files that were damaged and have been repaired. A `dry_run` leaves deferred commands where they are.
    ///
    /// # Errors
    /// When a file there cannot be used, or its jobs are on another cluster than this one.
    pub(crate) fn of_queue(
        context: &'a Context,
        directory: &'a StateDir,
        rules: Rules,
        sbatch: &[String],
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let (state, ledger) = read(context, directory, &rules)?;
        let world = Box::new(slurm::world(context, directory, sbatch)?);
        Self::begin(context, directory, rules, state, ledger, world, dry_run)
    }
}

impl<'a> Session<'a, EndedRun<'a>> {
    /// Opens the state of a directory whose jobs run under `hsched run`, as [`Session::of_queue`] does for those in the
    /// queue. Nothing runs until [`Session::on`] gives it devices.
    ///
    /// # Errors
    /// When a file there cannot be used, or its jobs are in the queue.
    pub(crate) fn of_devices(
        context: &'a Context,
        directory: &'a StateDir,
        rules: Rules,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let (state, ledger) = read(context, directory, &rules)?;
        let world = Box::new(EndedRun::new(&context.clock, directory.root()));
        Self::begin(context, directory, rules, state, ledger, world, dry_run)
    }

    /// Returns the session with the world in which its jobs run from now on.
    pub(crate) fn on<W: Backend>(self, world: W) -> Session<'a, W> {
        let Self { context, directory, rules, state, ledger, taken, dry_run, .. } = self;
        Session { context, directory, rules, state, ledger, world: Box::new(world), taken, dry_run }
    }
}

impl<'a> Session<'a> {
    /// Opens the state of a directory wherever its jobs run: under an `hsched run`, which has ended, or in the queue.
    ///
    /// # Errors
    /// When a file there cannot be used, or its jobs are on another cluster than this one.
    pub(crate) fn anywhere(
        context: &'a Context,
        directory: &'a StateDir,
        sbatch: &[String],
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let mut rules = state::rules(context);
        let (state, ledger) = read(context, directory, &rules)?;
        rules.backend = backend_kind(ledger.cluster());
        let world: Box<dyn Backend + 'a> = match rules.backend {
            BackendKind::Devices => Box::new(EndedRun::new(&context.clock, directory.root())),
            BackendKind::Queue => Box::new(slurm::world(context, directory, sbatch)?),
        };
        Self::begin(context, directory, rules, state, ledger, world, dry_run)
    }
}

impl<'a, W: Backend + ?Sized> Session<'a, W> {
    fn begin(
        context: &'a Context,
        directory: &'a StateDir,
        rules: Rules,
        state: State,
        ledger: Ledger<'a>,
        world: Box<W>,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        slurm::mark_dead(context, directory.root()).map_err(|error| state::failure(&error))?;
        let taken = Vec::new();
        let mut session = Self { context, directory, rules, state, ledger, world, taken, dry_run };
        session.claim()?;
        session.taken = session.take_in()?;
        Ok(session)
    }

    /// Notes on which cluster the jobs are.
    ///
    /// # Errors
    /// When they are on another one.
    fn claim(&mut self) -> Result<(), Failure> {
        let cluster = match self.world.backend_kind() {
            BackendKind::Devices => Some(LOCAL_CLUSTER.to_owned()),
            // Whether it tells its name or not: jobs of hsched run are not in its queue.
            BackendKind::Queue => self.context.cluster_name().or_else(|| {
                let cluster = self.ledger.cluster().filter(|cluster| *cluster == LOCAL_CLUSTER);
                cluster.map(|_| slurm::NAME.to_owned())
            }),
        };
        let Some(cluster) = cluster else { return Ok(()) };
        let at = state::now(self.context);
        self.ledger.claim(at, &self.state, &cluster).map_err(|error| state::failure(&error))
    }

    /// Applies the deferred commands that wait; returns what has happened by that.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub(crate) fn take_in(&mut self) -> Result<Vec<Event>, Failure> {
        deferred_commands::take_in(self)
    }
}

/// Returns where the jobs of a state directory go, by the cluster that they are on.
pub(crate) fn backend_kind(cluster: Option<&str>) -> BackendKind {
    if cluster == Some(LOCAL_CLUSTER) { BackendKind::Devices } else { BackendKind::Queue }
}

fn read<'a>(
    context: &Context,
    directory: &'a StateDir,
    rules: &Rules,
) -> Result<(State, Ledger<'a>), Failure> {
    let failure = |error| state::failure(&error);
    let (mut state, mut ledger) = directory.ledger(rules, state::now(context)).map_err(failure)?;
    ledger.repaired().iter().for_each(|repaired| context.warn(repaired));
    if false_ends::mend(context, &mut state) {
        ledger.keep(state::now(context), &state, &[], &[]).map_err(failure)?;
    }
    Ok((state, ledger))
}
