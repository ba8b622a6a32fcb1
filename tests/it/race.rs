//! Several Slurm jobs race for one training: of scripts that start at the same moment one goes on, whatever becomes of it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::real_cluster::repository;

/// Takes part in the race as job `$3`, and says so where it won; `$4` is what it does then.
const ENTRY: &str = r#"
  . "$1/templates/rank.sh"; . "$1/templates/batch.sh"
  hs_claim=$2 hs_follows='' hs_report_dir_before='' hs_id=$3 hs_run=r7 hs_job=train
  until [[ -e $2.go ]]; do :; done
  hs_race
  echo "$hs_id won" >>"$2.won"
  eval "$4"
"#;

const STARTS: u32 = 50;

/// A folder with programs of Slurm that say what they were asked.
fn folder(pending: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    program(folder.path(), "squeue", &format!("cat <<'END'\n{pending}END\n"));
    program(folder.path(), "scancel", "echo \"$*\" >>\"${0%/*}/cancelled\"");
    folder
}

fn program(folder: &Path, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

fn entry(folder: &Path, id: u32, then: &str) -> Child {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.args(["-uc", ENTRY, "entry"]).arg(repository()).arg(folder.join("claim"));
    command.args([&id.to_string(), then]).env("PATH", path).stderr(Stdio::piped()).spawn().expect("bash")
}

/// Starts so many jobs at once, and returns how they ended and who won.
fn race(folder: &Path, then: &str) -> (Vec<Output>, String) {
    let entries: Vec<Child> = (1..=STARTS).map(|id| entry(folder, id, then)).collect();
    fs::write(folder.join("claim.go"), "").expect("written");
    let outputs = entries.into_iter().map(|own| own.wait_with_output().expect("its end")).collect();
    (outputs, fs::read_to_string(folder.join("claim.won")).expect("a winner"))
}

#[test]
fn of_fifty_that_start_at_once_one_wins_and_the_others_end_well() {
    let folder = folder("");
    let (outputs, won) = race(folder.path(), "wait");
    assert_eq!(won.lines().count(), 1, "{won}");
    assert!(outputs.iter().all(|own| own.status.success()));
    let winner = won.split(' ').next().expect("its number");
    let claim = fs::read_to_string(folder.path().join("claim")).expect("the claim");
    assert_eq!(claim.trim(), winner);
    let said =
        format!("hsched: job {winner} started before this one and trains; nothing is left to do here\n");
    let losers = outputs.iter().filter(|own| String::from_utf8_lossy(&own.stderr) == said).count();
    assert_eq!(losers, STARTS as usize - 1);
}

#[test]
fn a_winner_that_dies_at_once_has_no_successor_and_may_be_started_again() {
    let folder = folder("");
    let (outputs, won) = race(folder.path(), "kill -9 $$");
    assert_eq!(won.lines().count(), 1, "{won}");
    assert_eq!(outputs.iter().filter(|own| !own.status.success()).count(), 1);
    let winner = won.split(' ').next().expect("its number").parse().expect("a number");
    let again = entry(folder.path(), winner, "wait").wait_with_output().expect("its end");
    let late = entry(folder.path(), 99, "wait").wait_with_output().expect("its end");
    assert!(again.status.success() && late.status.success());
    let won = fs::read_to_string(folder.path().join("claim.won")).expect("winners");
    assert_eq!(won, format!("{winner} won\n{winner} won\n"));
}

#[test]
fn the_winner_takes_the_others_of_its_race_out_of_the_queue_and_no_one_else() {
    let pending = r#"7 {"hsched":1,"run":"r7","job":"train"}
8 {"hsched":1,"run":"r7","job":"train","copy":1}
9+0 {"hsched":1,"run":"r7","job":"train","copy":2}
10 {"hsched":1,"run":"r7","job":"train-2"}
11 {"hsched":1,"run":"r71","job":"train"}
12 (null)
"#;
    let folder = folder(pending);
    fs::write(folder.path().join("claim.go"), "").expect("written");
    let output = entry(folder.path(), 7, "wait").wait_with_output().expect("its end");
    assert!(output.status.success());
    let cancelled = fs::read_to_string(folder.path().join("cancelled")).expect("calls");
    assert_eq!(cancelled, "--state=PENDING 8\n--state=PENDING 9\n");
}

/// Goes on after job 7, a piece of the same training, and says so; `$2` is a folder.
const NEXT_PIECE: &str = r#"
  . "$1/templates/rank.sh"; . "$1/templates/batch.sh"
  hs_claim=$2/claim hs_follows=7 hs_report_dir_before=$2 hs_id=8 hs_grace=1 hs_stopping=0
  hs_follow
  echo "goes on"
"#;

/// Returns what the next piece says where job 7 left this word and Slurm shows these states of it, with whom the claim has.
fn after_a_piece(word: &str, shown: &str, accounted: &str) -> (String, Option<String>) {
    let folder = folder("");
    program(folder.path(), "squeue", &format!("case $* in *--states=all*) echo {shown} ;; esac"));
    program(folder.path(), "sacct", &format!("echo {accounted}"));
    fs::write(folder.path().join("ends"), word).expect("written");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.args(["-uc", NEXT_PIECE, "next"]).arg(repository()).arg(folder.path()).env("PATH", path);
    let output = command.output().expect("bash");
    assert!(output.status.success(), "{output:?}");
    let claim = fs::read_to_string(folder.path().join("claim")).ok();
    (String::from_utf8_lossy(&output.stdout).trim().to_owned(), claim.map(|own| own.trim().to_owned()))
}

#[test]
fn the_piece_after_one_that_somebody_cancelled_leaves_and_the_job_stays_with_that_one() {
    let leaves = (String::new(), Some("7".to_owned()));
    let goes_on = ("goes on".to_owned(), None);
    for (word, shown, accounted, expected) in [
        ("7 143\n", "CANCELLED", "", &leaves),
        ("7 143\n", "TIMEOUT", "", &goes_on),
        ("7 143\n", "PREEMPTED", "", &goes_on),
        // Slurm has forgotten it.
        ("7 143\n", "", "CANCELLED by 1000", &leaves),
        ("7 143\n", "", "TIMEOUT", &goes_on),
        ("7 143\n", "", "", &goes_on),
        // It had no time for a word.
        ("", "CANCELLED", "", &leaves),
        ("", "NODE_FAIL", "", &goes_on),
        // It has saved, whatever became of it then.
        ("7 85\n", "CANCELLED", "", &goes_on),
    ] {
        assert_eq!(&after_a_piece(word, shown, accounted), expected, "{word:?} {shown:?} {accounted:?}");
    }
}
