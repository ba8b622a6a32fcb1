//! Flags that have no effect in some replays, which are refused there.

use crate::commands::simulate::Args;
use crate::commands::simulate::execution::Execution;
use crate::commands::simulate::output::SimulationFormat;
use crate::commands::simulate::sweep::SweepAxis;
use hsched_lab::replay::Loses;
use hsched_plan::{Objective, Repacking};

impl Args {
    /// Returns a given flag that has no effect in a replay of single tasks, if there is one.
    pub(super) fn flag_of_gangs(&self) -> Option<&'static str> {
        let varies_cost = self.varies(|axis| matches!(axis, SweepAxis::RestartCost(_)));
        first_given(&[
            (self.round.is_some(), "--round"),
            (self.rounds.is_some(), "--rounds"),
            (self.restart_cost.is_some() || varies_cost, "--restart-cost"),
            (self.has_noise(), "--noise"),
            (self.queue_wait.is_some(), "--queue-wait"),
            (self.lose != Loses::Nothing, "--lose"),
            (self.repack != Repacking::Full, "--repack"),
            (self.job_failures.is_some(), "--job-failures"),
            (self.node_failures.is_some(), "--node-failures"),
        ])
    }

    /// Returns a given flag that has no effect on task graphs, if there is one.
    pub(super) fn flag_of_jobs(&self) -> Option<&'static str> {
        first_given(&[
            (self.objective.objective != Objective::default(), "--objective"),
            (self.execution.execution != Execution::default(), "--execution"),
            (!self.sweep.is_empty(), "--sweep"),
            (self.has_noise(), "--noise"),
            (self.queue_wait.is_some(), "--queue-wait"),
            (self.lose != Loses::Nothing, "--lose"),
            (self.repack != Repacking::Full, "--repack"),
            (self.job_failures.is_some(), "--job-failures"),
            (self.node_failures.is_some(), "--node-failures"),
            (self.bound, "--bound"),
            (self.certificate, "--certificate"),
            (self.format == SimulationFormat::Csv, "--format csv"),
        ])
    }

    fn has_noise(&self) -> bool {
        self.noise > 0.0 || self.varies(|axis| matches!(axis, SweepAxis::Noise(_)))
    }

    fn varies(&self, is_it: impl Fn(&SweepAxis) -> bool) -> bool {
        self.sweep.iter().any(is_it)
    }
}

/// Returns the first flag that is given.
fn first_given(flags: &[(bool, &'static str)]) -> Option<&'static str> {
    flags.iter().find(|(given, _)| *given).map(|(_, flag)| *flag)
}
