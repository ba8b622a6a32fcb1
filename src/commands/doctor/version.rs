//! Checks of Slurm's version: whether hsched was tested with it, its missing features and known faults.

use super::check::Check;
use hsched_slurm::site::release;

/// A release of Slurm, such as `(22, 5)`.
type SlurmRelease = (u32, u32);

/// Releases with which all tests on a real Slurm run.
const RUN: [SlurmRelease; 3] = [(22, 5), (24, 11), (26, 5)];

/// Releases whose recorded output the parsers are tested with, but with which the tests on a real Slurm do
/// not run, or may fail (20.11).
const READ: [SlurmRelease; 6] = [(20, 11), (23, 2), (23, 11), (24, 5), (25, 5), (25, 11)];

/// Slurm features that a job file can request, and the release that added each.
const FEATURES: [(SlurmRelease, &str); 2] =
    [((24, 11), "several QOS for one job"), ((25, 11), "--requeue=expedite")];

/// Releases whose slurmd crashes on heterogeneous steps of an older srun: from `.0` up to this patch
/// (inclusive).
const CRASHES: [(SlurmRelease, u32); 2] = [((25, 5), 7), ((25, 11), 5)];

/// The newest srun whose heterogeneous steps crash these releases of slurmd.
const OLD_STEPS: SlurmRelease = (24, 11);

/// Returns the check of the commands' version; `tried` lists the calls of these checks, and whether the
/// output of each could be read.
pub(super) fn check(version: Option<&str>, tried: &[(&str, bool)]) -> Check {
    let Some((version, release)) = version.and_then(|version| Some((version, release(version)?))) else {
        return Check::note("version", format!("sinfo does not print its version; {}", trials(tried)));
    };
    let missing: Vec<&str> =
        FEATURES.iter().filter(|(since, _)| release < *since).map(|(_, what)| *what).collect();
    let lacks = if missing.is_empty() {
        String::new()
    } else {
        format!("; it does not have {}", missing.join(" and "))
    };
    if RUN.contains(&release) {
        return Check::ok("version", format!("hsched is tested with Slurm {}{lacks}", short(release)));
    }
    if READ.contains(&release) {
        let found = format!("hsched is tested only with recorded output of Slurm {}{lacks}", short(release));
        return Check::ok("version", found);
    }
    Check::note("version", format!("Slurm {version} is not tested; {}{lacks}", trials(tried)))
        .advise("hsched doctor --bundle FILE records what it prints, for a bug report")
}

/// Summarises the calls of these checks.
fn trials(tried: &[(&str, bool)]) -> String {
    let named = |wanted: bool| -> Vec<&str> {
        tried.iter().filter(|(_, read)| *read == wanted).map(|(name, _)| *name).collect()
    };
    let (read, failed) = (named(true), named(false));
    let all = format!("these calls work: {}", read.join(", "));
    if failed.is_empty() { all } else { format!("{all}; these fail: {}", failed.join(", ")) }
}

/// Returns the check for a known fault of the controller's release with job steps of these commands.
pub(super) fn steps(server: Option<&str>, client: Option<&str>, het_steps: bool) -> Option<Check> {
    let (server, client) = (server?, client?);
    let patch: u32 = server.split(['.', '-']).nth(2)?.parse().ok()?;
    let broken =
        CRASHES.iter().any(|(candidate, last)| release(server) == Some(*candidate) && patch <= *last);
    let is_old = release(client)? <= OLD_STEPS;
    (broken && is_old && het_steps).then(|| {
        let found = format!("slurmd {server} crashes on heterogeneous steps of srun {client}");
        Check::problem("mixed jobs", found)
            .advise("set het_steps = false, or ask your administrators for Slurm 25.05.8, 25.11.6 or later")
    })
}

fn short((major, minor): SlurmRelease) -> String {
    format!("{major}.{minor:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tested_versions_and_others_are_told_apart() {
        let found = |version| check(version, &[("sinfo", true), ("squeue", false)]).text();
        let qos = "it does not have several QOS for one job and --requeue=expedite";
        assert_eq!(found(Some("22.05.8")), format!("hsched is tested with Slurm 22.05; {qos}"));
        assert_eq!(found(Some("26.05.3")), "hsched is tested with Slurm 26.05");
        assert!(
            found(Some("23.11.10")).starts_with("hsched is tested only with recorded output of Slurm 23.11")
        );
        let unknown = "Slurm 27.11.0 is not tested; these calls work: sinfo; these fail: squeue";
        assert!(found(Some("27.11.0")).starts_with(unknown), "{}", found(Some("27.11.0")));
        assert!(found(None).starts_with("sinfo does not print its version"));
    }

    #[test]
    fn steps_that_crash_slurmd_are_a_problem() {
        let is_told = |server, client, het| steps(Some(server), Some(client), het).is_some();
        assert!(is_told("25.05.0", "24.11.5", true) && is_told("25.11.5", "23.02.7", true));
        assert!(!is_told("25.05.8", "24.11.5", true) && !is_told("25.11.6", "24.11.5", true));
        assert!(!is_told("25.05.3", "25.05.3", true) && !is_told("25.05.3", "24.11.5", false));
        assert!(!is_told("24.11.0", "24.11.0", true) && steps(None, Some("24.11.5"), true).is_none());
    }
}
