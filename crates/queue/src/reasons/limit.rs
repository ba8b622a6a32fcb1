//! Reasons that are limits of accounts, users and QOS; their names are composed of holder, resource and kind.

use super::LiftedBy;

/// The resource that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Cpus,
    Memory,
    Nodes,
    /// GPUs, and other generic resources.
    Gres,
    Licenses,
    BurstBuffer,
    Billing,
    Energy,
    /// A resource that the site counts in addition to Slurm's own.
    Other,
}

/// Words for resources in the names of reasons; the longer of two with the same beginning comes first.
const RESOURCES: [(&str, Resource); 11] = [
    ("CPU", Resource::Cpus),
    ("Cpu", Resource::Cpus),
    ("Memory", Resource::Memory),
    ("Mem", Resource::Memory),
    ("Node", Resource::Nodes),
    ("GRES", Resource::Gres),
    ("License", Resource::Licenses),
    ("BB", Resource::BurstBuffer),
    ("Billing", Resource::Billing),
    ("Energy", Resource::Energy),
    ("Unknown", Resource::Other),
];

/// Reasons without a resource: Slurm's name of the limit, and whether it belongs to a QOS.
const PLAIN: [(&str, &str, bool); 15] = [
    ("AssocGrpJobsLimit", "GrpJobs", false),
    ("AssocGrpSubmitJobsLimit", "GrpSubmitJobs", false),
    ("AssocGrpWallLimit", "GrpWall", false),
    ("AssocMaxJobsLimit", "MaxJobs", false),
    ("AssocMaxSubmitJobLimit", "MaxSubmitJobs", false),
    ("AssocMaxWallDurationPerJobLimit", "MaxWall", false),
    ("QOSGrpJobsLimit", "GrpJobs", true),
    ("QOSGrpSubmitJobsLimit", "GrpSubmitJobs", true),
    ("QOSGrpWallLimit", "GrpWall", true),
    ("QOSMaxJobsPerUserLimit", "MaxJobsPerUser", true),
    ("QOSMaxSubmitJobPerUserLimit", "MaxSubmitJobsPerUser", true),
    ("QOSMaxWallDurationPerJobLimit", "MaxWall", true),
    ("MaxJobsPerAccount", "MaxJobsPerAccount", true),
    ("MaxSubmitJobsPerAccount", "MaxSubmitJobsPerAccount", true),
    ("MaxSubmitJobsPerUser", "MaxSubmitJobsPerUser", true),
];

/// Reasons with a resource: the text before it, the text after it (without `Limit` at the end), the limit,
/// and whether it belongs to a QOS.
const OF_RESOURCES: [(&str, &str, &str, bool); 17] = [
    ("AssocGrp", "", "GrpTRES", false),
    ("AssocGrp", "Minutes", "GrpTRESMins", false),
    ("AssocGrp", "RunMinutes", "GrpTRESRunMins", false),
    ("AssocMax", "PerJob", "MaxTRES", false),
    ("AssocMax", "PerNode", "MaxTRESPerNode", false),
    ("AssocMax", "MinutesPerJob", "MaxTRESMins", false),
    ("QOSGrp", "", "GrpTRES", true),
    ("QOSGrp", "Minutes", "GrpTRESMins", true),
    ("QOSGrp", "RunMinutes", "GrpTRESRunMins", true),
    ("QOSMax", "PerJob", "MaxTRES", true),
    ("QOSMax", "PerNode", "MaxTRESPerNode", true),
    ("QOSMax", "MinutesPerJob", "MaxTRESMins", true),
    ("QOSMax", "PerUser", "MaxTRESPerUser", true),
    ("QOSMin", "", "MinTRES", true),
    ("Max", "PerAccount", "MaxTRESPerAccount", true),
    ("Max", "RunMinsPerAccount", "MaxTRESRunMinsPerAccount", true),
    ("Max", "RunMinsPerUser", "MaxTRESRunMinsPerUser", true),
];

/// A limit that a reason names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReason {
    /// Slurm's name of the limit, as in [`Limit`](crate::Limit).
    pub limit: &'static str,
    /// `None` if the limit counts jobs or time.
    pub resource: Option<Resource>,
    /// Whether the limit belongs to a QOS, rather than to an account or user.
    pub is_of_qos: bool,
}

impl LimitReason {
    /// Parses the name of a reason; `None` if it is not a limit.
    pub fn read(name: &str) -> Option<Self> {
        if let Some((_, limit, is_of_qos)) = PLAIN.iter().find(|(known, ..)| *known == name) {
            return Some(Self { limit, resource: None, is_of_qos: *is_of_qos });
        }
        OF_RESOURCES.iter().find_map(|(before, after, limit, is_of_qos)| {
            let rest = name.strip_prefix(before)?;
            let (word, resource) = RESOURCES.iter().find(|(word, _)| rest.starts_with(word))?;
            let rest = &rest[word.len()..];
            let rest =
                rest.strip_suffix("Limit").or_else(|| rest.strip_suffix("NotSatisfied")).unwrap_or(rest);
            (rest == *after).then_some(Self { limit, resource: Some(*resource), is_of_qos: *is_of_qos })
        })
    }

    /// Returns whether the limit applies to a single job, so that ends of other jobs do not lift it.
    fn is_on_one_job(&self) -> bool {
        matches!(self.limit, "MaxTRES" | "MaxTRESPerNode" | "MaxTRESMins" | "MaxWall" | "MinTRES")
    }

    /// Returns whether a limit on a TRES is on the counted resource.
    pub(crate) fn counts(&self, tres: Option<&str>) -> bool {
        match self.resource {
            None => tres.is_none(),
            Some(Resource::Cpus) => tres == Some("cpu"),
            Some(Resource::Memory) => tres == Some("mem"),
            Some(Resource::Nodes) => tres == Some("node"),
            Some(Resource::Billing) => tres == Some("billing"),
            Some(Resource::Energy) => tres == Some("energy"),
            Some(Resource::Gres) => tres.is_some_and(|name| name.starts_with("gres/")),
            Some(Resource::Licenses) => tres.is_some_and(|name| name.starts_with("license/")),
            Some(Resource::BurstBuffer) => tres.is_some_and(|name| name.starts_with("bb/")),
            Some(Resource::Other) => true,
        }
    }

    /// Returns whether the limit is on submitted jobs.
    pub fn is_on_submission(&self) -> bool {
        self.limit.contains("SubmitJobs")
    }

    /// Returns whether the limit counts past use.
    pub fn is_on_past_use(&self) -> bool {
        matches!(self.limit, "GrpTRESMins" | "GrpWall")
    }

    pub(super) fn lifted_by(&self) -> LiftedBy {
        match () {
            () if self.is_on_one_job() => LiftedBy::Change,
            () if self.is_on_past_use() => LiftedBy::Decay,
            () => LiftedBy::Time,
        }
    }

    /// Returns the counted resource, in words.
    fn what(&self) -> &'static str {
        match self.resource {
            Some(Resource::Cpus) => "CPUs",
            Some(Resource::Memory) => "memory",
            Some(Resource::Nodes) => "nodes",
            Some(Resource::Gres) => "GPUs (or another generic resource)",
            Some(Resource::Licenses) => "licences",
            Some(Resource::BurstBuffer) => "burst buffer",
            Some(Resource::Billing) => "billing units",
            Some(Resource::Energy) => "energy",
            Some(Resource::Other) => "a resource of the site",
            None => "jobs",
        }
    }

    /// Returns the holder of the limit, in words.
    fn whose(&self) -> &'static str {
        match (self.limit, self.is_of_qos) {
            (_, false) => "its account, of an account above it, or of its user there",
            ("MaxTRESPerUser" | "MaxJobsPerUser" | "MaxTRESRunMinsPerUser" | "MaxSubmitJobsPerUser", _) => {
                "one user in its QOS"
            }
            (
                "MaxTRESPerAccount"
                | "MaxJobsPerAccount"
                | "MaxTRESRunMinsPerAccount"
                | "MaxSubmitJobsPerAccount",
                _,
            ) => "one account in its QOS",
            _ => "its QOS or the QOS of its partition",
        }
    }

    /// Returns what the reason means, as a sentence.
    pub(super) fn meaning(&self) -> String {
        let (what, whose, limit) = (self.what(), self.whose(), self.limit);
        match limit {
            "GrpJobs" | "MaxJobs" | "MaxJobsPerUser" | "MaxJobsPerAccount" => {
                format!("As many jobs run as the limit of {whose} allows ({limit}).")
            }
            "GrpSubmitJobs" | "MaxSubmitJobs" | "MaxSubmitJobsPerUser" | "MaxSubmitJobsPerAccount" => {
                format!("More jobs are pending and running than the limit of {whose} allows ({limit}).")
            }
            "GrpWall" => format!("The wall-clock time of {whose} is used up ({limit})."),
            "GrpTRESMins" => format!("The budget of {what} × time of {whose} is used up ({limit})."),
            "MaxWall" => format!("Its time limit is longer than {whose} allows ({limit})."),
            "MaxTRES" => format!("It asks for more {what} than {whose} allows to one job ({limit})."),
            "MaxTRESPerNode" => {
                format!("It asks for more {what} on one node than {whose} allows ({limit}).")
            }
            "MaxTRESMins" => {
                format!("It asks for more {what} × time limit than {whose} allows to one job ({limit}).")
            }
            "MinTRES" => format!("It asks for fewer {what} than {whose} demands ({limit})."),
            "GrpTRESRunMins" | "MaxTRESRunMinsPerUser" | "MaxTRESRunMinsPerAccount" => format!(
                "With it, running jobs would have more {what} × remaining time than the limit of {whose} allows ({limit})."
            ),
            _ => format!(
                "With it, running jobs would use more {what} than the limit of {whose} allows ({limit})."
            ),
        }
    }

    /// Returns what the user can do, as a sentence.
    pub(super) fn way_out(&self) -> &'static str {
        match (self.limit, self.is_of_qos) {
            ("GrpSubmitJobs" | "MaxSubmitJobs" | "MaxSubmitJobsPerUser" | "MaxSubmitJobsPerAccount", _) => {
                "It starts after some of these jobs have ended. Each array task counts as a job."
            }
            ("MaxWall", false) => "Shorten its time limit, or use another account.",
            ("MaxWall", true) => "Shorten its time limit, or use another QOS.",
            ("MaxTRESPerNode", _) => "Spread it over more nodes, or ask for less.",
            ("MaxTRESMins", _) => "Shorten its time limit, or ask for less.",
            ("MaxTRES", false) => "Ask for less, or use another account.",
            ("MaxTRES", true) => "Ask for less, or use another QOS.",
            ("MinTRES", _) => "Ask for more, or use another QOS.",
            ("GrpTRESMins" | "GrpWall", false) => {
                "Use another account, or ask the owner of the account for more. It starts when old use counts less or is reset."
            }
            ("GrpTRESMins" | "GrpWall", true) => {
                "Use another QOS. It starts when old use counts less or is reset."
            }
            ("GrpTRESRunMins", false) | ("MaxTRESRunMinsPerAccount", _) => {
                "Shorten its time limit, ask for less, or use another account."
            }
            ("GrpTRESRunMins", true) => "Shorten its time limit, ask for less, or use another QOS.",
            ("MaxTRESRunMinsPerUser", _) => "Shorten its time limit, ask for less, or cancel a job of yours.",
            ("MaxTRESPerUser", _) => "Ask for less, cancel a job of yours, or use another QOS.",
            ("MaxJobsPerUser", _) => "Cancel a job of yours, or use another QOS.",
            ("MaxJobs", _) => "Cancel a job of yours, or use another account.",
            ("GrpJobs", false) => "Use another account, or cancel a job of yours in this one.",
            ("GrpJobs", true) => "Use another QOS or partition.",
            ("MaxJobsPerAccount" | "MaxTRESPerAccount", _) => "Ask for less, or use another account or QOS.",
            (_, false) => "Ask for less, use another account, or cancel a job of yours in this one.",
            (_, true) => "Ask for less, or use another QOS or partition.",
        }
    }
}
