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
        let first = [
            (self.round.is_some(), "--round"),
            (self.rounds.is_some(), "--rounds"),
            (self.restart_cost.is_some() || varies_cost, "--restart-cost"),
        ];
        first_given(first.into_iter().chain(self.flags_of_both()))
    }

    /// Returns a given flag that has no effect on task graphs, if there is one.
    pub(super) fn flag_of_jobs(&self) -> Option<&'static str> {
        let first = [
            (self.objective.objective != Objective::default(), "--objective"),
            (self.execution.execution != Execution::default(), "--execution"),
            (!self.sweep.is_empty(), "--sweep"),
        ];
        let last = [
            (self.bound, "--bound"),
            (self.certificate, "--certificate"),
            (self.format == SimulationFormat::Csv, "--format csv"),
        ];
        first_given(first.into_iter().chain(self.flags_of_both()).chain(last))
    }

    /// Returns the flags that have no effect in either kind of replay, and whether they are given.
    fn flags_of_both(&self) -> [(bool, &'static str); 6] {
        [
            (self.has_noise(), "--noise"),
            (self.queue_wait.is_some(), "--queue-wait"),
            (self.lose != Loses::Nothing, "--lose"),
            (self.repack != Repacking::Full, "--repack"),
            (self.job_failures.is_some(), "--job-failures"),
            (self.node_failures.is_some(), "--node-failures"),
        ]
    }

    fn has_noise(&self) -> bool {
        self.noise > 0.0 || self.varies(|axis| matches!(axis, SweepAxis::Noise(_)))
    }

    fn varies(&self, is_it: impl Fn(&SweepAxis) -> bool) -> bool {
        self.sweep.iter().any(is_it)
    }
}

/// Returns the first flag that is given.
fn first_given(flags: impl IntoIterator<Item = (bool, &'static str)>) -> Option<&'static str> {
    flags.into_iter().find(|(is_given, _)| *is_given).map(|(_, flag)| flag)
}
