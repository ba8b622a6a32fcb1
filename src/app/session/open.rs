//! Opens a session: reads the state, checks its cluster, and applies the deferred commands.

use crate::app::context::Context;
use crate::app::session::Backend;
use crate::app::slurm::{self, QueueWorld};
use crate::app::{deferred_commands, false_ends, state};
use hsched_engine::store::{Ledger, StateDir};
use hsched_engine::{BackendKind, Event, Keeper as _, Rules, State};
use hsched_local::EndedRun;
use hsched_ui::Failure;

/// The cluster name for jobs of `hsched run`.
pub(crate) const LOCAL_CLUSTER: &str = "hsched run";

/// A modifiable state, and the world of its jobs.
pub(crate) struct Session<'a, W: ?Sized = dyn Backend + 'a> {
    pub context: &'a Context,
    /// The state directory; the creator of this value holds its lock.
    pub directory: &'a StateDir,
    pub rules: Rules,
    pub state: State,
    pub ledger: Ledger<'a>,
    pub world: Box<W>,
    /// Events of the deferred commands applied at the opening, and of the observation for them; already
    /// stored.
    pub taken: Vec<Event>,
    /// Whether nothing is stored (by a [`Ledger`] of a dry run) and no request is made.
    pub dry_run: bool,
}

/// A session whose jobs are in the queue of a batch system.
pub(crate) type QueueSession<'a> = Session<'a, QueueWorld<'a>>;

impl<'a> QueueSession<'a> {
    /// Opens the state of a directory whose jobs are queued; `sbatch` are options for each submission. Warns
    /// about damaged files, which are repaired except in a `dry_run`. A `dry_run` applies deferred commands but
    /// stores nothing.
    ///
    /// # Errors
    /// If a file cannot be used, or its jobs are on another cluster.
    pub(crate) fn of_queue(
        context: &'a Context,
        directory: &'a StateDir,
        rules: Rules,
        sbatch: &[String],
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let (state, ledger) = read(context, directory, &rules, dry_run)?;
        let world = Box::new(slurm::world(context, directory, sbatch)?);
        Self::begin(context, directory, rules, state, ledger, world, dry_run)
    }
}

impl<'a> Session<'a, EndedRun<'a>> {
    /// Opens the state of a directory whose jobs run under `hsched run`, like [`Session::of_queue`] for
    /// queued ones. Nothing runs until [`Session::on`] adds devices.
    ///
    /// # Errors
    /// If a file cannot be used, or its jobs are queued.
    pub(crate) fn of_devices(
        context: &'a Context,
        directory: &'a StateDir,
        rules: Rules,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let (state, ledger) = read(context, directory, &rules, dry_run)?;
        let world = Box::new(EndedRun::new(&context.clock, directory.root()));
        Self::begin(context, directory, rules, state, ledger, world, dry_run)
    }

    /// Returns the session with another world.
    pub(crate) fn on<W: Backend>(self, world: W) -> Session<'a, W> {
        let Self { context, directory, rules, state, ledger, taken, dry_run, .. } = self;
        Session { context, directory, rules, state, ledger, world: Box::new(world), taken, dry_run }
    }
}

impl<'a> Session<'a> {
    /// Opens the state of a directory for either kind of jobs: those of an `hsched run` that has ended, or
    /// queued ones.
    ///
    /// # Errors
    /// If a file cannot be used, or its jobs are on another cluster.
    pub(crate) fn anywhere(
        context: &'a Context,
        directory: &'a StateDir,
        sbatch: &[String],
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let mut rules = state::rules(context);
        let (state, ledger) = read(context, directory, &rules, dry_run)?;
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
        if !dry_run {
            slurm::mark_dead(context, directory.root()).map_err(|error| state::failure(&error))?;
        }
        let taken = Vec::new();
        let mut session = Self { context, directory, rules, state, ledger, world, taken, dry_run };
        session.claim()?;
        session.taken = session.take_in()?;
        Ok(session)
    }

    /// Records the cluster of the jobs.
    ///
    /// # Errors
    /// If the jobs are on another cluster.
    fn claim(&mut self) -> Result<(), Failure> {
        let cluster = match self.world.backend_kind() {
            BackendKind::Devices => Some(LOCAL_CLUSTER.to_owned()),
            // Jobs of `hsched run` are not in the queue, even of a cluster without a name.
            BackendKind::Queue => self.context.slurm.cluster_name().or_else(|| {
                let cluster = self.ledger.cluster().filter(|cluster| *cluster == LOCAL_CLUSTER);
                cluster.map(|_| slurm::NAME.to_owned())
            }),
        };
        let Some(cluster) = cluster else { return Ok(()) };
        let at = state::now(self.context);
        self.ledger.claim(at, &self.state, &cluster).map_err(|error| state::failure(&error))
    }

    /// Applies the pending deferred commands; returns the resulting events.
    ///
    /// # Errors
    /// If the state cannot be written, or Slurm prints unreadable output.
    pub(crate) fn take_in(&mut self) -> Result<Vec<Event>, Failure> {
        deferred_commands::take_in(self)
    }
}

/// Returns the backend of a state directory's jobs, by their cluster.
pub(crate) fn backend_kind(cluster: Option<&str>) -> BackendKind {
    if cluster == Some(LOCAL_CLUSTER) { BackendKind::Devices } else { BackendKind::Queue }
}

fn read<'a>(
    context: &Context,
    directory: &'a StateDir,
    rules: &Rules,
    dry_run: bool,
) -> Result<(State, Ledger<'a>), Failure> {
    let failure = |error| state::failure(&error);
    let ledger =
        if dry_run { directory.dry_ledger(rules) } else { directory.ledger(rules, state::now(context)) };
    let (mut state, mut ledger) = ledger.map_err(failure)?;
    ledger.repaired().iter().for_each(|repaired| context.warn_once(repaired));
    if false_ends::mend(context, &mut state) {
        ledger.keep(state::now(context), &state, &[], &[]).map_err(failure)?;
    }
    Ok((state, ledger))
}
