//! Failures: ranks that crash, an sbatch that refuses, a controller that does not answer.

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::real_cluster::start;
use crate::real_user::{Done, TestUser, job, user, wait_for, wait_within};
use crate::sandbox::write_program;

/// Runs four ranks with a command that fails at once in one of them or in all, while the others would run
/// forever; checks the end of the job and its output.
fn check_crash(user: &TestUser<'_>, name: &str, command: &Value, exit: &str, message: &str) {
    let mut job = job(name, 4, "");
    job["command"] = command.clone();
    let plan = user.plan_over(&["b1 {v100: 2}", "a1 {t4: 2}"], &[job]);
    assert_eq!(plan["jobs"][0]["ranks"].as_array().expect("ranks").len(), 4);
    let ids = user.submit(&["plan.json", "--pin", "--run-id", name]);
    wait_for("the start", || (!user.read(format!("{name}.out")).is_empty()).then_some(()));
    let ended = user.ended(&ids[name]);
    let output = user.read(format!("{name}.out"));
    assert_eq!(ended.states, ["FAILED", "FAILED"], "{name}: {output}");
    assert_eq!(ended.exit, exit, "{name}: {output}");
    assert!(output.contains(message), "{name}: {output}");
}

#[test]
fn a_rank_that_fails_ends_all_ranks_with_its_status() {
    let Some(user) = user("crash", "mech") else { return };
    let command = "echo up; [ $RANK != 3 ] || exit 9; sleep infinity".into();
    check_crash(&user, "status", &command, "9:0", "hsched: rank 3 on a1 failed first, with status 9");
    // The shell that waits for the command converts the signal to a status.
    let command = "echo up; [ $RANK != 1 ] || kill -SEGV $$; sleep infinity".into();
    check_crash(&user, "signal", &command, "139:0", "hsched: rank 1 on b1 failed first, with status 139");
    let command = json!(["/no/such/program"]);
    check_crash(&user, "missing", &command, "127:0", "/no/such/program: No such file or directory");
}

#[test]
fn what_sbatch_refuses_is_told_and_recorded() {
    let Some(user) = user("refused", "mech") else { return };
    let mut picky = job("picky", 1, "true");
    picky["sbatch"] = json!(["--constraint=no-such-feature"]);
    let _ = user.plan_over(&["b1 {v100: 2}"], &[picky, job("plain", 1, "sleep 60")]);
    for (options, message) in [
        ("--reservation=nope", "Requested reservation is invalid"),
        ("--no-such-option", "unrecognized option '--no-such-option'"),
        ("--licenses=nope:1", "Invalid license specification"),
    ] {
        let done = user.hsched(&["submit", "plan.json", "-j", "plain", "--", options]);
        assert_eq!(done.code, Some(1), "{options}: {}{}", done.stdout, done.stderr);
        let told = format!("{}{}", done.stdout, done.stderr);
        assert!(told.contains("plain: not submitted: ") && told.contains(message), "{options}: {told}");
    }
    let done = user.hsched(&["submit", "plan.json", "--run-id", "partly", "--format", "json"]);
    assert_eq!(done.code, Some(4), "{}{}", done.stdout, done.stderr);
    let value: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!([&value["jobs"][0]["state"], &value["jobs"][1]["state"]], ["refused", "submitted"]);
    assert_eq!(value["jobs"][0]["message"], "Invalid feature specification");
    let journal = user.read("state/journal");
    let refused = r#""event":"refused","job":"picky","message":"Invalid feature specification""#;
    assert!(journal.contains(refused), "{journal}");

    let done = user.hsched(&["plan", "jobs.yaml", "--set", "partition=mehc"]);
    assert_eq!(done.code, Some(78), "{}", done.stderr);
    assert!(done.stderr.contains("did you mean \"mech\"?"), "{}", done.stderr);
}

/// Returns the Slurm jobs with this name, including ended ones.
fn jobs_named(user: &TestUser<'_>, name: &str) -> Vec<String> {
    let text = user.ask("squeue", &["-h", "-t", "all", "-n", name, "-o", "%i %T"]);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_silent_controller_is_told_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = folder.path().join("nodes");
    fs::write(&nodes, "partition gpu default\nk1 cpus=4 memory=8000 gpus=v100:2\n").expect("a file");
    let Some(cluster) = start(&nodes, "300/4/2") else { return };
    let user = TestUser::new(&cluster, "silent", "");
    user.write(
        "jobs.yaml",
        &json!({ "jobs": [job("before", 1, "sleep 2"), job("after", 1, "true")] }).to_string(),
    );
    let _ = user.plan(&["jobs.yaml"]);
    let before = user.submit(&["plan.json", "-j", "before", "--run-id", "first"])["before"].clone();
    user.running(&before);

    let controller = cluster.controller();
    signal(&controller, Signal::SIGSTOP);
    let limit = ["--set", "slurm_timeout=0.5s", "--format", "json"];
    let done = user.hsched(&[&["submit", "plan.json", "-j", "after"], &limit[..]].concat());
    assert_eq!(done.code, Some(69), "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("no answer within"), "{}", done.stderr);
    assert_eq!(fs::read_dir(user.folder.join("state/runs")).expect("runs").count(), 1, "no run was begun");
    signal(&controller, Signal::SIGCONT);
    assert_eq!(user.submit(&["plan.json", "-j", "after", "--run-id", "second"]).len(), 1);
    assert!(user.ended(&before).completed());
    wait_for("the other job", || {
        jobs_named(&user, "after").iter().all(|job| job.contains("COMPLETED")).then_some(())
    });

    // The controller stops answering when sbatch is about to contact it, so the outcome is unknown.
    let bin = user.folder.join("bin");
    fs::create_dir(&bin).expect("a folder");
    let sbatch = user.ask("sh", &["-c", "command -v sbatch"]);
    let text = format!("#!/bin/sh\nkill -STOP {controller}\nexec {} \"$@\"\n", sbatch.trim());
    write_program(&bin.join("sbatch"), &text);
    let path = user.path_after(&bin);
    let unclear = ["submit", "plan.json", "-j", "before", "--run-id", "third", "--set", "slurm_timeout=1s"];
    let done = user.hsched_with(&[("PATH", &path)], &unclear);
    assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("before: unclear whether it was submitted"), "{}", done.stdout);
    assert!(user.read("state/journal").contains(r#""event":"unclear""#));
    signal(&controller, Signal::SIGCONT);
    let heard = wait_within(Duration::from_secs(2), || (jobs_named(&user, "before").len() > 1).then_some(()));
    let again: Done = user.hsched(&["submit", "plan.json", "-j", "before", "--run-id", "fourth"]);
    // The job is never submitted twice: it is refused while the outcome is unknown and, unless it has ended,
    // if the request arrived.
    if heard.is_some() {
        assert!(
            again.code == Some(1) || jobs_named(&user, "before").len() == 3,
            "{}{}",
            again.stdout,
            again.stderr
        );
    } else {
        assert_eq!(again.code, Some(1), "{}{}", again.stdout, again.stderr);
        assert!(again.stderr.contains("before (no clear answer yet"), "{}", again.stderr);
    }
}

fn signal(process: &str, signal: Signal) {
    let number = process.trim().parse().expect("a process number");
    kill(Pid::from_raw(number), signal).expect("a signal");
}
