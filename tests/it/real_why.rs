//! `hsched why` on a real Slurm: reasons of pending jobs, changes in place that start the job, and ends of
//! jobs.

use std::fs;

use serde_json::Value;

use crate::real_cluster::{STEADY, start};
use crate::real_user::{TestUser, wait_for};

const NODES: &str = "partition gpu default max_time=infinite default_time=60\npartition short max_time=1:00:00\n\
    v1 cpus=16 memory=8000 gpus=v100:4 partitions=gpu\nt1 cpus=16 memory=8000 gpus=t4:4 partitions=gpu,short\n";

fn submit(user: &TestUser<'_>, options: &[&str], command: &str) -> String {
    let wrap = format!("--wrap={command}");
    let fixed = ["--parsable", "-n1", "--mem=10", "-o", "/dev/null", &wrap];
    user.ask("sbatch", &[&fixed[..], options].concat()).trim().to_owned()
}

fn why(user: &TestUser<'_>, id: &str) -> Value {
    let done = user.hsched(&["why", id, "--futures", "5", "--format", "json"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let told: Value = serde_json::from_str(&done.stdout).expect("JSON");
    told["jobs"][0].clone()
}

/// Waits until Slurm shows this reason for a job.
fn await_reason(user: &TestUser<'_>, id: &str, reason: &str) {
    wait_for(reason, || {
        let shown = user.ask("squeue", &["-h", "-j", id, "-O", "Reason:100"]);
        shown.trim().starts_with(reason).then_some(())
    });
}

fn await_start(user: &TestUser<'_>, id: &str) {
    wait_for("its start", || {
        (user.ask("squeue", &["-h", "-t", "R", "-j", id, "-o", "%T"]).trim() == "RUNNING").then_some(())
    });
}

#[test]
fn pending_jobs_are_explained_and_started_by_their_advice() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = folder.path().join("why.nodes");
    fs::write(&nodes, NODES).expect("written");
    let Some(cluster) = start(&nodes, STEADY) else { return };
    let user = TestUser::new(&cluster, "why", "");
    let busy = submit(&user, &["--gres=gpu:v100:3", "-t", "300"], "exec sleep 600");
    await_start(&user, &busy);

    let long = submit(&user, &["-p", "short", "--gres=gpu:t4:1", "-t", "300"], "exec sleep 600");
    wait_for("a reason", || {
        user.ask("squeue", &["-h", "-j", &long, "-O", "Reason"]).contains("Partition").then_some(())
    });
    let told = why(&user, &long);
    assert_eq!(
        (&told["kind"], &told["limit"]["name"], &told["limit"]["max"]),
        (&"never".into(), &"MaxTime".into(), &60.0.into())
    );
    let command = format!("scontrol update JobId={long} TimeLimit=1:00:00");
    let place = told["advice"]
        .as_array()
        .expect("a list")
        .iter()
        .position(|candidate| candidate["command"] == command.as_str());
    let number = (place.expect("the limit of the partition") + 1).to_string();
    let done = user.hsched(&["why", &long, "--apply", &number]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.starts_with(&format!("Done: {command}\n")), "{}", done.stdout);
    assert!(done.stdout.contains("you cannot raise the time limit again"), "{}", done.stdout);
    await_start(&user, &long);

    for (options, reason, kind) in [
        (vec!["--hold".to_owned()], "JobHeldUser", "held"),
        (vec!["--begin=now+3hours".to_owned()], "BeginTime", "waits"),
        (vec![format!("--dependency=afterany:{busy}")], "Dependency", "waits"),
    ] {
        let mut words = vec!["--gres=gpu:t4:1", "-t", "30"];
        words.extend(options.iter().map(String::as_str));
        let id = submit(&user, &words, "exec sleep 600");
        await_reason(&user, &id, reason);
        let told = why(&user, &id);
        assert_eq!((&told["reason"], &told["kind"]), (&reason.into(), &kind.into()), "{told}");
        let done = user.hsched(&["why", &id, "--apply", "1"]);
        assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
        await_start(&user, &id);
    }

    let wide = submit(&user, &["-J", "wide", "--gres=gpu:v100:4", "-t", "30"], "exec sleep 600");
    await_reason(&user, &wide, "Resources");
    let told = why(&user, "wide");
    assert_eq!(
        (&told["job_id"], &told["kind"], &told["ahead"]),
        (&wide.as_str().into(), &"waits".into(), &0.into()),
        "{told}"
    );
    let commands = told["advice"].to_string();
    assert!(commands.contains(&format!("scancel {busy}")), "{told}");
    assert_eq!(why(&user, &busy)["kind"], "running");

    let failed = submit(&user, &["-t", "5"], "exit 3");
    wait_for("its end", || (why(&user, &failed)["kind"] == "ended").then_some(()));
    let text = user.hsched(&["why", &failed]).stdout;
    assert!(text.contains("with exit code 3"), "{text}");
    let unknown = user.hsched(&["why", "99999"]);
    assert_eq!(unknown.code, Some(1), "{}", unknown.stdout);
}
