//! `hsched submit`: the arguments of sbatch, the stored data, and answers of sbatch of every kind.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;

use insta::assert_snapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::sandbox::{JOBS, Ran, Sandbox, THREE, mode};

const SUBMIT: &str = "submit jobs.yaml --cluster cluster.yaml --run-id r1";

/// Returns a sandbox with three jobs for three GPUs.
fn three_jobs() -> Sandbox {
    let third = "  - {name: third, samples_per_epoch: 10, epochs: 1, global_batch: 2, model_size: 0,\n     \
                 throughput: {v100: 5}, command: train}\n";
    let jobs = format!("{}{third}", crate::sandbox::JOBS);
    Sandbox::with_slurm().file("cluster.yaml", THREE).file("jobs.yaml", jobs)
}

/// Returns a sandbox with three jobs and an sbatch that runs `lines`, with the number of its call in `$n`.
fn answering(lines: &str) -> Sandbox {
    let count = "n=$(cat \"$root/count\" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >\"$root/count\"";
    three_jobs().program("sbatch", &format!("{count}\n{lines}"))
}

#[test]
fn each_job_is_given_to_sbatch_with_the_users_options_as_they_are() {
    let sandbox = three_jobs();
    let ran =
        sandbox.run(&format!("{SUBMIT} -j vgg19 -j resnet18 -j vgg19 -- --exclusive -C 'a b' --wckey '*'"));
    assert_snapshot!(ran.succeeds(), @r"
    resnet18: submitted as job 1
    vgg19: submitted as job 2
    ");
    let calls = sandbox.calls("sbatch");
    let script = |job: &str| sandbox.state(&format!("runs/r1/{job}.sbatch")).display().to_string();
    let options = ["--parsable", "--exclusive", "-C", "a b", "--wckey", "*"];
    let expected =
        ["resnet18", "vgg19"].map(|job| [&options[..], &[script(job).as_str()]].concat().join("|"));
    assert_eq!(calls.iter().map(|call| call.join("|")).collect::<Vec<_>>(), expected);
    assert_eq!(sandbox.calls("squeue").len(), 1);
}

/// While the job waits, no other user can put a link in the place of its output, unless others can write to
/// the directory and it has no sticky bit.
#[test]
fn an_output_is_there_before_its_job_is_submitted() {
    for (bits, notes) in [(0o755, 0), (0o1777, 0), (0o777, 1)] {
        let sandbox =
            answering("ls \"$root/home/desk\" >\"$root/seen.$n\"; echo $n").file("vgg19.out", "before\n");
        let folder = std::fs::Permissions::from_mode(bits);
        std::fs::set_permissions(sandbox.work(""), folder).expect("a mode");
        let ran = sandbox.run(SUBMIT).exits(0);
        let seen = sandbox.text(&sandbox.path("seen.1"));
        assert!(seen.contains("resnet18.out\n") && !seen.contains("third.out\n"), "{seen}");
        assert_eq!(sandbox.text(&sandbox.work("vgg19.out")), "before\n");
        let note = "note: other users can write to ROOT/home/desk and replace outputs there with links: ";
        assert_eq!(ran.stderr.matches(note).count(), notes, "{bits:o}: {}", ran.stderr);
    }
}

#[test]
fn the_run_is_kept_for_its_owner_alone() {
    let sandbox = three_jobs();
    let dry = sandbox.run(&format!("{SUBMIT} --dry-run")).succeeds();
    assert!(sandbox.calls("sbatch").is_empty() && !sandbox.state("").exists());
    sandbox.run(SUBMIT).succeeds();
    let scripts = ["resnet18", "vgg19", "third"]
        .map(|job| sandbox.text(&sandbox.state(&format!("runs/r1/{job}.sbatch"))));
    assert!(scripts.concat() == dry);
    assert_snapshot!(sandbox.journal(), @r#"
    {"event":"added","job":"resnet18","restart":false,"seq":1}
    {"event":"added","job":"vgg19","restart":false,"seq":2}
    {"event":"added","job":"third","restart":false,"seq":3}
    {"action":"submit","gpus":"1 v100","job":"resnet18","run":"r1","seq":4}
    {"action":"submit","gpus":"1 v100","job":"vgg19","run":"r1","seq":5}
    {"action":"submit","gpus":"1 v100","job":"third","run":"r1","seq":6}
    {"event":"submitted","job":"resnet18","job_id":1,"run":"r1","seq":8}
    {"event":"submitted","job":"vgg19","job_id":2,"run":"r1","seq":9}
    {"event":"submitted","job":"third","job_id":3,"run":"r1","seq":10}
    "#);
    let plan: Value = serde_json::from_str(&sandbox.text(&sandbox.state("runs/r1/plan.json"))).expect("JSON");
    assert_eq!(plan["schema"], "hsched.plan/1");
    for folder in ["", "runs", "runs/r1"] {
        assert_eq!(mode(&sandbox.state(folder)), 0o700, "{folder}");
    }
    for file in ["lock", "journal", "state.json", "runs/r1/plan.json", "runs/r1/vgg19.sbatch"] {
        assert_eq!(mode(&sandbox.state(file)), 0o600, "{file}");
    }
}

#[test]
fn json_says_what_became_of_each_job() {
    let sandbox = three_jobs().file("cluster.yaml", "nodes: [{name: a, gpus: {v100: 2}}]");
    let ran = sandbox.run(&format!("{SUBMIT} --format json")).exits(0);
    let value = ran.json();
    assert_eq!((&value["schema"], &value["run"]), (&json!("hsched.submit/1"), &json!("r1")));
    assert_eq!(value["folder"], "ROOT/home/.local/state/hsched/runs/r1");
    let states: Vec<String> = value["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| format!("{} {} {} {}", job["name"], job["state"], job["job_id"], job["message"]))
        .collect();
    assert_snapshot!(states.join("\n"), @r#"
    "resnet18" "not_placed" null "no GPU is left; number 1 among the waiting jobs"
    "vgg19" "submitted" "1" null
    "third" "submitted" "2" null
    "#);
    assert_snapshot!(ran.stderr, @"note: resnet18 was not submitted: no GPU is left; number 1 among the waiting jobs");
    let dry = sandbox.run(&format!("{SUBMIT} --format json --dry-run")).exits(0).json();
    assert_eq!((&dry["folder"], &dry["jobs"][1]["state"]), (&Value::Null, &json!("dry_run")));
    assert!(dry["jobs"][1]["script"].as_str().expect("a script").starts_with("#!/bin/bash\n"));
}

#[test]
fn nothing_to_submit_is_told_and_starts_no_run() {
    let sandbox = three_jobs().file("cluster.yaml", "nodes: []");
    assert_snapshot!(sandbox.run(SUBMIT).fails(3), @r"
    note: resnet18 was not submitted: the cluster has no GPUs
    note: vgg19 was not submitted: the cluster has no GPUs
    note: third was not submitted: the cluster has no GPUs
    ");
    let value = sandbox.run(&format!("{SUBMIT} --format json")).exits(3).json();
    assert_eq!((&value["folder"], &value["jobs"][2]["state"]), (&Value::Null, &json!("not_placed")));
    assert!(sandbox.calls("sbatch").is_empty() && sandbox.runs().is_empty());
}

#[test]
fn a_refused_job_does_not_keep_the_others_back() {
    let refusing = |number: u32| {
        answering(&format!(
            "[ $n = {number} ] && {{ echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1; }}; echo $n"
        ))
    };
    assert_snapshot!(refusing(1).run(SUBMIT).exits(4).stdout, @r"
    resnet18: not submitted: Invalid account
    vgg19: submitted as job 2
    third: submitted as job 3
    ");
    let sandbox = refusing(2);
    assert_snapshot!(sandbox.run(SUBMIT).exits(4).stdout, @r"
    resnet18: submitted as job 1
    vgg19: not submitted: Invalid account
    third: submitted as job 3
    ");
    assert!(sandbox.journal().contains(
        "{\"event\":\"refused\",\"job\":\"vgg19\",\"message\":\"Invalid account\",\"run\":\"r1\",\"seq\":9}\n"
    ));
    let value = refusing(2).run(&format!("{SUBMIT} --format json")).exits(4).json();
    assert_eq!(
        value["jobs"][1],
        json!({"name": "vgg19", "state": "refused", "job_id": null, "message": "Invalid account", "epochs_done": 0})
    );
    assert_eq!((&value["jobs"][2]["state"], &value["jobs"][2]["job_id"]), (&json!("submitted"), &json!("3")));
}

#[test]
fn when_all_are_refused_the_command_has_failed() {
    assert_snapshot!(answering("echo no >&2; exit 1").run(SUBMIT).exits(1).stdout, @r"
    resnet18: not submitted: no
    vgg19: not submitted: no
    third: not submitted: no
    ");
    assert_snapshot!(answering("exit 2").run(&format!("{SUBMIT} -j third")).exits(1).stdout, @"third: not submitted: sbatch gave no reason (exit status: 2)");
}

/// Runs a submission that must end with the second job, whose outcome is unknown.
fn unknown(sandbox: &Sandbox) -> String {
    let ran = sandbox.run(&format!("{SUBMIT} --set slurm_timeout=5s")).exits(4);
    let journal = sandbox.journal();
    assert!(
        journal.lines().any(|line| line.starts_with("{\"event\":\"unclear\",\"job\":\"vgg19\"")),
        "{journal}"
    );
    assert_eq!(sandbox.calls("sbatch").len(), 2);
    ran.stdout
}

#[test]
fn an_unclear_answer_ends_the_submission() {
    assert_snapshot!(unknown(&answering("[ $n = 2 ] && { echo hello; exit 0; }; echo $n")), @r#"
    resnet18: submitted as job 1
    vgg19: unclear whether it was submitted (sbatch printed "hello" but no job id); check squeue --me
    third: not submitted: not tried, because an earlier request failed
    "#);
    assert_snapshot!(unknown(&answering("[ $n = 2 ] && sleep 30; echo $n")), @r"
    resnet18: submitted as job 1
    vgg19: unclear whether it was submitted (sbatch: no answer within 5s); check squeue --me
    third: not submitted: not tried, because an earlier request failed
    ");
    assert_snapshot!(unknown(&answering("[ $n = 2 ] && kill -9 $$; echo $n")), @r"
    resnet18: submitted as job 1
    vgg19: unclear whether it was submitted (sbatch: signal: 9 (SIGKILL): no error message); check squeue --me
    third: not submitted: not tried, because an earlier request failed
    ");
    let timed_out = "[ $n = 2 ] && { echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1; }; echo $n";
    assert_snapshot!(unknown(&answering(timed_out)), @r"
    resnet18: submitted as job 1
    vgg19: unclear whether it was submitted (Socket timed out on send/recv operation); check squeue --me
    third: not submitted: not tried, because an earlier request failed
    ");
}

#[test]
fn a_job_whose_answer_was_lost_is_found_in_the_queue() {
    let queued = "9|9|N/A|N/A|PENDING|Priority|gpu|a|N/A|N/A|1:00|1|1|0|0||||x|third|{\"hsched\":1,\"run\":\"r1\",\"job\":\"third\"}";
    let sandbox = answering("touch \"$root/heard\"; echo lost").printing("squeue", &[queued]);
    let out = sandbox.path("squeue.out").display().to_string();
    let sandbox = sandbox.program("squeue", &format!("[ -e \"$root/heard\" ] && cat '{out}'; :"));
    assert_snapshot!(sandbox.run(&format!("{SUBMIT} -j third")).succeeds(), @"third: submitted as job 9");
}

#[test]
fn a_slurm_that_is_away_is_told_from_a_refusal() {
    let away = "echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1";
    let sandbox = answering(away);
    assert_snapshot!(sandbox.run(SUBMIT).exits(69).stdout, @r"
    resnet18: not submitted: sbatch: Slurm's controller cannot be reached: sbatch: error: Unable to contact slurm controller (connect failure)
    vgg19: not submitted: not tried, because an earlier request failed
    third: not submitted: not tried, because an earlier request failed
    ");
    assert_eq!(sandbox.calls("sbatch").len(), 1);
    let sandbox = three_jobs();
    std::fs::remove_file(sandbox.path("bin/sbatch")).expect("was there");
    assert_snapshot!(sandbox.run(&format!("{SUBMIT} -j third")).exits(69).stdout, @"third: not submitted: sbatch: command not found; is Slurm installed and in PATH?");
}

#[test]
fn a_job_in_the_queue_is_not_submitted_again() {
    let line = |state: &str| {
        format!(
            "5|5|N/A|N/A|{state}|x|gpu|a|N/A|N/A|1:00|1|1|0|0||||x|vgg19|{{\"hsched\":1,\"run\":\"r0\",\"job\":\"vgg19\"}}"
        )
    };
    let sandbox = three_jobs().printing("squeue", &[&line("PENDING")]);
    assert_snapshot!(sandbox.run(SUBMIT).fails(1), @r"
    error: already in the queue: vgg19 (job 5, PENDING); nothing was submitted
    hint: cancel it with scancel 5 (this state directory does not have it), rename the new job, or choose other jobs with --job
    ");
    assert!(sandbox.calls("sbatch").is_empty() && sandbox.runs().is_empty());
    sandbox.run(&format!("{SUBMIT} -j third")).succeeds();
    three_jobs().printing("squeue", &[&line("COMPLETED")]).run(SUBMIT).succeeds();
}

#[test]
fn options_that_would_hide_the_job_are_refused() {
    let sandbox = three_jobs();
    assert_snapshot!(sandbox.run(&format!("{SUBMIT} -- --comment=mine")).fails(78), @r#"
    error: sbatch option "--comment=mine" is refused: hsched uses the comment to find its jobs in the queue
    hint: leave the option out
    "#);
    for option in ["-Jmine", "-J", "--job-name=mine", "--job"] {
        let refused = sandbox.run(&format!("{SUBMIT} -- {option} mine")).fails(78);
        assert!(refused.contains("hsched uses the name to cancel the right job"), "{refused}");
    }
    assert!(sandbox.calls("sbatch").is_empty());
}

/// Sends a signal to a submission while sbatch is running, and checks that the answer of sbatch is stored.
#[track_caller]
fn interrupt(signal: Signal) -> std::process::ExitStatus {
    let sandbox =
        answering(": >\"$root/started\"; while [ ! -e \"$root/go\" ]; do sleep 0.01; done; echo 17");
    // Background processes of a shell, which these tests may be, ignore SIGINT from the start.
    let arguments =
        [&["--default-signal=INT", env!("CARGO_BIN_EXE_hsched")], &SUBMIT.split(' ').collect::<Vec<_>>()[..]];
    let mut command = sandbox.start("/usr/bin/env", &arguments.concat());
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
    let child = child.expect("starts");
    sandbox.await_file("started");
    kill(Pid::from_raw(child.id().try_into().expect("a number")), signal).expect("a signal");
    std::fs::write(sandbox.path("go"), "").expect("a file");
    let output = child.wait_with_output().expect("ends");
    let Ran { stdout, .. } = sandbox.ran(&output);
    assert_eq!(stdout, "resnet18: submitted as job 17\n");
    assert!(sandbox.journal().ends_with(
        "{\"event\":\"submitted\",\"job\":\"resnet18\",\"job_id\":17,\"run\":\"r1\",\"seq\":8}\n"
    ));
    assert_eq!(sandbox.calls("sbatch").len(), 1);
    output.status
}

#[test]
fn a_signal_waits_for_the_answer_and_its_record() {
    assert_eq!(interrupt(Signal::SIGTERM).signal(), Some(Signal::SIGTERM as i32));
    let status = interrupt(Signal::SIGINT);
    assert_eq!((status.code(), status.signal()), (Some(130), None));
}

#[test]
fn a_job_after_nobody_is_refused_by_a_dry_run_too() {
    let jobs = crate::sandbox::JOBS.replacen("epochs:", "after: nobody, epochs:", 1);
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", THREE).file("jobs.yaml", jobs);
    for arguments in [SUBMIT.to_owned(), format!("{SUBMIT} --dry-run")] {
        let refused = sandbox.run(&arguments).fails(78);
        assert!(refused.contains("depends on nobody, but there is no job of that name"), "{refused}");
    }
    assert!(sandbox.calls("sbatch").is_empty());
}

/// Jobs of a pending allocation must not be offered for a manual start.
#[test]
fn the_status_of_jobs_in_one_allocation_names_its_slurm_job() {
    let sandbox = Sandbox::with_slurm();
    let said = sandbox.run("submit --together jobs.yaml --gpus v100:2 --time 2h --format json").exits(0);
    let root = said.json()["state_dir"]
        .as_str()
        .expect("a path")
        .replace("ROOT", &sandbox.path("").display().to_string());
    let sandbox = sandbox.variable("HSCHED_STATE_DIR", &root);
    let status = sandbox.run("status").succeeds();
    let wanted = "these jobs belong to the Slurm job hsched-run, which is not running: squeue --me --name=hsched-run shows whether it is pending\n";
    assert!(status.contains(wanted) && status.contains("/runs/hsched-run.sbatch"), "{status}");
    assert!(!status.contains("start hsched run again"), "{status}");
}

/// A job that must wait for another one is not submitted, nor is a job that depends on a job that does not
/// exist; a message says why or what to do.
#[test]
fn what_only_waits_is_not_submitted_and_its_owner_is_told_what_to_do() {
    let waiting = JOBS.replace("name: vgg19", "name: vgg19, after: resnet18");
    let sandbox = Sandbox::with_slurm().file("jobs.yaml", waiting);
    let said = sandbox.run("submit jobs.yaml --job vgg19").exits(3);
    assert!(
        said.stderr.contains("no job was submitted; to queue the waiting jobs, run hsched add JOBS"),
        "{}",
        said.stderr
    );
    let alone = JOBS.lines().take(3).collect::<Vec<_>>().join("\n").replace("resnet18", "x, after: nobody");
    let sandbox = sandbox.file("jobs.yaml", alone);
    assert!(
        sandbox
            .run("submit jobs.yaml")
            .fails(78)
            .contains("x depends on nobody, but there is no job of that name")
    );
    assert!(sandbox.calls("sbatch").is_empty());
}
