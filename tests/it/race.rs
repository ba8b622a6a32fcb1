//! Several Slurm jobs race for one job: of scripts that start at the same time only one continues, even if it then
//! fails.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::real_cluster::repository;
use crate::sandbox::write_program;

/// Takes part in the race as job `$3`, with the claim `$5` in the folder `$2`; if it wins, records that in the file
/// `claim.won` and runs `$4`.
const ENTRY: &str = r#"
  . "$1/templates/rank.sh"; . "$1/templates/start.sh"; . "$1/templates/batch.sh"; . "$1/templates/ends.sh"
  hs_claim=$2/$5 hs_follows='' hs_report_dir_before='' hs_id=$3 hs_run=r7 hs_job=train
  until [[ -e $2/claim.go ]]; do :; done
  hs_race
  echo "$hs_id won" >>"$2/claim.won"
  eval "$4"
"#;

const STARTS: u32 = 50;

/// Returns a folder with an `squeue` that prints this text and an `scancel` that records its arguments.
fn folder(pending: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    program(folder.path(), "squeue", &format!("cat <<'END'\n{pending}END\n"));
    program(folder.path(), "scancel", "echo \"$*\" >>\"${0%/*}/cancelled\"");
    folder
}

/// Writes a program: a shell script with these lines.
pub fn program(folder: &Path, name: &str, text: &str) {
    write_program(&folder.join(name), &format!("#!/bin/sh\n{text}\n"));
}

fn entry(folder: &Path, id: u32, then: &str) -> Child {
    entry_with_claim(folder, "claim", id, then)
}

fn entry_with_claim(folder: &Path, claim: &str, id: u32, then: &str) -> Child {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.args(["-uc", ENTRY, "entry"]).arg(repository()).arg(folder);
    command
        .args([&id.to_string(), then, claim])
        .env("PATH", path)
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash")
}

/// Starts `STARTS` jobs at once; returns their results, and a line for each winner.
fn race(folder: &Path, then: &str) -> (Vec<Output>, String) {
    let entries: Vec<Child> = (1..=STARTS).map(|id| entry(folder, id, then)).collect();
    fs::write(folder.join("claim.go"), "").expect("written");
    let outputs = entries.into_iter().map(|entry| entry.wait_with_output().expect("its end")).collect();
    (outputs, fs::read_to_string(folder.join("claim.won")).expect("a winner"))
}

/// Returns the job that has the claim.
fn claim(folder: &Path) -> Option<String> {
    let link = fs::read_link(folder.join("claim")).ok()?;
    link.to_str().map(str::to_owned)
}

#[test]
fn of_fifty_that_start_at_once_one_wins_and_the_others_end_well() {
    let folder = folder("");
    let (outputs, won) = race(folder.path(), "wait");
    assert_eq!(won.lines().count(), 1, "{won}");
    assert!(outputs.iter().all(|output| output.status.success()));
    let winner = won.split(' ').next().expect("its number");
    assert_eq!(claim(folder.path()).as_deref(), Some(winner));
    let said = format!("hsched: job {winner} started first and trains; nothing is left to do\n");
    let losers = outputs.iter().filter(|output| String::from_utf8_lossy(&output.stderr) == said).count();
    assert_eq!(losers, STARTS as usize - 1);
}

#[test]
fn a_request_wins_although_the_first_one_of_its_race_never_made_its_report_directory() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("");
    let reports = folder.path().join("report");
    fs::write(folder.path().join("claim.go"), "").expect("written");
    let entry = entry_with_claim(folder.path(), "report/train:claim", 9, "wait");
    let output = entry.wait_with_output().expect("its end");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let link = fs::read_link(reports.join("train:claim")).expect("a claim");
    assert_eq!(link.to_str(), Some("9"));
    // Only the owner can read reports.
    assert_eq!(fs::metadata(reports).expect("a folder").permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_winner_that_dies_at_once_has_no_successor_and_may_be_started_again() {
    let folder = folder("");
    let (outputs, won) = race(folder.path(), "kill -9 $$");
    assert_eq!(won.lines().count(), 1, "{won}");
    assert_eq!(outputs.iter().filter(|output| !output.status.success()).count(), 1);
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
13 {"hsched":1,"run":"r9","job":"train","race":"r7"}
14 {"hsched":1,"run":"r9","job":"train","copy":1,"race":"r7"}
15 {"hsched":1,"run":"r9","job":"train-2","race":"r7"}
16 {"hsched":1,"run":"r9","job":"train","race":"r71"}
17 {"hsched":1,"run":"r9","job":"train"}
"#;
    // The first request and one that joined the race later each find all others.
    for (winner, expected) in [(7, [8, 9, 13, 14]), (13, [7, 8, 9, 14])] {
        let folder = folder(pending);
        fs::write(folder.path().join("claim.go"), "").expect("written");
        let entry = entry_with_claim(folder.path(), "runs/r7/report/train:claim", winner, "wait");
        let output = entry.wait_with_output().expect("its end");
        assert!(output.status.success(), "{output:?}");
        let cancelled = fs::read_to_string(folder.path().join("cancelled")).expect("calls");
        assert_eq!(cancelled, expected.map(|id| format!("--state=PENDING {id}\n")).concat(), "{winner}");
    }
}

/// Continues after job 7, a piece of the same chain, and prints a message; `$2` is a folder.
const NEXT_PIECE: &str = r#"
  . "$1/templates/rank.sh"; . "$1/templates/start.sh"; . "$1/templates/batch.sh"; . "$1/templates/ends.sh"
  hs_claim=$2/claim hs_follows=7 hs_report_dir_before=$2 hs_report_dir=$2/own hs_id=8 hs_stopping=0 hs_hostfile=''
  hs_grace=${3-1}
  hs_follow
  echo "goes on"
"#;

/// Returns the output of the next piece if job 7 recorded this status and Slurm shows these states of it, and the job
/// that has the claim.
fn after_a_piece(word: &str, shown: &str, accounted: &str) -> (String, Option<String>) {
    let folder = folder("");
    program(
        folder.path(),
        "squeue",
        &format!("case $* in *--states=all*) echo {shown} ;; *) echo 8 ;; esac"),
    );
    program(folder.path(), "sacct", &format!("echo {accounted}"));
    fs::write(folder.path().join("ends"), word).expect("written");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.args(["-uc", NEXT_PIECE, "next"]).arg(repository()).arg(folder.path()).env("PATH", path);
    let output = command.output().expect("bash");
    assert!(output.status.success(), "{output:?}");
    (String::from_utf8_lossy(&output.stdout).trim().to_owned(), claim(folder.path()))
}

#[test]
fn the_piece_after_one_that_somebody_cancelled_leaves_and_the_job_stays_with_that_one() {
    let leaves = (String::new(), Some("7".to_owned()));
    let goes_on = ("goes on".to_owned(), None);
    for (word, shown, accounted, expected) in [
        ("7 143\n", "CANCELLED", "", &leaves),
        ("7 143\n", "TIMEOUT", "", &goes_on),
        ("7 143\n", "PREEMPTED", "", &goes_on),
        // Slurm's controller no longer knows the job.
        ("7 143\n", "", "CANCELLED by 1000", &leaves),
        ("7 143\n", "", "TIMEOUT", &goes_on),
        ("7 143\n", "", "", &goes_on),
        // The job had no time to record a status.
        ("", "CANCELLED", "", &leaves),
        ("", "NODE_FAIL", "", &goes_on),
        // The job has saved, regardless of its end.
        ("7 85\n", "CANCELLED", "", &goes_on),
    ] {
        assert_eq!(&after_a_piece(word, shown, accounted), expected, "{word:?} {shown:?} {accounted:?}");
    }
}

/// Returns how the next piece ends with this `squeue`, and its output; the piece waits only a few seconds.
fn beside(squeue: &str) -> (Option<i32>, String) {
    let folder = folder("");
    program(folder.path(), "squeue", squeue);
    program(folder.path(), "sacct", "");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.args(["-uc", NEXT_PIECE, "next"]).arg(repository()).arg(folder.path()).arg("-299");
    let output = command.env("PATH", path).output().expect("bash");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn a_piece_is_over_where_slurm_shows_the_next_one_without_it() {
    let goes_on = (Some(0), "goes on".to_owned());
    let waits = (Some(1), String::new());
    assert_eq!(beside("echo 8"), goes_on);
    assert_eq!(beside("echo 8+0; echo 8+1; echo 17"), goes_on);
    // An empty answer does not count.
    assert_eq!(beside("true"), waits);
    assert_eq!(beside("echo 17"), waits);
    assert_eq!(beside("echo 7; echo 8"), waits);
    assert_eq!(beside("echo 7+0; echo 7+1; echo 8"), waits);
    assert_eq!(beside("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"), waits);
}

#[test]
fn without_hard_links_one_wins_all_the_same() {
    let folder = folder("");
    program(folder.path(), "ln", "case $1 in -s) PATH=${PATH#*:} exec ln \"$@\" ;; esac; exit 1");
    fs::write(folder.path().join("claim.go"), "").expect("written");
    let output = entry(folder.path(), 7, "wait").wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("claim.won")).unwrap_or_default(), "7 won\n", "{said}");
}

#[test]
fn nobody_trains_with_a_claim_that_names_no_job() {
    let folder = folder("");
    for name in ["claim", "claim.go"] {
        fs::write(folder.path().join(name), "").expect("written");
    }
    let output = entry(folder.path(), 7, "wait").wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("cannot create the symbolic link"), "{said}");
    assert!(!folder.path().join("claim.won").exists());
}

#[test]
fn a_claim_of_an_earlier_version_is_read() {
    let folder = folder("");
    fs::write(folder.path().join("claim"), "8\n").expect("written");
    fs::write(folder.path().join("claim.go"), "").expect("written");
    let output = entry(folder.path(), 7, "wait").wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("job 8 started first and trains"), "{said}");
    let claimed =
        |name: &str| hsched_engine::store::reports::claimed(&folder.path().join(name)).expect("reads");
    assert_eq!(claimed("claim"), Some(hsched_model::JobId(8)));
    std::os::unix::fs::symlink("9", folder.path().join("new")).expect("a link");
    assert_eq!((claimed("new"), claimed("none")), (Some(hsched_model::JobId(9)), None));
}
