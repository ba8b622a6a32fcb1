//! Jobs that are asked to stop before they are done: regardless of the status of their commands, they are
//! interrupted and never complete.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cli_run::Bench;
use crate::real_cluster::repository;

/// Names and commands of jobs; `SLEEP` is a program that the signal ends.
const SHAPES: [(&str, &str); 8] = [
    ("line", "SLEEP; echo evaluated"),
    ("pipe", "SLEEP | cat"),
    ("trap", "trap : USR1; SLEEP; true"),
    ("subshell", "(SLEEP; true); true"),
    ("clean", "trap 'exit 0' USR1; SLEEP & wait"),
    ("saver", "trap 'exit 85' USR1; SLEEP & wait"),
    ("fails", "trap 'exit 3' USR1; SLEEP & wait"),
    ("plain", "exec SLEEP"),
];

/// Returns a job without a checkpoint. `SLEEP` in its command is a program that creates the file `up-NAME`
/// and sleeps; the signal ends it.
fn silent(name: &str, command: &str) -> String {
    let command = command.replace("SLEEP", &format!("bash -c ': >up-{name}; exec sleep 60'"));
    format!(
        "  - {{name: {name}, samples_per_epoch: 100, epochs: 20, global_batch: 10, model_size: 0, max_gpus: 1, retries: 0, \
         throughput: {{cpu: 2000}}, command: \"{command}\"}}\n"
    )
}

fn all() -> Vec<String> {
    SHAPES.iter().map(|(name, command)| silent(name, command)).collect()
}

/// Waits until all commands are running.
fn await_all(bench: &Bench) {
    bench.await_that("all commands", || {
        SHAPES.iter().all(|(name, _)| bench.sandbox.work(&format!("up-{name}")).exists())
    });
}

/// Returns the output of `status` about the jobs.
fn status(bench: &Bench) -> Value {
    let mut status: Value =
        serde_json::from_str(&bench.sandbox.run("status --format json").succeeds()).expect("JSON");
    status["jobs"].take()
}

#[test]
fn a_notice_of_slurm_after_jobs_were_asked_to_save_takes_no_time_from_them() {
    let command = "trap 'touch asked; while [ ! -e told ]; do sleep 0.01; done; sleep 0.5; touch saved; exit 85' USR1; touch up; \
                   while :; do sleep 0.05; done";
    let entry = format!(
        "  - {{name: a, samples_per_epoch: 30, epochs: 1, global_batch: 30, model_size: 0, max_gpus: 1, \
         checkpoint: {{grace: 60s}}, throughput: {{cpu: 200}}, command: \"{command}\"}}\n"
    );
    let bench = Bench::new(&[entry]);
    let session = bench.start("run jobs.yaml --devices cpu:1");
    bench.await_that("a start", || bench.sandbox.work("up").exists());
    session.signal(Signal::SIGTERM);
    bench.await_that("a request", || bench.sandbox.work("asked").exists());
    session.signal(Signal::SIGUSR1);
    std::fs::write(bench.sandbox.work("told"), "").expect("a file");
    bench.end(session).exits(85);
    assert!(bench.sandbox.work("saved").exists());
}

#[test]
fn jobs_that_are_asked_to_stop_are_interrupted_whatever_their_commands_return() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 85), (Signal::SIGUSR1, 85)] {
        let bench = Bench::new(&all());
        let session = bench.start("run jobs.yaml --devices cpu:8 --format json");
        await_all(&bench);
        session.signal(signal);
        let ran = bench.end(session).exits(code);
        assert!(!ran.stdout.contains("completed"), "{signal}: {}", ran.stdout);
        let jobs = status(&bench);
        assert!(!jobs.to_string().contains("completed"), "{signal}: {jobs}");
        for job in jobs.as_array().expect("jobs") {
            assert_eq!(job["state"], "waiting", "{signal}: {job}");
            assert_eq!(
                (&job["failures"], &job["runs"][0]["end"]),
                (&0.into(), &"was interrupted".into()),
                "{job}"
            );
        }
        // The run gives no information about speeds.
        let cache = bench.sandbox.run("cache show --format json").json();
        assert_eq!(cache["speeds"], Value::Array(Vec::new()), "{signal}");
        assert_eq!(bench.processes(), Vec::<String>::new());
    }
}

#[test]
fn an_interrupted_job_runs_again_and_completes_when_nobody_stops_it() {
    let bench = Bench::new(&[silent("a", "test -e go || SLEEP; echo evaluated")]);
    for _ in 0..5 {
        let session = bench.start("run jobs.yaml --devices cpu:1");
        bench.await_that("the command", || bench.sandbox.work("up-a").exists());
        session.signal(Signal::SIGINT);
        bench.end(session).exits(130);
        fs::remove_file(bench.sandbox.work("up-a")).expect("it ran");
    }
    // An interrupted `run` never uses a retry.
    assert_eq!((&status(&bench)[0]["state"], &status(&bench)[0]["failures"]), (&"waiting".into(), &0.into()));
    fs::write(bench.sandbox.work("go"), "").expect("a file");
    let ran = bench.run("run --devices cpu:1").exits(0);
    assert!(ran.stdout.contains("1 completed"), "{}", ran.stdout);
    assert_eq!(status(&bench)[0]["runs"][5]["end"], "completed");
}

#[test]
fn what_was_reported_or_saved_before_the_stop_counts() {
    let report = |epoch: u32| format!("echo '{{\\\"epoch\\\": {epoch}}}' >>$HSCHED_REPORT");
    let jobs = [
        // The training has finished its last epoch and is evaluating.
        silent("evaluates", &format!("{}; SLEEP; echo evaluated", report(20))),
        // The epoch is a float, the result of a division in Python.
        silent("divides", &format!("{}; SLEEP; echo evaluated", report(20).replace("20", "20.0"))),
        // The command reports an epoch and does not handle the signal.
        silent("deaf", &format!("{}; exec SLEEP", report(1))),
        // The command saves a checkpoint within an epoch.
        silent("writes", "echo 1 >$HSCHED_CHECKPOINT_DIR/part; SLEEP; echo evaluated"),
    ];
    let bench = Bench::new(&jobs);
    let session = bench.start("run jobs.yaml --devices cpu:4");
    bench.await_that("all", || {
        ["evaluates", "divides", "deaf", "writes"]
            .iter()
            .all(|name| bench.sandbox.work(&format!("up-{name}")).exists())
    });
    session.signal(Signal::SIGTERM);
    bench.end(session).exits(85);
    let jobs = status(&bench);
    assert_eq!(jobs[0]["state"], "completed", "{}", jobs[0]);
    assert_eq!(jobs[1]["state"], "completed", "{}", jobs[1]);
    assert_eq!((&jobs[2]["state"], &jobs[2]["epochs_done"]), (&"waiting".into(), &1.into()), "{}", jobs[2]);
    assert_eq!(jobs[3]["state"], "waiting", "{}", jobs[3]);
    let word = |job: &str| {
        let run = jobs
            .as_array()
            .expect("jobs")
            .iter()
            .find(|candidate| candidate["name"] == job)
            .expect("the job");
        let path = format!("runs/{}/report/{job}/ends", run["runs"][0]["run"].as_str().expect("a run"));
        let text = fs::read_to_string(bench.sandbox.state(&path)).expect("a word");
        text.split_once(' ').expect("two words").1.trim().to_owned()
    };
    assert_eq!((word("evaluates").as_str(), word("writes").as_str()), ("0", "85 saved"));
    assert_eq!((word("divides").as_str(), word("deaf").as_str()), ("0", "85 interrupted unhandled"));
    assert!(
        bench.sandbox.text(&bench.sandbox.work("deaf.out")).contains("its command does not handle SIGUSR1")
    );
    assert!(bench.sandbox.text(&bench.sandbox.work("writes.out")).contains("the training can resume"));
}

#[test]
fn a_command_that_stops_by_itself_and_saves_nothing_is_not_started_for_ever() {
    let bench = Bench::new(&[silent("a", "exit 85")]);
    let ran = bench.run("run jobs.yaml --devices cpu:1 --set retry_delay=0.1s").exits(1);
    assert!(ran.stdout.contains("stopped 4 times without finishing an epoch"), "{}", ran.stdout);
    assert_eq!(status(&bench)[0]["runs"].as_array().map(Vec::len), Some(4));
}

/// Returns whether a rank records that its command returned 0 by itself, after a request to stop by its file
/// or by a signal, or without a request.
fn notes_return(launch: &str, request: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = r#"
      . "$1/templates/rank.sh"
      hs_report_dir=$2 hs_token=7.0.1 hs_rank=0 hs_launch=$3 hs_stopping=0 hs_terminated=0
      hs_trap_rank_signals
      case $4 in file) : >"$2/.stop.7.0.1" ;; signal) kill -USR1 "$BASHPID" ;; end) kill -TERM "$BASHPID" ;; esac
      hs_mark_returned
    "#;
    let arguments = [repository().as_os_str(), folder.path().as_os_str(), launch.as_ref(), request.as_ref()];
    let done = Command::new("bash").args(["-uc", lines, "rank"]).args(arguments).status().expect("bash");
    assert!(done.success(), "{launch} {request}");
    folder.path().join(".returned.7.0.1.0").exists()
}

/// The file of a request precedes its signals, which reach all processes of a rank at once only on this
/// machine.
#[test]
fn a_command_that_returned_0_before_the_signal_has_returned_by_itself() {
    for launch in ["local", "steps"] {
        assert!(notes_return(launch, "none"), "{launch}");
        assert!(!notes_return(launch, "signal") && !notes_return(launch, "end"), "{launch}");
    }
    assert!(notes_return("local", "file") && !notes_return("steps", "file"));
}
