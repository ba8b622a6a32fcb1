//! `hsched generate trace`: generates a trace for `hsched simulate`.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::app::context::Context;
use crate::app::input::{self, ClusterArgs};
use crate::app::speeds::SpeedArgs;
use crate::commands::cli::Subcommand;
use crate::commands::generate::{Sync, Types, types};
use crate::commands::simulate::on_cluster;
use crate::commands::trace::{gavel_speeds, write, wrong};
use hsched_lab::generate::{self, ArrivalPattern, KnownJob, TraceRecipe, TraceRules};
use hsched_lab::trace::{self, TraceFile};
use hsched_model::formats;
use hsched_model::{ErrorId, GpuType, Job, Seconds};
use hsched_ui::{Exit, Failure};

/// Generate a random trace for `hsched simulate`, with the distributions of published studies
///
/// gavel: job types from a table of Gavel, with equal probability; 1, 2, 4 or 8 GPUs with probability 0.7, 0.1, 0.15
/// and 0.05; 10^U(1.5, 3) minutes on a V100, and 10^U(3, 4) for one job in five. paper: the models of the TPDS 2024
/// paper, 10 to 400 epochs, 1, 2 or 5 GPUs. heavy-tails: 1 minute to 30 days, where P(longer than x) is about x^-0.5,
/// and 1 to 16 GPUs. hare: eight models on K80, M60, T4 and V100, 5 to 50 epochs of 1 to 8 tasks (`sync_scale`),
/// weights from 1 to 5. The same options and seed give the same trace.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Rules that generate the jobs.
    #[arg(long, value_enum, value_name = "RULES", default_value_t)]
    rules: RuleName,
    /// Table of steps per second from Gavel (its JSON, or CSV), for --rules gavel.
    #[arg(long, value_name = "FILE", required_if_eq("rules", "gavel"))]
    throughputs: Option<PathBuf>,
    /// GPU types for --rules heavy-tails: a number, or names separated by commas. Types without a known speed need
    /// one, as in v100,l40s=1.4
    #[arg(long, value_name = "N|NAMES", default_value = "3", value_parser = types)]
    types: Types,
    /// Give every job of --rules gavel one GPU.
    #[arg(long)]
    single_gpu: bool,
    /// Limit all GPU types to the speed of this one, for --rules gavel. Most published results of Gavel use
    /// v100 here.
    #[arg(long, value_name = "TYPE", value_parser = formats::parse_type)]
    no_faster_than: Option<GpuType>,
    /// When ranks exchange gradients, for --rules paper.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    sync: Sync,
    /// Let jobs run on other numbers of GPUs than they request.
    #[arg(long)]
    mouldable: bool,
    /// Number of jobs.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: u32,
    /// Mean time between arrivals.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = formats::parse_duration)]
    gap: Seconds,
    /// Take arrival times, run times and numbers of GPUs from CSV with `submit_s`, `duration_s` and `num_gpus`, such
    /// as the Philly trace.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jobs", "gap"])]
    recorded: Option<PathBuf>,
    /// Scale the times between arrivals so that the jobs request this fraction of the cluster.
    #[arg(long, value_name = "LOAD", value_parser = load)]
    load: Option<f64>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write the trace to this file [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RuleName {
    /// Job types of Gavel.
    Gavel,
    /// Jobs of the TPDS 2024 paper.
    #[default]
    Paper,
    /// Heavy-tailed run times.
    HeavyTails,
    /// Jobs of Hare and HLAS.
    Hare,
}

impl Subcommand for Args {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let rules = match self.rules {
            RuleName::Gavel => {
                let path = self.throughputs.as_ref().ok_or_else(|| {
                    Failure::new(Exit::Usage, "--rules gavel needs --throughputs").id(ErrorId::OptionNeeds)
                })?;
                let mut speeds = gavel_speeds(path)?;
                if let Some(fastest) = &self.no_faster_than {
                    speeds.cap(fastest);
                }
                TraceRules::Gavel { speeds, single: self.single_gpu }
            }
            RuleName::Paper => TraceRules::Paper { sync: self.sync.when() },
            RuleName::Hare => TraceRules::Hare,
            RuleName::HeavyTails => TraceRules::HeavyTails { types: self.types.0.clone() },
        };
        let recipe =
            TraceRecipe { rules, arrivals: self.arrivals()?, mouldable: self.mouldable, seed: self.seed };
        let mut jobs = generate::trace(&recipe);
        if let Some(load) = self.load {
            self.spread(context, &mut jobs, load)?;
        }
        write(context, self.output.as_deref(), &formats::jobs::to_yaml(&jobs))
    }
}

impl Args {
    fn arrivals(&self) -> Result<ArrivalPattern, Failure> {
        let Some(path) = &self.recorded else {
            return Ok(ArrivalPattern::Poisson { jobs: self.jobs, gap: self.gap });
        };
        let read =
            trace::philly(&input::text(path)?, &GpuType::untyped()).map_err(|error| wrong(path, &error))?;
        if let Some(bad) = read.bad.first() {
            return Err(
                Failure::new(Exit::BadInput, format!("{}: {bad}", input::name(path))).id(ErrorId::SpeedsFile)
            );
        }
        let mut records = read.entries;
        records.sort_by(|a, b| a.arrival.total_cmp(&b.arrival));
        let first = records.first().map_or(0.0, |recorded| recorded.arrival);
        let course = |recorded: trace::RecordedJob| KnownJob {
            arrival: Seconds(recorded.arrival - first),
            length: Seconds(recorded.seconds),
            gpus: recorded.gpus,
        };
        Ok(ArrivalPattern::Recorded(records.into_iter().map(course).collect()))
    }

    /// Scales the arrivals so that the jobs request a fraction of the cluster.
    fn spread(&self, context: &Context, jobs: &mut [Job], load: f64) -> Result<(), Failure> {
        let file = TraceFile { now: Seconds(0.0), jobs: jobs.to_vec() };
        let now = on_cluster(context, &file, &self.cluster, &SpeedArgs::of_files())?.load().ok_or_else(|| {
            let message = "cannot scale the load: all jobs of the trace arrive at once, or none can run on this cluster";
            Failure::new(Exit::BadInput, message).id(ErrorId::TraceFile)
        })?;
        for job in jobs {
            job.arrival = Seconds((job.arrival.0 * now / load * 10.0).round() / 10.0);
        }
        Ok(())
    }
}

fn load(text: &str) -> Result<f64, String> {
    let number = formats::parse_number(text).map_err(|error| error.to_string())?;
    if (0.001..=1000.0).contains(&number) { Ok(number) } else { Err("must be from 0.001 to 1000".to_owned()) }
}
