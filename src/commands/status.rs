//! `hsched status`: the state of the jobs, without a call to Slurm.

use std::path::Path;

use serde_json::json;

use crate::app::completions;
use crate::app::context::{Context, Format};
use crate::app::current_state::CurrentState;
use crate::app::metrics::metrics;
use crate::app::pools::{self, PoolProgress};
use crate::app::session;
use crate::app::slurm::script_files::script_output;
use crate::app::tags::TagArgs;
use crate::commands::cancel::unknown_job;
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::pack;
use hsched_engine::live::absolute;
use hsched_engine::store::samples::RecentSamples;
use hsched_engine::store::{ScriptChain, last_look, report_folder, run_folder, script_chains};
use hsched_engine::{JobState, ScriptJob, State, SubmissionRecord};
use hsched_model::{JobName, Seconds, Time};
use hsched_ui::{
    Align, Exit, Failure, JobSummary, SubmissionFiles, Table, duration, script_details, script_json,
    scripts_table, status_details, status_json, status_table, unfolded_status_table,
};

/// Show all jobs: state, GPUs, epochs, predicted and observed epoch times, expected end
///
/// Does not call Slurm: shows the jobs as hsched last saw them, plus the epochs that their ranks have reported since.
/// `hsched watch` keeps the state up to date. Exit code 0 only means that the state could be read.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show these jobs in full, with all submissions and files. The name of a sweep shows a row for each of its jobs.
    #[arg(value_name = "JOB", add = completions::jobs())]
    jobs: Vec<String>,
    #[command(flatten)]
    tags: TagArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// Up to this age, the last turn is not mentioned: `watch` takes one every half minute, or from cron about
/// every minute.
const STALE: Seconds = Seconds(120.0);

/// Returns the message for jobs whose `hsched run` is not running.
fn interrupted(root: &Path) -> String {
    let script = pack::script(root);
    if !script.exists() {
        return "hsched run is not active here, so no job is running; to resume, start hsched run again\n"
            .to_owned();
    }
    let (name, script) = (pack::NAME, shell_words::quote(&script.display().to_string()).into_owned());
    format!(
        "these jobs belong to the Slurm job {name}, which is not running: squeue --me --name={name} \
         shows whether it is pending\nif it is gone, submit it again: sbatch {script}\n"
    )
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        pools::or_in_pool(context, &self.jobs, |context| self.show(context))
    }
}

impl Args {
    fn show(&self, context: &Context) -> Result<Exit, Failure> {
        let CurrentState { state, root, now, cluster, follower, is_left, warnings, notes } =
            CurrentState::read(context, &mut RecentSamples::default())?;
        for warning in &warnings {
            context.warn(warning);
        }
        for note in &notes {
            context.note(note);
        }
        let scripts = script_chains(&root);
        let (job_names, scripts): (Vec<&String>, Vec<ScriptChain>) = if self.jobs.is_empty() {
            // Scripts have no tags.
            (Vec::new(), if self.tags.are_given() { Vec::new() } else { scripts })
        } else {
            let is_script =
                |name: &&String| scripts.iter().any(|chain| chain.name == **name || chain.run == **name);
            let named: Vec<&String> = self.jobs.iter().filter(is_script).collect();
            let is_known = |name: &str| {
                let name = JobName::new(name).ok();
                name.is_some_and(|name| state.find(&name).is_some() || state.script(&name).is_some())
            };
            let job_names = self.jobs.iter().filter(|name| is_known(name) || !named.contains(name)).collect();
            let is_meant = |chain: &&ScriptChain| named.contains(&&chain.name) || named.contains(&&chain.run);
            (job_names, scripts.iter().filter(is_meant).cloned().collect())
        };
        let chosen = self.chosen(&job_names, &state)?;
        let is_chosen = |script: &&ScriptJob| {
            self.jobs.is_empty() && !self.tags.are_given()
                || job_names.iter().any(|name| **name == script.name.as_str())
        };
        let followed: Vec<&ScriptJob> = state.scripts.iter().filter(is_chosen).collect();
        if !(scripts.is_empty() && followed.is_empty()) {
            self.tags.refuse_scripts()?;
        }
        let output = |script: &ScriptJob| {
            script_output(script, None).ok().and_then(|files| Some(files.first()?.display().to_string()))
        };
        let files = |tracked: &JobState, attempt: &SubmissionRecord| files(context, &root, tracked, attempt);
        let (looked, metrics) = (last_look(&root), metrics(&root, &state));
        let is_whole = self.jobs.is_empty() && !self.tags.are_given();
        let is_empty = state.jobs.is_empty() && state.scripts.is_empty() && scripts.is_empty();
        let pools = match self.format {
            _ if !is_whole => Vec::new(),
            Format::Table if is_empty => pools::open_or_last(context, &root),
            Format::Table | Format::Json => pools::open(context, &root),
        };
        let text = match self.format {
            Format::Json => {
                let mut value = status_json(&state, &chosen, &metrics, now, &files);
                value["looked_at"] = json!(looked.map(|at| at.0));
                let pool = |pool: &PoolProgress| json!({ "state_dir": pool.root, "jobs": pool.jobs, "ended": pool.ended });
                value["pools"] = pools.iter().map(pool).collect();
                let jobs = followed.iter().map(|script| script_json(script, output(script).as_deref()));
                value["scripts"] = scripts.iter().map(chain_json).chain(jobs).collect();
                json_text(&value)?
            }
            Format::Table if state.jobs.is_empty() && !is_empty => {
                self.scripts_text(context, &followed, now) + &chains_table(context, &scripts)
            }
            Format::Table if state.jobs.is_empty() && !pools.is_empty() => String::new(),
            Format::Table if state.jobs.is_empty() => {
                let place = root.display();
                format!(
                    "no jobs in {place}: add some with hsched submit, hsched add or, without Slurm, hsched run\n"
                )
            }
            Format::Table if is_whole => {
                status_table(&state, &metrics, now, context.terminal)
                    + &self.scripts_text(context, &followed, now)
                    + &chains_table(context, &scripts)
            }
            Format::Table if self.jobs.is_empty() || self.names_sweeps(&state) => {
                let jobs = chosen.iter().map(|tracked| (*tracked).clone()).collect();
                unfolded_status_table(&State { jobs, ..State::default() }, &metrics, now, context.terminal)
            }
            Format::Table => {
                let details = |tracked: &&JobState| {
                    let summary = JobSummary::new(tracked);
                    let files = summary.attempt.map(|attempt| files(tracked, attempt)).unwrap_or_default();
                    let metric = metrics.get(&tracked.job.name);
                    status_details(summary, metric, &files, now, context.terminal)
                };
                chosen.iter().map(details).collect::<Vec<_>>().join("\n")
                    + &self.scripts_text(context, &followed, now)
                    + &chains_table(context, &scripts)
            }
        };
        print(context, &text)?;
        if self.format == Format::Table {
            print(context, &pools.iter().map(|pool| pool.text("status")).collect::<String>())?;
        }
        if self.format == Format::Table && !state.is_over() {
            let note = match cluster.as_deref() {
                Some(session::LOCAL_CLUSTER) => is_left.then(|| interrupted(&root)),
                _ => looked.and_then(|at| stale(at, now, follower)),
            };
            print(context, &note.unwrap_or_default())?;
        }
        Ok(Exit::Done)
    }

    /// Returns the jobs of these names or sweeps with the given tags; all jobs with these tags if no name is
    /// given.
    fn chosen<'a>(&self, names: &[&String], state: &'a State) -> Result<Vec<&'a JobState>, Failure> {
        self.tags.check(state.jobs.iter().map(|tracked| &*tracked.job.tags))?;
        if self.jobs.is_empty() {
            return Ok(state.jobs.iter().filter(|tracked| self.tags.mean(&tracked.job.tags)).collect());
        }
        let is_script =
            |name: &&&String| state.scripts.iter().any(|script| script.name.as_str() == name.as_str());
        let mut chosen = Vec::new();
        for name in names.iter().filter(|name| !is_script(name)) {
            let job = state.jobs.iter().find(|tracked| tracked.job.name.as_str() == name.as_str());
            let before = chosen.len();
            match job {
                Some(job) => chosen.push(job),
                None => chosen
                    .extend(state.jobs.iter().filter(|tracked| sweep_of(tracked) == Some(name.as_str()))),
            }
            if chosen.len() == before {
                return Err(unknown_job(name, state));
            }
        }
        let are_named = !chosen.is_empty();
        chosen.retain(|tracked| self.tags.mean(&tracked.job.tags));
        if are_named && chosen.is_empty() { Err(self.tags.none_of_names()) } else { Ok(chosen) }
    }

    /// Returns whether all names are names of sweeps, whose jobs are shown in a table.
    fn names_sweeps(&self, state: &State) -> bool {
        let is_job = |name: &str| state.jobs.iter().any(|tracked| tracked.job.name.as_str() == name);
        let is_sweep = |name: &str| state.jobs.iter().any(|tracked| sweep_of(tracked) == Some(name));
        self.jobs.iter().all(|name| is_sweep(name) && !is_job(name))
    }

    /// Returns the followed scripts, in full if they were named.
    fn scripts_text(&self, context: &Context, scripts: &[&ScriptJob], now: Time) -> String {
        if self.jobs.is_empty() {
            return scripts_table(scripts, now, context.terminal);
        }
        let text = |script: &&ScriptJob| {
            let output =
                script_output(script, None).ok().and_then(|files| Some(files.first()?.display().to_string()));
            scripts_table(&[script], now, context.terminal) + &script_details(script, output.as_deref(), now)
        };
        scripts.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the name of the sweep that a job belongs to.
fn sweep_of(tracked: &JobState) -> Option<&str> {
    tracked.job.variant.as_ref().map(|variant| variant.sweep.as_str())
}

/// Returns a table with a row for each script that runs in pieces; an empty text if there is none.
fn chains_table(context: &Context, scripts: &[ScriptChain]) -> String {
    if scripts.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("SCRIPT", Align::Left),
        ("STATE", Align::Left),
        ("JOB", Align::Right),
        ("PIECES", Align::Right),
        ("ID", Align::Left),
    ]);
    for chain in scripts {
        let job = chain.job().map_or(String::new(), |job| job.to_string());
        let state = chain.state().word().to_owned();
        table.row([chain.name.clone(), state, job, chain.pieces().to_string(), chain.run.clone()]);
    }
    table.show(context.terminal)
}

fn chain_json(chain: &ScriptChain) -> serde_json::Value {
    json!({
        "name": chain.name, "run": chain.run, "state": chain.state().word(),
        "job_id": chain.job().map(|job| job.to_string()), "pieces": chain.pieces(), "folder": chain.folder,
    })
}

/// Returns a line if the last turn was long ago; `follower` is the command that takes turns.
fn stale(looked: Time, now: Time, follower: &str) -> Option<String> {
    let age = now.since(looked);
    (age.0 > STALE.0).then(|| format!("last updated {} ago; run {follower} to continue\n", duration(age)))
}

/// Returns the files of a submission, each with a label.
fn files(context: &Context, root: &Path, tracked: &JobState, attempt: &SubmissionRecord) -> SubmissionFiles {
    let job = &tracked.job;
    let name = attempt.key(&job.name).name();
    let workdir = absolute(&context.directory, job.launch.workdir.as_deref().unwrap_or("."));
    [
        ("script", run_folder(root, &attempt.run).join(format!("{name}.sbatch"))),
        ("output", workdir.join(format!("{name}.out"))),
        ("reports", report_folder(root, &attempt.run, &name)),
    ]
    .map(|(what, path)| (what, path.display().to_string()))
    .to_vec()
}
