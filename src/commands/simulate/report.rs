//! The report of a simulation: its recorded events and their evaluation.

use serde_json::{Map, Value};

use hsched_lab::replay::{ReplayEvent, Trace};
use hsched_ui::SimulationResult;
use hsched_ui::report::{Recorder, Report, simulation_report, sweep_points};

/// The events under each policy, one policy after the other.
pub(super) struct PolicyRecorders<'a> {
    trace: &'a Trace,
    recorders: Vec<(String, Recorder<'a>)>,
}

impl<'a> PolicyRecorders<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        Self { trace, recorders: Vec::new() }
    }

    pub(super) fn add(&mut self, policy: &str, event: &ReplayEvent) {
        if self.recorders.last().is_none_or(|(name, _)| name != policy) {
            self.recorders.push((policy.to_owned(), Recorder::new(self.trace)));
        }
        if let Some((_, recorder)) = self.recorders.last_mut() {
            recorder.add(event);
        }
    }

    /// Returns the report of these runs; of a sweep, only the points.
    pub(super) fn report(
        self,
        runs: &[SimulationResult],
        parameters: Map<String, Value>,
        is_sweep: bool,
    ) -> Report {
        let (mut report, mut timeline) = simulation_report(self.trace);
        report.parameters = parameters;
        if is_sweep {
            report.points = sweep_points(runs);
            return report;
        }
        let mut recorders = self.recorders.into_iter().peekable();
        for run in runs {
            let recorder = recorders.next_if(|(name, _)| *name == run.policy);
            let recorder = recorder.map_or_else(|| Recorder::new(self.trace), |(_, recorder)| recorder);
            report.runs.push(recorder.run(run, &mut timeline));
        }
        report.gpus = timeline.gpus().to_vec();
        report
    }
}
