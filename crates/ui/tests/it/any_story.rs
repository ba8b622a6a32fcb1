//! Random stories for the simulated cluster: its nodes, jobs and faults.

use hsched_engine::End;
use hsched_lab::simulate::{Delays, Incident, IncidentTime, SaveReaction, SimulatedSite};
use hsched_model::{Bytes, Cluster, GpuType, Job, Seconds, Speed, Time};
use hsched_plan::Moves;
use proptest::prelude::*;

use hsched_fixtures::sites::{cluster, jobs, name, node, site};

/// When the stories begin.
pub(crate) const FIRST: Time = Time(1e6);

/// A whole story: the cluster, the jobs and the faults.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) site: SimulatedSite,
    pub(crate) jobs: Vec<(u32, Job)>,
    pub(crate) cancelled: Vec<(u32, usize)>,
    pub(crate) incidents: Vec<Incident>,
    pub(crate) moves: Moves,
    pub(crate) poll: u32,
}

pub(crate) fn gpu_type(number: usize) -> GpuType {
    GpuType::new(["a", "b"][number]).expect("a type")
}

/// One to four nodes, each with at least one GPU of type `a`.
fn any_cluster() -> impl Strategy<Value = Cluster> {
    let node = (1_u32..4, 0_u32..3);
    proptest::collection::vec(node, 1..5).prop_map(|nodes| {
        let line = |(number, (a, b)): (usize, &(u32, u32))| {
            let other = if *b > 0 { format!(", b: {b}") } else { String::new() };
            format!("  - {{name: n{number}, gpus: {{a: {a}{other}}}}}\n")
        };
        cluster(&format!("nodes:\n{}", nodes.iter().enumerate().map(line).collect::<String>()))
    })
}

/// A job that can run on any GPU of type `a`, with its arrival in seconds and its true speeds.
fn any_job(number: usize) -> impl Strategy<Value = (u32, Job, Vec<f64>)> {
    let speeds = (10_u32..200, 10_u32..200, any::<bool>(), 0.3..3.0_f64, 0.3..3.0_f64);
    let shape = (200_u64..3000, 1_u64..6, 10_u64..200, 0_u64..20);
    let limits = (1_u32..4, any::<bool>(), 0_u32..3);
    (0_u32..200, speeds, shape, limits).prop_map(move |(arrival, speeds, shape, (most, limited, retries))| {
        let (a, b, both, true_a, true_b) = speeds;
        let (samples, epochs, batch, megabytes) = shape;
        let text = format!(
            "  - {{name: j{number}, samples_per_epoch: {samples}, epochs: {epochs}, global_batch: {batch}, \
             model_size: {megabytes}MB, throughput: {{a: {a}, b: {b}}}, retries: {retries}, \
             checkpoint: {{restart_cost: 5s}}, command: train}}"
        );
        let mut job = jobs(&text).remove(0);
        job.model_size = Bytes(megabytes * 1_000_000);
        job.max_gpus = limited.then_some(most);
        if !both {
            job.throughput.remove(&gpu_type(1));
        }
        (arrival, job, vec![f64::from(a) * true_a, f64::from(b) * true_b])
    })
}

fn any_incident(jobs: usize, nodes: usize) -> impl Strategy<Value = Vec<Incident>> {
    let end = prop_oneof![
        Just(End::Failed { exit: 1, signal: 0 }),
        Just(End::OutOfMemory),
        Just(End::Preempted),
        Just(End::Other("STRANGE".into())),
    ];
    let failure = (0..jobs, 1_u32..4, 1_u64..5, end).prop_map(|(job, submission, epoch, end)| {
        vec![Incident::Failure { job: name(&format!("j{job}")), submission, epoch, end }]
    });
    let death = (0..nodes, 0_u32..300, 0_u32..200).prop_map(|(number, at, away)| {
        let at = Time(FIRST.0 + f64::from(at));
        let node = node(&format!("n{number}"));
        let returns = IncidentTime::At(at.after(Seconds(f64::from(away) + 31.0)));
        vec![
            Incident::NodeDies { node: node.clone(), when: IncidentTime::At(at) },
            Incident::NodeReturns { node, when: returns },
        ]
    });
    prop_oneof![failure, death]
}

/// A whole story.
pub(crate) fn any_story() -> impl Strategy<Value = Script> {
    (any_cluster(), 1_usize..5).prop_flat_map(|(cluster, count)| {
        let nodes = cluster.nodes.len();
        let jobs = (0..count).map(any_job).collect::<Vec<_>>();
        let incidents = proptest::collection::vec(any_incident(count, nodes), 0..5);
        let cancelled = proptest::collection::vec((0_u32..300, 0..count), 0..2);
        let saving = prop_oneof![
            Just(SaveReaction::AfterStep),
            Just(SaveReaction::AfterEpoch),
            Just(SaveReaction::Never)
        ];
        let delays = (0_u32..5, 0_u32..5, 0_u32..5, 0_u32..30);
        let moves = prop_oneof![Just(Moves::Never), (0.0..0.5_f64).prop_map(|margin| Moves::Auto { margin })];
        let ways = (saving, delays, moves, 1_u32..12, any::<bool>(), any::<bool>());
        (Just(cluster), jobs, incidents, cancelled, ways, any::<u64>()).prop_map(story)
    })
}

type Ingredients = (
    Cluster,
    Vec<(u32, Job, Vec<f64>)>,
    Vec<Vec<Incident>>,
    Vec<(u32, usize)>,
    (SaveReaction, (u32, u32, u32, u32), Moves, u32, bool, bool),
    u64,
);

fn story((cluster, jobs, incidents, cancelled, ways, seed): Ingredients) -> Script {
    let (saving, (start, setup, end, node_down), moves, poll, pinned, limited) = ways;
    let seconds = |number| Seconds(f64::from(number));
    let mut site = site(cluster, &[]);
    for (_, job, rates) in &jobs {
        let speed = |(number, &rate): (usize, &f64)| (gpu_type(number), Speed::rate(rate).expect("a rate"));
        site.speeds.insert(job.model.clone(), rates.iter().enumerate().map(speed).collect());
    }
    site.delays = Delays {
        start: seconds(start),
        setup: seconds(setup),
        end: seconds(end),
        node_down: seconds(node_down),
    };
    (site.saving, site.pinned, site.seed, site.noise) = (saving, pinned, seed, 0.02);
    // Long enough for an epoch; otherwise no job would ever end.
    site.walltime = limited.then_some(Seconds(2000.0));
    let jobs = jobs.into_iter().map(|(arrival, job, _)| (arrival, job)).collect();
    Script { site, jobs, cancelled, incidents: incidents.concat(), moves, poll }
}
