//! `hsched logs SWEEP`: the outputs of all runs of a sweep, one after another.

use crate::app::context::Context;
use crate::app::patterns::is_meant;
use crate::app::printed::{latest, submissions};
use crate::commands::logs::{Args, LogOutput, unreadable};
use hsched_engine::{JobState, State};
use hsched_ui::{Exit, Failure};

impl Args {
    /// Returns the runs of the sweep with this name, or the runs that match the pattern.
    pub(super) fn runs<'a>(&self, state: &'a State) -> Vec<&'a JobState> {
        let is_one = |tracked: &&JobState| {
            let of_sweep =
                tracked.job.variant.as_ref().is_some_and(|variant| is_meant(&self.job, &variant.sweep));
            of_sweep || is_meant(&self.job, tracked.job.name.as_str())
        };
        state.jobs.iter().filter(is_one).collect()
    }

    /// Prints the output of the latest submission of each run, under a line with the path of its file.
    pub(super) fn of_runs(&self, context: &Context, runs: &[&JobState]) -> Result<Exit, Failure> {
        let of_one = [
            ("--follow", self.follow),
            ("--run", self.of_run.is_some()),
            ("--task", self.task.is_some()),
            ("--attempt", self.attempt.is_some()),
        ];
        if let Some((flag, _)) = of_one.iter().find(|(_, is_given)| *is_given) {
            let message = format!("{flag} is for one job, and {} has {} runs", self.job, runs.len());
            return Err(Failure::new(Exit::Usage, message).hint("name one of them: hsched status lists them"));
        }
        let mut output = LogOutput { context, several: true, shown: None };
        let mut not_started = 0;
        for tracked in runs {
            let all = submissions(context, tracked)?;
            let Some(printed) = latest(tracked, &all).filter(|printed| printed.has_begun) else {
                not_started += 1;
                continue;
            };
            for mut part in printed.parts.clone() {
                if !part.exists() {
                    context.note(&format!("{}: {} does not exist", tracked.job.name, part.path.display()));
                    continue;
                }
                if let Some(lines) = self.tail {
                    part.skip_to_last(lines).map_err(|error| unreadable(&part, &error))?;
                }
                if !output.pass_on(&mut part)? {
                    return Ok(Exit::Done);
                }
            }
        }
        if not_started > 0 {
            context.note(&format!("{not_started} of {} runs have not started yet", runs.len()));
        }
        Ok(Exit::Done)
    }
}
