//! The calls to Slurm for its queue, their number, and the messages at a site that hides the queue.

use chrono::{Local, TimeDelta};

use crate::sandbox::{JOBS, Sandbox};

/// A node with four V100s and one with four T4s; all these GPUs are in use.
const SINFO: [&str; 2] = [
    "v1|gpu*|1-00:00:00|mixed|gpu:v100:4|gpu:v100:4(IDX:0-3)|4/4/0/8|64000|400||none",
    "t1|gpu*|1-00:00:00|mixed|gpu:t4:4|gpu:t4:4(IDX:0-3)|4/4/0/8|64000|400||none",
];

const SCONTROL: &str = r#"case "$*" in
"show config") echo "ClusterName = north"; echo "SchedulerType = sched/backfill"; echo "EXTRA";;
"-o show partition") echo "PartitionName=gpu Default=YES MaxTime=1-00:00:00 PriorityTier=1 State=UP";;
"-o show reservation") echo "No reservations in the system";;
*) exit 9;;
esac"#;

/// Returns a running job of another user on four GPUs of a node, as `squeue` prints it.
pub fn others(node: &str, gpu_type: &str) -> String {
    format!(
        "7|RUNNING|man|bio|normal|gpu|9|2026-11-22T09:00:00|2026-11-22T10:00:00|12:00:00|1|4|4|cpu=4,node=1|gres:gpu:{gpu_type}:4|N/A|N/A|N/A|{node}|(null)|(null)|OK|None"
    )
}

/// Returns a site with this configuration, where `squeue --all` shows these jobs and every other call of
/// `squeue` shows none.
pub fn site(extra: &str, queue: &[String]) -> Sandbox {
    let lines: Vec<&str> = queue.iter().map(String::as_str).collect();
    let all = "case $1 in --all) cat \"$root/squeue.out\";; esac";
    Sandbox::with_slurm()
        .file("jobs.yaml", JOBS)
        .printing("sinfo", &SINFO)
        .printing("squeue", &lines)
        .program("squeue", all)
        .program("scontrol", &SCONTROL.replace("EXTRA", extra))
        .program("sacct", ":")
        .program("sshare", "echo \"bio|$(id -un)|1|0|0.5\"")
}

const RACE: &str = "submit jobs.yaml --job resnet18 --race 2 --dry-run";

#[test]
fn a_look_is_a_few_questions_and_the_next_one_asks_none_again() {
    let accounting = "AccountingStorageType = accounting_storage/slurmdbd";
    let sandbox = site(accounting, &[others("v1", "v100"), others("t1", "t4")]);
    for _ in 0..2 {
        let ran = sandbox.run(RACE);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(!ran.stderr.contains("not known"), "{}", ran.stderr);
        assert_eq!(ran.stdout.matches("#SBATCH --gres=").count(), 2);
    }
    let looks = sandbox.calls("squeue").into_iter().filter(|call| call[0] == "--all").count();
    let asked = sandbox.calls("scontrol");
    let of = |what: &str| asked.iter().filter(|call| call.last().is_some_and(|word| word == what)).count();
    assert_eq!((looks, of("partition"), of("reservation")), (1, 1, 1));
    assert_eq!((sandbox.calls("sacct").len(), sandbox.calls("sshare").len()), (1, 1));
}

#[test]
fn a_first_plan_on_a_full_cluster_names_the_command_that_queues() {
    let ran = site("", &[]).run("plan jobs.yaml");
    let text = format!("{}{}", ran.stdout, ran.stderr);
    assert!(text.contains("the GPUs are in use; --capacity up plans as if they were free"), "{text}");
    assert!(text.contains("hsched watch --queue queues for them"), "{text}");
}

#[test]
fn what_a_site_hides_is_said() {
    let check = |extra: &str, queue: &[String], note: &str| {
        let ran = site(extra, queue).run(RACE);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains(note), "{}", ran.stderr);
    };
    check("PrivateData = jobs,usage", &[], "note: other users' jobs are hidden (PrivateData=jobs)\n");
    let unseen = "note: 8 GPUs are in use, but the visible jobs have only 4: other jobs are hidden\n";
    check("", &[others("v1", "v100")], unseen);
    check("", &[], "note: the history of past jobs is unknown: this Slurm has no accounting database\n");
}

#[test]
fn a_slurm_that_does_not_answer_leaves_the_order_of_run_times() {
    let sandbox = site("", &[]).program("squeue", "case $1 in --all) echo no >&2; exit 1;; esac");
    let ran = sandbox.run(RACE);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let note = "note: cannot estimate when requests start: squeue: exit status: 1: no\n";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    // The look has the time of the nodes.
    assert!(!ran.stderr.contains(" d ago"), "{}", ran.stderr);
    assert_eq!(ran.stdout.matches("#SBATCH --gres=").count(), 2);
}

/// The job takes two hours on four T4s, and half an hour on four V100s.
const LONG: &str = "jobs: [{name: train, samples_per_epoch: 360000, epochs: 10, global_batch: 100, model_size: 0MB,
  throughput: {t4: 125, v100: 500}, min_gpus: 4, max_gpus: 4, partition: [gpu], account: [bio, phys], command: [x]}]";

#[test]
fn what_is_submitted_asks_for_what_was_chosen() {
    // The job on the V100s is about to reach its limit, and half an hour there is less than ten hours on the
    // T4, regardless of which job comes first.
    let since = (Local::now() - TimeDelta::seconds(570)).format("%Y-%m-%dT%H:%M:%S").to_string();
    let mut queue = others("v1", "v100");
    queue = queue.replace("12:00:00", "00:10:00").replace("2026-11-22T10:00:00", &since);
    let free = [
        SINFO[0],
        &SINFO[1].replace("mixed", "idle").replace("IDX:0-3", "IDX:N/A").replace("gpu:t4:4(", "gpu:t4:0("),
    ];
    let sandbox = site("", &[queue]).printing("sinfo", &free);
    let sandbox = sandbox.file("long.yaml", LONG.replace("t4: 125", "t4: 25"));
    let ran = sandbox.run("submit long.yaml --queue --dry-run");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let options: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("#SBATCH")).collect();
    let has = |option: &str| options.contains(&option);
    assert!(has("#SBATCH --gres=gpu:v100:4") && has("#SBATCH --partition=gpu"), "{options:#?}");
    // Half an hour, plus 10 % for slow runs, another 10 % and the time to save, rounded up to quarters of an
    // hour.
    assert!(
        has("#SBATCH --time=45") && options.iter().any(|option| option.starts_with("#SBATCH --account=")),
        "{options:#?}"
    );
    assert!(ran.stderr.contains("note: train: 4 v100 for 45 min 00 s, starts "), "{}", ran.stderr);
}

#[test]
fn what_comes_after_another_job_is_submitted_later() {
    let after =
        "{name: eval, after: train, samples_per_epoch: 10, epochs: 1, global_batch: 10, model_size: 0MB,
  throughput: {t4: 10}, command: [x]}";
    let sandbox = site("", &[]).file("both.yaml", LONG.trim_end_matches(']').to_owned() + ", " + after + "]");
    let why =
        "note: eval was not submitted: depends on train: hsched watch submits it once it has completed\n";
    let submit = |more: &str| sandbox.run(&format!("submit both.yaml --dry-run {more}"));
    for (more, code) in [("--queue", 0), ("--capacity up", 0), ("--queue -j eval", 3)] {
        let ran = submit(more);
        assert_eq!((ran.code, ran.stderr.matches(why).count()), (Some(code), 1), "{more}: {}", ran.stderr);
        assert!(
            !ran.stderr.contains("no request") && !ran.stderr.contains("error"),
            "{more}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_job_without_a_request_is_kept_as_waiting_and_told_why_beside_others() {
    let other = "{name: other, samples_per_epoch: 100, epochs: 1, global_batch: 100, model_size: 0MB,
  throughput: {t4: 10}, min_gpus: 64, max_gpus: 64, command: [x]}";
    let sandbox = site("", &[]).file("both.yaml", LONG.trim_end_matches(']').to_owned() + ", " + other + "]");
    let ran = sandbox.run("submit both.yaml --queue --futures 4 --budget 1h --run-id r1");
    let line = |ran: &crate::sandbox::Ran| {
        let line = ran.stderr.lines().find(|line| line.starts_with("note: other was not submitted: "));
        line.unwrap_or_else(|| panic!("{}", ran.stderr)).to_owned()
    };
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(line(&ran).ends_with("; it is kept as waiting for hsched watch --queue"), "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("policy") && ran.stderr.matches("needs 64 t4").count() == 1,
        "{}",
        ran.stderr
    );
    assert!(sandbox.run("status").stdout.contains("other"));
    let follow = "note: hsched watch --queue follows the jobs and replaces requests by better ones\n";
    assert_eq!(ran.stderr.matches(follow).count(), 1, "{}", ran.stderr);
    // Nothing is submitted or stored.
    let dry = sandbox.run("submit both.yaml --queue --futures 4 --budget 1h --dry-run");
    assert!(!line(&dry).contains("kept") && !dry.stderr.contains("watch --queue follows"), "{}", dry.stderr);
    let sandbox = site("", &[]).file("both.yaml", LONG.trim_end_matches(']').to_owned() + ", " + other + "]");
    let json = sandbox.run("submit both.yaml --queue --futures 4 --budget 1h --run-id r1 --format json");
    assert!(json.stdout.contains("\"schema\"") && !json.stderr.contains(follow), "{}", json.stderr);
}

#[test]
fn a_job_of_several_requests_is_named_once() {
    let sandbox = site("", &[]);
    sandbox.run("submit jobs.yaml --job resnet18 --race 2 --run-id r1").exits(0);
    let error = sandbox.run("submit jobs.yaml --job resnet18 --race 2 --run-id r2").fails(1);
    assert_eq!(error.matches("resnet18 (").count(), 1, "{error}");
}

#[test]
fn what_was_foretold_is_kept_scored_and_corrects() {
    // Regardless of the day, the jobs on the GPUs may run for eleven more hours.
    let since = (chrono::Local::now() - chrono::TimeDelta::hours(1)).format("%Y-%m-%dT%H:%M:%S").to_string();
    let queue =
        [others("v1", "v100"), others("t1", "t4")].map(|line| line.replace("2026-11-22T10:00:00", &since));
    let sandbox = site("", &queue).file("long.yaml", LONG);
    let score = |sandbox: &Sandbox| sandbox.run("when --score --format json").json();
    assert_eq!(score(&sandbox)["foretold"], 0);
    sandbox.run("submit long.yaml --queue --run-id r1 --budget 1h --futures 5").exits(0);
    let told = score(&sandbox);
    assert_eq!(
        (&told["foretold"], &told["waiting"], &told["corrected_by"]),
        (&1.into(), &1.into(), &serde_json::Value::Null)
    );
    let entry = &told["predictions"][0];
    let foretold = &entry["prediction"];
    assert_eq!(
        (&entry["of"]["job"], foretold["starts"].as_array().map(Vec::len)),
        (&"train".into(), Some(5))
    );
    let plain = sandbox.run("when long.yaml --format json --budget 1h --futures 5").json();
    assert_eq!(plain["queues"][0]["corrected_by"], serde_json::Value::Null);
    // Thirty other jobs all started after the end of their estimated intervals.
    let mut others = vec![entry.clone(); 30];
    let at = foretold["at"].as_f64().expect("a time");
    let last = foretold["starts"]
        .as_array()
        .expect("starts")
        .iter()
        .filter_map(serde_json::Value::as_f64)
        .fold(0.0, f64::max);
    for other in &mut others {
        other["prediction"]["started"] = (at + last + 4000.0).into();
    }
    let text = serde_json::to_string(&others).expect("JSON");
    std::fs::write(sandbox.state("foretold/r0.json"), text).expect("written");
    let told = score(&sandbox);
    assert_eq!(
        (&told["foretold"], &told["waiting"], &told["corrected_by"]),
        (&31.into(), &1.into(), &30.into())
    );
    assert_eq!((&told["groups"][0]["starts"], &told["groups"][0]["held"]), (&30.into(), &0.0.into()));
    let corrected = sandbox.run("when long.yaml --format json --budget 1h --futures 5").json();
    assert_eq!(corrected["queues"][0]["corrected_by"], 30);
    let high = |json: &serde_json::Value| json["jobs"][0]["options"][0]["start"]["q90_s"].as_f64();
    assert!(high(&corrected) > high(&plain), "{corrected}");
    let text = sandbox.run("when --score").succeeds();
    assert!(
        text.contains("31; 30 started, 1 are waiting")
            && text.contains("30 past starts calibrate the intervals"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
