//! Errors of every command: Slurm, files, the command line, the pipe, each with its code and remedy.

use std::io;
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Returns the error of `inventory` for a `sinfo` that runs these lines; the format in its arguments is
/// replaced by `FORMAT`.
fn asked(lines: &str, code: i32) -> String {
    let stderr = Sandbox::with_slurm().program("sinfo", lines).run("inventory").fails(code);
    let arguments =
        stderr.split_once("$'").and_then(|(_, rest)| rest.split_once('\'')).map(|(format, _)| format);
    arguments.map_or(stderr.clone(), |format| stderr.replace(&format!("$'{format}'"), "FORMAT"))
}

/// Returns the error for a cluster file.
fn cluster(text: impl AsRef<[u8]>) -> String {
    Sandbox::new().file("cluster.yaml", text).run("inventory --cluster cluster.yaml").fails(78)
}

#[test]
fn a_missing_slurm_is_told_with_the_way_around_it() {
    assert_snapshot!(Sandbox::new().run("inventory").fails(69), @r"
    error: sinfo: command not found; is Slurm installed and in PATH?
    hint: without Slurm, hsched run trains on the GPUs of this machine, and plan and simulate read a cluster file (--cluster FILE) or saved Slurm output (--from FILE)
    ");
    let ran = Sandbox::new().run("plan jobs.yaml --format json").exits(69);
    assert_snapshot!(ran.stdout, @r#"{"error":{"code":"slurm_unavailable","hints":["without Slurm, hsched run trains on the GPUs of this machine, and plan and simulate read a cluster file (--cluster FILE) or saved Slurm output (--from FILE)"],"id":"slurm-missing","message":"sinfo: command not found; is Slurm installed and in PATH?"}}"#);
    let error = &ran.json()["error"];
    assert_eq!(
        ran.stderr,
        format!(
            "error: {}\nhint: {}\n",
            error["message"].as_str().expect("text"),
            error["hints"][0].as_str().expect("text")
        )
    );
    let unconfigured = "echo 'sinfo: error: fetch_config: DNS SRV lookup failed' >&2; echo 'sinfo: fatal: Could not establish a configuration source' >&2; exit 1";
    assert_snapshot!(asked(unconfigured, 69), @r"
    error: sinfo: Slurm is not configured on this machine: sinfo: fatal: Could not establish a configuration source
    hint: without Slurm, hsched run trains on the GPUs of this machine, and plan and simulate read a cluster file (--cluster FILE) or saved Slurm output (--from FILE)
    ");
}

#[test]
fn a_slurm_that_does_not_answer_is_given_up_in_time() {
    let sandbox = Sandbox::with_slurm().program("sinfo", "sleep 30");
    let begin = Instant::now();
    let stderr = sandbox.run("inventory --set slurm_timeout=0.2s").fails(69);
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert!(
        stderr.contains(": no answer within 200ms\nhint: allow more time with --set slurm_timeout="),
        "{stderr}"
    );
    assert_eq!(sandbox.calls("sinfo").len(), 1);
}

#[test]
fn a_busy_controller_is_asked_three_times() {
    let busy = "echo 'slurm_load_partitions: Socket timed out on send/recv operation' >&2; exit 1";
    let sandbox = Sandbox::with_slurm().program("sinfo", busy);
    sandbox.run("inventory").fails(69);
    assert_eq!(sandbox.calls("sinfo").len(), 3);
}

#[test]
fn a_controller_that_is_down_is_not_asked_again() {
    let down =
        "echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2; exit 1";
    let sandbox = Sandbox::with_slurm().program("sinfo", down);
    let stderr = sandbox.run("inventory").fails(69);
    assert!(stderr.contains("Slurm's controller cannot be reached: slurm_load_partitions"), "{stderr}");
    assert!(stderr.contains("\nhint: check whether `scontrol ping` answers"), "{stderr}");
    assert_eq!(sandbox.calls("sinfo").len(), 1);
}

#[test]
fn answers_that_make_no_sense_are_shown() {
    assert_snapshot!(asked("echo 'hello  world'; echo more", 1), @r#"error: the output of sinfo could not be parsed; it begins with "hello world""#);
    assert_snapshot!(asked("printf 'v1\\037gpu\\037'; kill -9 $$", 1), @r"
    error: sinfo: signal: 9 (SIGKILL): no error message
    hint: the command was: sinfo -h -N -O FORMAT
    ");
    assert_snapshot!(asked("printf '\\033[31mboom\\n' >&2; exit 3", 1), @r"
    error: sinfo: exit status: 3: \u{1b}[31mboom
    hint: the command was: sinfo -h -N -O FORMAT
    ");
    let squeue = Sandbox::with_slurm().program("squeue", "echo garbage");
    assert_snapshot!(squeue.run("plan jobs.yaml").fails(1), @r#"error: the output of squeue could not be parsed; it begins with "garbage""#);
}

#[test]
fn cluster_files_are_refused_with_line_key_and_remedy() {
    assert_snapshot!(cluster("nodes:\n  - {name: a, gpus: {v100: 4}"), @"error: cluster.yaml:2: not valid YAML: while parsing a flow mapping, did not find expected ',' or '}'; is the file cut off?");
    assert_snapshot!(cluster("nodes:\n  - name: a\n    gups: {v100: 4}\n"), @"error: cluster.yaml:3: nodes[0].gups: is not a known key; did you mean gpus?");
    assert_snapshot!(cluster("nodes:\n  - name: a\n    gpus: {v100: -4}\n"), @"error: cluster.yaml:3: nodes[0].gpus.v100: must be at least 0, got -4");
    assert_snapshot!(cluster("nodes:\n  - name: a\n    gpus: {v100: 1000000000}\n"), @"error: cluster.yaml:3: nodes[0].gpus.v100: must be at most 1000000, got 1000000000");
    assert_snapshot!(cluster("nodes:\n  - name: n[0-99999]\n    gpus: {v100: 10000}\n"), @"error: cluster.yaml:2: nodes[0]: brings the cluster to 1000000000 GPUs; the limit is 1000000");
    assert_snapshot!(cluster("nodes:\n  - name: a[1-3]\n  - name: a2\n"), @r#"error: cluster.yaml:3: nodes[1].name: node "a2" is already named on line 2"#);
    assert_snapshot!(cluster("nodes:\n  - name: 'a[1'\n"), @r#"error: cluster.yaml:2: nodes[0].name: "a[1": brackets do not match"#);
    assert_snapshot!(cluster(b"nodes:\n  - name: \xff\n"), @"error: cluster.yaml: line 2 is not UTF-8 text");
    assert_snapshot!(cluster("nodes: [{name: a, gpus: {v100: 1}, gpus: {v100: 2}}]"), @"error: cluster.yaml:1: nodes[0].gpus: appears twice; the first is on line 1");
    assert_snapshot!(cluster("nodes: &all [{name: a}]\nnetwork_gbps: *other\n"), @"error: cluster.yaml:2: not valid YAML: while parsing node, found unknown anchor");
    assert_snapshot!(cluster(""), @"error: cluster.yaml:1: is missing the required key nodes");
}

#[test]
fn job_files_are_refused_with_all_their_problems() {
    let jobs = crate::sandbox::JOBS.replace("epochs: 200", "epochs: 1e2").replace("vgg19", "resnet18");
    let sandbox = Sandbox::new().file("jobs.yaml", jobs);
    assert_snapshot!(sandbox.run("plan jobs.yaml --cluster cluster.yaml").fails(78), @r#"
    error: jobs.yaml:2: jobs[0].epochs: must be a whole number, got "1e2"; write 100
    jobs.yaml:4: jobs[1].name: "resnet18" is already the name of the job on line 2
    jobs.yaml:4: jobs[1].epochs: must be a whole number, got "1e2"; write 100
    "#);
    assert_snapshot!(sandbox.run("plan cluster.yaml --cluster cluster.yaml").fails(78), @r"
    error: cluster.yaml:1: network_gbps: is not a known key
    cluster.yaml:1: is missing the required key jobs
    cluster.yaml:2: intra_node_gbps: is not a known key
    cluster.yaml:3: nodes: is not a known key
    ");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run("plan gone.yaml --cluster cluster.yaml").fails(78), @"error: gone.yaml: cannot be read: No such file or directory (os error 2)");
    assert_snapshot!(sandbox.run("plan . --cluster cluster.yaml").fails(78), @"error: .: cannot be read: Is a directory (os error 21)");
    assert_snapshot!(sandbox.run("submit gone.json").fails(78), @"error: gone.json: cannot be read: No such file or directory (os error 2)");
    let ran = sandbox.run("inventory --cluster gone.yaml --format json").exits(78);
    assert_snapshot!(ran.stdout, @r#"{"error":{"code":"bad_input","hints":[],"id":"file-unreadable","message":"gone.yaml: cannot be read: No such file or directory (os error 2)"}}"#);
}

#[test]
fn partitions_and_jobs_that_do_not_exist_have_near_ones() {
    let sandbox =
        Sandbox::new().file("cluster.yaml", "nodes: [{name: a, gpus: {v100: 2}, partitions: [gpu, long]}]");
    let command = "submit jobs.yaml --cluster cluster.yaml --dry-run";
    assert_snapshot!(sandbox.run(&format!("{command} --partition gpus")).fails(78), @r#"
    error: no node of this cluster is in partition "gpus"
    hint: did you mean "gpu"?
    "#);
    assert_snapshot!(sandbox.run(&format!("{command} -j resnet")).fails(2), @r"
    error: --job resnet: no such job in the plan
    hint: did you mean resnet18?
    ");
}

#[test]
fn a_wrong_command_line_has_its_own_code() {
    let sandbox = Sandbox::new();
    for line in [
        "",
        "plan",
        "frobnicate",
        "config",
        "inventory --bogus",
        "inventory x",
        "plan jobs.yaml --policy best",
    ] {
        sandbox.run(line).fails(2);
    }
    for line in ["--alpha 2", "--budget 3", "--samples 0", "--seed -1", "--format xml", "--set account"] {
        sandbox.run(&format!("plan jobs.yaml --cluster cluster.yaml {line}")).fails(2);
    }
    assert_snapshot!(sandbox.run("plan jobs.yaml --budget 3").fails(2), @r#"
    error: invalid value '3' for '--budget <TIME>': has no unit: "3"; write 3s, 3m or 3h

    For more information, try '--help'.
    "#);
    let ran = sandbox.run("plan jobs.yaml --budget 3 --format=json").exits(2);
    assert_snapshot!(ran.stdout, @r#"{"error":{"code":"usage","hints":["see --help"],"id":"time-unit","message":"invalid value '3' for '--budget <TIME>': has no unit: \"3\"; write 3s, 3m or 3h"}}"#);
    assert!(ran.stderr.starts_with("error: invalid value '3'"), "{}", ran.stderr);
    assert_eq!(sandbox.run("plan --format json").exits(2).json()["error"]["code"], "usage");
}

#[test]
fn every_command_has_help() {
    let sandbox = Sandbox::new();
    for command in ["", "inventory", "plan", "submit", "config", "config show"] {
        let help = sandbox.run(&format!("{command} --help")).succeeds();
        assert!(help.contains(&format!("Usage: hsched {command}").trim_end().to_owned()), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        assert!(help.len() > sandbox.run(&format!("{command} -h")).succeeds().len() / 2);
    }
    assert!(sandbox.run("--help").succeeds().contains("Exit codes: 0 done"));
    assert_eq!(sandbox.run("--version").succeeds(), format!("hsched {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    for arguments in [
        ["inventory", "--cluster", "cluster.yaml", "--format=json"],
        ["plan", "jobs.yaml", "--cluster", "cluster.yaml"],
    ] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let ran = sandbox.ran(&sandbox.command(&arguments).stdout(writer).output().expect("runs"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_full_disk_under_stdout_is_one() {
    let sandbox = Sandbox::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let mut command = sandbox.command(&["inventory", "--cluster", "cluster.yaml"]);
    let ran = sandbox.ran(&command.stdout(full).output().expect("runs"));
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(1), "error: cannot write to stdout: No space left on device (os error 28)\n")
    );
}

#[test]
fn a_flag_of_another_policy_is_said_to_do_nothing() {
    let sandbox =
        Sandbox::new().file("jobs.yaml", crate::sandbox::JOBS).file("cluster.yaml", crate::sandbox::THREE);
    let note = |arguments: &str| {
        let ran = sandbox.run(&format!("{arguments} --cluster cluster.yaml")).exits(0);
        ran.stderr.lines().find(|line| line.contains("has no effect with")).map(str::to_owned)
    };
    let idle = note("plan jobs.yaml --alpha 0.7 --format json");
    assert_eq!(idle.as_deref(), Some("note: --alpha is for policy jps; it has no effect with optimal"));
    assert_eq!(note("plan jobs.yaml --policy jps --alpha 0.5"), None);
    assert_eq!(note("plan jobs.yaml --compare optimal,jps --alpha 0.5"), None);
    let idle = note("simulate --trace jobs.yaml --policy srtf,hadare --utility normalised");
    assert_eq!(
        idle.as_deref(),
        Some("note: --utility is for policy hadar; it has no effect with srtf and hadare")
    );
    assert_eq!(note("simulate --trace jobs.yaml --policy hlas-p --promote 3"), None);
}
