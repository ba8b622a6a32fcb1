//! A pool of allocations on a real Slurm: each run is executed once, even if allocations fail.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::real_cluster::{Cluster, start, start_with_limits};
use crate::real_user::{TestUser, wait_for, wait_within};

/// Returns a cluster for one test alone that soon notices the loss of a node.
pub fn cluster() -> Option<Cluster> {
    start(nodes().path(), TIMEOUTS)
}

/// Returns a cluster like that of [`cluster`], in which the user may have this number of jobs.
fn cluster_with_limit(jobs: u32) -> Option<Cluster> {
    let cluster = start_with_limits(nodes().path(), TIMEOUTS)?;
    let user = TestUser::new(&cluster, "administrator", "");
    let name = user.ask("id", &["--user", "--name"]).trim().to_owned();
    for words in [
        vec!["create", "account", "lab"],
        vec!["create", "user", &name, "account=lab", "defaultaccount=lab"],
        vec!["modify", "user", &name, "set", &format!("MaxSubmitJobs={jobs}")],
    ] {
        user.ask("sacctmgr", &[&["-i"], &words[..]].concat());
    }
    drop(user);
    Some(cluster)
}

fn nodes() -> tempfile::NamedTempFile {
    let nodes = tempfile::NamedTempFile::new().expect("a file");
    let text =
        "w[1-4] cpus=16 memory=64000 gpus=v100:2\npartition main default max_time=60 default_time=10\n";
    fs::write(nodes.path(), text).expect("writes");
    nodes
}

/// A pool that was submitted.
pub struct Pool<'a> {
    pub user: TestUser<'a>,
    runs: u32,
    /// The state directory.
    pub state: PathBuf,
    /// The ids of the first Slurm jobs.
    pub allocations: Vec<String>,
    /// The times at which each Slurm job was first observed running, initially and after each requeue.
    began: RefCell<BTreeMap<String, Vec<f64>>>,
    /// Slurm jobs that have started and have not been observed pending since.
    running: RefCell<BTreeSet<String>>,
}

/// Slurm's timeouts, with which it soon notices the loss of a node.
const TIMEOUTS: &str = "8/3/1";

/// An event of a Slurm job: the id of the job, and the time in seconds since 1970.
pub type Cut = (String, f64);

/// Time that a script may take to record its end, in seconds.
const TO_LEAVE_WORD: f64 = 1.0;

/// Maximum wait of a run while a slot is free, in seconds.
const LONGEST_WAIT: f64 = 10.0;

impl<'a> Pool<'a> {
    /// Submits this number of runs of some seconds each.
    pub fn submit(user: TestUser<'a>, runs: u32, seconds: f64, options: &[&str]) -> Self {
        Self::submit_with(user, runs, seconds, options, &[])
    }

    /// Submits runs like [`Self::submit`], with further environment variables.
    pub fn submit_with(
        user: TestUser<'a>,
        runs: u32,
        seconds: f64,
        options: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let values: Vec<String> = (1..=runs).map(|run| run.to_string()).collect();
        user.write(
            "jobs.yaml",
            &format!(
                "jobs:\n  - name: s\n    samples_per_epoch: 1\n    epochs: 1\n    global_batch: 1\n    model_size: 0\n    \
                 max_gpus: 1\n    checkpoint: {{grace: 1s}}\n    command: \"echo start $SLURM_JOB_ID $(date +%s.%N) >>log.$I; \
                 sleep {seconds} && echo end $SLURM_JOB_ID $(date +%s.%N) >>log.$I\"\n    sweep: {{i: [{}]}}\n",
                values.join(", ")
            ),
        );
        let words = ["submit", "--pack", "jobs.yaml", "--format", "json"];
        let done = user.hsched_with(environment, &[&words[..], options].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let said: Value = serde_json::from_str(&done.stdout).expect("JSON");
        let allocations = said["allocations"].as_array().expect("a list");
        assert_eq!(
            (&allocations[0]["job_id"], &allocations[0]["script"]),
            (&said["job_id"], &said["script"])
        );
        let id = |entry: &Value| entry["job_id"].as_str().expect("an id").to_owned();
        let (state, allocations) =
            (said["state_dir"].as_str().expect("a path").into(), allocations.iter().map(id).collect());
        Self { user, runs, state, allocations, began: RefCell::default(), running: RefCell::default() }
    }

    /// Returns the lines of a run's log: each is a start or an end, with the Slurm job and the time.
    fn log(&self, run: u32) -> Vec<(String, String, f64)> {
        let text = fs::read_to_string(self.user.folder.join(format!("log.{run}"))).unwrap_or_default();
        let line = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let (what, job) = (words.next().expect("a word"), words.next().expect("a job"));
            (what, job, words.next().expect("a time").parse().expect("a number"))
        };
        text.lines().map(line).collect()
    }

    pub fn ended(&self) -> usize {
        (1..=self.runs).filter(|run| self.log(*run).iter().any(|(what, ..)| what == "end")).count()
    }

    /// Returns how many times a run was asked to save before it had ended, from the records of its scripts.
    fn interruptions(&self, run: u32) -> usize {
        let runs = self.state.join("runs");
        let ends = |folder: fs::DirEntry| {
            fs::read_to_string(folder.path().join(format!("report/s-i{run}/ends"))).unwrap_or_default()
        };
        let folders = runs.read_dir().expect("runs").map(|entry| entry.expect("a run"));
        folders.map(ends).map(|ends| ends.matches(" interrupted").count()).sum()
    }

    /// Checks that each run ended once and that no two executions of one overlapped. A run that ended within
    /// a second of one of the `kills` may have been repeated, because its script may not have recorded the
    /// end; so may a run that ended just when it was asked to save.
    pub fn check(&self, kills: &[f64]) {
        for run in 1..=self.runs {
            let mut log = self.log(run);
            let is_cut = |(what, _, at): &(String, String, f64)| {
                what == "end" && kills.iter().any(|kill| (kill - TO_LEAVE_WORD..kill + 1.0).contains(at))
            };
            let is_end = |(what, ..): &(String, String, f64)| what == "end";
            if log.len() > 2
                && (log.get(1).is_some_and(is_cut)
                    || log.get(1).is_some_and(is_end) && self.interruptions(run) > 0)
            {
                log.drain(..2);
            }
            let ends: Vec<_> = log.iter().filter(|(what, ..)| what == "end").collect();
            assert_eq!(ends.len(), 1, "run {run}: {log:?}");
            let (_, job, end) = ends[0];
            let starts = log.iter().filter(|(what, ..)| what == "start");
            let last_start =
                starts.clone().filter(|(_, by, _)| by == job).map(|(.., at)| *at).fold(0.0, f64::max);
            assert!(
                last_start > 0.0 && starts.clone().all(|(.., at)| *at <= last_start),
                "run {run}: {log:?}"
            );
            assert!(*end > last_start, "run {run}: {log:?}");
        }
    }

    /// Returns the jobs in the queue by id, with their states and nodes, and records the times at which they
    /// were first observed running. The pending tasks of a job array count as one job.
    fn queue(&self) -> BTreeMap<String, (String, String)> {
        let text = self.user.ask("squeue", &["--noheader", "--format=%A %T %N"]);
        let job = |line: &str| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some((words.next()?, (words.next()?, words.next().unwrap_or_default())))
        };
        let queue: BTreeMap<String, (String, String)> = text.lines().filter_map(job).collect();
        let mut running = self.running.borrow_mut();
        for (id, (state, _)) in &queue {
            // Before its end, a job is SIGNALING for a moment.
            if state == "PENDING" {
                running.remove(id);
            } else if state == "RUNNING" && running.insert(id.clone()) {
                self.began.borrow_mut().entry(id.clone()).or_default().push(now());
            }
        }
        drop(running);
        queue
    }

    /// Returns the number of Slurm jobs in the queue; a running job and its pending successor, which has the same script,
    /// count as one.
    fn jobs_of_scripts(&self) -> usize {
        let text = self.user.ask("squeue", &["--noheader", "--format=%T %o"]);
        let mut states: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (state, script) in text.lines().filter_map(|line| line.split_once(' ')) {
            let (pending, others) = states.entry(script.trim()).or_default();
            *if state == "PENDING" { pending } else { others } += 1;
        }
        states.into_values().map(|(pending, others)| pending.max(others)).sum()
    }

    /// Returns the longest time for which a slot was free while runs waited, with the Slurm job and the start
    /// of that time, and the number of slots that were filled. The k-th slot that becomes free in a Slurm job
    /// counts as filled by the k-th start in the job. Each Slurm job has `slots` slots and lasts `life`
    /// seconds. The time after the start of the last run does not count, nor does the time in which a Slurm
    /// job takes no more runs because it is about to end.
    fn longest_wait(&self, slots: usize, life: f64, cuts: &[Cut]) -> (f64, Cut, usize) {
        let logs: Vec<_> = (1..=self.runs).map(|run| self.log(run)).collect();
        let first = |log: &Vec<(String, String, f64)>| log.first().map(|(.., at)| *at);
        let last_begun = logs.iter().filter_map(first).fold(0.0, f64::max);
        let (mut longest, mut since, mut filled) = (0.0_f64, Cut::default(), 0);
        for (id, beginnings) in self.began.borrow().iter() {
            for (number, &begun) in beginnings.iter().enumerate() {
                let next = beginnings.get(number + 1).copied().unwrap_or(f64::INFINITY);
                let cut = cuts.iter().filter(|(job, at)| job == id && *at > begun).map(|(_, at)| *at);
                let end = cut.fold((begun + life).min(next), f64::min);
                let times = |what: &str| {
                    let of = |(word, job, at): &&(String, String, f64)| {
                        word == what && job == id && (begun - 2.0..next - 2.0).contains(at)
                    };
                    let mut times: Vec<f64> = logs.iter().flatten().filter(of).map(|(.., at)| *at).collect();
                    times.sort_by(f64::total_cmp);
                    times
                };
                let starts = times("start");
                let free = [vec![begun; slots], times("end")].concat();
                filled += starts.len();
                for (number, free) in
                    free.into_iter().enumerate().filter(|(_, free)| *free < end.min(last_begun))
                {
                    let filled = starts.get(number).copied().unwrap_or(f64::INFINITY);
                    let wait = filled.min(end).min(last_begun) - free;
                    if wait > longest {
                        (longest, since) = (wait, (id.clone(), free));
                    }
                }
            }
        }
        (longest, since, filled)
    }

    /// Waits until all runs have ended and no allocation is left.
    pub fn wait_for_end(&self, limit: Duration) {
        let is_over = || (self.queue().is_empty() && self.ended() == self.runs as usize).then_some(());
        let over = wait_within(limit, is_over);
        assert!(
            over.is_some(),
            "{} of {} runs; {:?}\n{}",
            self.ended(),
            self.runs,
            self.queue(),
            self.output()
        );
    }

    pub fn output(&self) -> String {
        let files = self.user.folder.read_dir().expect("a folder").map(|entry| entry.expect("a file").path());
        let is_of_member = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "out");
        files.filter(is_of_member).map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
    }

    /// Kills the leader; returns its Slurm job and the time.
    pub fn kill_leader(&self) -> Cut {
        let pid: i32 =
            wait_for("a leader", || fs::read_to_string(self.state.join("lock")).ok()?.trim().parse().ok());
        let variables = fs::read(format!("/proc/{pid}/environ")).expect("its variables");
        let job = variables.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(b"SLURM_JOB_ID="));
        let job = String::from_utf8_lossy(job.expect("a Slurm job")).into_owned();
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
        (job, now())
    }

    pub fn completed(&self) -> u64 {
        let mut command = self.user.program(env!("CARGO_BIN_EXE_hsched"));
        command.args(["status", "--format", "json"]).env("HSCHED_STATE_DIR", &self.state);
        let output = command.output().expect("runs");
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        status["counts"]["completed"].as_u64().unwrap_or_default()
    }
}

/// Returns the seconds since 1970.
pub fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

#[test]
fn another_member_leads_where_the_leader_was_killed_and_no_run_is_lost_or_doubled() {
    let Some(cluster) = cluster() else { return };
    let user = TestUser::new(&cluster, "pool", "");
    let options = ["--gpus", "2", "--time", "5m", "--at-most", "2"];
    let pool = Pool::submit(user, 12, 1.5, &options);
    assert_eq!(pool.allocations.len(), 2);
    wait_for("the first runs", || (pool.ended() >= 2).then_some(()));
    let killed = pool.kill_leader();
    pool.wait_for_end(Duration::from_secs(300));
    pool.check(&[killed.1]);
    assert_eq!(pool.completed(), 12, "{}", pool.output());
}

#[test]
fn runs_share_the_gpus_of_all_allocations() {
    let Some(cluster) = cluster() else { return };
    let user = TestUser::new(&cluster, "slots", "");
    // Each run stays until three others have started, so that four run at once: two on the GPU of each allocation.
    let command = "echo $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES >>seen; \
                   until [ $(wc -l <seen) -ge 4 ]; do sleep 0.1; done";
    user.write(
        "jobs.yaml",
        &format!("jobs:\n  - {{name: s, slots: 2, command: '{command}', sweep: {{i: [1, 2, 3, 4]}}}}\n"),
    );
    let words = ["submit", "--pack", "jobs.yaml", "--gpus", "v100:1", "--time", "5m", "--at-most", "2"];
    let done = user.hsched(&words);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    wait_for("the end", || user.ask("squeue", &["--noheader"]).is_empty().then_some(()));
    let seen = user.read("seen");
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for place in seen.lines() {
        *places.entry(place).or_default() += 1;
    }
    assert_eq!(places.into_values().collect::<Vec<_>>(), [2, 2], "{seen}");
}

#[test]
#[ignore = "takes ten minutes"]
fn a_thousand_runs_end_once_each_through_a_kill_a_lost_node_and_time_limits() {
    // The last member submits its own script again in the moment before it ends.
    let at_once = |pool: &Pool<'_>| pool.jobs_of_scripts();
    run_a_thousand("thousand", &[], at_once);
}

#[test]
#[ignore = "takes ten minutes"]
fn a_thousand_runs_end_once_each_in_tasks_of_a_job_array() {
    // Waiting tasks hold no node.
    let at_once = |pool: &Pool<'_>| pool.queue().values().filter(|(state, _)| state != "PENDING").count();
    run_a_thousand("thousand-tasks", &["--array"], at_once);
}

/// Runs a thousand jobs of two seconds in at most three Slurm jobs at a time, of which one starts late, one loses its
/// leader and one its node, and checks that no slot was free for long. `at_once` returns the number of Slurm jobs.
fn run_a_thousand(name: &str, more: &[&str], at_once: impl Fn(&Pool<'_>) -> usize) {
    let Some(cluster) = cluster_with_limit(100) else { return };
    // The last allocation has to wait.
    for name in ["w3", "w4"] {
        cluster.node("down", name);
    }
    let user = TestUser::new(&cluster, name, "");
    let options = [&["--gpus", "cpu:8", "--time", "3m", "--at-most", "3"], more, &["--", "--exclusive"]];
    let (begun, pool) = (now(), Pool::submit(user, 1000, 2.0, &options.concat()));
    // The largest number of Slurm jobs at a time, and the queue then.
    let most = RefCell::new((0, String::new()));
    let wait = |what: &str, runs: usize| {
        let reached = wait_within(Duration::from_secs(900), || {
            // Each look also records which Slurm jobs have started.
            let (queue, jobs) = (pool.queue(), at_once(&pool));
            if jobs > most.borrow().0 {
                most.replace((jobs, format!("{:.1}: {queue:?}", now())));
            }
            (pool.ended() >= runs).then_some(())
        });
        assert!(reached.is_some(), "{what}: {} runs; {:?}", pool.ended(), pool.queue());
    };
    wait("before the third allocation", 100);
    for name in ["w3", "w4"] {
        cluster.node("up", name);
    }
    wait("before the kill", 250);
    let killed = pool.kill_leader();
    wait("before the loss of a node", 450);
    let running = pool.queue().into_values().find(|(state, _)| state == "RUNNING");
    let (_, node) = running.expect("an allocation runs");
    let id = pool.queue().into_iter().find(|(_, (_, on))| *on == node).map(|(id, _)| id);
    let lost = (id.expect("a Slurm job"), now());
    cluster.node("kill", &node);
    wait("before the node is back", 600);
    cluster.node("up", &node);
    wait("the last run", 1000);
    let took = now() - begun;
    pool.wait_for_end(Duration::from_secs(300));
    pool.check(&[killed.1, lost.1]);
    // An allocation takes no more runs from 36 s before its end, which Slurm reports in whole minutes.
    let (longest, (job, since), filled) = pool.longest_wait(8, 180.0 - 36.0, &[killed.clone(), lost.clone()]);
    let line = format!(
        "{took:.0} s; {filled} starts; a slot was free for {longest:.1} s at most while runs waited: of Slurm job {job}, from {:.1} s after \
         the leader of {} was killed and {:.1} s after {} lost its node\n",
        since - killed.1,
        killed.0,
        since - lost.1,
        lost.0
    );
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("stderr");
    assert!(longest <= LONGEST_WAIT, "{line}{}", pool.output());
    let (most, queue) = most.into_inner();
    assert!(most <= 3, "{most} Slurm jobs at a time: {queue}\n{}", pool.output());
    assert_eq!(pool.completed(), 1000, "{}", pool.output());
}
