//! Duration and memory use of past runs with a job's name, and the needs derived from them.

use crate::Request;
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Seconds};

/// A past run with the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct PastRun {
    /// The GPU type, `None` if not given, and the total number of GPUs.
    pub gpu_type: Option<GpuType>,
    pub gpus: u32,
    pub ran: Seconds,
    pub end: RunEnd,
    /// Maximum memory used on a node, in MiB.
    pub memory_mib: Option<u64>,
}

/// The end of a past run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The run completed.
    Completed,
    /// Slurm ended the run at its limit.
    Cut,
    /// The run failed or was cancelled, so it would have taken longer.
    Stopped,
}

/// The past runs with a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastRuns(pub Vec<PastRun>);

/// The needs of past runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Number of completed runs.
    pub runs: usize,
    pub longest: Seconds,
    /// The longest run plus a margin, which decreases with the number of runs.
    pub least_limit: Seconds,
}

/// Limits are multiples of a quarter of an hour.
const STEP: f64 = 900.0;
/// Limits are at least this many seconds longer than any past run.
const LEAST_MARGIN: f64 = 600.0;
/// Margin relative to the longest run after one past run; after n runs it is smaller by a factor of √n.
const OPEN: f64 = 0.5;
/// Margin relative to the highest memory use, regardless of the number of runs, because sampling often misses
/// a peak.
const OPEN_MEMORY: f64 = 0.25;

impl PastRuns {
    /// Returns the needs of past runs on the GPUs of a request; `None` if none completed, or a longer one was
    /// cut at its limit.
    pub fn need(&self, request: &Request) -> Option<Need> {
        let like: Vec<(f64, RunEnd)> =
            self.0.iter().filter_map(|run| Some((run.seconds_with(request)?, run.end))).collect();
        let longest = |is: &dyn Fn(RunEnd) -> bool| {
            like.iter().filter(|run| is(run.1)).map(|run| run.0).fold(0.0, f64::max)
        };
        let runs = like.iter().filter(|run| run.1 == RunEnd::Completed).count();
        let whole = longest(&|end| end == RunEnd::Completed);
        if runs == 0 || longest(&|end| end == RunEnd::Cut) > whole {
            return None;
        }
        let longest = longest(&|_| true);
        let least = (longest * (1.0 + OPEN / to_f64(runs).sqrt())).max(longest + LEAST_MARGIN);
        Some(Need { runs, longest: Seconds(longest), least_limit: rounded_up(Seconds(least)) })
    }

    /// Returns the usual run time on the GPUs of a request: the median of completed runs, assuming that twice
    /// the GPUs take half as long.
    pub fn usual_run(&self, request: &Request) -> Option<Seconds> {
        let done = self.0.iter().filter(|run| run.end == RunEnd::Completed);
        let mut list: Vec<f64> = done.filter_map(|run| Some(run.ran.0 * run.share_of(request)?)).collect();
        list.sort_by(f64::total_cmp);
        list.get(list.len() / 2).map(|run| Seconds(*run))
    }

    /// Returns whether past runs allow a change of a request: there are none, the change does not shorten the
    /// limit, or the new limit is at least their need or, if that is unknown, at least a quarter of an hour
    /// longer than any run with the name.
    pub(crate) fn allow(&self, before: &Request, after: &Request) -> bool {
        if self.0.is_empty() || after.limit.0 >= before.limit.0 {
            return true;
        }
        let least = self.need(after).map_or(self.longest().0 + STEP, |need| need.least_limit.0);
        after.limit.0 >= least
    }

    /// Returns the longest time of any run with the name, on any GPUs.
    fn longest(&self) -> Seconds {
        Seconds(self.0.iter().map(|run| run.ran.0).fold(0.0, f64::max))
    }

    /// Returns the maximum memory that a completed run used on a node, and the same with a margin; `None` if
    /// unknown.
    pub(super) fn memory(&self) -> Option<(u64, u64)> {
        let done = self.0.iter().filter(|run| run.end == RunEnd::Completed);
        let used = done.filter_map(|run| run.memory_mib).filter(|used| *used > 0).max()?;
        let margin = hsched_model::number::to_u64(to_f64(used) * OPEN_MEMORY);
        Some((used, used.saturating_add(margin)))
    }
}

impl PastRun {
    /// Returns the ratio of the run's GPUs to the GPUs of a request; `None` if the run's time does not apply
    /// to the request.
    fn share_of(&self, request: &Request) -> Option<f64> {
        let gpus = &request.asks.gpus;
        let wanted: u32 = gpus.iter().map(|ask| ask.count).sum::<u32>().saturating_mul(request.asks.nodes);
        let is_of_type = gpus.iter().all(|ask| ask.gpu_type.is_none() || ask.gpu_type == self.gpu_type);
        if !is_of_type || (wanted == 0) != (self.gpus == 0) {
            return None;
        }
        Some(if wanted == 0 { 1.0 } else { f64::from(self.gpus) / f64::from(wanted) })
    }

    /// Returns an upper limit of the run's time with the GPUs of a request: more GPUs may not help.
    fn seconds_with(&self, request: &Request) -> Option<f64> {
        Some(self.ran.0 * self.share_of(request)?.max(1.0))
    }
}

/// Returns a limit rounded up to a quarter of an hour.
pub(super) fn rounded_up(limit: Seconds) -> Seconds {
    Seconds((limit.0 / STEP).ceil() * STEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Asks, FurtherOptions, GpuAsk, RequestId};

    fn request(gpu_type: Option<&str>, gpus: u32) -> Request {
        let gpus = vec![GpuAsk { gpu_type: gpu_type.and_then(GpuType::new), count: gpus }];
        Request {
            id: RequestId::default(),
            asks: Asks { nodes: 1, gpus, ..Asks::default() },
            partition: None,
            account: None,
            limit: Seconds(86_400.0),
            run: Seconds(86_400.0),
            further: FurtherOptions::default(),
        }
    }

    fn runs(list: &[(&str, u32, f64, RunEnd)]) -> PastRuns {
        let run = |(gpu_type, gpus, hours, end): &(&str, u32, f64, RunEnd)| PastRun {
            gpu_type: GpuType::new(gpu_type),
            gpus: *gpus,
            ran: Seconds(hours * 3600.0),
            end: *end,
            memory_mib: None,
        };
        PastRuns(list.iter().map(run).collect())
    }

    /// Returns the least limit in hours.
    fn least(past: &PastRuns, gpu_type: Option<&str>, gpus: u32) -> Option<f64> {
        past.need(&request(gpu_type, gpus)).map(|need| need.least_limit.0 / 3600.0)
    }

    use RunEnd::{Completed, Cut, Stopped};

    #[test]
    fn the_more_runs_were_seen_the_smaller_is_the_margin() {
        let of = |count: usize| least(&runs(&vec![("a100", 4, 4.0, Completed); count]), Some("a100"), 4);
        assert_eq!((of(1), of(4), of(16)), (Some(6.0), Some(5.0), Some(4.5)));
        // Short runs get ten more minutes, rounded to quarters of an hour.
        assert_eq!(least(&runs(&[("a100", 4, 0.02, Completed)]), Some("a100"), 4), Some(0.25));
    }

    #[test]
    fn a_limit_is_never_below_what_a_run_took() {
        let stopped = runs(&[("a100", 4, 4.0, Completed), ("a100", 4, 6.0, Stopped)]);
        assert_eq!(least(&stopped, Some("a100"), 4), Some(9.0));
        let cut = runs(&[("a100", 4, 4.0, Completed), ("a100", 4, 6.0, Cut)]);
        assert_eq!(least(&cut, Some("a100"), 4), None);
        assert_eq!(least(&runs(&[("a100", 4, 4.0, Stopped)]), Some("a100"), 4), None);
    }

    #[test]
    fn a_limit_is_shortened_only_as_far_as_past_runs_allow() {
        let before = request(Some("a100"), 4);
        let check = |past: &PastRuns, gpus: u32, hours: f64, expected: bool| {
            let after = Request { limit: Seconds(hours * 3600.0), ..request(Some("a100"), gpus) };
            assert_eq!(past.allow(&before, &after), expected, "{past:?} {gpus} {hours}");
        };
        let completed = runs(&[("a100", 4, 4.0, Completed)]);
        check(&completed, 4, 6.0, true);
        check(&completed, 4, 5.75, false);
        // Fewer GPUs need longer.
        check(&completed, 2, 6.0, false);
        check(&completed, 2, 24.0, true);
        let unknown = runs(&[("a100", 4, 4.0, Stopped)]);
        check(&unknown, 4, 4.0, false);
        check(&unknown, 4, 4.25, true);
        check(&PastRuns::default(), 4, 0.25, true);
    }

    #[test]
    fn runs_on_other_gpus_say_nothing_and_those_on_more_gpus_were_shorter() {
        let past = runs(&[("a100", 4, 4.0, Completed)]);
        assert_eq!(least(&past, Some("v100"), 4), None);
        assert_eq!(least(&past, None, 4), Some(6.0));
        assert_eq!((least(&past, Some("a100"), 2), least(&past, Some("a100"), 8)), (Some(12.0), Some(6.0)));
        assert_eq!(past.usual_run(&request(Some("a100"), 8)), Some(Seconds(7200.0)));
        assert_eq!(least(&past, Some("a100"), 0), None);
    }
}
