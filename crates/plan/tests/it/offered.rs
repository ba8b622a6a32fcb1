//! GPUs that jobs may use on a cluster: free, up or allowed ones, with CPUs and memory for their ranks.

use std::collections::BTreeMap;

use hsched_model::formats;
use hsched_model::{
    Access, Cluster, Estimates, GpuStock, GpuType, HeldResources, Holdings, Node, NodeName, NodeState,
    RankNeeds, Time, Usage,
};
use hsched_plan::throughput::{Cache, ThroughputMatrix};
use hsched_plan::{Basis, ClusterView, HeldPlacement, HoldStage, Problem, Slot};

use hsched_problems::problems::rate;

fn v100() -> GpuType {
    GpuType::new("v100").expect("a type")
}

fn node(name: &str, state: &str, total: u32, used: u32, cpus: Usage) -> Node {
    Node {
        state: NodeState::parse(state),
        gpus: vec![GpuStock { gpu_type: v100(), total, used, memory: None }],
        cpus: Some(cpus),
        ..Node::new(NodeName::new(name).expect("a name"))
    }
}

fn cluster() -> Cluster {
    let plenty = Usage { total: 64, used: 0 };
    let nodes = vec![
        node("a", "mixed", 4, 1, plenty),
        node("b", "mixed", 4, 0, Usage { total: 16, used: 9 }),
        node("c", "down*", 4, 0, plenty),
        node("d", "resv", 4, 0, plenty),
        node("e", "idle", 8, 0, plenty),
    ];
    Cluster { nodes, ..Cluster::default() }
}

/// Returns the problem of one job, each rank of which needs four CPUs.
fn problem(held: &Holdings) -> Problem {
    let cluster = cluster();
    let jobs = formats::jobs::parse(
        "jobs: [{name: a, model: m, samples_per_epoch: 100, epochs: 1, global_batch: 64, model_size: 1MB, command: x, throughput: {v100: 10}}]",
    )
    .expect("a job");
    let access = Access::everywhere(RankNeeds { cpus: 4, memory: 1 << 30 });
    let speeds = ThroughputMatrix::new(&jobs, &[v100()], &Cache::default(), Estimates::default());
    let cluster_view =
        ClusterView { cluster: &cluster, access: &access, held, rates: (rate(10.0), rate(300.0)) };
    Problem::live(cluster_view, &jobs, &speeds).expect("a problem")
}

/// Returns the GPUs on which the job may be placed, by node.
fn counts(problem: &Problem, basis: Basis) -> Vec<(String, u32)> {
    let extract = problem.extract(&[0], basis).problem;
    extract.nodes.iter().map(|node| (node.name.to_string(), node.gpus[0])).collect()
}

fn are(counts: &[(String, u32)], expected: &[(&str, u32)]) -> bool {
    counts.iter().map(|(name, count)| (name.as_str(), *count)).eq(expected.iter().copied())
}

/// Returns a pending submission on a node.
fn queued(node: usize, count: u32) -> HeldPlacement {
    let slots = vec![Slot { node, gpu_type: 0, count }];
    HeldPlacement { slots, since: Time(0.0), epoch: 1.0, stage: HoldStage::Queued }
}

#[test]
fn promised_ranks_keep_their_cpus() {
    // Node b has CPUs for one rank.
    let mut problem = problem(&Holdings::new());
    let slot = [Slot { node: 1, gpu_type: 0, count: 1 }];
    let needs = problem.jobs[0].needs;
    assert_eq!(problem.nodes[1].name.as_str(), "b");
    assert!(problem.unclaimed().take(needs, slot.iter()));
    problem.jobs[0].progress.holds = vec![queued(1, 1)];
    assert!(!problem.unclaimed().take(needs, slot.iter()));
}

#[test]
fn free_counts_only_what_a_rank_can_be_put_beside() {
    let problem = problem(&Holdings::new());
    let free = counts(&problem, Basis::Free);
    assert!(are(&free, &[("a", 3), ("b", 1), ("e", 8)]), "{free:?}");
    assert_eq!(
        problem.stranded(&[0], Basis::Free),
        [
            "b: only 1 of 4 GPUs per node are usable: not enough CPUs for more ranks (the largest cpus_per_gpu and memory_per_gpu of all jobs count)"
        ]
    );
    assert_eq!(problem.stranded(&[0], Basis::Queue), Vec::<String>::new());
}

#[test]
fn what_is_mine_counts_as_free() {
    let held = HeldResources { gpus: BTreeMap::from([(v100(), 1)]), cpus: 4, memory: 0 };
    let problem = problem(&Holdings::from([(NodeName::new("a").expect("a name"), held)]));
    assert!(are(&counts(&problem, Basis::Free)[..1], &[("a", 4)]));
}

#[test]
fn limits_take_the_fullest_nodes() {
    let limited = |limit| {
        let mut problem = problem(&Holdings::new());
        problem.limit(&BTreeMap::from([(v100(), limit)]));
        counts(&problem, Basis::Queue)
    };
    assert!(are(&limited(10), &[("a", 2), ("e", 8)]), "{:?}", limited(10));
    assert!(are(&limited(99), &[("a", 4), ("b", 4), ("e", 8)]), "{:?}", limited(99));
}

#[test]
fn a_jobs_own_pending_request_does_not_count_against_a_limit_on_other_requests() {
    let mut problem = problem(&Holdings::new());
    problem.limit(&BTreeMap::from([(v100(), 8)]));
    problem.jobs[0].progress.holds = vec![queued(problem.nodes.len() - 1, 8)];
    assert!(are(&counts(&problem, Basis::Line), &[("e", 8)]), "{:?}", counts(&problem, Basis::Line));
    assert!(are(&counts(&problem, Basis::Queue), &[]), "{:?}", counts(&problem, Basis::Queue));
}
