//! `hsched logs`: the output of a job, by submission, and as it grows.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};

use insta::assert_snapshot;

use crate::cli_jobs::{SUBMIT, line, submitted};
use crate::sandbox::Sandbox;

/// Writes what a script of a run does: records the start of its output, unless it has done so, and prints a
/// text.
fn print(sandbox: &Sandbox, run: &str, job: &str, text: &str) {
    let folder = sandbox.state(&format!("runs/{run}/report/{job}"));
    fs::create_dir_all(&folder).expect("a folder");
    let output = sandbox.work(&format!("{job}.out"));
    let length = output.metadata().map_or(0, |data| data.len());
    if !folder.join("begins").exists() {
        fs::write(folder.join("begins"), format!("{length}\n")).expect("a file");
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).open(output).expect("a file");
    file.write_all(text.as_bytes()).expect("writes");
}

/// Records the end of a script of a run, as the script does.
fn end(sandbox: &Sandbox, run: &str, job: &str, id: u32, status: u8) {
    let path = sandbox.state(&format!("runs/{run}/report/{job}/ends"));
    fs::write(path, format!("{id} {status}\n")).expect("a file");
}

/// Returns a sandbox with two submissions of vgg19: one of r1 that was cancelled, and a pending one of r2.
fn again() -> Sandbox {
    let sandbox = submitted();
    print(&sandbox, "r1", "vgg19", "one\ntwo\n");
    let sandbox =
        sandbox.printing("squeue", &[&line(1, "resnet18", "CANCELLED"), &line(2, "vgg19", "CANCELLED")]);
    sandbox.run(&SUBMIT.replace("r1", "r2")).succeeds();
    sandbox
}

#[test]
fn the_part_of_one_submission_is_printed() {
    let sandbox = again();
    print(&sandbox, "r2", "vgg19", "three\nfour\n\u{1b}[1mfive");
    assert_eq!(sandbox.run("logs vgg19").succeeds(), "three\nfour\n\u{1b}[1mfive");
    assert_eq!(sandbox.run("logs vgg19 --tail 2").succeeds(), "four\n\u{1b}[1mfive");
    assert_eq!(sandbox.run("logs vgg19 --run r1").succeeds(), "one\ntwo\n");
    assert_eq!(sandbox.run("logs vgg19 --attempt 1 --tail 1").succeeds(), "two\n");
    assert_eq!(sandbox.run("logs vgg19 --attempt 2 --tail 0").succeeds(), "");
    // Output needs no Slurm.
    assert_eq!(sandbox.program("squeue", "exit 1").run("logs vgg19 --tail 1").succeeds(), "\u{1b}[1mfive");
}

#[test]
fn what_cannot_be_printed_is_said() {
    let sandbox = again();
    assert_snapshot!(sandbox.run("logs vg19").fails(2), @r#"
    error: there is no job "vg19"
    hint: did you mean vgg19?
    "#);
    let told = sandbox.run("logs vgg19").fails(1);
    assert!(told.starts_with("error: vgg19 has not started yet: pending, submitted as job 4"), "{told}");
    assert!(
        told.ends_with(
            "hint: --follow waits for it to start\nhint: --attempt 1 prints the previous submission\n"
        ),
        "{told}"
    );
    assert_snapshot!(sandbox.run("logs vgg19 --attempt 3").fails(2), @r"
    error: vgg19 has no submission 3, only 2 submissions
    hint: hsched status vgg19 lists its submissions
    ");
    assert_snapshot!(sandbox.run("logs vgg19 --run r9").fails(2), @r"
    error: vgg19 has no submission of run r9
    hint: hsched status vgg19 lists its submissions
    ");
    fs::remove_file(sandbox.work("vgg19.out")).expect("removes");
    assert_snapshot!(sandbox.run("logs vgg19 --run r1").fails(1), @r"
    error: ROOT/home/desk/vgg19.out does not exist
    hint: it was removed, or is on a file system that this machine cannot see
    ");
    let waiting = Sandbox::with_slurm();
    waiting.run("add jobs.yaml").succeeds();
    let told = waiting.run("logs vgg19").fails(1);
    assert!(told.starts_with("error: vgg19 has not started yet: waiting, not planned yet"), "{told}");
    waiting.run("cancel vgg19").succeeds();
    assert_eq!(waiting.run("logs vgg19").fails(1), "error: vgg19 never started: cancelled\n");
    assert_eq!(waiting.run("logs vgg19 -f").exits(0).stderr, "note: vgg19 never started: cancelled\n");
}

#[test]
fn errors_in_a_file_of_their_own_are_printed_too() {
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", crate::sandbox::THREE);
    sandbox.run("submit jobs.yaml --cluster cluster.yaml --run-id r1 -- --error=%x-%j.err").succeeds();
    print(&sandbox, "r1", "vgg19", "fine\n");
    fs::write(sandbox.work("vgg19-2.err"), "not fine\n").expect("a file");
    assert_snapshot!(sandbox.run("logs vgg19").succeeds(), @r"
    ==> ROOT/home/desk/vgg19.out <==
    fine

    ==> ROOT/home/desk/vgg19-2.err <==
    not fine
    ");
}

/// Starts to follow vgg19.
fn follow(sandbox: &Sandbox) -> (Child, BufReader<ChildStdout>) {
    let mut command = sandbox.command(&["logs", "vgg19", "--follow"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    (child, stdout)
}

fn next(stdout: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).expect("reads");
    line
}

#[test]
fn output_is_followed_into_the_next_submission_and_to_its_end() {
    let sandbox = submitted();
    print(&sandbox, "r1", "vgg19", "one\n");
    let (child, mut stdout) = follow(&sandbox);
    assert_eq!(next(&mut stdout), "one\n");
    print(&sandbox, "r1", "vgg19", "two\n");
    assert_eq!(next(&mut stdout), "two\n");
    let sandbox =
        sandbox.printing("squeue", &[&line(1, "resnet18", "CANCELLED"), &line(2, "vgg19", "CANCELLED")]);
    end(&sandbox, "r1", "vgg19", 2, 85);
    sandbox.run(&SUBMIT.replace("r1", "r2")).succeeds();
    print(&sandbox, "r2", "vgg19", "three\n");
    assert_eq!(next(&mut stdout), "three\n");
    end(&sandbox, "r2", "vgg19", 4, 0);
    assert_eq!(next(&mut stdout), "");
    let ran = sandbox.ran(&child.wait_with_output().expect("ends"));
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stderr.contains("note: vgg19 continues in ROOT/home/desk/vgg19.out (run r2, job 4)\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_start_is_waited_for_and_a_reader_that_goes_ends_it() {
    let sandbox = submitted();
    let (child, mut stdout) = follow(&sandbox);
    print(&sandbox, "r1", "vgg19", "one\n");
    assert_eq!(next(&mut stdout), "one\n");
    drop(stdout);
    let ran = sandbox.ran(&child.wait_with_output().expect("ends"));
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stderr.is_empty()
            || ran.stderr == "note: vgg19 has not started yet: pending; waiting for it to start\n",
        "{}",
        ran.stderr
    );
}
