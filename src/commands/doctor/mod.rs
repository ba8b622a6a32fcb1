//! `hsched doctor`: checks the environment and gives advice; changes nothing, except with `--restore` and
//! `--remove-looks`, and writes a file with `--bundle`.

mod account;
mod bundle;
mod check;
mod cluster;
mod looks;
mod queue;
mod restore;
mod site;
mod state;
mod version;

use hsched_model::formats::counted;
use std::path::PathBuf;

use serde_json::{Value, json};

use self::bundle::NamesIn;
use self::check::{Check, Level};
use crate::app::context::{Context, Format};
use crate::app::slurm::permissions::{associations, user_name};
use crate::app::slurm::printed_cluster;
use crate::commands::cli::{Subcommand, json_text, print};
use crate::settings::{Origin, SettingsProblem, process_environment};
use hsched_engine::clock::Clock;
use hsched_slurm::queue::jobs;
use hsched_slurm::{CommandError, CommandLine, Runner, cleared_variables, sinfo, site as printed};
use hsched_ui::{Align, Exit, Failure, Table};

/// Check Slurm, its GPUs, the settings and the state directory, and say what to do
///
/// Prints one line per check: ok, note (works, with a caveat) or problem (something will fail). Reads every file of
/// the state directory and reports damaged ones; says how many days of looks at the queue are kept. Makes five short calls to the controller and two to
/// accounting, and changes nothing. Exits with 0 if there are no problems, 69 if Slurm is missing or does not
/// answer, and 1 otherwise.
///
/// With --restore, no check runs. If files of the state directory are lost or damaged, and the newest job states may
/// be missing, all commands refuse to run (exit code 78) and list what each file contains. --restore FILE
/// restores the state from one of these files, and keeps the files that it replaces as NAME.damaged.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Restore the state from this file: state.json, state.json.old or journal in the state directory, or the path of
    /// a copy of one of them.
    #[arg(long, value_name = "FILE", group = "action")]
    restore: Option<PathBuf>,
    /// Record the output of every call that hsched makes to read from Slurm, as a compressed archive that you can attach to a
    /// bug report.
    ///
    /// Prints the list of calls first. Names of users, accounts, jobs, reservations and nodes are replaced; commands, paths and
    /// comments are left out. Nothing is sent. hsched inventory --from FILE reads it.
    #[arg(long, value_name = "FILE", group = "action")]
    bundle: Option<PathBuf>,
    /// Keep the real names in the bundle.
    #[arg(long, requires = "bundle")]
    keep_names: bool,
    /// Remove the stored looks at the queue, from which hsched learns how long jobs wait.
    #[arg(long, group = "action")]
    remove_looks: bool,
    /// Only show what --restore, --bundle or --remove-looks would do.
    #[arg(long, requires = "action")]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

impl Subcommand for Args {
    fn bears_wrong_settings(&self) -> bool {
        true
    }

    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if let Some(file) = &self.restore {
            return restore::restore(context, file, self.dry_run, self.format);
        }
        if let Some(file) = &self.bundle {
            let names = if self.keep_names { NamesIn::Kept } else { NamesIn::Replaced };
            return bundle::bundle(context, file, names, self.dry_run, self.format);
        }
        if self.remove_looks {
            return looks::remove(context, self.dry_run, self.format);
        }
        let (mut checks, reachable) = slurm(context);
        checks.push(environment());
        checks.extend(state::checks(context, reachable));
        checks.extend(looks::check(context));
        checks.extend(settings(context));
        let count = |level| checks.iter().filter(|check| check.level == level).count();
        let (problems, notes) = (count(Level::Problem), count(Level::Note));
        let text = match self.format {
            Format::Table => {
                let mut table =
                    Table::new(&[("CHECK", Align::Left), ("STATUS", Align::Left), ("FOUND", Align::Left)]);
                for check in &checks {
                    table.row([check.name.to_owned(), check.level.word().to_owned(), check.text()]);
                }
                let rows = table.show(context.terminal);
                format!("{rows}\n{}, {}\n", counted(problems, "problem"), counted(notes, "note"))
            }
            Format::Json => {
                let rows: Vec<Value> = checks.iter().map(Check::json).collect();
                json_text(
                    &json!({ "schema": "hsched.doctor/1", "problems": problems, "notes": notes, "checks": rows }),
                )?
            }
        };
        print(context, &text)?;
        Ok(match (reachable, problems) {
            (false, _) => Exit::SlurmUnavailable,
            (true, 0) => Exit::Done,
            (true, _) => Exit::Failed,
        })
    }
}

/// Returns the checks of Slurm, and whether it answers at all.
fn slurm(context: &Context) -> (Vec<Check>, bool) {
    // Each command runs only once, without retries: the checks report the first answer.
    let ask = |command: &CommandLine| context.slurm.run(command).map(|output| output.stdout);
    let client = match ask(&printed::version_command("sinfo")) {
        Ok(text) => printed::version(&text),
        Err(error) => return (vec![absent("tools", &error)], false),
    };
    let mut checks = site::tools(client.as_deref(), ask(&printed::version_command("sbatch")).err());
    let ping = ask(&printed::ping_command());
    if let Ok(text) = &ping
        && printed::is_up(text) == Some(false)
    {
        let check = Check::problem("controller", "no controller is up, according to scontrol ping");
        checks.push(check.advise(
            "wait, or tell your administrators; until then, plan with --cluster FILE or --from FILE",
        ));
        return (checks, false);
    }
    let begin = context.clock.elapsed();
    let config_text = match ask(&printed::config_command()) {
        Ok(text) => text,
        Err(error) => {
            checks.push(absent("controller", &error));
            return (checks, false);
        }
    };
    let config = printed::Config::parse(&config_text);
    let took = context.clock.elapsed().saturating_sub(begin);
    let here = context.clock.now().with_timezone(&chrono::Local).naive_local();
    checks.push(site::controller(&config, client.as_deref(), took));
    let het_steps = context.settings.jobs.het_steps;
    checks.extend(version::steps(config.get("SLURM_VERSION"), client.as_deref(), het_steps));
    let mut tried = vec![("scontrol show config", config.get("SLURM_VERSION").is_some())];
    checks.extend(site::clock(&config, here));
    let nodes = ask(&sinfo::command()).map(|text| printed_cluster(context, &text));
    tried.push(("sinfo", matches!(&nodes, Ok(Ok(seen)) if !seen.cluster.nodes.is_empty())));
    match nodes {
        Ok(Ok(seen)) => {
            checks.extend(cluster::gpus(&seen.cluster, &seen.notes));
            let printed = ask(&jobs::command(config.release()));
            tried.push(("squeue", printed.is_ok()));
            checks.push(match printed {
                Ok(text) => queue::check(&text, &config_text, &seen.cluster, &user_name()),
                Err(error) => Check::note("queue", error.to_string()),
            });
        }
        Ok(Err(failure)) => checks.push(Check::problem("gpus", failure.message)),
        Err(error) => checks.push(Check::problem("gpus", error.to_string())),
    }
    match ask(&printed::partitions_command()) {
        Ok(text) => {
            let partitions = printed::partitions(&text);
            tried.push(("scontrol show partition", !partitions.is_empty()));
            checks.extend(cluster::partitions(&partitions, context.settings.jobs.partition.as_deref()));
            checks.push(account::check(&context.settings.jobs, associations(context, &config), &partitions));
        }
        Err(error) => checks.push(Check::note("partitions", error.to_string())),
    }
    checks.push(version::check(client.as_deref(), &tried));
    checks.push(site::selection(&config));
    checks.push(site::het_jobs(&config, het_steps));
    let accounting = config.has_accounting().then(|| ask(&printed::accounting_command()).map(drop));
    checks.push(site::accounting(&config, accounting));
    checks.push(site::stop(&config, context.settings.jobs.grace));
    (checks, true)
}

fn absent(name: &'static str, error: &CommandError) -> Check {
    Check::problem(name, error.to_string()).advise(match error {
        CommandError::NotFound { .. } => {
            "log in to a login node or load the module slurm; without Slurm, use hsched run for the GPUs of this machine, and hsched plan --cluster FILE for plans"
        }
        CommandError::TimedOut { .. } => {
            "check whether `scontrol ping` answers; allow more time with --set slurm_timeout=60s"
        }
        _ => "check whether `scontrol ping` answers; without Slurm, plan with --cluster FILE or --from FILE",
    })
}

/// Returns the check of variables that would change the output of Slurm's commands.
fn environment() -> Check {
    let variables = process_environment().map(|(name, _)| name);
    let cleared = cleared_variables(variables);
    if cleared.is_empty() {
        return Check::ok("environment", "no variables that change the behaviour of Slurm's commands");
    }
    let inside = cleared.iter().any(|name| name == "SLURM_JOB_ID");
    let check =
        Check::note("environment", format!("hsched hides {} from Slurm's commands", cleared.join(", ")));
    if inside {
        return check
            .advise("this shell runs inside a Slurm job; run hsched on a login node, where it does not end with the job");
    }
    check.advise("nothing to do; put options for your jobs into the setting `sbatch`")
}

fn settings(context: &Context) -> Vec<Check> {
    if let Some(problems) = &context.wrong_settings {
        let check = |problem: &SettingsProblem| {
            Check::problem("settings", problem.to_string())
                .advise("fix this first: other commands refuse to run until then")
        };
        return problems.as_slice().iter().map(check).collect();
    }
    let given = context.settings.rows().iter().filter(|row| row.origin != Origin::Default).count();
    vec![Check::ok("settings", format!("valid, {given} set; `hsched config show` lists them"))]
}
