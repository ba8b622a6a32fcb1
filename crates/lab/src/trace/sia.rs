//! Sia's workloads with its profiles of applications: <https://github.com/siasosp23/artifacts>.

use std::collections::BTreeMap;

use crate::trace::TraceError;
use crate::trace::recorded::JobNames;
use crate::trace::table::{self, NoEntry, ParsedEntries};
use hsched_model::number::{to_f64, to_u64};
use hsched_model::{Bytes, GpuType, Job, Seconds, Speed};

/// The applications of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applications {
    speeds: BTreeMap<String, BTreeMap<GpuType, Speed>>,
    work: BTreeMap<String, ApplicationWork>,
}

/// The amount of training of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ApplicationWork {
    samples_per_epoch: u64,
    epochs: u64,
    model_size: Bytes,
}

/// The GPU types of the clusters that the profiles name.
const CLUSTERS: [(&str, &str); 6] = [
    ("aws", "t4"),
    ("azure", "v100"),
    ("dgx", "a100"),
    ("dgx-ext", "a100"),
    ("rtx", "rtx2080ti"),
    ("quad", "rtx6000"),
];

impl Applications {
    /// Parses step times on one GPU (`model,gpu,local_bsz,step_time_s`, and `placement` or `num_replicas` if
    /// there are also step times on several GPUs), and the amount of training of each application
    /// (`application,samples_per_epoch,epochs,model_size_mb`).
    ///
    /// # Errors
    /// If a column is missing or a line is invalid.
    pub fn parse(profiles: &str, applications: &str) -> Result<Self, TraceError> {
        let mut points: BTreeMap<(String, GpuType), Vec<(f64, f64)>> = BTreeMap::new();
        let read = table::read(
            profiles,
            b',',
            &[&["model"], &["gpu"], &["local_bsz"], &["step_time_s"]],
            |cells| {
                if cells.get(&["placement", "num_replicas"]).is_some_and(|count| count != "1") {
                    return Err(NoEntry::Skipped("on several GPUs"));
                }
                let name = cells.text(&["gpu"])?;
                let name = CLUSTERS
                    .iter()
                    .find(|(candidate, _)| *candidate == name)
                    .map_or(name, |(_, gpu_name)| gpu_name);
                let gpu_type =
                    GpuType::new(name).ok_or_else(|| NoEntry::Bad(format!("{name:?} is not a GPU type")))?;
                let point = (cells.number(&["local_bsz"])?, cells.number(&["step_time_s"])?);
                points.entry((cells.text(&["model"])?.to_owned(), gpu_type)).or_default().push(point);
                Ok(())
            },
        )?;
        refuse(&read)?;
        let mut parsed = Self::default();
        for ((model, gpu_type), points) in points {
            if let Some(speed) = line_through(&points) {
                parsed.speeds.entry(model).or_default().insert(gpu_type, speed);
            }
        }
        let needed: [&[&str]; 4] =
            [&["application"], &["samples_per_epoch"], &["epochs"], &["model_size_mb"]];
        let read = table::read(applications, b',', &needed, |cells| {
            let megabytes = cells.number(needed[3])?;
            let model_size = Bytes(to_u64(megabytes * 1e6));
            let work = ApplicationWork {
                samples_per_epoch: cells.whole(needed[1])?.max(1),
                epochs: cells.whole(needed[2])?.max(1),
                model_size,
            };
            parsed.work.insert(cells.text(needed[0])?.to_owned(), work);
            Ok(())
        })?;
        refuse(&read)?;
        Ok(parsed)
    }
}

fn refuse(read: &ParsedEntries<()>) -> Result<(), TraceError> {
    read.bad.first().map_or(Ok(()), |bad| Err(TraceError::Other(bad.to_string())))
}

/// Returns the least-squares line through step times by batch size; if it does not rise or begins below 0,
/// the mean rate.
fn line_through(points: &[(f64, f64)]) -> Option<Speed> {
    let count = to_f64(points.len());
    let (x, y) = (
        points.iter().map(|point| point.0).sum::<f64>() / count,
        points.iter().map(|point| point.1).sum::<f64>() / count,
    );
    let squares: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let products: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let beta = if squares > 0.0 { products / squares } else { 0.0 };
    let alpha = y - beta * x;
    if beta <= 0.0 || alpha < 0.0 { Speed::rate(x / y) } else { Speed::affine(Seconds(alpha), Seconds(beta)) }
}

/// Parses a workload: `submit_s` (or `time`), `application`, `num_gpus` and `batch_size`. With `chosen`, such
/// as `newtrace/1`, only lines with that `trace` and `workload` are used.
///
/// # Errors
/// If a column is missing.
pub fn sia(
    text: &str,
    applications: &Applications,
    chosen: Option<&str>,
) -> Result<ParsedEntries<Job>, TraceError> {
    let mut names = JobNames::default();
    let arrival: &[&str] = &["submit_s", "time", "timestamp"];
    let gpus: &[&str] = &["num_gpus", "num_replicas"];
    table::read(text, b',', &[arrival, &["application"], gpus, &["batch_size"]], |cells| {
        let row_trace = [cells.get(&["trace"]), cells.get(&["workload"])]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("/");
        if chosen.is_some_and(|chosen| chosen != row_trace) {
            return Err(NoEntry::Skipped("in another workload"));
        }
        let application = cells.text(&["application"])?;
        let unknown = |what: &str| NoEntry::Bad(format!("{application:?} has no {what}"));
        let work =
            applications.work.get(application).ok_or_else(|| unknown("line in the file of applications"))?;
        let speeds = applications.speeds.get(application).ok_or_else(|| unknown("profile"))?;
        let name = names.unique(cells.get(&["name"]).unwrap_or(application));
        let (gpus, batch) = (cells.gpus(gpus)?, cells.whole(&["batch_size"])?);
        if gpus == 0 || batch < u64::from(gpus) {
            return Err(NoEntry::Bad(format!("a batch of {batch} cannot be split over {gpus} GPUs")));
        }
        let mut job = Job::only_planned(name, work.samples_per_epoch, work.epochs, batch);
        application.clone_into(&mut job.model);
        job.model_size = work.model_size;
        job.gpus = Some(gpus);
        job.throughput.clone_from(speeds);
        job.arrival = Seconds(cells.number(arrival)?);
        Ok(job)
    })
}
