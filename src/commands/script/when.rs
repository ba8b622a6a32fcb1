//! `hsched when SCRIPT`: when a batch script would start, and which small changes make it start sooner.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use crate::app::cluster_queue::ClusterQueue;
use crate::app::completions;
use crate::app::context::{Context, Format};
use crate::app::slurm::script::{Script, past_runs_of};
use crate::app::slurm::script_outlook::{OutlookBasis, ScriptOutlook};
use crate::app::slurm::script_refusal::{self, ScriptRefusal};
use crate::app::slurm::script_speeds::relative_speeds;
use crate::app::speeds::SpeedArgs;
use crate::commands::change_number;
use crate::commands::cli::{json_text, print};
use crate::commands::script::{when_json, when_text};
use crate::commands::when::save;
use hsched_engine::clock::Clock;
use hsched_model::{ErrorId, GpuType};
use hsched_queue::PastRuns;
use hsched_slurm::script::{ScriptReading, SlurmVersion};
use hsched_ui::{Exit, Failure, ProgressLine};

/// The word of `--may` for all GPU types, as in `submit --may`.
pub(super) const ANY_TYPE: &str = "type";

/// The requested action for a script.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scripts")]
pub(in crate::commands) struct ScriptArgs {
    /// Write the change of this number into the script; the old script is kept as SCRIPT.bak (or .bak2, ...).
    #[arg(long, value_name = "N", value_parser = change_number::parse, allow_negative_numbers = true, conflicts_with_all = ["submit", "score"])]
    pub(super) apply: Option<i64>,
    /// Submit the script with the change of this number; the file itself is not changed.
    #[arg(long, value_name = "N", value_parser = change_number::parse, allow_negative_numbers = true, conflicts_with = "score")]
    pub(super) submit: Option<i64>,
    /// Allow a change to this GPU type; `type` allows any. Repeatable, or several names separated by commas.
    #[arg(long, value_name = "TYPE", value_delimiter = ',', add = completions::gpu_types())]
    pub(super) may: Vec<String>,
    /// Allow a change for which Slurm may stop (preempt) running jobs of yours.
    #[arg(long)]
    pub(super) may_stop: bool,
    /// Print what --apply would write or --submit would run, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// The inputs for examining a script.
pub(in crate::commands) struct ScriptQuestion<'a> {
    pub script: &'a Script,
    pub args: &'a ScriptArgs,
    pub speeds: &'a SpeedArgs,
    pub format: Format,
    pub seed: u64,
    pub futures: u32,
    pub budget: Duration,
    /// Whether calls to Slurm are allowed.
    pub is_live: bool,
    /// The file for the snapshot on which the answer is based.
    pub save: Option<&'a Path>,
}

/// A script with its estimates.
pub(in crate::commands) struct ScriptReport<'a> {
    pub script: &'a Script,
    pub reading: &'a ScriptReading,
    pub queue: &'a ClusterQueue,
    /// Why Slurm refuses the script.
    pub refused: Option<ScriptRefusal>,
    pub past: PastRuns,
    /// `None` if the script is refused, or if `site_request` returns no request for it.
    pub outlook: Option<ScriptOutlook>,
    pub notes: Vec<String>,
}

impl ScriptArgs {
    /// Returns whether an option was given that only applies to scripts.
    pub(in crate::commands) fn is_given(&self) -> bool {
        self.apply.is_some() || self.submit.is_some() || self.dry_run || self.may_stop || !self.may.is_empty()
    }
}

impl ScriptQuestion<'_> {
    /// Examines the script; prints, writes or submits the requested result.
    pub(in crate::commands) fn run(&self, context: &Context, queue: &ClusterQueue) -> Result<Exit, Failure> {
        self.are_types(queue)?;
        let version = self.version(context);
        let reading = self.script.reading(version);
        let report = self.report(context, &reading, queue, version)?;
        // Free GPUs of an older look may have been taken since.
        let newer = if report.has_start_now() { queue.newer(context)? } else { None };
        let report = match &newer {
            Some(queue) => self.report(context, &reading, queue, version)?,
            None => report,
        };
        if let Some(path) = self.save {
            save(path, report.queue)?;
        }
        if (self.args.apply.is_some() || self.args.submit.is_some()) && report.why_not().is_none() {
            self.was_shown(context, &report)?;
        }
        if let Some(number) = self.args.apply {
            return self.apply(context, &report, number, version);
        }
        if let Some(number) = self.args.submit {
            return self.submit(context, &report, number);
        }
        // Without a state directory, only --apply and --submit are unavailable.
        if let Err(failure) = self.keep_list(context, &report)
            && context.settings.state_dir.is_some()
        {
            context.note(&failure.message);
        }
        self.show(context, &report)?;
        Ok(if report.is_estimated() { Exit::Done } else { Exit::Unplaced })
    }

    fn show(&self, context: &Context, report: &ScriptReport) -> Result<(), Failure> {
        let text = match self.format {
            Format::Json => json_text(&when_json::json(report))?,
            Format::Table => when_text::text(report, context.terminal),
        };
        print(context, &text)
    }

    /// Prints the changes if none were listed in the last hour: a number must refer to a list that the user
    /// has seen.
    ///
    /// # Errors
    /// If no list was shown before (exit 2).
    fn was_shown(&self, context: &Context, report: &ScriptReport) -> Result<(), Failure> {
        let count = report.outlook.as_ref().map_or(0, |outlook| outlook.estimates.list.len());
        let number = self.args.apply.or(self.args.submit);
        // Other numbers are refused with those that exist.
        let is_listed = number.and_then(change_number::place).is_some_and(|place| place < count);
        if self.script.file.is_none() || self.args.dry_run || !is_listed || self.kept_list(context).is_some()
        {
            return Ok(());
        }
        self.keep_list(context, report)?;
        self.show(context, report)?;
        let again = match (self.args.apply, self.args.submit) {
            (Some(number), _) => format!("--apply {number}"),
            (_, number) => format!("--submit {}", number.unwrap_or(1)),
        };
        let message = format!(
            "{}: the changes were not shown in the last hour; nothing was changed or submitted",
            self.script.name()
        );
        Err(Failure::new(Exit::Usage, message)
            .id(ErrorId::NoChange)
            .hint(format!("look at the list above, then give {again} again")))
    }

    /// Returns the version of the cluster's Slurm.
    fn version(&self, context: &Context) -> Option<SlurmVersion> {
        let config = if self.is_live { context.slurm.config() } else { None };
        SlurmVersion::parse(config?.get("SLURM_VERSION")?)
    }

    fn report<'a>(
        &'a self,
        context: &Context,
        reading: &'a ScriptReading,
        queue: &'a ClusterQueue,
        version: Option<SlurmVersion>,
    ) -> Result<ScriptReport<'a>, Failure> {
        let (mut past, mut notes) = (PastRuns::default(), self.script.notes.clone());
        let name = self.script.name();
        let refused = script_refusal::by_sbatch(reading, &name)
            .or_else(|| script_refusal::by_site(reading, &name, &queue.snapshot));
        if let Some(request) = reading.request.as_ref().filter(|_| self.is_live && self.script.file.is_some())
        {
            let (known, note) = past_runs_of(context, &request.job_name, &queue.snapshot)?;
            past = known;
            notes.extend(note);
        }
        notes.extend(script_refusal::doubts(reading, &queue.snapshot));
        let gpu_type =
            reading.request.as_ref().and_then(|request| GpuType::new(request.total.gpu_type.as_deref()?));
        let job_name = reading.request.as_ref().map_or("", |request| request.job_name.as_str());
        let speeds = match &gpu_type {
            Some(from) => relative_speeds(context, self.speeds, job_name, from, &queue.snapshot)?,
            None => BTreeMap::new(),
        };
        let _progress = ProgressLine::start(format!("{}: simulating the queue", self.script.name()));
        let (clock, begin) = (&context.clock, context.clock.elapsed());
        let stop = || clock.elapsed().saturating_sub(begin) >= self.budget;
        let outlook = OutlookBasis {
            script: self.script,
            reading,
            version,
            queue,
            past: &past,
            speeds: &speeds,
            seed: self.seed,
            futures: self.futures,
        };
        let outlook = if refused.is_none() { outlook.of_script(&stop) } else { None };
        Ok(ScriptReport { script: self.script, reading, queue, refused, past, outlook, notes })
    }

    /// Checks the GPU types of `--may`.
    ///
    /// # Errors
    /// If the cluster does not have one of these types (exit 2).
    fn are_types(&self, queue: &ClusterQueue) -> Result<(), Failure> {
        let gpus = queue.snapshot.nodes.iter().flat_map(|node| &node.gpus);
        let known: BTreeSet<&str> = gpus.map(|gpu| gpu.gpu_type.as_str()).collect();
        let Some(unknown) =
            self.args.may.iter().find(|name| *name != ANY_TYPE && !known.contains(name.as_str()))
        else {
            return Ok(());
        };
        let known: Vec<&str> = known.into_iter().collect();
        let message =
            format!("--may {unknown}: this cluster has no such GPU type; it has {}", known.join(", "));
        Err(Failure::new(Exit::Usage, message).id(ErrorId::ChangeToType))
    }

    /// Returns the command that examines the script.
    pub(super) fn line(&self) -> String {
        let separator = if self.script.words.is_empty() { "" } else { " -- " };
        format!("hsched when {}{separator}{}", self.script.name(), shell_words::join(&self.script.words))
    }
}

impl ScriptReport<'_> {
    /// Returns whether the script would start at once, unchanged or changed.
    fn has_start_now(&self) -> bool {
        self.outlook.as_ref().is_some_and(|outlook| {
            let estimates = &outlook.estimates;
            estimates.as_is.is_now() || estimates.list.iter().any(|change| change.start.is_now())
        })
    }

    /// Returns whether a start of the script, as it is or with a change, is estimated.
    pub(in crate::commands) fn is_estimated(&self) -> bool {
        self.outlook.as_ref().is_some_and(|outlook| {
            outlook.estimates.as_is.forecast().is_some() || !outlook.estimates.list.is_empty()
        })
    }

    /// Returns whether Slurm accepts the script as it is, and may start it.
    pub(in crate::commands) fn may_start(&self) -> bool {
        let is_never = |outlook: &ScriptOutlook| outlook.estimates.as_is.is_never();
        self.why_not().is_none() && !self.outlook.as_ref().is_some_and(is_never)
    }

    /// Returns why the start of the script cannot be estimated.
    pub(in crate::commands) fn why_not(&self) -> Option<String> {
        let name = self.script.name();
        if let Some(refusal) = self.refused.as_ref().filter(|refusal| !self.is_of_placeholder(&refusal.why)) {
            let why = refusal.why.trim_end_matches('.');
            let remedy = refusal.remedy.as_ref();
            let remedy = remedy.map_or_else(String::new, |remedy| format!(". To fix it: {remedy}"));
            return Some(format!("sbatch would refuse {name}: {why}{remedy}"));
        }
        if self.outlook.is_some() {
            return None;
        }
        let unknown = self.reading.unknown.iter().map(|unread| {
            let line = unread.line.map_or_else(String::new, |line| format!("line {line}, "));
            format!("{line}{:?}: {}", unread.text, unread.why)
        });
        let unknown = unknown.collect::<Vec<_>>().join("; ");
        let example =
            if self.script.file.is_some() { format!("hsched when {name}") } else { "hsched when".to_owned() };
        Some(format!(
            "{name}: what it asks for is known only later ({unknown}): give it as an option of sbatch, such as {example} -- --nodes=1 --gres=gpu:1"
        ))
    }

    /// Returns whether Slurm refuses a line only because of a placeholder in it.
    fn is_of_placeholder(&self, why: &str) -> bool {
        let lines = self.reading.unknown.iter().filter_map(|unread| unread.line);
        lines.into_iter().any(|line| why.starts_with(&format!("line {line}: ")))
    }
}
