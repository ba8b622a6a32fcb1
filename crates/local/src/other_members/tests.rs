//! The leader's view of members whose GPUs have slots.

use std::path::Path;

use super::*;
use crate::DeviceCount;
use crate::probe::Facts;
use hsched_engine::Gpus;
use hsched_engine::pool::{Duty, Worker};
use hsched_model::{GpuType, NodeName};

fn key(job: &str) -> SubmissionKey {
    SubmissionKey::new(JobName::new(job).expect("a name"), "r1")
}

fn start() -> SubmissionStart {
    SubmissionStart {
        script: "s".into(),
        workdir: "w".into(),
        output: "o".into(),
        devices: Vec::new(),
        beside: Vec::new(),
        needs: (1, 0),
        gpus: Gpus::default(),
        epochs: 0,
        threads: None,
        grace: Seconds(0.0),
    }
}

/// Returns the pool of a folder, and its member 17 with one GPU of two slots.
fn pool(root: &Path) -> (OtherMembers, Worker<PoolFolder>) {
    let folder = PoolFolder::create(root).expect("a pool");
    let member = MemberId::new(JobId(17), 0);
    let counts = DeviceCount::parse("v100-16gb:1x2").expect("a list");
    let facts = Facts { host: "box".into(), ..Facts::default() };
    let devices = Devices::imagined_slots(&counts, &facts).of_member(&member);
    let report = PoolReport { nodes: member_nodes(&devices), ..PoolReport::default() };
    let worker = Worker::join(folder, member, report).expect("joins");
    (OtherMembers::find(root).expect("files").expect("a pool"), worker)
}

fn look(others: &mut OtherMembers) {
    let (state, leader) = (State::default(), MemberId::new(JobId(9), 0));
    others.look(&leader, &state, (Time(0.0), Duration::ZERO), Seconds(1.0)).expect("looks");
}

/// Orders the start of a job; returns the numbers of devices in the order and beside them, or `None` if the
/// order is refused.
fn order(
    others: &mut OtherMembers,
    worker: &mut Worker<PoolFolder>,
    job: &str,
    alone: bool,
) -> Option<[usize; 2]> {
    let rank = PlacedRank {
        node: NodeName::new("box.job17").expect("a name"),
        gpu_type: GpuType::new("v100-16gb").expect("a type"),
        local_rank: 0,
        batch: 1,
        samples: 1,
    };
    let needs = RankNeeds { cpus: 1, memory: 0 };
    others.order(&key(job), &[rank], needs, alone, start()).ok()?;
    let duties = worker.duties().expect("duties");
    let begun = duties.into_iter().find_map(|duty| match duty {
        Duty::Start(order) if order.of == key(job) => Some(order.start),
        _ => None,
    });
    let SubmissionStart { devices, beside, .. } = begun.expect("it is to start");
    worker.started(&key(job), JobId(1), Time(0.0)).expect("reports");
    Some([devices.len(), beside.len()])
}

#[test]
fn a_slot_of_another_member_takes_one_run_and_its_gpu_takes_two() {
    let root = tempfile::tempdir().expect("a folder");
    let (mut others, mut worker) = pool(root.path());
    look(&mut others);
    assert_eq!(others.nodes()[0].gpu_total(), 2);
    assert_eq!(order(&mut others, &mut worker, "a", false), Some([1, 0]));
    assert_eq!(order(&mut others, &mut worker, "b", false), Some([1, 0]));
    assert_eq!(order(&mut others, &mut worker, "c", false), None);
}

#[test]
fn a_run_that_needs_a_gpu_of_its_own_keeps_others_off_its_slots() {
    let root = tempfile::tempdir().expect("a folder");
    let (mut others, mut worker) = pool(root.path());
    worker.note_alone(&[key("a").job].into());
    worker.beat().expect("reports");
    look(&mut others);
    assert_eq!(others.alone().collect::<Vec<_>>(), [key("a").job]);
    assert_eq!(order(&mut others, &mut worker, "a", true), Some([1, 1]));
    // The next leader learns from the order that the other slot is not free.
    others = OtherMembers::find(root.path()).expect("files").expect("a pool");
    look(&mut others);
    assert_eq!(order(&mut others, &mut worker, "b", false), None);
}
