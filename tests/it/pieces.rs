//! `hsched submit SCRIPT --pieces`: its submissions, and the ends of pieces, with programs that stand in for
//! Slurm's.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::sandbox::Sandbox;

const SCRIPT: &str = "#!/bin/bash\n#SBATCH --job-name=tiny\n#SBATCH --gres=gpu:2\n#SBATCH -t 5:00:00\n\n";

fn with(body: &str) -> Sandbox {
    Sandbox::with_slurm()
        .file("train.sh", format!("{SCRIPT}{body}"))
        .program("scontrol", "echo 'JobId=7 EligibleTime=2026-10-01T10:00:00 StartTime=2026-10-01T12:00:00'")
        .program("scancel", ":")
        .program("sbatch", "echo 8")
}

/// Submits the script in pieces of twelve hours, and returns the path of the script that Slurm gets.
fn wrapper(sandbox: &Sandbox, options: &str) -> PathBuf {
    let json = sandbox.run(&format!("submit train.sh --pieces 12h --format json {options}")).exits(0).json();
    assert_eq!((&json["schema"], &json["jobs"][0]["job_id"]), (&"hsched.submit/1".into(), &"8".into()));
    PathBuf::from(
        json["folder"].as_str().expect("a folder").replace("ROOT/", &sandbox.path("").display().to_string()),
    )
    .join("wrapper/train.sh")
}

fn report(wrapper: &Path) -> PathBuf {
    wrapper.ancestors().nth(2).expect("the chain's folder").join("report")
}

/// Starts a piece as Slurm job 7.
fn piece(sandbox: &Sandbox, wrapper: &PathBuf) -> Child {
    let path = format!("{}:{}", sandbox.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.arg(wrapper).env("SLURM_JOB_ID", "7").env("PATH", path).current_dir(sandbox.work(""));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash")
}

fn ended(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().expect("its end");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Returns the exit status of a piece of a script, its stderr, and the last calls of `scontrol` and
/// `scancel`.
fn end_of(body: &str, options: &str) -> (Option<i32>, String, String) {
    let sandbox = with(body);
    let wrapper = wrapper(&sandbox, options);
    let (code, said) = ended(piece(&sandbox, &wrapper));
    let words = |program: &str| sandbox.calls(program).last().map(|call| call.join(" ")).unwrap_or_default();
    (code, said, format!("{} | {}", words("scontrol"), words("scancel")))
}

const RELEASED: &str = "update JobId=8 StartTime=now | ";

#[test]
fn a_piece_has_the_options_of_the_script_and_submits_the_next() {
    let sandbox = with("exit 0\n");
    let wrapper = wrapper(&sandbox, "--checkpoint 'a b/*.x' -- --account=lab");
    let text = std::fs::read_to_string(&wrapper).expect("a script");
    let expected = "#!/bin/bash\n#SBATCH --job-name=tiny\n#SBATCH --gres=gpu:2\n#SBATCH -t 5:00:00\n\n\
                    #SBATCH --account=lab\n#SBATCH --time=720\n#SBATCH --signal=B:USR1@120\n#SBATCH --no-requeue\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("hs_patterns=(\n  'a b/*.x'\n)"));
    assert_eq!(sandbox.calls("sbatch")[0], ["--parsable", &wrapper.display().to_string()]);
    let (code, said) = ended(piece(&sandbox, &wrapper));
    assert_eq!((code, said.as_str()), (Some(0), "hsched: job 8 is the next piece\n"));
    let next = &sandbox.calls("sbatch")[1];
    assert_eq!(next[..3], ["--parsable", "--begin=now+21600", "--"]);
    assert_eq!(next[4], "7");
    assert_eq!(sandbox.calls("scancel").last().expect("a call")[..], ["--state=PENDING", "8"]);
}

#[test]
fn pieces_on_another_cluster_are_refused() {
    let refused = |variable: &str| {
        let sandbox = with("exit 0\n").variable(variable, "south");
        sandbox.run("submit train.sh --pieces 12h --dry-run")
    };
    let error = refused("SBATCH_CLUSTERS").fails(78);
    assert!(error.contains("--clusters cannot be used: a state directory belongs to one cluster"), "{error}");
    refused("SLURM_CLUSTERS").exits(0);
}

#[test]
fn a_piece_has_the_options_of_the_environment() {
    let sandbox = with("exit 0\n").variable("SBATCH_REQUEUE", "1").variable("SBATCH_CONSTRAINT", "a&b");
    let text = std::fs::read_to_string(wrapper(&sandbox, "-- --account=lab")).expect("a script");
    assert!(text.contains("\n#SBATCH '--constraint=a&b' --requeue --account=lab\n"), "{text}");
    let refused =
        with("exit 0\n").variable("SBATCH_ARRAY_INX", "1-3").run("submit train.sh --pieces 12h").exits(78);
    assert!(refused.stderr.contains("a job array cannot run in pieces"), "{}", refused.stderr);
}

#[test]
fn a_chain_goes_on_while_checkpoints_change() {
    let (code, said, asked) = end_of("echo x >last.ckpt; exit 3\n", "");
    assert_eq!((code, asked.as_str()), (Some(85), RELEASED), "{said}");
    assert!(
        said.contains("the script failed with status 3; a checkpoint changed, so the next piece resumes"),
        "{said}"
    );
    let (code, said, asked) = end_of("echo x >notes.txt; exit 3\n", "");
    assert_eq!((code, asked), (Some(3), " | --state=PENDING 8".to_owned()), "{said}");
    assert!(said.contains("no checkpoint changed in this piece: the chain ends"), "{said}");
    // Large files count, but logs do not; if files are named, only these count.
    assert_eq!(end_of("head -c 2000000 /dev/zero >w; exit 3\n", "").0, Some(85));
    assert_eq!(end_of("head -c 2000000 /dev/zero >a.log; exit 3\n", "").0, Some(3));
    assert_eq!(
        end_of("mkdir -p 'a b/c'; echo x >'a b/c/y'; exit 3\n", "--checkpoint 'a b/**/y'").0,
        Some(85)
    );
    assert_eq!(end_of("echo x >last.ckpt; exit 3\n", "--checkpoint other").0, Some(3));
}

#[test]
fn a_script_that_fails_again_and_again_ends_its_chain() {
    let sandbox = with("date +%N >>last.ckpt; exit 3\n");
    let wrapper = wrapper(&sandbox, "");
    let codes: Vec<Option<i32>> = (0..4)
        .map(|_| {
            // The claim is removed so that the next piece can take it; the other files of the chain count the
            // failures.
            let code = ended(piece(&sandbox, &wrapper)).0;
            let report = report(&wrapper);
            std::fs::remove_file(report.join("claim")).expect("a claim");
            code
        })
        .collect();
    assert_eq!(codes, [Some(85), Some(85), Some(85), Some(3)]);
}

/// A kill before the first checkpoint of a piece loses nothing that an earlier piece has saved.
#[test]
fn a_script_that_is_killed_before_it_saves_resumes_from_earlier_pieces() {
    let sandbox = with("if [[ ! -e last.ckpt ]]; then echo x >last.ckpt; exit 3; fi; kill -KILL $$\n");
    let wrapper = wrapper(&sandbox, "");
    let run = || {
        let code = ended(piece(&sandbox, &wrapper)).0;
        std::fs::remove_file(report(&wrapper).join("claim")).expect("a claim");
        code
    };
    // The first piece saves and fails, two more are tried, and the fourth failure in a row ends the chain.
    assert_eq!([run(), run(), run(), run()], [Some(85), Some(85), Some(85), Some(137)]);
    assert_eq!(end_of("kill -KILL $$\n", "").0, Some(137));
}

/// The signal that a script gets depends on its handlers and on the option `--signal` of sbatch.
#[test]
fn a_script_saves_on_the_signal_that_it_handles() {
    let saving = |signal: &str| {
        format!(
            "trap 'echo {signal} >last.ckpt; exit 0' {signal}\necho >ready\nwhile :; do sleep 0.1; done\n"
        )
    };
    for (body, options, saved) in [
        (saving("USR1"), "", Some("USR1\n")),
        (saving("TERM"), "", Some("TERM\n")),
        (saving("USR2"), "-- --signal=USR2@60", Some("USR2\n")),
        ("echo x >last.ckpt; echo >ready; sleep 60\n".to_owned(), "", Some("x\n")),
        (saving("USR2"), "-- --signal=B:12@60", Some("USR2\n")),
        // The piece had too little time to save, so the next piece runs the script again.
        ("echo >ready; sleep 60\n".to_owned(), "", None),
    ] {
        let sandbox = with(&body);
        let wrapper = wrapper(&sandbox, options);
        let child = piece(&sandbox, &wrapper);
        sandbox.await_file("home/desk/ready");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGUSR1).expect("a signal");
        let (code, said) = ended(child);
        let found = std::fs::read_to_string(sandbox.work("last.ckpt")).ok();
        assert_eq!((code, found.as_deref()), (Some(85), saved), "{body}: {said}");
        let ends = std::fs::read_to_string(report(&wrapper).join("ends")).expect("ends");
        assert_eq!(ends, if saved.is_some() { "7 85 saved\n" } else { "7 85 interrupted\n" });
    }
}

#[test]
fn what_is_no_single_job_is_refused() {
    let check = |text: &str, message: &str| {
        let sandbox = Sandbox::with_slurm().file("x.sh", text);
        let ran = sandbox.run("submit x.sh --pieces 12h").exits(78);
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
        assert_eq!(sandbox.calls("sbatch").len(), 0);
    };
    check("#!/bin/bash\n#SBATCH --array=1-3\ntrain\n", "x.sh: a job array cannot run in pieces");
    check(
        "#!/bin/bash\n#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -n 1\ntrain\n",
        "a heterogeneous job cannot run in pieces",
    );
    for option in ["wait", "test-only", "hold", "begin=now+1hour", "deadline=2030-01-01"] {
        check(
            &format!("#!/bin/bash\n#SBATCH --{option}\ntrain\n"),
            "cannot be used with --pieces; remove it",
        );
    }
    check("jobs:\n  - name: x\n", "x.sh is YAML or JSON, not a batch script");
    let ran = with("x\n").run("submit train.sh --pieces 10s").exits(2);
    assert!(ran.stderr.contains("must be at least 60s"), "{}", ran.stderr);
    with("x\n").run("submit train.sh --checkpoint x").exits(2);
    let sandbox = with("x\n");
    let text = sandbox.run("submit train.sh --pieces 12h --dry-run").exits(0).stdout;
    assert!(text.contains("hs_piece_main \"$@\"") && sandbox.calls("sbatch").is_empty());
    assert!(!sandbox.state("pieces").exists());
}

#[test]
fn a_script_is_followed_and_cancelled_by_its_name() {
    let sandbox = with("sleep 60\n");
    let wrapper = wrapper(&sandbox, "");
    let status = |line: &str| sandbox.run(line).exits(0).json()["scripts"][0].clone();
    let pending = status("status --format json");
    assert_eq!(
        (&pending["state"], &pending["job_id"], &pending["pieces"]),
        (&"pending".into(), &"8".into(), &0.into())
    );
    let report = report(&wrapper);
    std::fs::write(report.join("started"), "8\n").expect("written");
    std::fs::write(report.join("queued"), "8\n9\n").expect("written");
    let running = status("status train.sh --format json");
    assert_eq!(
        (&running["state"], &running["job_id"], &running["name"]),
        (&"running".into(), &"8".into(), &"train.sh".into())
    );
    let text = sandbox.run("status").exits(0).stdout;
    assert!(
        text.starts_with("SCRIPT    STATE    JOB  PIECES  ID\ntrain.sh  running    8       1  "),
        "{text}"
    );
    for command in ["cancel train.sh --tag old", "status train.sh --tag old"] {
        let told = sandbox.run(command).fails(2);
        assert!(told.contains("no job has the tag") || told.contains("a script has no tags"), "{told}");
    }
    let would = sandbox.run("cancel train.sh --dry-run").exits(0).stdout;
    assert_eq!(
        (would.as_str(), sandbox.calls("scancel").len()),
        ("train.sh: would be cancelled (jobs 8, 9)\n", 0)
    );
    assert_eq!(sandbox.run("cancel train.sh").exits(0).stdout, "train.sh: cancelling (jobs 8, 9)\n");
    assert_eq!(sandbox.calls("scancel"), [["--me", "8", "9"]]);
    assert_eq!(status("status --format json")["state"], "cancelled");
    assert_eq!(sandbox.run("cancel train.sh").exits(0).stdout, "train.sh: already ended: cancelled\n");
    // A piece that starts anyway runs nothing and submits nothing.
    let submitted = sandbox.calls("sbatch").len();
    let (code, said) = ended(piece(&sandbox, &wrapper));
    assert_eq!((code, said.as_str()), (Some(0), "hsched: the chain was cancelled\n"));
    assert_eq!(sandbox.calls("sbatch").len(), submitted);
}

/// `scancel --me` without an id would cancel all jobs of the user.
#[test]
fn a_chain_without_a_job_is_closed_without_slurm() {
    let sandbox = with("exit 0\n");
    let wrapper = wrapper(&sandbox, "");
    let report = report(&wrapper);
    std::fs::write(report.join("queued"), "").expect("written");
    for command in ["cancel train.sh --tag old", "status train.sh --tag old"] {
        let told = sandbox.run(command).fails(2);
        assert!(told.contains("no job has the tag") || told.contains("a script has no tags"), "{told}");
    }
    let would = sandbox.run("cancel train.sh --dry-run").exits(0).stdout;
    assert_eq!(would, "train.sh: no Slurm job to cancel; the chain would be closed\n");
    let said = sandbox.run("cancel train.sh").exits(0).stdout;
    assert_eq!(said, "train.sh: no Slurm job to cancel; the chain is closed\n");
    assert!(sandbox.calls("scancel").is_empty() && report.join("cancelled").exists());
}

#[test]
fn a_piece_that_did_not_save_by_its_limit_ends_the_chain() {
    let sandbox = with("echo >ready; sleep 60\n");
    let wrapper = wrapper(&sandbox, "");
    let text = std::fs::read_to_string(&wrapper).expect("a script");
    std::fs::write(&wrapper, text.replace("hs_limit=43200", "hs_limit=120")).expect("written");
    let child = piece(&sandbox, &wrapper);
    sandbox.await_file("home/desk/ready");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGUSR1).expect("a signal");
    let (code, said) = ended(child);
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn a_submission_that_slurm_did_not_take_leaves_no_chain() {
    let check = |answer: &str, code: i32, is_kept: bool| {
        let sandbox = with("exit 0\n").program("sbatch", answer);
        sandbox.run("submit train.sh --pieces 12h").exits(code);
        let chains = std::fs::read_dir(sandbox.state("pieces")).map_or(0, Iterator::count);
        assert_eq!(chains, usize::from(is_kept), "{answer}");
    };
    check(
        "echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
        69,
        false,
    );
    check("echo 'sbatch: error: Batch job submission failed: Invalid qos' >&2; exit 1", 1, false);
    check("echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1", 1, true);
}

#[test]
fn a_name_of_several_chains_is_refused() {
    let sandbox = with("exit 0\n");
    for id in ["one", "two"] {
        sandbox.run(&format!("submit train.sh --pieces 12h --run-id {id}")).exits(0);
    }
    let refused = sandbox.run("cancel train.sh").exits(2).stderr;
    assert!(refused.contains("2 chains of \"train.sh\" have not ended: one, two"), "{refused}");
    assert!(sandbox.calls("scancel").is_empty());
    let shown = sandbox.run("status two --format json").exits(0).json();
    assert_eq!(shown["scripts"].as_array().map(Vec::len), Some(1), "{shown}");
    sandbox.run("cancel two").exits(0);
    assert_eq!(sandbox.calls("scancel").len(), 1);
    assert_eq!(
        sandbox.run("cancel train.sh --dry-run").exits(0).stdout,
        "train.sh: would be cancelled (jobs 8)\n"
    );
}

#[test]
fn a_script_may_have_any_name_of_one_line() {
    for name in ["script", "report", "wrapper", "a b"] {
        let sandbox = with("").file(name, "#!/bin/bash\nexit 0\n");
        let ran = sandbox.run(&format!("submit '{name}' --pieces 12h")).exits(0);
        assert!(
            ran.stdout.starts_with(&format!("{name}: submitted as job 8, the first piece of 12 h\n")),
            "{}",
            ran.stdout
        );
        let wrapper = PathBuf::from(&sandbox.calls("sbatch")[0][1]);
        assert_eq!(ended(piece(&sandbox, &wrapper)).0, Some(0), "{name}");
    }
    let sandbox = with("").file("a\nrm x", "#!/bin/bash\n");
    let refused = sandbox.run("submit 'a\nrm x' --pieces 12h").exits(78).stderr;
    assert!(refused.contains("the name of the script has a control character"), "{refused}");
    assert!(sandbox.calls("sbatch").is_empty());
    let ran = with("exit 0\n").run("submit train.sh --pieces 12h -- --time=1:00:00").exits(0);
    assert!(ran.stderr.contains("note: the limit is that of --pieces"), "{}", ran.stderr);
}

#[test]
fn a_chain_whose_piece_was_cancelled_in_slurm_is_over() {
    let sandbox = with("exit 0\n");
    let report = report(&wrapper(&sandbox, ""));
    std::fs::write(report.join("started"), "7\n").expect("written");
    std::fs::write(report.join("queued"), "7\n8\n").expect("written");
    std::fs::write(report.join("ends"), "7 143 saved\n").expect("written");
    let state = || sandbox.run("status --format json").exits(0).json()["scripts"][0]["state"].clone();
    assert_eq!(state(), "pending");
    std::os::unix::fs::symlink("7", report.join("claim-after-7")).expect("a link");
    assert_eq!(state(), "cancelled");
}
