//! Checks of Slurm's setup, each from its data to a finding.

use std::time::Duration;

use chrono::NaiveDateTime;

use super::check::Check;
use hsched_model::Seconds;
use hsched_model::formats::duration_text;
use hsched_slurm::CommandError;
use hsched_slurm::site::{Config, release};

pub(super) fn tools(client: Option<&str>, sbatch: Option<CommandError>) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.push(match client {
        Some(version) => Check::ok("tools", format!("Slurm {version}")),
        None => Check::note("tools", "sinfo does not print its version"),
    });
    if let Some(error) = sbatch {
        checks
            .push(Check::problem("tools", error.to_string()).advise("hsched can plan here, but not submit"));
    }
    checks
}

pub(super) fn controller(config: &Config, client: Option<&str>, took: Duration) -> Check {
    let name = config.get("ClusterName").unwrap_or("the cluster");
    let server = config.get("SLURM_VERSION");
    let seconds = took.as_secs_f64();
    if let (Some(server), Some(client)) = (server, client)
        && release(server) != release(client)
    {
        return Check::note(
            "controller",
            format!("{name} runs Slurm {server}, but the commands here are {client}"),
        )
        .advise("fine within two major releases; otherwise ask your administrators for newer commands");
    }
    let found = format!("{name} runs Slurm {}", server.unwrap_or("of an unknown version"));
    if seconds > 5.0 {
        return Check::note("controller", format!("{found}; it took {seconds:.1} s to respond"))
            .advise("if commands time out, increase slurm_timeout");
    }
    Check::ok("controller", found)
}

/// Returns the check of the two clocks; `None` if the controller does not report its time.
pub(super) fn clock(config: &Config, here: NaiveDateTime) -> Option<Check> {
    let skew = (here - config.time?).num_seconds().abs();
    Some(match skew {
        0..=30 => Check::ok("clock", "this machine and the controller have the same time"),
        31..=240 => {
            Check::note("clock", format!("the clocks of this machine and the controller differ by {skew} s"))
                .advise("ask your administrators to run NTP on both")
        }
        // Munge rejects credentials older than five minutes.
        _ => Check::problem(
            "clock",
            format!("the clocks of this machine and the controller differ by {skew} s"),
        )
        .advise("Slurm will reject commands from here; ask your administrators to run NTP on both"),
    })
}

pub(super) fn selection(config: &Config) -> Check {
    match config.get("SelectType") {
        Some("select/cons_tres") => Check::ok("selection", "select/cons_tres: GPUs are allocated one by one"),
        Some(other @ ("select/linear" | "select/cons_res")) => {
            Check::problem("selection", format!("SelectType={other} does not support GPU options")).advise(
                "jobs may be rejected or get whole nodes; ask your administrators for select/cons_tres",
            )
        }
        Some(other) => Check::note("selection", format!("hsched does not know SelectType={other}")),
        None => Check::note("selection", "the controller does not report its SelectType"),
    }
}

pub(super) fn het_jobs(config: &Config, het_steps: bool) -> Check {
    let off =
        |key| ["disable_hetjob_steps", "disable_hetero_steps"].iter().any(|word| config.lists(key, word));
    if off("SchedulerParameters") || off("LaunchParameters") {
        let found = "this site disables job steps that span the components of a heterogeneous job";
        return if het_steps {
            Check::problem("mixed jobs", found)
                .advise("set het_steps = false; otherwise jobs on mixed GPU types fail when they start")
        } else {
            Check::ok("mixed jobs", format!("{found}, and het_steps = false"))
        };
    }
    match config.get("SchedulerType") {
        Some("sched/backfill") | None if het_steps => {
            Check::ok("mixed jobs", "the backfill scheduler starts heterogeneous jobs")
        }
        Some(other) if het_steps && other != "sched/backfill" => {
            Check::problem("mixed jobs", format!("SchedulerType={other} never starts heterogeneous jobs"))
                .advise("set het_steps = false")
        }
        _ => Check::ok("mixed jobs", "het_steps = false: one component per job"),
    }
}

/// Returns the check of the accounting. `answer` says whether sacct works here, if it was called.
pub(super) fn accounting(config: &Config, answer: Option<Result<(), CommandError>>) -> Check {
    match answer {
        None => {
            let age = config.number("MinJobAge").map_or("a while".into(), |seconds| format!("{seconds} s"));
            Check::note("accounting", format!("off: Slurm forgets a job {age} after it ends"))
                .advise("run hsched watch at least that often; output files and reports are kept")
        }
        Some(Err(error)) => Check::note("accounting", format!("on, but sacct does not work here: {error}")),
        Some(Ok(())) if !config.lists("AccountingStorageTRES", "gres/gpu") => {
            // Items have the form gres/gpu and gres/gpu:v100.
            Check::note("accounting", "on, without GPUs (AccountingStorageTRES lacks gres/gpu)")
                .advise("Slurm does not record GPU hours here; hsched does not need them")
        }
        Some(Ok(())) => Check::ok("accounting", "on, with GPUs"),
    }
}

pub(super) fn stop(config: &Config, grace: Seconds) -> Check {
    let kill = config.get("KillWait").unwrap_or("unknown");
    let over = config.get("OverTimeLimit").filter(|text| !text.starts_with("0 ") && *text != "0");
    let over = over.map(|text| format!(", then up to {text} over the limit")).unwrap_or_default();
    let found = format!("stop signal {} before the time limit{over}; KillWait {kill}", duration_text(grace));
    // Slurm checks time limits once a minute.
    if grace.0 < 60.0 {
        return Check::note("stopping", found).advise(
            "Slurm can send the signal up to 60 s early, and saving takes time; set grace to 60s or more",
        );
    }
    Check::ok("stopping", found)
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    fn config(lines: &[&str]) -> Config {
        Config::parse(&lines.join("\n"))
    }

    #[test]
    fn mixed_jobs_need_backfill_and_steps() {
        let check = |lines: &[&str], het_steps, expected| {
            assert_eq!(het_jobs(&config(lines), het_steps).level, expected, "{lines:?}");
        };
        check(&["SchedulerType = sched/backfill"], true, Level::Ok);
        check(&[], true, Level::Ok);
        check(&["SchedulerType = sched/builtin"], true, Level::Problem);
        check(&["SchedulerType = sched/builtin"], false, Level::Ok);
        check(&["SchedulerParameters = a=1,disable_hetjob_steps"], true, Level::Problem);
        check(&["SchedulerParameters = a=1,disable_hetjob_steps"], false, Level::Ok);
    }

    #[test]
    fn clocks_that_differ_are_told() {
        let config = config(&["Configuration data as of 2026-11-21T12:00:00"]);
        let check = |minute, second, expected| {
            let here = config.time.expect("a time").date().and_hms_opt(12, minute, second).expect("a time");
            assert_eq!(clock(&config, here).expect("a check").level, expected);
        };
        check(0, 5, Level::Ok);
        check(1, 0, Level::Note);
        check(20, 0, Level::Problem);
        assert_eq!(clock(&Config::default(), config.time.expect("a time")), None);
    }

    #[test]
    fn accounting_is_off_broken_without_gpus_or_on() {
        let level = |lines: &[&str], answer| accounting(&config(lines), answer);
        assert!(level(&["MinJobAge = 300 sec"], None).found.contains("300 s after"));
        let missing = CommandError::NotFound { program: "sacct".into() };
        assert_eq!(level(&[], Some(Err(missing))).level, Level::Note);
        assert_eq!(level(&["AccountingStorageTRES = cpu,mem"], Some(Ok(()))).level, Level::Note);
        assert_eq!(
            level(&["AccountingStorageTRES = cpu,gres/gpu,gres/gpu:v100"], Some(Ok(()))).level,
            Level::Ok
        );
    }

    #[test]
    fn other_releases_and_other_plugins_are_noted() {
        assert_eq!(
            (tools(None, None)[0].level, tools(Some("22.05.8"), None)[0].level),
            (Level::Note, Level::Ok)
        );
        let north = config(&["SLURM_VERSION = 23.11.4", "ClusterName = north"]);
        let took = Duration::from_millis(3);
        assert_eq!(controller(&north, Some("23.11.1"), took).found, "north runs Slurm 23.11.4");
        assert_eq!(controller(&north, Some("22.05.8"), took).level, Level::Note);
        assert_eq!(selection(&config(&["SelectType = select/linear"])).level, Level::Problem);
        assert_eq!(stop(&Config::default(), Seconds(10.0)).level, Level::Note);
    }
}
