//! `hsched run` in allocations of a real Slurm: the ranks of a job are one step, and jobs continue in the
//! next allocation.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;

use crate::cli_run::TRAIN;
use crate::real_cluster::{Cluster, STEADY, start, started, try_start};
use crate::real_user::{TestUser, wait_for, wait_within};
use crate::sandbox::write_program;

/// Two nodes, each with two V100s and two T4s.
static TWO: LazyLock<Result<Cluster, String>> = LazyLock::new(|| try_start(nodes(2).path(), STEADY));

/// Returns a file that describes this number of nodes.
fn nodes(count: u32) -> tempfile::NamedTempFile {
    let nodes = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "w[1-{count}] cpus=16 memory=64000 gpus=v100:2,t4:2\n\
         partition main default max_time=60 default_time=10\n"
    );
    fs::write(nodes.path(), text).expect("writes");
    nodes
}

/// Returns a cluster for one test alone that soon notices the loss of one of its three nodes.
fn with_a_spare_node() -> Option<Cluster> {
    // A node that is slow under load must not count as dead, unlike the one that is killed.
    start(nodes(3).path(), "8/3/1")
}

/// Returns a user of a cluster with two nodes who has the training program.
fn user(name: &str) -> Option<TestUser<'static>> {
    Some(desk_at(started(&TWO)?, name))
}

fn desk_at<'a>(cluster: &'a Cluster, name: &str) -> TestUser<'a> {
    let user = TestUser::new(cluster, name, "");
    user.write("train.sh", TRAIN);
    user
}

/// Returns a file with one job of the training.
fn job(name: &str, epochs: u32, more: &str) -> String {
    format!(
        "jobs:\n  - {{name: {name}, samples_per_epoch: 100, epochs: {epochs}, global_batch: 40, model_size: 0, \
         throughput: {{v100: 100, t4: 50}}, checkpoint: {{grace: 2s, restart_cost: 1s}}, env: {{PACE: 0.5}}, \
         command: [bash, train.sh], {more}}}\n"
    )
}

/// Jobs that were submitted for one allocation, with their user.
pub struct Together<'a> {
    pub user: TestUser<'a>,
    /// The state directory.
    pub state: PathBuf,
}

impl<'a> Together<'a> {
    /// Submits jobs for one allocation of two nodes.
    pub fn submit(user: TestUser<'a>, jobs: &str, time: &str) -> Self {
        Self::submit_with(user, jobs, time, &[])
    }

    /// Submits jobs like [`Self::submit`], with more words for the command.
    fn submit_with(user: TestUser<'a>, jobs: &str, time: &str, more: &[&str]) -> Self {
        user.write("jobs.yaml", jobs);
        let words = ["--together", "jobs.yaml", "--gpus", "v100:2,t4:2", "--nodes", "2", "--time", time];
        let done = user.hsched(&[&["submit", "--format", "json"], &words[..], more].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let said: Value = serde_json::from_str(&done.stdout).expect("JSON");
        let state = PathBuf::from(said["state_dir"].as_str().expect("a path"));
        Self { user, state }
    }

    pub fn hsched(&self, arguments: &[&str]) -> String {
        let mut command = self.user.program(env!("CARGO_BIN_EXE_hsched"));
        command.args(arguments).env("HSCHED_STATE_DIR", &self.state);
        let output = command.output().expect("runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the state of a job and the epochs that it has done.
    pub fn job(&self, name: &str) -> (String, u64) {
        let status: Value =
            serde_json::from_str(&self.hsched(&["status", "--format", "json"])).expect("JSON");
        let jobs = status["jobs"].as_array().expect("a list");
        let job = jobs.iter().find(|job| job["name"] == name).unwrap_or(&Value::Null);
        let word = job["state"].as_str().unwrap_or_default().to_owned();
        (word, job["epochs_done"].as_u64().unwrap_or_default())
    }

    fn saved(&self, job: &str) -> Vec<u32> {
        let text = fs::read_to_string(self.user.folder.join(format!("checkpoints/{job}/epochs")));
        text.unwrap_or_default().lines().map(|line| line.parse().expect("a number")).collect()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.user.folder.join("hsched-run.out")).unwrap_or_default()
    }
}

#[test]
fn a_job_over_both_nodes_is_one_step_and_ends_when_hsched_is_killed() {
    let Some(user) = user("step") else { return };
    let seen = "env >seen.$RANK; exec bash train.sh";
    let wide = job("wide", 1000, "min_gpus: 8").replace("[bash, train.sh]", &format!("{seen:?}"));
    let run = Together::submit(user, &wide, "5m");
    wait_for("an epoch", || (!run.saved("wide").is_empty()).then_some(()));
    let mut places = Vec::new();
    for rank in 0..8 {
        let text = run.user.read(format!("seen.{rank}"));
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_else(|| panic!("{name} of rank {rank}")).to_owned()
        };
        assert_eq!((value("WORLD_SIZE"), value("LOCAL_WORLD_SIZE")), ("8".into(), "4".into()));
        let devices = value("CUDA_VISIBLE_DEVICES");
        let device =
            devices.split(',').nth(value("LOCAL_RANK").parse().expect("a number")).expect("a device");
        let is_v100 = matches!(device, "0" | "1");
        assert_eq!(value("HSCHED_GPU_TYPE"), if is_v100 { "v100" } else { "t4" }, "rank {rank}");
        places.push((value("SLURMD_NODENAME"), device.to_owned()));
    }
    places.sort();
    places.dedup();
    assert_eq!(places.len(), 8, "{places:?}");

    // The processes of the fake nodes are on this machine.
    let id = run.in_queue("%i");
    let pid = wait_for("hsched runs", || hsched_of(&run.user, id.trim()));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
        .expect("is there");
    wait_for("the end of the job", || run.in_queue("%i").trim().is_empty().then_some(()));
    let after = run.saved("wide").len();
    run.hsched(&["cancel", "wide"]);
    assert_eq!(run.job("wide").0, "cancelled");
    assert_eq!(run.saved("wide").len(), after);
}

/// Returns the process of `hsched run` in a Slurm job of the user's cluster, while there is one. Jobs of
/// other clusters can have the same ids.
fn hsched_of(user: &TestUser<'_>, job: &str) -> Option<i32> {
    let configuration = user.cluster_folder().join("etc/slurm.conf");
    let wanted = [format!("SLURM_JOB_ID={job}"), format!("SLURM_CONF={}", configuration.display())];
    let is_run = |pid: i32| {
        let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let command = read("cmdline");
        let mut words = command.split(|byte| *byte == 0);
        let program = words.next().unwrap_or_default();
        program == env!("CARGO_BIN_EXE_hsched").as_bytes()
            && words.next() == Some(&b"run"[..])
            && wanted
                .iter()
                .all(|wanted| read("environ").split(|byte| *byte == 0).any(|word| word == wanted.as_bytes()))
    };
    let pids = fs::read_dir("/proc")
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid| is_run(*pid))
}

/// At some sites, compute nodes may not call Slurm's commands; in a job of one node, the environment is sufficient.
#[test]
fn in_a_job_of_one_node_the_environment_is_answer_enough() {
    let Some(user) = user("mute") else { return };
    fs::create_dir(user.folder.join("bin")).expect("a folder");
    for command in ["scontrol", "srun", "squeue", "sacct", "scancel"] {
        let no = "#!/bin/sh\necho 'error: Unable to contact slurm controller' >&2\nexit 1\n";
        write_program(&user.folder.join("bin").join(command), no);
    }
    let seen = "env >seen.$HSCHED_JOB; exec bash train.sh";
    let job_file = |name: &str| job(name, 3, "max_gpus: 1").replace("[bash, train.sh]", &format!("{seen:?}"));
    let more = job_file("b").replace("jobs:\n", "");
    user.write("jobs.yaml", &format!("{}{more}", job_file("a")));
    let hsched = env!("CARGO_BIN_EXE_hsched");
    user.write("script", &format!("#!/bin/bash\nPATH=$PWD/bin:$PATH exec {hsched} run jobs.yaml\n"));
    let asked = ["--wait", "--nodes=1", "--cpus-per-task=4", "--gres=gpu:t4:2", "--output=run.out", "script"];
    user.ask("sbatch", &asked);
    let said = user.read("run.out");
    assert!(said.contains("using the GPUs of this node: 2; ranks run as processes"), "{said}");
    let devices: Vec<String> = ["a", "b"]
        .iter()
        .map(|name| {
            let text = user.read(format!("seen.{name}"));
            let line = text.lines().find_map(|line| line.strip_prefix("CUDA_VISIBLE_DEVICES="));
            line.unwrap_or_else(|| panic!("{name}: {said}")).to_owned()
        })
        .collect();
    // On this node the two V100 come first.
    assert!(devices == ["2", "3"] || devices == ["3", "2"], "{devices:?}");
    let status = user.hsched(&["status", "--format", "json"]).stdout;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let states = status["jobs"].as_array().expect("a list").iter();
    let states: Vec<(&str, u64)> = states
        .map(|job| (job["state"].as_str().expect("a word"), job["epochs_done"].as_u64().expect("a number")))
        .collect();
    assert_eq!(states, [("completed", 3), ("completed", 3)], "{said}");
}

const FOUR: [&str; 4] = ["one", "two", "three", "wide"];

/// More epochs than the jobs can do before Slurm notices a loss.
const EPOCHS: u32 = 60;

/// Returns four jobs for both nodes: two that each take the V100s of one node, one on a T4, and one on three
/// T4s that spans both nodes. The file `pace` contains the time of an epoch.
fn four(epochs: u32) -> String {
    let one = |(name, types, gpus): (&str, &str, u32)| {
        let more = format!("min_gpus: {gpus}, max_gpus: {gpus}, retries: 0");
        job(name, epochs, &more).replace("{v100: 100, t4: 50}", types).replace("jobs:\n", "")
    };
    let all = [
        ("one", "{v100: 100}", 2),
        ("two", "{v100: 100}", 2),
        ("three", "{t4: 50}", 1),
        ("wide", "{t4: 50}", 3),
    ];
    format!("jobs:\n{}", all.map(one).concat())
}

impl<'a> Together<'a> {
    /// Submits the four jobs, and waits until each has saved two epochs. They do not end before
    /// [`Self::hurry`].
    fn of_four(user: TestUser<'a>, more: &[&str]) -> Self {
        user.write("train.sh", &TRAIN.replace("sleep \"$PACE\"", "sleep \"$(<pace)\""));
        user.write("pace", "1");
        let run = Self::submit_with(user, &four(EPOCHS), "10m", more);
        wait_for("two epochs of each", || FOUR.iter().all(|name| run.saved(name).len() >= 2).then_some(()));
        run
    }

    fn hurry(&self) {
        self.user.write("pace", "0.05");
    }

    /// Returns the ends of a job's runs, and the number of failures.
    fn ends(&self, name: &str) -> (Vec<String>, u64) {
        let status: Value =
            serde_json::from_str(&self.hsched(&["status", "--format", "json"])).expect("JSON");
        let job =
            status["jobs"].as_array().expect("a list").iter().find(|candidate| candidate["name"] == name);
        let job = job.unwrap_or_else(|| panic!("{name}: {status}"));
        let ends = job["runs"].as_array().expect("runs").iter().filter_map(|run| run["end"].as_str());
        (ends.map(ToOwned::to_owned).collect(), job["failures"].as_u64().expect("a number"))
    }

    /// Checks that jobs have done all their epochs once, and that no lost node cost a retry.
    #[track_caller]
    fn are_done(&self, names: &[&str]) {
        for name in names {
            assert_eq!(self.job(name), ("completed".into(), u64::from(EPOCHS)), "{name}: {}", self.log());
            assert_eq!(self.saved(name), (1..=EPOCHS).collect::<Vec<_>>(), "{name}");
            let (mut ends, failures) = self.ends(name);
            assert_eq!((ends.pop().as_deref(), failures), (Some("completed"), 0), "{name}: {}", self.log());
            // An epoch that ends while a training is being stopped counts as a saved checkpoint.
            let of_node = ["was interrupted", "saved a checkpoint", "lost a node"];
            assert!(ends.iter().all(|end| of_node.contains(&end.as_str())), "{name}: {ends:?}");
        }
    }

    /// Returns the allocation as Slurm shows it; another test may have one on the same cluster.
    fn in_queue(&self, format: &str) -> String {
        let text =
            self.user.ask("squeue", &["--noheader", "--name=hsched-run", &format!("--format=%Z {format}")]);
        let here = format!("{} ", self.user.folder.display());
        text.lines().filter_map(|line| line.strip_prefix(&here)).collect::<Vec<_>>().join("\n")
    }

    /// Makes an allocation that Slurm has requeued start soon: Slurm would hold it back for two minutes.
    ///
    /// A late end of its first script must not be mistaken for that of its next one, so `first_node` must
    /// have reported it to the controller. A node also does not start a job in the second in which it was
    /// told to end it, because it compares whole seconds.
    fn hasten(&self, cluster: &Cluster, first_node: &str) {
        let told = || cluster.log_of_node(first_node).contains(".batch] done with").then_some(());
        wait_for("the first script has ended", told);
        let id = wait_for("the allocation is held back", || {
            self.in_queue("%i %r").trim().strip_suffix(" BeginTime").map(ToOwned::to_owned)
        });
        self.user.ask("scontrol", &["update", &format!("JobId={id}"), "StartTime=now+2"]);
    }

    /// Waits until the allocation is gone.
    fn wait_for_end(&self) {
        let ended =
            wait_within(Duration::from_secs(300), || self.in_queue("%i").trim().is_empty().then_some(()));
        assert!(ended.is_some(), "{}", self.log());
    }
}

/// Slurm ends the allocation with its node and requeues it: the jobs resume where it starts again.
#[test]
fn jobs_go_on_after_a_node_of_the_allocation_was_lost() {
    let Some(cluster) = with_a_spare_node() else { return };
    let run = Together::of_four(desk_at(&cluster, "lost"), &[]);
    cluster.node("kill", "w2");
    run.hasten(&cluster, "w1");
    run.hurry();
    run.wait_for_end();
    run.are_done(&FOUR);
    assert!(run.ends("two").0.len() > 1, "it lost its node: {}", run.log());
}

/// If the allocation survives the loss of one of its nodes, jobs on the other node continue undisturbed; the
/// others also resume there or wait for another allocation.
#[test]
#[ignore = "takes two minutes: tests/long runs it"]
fn an_allocation_that_keeps_its_other_nodes_goes_on_without_the_lost_one() {
    let Some(cluster) = with_a_spare_node() else { return };
    let run = Together::of_four(desk_at(&cluster, "kept"), &["--", "--no-kill"]);
    cluster.node("kill", "w2");
    wait_for("the loss is noticed", || run.log().contains("node w2 is down").then_some(()));
    run.hurry();
    run.wait_for_end();
    run.are_done(&["one", "two", "three"]);
    assert_eq!(run.ends("one").0.len(), 1, "{}", run.log());
    assert!(run.ends("two").0.len() > 1, "it lost its node: {}", run.log());
    let (ends, failures) = run.ends("wide");
    assert_eq!((run.job("wide").0.as_str(), failures), ("waiting", 0), "{ends:?}: {}", run.log());
    assert!(ends.iter().all(|end| end == "lost a node"), "{ends:?}");
}
