//! `hsched when SCRIPT`: when a batch script would start, and which small changes make it start sooner.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::app::cluster_queue::ClusterQueue;
use crate::app::completions;
use crate::app::context::{Context, Format};
use crate::app::slurm::script::{Script, ScriptFile, past_runs_of};
use crate::app::slurm::script_outlook::{OutlookBasis, ScriptOutlook, is_meant};
use crate::app::slurm::script_refusal::{self, ScriptRefusal};
use crate::app::slurm::script_speeds::relative_speeds;
use crate::app::speeds::SpeedArgs;
use crate::app::{input, slurm, state};
use crate::commands::cli::{json_text, print};
use crate::commands::script::{when_json, when_text};
use hsched_engine::clock::Clock;
use hsched_engine::store::{CachedOutput, OutputCache};
use hsched_model::number::to_usize;
use hsched_model::{ErrorId, GpuType};
use hsched_queue::{ChangeEstimate, PastRuns, jobs_in_words, own_preempted};
use hsched_slurm::sbatch;
use hsched_slurm::script::{ScriptReading, SlurmVersion};
use hsched_slurm::script_changes::{NotInScript, rewrite, words};
use hsched_ui::{DiffLine, Exit, Failure, ProgressLine, rewrite_output, script_diff, wrap};

/// How long a number refers to the change that was listed under it, in seconds.
const HOUR: f64 = 3600.0;

/// The requested action for a script.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scripts")]
pub(in crate::commands) struct ScriptArgs {
    /// Write the change of this number into the script; the old script is kept as SCRIPT.bak (or .bak2, ...).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["submit", "score"])]
    apply: Option<u32>,
    /// Submit the script with the change of this number; the file itself is not changed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "score")]
    submit: Option<u32>,
    /// Allow a change to this GPU type. Repeatable, or several names separated by commas.
    #[arg(long, value_name = "TYPE", value_delimiter = ',', add = completions::gpu_types())]
    may: Vec<String>,
    /// Allow a change for which Slurm may stop (preempt) running jobs of yours.
    #[arg(long)]
    may_stop: bool,
    /// Print what --apply would write or --submit would run, and change nothing.
    #[arg(long)]
    dry_run: bool,
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
}

/// A script with its estimates.
pub(in crate::commands) struct ScriptReport<'a> {
    pub script: &'a Script,
    pub reading: &'a ScriptReading,
    pub queue: &'a ClusterQueue,
    /// Why Slurm refuses the script.
    pub refused: Option<ScriptRefusal>,
    pub past: PastRuns,
    /// `None` if the script is refused, or its number of nodes or GPUs is unknown.
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
        let _ = self.keep_list(context, &report);
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
        let is_empty = report.outlook.as_ref().is_none_or(|outlook| outlook.estimates.list.is_empty());
        if self.script.file.is_none() || self.args.dry_run || is_empty || self.kept_list(context).is_some() {
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

    /// Returns a listed change and its place in the list, from 0; `number` counts from 1.
    fn change<'a>(
        &self,
        context: &Context,
        report: &'a ScriptReport,
        number: u32,
    ) -> Result<(usize, &'a ChangeEstimate), Failure> {
        let name = self.script.name();
        if let Some(why) = report.why_not() {
            return Err(Failure::new(Exit::Unplaced, why).id(ErrorId::ScriptRefused));
        }
        let list = report.outlook.as_ref().map_or(&[][..], |outlook| outlook.estimates.list.as_slice());
        let number = to_usize(f64::from(number));
        let place = match self.kept_list(context).map(|kept| kept.get(number - 1).cloned()) {
            Some(Some(shown)) => report.place_of(&shown).ok_or_else(|| {
                let message = format!("{name}: change {number} was {}, which helps no more", shown.join(" "));
                Failure::new(Exit::Unplaced, message + "; nothing was changed")
                    .id(ErrorId::NoChange)
                    .hint(format!("look again: {}", self.line()))
            })?,
            // A number must not select a change that was not listed under it.
            Some(None) => usize::MAX,
            // Without a list shown before, as with --dry-run, the number refers to the current list.
            None => number - 1,
        };
        let Some(chosen) = list.get(place) else {
            let there = match list.len() {
                0 => "no change brings its start forward".to_owned(),
                1 => "there is only change 1".to_owned(),
                count => format!("there are changes 1 to {count}"),
            };
            return Err(Failure::new(Exit::Unplaced, format!("{name}: {there}; nothing was changed"))
                .id(ErrorId::NoChange));
        };
        let is_allowed = |gpu_type: &str| self.args.may.iter().any(|candidate| candidate == gpu_type);
        if let Some(to) = chosen.set.gpu_type().filter(|to| !is_allowed(to.as_str())) {
            let to = to.as_str();
            let message = format!("change {number} is to another GPU type, {to}; nothing was changed");
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::ChangeToType)
                .hint(format!("if {to} is fast enough, add --may {to}")));
        }
        let stopped = own_preempted(&report.queue.snapshot, &chosen.request);
        if !(stopped.is_empty() || self.args.may_stop || self.args.dry_run) {
            let ids: Vec<String> = stopped.iter().map(|job| job.id.clone()).collect();
            let message = format!(
                "change {number}: Slurm may stop (preempt) your running {} for it; nothing was changed",
                jobs_in_words(&ids)
            );
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::StopsOwnJob)
                .hint("if it may be stopped, add --may-stop"));
        }
        Ok((place, chosen))
    }

    /// Checks the GPU types of `--may`.
    ///
    /// # Errors
    /// If the cluster does not have one of these types (exit 2).
    fn are_types(&self, queue: &ClusterQueue) -> Result<(), Failure> {
        let gpus = queue.snapshot.nodes.iter().flat_map(|node| &node.gpus);
        let known: BTreeSet<&str> = gpus.map(|gpu| gpu.gpu_type.as_str()).collect();
        let Some(unknown) = self.args.may.iter().find(|name| !known.contains(name.as_str())) else {
            return Ok(());
        };
        let known: Vec<&str> = known.into_iter().collect();
        let message =
            format!("--may {unknown}: this cluster has no such GPU type; it has {}", known.join(", "));
        Err(Failure::new(Exit::Usage, message).id(ErrorId::ChangeToType))
    }

    /// Stores the listed changes, so that their numbers stay valid.
    ///
    /// # Errors
    /// If the state directory cannot be written.
    fn keep_list(&self, context: &Context, report: &ScriptReport) -> Result<(), Failure> {
        let shown: Vec<Vec<String>> = report
            .outlook
            .iter()
            .flat_map(|outlook| &outlook.settings)
            .map(|setting| words(setting))
            .collect();
        let root = state::root(context)?;
        let text =
            serde_json::to_string(&shown).map_err(|error| Failure::from_error(Exit::Internal, &error))?;
        let at = state::now(context);
        let answer = CachedOutput { text: Some(text), at, tried: at, ..CachedOutput::default() };
        let kept = OutputCache::of(&root).keep(&self.script.key("changes"), &answer);
        kept.map_err(|error| {
            Failure::new(Exit::Failed, format!("the list of changes cannot be kept: {error}"))
                .id(ErrorId::FileUnwritable)
        })
    }

    /// Returns the options of the changes that were listed in the last hour, in their order.
    fn kept_list(&self, context: &Context) -> Option<Vec<Vec<String>>> {
        let kept = OutputCache::of(&state::root(context).ok()?).get(&self.script.key("changes"));
        let is_young = (0.0..HOUR).contains(&state::now(context).since(kept.at).0);
        serde_json::from_str(&kept.text.filter(|_| is_young)?).ok()
    }

    /// Returns the command that examines the script.
    fn line(&self) -> String {
        let separator = if self.script.words.is_empty() { "" } else { " -- " };
        format!("hsched when {}{separator}{}", self.script.name(), shell_words::join(&self.script.words))
    }

    fn apply(
        &self,
        context: &Context,
        report: &ScriptReport,
        number: u32,
        version: Option<SlurmVersion>,
    ) -> Result<Exit, Failure> {
        let Some(ScriptFile { path, bytes }) = &self.script.file else {
            return Err(Failure::new(Exit::Usage, "--apply needs a script: give its file before --")
                .id(ErrorId::OptionNeeds));
        };
        let (place, chosen) = self.change(context, report, number)?;
        let (Some(outlook), name) = (&report.outlook, self.script.name()) else { return Ok(Exit::Unplaced) };
        let failure = |error: NotInScript| {
            Failure::new(Exit::Unplaced, format!("{name}: {error}; nothing was changed"))
                .id(ErrorId::NoChange)
        };
        let rewritten = rewrite(bytes, report.reading, &outlook.settings[place]).map_err(failure)?;
        // A change that Slurm would read differently must not be written.
        let read_again = self.script.reading_of(Some(&rewritten.text), &[], version);
        if !is_meant(&read_again, report.queue, &chosen.set.applied(&outlook.request)) {
            let message = format!("{name}: change {number} cannot be written into it; nothing was changed");
            return Err(Failure::new(Exit::Unplaced, message)
                .id(ErrorId::NoChange)
                .hint(format!("hsched when {name} --submit {number}")));
        }
        let shown: Vec<DiffLine> = rewritten
            .lines
            .iter()
            .map(|line| DiffLine { line: line.line, before: line.before.as_deref(), after: &line.after })
            .collect();
        let mut text = script_diff(&name, &shown);
        let costs = format!("Costs you: {}.", when_text::costs(chosen));
        let _ = writeln!(text, "{}", wrap(&costs, context.terminal.width(), "  "));
        if !self.args.dry_run {
            let older = free_name(path, bytes);
            rewrite_output(path, &older, bytes, &rewritten.text).map_err(|error| {
                Failure::new(Exit::Failed, format!("{name}: cannot be written: {error}"))
                    .id(ErrorId::FileUnwritable)
            })?;
            let (older, words) = (input::name(&older), shell_words::join(&self.script.words));
            let options = if words.is_empty() { words } else { words + " " };
            let command = format!("sbatch {options}{name}");
            let _ = writeln!(text, "Written. The old file is {older}. Submit it as before: {command}");
        }
        print(context, &text)?;
        Ok(Exit::Done)
    }

    fn submit(&self, context: &Context, report: &ScriptReport, number: u32) -> Result<Exit, Failure> {
        let Some(ScriptFile { path, .. }) = &self.script.file else {
            return Err(Failure::new(Exit::Usage, "--submit needs a script: give its file before --")
                .id(ErrorId::OptionNeeds));
        };
        let (place, chosen) = self.change(context, report, number)?;
        let Some(outlook) = &report.outlook else { return Ok(Exit::Unplaced) };
        let options = self.script.options(report.reading, &words(&outlook.settings[place]));
        // A name with a leading dash would be read as an option.
        let path = if path.to_string_lossy().starts_with('-') {
            PathBuf::from(".").join(path)
        } else {
            path.clone()
        };
        if self.args.dry_run {
            print(context, &format!("{}\n", sbatch::command(&path.display().to_string(), &options)))?;
            context.note(&format!("costs you: {}", when_text::costs(chosen)));
            return Ok(Exit::Done);
        }
        if !self.is_live {
            return Err(Failure::new(Exit::Usage, "--submit asks Slurm itself: leave --snapshot out")
                .id(ErrorId::OptionsConflict));
        }
        let id = slurm::submit(context, &path, &options)?;
        let costs = when_text::costs(chosen);
        let said = format!("Submitted as job {id}. Costs you: {costs}.");
        print(context, &(wrap(&said, context.terminal.width(), "  ") + "\n"))?;
        Ok(Exit::Done)
    }
}

/// Returns the file that keeps the old text of a script: the first of SCRIPT.bak, SCRIPT.bak2 and so on that
/// would not replace another text.
fn free_name(script: &Path, text: &[u8]) -> PathBuf {
    let named = |number: u32| {
        let mut name = script.as_os_str().to_owned();
        name.push(if number == 1 { ".bak".to_owned() } else { format!(".bak{number}") });
        PathBuf::from(name)
    };
    let is_free = |name: &PathBuf| {
        name.symlink_metadata().is_err() || input::raw_bytes(name).is_ok_and(|there| there == text)
    };
    (1..u32::MAX).map(named).find(is_free).unwrap_or_else(|| named(u32::MAX))
}

impl ScriptReport<'_> {
    /// Returns the index of the change with these options.
    fn place_of(&self, options: &[String]) -> Option<usize> {
        self.outlook.as_ref()?.settings.iter().position(|setting| words(setting) == options)
    }

    /// Returns whether the script would start at once, unchanged or changed.
    fn has_start_now(&self) -> bool {
        self.outlook.as_ref().is_some_and(|outlook| {
            let estimates = &outlook.estimates;
            estimates.as_is.is_now() || estimates.list.iter().any(|change| change.start.is_now())
        })
    }

    /// Returns whether the start of the script is estimated.
    pub(in crate::commands) fn is_estimated(&self) -> bool {
        self.outlook.as_ref().is_some_and(|outlook| {
            outlook.estimates.as_is.forecast().is_some() || !outlook.estimates.list.is_empty()
        })
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
