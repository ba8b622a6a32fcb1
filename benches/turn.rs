//! Time to observe and decide in a turn, without storing or acting, while jobs wait for a full cluster:
//! without any event, and with a new decision on all jobs.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up should fail")]

use std::convert::Infallible;

use divan::Bencher;
use hsched_engine::{
    AfterStop, Answer, JobState, KeepsNothing, Observation, PlannedSubmission, Planner, Rules, Run, State,
    SubmissionKey, World, look, turn,
};
use hsched_model::formats;
use hsched_model::{BitRate, Cluster, GpuStock, GpuType, JobId, Node, NodeName, NodeState, Seconds, Time};
use hsched_plan::{Budget, Objective, Parameters, Policy};

const NOW: Time = Time(1.8e9);

/// Numbers of jobs.
const JOBS: [u32; 2] = [400, 3200];

/// The allocator of the program, so that its times are measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// A cluster that refuses all submissions.
struct Full(Cluster);

impl World for Full {
    type Error = Infallible;

    fn observe(&mut self, _: &State) -> Result<Observation, Infallible> {
        Ok(Observation::new(NOW, self.0.clone()))
    }

    fn prepare(&mut self, _: &Run) -> Result<(), String> {
        Err("nothing fits".to_owned())
    }

    fn submit(&mut self, _: &Run, _: &PlannedSubmission) -> Answer {
        Answer::Refused { message: "nothing fits".to_owned() }
    }

    fn stop(&mut self, _: &SubmissionKey, _: JobId, _: AfterStop) -> Answer {
        Answer::Stopped
    }

    fn cancel(&mut self, _: &SubmissionKey, _: JobId) -> Answer {
        Answer::Killed
    }

    fn forecast(&mut self, _: &Run) -> Option<Seconds> {
        None
    }
}

/// Returns 100 nodes with eight GPUs each, all in use except the GPUs of the first `free` nodes.
fn full(free: u32) -> Full {
    let node = |number: u32| Node {
        state: NodeState::parse("alloc"),
        gpus: vec![GpuStock {
            gpu_type: GpuType::new(["v100", "t4"][usize::from(number % 2 == 1)]).expect("a type"),
            total: 8,
            used: if number < free { 0 } else { 8 },
            memory: None,
        }],
        ..Node::new(NodeName::new(&format!("gpu{number}")).expect("a name"))
    };
    Full(Cluster { nodes: (0..100).map(node).collect(), ..Cluster::default() })
}

fn rules() -> Rules {
    let rate = BitRate::new(10.0).expect("a rate");
    Rules::new(rate, rate)
}

/// Returns a state with this number of waiting jobs.
fn waiting(jobs: u32) -> State {
    let waiting = |number: u32| {
        let text = format!(
            "jobs: [{{name: job-{number}, samples_per_epoch: 100000, epochs: 90, global_batch: 512, \
             model_size: 46.8MB, throughput: {{v100: 644, t4: 275}}, command: python train.py --lr 0.1, \
             workdir: /home/me/project}}]"
        );
        JobState::new(formats::jobs::parse(&text).expect("a job").remove(0), NOW)
    };
    State { jobs: (0..jobs).map(waiting).collect(), ..State::default() }
}

fn planner(policy: &mut dyn Policy) -> Planner<'_> {
    let budget = Budget { begin: &|| (), stop: &|| false };
    Planner {
        policy,
        objective: Objective::MeanJct,
        seed: 0,
        run: "r",
        budget,
        forecasts: Vec::new(),
        start_estimates: None,
    }
}

/// Measures the observation and the decision of a turn after another turn has decided on all jobs. Unless
/// `is_idle` is set, `free` nodes become free in between, and the decision is forgotten.
fn bench(bencher: Bencher<'_, '_>, jobs: u32, free: u32, is_idle: bool) {
    let (mut world, mut state, rules) = (full(0), waiting(jobs), rules());
    let mut policy = hsched_lab::find("optimal", &Parameters::default()).expect("a policy");
    let mut planner = planner(policy.as_mut());
    let Ok::<_, Infallible>(_) =
        turn(&mut world, &mut KeepsNothing, &mut state, &rules, &mut planner, &mut |_| ());
    if !is_idle {
        (world, state.decided) = (full(free), None);
    }
    let Ok(seen) = look(&mut world, &state, &rules, &mut planner);
    assert_eq!(seen.step.is_none(), is_idle, "another turn than it should be");
    bencher.bench_local(|| look(&mut world, &state, &rules, &mut planner));
}

/// Measures a turn without any event.
#[divan::bench(args = JOBS)]
fn idle(bencher: Bencher<'_, '_>, jobs: u32) {
    bench(bencher, jobs, 0, true);
}

/// Measures a turn that decides on all jobs again.
#[divan::bench(args = JOBS)]
fn decides(bencher: Bencher<'_, '_>, jobs: u32) {
    bench(bencher, jobs, 0, false);
}

/// Measures a turn after a node has become free, in which the policy decides to submit jobs.
#[divan::bench(args = JOBS)]
fn submits(bencher: Bencher<'_, '_>, jobs: u32) {
    bench(bencher, jobs, 1, false);
}
