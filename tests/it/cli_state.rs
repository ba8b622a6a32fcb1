//! `hsched submit` if the state is locked, unsafe or cannot be stored: a message says why, and nothing is
//! submitted. Also a full stdout, and files with a byte order mark.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;

use crate::sandbox::{Ran, Sandbox, THREE};

const SUBMIT: &str = "submit jobs.yaml --cluster cluster.yaml --run-id r1";

fn sandbox() -> Sandbox {
    Sandbox::with_slurm().file("cluster.yaml", THREE)
}

#[test]
fn another_hsched_at_work_is_not_disturbed() {
    let sandbox = sandbox();
    sandbox.make_state();
    let lock = fs::File::create(sandbox.state("lock")).expect("a file");
    lock.lock().expect("is free");
    assert_snapshot!(sandbox.run(SUBMIT).fails(75), @r"
    error: ROOT/home/.local/state/hsched/lock: locked by another hsched
    hint: nothing was submitted
    hint: try again when that hsched has ended; hsched add and hsched cancel work at any time
    ");
    let value = sandbox.run(&format!("{SUBMIT} --format json")).exits(75).json();
    assert_eq!(value["error"]["code"], "locked");
    assert!(sandbox.calls("sbatch").is_empty());
    drop(lock);
    sandbox.run(SUBMIT).succeeds();
}

#[test]
fn a_state_directory_that_cannot_be_made_is_named() {
    let sandbox = sandbox().file("state", "a file");
    assert_snapshot!(sandbox.run(&format!("{SUBMIT} --set state_dir=state")).fails(1), @r"
    error: cannot write ROOT/home/desk/state/runs: Not a directory (os error 20)
    hint: nothing was submitted
    hint: check whether the directory is writable, or use another one: --set state_dir=DIR
    ");
    // Permissions do not stop root, but a file in the way stops all users.
    sandbox.make_state();
    fs::write(sandbox.state("runs"), "").expect("a file");
    assert_snapshot!(sandbox.run(SUBMIT).fails(1), @r"
    error: cannot write ROOT/home/.local/state/hsched/runs: File exists (os error 17)
    hint: nothing was submitted
    hint: check whether the directory is writable, or use another one: --set state_dir=DIR
    ");
    assert!(sandbox.calls("sbatch").is_empty());
}

#[test]
fn a_state_directory_that_others_may_write_is_not_used() {
    let sandbox = sandbox();
    sandbox.make_state();
    fs::set_permissions(sandbox.state(""), fs::Permissions::from_mode(0o775)).expect("a mode");
    assert_snapshot!(sandbox.run(SUBMIT).fails(78), @r"
    error: other users can write to ROOT/home/.local/state/hsched (mode 775), and hsched runs commands from it as you
    hint: nothing was submitted
    hint: check who owns the files in it, then: chmod go-w ROOT/home/.local/state/hsched
    hint: or use another directory: HSCHED_STATE_DIR=DIR, or the setting state_dir
    ");
    sandbox.run("watch").fails(78);
    assert!(sandbox.calls("sbatch").is_empty() && sandbox.runs().is_empty());
}

#[test]
fn a_byte_order_mark_is_not_part_of_a_file() {
    let sandbox = sandbox();
    let marked = |text: &str| format!("\u{feff}{text}");
    let plan = sandbox.run("plan jobs.yaml --cluster cluster.yaml --format json").exits(0).stdout;
    let sandbox = sandbox.file("plan.json", marked(&plan));
    sandbox.run("submit plan.json --run-id r1").succeeds();
    sandbox.run("cache set resnet18 t4 275").succeeds();
    let speeds = sandbox.run("cache export").succeeds();
    for name in ["state.json", "throughput.json"] {
        let path = sandbox.state(name);
        fs::write(&path, marked(&fs::read_to_string(&path).expect("a text"))).expect("a file");
    }
    assert_eq!(sandbox.run("cache export").succeeds(), speeds);
    let sandbox = sandbox.file("speeds.json", marked(&speeds));
    sandbox.run("cache import speeds.json").succeeds();
    assert!(sandbox.run("status").succeeds().ends_with("2 pending\n"));
}

#[test]
fn a_run_id_is_taken_once() {
    let sandbox = sandbox();
    sandbox.run(&format!("{SUBMIT} -j resnet18")).succeeds();
    let state = sandbox.snapshot();
    assert_snapshot!(sandbox.run(&format!("{SUBMIT} -j vgg19")).fails(1), @r"
    error: run r1 already exists in ROOT/home/.local/state/hsched/runs/r1
    hint: nothing was submitted
    hint: choose another --run-id
    ");
    assert_eq!((sandbox.calls("sbatch").len(), sandbox.snapshot()), (1, state));
    assert_snapshot!(sandbox.run(&SUBMIT.replace("r1", "../r1")).fails(2), @r#"error: --run-id "../r1" contains '/'; only letters, digits, '-', '_' and '.' are allowed"#);
    assert_snapshot!(sandbox.run(&SUBMIT.replace("r1", "..")).fails(2), @r#"error: --run-id ".." must begin with a letter or a digit"#);
    sandbox.run("submit jobs.yaml --cluster cluster.yaml -j vgg19").succeeds();
    assert_eq!(sandbox.runs().len(), 2);
}

#[test]
fn a_full_disk_submits_nothing() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("disk")).expect("a folder");
    let disk = sandbox.path("disk").display().to_string();
    // Only programs of this shell see this mount, which disappears with them.
    let script = "mount -t tmpfs -o \"size=$2,mode=700\" none \"$1\" || exit 99; shift 2; \"$@\"; code=$?; \
                  find \"$HSCHED_STATE_DIR\" -mindepth 2 >&2; exit $code";
    let hsched = env!("CARGO_BIN_EXE_hsched");
    for size in ["16k", "40k", "64k"] {
        let words: Vec<&str> = SUBMIT.split(' ').collect();
        let shell = ["-rm", "/bin/sh", "-c", script, "sh", disk.as_str(), size, hsched];
        let arguments = [&shell[..], &words].concat();
        let mut command = sandbox.start("/usr/bin/unshare", &arguments);
        command
            .env("HSCHED_STATE_DIR", &disk)
            .env("PATH", format!("{}:/usr/bin:/bin", sandbox.path("bin").display()));
        let ran = command.output().ok().map(|output| sandbox.ran(&output));
        let mounted = |ran: &Ran| ran.code != Some(99) && !ran.stderr.starts_with("unshare:");
        let Some(ran) = ran.filter(mounted) else {
            println!("skipped: no small disk can be mounted here");
            return;
        };
        assert!(
            ran.stderr.contains("No space left on device") || ran.stderr.contains("no storage space"),
            "{ran:?}"
        );
        assert!(ran.stderr.contains("hint: nothing was submitted"), "{ran:?}");
        assert!(!ran.stderr.contains("r1\n"), "the run is still there: {ran:?}");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    }
    assert!(sandbox.calls("sbatch").is_empty());
}

#[test]
fn a_full_stdout_loses_no_jobs() {
    for format in ["table", "json"] {
        let sandbox = sandbox();
        let arguments = format!("{SUBMIT} --format {format}");
        let mut command = sandbox.command(&arguments.split(' ').collect::<Vec<_>>());
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let ran = sandbox.ran(&command.stdout(full).output().expect("runs"));
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("resnet18") && ran.stderr.contains("vgg19"), "{ran:?}");
        assert!(
            ran.stderr.ends_with("error: cannot write to stdout: No space left on device (os error 28)\n"),
            "{ran:?}"
        );
        assert_eq!(sandbox.calls("sbatch").len(), 2);
    }
}
