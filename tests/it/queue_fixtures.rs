//! `hsched when` and `watch --queue` at sites that hide their queue, are slow, have arrays or a maintenance: messages,
//! and the number of calls to Slurm.

use chrono::{Local, TimeDelta};
use serde_json::Value;

use crate::queue_look::{others, site};
use crate::sandbox::{Ran, Sandbox};

/// The job takes two hours on four V100, and eight on four T4.
const JOB: &str =
    "jobs: [{name: train, samples_per_epoch: 288000, epochs: 10, global_batch: 100, model_size: 0,
  throughput: {v100: 100, t4: 25}, min_gpus: 4, max_gpus: 4, command: [x]}]";

const WHEN: &str = "when jobs.yaml --format json --futures 5 --budget 1h";

/// Returns the date this many hours from now, in Slurm's format.
fn date(hours: i64) -> String {
    (Local::now() + TimeDelta::hours(hours)).format("%Y-%m-%dT%H:%M:%S").to_string()
}

fn with(extra: &str, queue: &[String]) -> Sandbox {
    site(extra, queue).file("jobs.yaml", JOB)
}

/// Returns a running job of another user on all GPUs of a node, which started an hour ago and may run for six
/// hours.
fn busy(node: &str, gpu_type: &str) -> String {
    others(node, gpu_type)
        .replace("2026-11-22T09:00:00", &date(-1))
        .replace("2026-11-22T10:00:00", &date(-1))
        .replace("12:00:00", "6:00:00")
}

fn options(ran: &Ran) -> Vec<Value> {
    let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    json["jobs"][0]["options"].as_array().expect("options").clone()
}

#[test]
fn where_the_queue_is_hidden_there_is_no_number() {
    let check = |extra: &str, queue: &[String], why: &str| {
        let sandbox = with(extra, queue);
        let ran = sandbox.run(WHEN);
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert!(ran.stdout.contains(why), "{}{}", ran.stdout, ran.stderr);
        for option in options(&ran) {
            assert_eq!((&option["outlook"], &option["start"]), (&Value::from("unknown"), &Value::Null));
        }
        let text = sandbox.run("when jobs.yaml").exits(3);
        assert!(text.stdout.contains("unknown"), "{}", text.stdout);
        // Jobs are queued for the fastest GPUs, without start estimates.
        let dry = sandbox.run("add jobs.yaml");
        assert_eq!(dry.code, Some(0), "{}", dry.stderr);
        let dry = sandbox.run("watch --queue --once --dry-run");
        assert!(dry.stdout.contains("train: to be submitted on 4 v100"), "{}{}", dry.stdout, dry.stderr);
    };
    check("PrivateData = jobs,usage", &[], "other users' jobs are hidden (PrivateData=jobs)");
    check(
        "",
        &[busy("v1", "v100")],
        "8 GPUs are in use, but the visible jobs have only 4: other jobs are hidden",
    );
}

#[test]
fn nothing_is_asked_more_often_than_allowed() {
    let accounting = "AccountingStorageType = accounting_storage/slurmdbd";
    let sandbox = with(accounting, &[busy("v1", "v100"), busy("t1", "t4")]);
    for _ in 0..3 {
        assert_eq!(sandbox.run(WHEN).code, Some(0));
    }
    assert_eq!(sandbox.run("plan jobs.yaml --queue --budget 1h --futures 5").code, Some(0));
    let asked = |program: &str, word: &str| {
        let calls = sandbox.calls(program);
        calls.into_iter().filter(|call| call.iter().any(|candidate| candidate.contains(word))).count()
    };
    let looks = (asked("squeue", "--all"), sandbox.calls("sinfo").len(), sandbox.calls("sacct").len());
    assert_eq!(looks, (1, 1, 1));
    let rest =
        (asked("scontrol", "partition"), asked("scontrol", "reservation"), sandbox.calls("sshare").len());
    assert_eq!(rest, (1, 1, 1));
    // The turns of `watch` observe only the user's own jobs; the look at the whole queue is recent enough to
    // be used again.
    assert_eq!(sandbox.run("add jobs.yaml").code, Some(0));
    let calls_before = sandbox.calls("squeue").len();
    let ran = sandbox.run("watch --queue --once --dry-run");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(sandbox.calls("squeue").len() - calls_before, 1);
    assert_eq!(sandbox.calls("sbatch").len(), 0, "no --test-only");
}

/// Makes the last answer of `squeue` this many seconds older, and changes it.
fn age_answer(sandbox: &Sandbox, seconds: f64, change: impl FnOnce(&mut Value)) {
    let path = sandbox.state("queue/squeue.json");
    let mut answer: Value = serde_json::from_str(&sandbox.text(&path)).expect("JSON");
    for time in ["at", "tried"] {
        answer[time] = Value::from(answer[time].as_f64().expect("a time") - seconds);
    }
    change(&mut answer);
    std::fs::write(&path, answer.to_string()).expect("written");
}

/// Slurm preempts jobs of partition `low` for those of `high`, even if both are of one user.
#[test]
fn watch_requests_no_gpus_of_a_running_job_of_ones_own() {
    let scontrol = r#"case "$*" in
"show config") echo "ClusterName = north"; echo "PreemptType = preempt/partition_prio"; echo "PreemptMode = REQUEUE";;
"-o show partition")
  echo "PartitionName=low PriorityTier=1 PreemptMode=REQUEUE MaxTime=1-00:00:00 State=UP"
  echo "PartitionName=high PriorityTier=2 PreemptMode=OFF MaxTime=1-00:00:00 State=UP";;
"-o show reservation") echo "No reservations in the system";;
*) exit 9;;
esac"#;
    let own = |user: &str| {
        let job = busy("v1", "v100").replace("|gpu|", "|low|");
        with("", &[job.replace("|man|", &format!("|{user}|")), busy("t1", "t4").replace("|gpu|", "|low|")])
            .printing(
                "sinfo",
                &[
                    "v1|low|1-00:00:00|mixed|gpu:v100:4|gpu:v100:4(IDX:0-3)|4/4/0/8|64000|400||none",
                    "v1|high|1-00:00:00|mixed|gpu:v100:4|gpu:v100:4(IDX:0-3)|4/4/0/8|64000|400||none",
                    "t1|low|1-00:00:00|mixed|gpu:t4:4|gpu:t4:4(IDX:0-3)|4/4/0/8|64000|400||none",
                ],
            )
            .program("scontrol", scontrol)
            .file("jobs.yaml", JOB.replace("command: [x]", "partition: 'high,low', command: [x]"))
    };
    let requested = |user: &str| {
        let sandbox = own(user);
        sandbox.run("add jobs.yaml").exits(0);
        sandbox.run("watch --queue --once").exits(0);
        let run = sandbox.runs().first().expect("a submission").clone();
        let script = sandbox.text(&sandbox.state(&format!("runs/{run}/train.sbatch")));
        let line = script.lines().find(|line| line.contains("--partition=")).expect("a partition");
        line.to_owned()
    };
    assert_eq!(requested("man"), "#SBATCH --partition=high");
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().expect("a user").name;
    assert_eq!(requested(&me), "#SBATCH --partition=low");
    let wide = own(&me).variable("COLUMNS", "200");
    let told = wide.run("when jobs.yaml --futures 5 --budget 1h").exits(0).stdout;
    assert!(told.contains("may stop your job 7"), "{told}");
}

#[test]
fn a_look_that_is_some_seconds_old_is_said_to_be_and_is_read_again_on_request() {
    let sandbox = with("", &[busy("v1", "v100"), busy("t1", "t4")]);
    let looks = || sandbox.calls("squeue").into_iter().filter(|call| call[0] == "--all").count();
    let nodes = || sandbox.calls("sinfo").len();
    let when = "when jobs.yaml --futures 5 --budget 1h";
    let first = sandbox.run(when).exits(0).stdout;
    assert!(!first.contains("--refresh"), "{first}");
    age_answer(&sandbox, 20.0, |_| {});
    let before = (looks(), nodes());
    let old = sandbox.run(when).exits(0).stdout;
    assert!(old.contains(" s ago; --refresh reads it again"), "{old}");
    assert_eq!((looks(), nodes()), before);
    let again = sandbox.run(&format!("{when} --refresh")).exits(0).stdout;
    assert!(again.contains("queue seen ") && !again.contains("--refresh"), "{again}");
    assert_eq!((looks(), nodes()), (before.0 + 1, before.1 + 1));
    let error = sandbox.run(&format!("{when} --refresh --snapshot queue.json")).fails(2);
    assert!(error.contains("--refresh"), "{error}");
    let error = sandbox.run("plan jobs.yaml --refresh").fails(2);
    assert!(error.contains("--refresh only work with --queue"), "{error}");
    // A pool chooses its requests in the same way.
    let pack = "submit --pack jobs.yaml --gpus 4 --time 1h --dry-run --futures 5 --budget 1h";
    let before = looks();
    sandbox.run(pack).exits(0);
    assert_eq!(looks(), before);
    sandbox.run(&format!("{pack} --refresh")).exits(0);
    assert_eq!(looks(), before + 1);
}

#[test]
fn no_old_look_lets_a_script_start_at_once() {
    let idle = "v1|gpu*|1-00:00:00|idle|gpu:v100:4|gpu:v100:0(IDX:N/A)|0/8/0/8|64000|400||none";
    let full = "v1|gpu*|1-00:00:00|mixed|gpu:v100:4|gpu:v100:4(IDX:0-3)|4/4/0/8|64000|400||none";
    let looks =
        |sandbox: &Sandbox| sandbox.calls("squeue").into_iter().filter(|call| call[0] == "--all").count();
    let script = "#!/bin/bash\n#SBATCH --gres=gpu:v100:4 -t 60\n";
    let site = || with("", &[]).printing("sinfo", &[idle]).file("train.sh", script);
    let when = "when train.sh --futures 5 --budget 1h";
    let at_once = "It would start at once.";

    let filled = site();
    let first = filled.run(when).exits(0).stdout;
    assert!(first.starts_with("train.sh asks for ") && first.contains(at_once), "{first}");
    age_answer(&filled, 20.0, |_| {});
    let filled = filled.printing("sinfo", &[full]).printing("squeue", &[&busy("v1", "v100")]);
    let now = filled.run(when).exits(0).stdout;
    assert!(now.starts_with("train.sh asks for ") && !now.contains(at_once), "{now}");
    assert_eq!(looks(&filled), 2);
    // An answer other than `at_once` is based on the older look, and its first line states the age of that
    // look.
    age_answer(&filled, 20.0, |_| {});
    let later = filled.run(when).exits(0).stdout;
    assert!(later.lines().next().is_some_and(|line| line.contains(": queue seen 2")), "{later}");
    assert_eq!(looks(&filled), 2);

    let slow = site();
    slow.run(when).exits(0);
    age_answer(&slow, 20.0, |answer| answer["took"] = Value::from(6.0));
    let old = slow.run(when).exits(0).stdout;
    assert!(old.lines().next().is_some_and(|line| line.contains(": queue seen 2")), "{old}");
    assert_eq!(looks(&slow), 1);
}

#[test]
fn a_slow_slurm_is_left_alone_and_the_age_of_the_queue_is_said() {
    let sandbox = with("", &[busy("v1", "v100"), busy("t1", "t4")]);
    assert_eq!(sandbox.run(WHEN).code, Some(0));
    age_answer(&sandbox, 600.0, |answer| answer["took"] = Value::from(6.0));
    let looks = || sandbox.calls("squeue").into_iter().filter(|call| call[0] == "--all").count();
    let before = looks();
    let ran = sandbox.run(WHEN);
    assert_eq!((ran.code, looks() - before), (Some(0), 0), "{}", ran.stderr);
    let note = "using the queue as of 10 min ago: squeue took 6 s, so hsched runs it only every 15 min";
    assert!(ran.stdout.contains(note), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn the_queue_that_is_saved_is_that_of_the_answer() {
    let free = ["v1|gpu*|2-00:00:00|idle|gpu:v100:4|gpu:v100:0(IDX:N/A)|0/32/0/32|64000|400||none"];
    let script = "#!/bin/sh\n#SBATCH --gres=gpu:v100:1 --time=60\n";
    let sandbox = with("", &[]).printing("sinfo", &free).file("train.sh", script);
    let when = "when train.sh --futures 5 --budget 1h";
    sandbox.run(when).exits(0);
    age_answer(&sandbox, 20.0, |_| {});
    // The script would start at once, so the queue is read again.
    sandbox.run(&format!("{when} --save queue.json")).exits(0);
    let read = |text: String| -> Value { serde_json::from_str(&text).expect("JSON") };
    let last = read(sandbox.text(&sandbox.state("queue/squeue.json")));
    assert_eq!(read(sandbox.text(&sandbox.work("queue.json")))["taken_at"], last["at"]);
    assert_eq!(sandbox.calls("squeue").iter().filter(|call| call[0] == "--all").count(), 2);
}

#[test]
fn a_slurm_that_hangs_is_waited_for_as_long_as_is_said_and_no_number_is_made_up() {
    let sandbox = with("", &[]).program("squeue", "case $1 in --all) exec sleep 60;; esac");
    let ran = sandbox.run("when jobs.yaml --set slurm_timeout=1s");
    assert_eq!(ran.code, Some(69), "{}", ran.stderr);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("--snapshot FILE"), "{}", ran.stderr);
}

#[test]
fn an_array_is_its_tasks_and_no_more_than_may_run_at_once() {
    let array = busy("v1", "v100").replace("7|RUNNING", "11_[4-9%2]|PENDING").replace("|v1|", "||");
    let array = array.replace(&date(-1), "N/A").replace("|None", "|Priority");
    let sandbox = with("", &[busy("v1", "v100"), busy("t1", "t4"), array]);
    let ran = sandbox.run("when jobs.yaml --save queue.json --futures 5 --budget 1h");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let saved: Value = serde_json::from_str(&sandbox.text(&sandbox.work("queue.json"))).expect("JSON");
    let jobs = saved["jobs"].as_array().expect("jobs");
    let array = jobs.iter().find(|job| job["array"] == "11").expect("the array");
    assert_eq!((&array["tasks"], &array["at_once"]), (&Value::from(6), &Value::from(2)));
}

#[test]
fn nobody_starts_in_a_maintenance() {
    let maintenance = format!(
        "ReservationName=m StartTime={} EndTime={} Nodes=v1 NodeCnt=1 Flags=MAINT Users=root Accounts=(null)",
        date(1),
        date(25)
    );
    let sandbox = with("", &[busy("v1", "v100"), busy("t1", "t4")]);
    let script = std::fs::read_to_string(sandbox.path("bin/scontrol")).expect("a program");
    let script = script.replace("No reservations in the system", &maintenance);
    std::fs::write(sandbox.path("bin/scontrol"), script).expect("written");
    let ran = sandbox.run(WHEN);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let all = options(&ran);
    let start = |gpu_type: &str| {
        let option = all.iter().find(|candidate| candidate["type"] == gpu_type).expect("an option");
        option["start"]["q10_s"].as_f64().expect("a number") / 3600.0
    };
    // The job on v1 ends within five hours, during the maintenance, which ends after 25 hours.
    assert!(start("v100") > 24.0 && start("t4") < 6.0, "{} {}", start("v100"), start("t4"));
}
