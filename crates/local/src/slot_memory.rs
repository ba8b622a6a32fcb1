//! The memory limits of runs that share a GPU, and messages about runs that report more.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::devices::{Device, DeviceIndex, Devices};
use hsched_engine::SubmissionKey;
use hsched_engine::store::MemoryReport;
use hsched_model::catalogue::recognise;
use hsched_model::number::to_f64;
use hsched_model::{Bytes, Node, PlacedRank};

/// The memory limit of each submission on a slot.
#[derive(Debug, Default)]
pub(super) struct SlotMemory {
    shares: BTreeMap<SubmissionKey, MemoryShare>,
}

/// The limits of a submission, and the message that it uses more, if it does.
#[derive(Debug)]
struct MemoryShare {
    /// The memory of the run's slot; `None` if no other run may share its GPU or if the memory is unknown.
    slot: Option<Bytes>,
    /// The job key `max_memory`.
    said: Option<Bytes>,
    reported: MemoryReport,
    excess: Option<String>,
}

impl SlotMemory {
    /// Records that a submission starts on its devices, unless no device is a slot; `max_memory` is the job
    /// key.
    pub(super) fn begin(&mut self, of: &SubmissionKey, max_memory: Option<Bytes>, devices: &Devices) {
        let Some(lease) = devices.lease(of).filter(|_| devices.has_slots()) else { return };
        let is_shared = lease.beside.is_empty();
        let slot = lease.devices.iter().filter_map(|place| devices.slot_memory(place)).min();
        let slot = slot.filter(|_| is_shared);
        self.shares.insert(
            of.clone(),
            MemoryShare { slot, said: max_memory, reported: MemoryReport::default(), excess: None },
        );
    }

    /// Returns whether [`Self::begin`] has recorded a submission.
    pub(super) fn knows(&self, of: &SubmissionKey) -> bool {
        self.shares.contains_key(of)
    }

    /// Returns messages about the submissions that have reported more than their limit. `folder` returns the
    /// folder with the reports of a submission. The message of a submission never changes.
    pub(super) fn excesses(
        &mut self,
        folder: impl Fn(&SubmissionKey) -> PathBuf,
    ) -> Vec<(SubmissionKey, String)> {
        for (of, share) in self.shares.iter_mut().filter(|(_, share)| share.excess.is_none()) {
            share.excess = share.reported.read(&folder(of)).and_then(|most| share.exceeded_by(most));
        }
        let said = |(of, share): (&SubmissionKey, &MemoryShare)| Some((of.clone(), share.excess.clone()?));
        self.shares.iter().filter_map(said).collect()
    }

    /// Keeps only the submissions for which `known` returns true.
    pub(super) fn keep(&mut self, known: impl Fn(&SubmissionKey) -> bool) {
        self.shares.retain(|of, _| known(of));
    }
}

impl MemoryShare {
    /// Returns a message if the amount exceeds the memory of the slot or `max_memory`.
    fn exceeded_by(&self, most: Bytes) -> Option<String> {
        let over = |limit: &Option<Bytes>| limit.filter(|limit| most > *limit);
        let used = format!("its GPU memory reached {}", gibibytes(most));
        if let Some(slot) = over(&self.slot) {
            return Some(format!("{used}, more than the {} of its slot", gibibytes(slot)));
        }
        let said = over(&self.said)?;
        Some(format!("{used}, more than the {} of max_memory", gibibytes(said)))
    }
}

impl Devices {
    /// Returns the memory of a slot, its share of the GPU's memory; `None` if the device is not a slot or if
    /// its memory is unknown. If the type's name is ambiguous, the largest model counts.
    pub(super) fn slot_memory(&self, place: &DeviceIndex) -> Option<Bytes> {
        self.units.get(place)?;
        let device = &self.nodes.iter().find(|(node, _)| node.name == place.0)?.1[place.1];
        let slots = 1 + self.others_of(place).count() as u64;
        // The "GB" in a GPU's name is nearly GiB.
        let gib = || Some(u64::from(recognise(device.gpu_type.as_str())?.most_memory_gb()) << 30);
        let of_type = || gib().map(|memory| Bytes(memory / slots));
        device.memory.or_else(of_type)
    }

    /// Returns the memory of the smallest slot that a rank may get, if it is less than the rank needs.
    pub(super) fn too_small(&self, ranks: &[PlacedRank], need: Bytes) -> Option<Bytes> {
        let is_for = |node: &Node, device: &Device| {
            ranks.iter().any(|rank| rank.node == node.name && rank.gpu_type == device.gpu_type)
        };
        let usable = self.nodes.iter().flat_map(|(node, devices)| {
            let fitting = devices.iter().enumerate().filter(|(_, device)| is_for(node, device));
            fitting.map(|(place, _)| (node.name.clone(), place))
        });
        usable.filter_map(|place| self.slot_memory(&place)).min().filter(|memory| *memory < need)
    }
}

/// Formats an amount for messages.
pub(super) fn gibibytes(amount: Bytes) -> String {
    format!("{:.1} GiB", to_f64(amount.0) / to_f64(1_u64 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceCount;
    use crate::probe::Facts;
    use hsched_model::{GpuType, JobName, NodeName, RankNeeds};

    const GIB: u64 = 1 << 30;

    fn key(job: &str) -> SubmissionKey {
        SubmissionKey::new(JobName::new(job).expect("a name"), "r1")
    }

    #[expect(clippy::disallowed_methods, reason = "the run itself writes its report")]
    /// Returns the messages for a run on one of these devices that reports these amounts of GiB one after the
    /// other.
    fn said(devices: &str, alone: bool, max_memory: Option<u64>, reports: &[u64]) -> Vec<String> {
        let counts = DeviceCount::parse(devices).expect("a list");
        let gpu_type = counts[0].gpu_type.clone();
        let mut devices = Devices::imagined_slots(&counts, &Facts { host: "box".into(), ..Facts::default() });
        let rank = PlacedRank {
            node: NodeName::new("box").expect("a name"),
            gpu_type,
            local_rank: 0,
            batch: 1,
            samples: 1,
        };
        let needs = RankNeeds { cpus: 1, memory: 1 };
        let lease = devices.find(&[rank], needs, alone, |_, _| 0).expect("a slot");
        devices.take(&key("a"), lease);
        let mut memory = SlotMemory::default();
        memory.begin(&key("a"), max_memory.map(|most| Bytes(most * GIB)), &devices);
        let (folder, mut text) = (tempfile::tempdir().expect("a folder"), String::new());
        let look = |most: &u64| {
            let line = format!("{{\"epoch\": 1, \"max_memory\": {}}}\n", most * GIB);
            text.push_str(&line);
            std::fs::write(folder.path().join("rank-0.jsonl"), &text).expect("writes");
            memory.excesses(|_| folder.path().to_owned())
        };
        reports.iter().flat_map(look).map(|(_, text)| text).collect()
    }

    #[test]
    fn a_run_that_reports_more_than_its_share_is_named_with_the_figure() {
        let over = "its GPU memory reached 9.0 GiB, more than the 8.0 GiB of its slot";
        // The message does not change when the memory grows, so that it is logged once.
        assert_eq!(said("v100-16gb:1x2", false, None, &[7, 9, 12]), [over, over]);
        assert_eq!(said("v100-16gb:1x2", false, Some(4), &[9]), [over]);
        let over = "its GPU memory reached 5.0 GiB, more than the 4.0 GiB of max_memory";
        assert_eq!(said("v100-16gb:1x2", false, Some(4), &[3, 5]), [over]);
    }

    #[test]
    fn without_slots_or_a_known_memory_nothing_is_said() {
        let none: [&str; 0] = [];
        assert_eq!(said("v100-16gb:1", false, Some(4), &[17]), none);
        assert_eq!(said("gpu:1x2", false, None, &[300]), none);
        // The run has all slots of its GPU.
        assert_eq!(said("v100-16gb:1x2", true, Some(12), &[12]), none);
    }

    #[test]
    fn a_slot_is_too_small_for_more_than_its_part_of_the_gpu() {
        let counts = DeviceCount::parse("v100-16gb:1x2,t4:1").expect("a list");
        let devices = Devices::imagined_slots(&counts, &Facts { host: "box".into(), ..Facts::default() });
        let too_small = |gpu_type: &str, need: u64| {
            let node = NodeName::new("box").expect("a name");
            let gpu_type = GpuType::new(gpu_type).expect("a type");
            let rank = PlacedRank { node, gpu_type, local_rank: 0, batch: 1, samples: 1 };
            devices.too_small(&[rank], Bytes(need * GIB))
        };
        assert_eq!(too_small("v100-16gb", 8), None);
        assert_eq!(too_small("v100-16gb", 9), Some(Bytes(8 * GIB)));
        assert_eq!(too_small("t4", 17), None, "it is no slot");
    }
}
