//! `hsched run` under faults: killed, unresponsive, failing and leftover processes, a full disk, many ends at once.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hsched_engine::pool::PoolPlan;
use hsched_engine::store::PoolFolder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::cli_run::{Bench, Session, job};
use crate::sandbox::Sandbox;

#[test]
fn a_job_that_does_not_hear_the_signal_is_killed_after_its_grace() {
    let bench = Bench::new(&[job("a", 2, "env: {DEAF: 1, PACE: 60}").replace("grace: 5s", "grace: 0s")]);
    let session = bench.start("run jobs.yaml --devices cpu:1");
    bench.await_that("a process", || bench.processes().iter().any(|process| process.contains("sleep")));
    session.signal(Signal::SIGTERM);
    bench.end(session).exits(85);
    assert_eq!(bench.processes(), Vec::<String>::new());
    assert_eq!(bench.sandbox.phase(0), "waiting");
}

/// The script has set no trap, so the request to stop kills it.
#[test]
fn a_script_that_is_asked_to_stop_before_it_listens_has_stopped() {
    let sandbox =
        Sandbox::new().file("early.sh", "echo started; exec sleep 600\n").variable("PATH", "/usr/bin:/bin");
    let mut command = sandbox.command(&["guard", "early.sh", ".", "mark", "0", "false"]);
    let mut guard = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut line = String::new();
    let mut said = std::io::BufReader::new(guard.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut said, &mut line).expect("reads");
    // `wait` would close the pipe of the guard, which would kill the script.
    let mut words = guard.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut words, b"s").expect("writes");
    assert_eq!(guard.wait().expect("ends").code(), Some(85));
}

/// Slurm ends all processes of an allocation, including a guard whose script waits for devices.
#[test]
fn a_guard_that_is_asked_to_end_before_its_script_starts_ends_by_the_signal() {
    let bench = Bench::new(&[]);
    let file = |name: &str| bench.sandbox.work(name);
    fs::write(file("late.sh"), "touch started\n").expect("a file");
    let mut command = bench.sandbox.command(&["guard", "late.sh", ".", "mark", "0", "true"]);
    let mut guard = command.stdin(Stdio::piped()).spawn().expect("starts");
    // `wait` would close the pipe of the guard, which would end it.
    let words = guard.stdin.take().expect("a pipe");
    // Without handling of signals, it would end by the signal in any case.
    bench.await_that("a guard that handles signals", || file("mark").exists());
    kill(Pid::from_raw(guard.id().cast_signed()), Signal::SIGTERM).expect("is there");
    let status = guard.wait().expect("ends");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGTERM as i32));
    assert!(!file("started").exists());
    drop(words);
}

#[test]
fn a_second_interrupt_ends_all_at_once() {
    let bench = Bench::new(&[job("a", 2, "env: {DEAF: 1, PACE: 60}").replace("grace: 5s", "grace: 600s")]);
    let mut session = bench.start("run jobs.yaml --devices cpu:1");
    bench.await_that("a process", || bench.processes().iter().any(|process| process.contains("sleep")));
    session.signal(Signal::SIGINT);
    // Once hsched has printed its message, it is ready for a second SIGINT.
    let mut said = std::io::BufReader::new(session.0.as_mut().expect("runs").stderr.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).expect("reads");
    assert!(line.contains("Ctrl-C again"), "{line}");
    session.signal(Signal::SIGINT);
    bench.end(session).exits(130);
    assert_eq!(bench.processes(), Vec::<String>::new());
}

/// Two members of a pool, each with a job that does not save.
#[test]
fn a_second_signal_ends_a_member_of_a_pool_at_once() {
    let deaf = |name: &str| job(name, 2, "env: {DEAF: 1, PACE: 60}").replace("grace: 5s", "grace: 600s");
    let bench = Bench::new(&[deaf("a"), deaf("b")]);
    let at_work = || bench.processes().iter().filter(|process| process.contains("sleep")).count();
    // A first run leaves its jobs to the pool.
    let first = bench.start("run jobs.yaml --devices cpu:1");
    bench.await_that("a process", || at_work() == 1);
    drop(first);
    bench.await_that("its end", || at_work() == 0);
    let pool = PoolFolder::create(&bench.sandbox.state("")).expect("a pool");
    pool.write_plan(&PoolPlan { capacity: 1, ..PoolPlan::default() }).expect("writes");
    let member = |id: u32| {
        let words = [
            "--default-signal=INT".to_owned(),
            format!("SLURM_JOB_ID={id}"),
            env!("CARGO_BIN_EXE_hsched").to_owned(),
            "run".to_owned(),
            "--devices".to_owned(),
            "cpu:1".to_owned(),
        ];
        let mut command = bench.sandbox.start("/usr/bin/env", &words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let session = Session(Some(command.spawn().expect("starts")));
        bench.await_that("a process", || at_work() == usize::try_from(id).expect("a number"));
        session
    };
    let leader = member(1);
    let mut other = member(2);
    other.signal(Signal::SIGTERM);
    // Once the member has printed its message, it is ready for a second SIGTERM.
    let said = std::io::BufReader::new(other.0.as_mut().expect("runs").stderr.take().expect("a pipe"));
    let mut said = std::io::BufRead::lines(said).map_while(Result::ok);
    assert!(said.any(|line| line.contains("leaving the pool: asking the running jobs to save")));
    other.signal(Signal::SIGTERM);
    bench.end(other).exits(0);
    drop(leader);
    bench.await_that("its end", || at_work() == 0);
}

#[test]
#[ignore = "waits for half a minute or more: tests/long runs it"]
fn a_rank_that_is_stopped_is_told_within_90_seconds() {
    let command = "\"echo $BASHPID >pid-$RANK; exec sleep 600\"";
    let bench = Bench::new(&[job("a", 2, "min_gpus: 2").replace("[bash, train.sh]", command)]);
    let mut session = bench.start("run jobs.yaml --devices cpu:2");
    let output = session.0.as_mut().expect("runs").stdout.take().expect("a pipe");
    let rank = || fs::read_to_string(bench.sandbox.work("pid-1")).ok()?.trim().parse().ok();
    bench.await_that("rank 1", || rank().is_some());
    kill(Pid::from_raw(rank().expect("a process")), Signal::SIGSTOP).expect("is there");
    let stopped = Instant::now();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output)).map_while(Result::ok);
    let told = lines.find(|line| line.contains("a: rank 1 was stopped by a signal"));
    assert!(told.is_some() && stopped.elapsed() < Duration::from_secs(90), "{told:?} {stopped:?}");
    session.signal(Signal::SIGTERM);
    let _ = lines.count();
    drop(bench.end(session));
    assert_eq!(bench.processes(), Vec::<String>::new());
}

/// Kills hsched repeatedly at random moments, and then lets it complete its jobs.
fn survives_kills(kills: u32, seed: u64) {
    let bench = Bench::new(&[
        job("a", 4 * kills, "max_gpus: 1, retries: 0"),
        job("b", 3 * kills, "min_gpus: 2, retries: 0"),
        job("c", kills, "retries: 0"),
    ]);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for _ in 0..kills {
        let session = bench.start("run jobs.yaml --devices cpu:3");
        std::thread::sleep(Duration::from_millis(random.random_range(0..700)));
        session.signal(Signal::SIGKILL);
        drop(bench.end(session));
        bench.await_that("all its processes end", || bench.processes().is_empty());
    }
    let ran = bench.run("run jobs.yaml --devices cpu:3").exits(0);
    for (name, epochs) in [("a", 4 * kills), ("b", 3 * kills), ("c", kills)] {
        assert!(ran.stdout.contains(&format!("{epochs}/{epochs}")), "{}", ran.stdout);
        bench.did_each_epoch_once(name, epochs);
    }
}

#[test]
fn nothing_is_lost_or_left_behind_when_hsched_is_killed() {
    survives_kills(6, 1);
}

#[test]
#[ignore = "takes minutes: tests/long runs it"]
fn nothing_is_lost_or_left_behind_when_hsched_is_killed_200_times() {
    survives_kills(200, 2);
}

/// When an allocation loses a node, Slurm ends all its processes: a guard may get the signal before
/// `hsched run` does.
#[test]
fn a_job_whose_guard_is_asked_to_end_is_interrupted_and_uses_no_retry() {
    let bench = Bench::new(&[job("a", 6, "retries: 0, env: {PACE: 0.3}")]);
    let session = bench.start("run jobs.yaml --devices cpu:1");
    bench.await_that("an epoch", || !bench.saved("a").is_empty());
    let status = || -> serde_json::Value {
        serde_json::from_str(&bench.sandbox.run("status --format json").succeeds()).expect("JSON")
    };
    let guard = status()["jobs"][0]["job_id"].as_str().and_then(|id| id.parse().ok()).expect("a process");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(guard), Signal::SIGTERM).expect("is there");
    bench.end(session).exits(0);
    let job = &status()["jobs"][0];
    let ends: Vec<&str> =
        job["runs"].as_array().expect("runs").iter().filter_map(|run| run["end"].as_str()).collect();
    assert_eq!((ends, &job["failures"]), (vec!["was interrupted", "completed"], &0.into()));
    bench.did_each_epoch_once("a", 6);
}

#[test]
fn a_rank_that_is_killed_ends_the_others_and_uses_a_retry() {
    // Rank 0 must not have completed when rank 1 is killed.
    let once = "if ((RANK == 1)) && [[ ! -e died ]]; then touch died; kill -9 $$; fi; until [[ -e died ]]; do sleep 0.05; done; exec bash train.sh";
    let bench = Bench::new(&[job("a", 3, "min_gpus: 2, retries: 1, env: {PACE: 0.5}")
        .replace("[bash, train.sh]", &format!("{once:?}"))]);
    let ran = bench.run("run jobs.yaml --devices cpu:2 --set retry_delay=1s").exits(0);
    assert!(ran.stdout.contains("failed with exit status 137"), "{}", ran.stdout);
    bench.did_each_epoch_once("a", 3);
}

#[test]
fn a_job_that_fails_for_good_is_said_to_and_the_others_complete() {
    let bench =
        Bench::new(&[job("bad", 3, "retries: 0").replace("[bash, train.sh]", "exit 3"), job("good", 3, "")]);
    let ran = bench.run("run jobs.yaml --devices cpu:1").exits(1);
    assert!(ran.stdout.contains("failed with exit status 3"), "{}", ran.stdout);
    bench.did_each_epoch_once("good", 3);
}

#[test]
fn what_a_job_leaves_in_the_background_ends_with_it() {
    let entry =
        job("a", 1, "").replace("[bash, train.sh]", "\"(setsid sleep 600 &) ; sleep 600 & bash train.sh\"");
    let bench = Bench::new(&[entry]);
    bench.run("run jobs.yaml --devices cpu:1").exits(0);
    assert_eq!(bench.processes(), Vec::<String>::new());
}

/// The training leaves the session and the tree of its guard, as servers do, so that only its environment identifies
/// it.
#[test]
fn what_has_left_a_guard_that_was_killed_is_ended_before_the_job_starts_again() {
    let daemon = "\"setsid --fork bash train.sh; until ((HSCHED_EPOCHS == $(wc -l <$HSCHED_CHECKPOINT_DIR/epochs || echo 0))); do sleep 0.05; done\"";
    let entry = job("a", 30, "retries: 0").replace("[bash, train.sh]", daemon);
    let bench = Bench::new(&[entry]);
    let session = bench.start("run jobs.yaml --devices cpu:1");
    bench.await_that("two epochs", || bench.saved("a").len() >= 2);
    // Neither process learns of the end of the other one.
    session.signal(Signal::SIGSTOP);
    for guard in bench.guards() {
        kill(Pid::from_raw(guard), Signal::SIGKILL).expect("is there");
    }
    session.signal(Signal::SIGKILL);
    drop(bench.end(session));
    assert_ne!(bench.processes(), Vec::<String>::new());
    let before = bench.saved("a").len();
    // If the process that is left still ran, the job would fail; it has no retry.
    bench.run("run --devices cpu:1").exits(0);
    bench.did_each_epoch_once("a", 30);
    assert!(before < 30, "the training ended before it could be found");
    assert_eq!(bench.processes(), Vec::<String>::new());
}

/// A job fills the disk of the state directory for a while: only time is lost.
#[test]
fn a_full_disk_is_waited_for() {
    let fill = "(trap '' USR1; cat /dev/zero >$HSCHED_STATE_DIR/full; sleep 4; rm $HSCHED_STATE_DIR/full) 2>/dev/null";
    let entry = job("a", 12, "max_gpus: 1, env: {PACE: 0.5}")
        .replace("[bash, train.sh]", &format!("\"bash train.sh & {fill}; wait $!\""));
    // In the meantime, another job ends, which must be recorded.
    let short = job("b", 1, "max_gpus: 1").replace("[bash, train.sh]", "sleep 2");
    let bench = Bench::new(&[entry.replace("wait $!", "wait"), short]);
    fs::create_dir(bench.sandbox.path("disk")).expect("a folder");
    let disk = bench.sandbox.path("disk").display().to_string();
    // Only programs of this shell see this mount, which disappears with them.
    let script = "mount -t tmpfs -o size=4m,mode=700 none \"$1\" || exit 99; shift; exec \"$@\"";
    let hsched = env!("CARGO_BIN_EXE_hsched");
    let shell = ["-rm", "/bin/sh", "-c", script, "sh", disk.as_str(), hsched];
    let words = ["run", "jobs.yaml", "--devices", "cpu:2"];
    let mut command = bench.sandbox.start("/usr/bin/unshare", &[&shell[..], &words].concat());
    let ran = command.env("HSCHED_STATE_DIR", &disk).output().ok().map(|output| bench.sandbox.ran(&output));
    let Some(ran) = ran.filter(|ran| ran.code != Some(99) && !ran.stderr.starts_with("unshare:")) else {
        println!("skipped: no small disk can be mounted here");
        return;
    };
    let ran = ran.exits(0);
    assert!(ran.stderr.contains("; retrying") && ran.stderr.contains("working again"), "{}", ran.stderr);
    assert_eq!(bench.saved("a"), (1..=12).collect::<Vec<_>>());
}

/// The disk is full from the second epoch on, while the job continues and hsched is asked to end.
#[test]
fn on_a_full_disk_everything_is_said_once_and_a_signal_ends_it_as_always() {
    let bench = Bench::new(&[job("a", 60, "")]);
    fs::create_dir(bench.sandbox.path("disk")).expect("a folder");
    let disk = bench.sandbox.path("disk").display().to_string();
    let script = r#"
mount -t tmpfs -o size=4m,mode=700 none "$1" || exit 99
epochs() { until [ "$(wc -l 2>/dev/null <checkpoints/a/epochs || echo 0)" -ge "$1" ]; do sleep 0.02; done; }
"$2" run jobs.yaml --devices cpu:1 & hsched=$!
epochs 2; cat /dev/zero >"$1/full" 2>/dev/null; epochs 12
kill -TERM $hsched; wait $hsched; echo "exit $?"
rm "$1/full"
exec "$2" run --devices cpu:1
"#;
    let shell = ["-rm", "/bin/sh", "-c", script, "sh", disk.as_str(), env!("CARGO_BIN_EXE_hsched")];
    let mut command = bench.sandbox.start("/usr/bin/unshare", &shell);
    let ran = command.env("HSCHED_STATE_DIR", &disk).output().ok().map(|output| bench.sandbox.ran(&output));
    let Some(ran) = ran.filter(|ran| ran.code != Some(99) && !ran.stderr.starts_with("unshare:")) else {
        println!("skipped: no small disk can be mounted here");
        return;
    };
    let ran = ran.exits(0);
    assert!(ran.stdout.contains("\nexit 85\n"), "{}", ran.stdout);
    assert!(ran.stderr.contains("the last events are not in the state"), "{}", ran.stderr);
    let tried: Vec<&str> =
        ran.stderr.lines().filter_map(|line| line.split_once(" cannot ")).map(|(_, said)| said).collect();
    let tried = tried.iter().filter(|said| said.ends_with("; retrying"));
    let is_new = tried.clone().collect::<std::collections::BTreeSet<_>>().len();
    assert!(is_new > 0 && tried.count() == is_new, "{}", ran.stderr);
    for epoch in 1..=60 {
        let said = format!("a: epoch {epoch} of 60 done");
        assert_eq!(ran.stdout.matches(&said).count(), 1, "{said}: {}", ran.stdout);
    }
    assert_eq!(bench.saved("a"), (1..=60).collect::<Vec<_>>());
}

#[test]
#[ignore = "starts 200 jobs at a time: tests/long runs it"]
fn two_hundred_jobs_end_at_once() {
    let jobs: Vec<String> = (0..200).map(|n| job(&format!("j{n}"), 1, "max_gpus: 1")).collect();
    let bench = Bench::new(&jobs);
    let ran = bench.run("run jobs.yaml --devices cpu:200").exits(0);
    assert!(ran.stdout.contains("200 completed"), "{}", ran.stdout);
    (0..200).for_each(|n| bench.did_each_epoch_once(&format!("j{n}"), 1));
}

/// Checks that a command without reports runs once if it returns 0 and hsched gets a signal right after that.
fn completes_once(signal: Signal, code: Option<i32>) {
    let command = "command: \"echo ran >>ran\"";
    let silent = job("a", 1, "").replace("command: [bash, train.sh]", command);
    assert!(silent.contains("echo ran"), "{silent}");
    let bench = Bench::new(&[silent]);
    let session = bench.start("run jobs.yaml --devices cpu:1");
    let runs = bench.sandbox.state("runs");
    let has_returned = || {
        let folders = fs::read_dir(&runs).into_iter().flatten().flatten();
        let reports = folders.filter_map(|run| fs::read_dir(run.path().join("report/a")).ok());
        let mut names = reports.flatten().flatten().map(|entry| entry.file_name());
        names.any(|name| name.to_string_lossy().starts_with(".returned."))
    };
    bench.await_that("the command returns", has_returned);
    session.signal(signal);
    let ran = bench.end(session);
    if let Some(code) = code {
        ran.exits(code);
    }
    bench.await_that("all its processes end", || bench.processes().is_empty());
    bench.run("run --devices cpu:1").exits(0);
    assert_eq!(fs::read_to_string(bench.sandbox.work("ran")).expect("a file"), "ran\n");
    assert_eq!(bench.sandbox.phase(0), "completed");
}

#[test]
fn a_command_that_had_returned_0_is_not_run_again_after_a_kill() {
    completes_once(Signal::SIGKILL, None);
}

#[test]
fn a_command_that_had_returned_0_before_a_stop_has_completed() {
    completes_once(Signal::SIGUSR1, Some(0));
}
