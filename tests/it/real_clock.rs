//! The fast clock of `dev-cluster --speed`: a program that dies with its lock does not block others.

use std::fs;
use std::path::Path;

use crate::real_cluster::{repository, start_fast};
use crate::real_user::{Done, TestUser, wait_for};

/// Takes the lock of the clock, and kills or stops itself with the given signal while it holds the lock.
const THIEF: &str = "\
import ctypes, os, sys
lib = ctypes.CDLL(None)
lib.sem_open.restype = ctypes.c_void_p
lock = ctypes.c_void_p(lib.sem_open(sys.argv[1].encode(), 0))
assert lib.sem_wait(lock) == 0
os.kill(os.getpid(), int(sys.argv[2]))
lib.sem_post(lock)
";

/// Returns the number of times that the lock can be taken now.
fn free(lock: &str) -> u32 {
    let file = format!("/dev/shm/sem.{}", lock.trim_start_matches('/'));
    let bytes = fs::read(file).expect("a semaphore");
    u32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"))
}

fn pids(cluster: &Path) -> Vec<String> {
    let mut files: Vec<_> = fs::read_dir(cluster.join("run"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "pid"))
        .map(|path| fs::read_to_string(path).expect("a pid"))
        .collect()
}

#[test]
fn a_killed_program_does_not_stop_the_fast_clock() {
    let Some(cluster) = start_fast(&repository().join("slurm/nodes/mig-only.nodes")) else { return };
    let (user, folder) = (TestUser::new(&cluster, "clock", ""), cluster.directory());
    let script = repository().join("slurm/dev-cluster").display().to_string();
    let folder_text = folder.display().to_string();
    let clock = fs::read_to_string(folder.join("etc/clock")).expect("the clock's variables");
    let shared = clock.lines().find_map(|line| line.strip_prefix("FAKETIME_SHARED=")).expect("a lock");
    let lock = shared.split(' ').next().expect("a name");
    let before = pids(&folder);

    let killed = Done::of(user.program("python3").args(["-c", THIEF, lock, "9"]));
    assert_eq!((killed.code, killed.stderr.as_str()), (None, ""));
    // This command hung in an earlier version.
    let by_clock = ["clock", "--dir", &folder_text, "--", "squeue", "-h"];
    let done = Done::of(user.program("timeout").args(["60", &script]).args(by_clock));
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));

    // A process that was only stopped gives the lock back, too, when it continues; the lock must still be
    // free only once.
    let mut stopped = user.program("python3").args(["-c", THIEF, lock, "19"]).spawn().expect("a program");
    wait_for("the lock is freed again", || user.read(folder.join("log/clock.out")).lines().nth(1).map(drop));
    user.ask("kill", &["-CONT", &stopped.id().to_string()]);
    assert!(stopped.wait().expect("ends").success());
    wait_for("one can take the lock", || (free(lock) == 1).then_some(()));

    let status = Done::of(user.program(&script).args(["status", "--dir", &folder_text]));
    assert_eq!(status.code, Some(0), "{}{}", status.stdout, status.stderr);
    let said = format!(
        "dev-cluster: programs that were killed or stopped held the clock's lock; it was freed (2): {folder_text}/log/clock.out\n"
    );
    assert_eq!(status.stderr, said);
    assert_eq!(pids(&folder), before, "no daemon was touched");
}
