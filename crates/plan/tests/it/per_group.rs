//! Policies that decide separately for each group of nodes: no job spans two groups.

use std::collections::BTreeSet;

use hsched_model::{RankNeeds, Sharing, Time};
use hsched_plan::{
    Budget, Decision, Eligibility, HeldPlacement, HoldStage, Host, Memory, POLICIES, Parameters, PerGroup,
    Placement, Plan, Policy, PolicyError, Problem, Registry, Room, Slot, verify,
};
use hsched_problems::problems::{fifteen_gpus, job, problem};

/// Returns the decision of a policy with each node as a group, and checks the plan.
fn decide(policy: impl Fn() -> Box<dyn Policy>, problem: &Problem) -> Plan {
    let mut policy = PerGroup::new(policy, ToString::to_string);
    let plan = policy.decide(problem, &Budget::until(&|| false)).expect("a plan");
    verify(problem, plan).expect("a valid plan").plan().clone()
}

fn policy(name: &str) -> Box<dyn Policy> {
    Registry::new(POLICIES).find_over_time(name, &Parameters::default()).expect("a policy")
}

/// Returns the nodes of each placed job.
fn nodes_of_jobs(plan: &Plan) -> Vec<BTreeSet<usize>> {
    let placed = plan.changes.iter().filter_map(|(_, decision)| match decision {
        Decision::Place { placements, .. } => placements.first(),
        _ => None,
    });
    placed.map(|placement| placement.slots.iter().map(|slot| slot.node).collect()).collect()
}

const NAMES: [&str; 4] = ["horizon", "optimal", "srtf", "fifo"];

#[test]
fn each_job_is_in_one_group() {
    for name in NAMES {
        let jobs = nodes_of_jobs(&decide(|| policy(name), &fifteen_gpus()));
        assert!(!jobs.is_empty() && jobs.iter().all(|nodes| nodes.len() == 1), "{name}: {jobs:?}");
    }
}

#[test]
fn jobs_spread_over_groups_before_they_crowd_one() {
    let jobs = ["a", "b", "c", "d"].map(|name| job(name, 10, 1000, 1.0, &[100.0])).to_vec();
    let problem = problem(&["t"], &[&[4], &[4]], jobs);
    for name in NAMES {
        let nodes = nodes_of_jobs(&decide(|| policy(name), &problem));
        let of = |node: usize| nodes.iter().filter(|nodes_of_job| nodes_of_job.contains(&node)).count();
        assert!(of(0) == of(1) && of(0) > 0, "{name}: {nodes:?}");
    }
}

#[test]
fn a_job_goes_where_its_ranks_find_room() {
    let mut problem = problem(&["t"], &[&[1], &[3]], vec![job("a", 10, 1000, 1.0, &[100.0])]);
    problem.jobs[0].needs = RankNeeds { cpus: 4, memory: 0 };
    for (node, free) in problem.nodes.iter_mut().zip([8, 2]) {
        node.host = Some(Host { cpus: Some(Room { free, total: 8 }), memory: None });
    }
    for name in NAMES {
        // The other group has more GPUs, but too few CPUs.
        assert_eq!(nodes_of_jobs(&decide(|| policy(name), &problem)), [BTreeSet::from([0])], "{name}");
    }
}

#[test]
fn a_job_of_several_gpus_is_offered_to_the_group_that_has_them() {
    let mut large = job("a", 10, 1000, 1.0, &[100.0]);
    (large.min_gpus, large.max_gpus, large.asks) = (4, 4, 4);
    large.needs = RankNeeds { cpus: 4, memory: 0 };
    // The second group has more free GPUs, but none of its nodes has CPUs for more than one rank.
    let mut problem = problem(&["t"], &[&[4], &[4], &[4]], vec![large]);
    for (node, free) in problem.nodes.iter_mut().zip([16, 4, 4]) {
        node.host = Some(Host { cpus: Some(Room { free, total: 16 }), memory: None });
    }
    for name in NAMES {
        let two_groups =
            |node: &hsched_model::NodeName| (node.as_str() != problem.nodes[0].name.as_str()).to_string();
        let mut policy = PerGroup::new(|| policy(name), two_groups);
        let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
        assert_eq!(nodes_of_jobs(&plan), [BTreeSet::from([0])], "{name}");
    }
}

/// Rejects jobs larger than all GPUs that it sees, whether in use or not.
struct Ever;

impl Policy for Ever {
    fn name(&self) -> &'static str {
        "ever"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let why = format!("{} GPUs at most", problem.ceiling[0]);
        let is_too_large = problem.ceiling[0] < problem.jobs[0].min_gpus;
        let decision = if is_too_large { Decision::Reject { why } } else { Decision::Defer { why } };
        Ok(Plan { changes: vec![(0, decision)], ..Plan::default() })
    }
}

#[test]
fn what_could_ever_be_had_is_that_of_a_group() {
    let mut large = job("a", 10, 1000, 1.0, &[100.0]);
    (large.min_gpus, large.asks) = (5, 5);
    let plan = decide(|| Box::new(Ever), &problem(&["t"], &[&[4], &[4]], vec![large]));
    assert_eq!(plan.changes, [(0, Decision::Reject { why: "4 GPUs at most".into() })]);
}

/// Gives the last pending job the GPU of the first job that has one, and asks about this placement. Defers
/// the pending job if no job has a GPU.
struct Displace;

impl Policy for Displace {
    fn name(&self) -> &'static str {
        "displace"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let holder = problem.jobs.iter().position(|job| !job.progress.holds.is_empty());
        let is_there = |job: &hsched_plan::JobModel| job.progress.waits == hsched_plan::Eligibility::Ready;
        let waits = (0..problem.jobs.len())
            .rfind(|&number| Some(number) != holder && is_there(&problem.jobs[number]));
        let Some(waits) = waits else { return Ok(Plan::default()) };
        let defer = |job| (job, Decision::Defer { why: "later".into() });
        let Some(holder) = holder else {
            return Ok(Plan { changes: vec![defer(waits)], ..Plan::default() });
        };
        let slots = problem.jobs[holder].progress.holds[0].slots.clone();
        let placement = Placement::new(problem, waits, &slots, Sharing::Balanced).expect("a placement");
        let place = Decision::place(placement.clone());
        let changes = vec![defer(holder), (waits, place)];
        Ok(Plan { changes, questions: vec![(waits, placement)], ..Plan::default() })
    }
}

#[test]
fn who_gives_gpus_back_comes_before_who_gets_them_and_questions_are_kept() {
    let mut holder = job("holder", 10, 1000, 1.0, &[100.0]);
    holder.progress.holds = vec![HeldPlacement {
        slots: vec![Slot { node: 1, gpu_type: 0, count: 1 }],
        since: Time(0.0),
        epoch: 10.0,
        stage: HoldStage::Queued,
    }];
    let problem = problem(&["t"], &[&[1], &[1]], vec![holder, job("waits", 10, 1000, 1.0, &[100.0])]);
    let mut policy = PerGroup::new(|| Box::new(Displace) as Box<dyn Policy>, ToString::to_string);
    let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
    // The first group defers the job, and the second gives it the GPU of the other job.
    assert!(
        matches!(plan.changes[..], [(0, Decision::Defer { .. }), (1, Decision::Place { .. })]),
        "{:?}",
        plan.changes
    );
    assert_eq!(plan.questions.len(), 1);
}

#[test]
fn jobs_that_cannot_start_take_no_places() {
    let later = |name: &str| {
        let mut waits = job(name, 10, 1000, 1.0, &[100.0]);
        waits.progress.waits = Eligibility::Later;
        waits
    };
    let jobs = vec![later("w1"), later("w2"), job("p", 10, 1000, 1.0, &[100.0])];
    let mut problem = problem(&["t"], &[&[1], &[1]], jobs);
    problem.nodes[1].gpus = vec![0];
    for name in NAMES {
        assert_eq!(nodes_of_jobs(&decide(|| policy(name), &problem)), [BTreeSet::from([0])], "{name}");
    }
}

#[test]
fn a_group_without_a_usable_type_is_not_the_first_for_a_job() {
    // The first group has the only type that the jobs can use, and the long job runs there.
    let mut long = job("long", 1000, 1000, 1.0, &[100.0]);
    long.types.push(None);
    long.progress.holds = vec![HeldPlacement {
        slots: vec![Slot { node: 0, gpu_type: 0, count: 1 }],
        since: Time(0.0),
        epoch: 10.0,
        stage: HoldStage::Running { epoch: 10.0, under_way: 0.0, movable: true, busy_until: Time(0.0) },
    }];
    let mut short = job("short", 1, 1000, 1.0, &[100.0]);
    short.types.push(None);
    let problem = problem(&["t", "k"], &[&[1, 0], &[0, 1]], vec![long, short]);
    let plan = decide(|| policy("srtf"), &problem);
    assert!(plan.changes.iter().any(|(job, _)| *job == 0), "the long job makes room: {:?}", plan.changes);
}

/// Adds up the numbers of jobs that it sees, and keeps the sum in its memory.
#[derive(Default)]
struct Counts(usize);

impl Policy for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        self.0 += problem.present().count();
        Ok(Plan { notes: vec![format!("{} on {}", self.0, problem.ceiling[0])], ..Plan::default() })
    }

    fn memory(&self) -> Option<Memory> {
        Some(Memory { policy: "counts".to_owned(), version: 1, text: self.0.to_string() })
    }

    fn remember(&mut self, memory: &Memory) {
        self.0 = memory.text.parse().expect("a number");
    }
}

#[test]
fn each_group_has_a_memory_of_its_own() {
    let mut long = job("a", 10, 1000, 1.0, &[100.0]);
    long.progress.holds = vec![HeldPlacement {
        slots: vec![Slot { node: 0, gpu_type: 0, count: 1 }],
        since: Time(0.0),
        epoch: 10.0,
        stage: HoldStage::Queued,
    }];
    let problem = problem(&["t"], &[&[1], &[2]], vec![long]);
    let begin = || PerGroup::new(|| Box::new(Counts::default()) as Box<dyn Policy>, ToString::to_string);
    let budget = Budget::until(&|| false);
    let mut policy = begin();
    let notes = |policy: &mut dyn Policy| policy.decide(&problem, &budget).expect("a plan").notes;
    assert_eq!(notes(&mut policy), ["1 on 1", "0 on 2"]);
    assert_eq!(notes(&mut policy), ["2 on 1", "0 on 2"]);
    let memory = policy.memory().expect("a memory");
    let mut later = begin();
    later.remember(&memory);
    assert_eq!(later.memory(), Some(memory));
    assert_eq!(notes(&mut later), ["3 on 1", "0 on 2"]);
    // A group that is gone is forgotten.
    let mut third = begin();
    third.remember(&later.memory().expect("a memory"));
    let mut alone = problem.clone();
    alone.nodes.truncate(1);
    third.decide(&alone, &budget).expect("a plan");
    let text = third.memory().expect("a memory").text;
    assert!(text.contains("n0") && !text.contains("n1"), "{text}");
}
