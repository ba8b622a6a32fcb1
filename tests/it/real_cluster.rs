//! Real Slurm clusters for the tests of this process: one that tests share, started on first use and removed
//! with the process, and clusters for single tests.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::iter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

/// A cluster of `slurm/dev-cluster`.
pub struct Cluster {
    /// Directory that is removed with the cluster; tests put their own files below it.
    root: PathBuf,
    /// The janitor reads from the other end, and stops the cluster when it is closed, even if this process is killed
    /// without running destructors.
    _alive: ChildStdin,
}

/// The variable that turns the skip for a cluster that does not start into a failure.
const WISH: &str = "HSCHED_TEST_SLURM";

/// The variable that names the version of Slurm, for `dev-cluster --slurm`.
const VERSION: &str = "HSCHED_TEST_SLURM_VERSION";

/// Slurm's timeouts (for nodes, messages and connections, in seconds) for tests that lose no node: no node counts as
/// dead, however busy this machine is.
pub const STEADY: &str = "300/60/20";

/// Stops the cluster and removes its files once the script's standard input ends.
const JANITOR: &str = r#"cat; "$1" down --dir "$2/cluster"; rm -rf "$2""#;

static SHARED: LazyLock<Result<Cluster, String>> =
    LazyLock::new(|| Cluster::start(&repository().join("tests/it/real.nodes"), STEADY, &[]));

/// Returns the cluster of `real.nodes`, which the tests that start no other one share; `None`, with a
/// message, if it could not be started.
pub fn shared() -> Option<&'static Cluster> {
    started(&SHARED)
}

/// Returns a cluster that tests share; `None`, with a message for each test, if it could not be started.
pub fn started(cluster: &'static Result<Cluster, String>) -> Option<&'static Cluster> {
    cluster.as_ref().map_err(|why| skip(why)).ok()
}

/// Starts a cluster for one test alone; returns `None`, with a message, if that fails.
///
/// `timeouts` are Slurm's for nodes, messages and connections, in seconds.
pub fn start(nodes: &Path, timeouts: &str) -> Option<Cluster> {
    try_start(nodes, timeouts).map_err(|why| skip(&why)).ok()
}

/// Starts a cluster for some tests that share it.
///
/// # Errors
/// The reason why there is none.
pub fn try_start(nodes: &Path, timeouts: &str) -> Result<Cluster, String> {
    Cluster::start(nodes, timeouts, &[])
}

/// Starts a cluster with a database of jobs, for one test alone.
pub fn start_with_accounting(nodes: &Path, timeouts: &str) -> Option<Cluster> {
    Cluster::start(nodes, timeouts, &["--accounting"]).map_err(|why| skip(&why)).ok()
}

/// Starts a cluster for one test alone that enforces the limits of accounts and users.
pub fn start_with_limits(nodes: &Path, timeouts: &str) -> Option<Cluster> {
    Cluster::start(nodes, timeouts, &["--accounting", "--limits"]).map_err(|why| skip(&why)).ok()
}

/// Starts a cluster for one test alone, with a clock that runs 120 times as fast as the machine's.
pub fn start_fast(nodes: &Path) -> Option<Cluster> {
    Cluster::start(nodes, "", &["--speed", "120"]).map_err(|why| skip(&why)).ok()
}

/// Prints that this test is skipped, or fails it if a variable requires the cluster.
fn skip(why: &str) {
    assert!(std::env::var_os(WISH).is_none_or(|wish| wish != "require"), "no Slurm: {why}");
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    // Not with eprintln!, which the test harness captures.
    let line = format!("skipped: {test}: no Slurm ({why}); {WISH}=require makes this a failure\n");
    io::stderr().write_all(line.as_bytes()).expect("stderr");
}

/// Returns the requested version of Slurm; `None` if the variable is not set, for the version of the system.
pub fn version() -> Option<String> {
    std::env::var(VERSION).ok()
}

/// Returns the root of this repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Cluster {
    fn start(nodes: &Path, timeouts: &str, options: &[&str]) -> Result<Self, String> {
        // The path must be short, because the length of paths of Unix sockets is limited.
        let short = Path::new("/tmp");
        let mut folder = tempfile::Builder::new();
        folder.prefix("hsched-it-");
        let made = if short.is_dir() { folder.tempdir_in(short) } else { folder.tempdir() };
        let root = made.map(TempDir::keep).map_err(|error| format!("no directory for it: {error}"))?;
        let script = repository().join("slurm/dev-cluster");
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "janitor"])
            .args([&script, &root])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal must not end the janitor before it has stopped the cluster.
            .process_group(0)
            .spawn();
        let alive = janitor.map_err(|error| format!("sh: {error}"))?.stdin.expect("its input is a pipe");
        let cluster = Self { root, _alive: alive };
        let up = Command::new(&script)
            .arg("up")
            .arg("--dir")
            .arg(cluster.directory())
            .arg("--nodes")
            .arg(nodes)
            .args(["--timeouts", timeouts].iter().filter(|_| !timeouts.is_empty()))
            .args(options)
            .args(version().iter().flat_map(|version| ["--slurm", version]))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", script.display()))?;
        if up.status.success() {
            return Ok(cluster);
        }
        let said = String::from_utf8_lossy(&up.stderr);
        Err(said.lines().next().unwrap_or("dev-cluster up failed").to_owned())
    }

    /// Returns the directory of the daemons' files.
    pub fn directory(&self) -> PathBuf {
        self.root.join("cluster")
    }

    /// Returns the configuration for Slurm's programs.
    pub fn configuration(&self) -> PathBuf {
        self.directory().join("etc/slurm.conf")
    }

    /// Applies an action (`down`, `up`, `kill`) to a node.
    pub fn node(&self, action: &str, name: &str) {
        let mut command = Command::new(repository().join("slurm/dev-cluster"));
        command.args(["node", action, name, "--dir"]).arg(self.directory()).stdin(Stdio::null());
        let output = command.output().expect("dev-cluster starts");
        assert!(output.status.success(), "node {action} {name}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns the log of a node's daemon.
    pub fn log_of_node(&self, name: &str) -> String {
        fs::read_to_string(self.directory().join(format!("log/slurmd-{name}.log"))).unwrap_or_default()
    }

    /// Returns a new directory that is removed with the cluster.
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.root.join(name);
        fs::create_dir(&folder).expect("a new directory");
        folder
    }

    /// Returns the search path: first the programs of the cluster's version of Slurm, unless that is the system's.
    pub fn path(&self) -> OsString {
        let path = std::env::var_os("PATH").expect("a PATH");
        let programs = self.directory().join("bin");
        if programs.is_dir() {
            std::env::join_paths(iter::once(programs).chain(std::env::split_paths(&path))).expect("a PATH")
        } else {
            path
        }
    }

    /// Returns the process id of the controller.
    pub fn controller(&self) -> String {
        let text = fs::read_to_string(self.directory().join("run/slurmctld.pid")).expect("a pid file");
        text.split(' ').next().expect("a pid").to_owned()
    }
}
