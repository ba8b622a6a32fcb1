//! `hsched add` and `cancel` while another hsched holds the lock: the deferred commands are carried out once, in order.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hsched_engine::State;
use hsched_engine::store::{DeferredChange, DeferredCommand, StateDir, deferred_ids};
use hsched_model::{JobName, NodeName, Time};
use insta::assert_snapshot;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use crate::cli_jobs::{SUBMIT, line, submitted};
use crate::sandbox::{JOBS, Sandbox, mode};
use hsched_fixtures::engine_states::rules;

/// A separate process that holds the lock until it is dropped, because a child started by another test would keep a
/// lock of this process for a moment.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes the lock like a `watch` that waits for Slurm.
fn lock(sandbox: &Sandbox) -> Held {
    sandbox.make_state();
    let mut program = Command::new("flock");
    let program = program.args(["--nonblock", "--no-fork"]).arg(sandbox.state("lock")).arg("cat");
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    // The process answers once it has the lock.
    child.stdin.as_mut().expect("a pipe").write_all(b"?").expect("hears");
    child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("answers");
    Held(child)
}

/// Returns the paths of the remaining deferred commands, in order.
fn wishes(sandbox: &Sandbox) -> Vec<PathBuf> {
    let path = |id: String| sandbox.state("wishes").join(format!("{id}.json"));
    deferred_ids(&sandbox.state("")).into_iter().map(path).collect()
}

/// Returns each job's name and phase.
fn phases(sandbox: &Sandbox) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let jobs = sandbox.snapshot()["jobs"].as_array().expect("jobs").clone();
    let name = |job: usize| text(&jobs[job]["spec"]["name"]);
    (0..jobs.len()).map(|job| (name(job), sandbox.phase(job))).collect()
}

fn third() -> String {
    JOBS.replace("resnet18", "third").lines().take(3).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_wanted_while_the_lock_is_held_is_carried_out_by_the_next_turn() {
    let sandbox = submitted().file("third.yaml", third());
    let held = lock(&sandbox);
    let before = fs::read(sandbox.state("state.json")).expect("a file");
    assert_snapshot!(sandbox.run("add third.yaml --dry-run").succeeds(), @r"
    third: would be added
    no job was added (--dry-run)
    ");
    assert_snapshot!(sandbox.run("cancel vgg19 --dry-run").succeeds(), @"vgg19: would be cancelled by hsched watch at its next turn");
    assert!(!sandbox.state("wishes").exists());
    assert_snapshot!(sandbox.run("add third.yaml").succeeds(), @r"
    third: to be added
    another hsched holds the state directory: hsched watch applies this command at its next turn
    ");
    assert_snapshot!(sandbox.run("cancel vgg19 third").succeeds(), @r"
    vgg19: to be cancelled
    third: to be cancelled
    another hsched holds the state directory: hsched watch applies this command at its next turn
    ");
    let value = sandbox.run_with_input("add - --format json", &third()).exits(0).json();
    assert_eq!([&value["carried_out_by"], &value["jobs"][0]["state"]], [&json!("watch"), &json!("again")]);
    let value = sandbox.run("cancel third --format json").exits(0).json();
    assert_eq!([&value["carried_out_by"], &value["jobs"][0]["state"]], [&json!("watch"), &json!("later")]);
    let status = sandbox.run("status --format json").exits(0).json();
    let shown = |job: usize| [&status["jobs"][job]["state"], &status["jobs"][job]["last_event"]["text"]];
    let asked = "hsched watch cancels it at its next turn";
    assert_eq!(
        (shown(1), shown(2)),
        ([&json!("stopping"), &json!(asked)], [&json!("waiting"), &json!(asked)])
    );
    let paths = wishes(&sandbox);
    assert_eq!((paths.len(), mode(&paths[0]), mode(&sandbox.state("wishes"))), (4, 0o600, 0o700));
    // Errors are reported at once and leave no deferred command.
    assert!(sandbox.run("cancel vgg18").fails(2).contains("did you mean vgg19?"));
    assert!(sandbox.run("add jobs.yaml").fails(1).contains("already in the queue: resnet18 (job 1"));
    assert!(sandbox.run("add missing.yaml").code != Some(0));
    assert_eq!((wishes(&sandbox), fs::read(sandbox.state("state.json")).expect("a file")), (paths, before));
    assert_eq!((sandbox.calls("scancel").len(), sandbox.calls("sbatch").len()), (0, 2));
    assert!(sandbox.run(SUBMIT).fails(75).contains("locked by another hsched"));
    drop(held);
    let told = sandbox.run("watch --once").exits(0);
    assert_eq!(told.stderr, "");
    for line in ["third: added: 200 epochs of 100000 samples", "vgg19: cancel requested"] {
        assert!(told.stdout.contains(line), "{}", told.stdout);
    }
    assert_eq!(sandbox.calls("scancel").len(), 1);
    assert!(wishes(&sandbox).is_empty());
    let phase = |name: &str, phase: &str| (name.to_owned(), phase.to_owned());
    assert_eq!(
        phases(&sandbox),
        [phase("resnet18", "pending"), phase("vgg19", "stopping"), phase("third", "cancelled")]
    );
    // If the lock is free, the command carries out the change itself.
    let value = sandbox.run_with_input("add - --format json", &third()).exits(0).json();
    assert_eq!(value["carried_out_by"], "add");
}

#[test]
fn a_star_stands_for_the_jobs_that_have_not_ended() {
    let jobs = JOBS.replace("resnet18", "sweep-a").replace("vgg19", "sweep-b");
    let sandbox = Sandbox::with_slurm().file("jobs.yaml", jobs);
    sandbox.run("add jobs.yaml").succeeds();
    sandbox.run("cancel sweep-a").succeeds();
    assert_eq!(sandbox.run("cancel 'sweep-*'").succeeds(), "sweep-b: cancelled (was waiting)\n");
    let over = sandbox.run("cancel 'sweep-*'").succeeds();
    assert_eq!(over, "sweep-a: already ended: cancelled\nsweep-b: already ended: cancelled\n");
    assert!(sandbox.run("cancel 'other-*'").fails(2).contains("there is no job \"other-*\""));
}

/// Other commands also observe Slurm; new events that they see are logged, and only once.
#[test]
fn what_other_commands_notice_is_told_by_the_next_watch() {
    let sandbox = submitted().file("third.yaml", third());
    let sandbox =
        sandbox.printing("squeue", &[&line(1, "resnet18", "RUNNING"), &line(2, "vgg19", "PENDING")]);
    let told = |sandbox: &Sandbox, command: &str| {
        let stdout = sandbox.run(command).exits(0).stdout;
        stdout.matches("resnet18: running on 2 v100 (a)").count()
    };
    assert_eq!(told(&sandbox, "add third.yaml --dry-run"), 0);
    assert!(!sandbox.state("untold").exists());
    assert_eq!(told(&sandbox, "add third.yaml"), 0);
    assert_eq!(told(&sandbox, "cancel third"), 0);
    assert_eq!(told(&sandbox, "watch --once"), 1);
    assert_eq!(told(&sandbox, "watch --once"), 0);
}

#[test]
fn the_last_wish_for_a_name_counts() {
    let sandbox = Sandbox::with_slurm().file("third.yaml", third());
    sandbox.run("status").succeeds();
    sandbox.make_state();
    let held = lock(&sandbox);
    sandbox.run("add third.yaml").succeeds();
    sandbox.run_with_input("add -", &third().replace("epochs: 200", "epochs: 7")).succeeds();
    let one = sandbox.run("status third").succeeds();
    assert!(one.contains("hsched watch or hsched run adds it at its next turn"), "{one}");
    drop(held);
    // Commands other than `watch` also apply deferred commands, except in a dry run.
    sandbox.run("cancel --all --dry-run").succeeds();
    assert_eq!(wishes(&sandbox).len(), 2);
    assert_snapshot!(sandbox.run("cancel third").succeeds(), @r"third: cancelled (was waiting)");
    assert_eq!(sandbox.snapshot()["jobs"][0]["spec"]["epochs"], 7);
    assert!(wishes(&sandbox).is_empty());
    let held = lock(&sandbox);
    sandbox.run("add third.yaml").succeeds();
    sandbox.run("cancel third").succeeds();
    sandbox.run("add third.yaml").succeeds();
    drop(held);
    sandbox.run("watch --once").exits(0);
    assert_eq!(phases(&sandbox), [("third".to_owned(), "waiting".to_owned())]);
    let journal = sandbox.journal();
    let happened = journal.matches("\"event\":\"added\"").count()
        + journal.matches("\"event\":\"cancel_asked\"").count();
    assert_eq!(happened, 6, "{journal}");
}

#[test]
fn a_wish_is_carried_out_once_even_if_its_file_stays() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path();
    let rules = rules();
    let cancel = |name: &str| DeferredChange::Cancel { jobs: vec![JobName::new(name).expect("a name")] };
    let first = DeferredCommand::leave(root, Time(1.0), cancel("a")).expect("writes");
    // A clock that is set back does not change the order.
    let second = DeferredCommand::leave(root, Time(0.5), cancel("b")).expect("writes");
    assert!(first.id < second.id);
    let path = root.join(format!("wishes/{}.json", first.id));
    let text = fs::read(&path).expect("a file");
    let directory = StateDir::open(root).expect("opens");
    let open = || directory.ledger(&rules, Time(2.0)).expect("reads");
    let (state, mut ledger) = open();
    assert_eq!(ledger.deferred_commands(), (vec![first.clone(), second.clone()], vec![]));
    let state =
        State { nodes_down: std::iter::once(NodeName::new("n1").expect("a name")).collect(), ..state };
    ledger.take(Time(2.0), &state, &[], &[(&first, None)]).expect("keeps");
    // hsched was killed before it removed the file; the second time, the snapshot is also lost.
    for lost in [false, true] {
        fs::write(&path, &text).expect("a file");
        if lost {
            fs::write(root.join("state.json"), "{").expect("a file");
        }
        assert_eq!(
            StateDir::peek(root, &rules).expect("reads").deferred_commands,
            std::slice::from_ref(&second)
        );
        let (read, ledger) = open();
        assert_eq!((read.nodes_down.len(), ledger.deferred_commands().0), (1, vec![second.clone()]));
        assert!(!path.exists());
    }
}

#[test]
fn a_damaged_wish_is_set_aside_and_the_others_are_carried_out() {
    let sandbox = submitted().file("third.yaml", third());
    let held = lock(&sandbox);
    sandbox.run("cancel vgg19").succeeds();
    sandbox.run("add third.yaml").succeeds();
    drop(held);
    let path = wishes(&sandbox)[0].clone();
    let whole = fs::read(&path).expect("a file");
    let rules = rules();
    // Every ninth bit, so that all places within a byte are tried.
    for bit in (0..8 * whole.len()).step_by(9) {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, flipped).expect("a file");
        let seen = StateDir::peek(&sandbox.state(""), &rules).expect("reads");
        assert_eq!((seen.deferred_commands.len(), seen.lost.len()), (1, 1), "bit {bit}");
    }
    fs::write(&path, &whole[..whole.len() / 2]).expect("a file");
    let hide =
        |text: &str| text.replace(path.file_stem().and_then(|stem| stem.to_str()).expect("an id"), "ID");
    assert_snapshot!(hide(&sandbox.run("status").exits(0).stderr), @"warning: ROOT/home/.local/state/hsched/wishes/ID.json is damaged (its checksum is missing or does not match); the deferred command is lost: run it again");
    let doctor = sandbox.run("doctor").exits(69).stdout;
    assert!(doctor.contains("is damaged (its checksum"), "{doctor}");
    let told = sandbox.run("watch --once").exits(0);
    assert_snapshot!(hide(&told.stderr), @"warning: ROOT/home/.local/state/hsched/wishes/ID.json is damaged (its checksum is missing or does not match); the deferred command is lost: run it again; it is kept as ROOT/home/.local/state/hsched/wishes/ID.json.damaged");
    assert_eq!(sandbox.run("watch --once").exits(0).stderr, "");
    assert_eq!((sandbox.calls("scancel").len(), phases(&sandbox).len()), (0, 3));
    assert!(wishes(&sandbox).is_empty());
}

#[test]
fn a_wish_that_has_become_impossible_is_said() {
    let sandbox = Sandbox::with_slurm().program("scancel", ":");
    sandbox.make_state();
    let held = lock(&sandbox);
    sandbox.run("add jobs.yaml").succeeds();
    drop(held);
    let path = wishes(&sandbox)[0].clone();
    fs::rename(&path, sandbox.path("away")).expect("renames");
    sandbox.run(SUBMIT).succeeds();
    fs::rename(sandbox.path("away"), &path).expect("renames");
    let sandbox =
        sandbox.printing("squeue", &[&line(1, "resnet18", "PENDING"), &line(2, "vgg19", "PENDING")]);
    let told = sandbox.run("watch --once").exits(0);
    assert_snapshot!(told.stderr, @r"warning: deferred hsched add of resnet18, vgg19: already in the queue: resnet18 (job 1, PENDING), vgg19 (job 2, PENDING); nothing was added");
    assert!(sandbox.journal().contains("\"impossible\":\"already in the queue"), "{}", sandbox.journal());
    assert!(wishes(&sandbox).is_empty());
    assert_eq!(sandbox.run("watch --once").exits(0).stderr, "");
    assert_eq!(sandbox.calls("sbatch").len(), 2);
}

#[test]
fn a_turn_follows_at_once_when_something_was_wanted_meanwhile() {
    let sandbox = Sandbox::with_slurm().file("third.yaml", third());
    sandbox.run("add third.yaml").succeeds();
    mkfifo(&sandbox.path("gate"), Mode::S_IRWXU).expect("a fifo");
    let wait = "[ -e \"$root/open\" ] || { : >\"$root/asked\"; cat \"$root/gate\"; }";
    let sandbox = sandbox.program("squeue", wait);
    let mut watch = sandbox.command(&["watch", "--interval", "1h"]);
    let watch =
        watch.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    sandbox.await_file("asked");
    sandbox.run("cancel third").succeeds();
    fs::write(sandbox.path("open"), "").expect("a file");
    drop(File::options().write(true).open(sandbox.path("gate")).expect("opens"));
    let ran = sandbox.ran(&watch.wait_with_output().expect("ends"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
    assert!(ran.stdout.contains("third: cancel requested"), "{}", ran.stdout);
}
