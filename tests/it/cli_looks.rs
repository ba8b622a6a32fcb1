//! Looks at the queue are stored, used for learning and removed.

use chrono::Utc;

use hsched_engine::store::SiteLooks;
use hsched_model::number::to_f64;
use hsched_model::{Asks, GpuType, Seconds, Time};
use hsched_queue::{GpuAsk, HeldNodes, QueueJob, Snapshot};

use crate::queue_look::{others, site};
use crate::sandbox::Sandbox;

const HOUR: f64 = 3600.0;

/// Stores hourly looks of these days at a queue that hides other users: every hour the user submits a job,
/// which starts two hours later.
fn looks(sandbox: &Sandbox, days: u32) {
    let store = SiteLooks::of(&sandbox.state(""));
    // A look is not replaced by an older one.
    store.remove().expect("removed");
    let now = to_f64(Utc::now().timestamp()) - 600.0;
    let first = now - f64::from(days) * 24.0 * HOUR;
    for look in 0..=days * 24 {
        let at = first + f64::from(look) * HOUR;
        // The jobs of a look are in descending order of submission.
        let job = |age: u32| {
            let submitted = at - f64::from(age) * HOUR - 900.0;
            let since = submitted + 2.0 * HOUR;
            let running = (since <= at).then(|| HeldNodes { since: Time(since), holds: Vec::new() });
            QueueJob {
                id: (1000 + look - age).to_string(),
                ours: true,
                user: Some("ann".to_owned()),
                partitions: vec!["gpu".to_owned()],
                submitted: Some(Time(submitted)),
                limit_s: Some(Seconds(4.0 * HOUR)),
                asks: Asks {
                    gpus: vec![GpuAsk { gpu_type: GpuType::new("v100"), count: 1 }],
                    ..Asks::default()
                },
                running,
                ..QueueJob::default()
            }
        };
        let jobs = (0..look.min(4)).map(job).collect();
        let snapshot = Snapshot { jobs, others_hidden: true, ..Snapshot::empty(Time(at)) };
        let mut last = store.last().expect("a look");
        let names = last.clone();
        let settled = last.log.observe(&snapshot, &|name| names.number(name));
        store.keep(&last, settled).expect("kept");
    }
}

#[test]
fn waits_are_learnt_from_looks_where_others_are_hidden() {
    let sandbox = site("PrivateData = jobs", &[]);
    sandbox.make_state();
    let ask = || sandbox.run("when jobs.yaml --format json").json();
    let method = |json: &serde_json::Value| json["jobs"][0]["options"][0]["method"].clone();
    assert_eq!(method(&ask()), serde_json::Value::Null);
    looks(&sandbox, 14);
    let json = ask();
    let option = &json["jobs"][0]["options"][0];
    assert_eq!(option["method"], "learnt");
    let [low, median, high] =
        ["q10_s", "q50_s", "q90_s"].map(|key| option["start"][key].as_f64().expect("a number"));
    assert!(low < 2.0 * HOUR && high > 2.0 * HOUR && (HOUR..4.0 * HOUR).contains(&median), "{option}");
    assert!(option["learnt_from"]["starts"].as_u64() > Some(300), "{option}");
    assert_eq!(json["queues"][0]["learnt"]["used"], true);
    let text = sandbox.run("when jobs.yaml").succeeds();
    let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(text.contains("learnt from 14 days of this site"), "{text}");
}

#[test]
fn a_look_is_kept_and_the_doctor_removes_it() {
    let sandbox = site("", &[others("v1", "v100"), others("t1", "t4")]);
    let doctor = |flags: &str| sandbox.run(&format!("doctor --remove-looks {flags}")).succeeds();
    assert_eq!(doctor(""), "no looks at the queue are kept\n");
    sandbox.run("when jobs.yaml").exits(0);
    let file = sandbox.state("looks/last.json.gz");
    assert!(file.exists());
    assert!(doctor("--dry-run").starts_with("would remove the looks at the queue: 1 day, "));
    let json = sandbox.run("doctor --remove-looks --format json").json();
    assert_eq!((&json["schema"], &json["removed"]), (&"hsched.remove-looks/1".into(), &true.into()));
    assert!(!file.exists());
}

/// Returns a site that hides the jobs of others, with two weeks of looks, and with this line of the queue
/// about a job of ours, or an empty queue if the line is empty.
fn learnt_site(queue: &str) -> Sandbox {
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().expect("a user").name;
    let sandbox = site("PrivateData = jobs", &[queue.replace("@ME@", &me)]);
    sandbox.make_state();
    looks(&sandbox, 14);
    sandbox
}

/// Returns a line of `squeue` about job 2000 of ours, pending for a V100, submitted some seconds ago.
fn pending(age_s: i64) -> String {
    let submitted = (chrono::Local::now() - chrono::TimeDelta::seconds(age_s)).format("%Y-%m-%dT%H:%M:%S");
    format!(
        "2000|PENDING|@ME@|bio|normal|gpu|100|{submitted}|N/A|4:00:00|1|1|1|cpu=1,node=1|gres:gpu:v100:1|N/A|N/A|N/A||(null)|(null)|OK|Priority"
    )
}

#[test]
fn the_start_of_a_script_is_learnt_too() {
    let sandbox =
        learnt_site("").file("train.sh", "#!/bin/bash\n#SBATCH --gres=gpu:v100:1 -t 4:00:00\nsleep 1\n");
    let json = sandbox.run("when train.sh --format json").exits(0).json();
    let start = &json["script"]["as_is"];
    assert_eq!(start["method"], "learnt");
    let median = start["start"]["q50_s"].as_f64().expect("a number");
    assert!((HOUR..4.0 * HOUR).contains(&median), "{start}");
    let text = sandbox.run("when train.sh").succeeds();
    assert!(text.contains("learnt from 14 days of this site"), "{text}");
}

#[test]
fn the_start_of_a_pending_job_is_learnt_by_what_it_has_waited() {
    let new = learnt_site(&pending(60)).run("why --format json").exits(0).json()["jobs"][0].clone();
    let median = |job: &serde_json::Value| job["start"]["q50_s"].as_f64().expect("a number");
    assert!((HOUR..4.0 * HOUR).contains(&median(&new)), "{new}");
    assert!(new["learnt_from"]["starts"].as_u64() > Some(300), "{new}");
    // Every job has started two hours after its submission, and the last look has shown this one pending for an hour.
    let sandbox = learnt_site(&pending(4500));
    let store = SiteLooks::of(&sandbox.state(""));
    let at = to_f64(Utc::now().timestamp()) - 600.0;
    let job = QueueJob {
        id: "2000".to_owned(),
        ours: true,
        user: Some("ann".to_owned()),
        partitions: vec!["gpu".to_owned()],
        submitted: Some(Time(at - 3900.0)),
        limit_s: Some(Seconds(4.0 * HOUR)),
        asks: Asks { gpus: vec![GpuAsk { gpu_type: GpuType::new("v100"), count: 1 }], ..Asks::default() },
        ..QueueJob::default()
    };
    let snapshot = Snapshot { jobs: vec![job], others_hidden: true, ..Snapshot::empty(Time(at - 2700.0)) };
    let mut last = store.last().expect("a look");
    let names = last.clone();
    let settled = last.log.observe(&snapshot, &|name| names.number(name));
    last.log.looked_at = Some(Time(at));
    store.keep(&last, settled).expect("kept");
    let old = sandbox.run("why --format json").exits(0).json()["jobs"][0].clone();
    assert!(median(&old) < median(&new), "{old} {new}");
}

/// A write beyond the limit of file sizes kills hsched; whatever it wrote before, the earlier looks can still
/// be read.
#[test]
fn a_command_that_is_killed_while_it_writes_loses_no_look() {
    let sandbox = site("PrivateData = jobs", &[]);
    sandbox.make_state();
    looks(&sandbox, 14);
    let store = SiteLooks::of(&sandbox.state(""));
    let before = (store.last().expect("a look").log.looked_at, store.settled(usize::MAX).len());
    let mut killed = 0;
    // In blocks of 512 bytes.
    for blocks in [0, 1, 2, 4, 8, 16] {
        let script =
            format!("ulimit -f {blocks}; exec {} when jobs.yaml >/dev/null", env!("CARGO_BIN_EXE_hsched"));
        let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
        let mut command = sandbox.start("/bin/sh", &["-c", script.as_str()]);
        let ran = sandbox.ran(&command.env("PATH", path).output().expect("runs"));
        killed += u32::from(ran.code == Some(128 + nix::libc::SIGXFSZ));
        let after = (store.last().expect("a look").log.looked_at, store.settled(usize::MAX).len());
        assert!(after.0 >= before.0 && after.1 >= before.1, "{blocks}: {before:?} {after:?}");
    }
    assert!(killed > 0, "no write was cut");
    sandbox.run("when jobs.yaml").exits(0);
    assert!(store.last().expect("a look").log.looked_at > before.0);
}

#[test]
fn a_full_disk_costs_the_look_and_nothing_else() {
    let sandbox = site("", &[others("v1", "v100"), others("t1", "t4")]);
    let wanted = sandbox.run("when jobs.yaml").exits(0);
    let script = "cat /dev/zero >\"$1/full\" 2>/dev/null; exec \"$2\" when jobs.yaml";
    let Some(ran) = sandbox.on_small_disk(script) else { return };
    let rows = |text: &str| text.lines().filter(|line| line.contains("v100")).count();
    assert_eq!((ran.code, rows(&ran.stdout)), (Some(0), rows(&wanted.stdout)), "{ran:?}");
    assert!(ran.stderr.contains("the look at the queue was not kept"), "{ran:?}");
}
