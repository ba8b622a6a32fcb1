//! The sources of settings: the environment, directories, files and flags of one process.

#![expect(clippy::disallowed_methods, reason = "this file is where the environment and settings are read")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::entry::{Layer, Origin, SettingEntry};
use super::environment::{
    CommandLineSetting, SITE_FILE_VARIABLE, USER_FILE_VARIABLE, is_ours, read_environment, read_flags,
};
use super::file;
use super::problem::SettingsProblem;
use hsched_model::ErrorId;
use hsched_model::formats::ValueError;

/// Name of a project file.
const PROJECT_FILE: &str = "hsched.toml";

/// Maximum size of a settings file, in bytes.
const LENGTH_LIMIT: u64 = 1 << 20;

/// The sources from which settings are read.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Environment variables by name; only `NO_COLOR` and those with the prefix `HSCHED_` are used.
    pub environment: BTreeMap<String, OsString>,
    /// Current directory.
    pub directory: Option<PathBuf>,
    pub home: Option<PathBuf>,
    /// Directory of users' settings, usually `~/.config`.
    pub config_home: Option<PathBuf>,
    /// Directory of users' state, usually `~/.local/state`.
    pub state_home: Option<PathBuf>,
    /// Site file, unless `HSCHED_SITE_CONFIG` names another.
    pub site_file: Option<PathBuf>,
    /// Id of the user, whose own files are trusted; `None` trusts every file.
    pub user: Option<u32>,
    /// Settings from the command line; later ones take precedence.
    pub flags: Vec<CommandLineSetting>,
}

/// Result of the search for a project file.
enum Project {
    Nothing,
    Found(PathBuf),
    /// A file of another user in a directory that everybody may write to.
    Untrusted(PathBuf),
}

/// Returns the width for text from the variable COLUMNS, if it is a whole number above 0.
pub fn columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0)
}

/// Returns the Slurm job in which this process runs, if any.
pub fn own_slurm_job() -> Option<u32> {
    std::env::var("SLURM_JOB_ID").ok()?.trim().parse().ok()
}

/// Returns how often Slurm has requeued the job in which this process runs.
pub fn own_slurm_restarts() -> u32 {
    let count = std::env::var("SLURM_RESTART_COUNT").ok();
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The values of a Slurm job's environment variables; `None` or empty if a variable is not set or is not a
/// number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlurmJobFacts {
    pub nodes: Option<u32>,
    /// End of the job, in seconds since 1970.
    pub end: Option<f64>,
    /// CPUs of this node.
    pub cpus: Option<u64>,
    /// The GPUs of this node as programs address them: indices or UUIDs.
    pub gpus: Vec<String>,
}

/// Returns the values of the variables of the surrounding Slurm job, for use if Slurm does not answer.
pub fn own_slurm_job_facts() -> SlurmJobFacts {
    let value = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    let number = |name: &str| value(name)?.trim().parse::<u64>().ok();
    let nodes = number("SLURM_JOB_NUM_NODES").or_else(|| number("SLURM_NNODES"));
    let gpus = value("CUDA_VISIBLE_DEVICES").or_else(|| value("SLURM_JOB_GPUS")).unwrap_or_default();
    SlurmJobFacts {
        nodes: nodes.and_then(|nodes| u32::try_from(nodes).ok()),
        end: value("SLURM_JOB_END_TIME").and_then(|end| end.trim().parse().ok()),
        cpus: number("SLURM_CPUS_ON_NODE"),
        gpus: gpus.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
    }
}

/// Returns whether the locale limits the terminal to ASCII: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that
/// is not empty names `C`, `POSIX` or an encoding other than UTF-8. Otherwise, UTF-8 is assumed, as most
/// terminals show it.
pub fn is_ascii() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(std::env::var_os)
        .find(|candidate| !candidate.is_empty());
    set.is_some_and(|locale| {
        let name = locale.to_string_lossy().to_lowercase();
        name == "c"
            || name == "posix"
            || name.contains('.') && !name.contains("utf8") && !name.contains("utf-8")
    })
}

/// Returns whether the variable TERM says that the terminal understands no control sequences.
pub fn is_dumb_terminal() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

impl Sources {
    /// Returns the sources of this process, with settings from its command line.
    pub fn of_process(flags: Vec<CommandLineSetting>) -> Self {
        let strategy = etcetera::base_strategy::Xdg::new().ok();
        let strategy = strategy.filter(|strategy| strategy.home_dir().is_absolute());
        let variables = std::env::vars_os();
        let named = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Self {
            environment: named.filter(|(name, _)| is_ours(name)).collect(),
            directory: std::env::current_dir().ok(),
            home: strategy.as_ref().map(|strategy| strategy.home_dir().to_owned()),
            config_home: strategy.as_ref().map(BaseStrategy::config_dir),
            state_home: strategy.as_ref().and_then(BaseStrategy::state_dir),
            site_file: Some(PathBuf::from("/etc/hsched/config.toml")),
            user: Some(nix::unistd::geteuid().as_raw()),
            flags,
        }
    }

    /// Returns the entries of all layers above the defaults, lowest first, and their problems.
    pub(super) fn entries(&self) -> (Vec<SettingEntry>, Vec<SettingsProblem>) {
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        let user_file = self.config_home.as_ref().map(|home| home.join("hsched/config.toml"));
        let layers = [
            (Layer::Site, SITE_FILE_VARIABLE, self.site_file.clone()),
            (Layer::User, USER_FILE_VARIABLE, user_file),
            (Layer::Project, "", self.found_project()),
        ];
        for (layer, variable, usual) in layers {
            let named = self.environment.get(variable).filter(|path| !path.is_empty());
            let path = match named {
                Some(path) => Some(self.directory.clone().unwrap_or_default().join(path)),
                None => usual,
            };
            let Some(path) = path else { continue };
            match read(&path) {
                Ok(text) => {
                    let (found, wrong) = file::parse(layer, &path, &text);
                    entries.extend(found);
                    problems.extend(wrong);
                }
                Err(error) if named.is_none() && is_missing(&error) => {}
                Err(error) => problems.push(unreadable(layer, path, named.map(|_| variable), &error)),
            }
        }
        read_environment(&self.environment, &mut entries, &mut problems);
        read_flags(&self.flags, &mut entries, &mut problems);
        (entries, problems)
    }

    /// Returns the skipped files, with the reasons.
    pub(super) fn notes(&self) -> Vec<String> {
        let Project::Untrusted(path) = self.project() else {
            return Vec::new();
        };
        let path = path.display();
        vec![format!("ignoring {path}: it belongs to another user and is in a world-writable directory")]
    }

    fn found_project(&self) -> Option<PathBuf> {
        match self.project() {
            Project::Found(path) => Some(path),
            Project::Nothing | Project::Untrusted(_) => None,
        }
    }

    /// Searches for a project file in the current directory and its parents, up to and including the home
    /// directory; up to the root if the current directory is not inside the home directory.
    fn project(&self) -> Project {
        let start = self.directory.as_deref().unwrap_or(Path::new(""));
        for directory in start.ancestors() {
            let path = directory.join(PROJECT_FILE);
            // A file that cannot be examined counts as found; reading it then reports the error.
            if !path.symlink_metadata().is_err_and(|error| is_missing(&error)) {
                let trusted = self.trusts(directory, &path);
                return if trusted { Project::Found(path) } else { Project::Untrusted(path) };
            }
            if self.home.as_deref() == Some(directory) {
                break;
            }
        }
        Project::Nothing
    }

    /// Returns whether only the user, root, or the owner or group of the directory can have placed the file
    /// there.
    fn trusts(&self, directory: &Path, path: &Path) -> bool {
        const WRITABLE_BY_ALL: u32 = 0o002;
        let Some(user) = self.user else {
            return true;
        };
        let open_to_all = directory.metadata().is_ok_and(|data| data.mode() & WRITABLE_BY_ALL != 0);
        let is_owned = path.symlink_metadata().is_ok_and(|data| data.uid() == user || data.uid() == 0);
        is_owned || !open_to_all
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LENGTH_LIMIT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LENGTH_LIMIT {
        return Err(io::Error::other(format!("longer than {LENGTH_LIMIT} bytes")));
    }
    Ok(text)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(layer: Layer, path: PathBuf, variable: Option<&str>, error: &io::Error) -> SettingsProblem {
    let reason = match error.kind() {
        io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    };
    let wrong = ValueError::new(format!("cannot be read: {reason}")).id(ErrorId::FileUnreadable);
    let error = match variable {
        Some(variable) => wrong.hint(format!("{variable} names this file")),
        None if error.kind() == io::ErrorKind::PermissionDenied => {
            wrong.hint("make it readable, or remove it")
        }
        None => wrong,
    };
    SettingsProblem { origin: Origin::File { layer, path, line: 0 }, key: String::new(), error }
}

/// Returns the environment of this process for the programs that it starts.
pub fn process_environment() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}
