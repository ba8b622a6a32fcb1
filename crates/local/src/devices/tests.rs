//! Assignment of one machine's devices to jobs.

use super::*;
use crate::world::not_found;
use hsched_engine::Answer;
use hsched_model::JobName;

fn key(job: &str) -> SubmissionKey {
    SubmissionKey::new(JobName::new(job).expect("a name"), "r1")
}

fn ranks(types: &[&str]) -> Vec<PlacedRank> {
    let rank = |(place, name): (usize, &&str)| PlacedRank {
        node: NodeName::new("box").expect("a name"),
        gpu_type: GpuType::new(name).expect("a type"),
        local_rank: u32::try_from(place).expect("few"),
        batch: 1,
        samples: 1,
    };
    types.iter().enumerate().map(rank).collect()
}

/// Assigns devices of these types to the ranks of a job; returns the lines for its script.
fn take(devices: &mut Devices, job: &str, types: &[&str]) -> Option<String> {
    let lease = devices.find(&ranks(types), RankNeeds { cpus: 4, memory: 1 }, false, |_, _| 0)?;
    let words = devices.words(&lease);
    devices.take(&key(job), lease);
    Some(words)
}

#[test]
fn lists_of_devices_are_read() {
    let check = |text: &str, expected: &[(&str, u32)]| {
        let read = Devices::parse(text).expect(text);
        let read: Vec<(&str, u32)> =
            read.iter().map(|(gpu_type, count)| (gpu_type.as_str(), *count)).collect();
        assert_eq!(read, expected, "{text}");
    };
    check("cpu:4", &[("cpu", 4)]);
    check("v100:2, t4:2", &[("v100", 2), ("t4", 2)]);
    let refused = |text: &str, expected: &str| {
        let error = Devices::parse(text).expect_err(text).to_string();
        assert_eq!(error, format!("{text:?} has no {expected}"));
    };
    refused("v100,t4", "count: write v100:1,t4:1");
    refused("gtx1080", "count: write gtx1080:1");
    refused("v100x4", "colon before the count: write v100:4");
    refused("cpu4, t4", "colon before the count: write cpu:4,t4:1");
    refused("cpux4", "colon before the count: write cpu:4");
    for wrong in ["", "cpu:0", "cpu:x", ":4", "cpu:4,", "cpu:99999"] {
        let error = Devices::parse(wrong).expect_err(wrong).to_string();
        assert!(error.contains("cpu:4"), "{error}");
    }
}

#[test]
fn a_machines_gpus_and_slices_are_named_by_uuid_in_rank_order() {
    let gpu = |name: &str, uuid: &str| probe::GpuDevice {
        name: name.into(),
        uuid: uuid.into(),
        ..probe::GpuDevice::default()
    };
    let slice = |uuid: &str| probe::MigDevice {
        name: "MIG 1g.5gb".into(),
        uuid: uuid.into(),
        ..probe::MigDevice::default()
    };
    let cut =
        probe::GpuDevice { mig: true, slices: vec![slice("MIG-1"), slice("MIG-2")], ..gpu("A100", "GPU-3") };
    let gpus = vec![gpu("Tesla T4", "GPU-1"), gpu("Tesla V100", "GPU-2"), cut];
    let mut devices = Devices::found(&Facts { host: "box".into(), gpus, ..Facts::default() });
    let types: Vec<String> = devices.gpu_types().iter().map(ToString::to_string).collect();
    assert_eq!(types, ["a100_mig_1g.5gb", "tesla_t4", "tesla_v100"]);
    assert_eq!(take(&mut devices, "a", &["tesla_v100", "tesla_t4"]).as_deref(), Some("box GPU-2,GPU-1\n"));
    assert_eq!(take(&mut devices, "b", &["tesla_t4"]), None);
    devices.give_back(&key("a"));
    assert_eq!(take(&mut devices, "b", &["tesla_t4"]).as_deref(), Some("box GPU-1\n"));
}

#[test]
fn a_node_that_is_not_there_any_more_is_down() {
    let facts = Facts { host: "box".into(), ..Facts::default() };
    let mut devices = Devices::imagined(&Devices::parse("t4:1").expect("a list"), &facts);
    let name = |name: &str| NodeName::new(name).expect("a name");
    devices.keep(&[name("box"), name("other")]);
    assert_eq!(devices.cluster().nodes[0].state, NodeState::idle());
    devices.keep(&[name("other")]);
    assert_eq!(devices.cluster().nodes[0].state.availability(), hsched_model::Availability::Down);
}

#[test]
fn what_is_taken_is_in_use_and_imagined_devices_have_no_name() {
    let facts = Facts { host: "box".into(), cpus: 2, memory: 1 << 30, ..Facts::default() };
    let mut devices = Devices::imagined(&Devices::parse("v100:2,t4:1").expect("a list"), &facts);
    assert_eq!(take(&mut devices, "a", &["v100", "t4"]).as_deref(), Some("box \n"));
    let cluster = devices.cluster();
    let used: Vec<(u32, u32)> = cluster.nodes[0].gpus.iter().map(|stock| (stock.total, stock.used)).collect();
    assert_eq!(used, [(2, 1), (1, 1)]);
    assert_eq!((cluster.nodes[0].cpus, cluster.nodes[0].memory), (None, None));
    assert_eq!(cluster.nodes[0].state, NodeState::parse("mixed"));
}

#[test]
fn devices_on_which_fewer_wait_come_first() {
    let facts = Facts { host: "box".into(), ..Facts::default() };
    let devices = Devices::imagined(&Devices::parse("t4:3").expect("a list"), &facts);
    let crowd = |_: &NodeName, device: usize| [2, 0, 1][device];
    let lease = devices.find(&ranks(&["t4", "t4"]), RankNeeds::default(), false, crowd).expect("are free");
    let places: Vec<usize> = lease.devices.iter().map(|(_, device)| *device).collect();
    assert_eq!(places, [1, 2]);
}

#[test]
fn a_submission_waits_for_devices_in_use_but_not_for_absent_ones() {
    let facts = Facts { host: "box".into(), ..Facts::default() };
    let mut devices = Devices::imagined(&Devices::parse("t4:1").expect("a list"), &facts);
    assert_eq!(take(&mut devices, "a", &["t4", "t4"]), None);
    assert!(matches!(not_found(&devices), Answer::Unreachable { .. }));
    assert!(take(&mut devices, "b", &["t4"]).is_some());
    assert!(matches!(not_found(&devices), Answer::Deferred { .. }));
}
