//! Epochs reported by the ranks of all jobs.

use std::io;
use std::path::Path;

use crate::store::reports::ReportLook;
use crate::store::samples::RecentSamples;
use crate::store::{report_folder, reports};
use crate::{End, EpochReport, JobState, NodeSamples, Stall, State, SubmissionKey, SubmissionRecord, stall};
use hsched_model::Time;
use hsched_model::number::to_f64;

/// All data found in reports at one observation.
#[derive(Debug, Default)]
pub struct ReportedData {
    pub epochs: Vec<(SubmissionKey, EpochReport)>,
    /// Unexpected content of rank 0's reports.
    pub odd: Vec<(SubmissionKey, String)>,
    /// Running submissions that are stuck.
    pub stalls: Vec<(SubmissionKey, Stall)>,
    /// Submissions whose check failed, with the node.
    pub unfit: Vec<(SubmissionKey, End)>,
    /// Notes on files that could not be read.
    pub notes: Vec<String>,
}

/// Returns what the reports and samples of all current submissions show; of the epochs, only those that the
/// state does not count yet. `root` is the state directory. A report that cannot be read now is read at the
/// next look.
pub fn reported(root: &Path, state: &State, samples: &mut RecentSamples, at: Time) -> ReportedData {
    let mut all = ReportedData::default();
    for tracked in &state.jobs {
        let data = reported_by(root, tracked, samples, at);
        all.epochs.extend(data.epochs);
        all.odd.extend(data.odd);
        all.stalls.extend(data.stalls);
        all.unfit.extend(data.unfit);
        all.notes.extend(data.notes);
    }
    samples.keep_only(root, state);
    all
}

/// Returns what [`reported`] returns about one job. The last epoch gets the time at which rank 0's file was
/// last written; the times of the others are spread evenly over the time since the last known epoch or the
/// start.
pub fn reported_by(root: &Path, tracked: &JobState, samples: &mut RecentSamples, at: Time) -> ReportedData {
    let mut all = ReportedData::default();
    for submission in tracked.phase.submissions() {
        let attempt = &submission.attempt;
        let key = attempt.key(&tracked.job.name);
        let folder = report_folder(root, &key.run, &key.name());
        let mut epochs = Vec::new();
        match look(&folder, tracked, attempt, at) {
            Ok(ReportLook { epochs: new, odd }) => {
                epochs = new;
                all.odd.extend(odd.map(|what| (key.clone(), what)));
            }
            Err(error) => {
                all.notes.push(format!("cannot read the reports in {}: {error}", folder.display()));
            }
        }
        if submission.is_running() {
            let nodes = samples.of(&folder);
            for epoch in &mut epochs {
                name_nodes(epoch, &nodes);
            }
            let stall = stall(tracked, attempt, &nodes, at);
            all.stalls.extend(stall.map(|stall| (key.clone(), stall)));
        }
        let unfit = reports::unfit(&folder).filter(|_| tracked.job.preflight);
        all.unfit.extend(unfit.map(|end| (key.clone(), end)));
        all.epochs.extend(epochs.into_iter().map(|epoch| (key.clone(), epoch)));
    }
    all
}

/// Reads the reports of a submission.
fn look(folder: &Path, tracked: &JobState, attempt: &SubmissionRecord, at: Time) -> io::Result<ReportLook> {
    let metric = tracked.job.target.as_ref().map(|target| target.metric.as_str());
    // A clock that is evidently wrong gives no time.
    let since = attempt.started.unwrap_or(attempt.meant);
    let written = reports::written(folder).filter(|time| (since.0..=at.0).contains(&time.0));
    let (ranks, done) = (attempt.ranks.len(), tracked.epochs_done);
    let ReportLook { mut epochs, mut odd } =
        reports::look(folder, ranks, done, (tracked.job.epochs, metric), written.unwrap_or(at))?;
    if may_ignore_shares(tracked, attempt, &epochs) && reports::is_silent(folder) {
        let silent = "no rank reported a batch, so unequal shares may have been ignored".to_owned();
        odd = Some(odd.map_or_else(|| silent.clone(), |odd| format!("{odd}; {silent}")));
    }
    let begun = || attempt.started.or_else(|| reports::begun(folder));
    let is_going = tracked.epochs_done > attempt.epochs_before;
    spread(&mut epochs, if is_going { tracked.epoch_at } else { begun() });
    Ok(ReportLook { epochs, odd })
}

/// Records the nodes of an epoch's ranks, from the samples that each node writes for itself.
fn name_nodes(epoch: &mut EpochReport, nodes: &[NodeSamples]) {
    let is_on = |rank: usize, node: &NodeSamples| {
        node.samples
            .last()
            .is_some_and(|sample| sample.ranks.iter().any(|rank_sample| rank_sample.rank == rank))
    };
    for report in &mut epoch.ranks {
        let node = nodes.iter().find(|node| is_on(report.rank, node));
        report.node = node.map(|node| node.node.clone());
    }
}

/// Returns whether ranks with unequal shares have not yet shown that they use them.
fn may_ignore_shares(tracked: &JobState, attempt: &SubmissionRecord, new: &[EpochReport]) -> bool {
    let batches = || attempt.ranks.iter().map(|rank| rank.batch);
    let is_told =
        attempt.tells_shares || new.iter().flat_map(|epoch| &epoch.ranks).any(|rank| rank.share.is_some());
    batches().min() != batches().max() && !is_told && tracked.job.training().is_none()
}

/// Spreads the times of epochs that were first seen now evenly over the time after `since`.
fn spread(epochs: &mut [EpochReport], since: Option<Time>) {
    let count = to_f64(epochs.len());
    let Some(since) = since else { return };
    for (number, epoch) in (1_u32..).zip(epochs) {
        let left = 1.0 - f64::from(number) / count;
        epoch.at.0 -= left * epoch.at.since(since).0.max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_of_one_look_were_done_one_after_the_other() {
        let seen = |since: Option<f64>| {
            let report = |epoch| EpochReport {
                epoch,
                at: Time(40.0),
                length: None,
                ranks: Vec::new(),
                metrics: Vec::new(),
            };
            let mut epochs: Vec<EpochReport> = (3..=6).map(report).collect();
            spread(&mut epochs, since.map(Time));
            epochs.into_iter().map(|report| report.at.0).collect::<Vec<f64>>()
        };
        assert_eq!(seen(Some(20.0)), [25.0, 30.0, 35.0, 40.0]);
        assert_eq!(seen(None), [40.0; 4]);
        assert_eq!(seen(Some(50.0)), [40.0; 4]);
    }
}
