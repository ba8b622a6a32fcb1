//! A limit that remains violated no matter which other jobs end, in words.

use std::fmt;

use super::amounts::in_words;

/// A limit that a request violates by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Slurm's name of the limit, such as `GrpTRES`.
    pub limit: String,
    /// The holder of the limit, as in [`Limit`](crate::Limit).
    pub holder: String,
    /// The request's account, or the user's default account if it names none; `None` if unknown.
    pub account: Option<String>,
    pub tres: Option<String>,
    pub max: f64,
    /// The amount that the request needs.
    pub needed: f64,
}

impl Refusal {
    /// Returns the holder of the limit in words, addressed to the user.
    fn whose(&self) -> String {
        match self.holder.split_once(':') {
            Some(("a", account)) if self.account.as_deref() == Some(account) => "your account".to_owned(),
            Some(("a", account)) => format!("account {account}"),
            Some(("q", qos)) => format!("QOS {qos}"),
            _ => "you".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, name) = (self.whose(), &self.limit);
        let most = |is_minutes| in_words(self.tres.as_deref(), self.max, is_minutes);
        let qos = self.holder.strip_prefix("q:").map_or(String::new(), |qos| format!(" in QOS {qos}"));
        match name.as_str() {
            "GrpTRES" | "GrpJobs" => write!(f, "{who} may use {} at once ({name})", most(false)),
            "MaxTRESPerUser" | "MaxJobsPerUser" | "MaxJobs" => {
                write!(f, "you may use {} at once{qos} ({name})", most(false))
            }
            "MaxTRESPerAccount" | "MaxJobsPerAccount" => {
                write!(f, "your account may use {} at once{qos} ({name})", most(false))
            }
            "GrpTRESRunMins" | "MaxTRESRunMinsPerUser" | "MaxTRESRunMinsPerAccount" => write!(
                f,
                "running jobs of {} may have {} left, this request needs {} ({name})",
                if who == "you" { "yours" } else { &who },
                most(true),
                self.needed
            ),
            "MaxTRESMins" => {
                write!(f, "a job may use {}, this request needs {}{qos} ({name})", most(true), self.needed)
            }
            "MaxWall" => write!(f, "a job may have a time limit of {} min{qos} ({name})", self.max),
            "MaxTRESPerNode" => write!(f, "a job may use {} on each node{qos} ({name})", most(false)),
            "MinTRES" => write!(f, "a job must use at least {}{qos} ({name})", most(false)),
            _ => write!(f, "a job may use {}{qos} ({name})", most(false)),
        }
    }
}
