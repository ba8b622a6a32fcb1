//! `hsched submit SCRIPT --pieces` on a real Slurm: a script that does not use hsched trains to its end
//! exactly once, despite time limits and kills.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::real_user::{TestUser, user, wait_within};

/// Saves every second, which represents a minute, and handles no signal.
const TRAIN: &str = r#"
import os, pathlib, time
saved = pathlib.Path("last.ckpt")
step = int(saved.read_text()) if saved.exists() else 0
with open("starts", "a") as file: print(os.environ["SLURM_JOB_ID"], step, os.getpid(), file=file)
while step < 100:
    time.sleep(1)
    step += 1
    pathlib.Path("new").write_text(str(step))
    os.rename("new", saved)
"#;

const SCRIPT: &str = "#!/bin/bash\n#SBATCH --gres=gpu:v100:1\n#SBATCH --output=out-%j\n\
    echo $PPID >shell\npython3 train.py || exit\necho $SLURM_JOB_ID >>ends\n";

/// Maximum wait for a piece, whose limit is a minute.
const PATIENCE: Duration = Duration::from_secs(150);

/// Returns the observed starts: job, step and process.
fn starts(user: &TestUser) -> Vec<[i32; 3]> {
    let text = user.read("starts");
    let start = |line: &str| {
        let words: Vec<i32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        <[i32; 3]>::try_from(words).ok()
    };
    text.lines().filter_map(start).collect()
}

/// Waits until the piece of this number has saved, and returns its start.
fn saved(user: &TestUser, number: usize) -> [i32; 3] {
    let saved = || {
        let start = *starts(user).get(number - 1)?;
        (user.read("last.ckpt").parse::<i32>().ok()? > start[1]).then_some(start)
    };
    let piece = wait_within(PATIENCE, saved);
    piece.unwrap_or_else(|| panic!("piece {number}: {:?}", starts(user)))
}

#[test]
#[ignore = "takes three minutes: tests/long runs it"]
fn a_script_that_saves_ends_once_through_three_limits_and_two_kills() {
    let Some(user) = user("pieces", "") else { return };
    user.write("train.py", TRAIN);
    user.write("train.sh", SCRIPT);
    user.submit(&["train.sh", "--pieces", "1m"]);
    // In the second piece, the training is killed, and in the fourth, all processes.
    let [_, _, training] = saved(&user, 2);
    kill(Pid::from_raw(training), Signal::SIGKILL).expect("a process");
    saved(&user, 4);
    let shell: i32 = user.read("shell").trim().parse().expect("a process");
    kill(Pid::from_raw(shell), Signal::SIGKILL).expect("a process");
    let is_over = || {
        let queue = user.ask("squeue", &["-h", "-n", "train.sh", "-o", "%i"]);
        (!user.read("ends").is_empty() && queue.trim().is_empty()).then_some(())
    };
    wait_within(2 * PATIENCE, is_over).unwrap_or_else(|| panic!("no end: {:?}", starts(&user)));
    let starts = starts(&user);
    assert_eq!(user.read("ends").lines().count(), 1, "{starts:?}");
    assert_eq!(user.read("last.ckpt"), "100");
    // Each piece is another job and resumes after the last saved step.
    assert!(starts.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] < pair[1][1]), "{starts:?}");
    let folder = std::fs::read_dir(user.folder.join("state/pieces")).expect("a folder").next().expect("one");
    let ends = std::fs::read_to_string(folder.expect("an entry").path().join("report/ends")).expect("ends");
    let cut = ends.lines().filter(|line| line.ends_with(" 85 saved")).count();
    // One of the records is that of the piece whose training was killed; the piece that was killed as a whole
    // has recorded nothing.
    assert!(cut > 3 && cut + 2 == starts.len(), "{ends}{starts:?}");
}
