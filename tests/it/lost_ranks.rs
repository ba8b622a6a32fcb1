//! A job script considers its ranks done only when each has recorded it: `srun` can return 0 although it lost
//! nodes.

use std::fs;
use std::process::{Command, Output};

use crate::real_cluster::repository;
use crate::sandbox::write_program;

/// Evaluates three ranks after `srun` returned `$3`. `$4` runs first, and waits are calls of `hsched_wait`,
/// which take no time.
const JUDGE: &str = r#"
  . "$1/templates/rank.sh"; . "$1/templates/start.sh"; . "$1/templates/batch.sh"; . "$1/templates/ends.sh"
  hs_report_dir=$2 hs_token=7.0.1 hs_id=7 hs_world_size=3 hs_status=$3 hs_terminated=0 hs_stopping=0 hs_hostfile=''
  hs_epochs=3 hs_epochs_done=0 hs_epochs_before='' hs_report_dir_before='' hs_launch=plain hs_checkpoint_dir=$2 hs_hosts=(n1 n2) PATH=$5:$PATH
  sleep() { hsched_wait; }
  hsched_wait() { :; }
  done_is() { for hs_rank in "$@"; do hs_mark_done; done; }
  eval "$4"
  hs_judge
"#;

fn judge(status: u8, before: &str) -> (Option<i32>, String) {
    let (status, said, _) = judge_and_word(status, before);
    (status, said)
}

fn judge_and_word(status: u8, before: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let programs = tempfile::tempdir().expect("a folder");
    write_program(&programs.path().join("srun"), "#!/bin/sh\n[ \"$SLURM_TEST_NODES\" = answer ]\n");
    let mut command = Command::new("bash");
    command.args(["-uc", JUDGE, "judge"]).arg(repository()).arg(folder.path());
    let Output { status, stderr, .. } =
        command.args([&status.to_string(), before]).arg(programs.path()).output().expect("bash starts");
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("a file")).collect();
    let names: Vec<_> = left.iter().map(fs::DirEntry::file_name).collect();
    assert_eq!(names, ["ends"], "{before}: only the last word is left");
    let word = fs::read_to_string(folder.path().join("ends")).expect("a word");
    let status_of_word = word.split_whitespace().nth(1).map(str::to_owned);
    assert_eq!(status_of_word, status.code().map(|code| code.to_string()), "{word}");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned(), word)
}

#[test]
fn status_0_is_believed_when_all_ranks_have_finished() {
    assert_eq!(judge(0, "done_is 0 1 2"), (Some(0), String::new()));
    // A network file system shows the files of another node with a delay.
    assert_eq!(judge(0, "done_is 0 2; hsched_wait() { done_is 1; }").0, Some(0));
}

#[test]
fn status_0_of_lost_ranks_is_no_end() {
    for (before, count) in [(":", 0), ("done_is 0 2", 2), ("done_is 1 1 1", 1)] {
        let (status, said) = judge(0, before);
        assert_eq!(status, Some(86), "{before}: {said}");
        assert!(said.contains(&format!("only {count} of 3 ranks have finished")), "{said}");
    }
}

#[test]
fn ranks_that_saved_or_failed_are_not_lost() {
    assert_eq!(judge(0, "done_is 0; : >\"$2/.stopped.7.0.1\"").0, Some(85));
    assert_eq!(judge(137, "done_is 0 1").0, Some(137));
    // 86 is the status of a script that has lost ranks.
    let (status, said) = judge(86, "hs_rank=1 hs_mark_failed 86 'the command failed' 2>/dev/null");
    assert_eq!(status, Some(1));
    assert!(said.contains("failed first, with status 86"), "{said}");
}

#[test]
fn the_checkpoint_directory_is_read_once_at_the_end() {
    let find = "exec 3>&2; find() { echo read >&3; echo new; }; hs_epochs_before=0 hs_files_before=''; hs_stopping=1";
    let (status, said) = judge(0, find);
    assert_eq!(status, Some(85));
    assert_eq!(said.matches("read\n").count(), 1, "{said}");
    assert!(said.contains("the training can resume"), "{said}");
}

#[test]
fn a_command_that_the_signal_kills_has_saved_what_it_wrote_and_no_more() {
    // The job was asked to stop after an epoch, with these marks of its ranks.
    let ends = |files: &str, marks: &[&str]| {
        let marks =
            marks.iter().map(|mark| format!("(hs_end_stopped {mark}); ")).collect::<Vec<_>>().concat();
        let find = format!(
            "find() {{ echo {files}; }}; hs_count_epochs() {{ hs_epochs_done=1; }}; hs_epochs_before=0"
        );
        let before = format!(
            "{find}; hs_files_before=$(hs_checkpoint_files); {marks} hs_stopping=1; find() {{ echo; echo new; }}"
        );
        let kept = before.replace("; find() { echo; echo new; }", "");
        judge_and_word(0, if files == "new" { &before } else { &kept })
    };
    let (status, said, word) = ends("old", &["unhandled"]);
    assert_eq!((status, word.as_str()), (Some(85), "7 85 interrupted unhandled\n"));
    assert!(said.contains("interrupted after epoch 1 of 3: its command does not handle SIGUSR1"), "{said}");
    assert_eq!(ends("new", &["unhandled"]).2, "7 85 saved\n");
    // One rank saved, on another node; the signal killed the others.
    assert_eq!(ends("old", &["unhandled", "stopped"]).2, "7 85 saved\n");
    assert_eq!(ends("old", &["stopped"]).2, "7 85 saved\n");
}

#[test]
fn in_an_allocation_a_failure_counts_only_if_its_nodes_answer() {
    let failed = "hs_launch=steps; hs_rank=1 hs_mark_failed 1 'the command failed' 2>/dev/null";
    let judge = |before: &str| judge(1, &format!("{failed}; export SLURM_TEST_NODES={before}"));
    assert_eq!(judge("answer").0, Some(1));
    let (status, said) = judge("gone");
    assert_eq!(status, Some(86), "{said}");
    assert!(said.contains("cannot start a step on their nodes: n1 n2"), "{said}");
    // A stopping job has no time for checks. Before its last epoch, it counts as interrupted, regardless of
    // what failed.
    assert_eq!(judge("gone; hs_stopping=1").0, Some(85));
    assert_eq!(judge("gone; hs_stopping=1 hs_epochs_done=3").0, Some(1));
    assert_eq!(judge("gone; hs_terminated=1").0, Some(143));
}

#[test]
fn what_a_line_of_setup_says_about_patterns_does_not_change_the_judgement() {
    for option in ["nullglob", "failglob"] {
        let lines = format!("hs_run_lines setup 'shopt -s {option}' 'shopt -q {option}'");
        let (status, said) = judge(0, &lines);
        assert_eq!(status, Some(86), "{option}: {said}");
        assert!(said.contains("only 0 of 3 ranks have finished"), "{option}: {said}");
        // A line that ends the script also does not count as success.
        let (status, said) =
            judge(0, &format!("trap hs_on_exit EXIT; hs_run_lines setup 'shopt -s {option}; exit 4'"));
        assert_eq!(status, Some(4), "{option}: {said}");
    }
}
