//! Tiny states for the engine's tests: jobs, clusters, attempts, and what a step does in words.

use hsched_engine::{
    Action, Answer, Attempt, Event, Gpus, Intent, News, Observation, Phase, Planner, Realm, Request, Rules,
    Sighting, Stage, Standing, State, Step, Submission, SubmissionKey, Then, Tracked, step,
};
use hsched_model::{
    BitRate, Cluster, GpuStock, GpuType, Job, JobDefaults, JobId, JobName, Node, NodeName, NodeState,
    PlacedRank, Seconds, Time,
};
use hsched_plan::{Budget, Moves, Objective, Parameters, Policy, Replanning};

pub fn job(name: &str, rates: &str, more: &str) -> Job {
    let text = format!(
        "jobs: [{{name: {name}, samples_per_epoch: 1000, epochs: 10, global_batch: 100, model_size: 0, \
         throughput: {rates}, command: [x]{more}}}]"
    );
    hsched_model::formats::jobs::parse(&text).expect("a job").remove(0)
}

pub fn name(text: &str) -> JobName {
    JobName::new(text).expect("a name")
}

pub fn gpu(text: &str) -> GpuType {
    GpuType::new(text).expect("a type")
}

/// A cluster of nodes with GPUs: `(name, type, total, used, state)`.
pub fn cluster(nodes: &[(&str, &str, u32, u32, &str)]) -> Cluster {
    let node = |&(own, gpu_type, total, used, state): &(&str, &str, u32, u32, &str)| Node {
        state: NodeState::parse(state),
        gpus: vec![GpuStock { gpu_type: gpu(gpu_type), total, used, memory: None }],
        ..Node::new(NodeName::new(own).expect("a name"))
    };
    Cluster { nodes: nodes.iter().map(node).collect(), ..Cluster::default() }
}

/// How steps are taken: the engine's rules, and how what is placed is planned again.
#[derive(Clone)]
pub struct How {
    pub rules: Rules,
    pub replanning: Replanning,
}

/// Rules with short times.
pub fn how(moves: Moves) -> How {
    How { rules: rules(), replanning: Replanning { moves, ..Replanning::default() } }
}

/// Rules with short times.
pub fn rules() -> Rules {
    let rate = BitRate::new(10.0).expect("a rate");
    Rules {
        realm: Realm::Queue,
        defaults: JobDefaults {
            time_margin: 1.3,
            grace: Seconds(10.0),
            het_steps: true,
            ..JobDefaults::default()
        },
        network: rate,
        intra_node: rate,
        capacity: std::collections::BTreeMap::new(),
        pinned: false,
        restart_cost: Seconds(5.0),
        retry_delay: Seconds(30.0),
        learning_rate: 0.3,
    }
}

/// An attempt on GPUs of one node, in shares of 100 samples a step.
pub fn attempt(run: &str, node: &str, gpu_type: &str, count: u32, done: u64) -> Attempt {
    let rank = |local_rank| PlacedRank {
        node: NodeName::new(node).expect("a name"),
        gpu_type: gpu(gpu_type),
        local_rank,
        batch: u64::from(100 / count),
        samples: u64::from(1000 / count),
    };
    let ranks: Vec<PlacedRank> = (0..count).map(rank).collect();
    Attempt { job_id: Some(JobId(7)), ..Attempt::new(run, ranks, Seconds(10.0), done, Time(0.0)) }
}

pub fn running(job: Job, attempt: Attempt, done: u64) -> Tracked {
    let attempt = Attempt { started: Some(Time(0.0)), ..attempt };
    Tracked { phase: phase(attempt, Stage::Running), epochs_done: done, ..Tracked::new(job, Time(0.0)) }
}

/// The phase of a job with one submission.
pub fn phase(attempt: Attempt, stage: Stage) -> Phase {
    Phase::Submitted(vec![Submission { attempt, stage }])
}

/// A stage of a submission that is being ended.
pub fn stopping(since: f64, then: Then, request: Request) -> Stage {
    Stage::Stopping { since: Time(since), then, request }
}

/// The attempt of a job's only submission, which is at this stage.
pub fn only<'a>(phase: &'a Phase, stage: &str) -> &'a Attempt {
    let [Submission { attempt, .. }] = phase.submissions() else { panic!("{phase:?}") };
    assert_eq!(phase.word(), stage);
    attempt
}

pub fn key(job: &str, run: &str) -> SubmissionKey {
    SubmissionKey::new(name(job), run)
}

pub fn answered(job: &str, run: &str, answer: Answer) -> Event {
    Event::Answer { of: key(job, run), answer }
}

pub fn heard(job: &str, run: &str, news: News) -> Event {
    Event::News { of: key(job, run), news }
}

pub fn state(jobs: Vec<Tracked>) -> State {
    State { jobs, ..State::default() }
}

pub fn take(state: State, at: f64, cluster: &Cluster, how: &How) -> Step {
    take_after(state, at, cluster, (how, None))
}

pub fn take_by(policy: &str, state: State, at: f64, cluster: &Cluster, how: &How) -> Step {
    step_by(policy, state, at, cluster, (how, None))
}

/// A step where the queue says how many seconds a job would wait in it.
pub fn take_after(state: State, at: f64, cluster: &Cluster, how: (&How, Option<f64>)) -> Step {
    step_by("optimal", state, at, cluster, how)
}

fn step_by(
    policy: &str,
    state: State,
    at: f64,
    cluster: &Cluster,
    (How { rules, replanning }, wait): (&How, Option<f64>),
) -> Step {
    let parameters = Parameters { replanning: *replanning, ..Parameters::default() };
    let mut policy = hsched_lab::find(policy, &parameters).expect("a policy");
    let mut planner = planner(policy.as_mut());
    let mut first = step(state.clone(), Time(at), &[], cluster, (rules, &mut planner));
    if !first.inquiries.is_empty() {
        // Nobody knows anything of the queue.
        planner.prospects = Some(Vec::new());
        first = step(state.clone(), Time(at), &[], cluster, (rules, &mut planner));
    }
    if first.questions.is_empty() {
        return first;
    }
    planner.forecasts = first.questions.into_iter().map(|own| own.answered(wait.map(Seconds))).collect();
    let then = step(state, Time(at), &[], cluster, (rules, &mut planner));
    assert_eq!(then.questions, []);
    then
}

/// The policy `optimal`, planned again with these moves.
pub fn policy(moves: Moves) -> Box<dyn Policy> {
    policy_named("optimal", moves)
}

pub fn policy_named(name: &str, moves: Moves) -> Box<dyn Policy> {
    let replanning = Replanning { moves, ..Replanning::default() };
    hsched_lab::find(name, &Parameters { replanning, ..Parameters::default() }).expect("a policy")
}

pub fn planner(policy: &mut dyn Policy) -> Planner<'_> {
    Planner {
        policy,
        objective: Objective::MeanJct,
        seed: 0,
        run: "next",
        budget: Budget { begin: &|| (), stop: &|| false },
        forecasts: Vec::new(),
        prospects: None,
    }
}

/// What is done, in words: `submit a on 2 v100`.
pub fn words(actions: &[Action]) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Submit(run) => {
            let one = |own: &Intent| format!("submit {} on {}", run.jobs[own.job].name, run.gpus(own));
            run.submissions.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Action::Stop { of: SubmissionKey { job, .. }, .. } => format!("stop {job}"),
        Action::Cancel { of: SubmissionKey { job, .. }, .. } => format!("cancel {job}"),
        Action::Amend { of: SubmissionKey { job, .. }, to, .. } => {
            format!("change {job} to {}", Gpus::of(&to.ranks))
        }
        Action::Wait { job, .. } => format!("{job} waits"),
        Action::GiveUp { job, why } => format!("{job} is given up: {why}"),
        Action::Learn { job, .. } => format!("{job} teaches"),
    };
    actions.iter().map(word).collect()
}

pub fn look(at: f64, sightings: Vec<Sighting>) -> Observation {
    Observation {
        at: Time(at),
        cluster: Cluster::default(),
        sightings,
        strays: Vec::new(),
        epochs: Vec::new(),
        odd: Vec::new(),
        notes: Vec::new(),
    }
}

pub fn sighting(job_id: u32, standing: Standing) -> Sighting {
    let submit_time = Some("2026-11-21T06:13:16".to_owned());
    Sighting { of: key("a", "r"), job_id: JobId(job_id), submit_time, standing, reason: None }
}
