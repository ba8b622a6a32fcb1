//! The whole loop on a real Slurm: three jobs with wrong speeds, a failure, a node that dies.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::real_cluster::{Cluster, repository, start, start_with_accounting};
use crate::real_user::{TestUser, wait_for, wait_within};
use crate::story::{
    ACTIONS, DELAYS, FAILS_AT, FATAL_EPOCH, FATAL_NODE, NODES, POLL, TRUE_SPEEDS, actions, delays, ends,
    epochs, jobs, simulated,
};

/// Time limit of the story.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(150);

/// Settings that make `watch` quick here.
const QUICK: [(&str, &str); 1] = [("HSCHED_RETRY_DELAY", "1s")];

fn command(name: &str, samples: u64) -> Value {
    let program = repository().join("examples/stand-in/train.py");
    let (_, speeds) = TRUE_SPEEDS.iter().find(|(candidate, _)| *candidate == name).expect("a job");
    let speeds: Vec<String> = speeds.iter().map(|(ty, rate)| format!(" --speed {ty}={rate}")).collect();
    let speeds = speeds.concat();
    let run = format!("python3 {} --samples-per-epoch {samples}{speeds}", program.display());
    if name != "flaky" {
        return json!(run);
    }
    let before = FAILS_AT - 1;
    json!(format!("[ $HSCHED_EPOCHS_DONE -ge {before} ] || fails='--fail-at-epoch {FAILS_AT}'; {run} $fails"))
}

/// A running `watch`, which ends with the test.
struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn watch(user: &TestUser<'_>, arguments: &[&str]) -> Watch {
    let mut program = user.program(env!("CARGO_BIN_EXE_hsched"));
    let log = fs::File::create(user.folder.join("watch.log")).expect("a file");
    program.arg("watch").args(["--moves", "auto", "--margin", "0.5"]).args(arguments).envs(QUICK);
    Watch(program.stdout(log.try_clone().expect("a file")).stderr(Stdio::from(log)).spawn().expect("starts"))
}

/// Plays the story and returns its journal; calls `turn` repeatedly until it returns that all jobs have ended.
fn play(cluster: &Cluster, turn: &mut dyn FnMut(&TestUser<'_>) -> bool) -> String {
    let user = TestUser::new(cluster, "story", "gpu");
    user.write("jobs.yaml", &jobs(&command).to_string());
    let submitted = user.hsched_with(&QUICK, &["submit", "jobs.yaml"]);
    assert_eq!(submitted.code, Some(0), "{}{}", submitted.stdout, submitted.stderr);
    let journal = || user.read("state/journal");
    let mut killed = false;
    let over = wait_within(PATIENCE, || {
        let over = turn(&user);
        let fatal = format!("\"epoch\":{FATAL_EPOCH},");
        if !killed && journal().lines().any(|line| line.contains("\"job\":\"long\"") && line.contains(&fatal))
        {
            cluster.node("kill", FATAL_NODE);
            killed = true;
        }
        over.then_some(())
    });
    assert!(over.is_some(), "the story does not end: {}\n{}", journal(), all(&user));
    check(&user, &journal());
    journal()
}

/// Returns the output of `watch` and the ranks, for a failing test.
fn all(user: &TestUser<'_>) -> String {
    let outputs =
        ["short", "flaky", "long"].map(|job| format!("{job}.out:\n{}", user.read(format!("{job}.out"))));
    format!("{}\n{}", user.read("watch.log"), outputs.join("\n"))
}

/// Returns the actions on each job, in order. The order of one job's failure and another's end depends on the machine.
/// After a turn that was killed between the record of a stop and the answer, the next one stops the job again.
fn by_job(actions: &[String]) -> BTreeMap<&str, Vec<&str>> {
    let mut grouped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for action in actions {
        let actions = grouped.entry(action.split(' ').nth(1).expect("a job")).or_default();
        if !action.starts_with("stop ") || actions.last() != Some(&action.as_str()) {
            actions.push(action);
        }
    }
    grouped
}

fn check(user: &TestUser<'_>, journal: &str) {
    let wanted = ACTIONS.map(str::to_owned);
    assert_eq!(by_job(&actions(journal)), by_job(&wanted), "{journal}\n{}", all(user));
    let state: Value = serde_json::from_str(&user.read("state/state.json")).expect("a state");
    for job in state["jobs"].as_array().expect("jobs") {
        assert_eq!(job["phase"]["ended"]["outcome"], "completed", "{job}");
        check_epochs(user, job["spec"]["name"].as_str().expect("a name"), &job["spec"]["epochs"]);
    }
    check_speeds(user);
    check_lengths(journal);
    check_outputs(user, &state);
}

/// Checks that an epoch takes as long as in the simulated cluster, on the same GPUs with the same shares.
fn check_lengths(journal: &str) {
    let (real, played) = (epochs(journal), simulated(DELAYS, POLL).epochs);
    let median = |lengths: &[f64]| {
        let mut lengths = lengths.to_vec();
        lengths.sort_by(f64::total_cmp);
        lengths[lengths.len() / 2]
    };
    let runs: Vec<_> =
        real.iter().filter_map(|(run, measured)| Some((run, measured, played.get(run)?))).collect();
    assert!(runs.len() >= 5, "{real:?} {played:?}");
    for (run, measured, played) in runs {
        let (length, expected) = (median(measured), median(played));
        assert!((length - expected).abs() <= 0.05 * expected, "{run:?}: {measured:?}, simulated {played:?}");
    }
}

/// Checks that in the simulated cluster, where starts and ends take as long as they took here, each job ends
/// within 5 % of its real end. Half a second more is allowed, because Slurm's times are whole seconds.
fn check_ends(journal: &str) {
    let (real, delays) = (ends(journal), delays(journal));
    let played = simulated(delays, POLL).ends;
    for (job, end) in &real {
        let played_end = played[job];
        assert!(
            (end - played_end).abs() <= 0.05 * end + 0.5,
            "{job}: {end:.1} s, in the simulated cluster {played_end:.1} s: {real:?} {played:?} {delays:?}"
        );
    }
}

/// Checks that over all runs of a job, every epoch is reported once.
fn check_epochs(user: &TestUser<'_>, name: &str, all: &Value) {
    let runs = fs::read_dir(user.folder.join("state/runs")).expect("runs");
    let file = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").path().join("report").join(name).join("rank-0.jsonl")
    };
    let mut done: Vec<u64> = Vec::new();
    for path in runs.map(file) {
        let lines: Vec<Value> =
            user.read(&path).lines().map(|line| serde_json::from_str(line).expect("a report")).collect();
        done.extend(lines.iter().filter_map(|line| line["epoch"].as_u64()));
    }
    done.sort_unstable();
    assert_eq!(done, (1..=all.as_u64().expect("epochs")).collect::<Vec<_>>(), "{name}");
}

/// Checks that the outputs of a job's submissions, one after the other, are its whole output.
fn check_outputs(user: &TestUser<'_>, state: &Value) {
    for job in state["jobs"].as_array().expect("jobs") {
        let name = job["spec"]["name"].as_str().expect("a name");
        let count = job["past"].as_array().expect("attempts").len();
        let part = |number: usize| {
            let printed = user.hsched_with(&QUICK, &["logs", name, "--attempt", &number.to_string()]);
            assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""), "{name} {number}");
            printed.stdout
        };
        let parts: Vec<String> = (1..=count).map(part).collect();
        assert_eq!(parts.concat(), user.read(format!("{name}.out")), "{name}");
        assert!(name != "flaky" || count > 1 && parts.iter().all(|part| !part.is_empty()), "{parts:?}");
    }
}

/// Checks that the speeds in the cache are within 5 % of the true ones.
fn check_speeds(user: &TestUser<'_>) {
    let shown = user.hsched(&["cache", "show", "--format", "json"]);
    let value: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    let rows = value["speeds"].as_array().expect("speeds");
    for (job, speeds) in TRUE_SPEEDS {
        for (gpu_type, rate) in speeds {
            let is_wanted = |row: &&Value| row["model"] == job && row["gpu_type"] == *gpu_type;
            let row = rows.iter().find(is_wanted).unwrap_or_else(|| panic!("{job} {gpu_type}: {value}"));
            // The speed is compared at one batch size, because a fit through several sizes may have a
            // constant part.
            let step = |alpha: f64, beta: f64| 20.0 / (alpha + beta * 20.0);
            let affine = row["alpha_s"].as_f64().zip(row["beta_s"].as_f64()).map(|(a, b)| step(a, b));
            let learnt = row["samples_per_s"].as_f64().or(affine).expect("a speed");
            assert!((learnt / rate - 1.0).abs() < 0.05, "{job} {gpu_type}: {learnt}, not {rate}");
        }
    }
}

#[test]
fn the_story_with_accounting_and_one_long_watch() {
    let _ = play_with_accounting();
}

#[test]
#[ignore = "a timed test: it needs a machine that does nothing else (tests/long)"]
fn the_story_takes_as_long_as_in_the_simulated_cluster() {
    if let Some(journal) = play_with_accounting() {
        check_ends(&journal);
    }
}

fn play_with_accounting() -> Option<String> {
    let nodes = tempfile::NamedTempFile::new().expect("a file");
    fs::write(nodes.path(), NODES).expect("writes");
    let cluster = start_with_accounting(nodes.path(), "3/3/1")?;
    let mut running = None;
    Some(play(&cluster, &mut |user| {
        let watch = running.get_or_insert_with(|| watch(user, &["--interval", "0.5s"]));
        watch.0.try_wait().expect("a child").is_some()
    }))
}

#[test]
fn the_story_without_accounting_turn_by_turn_and_killed_halfway() {
    let nodes = tempfile::NamedTempFile::new().expect("a file");
    fs::write(nodes.path(), NODES).expect("writes");
    let Some(cluster) = start(nodes.path(), "3/3/1") else { return };
    let mut turns: u64 = 0;
    let _ = play(&cluster, &mut |user| {
        turns += 1;
        let mut one = watch(user, &["--once"]);
        if turns.is_multiple_of(7) {
            // The kill may come at any point of the turn, even within a line of the journal.
            std::thread::sleep(Duration::from_millis(turns * 37 % 400));
            let _ = one.0.kill();
        }
        wait_for("a turn", || one.0.try_wait().expect("a child"));
        let state: Value = serde_json::from_str(&user.read("state/state.json")).expect("a state");
        let jobs = state["jobs"].as_array().expect("jobs");
        jobs.iter().all(|job| job["phase"].get("ended").is_some())
    });
}
