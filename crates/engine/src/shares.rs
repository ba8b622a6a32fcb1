//! Shares that change while a submission runs: its ranks adopt them at the end of an epoch, with the same
//! GPUs and global batch.

use serde::{Deserialize, Serialize};

use crate::view::{View, is_movable};
use crate::{Action, EpochReport, JobState, RankReport, State, Submission, SubmissionRecord};
use hsched_model::{GpuType, Job, PlacedRank, Seconds};
use hsched_plan::{Placement, Problem, Sharing};

/// Epochs within which ranks must adopt new shares; they check at the end of the epoch during which the
/// shares are written.
const PATIENCE: u64 = 3;

/// New shares must shorten the epoch by more than this fraction.
const SAME: f64 = 0.01;

/// New shares, decided while a submission runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewShares {
    /// Version number, from 1 within a submission.
    pub version: u64,
    /// Samples per global batch, by rank.
    pub batches: Vec<u64>,
    /// Samples per epoch, by rank.
    pub samples: Vec<u64>,
    /// Maximum samples per pass, by rank.
    pub micro: Vec<u64>,
    /// First rank of each replica if replicas have several ranks; empty if each rank is a replica.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<usize>,
    /// Predicted time of an epoch.
    #[serde(rename = "epoch_s")]
    pub epoch: Seconds,
    /// Communication part of that time.
    #[serde(rename = "communication_s")]
    pub communication: Seconds,
    /// Number of finished epochs at the decision.
    pub decided_after: u64,
    pub stage: SharesStage,
}

/// Progress of new shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharesStage {
    /// About to be written.
    Meant,
    /// Stored where the ranks look for them.
    Written,
    /// In effect since this epoch.
    Adopted { epoch: u64 },
    /// The ranks did not adopt them, or they could not be written; other shares now require a stop.
    Ignored,
}

impl NewShares {
    /// Converts values by rank to values by replica; each rank is a replica unless `replicas` says otherwise.
    pub(super) fn by_replica(&self, by_rank: &[u64]) -> Vec<u64> {
        if self.replicas.is_empty() {
            return by_rank.to_vec();
        }
        self.replicas.iter().filter_map(|&rank| by_rank.get(rank).copied()).collect()
    }

    /// Returns whether these shares are those of the present ranks.
    fn are_those_of(&self, ranks: &[PlacedRank]) -> bool {
        self.batches.iter().eq(ranks.iter().map(|rank| &rank.batch))
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, SharesStage::Meant | SharesStage::Written)
    }
}

impl SubmissionRecord {
    /// Returns whether the submission's ranks can adopt other shares while they run.
    pub(super) fn takes_shares(&self, job: &Job) -> bool {
        let ignored = self.new_shares.as_ref().is_some_and(|shares| shares.stage == SharesStage::Ignored);
        self.tells_shares && !ignored && self.ranks.len() > 1 && job.training().is_none()
    }

    /// Returns the GPU type and batch of each rank once new shares are in effect.
    pub(super) fn shares_to_come(&self) -> impl Iterator<Item = (&GpuType, u64)> {
        let new = self.new_shares.as_ref().filter(|shares| shares.is_open());
        let batch = move |(number, rank): (usize, &PlacedRank)| {
            new.and_then(|shares| shares.batches.get(number).copied()).unwrap_or(rank.batch)
        };
        self.ranks.iter().enumerate().map(move |numbered| (&numbered.1.gpu_type, batch(numbered)))
    }

    /// Records the shares with which the submission's ranks have finished an epoch.
    pub(super) fn hear_shares(&mut self, report: &EpochReport) {
        let version = |rank: &RankReport| rank.share.and_then(|share| share.version);
        self.tells_shares |= report.ranks.iter().any(|rank| version(rank).is_some());
        let Some(new) = self.new_shares.as_mut().filter(|shares| shares.is_open()) else { return };
        let told = report.ranks.iter().find(|rank| rank.rank == 0).and_then(version);
        if told.is_some_and(|told| told >= new.version) {
            new.stage = SharesStage::Adopted { epoch: report.epoch };
            (self.epoch, self.communication) = (new.epoch, new.communication);
            for (rank, (&batch, &samples)) in self.ranks.iter_mut().zip(new.batches.iter().zip(&new.samples))
            {
                (rank.batch, rank.samples) = (batch, samples);
            }
        } else if report.epoch >= new.decided_after + PATIENCE {
            new.stage = SharesStage::Ignored;
        }
    }

    /// Records whether new shares are stored where the ranks look for them.
    pub(super) fn hear_of_file(&mut self, is_written: bool) {
        if let Some(new) = self.new_shares.as_mut().filter(|shares| shares.is_open()) {
            new.stage = if is_written { SharesStage::Written } else { SharesStage::Ignored };
        }
    }
}

/// Returns an action for each submission whose new shares were decided but may not have been written.
pub(super) fn unwritten(state: &State) -> impl Iterator<Item = Action> {
    let one = |tracked: &JobState| {
        let meant = |submission: &&Submission| {
            submission.is_running()
                && submission.attempt.new_shares.as_ref().is_some_and(|new| new.stage == SharesStage::Meant)
        };
        let actions: Vec<Action> = tracked
            .phase
            .submissions()
            .iter()
            .filter(meant)
            .filter_map(|submission| {
                let shares = submission.attempt.new_shares.clone()?;
                let (of, job_id) = (submission.attempt.key(&tracked.job.name), submission.attempt.job_id?);
                Some(Action::Share { of, job_id, shares, why: "as was decided before".to_owned() })
            })
            .collect();
        actions
    };
    state.jobs.iter().flat_map(one)
}

/// Returns actions that give new shares to running submissions whose shares are based on speeds that turned
/// out to be wrong, and marks the new shares in the state.
pub(super) fn correct(state: &mut State, view: &View, sharing: Sharing) -> Vec<Action> {
    let mut actions = Vec::new();
    for job in 0..view.names.len() {
        let holds = &view.problem.jobs[job].progress.holds;
        let tracked = view.tracked_mut(state, job);
        let (left, done) = (tracked.epochs_left(), tracked.epochs_done);
        // Policies do not see a submission that continues another one.
        let submissions = tracked.phase.submissions();
        let shown = (0..submissions.len()).filter(|&place| !tracked.is_next(&submissions[place].attempt));
        let found = shown.zip(holds).find_map(|(place, hold)| {
            let hsched_plan::HoldStage::Running { epoch, .. } = hold.stage else { return None };
            let submission = &submissions[place];
            let is_open = submission.attempt.new_shares.as_ref().is_some_and(|new| new.is_open());
            if is_open || !is_movable(tracked, submission) || !submission.attempt.takes_shares(&tracked.job) {
                return None;
            }
            let placement = Placement::new(&view.problem, job, &hold.slots, sharing)?;
            let after = placement.epoch_as_shared(&view.problem, &view.problem.jobs[job]).total();
            if epoch - after <= SAME * epoch {
                return None;
            }
            let mut shares =
                Box::new(new_shares(&submission.attempt, &tracked.job, &view.problem, &placement, done)?);
            // The prediction divides the batch exactly, and ranks get whole samples.
            if shares.are_those_of(&submission.attempt.ranks) {
                return None;
            }
            shares.replicas = first_ranks(&submission.attempt.ranks, &view.problem, job);
            let list = shares.batches.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let times = format!("{after:.3} s per epoch instead of {epoch:.3} s, {left} epochs left");
            let (of, job_id) = (submission.attempt.key(&tracked.job.name), submission.attempt.job_id?);
            Some((
                place,
                Action::Share { of, job_id, shares, why: format!("{list} samples by rank: {times}") },
            ))
        });
        if let Some((place, action)) = found {
            if let Action::Share { shares, .. } = &action {
                tracked.phase.submissions_mut()[place].attempt.new_shares = Some(shares.clone());
            }
            actions.push(action);
        }
    }
    actions
}

/// Returns the first rank of each replica of a job; empty if each rank is a replica.
fn first_ranks(ranks: &[PlacedRank], problem: &Problem, job: usize) -> Vec<usize> {
    let model = &problem.jobs[job];
    let (mut first, mut at) = (Vec::new(), 0);
    while let Some(rank) = ranks.get(at).filter(|_| model.has_several_gpus()) {
        first.push(at);
        let gpu_type = problem.gpu_types.iter().position(|name| *name == rank.gpu_type);
        at += gpu_type.map_or(1, |gpu_type| model.size(gpu_type).max(1) as usize);
    }
    first
}

/// Returns the shares of a placement for the present ranks, matched by GPU type; `None` if the types do not
/// match.
fn new_shares(
    attempt: &SubmissionRecord,
    job: &Job,
    problem: &Problem,
    placement: &Placement,
    decided_after: u64,
) -> Option<NewShares> {
    let mut left: Vec<(&GpuType, u64, u64)> = placement
        .ranks
        .iter()
        .map(|rank| (&problem.gpu_types[rank.gpu_type], rank.batch, rank.samples))
        .collect();
    let mut other = |rank: &PlacedRank| {
        let (_, batch, samples) = left.remove(left.iter().position(|of_type| *of_type.0 == rank.gpu_type)?);
        Some(PlacedRank { batch, samples, ..rank.clone() })
    };
    let ranks: Option<Vec<PlacedRank>> = attempt.ranks.iter().map(&mut other).collect();
    let ranks = ranks.filter(|_| left.is_empty())?;
    Some(NewShares {
        version: attempt.new_shares.as_ref().map_or(0, |shares| shares.version) + 1,
        batches: ranks.iter().map(|rank| rank.batch).collect(),
        samples: ranks.iter().map(|rank| rank.samples).collect(),
        micro: ranks.iter().map(|rank| rank.micro_batches(job).0).collect(),
        replicas: Vec::new(),
        epoch: Seconds(placement.epoch.total()),
        communication: Seconds(placement.epoch.comm),
        decided_after,
        stage: SharesStage::Meant,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReportedShare;
    use hsched_model::{NodeName, Time};

    /// Returns rank 0's report of an epoch with this version of shares.
    fn report(epoch: u64, version: Option<u64>) -> EpochReport {
        let share = Some(ReportedShare { batch: 6, version });
        let rank = RankReport {
            rank: 0,
            node: None,
            samples: 60,
            compute: Seconds(1.0),
            step: None,
            probes: Vec::new(),
            share,
        };
        EpochReport { epoch, at: Time(9.0), length: None, ranks: vec![rank], metrics: Vec::new() }
    }

    /// Returns a submission of two ranks with shares 6 and 2; shares 5 and 3 were written after epoch 2.
    fn record() -> SubmissionRecord {
        let rank = |name: &str, batch| PlacedRank {
            node: NodeName::new("n1").expect("a node"),
            gpu_type: GpuType::new(name).expect("a type"),
            local_rank: 0,
            batch,
            samples: batch,
        };
        let ranks = vec![rank("v100", 6), rank("t4", 2)];
        let mut record = SubmissionRecord::new("run", ranks, Seconds(9.0), 0, Time(0.0));
        record.hear_shares(&report(1, Some(0)));
        record.new_shares = Some(Box::new(NewShares {
            version: 1,
            batches: vec![5, 3],
            samples: vec![50, 30],
            micro: vec![5, 3],
            replicas: Vec::new(),
            epoch: Seconds(7.0),
            communication: Seconds(0.5),
            decided_after: 2,
            stage: SharesStage::Meant,
        }));
        record.hear_of_file(true);
        record
    }

    fn batches(record: &SubmissionRecord) -> Vec<u64> {
        record.ranks.iter().map(|rank| rank.batch).collect()
    }

    #[test]
    fn a_replica_has_one_number() {
        let record = record();
        let mut shares = *record.new_shares.expect("new shares");
        assert_eq!(shares.by_replica(&[5, 3]), [5, 3]);
        shares.replicas = vec![0, 2];
        assert_eq!(shares.by_replica(&[5, 5, 3]), [5, 3]);
    }

    #[test]
    fn new_shares_count_from_the_epoch_that_reports_them() {
        let mut record = record();
        assert_eq!(record.shares_to_come().map(|share| share.1).collect::<Vec<_>>(), [5, 3]);
        record.hear_shares(&report(3, Some(0)));
        assert_eq!((batches(&record), record.epoch), (vec![6, 2], Seconds(9.0)));
        record.hear_shares(&report(4, Some(1)));
        assert_eq!((batches(&record), record.epoch), (vec![5, 3], Seconds(7.0)));
        let stage = record.new_shares.as_ref().map(|shares| shares.stage);
        assert_eq!(stage, Some(SharesStage::Adopted { epoch: 4 }));
    }

    #[test]
    fn shares_with_the_batches_of_the_ranks_change_nothing() {
        let mut record = record();
        let shares = record.new_shares.clone().expect("new shares");
        assert!(!shares.are_those_of(&record.ranks));
        record.hear_shares(&report(4, Some(1)));
        assert!(shares.are_those_of(&record.ranks) && !shares.are_those_of(&record.ranks[..1]));
    }

    #[test]
    fn who_takes_no_new_shares_within_three_epochs_is_given_none() {
        let mut record = record();
        record.hear_shares(&report(4, Some(0)));
        assert!(record.new_shares.as_ref().is_some_and(|shares| shares.is_open()));
        record.hear_shares(&report(5, Some(0)));
        let stage = record.new_shares.as_ref().map(|shares| shares.stage);
        assert_eq!((stage, batches(&record)), (Some(SharesStage::Ignored), vec![6, 2]));
    }
}
