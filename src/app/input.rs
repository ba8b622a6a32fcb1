//! The input files and commands: cluster, jobs, plan, templates; each error names its file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::app::context::Context;
use crate::app::file_kind;
use crate::app::slurm::{self, SavedClusterArgs};
use hsched_engine::render::Template;
use hsched_model::formats;
use hsched_model::{Cluster, ErrorId, Job};
use hsched_ui::{Exit, Failure};

/// The byte order mark, which some editors and shells add before the text of a file.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Maximum length of an input file in bytes: a mistyped path to a data set must not fill the memory.
const LENGTH_LIMIT: u64 = 256 << 20;

/// The source of the cluster.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Read a cluster file instead of asking Slurm.
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    #[command(flatten)]
    saved: SavedClusterArgs,
}

impl ClusterArgs {
    /// Returns the arguments for a cluster file.
    pub(crate) fn of_file(path: PathBuf) -> Self {
        Self { cluster: Some(path), saved: SavedClusterArgs::default() }
    }

    /// Returns the name of the file with the cluster; `None` if Slurm is called.
    pub(crate) fn name(&self) -> Option<String> {
        self.cluster.as_deref().or(self.saved.path()).map(name)
    }

    /// Returns whether Slurm is called.
    pub(crate) fn is_live(&self) -> bool {
        self.cluster.is_none() && self.saved.path().is_none()
    }

    /// Returns the flag with the file's path, and the path.
    pub(crate) fn flag(&self) -> Option<(&'static str, &Path)> {
        let cluster = self.cluster.as_deref().map(|path| ("--cluster", path));
        cluster.or(self.saved.path().map(|path| ("--from", path)))
    }
}

/// A cluster, with notes on unexpected data.
pub(crate) struct ClusterWithNotes {
    pub cluster: Cluster,
    pub notes: Vec<String>,
}

/// Returns the cluster of a file, or the one reported by Slurm.
///
/// Missing rates are taken from the settings.
///
/// # Errors
/// If the file is invalid (exit 78) or Slurm does not answer (exit 69).
pub(crate) fn cluster(context: &Context, args: &ClusterArgs) -> Result<ClusterWithNotes, Failure> {
    let seen = match (&args.cluster, args.saved.read()) {
        (Some(path), _) => cluster_file(&text(path)?, path)?,
        (None, Some(saved)) => saved?,
        (None, None) => return slurm::cluster(context),
    };
    Ok(slurm::completed(seen, context))
}

/// Parses a cluster file.
///
/// # Errors
/// All problems of the file (exit 78).
pub(crate) fn cluster_file(text: &str, path: &Path) -> Result<ClusterWithNotes, Failure> {
    let cluster =
        formats::cluster::parse(text).map_err(|problems| Failure::from_problems(&problems, &name(path)))?;
    Ok(ClusterWithNotes { cluster, notes: Vec::new() })
}

/// Returns the jobs of a job file's text.
///
/// # Errors
/// All problems of the file (exit 78).
pub(crate) fn jobs(text: &str, path: &Path) -> Result<Vec<Job>, Failure> {
    formats::jobs::parse(text).map_err(|problems| {
        let failure = || Failure::from_problems(&problems, &name(path));
        file_kind::of_script(text, path).unwrap_or_else(failure)
    })
}

/// Returns the template of job scripts and their helper: the built-in texts, or those of the settings' directory.
///
/// # Errors
/// If the directory does not exist, a file in it cannot be read, or it has the helper of an earlier version.
pub(crate) fn template(context: &Context) -> Result<Template, Failure> {
    let mut template = Template::default();
    let Some(directory) = &context.settings.templates else { return Ok(template) };
    if !directory.is_dir() {
        let message = format!("templates: {} is not a directory", directory.display());
        return Err(Failure::new(Exit::BadInput, message).id(ErrorId::Template));
    }
    let replacement = |file: &str| {
        let path = directory.join(file);
        path.exists().then(|| text(&path)).transpose()
    };
    if let Some(text) = replacement("job.sh.j2")? {
        template.name = directory.join("job.sh.j2").display().to_string();
        template.job = text;
    }
    template.rank_functions = replacement("rank.sh")?.unwrap_or(template.rank_functions);
    template.fence_functions = replacement("fence.sh")?.unwrap_or(template.fence_functions);
    template.sample_functions = replacement("samples.sh")?.unwrap_or(template.sample_functions);
    template.start_functions = replacement("start.sh")?.unwrap_or(template.start_functions);
    template.batch_functions = replacement("batch.sh")?.unwrap_or(template.batch_functions);
    template.end_functions = replacement("ends.sh")?.unwrap_or(template.end_functions);
    template.preflight_functions = replacement("preflight.sh")?.unwrap_or(template.preflight_functions);
    let single = directory.join("hsched_ddp.py");
    if single.exists() {
        let message = format!("{}: the training helper is a package of several files", single.display());
        let hint =
            "put the files that you changed into the directory hsched_ddp beside it, and remove this one";
        return Err(Failure::new(Exit::BadInput, message).id(ErrorId::Template).hint(hint));
    }
    for helper in &mut template.helpers {
        helper.1 = replacement(helper.0)?.unwrap_or_else(|| std::mem::take(&mut helper.1));
    }
    Ok(template)
}

/// Returns the files in a folder with one of these extensions, by name.
///
/// # Errors
/// If it cannot be read or contains none.
pub(crate) fn folder(path: &Path, endings: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |what: String| {
        Failure::new(Exit::BadInput, format!("{}: {what}", path.display())).id(ErrorId::FileUnreadable)
    };
    let entries = std::fs::read_dir(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let ends = |file: &PathBuf| {
        file.extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|ending| endings.contains(&ending))
            && file.is_file()
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(ends).collect();
    files.sort();
    if files.is_empty() {
        return Err(wrong(format!("contains no files that end in {}", endings.join(", "))));
    }
    Ok(files)
}

/// Returns a file's text; `-` is standard input.
///
/// # Errors
/// If it cannot be read, is too long or is not UTF-8 (exit 78).
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    text_of(raw_bytes(path)?, path)
}

/// Returns a file's content as text, without a byte order mark.
///
/// # Errors
/// If it is not UTF-8 (exit 78).
pub(crate) fn text_of(bytes: Vec<u8>, path: &Path) -> Result<String, Failure> {
    String::from_utf8(without_mark(bytes)).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|&b| b == b'\n').count();
        Failure::new(Exit::BadInput, format!("{}: line {line} is not UTF-8 text", name(path)))
            .id(ErrorId::FileEncoding)
    })
}

/// Returns a file's content, without a byte order mark; `-` is standard input.
///
/// # Errors
/// If it cannot be read or is too long (exit 78).
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    raw_bytes(path).map(without_mark)
}

fn without_mark(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    bytes
}

/// Returns a file's content; `-` is standard input.
///
/// # Errors
/// If it cannot be read or is too long (exit 78).
pub(crate) fn raw_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(LENGTH_LIMIT + 1).read_to_end(&mut bytes)
    } else {
        open(path).and_then(|file| file.take(LENGTH_LIMIT + 1).read_to_end(&mut bytes))
    };
    let wrong = |what: String| {
        Failure::new(Exit::BadInput, format!("{}: {what}", name(path))).id(ErrorId::FileUnreadable)
    };
    read.map_err(|error| {
        let failure = wrong(format!("cannot be read: {error}"));
        // Users first try the name that all examples use.
        let is_first = error.kind() == io::ErrorKind::NotFound && path.ends_with("jobs.yaml");
        if is_first { failure.hint("hsched init writes a job file to start from") } else { failure }
    })?;
    if bytes.len() as u64 > LENGTH_LIMIT {
        return Err(wrong(format!("longer than {LENGTH_LIMIT} bytes")));
    }
    Ok(bytes)
}

/// Returns the content of a file of weights, of any length.
///
/// # Errors
/// If it cannot be read (exit 78).
pub(crate) fn weights(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    let wrong = |error| {
        Failure::new(Exit::BadInput, format!("{}: cannot be read: {error}", path.display()))
            .id(ErrorId::FileUnreadable)
    };
    read.map(|_| bytes).map_err(wrong)
}

#[expect(clippy::disallowed_methods, reason = "this file is where commands read their input")]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns the name of the file for messages.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}
