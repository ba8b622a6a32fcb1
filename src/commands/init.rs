//! `hsched init`: writes an initial job file and settings for the cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::app::context::Context;
use crate::app::input::{self, ClusterArgs, ClusterWithNotes};
use crate::app::slurm;
use crate::app::slurm::permissions::accounts;
use crate::commands::cli::{Subcommand, print};
use crate::settings::Starter;
use hsched_model::formats::starter;
use hsched_model::{Cluster, ErrorId, GpuType, Partition};
use hsched_ui::{Exit, Failure, create_output, duration, make_folder, write_output};

/// Write a starter job file and settings file
///
/// The job file lists the GPU types of the cluster and has placeholders for all numbers. The settings file lists your
/// accounts and partitions. You can plan with both files unchanged. Without Slurm, `init` also writes an example
/// cluster file. If one of the files exists, it writes nothing; `--force` overwrites.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory to write to, or name of the job file; the other files go into the same directory [default: .].
    #[arg(value_name = "DIR|FILE")]
    target: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Write only a short job file for `hsched run` on this machine: a job needs a name and a command.
    #[arg(long, conflicts_with_all = ["cluster", "from"])]
    local: bool,
    /// Print the files instead of writing them.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    source: ClusterArgs,
}

/// Data about the environment.
#[derive(Default)]
struct SiteFindings {
    cluster: Cluster,
    accounts: Vec<String>,
    notes: Vec<String>,
    with_slurm: bool,
}

impl Subcommand for Args {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let known = if self.local { SiteFindings::default() } else { known(self, context)? };
        let (folder, job_file) = target(self.target.as_deref());
        let needs_cluster = !known.with_slurm && self.source.is_live();
        let mut files = Vec::new();
        if self.local {
            files.push((job_file.clone(), starter::LOCAL.to_owned()));
        } else {
            files.push((job_file.clone(), starter::jobs(&gpu_types(&known, needs_cluster))));
            files.push((folder.join("hsched.toml"), settings(&known).to_toml()));
        }
        if needs_cluster && !self.local {
            files.push((folder.join("cluster.yaml"), starter::CLUSTER.to_owned()));
        }
        let mut said = String::new();
        if self.dry_run {
            for (path, text) in &files {
                let _ = write!(said, "# ---- {}\n{text}\n", path.display());
            }
        } else {
            write(&files, &folder, self.force)?;
            for (path, _) in &files {
                let _ = writeln!(said, "wrote {}", path.display());
            }
            said.push_str(&next(self, context, &folder, &job_file, needs_cluster));
        }
        print(context, &said)?;
        known.notes.iter().for_each(|note| context.note(note));
        Ok(Exit::Done)
    }
}

/// Returns what Slurm or the file shows; a machine without Slurm is not an error.
fn known(args: &Args, context: &Context) -> Result<SiteFindings, Failure> {
    if !args.source.is_live() {
        let seen = input::cluster(context, &args.source)?;
        return Ok(SiteFindings { cluster: seen.cluster, notes: seen.notes, ..SiteFindings::default() });
    }
    let Some(ClusterWithNotes { cluster, mut notes }) = slurm::cluster_if_present(context)? else {
        let note =
            "Slurm is not available here: the cluster file is an example; replace it with your cluster";
        let local =
            "to run commands on this machine, a job needs only a name and a command: hsched init --local";
        return Ok(SiteFindings { notes: vec![note.into(), local.into()], ..SiteFindings::default() });
    };
    let accounts = accounts(context).unwrap_or_else(|error| {
        notes.push(format!("cannot read your accounts: {error}"));
        Vec::new()
    });
    if cluster.nodes.iter().all(|node| node.gpus.is_empty()) {
        notes.push(
            "no GPUs found: the GPU types in the job file are examples (`hsched doctor` shows more)".into(),
        );
    }
    Ok(SiteFindings { cluster, accounts, notes, with_slurm: true })
}

/// Returns the directory and the job file in it.
fn target(named: Option<&Path>) -> (PathBuf, PathBuf) {
    let named = named.unwrap_or(Path::new(""));
    let is_file = named.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    if is_file && !named.is_dir() {
        (named.parent().unwrap_or(Path::new("")).to_owned(), named.to_owned())
    } else {
        (named.to_owned(), named.join("jobs.yaml"))
    }
}

fn gpu_types(known: &SiteFindings, example: bool) -> Vec<GpuType> {
    let mut types: Vec<GpuType> =
        known.cluster.nodes.iter().flat_map(|node| &node.gpus).map(|stock| stock.gpu_type.clone()).collect();
    if example || types.is_empty() {
        types = starter::CLUSTER_TYPES.iter().filter_map(|name| GpuType::new(name)).collect();
    }
    types.sort();
    types.dedup();
    types
}

fn settings(known: &SiteFindings) -> Starter {
    let mut gpus: BTreeMap<String, u32> = BTreeMap::new();
    for stock in known.cluster.nodes.iter().flat_map(|node| &node.gpus) {
        *gpus.entry(stock.gpu_type.to_string()).or_default() += stock.total;
    }
    let partitions = &known.cluster.partitions;
    let with_gpus = |partition: &&Partition| !gpus_of(known, &partition.name).is_empty();
    // A partition is set only if the cluster's default has no GPUs or there is no default.
    let default_does =
        partitions.iter().filter(|partition| partition.default).any(|partition| with_gpus(&partition));
    let first = partitions.iter().find(with_gpus).map(|partition| partition.name.clone());
    Starter {
        accounts: known.accounts.clone(),
        partitions: partitions
            .iter()
            .map(|partition| (partition.name.clone(), about(known, partition)))
            .collect(),
        partition: first.filter(|_| !default_does),
        gpus,
    }
}

/// Summarises a partition's limits and GPUs.
fn about(known: &SiteFindings, partition: &Partition) -> String {
    let time = partition.max_time.map_or("no time limit".into(), |time| format!("up to {}", duration(time)));
    let gpus = gpus_of(known, &partition.name);
    let list: Vec<String> = gpus.iter().map(|(gpu_type, count)| format!("{count} {gpu_type}")).collect();
    let gpus = if list.is_empty() { "no GPUs".into() } else { list.join(", ") };
    format!("{}{time}; {gpus}", if partition.default { "the default, " } else { "" })
}

fn gpus_of(known: &SiteFindings, partition: &str) -> BTreeMap<GpuType, u32> {
    let mut gpus = BTreeMap::new();
    for stock in known
        .cluster
        .nodes
        .iter()
        .filter(|node| node.partitions.contains(partition))
        .flat_map(|node| &node.gpus)
    {
        *gpus.entry(stock.gpu_type.clone()).or_default() += stock.total;
    }
    gpus
}

/// Writes all files, or none if one exists and may not be replaced.
fn write(files: &[(PathBuf, String)], folder: &Path, force: bool) -> Result<(), Failure> {
    let existing: Vec<String> = files
        .iter()
        .filter(|(path, _)| path.symlink_metadata().is_ok())
        .map(|(path, _)| path.display().to_string())
        .collect();
    if !force && !existing.is_empty() {
        return Err(exists(&existing.join(", ")));
    }
    let wrong = |path: &Path, error: &std::io::Error| {
        Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
            .id(ErrorId::FileUnwritable)
    };
    make_folder(folder).map_err(|error| wrong(folder, &error))?;
    for (path, text) in files {
        let written = if force { write_output(path, text) } else { create_output(path, text) };
        written.map_err(|error| match error.kind() {
            // Another process created it first.
            ErrorKind::AlreadyExists => exists(&path.display().to_string()),
            _ => wrong(path, &error),
        })?;
    }
    Ok(())
}

fn exists(names: &str) -> Failure {
    Failure::new(Exit::Failed, format!("nothing was written, because these files exist: {names}"))
        .id(ErrorId::FileExists)
        .hint("overwrite with --force, print the files with --dry-run, or choose another directory")
}

/// Returns the next commands, adapted to the location of the files, because settings apply from their
/// directory down.
fn next(args: &Args, context: &Context, folder: &Path, job_file: &Path, example: bool) -> String {
    let quoted = |path: &Path| shell_words::quote(&path.display().to_string()).into_owned();
    let jobs = quoted(Path::new(job_file.file_name().unwrap_or_default()));
    let source = match args.source.flag() {
        _ if example => " --cluster cluster.yaml".to_owned(),
        Some((flag, path)) if folder.as_os_str().is_empty() || path == Path::new("-") => {
            format!(" {flag} {}", quoted(path))
        }
        Some((flag, path)) => format!(" {flag} {}", quoted(&context.directory.join(path))),
        None => String::new(),
    };
    let go = if folder.as_os_str().is_empty() || folder == Path::new(".") {
        String::new()
    } else {
        format!("  cd {}\n", quoted(folder))
    };
    // Without Slurm, jobs train on this machine.
    let last = if example {
        format!("hsched run {jobs}")
    } else {
        format!("hsched submit {jobs}{source} --dry-run")
    };
    if args.local {
        return format!(
            "\nreplace the command in {}, then run:\n{go}  hsched run {jobs}\n",
            quoted(job_file)
        );
    }
    format!(
        "\nreplace the values in {}, then run:\n{go}  hsched plan {jobs}{source}\n  {last}\n",
        quoted(job_file)
    )
}
