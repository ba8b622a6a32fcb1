//! Amounts in the columns of `sacct`: an empty cell counts as missing, and an unreadable one is an error that
//! names the column.

use crate::accounting::columns::AccountingRow;
use crate::amount;
use crate::record::{excerpt, value};
use hsched_model::Seconds;
use hsched_model::number::to_f64;

/// Bytes in a MiB.
pub(super) const MIB: f64 = 1_048_576.0;

/// Returns a time limit; `None` if there is none, as for `UNLIMITED` and `Partition_Limit`.
pub(super) fn limit(row: &AccountingRow) -> Result<Option<Seconds>, String> {
    let is_none = |text: &str| amount::is_unlimited(text) || text.eq_ignore_ascii_case("Partition_Limit");
    let read = read(row, "Timelimit", |text| match text {
        text if is_none(text) => Some(None),
        text => amount::duration(text).map(Some),
    });
    read.map(Option::flatten)
}

/// Returns a CPU time, printed like `03:25.091` or `5-17:40:37`, in seconds.
pub(super) fn cpu_time(row: &AccountingRow) -> Result<Option<f64>, String> {
    read(row, "TotalCPU", |text| {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let (days, clock) = whole.split_once('-').unwrap_or(("0", whole));
        let numbers: Option<Vec<u64>> =
            [days].into_iter().chain(clock.split(':')).map(|part| part.parse().ok()).collect();
        let seconds = match numbers?.as_slice() {
            [days, hours, minutes, seconds] => {
                to_f64(*days) * 86_400.0
                    + to_f64(*hours) * 3600.0
                    + to_f64(*minutes) * 60.0
                    + to_f64(*seconds)
            }
            [0, minutes, seconds] => to_f64(*minutes) * 60.0 + to_f64(*seconds),
            _ => return None,
        };
        let fraction: f64 = format!("0.{fraction}").parse().ok()?;
        Some(seconds + fraction)
    })
}

/// Returns the resident memory of the largest task in MiB. A number without a unit is in bytes.
pub(super) fn resident_mib(row: &AccountingRow) -> Result<Option<f64>, String> {
    read(row, "MaxRSS", |text| {
        let is_bytes = text.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = if is_bytes { text.parse().ok() } else { amount::memory(text).map(|bytes| bytes.0) };
        bytes.map(|bytes: u64| to_f64(bytes) / MIB)
    })
}

/// Requested memory in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RequestedMemory {
    PerCpu(f64),
    PerNode(f64),
    /// Memory of the whole job, as printed by Slurm 21.08 and later.
    Whole(f64),
}

/// Returns the requested memory; `None` also if all memory of a node was requested, which is printed as 0.
pub(super) fn requested_memory(row: &AccountingRow) -> Result<Option<RequestedMemory>, String> {
    let read = read(row, "ReqMem", |text| {
        let mib = |text: &str| amount::memory(text).map(|bytes| to_f64(bytes.0) / MIB);
        if let Some(text) = text.strip_suffix('c') {
            mib(text).map(RequestedMemory::PerCpu)
        } else if let Some(text) = text.strip_suffix('n') {
            mib(text).map(RequestedMemory::PerNode)
        } else {
            mib(text).map(RequestedMemory::Whole)
        }
    })?;
    Ok(read.filter(|requested| {
        !matches!(
            requested,
            RequestedMemory::PerCpu(0.0) | RequestedMemory::PerNode(0.0) | RequestedMemory::Whole(0.0)
        )
    }))
}

/// Returns a count, such as that of nodes or tasks.
pub(super) fn count(row: &AccountingRow, column: &str) -> Result<Option<u64>, String> {
    read(row, column, amount::count)
}

/// Returns the mean GPU use of a task in percent, summed over its GPUs.
pub(super) fn gpu_percent(row: &AccountingRow) -> Option<f64> {
    let mut uses = row.cell("TRESUsageInAve").split(',').filter_map(|part| part.trim().split_once('='));
    let (_, percent) = uses.find(|(name, _)| *name == "gres/gpuutil")?;
    percent.parse().ok().filter(|percent: &f64| percent.is_finite() && *percent >= 0.0)
}

/// Parses a cell unless it contains one of Slurm's words for a missing value.
pub(super) fn read<T>(
    row: &AccountingRow,
    column: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(text) = value(row.cell(column)) else { return Ok(None) };
    parse(text).map(Some).ok_or_else(|| format!("{column} cannot be read: {:?}", excerpt(text)))
}
