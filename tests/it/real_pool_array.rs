//! A pool whose allocations are tasks of a job array, on a real Slurm.

use std::cell::Cell;
use std::fs;
use std::time::Duration;

use crate::real_pool::{Pool, cluster, now};
use crate::real_user::{TestUser, wait_for, wait_within};
use crate::sandbox::write_program;

/// An `sbatch` that submits, but does not get Slurm's answer.
const DEAF: &str = "#!/bin/sh
PATH=${PATH#*:}
sbatch \"$@\" >/dev/null
echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
exit 1
";

/// Returns the ids of the tasks in the queue with this state.
fn tasks(pool: &Pool<'_>, state: &str) -> Vec<String> {
    let text =
        pool.user.ask("squeue", &["--noheader", "--array", &format!("--states={state}"), "--format=%i"]);
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn tasks_of_an_array_run_each_job_once_although_an_answer_is_lost_and_the_leader_is_killed() {
    let Some(cluster) = cluster() else { return };
    let user = TestUser::new(&cluster, "array", "");
    let folder = user.folder.join("deaf");
    fs::create_dir(&folder).expect("a folder");
    write_program(&folder.join("sbatch"), DEAF);
    let path = user.path_after(&folder);
    let options = ["--gpus", "2", "--time", "5m", "--at-most", "2", "--array"];
    let pool = Pool::submit_with(user, 16, 1.5, &options, &[("PATH", &path)]);
    let (array, first) = pool.allocations[0].split_once('_').expect("a task");
    assert_eq!((first, &pool.allocations[1]), ("1", &format!("{array}_2")));
    let most = Cell::new(0);
    let wait = |runs: usize| {
        wait_for("some runs", || {
            most.set(most.get().max(tasks(&pool, "RUNNING").len()));
            (pool.ended() >= runs).then_some(())
        });
    };
    wait(2);
    let killed = pool.kill_leader();
    wait(16);
    // No task is left when the jobs have ended.
    pool.wait_for_end(Duration::from_secs(300));
    pool.check(&[killed.1]);
    assert_eq!(most.get(), 2, "{}", pool.output());
    assert_eq!(pool.completed(), 16, "{}", pool.output());
}

#[test]
#[ignore = "takes five minutes"]
fn the_next_task_continues_after_a_time_limit_and_the_last_one_submits_the_array_again() {
    let Some(cluster) = cluster() else { return };
    let user = TestUser::new(&cluster, "limits", "");
    // A task takes runs for about 24 s, two at a time. A run takes a second and the time to start, so the
    // eight tasks of an array are not enough for all runs.
    let options = ["--gpus", "cpu:2", "--time", "1m", "--at-most", "2", "--array"];
    let pool = Pool::submit(user, 300, 1.0, &options);
    let array = pool.allocations[0].split_once('_').expect("a task").0.to_owned();
    let (most, arrays) = (Cell::new(0), Cell::new(1));
    let wait = |what: &str, runs: usize| {
        let reached = wait_within(Duration::from_secs(600), || {
            most.set(most.get().max(tasks(&pool, "RUNNING").len()));
            if tasks(&pool, "RUNNING,PENDING").iter().any(|id| !id.starts_with(&format!("{array}_"))) {
                arrays.set(2);
            }
            (pool.ended() >= runs).then_some(())
        });
        assert!(reached.is_some(), "{what}: {} runs\n{}", pool.ended(), pool.output());
    };
    wait("before the kill", 30);
    let killed = pool.kill_leader();
    wait("before the loss of a node", 120);
    let text = pool.user.ask("squeue", &["--noheader", "--states=RUNNING", "--format=%N"]);
    let node = text.lines().next().expect("a node").trim().to_owned();
    let lost = now();
    cluster.node("kill", &node);
    wait("before the node is back", 150);
    cluster.node("up", &node);
    wait("the last run", 300);
    pool.wait_for_end(Duration::from_secs(90));
    pool.check(&[killed.1, lost]);
    let said = pool.output();
    assert!(
        said.contains("the next task of the job array continues") || said.contains("leaving the pool"),
        "{said}"
    );
    assert_eq!((most.get(), arrays.get()), (2, 2), "{said}");
    assert_eq!(pool.completed(), 300, "{said}");
}
