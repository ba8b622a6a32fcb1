//! A user of the real cluster: a directory, programs to run there, and results to check.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::real_cluster::{Cluster, repository, shared};

/// One test's directory and its view of the cluster.
pub struct TestUser<'a> {
    cluster: &'a Cluster,
    /// The current directory of all programs, and the jobs' work directory.
    pub folder: PathBuf,
    /// The partition of the user's jobs; the cluster's default if empty.
    partition: &'static str,
}

/// The result of a program.
pub struct Done {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A Slurm job that ended, all its components together.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// State of each component.
    pub states: Vec<String>,
    /// `STATUS:SIGNAL` of the batch script.
    pub exit: String,
}

/// The states in which a job of Slurm has ended; in all others, including SIGNALING, a job may still be active.
const ENDS: [&str; 9] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
];

/// Maximum time of a wait that has no limit of its own, far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(300);

/// A rank's command: records the environment of the rank in a file of the folder `$PROBE`.
pub const PROBE: &str =
    r#"mkdir -p "$PROBE" && env -0 >"$PROBE/$RANK.part" && mv "$PROBE/$RANK.part" "$PROBE/$RANK""#;

/// Returns a user of the shared cluster in a new directory of that name; `None` if there is no Slurm.
pub fn user(name: &str, partition: &'static str) -> Option<TestUser<'static>> {
    shared().map(|cluster| TestUser::new(cluster, name, partition))
}

/// Returns a job whose ranks run `command` in a shell, with a fixed speed on each GPU type.
pub fn job(name: &str, gpus: u32, command: &str) -> Value {
    json!({
        "name": name, "samples_per_epoch": 600, "epochs": 1, "global_batch": 60 * gpus, "model_size": 0,
        "throughput": {"v100": 300, "p100": 200, "t4": 100}, "min_gpus": gpus, "max_gpus": gpus,
        "command": command, "checkpoint": {"grace": "10s"},
    })
}

/// Returns the words that start the stand-in for a job of [`job`].
pub fn stand_in(samples: u32) -> Vec<String> {
    let program = repository().join("examples/stand-in/train.py");
    let mut words = vec!["python3".to_owned(), program.display().to_string()];
    for speed in ["v100=300", "p100=200", "t4=100"] {
        words.extend(["--speed".to_owned(), speed.to_owned()]);
    }
    words.extend(["--samples-per-epoch".to_owned(), samples.to_string()]);
    words
}

/// Calls `ready` until it returns a value; panics if that takes too long.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, &mut ready).unwrap_or_else(|| panic!("{what}: not within {PATIENCE:?}"))
}

/// Calls `ready` until it returns a value or the time has passed.
pub fn wait_within<T>(limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let begin = Instant::now();
    loop {
        if let Some(found) = ready() {
            return Some(found);
        }
        if begin.elapsed() > limit {
            return None;
        }
        thread::sleep(Duration::from_millis(60));
    }
}

impl<'a> TestUser<'a> {
    pub fn new(cluster: &'a Cluster, name: &str, partition: &'static str) -> Self {
        Self { cluster, folder: cluster.folder(name), partition }
    }

    /// Returns the cluster's directory.
    pub fn cluster_folder(&self) -> PathBuf {
        self.cluster.directory()
    }

    /// Returns a program of this user, with nothing from the environment of the tests but `PATH`.
    pub fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", self.cluster.path()).env("HOME", &self.folder).env("LANG", "C.UTF-8");
        command.env("SLURM_CONF", self.cluster.configuration()).env("HSCHED_SITE_CONFIG", "/dev/null");
        command.env("HSCHED_STATE_DIR", self.folder.join("state")).env("HSCHED_PARTITION", self.partition);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// Returns a `PATH` with this folder before all others.
    pub fn path_after(&self, folder: &Path) -> String {
        format!("{}:{}", folder.display(), self.cluster.path().display())
    }

    pub fn hsched(&self, arguments: &[&str]) -> Done {
        self.hsched_with(&[], arguments)
    }

    /// Runs hsched with further environment variables.
    pub fn hsched_with(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Done {
        let mut command = self.program(env!("CARGO_BIN_EXE_hsched"));
        Done::of(command.args(arguments).envs(environment.iter().copied()))
    }

    /// Returns the output of a program that must succeed.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let done = Done::of(self.program(program).args(arguments));
        assert_eq!(done.code, Some(0), "{program} {arguments:?}: {}", done.stderr);
        done.stdout
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("a file");
    }

    /// Returns a file's text; empty if the file does not exist yet.
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// Plans jobs on exactly the given GPUs, even if they are in use, and writes `cluster.yaml`, `jobs.yaml`
    /// and `plan.json`.
    ///
    /// `nodes` are names with their GPUs, as in a cluster file: `b1 {v100: 2}`.
    pub fn plan_over(&self, nodes: &[&str], jobs: &[Value]) -> Value {
        let node = |text: &&str| {
            let (name, gpus) = text.split_once(' ').expect("a name and GPUs");
            format!("  - {{name: {name}, gpus: {gpus}}}\n")
        };
        self.write("cluster.yaml", &format!("nodes:\n{}", nodes.iter().map(node).collect::<String>()));
        self.write("jobs.yaml", &json!({ "jobs": jobs }).to_string());
        self.plan(&["jobs.yaml", "--cluster", "cluster.yaml"])
    }

    /// Plans and writes `plan.json`.
    pub fn plan(&self, arguments: &[&str]) -> Value {
        let done = self.hsched(&[&["plan", "--format", "json"], arguments].concat());
        assert_eq!(done.code, Some(0), "plan {arguments:?}: {}", done.stderr);
        self.write("plan.json", &done.stdout);
        serde_json::from_str(&done.stdout).expect("a plan")
    }

    /// Submits and returns the Slurm job ids by name.
    pub fn submit(&self, arguments: &[&str]) -> BTreeMap<String, String> {
        let done = self.hsched(&[&["submit", "--format", "json"], arguments].concat());
        assert_eq!(done.code, Some(0), "submit {arguments:?}: {}{}", done.stdout, done.stderr);
        done.job_ids()
    }

    /// Submits the one job of a file and waits for its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        let ids = self.submit(arguments);
        assert_eq!(ids.len(), 1, "{ids:?}");
        self.ended(ids.values().next().expect("one"))
    }

    /// Returns the values of a field of each component of a job, as `scontrol` shows it.
    pub fn field(&self, id: &str, name: &str) -> Vec<String> {
        let text = self.ask("scontrol", &["-o", "show", "job", id]);
        text.lines().filter_map(|line| field(line, name)).collect()
    }

    /// Waits until all components of a job have ended.
    pub fn ended(&self, id: &str) -> Ended {
        self.ended_within(PATIENCE, id)
    }

    /// Waits at most this long until all components of a job have ended.
    pub fn ended_within(&self, limit: Duration, id: &str) -> Ended {
        let done = wait_within(limit, || {
            let states = self.field(id, "JobState");
            (!states.is_empty() && states.iter().all(|state| ENDS.contains(&state.as_str())))
                .then_some(states)
        });
        let Some(states) = done else {
            panic!("job {id} does not end: {}", self.ask("scontrol", &["-o", "show", "job", id]));
        };
        Ended { states, exit: self.field(id, "ExitCode").remove(0) }
    }

    /// Waits until a job runs.
    pub fn running(&self, id: &str) {
        let running = || self.field(id, "JobState").iter().all(|state| state == "RUNNING").then_some(());
        wait_for(&format!("job {id} runs"), running);
    }

    /// Returns the environments that ranks of [`PROBE`] left in `folder`, by rank.
    pub fn probes(&self, folder: &str) -> Vec<BTreeMap<String, String>> {
        let count = fs::read_dir(self.folder.join(folder)).map_or(0, Iterator::count);
        let rank = |rank: usize| {
            let path = self.folder.join(folder).join(rank.to_string());
            let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let pairs = text.split_terminator('\0').filter_map(|pair| pair.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        (0..count).map(rank).collect()
    }

    /// Returns the reports of a job's ranks, by rank, in the order of its runs.
    pub fn reports(&self, name: &str) -> Vec<Vec<Value>> {
        let rank = |rank: usize| {
            let report =
                |run: &PathBuf| self.read(run.join("report").join(name).join(format!("rank-{rank}.jsonl")));
            let text: String = self.runs().iter().map(report).collect();
            text.lines().map(|line| serde_json::from_str(line).expect("a report")).collect::<Vec<_>>()
        };
        // The limit is far above the number of ranks of any test.
        (0..100).map(rank).take_while(|lines| !lines.is_empty()).collect()
    }

    /// Returns the folders of the runs that were submitted here, by name.
    pub fn runs(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.folder.join("state/runs")) else { return Vec::new() };
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        runs.sort();
        runs
    }

    /// Returns the folder of the run that was submitted here, once there is one.
    pub fn only_run(&self) -> Option<PathBuf> {
        let runs = self.runs();
        assert!(runs.len() <= 1, "{runs:?}");
        runs.into_iter().next()
    }
}

impl Drop for TestUser<'_> {
    /// Cancels all Slurm jobs in the journal of this test, regardless of its outcome.
    fn drop(&mut self) {
        for line in self.read("state/journal").lines() {
            let id = serde_json::from_str::<Value>(line)
                .ok()
                .and_then(|line| line.get("job_id").and_then(Value::as_u64).map(|id| id.to_string()));
            if let Some(id) = id {
                let _ = self.program("scancel").args(["--quiet", &id]).status();
            }
        }
    }
}

impl Done {
    pub fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Returns the job ids that `submit --format json` printed.
    pub fn job_ids(&self) -> BTreeMap<String, String> {
        let value: Value = serde_json::from_str(&self.stdout).expect("JSON");
        let jobs = value["jobs"].as_array().expect("jobs");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        jobs.iter().filter_map(|job| text(&job["name"]).zip(text(&job["job_id"]))).collect()
    }
}

impl Ended {
    pub fn completed(&self) -> bool {
        self.exit == "0:0" && self.states.iter().all(|state| state == "COMPLETED")
    }
}

/// Returns the value of `name=value` in a line of `scontrol -o`.
pub fn field(line: &str, name: &str) -> Option<String> {
    let word = |word: &str| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    line.split(' ').find_map(word)
}

/// Checks that the ranks' environments match the plan of a job, in order and on the planned kinds of nodes, and that a
/// node of the plan is always the same node of the cluster.
pub fn check_ranks(planned: &Value, probes: &[BTreeMap<String, String>]) {
    let ranks = planned["ranks"].as_array().expect("ranks");
    let name = &planned["name"];
    assert_eq!(probes.len(), ranks.len(), "{name}: ranks");
    let batches: Vec<String> = ranks.iter().map(|rank| rank["batch"].to_string()).collect();
    let mut node_of: BTreeMap<&str, &str> = BTreeMap::new();
    for (rank, probe) in ranks.iter().zip(probes) {
        let node = rank["node"].as_str().expect("a node");
        let local = ranks.iter().filter(|other| other["node"] == rank["node"]).count();
        let expected = [
            ("RANK", rank["rank"].to_string()),
            ("WORLD_SIZE", ranks.len().to_string()),
            ("LOCAL_RANK", rank["local_rank"].to_string()),
            ("LOCAL_WORLD_SIZE", local.to_string()),
            ("HSCHED_JOB", name.as_str().expect("a name").to_owned()),
            ("HSCHED_GPU_TYPE", rank["type"].as_str().expect("a type").to_owned()),
            ("HSCHED_GLOBAL_BATCH", planned["spec"]["global_batch"].to_string()),
            ("HSCHED_LOCAL_BATCH", rank["batch"].to_string()),
            ("HSCHED_BATCHES", batches.join(",")),
            ("HSCHED_EPOCHS", planned["spec"]["epochs"].to_string()),
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
        ];
        for (variable, value) in expected {
            assert_eq!(probe.get(variable), Some(&value), "{name}, rank {}: {variable}", rank["rank"]);
        }
        let report = format!("/report/{}/rank-{}.jsonl", probe["HSCHED_JOB"], probe["RANK"]);
        assert!(probe["HSCHED_REPORT"].ends_with(&report), "{}", probe["HSCHED_REPORT"]);
        let steps = |variable: &str| probe[variable].parse::<u64>().expect("a number");
        let (micro, batch) = (steps("HSCHED_MICRO_BATCH"), steps("HSCHED_LOCAL_BATCH"));
        assert_eq!(batch.div_ceil(micro), steps("HSCHED_ACCUMULATION"), "{name}: micro-batches");
        assert_eq!(probe["CUDA_VISIBLE_DEVICES"].split(',').count(), local, "{name}: all GPUs of the node");
        let real = node_of.entry(node).or_insert(&probe["SLURMD_NODENAME"]);
        assert_eq!(*real, probe["SLURMD_NODENAME"], "{name}: one node is one node");
        // Only Slurm knows the host name of the master here, so an address is used.
        assert_eq!(probe["MASTER_ADDR"], "127.0.0.1", "{name}");
        for same in
            ["MASTER_PORT", "HSCHED_RUN", "HSCHED_PLAN", "HSCHED_CHECKPOINT_DIR", "HSCHED_STOP_GRACE_S"]
        {
            assert_eq!(probe[same], probes[0][same], "{name}: {same}");
        }
    }
    let nodes: std::collections::BTreeSet<&&str> = node_of.values().collect();
    assert_eq!(nodes.len(), node_of.len(), "{name}: {node_of:?}");
}
