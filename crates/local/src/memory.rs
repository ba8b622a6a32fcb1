//! Whether parked jobs keep their memory while another job uses their devices.

use crate::gate::RankMemory;

/// Device memory that the driver and libraries need per process, in bytes.
const CONTEXT: u64 = 1 << 30;

/// An order to a parked training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParkingStep {
    /// Keep its memory.
    Keep,
    /// Move its data from the devices to host memory.
    Offload,
    /// End; its checkpoint is on disk.
    End,
}

/// The peak memory use of a job, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    /// Host memory of all ranks together.
    pub host: u64,
    /// Device memory of the rank with the most; `None` if all ranks compute on the CPU.
    pub device: Option<u64>,
}

/// A device and the jobs that are parked on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SharedDevice {
    /// Total memory in bytes; `None` if no training parked there computes on a device.
    pub total: Option<u64>,
    /// Device memory that each parked job occupies, in bytes.
    pub held: Vec<u64>,
}

impl Peak {
    pub(super) fn of(ranks: &[RankMemory]) -> Self {
        let device = ranks.iter().filter(|memory| memory.device.is_some()).map(|memory| memory.peak).max();
        Self { host: ranks.iter().map(|memory| memory.host).sum(), device }
    }
}

/// Returns the order to the jobs that are parked on the devices of a starting job. `need` is the most device
/// memory that one of its ranks takes; `spare` is the host memory left beside the job. Either may be unknown.
///
/// All of them keep their memory if the job is known to fit beside it on each device of known size.
/// Otherwise, they move it to the host, or end if the host has too little room or the job would still not
/// fit.
pub(super) fn way(devices: &[SharedDevice], need: Option<u64>, spare: Option<i64>) -> ParkingStep {
    let fits = |need: u64, shared: &SharedDevice, held: u64| {
        let contexts = CONTEXT * (1 + shared.held.len() as u64);
        shared.total.is_none_or(|total| need + contexts + held <= total)
    };
    let keeps = |shared: &SharedDevice| need.is_some_and(|need| fits(need, shared, shared.held.iter().sum()));
    if devices.iter().all(|device| device.total.is_none() || keeps(device)) {
        return ParkingStep::Keep;
    }
    let all: u64 = devices.iter().flat_map(|device| &device.held).sum();
    let has_room = spare.is_none_or(|spare| i64::try_from(all).is_ok_and(|all| all <= spare));
    let fits_then = need.is_none_or(|need| devices.iter().all(|device| fits(need, device, 0)));
    if has_room && fits_then { ParkingStep::Offload } else { ParkingStep::End }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn who_fits_is_kept_who_may_not_is_moved_and_who_cannot_be_ends() {
        let check = |held: &[u64], need: Option<u64>, spare: Option<i64>, expected: ParkingStep| {
            let held: Vec<u64> = held.iter().map(|gibibytes| gibibytes * GIB).collect();
            let devices = [SharedDevice { total: Some(16 * GIB), held }, SharedDevice::default()];
            let need = need.map(|need| need * GIB);
            let spare = spare.map(|spare| spare << 30);
            assert_eq!(way(&devices, need, spare), expected, "{devices:?} {need:?} {spare:?}");
        };
        check(&[4], Some(10), Some(0), ParkingStep::Keep);
        check(&[4, 1], Some(10), Some(8), ParkingStep::Offload);
        check(&[4, 1], Some(10), None, ParkingStep::Offload);
        // The job's need is unknown.
        check(&[1], None, Some(8), ParkingStep::Offload);
        check(&[4], None, Some(3), ParkingStep::End);
        check(&[4], None, Some(-1), ParkingStep::End);
        // The job does not fit even beside the minimum that processes occupy.
        check(&[4], Some(15), Some(100), ParkingStep::End);
    }

    #[test]
    fn trainings_without_devices_share_none() {
        let shared = SharedDevice { total: None, held: vec![0, 0] };
        assert_eq!(way(&[shared], None, Some(0)), ParkingStep::Keep);
    }

    #[test]
    fn the_most_that_was_taken_is_known_by_rank() {
        let rank = |host, device, peak| RankMemory { host, device, held: 0, peak };
        let peak = Peak::of(&[rank(1, Some(8), 3), rank(2, Some(8), 4)]);
        assert_eq!(peak, Peak { host: 3, device: Some(4) });
        assert_eq!(Peak::of(&[rank(1, None, 0)]).device, None);
    }
}
