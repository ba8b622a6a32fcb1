//! `hsched add`, `status`, `cancel`, `report`: jobs from their addition to their end, from the user's view.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{JOBS, Sandbox, THREE};

pub const SUBMIT: &str = "submit jobs.yaml --cluster cluster.yaml --run-id r1";

/// Returns a line of a queue that shows job `id` of run r1.
pub fn line(id: u32, job: &str, state: &str) -> String {
    format!(
        "{id}|{id}|N/A|N/A|{state}|x|gpu|a|N/A|N/A|1:00|1|1|0|0||||x|{job}|{{\"hsched\":1,\"run\":\"r1\",\"job\":\"{job}\"}}"
    )
}

/// Returns a sandbox with two jobs as 1 and 2 in the queue.
pub fn submitted() -> Sandbox {
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", THREE).program("scancel", ":");
    sandbox.run(SUBMIT).succeeds();
    sandbox.printing("squeue", &[&line(1, "resnet18", "PENDING"), &line(2, "vgg19", "PENDING")])
}

/// Makes Slurm's programs fail as if the controller did not answer.
fn away(sandbox: Sandbox) -> Sandbox {
    let away = "echo 'error: Unable to contact slurm controller (connect failure)' >&2; exit 1";
    sandbox.program("squeue", away).program("scancel", away)
}

#[test]
fn added_jobs_wait_and_are_told_apart() {
    let sandbox = Sandbox::with_slurm();
    assert_snapshot!(sandbox.run("add jobs.yaml --dry-run").succeeds(), @r"
    resnet18: would be added
    vgg19: would be added
    no job was added (--dry-run)
    ");
    assert!(!sandbox.state("").exists());
    assert_snapshot!(sandbox.run("add jobs.yaml --account def -- --exclusive").succeeds(), @r"
    resnet18: added
    vgg19: added
    hsched watch places these jobs
    ");
    assert!(sandbox.calls("sbatch").is_empty() && sandbox.runs().is_empty());
    let spec = sandbox.snapshot()["jobs"][1]["spec"].clone();
    assert_eq!(
        [&spec["workdir"], &spec["account"], &spec["sbatch"]],
        [&json!("ROOT/home/desk"), &json!("def"), &json!(["--exclusive"])]
    );
    let sandbox = sandbox.file("jobs.yaml", JOBS.replace("vgg19", "third"));
    assert_snapshot!(sandbox.run("add jobs.yaml").succeeds(), @r"
    resnet18: added, replacing the waiting job of the same name
    third: added
    hsched watch places these jobs
    ");
    sandbox.run("cancel resnet18").succeeds();
    let value = sandbox.run("add - --format json").json();
    assert_eq!(value["error"]["code"], "bad_input");
    let value = sandbox.run_with_input("add - --format json", JOBS).exits(0).json();
    let states: Vec<&Value> =
        value["jobs"].as_array().expect("jobs").iter().map(|job| &job["state"]).collect();
    assert_eq!(
        (&value["schema"], states),
        (&json!("hsched.add/1"), vec![&json!("again"), &json!("replaced")])
    );
    assert_snapshot!(sandbox.run("status").succeeds().lines().last().expect("a summary"), @"3 waiting");
}

#[test]
fn nothing_to_cancel_is_said() {
    assert_eq!(Sandbox::with_slurm().run("cancel --all").succeeds(), "there are no jobs to cancel\n");
}

#[test]
fn an_old_look_is_said() {
    let sandbox = submitted();
    let looked = fs::File::options().append(true).open(sandbox.state("looked")).expect("a file");
    assert!(!sandbox.run("status").succeeds().contains("last updated"));
    looked.set_modified(std::time::UNIX_EPOCH).expect("a time");
    let text = sandbox.run("status").succeeds();
    let last = text.lines().last().expect("a line");
    assert!(
        last.starts_with("last updated ") && last.ends_with(" ago; run hsched watch to continue"),
        "{text}"
    );
    let value = sandbox.run("status --format json").exits(0).json();
    assert_eq!(value["looked_at"], 0.0);
}

#[test]
fn what_slurm_has_is_not_added() {
    let sandbox = submitted();
    let before = sandbox.snapshot()["jobs"][0]["spec"].clone();
    assert_snapshot!(sandbox.run("add jobs.yaml --account def").fails(1), @r"
    error: already in the queue: resnet18 (job 1, PENDING), vgg19 (job 2, PENDING); no job was added
    hint: wait until it ends, cancel it with hsched cancel, or rename the new job
    ");
    assert_eq!(sandbox.snapshot()["jobs"][0]["spec"], before);
    // A job that is in the queue is not added, even if it was submitted from another state directory.
    assert_snapshot!(sandbox.run("add jobs.yaml --set state_dir=other --dry-run").fails(1), @r"
    error: already in the queue: resnet18 (job 1, PENDING), vgg19 (job 2, PENDING); no job was added
    hint: wait until it ends, cancel it with scancel 1 2 (this state directory does not have it), or rename the new job
    ");
    assert!(!sandbox.work("other").exists());
    let told = sandbox.run("add jobs.yaml --set state_dir=other").fails(1);
    assert!(told.contains("cancel it with scancel 1 2"), "{told}");
    assert_snapshot!(away(sandbox).run("add jobs.yaml").fails(69).lines().nth(1).expect("a hint"), @"hint: no job was added");
}

#[test]
fn a_wrong_file_adds_nothing() {
    let sandbox = Sandbox::with_slurm().file("jobs.yaml", "jobs: [{name: a, epoch: 3}]");
    let stderr = sandbox.run("add jobs.yaml").fails(78);
    assert!(stderr.contains("did you mean epochs?") && stderr.contains("jobs.yaml:1"), "{stderr}");
    let sandbox = sandbox.file("jobs.yaml", JOBS);
    assert_snapshot!(sandbox.run("add jobs.yaml -- --array=1-3").fails(78), @r#"
    error: sbatch option "--array=1-3" is refused: every task of a job array would run the same ranks; use the job key sweep
    hint: leave the option out
    "#);
    assert!(!sandbox.state("").exists());
}

#[test]
fn status_without_jobs_says_what_to_do() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run("status").succeeds(), @"no jobs in ROOT/home/.local/state/hsched: add some with hsched submit, hsched add or, without Slurm, hsched run");
    let value = sandbox.run("status --format json").exits(0).json();
    assert_eq!((&value["schema"], &value["jobs"]), (&json!("hsched.status/1"), &json!([])));
    assert_snapshot!(sandbox.run("status nobody").fails(2), @r#"
    error: there is no job "nobody"
    hint: there are no jobs yet: add some with hsched submit, hsched add or, without Slurm, hsched run
    "#);
    assert!(!sandbox.state("").exists());
}

/// Returns a text with `TIME` for values that depend on the time of the test.
fn timeless(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let line = match line.rsplit_once(", ") {
            Some((what, time)) if time.ends_with(" ago") || time == "just now" => format!("{what}, TIME"),
            _ => line.to_owned(),
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

#[test]
fn status_counts_what_ranks_have_reported_since() {
    let sandbox = submitted();
    assert_snapshot!(timeless(&sandbox.run("status").succeeds()), @r"
    JOB       STATE    GPUS    EPOCHS  EPOCH TIME  ENDS
    resnet18  pending  2 v100   0/200  77.6 s      -
      submitted as job 1 on 2 v100, TIME
    vgg19     pending  1 v100   0/200  28.5 s      -
      submitted as job 2 on 1 v100, TIME

    2 pending
    ");
    let folder = sandbox.state("runs/r1/report/vgg19");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(
        folder.join("rank-0.jsonl"),
        "{\"epoch\": 1, \"epoch_s\": 15.5}\n{\"epoch\": 2, \"epoch_s\": 16}\n",
    )
    .expect("a file");
    let text = sandbox.run("status").succeeds();
    assert!(text.contains("vgg19     running  1 v100   2/200  28.5 s → 16.0 s  in "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let calls = sandbox.calls("squeue").len();
    let value = sandbox.run("status vgg19 --format json").exits(0).json();
    let job = &value["jobs"][0];
    assert_eq!(
        [&job["epochs_done"], &job["observed_epoch_s"], &job["state"], &job["job_id"]],
        [&json!(2), &json!(16.0), &json!("running"), &json!("2")]
    );
    assert_eq!(job["gpus"], json!([{"node": "a", "type": "v100", "count": 1}]));
    assert_eq!(job["runs"][0]["files"]["reports"], "ROOT/home/.local/state/hsched/runs/r1/report/vgg19");
    assert_eq!((value["jobs"].as_array().map(Vec::len), sandbox.calls("squeue").len()), (Some(1), calls));
}

#[test]
fn status_shows_a_job_in_full() {
    let sandbox = submitted();
    let text = sandbox.run("status vgg19").succeeds();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("  added")).collect();
    assert_snapshot!(timeless(&lines.join("
")), @r"
    vgg19: pending
      last       submitted as job 2 on 1 v100, TIME
      epochs     0 of 200 done
      gpus       1 v100 on a
      epoch time predicted 28.5 s
      retries    0 of 3 used
      script     ROOT/home/.local/state/hsched/runs/r1/vgg19.sbatch
      output     ROOT/home/desk/vgg19.out
      reports    ROOT/home/.local/state/hsched/runs/r1/report/vgg19

    RUN  JOB ID  GPUS    NODES  EPOCHS  RAN  END
    r1        2  1 v100  a           0  -    pending
    ");
    assert_snapshot!(sandbox.run("status vgg18").fails(2), @r#"
    error: there is no job "vgg18"
    hint: did you mean vgg19?
    "#);
}

#[test]
fn a_newer_state_is_named_and_left_alone() {
    let sandbox = submitted();
    let text = "{\"schema\": \"hsched.state/9\"}";
    fs::write(sandbox.state("state.json"), text).expect("a file");
    for command in ["status", "add jobs.yaml", "cancel --all", SUBMIT] {
        let stderr = sandbox.run(command).fails(78);
        let what = "state.json: its schema is hsched.state/9; this version reads hsched.state/3\n";
        assert!(stderr.contains(what), "{command}: {stderr}");
        assert!(stderr.contains("hint: hsched did not change it: "), "{stderr}");
    }
    assert_eq!(sandbox.text(&sandbox.state("state.json")), text);
    assert_eq!(sandbox.calls("sbatch").len(), 2);
}

#[test]
fn cancel_ends_what_waits_and_asks_slurm_for_the_others() {
    let sandbox = submitted().file("jobs.yaml", JOBS.replace("vgg19", "third").replace("resnet18", "fourth"));
    sandbox.run("add jobs.yaml").succeeds();
    let looked = || fs::metadata(sandbox.state("looked")).and_then(|data| data.modified()).expect("a time");
    let before = looked();
    assert_snapshot!(sandbox.run("cancel vgg19 third --dry-run").succeeds(), @r"
    vgg19: would be cancelled (job 2)
    third: would be cancelled (was waiting)
    ");
    assert!(sandbox.calls("scancel").is_empty() && sandbox.phase(1) == "pending");
    assert_eq!(looked(), before);
    assert_snapshot!(sandbox.run("cancel vgg19 third vgg19").succeeds(), @r"
    vgg19: cancelling (job 2)
    third: cancelled (was waiting)
    ");
    assert_eq!(sandbox.calls("scancel"), [["--me", "--name=vgg19", "2"]]);
    assert_eq!([1, 3].map(|job| sandbox.phase(job)), ["stopping", "cancelled"]);
    assert_snapshot!(sandbox.run("cancel third").succeeds(), @r"third: already ended: cancelled");
    let sandbox =
        sandbox.printing("squeue", &[&line(1, "resnet18", "PENDING"), &line(2, "vgg19", "CANCELLED")]);
    let value = sandbox.run("cancel --all --format json").exits(0).json();
    assert_eq!(
        (&value["schema"], &value["jobs"]),
        (
            &json!("hsched.cancel/1"),
            &json!([
                {"name": "resnet18", "state": "cancelling", "job_id": "1", "message": null},
                {"name": "vgg19", "state": "ended", "job_id": null, "message": "cancelled"},
                {"name": "fourth", "state": "cancelled", "job_id": null, "message": null},
            ])
        )
    );
    let sandbox = sandbox.printing("squeue", &[&line(1, "resnet18", "CANCELLED")]);
    sandbox.run("cancel resnet18").succeeds();
    assert_snapshot!(sandbox.run("cancel --all").succeeds(), @r"all jobs have already ended");
    let last = sandbox.run("status").succeeds();
    assert!(last.lines().last().expect("a summary").starts_with("4 cancelled: "), "{last}");
}

#[test]
fn an_unknown_name_cancels_nothing() {
    let sandbox = submitted();
    assert_snapshot!(sandbox.run("cancel resnet18 vgg9").fails(2), @r#"
    error: there is no job "vgg9"
    hint: did you mean vgg19?
    "#);
    assert!(sandbox.calls("scancel").is_empty());
}

#[test]
fn a_wish_is_kept_while_slurm_is_away() {
    let sandbox = submitted().file("jobs.yaml", JOBS.replace("vgg19", "third").replace("resnet18", "fourth"));
    sandbox.run("add jobs.yaml").succeeds();
    let sandbox = away(sandbox);
    assert_snapshot!(sandbox.run("cancel third").succeeds(), @r"third: cancelled (was waiting)");
    let stderr = sandbox.run("cancel vgg19 fourth --set slurm_timeout=0.1s").fails(69);
    assert!(
        stderr.ends_with(
            "hint: the cancellation is recorded: hsched watch cancels the jobs when Slurm answers, or run this command again\n"
        ),
        "{stderr}"
    );
    assert_eq!([1, 2].map(|job| sandbox.phase(job)), ["stopping", "cancelled"]);
    // Between the two calls, the controller stopped answering.
    let queue = [line(1, "resnet18", "PENDING"), line(2, "vgg19", "PENDING")];
    let sandbox = sandbox.printing("squeue", &[&queue[0], &queue[1]]);
    assert_snapshot!(sandbox.run("cancel vgg19").exits(1).stdout, @r"vgg19: not cancelled: scancel: Slurm's controller cannot be reached: error: Unable to contact slurm controller (connect failure); hsched watch retries, or run this command again");
    let sandbox = sandbox.program("scancel", ":");
    assert_snapshot!(sandbox.run("cancel vgg19").succeeds(), @r"vgg19: cancelling (job 2)");
}

#[test]
fn a_job_whose_record_was_lost_is_found_by_its_comment() {
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", THREE).program("scancel", ":");
    // hsched dies after sbatch has accepted the job, but before that is recorded.
    let sandbox = sandbox.program("sbatch", "echo 9; kill -9 $PPID");
    assert_eq!(sandbox.run(&format!("{SUBMIT} -j vgg19")).code, Some(137));
    assert_eq!(sandbox.phase(0), "meant");
    assert!(!sandbox.journal().contains("submitted"), "{}", sandbox.journal());
    let sandbox = sandbox.printing("squeue", &[&line(9, "vgg19", "PENDING")]);
    assert_snapshot!(sandbox.run(&SUBMIT.replace("r1", "r2")).fails(1), @r"
    error: already in the queue: vgg19 (job 9, PENDING); nothing was submitted
    hint: hsched watch follows it; otherwise cancel it with hsched cancel, rename the new job, or choose other jobs with --job
    ");
    assert_eq!((sandbox.calls("sbatch").len(), sandbox.phase(0)), (1, "pending".to_owned()));
    assert_snapshot!(sandbox.run("cancel vgg19").succeeds(), @r"vgg19: cancelling (job 9)");
    assert_eq!(sandbox.calls("scancel"), [["--me", "--name=vgg19", "9"]]);
}

#[test]
fn a_torn_line_of_the_journal_does_not_spoil_the_others() {
    let count = "n=$(cat \"$root/count\" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >\"$root/count\"";
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", THREE).program("scancel", ":");
    let sandbox = sandbox.program("sbatch", &format!("{count}; echo $n; [ $n = 1 ] || kill -9 $PPID"));
    assert_eq!(sandbox.run(SUBMIT).code, Some(137));
    let summary = || sandbox.run("status").succeeds().lines().last().expect("a summary").to_owned();
    assert_eq!(summary(), "1 pending, 1 submitting");
    let path = sandbox.state("journal");
    let journal = fs::read(&path).expect("a journal");
    fs::write(&path, &journal[..journal.len() - 20]).expect("a file");
    // A process that dies in the middle of a line has not recorded the number of that line in `newest`.
    fs::remove_file(sandbox.state("newest")).expect("a file");
    assert_eq!(summary(), "2 submitting");
    // Both answers are lost; the comments in the queue identify the jobs.
    let sandbox =
        sandbox.printing("squeue", &[&line(1, "resnet18", "PENDING"), &line(2, "vgg19", "PENDING")]);
    assert_snapshot!(sandbox.run("cancel resnet18 vgg19").succeeds(), @r"
    resnet18: cancelling (job 1)
    vgg19: cancelling (job 2)
    ");
    let events = sandbox.journal();
    assert!(
        events.contains("\"event\":\"killed\"") && !events.contains("\"event\":\"submitted\""),
        "{events}"
    );
}

/// Returns a sandbox that looks like rank 1 of a job.
fn rank() -> Sandbox {
    let sandbox = submitted();
    let report = sandbox.state("runs/r1/report/resnet18/rank-1.jsonl");
    fs::create_dir_all(report.parent().expect("a folder")).expect("a folder");
    let report = report.display().to_string();
    let variables = [
        ("RANK", "1"),
        ("HSCHED_REPORT", report.as_str()),
        ("HSCHED_LOCAL_BATCH", "256"),
        ("HSCHED_JOB", "resnet18"),
    ];
    variables.into_iter().fold(sandbox, |sandbox, (name, value)| sandbox.variable(name, value))
}

#[test]
fn a_report_is_one_line_with_what_the_job_knows() {
    let sandbox = rank();
    assert_eq!(sandbox.run("report --epoch 1").succeeds(), "");
    let all = "report --epoch 2 --compute-s 1.5 --epoch-s 2 --samples 7 --batch 3 --max-memory 9GiB --metric loss=0.7 --metric acc=1e-3";
    sandbox.run(all).succeeds();
    assert_snapshot!(sandbox.text(&sandbox.state("runs/r1/report/resnet18/rank-1.jsonl")), @r#"
    {"epoch":1,"rank":1,"samples":50000,"batch":256}
    {"epoch":2,"rank":1,"samples":7,"compute_s":1.5,"epoch_s":2.0,"batch":3,"max_memory":9663676416,"metrics":{"acc":0.001,"loss":0.7}}
    "#);
}

#[test]
fn a_report_outside_a_job_says_what_is_missing() {
    assert_snapshot!(Sandbox::new().run("report --epoch 1").fails(2), @r"
    error: HSCHED_REPORT is not set: this process is not a rank of an hsched job
    hint: run it inside a job that hsched submitted: the job script sets HSCHED_REPORT, RANK and HSCHED_LOCAL_BATCH
    ");
    let sandbox = rank().variable("RANK", "one");
    assert_snapshot!(sandbox.run("report --epoch 1").fails(2), @r#"
    error: RANK is "one", not a whole number
    hint: the job script sets it; your program must not change it
    "#);
    let sandbox = rank().variable("HSCHED_REPORT", "/no/such/folder/rank-1.jsonl");
    assert_snapshot!(sandbox.run("report --epoch 1").fails(1), @r"
    error: cannot write /no/such/folder/rank-1.jsonl: No such file or directory (os error 2)
    hint: HSCHED_REPORT must name a file in a directory that this node sees
    ");
    for wrong in [
        "--epoch 0",
        "--epoch 1 --compute-s -1",
        "--epoch 1 --metric loss",
        "--epoch 1 --metric loss=nan",
        "--epoch 1 --max-memory 9Gi",
    ] {
        sandbox.run(&format!("report {wrong}")).fails(2);
    }
}
