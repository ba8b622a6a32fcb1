//! Fair share at the time of the snapshot: the branch to which a job's use is charged, and the contribution
//! of the branch's rank to the job's priority.

use std::collections::BTreeMap;

use crate::line::Use;
use crate::{Asks, Branch, QueueJob, Shares, Snapshot};

/// The user and account of a job, as far as known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose<'a> {
    pub user: Option<&'a str>,
    pub account: Option<&'a str>,
}

/// Fair share at the time of the snapshot.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    pub shares: Shares,
    /// For each branch, the contribution of its rank to the priorities of its jobs.
    pub adds: Vec<f64>,
    /// Branches by user and account.
    places: BTreeMap<(String, String), usize>,
}

impl Ranks {
    pub(super) fn new(shares: &Shares) -> Self {
        let adds = shares.factors_now().into_iter().map(|factor| shares.weight * factor);
        let users = shares.branches.iter().enumerate();
        let place =
            |(place, branch): (usize, &Branch)| Some(((branch.user.clone()?, branch.account.clone()), place));
        Self { adds: adds.collect(), places: users.filter_map(place).collect(), shares: shares.clone() }
    }

    fn branch_of(&self, user: &str, account: Option<&str>) -> Option<usize> {
        match account {
            Some(account) => self.places.get(&(user.to_owned(), account.to_owned())).copied(),
            None => self.shares.branch_of(Some(user), None),
        }
    }
}

impl Snapshot {
    /// Returns the fair-share data of a queued or past job.
    pub(super) fn counted(
        &self,
        ranks: Option<&Ranks>,
        Whose { user, account }: Whose,
        asks: &Asks,
        partition: Option<&str>,
    ) -> Use {
        let Some((ranks, user)) = ranks.zip(user) else { return Use::default() };
        Use { branch: ranks.branch_of(user, account), rate: self.billing_rate(asks, partition) }
    }

    pub(super) fn counted_job(&self, ranks: Option<&Ranks>, job: &QueueJob) -> Use {
        let partition = job.partitions.first().map(String::as_str);
        let whose = Whose { user: job.user.as_deref(), account: job.account.as_deref() };
        self.counted(ranks, whose, &job.asks, partition)
    }
}
