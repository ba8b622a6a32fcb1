//! `hsched review`: the requests that jobs should have made.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli_when::SNAPSHOT;
use crate::sandbox::Sandbox;

const HEADER: &str = "JobIDRaw|JobName|Partition|State|ExitCode|Submit|Start|End|Timelimit|ReqTRES|AllocTRES|NNodes|NTasks|ReqMem|MaxRSS|TotalCPU|TRESUsageInAve\n";

/// Returns the accounting of twenty runs of one hour, one per day, that request four A100s and ten hours.
fn accounting() -> String {
    let mut text = HEADER.to_owned();
    for day in 1..=20 {
        let tres = "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1";
        let _ = writeln!(
            text,
            "{day}|train \"big\" --lr 1|gpu|COMPLETED|0:0|2026-10-{day:02}T08:00:00|2026-10-{day:02}T10:00:00|2026-10-{day:02}T11:00:00|\
             10:00:00|{tres}|{tres}|1||64Gn||07:00:00|\n\
             {day}.batch|batch||COMPLETED|0:0|2026-10-{day:02}T10:00:00|2026-10-{day:02}T10:00:00|2026-10-{day:02}T11:00:00||{tres}|{tres}\
             |1|1|64Gn|58G|07:00:00|gres/gpuutil=390"
        );
    }
    text
}

fn name(value: &Value) -> Value {
    value["names"][0].clone()
}

#[test]
fn waste_is_shown_with_what_to_ask_for() {
    let sandbox = Sandbox::new().variable("COLUMNS", "80").file("sacct.txt", accounting() + "21|x|gpu\n");
    let ran = sandbox.run("review --from sacct.txt").exits(0);
    insta::assert_snapshot!(ran.stdout, @r#"
    20 runs of 1 name in 90 days

    NAME                RUNS         TIME   MEMORY  CPUS  GPUS  IDLE  FAILED  WAITED
    train "big" --lr 1    20  60 min/10 h  58G/64G   7/8     4   3 %     0 %    40 h

    TIME to CPUS: the 95 % quantile of use / what the newest run asked for; MEMORY
      is per node; FAILED: not completed, without preempted and requeued runs;
      WAITED: all runs together

    train "big" --lr 1: would have cut none of 20 past runs
      #SBATCH --time=01:45:00

    line 42 left out: too few columns: 3 for the 17 of the header
    "#);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    let json = sandbox.run("review --from sacct.txt --format json").exits(0).json();
    assert_eq!(
        json,
        json!({
            "schema": "hsched.review/1",
            "names": [{
                "name": "train \"big\" --lr 1",
                "runs": 20,
                "time": {"limit_s": 36000, "used_p50_s": 3600, "used_p95_s": 3600, "recommended_s": 6300},
                "memory": {"asked_mib": 65536, "used_p50_mib": 59392, "used_p95_mib": 59392, "recommended_mib": null},
                "cpus": {"asked": 8, "used_p50": 7, "used_p95": 7, "recommended": null},
                "gpus": {"asked": 4, "idle_share": 0.025, "recommended": null},
                "failures": {},
                "cut_share": 0,
                "waited_h": 40,
                "saves_h": null,
                "sbatch": ["--time=01:45:00"],
            }],
            "odd": [{"line": 42, "why": "too few columns: 3 for the 17 of the header"}],
            "missing": [],
        })
    );
}

#[test]
fn the_days_count_back_from_the_newest_end() {
    let sandbox = Sandbox::new().file("sacct.txt", accounting());
    let runs = |days: u32| {
        name(&sandbox.run(&format!("review --from sacct.txt --days {days} --format json")).json())["runs"]
            .clone()
    };
    assert_eq!((runs(90), runs(5), runs(1)), (json!(20), json!(6), json!(2)));
}

/// The queue is full for an hour and then empty, so a request with a shorter limit waits as long as one of
/// ten hours.
#[test]
fn a_saved_queue_tells_what_waiting_is_saved() {
    let sandbox = Sandbox::new().file("sacct.txt", accounting()).file("queue.json", SNAPSHOT);
    let ran = sandbox.run("review --from sacct.txt --snapshot queue.json").exits(0);
    assert!(ran.stdout.contains("(estimated from today's queue)"), "{}", ran.stdout);
    let json = sandbox.run("review --from sacct.txt --snapshot queue.json --format json").exits(0).json();
    assert_eq!(name(&json)["saves_h"], json!(0));
}

#[test]
fn files_that_say_nothing_are_refused_or_empty() {
    let sandbox = Sandbox::new()
        .file("empty.txt", "")
        .file("header.txt", HEADER)
        .file("short.txt", accounting().replace("Start|", "Begin|"))
        .file("damaged.txt", accounting().replace("train", "tr\0ain").into_bytes().split_off(40))
        .file("old.txt", accounting().replace("|TRESUsageInAve\n", "|X\n"));
    let empty = sandbox.run("review --from empty.txt").exits(78);
    assert!(empty.stderr.contains("empty.txt: the file is empty"), "{}", empty.stderr);
    let none = sandbox.run("review --from header.txt").exits(0);
    assert_eq!(none.stdout, "no job started and ended\n");
    let short = sandbox.run("review --from short.txt --format json").exits(78);
    assert!(short.stdout.contains("line 1: the header has no column Start"), "{}", short.stdout);
    sandbox.run("review --from damaged.txt").exits(78);
    let old = sandbox.run("review --from old.txt --format json").exits(0).json();
    assert_eq!(
        (&old["missing"], &name(&old)["gpus"]["idle_share"]),
        (&json!(["TRESUsageInAve"]), &Value::Null)
    );
}

#[test]
fn one_call_of_sacct_is_enough() {
    let framed = accounting().replace('|', "\u{1f}");
    let sandbox =
        Sandbox::with_slurm().file("sacct.txt", framed).program("sacct", "cat \"$root/home/desk/sacct.txt\"");
    let json = sandbox.run("review --days 36500 --format json").exits(0).json();
    assert_eq!(name(&json)["runs"], 20);
    let calls = sandbox.calls("sacct");
    let is_own = |call: &Vec<String>| call.iter().any(|argument| argument.starts_with("--user="));
    assert!(calls.len() == 1 && calls.iter().all(is_own), "{calls:?}");
    let without = Sandbox::new();
    without.run("review").exits(69);
}
