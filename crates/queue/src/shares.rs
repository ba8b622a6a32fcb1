//! Fair share by Slurm's Fair Tree: accounts, and users within them, rank higher if they have used less than
//! their share.

use serde::{Deserialize, Serialize};

use crate::{Asks, Billing, Snapshot, Weigh};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// The accounts and users of fair share, with their usage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// Contribution of the highest rank to a priority (`PriorityWeightFairShare`).
    pub weight: f64,
    /// Half-life of past usage (`PriorityDecayHalfLife`); `None`: no decay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_life_s: Option<Seconds>,
    /// Each branch after its parent account.
    pub branches: Vec<Branch>,
}

/// An account, or a user of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    pub account: String,
    /// `None`: the account itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Index of its parent account; `None` at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    pub shares: f64,
    /// The branch's usage in billing units times seconds, with decay.
    pub usage: f64,
    /// Whether the branch belongs to the snapshot's user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ours: bool,
}

impl Shares {
    /// Returns the index of a user's branch; of the snapshot's user if none is named.
    pub(super) fn branch_of(&self, user: Option<&str>, account: Option<&str>) -> Option<usize> {
        self.branches.iter().position(|branch| {
            let is_user = match user {
                Some(_) => branch.user.as_deref() == user,
                None => branch.ours,
            };
            is_user && account.is_none_or(|name| branch.account == name)
        })
    }

    /// Returns the fair-share factor of each user from the recorded usage, from 0 to 1; 0 for accounts.
    pub fn factors_now(&self) -> Vec<f64> {
        self.factors(&self.usage())
    }

    /// Returns the recorded usage, by branch.
    pub(super) fn usage(&self) -> Vec<f64> {
        self.branches.iter().map(|branch| branch.usage).collect()
    }

    /// Adds a user's usage to the user's branch and to the accounts above.
    pub(super) fn add(&self, usage: &mut [f64], branch: usize, amount: f64) {
        let mut next = Some(branch);
        while let Some(place) = next {
            usage[place] += amount;
            // An account precedes its children.
            next = self.branches[place].parent.filter(|above| *above < place);
        }
    }

    /// Returns the fair-share factors for the given usage.
    pub(super) fn factors(&self, usage: &[f64]) -> Vec<f64> {
        let users = self.branches.iter().filter(|branch| branch.user.is_some()).count();
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.branches.len()];
        let mut top = Vec::new();
        for (place, branch) in self.branches.iter().enumerate() {
            match branch.parent {
                Some(above) if above < place => below[above].push(place),
                _ => top.push(place),
            }
        }
        let mut ranking =
            Ranking { shares: self, usage, below, left: users, rank: users, factors: Vec::new() };
        ranking.factors = vec![0.0; usage.len()];
        ranking.walk(top, false);
        let all = to_f64(users.max(1));
        ranking.factors.iter().map(|rank| rank / all).collect()
    }

    /// Returns a branch's share divided by its usage, by which siblings are compared.
    fn level(&self, place: usize, usage: &[f64]) -> f64 {
        if usage[place] > 0.0 { self.branches[place].shares / usage[place] } else { f64::INFINITY }
    }
}

/// A traversal of the tree: the best branch first, with users ranked in the order of visits.
struct Ranking<'a> {
    shares: &'a Shares,
    usage: &'a [f64],
    below: Vec<Vec<usize>>,
    /// Number of users not ranked yet.
    left: usize,
    /// The last rank; a user with the same level as the previous one gets the same rank.
    rank: usize,
    /// Ranks by branch.
    factors: Vec<f64>,
}

impl Ranking<'_> {
    /// Ranks all users among and below some siblings; with `tied`, the first one gets the previous rank.
    fn walk(&mut self, mut siblings: Vec<usize>, tied: bool) {
        let level = |place: usize| self.shares.level(place, self.usage);
        let is_account = |place: usize| self.shares.branches[place].user.is_none();
        siblings.sort_by(|&a, &b| {
            level(b).total_cmp(&level(a)).then(is_account(a).cmp(&is_account(b))).then(a.cmp(&b))
        });
        let known: Vec<(f64, bool)> =
            siblings.iter().map(|&branch| (level(branch), is_account(branch))).collect();
        let mut next = 0;
        while next < siblings.len() {
            let is_tied = if next == 0 { tied } else { known[next - 1].0 == known[next].0 };
            if known[next].1 {
                // Accounts with equal levels are merged.
                let end = next + known[next..].iter().take_while(|key| **key == known[next]).count();
                let children: Vec<usize> = siblings[next..end]
                    .iter()
                    .flat_map(|&branch| std::mem::take(&mut self.below[branch]))
                    .collect();
                self.walk(children, is_tied);
                next = end;
                continue;
            }
            if !is_tied {
                self.rank = self.left;
            }
            let rank = to_f64(self.rank);
            self.factors[siblings[next]] = rank;
            self.left -= 1;
            next += 1;
        }
    }
}

impl Snapshot {
    /// Adds the usage of running jobs since `told`, the time of the recorded usage.
    pub fn count_use_since(&mut self, told: Time) {
        let Some(mut shares) = self.shares.take() else { return };
        let mut usage = shares.usage();
        for job in &self.jobs {
            let Some(running) = &job.running else { continue };
            let time = self.taken_at.since(Time(told.0.max(running.since.0))).0;
            let branch = shares.branch_of(job.user.as_deref(), job.account.as_deref());
            if let Some(branch) = branch.filter(|_| job.user.is_some() && time > 0.0) {
                let rate = self.billing_rate(&job.asks, job.partitions.first().map(String::as_str));
                shares.add(&mut usage, branch, rate * time);
            }
        }
        shares.branches.iter_mut().zip(usage).for_each(|(branch, usage)| branch.usage = usage);
        self.shares = Some(shares);
    }

    /// Returns a job's billing units per second: its CPUs if the site defines no weights.
    pub(super) fn billing_rate(&self, asks: &Asks, partition: Option<&str>) -> f64 {
        let is_meant = |known: &&crate::QueuePartition| match partition {
            Some(name) => known.name == name,
            None => known.default,
        };
        let billing = self.partitions.iter().find(is_meant).and_then(|partition| partition.billing.as_ref());
        let (cpus, memory) = (to_f64(asks.cpus.unwrap_or(1)), to_f64(asks.memory_mib.unwrap_or(0)));
        let nodes = f64::from(asks.nodes);
        let Some(Billing { weights, weigh }) = billing else { return nodes * cpus };
        let weight = |name: &str| weights.get(name).copied().unwrap_or(0.0);
        let gpu = |ask: &crate::GpuAsk| {
            let typed = ask.gpu_type.as_ref().and_then(|name| weights.get(&format!("gres/gpu:{name}")));
            f64::from(ask.count) * typed.copied().unwrap_or_else(|| weight("gres/gpu"))
        };
        let gpus: f64 = asks.gpus.iter().map(gpu).sum();
        let terms = [weight("cpu") * cpus, weight("mem") * memory / 1024.0, gpus];
        nodes
            * match weigh {
                Weigh::Sum => terms.iter().sum::<f64>(),
                Weigh::Max => terms.into_iter().fold(0.0, f64::max),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line: account, user, index of the parent account, shares, usage, factor in thirteenths.
    type Line = (&'static str, Option<&'static str>, Option<usize>, f64, f64, f64);

    /// Output of `sshare -a` on a real Slurm cluster.
    const SEEN: [Line; 18] = [
        ("root", None, None, 1.0, 110_173.0, 0.0),
        ("root", Some("root"), Some(0), 1.0, 0.0, 13.0),
        ("astro", None, Some(0), 50.0, 43_496.0, 0.0),
        ("astro", Some("daemon"), Some(2), 1.0, 43_496.0, 5.0),
        ("astro", Some("man"), Some(2), 1.0, 0.0, 8.0),
        ("astro", Some("news"), Some(2), 1.0, 0.0, 8.0),
        ("astro", Some("root"), Some(2), 1.0, 0.0, 8.0),
        ("bio", None, Some(0), 30.0, 55_408.0, 0.0),
        ("bio", Some("bin"), Some(7), 1.0, 48_701.0, 1.0),
        ("bio", Some("lp"), Some(7), 1.0, 2204.0, 3.0),
        ("bio", Some("root"), Some(7), 1.0, 0.0, 4.0),
        ("bio", Some("uucp"), Some(7), 1.0, 4501.0, 2.0),
        ("chem", None, Some(0), 20.0, 11_269.0, 0.0),
        ("chem", Some("games"), Some(12), 1.0, 2707.0, 10.0),
        ("chem", Some("mail"), Some(12), 1.0, 8561.0, 9.0),
        ("chem", Some("root"), Some(12), 1.0, 0.0, 11.0),
        ("dev", None, Some(0), 1.0, 0.0, 0.0),
        ("dev", Some("root"), Some(16), 1.0, 0.0, 13.0),
    ];

    fn seen() -> Shares {
        let branch = |&(account, user, parent, shares, usage, _): &(
            &str,
            Option<&str>,
            Option<usize>,
            f64,
            f64,
            f64,
        )| {
            let user = user.map(str::to_owned);
            Branch { account: account.to_owned(), user, parent, shares, usage, ours: false }
        };
        Shares { weight: 1.0, half_life_s: None, branches: SEEN.iter().map(branch).collect() }
    }

    #[test]
    fn users_rank_as_slurm_ranks_them() {
        let shares = seen();
        let ranks: Vec<f64> =
            shares.factors(&shares.usage()).iter().map(|factor| (factor * 13.0).round()).collect();
        assert_eq!(ranks, SEEN.map(|row| row.5));
    }

    #[test]
    fn an_account_that_uses_more_falls_behind_with_all_its_users() {
        let shares = seen();
        let mut usage = shares.usage();
        let mail = shares.branch_of(Some("mail"), Some("chem")).expect("a branch");
        shares.add(&mut usage, mail, 200_000.0);
        let factors = shares.factors(&usage);
        let games = shares.branch_of(Some("games"), None).expect("a branch");
        let uucp = shares.branch_of(Some("uucp"), None).expect("a branch");
        assert!(factors[games] < factors[uucp] && factors[mail] < factors[games], "{factors:?}");
    }
}
