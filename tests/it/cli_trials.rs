//! `hsched ask` and `hsched tell`, sweeps that get more runs, `hsched logs SWEEP`, and the number of concurrent runs of
//! a sweep.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox};
use crate::schemas;

/// A job file with one run whose loss follows from its learning rate; with a rate of 9, it fails.
const JOB: &str = r#"jobs:
  - name: net
    samples_per_epoch: 10
    epochs: 2
    global_batch: 10
    model_size: 0
    max_gpus: 1
    retries: 0
    throughput: {cpu: 100}
    command: 'echo "rate {lr}"; for e in 1 2; do echo "{\"epoch\": $e, \"metrics\": {\"val_loss\": $e.$LR}}" >>"$HSCHED_REPORT"; done; [ {lr} != 9 ]'
"#;

fn sandbox() -> Sandbox {
    Sandbox::new().file("job.yaml", JOB).variable("PATH", "/usr/local/bin:/usr/bin:/bin")
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn ask(sandbox: &Sandbox, trials: &[(u32, &str)]) -> Ran {
    let line =
        |(trial, rate): &(u32, &str)| format!("{{\"trial\": {trial}, \"parameters\": {{\"lr\": {rate}}}}}\n");
    let input: String = trials.iter().map(line).collect();
    for trial in lines(&input) {
        schemas::check_as("hsched.trial/1", &trial);
    }
    sandbox.run_with_input("ask job.yaml", &input)
}

#[test]
fn an_optimiser_asks_for_runs_and_is_told_what_came_of_them() {
    let sandbox = sandbox();
    let asked = lines(&ask(&sandbox, &[(0, "2"), (1, "9")]).exits(0).stdout);
    assert_eq!(asked[0], json!({ "trial": 0, "job": "net-t0", "state": "added", "message": null }));
    assert_eq!(asked[1]["state"], "added");
    let again = lines(&ask(&sandbox, &[(0, "2")]).exits(0).stdout);
    assert_eq!(again[0]["state"], "kept", "before anything has run");
    sandbox.run("run --devices cpu:1").exits(1);
    let told = lines(&sandbox.run("tell net").succeeds());
    let line = |trial: u32, epoch: u32, metric: f64, state: &str| json!({ "trial": trial, "epoch": epoch, "metric": metric, "state": state });
    let expected = [
        line(0, 1, 1.2, "running"),
        line(0, 2, 2.2, "running"),
        line(0, 2, 2.2, "completed"),
        line(1, 1, 1.9, "running"),
        line(1, 2, 2.9, "running"),
        line(1, 2, 2.9, "failed"),
    ];
    assert_eq!(told, expected);
    let ran = sandbox.run("tell net --metric none").exits(0);
    assert_eq!(ran.stderr, "note: no run has reported a metric \"none\"; known: val_loss\n");
    let other = lines(&ran.stdout);
    assert_eq!(other[2], json!({ "trial": 0, "epoch": 2, "metric": null, "state": "completed" }));

    // The failed trial is added again; the other one exists.
    let again = lines(&ask(&sandbox, &[(0, "2"), (1, "9")]).exits(0).stdout);
    assert_eq!((&again[0]["state"], &again[1]["state"]), (&json!("kept"), &json!("again")));
    // The earlier failure is unrelated to the new run.
    let told = lines(&sandbox.run("tell net").succeeds());
    let states = |trial: u32| -> Vec<&Value> {
        told.iter().filter(|line| line["trial"] == trial).map(|line| &line["state"]).collect()
    };
    assert_eq!(states(0), ["running", "running", "completed"]);
    assert!(states(1).iter().all(|state| *state == "running"), "{told:?}");
}

#[test]
fn a_file_or_a_state_directory_that_cannot_be_used_ends_the_command() {
    let two = format!("{JOB}{}", JOB.trim_start_matches("jobs:\n").replace("net", "other"));
    let sandbox = sandbox().file("two.yaml", two);
    let refused = sandbox.run_with_input("ask two.yaml", "").fails(78);
    assert!(refused.contains("has 2 jobs, and a trial is one"), "{refused}");
    let sandbox = sandbox.variable("HSCHED_STATE_DIR", "/dev/null/state");
    let ran = ask(&sandbox, &[(0, "2"), (1, "3")]);
    assert_eq!(ran.stdout, "");
    assert!(ran.exits(1).stderr.contains("/dev/null/state"));
}

#[test]
fn what_an_optimiser_says_wrong_is_refused_and_the_rest_is_read() {
    let sandbox = sandbox();
    let input = "{\"trial\": 1, \"parameters\": {\"lr\": 1}}\nnonsense\n{\"trial\": 1, \"parameters\": {\"lr\": 2}}\n\
        {\"trial\": 2, \"parameters\": {\"path\": 2}}\n{\"trial\": 3, \"parameters\": {\"lr\": 3}}\n{\"trial\": 4, \"para";
    let asked = lines(&sandbox.run_with_input("ask job.yaml", input).exits(1).stdout);
    let states: Vec<&Value> = asked.iter().map(|line| &line["state"]).collect();
    assert_eq!(states, ["added", "refused", "refused", "refused", "added", "refused"]);
    let message = |line: usize| asked[line]["message"].as_str().unwrap_or_default().to_owned();
    let trials: Vec<&Value> = asked.iter().map(|line| &line["trial"]).collect();
    assert_eq!(trials, [&json!(1), &Value::Null, &json!(1), &json!(2), &json!(3), &Value::Null]);
    assert!(message(1).contains("line 2 of standard input: is not JSON"), "{}", message(1));
    assert!(message(2).contains("net-t1 has other values: {\"lr\":1}"), "{}", message(2));
    assert!(message(3).contains("would overwrite the variable PATH"), "{}", message(3));
    assert!(message(5).contains("line 6"), "{}", message(5));
    let unknown = sandbox.run("tell other").fails(2);
    assert!(unknown.contains("no job and no sweep \"other\""), "{unknown}");

    let sandbox = self::sandbox();
    let dry = sandbox.run_with_input("ask job.yaml --dry-run", "{\"trial\": 1, \"parameters\": {\"lr\": 1}}");
    assert_eq!(lines(&dry.exits(0).stdout)[0]["state"], "added");
    assert!(!sandbox.state("wishes").exists());
    assert!(sandbox.run("ask -").fails(2).contains("standard input has the trials"));
}

#[test]
fn an_ask_that_waits_for_another_says_so() {
    let sandbox = sandbox();
    ask(&sandbox, &[(0, "2")]).exits(0);
    let lock = std::fs::OpenOptions::new().append(true).open(sandbox.state("add.lock")).expect("a file");
    lock.lock().expect("a lock");
    let mut command = sandbox.command(&["ask", "job.yaml"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut asking = command.spawn().expect("starts");
    let line = b"{\"trial\": 1, \"parameters\": {\"lr\": 3}}\n";
    asking.stdin.take().expect("its input").write_all(line).expect("it reads");
    let mut said = String::new();
    BufReader::new(asking.stderr.take().expect("its errors")).read_line(&mut said).expect("a line");
    assert_eq!(said, "note: waiting for another hsched that adds jobs to this state directory\n");
    drop(lock);
    let output = asking.wait_with_output().expect("ends");
    assert_eq!(lines(&String::from_utf8_lossy(&output.stdout))[0]["state"], "added");
}

#[test]
fn an_optimiser_that_is_killed_asks_again_and_loses_nothing() {
    let sandbox = sandbox();
    let mut command = sandbox.command(&["ask", "job.yaml"]);
    let mut asking = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut input = asking.stdin.take().expect("its input");
    input.write_all(b"{\"trial\": 0, \"parameters\": {\"lr\": 2}}\n{\"trial\": 1, \"para").expect("it reads");
    let mut answer = String::new();
    BufReader::new(asking.stdout.take().expect("its output")).read_line(&mut answer).expect("an answer");
    assert_eq!(lines(&answer)[0]["state"], "added");
    asking.kill().expect("it is there");
    asking.wait().expect("it ends");
    let asked = lines(&ask(&sandbox, &[(0, "2"), (1, "3")]).exits(0).stdout);
    assert_eq!((&asked[0]["state"], &asked[1]["state"]), (&json!("kept"), &json!("added")));
    sandbox.run("run --devices cpu:1").exits(0);
    let told = lines(&sandbox.run("tell net").succeeds());
    assert_eq!(told.iter().filter(|line| line["state"] == "completed").count(), 2, "{told:?}");
}

#[test]
fn a_full_disk_is_said_and_loses_no_result() {
    let sandbox = sandbox();
    ask(&sandbox, &[(0, "2")]).exits(0);
    sandbox.run("run --devices cpu:1").exits(0);
    let told = sandbox.run("tell net").succeeds();
    // No file can grow, as on a full disk.
    let full = |arguments: &str, input: &str| {
        let line = format!(
            "trap '' XFSZ; ulimit -f 0; printf '%s' '{input}' | {} {arguments}",
            env!("CARGO_BIN_EXE_hsched")
        );
        sandbox.ran(&sandbox.start("/bin/sh", &["-c", &line]).output().expect("runs"))
    };
    let refused = full("ask job.yaml", "{\"trial\": 1, \"parameters\": {\"lr\": 3}}");
    assert_eq!(refused.stdout, "");
    let refused = refused.fails(1);
    assert!(refused.contains("cannot write ROOT") && refused.contains("no job was added"), "{refused}");
    let cancelled = full("cancel net-t0", "");
    assert_eq!(full("tell net", "").succeeds(), told, "{cancelled:?}");
    assert_eq!(sandbox.run("tell net").succeeds(), told);
    // Once there is room, everything continues.
    assert_eq!(lines(&ask(&sandbox, &[(1, "3")]).exits(0).stdout)[0]["state"], "added");
    sandbox.run("run --devices cpu:1").exits(0);
    let results = sandbox.run("results net --format json").json();
    let values: Vec<&Value> =
        results["runs"].as_array().expect("runs").iter().map(|run| &run["best"]).collect();
    assert_eq!(values, [1.2, 1.3]);
}

#[test]
fn values_that_are_no_numbers_are_said_and_the_others_count() {
    for word in ["NaN", "-Infinity", "\\\"text\\\"", "[1]"] {
        let job = JOB.replace(
            "\\\"val_loss\\\": $e.$LR",
            &format!("\\\"val_loss\\\": $([ $e = 1 ] && echo \"{word}\" || echo 0.$LR)"),
        );
        let sandbox = self::sandbox().file("job.yaml", job);
        ask(&sandbox, &[(0, "2")]).exits(0);
        let ran = sandbox.run("run --devices cpu:1").exits(0);
        assert!(ran.stdout.contains("val_loss is ") && ran.stdout.contains(" in line 1"), "{ran:?}");
        let told = lines(&sandbox.run("tell net").succeeds());
        let metrics: Vec<&Value> = told.iter().map(|line| &line["metric"]).collect();
        assert_eq!(metrics, [&Value::Null, &json!(0.2), &json!(0.2)], "{word}");
    }
}

#[test]
fn of_those_that_ask_for_one_trial_at_once_one_gets_it() {
    let sandbox = sandbox();
    ask(&sandbox, &[(0, "1")]).exits(0);
    // Another hsched holds the state directory, so the trials are deferred.
    let held = std::fs::File::open(sandbox.state("lock")).expect("a lock");
    held.lock().expect("the lock");
    let asked: Vec<Value> = std::thread::scope(|scope| {
        let rates = ["1", "2", "3", "4", "5", "6"];
        let asking = rates.map(|rate| scope.spawn(|| lines(&ask(&sandbox, &[(1, rate)]).stdout)));
        asking.into_iter().flat_map(|asking| asking.join().expect("an answer")).collect()
    });
    let count = |state: &str| asked.iter().filter(|line| line["state"] == state).count();
    assert_eq!((count("added"), count("refused")), (1, 5), "{asked:?}");
    drop(held);
    sandbox.run("run --devices cpu:1").exits(0);
    let told = lines(&sandbox.run("tell net").succeeds());
    assert_eq!(told.iter().filter(|line| line["trial"] == 1 && line["state"] == "completed").count(), 1);
}

/// Returns the same job as a search with this number of samples; samples with a rate of 9 fail.
fn search(samples: u32, more: &str) -> String {
    format!(
        "{JOB}    sweep: {{lr: {{choice: [1, 2, 9]}}}}\n    search: {{samples: {samples}, seed: 1}}\n{more}"
    )
}

#[test]
fn a_search_gets_more_samples_and_runs_again_what_failed_alone() {
    let sandbox = sandbox().file("some.yaml", search(4, "")).file("more.yaml", search(7, ""));
    sandbox.run("run some.yaml --devices cpu:2");
    let first = sandbox.run("results net --format json").json();
    let runs = first["runs"].as_array().expect("runs");
    let failed = runs.iter().filter(|run| run["state"] == "failed").count();
    assert!(failed > 0 && failed < 4, "{first}");
    let added = sandbox.run("add more.yaml --format json").json();
    let count = |state: &str| {
        let jobs = added["jobs"].as_array().expect("jobs");
        jobs.iter().filter(|job| job["state"] == state).count()
    };
    assert_eq!((count("kept"), count("again"), count("added")), (4 - failed, failed, 3), "{added}");
    assert_eq!(sandbox.run("add more.yaml --restart --format json").json()["jobs"][0]["state"], "replaced");
}

#[test]
fn the_name_of_a_sweep_prints_the_output_of_its_runs() {
    let sandbox = sandbox().file("some.yaml", search(2, ""));
    sandbox.run("run some.yaml --devices cpu:2");
    let printed = sandbox.run("logs net").succeeds();
    assert!(printed.contains("net-s1.out <==") && printed.contains("net-s2.out <=="), "{printed}");
    assert_eq!(printed.lines().filter(|line| line.starts_with("rate ")).count(), 2, "{printed}");
    assert_eq!(sandbox.run("logs 'net-s1*'").succeeds().lines().next(), printed.lines().next());
    let refused = sandbox.run("logs net --follow").fails(2);
    assert!(refused.contains("--follow is for one job, and net has 2 runs"), "{refused}");
}

#[test]
fn no_more_runs_of_a_sweep_than_it_allows_are_at_work() {
    let count = "command: 'mkdir -p at; touch at/$HSCHED_JOB; ls at | wc -l >>counts; rm at/$HSCHED_JOB; \
        echo \"{\\\"epoch\\\": 2}\" >>\"$HSCHED_REPORT\"'";
    let job = search(6, "    at_most: 2\n").replace(
        JOB.lines().find(|line| line.trim_start().starts_with("command")).expect("a command").trim_start(),
        count,
    );
    let sandbox = sandbox().file("some.yaml", job);
    let first = sandbox.run("run some.yaml --devices cpu:4 --dry-run").exits(0).stdout;
    assert_eq!(first.lines().filter(|line| line.contains("net-s")).count(), 2, "{first}");
    sandbox.run("run some.yaml --devices cpu:4").exits(0);
    let counts = sandbox.text(&sandbox.work("counts"));
    let counts: Vec<u32> = counts.lines().map(|line| line.trim().parse().expect("a number")).collect();
    assert!(counts.len() == 6 && counts.iter().all(|count| (1..=2).contains(count)), "{counts:?}");
}
