//! `hsched why` with saved snapshots and with a fake Slurm.

use chrono::{Local, TimeDelta};
use serde_json::{Value, json};

use crate::queue_look::site;
use crate::sandbox::Sandbox;

/// Returns a snapshot of a node with four A100s. Of ann's jobs, one runs on three GPUs for six more hours,
/// one requests four GPUs and exceeds the partition's time limit, and one waits for an account limit; a job
/// of bob's is held.
fn snapshot() -> String {
    let gpus = |count: u32| json!([{ "type": "a100", "count": count }]);
    json!({
        "schema": "hsched.queue/1", "taken_at": 1_795_345_200, "cluster": "small", "user": "ann",
        "nodes": [{ "name": "a1", "partitions": ["gpu"], "gpus": gpus(4) }],
        "partitions": [{ "name": "gpu", "default": true, "max_time_s": 86_400 }],
        "limits": [{ "holder": "a:bio", "name": "GrpTRES", "tres": "gres/gpu", "max": 4.0 }],
        "jobs": [
            { "id": "1", "user": "ann", "ours": true, "account": "bio", "partitions": ["gpu"], "limit_s": 25_200, "asks": { "gpus": gpus(3) },
                "running": { "since": 1_795_341_600, "holds": [{ "node": "a1", "gpus": gpus(3) }] } },
            { "id": "2", "user": "ann", "ours": true, "account": "bio", "partitions": ["gpu"], "limit_s": 172_800, "priority": 9,
                "asks": { "gpus": gpus(4) }, "reason": "PartitionTimeLimit", "waits_for_other": true },
            { "id": "3", "user": "ann", "ours": true, "account": "bio", "partitions": ["gpu"], "limit_s": 3600, "priority": 8,
                "asks": { "gpus": gpus(2) }, "reason": "AssocGrpGRES", "waits_for_other": true },
            { "id": "4", "user": "bob", "account": "bio", "partitions": ["gpu"], "limit_s": 3600, "priority": 0,
                "asks": { "gpus": gpus(1) }, "reason": "JobHeldUser", "waits_for_other": true },
        ],
    })
    .to_string()
}

fn saved() -> Sandbox {
    Sandbox::new().file("queue.json", snapshot())
}

const FEW: &str = "--snapshot queue.json --futures 5 --budget 1h";

fn job(arguments: &str) -> Value {
    let json = saved().run(&format!("why {arguments} {FEW} --format json")).exits(0).json();
    assert_eq!(json["schema"], "hsched.why/1");
    json["jobs"][0].clone()
}

#[test]
fn what_never_starts_comes_first_with_the_limit_and_its_numbers() {
    let told = job("2");
    assert_eq!(
        (&told["kind"], &told["state"], &told["reason"]),
        (&json!("never"), &json!("PENDING"), &json!("PartitionTimeLimit"))
    );
    let limit = &told["limit"];
    assert_eq!(
        (&limit["name"], &limit["holder"], &limit["max"]),
        (&json!("MaxTime"), &json!("p:gpu"), &json!(1440.0))
    );
    assert_eq!(limit["used"], 2880.0);
    assert_eq!(told["start"], Value::Null);
    let change = &told["advice"][0];
    assert_eq!(
        (&change["command"], &change["in_place"]),
        (&json!("scontrol update JobId=2 TimeLimit=1-00:00:00"), &json!(true))
    );
    let text = saved().variable("COLUMNS", "200").run(&format!("why 2 {FEW}")).succeeds();
    assert!(
        text.contains(
            "It will never start as it is: its time limit is 2 d, partition gpu allows 24 h (MaxTime)."
        ),
        "{text}"
    );
}

#[test]
fn a_limit_that_is_full_has_its_use_and_the_job_to_cancel() {
    let told = job("3");
    assert_eq!(told["kind"], "waits");
    let limit = &told["limit"];
    assert_eq!(
        (&limit["holder"], &limit["max"], &limit["used"], &limit["needed"]),
        (&json!("a:bio"), &json!(4.0), &json!(3.0), &json!(2.0))
    );
    assert!(told["start"]["q50_s"].as_f64().is_some_and(|wait| wait > 600.0), "{told}");
    let commands: Vec<&str> = told["advice"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|advice| advice["command"].as_str())
        .collect();
    assert!(commands.contains(&"scancel 1"), "{commands:?}");
}

#[test]
fn without_a_job_each_of_mine_has_a_line() {
    let text = saved().variable("COLUMNS", "200").run(&format!("why {FEW}")).succeeds();
    let begins: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(begins, ["JOB", "2", "3", "More"], "{text}");
    let json = saved().run(&format!("why {FEW} --format json")).json();
    assert_eq!(json["jobs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_task_is_explained_by_the_pending_tasks_that_stand_for_it() {
    let tasks = snapshot().replace("\"id\":\"3\"", "\"array\":\"108\",\"tasks\":11,\"id\":\"108_[10-20%4]\"");
    let sandbox = || saved().file("queue.json", tasks.clone());
    let told = sandbox().run(&format!("why 108_15 {FEW} --format json")).exits(0).json()["jobs"][0].clone();
    assert_eq!((&told["job_id"], &told["kind"]), (&json!("108_[10-20%4]"), &json!("waits")));
    for unknown in ["108_99", "2_1"] {
        let error = sandbox().run(&format!("why {unknown} {FEW}")).fails(1);
        assert!(error.contains(&format!("{unknown}: the snapshot has no such task")), "{error}");
    }
}

#[test]
fn a_component_starts_with_the_others_and_is_not_changed_alone() {
    let parts = snapshot().replace("\"id\":\"3\"", "\"id\":\"9+1\"");
    let sandbox = saved().file("queue.json", parts);
    let told = sandbox.run(&format!("why 9+1 {FEW} --format json")).exits(0).json()["jobs"][0].clone();
    assert_eq!(told["advice"], Value::Null);
    let why = told["why"].to_string();
    assert!(why.contains("all components start together"), "{why}");
}

#[test]
fn jobs_of_others_are_explained_without_changes() {
    let told = job("4");
    assert_eq!(told["advice"], Value::Null);
    assert_eq!((&told["kind"], &told["user"]), (&json!("held"), &json!("bob")));
    let text = saved().run(&format!("why 1 {FEW}")).succeeds();
    assert!(text.starts_with("Job 1 runs.\nIt has run for 60 min on a1.\n"), "{text}");
}

#[test]
fn an_id_that_nobody_knows_is_said_and_a_hidden_one_as_well() {
    let error = saved().run(&format!("why 99 {FEW}")).fails(1);
    assert!(error.contains("99: the snapshot has no such job"), "{error}");
    let hidden = snapshot().replace("\"cluster\"", "\"others_hidden\":true,\"cluster\"");
    let error = saved().file("queue.json", hidden).run(&format!("why 99 {FEW}")).fails(1);
    assert!(error.contains("this site hides the jobs of others"), "{error}");
    let json = saved().run(&format!("why 99 {FEW} --format json")).exits(1).json();
    assert!(json["error"]["message"].as_str().is_some_and(|text| text.starts_with("99:")), "{json}");
    saved().run(&format!("why train {FEW}")).fails(1);
}

/// Returns Slurm's answer about a job, in which the first text of each pair is replaced by the second.
fn shown(changes: &[(&str, &str)]) -> String {
    let mut text = "JobId=8 JobName=bert UserId=@ME@(0) GroupId=root(0) MCS_label=N/A Priority=100 Nice=0 Account=bio QOS=normal \
        JobState=PENDING Reason=BeginTime Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 ExitCode=0:0 RunTime=00:00:00 \
        TimeLimit=01:00:00 TimeMin=N/A SubmitTime=2026-11-22T09:00:00 EligibleTime=LATER AccrueTime=Unknown StartTime=LATER \
        EndTime=Unknown Deadline=N/A Partition=gpu NodeList= NumNodes=1-1 Licenses=(null) Command=/home/me/train.sh WorkDir=/home/me \
        StdErr=/home/me/slurm-8.out StdIn=/dev/null StdOut=/home/me/slurm-8.out Power= "
        .to_owned();
    for (from, to) in changes {
        text = text.replace(from, to);
    }
    text.replace("LATER", &(Local::now() + TimeDelta::hours(3)).format("%Y-%m-%dT%H:%M:%S").to_string())
}

/// Returns a site with a free node, with a job of ours that waits for its begin time, and with these data
/// about the job.
fn live(details: &str) -> Sandbox {
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().expect("a user").name;
    let queue = "8|PENDING|@ME@|bio|normal|gpu|100|2026-11-22T09:00:00|N/A|1:00:00|1|1|1|cpu=1,node=1|gres:gpu:v100:2|N/A|N/A|N/A||(null)|(null)|OK|Priority";
    let scontrol = r#"case "$*" in
"show config") echo "ClusterName = north"; echo "SchedulerType = sched/backfill";;
"-o show partition") echo "PartitionName=gpu Default=YES MaxTime=1-00:00:00 PriorityTier=1 State=UP";;
"-o show reservation") echo "No reservations in the system";;
"-o show job 8"|"-o show job 9") cat "$root/job.out";;
"-o show job "*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;;
update*) : ;;
*) exit 9;;
esac"#;
    let free = "v1|gpu*|1-00:00:00|idle|gpu:v100:4|gpu:v100:0(IDX:N/A)|0/8/0/8|64000|400||none";
    let sandbox =
        site("", &[queue.replace("@ME@", &me)]).printing("sinfo", &[free]).program("scontrol", scontrol);
    std::fs::write(sandbox.path("job.out"), details.replace("@ME@", &me)).expect("a file");
    sandbox
}

#[test]
fn what_the_controller_says_now_counts_and_a_change_is_made_in_place() {
    let sandbox = live(&shown(&[]));
    let text = sandbox.run("why 8 --futures 5 --budget 1h").exits(0).stdout;
    assert!(text.contains("(estimated from 5 futures)") && !text.contains("8 of 10"), "{text}");
    let told = sandbox.run("why 8 --futures 5 --budget 1h --format json").exits(0).json()["jobs"][0].clone();
    assert_eq!(
        (&told["name"], &told["kind"], &told["reason"]),
        (&json!("bert"), &json!("waits"), &json!("BeginTime"))
    );
    assert_eq!(told["advice"][0]["command"], "scontrol update JobId=8 StartTime=now");
    let updates =
        || sandbox.calls("scontrol").into_iter().filter(|call| call[0] == "update").collect::<Vec<_>>();
    let dry = sandbox.run("why 8 --apply 1 --dry-run").succeeds();
    assert_eq!(dry, "Would run: scontrol update JobId=8 StartTime=now\n");
    assert!(updates().is_empty());
    let done = sandbox.run("why 8 --apply 1").succeeds();
    assert_eq!(done, "Done: scontrol update JobId=8 StartTime=now\n");
    assert_eq!(updates(), [["update", "JobId=8", "StartTime=now"]]);
    let error = sandbox.run("why 8 --apply -1").fails(2);
    assert!(error.contains("--apply -1: the list has "), "{error}");
    let error = sandbox.run("why 8 --apply 7").fails(2);
    assert!(error.contains("--apply 7: the list has "), "{error}");
    assert!(error.contains("hsched why 8 looks again"), "{error}");
    sandbox.run("why --apply 1").fails(2);
}

#[test]
fn no_job_has_the_id_zero() {
    let sandbox = live(&shown(&[]));
    sandbox.run("why 8 --futures 5 --budget 1h").exits(0);
    for id in ["0", "000", "0_1"] {
        let error = sandbox.run(&format!("why {id}")).fails(1);
        assert!(error.contains(&format!("{id}: Slurm knows no such ")), "{error}");
    }
    sandbox.run("why 0 --apply 1").fails(1);
    let calls = sandbox.calls("scontrol");
    assert!(
        !calls.iter().any(|call| call[0] == "update" || call.ends_with(&["job".into(), "0".into()])),
        "{calls:?}"
    );
}

#[test]
fn a_list_that_nobody_has_read_is_shown_and_nothing_is_changed() {
    let sandbox = live(&shown(&[]));
    let first = sandbox.run("why 8 --apply 1 --futures 5 --budget 1h").exits(2);
    assert!(first.stdout.contains("scontrol update JobId=8 StartTime=now"), "{}", first.stdout);
    assert!(first.stdout.contains("hsched why 8 --apply N"), "{}", first.stdout);
    assert!(first.stderr.contains("look at this one, then give --apply 1 again"), "{}", first.stderr);
    assert!(sandbox.calls("scontrol").iter().all(|call| call[0] != "update"));
    sandbox.run("why 8 --apply 1").exits(0);
    assert_eq!(sandbox.calls("scontrol").iter().filter(|call| call[0] == "update").count(), 1);
}

#[test]
fn a_list_that_cannot_be_kept_invalidates_the_earlier_one() {
    let sandbox = live(&shown(&[]));
    let script = "why=\"$2 why 8 --futures 5 --budget 1h\"; $why >/dev/null || exit 9; cat /dev/zero >\"$1/full\" 2>/dev/null; \
        $why >/dev/null || exit 9; $why --apply 1 >/dev/null";
    let Some(ran) = sandbox.on_small_disk(script) else { return };
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("note: do not use --apply with this list, which cannot be kept: "),
        "{ran:?}"
    );
    assert!(sandbox.calls("scontrol").iter().all(|call| call[0] != "update"));
}

#[test]
fn the_list_of_each_job_is_kept() {
    let sandbox = live(&shown(&[]));
    // The fake Slurm gives the same answer about both.
    for job in ["8", "9"] {
        sandbox.run(&format!("why {job} --futures 5 --budget 1h")).exits(0);
    }
    for job in ["8", "9"] {
        let dry = sandbox.run(&format!("why {job} --apply 1 --dry-run")).succeeds();
        assert_eq!(dry, "Would run: scontrol update JobId=8 StartTime=now\n");
    }
}

/// Three of the four V100s are in use, and a job waits for two. Its script has some of its options; the
/// others were given on the command line.
#[test]
fn the_command_of_a_new_job_has_the_options_of_the_old_one() {
    let sandbox = live("");
    let script = sandbox.work("train.sh");
    let (script, folder) = (script.display().to_string(), sandbox.work("").display().to_string());
    let folder = folder.trim_end_matches('/');
    let asks = "ReqB:S:C:T=0:0:*:* NumTasks=1 CPUs/Task=4 NtasksPerN:B:S:C=0:0:*:* MinMemoryNode=8G";
    let details = |script: &str| {
        shown(&[
            ("Reason=BeginTime", "Reason=Resources"),
            (" NumNodes=1-1", &format!(" NumNodes=1-1 {asks}")),
            ("/home/me/train.sh", script),
            ("/home/me", folder),
            ("Power= ", "Power= TresPerNode=gres:gpu:v100:2 "),
        ])
    };
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().expect("a user").name;
    let since = (Local::now() - TimeDelta::hours(6)).format("%Y-%m-%dT%H:%M:%S").to_string();
    let holder = crate::queue_look::others("v1", "v100").replace("2026-11-22T10:00:00", &since);
    let of_three = holder.replace("gpu:v100:4", "gpu:v100:3");
    let waits = "8|PENDING|ME|bio|normal|gpu|100|2026-11-22T09:00:00|N/A|1:00:00|1|4|4|cpu=4,mem=8G,node=1|gres:gpu:v100:2|N/A|N/A|N/A||(null)|(null)|OK|Resources";
    let sandbox = sandbox
        .printing("squeue", &[&of_three, &waits.replace("ME", &me)])
        .printing(
            "sinfo",
            &["v1|gpu*|1-00:00:00|mixed|gpu:v100:4|gpu:v100:3(IDX:0-2)|4/28/0/32|64000|400||none"],
        )
        .file("train.sh", "#!/bin/bash\n#SBATCH --account=bio --qos=normal -t 60\n");
    let told = |script: &str| {
        std::fs::write(sandbox.path("job.out"), details(script).replace("@ME@", &me)).expect("a file");
        let json = sandbox.run("why 8 --futures 5 --budget 1h --format json").exits(0).json();
        let advice = json["jobs"][0]["advice"].as_array().expect("a list").clone();
        let anew = advice.iter().find(|advice| advice["in_place"] == false);
        anew.unwrap_or_else(|| panic!("a new job: {json}")).clone()
    };
    let complete = told(&format!("{script} big"));
    assert_eq!(
        complete["command"],
        "sbatch --job-name=bert --partition=gpu --cpus-per-task=4 --mem=8G --gres=gpu:v100:1 ROOT/home/desk/train.sh big"
    );
    // The new job does not replace the old one by itself.
    let page = sandbox.run("why 8 --futures 5 --budget 1h").exits(0).stdout;
    assert!(page.contains("     After that, cancel this job: scancel --state=PENDING 8\n"), "{page}");
    let gone = told("/no/script.sh");
    assert_eq!(
        (&gone["command"], &gone["command_unknown"]),
        (&Value::Null, &json!("the job's script /no/script.sh cannot be read"))
    );
}

#[test]
fn past_runs_of_the_name_count_for_changes() {
    let past = "11|COMPLETED|1800|cpu=1,gres/gpu:v100=2,gres/gpu=2,node=1|1|v1|||gpu".replace('|', "\u{1f}");
    let sacct = format!("case \"$*\" in *--name=bert*) printf '%s\\n' '{past}';; esac");
    let sandbox = live(&shown(&[])).program("sacct", &sacct);
    let known =
        || sandbox.run("why 8 --futures 5 --budget 1h --format json").exits(0).json()["jobs"][0].clone();
    assert_eq!((&known()["past_runs"], &known()["past_runs_unknown"]), (&json!(1), &Value::Null));
    let asked = sandbox.calls("sacct").into_iter().filter(|call| call.contains(&"--name=bert".to_owned()));
    assert_eq!(asked.count(), 1);
    // The list of all jobs has no changes.
    assert_eq!(
        sandbox.run("why --futures 5 --budget 1h --format json").json()["jobs"][0]["past_runs"],
        Value::Null
    );
    let silent = live(&shown(&[])).program("sacct", "echo down >&2; exit 1");
    let page = silent.run("why 8 --futures 5 --budget 1h").exits(0).stdout;
    assert!(page.contains("past runs of bert are unknown: "), "{page}");
}

#[test]
fn few_questions_are_asked() {
    let sandbox = live(&shown(&[]));
    for _ in 0..2 {
        sandbox.run("why 8 --futures 5 --budget 1h").exits(0);
    }
    let asked = sandbox.calls("scontrol");
    let of = |what: &str| asked.iter().filter(|call| call.join(" ") == what).count();
    assert_eq!((of("-o show job 8"), of("-o show partition")), (2, 1));
    assert_eq!(sandbox.calls("squeue").len(), 1);
}

#[test]
fn ended_and_forgotten_jobs_say_how_they_ended() {
    let ended = [
        ("PENDING", "OUT_OF_MEMORY"),
        ("Reason=BeginTime", "Reason=OutOfMemory"),
        ("ExitCode=0:0", "ExitCode=0:125"),
    ];
    let sandbox = live(&shown(&ended));
    let text = sandbox.run("why 8").exits(0).stdout;
    assert!(text.contains("It needed more memory than it had") && text.contains("--mem"), "{text}");
    let told = sandbox.run("why 8 --format json").json()["jobs"][0].clone();
    assert_eq!((&told["kind"], &told["state"]), (&json!("ended"), &json!("OUT_OF_MEMORY")));
    let error = sandbox.run("why 77").fails(1);
    assert!(error.contains("77: Slurm knows no such job"), "{error}");
    // Accounting keeps jobs for longer.
    let record =
        "77|77|FAILED|3:0|0:0|2026-11-22T08:00:00|2026-11-22T08:10:00|2026-11-22T09:00:00|gpu|v1|bert|";
    let sandbox = live("").program("sacct", "cat \"$root/sacct.out\"");
    std::fs::write(sandbox.path("sacct.out"), record.replace('|', "\u{1f}") + "\n").expect("a file");
    let config = r#"case "$*" in "show config") echo "AccountingStorageType = accounting_storage/slurmdbd";;
"-o show job "*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;; *) exit 9;; esac"#;
    let text = sandbox.program("scontrol", config).run("why 77").exits(0).stdout;
    assert!(
        text.starts_with(
            "Job 77 (bert) has ended: FAILED.\nIt failed at 2026-11-22 09:00:00 with exit code 3.\n"
        ),
        "{text}"
    );
}

#[test]
fn a_job_found_by_its_name_in_accounting_alone_is_one_of_yours() {
    let record = "77|77|PENDING|0:0|0:0|2026-11-22T08:00:00|Unknown|Unknown|gpu|None assigned|bert|";
    // For root, sacct prints the jobs of all users unless it is told a user.
    let sacct =
        format!("case \"$*\" in *--user=*) printf '%s\\n' '{}';; esac", record.replace('|', "\u{1f}"));
    let sandbox = live("").program("squeue", "exit 0").program("sacct", &sacct);
    let text = sandbox.run("why bert").exits(0).stdout;
    assert!(
        text.starts_with("Job 77 (bert) is pending.\nThe look at the queue does not show it.\n"),
        "{text}"
    );
}
