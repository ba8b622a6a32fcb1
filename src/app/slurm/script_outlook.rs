//! When a script would start on a cluster, and which changes of its options would make it start sooner.

use std::collections::BTreeMap;

use crate::app::cluster_queue::ClusterQueue;
use crate::app::slurm::script::Script;
use hsched_model::{GpuType, Request, Seconds};
use hsched_queue::{
    Change, ChangeEstimates, ChangeQuestion, Drawback, PastRuns, Question, Snapshot, Start, estimate_changes,
    forecast, obstacle,
};
use hsched_slurm::script::{ScriptReading, SlurmVersion};
use hsched_slurm::script_changes::{Setting, SiteRequest, settings, site_request, words};

/// The start estimate of a script.
pub(crate) struct ScriptOutlook {
    /// The script's request; for a het job, that of the component that starts last.
    pub request: Request,
    /// Number of components of a het job; 1 for other jobs.
    pub components: usize,
    /// Options that affect the start but are ignored.
    pub not_counted: Vec<String>,
    /// Why the script never starts without changes, as far as partitions or nodes show.
    pub obstacle: Option<String>,
    pub estimates: ChangeEstimates,
    /// The options of each listed change, in order.
    pub settings: Vec<Vec<Setting>>,
}

/// The inputs of an outlook.
pub(crate) struct OutlookBasis<'a> {
    pub script: &'a Script,
    pub reading: &'a ScriptReading,
    pub version: Option<SlurmVersion>,
    pub queue: &'a ClusterQueue,
    pub past: &'a PastRuns,
    /// Speeds on other GPU types relative to the script's type.
    pub speeds: &'a BTreeMap<GpuType, f64>,
    pub seed: u64,
    pub futures: u32,
}

impl OutlookBasis<'_> {
    /// Returns when the script starts; `None` if [`site_request`] returns no request for it.
    pub(crate) fn of_script(&self, stop: &(dyn Fn() -> bool + Sync)) -> Option<ScriptOutlook> {
        let SiteRequest { requests, not_counted } = site_request(self.reading, &self.queue.snapshot)?;
        let components = requests.len();
        let (request, estimates) = match requests.as_slice() {
            [one] => (one.clone(), self.changes(one, stop)),
            several => self.last_of(several, stop)?,
        };
        let site = self.queue.site.as_ref();
        let learnt = site.and_then(|site| site.start(&self.queue.snapshot, &request, &estimates.as_is));
        let mut estimates = match learnt {
            Some(start) => estimates.corrected(start),
            None => estimates,
        };
        for change in &mut estimates.list {
            let speed = change.set.gpu_type().and_then(|to| self.speeds.get(to)).copied();
            change
                .set
                .drawbacks
                .extend(speed.filter(|speed| *speed > 0.0).map(|speed| Drawback::RunsLonger(1.0 / speed)));
        }
        let of = |set: &hsched_queue::ChangeEstimate| settings(self.reading, &request, &set.set.changes);
        let settings = estimates.list.iter().map(|change| of(change).unwrap_or_default()).collect();
        let obstacle = obstacle(&self.queue.snapshot, &request);
        Some(ScriptOutlook { request, components, not_counted, obstacle, estimates, settings })
    }

    fn changes(&self, request: &Request, stop: &(dyn Fn() -> bool + Sync)) -> ChangeEstimates {
        let type_of = |request: &Request| request.asks.gpus.first().and_then(|ask| ask.gpu_type.clone());
        let from = type_of(request);
        // The run time on a type without past runs is scaled by its relative speed.
        let by_speed = |other: &Request| {
            let speed = self.speeds.get(&type_of(other)?).filter(|speed| **speed > 0.0)?;
            let mut same = other.clone();
            same.asks.gpus.iter_mut().for_each(|ask| ask.gpu_type.clone_from(&from));
            Some(Seconds(self.past.usual_run(&same)?.0 / speed))
        };
        let run_of = |request: &Request| self.past.usual_run(request).or_else(|| by_speed(request));
        let run = run_of(request).unwrap_or(request.limit);
        let request = Request { run: Seconds(run.0.min(request.limit.0)), ..request.clone() };
        let question = ChangeQuestion {
            snapshot: &self.queue.snapshot,
            request: &request,
            past: self.past,
            run_of: &run_of,
            is_possible: &|changes| self.is_possible(&request, changes),
            position: &|_| None,
            seed: self.seed,
            samples: usize::try_from(self.futures).unwrap_or(usize::MAX),
            calibration: self.queue.calibration(),
        };
        estimate_changes(&question, stop)
    }

    /// Returns whether the script's options can be set so that `sbatch` interprets them as the changes
    /// intend.
    fn is_possible(&self, request: &Request, changes: &[Change]) -> bool {
        let Some(settings) = settings(self.reading, request, changes) else { return false };
        let text = self.script.file.as_ref().map(|file| file.bytes.as_slice());
        let reading = self.script.reading_of(text, &words(&settings), self.version);
        let mut meant = request.clone();
        for change in changes {
            change.apply(&mut meant);
        }
        is_meant(&reading, &self.queue.snapshot, &meant)
    }

    /// Returns the component of a het job that would start last on its own, because Slurm starts all of them
    /// together.
    fn last_of(
        &self,
        components: &[Request],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Option<(Request, ChangeEstimates)> {
        let numbered =
            |(id, request): (u32, &Request)| Request { id: hsched_queue::RequestId(id), ..request.clone() };
        let requests: Vec<Request> = (0..).zip(components).map(numbered).collect();
        let question = Question {
            snapshot: &self.queue.snapshot,
            requests: &requests,
            seed: self.seed,
            samples: usize::try_from(self.futures).unwrap_or(usize::MAX),
            calibration: self.queue.calibration(),
        };
        let estimates = forecast(&question, stop);
        let start = |start: &Start| start.forecast().map_or(f64::INFINITY, |forecast| forecast.start.mean.0);
        let last = estimates.iter().max_by(|a, b| start(&a.start).total_cmp(&start(&b.start)))?;
        let request = requests.into_iter().find(|request| request.id == last.id)?;
        Some((request, ChangeEstimates { as_is: last.start.clone(), list: Vec::new() }))
    }
}

/// Returns whether a script is interpreted as intended: the same GPUs, partition, account, QOS and limit, and
/// no more CPUs and memory.
pub(crate) fn is_meant(reading: &ScriptReading, snapshot: &Snapshot, meant: &Request) -> bool {
    if reading.refused.is_some() {
        return false;
    }
    let Some(SiteRequest { requests, .. }) = site_request(reading, snapshot) else { return false };
    let [request] = requests.as_slice() else { return false };
    let is_within =
        |value: Option<u64>, meant: Option<u64>| value.zip(meant).is_none_or(|(value, meant)| value <= meant);
    (request.asks.nodes, &request.asks.gpus) == (meant.asks.nodes, &meant.asks.gpus)
        && (&request.partition, &request.account, &request.further.qos)
            == (&meant.partition, &meant.account, &meant.further.qos)
        && request.limit == meant.limit
        && is_within(request.asks.cpus, meant.asks.cpus)
        && is_within(request.asks.memory_mib, meant.asks.memory_mib)
}
