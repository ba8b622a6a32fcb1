//! `hsched watch`: the calls of a turn to Slurm, its messages, and the reasons to stop.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use insta::assert_snapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::cli_jobs::line;
use crate::sandbox::Sandbox;

/// A node as `sinfo` prints it, with two free V100.
const NODE: &str = "v1|gpu*|infinite|idle|gpu:v100:2|gpu:v100:0|0/8/0/8|64000|0|v100|";

const JOBS: &str = "\
jobs:
  - {name: a, samples_per_epoch: 1000, epochs: 2, global_batch: 100, model_size: 0, throughput: {v100: 100}, command: x}
  - {name: b, samples_per_epoch: 1000, epochs: 3, global_batch: 100, model_size: 0, throughput: {v100: 100}, command: x}
  - {name: c, samples_per_epoch: 1000, epochs: 4, global_batch: 100, model_size: 0, throughput: {v100: 100}, min_gpus: 3, command: x}
";

fn sandbox() -> Sandbox {
    Sandbox::with_slurm().printing("sinfo", &[NODE]).file("jobs.yaml", JOBS)
}

/// Returns the log without its times.
fn lines(stdout: &str) -> String {
    stdout.lines().map(|line| line.get(20..).unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_race_is_named_where_it_is() {
    let ran = Sandbox::with_slurm().run("watch --race 3").fails(2);
    assert!(ran.contains("watch --queue") && ran.contains("submit --race"), "{ran}");
}

#[test]
fn a_turn_asks_the_queue_and_the_nodes_once_and_submits_what_can_run() {
    let sandbox = sandbox();
    sandbox.run("add jobs.yaml").succeeds();
    let before = sandbox.calls("squeue").len();
    let told = sandbox.run("watch --dry-run").exits(0).stdout;
    assert_snapshot!(lines(&told), @r"
    c: waiting: needs 3 v100; a job can have at most 2 on this cluster
    a: to be submitted on 1 v100; predicted 10.0 s per epoch
    b: to be submitted on 1 v100; predicted 10.0 s per epoch
    ");
    assert!(sandbox.calls("sbatch").is_empty() && sandbox.runs().is_empty());
    let told = sandbox.run("watch --once").exits(0).stdout;
    assert_snapshot!(lines(&told), @r"
    c: waiting: needs 3 v100; a job can have at most 2 on this cluster
    a: submitted as job 1 on 1 v100 (v1); predicted 10.0 s per epoch
    b: submitted as job 2 on 1 v100 (v1); predicted 10.0 s per epoch
    ");
    let calls = ["squeue", "sinfo", "sbatch"].map(|program| sandbox.calls(program).len());
    assert_eq!(calls, [before + 2, 2, 2]);
    let status = sandbox.run("status --format json").exits(0).json();
    let states: Vec<&Value> = (0..3).map(|job| &status["jobs"][job]["state"]).collect();
    assert_eq!(states, ["pending", "pending", "waiting"]);
}

#[test]
fn a_partition_that_is_not_there_is_named_with_those_that_are() {
    let sandbox = sandbox();
    sandbox.run("add jobs.yaml --partition night").succeeds();
    let told = sandbox.run("watch --once").exits(0).stdout;
    assert!(
        lines(&told)
            .starts_with("a: waiting: no node of this cluster is in partition \"night\"; partitions: gpu\n"),
        "{told}"
    );
    // The event is reported once.
    assert_eq!(sandbox.run("watch --once").exits(0).stdout, "");
    assert!(sandbox.calls("sbatch").is_empty());
}

#[test]
fn programs_get_a_line_of_json_for_each_thing_that_happens() {
    let sandbox = sandbox();
    sandbox.run("add jobs.yaml").succeeds();
    let told = sandbox.run("watch --once --format json").exits(0).stdout;
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let brief: Vec<String> = lines.iter().map(|line| format!("{} {}", line["job"], line["topic"])).collect();
    assert_snapshot!(brief.join("\n"), @r#"
    "c" "wait"
    "a" "submission"
    "b" "submission"
    "#);
    assert!(lines.iter().all(|line| line["at"].is_number() && line["text"].is_string()));
}

#[test]
fn what_slurm_has_let_go_is_asked_for_once_a_turn() {
    let sandbox = sandbox().program("sacct", "exit 1").program("scontrol", "exit 1");
    sandbox.run("add jobs.yaml").succeeds();
    sandbox.run("watch --once").exits(0);
    assert!(sandbox.calls("sacct").is_empty());
    // The queue is empty: both jobs have left it.
    let told = sandbox.run("watch --once").exits(0).stdout;
    assert_snapshot!(lines(&told), @"a, b: not in the queue; waiting a minute to be sure");
    assert_eq!((sandbox.calls("sacct").len(), sandbox.calls("sbatch").len()), (1, 2));
}

#[test]
fn without_jobs_it_says_what_to_do_and_ends() {
    assert_snapshot!(sandbox().run("watch").succeeds(), @"no jobs: add jobs with hsched add JOBS or hsched submit JOBS");
    let sandbox = sandbox();
    sandbox.run("add jobs.yaml").succeeds();
    sandbox.run("cancel a b c").exits(0);
    assert_snapshot!(sandbox.run("watch").succeeds(), @"all jobs have ended: hsched status shows them");
}

#[test]
fn a_slurm_that_is_away_ends_a_single_turn() {
    let away = "echo 'error: Unable to contact slurm controller (connect failure)' >&2; exit 1";
    let sandbox = sandbox().program("squeue", away);
    let failed = sandbox.run("watch --once").exits(69);
    assert!(failed.stderr.contains("Slurm's controller cannot be reached"), "{}", failed.stderr);
}

#[test]
fn an_interrupt_has_an_exit_code_unless_it_is_ignored_from_the_start() {
    let sandbox = sandbox();
    sandbox.run("add jobs.yaml").succeeds();
    let end = |how: &str, signals: &[Signal]| {
        let _ = fs::remove_file(sandbox.path("calls.sinfo"));
        let arguments = [how, env!("CARGO_BIN_EXE_hsched"), "watch", "--interval", "1h"];
        let mut watch =
            sandbox.start("/usr/bin/env", &arguments).stdout(Stdio::null()).spawn().expect("starts");
        sandbox.await_file("calls.sinfo");
        for &signal in signals {
            kill(Pid::from_raw(watch.id().try_into().expect("a number")), signal).expect("a signal");
        }
        let status = watch.wait().expect("ends");
        (status.code(), status.signal())
    };
    assert_eq!(end("--default-signal=INT", &[Signal::SIGINT]), (Some(130), None));
    assert_eq!(end("--ignore-signal=INT", &[Signal::SIGINT, Signal::SIGTERM]), (None, Some(15)));
}

#[test]
fn a_job_that_ended_badly_before_the_first_look_counts_for_the_exit_status() {
    let text =
        JOBS.lines().take(2).collect::<Vec<_>>().join("\n").replace("command: x", "retries: 0, command: x");
    let sandbox = sandbox().file("jobs.yaml", text);
    sandbox.run("add jobs.yaml").succeeds();
    sandbox.run("watch --once").exits(0);
    let run = sandbox.runs().remove(0);
    let ended = line(1, "a", "FAILED").replace("\"run\":\"r1\"", &format!("\"run\":\"{run}\""));
    let ended = ended.replace("a|N/A|N/A|", "N/A|N/A|2026-01-01T00:00:00|").replace("|0|0||||", "|0|1:0||||");
    let sandbox = sandbox.printing("squeue", &[&ended]);
    // The job ended long before this `watch` started, and its end has not been recorded yet.
    let told = sandbox.run("watch").exits(1).stdout;
    assert!(lines(&told).starts_with("a: failed with exit status 1"), "{told}");
    // The end is now recorded.
    sandbox.run("watch").exits(0);
}

#[test]
fn it_ends_when_its_reader_does() {
    let sandbox = sandbox();
    sandbox.run("add jobs.yaml").succeeds();
    let mut watch = sandbox
        .command(&["watch", "--forever", "--interval", "1h"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    // The reader ends at this statement, like `head -1`.
    BufReader::new(watch.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.contains("c: waiting"), "{line}");
    assert_eq!(watch.wait().expect("ends").code(), Some(0));
}

#[test]
fn one_watch_goes_on_at_a_time() {
    let sandbox = sandbox();
    sandbox.make_state();
    let lock = fs::File::create(sandbox.state("watch.lock")).expect("a file");
    lock.lock().expect("is free");
    assert_snapshot!(sandbox.run("watch").fails(75), @r"
    error: ROOT/home/.local/state/hsched/watch.lock: another hsched watch already follows these jobs
    hint: hsched status shows them
    ");
    // Single turns share the state with the running `watch`.
    sandbox.run("watch --once").exits(0);
}

#[test]
fn a_watch_with_another_policy_than_the_plans_says_so_once() {
    let sandbox = sandbox();
    sandbox.run("add jobs.yaml --policy jps --alpha 0.5 --seed 3").succeeds();
    let said = sandbox.run("watch --dry-run").exits(0).stderr;
    assert_snapshot!(said, @"note: the jobs were planned with --policy jps --alpha 0.5 --seed 3, but this watch plans with --policy optimal; to keep the old policy, start it with --policy jps --alpha 0.5 --seed 3");
    assert_eq!(sandbox.run("watch --once").exits(0).stderr, said);
    assert_eq!(sandbox.run("watch --once").exits(0).stderr, "");
    assert_eq!(sandbox.run("watch --once --use-all").exits(0).stderr.lines().count(), 1);
    // `add` without a policy changes nothing, so the note is not repeated.
    let other = crate::sandbox::JOBS.replace("resnet18", "third").replace("vgg19", "fourth");
    let sandbox = sandbox.file("other.yaml", other);
    sandbox.run("add other.yaml").exits(0);
    assert_eq!(sandbox.run("watch --once --use-all").exits(0).stderr, "");
}

#[test]
fn a_policy_over_time_is_for_watch_but_not_for_its_queue() {
    let sandbox = sandbox();
    let first =
        |command: &str| sandbox.run(command).fails(2).lines().next().map(str::to_owned).unwrap_or_default();
    assert_snapshot!(first("plan jobs.yaml --policy horizon"), @"error: policy horizon reschedules running jobs; use it with hsched watch, hsched run or hsched simulate");
    assert_snapshot!(first("watch --policy srtf"), @"error: policy srtf reschedules running jobs; use it with hsched run or hsched simulate");
    assert_snapshot!(sandbox.run("watch --policy horizon --queue").fails(2), @r"
    error: policy horizon submits a job only when GPUs are free for it, so --queue has no effect
    hint: remove --queue, or use --policy optimal
    ");
    sandbox.run("add jobs.yaml").succeeds();
    let said = sandbox.run("watch --once --policy horizon --moves auto").exits(0);
    assert!(said.stdout.contains("submitted as job"), "{}", said.stdout);
}
