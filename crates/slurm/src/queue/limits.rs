//! Limits of associations and QOS, from `sacctmgr`.

use std::collections::{BTreeMap, BTreeSet};

use crate::{CommandLine, amount};
use hsched_model::number::to_f64;
use hsched_queue::Limit;

/// The requested fields of associations, in this order.
pub(crate) const ASSOCIATION_FIELDS: [&str; 19] = [
    "Cluster",
    "Account",
    "User",
    "Partition",
    "ParentName",
    "GrpJobs",
    "GrpTRES",
    "GrpTRESRunMins",
    "MaxJobs",
    "MaxTRES",
    "MaxTRESPerNode",
    "MaxTRESMins",
    "MaxWall",
    "QOS",
    "DefaultQOS",
    "MaxSubmit",
    "GrpSubmit",
    "GrpTRESMins",
    "GrpWall",
];

/// The requested fields of QOS, in this order.
pub(crate) const QOS_FIELDS: [&str; 23] = [
    "Name",
    "Flags",
    "GrpJobs",
    "GrpTRES",
    "GrpTRESRunMins",
    "MaxJobsPU",
    "MaxJobsPA",
    "MaxTRES",
    "MaxTRESPerNode",
    "MaxTRESPU",
    "MaxTRESPA",
    "MaxTRESMins",
    "MaxWall",
    "MinTRES",
    "UsageFactor",
    "Priority",
    "GrpSubmit",
    "MaxSubmitPU",
    "MaxSubmitPA",
    "GrpTRESMins",
    "GrpWall",
    "Preempt",
    "PreemptMode",
];

/// Limits on TRES: the column's name in lower case, and Slurm's name.
const TRES_LIMITS: [(&str, &str); 12] = [
    ("grptres", "GrpTRES"),
    ("grptresmins", "GrpTRESMins"),
    ("grptresrunmins", "GrpTRESRunMins"),
    ("maxtres", "MaxTRES"),
    ("maxtrespernode", "MaxTRESPerNode"),
    ("maxtresmins", "MaxTRESMins"),
    ("mintres", "MinTRES"),
    ("maxtrespu", "MaxTRESPerUser"),
    ("maxtrespa", "MaxTRESPerAccount"),
    ("maxtresrunminspu", "MaxTRESRunMinsPerUser"),
    ("maxtresrunminspa", "MaxTRESRunMinsPerAccount"),
    ("maxtresperjob", "MaxTRES"),
];

/// Limits on numbers of jobs, in the same form.
const JOB_LIMITS: [(&str, &str); 8] = [
    ("grpjobs", "GrpJobs"),
    ("maxjobs", "MaxJobs"),
    ("maxjobspu", "MaxJobsPerUser"),
    ("maxjobspa", "MaxJobsPerAccount"),
    ("grpsubmit", "GrpSubmitJobs"),
    ("maxsubmit", "MaxSubmitJobs"),
    ("maxsubmitpu", "MaxSubmitJobsPerUser"),
    ("maxsubmitpa", "MaxSubmitJobsPerAccount"),
];

/// Limits on wall-clock time, in the same form.
const WALL_LIMITS: [(&str, &str); 2] = [("maxwall", "MaxWall"), ("grpwall", "GrpWall")];

/// Output of `sacctmgr`: the column names, and lines with `|` between the values.
#[derive(Clone, Copy, Debug)]
pub struct AccountTable<'a> {
    pub fields: &'a [&'a str],
    pub text: &'a str,
}

/// The limits of a site and the data needed to apply them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteLimits {
    pub limits: Vec<Limit>,
    /// The parent account of each account.
    pub parent_accounts: BTreeMap<String, String>,
    /// The flags of each QOS that has any.
    pub qos_flags: BTreeMap<String, BTreeSet<String>>,
    /// The priority of each QOS.
    pub qos_priority: BTreeMap<String, f64>,
    /// The QOS whose jobs each QOS may preempt, including itself if it may preempt its own jobs of lower
    /// priority.
    pub qos_preempts: BTreeMap<String, BTreeSet<String>>,
    /// The preemption modes of the jobs of each QOS that does not use the cluster's `PreemptMode`.
    pub qos_modes: BTreeMap<String, String>,
    /// The QOS of jobs that name none, by account and user.
    pub default_qos: BTreeMap<(String, String), String>,
    /// The QOS that jobs may name, by account and user.
    pub allowed_qos: BTreeMap<(String, String), Vec<String>>,
}

/// Returns the command line that prints all associations that the user may see.
pub fn associations_command() -> CommandLine {
    show("assoc", &ASSOCIATION_FIELDS)
}

/// Returns the command line that prints all QOS.
pub fn qos_command() -> CommandLine {
    show("qos", &QOS_FIELDS)
}

fn show(what: &'static str, fields: &[&str]) -> CommandLine {
    let format = format!("format={}", fields.join(","));
    CommandLine::new("sacctmgr", ["-n", "-P", "show", what, format.as_str()])
}

/// Returns the limits in two tables of `sacctmgr` for a cluster; `None` means all clusters.
pub fn parse(associations: AccountTable<'_>, qos: AccountTable<'_>, cluster: Option<&str>) -> SiteLimits {
    let mut site = SiteLimits::default();
    for row in associations.rows() {
        site.take_association(&row, cluster);
    }
    for row in qos.rows() {
        let Some(name) = row.get("name") else { continue };
        site.take_limits(&format!("q:{name}"), &row);
        if let Some(priority) = row.get("priority").and_then(|text| text.parse().ok()) {
            site.qos_priority.insert(name.to_owned(), priority);
        }
        let preempted = row.get("preempt").unwrap_or_default().split(',').filter(|name| !name.is_empty());
        let mode = row.get("preemptmode").unwrap_or_default().to_ascii_uppercase();
        let is_within = mode.split(',').any(|word| word == "WITHIN");
        let preempted: BTreeSet<String> =
            preempted.chain(Some(name).filter(|_| is_within)).map(str::to_owned).collect();
        if !preempted.is_empty() {
            site.qos_preempts.insert(name.to_owned(), preempted);
        }
        // `off` also stands for the cluster's mode.
        if mode.split(',').any(|word| !["", "CLUSTER", "OFF"].contains(&word)) {
            site.qos_modes.insert(name.to_owned(), mode);
        }
        let flags = row.get("flags").unwrap_or_default().split(',').filter(|flag| !flag.is_empty());
        let flags: BTreeSet<String> = flags.map(str::to_owned).collect();
        if !flags.is_empty() {
            site.qos_flags.insert(name.to_owned(), flags);
        }
    }
    site
}

/// A line of a table, by column in lower case; empty values are omitted.
struct LimitRow<'a>(BTreeMap<String, &'a str>);

impl<'a> LimitRow<'a> {
    fn get(&self, field: &str) -> Option<&'a str> {
        self.0.get(field).copied()
    }
}

impl<'a> AccountTable<'a> {
    fn rows(self) -> impl Iterator<Item = LimitRow<'a>> {
        self.text.lines().map(move |line| {
            let values = self.fields.iter().zip(line.split('|').map(str::trim));
            LimitRow(
                values
                    .filter(|(_, value)| !value.is_empty())
                    .map(|(field, value)| (field.to_ascii_lowercase(), value))
                    .collect(),
            )
        })
    }
}

impl SiteLimits {
    fn take_association(&mut self, row: &LimitRow<'_>, cluster: Option<&str>) {
        let Some(account) = row.get("account") else { return };
        let is_other = |name: &str| {
            row.get("cluster").is_some_and(|row_cluster| !row_cluster.eq_ignore_ascii_case(name))
        };
        // An association for one partition does not apply to the user's other jobs.
        if cluster.is_some_and(is_other) || row.get("partition").is_some() {
            return;
        }
        if let Some(user) = row.get("user") {
            self.take_limits(&format!("u:{account}:{user}"), row);
            if let Some(qos) = default_qos(row) {
                self.default_qos.insert((account.to_owned(), user.to_owned()), qos.to_owned());
            }
            let allowed = allowed_qos(row).map(str::to_owned).collect();
            self.allowed_qos.insert((account.to_owned(), user.to_owned()), allowed);
            return;
        }
        self.take_limits(&format!("a:{account}"), row);
        if let Some(parent) = row.get("parentname") {
            self.parent_accounts.insert(account.to_owned(), parent.to_owned());
        }
    }

    fn take_limits(&mut self, holder: &str, row: &LimitRow<'_>) {
        let mut add = |name: &str, tres: Option<&str>, max: f64| {
            let tres = tres.map(str::to_owned);
            self.limits.push(Limit {
                holder: holder.to_owned(),
                name: name.to_owned(),
                tres,
                max,
                used: None,
            });
        };
        for (field, name) in TRES_LIMITS {
            for (tres, max) in row.get(field).unwrap_or_default().split(',').filter_map(tres) {
                add(name, Some(tres), max);
            }
        }
        for (field, name) in JOB_LIMITS {
            if let Some(max) = row.get(field).and_then(|text| text.parse().ok()) {
                add(name, None, max);
            }
        }
        for (field, name) in WALL_LIMITS {
            if let Some(wall) = row.get(field).and_then(amount::duration) {
                add(name, None, wall.0 / 60.0);
            }
        }
    }
}

/// Returns the QOS of jobs that name none: the default, else `normal` or the first QOS that the user may use.
fn default_qos<'a>(row: &LimitRow<'a>) -> Option<&'a str> {
    let normal = || allowed_qos(row).find(|name| *name == "normal");
    row.get("defaultqos").or_else(normal).or_else(|| allowed_qos(row).next())
}

fn allowed_qos<'a>(row: &LimitRow<'a>) -> impl Iterator<Item = &'a str> {
    row.get("qos").into_iter().flat_map(|list| list.split(',')).filter(|name| !name.is_empty())
}

/// Parses `gres/gpu=4` into a name and an amount; memory is in MiB.
pub(super) fn tres(item: &str) -> Option<(&str, f64)> {
    let (name, value) = item.rsplit_once('=')?;
    let max = match name {
        "mem" => to_f64(amount::memory(value)?.whole_mebibytes()),
        _ => value.parse().ok().or_else(|| amount::count(value).map(to_f64))?,
    };
    Some((name, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(associations: &str, qos: &str) -> SiteLimits {
        let associations = AccountTable {
            fields: &[
                "account",
                "user",
                "partition",
                "parentname",
                "grptres",
                "grptresrunmins",
                "maxjobs",
                "maxwall",
                "qos",
                "defaultqos",
            ],
            text: associations,
        };
        let fields = &["name", "flags", "maxtrespu", "maxtres", "grpjobs"];
        parse(associations, AccountTable { fields, text: qos }, None)
    }

    #[test]
    fn limits_of_accounts_users_and_qos_are_read() {
        let site = read(
            "root||||||||normal|\n astro|||root|gres/gpu=12,mem=2T||||normal|\n  astro|list|||||3|1-00:00:00|high,normal|\n  astro|me|gpu||gres/gpu=1|||||\n chem|||root||gres/gpu=4600|||long,big|long\n",
            "normal||gres/gpu=8,cpu=64|||\npshort|DenyOnLimit,OverPartQOS||gres/gpu:a100=2|7\n",
        );
        let limit = |holder: &str, name: &str, tres: Option<&str>, max| Limit {
            holder: holder.to_owned(),
            name: name.to_owned(),
            tres: tres.map(str::to_owned),
            max,
            used: None,
        };
        let expected = [
            limit("a:astro", "GrpTRES", Some("gres/gpu"), 12.0),
            limit("a:astro", "GrpTRES", Some("mem"), 2_097_152.0),
            limit("u:astro:list", "MaxJobs", None, 3.0),
            limit("u:astro:list", "MaxWall", None, 1440.0),
            limit("a:chem", "GrpTRESRunMins", Some("gres/gpu"), 4600.0),
            limit("q:normal", "MaxTRESPerUser", Some("gres/gpu"), 8.0),
            limit("q:normal", "MaxTRESPerUser", Some("cpu"), 64.0),
            limit("q:pshort", "MaxTRES", Some("gres/gpu:a100"), 2.0),
            limit("q:pshort", "GrpJobs", None, 7.0),
        ];
        assert_eq!(site.limits, expected);
        assert_eq!(site.parent_accounts.get("astro").map(String::as_str), Some("root"));
        assert_eq!(site.parent_accounts.len(), 2);
        assert!(site.qos_flags["pshort"].contains("OverPartQOS") && !site.qos_flags.contains_key("normal"));
        let default = &site.default_qos[&("astro".to_owned(), "list".to_owned())];
        assert_eq!((default.as_str(), site.default_qos.len()), ("normal", 1));
        let allowed = &site.allowed_qos[&("astro".to_owned(), "list".to_owned())];
        assert_eq!(allowed, &["high", "normal"]);
    }

    #[test]
    fn only_associations_of_the_cluster_count() {
        let text = "one|bio|gres/gpu=4\ntwo|bio|gres/gpu=8\n";
        let table = AccountTable { fields: &["Cluster", "Account", "GrpTRES"], text };
        let limits = |cluster| parse(table, AccountTable { fields: &["Name"], text: "" }, cluster).limits;
        assert_eq!(limits(Some("two")).iter().map(|limit| limit.max).collect::<Vec<_>>(), [8.0]);
        assert_eq!(limits(None).len(), 2);
    }
}
