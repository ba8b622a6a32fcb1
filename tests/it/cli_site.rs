//! Settings of a site or user for all jobs: containers, a command for notifications, disabled features.

use std::fs;

use crate::cli_run::{Bench, job};
use crate::sandbox::Sandbox;

const SPEED: &str = "throughput: {cpu: 2000}";

/// Stands in for the program that starts a command in an image: appends its first two arguments to the file
/// `started`, then runs the command.
const BOX: &str = "echo \"$1 $2\" >>started; shift 2; exec \"$@\"\n";

#[test]
fn a_command_runs_in_its_container() {
    let bench = Bench::new(&[job("a", 2, &format!("{SPEED}, container: 'my images/torch.sif'"))]);
    fs::write(bench.sandbox.work("box.sh"), BOX).expect("a file");
    let ran = bench.run("run jobs.yaml --devices cpu:1 --set 'container_command=sh box.sh \"$HSCHED_JOB\"'");
    ran.exits(0);
    let started = fs::read_to_string(bench.sandbox.work("started")).expect("it was started");
    assert_eq!(started, "a my images/torch.sif\n");
    bench.did_each_epoch_once("a", 2);
}

#[test]
fn a_shell_line_in_a_container_is_quoted_once() {
    let jobs = "jobs:\n- {name: a, samples_per_epoch: 1000, epochs: 1, global_batch: 10, model_size: 0, throughput: {v100: 100}, \
                max_gpus: 1, container: docker://x/y, command: \"python train.py --name 'a b' | tee $LOG\"}\n";
    let sandbox = Sandbox::new().file("one.yaml", jobs);
    let script = sandbox.run("submit one.yaml --cluster cluster.yaml --dry-run").succeeds();
    let line = script.lines().find(|line| line.starts_with("hs_shell=")).expect("a shell line");
    let given = shell_words::split(line.trim_start_matches("hs_shell=")).expect("one word");
    let words = shell_words::split(&given.concat()).expect("words");
    assert_eq!(
        words,
        ["apptainer", "exec", "--nv", "docker://x/y", "sh", "-c", "python train.py --name 'a b' | tee $LOG"]
    );
    let empty = sandbox.run("config show --set container_command=").fails(78);
    assert!(empty.contains("container_command: must not be empty"), "{empty}");
}

#[test]
fn a_command_is_told_of_ends_and_its_failure_changes_nothing() {
    let jobs = [job("good", 1, SPEED), job("bad", 1, &format!("{SPEED}, retries: 0, setup: [exit 3]"))];
    let bench = Bench::new(&jobs);
    let ran = bench.run("run jobs.yaml --devices cpu:2 --notify 'cat >>told'").exits(1);
    let told = fs::read_to_string(bench.sandbox.work("told")).expect("it was told");
    let mut lines: Vec<&str> = told.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2, "{told} {}", ran.stdout);
    assert!(
        lines[0].starts_with("bad: failed with exit status 3; see ")
            && lines[1].starts_with("good: completed"),
        "{told}"
    );
    bench.write("later.yaml", &[job("later", 1, &format!("{SPEED}, after: [bad]"))]);
    let shown = bench.run("run later.yaml --devices cpu:2 --dry-run --notify 'cat >>told'").exits(0);
    assert!(shown.stdout.contains("later: failed: depends on bad, which failed"), "{}", shown.stdout);
    assert_eq!(fs::read_to_string(bench.sandbox.work("told")).expect("it was told"), told);
    let failing = Bench::new(&jobs[..1]);
    let ran = failing.run("run jobs.yaml --devices cpu:2 --notify 'exit 3'").exits(0);
    assert!(
        ran.stderr.contains("warning: the command of --notify failed: sh: exit status: 3"),
        "{}",
        ran.stderr
    );
    failing.did_each_epoch_once("good", 1);
}

#[test]
fn a_project_sets_no_command_that_is_told() {
    let sandbox = Sandbox::new().file("hsched.toml", "notify = 'touch owned'\n");
    let problem = sandbox.run("config show").fails(78);
    assert!(problem.contains("notify: must not be set in a project file"), "{problem}");
}

#[test]
fn a_site_switches_features_off_and_nobody_else_does() {
    let sandbox = Sandbox::new().file("site.toml", "forbid = ['race', 'together', 'queue']\n");
    let path = sandbox.work("site.toml").display().to_string();
    let sandbox = sandbox.variable("HSCHED_SITE_CONFIG", &path);
    for (line, feature) in [
        ("submit jobs.yaml --race 2 --dry-run", "race"),
        ("submit --together jobs.yaml --gpus v100:1 --time 1h --dry-run", "together"),
        ("when jobs.yaml", "queue"),
        ("plan jobs.yaml --queue", "queue"),
    ] {
        let problem = sandbox.run(line).fails(2);
        let said = format!("this site does not allow this: \"{feature}\" is in `forbid`");
        assert!(problem.contains(&said) && problem.contains("site.toml:1"), "{line}: {problem}");
    }
    let fail = Sandbox::new().variable("HSCHED_FORBID", "race").run("config show").fails(78);
    assert!(fail.contains("can only be set in the site's file"), "{fail}");
    let wrong = Sandbox::new().file("site.toml", "forbid = ['fun']\n");
    let path = wrong.work("site.toml").display().to_string();
    let problem = wrong.variable("HSCHED_SITE_CONFIG", &path).run("config show").fails(78);
    assert!(problem.contains("\"fun\" is not a feature"), "{problem}");
}
