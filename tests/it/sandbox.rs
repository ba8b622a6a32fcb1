//! A hermetic environment for `hsched`: home, directory, PATH, variables and fake Slurm programs.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::schemas;

/// The worked example's cluster: 2 T4 and 2 V100.
pub const CLUSTER: &str = "\
network_gbps: 10
intra_node_gbps: 300
nodes:
  - {name: a, gpus: {t4: 2}}
  - {name: b, gpus: {v100: 2}}
";

/// A cluster with three GPUs of one type.
pub const THREE: &str = "nodes: [{name: a, gpus: {v100: 3}}]";

/// The worked example's jobs.
pub const JOBS: &str = "\
jobs:
  - {name: resnet18, samples_per_epoch: 100000, epochs: 200, global_batch: 512, model_size: 0,
     throughput: {v100: 644, t4: 275}, command: train}
  - {name: vgg19, samples_per_epoch: 50000, epochs: 200, global_batch: 512, model_size: 0,
     throughput: {v100: 1754, t4: 884}, command: train}
";

/// Separators of arguments and of calls in the record of a fake program's calls; no argument contains them.
const ARGUMENT_END: char = '\u{1d}';
const CALL_END: char = '\u{1c}';

/// Maximum time of a command or a wait, far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(300);

/// The whole environment of a run of `hsched`.
pub struct Sandbox {
    root: TempDir,
    variables: Vec<(String, String)>,
}

/// The result of a run of `hsched`; the sandbox's own path is `ROOT` in the texts. If a signal ended the run,
/// the code is 128 plus its number.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Sandbox {
    /// Returns a sandbox with the files `cluster.yaml` and `jobs.yaml` of the worked example, and without
    /// programs.
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let sandbox = Self { root, variables: Vec::new() };
        for folder in ["home/desk", "bin"] {
            fs::create_dir_all(sandbox.path(folder)).expect("a folder");
        }
        sandbox.file("cluster.yaml", CLUSTER).file("jobs.yaml", JOBS)
    }

    /// Returns a sandbox with a working Slurm: an empty cluster and queue, and jobs numbered from 1.
    pub fn with_slurm() -> Self {
        let count = "n=$(cat \"$root/count\" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >\"$root/count\"";
        Self::new()
            .program("sinfo", ":")
            .program("squeue", ":")
            .program("sbatch", &format!("{count}; echo $n"))
    }

    /// Writes a file in the directory where commands run.
    pub fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.work(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Creates a program that records its call and then runs these lines of shell; `$root` is the sandbox.
    pub fn program(self, name: &str, lines: &str) -> Self {
        let (root, path) = (self.root.path().display(), self.path("bin").join(name));
        let text = format!(
            "#!/bin/sh\nroot='{root}'\nPATH=/usr/bin:/bin\nenv >\"$root/env.{name}\"\n\
             {{ printf '%s\\035' \"$@\"; printf '\\034'; }} >>\"$root/calls.{name}\"\n{lines}\n"
        );
        write_program(&path, &text);
        self
    }

    /// Creates a program that prints these lines, with `|` for the end of a field.
    pub fn printing(self, name: &str, lines: &[&str]) -> Self {
        let records: String = lines.iter().map(|line| line.replace('|', "\u{1f}") + "\u{1e}\n").collect();
        fs::write(self.path(&format!("{name}.out")), records).expect("a file");
        self.program(name, &format!("cat \"$root/{name}.out\""))
    }

    /// Runs `hsched` with the arguments, split as a shell does.
    pub fn run(&self, arguments: &str) -> Ran {
        self.run_with_input(arguments, "")
    }

    pub fn run_with_input(&self, arguments: &str, input: &str) -> Ran {
        let arguments = shell_words::split(arguments).expect("arguments");
        let mut command = assert_cmd::Command::from_std(self.command(&arguments));
        let output = command.write_stdin(input).timeout(PATIENCE).output().expect("runs");
        self.ran(&output)
    }

    /// Returns the command, for tests that start it themselves.
    pub fn command(&self, arguments: &[impl AsRef<std::ffi::OsStr>]) -> std::process::Command {
        self.start(env!("CARGO_BIN_EXE_hsched"), arguments)
    }

    /// Returns a command of the system in the same environment.
    pub fn start(&self, program: &str, arguments: &[impl AsRef<std::ffi::OsStr>]) -> std::process::Command {
        let mut command = std::process::Command::new(program);
        command.args(arguments).current_dir(self.work("")).env_clear();
        command
            .env("HOME", self.path("home"))
            .env("PATH", self.path("bin"))
            .env("HSCHED_SITE_CONFIG", "/dev/null");
        command.env("COLUMNS", "80");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn ran(&self, output: &Output) -> Ran {
        let root = self.root.path().display().to_string();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&root, "ROOT");
        let status = output.status;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        let ran = Ran { code, stdout: text(&output.stdout), stderr: text(&output.stderr) };
        schemas::check(&ran.stdout);
        ran
    }

    /// Runs a shell script with the state directory `$1` on a disk of its own, of which only 1 MiB can be used. `$2` is
    /// hsched. Returns `None` if no disk can be mounted here.
    pub fn on_small_disk(&self, script: &str) -> Option<Ran> {
        let disk = self.path("disk");
        fs::create_dir(&disk).expect("a folder");
        // Only programs of this shell see this mount, which disappears with them.
        let script = format!("mount -t tmpfs -o size=1m,mode=700 none \"$1\" || exit 99; {script}");
        let disk = disk.display().to_string();
        let shell = ["-rm", "/bin/sh", "-c", &script, "sh", &disk, env!("CARGO_BIN_EXE_hsched")];
        let mut command = self.start("/usr/bin/unshare", &shell);
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let output = command.env("HSCHED_STATE_DIR", &disk).env("PATH", path).output().ok()?;
        let ran = self.ran(&output);
        let is_mounted = ran.code != Some(99) && !ran.stderr.starts_with("unshare:");
        if !is_mounted {
            println!("skipped: no small disk can be mounted here");
        }
        is_mounted.then_some(ran)
    }

    /// Returns the arguments of each call of a fake program.
    pub fn calls(&self, program: &str) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.path(&format!("calls.{program}"))).unwrap_or_default();
        let arguments = |call: &str| call.split_terminator(ARGUMENT_END).map(ToOwned::to_owned).collect();
        text.split_terminator(CALL_END).map(arguments).collect()
    }

    /// Returns the environment of a fake program's last call.
    pub fn environment(&self, program: &str) -> String {
        fs::read_to_string(self.path(&format!("env.{program}"))).expect("was called")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns a path in the directory where commands run.
    pub fn work(&self, name: &str) -> PathBuf {
        self.path("home/desk").join(name)
    }

    /// Returns a path in the state directory.
    pub fn state(&self, name: &str) -> PathBuf {
        self.path("home/.local/state/hsched").join(name)
    }

    /// Creates an empty state directory.
    pub fn make_state(&self) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.state("")).expect("a folder");
    }

    /// Returns a file's text, with `ROOT` for the sandbox's own path as in outputs.
    pub fn text(&self, path: &Path) -> String {
        let root = self.root.path().display().to_string();
        fs::read_to_string(path).expect("a text").replace(&root, "ROOT")
    }

    /// Returns the journal's lines of events and intents, without their times and checksums.
    pub fn journal(&self) -> String {
        let text = self.text(&self.state("journal"));
        let line = |line: &str| {
            let mut value: Value = serde_json::from_str(line).expect("JSON");
            let object = value.as_object_mut().expect("an object");
            for key in ["at", "sha256"] {
                object.remove(key).expect("in every line");
            }
            let is_record = ["state", "change"].iter().any(|key| object.contains_key(*key));
            (!is_record).then(|| format!("{value}\n"))
        };
        text.lines().filter_map(line).collect()
    }

    /// Returns the state of a job in the snapshot: its outcome if it has ended, the stage of its first
    /// submission if it was submitted, and its phase otherwise.
    pub fn phase(&self, job: usize) -> String {
        let word = |value: &Value| match value {
            Value::Object(object) => object.keys().next().expect("a word").clone(),
            other => other.as_str().expect("a word").to_owned(),
        };
        let phase = &self.snapshot()["jobs"][job]["phase"];
        match &phase["ended"]["outcome"] {
            Value::Null if phase.get("submitted").is_some() => word(&phase["submitted"][0]["stage"]),
            Value::Null => word(phase),
            outcome => word(outcome),
        }
    }

    /// Returns the snapshot of the state.
    pub fn snapshot(&self) -> Value {
        serde_json::from_str(&self.text(&self.state("state.json"))).expect("JSON")
    }

    /// Returns the names of the runs on disk.
    pub fn runs(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.state("runs")) else { return Vec::new() };
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
    }

    /// Waits until another process has created the file.
    pub fn await_file(&self, name: &str) {
        let begin = Instant::now();
        while !self.path(name).exists() {
            assert!(begin.elapsed() < PATIENCE, "{name} does not appear");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Ran {
    /// Asserts the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        let begin: String = self.stdout.chars().take(2000).collect();
        assert_eq!(self.code, Some(code), "{begin}\n{}", self.stderr);
        self
    }

    /// Asserts success without output on stderr, and returns stdout.
    #[track_caller]
    pub fn succeeds(self) -> String {
        let ran = self.exits(0);
        assert_eq!(ran.stderr, "");
        ran.stdout
    }

    /// Asserts failure with this code and nothing on stdout, and returns stderr.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        let ran = self.exits(code);
        assert_eq!(ran.stdout, "");
        ran.stderr
    }

    /// Returns stdout as a single JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert!(self.stdout.ends_with('\n'), "{}", self.stdout);
        serde_json::from_str(&self.stdout).expect("one JSON value")
    }
}

/// Creates a program. Another process writes it: a program that another test starts at this moment would inherit a file
/// that is open here, and a file that any process has open for writing cannot be executed.
pub fn write_program(path: &Path, text: &str) {
    let mut install = std::process::Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path);
    let output = assert_cmd::Command::from_std(install).write_stdin(text).output().expect("runs");
    assert!(output.status.success(), "{output:?}");
}

/// Returns the permission bits of a file or folder.
pub fn mode(path: &Path) -> u32 {
    path.metadata().expect("exists").permissions().mode() & 0o777
}
