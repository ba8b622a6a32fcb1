//! The users of each account with their past usage, and the priority of a new job under each of the user's
//! accounts, from `sshare` and the configuration's weights.

use std::collections::BTreeMap;

use crate::queue::limits::tres;
use crate::record::value;
use crate::site::{Config, PartitionLimits};
use crate::{CommandLine, amount};
use hsched_model::number::{to_f64, to_u64};
use hsched_queue::{Branch, Limit, QueueAccount, Shares};

/// Minimum fraction of users whose fair-share factors must agree with the computed ones.
const MOST: f64 = 0.9;

/// Returns the command line that prints all accounts and users with their usage.
pub fn shares_command() -> CommandLine {
    let format = "--format=Account,User,RawShares,RawUsage,FairShare,GrpTRESRaw";
    CommandLine::new("sshare", ["-a", "-n", "-P", format])
}

/// Returns the command line that prints a user's default account on this cluster.
pub fn default_account_command(user: &str) -> CommandLine {
    let users = format!("users={user}");
    CommandLine::new("scontrol", ["-o", "show", "assoc_mgr", users.as_str(), "flags=users"])
}

/// Returns the default account of a user: `UserName=alice(1000) DefAccount=bio`.
fn default_account<'a>(text: &'a str, user: &str) -> Option<&'a str> {
    let of_line = |line: &'a str| {
        let of = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key)).and_then(value);
        let (name, _) = of("UserName=")?.split_once('(')?;
        of("DefAccount=").filter(|_| name.eq_ignore_ascii_case(user))
    };
    text.lines().find_map(of_line)
}

/// Marks the user's default account.
pub(super) fn mark_default(accounts: &mut [QueueAccount], text: &str, user: &str) {
    let name = default_account(text, user);
    for account in accounts {
        account.default = name == Some(account.name.as_str());
    }
}

/// Returns a note if requests may be for any of several accounts, because the default one is unknown.
pub(super) fn unknown_default(accounts: &[QueueAccount]) -> Option<String> {
    let is_unknown = accounts.len() > 1 && !accounts.iter().any(|account| account.default);
    is_unknown.then(|| {
        "your default account is unknown: estimates without --account ignore the limits of accounts"
            .to_owned()
    })
}

/// A line of `sshare`.
struct ShareRow<'a> {
    /// Depth below the root.
    depth: usize,
    account: &'a str,
    user: Option<&'a str>,
    /// `None` if no number is printed, as for `parent`; counts as 1.
    shares: Option<f64>,
    usage: f64,
    factor: Option<f64>,
    /// Past use by TRES, in minutes: `cpu=7,gres/gpu=2`.
    tres_minutes: &'a str,
}

fn rows(text: &str) -> impl Iterator<Item = ShareRow<'_>> {
    text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split('|').collect();
        let [account, user, shares, usage, factor, ref rest @ ..] = fields[..] else { return None };
        let factor = factor.trim().parse::<f64>().ok().filter(|factor| (0.0..=1.0).contains(factor));
        let number = |text: &str| {
            text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
        };
        Some(ShareRow {
            depth: account.len() - account.trim_start().len(),
            account: Some(account.trim()).filter(|name| !name.is_empty())?,
            user: Some(user.trim()).filter(|name| !name.is_empty()),
            shares: number(shares),
            usage: number(usage).unwrap_or(0.0),
            factor,
            tres_minutes: rest.first().copied().unwrap_or_default(),
        })
    })
}

/// Returns the share tree; `None` if fair share has no weight or its factors do not follow from the output,
/// because other users are hidden or the site uses another rule.
pub(super) fn shares(text: &str, user: &str, config: &Config) -> Option<Shares> {
    let weight = to_f64(config.number("PriorityWeightFairShare").filter(|weight| *weight > 0)?);
    let (mut branches, mut above): (Vec<Branch>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
    let mut factors = Vec::new();
    for row in rows(text) {
        above.retain(|(depth, _)| *depth < row.depth);
        let parent = above.last().map(|(_, place)| *place);
        if row.user.is_none() {
            above.push((row.depth, branches.len()));
        }
        factors.push(row.factor.filter(|_| row.user.is_some()));
        branches.push(Branch {
            account: row.account.to_owned(),
            user: row.user.map(str::to_owned),
            parent,
            shares: row.shares.unwrap_or(1.0),
            usage: row.usage,
            ours: row.user == Some(user),
        });
    }
    let half_life_s =
        config.get("PriorityDecayHalfLife").and_then(amount::duration).filter(|duration| duration.0 > 0.0);
    let shares = Shares { weight, half_life_s, branches };
    let known: Vec<(f64, f64)> = shares
        .factors_now()
        .into_iter()
        .zip(factors)
        .filter_map(|(share, told)| Some((share, told?)))
        .collect();
    let users = to_f64(known.len());
    // The tolerance is half a rank, because printed values are rounded and may be some minutes older than the
    // factors.
    let alike = to_f64(known.iter().filter(|(computed, told)| (computed - told).abs() * users < 0.5).count());
    (users > 1.0 && alike >= MOST * users).then_some(shares)
}

/// Adds the past use of accounts and users to their limits on it.
pub(super) fn add_past_use(limits: &mut [Limit], text: &str) {
    let mut by_holder: BTreeMap<String, Vec<&mut Limit>> = BTreeMap::new();
    for limit in limits.iter_mut().filter(|limit| limit.name == "GrpTRESMins") {
        by_holder.entry(limit.holder.clone()).or_default().push(limit);
    }
    if by_holder.is_empty() {
        return;
    }
    for row in rows(text) {
        let holder = match row.user {
            Some(user) => format!("u:{}:{user}", row.account),
            None => format!("a:{}", row.account),
        };
        for limit in by_holder.get_mut(&holder).into_iter().flatten() {
            let mut known = row.tres_minutes.split(',').filter_map(tres);
            let found = known.find(|(name, _)| limit.tres.as_deref() == Some(*name));
            limit.used = found.map(|(_, minutes)| minutes);
        }
    }
}

/// Returns each account once, with the priority of a job in the default partition if priorities follow from
/// weights.
///
/// The contribution of a job's size, its QOS and the site's own factor is unknown before submission.
pub(super) fn accounts(
    text: &str,
    user: &str,
    config: &Config,
    partitions: &[PartitionLimits],
) -> Vec<QueueAccount> {
    let mut found: Vec<QueueAccount> = Vec::new();
    for row in rows(text).filter(|row| row.user == Some(user)) {
        if found.iter().any(|account| account.name == row.account) {
            continue;
        }
        let priority = row.factor.and_then(|factor| priority(factor, config, partitions));
        found.push(QueueAccount {
            name: row.account.to_owned(),
            default: false,
            priority,
            qos: None,
            allowed_qos: Vec::new(),
        });
    }
    found
}

/// Returns the sum of the weighted factors of a newly submitted job.
fn priority(factor: f64, config: &Config, partitions: &[PartitionLimits]) -> Option<u64> {
    if !config.get("PriorityType")?.ends_with("multifactor") {
        return None;
    }
    let weight = |key: &str| to_f64(config.number(key).unwrap_or(0));
    let highest = partitions
        .iter()
        .filter_map(|partition_limits| partition_limits.job_factor)
        .max()
        .unwrap_or(1)
        .max(1);
    let default_factor = partitions
        .iter()
        .find(|partition_limits| partition_limits.default)
        .and_then(|partition_limits| partition_limits.job_factor)
        .unwrap_or(1);
    let share = f64::from(default_factor) / f64::from(highest);
    let sum = weight("PriorityWeightFairShare") * factor + weight("PriorityWeightPartition") * share;
    Some(to_u64(sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site;

    #[test]
    fn an_accounts_priority_is_what_its_share_weighs() {
        let config = Config::parse(
            "PriorityType = priority/multifactor\nPriorityWeightFairShare = 20000\nPriorityWeightPartition = 100000\n",
        );
        let partitions = site::partitions(
            "PartitionName=gpu Default=YES PriorityJobFactor=1 State=UP\nPartitionName=hi PriorityJobFactor=2 State=UP\n",
        );
        let text =
            "root|me|1|0|1.000000\nastro|me|1|0|0.5\nastro|me|1|0|0.1\nastro|you|1|0|0.9\nodd|me|1|0|x\n";
        let seen = |config: &Config| -> Vec<(String, Option<u64>)> {
            let found = accounts(text, "me", config, &partitions);
            found.into_iter().map(|account| (account.name, account.priority)).collect()
        };
        let account = |name: &str, priority| (name.to_owned(), priority);
        assert_eq!(
            seen(&config),
            [account("root", Some(70000)), account("astro", Some(60000)), account("odd", None)]
        );
        assert_eq!(seen(&Config::parse("PriorityType = priority/basic\n"))[0], account("root", None));
    }

    #[test]
    fn limits_on_past_use_have_their_use() {
        let limit = |holder: &str, name: &str| Limit {
            holder: holder.to_owned(),
            name: name.to_owned(),
            tres: Some("gres/gpu".to_owned()),
            max: 5.0,
            used: None,
        };
        let mut limits = [("a:bio", "GrpTRESMins"), ("u:bio:me", "GrpTRESMins"), ("a:bio", "GrpTRES")]
            .map(|(holder, name)| limit(holder, name));
        add_past_use(&mut limits, "bio||1|9||cpu=9,gres/gpu=7\n bio|me|1|9|0.5|cpu=4,gres/gpu=2\n");
        assert_eq!(limits.each_ref().map(|limit| limit.used), [Some(7.0), Some(2.0), None]);
        // As an earlier version asked.
        let mut limits = [limit("a:bio", "GrpTRESMins")];
        add_past_use(&mut limits, "bio||1|9|\n");
        assert_eq!(limits[0].used, None);
    }

    #[test]
    fn the_default_account_is_the_one_of_the_user() {
        let text = "Current Association Manager state\nUser Records\n\
                    UserName=you(7) DefAccount=a DefWckey= AdminLevel=None\n\
                    UserName=me(8) DefAccount=b DefWckey= AdminLevel=None\n";
        assert_eq!((default_account(text, "me"), default_account(text, "m")), (Some("b"), None));
        assert_eq!(default_account("UserName=me(8) DefAccount= AdminLevel=None\n", "me"), None);
        let shares = "a|me|1|0|x\nb|me|1|0|x\n";
        let seen = |shares: &str, text: &str| {
            let mut found = accounts(shares, "me", &Config::parse(""), &[]);
            mark_default(&mut found, text, "me");
            (
                found.iter().map(|account| account.default).collect::<Vec<_>>(),
                unknown_default(&found).is_some(),
            )
        };
        assert_eq!(seen(shares, text), (vec![false, true], false));
        assert_eq!(seen(shares, ""), (vec![false, false], true));
        // A user with one account needs no default.
        assert_eq!(seen("a|me|1|0|x\n", ""), (vec![false], false));
    }

    #[test]
    fn who_shares_is_believed_where_the_factors_follow_from_it() {
        let text = "root|||300|\n a||2|100|\n  a|me|1|90|0.50\n  a|you|parent|10|0.75\n b||1|200|\n  b|me|1|200|0.25\n c||1|0|\n  c|other|1|0|1.0\n";
        let config = "PriorityWeightFairShare = 1000\nPriorityDecayHalfLife = 7-00:00:00\n";
        let found = shares(text, "me", &Config::parse(config)).expect("shares");
        assert_eq!(
            (found.weight, found.half_life_s.map(|half_life_| half_life_.0)),
            (1000.0, Some(604_800.0))
        );
        let seen: Vec<_> =
            found.branches.iter().map(|branch| (branch.parent, branch.usage, branch.ours)).collect();
        assert_eq!(
            seen[2..6],
            [(Some(1), 90.0, true), (Some(1), 10.0, false), (Some(0), 200.0, false), (Some(4), 200.0, true)]
        );
        // Another rule, hidden users, or no weight for fair share.
        assert_eq!(shares(&text.replace("0.75", "0.40"), "me", &Config::parse(config)), None);
        assert_eq!(shares("root|||9|\n a||2|9|\n  a|me|1|9|0.01\n", "me", &Config::parse(config)), None);
        assert_eq!(shares(text, "me", &Config::parse("PriorityWeightFairShare = 0\n")), None);
    }
}
