//! Only one submission of a job trains: remaining processes of earlier ones end when it starts, regardless of what
//! Slurm shows.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use hsched_model::Time;

use crate::cli_run::{Bench, job};
use crate::python::{run, with_torch};
use crate::real_cluster::repository;
use crate::real_user::wait_for;
use crate::sandbox::{Sandbox, write_program};
use hsched_fixtures::engine_states::{attempt, job as engine_job, running, state};

/// The functions and variables that both halves of a job script need; `$1` is the repository, `$2` a folder.
const KNOWN: &str = r#"
  cd "$1" && . templates/rank.sh && . templates/fence.sh && . templates/samples.sh && . templates/start.sh && . templates/batch.sh && . templates/ends.sh
  hs_stopping=0; trap 'hs_stopping=1' USR1
  hs_fence=$2/fence hs_job=train hs_run=r hs_plan=p hs_world_size=1 hs_global_batch=8 hs_epochs=4 hs_epochs_done=0
  hs_checkpoint_dir=$2/saved hs_report_dir=$2/report hs_helper_dir=$1/templates hs_grace=5 hs_launch=plain
  hs_master_addr=n1 hs_master_port=20000 hs_batches=8 hs_hosts=(n1) hs_ranks=('0 0 8 8 1 t4') hs_device_order=()
  hs_node_setup=() hs_command=() hs_hostfile='' hs_epochs_before='' hs_terminated=0
"#;

/// A rank of the submission with number `$3`, which runs `$4`.
const RANK: &str = "hs_ticket=$3 hs_token=7.0.$3 hs_shell=$4; hs_rank_main ''";

/// Lets the guard of a rank check every 0.05 s instead of every 4 s.
const OFTEN: &str = "read() { local -a own=(\"$@\"); builtin read \"${own[@]/#4/0.05}\"; }";

/// A batch script of Slurm job `$3`.
const BATCH: &str = "hs_id=$3; hs_take_fence; echo \"$hs_ticket\"";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["fence", "report", "saved"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    folder
}

/// Starts one half of a script.
fn start(folder: &Path, half: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new("bash");
    command
        .args(["-uc", &format!("{KNOWN}\n{half}"), "script"])
        .arg(repository())
        .arg(folder)
        .args(arguments);
    command.env("SLURM_PROCID", "0").env_remove("SLURM_RESTART_COUNT").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Takes a number in the fence, as a submission does when it starts.
fn begin(folder: &Path, number: u32) {
    symlink("8", folder.join("fence").join(number.to_string())).expect("a link");
}

/// Returns the names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

/// Returns whether any process has a text in its command line.
fn runs(marker: &str) -> bool {
    Command::new("pgrep").args(["-f", "--", marker]).stdout(Stdio::null()).status().expect("pgrep").success()
}

#[test]
fn all_that_a_rank_has_started_ends_when_a_newer_submission_begins() {
    let folder = folder();
    begin(folder.path(), 1);
    // Processes: one that ignores SIGTERM, one that left the session, and one without the environment.
    let marker = format!("fence-{}", std::process::id());
    let sleep = |more: &str| format!("{more} bash -c 'exec -a {marker} sleep 600' &");
    let line = format!(
        "{} (trap '' TERM; {}wait) & echo $HSCHED_FENCE; wait; wait",
        sleep("setsid"),
        sleep("env -i PATH=\"$PATH\"")
    );
    let rank = start(folder.path(), RANK, &["1", &line]);
    wait_for("its processes", || {
        let count =
            Command::new("pgrep").args(["-cf", "--", &format!("^{marker} ")]).output().expect("pgrep");
        (text(&count.stdout) == "2").then_some(())
    });
    assert_eq!(names(&folder.path().join("fence")), ["1", "1.rank-0"]);
    begin(folder.path(), 2);
    // The output has ended: no process holds it open.
    let Output { status, stdout, stderr } = rank.wait_with_output().expect("its end");
    assert!(!runs(&format!("^{marker} ")));
    assert_eq!(text(&stdout), folder.path().join("fence/1").display().to_string());
    assert_eq!(status.code(), Some(1), "{}", text(&stderr));
    assert!(
        text(&stderr).contains("rank 0: a newer submission of this job has started; this rank ends"),
        "{}",
        text(&stderr)
    );
    // The rank counts neither as failed nor as stopped.
    assert_eq!(names(&folder.path().join("report")), ["samples"]);
    assert_eq!(names(&folder.path().join("fence")), ["1", "2"]);
}

#[test]
fn a_rank_does_not_begin_after_a_newer_submission() {
    let folder = folder();
    begin(folder.path(), 1);
    begin(folder.path(), 10);
    let output = start(folder.path(), RANK, &["9", "echo trains"]).wait_with_output().expect("its end");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("", Some(1)));
    let output = start(folder.path(), RANK, &["10", "echo trains"]).wait_with_output().expect("its end");
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("trains", Some(0)));
}

#[test]
fn a_rank_whose_fence_cannot_be_read_goes_on() {
    let folder = folder();
    fs::remove_dir(folder.path().join("fence")).expect("removed");
    // The rank ends after three checks of the fence, by itself and by its guard.
    let half = format!(
        r#"eval "look() $(declare -f hs_is_superseded | tail -n +2)"; looks=$2/looks; {OFTEN}
        hs_is_superseded() {{ printf . >>"$looks"; look; }}; {RANK}"#
    );
    let line = "until [[ $(cat \"$HSCHED_FENCE\"/../../looks) == ...* ]]; do sleep 0.05; done; exit 3";
    let line = line.replace("\"$HSCHED_FENCE\"/../..", &folder.path().display().to_string());
    let output = start(folder.path(), &half, &["1", &line]).wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}

#[test]
fn nothing_of_a_rank_outlives_it() {
    let folder = folder();
    begin(folder.path(), 1);
    for (line, status) in
        [("true", Some(0)), ("exit 85", Some(0)), ("exit 4", Some(4)), ("kill -9 $PPID", None)]
    {
        let output = start(folder.path(), RANK, &["1", line]).wait_with_output().expect("its end");
        assert_eq!(output.status.code(), status, "{line}");
        let path = folder.path().display().to_string();
        wait_for("its guard has ended", || (!runs(&path)).then_some(()));
    }
    assert_eq!(names(&folder.path().join("fence")), ["1", "1.rank-0"], "the killed one's mark");
}

#[test]
fn submissions_that_begin_at_once_take_different_numbers() {
    let folder = folder();
    let all: Vec<Child> = (1..=20).map(|id: u32| start(folder.path(), BATCH, &[&id.to_string()])).collect();
    let number = |child: Child| text(&child.wait_with_output().expect("its end").stdout).parse::<u32>();
    let mut numbers: Vec<u32> = all.into_iter().map(|child| number(child).expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=20).collect::<Vec<u32>>());
}

#[test]
fn a_submission_begins_when_the_ranks_before_it_have_ended() {
    let folder = folder();
    let at_work = folder.path().join("fence/1.rank-3");
    begin(folder.path(), 1);
    fs::write(&at_work, "").expect("written");
    let mut next = start(folder.path(), BATCH, &["8"]);
    wait_for("its number", || fs::read_link(folder.path().join("fence/2")).ok());
    assert!(next.try_wait().expect("asks").is_none());
    fs::remove_file(&at_work).expect("removed");
    assert_eq!(text(&next.wait_with_output().expect("its end").stdout), "2");
    // A rank whose guard does not end it is not awaited forever. Here only waits take time.
    fs::write(&at_work, "").expect("written");
    let waits = "unset SECONDS; SECONDS=0; sleep() { echo waits; SECONDS=$((SECONDS + 5)); }";
    let begins = |id: &str| {
        let output = start(folder.path(), &format!("{waits}; {BATCH}"), &[id]);
        text(&output.wait_with_output().expect("its end").stdout)
    };
    assert_eq!(begins("9"), "waits\nwaits\nwaits\n3");
    assert_eq!(names(&folder.path().join("fence")), ["1", "2", "3"]);
    // A rank that was killed, or was lost with its node, has no guard that renews its mark.
    let file = fs::File::create(&at_work).expect("written");
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("a time");
    assert_eq!(begins("10"), "4");
    assert_eq!(names(&folder.path().join("fence")), ["1", "2", "3", "4"]);
}

#[test]
fn a_guard_renews_the_mark_of_its_rank_and_makes_none() {
    let folder = folder();
    begin(folder.path(), 1);
    let mark = folder.path().join("fence/1.rank-0");
    // The guard continues for a while after the mark is removed.
    let line = format!(
        "touch -d '1 hour ago' {mark}; until [[ $(stat -c %Y {mark}) -gt $(($(date +%s) - 1800)) ]]; do sleep 0.05; done
        rm {mark}; : >{looks}; until [[ $(cat {looks}) == ...* ]]; do sleep 0.05; done; ls {folder}/fence",
        mark = mark.display(),
        looks = folder.path().join("looks").display(),
        folder = folder.path().display(),
    );
    let half =
        format!(r#"looks=$2/looks; {OFTEN}; touch() {{ printf . >>"$looks"; command touch "$@"; }}; {RANK}"#);
    let output = start(folder.path(), &half, &["1", &line]).wait_with_output().expect("its end");
    assert_eq!(text(&output.stdout), "1", "{}", text(&output.stderr));
}

#[test]
fn a_job_that_slurm_starts_again_leaves_the_training_to_a_newer_one() {
    let folder = folder();
    // Slurm shows the output of `shown` for job 8.
    let again = |id: &str, shown: &str| {
        let half = format!(
            "export SLURM_RESTART_COUNT=1; squeue() {{ [[ $* == *--jobs=8* ]] && {shown}; }}; {BATCH}"
        );
        let output = start(folder.path(), &half, &[id]).wait_with_output().expect("its end");
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let ticket =
        |number: u32, id: &str| symlink(id, folder.path().join(format!("fence/{number}"))).expect("a link");
    ticket(9, "6");
    ticket(10, "7");
    // The node of the job was lost, or the next piece still waits.
    assert_eq!(again("7", "echo 8"), ("11".to_owned(), String::new(), Some(0)));
    ticket(12, "8");
    let said = "hsched: job 8 has taken over this training; this job exits".to_owned();
    assert_eq!(again("7", "false"), (String::new(), said.clone(), Some(85)));
    // A submission that had not started when Slurm requeued it may also be the older one.
    assert_eq!(again("5", "echo 8"), (String::new(), said, Some(85)));
    let ends = fs::read_to_string(folder.path().join("report/ends")).expect("words");
    assert_eq!(ends, "7 85 interrupted\n5 85 interrupted\n");
    // The newer submission has ended, or Slurm does not answer.
    assert_eq!(again("5", "true").0, "13");
    fs::remove_file(folder.path().join("fence/13")).expect("removed");
    assert_eq!(again("5", "false").0, "13");
}

#[test]
fn a_batch_script_whose_training_another_one_has_leaves_no_word() {
    let folder = folder();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    for (name, line) in [("scontrol", "echo n1"), ("srun", "ln -s 8 \"$0\"/../../fence/2; exit $STATUS")] {
        let line = line.replace("\"$0\"/..", "\"${0%/*}\"");
        write_program(&bin.join(name), &format!("#!/bin/sh\n{line}\n"));
    }
    let half = "export PATH=$2/bin:$PATH SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1 STATUS=$3; hs_shell=true
        hs_claim='' hs_follows='' hs_report_dir_before='' hs_choices=() hs_components=('1 1 -') hs_environment=()
        hs_setup=(); hs_batch_main";
    for status in ["0", "1"] {
        let output = start(folder.path(), half, &[status]).wait_with_output().expect("its end");
        let said = text(&output.stderr);
        assert!(said.ends_with("this one ends and its results are ignored"), "{said}");
        // Exit status 86 uses no retry.
        assert_eq!((output.status.code(), folder.path().join("report/ends").exists()), (Some(86), false));
        for number in names(&folder.path().join("fence")) {
            fs::remove_file(folder.path().join("fence").join(number)).expect("removed");
        }
    }
}

#[test]
fn the_helper_leaves_the_checkpoint_to_a_newer_submission() {
    let Some(python) = with_torch() else { return };
    let folder = folder();
    begin(folder.path(), 1);
    let program = r#"
import os, sys
sys.path.insert(0, "templates")
import torch, hsched_ddp as hsched
folder = sys.argv[1]
os.environ["HSCHED_CHECKPOINT_DIR"], os.environ["HSCHED_FENCE"] = folder + "/saved", folder + "/fence/1"
me = hsched.init(global_batch=4, backend="gloo")
training = hsched.Training(me, hsched.BatchSampler(8, me), torch.nn.Linear(3, 1))
training.save()
before = open(training.path, "rb").read()
training.epoch += 1
os.symlink("8", folder + "/fence/2")
try:
    training.save()
    raise SystemExit("it was saved")
except RuntimeError as error:
    print(error)
assert open(training.path, "rb").read() == before and sorted(os.listdir(folder + "/saved")) == ["hsched-ddp.pt", "hsched-ddp.pt.sha256"]
for fence in folder + "/none/1", folder + "/fence/x", "":
    os.environ["HSCHED_FENCE"] = fence
    training.save()
"#;
    let said = run(&python, &["-c", program, &folder.path().display().to_string()], "");
    assert!(said.contains("a newer submission of this job has started"), "{said}");
}

/// Finds the directory of a node as its first and as its second rank does; prints its mode and its name if
/// both find the same one.
const NODE: &str = "hs_token=7.0.1 hs_rank=0; hs_open_node_directory; first=$hs_dir
    hs_open_node_directory; [[ $first == \"$hs_dir\" ]] && stat -c '%a %n' \"$hs_dir\"";

#[test]
fn nobody_can_guess_where_the_ranks_of_a_node_meet() {
    let folder = folder();
    // Another user has taken a predictable name.
    let guess = format!("hsched-{}-7.0.1-node", nix::unistd::geteuid());
    fs::write(folder.path().join(guess), "").expect("written");
    let half = format!("export TMPDIR=$2; unset SLURM_TMPDIR SLURMD_NODENAME; {NODE}");
    let output = start(folder.path(), &half, &[]).wait_with_output().expect("its end");
    let said = text(&output.stdout);
    let begin = format!("700 {}/hsched-", folder.path().display());
    assert!(said.strip_prefix(&begin).is_some_and(|rest| rest.len() == 12), "{said}{}", text(&output.stderr));
    assert_eq!(names(folder.path()).len(), 5, "no other directory is left");
}

#[test]
fn a_link_of_another_user_is_not_followed_to_a_checkpoint_directory() {
    let folder = folder();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).expect("a folder");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("a mode");
    symlink("/nowhere", shared.join("checkpoints")).expect("a link");
    let check = || {
        let half = "hs_check_path \"$2/shared/checkpoints/train\"; echo fine";
        let output = start(folder.path(), half, &[]).wait_with_output().expect("its end");
        (text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(check(), ("fine".to_owned(), String::new()));
    if std::os::unix::fs::lchown(shared.join("checkpoints"), Some(65_534), None).is_err() {
        println!("skipped: only root can give a link to another user");
        return;
    }
    let (said, why) = check();
    assert!(said.is_empty() && why.contains("shared/checkpoints is a symbolic link of user 65534"), "{why}");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).expect("a mode");
    assert_eq!(check().0, "fine");
}

#[test]
fn an_epoch_is_dated_by_the_file_that_reports_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let tracked = running(engine_job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 1, 0), 0);
    let state = state(vec![tracked]);
    let reports = hsched_engine::store::report_folder(folder.path(), "r", "a");
    fs::create_dir_all(&reports).expect("a folder");
    let path = reports.join("rank-0.jsonl");
    fs::write(&path, "{\"epoch\": 1}\n").expect("written");
    let at = |written: u64, now: f64| {
        let file = fs::File::options().write(true).open(&path).expect("a file");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(written)).expect("a time");
        let samples = &mut hsched_engine::store::samples::RecentSamples::default();
        hsched_engine::live::reported(folder.path(), &state, samples, Time(now)).epochs[0].1.at
    };
    assert_eq!(at(100, 200.0), Time(100.0));
    // The time stamp is from another machine, whose clock is ahead.
    assert_eq!(at(300, 200.0), Time(200.0));
}

#[test]
fn an_output_that_another_user_laid_is_refused() {
    // Makes `name` a link of another user in a directory that all users can write to; returns false if this
    // process is not root and thus cannot do that.
    let plant = |sandbox: &Sandbox, name: &str| {
        fs::set_permissions(sandbox.work(""), fs::Permissions::from_mode(0o777)).expect("a mode");
        symlink(sandbox.path("elsewhere"), sandbox.work(name)).expect("a link");
        std::os::unix::fs::lchown(sandbox.work(name), Some(65_534), None).is_ok()
    };
    let sandbox = Sandbox::with_slurm();
    if !plant(&sandbox, "vgg19.out") {
        println!("skipped: only root can give a link to another user");
        return;
    }
    let said = sandbox.run("submit jobs.yaml --cluster cluster.yaml --run-id r1").exits(4).stdout;
    let why = "ROOT/home/desk/vgg19.out is a symbolic link of user 65534, in a directory that other users can write to";
    assert!(said.contains(&format!("vgg19: not submitted: {why}")), "{said}");
    assert_eq!(sandbox.calls("sbatch").len(), 1);

    let bench = Bench::new(&[job("a", 1, "throughput: {cpu: 2000}, retries: 0")]);
    plant(&bench.sandbox, "a.out");
    let ran = bench.run("run jobs.yaml --devices cpu:1");
    assert!(ran.code != Some(0), "{ran:?}");
    assert!(
        format!("{}{}", ran.stdout, ran.stderr).contains("a.out is a symbolic link of user 65534"),
        "{ran:?}"
    );
    assert!(!bench.sandbox.path("elsewhere").exists());
}
