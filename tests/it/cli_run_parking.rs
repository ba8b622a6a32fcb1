//! `hsched run` with jobs that take turns: parked, moved to the host's memory, or ended and restarted.

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::cli_run::{Bench, Session, TRAIN};
use crate::python::with_torch;

/// A program with one rank that follows the protocol of docs/training.md, with epochs of `PACE` seconds and
/// the memory figures of `MEMORY`. It records each start. A second concurrent instance of a job fails. With
/// `FULL`, an instance also fails if it starts or resumes while another job with `FULL` is on the device,
/// even if parked.
const GATED: &str = r#"
import fcntl, json, os, select, signal, sys, time
env, stop = os.environ, []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
folder, path, report = env["HSCHED_CHECKPOINT_DIR"], env["HSCHED_GATE"], env["HSCHED_REPORT"]
fcntl.flock(open(os.path.join(folder, "lock"), "w"), fcntl.LOCK_EX | fcntl.LOCK_NB)
device = open("device", "w") if "FULL" in env else None
def take(): device and fcntl.flock(device, fcntl.LOCK_EX | fcntl.LOCK_NB)
open(os.path.join(folder, "pids"), "a").write("%d\n" % os.getpid())
saved, own = os.path.join(folder, "epochs"), path + ".0"
done = len(open(saved).readlines()) if os.path.exists(saved) else 0
if not os.path.exists(own + ".bell"): os.mkfifo(own + ".bell")
bell = os.open(own + ".bell", os.O_RDWR | os.O_NONBLOCK)
def wish():
    try: text = json.load(open(path))
    except FileNotFoundError: return 0, "go"
    global report
    if "reports" in text: report = os.path.join(text["reports"], "rank-0.jsonl")
    return text["number"], text["want"]
def say(number, state):
    json.dump({"number": number, "state": state, "pid": os.getpid(), "parks": True, "memory": json.loads(env.get("MEMORY", "{}"))}, open(own + ".tmp", "w"))
    os.replace(own + ".tmp", own)
def tell(): open(report, "a").write(json.dumps({"epoch": done, "rank": 0, "epoch_s": float(env["PACE"])}) + "\n")
take()
say(0, "running")
if done > int(env["HSCHED_EPOCHS_DONE"]): tell()
while done < int(env["HSCHED_EPOCHS"]):
    end = time.monotonic() + float(env["PACE"])
    while time.monotonic() < end:
        if stop: sys.exit(85)
        time.sleep(0.01)
    done += 1
    open(saved + ".new", "w").write("".join("%d\n" % k for k in range(1, done + 1)))
    os.replace(saved + ".new", saved)
    tell()
    number, want = wish()
    said = None
    while want != "go" and done < int(env["HSCHED_EPOCHS"]):
        if stop or os.path.exists(path + ".stop"): sys.exit(85)
        if want == "offload" and device: fcntl.flock(device, fcntl.LOCK_UN)
        if said != number: say(number, {"park": "parked", "offload": "offloaded"}[want])
        said = number
        if select.select([bell], [], [], 1)[0]: os.read(bell, 4096)
        number, want = wish()
    if said is not None:
        if device: take()
        say(number, "running")
"#;

/// Returns a job with the program above: this number of epochs on one device, with additional `env`.
fn gated(name: &str, epochs: u32, env: &str) -> String {
    format!(
        "  - {{name: {name}, samples_per_epoch: 100, epochs: {epochs}, global_batch: 10, model_size: 0, max_gpus: 1, \
         throughput: {{cpu: 1000}}, checkpoint: {{grace: 5s}}, command: [python3, gated.py], env: {{{env}}}}}\n"
    )
}

/// A long job on one device, which makes room for shorter jobs that are added.
struct Story {
    bench: Bench,
    session: Option<Session>,
}

const RUN: &str = "run jobs.yaml --devices cpu:1 --policy srtf --set restart_cost=0s";

impl Story {
    /// Starts a long job and waits for its first epoch.
    fn new(long: &str) -> Self {
        Self::run(RUN, long)
    }

    fn run(command: &str, long: &str) -> Self {
        let bench = Bench::new(&[long.to_owned()]);
        fs::write(bench.sandbox.work("gated.py"), GATED).expect("a file");
        let slow = GATED.replace("\"epoch_s\": float(env[\"PACE\"])", "\"epoch_s\": 100.0");
        fs::write(bench.sandbox.work("slow.py"), slow).expect("a file");
        let session = Some(bench.start(command));
        bench.await_that("an epoch", || !bench.saved("long").is_empty());
        Self { bench, session }
    }

    /// Adds a job, and waits for its first epoch.
    fn add(&self, name: &str, entry: &str) {
        fs::write(self.bench.sandbox.work("more.yaml"), format!("jobs:\n{entry}")).expect("a file");
        self.bench.sandbox.run("add more.yaml").exits(0);
        self.bench.await_that("an epoch of another", || !self.bench.saved(name).is_empty());
    }

    /// Returns the ids of all processes that have run a job, in the order of their starts.
    fn pids(&self, job: &str) -> Vec<i32> {
        let text = fs::read_to_string(self.bench.sandbox.work(&format!("checkpoints/{job}/pids")));
        text.expect("a file").lines().map(|line| line.parse().expect("a number")).collect()
    }

    /// Waits for the end, checks that nothing is left, and returns the messages.
    fn end(&mut self, code: i32) -> String {
        let session = self.session.take().expect("runs");
        let ran = self.bench.end(session).exits(code);
        assert_eq!(self.bench.processes(), Vec::<String>::new());
        ran.stdout
    }
}

#[track_caller]
fn says(text: &str, what: &str) {
    assert!(text.contains(what), "{what:?} is not in:\n{text}");
}

#[test]
fn a_parked_job_goes_on_in_the_same_process() {
    let mut story = Story::new(&gated("long", 60, "PACE: 0.2"));
    for name in ["one", "two"] {
        story.add(name, &gated(name, 2, ""));
        let before = story.bench.saved("long").len();
        story.bench.await_that("it goes on", || story.bench.saved("long").len() > before);
    }
    let text = story.end(0);
    says(&text, "parked after epoch");
    says(&text, "resumes where it was parked");
    assert_eq!(story.pids("long").len(), 1, "{text}");
    for (name, epochs) in [("long", 60), ("one", 2), ("two", 2)] {
        story.bench.did_each_epoch_once(name, epochs);
    }
    // Each of the three submissions of the long job has its end, the start of its output, and reports.
    let runs = story.bench.sandbox.runs();
    let of_long = |file: &str| {
        let path = |run: &String| story.bench.sandbox.state(&format!("runs/{run}/report/long/{file}"));
        runs.iter().filter(|run| fs::read_to_string(path(run)).is_ok_and(|text| !text.is_empty())).count()
    };
    assert_eq!((of_long("ends"), of_long("begins"), of_long("rank-0.jsonl")), (3, 3, 3));
}

#[test]
fn a_job_moves_to_the_hosts_memory_where_another_may_not_fit_beside_it() {
    let memory = r#"PACE: 0.2, FULL: 1, MEMORY: '{"device": 17179869184, "held": 8, "peak": 8}'"#;
    let mut story = Story::new(&gated("long", 40, memory));
    story.add("short", &gated("short", 2, "FULL: 1"));
    let text = story.end(0);
    says(&text, "moving to host memory: short gets the GPU");
    says(&text, "resumes where it was parked, with its tensors from host memory");
    assert_eq!(story.pids("long").len(), 1, "{text}");
    story.bench.did_each_epoch_once("long", 40);
    story.bench.did_each_epoch_once("short", 2);
}

/// The long job needs more memory than a slot has. A job with `FULL` fails if it starts or resumes beside
/// another job with `FULL`.
#[test]
fn a_parked_job_with_a_gpu_of_its_own_resumes_when_no_other_run_is_on_it() {
    let on_v100 = |entry: String| entry.replace("{cpu: 1000}", "{v100-16gb: 1000}");
    let memory = r#"PACE: 0.2, FULL: 1, MEMORY: '{"device": 17179869184, "held": 8, "peak": 8}'"#;
    let long = on_v100(gated("long", 40, memory)).replace("max_gpus: 1", "max_gpus: 1, max_memory: 12GiB");
    let mut story = Story::run(&RUN.replace("cpu:1", "v100-16gb:1x2 --simulated"), &long);
    story.add("short", &on_v100(gated("short", 2, "PACE: 0.5")));
    story.add("full", &on_v100(gated("full", 6, "FULL: 1, PACE: 0.3")));
    let text = story.end(0);
    says(&text, "moving to host memory");
    says(&text, "resumes where it was parked, with its tensors from host memory");
    for (name, epochs) in [("long", 40), ("short", 2), ("full", 6)] {
        story.bench.did_each_epoch_once(name, epochs);
    }
}

#[test]
fn a_job_ends_and_starts_again_where_no_memory_holds_it() {
    let memory =
        r#"PACE: 0.2, FULL: 1, MEMORY: '{"device": 2305843009213693952, "held": 1152921504606846976}'"#;
    let mut story = Story::new(&gated("long", 40, memory));
    story.add("short", &gated("short", 2, "FULL: 1"));
    let text = story.end(0);
    says(&text, "no longer parked: short needs the memory");
    assert_eq!(story.pids("long").len(), 2, "{text}");
    story.bench.did_each_epoch_once("long", 40);
}

#[test]
fn a_program_that_cannot_be_parked_saves_and_starts_again() {
    let plain = gated("long", 40, "PACE: 0.2").replace("[python3, gated.py]", "[bash, train.sh]");
    let mut story = Story::new(&plain);
    fs::write(story.bench.sandbox.work("train.sh"), TRAIN).expect("a file");
    story.add("short", &gated("short", 2, ""));
    let text = story.end(0);
    says(&text, "exits instead of parking: its program does not support parking");
    story.bench.did_each_epoch_once("long", 40);
}

#[test]
fn the_end_of_a_long_epoch_is_not_waited_for() {
    let mut story = Story::new(&gated("long", 6, "PACE: 1").replace("gated.py", "slow.py"));
    story.add("short", &gated("short", 2, ""));
    let text = story.end(0);
    says(&text, "exits instead of parking: its epoch needs more than 20 s");
    story.bench.did_each_epoch_once("long", 6);
}

#[test]
fn a_parked_job_that_is_cancelled_ends_at_once() {
    let mut story = Story::new(&gated("long", 1000, ""));
    story.add("short", &gated("short", 20, "PACE: 0.2"));
    let pid = story.pids("long")[0];
    story.bench.sandbox.run("cancel long").exits(0);
    story.bench.await_that("its end", || kill(Pid::from_raw(pid), None).is_err());
    assert!(story.bench.saved("short").len() < 20);
    let text = story.end(1);
    says(&text, "1 completed, 1 cancelled");
}

#[test]
fn a_parked_job_whose_process_dies_starts_again_and_loses_no_retry() {
    let mut story = Story::new(&gated("long", 40, "PACE: 0.2").replace("max_gpus", "retries: 0, max_gpus"));
    story.add("short", &gated("short", 5, "PACE: 0.2"));
    kill(Pid::from_raw(story.pids("long")[0]), Signal::SIGKILL).expect("is there");
    let text = story.end(0);
    assert_eq!(story.pids("long").len(), 2, "{text}");
    story.bench.did_each_epoch_once("long", 40);
}

#[test]
fn all_who_are_parked_have_saved_when_hsched_is_asked_to_end() {
    for (signal, code) in [(Signal::SIGTERM, 85), (Signal::SIGKILL, 137)] {
        let mut story =
            Story::new(&gated("long", 40, "PACE: 0.2").replace("max_gpus", "retries: 0, max_gpus"));
        story.add("short", &gated("short", 5, "PACE: 0.2"));
        let session = story.session.take().expect("runs");
        session.signal(signal);
        drop(story.bench.end(session).exits(code));
        story.bench.await_that("all its processes end", || story.bench.processes().is_empty());
        story.bench.run("run --devices cpu:1 --policy srtf").exits(0);
        story.bench.did_each_epoch_once("long", 40);
        story.bench.did_each_epoch_once("short", 5);
    }
}

/// Repeatedly kills hsched at random moments while jobs make room for others.
fn survives_kills(kills: u32, seed: u64) {
    let bench = Bench::new(&[gated("long", 8 * kills, "").replace("max_gpus", "retries: 0, max_gpus")]);
    fs::write(bench.sandbox.work("gated.py"), GATED).expect("a file");
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for number in 0..kills {
        let entry = gated(&format!("s{number}"), 2, "").replace("max_gpus", "retries: 0, max_gpus");
        fs::write(bench.sandbox.work("more.yaml"), format!("jobs:\n{entry}")).expect("a file");
        let session = bench.start(RUN);
        let before = bench.saved("long").len();
        bench.await_that("an epoch", || {
            bench.saved("long").len() > before
                || number > 0 && !bench.saved(&format!("s{}", number - 1)).is_empty()
        });
        bench.sandbox.run("add more.yaml").exits(0);
        std::thread::sleep(Duration::from_millis(random.random_range(0..700)));
        session.signal(Signal::SIGKILL);
        drop(bench.end(session));
        bench.await_that("all its processes end", || bench.processes().is_empty());
    }
    bench.run("run --devices cpu:1 --policy srtf").exits(0);
    bench.did_each_epoch_once("long", 8 * kills);
    (0..kills).for_each(|number| bench.did_each_epoch_once(&format!("s{number}"), 2));
}

#[test]
fn nothing_is_lost_when_hsched_is_killed_while_jobs_are_parked() {
    survives_kills(5, 3);
}

#[test]
#[ignore = "takes minutes: tests/long runs it"]
fn nothing_is_lost_when_hsched_is_killed_100_times_while_jobs_are_parked() {
    survives_kills(100, 4);
}

/// Two ranks of a real training program take turns with another job.
#[test]
fn trainings_with_torch_take_turns() {
    let Some(python) = with_torch() else { return };
    let train = r#"
import hsched_ddp as hsched
import torch, time
from torch.utils.data import DataLoader, TensorDataset
me = hsched.init(global_batch=8, epochs=4)
torch.manual_seed(1)
data = TensorDataset(torch.randn(16, 16), torch.randn(16, 1))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
sampler = hsched.BatchSampler(len(data), me)
loader = DataLoader(data, batch_sampler=sampler)
training = hsched.Training(me, sampler, model, optimizer=optimizer)
if not training.resume() and me.rank == 0:
    open(me.checkpoint_dir + "/starts", "a").write("x")
for epoch in training.epochs():
    for step in training.steps(loader):
        for inputs, wanted in step:
            time.sleep(0.05)
            step.scale(torch.nn.functional.mse_loss(model(inputs), wanted)).backward()
        optimizer.step()
        optimizer.zero_grad()
    if me.rank == 0:
        open(me.checkpoint_dir + "/epochs", "a").write("%d\n" % epoch)
hsched.leave()
"#;
    let entry = |name: &str, epochs: u32| {
        gated(name, epochs, "")
            .replace("[python3, gated.py]", &format!("[{python}, train.py]"))
            .replace("max_gpus: 1", "min_gpus: 2")
            .replace("samples_per_epoch: 100, ", "samples_per_epoch: 16, ")
            .replace("global_batch: 10", "global_batch: 8")
            .replace("cpu: 1000", "cpu: 100")
    };
    let bench = Bench::new(&[entry("long", 120)]);
    fs::write(bench.sandbox.work("train.py"), train).expect("a file");
    let session = bench.start(&RUN.replace("cpu:1", "cpu:2"));
    bench.await_that("an epoch", || !bench.saved("long").is_empty());
    fs::write(bench.sandbox.work("more.yaml"), format!("jobs:\n{}", entry("short", 2))).expect("a file");
    bench.sandbox.run("add more.yaml").exits(0);
    let ran = bench.end(session).exits(0);
    says(&ran.stdout, "parked after epoch");
    says(&ran.stdout, "resumes where it was parked");
    let starts = fs::read_to_string(bench.sandbox.work("checkpoints/long/starts")).expect("a file");
    assert_eq!(starts, "x");
    bench.did_each_epoch_once("long", 120);
    bench.did_each_epoch_once("short", 2);
    assert_eq!(bench.processes(), Vec::<String>::new());
}
