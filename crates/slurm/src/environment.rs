//! The environment of Slurm's programs: that of the caller, without most of Slurm's own variables, which set
//! defaults of options or describe the job in which hsched runs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variable families that set defaults of options or describe the job in which hsched runs.
const FAMILIES: [&str; 7] = ["SLURM_", "SBATCH_", "SINFO_", "SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_"];

/// Variables that users and sites set deliberately: the cluster to use, the destination of jobs, and whether to show
/// hidden partitions.
const KEPT: [&str; 10] = [
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_JWT",
    "SLURM_CLUSTERS",
    "SBATCH_ACCOUNT",
    "SBATCH_QOS",
    "SBATCH_PARTITION",
    "SBATCH_RESERVATION",
    "SINFO_ALL",
    "SCONTROL_ALL",
];

/// Variables that make the output of Slurm's programs uniform.
const OUTPUT: [(&str, &str); 2] = [("SLURM_TIME_FORMAT", "standard"), ("LC_ALL", "C")];

/// Environments derived from the caller's.
#[derive(Clone, Debug)]
pub(super) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Returns the environments without Slurm's variables, except those that users and sites set
    /// deliberately.
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

/// Returns the names of variables that hsched does not pass on to Slurm's programs, in order.
pub fn cleared_variables(names: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let cleared = names.into_iter().filter(|name| !is_harmless(name));
    let mut cleared: Vec<String> = cleared.filter_map(|name| name.into_string().ok()).collect();
    cleared.sort_unstable();
    cleared
}

fn is_harmless(name: &OsStr) -> bool {
    // A name that is not UTF-8 does not belong to Slurm.
    name.to_str()
        .is_none_or(|name| KEPT.contains(&name) || !FAMILIES.iter().any(|family| name.starts_with(family)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_variables_do_not_reach_slurm() {
        let names = "PATH SQUEUE_FORMAT SLURM_JOB_ID SBATCH_ACCOUNT SBATCH_EXPORT SINFO_ALL SINFO_FORMAT SLURM_CONF LC_ALL SLURMX";
        let environment = Environment::new(names.split(' ').map(|name| (name.into(), "x".into())));
        let check = |program: &str, expected: &str| {
            let variables = environment.of(program);
            let text: Vec<String> =
                variables.iter().map(|(k, v)| format!("{}={}", k.display(), v.display())).collect();
            assert_eq!(text.join(" "), expected);
        };
        let cleared = cleared_variables(names.split(' ').map(Into::into));
        assert_eq!(cleared, ["SBATCH_EXPORT", "SINFO_FORMAT", "SLURM_JOB_ID", "SQUEUE_FORMAT"]);
        check("sbatch", "LC_ALL=x PATH=x SBATCH_ACCOUNT=x SINFO_ALL=x SLURMX=x SLURM_CONF=x");
        check(
            "sinfo",
            "LC_ALL=C PATH=x SBATCH_ACCOUNT=x SINFO_ALL=x SLURMX=x SLURM_CONF=x SLURM_TIME_FORMAT=standard",
        );
    }
}
