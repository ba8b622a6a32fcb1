//! Guarantees of every world for the engine, checked while the same story is played in all three: simulated, on devices
//! of this machine, and on a real Slurm.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hsched_engine::clock::SystemClock;
use hsched_engine::live::ScriptContext;
use hsched_engine::render::{Launcher, Template};
use hsched_engine::store::StateDir;
use hsched_engine::{End, Event, KeepsNothing, Outcome, Phase, Planner, Rules, State, World};
use hsched_lab::simulate::{Delays, Incident};
use hsched_local::probe::Facts;
use hsched_local::{Devices, LocalSite, LocalWorld, PoolWorld, Wake, Waker};
use hsched_model::{Cluster, Job, JobName, Seconds, Time};
use hsched_plan::{Budget, Objective, Parameters};
use hsched_slurm::System;
use hsched_slurm::live::SlurmWorld;
use proptest::prelude::*;

use crate::cli_run::TRAIN;
use crate::real_cluster::{STEADY, start};
use crate::watched_world::Watched;
use hsched_fixtures::sites::rules;
use hsched_fixtures::sites::{cluster, site};

/// Returns the jobs of the story, and one that comes later and needs all GPUs.
fn jobs(folder: &Path) -> (Vec<Job>, Job) {
    let job = |name: &str, epochs: u32, gpus: u32, command: &str| {
        format!(
            "  - {{name: {name}, epochs: {epochs}, min_gpus: {gpus}, max_gpus: {gpus}, command: {command}, samples_per_epoch: 30, \
             global_batch: 10, model_size: 0, throughput: {{t4: 100}}, retries: 0, workdir: {}, env: {{PACE: 0.3}}, \
             checkpoint: {{grace: 5s, restart_cost: 0s}}}}\n",
            folder.display()
        )
    };
    let train = "[bash, train.sh]";
    let all = [
        job("a", 3, 1, train),
        job("bad", 2, 1, "exit 3"),
        job("gone", 2000, 1, train),
        job("long", 40, 1, train),
        job("wide", 1, 2, train),
    ];
    let text = format!("jobs:\n{}", all.concat());
    fs::write(folder.join("train.sh"), TRAIN).expect("a file");
    let mut jobs = hsched_model::formats::jobs::parse(&text).expect("jobs");
    let wide = jobs.pop().expect("a job");
    (jobs, wide)
}

/// Maximum number of turns of the story, which ends it after some minutes if a world never shows an end.
const TURNS: u32 = 600;

/// Plays the story: one job fails, one is cancelled, and one makes room for another and resumes. `pass` lets
/// time pass.
fn play<W: World>(world: W, (jobs, wide): (Vec<Job>, Job), mut pass: impl FnMut(&mut W)) -> State
where
    W::Error: Debug,
{
    let rules = Rules { restart_cost: Seconds(0.0), retry_delay: Seconds(0.1), pinned: true, ..rules() };
    let mut world = Watched::new(world);
    let mut policy = hsched_lab::find_over_time("srtf", &Parameters::default()).expect("a policy");
    let mut state = State { contributor: "test".to_owned(), ..State::default() };
    let mut orders: Vec<(&str, Event)> = vec![
        ("long", Event::Added { job: Box::new(wide), restart: false }),
        ("gone", Event::CancelAsked { job: JobName::new("gone").expect("a name") }),
    ];
    for job in jobs {
        let at = Time(0.0);
        hsched_engine::apply(&mut state, at, &Event::Added { job: Box::new(job), restart: false }, &rules);
    }
    for turn in 0..TURNS {
        let run = format!("run{turn}");
        let mut planner = Planner {
            policy: policy.as_mut(),
            objective: Objective::MeanJct,
            seed: 0,
            run: &run,
            budget: Budget { begin: &|| (), stop: &|| false },
            forecasts: Vec::new(),
            start_estimates: None,
        };
        let taken = hsched_engine::turn::<_, _, Fault>(
            &mut world,
            &mut KeepsNothing,
            &mut state,
            &rules,
            &mut planner,
            &mut |_| (),
        );
        let at = taken.unwrap_or_else(|Fault(why)| panic!("the world does not show itself: {why}")).seen.at;
        let is_due = |state: &State, name: &str| {
            state.find(&JobName::new(name).expect("a name")).is_some_and(|job| job.epochs_done > 0)
        };
        while let Some((_, order)) = orders.pop_if(|(job, _)| is_due(&state, job)) {
            hsched_engine::apply(&mut state, at, &order, &rules);
        }
        if orders.is_empty() && state.is_over() {
            // The submissions of `long` run for so long that a look must have shown one.
            let long = world.known.iter().filter(|(of, _)| of.job.as_str() == "long").map(|(_, known)| known);
            assert!(
                long.clone().count() > 1 && long.clone().all(|known| known.end.is_some()),
                "{:?}",
                world.known
            );
            assert!(long.clone().any(|known| known.started && known.has_gpus), "{:?}", world.known);
            let gpus = |cluster: &Cluster| {
                cluster.nodes.iter().flat_map(|node| node.gpus.clone()).collect::<Vec<_>>()
            };
            // An ended submission has released its GPUs, or is about to.
            for _ in 0..100 {
                let seen = world.observe(&state).expect("the world shows itself");
                if gpus(&seen.cluster).iter().all(|stock| stock.used == 0) {
                    return state;
                }
                pass(&mut world.world);
            }
            panic!("GPUs are in use after all jobs have ended");
        }
        pass(&mut world.world);
    }
    panic!("the story does not end: {state:?}");
}

/// The reason why a turn failed.
struct Fault(String);

impl<E: Debug> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(format!("{error:?}"))
    }
}

/// Checks the results of the jobs, which are the same in all worlds.
fn is_the_story(state: &State) {
    let ended = |name: &str| {
        let tracked = state.find(&JobName::new(name).expect("a name")).expect("a job");
        let Phase::Ended { outcome, .. } = &tracked.phase else { panic!("{name}: {tracked:?}") };
        (
            outcome.clone(),
            tracked.epochs_done,
            tracked.past.iter().map(|past| past.end.clone()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(ended("a"), (Outcome::Completed, 3, vec![End::Completed]));
    assert!(matches!(ended("bad"), (Outcome::Failed { .. }, 0, _)), "{:?}", ended("bad"));
    assert_eq!((ended("gone").0, ended("gone").2), (Outcome::Cancelled, vec![End::Cancelled]));
    assert_eq!(ended("wide"), (Outcome::Completed, 1, vec![End::Completed]));
    let (outcome, epochs, ends) = ended("long");
    assert_eq!((outcome, epochs), (Outcome::Completed, 40));
    assert!(ends.contains(&End::Saved) && ends.last() == Some(&End::Completed), "{ends:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_simulated_world_keeps_its_word(start in 0_u32..4, setup in 0_u32..3, end in 0_u32..3, look in 1_u32..10) {
        let folder = tempfile::tempdir().expect("a directory");
        let (jobs, wide) = jobs(folder.path());
        let all: Vec<Job> = jobs.iter().cloned().chain([wide.clone()]).collect();
        let tenths = |count: u32| Seconds(f64::from(count) / 10.0);
        let delays = Delays { start: tenths(start), setup: tenths(setup), end: tenths(end), ..Delays::default() };
        let bad = JobName::new("bad").expect("a name");
        let fails = Incident::Failure { job: bad, submission: 1, epoch: 1, end: End::Failed { exit: 3, signal: 0 } };
        let site = hsched_lab::simulate::SimulatedSite { delays, pinned: true, ..site(cluster("nodes: [{name: n1, gpus: {t4: 2}}]\n"), &all) };
        let world = hsched_lab::simulate::SimulatedWorld::new(site, vec![fails], Time(0.0));
        is_the_story(&play(world, (jobs, wide), |world| world.pass(tenths(look))));
    }
}

/// Returns the context in which a world with its state in a folder renders job scripts.
fn live_site(folder: &Path, inside: Option<Launcher>) -> ScriptContext {
    ScriptContext {
        defaults: rules().defaults,
        template: Template::default(),
        state: folder.join("state"),
        directory: folder.to_owned(),
        sbatch: Vec::new(),
        inside,
    }
}

#[test]
fn the_devices_of_this_machine_keep_their_word() {
    let folder = tempfile::tempdir().expect("a directory");
    let site = live_site(folder.path(), Some(Launcher::Local));
    let directory = StateDir::open(&site.state).expect("a state directory");
    let waker = Waker::new(&directory.make_wishes_folder().expect("a folder")).expect("inotify");
    let facts = Facts { host: "box".into(), ..Facts::default() };
    let devices = Devices::imagined(&Devices::parse("t4:2").expect("a list"), &facts);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_hsched"));
    let site = LocalSite { site, program, threads: None, member: None, variables: Vec::new() };
    let clock = SystemClock::default();
    let here = LocalWorld::new(&clock, &directory, site, devices, &waker);
    let world = PoolWorld { here, lead: None };
    let state = play(world, jobs(folder.path()), |world| {
        for wake in waker.wait(Some(Duration::from_millis(200))) {
            if let Wake::Ended(of, status) = wake {
                world.here.ended(&of, status);
            }
        }
    });
    is_the_story(&state);
}

#[test]
fn slurm_keeps_its_word() {
    let nodes = tempfile::NamedTempFile::new().expect("a file");
    let text = "n1 cpus=8 memory=16000 gpus=t4:2\npartition main default max_time=60 default_time=10\n";
    fs::write(nodes.path(), text).expect("writes");
    let Some(cluster) = start(nodes.path(), STEADY) else { return };
    let folder = cluster.folder("words");
    let site = live_site(&folder, None);
    let directory = StateDir::open(&site.state).expect("a state directory");
    let variables = [
        ("PATH", cluster.path()),
        ("SLURM_CONF", cluster.configuration().into()),
        ("HOME", folder.clone().into()),
    ];
    let runner = System::new(variables.map(|(name, value)| (name.into(), value)), System::LIMIT);
    let clock = SystemClock::default();
    let world = SlurmWorld::new(&runner, &clock, &directory, site, Box::new(|_| Vec::new()));
    let state = play(world, jobs(&folder), |_| std::thread::sleep(Duration::from_millis(500)));
    is_the_story(&state);
}
