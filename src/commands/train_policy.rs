//! `hsched train-policy`: trains a network for the policy `mlf-rl` on replays.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::input::{self, ClusterArgs};
use crate::app::speeds::SpeedArgs;
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::simulate::on_cluster;
use crate::settings::CommandLineSetting;
use hsched_lab::learning::{NetTraining, ScheduleScore, TrainingResult, of_policy, train};
use hsched_lab::mlfs::text_of;
use hsched_lab::replay::{ReplayError, Trace};
use hsched_lab::trace;
use hsched_model::{ErrorId, Seconds};
use hsched_ui::{Align, Exit, Failure, ProgressLine, Table, duration, write_output};

/// Train a neural network that chooses which job gets GPUs next, for the policy mlf-rl
///
/// The network first imitates mlf-h, then learns from the results of its own choices: completion times and met
/// deadlines. Every fifth trace is held out. hsched writes the network that does best on the held-out traces, and
/// compares it there with mlf-h and with the shortest job first (srtf). The same files and seed give the same
/// network, bit for bit.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory of traces: all .yaml, .yml, .json and .csv files in it.
    #[arg(long, value_name = "DIR")]
    traces: PathBuf,
    /// Directory of cluster files (.yaml or .yml); the traces use them in turn.
    #[arg(long, value_name = "DIR")]
    clusters: PathBuf,
    /// File for the network; an existing file is replaced.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Number of passes over the traces, with eight runs of each trace in a pass; 0 only imitates mlf-h.
    #[arg(long, value_name = "N", default_value_t = 10)]
    passes: u32,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Check the traces and clusters, without training or writing.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    speeds: SpeedArgs,
}

/// One trace in this many is held out.
const HELD_OUT: usize = 5;

/// The policies that a network has to beat.
const RIVALS: [&str; 2] = ["mlf-h", "srtf"];

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn flags(&self) -> Vec<CommandLineSetting> {
        self.speeds.flags()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let (traces, held_out) = self.traces(context)?;
        if self.dry_run {
            return self.print_intent(context, traces.len(), held_out.len());
        }
        let training = NetTraining { seed: self.seed, passes: self.passes, ..NetTraining::default() };
        let progress = ProgressLine::start(format!("training on {} traces", traces.len()));
        let mut said = |pass: u32, score: ScheduleScore| {
            progress.say(format!(
                "pass {pass} of {}: mean JCT {} on the held-out traces",
                self.passes,
                duration(Seconds(score.mean_jct))
            ));
        };
        let trained = train(&traces, &held_out, &training, &mut said).map_err(|error| failed(&error))?;
        drop(progress);
        let mut rows: Vec<(String, ScheduleScore)> = Vec::new();
        for name in RIVALS {
            let score = of_policy(&held_out, name).map_err(|error| failed(&error))?;
            rows.push((name.to_owned(), score));
        }
        rows.push(("imitates mlf-h".to_owned(), trained.imitated));
        rows.push(("mlf-rl".to_owned(), trained.best));
        let text = text_of(&trained.net).map_err(|error| Failure::from_error(Exit::Internal, &error))?;
        write_output(&self.output, text).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot write {}: {error}", self.output.display()))
                .id(ErrorId::FileUnwritable)
        })?;
        let text = match self.format {
            Format::Json => json_text(&self.json(&rows, &trained, traces.len(), held_out.len()))?,
            Format::Table => self.table(context, &rows, &trained, (traces.len(), held_out.len())),
        };
        print(context, &text)?;
        Ok(Exit::Done)
    }
}

impl Args {
    /// Prints what a real run would do.
    fn print_intent(&self, context: &Context, traces: usize, held_out: usize) -> Result<Exit, Failure> {
        let text = match self.format {
            Format::Json => json_text(&json!({
                "schema": "hsched.training/1", "dry_run": true, "seed": self.seed, "traces": traces, "held_out": held_out,
            }))?,
            Format::Table => format!(
                "would train on {traces} traces, compare on {held_out} others and write {}\nno file was written (--dry-run)\n",
                self.output.display()
            ),
        };
        print(context, &text)?;
        Ok(Exit::Done)
    }

    /// Returns the training traces and the held-out ones.
    fn traces(&self, context: &Context) -> Result<(Vec<Trace>, Vec<Trace>), Failure> {
        let files = input::folder(&self.traces, &["yaml", "yml", "json", "csv"])?;
        let clusters = input::folder(&self.clusters, &["yaml", "yml"])?;
        if files.len() < 2 {
            let failure =
                Failure::new(Exit::BadInput, format!("{}: needs at least two traces", self.traces.display()))
                    .id(ErrorId::TraceFile);
            return Err(failure.hint("hsched tests the network on traces that it was not trained on"));
        }
        let (mut training, mut held_out) = (Vec::new(), Vec::new());
        for (number, path) in files.iter().enumerate() {
            let file = trace::parse(&input::text(path)?).map_err(|error| {
                Failure::new(Exit::BadInput, format!("{}: {error}", path.display())).id(ErrorId::TraceFile)
            })?;
            let cluster = ClusterArgs::of_file(clusters[number % clusters.len()].clone());
            let trace = on_cluster(context, &file, &cluster, &self.speeds)?;
            let is_out = (number + 1) % HELD_OUT == 0 || number + 1 == files.len() && held_out.is_empty();
            if is_out { held_out.push(trace) } else { training.push(trace) }
        }
        Ok((training, held_out))
    }

    fn json(
        &self,
        rows: &[(String, ScheduleScore)],
        trained: &TrainingResult,
        learnt: usize,
        held_out: usize,
    ) -> Value {
        let row = |(name, score): &(String, ScheduleScore)| json!({ "policy": name, "mean_jct_s": score.mean_jct, "deadlines_met": score.met, "reward": score.reward });
        json!({
            "schema": "hsched.training/1",
            "dry_run": false,
            "seed": self.seed,
            "traces": learnt,
            "held_out": held_out,
            "pass": trained.pass,
            "beats_all": beats(rows),
            "policies": rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    fn table(
        &self,
        context: &Context,
        rows: &[(String, ScheduleScore)],
        trained: &TrainingResult,
        counts: (usize, usize),
    ) -> String {
        let mut table = Table::new(&[
            ("POLICY", Align::Left),
            ("MEAN JCT", Align::Right),
            ("DEADLINES", Align::Right),
            ("REWARD", Align::Right),
        ]);
        for (name, score) in rows {
            let met = format!("{:.1} %", 100.0 * score.met);
            table.row([name.clone(), duration(Seconds(score.mean_jct)), met, format!("{:.4}", score.reward)]);
        }
        let terminal = context.terminal;
        let (learnt, held_out) = counts;
        let verdict = if beats(rows) {
            "the network is better than mlf-h and srtf"
        } else {
            "the network is not better than both mlf-h and srtf: use the better of those two"
        };
        format!(
            "trained on {learnt} traces; results on {held_out} others (best after pass {} of {}):\n\n{}\n{verdict}\nwrote {}\n",
            trained.pass,
            self.passes,
            table.show(terminal),
            self.output.display()
        )
    }
}

/// Returns whether the last row has a lower mean and no fewer deadlines met than the rivals.
fn beats(rows: &[(String, ScheduleScore)]) -> bool {
    let Some((_, score)) = rows.last() else { return false };
    rows.iter().take(RIVALS.len()).all(|(_, other)| score.mean_jct < other.mean_jct && score.met >= other.met)
}

fn failed(error: &ReplayError) -> Failure {
    Failure::from_error(Exit::Failed, error).id(ErrorId::PolicyUnfit)
}
