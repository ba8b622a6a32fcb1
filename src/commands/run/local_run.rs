//! A running `hsched run`: its rules, devices and world.

use std::cell::Cell;
use std::path::PathBuf;

use crate::app::context::Context;
use crate::app::state;
use crate::commands::run::target::ExecutionTarget;
use crate::commands::run::telling::RunReporter;
use crate::commands::run::turns::Ending;
use crate::commands::run::{Args, assumed};
use hsched_engine::live::{ScriptContext, on_endings};
use hsched_engine::pool::MemberId;
use hsched_engine::store::StateDir;
use hsched_engine::{BackendKind, Rules};
use hsched_local::{LocalSite, LocalWorld, MpsDaemon, PoolWorld, Wake, Waker};
use hsched_model::{Job, NodeName};
use hsched_plan::{PerGroup, Policy};
use hsched_ui::{Exit, Failure};

/// A running `hsched run`.
pub(super) struct LocalRun<'a> {
    pub(super) args: &'a Args,
    pub(super) context: &'a Context,
    pub(super) directory: &'a StateDir,
    pub(super) rules: Rules,
    pub(super) target: ExecutionTarget,
    pub(super) waker: Waker,
    pub(super) telling: RunReporter<'a>,
    /// Whether Slurm seems to have announced the end of this allocation.
    pub(super) is_announced: Cell<bool>,
    /// The daemon for runs that share GPUs, if the user requests it and it has started.
    pub(super) mps: Option<MpsDaemon>,
}

/// The program of this process, even if its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

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
        rules.most_gpus = target.devices.has_slots().then_some(1);
        rules.defaults.cpus_per_gpu = rules.defaults.cpus_per_gpu.min(fair);
        let telling = RunReporter::new(context, args.format, args.dry_run);
        Ok(Self {
            args,
            context,
            directory,
            rules,
            target,
            waker,
            telling,
            is_announced: Cell::new(false),
            mps: None,
        })
    }

    /// Runs the jobs of the state and the given ones until all have ended, none can start, the allocation is
    /// about to end, or a signal asks hsched to end.
    ///
    /// # Errors
    /// If the state is unusable.
    pub(super) fn run(mut self, jobs: &[Job]) -> Result<Exit, Failure> {
        self.hear_signals()?;
        self.mps = self.start_mps();
        let world = PoolWorld { here: self.here()?, lead: None };
        match self.run_on(world, jobs, None)? {
            (_, Ending::Exit(exit)) => Ok(exit),
            // Without a pool, there is no member that could take over.
            (_, Ending::HandOver(_)) => Ok(Exit::Saved),
        }
    }

    /// Starts the MPS daemon if it is requested; without it, the runs still share their GPUs.
    pub(super) fn start_mps(&self) -> Option<MpsDaemon> {
        if !self.args.mps || self.args.dry_run {
            return None;
        }
        let started = match () {
            () if !self.target.devices.has_slots() => {
                Err("no GPU has slots, so no runs share one".to_owned())
            }
            () if self.target.devices.nodes().len() > 1 => Err("the allocation has several nodes".to_owned()),
            () => {
                let program = PathBuf::from(OWN_PROGRAM);
                MpsDaemon::start(&program, self.directory, self.target.member.as_ref())
            }
        };
        started.map_err(|why| self.context.note(&format!("runs without MPS: {why}"))).ok()
    }

    /// Returns the world of the available devices.
    pub(super) fn here(&self) -> Result<LocalWorld<'_>, Failure> {
        let inside = Some(self.target.launcher);
        let defaults = self.rules.defaults.clone();
        let site = ScriptContext { defaults, inside, ..state::site(self.context, &[])? };
        let (threads, member) = (self.target.threads, self.target.member.clone());
        let variables = self.mps.as_ref().map(MpsDaemon::variables).unwrap_or_default();
        let site = LocalSite { site, program: PathBuf::from(OWN_PROGRAM), threads, member, variables };
        let devices = self.target.devices.clone();
        Ok(LocalWorld::new(&self.context.clock, self.directory, site, devices, &self.waker))
    }

    /// Returns the policy; in a pool, no job spans several allocations.
    pub(super) fn policy(&self, is_pool: bool) -> Result<Box<dyn Policy>, Failure> {
        if !is_pool {
            return self.args.policy.find();
        }
        let group = |node: &NodeName| MemberId::of_node(node).map(|member| member.to_string());
        let group = move |node: &NodeName| group(node).unwrap_or_default();
        Ok(Box::new(PerGroup::new(self.args.policy.maker()?, group)))
    }

    /// Lets signals that ask for an end wake the turns instead of ending this process.
    pub(super) fn hear_signals(&self) -> Result<(), Failure> {
        let tell = self.waker.sender();
        on_endings(move |signal| drop(tell.send(Wake::Signal(signal))))
            .map_err(|error| Failure::from_error(Exit::Failed, &error))
    }
}
