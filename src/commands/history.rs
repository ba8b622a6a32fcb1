//! `hsched history`: resources used by the jobs of a state directory, including forgotten ones.

use crate::app::completions;
use crate::app::context::{Context, Format};
use crate::app::report::ReportArgs;
use crate::app::tags::TagArgs;
use crate::app::{deferred_commands, pools, speeds, state};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::history_report::{ReportContext, history_report};
use crate::commands::results::{meant, warn_of_damage};
use hsched_engine::store::{Predictions, Results};
use hsched_ui::{Exit, Failure, HistoryRow, history_json, history_table};

/// Show what jobs have used: GPU hours, those idle and lost to restarts, energy, RGU-hours
///
/// One row per job, also of jobs that ended long ago, and a row for all. Time in the queue does not count.
/// LOST is the GPU time of submissions that another one followed, without the epochs that they finished.
/// Energy marked with ~ is nominal power times time. Unknown values are shown as -. Does not call Slurm.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Names of sweeps (the name of the job in the job file) or of jobs. A * matches any text. Default: all jobs.
    #[arg(value_name = "JOB", add = completions::past_jobs())]
    names: Vec<String>,
    #[command(flatten)]
    tags: TagArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    report: ReportArgs,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        pools::or_in_pool(context, &self.names, |context| self.show(context))
    }
}

impl Args {
    fn show(&self, context: &Context) -> Result<Exit, Failure> {
        let (root, now) = (state::root(context)?, state::now(context));
        let known = deferred_commands::expected(context, &state::rules(context))?;
        let wants_report = self.report.is_given()?;
        let results = Results::read(&root, &known, now).map_err(|error| state::failure(&error))?;
        let Results { runs, curves, damaged } = results;
        warn_of_damage(context, &root, &damaged);
        let rows: Vec<HistoryRow> = meant(runs, &self.names, &self.tags, "hsched history")?
            .into_iter()
            .map(|run| HistoryRow::new(run, now))
            .collect();
        let slow = known.node_times.slow(now);
        if wants_report {
            let predicted = Predictions::of(&root).known(&known, now);
            let speeds = speeds::load(context)?.cache;
            self.report.write(history_report(
                &rows,
                &ReportContext { speeds: &speeds, curves, predicted, slow: &slow, root, now },
            ))?;
        }
        let text = match self.format {
            Format::Json => json_text(&history_json(&rows, &slow, now))?,
            Format::Table if rows.is_empty() => {
                context.note("there are no jobs yet: hsched submit, hsched add or hsched run start some");
                String::new()
            }
            Format::Table => history_table(&rows, &slow, now, context.terminal),
        };
        print(context, &text).map(|()| Exit::Done)
    }
}
