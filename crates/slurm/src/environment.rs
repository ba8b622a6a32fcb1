//! The environment of Slurm's programs: the caller's, without what would change their output.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variables of these families set defaults of options or describe the job that hsched itself runs in.
const FAMILIES: [&str; 7] = ["SLURM_", "SBATCH_", "SINFO_", "SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_"];

/// The ones that users and sites set on purpose: which cluster to talk to, and where jobs go.
const KEPT: [&str; 8] = [
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_JWT",
    "SLURM_CLUSTERS",
    "SBATCH_ACCOUNT",
    "SBATCH_QOS",
    "SBATCH_PARTITION",
    "SBATCH_RESERVATION",
];

/// What makes the output of reading commands the same everywhere.
const OUTPUT: [(&str, &str); 2] = [("SLURM_TIME_FORMAT", "standard"), ("LC_ALL", "C")];

/// Environments derived from the caller's.
#[derive(Clone, Debug)]
pub(super) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Keeps the variables that do no harm.
    pub(super) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(variables.into_iter().filter(|(name, _)| is_harmless(name)).collect())
    }

    /// Returns the variables for one program.
    ///
    /// A submitted job inherits the environment of `sbatch`, so that program keeps the user's locale.
    pub(super) fn of(&self, program: &str) -> BTreeMap<OsString, OsString> {
        let mut variables = self.0.clone();
        if program != "sbatch" {
            variables.extend(OUTPUT.map(|(name, value)| (name.into(), value.into())));
        }
        variables
    }
}

/// Returns the names of variables that Slurm's programs do not get from hsched, in order.
pub fn cleared_variables(names: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let cleared = names.into_iter().filter(|name| !is_harmless(name));
    let mut cleared: Vec<String> = cleared.filter_map(|name| name.into_string().ok()).collect();
    cleared.sort_unstable();
    cleared
}

fn is_harmless(name: &OsStr) -> bool {
    // A name that is no UTF-8 is none of Slurm's.
    name.to_str()
        .is_none_or(|name| KEPT.contains(&name) || !FAMILIES.iter().any(|family| name.starts_with(family)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_variables_do_not_reach_slurm() {
        let names =
            "PATH SQUEUE_FORMAT SLURM_JOB_ID SBATCH_ACCOUNT SBATCH_EXPORT SINFO_ALL SLURM_CONF LC_ALL SLURMX";
        let environment = Environment::new(names.split(' ').map(|name| (name.into(), "x".into())));
        let check = |program: &str, expected: &str| {
            let variables = environment.of(program);
            let text: Vec<String> =
                variables.iter().map(|(k, v)| format!("{}={}", k.display(), v.display())).collect();
            assert_eq!(text.join(" "), expected);
        };
        let cleared = cleared_variables(names.split(' ').map(Into::into));
        assert_eq!(cleared, ["SBATCH_EXPORT", "SINFO_ALL", "SLURM_JOB_ID", "SQUEUE_FORMAT"]);
        check("sbatch", "LC_ALL=x PATH=x SBATCH_ACCOUNT=x SLURMX=x SLURM_CONF=x");
        check("sinfo", "LC_ALL=C PATH=x SBATCH_ACCOUNT=x SLURMX=x SLURM_CONF=x SLURM_TIME_FORMAT=standard");
    }
}
