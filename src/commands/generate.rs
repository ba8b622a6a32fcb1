//! `hsched generate`: generates a cluster, and jobs for it.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::generate_trace;
use hsched_lab::generate::{self, GpuSpeed, Recipe, SyncEvery};
use hsched_model::formats;
use hsched_model::{BitRate, ErrorId, GpuType};
use hsched_ui::{Exit, Failure, make_folder, write_output};

/// Generate a random cluster and random jobs, to try or benchmark hsched
///
/// Writes cluster.yaml and jobs.yaml; plan them with `hsched plan jobs.yaml --cluster cluster.yaml`. The same options
/// and seed give the same files.
///
/// The speed of a job on a GPU type is base * speed^e, within 10 %. base is between 60 and 2000 samples per second, e
/// is between 0.4 and 1.15, and speed is the training speed of the type relative to a V100: v100 1, p100 0.71, t4
/// 0.49, a100 1.9, h100 3.35, a10 0.77 (from Lambda's figures for ResNet-50 in fp16 where published). Jobs train 3 to
/// 200 epochs of 36718 to 1281167 samples with global batches of 128 to 1024, and exchange gradients of 3 MB to 1 GB.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Directory to write to; created if needed.
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,
    /// Number of GPUs in the cluster.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    gpus: u32,
    /// GPUs per node; the last node gets the remainder.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1024))]
    gpus_per_node: u32,
    /// Number of GPU types, or their names separated by commas. Types not listed above need a speed, as in
    /// v100,l40s=1.4
    #[arg(long, value_name = "N|NAMES", default_value = "3", value_parser = types)]
    types: Types,
    /// Put two GPU types into each node.
    #[arg(long)]
    mixed: bool,
    /// Number of jobs.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    jobs: u32,
    /// When ranks exchange gradients.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    sync: Sync,
    /// Also generate fixed step costs, limits on GPU counts and types, memory limits, overlap and weights.
    #[arg(long)]
    rich: bool,
    /// Bandwidth between nodes, in Gbit/s.
    #[arg(long, value_name = "RATE", default_value = "25", value_parser = rate)]
    network_gbps: BitRate,
    /// Bandwidth between the GPUs of a node, in Gbit/s.
    #[arg(long, value_name = "RATE", default_value = "300", value_parser = rate)]
    intra_node_gbps: BitRate,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Print the files instead of writing them.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Other {
    Trace(generate_trace::Args),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Sync {
    /// After each global batch.
    #[default]
    Step,
    /// Once per epoch.
    Epoch,
}

/// The GPU types of `--types`.
#[derive(Clone, Debug)]
pub(super) struct Types(pub Vec<GpuSpeed>);

/// A generated file.
struct GeneratedFile {
    name: &'static str,
    /// Description of the file's content.
    content: String,
    text: String,
}

impl Sync {
    pub(super) fn when(self) -> SyncEvery {
        match self {
            Self::Step => SyncEvery::Step,
            Self::Epoch => SyncEvery::Epoch,
        }
    }
}

impl Args {
    fn recipe(&self) -> Recipe {
        Recipe {
            gpus: self.gpus,
            gpus_per_node: self.gpus_per_node,
            types: self.types.0.clone(),
            mixed: self.mixed,
            network: self.network_gbps,
            intra_node: self.intra_node_gbps,
            jobs: self.jobs,
            sync: self.sync.when(),
            rich: self.rich,
            seed: self.seed,
        }
    }

    /// Returns the command that generates the same files again.
    fn command(&self) -> String {
        let known = GpuSpeed::known();
        let name = |speed: &GpuSpeed| {
            if known.contains(speed) {
                speed.gpu_type.to_string()
            } else {
                format!("{}={}", speed.gpu_type, speed.speed)
            }
        };
        let types: Vec<String> = self.types.0.iter().map(name).collect();
        let sync = self.sync.to_possible_value();
        let mut command = format!(
            "hsched generate --gpus {} --gpus-per-node {} --types {} --jobs {} --sync {} --network-gbps {} \
             --intra-node-gbps {} --seed {}",
            self.gpus,
            self.gpus_per_node,
            types.join(","),
            self.jobs,
            sync.as_ref().map_or("", |value| value.get_name()),
            self.network_gbps.gigabits_per_second(),
            self.intra_node_gbps.gigabits_per_second(),
            self.seed
        );
        for (given, flag) in [(self.mixed, " --mixed"), (self.rich, " --rich")] {
            command.push_str(if given { flag } else { "" });
        }
        command
    }
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if let Some(Other::Trace(args)) = &self.other {
            return args.run(context);
        }
        let files = make(self)?;
        if self.dry_run {
            if self.format == Format::Table {
                let text: Vec<&str> = files.iter().map(|file| file.text.as_str()).collect();
                print(context, &text.join("---\n"))?;
            }
        } else {
            write(self, context, &files)?;
        }
        if self.format == Format::Json {
            let file = |file: &GeneratedFile| {
                let path = path(self, file.name);
                json!({ "path": path, "text": self.dry_run.then_some(&file.text) })
            };
            let files: Vec<Value> = files.iter().map(file).collect();
            let value = json!({ "schema": "hsched.generate/1", "command": self.command(), "files": files });
            print(context, &json_text(&value)?)?;
        }
        Ok(Exit::Done)
    }
}

/// Returns the cluster file and the job file.
fn make(args: &Args) -> Result<[GeneratedFile; 2], Failure> {
    let recipe = args.recipe();
    let cluster = generate::cluster(&recipe).map_err(|error| {
        Failure::from_error(Exit::Usage, &error)
            .id(ErrorId::OptionsConflict)
            .hint("increase --gpus, or reduce --types or --gpus-per-node")
    })?;
    let head = |what: &str| format!("# {what}, generated by:\n# {}\n", args.command());
    let count = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let gpus = count(args.gpus as usize, "GPU");
    let content =
        format!("{gpus} of {} in {}", count(recipe.types.len(), "type"), count(cluster.nodes.len(), "node"));
    let cluster = GeneratedFile {
        name: "cluster.yaml",
        text: head("A cluster") + &formats::cluster::to_yaml(&cluster),
        content,
    };
    let jobs = generate::jobs(&recipe);
    let jobs = GeneratedFile {
        name: "jobs.yaml",
        content: count(jobs.len(), "job"),
        text: head("Jobs") + &formats::jobs::to_yaml(&jobs),
    };
    Ok([cluster, jobs])
}

/// Writes both files, or, without `--force`, none if one exists.
fn write(args: &Args, context: &Context, files: &[GeneratedFile]) -> Result<(), Failure> {
    for file in files {
        let path = path(args, file.name);
        if !args.force && context.directory.join(&path).symlink_metadata().is_ok() {
            let message = format!("{} already exists; nothing was written", path.display());
            return Err(Failure::new(Exit::Failed, message)
                .id(ErrorId::FileExists)
                .hint("choose another directory, or overwrite with --force"));
        }
    }
    for file in files {
        let path = path(args, file.name);
        let target = context.directory.join(&path);
        let folder = target.parent().map_or(Ok(()), make_folder);
        folder.and_then(|()| write_output(&target, &file.text)).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
                .id(ErrorId::FileUnwritable)
        })?;
        if args.format == Format::Table {
            print(context, &format!("{}: {}\n", path.display(), file.content))?;
        }
    }
    Ok(())
}

/// Returns a file's path as the user would write it.
fn path(args: &Args, name: &str) -> PathBuf {
    if args.directory == Path::new(".") { PathBuf::from(name) } else { args.directory.join(name) }
}

pub(super) fn types(text: &str) -> Result<Types, String> {
    let known = GpuSpeed::known();
    if let Ok(count) = text.parse::<usize>() {
        if !(1..=known.len()).contains(&count) {
            return Err(format!(
                "give a number from 1 to {}, or names; give unknown types a speed",
                known.len()
            ));
        }
        return Ok(Types(known.into_iter().take(count).collect()));
    }
    let mut types: Vec<GpuSpeed> = Vec::new();
    for entry in text.split(',') {
        let speed = one_type(entry, &known)?;
        if types.iter().any(|other| other.gpu_type == speed.gpu_type) {
            return Err(format!("{} is named twice", speed.gpu_type));
        }
        types.push(speed);
    }
    Ok(Types(types))
}

fn one_type(entry: &str, known: &[GpuSpeed]) -> Result<GpuSpeed, String> {
    if entry.is_empty() {
        return Err("a name is missing between commas".to_owned());
    }
    if let Some((name, speed)) = entry.split_once('=') {
        let gpu_type = GpuType::new(name).ok_or_else(|| format!("{name:?} is not a GPU type"))?;
        let speed: f64 = speed.parse().map_err(|_| format!("{speed:?} is not a number"))?;
        if !(1e-3..=1e3).contains(&speed) {
            return Err(format!("{name}: the speed relative to a V100 must be from 0.001 to 1000"));
        }
        return Ok(GpuSpeed { gpu_type, speed, memory: None });
    }
    let found = known.iter().find(|speed| speed.gpu_type.as_str() == entry);
    found.cloned().ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|speed| speed.gpu_type.as_str()).collect();
        format!(
            "the speed of {entry:?} is not known; write {entry}=SPEED, or use one of {}",
            names.join(", ")
        )
    })
}

fn rate(text: &str) -> Result<BitRate, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    BitRate::new(number).ok_or_else(|| "must be above 0 and finite".to_owned())
}
