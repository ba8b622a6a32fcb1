//! `hsched run`: jobs on the devices of this machine, until their end and through interruptions.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::sandbox::{Ran, Sandbox};

/// A program that saves each epoch and then reports it; after a restart, it reports an epoch that it had
/// saved but not reported. A second concurrent instance of a job fails. `PACE` is the time of an epoch in
/// seconds; with `DEAF`, the program ignores the stop signal.
pub const TRAIN: &str = r#"
stop=0
if [[ -z ${DEAF-} ]]; then trap 'stop=1' USR1; else trap '' USR1; fi
saved=$HSCHED_CHECKPOINT_DIR/epochs
if ((RANK == 0)); then exec 9>"$HSCHED_CHECKPOINT_DIR/lock"; flock -n 9 || { echo "two at a time"; exit 7; }; fi
done=$(trap '' USR1; wc -l 2>/dev/null <"$saved" || echo 0)
report() { printf '{"epoch": %s, "rank": %s, "epoch_s": %s}\n' "$1" "$RANK" "$PACE" >>"$HSCHED_REPORT"; }
if ((RANK == 0 && done > HSCHED_EPOCHS_DONE)); then report "$done"; fi
while ((done < HSCHED_EPOCHS)); do
  if ((stop)); then exit 85; fi
  sleep "$PACE" 9>&- & wait $!
  if ((stop)); then exit 85; fi
  done=$((done + 1))
  if ((RANK == 0)); then
    # The signal reaches all processes of the rank and would end cat.
    (trap '' USR1; { cat "$saved" 2>/dev/null; echo "$done"; } >"$saved.new" && mv "$saved.new" "$saved") || exit 9
    report "$done"
  fi
done
"#;

/// The speeds of jobs for tests in which they matter.
const SPEED: &str = "throughput: {cpu: 2000}";

/// The longest time that `Bench::await_that` waits.
const PATIENCE: Duration = Duration::from_secs(300);

/// A directory in which `hsched run` runs.
pub struct Bench {
    pub sandbox: Sandbox,
}

/// A running `hsched run`.
pub struct Session(pub Option<Child>);

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a job with the program above.
pub fn job(name: &str, epochs: u32, more: &str) -> String {
    format!(
        "  - {{name: {name}, samples_per_epoch: 100, epochs: {epochs}, global_batch: 10, model_size: 0, \
         checkpoint: {{grace: 5s}}, command: [bash, train.sh], {more}}}\n"
    )
}

impl Bench {
    pub fn new(jobs: &[String]) -> Self {
        let sandbox = Sandbox::new().file("train.sh", TRAIN).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
        let bench = Self { sandbox: sandbox.variable("PACE", "0.05") };
        bench.write("jobs.yaml", jobs);
        bench
    }

    pub fn write(&self, name: &str, jobs: &[String]) {
        fs::write(self.sandbox.work(name), format!("jobs:\n{}", jobs.concat())).expect("a file");
    }

    pub fn start(&self, arguments: &str) -> Session {
        let arguments = shell_words::split(arguments).expect("arguments");
        // These tests may have been started in the background, where interrupts are ignored.
        let heard = ["--default-signal=INT".to_owned(), env!("CARGO_BIN_EXE_hsched").to_owned()];
        let mut command = self.sandbox.start("/usr/bin/env", &[&heard[..], &arguments].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Session(Some(command.spawn().expect("starts")))
    }

    pub fn run(&self, arguments: &str) -> Ran {
        self.end(self.start(arguments))
    }

    /// Waits for the end of a session.
    pub fn end(&self, mut session: Session) -> Ran {
        let output: Output = session.0.take().expect("runs").wait_with_output().expect("ends");
        self.sandbox.ran(&output)
    }

    /// Returns the epochs that a job has saved, in order.
    pub fn saved(&self, job: &str) -> Vec<u32> {
        let path = self.sandbox.work(&format!("checkpoints/{job}/epochs"));
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| line.parse().expect("a number")).collect()
    }

    /// Returns how many times each epoch of a job was reported, over all its runs.
    fn reported(&self, job: &str) -> BTreeMap<u64, u32> {
        let mut counts = BTreeMap::new();
        for run in self.sandbox.runs() {
            let path = self.sandbox.state(&format!("runs/{run}/report/{job}/rank-0.jsonl"));
            for line in fs::read_to_string(path).unwrap_or_default().lines() {
                let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
                *counts.entry(line["epoch"].as_u64().expect("a number")).or_default() += 1;
            }
        }
        counts
    }

    /// Checks that a job has done each epoch once, and reported none twice.
    #[track_caller]
    pub fn did_each_epoch_once(&self, job: &str, epochs: u32) {
        assert_eq!(self.saved(job), (1..=epochs).collect::<Vec<_>>(), "{job}");
        assert!(self.reported(job).values().all(|count| *count == 1), "{job}: {:?}", self.reported(job));
    }

    /// Returns the command lines of the processes of jobs in this directory.
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("HSCHED_CHECKPOINT_DIR={}", self.sandbox.work("").display());
        let of = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.ok()?.path();
            let environment = fs::read(path.join("environ")).ok()?;
            let is_own = environment.split(|byte| *byte == 0).any(|word| word.starts_with(mark.as_bytes()));
            let command = fs::read(path.join("cmdline")).ok()?;
            is_own.then(|| String::from_utf8_lossy(&command).replace('\0', " "))
        };
        fs::read_dir("/proc").expect("a folder").filter_map(of).collect()
    }

    /// Returns the process ids of the guards in this directory.
    pub fn guards(&self) -> Vec<i32> {
        let root = self.sandbox.path("").display().to_string();
        let of = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.ok()?.path();
            let command = String::from_utf8(fs::read(path.join("cmdline")).ok()?).ok()?;
            let is_guard = command.contains("\0guard\0") && command.contains(&root);
            is_guard.then(|| path.file_name()?.to_str()?.parse().ok()).flatten()
        };
        fs::read_dir("/proc").expect("a folder").filter_map(of).collect()
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub fn await_that(&self, what: &str, holds: impl Fn() -> bool) {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < PATIENCE, "never: {what}; {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn await_epoch(&self, job: &str) {
        self.await_that("an epoch", || !self.saved(job).is_empty());
    }
}

impl Session {
    pub fn signal(&self, signal: Signal) {
        let id = self.0.as_ref().expect("runs").id();
        kill(Pid::from_raw(id.cast_signed()), signal).expect("is there");
    }
}

#[test]
fn jobs_run_to_their_end_on_imagined_devices() {
    let bench = Bench::new(&[job("a", 3, ""), job("b", 2, "max_gpus: 1"), job("c", 1, "")]);
    let ran = bench.run("run jobs.yaml --devices cpu:2").exits(0);
    assert!(ran.stdout.contains("3 completed"), "{}", ran.stdout);
    for (name, epochs) in [("a", 3), ("b", 2), ("c", 1)] {
        bench.did_each_epoch_once(name, epochs);
    }
    assert_eq!(bench.processes(), Vec::<String>::new());
    // Completed jobs do not run again.
    let again = bench.run("run jobs.yaml --devices cpu:2").exits(0);
    assert!(again.stderr.contains("a, b and c have already completed"), "{}", again.stderr);
    bench.did_each_epoch_once("a", 3);
}

#[test]
fn ranks_see_what_they_see_under_sbatch() {
    let print = "env | grep -E '^(RANK|WORLD|LOCAL|MASTER|HSCHED|CUDA|SLURM|SHAPE)' | sort >seen.$RANK; \
                 ps -o pgid= $$ >>group.$RANK; echo out";
    let entry = format!(
        "  - {{name: a, samples_per_epoch: 30, epochs: 1, global_batch: 30, model_size: 0, min_gpus: 2, \
         throughput: {{v100: 200, t4: 100}}, env: {{SHAPE: \"a b,c\"}}, command: \"{print}\"}}\n"
    );
    let bench = Bench::new(&[entry]);
    bench.run("run jobs.yaml --devices v100:1,t4:1 --simulated").exits(0);
    let seen = |rank: u32| {
        let text = fs::read_to_string(bench.sandbox.work(&format!("seen.{rank}"))).expect("a file");
        let line = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        text.lines().filter_map(line).collect::<BTreeMap<String, String>>()
    };
    let (first, second) = (seen(0), seen(1));
    let expected = [
        ("RANK", "0", "1"),
        ("LOCAL_RANK", "0", "1"),
        ("WORLD_SIZE", "2", "2"),
        ("LOCAL_WORLD_SIZE", "2", "2"),
        ("MASTER_ADDR", "127.0.0.1", "127.0.0.1"),
        ("HSCHED_JOB", "a", "a"),
        ("HSCHED_GPU_TYPE", "v100", "t4"),
        ("HSCHED_GLOBAL_BATCH", "30", "30"),
        ("HSCHED_LOCAL_BATCH", "20", "10"),
        ("HSCHED_MICRO_BATCH", "20", "10"),
        ("HSCHED_ACCUMULATION", "1", "1"),
        ("HSCHED_BATCHES", "20,10", "20,10"),
        ("HSCHED_EPOCHS", "1", "1"),
        ("HSCHED_EPOCHS_DONE", "0", "0"),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "PCI_BUS_ID"),
        // The GPUs are simulated, so programs must not find any.
        ("CUDA_VISIBLE_DEVICES", "", ""),
        ("SHAPE", "a b,c", "a b,c"),
    ];
    for (name, of_first, of_second) in expected {
        assert_eq!((first[name].as_str(), second[name].as_str()), (of_first, of_second), "{name}");
    }
    for name in ["HSCHED_RUN", "HSCHED_PLAN", "HSCHED_CHECKPOINT_DIR", "HSCHED_STOP_GRACE_S", "MASTER_PORT"] {
        assert!(!first[name].is_empty() && first[name] == second[name], "{name}");
    }
    assert!(first["HSCHED_REPORT"].ends_with("/report/a/rank-0.jsonl"));
    assert!(!first.contains_key("HSCHED_LEASE") && !first.contains_key("SLURM_PROCID"), "{first:?}");
    let group = |rank: u32| fs::read_to_string(bench.sandbox.work(&format!("group.{rank}"))).expect("a file");
    assert_ne!(group(0), group(1));
    assert_eq!(fs::read_to_string(bench.sandbox.work("a.out")).expect("the output"), "out\nout\n");
}

#[test]
fn a_run_ends_where_a_job_can_never_start() {
    let bench = Bench::new(&[job("a", 2, "max_gpus: 1"), job("wide", 2, "min_gpus: 4")]);
    let ran = bench.run("run jobs.yaml --devices cpu:2").exits(3);
    let why = "no job is running, and these jobs cannot start on these devices: wide";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    bench.did_each_epoch_once("a", 2);
}

#[test]
fn jobs_save_when_hsched_is_asked_to_end_and_go_on_afterwards() {
    let bench = Bench::new(&[job("a", 40, "max_gpus: 1"), job("b", 30, "max_gpus: 1")]);
    for (signal, code) in [(Signal::SIGTERM, 85), (Signal::SIGUSR1, 85), (Signal::SIGINT, 130)] {
        let before = bench.saved("a").len();
        let session = bench.start("run jobs.yaml --devices cpu:2");
        bench.await_that("two more epochs", || bench.saved("a").len() >= before + 2);
        let status = bench.sandbox.run("status").succeeds();
        assert!(!status.contains("hsched run is not active here"), "{status}");
        session.signal(signal);
        let ran = bench.end(session).exits(code);
        assert!(ran.stderr.contains("stopped; to resume: hsched run --devices cpu:2"), "{}", ran.stderr);
        assert_eq!(bench.processes(), Vec::<String>::new());
        let status = bench.sandbox.run("status").succeeds();
        assert!(status.contains("was interrupted; resumes after epoch"), "{status}");
        assert!(status.contains("hsched run is not active here"), "{status}");
    }
    // The job file is not needed, because the jobs are in the state.
    bench.run("run --devices cpu:2").exits(0);
    bench.did_each_epoch_once("a", 40);
    bench.did_each_epoch_once("b", 30);
    // The file was given three times, but each job exists once.
    let results = bench.sandbox.run("results --format json").exits(0).json();
    let rows = results["runs"].as_array().expect("runs").iter();
    let rows: Vec<_> = rows.map(|run| (&run["name"], &run["state"])).collect();
    assert_eq!(rows, [(&"a".into(), &"completed".into()), (&"b".into(), &"completed".into())]);
}

#[test]
fn a_failure_counts_even_if_the_last_job_completes_while_hsched_ends() {
    let report = r#"echo "{\"epoch\": 1}" >>"$HSCHED_REPORT"; exit 0"#;
    let command = format!("trap '{report}' USR1; touch started; while :; do sleep 0.1; done");
    let jobs = json!({"jobs": [
        {"name": "bad", "command": "exit 3", "retries": 0},
        {"name": "good", "command": command, "epochs": 1},
    ]});
    let bench = Bench::new(&[]);
    fs::write(bench.sandbox.work("jobs.yaml"), jobs.to_string()).expect("writes");
    let session = bench.start("run jobs.yaml --devices cpu:2");
    let status = || bench.sandbox.run("status").succeeds();
    bench.await_that("the failure", || {
        bench.sandbox.work("started").exists() && status().contains("1 failed")
    });
    session.signal(Signal::SIGTERM);
    let ran = bench.end(session).exits(1);
    assert!(ran.stdout.contains("1 completed, 1 failed"), "{}", ran.stdout);
}

#[test]
fn jobs_are_added_and_cancelled_while_it_runs() {
    let bench = Bench::new(&[job("a", 200, SPEED), job("b", 200, SPEED)]);
    bench.write("more.yaml", &[job("c", 2, SPEED)]);
    let session = bench.start("run jobs.yaml --devices cpu:1 --policy srtf");
    bench.await_that("an epoch", || !bench.saved("a").is_empty() || !bench.saved("b").is_empty());
    let refused = bench.sandbox.run("add jobs.yaml").fails(1);
    assert!(refused.contains("already under hsched run: ") && !refused.contains("Slurm"), "{refused}");
    let text = bench.sandbox.run("cancel a --dry-run").succeeds();
    assert_eq!(text, "a: would be cancelled by hsched run at its next turn\n");
    let added = bench.sandbox.run("add more.yaml --format json").exits(0).json();
    assert_eq!(added["carried_out_by"], "run");
    bench.await_that("the new job's end", || bench.saved("c").len() == 2);
    let cancelled = bench.sandbox.run("cancel a b --format json").exits(0).json();
    assert_eq!(cancelled["carried_out_by"], "run");
    let ran = bench.end(session).exits(1);
    assert!(ran.stdout.contains("1 completed, 2 cancelled"), "{}", ran.stdout);
    bench.did_each_epoch_once("c", 2);
    assert_eq!(bench.processes(), Vec::<String>::new());
}

/// A training may write its metrics beside the epoch or under `metrics`; a target accepts both.
#[test]
fn a_metric_beside_the_epoch_is_as_good_as_one_under_metrics() {
    let report = |name: &str, line: &str| {
        let line = format!("echo '{line}' >>$HSCHED_REPORT");
        format!(
            "  - {{name: {name}, model: m, samples_per_epoch: 1, epochs: 1, global_batch: 1, model_size: 0, max_gpus: 1, \
             target: {{metric: val_loss, mode: min}}, command: [bash, -c, {line:?}]}}\n"
        )
    };
    let bench = Bench::new(&[
        report("beside", r#"{"epoch": 1, "val_loss": 0.3, "metrics": {"lr": 0.1}}"#),
        report("under", r#"{"epoch": 1, "metrics": {"val_loss": 0.2, "lr": 0.1}}"#),
    ]);
    bench.run("run jobs.yaml --devices cpu:1").exits(0);
    let status = bench.sandbox.run("status --format json").exits(0).json();
    for (job, value) in [(0, 0.3), (1, 0.2)] {
        let job = &status["jobs"][job];
        assert_eq!(job["metric"], serde_json::json!({"name": "val_loss", "value": value}));
        assert!(job["odd_reports"].is_null(), "{job}");
    }
    let best = serde_json::json!([{"model": "m", "metric": "val_loss", "job": "under", "value": 0.2}]);
    assert_eq!(status["best"], best);
    let text = bench.sandbox.run("status beside").succeeds();
    assert!(text.contains("\n  metric     val_loss 0.3000\n"), "{text}");
}

/// Two ranks print the same and report no epoch: the job was probably intended to run once.
#[test]
fn a_command_that_ignores_its_rank_is_noticed() {
    let hello = |name: &str, line: &str| {
        format!(
            "  - {{name: {name}, samples_per_epoch: 1, epochs: 1, global_batch: 2, model_size: 0, min_gpus: 2, command: [bash, -c, {line:?}]}}\n"
        )
    };
    let bench = Bench::new(&[
        hello("same", "echo hello"),
        hello("ranks", "echo hello from $RANK"),
        hello("reports", r#"echo hello; echo '{"epoch": 1}' >>$HSCHED_REPORT"#),
    ]);
    let ran = bench.run("run jobs.yaml --devices cpu:2").exits(0);
    let said: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("printed the same")).collect();
    assert_eq!(
        said,
        [
            "note: same: its 2 ranks printed the same output and reported no epoch; a command that ignores RANK does all its work once per GPU; to run it once, set max_gpus: 1"
        ]
    );
    // Another run does not mention ended jobs.
    let ran = bench.run("run --devices cpu:2").exits(0);
    assert!(!ran.stderr.contains("printed the same"), "{}", ran.stderr);
}

#[test]
fn a_short_job_takes_the_place_of_a_long_one_which_goes_on_later() {
    let bench = Bench::new(&[job("long", 60, SPEED)]);
    bench.write("more.yaml", &[job("short", 2, SPEED)]);
    let session = bench.start("run jobs.yaml --devices cpu:1 --policy srtf --set restart_cost=0s");
    bench.await_epoch("long");
    bench.sandbox.run("add more.yaml").exits(0);
    bench.await_that("the short one's end", || bench.saved("short").len() == 2);
    assert!(bench.saved("long").len() < 60);
    let ran = bench.end(session).exits(0);
    assert!(ran.stdout.contains("long: stopping"), "{}", ran.stdout);
    bench.did_each_epoch_once("long", 60);
    bench.did_each_epoch_once("short", 2);
}

#[test]
fn the_jobs_of_a_run_and_those_of_slurm_keep_apart() {
    let bench = Bench::new(&[job("a", 1000, "")]);
    let session = bench.start("run jobs.yaml --devices cpu:1");
    bench.await_epoch("a");
    let locked = bench.sandbox.run("run --devices cpu:1");
    assert_eq!(locked.code, Some(75), "{}", locked.stderr);
    session.signal(Signal::SIGTERM);
    bench.end(session).exits(85);
    let error = bench.sandbox.run("watch --once").fails(78);
    assert!(error.contains("under hsched run") && error.contains("hsched run resumes them"), "{error}");
    // Jobs can also be added and cancelled while no `hsched run` is active.
    bench.write("more.yaml", &[job("b", 1, "")]);
    let text = bench.sandbox.run("add more.yaml").succeeds();
    assert_eq!(text, "b: added\nhsched run places these jobs\n");
    let text = bench.sandbox.run("cancel a").succeeds();
    assert_eq!(text, "a: cancelled (was waiting)\n");
}
