//! Problems for tests: the planner's examples, and random small ones with many features mixed.

use hsched_model::{BitRate, GpuType, JobName, NodeName, RankNeeds, Seconds, Speed, Time};
use hsched_plan::{
    JobModel, Objective, Problem, ProblemChanges, Progress, Rounds, Sharing, TypeModel, WorkerNode,
};
use proptest::prelude::*;

pub fn rate(gigabits: f64) -> BitRate {
    BitRate::new(gigabits).expect("a rate")
}

/// Returns a job with only its training and a rate by type, and with one synchronisation per epoch.
pub fn job(name: &str, epochs: u64, samples: u64, megabytes: f64, rates: &[f64]) -> JobModel {
    let model = |&rate: &f64| TypeModel {
        speed: Speed::rate(rate).expect("a rate"),
        max_batch: None,
        single_rank: false,
    };
    JobModel {
        name: JobName::new(name).expect("a name"),
        samples_per_epoch: samples,
        epochs,
        global_batch: 512,
        batch_quantum: 1,
        model_bytes: megabytes * 1e6,
        syncs_per_epoch: 1.0,
        overlap: 0.0,
        weight: 1.0,
        min_gpus: 1,
        max_gpus: 512,
        asks: 1,
        accumulate: true,
        types: rates.iter().map(|rate| Some(model(rate))).collect(),
        unusable: Vec::new(),
        sources: Vec::new(),
        unlisted: Vec::new(),
        remarks: Vec::new(),
        rounds: Rounds::default().into(),
        aims: hsched_plan::Aims::default(),
        may_use: vec![true; rates.len()],
        needs: RankNeeds::default(),
        replica: None,
        sharing: Sharing::Balanced,
        progress: Progress::of_epochs(epochs),
    }
}

pub fn problem(types: &[&str], nodes: &[&[u32]], jobs: Vec<JobModel>) -> Problem {
    let node = |(index, gpus): (usize, &&[u32])| {
        let name = NodeName::new(&format!("n{index}")).expect("a name");
        WorkerNode::on_offer(name, gpus.to_vec(), rate(300.0))
    };
    Problem {
        labels: types.iter().map(ToString::to_string).collect(),
        gpu_types: types.iter().map(|name| GpuType::new(name).expect("a type")).collect(),
        ceiling: (0..types.len()).map(|ty| nodes.iter().map(|node| node[ty]).sum()).collect(),
        nodes: nodes.iter().enumerate().map(node).collect(),
        network: rate(10.0),
        jobs,
        objective: Objective::MeanJct,
        late: 0.0,
        seed: 0,
        now: Time(0.0),
        limits: Vec::new(),
        forecasts: Vec::new(),
        start_estimates: None,
        changed: ProblemChanges::All,
    }
}

/// Returns the planner's worked example: two jobs, 2 T4 and 2 V100.
pub fn worked_example() -> Problem {
    let jobs = vec![
        job("resnet18", 200, 100_000, 0.0, &[275.0, 644.0]),
        job("vgg19", 200, 50_000, 0.0, &[884.0, 1754.0]),
    ];
    problem(&["t4", "v100"], &[&[2, 0], &[0, 2]], jobs)
}

/// Returns the planner's larger example: four jobs and three nodes of five P100, T4 and V100.
pub fn fifteen_gpus() -> Problem {
    let jobs = vec![
        job("resnet101", 200, 50_000, 178.0, &[290.0, 190.0, 480.0]),
        job("resnet18", 200, 100_000, 46.8, &[420.0, 275.0, 644.0]),
        job("vgg19", 200, 50_000, 80.0, &[1300.0, 884.0, 1754.0]),
        job("alexnet", 100, 50_000, 244.0, &[2500.0, 1900.0, 3000.0]),
    ];
    problem(&["p100", "t4", "v100"], &[&[5, 0, 0], &[0, 5, 0], &[0, 0, 5]], jobs)
}

fn speed() -> impl Strategy<Value = Speed> {
    let linear = (1_u32..40).prop_map(|rate| Speed::rate(f64::from(rate) * 25.0).expect("valid"));
    let affine = (0_u32..200, 1_u32..50).prop_map(|(alpha, beta)| {
        Speed::affine(Seconds(f64::from(alpha) / 1e3), Seconds(f64::from(beta) / 1e4)).expect("valid")
    });
    prop_oneof![2 => linear, 1 => affine]
}

fn type_model() -> impl Strategy<Value = Option<TypeModel>> {
    let model = (speed(), proptest::option::weighted(0.3, 4_u64..40))
        .prop_map(|(speed, max_batch)| TypeModel { speed, max_batch, single_rank: false });
    proptest::option::weighted(0.85, model)
}

fn any_job(types: usize) -> impl Strategy<Value = JobModel> {
    let training = (1_u64..20, 50_u64..5000, 1_u64..5, prop_oneof![Just(1_u64), Just(4), Just(8)]);
    // Deadlines from a second to almost an hour from now, and some that have passed.
    let deadline = proptest::option::weighted(
        0.8,
        (-2_i32..36)
            .prop_map(|tenths| Time(if tenths < 0 { -5.0 } else { 10_f64.powf(f64::from(tenths) / 10.0) })),
    );
    let limits = (1_u32..3, proptest::option::weighted(0.3, 1_u32..4), any::<bool>(), 0_u32..3);
    let links = (0_u32..300, prop_oneof![Just(1.0), Just(40.0)], prop_oneof![Just(0.0), Just(0.5)]);
    (training, limits, links, proptest::collection::vec(type_model(), types), deadline).prop_map(
        |(
            (epochs, samples, quanta, quantum),
            (min, max, accumulate, weight),
            (size, syncs, overlap),
            types,
            deadline,
        )| {
            let global_batch = quantum * quanta * 8;
            let quanta = u32::try_from(quanta * 8).expect("small");
            JobModel {
                global_batch,
                batch_quantum: quantum,
                syncs_per_epoch: syncs,
                overlap,
                weight: f64::from(weight + 1),
                min_gpus: min,
                max_gpus: max.map_or(quanta, |max| (min + max).min(quanta)),
                asks: min,
                accumulate,
                aims: hsched_plan::Aims { deadline, ..hsched_plan::Aims::default() },
                may_use: vec![true; types.len()],
                types,
                ..job("job", epochs, samples, f64::from(size), &[])
            }
        },
    )
}

/// Returns the problem with the mean completion time as its objective if its own objective concerns
/// deadlines.
pub fn without_deadlines(mut problem: Problem) -> Problem {
    if problem.objective == Objective::Deadlines {
        problem.objective = Objective::MeanJct;
    }
    problem
}

/// Returns random problems of at most `max_jobs` jobs and `max_gpus` GPUs: mixed nodes, both kinds of speed,
/// caps, forbidden types, limits, deadlines, quanta, slow and fast links and, only if `slices`, MIG slices.
pub fn any_problem(max_gpus: u32, max_jobs: usize, slices: bool) -> impl Strategy<Value = Problem> {
    let shape = (1_usize..3, 1_usize..4, 1_usize..=max_jobs, any::<bool>());
    shape.prop_flat_map(move |(types, nodes, jobs, slice)| {
        let slices = slices && slice;
        let gpus = proptest::collection::vec(proptest::collection::vec(0_u32..3, types), nodes);
        let gpus = gpus.prop_map(move |mut nodes| {
            let mut left = max_gpus;
            for count in nodes.iter_mut().flatten() {
                *count = left.min(*count);
                left -= *count;
            }
            nodes
        });
        let jobs = proptest::collection::vec(any_job(types), jobs);
        let objective = prop_oneof![
            Just(Objective::MeanJct),
            Just(Objective::Weighted),
            Just(Objective::Makespan),
            Just(Objective::Deadlines)
        ];
        (gpus, jobs, objective, 0_u64..1000, any::<bool>()).prop_map(
            move |(gpus, mut jobs, objective, seed, slow_node)| {
                let names = ["v100", if slices { "a100_1g.5gb" } else { "t4" }];
                for (index, job) in jobs.iter_mut().enumerate() {
                    job.name = JobName::new(&format!("job{index}")).expect("a name");
                    if let Some(Some(model)) = job.types.get_mut(1) {
                        model.single_rank = slices;
                    }
                }
                let nodes: Vec<&[u32]> = gpus.iter().map(Vec::as_slice).collect();
                let mut problem = problem(&names[..types], &nodes, jobs);
                if slow_node {
                    problem.nodes[0].intra_node = rate(5.0);
                }
                Problem { objective, seed, ..problem }
            },
        )
    })
}
