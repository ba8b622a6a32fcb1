//! Jobs that depend on others (`after`): in the engine, in a replay, in a plan, and under `hsched run`.

use hsched_engine::{JobState, Outcome, Phase, State};
use hsched_model::{Cluster, Job, Time};
use hsched_plan::Moves;

use crate::cli_run::{Bench, job as training};
use crate::sandbox::Sandbox;
use hsched_fixtures::engine_states::{attempt, cluster, how, job, name, running, state, take, words};

fn waits(name: &str, after: &str) -> JobState {
    let job: Job = job(name, "{v100: 100}", &format!(", max_gpus: 1, after: [{after}]"));
    JobState::new(job, Time(0.0))
}

fn over(name: &str, outcome: Outcome) -> JobState {
    let state = JobState::new(job(name, "{v100: 100}", ""), Time(0.0));
    JobState { phase: Phase::Ended { at: Time(5.0), outcome }, ..state }
}

fn lab() -> Cluster {
    cluster(&[("v1", "v100", 4, 0, "idle")])
}

/// Returns the actions of a step, and the state after it.
fn after_step(jobs: Vec<JobState>) -> (Vec<String>, State) {
    let step = take(state(jobs), 10.0, &lab(), &how(Moves::Never));
    (words(&step.actions), step.state)
}

#[test]
fn a_job_starts_when_all_before_it_have_completed() {
    let first = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 1, 0), 0);
    let (done, state) = after_step(vec![first, waits("b", "a"), waits("c", "b")]);
    assert_eq!(done, ["b waits", "c waits"]);
    assert_eq!(state.jobs[1].awaits, Some(name("a")));
    let (done, state) = after_step(vec![over("a", Outcome::Completed), waits("b", "a"), waits("c", "a, b")]);
    assert_eq!(done, ["c waits", "submit b on 1 v100"]);
    assert_eq!((&state.jobs[1].awaits, &state.jobs[2].awaits), (&None, &Some(name("b"))));
}

#[test]
fn what_nobody_remembers_has_completed() {
    assert_eq!(after_step(vec![waits("b", "long-ago")]).0, ["submit b on 1 v100"]);
}

#[test]
fn what_comes_after_a_failure_fails_with_all_that_comes_after_it() {
    let failed = over("a", Outcome::Failed { reason: "failed with exit status 3".into() });
    let (done, state) = after_step(vec![waits("c", "b"), waits("b", "a"), failed]);
    assert_eq!(
        done,
        ["c waits", "b is given up: depends on a, which failed", "c is given up: depends on b, which failed"]
    );
    assert!(state.is_over());
    let (done, _) = after_step(vec![over("a", Outcome::Cancelled), waits("b", "a")]);
    assert_eq!(done, ["b is given up: depends on a, which was cancelled"]);
}

/// A job may be added after one that failed more than 30 days ago and is still in the state.
#[test]
fn a_failure_is_not_forgotten_before_its_successors_have_failed() {
    let failed = over("a", Outcome::Failed { reason: "failed with exit status 3".into() });
    let at = 5.0 + 31.0 * 86_400.0;
    let step = take(state(vec![failed, waits("b", "a")]), at, &lab(), &how(Moves::Never));
    assert_eq!(words(&step.actions), ["b is given up: depends on a, which failed"]);
    let left: Vec<&str> = step.state.jobs.iter().map(|tracked| tracked.job.name.as_str()).collect();
    assert_eq!(left, ["b"]);
}

const CLUSTER: &str = "nodes: [{name: n1, gpus: {v100: 2}}]\n";

/// Returns jobs of 10 s on one GPU, each with additional keys.
fn file(jobs: &[(&str, &str)]) -> String {
    let line = |(name, more): &(&str, &str)| {
        format!(
            "- {{name: {name}, samples_per_epoch: 1000, epochs: 1, global_batch: 10, model_size: 0, max_gpus: 1, \
             throughput: {{v100: 100}}, command: [x], {more}}}\n"
        )
    };
    format!("jobs:\n{}", jobs.iter().map(line).collect::<String>())
}

#[test]
fn a_replay_starts_them_in_their_order_and_says_which_never_start() {
    let jobs = [
        ("a", "retries: 0"),
        ("b", "after: a, arrival: 3s"),
        ("c", "after: [a, b]"),
        ("d", ""),
        ("e", "after: c"),
    ];
    let sandbox = Sandbox::new().file("jobs.yaml", file(&jobs)).file("lab.yaml", CLUSTER);
    let line = "simulate --trace jobs.yaml --cluster lab.yaml --format json --policy";
    for policy in ["fifo", "srtf", "horizon", "optimal", "las"] {
        let value = sandbox.run(&format!("{line} {policy}")).json();
        let jobs = value["policies"][0]["jobs"].as_array().expect("jobs").clone();
        let time = |job: usize, key: &str| jobs[job][key].as_f64().expect("a time");
        for (job, before) in [(1, 0), (2, 0), (2, 1), (4, 2)] {
            let (started, completed) = (time(job, "started_s"), time(before, "completion_s"));
            assert!(started >= completed, "{policy}: {started} {completed}");
        }
        // The completion time of a job counts from its arrival, regardless of what it waits for.
        assert!((time(1, "jct_s") - (time(1, "completion_s") - 3.0)).abs() < 1e-9, "{policy}");
    }
    let failing = sandbox.run(&format!("{line} srtf --job-failures 1s")).json();
    assert!(failing["policies"][0]["jobs"][4]["completion_s"].is_null(), "{failing}");
    let by_tasks = line.replace(" --format json", "");
    let tasks = sandbox.run(&format!("{by_tasks} hare --execution tasks")).fails(2);
    assert!(tasks.contains("`after`") && tasks.contains("--execution gangs"), "{tasks}");
    let unknown = sandbox.file("jobs.yaml", file(&[("a", "after: z")]));
    let problem = unknown.run(&format!("{by_tasks} srtf")).fails(78);
    assert!(problem.contains("job a depends on z, but there is no such job"), "{problem}");
}

#[test]
fn a_plan_leaves_them_for_later() {
    let jobs = [("a", ""), ("b", "after: a")];
    let sandbox = Sandbox::new().file("jobs.yaml", file(&jobs)).file("lab.yaml", CLUSTER);
    for policy in ["optimal", "has", "optimus"] {
        let plan = sandbox
            .run(&format!("plan jobs.yaml --cluster lab.yaml --policy {policy} --seed 0 --format json"))
            .json();
        let verdict = |job: usize| plan["jobs"][job]["verdict"].as_str().expect("a verdict").to_owned();
        assert_eq!((verdict(0), verdict(1)), ("place".into(), "defer".into()), "{policy}");
    }
}

#[test]
fn under_run_they_wait_fail_with_those_before_and_unknown_ones_are_refused() {
    let speed = "throughput: {cpu: 2000}";
    let bench = Bench::new(&[
        training("a", 2, speed),
        training("b", 2, &format!("{speed}, sweep: {{k: [1, 2]}}, after: a")),
        training("c", 1, &format!("{speed}, after: b")),
        training("bad", 1, &format!("{speed}, retries: 0, setup: [exit 3]")),
        training("never", 1, &format!("{speed}, after: [c, bad]")),
    ]);
    let ran = bench.run("run jobs.yaml --devices cpu:2").exits(1);
    assert!(ran.stdout.contains("never: failed: depends on bad, which failed"), "{}", ran.stdout);
    let place = |text: &str| ran.stdout.find(text).unwrap_or_else(|| panic!("{text}: {}", ran.stdout));
    assert!(place("b-k1: started") > place("a: completed"), "{}", ran.stdout);
    assert!(place("c: started") > place("b-k2: completed").max(place("b-k1: completed")), "{}", ran.stdout);
    assert_eq!((bench.saved("c"), bench.saved("never")), (vec![1], vec![]));
    let more = Bench::new(&[training("z", 1, &format!("{speed}, after: nobody"))]);
    let refused = more.run("run jobs.yaml --devices cpu:1").fails(78);
    assert!(refused.contains("z depends on nobody, but there is no job of that name"), "{refused}");
}
