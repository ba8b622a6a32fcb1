//! The accounts of a user and what priority a new job of each would have, from `sshare` and the configuration's weights.

use crate::queue::AccountStanding;
use crate::slurm::CommandLine;
use crate::slurm::site::{Config, PartitionLimits};

/// Returns the command line that prints the user's accounts with their fair-share factors.
#[must_use]
pub fn standings_command() -> CommandLine {
    CommandLine::new("sshare", ["-U", "-n", "-P", "--format=Account,FairShare"])
}

/// Returns each account once, with the priority of a job in the default partition, where priorities follow from weights.
///
/// What a job's size, its QOS and the site's own factor add is not known before it is submitted.
#[must_use]
pub(super) fn standings(text: &str, config: &Config, partitions: &[PartitionLimits]) -> Vec<AccountStanding> {
    let mut found: Vec<AccountStanding> = Vec::new();
    for line in text.lines() {
        let Some((name, factor)) = line.split_once('|') else { continue };
        let name = name.trim();
        if name.is_empty() || found.iter().any(|own| own.name == name) {
            continue;
        }
        let factor = factor.trim().parse::<f64>().ok().filter(|factor| (0.0..=1.0).contains(factor));
        let priority = factor.and_then(|factor| priority(factor, config, partitions));
        found.push(AccountStanding { name: name.to_owned(), default: false, priority });
    }
    found
}

/// Returns the sum of the weighted factors of a job that has just been submitted.
fn priority(factor: f64, config: &Config, partitions: &[PartitionLimits]) -> Option<u64> {
    if !config.get("PriorityType")?.ends_with("multifactor") {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "weights are far below 2^53")]
    let weight = |key: &str| config.number(key).unwrap_or(0) as f64;
    let highest = partitions.iter().filter_map(|own| own.job_factor).max().unwrap_or(1).max(1);
    let own = partitions.iter().find(|own| own.default).and_then(|own| own.job_factor).unwrap_or(1);
    let share = f64::from(own) / f64::from(highest);
    let sum = weight("PriorityWeightFairShare") * factor + weight("PriorityWeightPartition") * share;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; saturates")]
    Some(sum as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::site;

    #[test]
    fn an_accounts_priority_is_what_its_share_weighs() {
        let config = Config::parse(
            "PriorityType = priority/multifactor\nPriorityWeightFairShare = 20000\nPriorityWeightPartition = 100000\n",
        );
        let partitions = site::partitions(
            "PartitionName=gpu Default=YES PriorityJobFactor=1 State=UP\nPartitionName=hi PriorityJobFactor=2 State=UP\n",
        );
        let text = "root|1.000000\nastro|0.5\nastro|0.1\nodd|x\n";
        let seen = |config: &Config| -> Vec<(String, Option<u64>)> {
            standings(text, config, &partitions).into_iter().map(|own| (own.name, own.priority)).collect()
        };
        let own = |name: &str, priority| (name.to_owned(), priority);
        assert_eq!(seen(&config), [own("root", Some(70000)), own("astro", Some(60000)), own("odd", None)]);
        assert_eq!(seen(&Config::parse("PriorityType = priority/basic\n"))[0], own("root", None));
    }
}
