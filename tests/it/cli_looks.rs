//! Looks at the queue are kept, learnt from and removed.

use chrono::Utc;

use hsched_engine::store::SiteLooks;
use hsched_model::number::to_f64;
use hsched_model::{Asks, GpuType, Seconds, Time};
use hsched_queue::{GpuAsk, QueueJob, Running, Snapshot};

use crate::queue_look::{others, site};
use crate::sandbox::Sandbox;

const HOUR: f64 = 3600.0;

/// What a user sees of a queue that hides others: every hour a job is submitted, and starts two hours later.
fn looks(sandbox: &Sandbox, days: u32) {
    let store = SiteLooks::of(&sandbox.state(""));
    let now = to_f64(Utc::now().timestamp()) - 600.0;
    let first = now - f64::from(days) * 24.0 * HOUR;
    for look in 0..=days * 24 {
        let at = first + f64::from(look) * HOUR;
        // From the newest one back.
        let job = |age: u32| {
            let submitted = at - f64::from(age) * HOUR - 900.0;
            let since = submitted + 2.0 * HOUR;
            let running = (since <= at).then(|| Running { since: Time(since), holds: Vec::new() });
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
