//! `hsched run --mps`: the daemon for runs that share GPUs, with a program that takes its place.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::real_user::wait_for;
use crate::sandbox::Sandbox;

/// A script that stands in for NVIDIA's daemon: it starts a process in a separate session.
const DAEMON: &str = r#"if [ "$1" = -d ]; then
  setsid sleep 600 >/dev/null 2>&1 &
  echo $! >"$root/daemon"
else
  read -r word
  if [ "$word" = quit ]; then kill "$(cat "$root/daemon")"; echo "$CUDA_MPS_PIPE_DIRECTORY" >"$root/quit"; fi
fi"#;

fn sandbox(command: &str) -> Sandbox {
    let jobs = format!("jobs:\n  - name: a\n    slots: 2\n    command: '{command}'\n");
    let sandbox = Sandbox::new().file("jobs.yaml", jobs);
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    sandbox.variable("PATH", &path)
}

/// Returns the daemon's process id.
fn daemon(sandbox: &Sandbox) -> i32 {
    let pid = || fs::read_to_string(sandbox.path("daemon")).ok()?.trim().parse().ok();
    wait_for("a daemon", pid)
}

fn await_end(pid: i32) {
    wait_for("the end of the daemon", || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
}

#[test]
fn the_daemon_serves_the_runs_and_ends_after_them() {
    let sandbox = sandbox("echo \"$CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY\" >seen")
        .program("nvidia-cuda-mps-control", DAEMON);
    let told = sandbox.run("run jobs.yaml --devices a100:1 --simulated --mps").succeeds();
    assert!(told.contains("1 completed"), "{told}");
    let seen = fs::read_to_string(sandbox.work("seen")).expect("a file");
    let (pipe, log) = seen.trim().split_once(' ').expect("two folders");
    let folder = pipe.strip_suffix("/pipe").expect("a folder of its own");
    assert_eq!(log, format!("{folder}/log"));
    assert_eq!(fs::read_to_string(sandbox.path("quit")).expect("asked to quit").trim(), pipe);
    assert!(!Path::new(folder).exists());
    await_end(daemon(&sandbox));
}

#[test]
fn the_daemon_ends_where_hsched_is_killed() {
    let sandbox = sandbox("touch started; sleep 600").program("nvidia-cuda-mps-control", DAEMON);
    let mut hsched = sandbox
        .command(&["run", "jobs.yaml", "--devices", "a100:1", "--simulated", "--mps"])
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let started = || sandbox.work("started").exists().then_some(());
    wait_for("a run", started);
    kill(Pid::from_raw(hsched.id().cast_signed()), Signal::SIGKILL).expect("is there");
    hsched.wait().expect("ends");
    await_end(daemon(&sandbox));
}

#[test]
fn without_a_daemon_the_runs_go_on_and_it_is_said_why() {
    let note = |sandbox: &Sandbox, devices: &str| {
        let ran =
            sandbox.run(&format!("run jobs.yaml --devices {devices} --simulated --mps --restart")).exits(0);
        assert!(ran.stdout.contains(": completed"), "{}", ran.stdout);
        ran.stderr
    };
    let missing = sandbox("[ -z \"$CUDA_MPS_PIPE_DIRECTORY\" ]");
    let told = note(&missing, "a100:1");
    assert!(told.contains("runs without MPS: nvidia-cuda-mps-control is not on PATH"), "{told}");
    let failing = sandbox("true").program("nvidia-cuda-mps-control", "echo no such device; exit 1");
    let told = note(&failing, "a100:1");
    assert!(told.contains("runs without MPS: nvidia-cuda-mps-control -d failed: no such device"), "{told}");
    // The daemon starts only if `--mps` is given and a GPU has slots.
    let unused = sandbox("true").program("nvidia-cuda-mps-control", DAEMON);
    unused.run("run jobs.yaml --devices a100:1 --simulated").succeeds();
    assert!(!unused.path("daemon").exists());
    let single = unused.file("jobs.yaml", "jobs:\n  - name: b\n    command: \"true\"\n");
    let told = note(&single, "a100:1");
    assert!(told.contains("runs without MPS: no GPU has slots"), "{told}");
    assert!(!single.path("daemon").exists());
}

#[test]
fn the_slurm_jobs_of_runs_that_share_gpus_start_it_too() {
    let sandbox =
        Sandbox::with_slurm().file("jobs.yaml", "jobs:\n  - name: a\n    command: \"true\"\n    slots: 2\n");
    let pool =
        |more: &str| sandbox.run(&format!("submit jobs.yaml --gpus v100:1 --time 1h --dry-run {more}"));
    let script = pool("--together --mps").exits(0).stdout;
    assert!(script.lines().any(|line| line.contains(" run ") && line.contains(" --mps")), "{script}");
    assert!(!pool("--together").exits(0).stdout.contains("--mps"));
    let script = pool("--pack --at-most 2 --mps").exits(0).stdout;
    assert!(script.lines().any(|line| line.contains(" run ") && line.contains(" --mps")), "{script}");
}
