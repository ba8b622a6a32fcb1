//! The rights of a user in Slurm: associations from `sacctmgr`, and the access lists of partitions.

use std::collections::BTreeSet;

use crate::CommandLine;
use crate::record::value;
use crate::site::PartitionLimits;

/// The requested association fields, in this order.
const FIELDS: &str = "Cluster,Account,Partition,QOS,MaxJobs,MaxSubmit,GrpTRES,MaxTRES";

/// A user's associations on one cluster; a row for each account, or for each account and partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Associations(Vec<Association>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Association {
    account: String,
    /// The only partition that the association applies to, if any.
    partition: Option<String>,
    /// The allowed QOS; empty if any may be used.
    qos: BTreeSet<String>,
    /// The smaller of two limits: the number of running jobs, and the number of running and pending jobs.
    max_jobs: Option<u64>,
    /// Maximum number of GPUs, all types together: the smaller of the limits for all its jobs and for one job.
    max_gpus: Option<u64>,
}

/// A job's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermissionRequest<'a> {
    pub account: Option<&'a str>,
    /// One partition, or several separated by commas.
    pub partition: Option<&'a str>,
    pub qos: Option<&'a str>,
    /// The smallest number of GPUs that the job accepts.
    pub gpus: u32,
}

/// Returns the command line that prints a user's associations.
pub fn command(user: &str) -> CommandLine {
    let (user, format) = (format!("user={user}"), format!("format={FIELDS}"));
    CommandLine::new("sacctmgr", ["-n", "-P", "show", "assoc", user.as_str(), format.as_str()])
}

impl Associations {
    /// Parses the output of `sacctmgr` for a cluster; `None` means all clusters.
    pub fn parse(text: &str, cluster: Option<&str>) -> Self {
        let row = |line: &str| {
            let mut fields = line.split('|').map(str::trim);
            let mut next = || fields.next().and_then(value).map(str::to_owned);
            let row_cluster = next();
            let account = next()?;
            if cluster.is_some_and(|name| {
                row_cluster.as_deref().is_some_and(|listed| !listed.eq_ignore_ascii_case(name))
            }) {
                return None;
            }
            let (partition, qos) = (next(), next().unwrap_or_default());
            let [jobs, submit] = [next(), next()].map(|text| text.and_then(|text| text.parse::<u64>().ok()));
            let tres = [next(), next()].into_iter().flatten();
            Some(Association {
                account,
                partition,
                qos: qos.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
                max_jobs: jobs.into_iter().chain(submit).min(),
                max_gpus: tres.filter_map(|text| gpu_limit(&text)).min(),
            })
        };
        Self(text.lines().filter_map(row).collect())
    }

    /// Returns the accounts, each once.
    pub fn accounts(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for association in &self.0 {
            if !names.contains(&association.account.as_str()) {
                names.push(&association.account);
            }
        }
        names
    }

    /// Returns why Slurm would refuse this account; `None` if it is listed, or if no account is listed.
    pub fn refusal(&self, account: &str) -> Option<String> {
        // Slurm ignores the case of accounts.
        let is_known = self.0.iter().any(|association| association.account.eq_ignore_ascii_case(account));
        let known = || self.accounts().join(", ");
        (!is_known && !self.0.is_empty())
            .then(|| format!("you cannot use account {account:?}; your accounts are {}", known()))
    }

    /// Returns why Slurm would refuse a job with this request or never start it, one sentence each; empty if
    /// there is no known reason.
    pub fn troubles(&self, wanted: PermissionRequest<'_>, partitions: &[PartitionLimits]) -> Vec<String> {
        let mut troubles = Vec::new();
        let named = |association: &&Association| {
            wanted.account.is_none_or(|name| name.eq_ignore_ascii_case(&association.account))
        };
        let mut associations: Vec<&Association> = self.0.iter().filter(named).collect();
        if let Some(refusal) = wanted.account.and_then(|account| self.refusal(account)) {
            return vec![refusal];
        }
        let names: Vec<&str> =
            wanted.partition.map_or(Vec::new(), |names| names.split(',').map(str::trim).collect());
        for &name in &names {
            let Some(partition) = partitions.iter().find(|known| known.name == name) else { continue };
            troubles.extend(refusal(partition, wanted));
        }
        if !names.is_empty() {
            let serves = |association: &&Association| {
                association.partition.as_deref().is_none_or(|only| names.contains(&only))
            };
            if !associations.is_empty() && !associations.iter().any(serves) {
                let only: Vec<&str> =
                    associations.iter().filter_map(|association| association.partition.as_deref()).collect();
                let account =
                    wanted.account.map_or("your account".to_owned(), |name| format!("account {name}"));
                troubles.push(format!("{account} is only for partition {}", only.join(", ")));
            }
            associations.retain(serves);
        }
        if let Some(qos) = wanted.qos {
            let allows =
                |association: &&Association| association.qos.is_empty() || association.qos.contains(qos);
            if !associations.is_empty() && !associations.iter().any(allows) {
                let known: BTreeSet<&str> = associations
                    .iter()
                    .flat_map(|association| &association.qos)
                    .map(String::as_str)
                    .collect();
                let known: Vec<&str> = known.into_iter().collect();
                troubles.push(format!("you cannot use QOS {qos:?}; yours are {}", known.join(", ")));
            }
        }
        // If several rows match, Slurm uses one of them: a limit counts only if all of them have it.
        let limits = associations.iter().map(|association| association.limit(wanted.gpus));
        if let Some(first) = limits.clone().next().flatten()
            && limits.clone().all(|limit| limit.is_some())
        {
            troubles.push(first);
        }
        troubles
    }
}

impl Association {
    /// Returns the limit that excludes every job with this number of GPUs, if there is one.
    fn limit(&self, gpus: u32) -> Option<String> {
        let account = &self.account;
        if self.max_jobs == Some(0) {
            return Some(format!("account {account} allows no jobs"));
        }
        let most = self.max_gpus.filter(|most| *most < gpus.into())?;
        Some(format!("account {account} allows {most} GPUs at once, and the job takes {gpus}"))
    }
}

/// Returns the limit on GPUs of all types in a list such as `cpu=64,gres/gpu=8,gres/gpu:a100=4`.
fn gpu_limit(text: &str) -> Option<u64> {
    text.split(',').find_map(|item| item.trim().strip_prefix("gres/gpu=")?.parse().ok())
}

/// Returns why a partition's access lists exclude a job with this request; `None` if they do not.
fn refusal(partition: &PartitionLimits, wanted: PermissionRequest<'_>) -> Option<String> {
    let name = &partition.name;
    let refused = |allowed: &[String], denied: &[String], text: &str| {
        let is = |list: &[String]| list.iter().any(|other| other.eq_ignore_ascii_case(text));
        (!allowed.is_empty() && !is(allowed)) || is(denied)
    };
    if let Some(account) = wanted.account
        && refused(&partition.allow_accounts, &partition.deny_accounts, account)
    {
        return Some(format!(
            "partition {name} does not accept account {account}{}",
            only(&partition.allow_accounts)
        ));
    }
    let qos = wanted.qos?;
    refused(&partition.allow_qos, &partition.deny_qos, qos)
        .then(|| format!("partition {name} does not accept QOS {qos}{}", only(&partition.allow_qos)))
}

fn only(allowed: &[String]) -> String {
    if allowed.is_empty() { String::new() } else { format!("; it accepts {}", allowed.join(", ")) }
}

/// Explains a pending reason about limits, accounts or QOS, and states the remedy; `None` for other reasons.
pub fn advice(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "AssocGrpGRES" | "AssocGrpGres" | "QOSGrpGRES" | "QOSGrpGres" => {
            "your account has reached its GPU limit; the job starts when other jobs of the account end"
        }
        "QOSMaxGRESPerUser"
        | "AssocMaxGRESPerJob"
        | "QOSMaxGRESPerJob"
        | "QOSMaxGRESPerAccount"
        | "MaxGRESPerAccount" => {
            "you have reached your GPU limit; use the setting capacity to keep plans within it"
        }
        "AssocGrpGRESMinutes"
        | "AssocGrpGRESRunMinutes"
        | "QOSGrpGRESMinutes"
        | "AssocGrpBillingMinutes"
        | "AssocGrpCPUMinutesLimit"
        | "QOSGrpBillingMinutes" => {
            "your account has used up its budget; use another account, or ask for more"
        }
        "AssocGrpCpuLimit" | "AssocGrpCPU" | "QOSGrpCpuLimit" | "QOSMaxCpuPerUserLimit" => {
            "your account has reached its CPU limit; a smaller cpus_per_gpu may help"
        }
        "AssocGrpMemLimit" | "AssocGrpMem" | "QOSGrpMemLimit" | "QOSMaxMemoryPerUser" => {
            "your account has reached its memory limit; a smaller memory_per_gpu may help"
        }
        "AssocGrpJobsLimit"
        | "AssocMaxJobsLimit"
        | "QOSMaxJobsPerUserLimit"
        | "QOSGrpJobsLimit"
        | "QOSJobLimit"
        | "AssociationJobLimit" => {
            "you have reached your job limit; the job starts when another of your jobs ends"
        }
        "AssocMaxWallDurationPerJobLimit" | "QOSMaxWallDurationPerJobLimit" | "AssocGrpWallLimit" => {
            "it requests more time than your account allows; set the job key time"
        }
        "InvalidAccount" | "AccountNotAllowed" => {
            "hsched doctor lists the accounts and partitions that you can use"
        }
        "InvalidQOS" | "QOSNotAllowed" | "QOSUsageThreshold" => "hsched doctor lists what you can use",
        "PartitionTimeLimit" => "it requests more time than the partition allows; set the job key time",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSOC: &str = "main|def-me||normal,long||||\nmain|rrg-lab|gpu|normal||10|gres/gpu=8,gres/gpu:a100=4|\n\
                         other|far||normal||||\nmain|stopped||normal|0|||\n";

    fn partition(name: &str, [accounts, denied, qos]: [&str; 3]) -> PartitionLimits {
        let line = format!(
            "PartitionName={name} AllowAccounts={accounts} DenyAccounts={denied} AllowQos={qos} Default=NO MaxTime=1:00:00 State=UP"
        );
        crate::site::partitions(&line).remove(0)
    }

    fn check(wanted: PermissionRequest<'_>, expected: &[&str]) {
        let associations = Associations::parse(ASSOC, Some("main"));
        let partitions = [
            partition("gpu", ["ALL", "", "ALL"]),
            partition("lab", ["rrg-lab,rrg-x", "", "normal"]),
            partition("open", ["ALL", "def-me", "ALL"]),
        ];
        assert_eq!(associations.troubles(wanted, &partitions), expected, "{wanted:?}");
    }

    #[test]
    fn what_slurm_would_refuse_is_known_before() {
        let wanted = |account, partition, qos, gpus| PermissionRequest { account, partition, qos, gpus };
        check(wanted(None, None, None, 1), &[]);
        check(wanted(Some("def-me"), Some("gpu"), Some("long"), 64), &[]);
        check(
            wanted(Some("far"), None, None, 1),
            &["you cannot use account \"far\"; your accounts are def-me, rrg-lab, stopped"],
        );
        check(
            wanted(Some("def-me"), Some("lab"), None, 1),
            &["partition lab does not accept account def-me; it accepts rrg-lab, rrg-x"],
        );
        check(
            wanted(Some("def-me"), Some("open"), None, 1),
            &["partition open does not accept account def-me"],
        );
        check(wanted(Some("rrg-lab"), Some("open"), None, 1), &["account rrg-lab is only for partition gpu"]);
        check(wanted(Some("rrg-lab"), Some("gpu, open"), None, 1), &[]);
        check(
            wanted(Some("def-me"), None, Some("fast"), 1),
            &["you cannot use QOS \"fast\"; yours are long, normal"],
        );
        check(
            wanted(Some("rrg-lab"), Some("gpu"), None, 9),
            &["account rrg-lab allows 8 GPUs at once, and the job takes 9"],
        );
        check(wanted(Some("stopped"), None, None, 1), &["account stopped allows no jobs"]);
        check(
            wanted(None, Some("lab"), Some("long"), 1),
            &["partition lab does not accept QOS long; it accepts normal"],
        );
        assert!(Associations::parse("", None).troubles(wanted(Some("x"), None, None, 1), &[]).is_empty());
    }
}
