//! Parked trainings on the GPU of a submission that needs the whole GPU.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::gate::Gate;
use crate::guard::GuardOrder;
use crate::running::Surroundings;
use hsched_model::RankNeeds;

const GIB: u64 = 1 << 30;

fn key(job: &str) -> SubmissionKey {
    SubmissionKey::new(JobName::new(job).expect("a name"), "r1")
}

fn lease(device: usize, beside: &[usize]) -> Lease {
    let place = |device: usize| (NodeName::new("box").expect("a name"), device);
    let beside = beside.iter().copied().map(place).collect();
    Lease { devices: vec![place(device)], needs: RankNeeds::default(), beside }
}

/// Parks a training that holds 12 of the 16 GiB of its GPU.
fn park(parking: &mut Parking, folder: &Path, lease: Lease) {
    let order = GuardOrder {
        script: PathBuf::new(),
        workdir: PathBuf::new(),
        mark: PathBuf::new(),
        farewell: Duration::ZERO,
        is_held: false,
    };
    let output = folder.join("out");
    let surroundings = Surroundings { program: Path::new("true"), output: &output, variables: &[] };
    let (gate, work) = (Gate::new(folder, 1), String::new());
    let guarded =
        GuardedProcesses::start(&key("parked"), &order, &surroundings, gate, work, mpsc::channel().0);
    let memory = format!("{{\"device\": {}, \"held\": {}, \"peak\": {}}}", 16 * GIB, 12 * GIB, 12 * GIB);
    let word = format!("{{\"number\": 1, \"state\": \"parked\", \"memory\": {memory}}}");
    let words = [serde_json::from_str(&word).expect("a word")];
    parking.enter(ParkedTraining::new(guarded.expect("starts"), lease, (1, None), &words));
}

#[test]
fn a_training_on_another_slot_moves_if_one_of_the_two_has_the_whole_gpu() {
    let waits_for = |parked: Lease, new: &Lease| {
        let (mut parking, folder) = (Parking::default(), tempfile::tempdir().expect("a folder"));
        park(&mut parking, folder.path(), parked);
        let (after, _) = parking.make_room(&key("new"), new, None, Time(0.0));
        !after.is_empty()
    };
    assert!(waits_for(lease(0, &[]), &lease(0, &[])));
    assert!(waits_for(lease(1, &[]), &lease(0, &[1])), "the new one has the GPU alone");
    assert!(waits_for(lease(1, &[0]), &lease(0, &[])), "the parked one has the GPU alone");
    assert!(!waits_for(lease(1, &[]), &lease(0, &[])), "each has its slot");
}
