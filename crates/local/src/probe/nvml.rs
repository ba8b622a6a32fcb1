//! NVML's answers as facts: the library is loaded on request, and values that it does not report are left
//! out.

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use super::facts::{Facts, GpuDevice, Link, MigDevice, Pcie, Peer};

/// Maximum number of links of a GPU, as in NVML.
const MOST_LINKS: u32 = 18;

/// Adds the driver, the GPUs and notes.
pub(super) fn ask(facts: &mut Facts) {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(error) => return facts.notes.push(absence(&error)),
    };
    facts.driver = nvml.sys_driver_version().ok();
    facts.cuda = nvml.sys_cuda_driver_version().ok().map(|version| {
        format!("{}.{}", cuda_driver_version_major(version), cuda_driver_version_minor(version))
    });
    let count = nvml.device_count().unwrap_or(0);
    if count == 0 {
        facts.notes.push("the NVIDIA driver is loaded but shows no GPU to this process".into());
    }
    for index in 0..count {
        match nvml.device_by_index(index) {
            Ok(device) => facts.gpus.push(gpu(&device)),
            Err(error) => facts.notes.push(format!("GPU {index} is ignored: {}", lower(&error))),
        }
    }
}

/// Returns why NVML cannot be used, and the consequence.
pub(super) fn absence(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            "no NVIDIA GPUs found: the library libnvidia-ml.so.1, part of the NVIDIA driver, is not installed"
                .into()
        }
        NvmlError::DriverNotLoaded => {
            "no NVIDIA GPUs found: the driver is not loaded (check whether `nvidia-smi` works)".into()
        }
        NvmlError::NoPermission => {
            "no NVIDIA GPUs found: you have no permission to open /dev/nvidiactl; ask your administrators, or run this inside a job"
                .into()
        }
        NvmlError::LibRmVersionMismatch => {
            "no NVIDIA GPUs found: the driver and its library have different versions; reboot the machine after a driver update"
                .into()
        }
        other => format!("no NVIDIA GPUs found: NVML reports: {}", lower(other)),
    }
}

/// Returns the text of an error as the end of a sentence.
fn lower(error: &NvmlError) -> String {
    error.to_string().trim_end_matches('.').to_owned()
}

fn gpu(device: &Device<'_>) -> GpuDevice {
    let mig = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    let pcie = || {
        Some(Pcie { generation: device.max_pcie_link_gen().ok()?, lanes: device.max_pcie_link_width().ok()? })
    };
    GpuDevice {
        name: device.name().unwrap_or_default(),
        uuid: device.uuid().unwrap_or_default(),
        address: device.pci_info().map(|pci| pci.bus_id).unwrap_or_default(),
        memory: memory(device),
        utilisation: device.utilization_rates().ok().map(|rates| rates.gpu),
        processes: processes(device),
        mig,
        slices: if mig { slices(device) } else { Vec::new() },
        links: (0..MOST_LINKS).filter_map(|index| link(device, index)).collect(),
        pcie: pcie(),
    }
}

fn slices(device: &Device<'_>) -> Vec<MigDevice> {
    let slice = |index| {
        // Indices between slices may be unused.
        let mig_device = device.mig_device_by_index(index).ok()?;
        Some(MigDevice {
            name: mig_device.name().unwrap_or_default(),
            uuid: mig_device.uuid().unwrap_or_default(),
            memory: memory(&mig_device),
            processes: processes(&mig_device),
        })
    };
    (0..device.mig_device_count().unwrap_or(0)).filter_map(slice).collect()
}

fn memory(device: &Device<'_>) -> Option<u64> {
    device.memory_info().ok().map(|memory| memory.total).filter(|&total| total > 0)
}

fn processes(device: &Device<'_>) -> Vec<u32> {
    // Drivers before 510 only have the older call.
    let running = device.running_compute_processes().or_else(|_| device.running_compute_processes_v2());
    let mut ids: Vec<u32> = running.unwrap_or_default().iter().map(|process| process.pid).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn link(device: &Device<'_>, index: u32) -> Option<Link> {
    let link = device.link_wrapper_for(index);
    if !link.is_active().ok()? {
        return None;
    }
    let peer = link.remote_pci_info().map_or(Peer::Unknown, |pci| Peer::Address(pci.bus_id));
    Some(Link { version: link.version().unwrap_or(0), peer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_driver_is_told_in_words() {
        let check = |error: NvmlError, part: &str| {
            let text = absence(&error);
            assert!(text.contains(part) && !text.ends_with('.'), "{text}");
        };
        check(NvmlError::LibraryNotFound, "part of the NVIDIA driver");
        check(NvmlError::DriverNotLoaded, "nvidia-smi");
        check(NvmlError::NoPermission, "/dev/nvidiactl");
        check(NvmlError::LibRmVersionMismatch, "reboot");
        check(NvmlError::Unknown, "NVML reports");
    }
}
