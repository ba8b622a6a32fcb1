//! `hsched submit SCRIPT`: a script is submitted once and unchanged, and followed to its end, with a fake
//! Slurm.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const SCRIPT: &str =
    "#!/bin/bash\n#SBATCH --gres=gpu:v100:1\n#SBATCH --time=2:00:00\n#SBATCH -o log-%x-%4j\necho hello\n";

/// Returns a sandbox with a script.
fn with_script() -> Sandbox {
    Sandbox::with_slurm().file("train.sh", SCRIPT).program("scancel", ":").program("sacct", ":")
}

/// Returns the comment of the last submission, which names its run.
fn comment(sandbox: &Sandbox) -> String {
    let calls = sandbox.calls("sbatch");
    let word = calls.last().expect("a call").iter().rev().find_map(|word| word.strip_prefix("--comment="));
    word.expect("a comment").to_owned()
}

/// Returns a line of a queue that shows the last submission.
fn line(sandbox: &Sandbox, (id, shown): (u32, &str), state: &str, exit: u32) -> String {
    let comment = comment(sandbox);
    let nodes = if state == "PENDING" { "" } else { "v1" };
    format!(
        "{id}|{shown}|N/A|N/A|{state}|Priority|gpu|2026-11-21T06:13:16|2026-11-21T06:13:17|2026-11-21T06:23:17|\
         2:00:00|1|1|0|{exit}|{nodes}|||N/A|train.sh|{comment}"
    )
}

fn script(sandbox: &Sandbox) -> Value {
    sandbox.run("status --format json").json()["scripts"][0].clone()
}

#[test]
fn a_script_is_submitted_as_it_is_with_a_comment() {
    let sandbox = with_script();
    let dry = sandbox.run("submit train.sh --run-id r1 --dry-run -- -p gpu").succeeds();
    assert_snapshot!(dry, @r#"sbatch --parsable -p gpu '--comment={"hsched":1,"run":"r1","job":"train.sh"}' ROOT/home/desk/train.sh"#);
    assert!(sandbox.calls("sbatch").is_empty() && !sandbox.state("").exists());
    let ran = sandbox.run("submit train.sh --run-id r1 -- -p gpu").exits(0);
    assert_snapshot!(ran.stdout, @"train.sh: submitted as job 1");
    assert_snapshot!(ran.stderr, @"note: hsched watch follows it; hsched logs train.sh prints its output");
    assert_eq!(sandbox.text(&sandbox.work("train.sh")), SCRIPT);
    assert_eq!(sandbox.text(&sandbox.state("runs/r1/train.sh")), SCRIPT);
    let status = script(&sandbox);
    assert_eq!(
        [&status["state"], &status["job_id"], &status["limit_s"], &status["options"]],
        [&json!("pending"), &json!("1"), &json!(7200.0), &json!(["-p", "gpu"])]
    );
    assert_eq!(status["output"], "ROOT/home/desk/log-train.sh-0001");
}

#[test]
fn a_comment_of_the_user_stands_within_that_of_hsched() {
    let sandbox = with_script();
    sandbox.run("submit train.sh --run-id r1 -- --comment='for \"ann\"'").exits(0);
    assert_eq!(comment(&sandbox), r#"{"hsched":1,"run":"r1","job":"train.sh","comment":"for \"ann\""}"#);
    let sandbox = {
        let line = line(&sandbox, (1, "1"), "RUNNING", 0);
        sandbox.printing("squeue", &[&line])
    };
    sandbox.run("watch --once").exits(0);
    assert_eq!(script(&sandbox)["state"], "running");
}

#[test]
fn what_is_no_single_submission_is_refused() {
    let sandbox =
        with_script().file("wrong.sh", "#!/bin/bash\n#SBATCH --time=never\n").file("jobs.yaml", "jobs: []");
    let refused = |arguments: &str, code: i32| sandbox.run(arguments).fails(code);
    assert_snapshot!(refused("submit wrong.sh", 78), @r"
    error: sbatch would refuse wrong.sh: line 2: Invalid --time specification
    hint: write the time as hours:minutes:seconds: --time=4:00:00
    ");
    assert_snapshot!(refused("submit train.sh -- --wait", 78), @"error: train.sh: --wait cannot be used: hsched does not wait for its jobs; hsched watch does");
    assert!(refused("submit train.sh -j a", 2).starts_with("error: train.sh is a batch script: --job, "));
    assert_snapshot!(refused("submit jobs.yaml --may limit", 2), @"error: --may is for a batch script; for a job file, see the job keys");
    assert!(refused("submit train.sh -- 0.1", 78).contains("is not an option"));
    assert!(sandbox.calls("sbatch").is_empty());
}

#[test]
fn nothing_is_kept_of_a_script_that_slurm_refuses() {
    let refuse = "echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1";
    let sandbox = with_script().program("sbatch", refuse);
    assert_snapshot!(sandbox.run("submit train.sh").exits(1).stdout, @"train.sh: not submitted: Invalid account");
    assert_eq!((script(&sandbox), sandbox.runs().len()), (Value::Null, 0));
}

/// hsched is killed while sbatch runs, before or after Slurm has the job: the next hsched looks for the job
/// in the queue, and does not submit it again.
#[test]
fn a_script_is_not_submitted_twice_when_hsched_is_killed() {
    for has_job in [true, false] {
        let sandbox = with_script().program("sbatch", "kill -9 $PPID");
        assert_eq!(sandbox.run("submit train.sh --run-id r1").code, Some(137));
        assert_eq!(script(&sandbox)["state"], "submitting");
        let lines = if has_job { vec![line(&sandbox, (9, "9"), "PENDING", 0)] } else { Vec::new() };
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let sandbox = sandbox.printing("squeue", &lines);
        let again = sandbox.run("submit train.sh --run-id r2").fails(1);
        let what = if has_job {
            "job 9, PENDING"
        } else {
            "Slurm has not confirmed the submission yet; try again in a minute"
        };
        assert!(again.contains(&format!("already in the queue: train.sh ({what})")), "{again}");
        sandbox.run("watch --once").exits(0);
        assert_eq!(sandbox.calls("sbatch").len(), 1);
        assert_eq!(script(&sandbox)["job_id"], if has_job { json!("9") } else { Value::Null });
    }
}

#[test]
fn only_an_exit_status_of_0_is_a_completion() {
    for (state, exit, word, reason) in [
        ("COMPLETED", 0, "completed", Value::Null),
        ("FAILED", 85 << 8, "failed", json!("failed with exit status 85")),
        ("TIMEOUT", 0, "failed", json!("reached its time limit")),
        ("OUT_OF_MEMORY", 0, "failed", json!("ran out of memory")),
        ("CANCELLED", 0, "cancelled", Value::Null),
        ("NODE_FAIL", 0, "failed", json!("lost a node")),
        ("NEW_STATE", 0, "running", Value::Null),
    ] {
        let sandbox = with_script();
        sandbox.run("submit train.sh").exits(0);
        let queue_line = line(&sandbox, (1, "1"), state, exit);
        let sandbox = sandbox.printing("squeue", &[&queue_line]);
        sandbox.run("watch --once").exits(0);
        let status = script(&sandbox);
        assert_eq!((&status["state"], &status["reason"]), (&json!(word), &reason), "{state}");
    }
}

#[test]
fn an_array_has_completed_when_all_of_its_tasks_have() {
    let tasks = |states: &[&str]| {
        let sandbox = with_script();
        sandbox.run("submit train.sh -- --array=1-3").exits(0);
        let line = |(task, state): (usize, &&str)| line(&sandbox, (1, &format!("1_{}", task + 1)), state, 0);
        let lines: Vec<String> = states.iter().enumerate().map(line).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let sandbox = sandbox.printing("squeue", &lines);
        sandbox.run("watch --once").exits(0);
        let status = script(&sandbox);
        format!("{} {}", status["state"].as_str().expect("a word"), status["reason"])
    };
    assert_eq!(tasks(&["COMPLETED", "COMPLETED", "COMPLETED"]), "completed null");
    assert_eq!(tasks(&["COMPLETED", "RUNNING", "COMPLETED"]), "running null");
    // The queue no longer lists one of the tasks, and nothing else is known about it.
    assert_eq!(tasks(&["COMPLETED", "COMPLETED"]), "pending null");
    let cut = tasks(&["COMPLETED", "TIMEOUT", "COMPLETED"]);
    assert_eq!(cut, "failed \"1 of 3 tasks did not complete; the first reached its time limit\"");
}

#[test]
fn its_output_is_the_file_that_slurm_makes_of_the_pattern() {
    let sandbox = with_script();
    sandbox.run("submit train.sh").exits(0);
    assert!(
        sandbox.run("logs train.sh").fails(1).starts_with("error: train.sh has not started yet: pending")
    );
    let sandbox = sandbox.file("log-train.sh-0001", "one\ntwo\n");
    assert_eq!(sandbox.run("logs train.sh --tail 1").succeeds(), "two\n");
    let sandbox = sandbox.file("many.sh", "#!/bin/bash\n#SBATCH --array=1-2 -o t_%A_%a\n");
    sandbox.run("submit many.sh").exits(0);
    let sandbox = sandbox.file("t_2_2", "second\n").file("t_2_1", "first\n").file("t_3_1", "other\n");
    assert_snapshot!(sandbox.run("logs many.sh").succeeds(), @r"
    ==> ROOT/home/desk/t_2_1 <==
    first

    ==> ROOT/home/desk/t_2_2 <==
    second
    ");
    assert_eq!(sandbox.run("logs many.sh --task 2").succeeds(), "second\n");
}

#[test]
fn a_script_that_a_tag_cannot_select_is_not_left_out_silently() {
    let jobs = crate::sandbox::JOBS.replace("{name: vgg19,", "{name: vgg19, tags: old,");
    let sandbox = with_script().file("jobs.yaml", jobs);
    sandbox.run("submit train.sh").exits(0);
    sandbox.run("add jobs.yaml").exits(0);
    for command in ["cancel vgg19 train.sh --tag old", "status vgg19 train.sh --tag old"] {
        let told = sandbox.run(command).fails(2);
        assert!(told.contains("a script has no tags, so --tag cannot select it"), "{command}: {told}");
    }
    assert!(sandbox.calls("scancel").is_empty());
    // A pattern selects jobs with the tag.
    let told = sandbox.run("cancel v* t* --tag old").exits(0).stdout;
    assert_eq!(told, "vgg19: cancelled (was waiting)\n");
}

#[test]
fn a_script_is_cancelled_by_its_name_and_a_name_with_blanks_too() {
    let sandbox = with_script();
    sandbox.run("submit train.sh -- -J 'my job'").exits(0);
    let queue_line = line(&sandbox, (1, "1"), "PENDING", 0).replace("|train.sh|", "|my job|");
    let sandbox = sandbox.printing("squeue", &[&queue_line]);
    assert_snapshot!(sandbox.run("cancel my_job --dry-run").succeeds(), @"my_job: would be cancelled (job 1)");
    assert!(sandbox.calls("scancel").is_empty());
    assert_snapshot!(sandbox.run("cancel my_job").succeeds(), @"my_job: cancelling (job 1)");
    assert_eq!(sandbox.calls("scancel"), [["--me", "--name=my job", "1"]]);
    let queue_line = queue_line.replace("PENDING", "CANCELLED");
    let sandbox = sandbox.printing("squeue", &[&queue_line]);
    sandbox.run("watch --once").exits(0);
    assert_snapshot!(sandbox.run("cancel --all").succeeds(), @"all jobs have already ended");
    assert_eq!(script(&sandbox)["state"], "cancelled");
}

/// Marks the script as stopping so that it can be submitted with other options, as `watch --queue` leaves it
/// if it is killed before it cancels the job.
fn between(sandbox: &Sandbox) {
    let path = sandbox.state("state.json");
    let text = fs::read_to_string(&path).expect("a state");
    let mut state: Value = serde_json::from_str(&text).expect("JSON");
    let script = &mut state["scripts"][0];
    script["submission"]["stage"] = json!({"stopping": {"since": 0.0, "then": "go_on", "request": "meant"}});
    script["next"] = json!(["--gres=gpu:t4:1"]);
    state["sha256"] = json!("edited");
    fs::write(&path, state.to_string()).expect("a file");
}

#[test]
fn a_move_goes_on_where_hsched_was_killed() {
    let sandbox = with_script().variable("MINE", "yes");
    sandbox.run("submit train.sh --may type").exits(0);
    between(&sandbox);
    // The job is still pending, so it is cancelled, and nothing is submitted yet.
    let pending = line(&sandbox, (1, "1"), "PENDING", 0);
    let sandbox = sandbox.printing("squeue", &[&pending]);
    sandbox.run("watch --once").exits(0);
    assert_eq!(sandbox.calls("scancel"), [["--me", "--name=train.sh", "--state=PENDING", "1"]]);
    assert_eq!(sandbox.calls("sbatch").len(), 1);
    // The job is gone, and hsched dies while it submits the next one.
    let sandbox =
        sandbox.printing("squeue", &[&pending.replace("PENDING", "CANCELLED").replace("|v1|", "||")]);
    let sandbox = sandbox.program("sbatch", "kill -9 $PPID");
    assert_eq!(sandbox.run("watch --once").code, Some(137));
    let calls = sandbox.calls("sbatch");
    assert_eq!((calls.len(), calls[1].contains(&"--gres=gpu:t4:1".to_owned())), (2, true), "{calls:?}");
    assert!(sandbox.environment("sbatch").contains("MINE=yes"));
    // Slurm has the next submission.
    let next = line(&sandbox, (2, "2"), "PENDING", 0);
    let sandbox = sandbox.printing("squeue", &[&next]);
    sandbox.run("watch --once").exits(0);
    let status = script(&sandbox);
    assert_eq!((&status["job_id"], &status["options"]), (&json!("2"), &json!(["--gres=gpu:t4:1"])));
    assert_eq!(sandbox.calls("sbatch").len(), 2);
}

#[test]
fn a_script_that_has_started_is_not_submitted_again() {
    let sandbox = with_script();
    sandbox.run("submit train.sh --may type").exits(0);
    between(&sandbox);
    let queue_line = line(&sandbox, (1, "1"), "RUNNING", 0);
    let sandbox = sandbox.printing("squeue", &[&queue_line]);
    sandbox.run("watch --once").exits(0);
    assert_eq!(script(&sandbox)["state"], "running");
    let sandbox = sandbox.printing("squeue", &[&queue_line.replace("RUNNING", "CANCELLED")]);
    sandbox.run("watch --once").exits(0);
    assert_eq!((script(&sandbox)["state"].clone(), sandbox.calls("sbatch").len()), (json!("cancelled"), 1));
}

#[test]
fn the_output_of_pieces_is_found_by_the_pattern_of_the_script() {
    let sandbox = with_script();
    sandbox.run("submit train.sh --pieces 1h --run-id c1").exits(0);
    assert!(
        sandbox.run("logs train.sh").fails(1).starts_with("error: train.sh has not started yet: pending")
    );
    fs::write(sandbox.state("pieces/c1/report/started"), "1\n7\n").expect("a file");
    let sandbox = sandbox.file("log-train.sh-0001", "first\n").file("log-train.sh-0007", "second\n");
    assert_eq!(sandbox.run("logs train.sh").succeeds(), "second\n");
    assert_eq!(sandbox.run("logs c1 --attempt 1").succeeds(), "first\n");
    assert!(
        sandbox
            .run("logs train.sh --attempt 3")
            .fails(1)
            .starts_with("error: piece 3 of train.sh has not started")
    );
    assert!(sandbox.run("watch").exits(0).stdout.starts_with("no jobs to follow: scripts in pieces"));
}

#[test]
fn an_ended_chain_hides_no_job_of_its_name() {
    let sandbox = with_script();
    sandbox.run("submit train.sh --pieces 1h --run-id c1").exits(0);
    let again = sandbox.run("submit train.sh").fails(1);
    assert!(again.contains("already in the queue: train.sh (a chain of pieces)"), "{again}");
    sandbox.run("cancel train.sh").exits(0);
    sandbox.run("submit train.sh --run-id r1").exits(0);
    let value = sandbox.run("status train.sh --format json").json();
    let states: Vec<&Value> =
        value["scripts"].as_array().expect("scripts").iter().map(|script| &script["state"]).collect();
    assert_eq!(states, ["cancelled", "pending"]);
    let queue_line = line(&sandbox, (2, "2"), "PENDING", 0);
    let sandbox = sandbox.printing("squeue", &[&queue_line]);
    assert_snapshot!(sandbox.run("cancel train.sh").succeeds(), @"train.sh: cancelling (job 2)");
}
