//! The limits that a site shows, added to a snapshot.

use crate::queue::limits::{self, AccountTable};
use crate::queue::scheduling;
use crate::site::{self, Config};
use hsched_queue::Snapshot;

/// Output of the commands about a site's limits.
#[derive(Clone, Copy, Debug)]
pub struct SiteTexts<'a> {
    pub config: &'a str,
    pub partitions: &'a str,
    pub associations: AccountTable<'a>,
    pub qos: AccountTable<'a>,
}

/// Adds the limits of a site and the weight of age to a snapshot.
pub fn add_site(snapshot: &mut Snapshot, texts: &SiteTexts<'_>) {
    let config = Config::parse(texts.config);
    let partitions = site::partitions(texts.partitions);
    for partition in &mut snapshot.partitions {
        partition.limit_qos = partitions
            .iter()
            .find(|known| known.name == partition.name)
            .and_then(|known| known.limit_qos.clone());
    }
    snapshot.scheduling.age = scheduling::scheduling(&config).age;
    add_limits(snapshot, &config, Some((texts.associations, texts.qos)));
}

/// Adds the limits in two tables to a snapshot, and the QOS of accounts with their priority and preemption.
///
/// Without tables, the limits stay unknown; if Slurm does not enforce limits, they are an empty list.
pub(super) fn add_limits(
    snapshot: &mut Snapshot,
    config: &Config,
    tables: Option<(AccountTable<'_>, AccountTable<'_>)>,
) {
    if !enforced(config) {
        snapshot.limits = Some(Vec::new());
    }
    let Some((associations, qos)) = tables else { return };
    let site = limits::parse(associations, qos, config.get("ClusterName"));
    for account in &mut snapshot.accounts {
        let Some(user) = &snapshot.user else { break };
        let key = (account.name.clone(), user.clone());
        account.qos = site.default_qos.get(&key).cloned();
        account.allowed_qos = site.allowed_qos.get(&key).cloned().unwrap_or_default();
    }
    snapshot.qos_priority = scheduling::qos_priority(config, &site.qos_priority);
    snapshot.qos_preempts = scheduling::qos_preempts(config, &site);
    if !enforced(config) {
        return;
    }
    snapshot.limits = Some(site.limits);
    snapshot.parent_accounts = site.parent_accounts;
    snapshot.qos_flags = site.qos_flags;
}

/// Returns whether Slurm enforces limits of associations and QOS; if the configuration does not say, true.
pub fn enforced(config: &Config) -> bool {
    let key = "AccountingStorageEnforce";
    config.get(key).is_none() || ["limits", "safe", "all"].iter().any(|word| config.lists(key, word))
}
