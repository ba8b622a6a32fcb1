//! `watch --queue` by the engine alone: its requests to Slurm for waiting jobs.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use hsched_engine::{
    Action, GpuRequest, Inquiry, JobRequests, JobState, Knows, Listing, Phase, Rules, SpeedsOf, Stage, State,
    Step, Submission, SubmissionRecord, requests, step,
};
use hsched_model::{Cluster, Job, Node, Partition, RequestOption, SbatchOptions, Seconds, Time};
use hsched_plan::throughput::{Cache, ThroughputMatrix};
use hsched_plan::{JobStartEstimates, Parameters, Policy, Replanning, RequestStartEstimate};
use hsched_queue::{GpuCount, NodeUse, QueueNode, QueuePartition, Snapshot};

use hsched_fixtures::engine_states::{attempt, cluster, gpu, job, planner, rules, state, words};

const HOUR: f64 = 3600.0;

/// The policy `optimal` with jobs that wait in the queue.
pub fn queueing() -> Box<dyn Policy> {
    let replanning = Replanning { queue: true, ..Replanning::default() };
    hsched_lab::find("optimal", &Parameters { replanning, ..Parameters::default() }).expect("a policy")
}

/// A job that takes ten hours on one V100 and twenty on one T4.
fn ten_hours() -> Job {
    let more = ", max_gpus: 4";
    Job { samples_per_epoch: 360_000, ..job("a", "{v100: 100, t4: 50}", more) }
}

pub fn full() -> Cluster {
    cluster(&[("v1", "v100", 4, 4, "allocated"), ("t1", "t4", 4, 4, "allocated")])
}

pub fn kind(per_node: u32, gpu_type: &str) -> GpuRequest {
    GpuRequest { nodes: 1, per_node, gpu_type: gpu(gpu_type) }
}

/// The job of [`ten_hours`], pending for four V100 with a script that also works on one or two.
pub fn pending() -> JobState {
    let submission = attempt("r", "v1", "v100", 4, 0);
    let submission = SubmissionRecord {
        race: true,
        tables: vec![kind(1, "v100"), kind(2, "v100")],
        epoch: Seconds(HOUR / 4.0),
        ..submission
    };
    let phase = Phase::Submitted(vec![Submission { attempt: submission, stage: Stage::Pending }]);
    JobState { phase, ..JobState::new(ten_hours(), Time(0.0)) }
}

/// The queue of a cluster without pending jobs; a node that names no partition is in all partitions.
fn snapshot(cluster: &Cluster) -> Snapshot {
    let all = || cluster.partitions.iter().map(|partition| partition.name.clone()).collect();
    let node = |node: &Node| QueueNode {
        name: node.name.clone(),
        partitions: if node.partitions.is_empty() { all() } else { node.partitions.clone() },
        gpus: node
            .gpus
            .iter()
            .map(|stock| GpuCount { gpu_type: stock.gpu_type.clone(), count: stock.total })
            .collect(),
        cpus: None,
        memory_mib: None,
        features: node.features.clone(),
        usable: NodeUse::Up,
    };
    let partition = |partition: &Partition| QueuePartition {
        name: partition.name.clone(),
        default: partition.default,
        default_time_s: None,
        max_time_s: partition.max_time,
        max_nodes: None,
        tier: None,
        accounts: None,
        limit_qos: None,
        qos: None,
        deny_accounts: BTreeSet::new(),
        deny_qos: BTreeSet::new(),
        preemptible: false,
        suspends: false,
        exclusive: false,
        billing: None,
    };
    let nodes = cluster.nodes.iter().map(node).collect();
    let partitions = cluster.partitions.iter().map(partition).collect();
    Snapshot { nodes, partitions, ..Snapshot::empty(Time(0.0)) }
}

#[test]
fn a_job_that_waits_may_ask_for_what_when_lists() {
    let partition = |name: &str, hours: f64| Partition {
        name: name.to_owned(),
        default: false,
        max_time: Some(Seconds(hours * HOUR)),
    };
    let cluster = Cluster { partitions: vec![partition("short", 3.0), partition("day", 24.0)], ..full() };
    let mut job = ten_hours();
    job.launch.partition = Some("short,day".into());
    job.launch.checkpoint.grace = Some(Seconds(10.0));
    (job.launch.account, job.launch.other_accounts) = (Some("a".into()), vec!["b".into()]);
    let jobs = state(vec![JobState::new(job.clone(), Time(0.0))]);
    let mut policy = queueing();
    let mut planner = planner(policy.as_mut());
    let asked = step(jobs, Time(1.0), &[], &cluster, &rules(), &mut planner);
    let told = answer(&cluster, &asked.inquiries[0], 0.0, &|_| (1.0, 0.0));
    // The list of `when`: from the job file, the settings and the snapshot.
    let listed = listed(&job, &snapshot(&cluster), &rules());
    // Four requests of V100 and four of T4, for two accounts in two partitions, exceed the limit.
    assert_eq!((listed.possible, listed.requests.len()), (32, 24));
    let told: Vec<RequestOption> =
        told.requests.into_iter().map(|request_start_estimate| request_start_estimate.request).collect();
    assert_eq!(told, listed.requests);
}

/// Returns the requests that `when` lists for a job.
fn listed(job: &Job, snapshot: &Snapshot, rules: &Rules) -> JobRequests {
    let listing = Listing {
        job,
        snapshot,
        defaults: &rules.defaults,
        rates: (rules.network, rules.intra_node),
        capacity: &rules.capacity,
        at_least: None,
        options: &SbatchOptions::default(),
    };
    let estimates = rules.defaults.estimate;
    let speeds: SpeedsOf<'_, Infallible> =
        &|jobs, types| Ok(ThroughputMatrix::new(jobs, types, &Cache::default(), estimates));
    let Ok(listed) = requests(&listing, &Knows { speeds, resumes: &|| true }, &mut Vec::new());
    listed
}

#[test]
fn a_job_without_requests_is_told_which_limit_is_in_the_way() {
    let gpu_partition = Partition { name: "gpu".to_owned(), default: true, max_time: None };
    let nodes = cluster(&[("v1", "v100", 2, 0, "idle"), ("v2", "v100", 2, 0, "idle")]);
    let cluster = Cluster { partitions: vec![gpu_partition], ..nodes };
    let nothing = |gpus: u32, capacity: Option<u32>, max_nodes: Option<u32>| {
        let mut snapshot = snapshot(&cluster);
        snapshot.partitions[0].max_nodes = max_nodes;
        let capacity = capacity.map(|most| (gpu("v100"), most)).into_iter().collect();
        let job = job("a", "{v100: 100}", &format!(", gpus: {gpus}"));
        listed(&job, &snapshot, &Rules { capacity, ..rules() }).nothing
    };
    assert_eq!(nothing(4, Some(4), Some(2)), None);
    let capacity = "the setting capacity allows fewer GPUs than each of its requests needs";
    assert_eq!(nothing(4, Some(3), Some(2)).as_deref(), Some(capacity));
    let nodes = "each of its requests needs more than 1 node, the maximum of partition gpu (MaxNodes)";
    assert_eq!(nothing(4, None, Some(1)).as_deref(), Some(nodes));
    let both = format!("{capacity}; {nodes}");
    assert_eq!(nothing(4, Some(3), Some(1)), Some(both));
}

/// Answers an inquiry: the first pending request waits `stays` hours; `wait` gives the hours until a request
/// starts if it is submitted anew, and if the pending request is changed into it.
pub fn answer(
    cluster: &Cluster,
    inquiry: &Inquiry,
    stays: f64,
    wait: &dyn Fn(&GpuRequest) -> (f64, f64),
) -> JobStartEstimates {
    let (rules, snapshot) = (rules(), snapshot(cluster));
    let listing = Listing {
        job: &inquiry.rest,
        snapshot: &snapshot,
        defaults: &rules.defaults,
        rates: (rules.network, rules.intra_node),
        capacity: &rules.capacity,
        at_least: inquiry.at_least,
        options: &SbatchOptions::default(),
    };
    let speeds: SpeedsOf<'_, Infallible> = &|_, _| Ok(inquiry.speeds.clone());
    let knows = Knows { speeds, resumes: &|| inquiry.resumes };
    let Ok(listed) = requests(&listing, &knows, &mut Vec::new());
    let hours = |time: f64| Some(Seconds(time * HOUR));
    let estimate = |request: RequestOption| {
        let (anew, in_place) = wait(&GpuRequest::asked(&request));
        let can_change = inquiry.in_place(&request, &rules.defaults).is_some();
        RequestStartEstimate { anew: hours(anew), in_place: hours(in_place).filter(|_| can_change), request }
    };
    JobStartEstimates {
        job: inquiry.job,
        // A request that was queued beside the first one starts now.
        stays: (0..)
            .zip(inquiry.pending())
            .map(|(n, id)| id.and(hours(if n == 0 { stays } else { 0.0 })))
            .collect(),
        races: inquiry.races(),
        requests: listed.requests.into_iter().map(estimate).collect(),
        cut: listed.cut,
    }
}

/// A step with a queue that estimates starts.
pub fn take(
    state: &State,
    at: f64,
    cluster: &Cluster,
    stays: f64,
    wait: &dyn Fn(&GpuRequest) -> (f64, f64),
) -> Step {
    let mut policy = queueing();
    let mut planner = planner(policy.as_mut());
    let rules = rules();
    let first = step(state.clone(), Time(at), &[], cluster, &rules, &mut planner);
    if first.inquiries.is_empty() {
        return first;
    }
    planner.start_estimates =
        Some(first.inquiries.iter().map(|inquiry| answer(cluster, inquiry, stays, wait)).collect());
    step(state.clone(), Time(at), &[], cluster, &rules, &mut planner)
}

#[test]
fn a_job_begins_with_the_request_that_is_done_first() {
    let jobs = state(vec![JobState::new(ten_hours(), Time(0.0))]);
    // Three or four V100 start in twenty hours, two in one hour, one in half an hour, and T4 in nine hours.
    // The job takes ten hours on one V100 and twice as long on one T4.
    let wait = |kind: &GpuRequest| {
        (
            if kind.gpu_type == gpu("t4") { 9.0 } else { [0.5, 1.0, 20.0, 20.0][kind.per_node as usize - 1] },
            0.0,
        )
    };
    let begun = take(&jobs, 1.0, &full(), 0.0, &wait);
    assert_eq!(words(&begun.actions), ["submit a on 2 v100"]);
    let Action::Submit(run) = &begun.actions[0] else { panic!() };
    let spares: Vec<Option<GpuRequest>> =
        run.submissions[0].spares.iter().map(|spare| GpuRequest::of(spare)).collect();
    assert_eq!(spares, [Some(kind(1, "v100")), Some(kind(3, "v100")), Some(kind(4, "v100"))]);
    assert!(run.submissions[0].race);
}

#[test]
fn free_gpus_are_left_where_waiting_for_others_is_sooner() {
    let jobs = state(vec![JobState::new(ten_hours(), Time(0.0))]);
    let free = cluster(&[("v1", "v100", 4, 4, "allocated"), ("t1", "t4", 4, 3, "mixed")]);
    // The job takes twenty hours on one T4; four V100 start in one hour.
    let soon = |kind: &GpuRequest| (if kind.gpu_type == gpu("t4") { 0.0 } else { 1.0 }, 0.0);
    assert_eq!(words(&take(&jobs, 1.0, &free, 0.0, &soon).actions), ["submit a on 4 v100"]);
    let late = |request_kind: &GpuRequest| (if *request_kind == kind(1, "t4") { 0.0 } else { 30.0 }, 0.0);
    assert_eq!(words(&take(&jobs, 1.0, &free, 0.0, &late).actions), ["submit a on 1 t4"]);
}

#[test]
fn what_a_limit_would_end_is_not_asked_for_where_the_job_cannot_go_on() {
    let within =
        |hours: f64| Partition { name: "only".into(), default: true, max_time: Some(Seconds(hours * HOUR)) };
    // A T4, on which the job takes twenty hours, is free at once; four V100, on which it takes two and a
    // half, are free much later.
    let free = cluster(&[("v1", "v100", 4, 4, "allocated"), ("t1", "t4", 4, 3, "mixed")]);
    let wait = |request_kind: &GpuRequest| (if *request_kind == kind(1, "t4") { 0.0 } else { 30.0 }, 0.0);
    let begun = |hours: f64, job: JobState| {
        let cluster = Cluster { partitions: vec![within(hours)], ..free.clone() };
        let then = take(&state(vec![job]), 1.0, &cluster, 0.0, &wait);
        (words(&then.actions).join(", "), then.state.jobs[0].last.1.clone())
    };
    let job = || JobState::new(ten_hours(), Time(0.0));
    let mut saves = job();
    Arc::make_mut(&mut saves.job).launch.checkpoint.grace = Some(Seconds(10.0));
    assert_eq!(begun(24.0, job()).0, "submit a on 1 t4");
    assert_eq!(begun(3.0, saves.clone()).0, "submit a on 1 t4");
    assert_eq!(begun(3.0, job()).0, "submit a on 4 v100");
    assert_eq!(begun(2.0, saves).0, "submit a on 1 t4");
    let (actions, why) = begun(2.0, job());
    assert!(
        actions == "a waits" && why.starts_with("every possible time limit is shorter"),
        "{actions}: {why}"
    );
    // Of two partitions, the one with the longer limit has no V100.
    let both = |more: Vec<Partition>| {
        let mut pending_job = job();
        Arc::make_mut(&mut pending_job.job).launch.partition = Some("only,long".into());
        let mut cluster = Cluster { partitions: more, ..free.clone() };
        for (node, names) in cluster.nodes.iter_mut().zip([&["only"][..], &["only", "long"]]) {
            node.partitions = names.iter().map(|&name| name.to_owned()).collect();
        }
        let then = take(&state(vec![pending_job]), 1.0, &cluster, 0.0, &|_| (0.0, 0.0));
        let attempt = then.state.jobs[0].phase.attempt().expect("an attempt");
        let queue_choice = attempt.queue_choice.as_ref().and_then(|choice| choice.partition.clone());
        (words(&then.actions).join(", "), queue_choice.unwrap_or_default())
    };
    let long = Partition { name: "long".into(), ..within(30.0) };
    assert_eq!(both(vec![within(2.0), long]), ("submit a on 4 t4".to_owned(), "long".to_owned()));
    // The job was observed to continue after the epochs of an earlier run.
    let mut seen = job();
    let attempt = attempt("r", "v1", "v100", 4, 2);
    let end = hsched_engine::End::TimedOut;
    seen.past.push(hsched_engine::PastAttempt { attempt, ended: Time(0.5), end, epochs: 1 });
    assert_eq!(begun(2.0, seen).0, "submit a on 1 t4");
}

#[test]
fn nothing_is_changed_where_nobody_knows_the_queue() {
    let mut policy = queueing();
    let mut planner = planner(policy.as_mut());
    planner.start_estimates = Some(Vec::new());
    let rules = rules();
    let after = step(state(vec![pending()]), Time(1.0), &[], &full(), &rules, &mut planner);
    assert_eq!(words(&after.actions), [""; 0]);
    // The request is evaluated again after ten minutes.
    assert_eq!(after.state.wake, Some(Time(601.0)));
}

#[test]
fn a_job_that_does_not_say_how_many_gpus_waits_for_a_polite_number() {
    let many: Vec<String> = (0..150).map(|number| format!("n{number}")).collect();
    let nodes: Vec<_> = many.iter().map(|name| (name.as_str(), "v100", 4, 4, "allocated")).collect();
    let job = Job { global_batch: 100_000, samples_per_epoch: 100_000_000, ..job("a", "{v100: 100}", "") };
    let jobs = state(vec![JobState::new(job, Time(0.0))]);
    let asked = take(&jobs, 1.0, &cluster(&nodes), 0.0, &|_| (1.0, 0.0));
    assert_eq!(words(&asked.actions), ["submit a on 32 v100"]);
    let mut policy = queueing();
    let mut planner = planner(policy.as_mut());
    planner.start_estimates = Some(Vec::new());
    let dark = step(jobs, Time(1.0), &[], &cluster(&nodes), &rules(), &mut planner);
    assert_eq!(words(&dark.actions), ["submit a on 32 v100"]);
}
