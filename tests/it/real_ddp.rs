//! The example of a real training program, as a heterogeneous job: its shares, reports, stop and resumption.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::python;
use crate::real_cluster::repository;
use crate::real_user::{Done, TestUser, job, user, wait_for};
use crate::sandbox::Sandbox;

const EPOCHS: usize = 16;

/// Returns the example's program and its arguments, for epochs of ten steps.
fn arguments() -> Vec<String> {
    let program = repository().join("examples/ddp/train.py").display().to_string();
    [&program, "--samples", "600", "--lr", "0.02"].map(ToOwned::to_owned).to_vec()
}

/// Returns the job: three ranks on two GPU types; on one type, a rank takes micro-batches and three times as
/// long.
fn training(python: &str) -> Value {
    let words = shell_words::join([&[python.to_owned()], &arguments()[..]].concat());
    let command = format!(
        "echo $HSCHED_EPOCHS_DONE $PYTHONPATH >>saw-$RANK; exec {words} --probe --sample-ms 2 --slow t4=3"
    );
    let mut job = job("ddp", 3, &command);
    job["global_batch"] = 60.into();
    job["epochs"] = EPOCHS.into();
    job["max_batch"] = json!({"t4": 5});
    job["env"] = json!({"PYTHONPATH": "/own/modules"});
    job
}

#[test]
fn a_training_that_was_stopped_ends_as_one_process_would() {
    let Some(python) = python::with_torch() else { return };
    let Some(user) = user("ddp", "mech") else { return };
    let plan = user.plan_over(&["b1 {v100: 2}", "a1 {t4: 1}"], &[training(&python)]);
    let shares: BTreeSet<u64> = ranks(&plan).iter().filter_map(|rank| rank["batch"].as_u64()).collect();
    assert_eq!(shares.len(), 2, "unequal shares: {plan:#}");

    let id = &user.submit(&["plan.json"])["ddp"];
    wait_for("an epoch", || (epochs(&user).first()?.len() > 1).then_some(()));
    user.ask("scancel", &["--signal=USR1", "--batch", id]);
    let stopped = user.ended(id);
    assert_eq!(stopped.exit, "85:0", "{stopped:?}: {}", user.read("ddp.out"));
    let done = epochs(&user)[0].len();
    assert!((1..EPOCHS).contains(&done), "{done} epochs");

    let run = user.only_run().expect("a run");
    let script = run.join("ddp.sbatch").display().to_string();
    let ended = user.ended(user.ask("sbatch", &["--parsable", &script]).trim());
    assert!(ended.completed(), "{ended:?}: {}", user.read("ddp.out"));
    assert!(user.read("ddp.out").contains("resumes after step"), "{}", user.read("ddp.out"));
    check_reports(&user, &plan);
    check_surroundings(&user, &run.display().to_string(), done);
    let (together, alone) = (weights(&user.read("ddp.out")), weights(&train_alone(&user, &python)));
    assert!((together / alone - 1.0).abs() < 1e-5, "weights {together}, by one process {alone}");
}

/// The rest of an epoch is moved to other ranks twice. Every sample is used once, and the weights equal those
/// of one process.
#[test]
fn an_epoch_that_three_sets_of_ranks_share_takes_every_sample_once() {
    let Some(python) = python::with_torch() else { return };
    let Some(user) = user("ddp-ranks", "mech") else { return };
    let program = repository().join("tests/it/ranks_train.py").display().to_string();
    let part = |name: &str, nodes: &[&str], gpus: u32, stop_after: &str, status: &str| {
        let mut job = job(name, gpus, &shell_words::join([python.as_str(), program.as_str(), stop_after]));
        job["samples_per_epoch"] = 83.into();
        job["global_batch"] = 8.into();
        job["checkpoint"] = json!({"grace": "10s", "dir": "together"});
        job["env"] = json!({"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"});
        user.plan_over(nodes, &[job]);
        let ended = user.run(&["plan.json"]);
        assert_eq!(ended.exit, status, "{name}: {}", user.read(format!("{name}.out")));
    };
    part("two", &["b1 {v100: 1}", "a1 {t4: 1}"], 2, "3", "85:0");
    part("four", &["b1 {v100: 2}", "a1 {t4: 2}"], 4, "2", "85:0");
    part("three", &["b1 {v100: 2}", "a1 {t4: 1}"], 3, "0", "0:0");
    let took = (0..4)
        .flat_map(|rank| user.read(format!("took-{rank}")).lines().map(str::to_owned).collect::<Vec<_>>());
    let mut samples: Vec<u32> = took.map(|line| line.parse().expect("a sample")).collect();
    samples.sort_unstable();
    assert_eq!(samples, (0..83).collect::<Vec<_>>());

    let mut alone = user.program(&python);
    alone.args([&program, "0"]).env("PYTHONPATH", repository().join("templates"));
    let alone = Done::of(
        alone
            .env("HSCHED_CHECKPOINT_DIR", "alone")
            .env("RANK", "0")
            .env("WORLD_SIZE", "1")
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", "0"),
    );
    assert_eq!(alone.code, Some(0), "{}", alone.stderr);
    let (together, alone) = (weights(&user.read("three.out")), weights(&alone.stdout));
    assert!((together / alone - 1.0).abs() < 1e-12, "weights {together}, by one process {alone}");
}

#[test]
fn the_example_is_a_job_over_two_types() {
    let folder = repository().join("examples/ddp").display().to_string();
    let plan = Sandbox::new()
        .run(&format!("plan {folder}/jobs.yaml --cluster {folder}/cluster.yaml --format json"))
        .json();
    let placed: Vec<(&Value, &Value)> =
        ranks(&plan).iter().map(|rank| (&rank["type"], &rank["batch"])).collect();
    let expected =
        [("v100", 24), ("v100", 24), ("t4", 8), ("t4", 8)].map(|(ty, batch)| (json!(ty), json!(batch)));
    assert_eq!(placed, expected.iter().map(|(ty, batch)| (ty, batch)).collect::<Vec<_>>());
}

fn ranks(plan: &Value) -> &Vec<Value> {
    plan["jobs"][0]["ranks"].as_array().expect("ranks")
}

/// Returns the reports of epochs, by rank: those of the probe have no epoch.
fn epochs(user: &TestUser<'_>) -> Vec<Vec<Value>> {
    let mut reports = user.reports("ddp");
    for lines in &mut reports {
        lines.retain(|line| line.get("epoch").is_some());
    }
    reports
}

/// Checks that every rank reported every epoch once, with its batch and a compute time of at least its sleep;
/// that in the first epoch, the samples of the ranks add up and their metrics are equal; and that each run
/// has a probe.
fn check_reports(user: &TestUser<'_>, plan: &Value) {
    let reports = epochs(user);
    for (rank, lines) in ranks(plan).iter().zip(&reports) {
        let numbers: Vec<u64> = lines.iter().filter_map(|line| line["epoch"].as_u64()).collect();
        assert_eq!(numbers, (1..=EPOCHS as u64).collect::<Vec<_>>(), "rank {}", rank["rank"]);
        let same = |key: &str| lines.iter().all(|line| line[key] == rank[key]);
        assert!(same("rank") && same("batch"), "{lines:?}");
        let slept =
            |line: &Value| 0.002 * if rank["type"] == "t4" { 3.0 } else { 1.0 } * number(line, "samples");
        assert!(lines.iter().all(|line| number(line, "compute_s") >= slept(line)), "{lines:?}");
    }
    let slow = ranks(plan).iter().position(|rank| rank["type"] == "t4").expect("a T4");
    assert!(number(&reports[slow][0], "micro_batch") <= 5.0);
    let first = |rank: usize| &reports[rank][0];
    let samples: f64 = (0..reports.len()).map(|rank| number(first(rank), "samples")).sum();
    assert_eq!(samples, 600.0);
    assert!((0..reports.len()).all(|rank| first(rank)["metrics"] == first(0)["metrics"]), "{reports:?}");

    for lines in user.reports("ddp") {
        let probes: Vec<&Value> = lines.iter().filter(|line| line.get("probe").is_some()).collect();
        assert_eq!(probes.len(), 2, "one of each run");
        let pairs = probes[0]["probe"].as_array().expect("pairs");
        let sizes: BTreeSet<u64> = pairs.iter().filter_map(|pair| pair[0].as_u64()).collect();
        assert_eq!((pairs.len(), sizes.len()), (6, 2), "{pairs:?}");
    }
}

fn number(line: &Value, key: &str) -> f64 {
    line[key].as_f64().expect("a number")
}

/// Checks that the helper's folder comes after the user's own modules, and that the second run knew the finished
/// epochs.
fn check_surroundings(user: &TestUser<'_>, run: &str, done: usize) {
    assert!(fs::exists(user.folder.join(run).join("hsched_ddp/__init__.py")).expect("the run's folder"));
    let saw = user.read("saw-0");
    let expected = [format!("0 /own/modules:{run}"), format!("{done} /own/modules:{run}")];
    assert_eq!(saw.lines().collect::<Vec<_>>(), expected);
}

/// Returns the output of the example if one process does all of the work.
fn train_alone(user: &TestUser<'_>, python: &str) -> String {
    let mut alone = user.program(python);
    alone.args(arguments()).args(["--global-batch", "60", "--epochs", &EPOCHS.to_string()]);
    alone.env("PYTHONPATH", repository().join("templates")).env("HSCHED_CHECKPOINT_DIR", "alone");
    let done = Done::of(alone.env("PYTHONDONTWRITEBYTECODE", "1"));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.stdout
}

/// Returns the checksum of all weights at the end.
fn weights(output: &str) -> f64 {
    let text = output.lines().find_map(|line| line.strip_prefix("weights ")).expect("the weights");
    text.parse().expect("a number")
}
