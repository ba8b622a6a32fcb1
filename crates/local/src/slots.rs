//! Slots, by which several runs share one GPU. Policies see a slot as a device; this module knows which slots
//! belong to one GPU and which runs share it.

mod gpu_sharing;

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

pub(super) use self::gpu_sharing::GpuSharing;
use crate::devices::{Device, DeviceIndex, Devices, DevicesError, Lease};
use crate::probe::Facts;
use hsched_engine::SubmissionKey;
use hsched_model::catalogue::recognise;
use hsched_model::{Bytes, GpuType, NodeName};

/// Maximum number of slots per GPU.
const MOST: u32 = 64;

/// A number of devices of a type, each with a number of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCount {
    pub gpu_type: GpuType,
    pub count: u32,
    pub slots: u32,
}

impl DeviceCount {
    /// Parses a list such as `cpu:4`, `v100:2,t4:2` or `a100:4x3`.
    ///
    /// # Errors
    /// If the text is not such a list.
    pub fn parse(text: &str) -> Result<Vec<Self>, DevicesError> {
        let one = |part: &str| {
            let (devices, slots) = match part.rsplit_once('x') {
                Some((devices, slots))
                    if devices.ends_with(|c: char| c.is_ascii_digit()) && devices.contains(':') =>
                {
                    (devices, slots.trim().parse().ok().filter(|slots| (1..=MOST).contains(slots))?)
                }
                _ => (part, 1),
            };
            let (gpu_type, count) = Devices::parse(devices).ok()?.pop()?;
            Some(Self { gpu_type, count, slots })
        };
        text.split(',').map(one).collect::<Option<_>>().ok_or_else(|| DevicesError::of(text))
    }
}

/// A list of devices that are not all present; both lists are as the option `--devices` accepts them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{} asks for GPUs that are not here; there are {}", wanted.join(","), present.join(","))]
pub struct TooFewDevices {
    wanted: Vec<String>,
    pub present: Vec<String>,
}

impl fmt::Display for DeviceCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.gpu_type, self.count)?;
        if self.slots > 1 { write!(f, "x{}", self.slots) } else { Ok(()) }
    }
}

impl Devices {
    /// Returns simulated devices with their slots.
    pub fn imagined_slots(counts: &[DeviceCount], facts: &Facts) -> Self {
        let devices: Vec<_> = counts.iter().map(|count| (count.gpu_type.clone(), count.count)).collect();
        let slots = counts.iter().flat_map(|count| (0..count.count).map(|_| count.slots)).collect();
        Self::imagined(&devices, facts).divided(slots)
    }

    /// Returns the first devices that match these counts, with their slots.
    ///
    /// # Errors
    /// If there are too few.
    pub fn chosen(&self, counts: &[DeviceCount]) -> Result<Self, TooFewDevices> {
        let mut left: Vec<u32> = counts.iter().map(|count| count.count).collect();
        let mut slots = Vec::new();
        let mut take = |device: &&Device| {
            let is_such = |count: &DeviceCount| is_like(&count.gpu_type, &device.gpu_type);
            let place = counts.iter().zip(&left).position(|(count, &left)| left > 0 && is_such(count));
            slots.extend(place.map(|place| counts[place].slots));
            place.inspect(|&place| left[place] -= 1).is_some()
        };
        let mut nodes = Vec::new();
        for (node, devices) in &self.nodes {
            let devices: Vec<Device> = devices.iter().filter(&mut take).cloned().collect();
            if !devices.is_empty() {
                nodes.push((node.clone(), devices));
            }
        }
        if left.iter().any(|&left| left > 0) {
            let wanted = counts.iter().map(|count| format!("{}:{}", count.gpu_type, count.count)).collect();
            return Err(TooFewDevices { wanted, present: self.counts() });
        }
        Ok(Self::new(nodes).divided(slots))
    }

    /// Returns the devices as the option `--devices` accepts them.
    fn counts(&self) -> Vec<String> {
        let types = self.gpu_types().into_iter();
        let count = |gpu_type: &GpuType| {
            let devices = self.nodes.iter().flat_map(|(_, devices)| devices);
            devices.filter(|device| device.gpu_type == *gpu_type).count()
        };
        types.map(|gpu_type| format!("{gpu_type}:{}", count(&gpu_type))).collect()
    }

    /// Returns the devices, each divided into this number of slots.
    #[must_use]
    pub fn sliced(self, slots: u32) -> Self {
        let slots = vec![slots; self.count()];
        self.divided(slots)
    }

    /// Returns the devices, each divided into as many slots as the list has at its place.
    fn divided(self, slots: Vec<u32>) -> Self {
        let (mut nodes, mut units) = (Vec::new(), BTreeMap::new());
        let mut slots = slots.into_iter();
        for (node, devices) in self.nodes {
            let mut all: Vec<Device> = Vec::new();
            for (unit, device) in devices.into_iter().enumerate() {
                let count = slots.next().unwrap_or(1).max(1);
                let memory = device.memory.map(|memory| Bytes(memory.0 / u64::from(count)));
                for _ in 0..count {
                    if count > 1 {
                        units.insert((node.name.clone(), all.len()), unit);
                    }
                    all.push(Device { memory, ..device.clone() });
                }
            }
            nodes.push((node, all));
        }
        Self { units, ..Self::new(nodes) }
    }

    /// Returns the devices with their slots; `units` has the number of the GPU of each device that is a slot.
    pub(super) fn with_units(self, units: impl IntoIterator<Item = (DeviceIndex, usize)>) -> Self {
        Self { units: units.into_iter().collect(), ..self }
    }

    /// Returns the number of a slot's GPU; `None` if the device is not a slot.
    pub(super) fn unit(&self, node: &NodeName, device: usize) -> Option<usize> {
        self.units.get(&(node.clone(), device)).copied()
    }

    /// Returns whether any device is a slot.
    pub fn has_slots(&self) -> bool {
        !self.units.is_empty()
    }

    /// Returns the other slots of a slot's GPU.
    pub(super) fn others_of<'a>(&'a self, place: &'a DeviceIndex) -> impl Iterator<Item = &'a DeviceIndex> {
        let unit = self.units.get(place);
        let of_unit = move |(other, of): &(&DeviceIndex, &usize)| {
            *other != place && other.0 == place.0 && Some(*of) == unit
        };
        self.units.iter().filter(of_unit).map(|(other, _)| other)
    }

    /// Returns the submissions on other slots of the same GPU.
    pub(super) fn sharers<'a>(&'a self, place: &'a DeviceIndex) -> impl Iterator<Item = &'a SubmissionKey> {
        let others: Vec<&DeviceIndex> = self.others_of(place).collect();
        self.taken
            .iter()
            .filter(move |(_, lease)| lease.all().any(|taken| others.contains(&taken)))
            .map(|(of, _)| of)
    }

    /// Returns whether a lease may get a slot: it has no other slot of the same GPU.
    pub(super) fn may_have(&self, place: &DeviceIndex, lease: &Lease) -> bool {
        self.others_of(place).all(|other| !lease.devices.contains(other))
    }

    /// Returns the number of slots of each of a lease's GPUs, or the largest number if they differ; `None` if
    /// no other job may have some of the slots.
    pub(super) fn slots(&self, lease: &Lease) -> Option<usize> {
        let others = lease.devices.iter().map(|place| self.others_of(place).count()).max()?;
        (others > 0 && lease.beside.is_empty()).then_some(others + 1)
    }

    /// Returns the slots of a lease's GPUs that are not part of the lease.
    pub(super) fn siblings(&self, lease: &Lease) -> Vec<DeviceIndex> {
        lease.devices.iter().flat_map(|place| self.others_of(place)).cloned().collect()
    }
}

/// Returns whether the user's name for a type matches a detected type, as `h100` matches
/// `nvidia_h100_80gb_hbm3`; a MIG slice never matches the name of a whole GPU.
fn is_like(name: &GpuType, found: &GpuType) -> bool {
    let recognised = |gpu_type: &GpuType| recognise(gpu_type.as_str());
    name.as_str().eq_ignore_ascii_case(found.as_str())
        || recognised(name).zip(recognised(found)).is_some_and(|(name, found)| name.may_be(&found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::{JobName, PlacedRank, RankNeeds};

    fn rank(name: &str) -> PlacedRank {
        PlacedRank {
            node: NodeName::new("box").expect("a name"),
            gpu_type: GpuType::new(name).expect("a type"),
            local_rank: 0,
            batch: 1,
            samples: 1,
        }
    }

    pub(super) fn key(job: &str) -> SubmissionKey {
        SubmissionKey::new(JobName::new(job).expect("a name"), "r1")
    }

    fn facts() -> Facts {
        Facts { host: "box".into(), ..Facts::default() }
    }

    pub(super) fn devices(text: &str) -> Devices {
        Devices::imagined_slots(&DeviceCount::parse(text).expect("a list"), &facts())
    }

    pub(super) fn take(devices: &mut Devices, job: &str, alone: bool) -> Option<Vec<usize>> {
        let lease = devices.find(&[rank("a100")], RankNeeds { cpus: 1, memory: 1 }, alone, |_, _| 0)?;
        let places = lease.devices.iter().map(|(_, place)| *place).collect();
        devices.take(&key(job), lease);
        Some(places)
    }

    #[test]
    fn lists_say_slots() {
        let check = |text: &str, expected: &str| {
            let read: Vec<String> =
                DeviceCount::parse(text).expect(text).iter().map(ToString::to_string).collect();
            assert_eq!(read.join(","), expected);
        };
        check("a100:4x3", "a100:4x3");
        check("cpu:4,t4:1x2", "cpu:4,t4:1x2");
        check("gtx:2", "gtx:2");
        check("a100:1x1", "a100:1");
        for wrong in ["a100:4x", "a100:4x0", "a100:4x65", "a100x3", "a100:x3", ""] {
            assert!(DeviceCount::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// An H100 as NVML reports it.
    fn h100(uuid: &str) -> crate::probe::GpuDevice {
        crate::probe::GpuDevice {
            name: "NVIDIA H100 80GB HBM3".into(),
            uuid: uuid.into(),
            address: "00000000:00:06.0".into(),
            memory: Some(85_520_809_984),
            ..crate::probe::GpuDevice::default()
        }
    }

    #[test]
    fn gpus_of_this_machine_are_chosen_by_their_short_names() {
        let machine = Devices::found(&Facts { gpus: vec![h100("GPU-8c"), h100("GPU-a4")], ..facts() });
        let chosen = |text: &str| {
            let chosen = machine.chosen(&DeviceCount::parse(text).expect("a list")).ok()?;
            Some(chosen.nodes()[0].1.iter().map(|device| device.name.clone()).collect::<Vec<_>>())
        };
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(chosen("h100:1"), names(&["GPU-8c"]));
        assert_eq!(chosen("H100-80gb:2"), names(&["GPU-8c", "GPU-a4"]));
        assert_eq!(chosen("nvidia_h100_80gb_hbm3:1x2"), names(&["GPU-8c", "GPU-8c"]));
        assert_eq!(chosen("h100:3"), None);
        assert_eq!(chosen("a100:1"), None);
        assert_eq!(chosen("h100_1g.10gb:1"), None, "a slice is no whole GPU");
    }

    #[test]
    fn runs_spread_over_gpus_before_they_share_one() {
        let mut devices = devices("a100:2x3");
        assert_eq!(devices.count(), 6);
        let order: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|job| take(&mut devices, job, false)).into();
        assert_eq!(order, [[0], [3], [1], [4], [2], [5]].map(|places| Some(places.to_vec())));
        assert_eq!(take(&mut devices, "g", false), None);
        for job in ["a", "c"] {
            devices.give_back(&key(job));
        }
        let in_the_way = |devices: &Devices| {
            devices.in_the_way(devices.lease(&key("g")).expect("a lease")).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(take(&mut devices, "g", true), Some(vec![0]));
        assert_eq!(in_the_way(&devices), [key("e")], "another run is on either GPU");
        assert_eq!(
            take(&mut devices, "h", false),
            None,
            "all slots of that GPU are for the run that is to be alone"
        );
        let used = |devices: &Devices| devices.cluster_without(|of| *of == key("g")).nodes[0].gpus[0].used;
        assert_eq!(used(&devices), 5, "its own slot is not in use while it waits");
        devices.give_back(&key("e"));
        assert_eq!(in_the_way(&devices), []);
        assert_eq!(take(&mut devices, "h", false), None, "all slots of that GPU are its own");
        let node = &devices.cluster().nodes[0];
        assert_eq!((node.gpus[0].total, node.gpus[0].used), (6, 6));
    }

    #[test]
    fn groups_of_a_type_have_their_own_slots() {
        let units = |text: &str| {
            let devices = devices(text);
            let node = devices.nodes()[0].0.name.clone();
            (0..devices.count()).map(|device| devices.unit(&node, device)).collect::<Vec<_>>()
        };
        assert_eq!(units("a100:1x3,a100:1"), [Some(0), Some(0), Some(0), None]);
        assert_eq!(units("a100:1,a100:1x2"), [None, Some(1), Some(1)]);
    }

    #[test]
    fn devices_at_hand_are_chosen_by_type() {
        let found = Devices::imagined(&Devices::parse("nvidia_a100:2,tesla_t4:1").expect("a list"), &facts());
        let chosen =
            |text: &str| found.chosen(&DeviceCount::parse(text).expect("a list")).map(|some| some.count());
        assert_eq!((chosen("a100:2x3"), chosen("a100:1x2,t4:1")), (Ok(6), Ok(3)));
        assert_eq!((chosen("a100:1x3,a100:1"), chosen("a100:1,a100:1x3")), (Ok(4), Ok(4)));
        for absent in ["a100:3", "foo:1", "a100:1,cpu:1"] {
            let refused = chosen(absent).expect_err(absent).to_string();
            let expected =
                format!("{absent} asks for GPUs that are not here; there are nvidia_a100:2,tesla_t4:1");
            assert_eq!(refused, expected);
        }
    }
}
