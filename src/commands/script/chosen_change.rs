//! The changes of a script by number: which one a number means, `--apply` and `--submit`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::slurm::script::ScriptFile;
use crate::app::slurm::script_outlook::is_meant;
use crate::app::{input, slurm, state};
use crate::commands::change_number;
use crate::commands::cli::{json_text, print};
use crate::commands::script::when::{ANY_TYPE, ScriptQuestion, ScriptReport};
use crate::commands::script::when_text;
use hsched_engine::store::{CachedOutput, OutputCache};
use hsched_model::{ErrorId, Seconds};
use hsched_queue::{ChangeEstimate, jobs_in_words, own_preempted};
use hsched_slurm::sbatch;
use hsched_slurm::script::SlurmVersion;
use hsched_slurm::script_changes::{NotInScript, rewrite, words};
use hsched_ui::{DiffLine, Exit, Failure, rewrite_output, script_diff, wrap};

/// How long a number refers to the change that was listed under it.
const HOUR: Seconds = Seconds(3600.0);

impl ScriptQuestion<'_> {
    /// Returns a listed change and its place in the list, from 0; `number` counts from 1.
    fn change<'a>(
        &self,
        context: &Context,
        report: &'a ScriptReport,
        number: i64,
    ) -> Result<(usize, &'a ChangeEstimate), Failure> {
        let name = self.script.name();
        if let Some(why) = report.why_not() {
            return Err(Failure::new(Exit::Unplaced, why).id(ErrorId::ScriptRefused));
        }
        let list = report.outlook.as_ref().map_or(&[][..], |outlook| outlook.estimates.list.as_slice());
        let place = change_number::place(number);
        let shown = self.kept_list(context).map(|kept| kept.get(place?).cloned());
        let place = match shown {
            Some(Some(shown)) => report.place_of(&shown).ok_or_else(|| {
                let message = format!("{name}: change {number} was {}, which helps no more", shown.join(" "));
                Failure::new(Exit::Unplaced, format!("{message}; {}", self.nothing_done()))
                    .id(ErrorId::NoChange)
                    .hint(format!("look again: {}", self.line()))
            })?,
            // A number must not select a change that was not listed under it.
            Some(None) => usize::MAX,
            // Without a list shown before, as with --dry-run, the number refers to the current list.
            None => place.unwrap_or(usize::MAX),
        };
        let Some(chosen) = list.get(place) else {
            let there = match list.len() {
                0 => "no change brings its start forward".to_owned(),
                1 => "there is only change 1".to_owned(),
                count => format!("there are changes 1 to {count}"),
            };
            let message = format!("{name}: {there}; {}", self.nothing_done());
            let failure = Failure::new(Exit::Unplaced, message).id(ErrorId::NoChange);
            let can_be_submitted = self.args.submit.is_some() && list.is_empty() && report.may_start();
            return Err(if can_be_submitted {
                failure.hint(format!("to submit it as it is: {}", self.sbatch_line()))
            } else {
                failure
            });
        };
        let is_allowed =
            |gpu_type: &str| self.args.may.iter().any(|name| name == gpu_type || name == ANY_TYPE);
        if let Some(to) = chosen.set.gpu_type().filter(|to| !is_allowed(to.as_str())) {
            let to = to.as_str();
            let message = format!("change {number} is to another GPU type, {to}; {}", self.nothing_done());
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::ChangeToType)
                .hint(format!("if {to} is fast enough, add --may {to}")));
        }
        let stopped = own_preempted(&report.queue.snapshot, &chosen.request);
        if !(stopped.is_empty() || self.args.may_stop || self.args.dry_run) {
            let ids: Vec<String> = stopped.iter().map(|job| job.id.clone()).collect();
            let message = format!(
                "change {number}: Slurm may stop (preempt) your running {} for it; {}",
                jobs_in_words(&ids),
                self.nothing_done()
            );
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::StopsOwnJob)
                .hint("if it may be stopped, add --may-stop"));
        }
        Ok((place, chosen))
    }

    fn nothing_done(&self) -> &'static str {
        if self.args.submit.is_some() { "nothing was submitted" } else { "nothing was changed" }
    }

    /// Returns the command that submits the script as it is.
    fn sbatch_line(&self) -> String {
        let name = self.script.name();
        let words = self.script.words.iter().map(String::as_str);
        shell_words::join(std::iter::once("sbatch").chain(words).chain([name.as_str()]))
    }

    /// Stores the listed changes, so that their numbers stay valid.
    ///
    /// # Errors
    /// If the state directory cannot be written.
    pub(super) fn keep_list(&self, context: &Context, report: &ScriptReport) -> Result<(), Failure> {
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
        let kept = OutputCache::of(&root).keep_list(&self.script.key("changes"), &answer);
        kept.map_err(|error| {
            Failure::new(Exit::Failed, format!("the list of changes cannot be kept: {error}"))
                .id(ErrorId::FileUnwritable)
        })
    }

    /// Returns the options of the changes that were listed in the last hour, in their order.
    pub(super) fn kept_list(&self, context: &Context) -> Option<Vec<Vec<String>>> {
        let kept = OutputCache::of(&state::root(context).ok()?).get(&self.script.key("changes"));
        let is_young = state::now(context).is_soon_after(kept.at, HOUR);
        serde_json::from_str(&kept.text.filter(|_| is_young)?).ok()
    }

    pub(super) fn apply(
        &self,
        context: &Context,
        report: &ScriptReport,
        number: i64,
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
        if !is_meant(&read_again, &report.queue.snapshot, &chosen.set.applied(&outlook.request)) {
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
        let mut kept_as = None;
        if !self.args.dry_run {
            let older = free_name(path, bytes);
            rewrite_output(path, &older, bytes, &rewritten.text).map_err(|error| {
                Failure::new(Exit::Failed, format!("{name}: cannot be written: {error}"))
                    .id(ErrorId::FileUnwritable)
            })?;
            kept_as = Some(input::name(&older));
        }
        let (costs, command) = (when_text::costs(chosen), self.sbatch_line());
        if self.format == Format::Json {
            let line = |line: &DiffLine<'_>| json!({ "line": line.line, "before": line.before, "after": line.after });
            let lines: Vec<Value> = shown.iter().map(line).collect();
            let value = json!({
                "schema": "hsched.when-apply/1", "file": name, "kept_as": kept_as, "lines": lines, "costs": costs,
                "command": command, "dry_run": self.args.dry_run,
            });
            print(context, &json_text(&value)?)?;
            return Ok(Exit::Done);
        }
        let mut text = script_diff(&name, &shown);
        let costs = format!("Costs you: {costs}.");
        let _ = writeln!(text, "{}", wrap(&costs, context.terminal.width(), "  "));
        if let Some(older) = kept_as {
            let _ = writeln!(text, "Written. The old file is {older}. Submit it as before: {command}");
        }
        print(context, &text)?;
        Ok(Exit::Done)
    }

    pub(super) fn submit(
        &self,
        context: &Context,
        report: &ScriptReport,
        number: i64,
    ) -> Result<Exit, Failure> {
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
        let costs = when_text::costs(chosen);
        let command = sbatch::command(&path.display().to_string(), &options).to_string();
        let json = |id: Option<&str>| {
            json_text(&json!({
                "schema": "hsched.when-submit/1", "job_id": id, "command": command, "costs": costs,
                "dry_run": self.args.dry_run,
            }))
        };
        let is_json = self.format == Format::Json;
        if self.args.dry_run {
            print(context, &if is_json { json(None)? } else { format!("{command}\n") })?;
            if !is_json {
                context.note(&format!("costs you: {costs}"));
            }
            return Ok(Exit::Done);
        }
        if !self.is_live {
            return Err(Failure::new(Exit::Usage, "--submit asks Slurm itself: leave --snapshot out")
                .id(ErrorId::OptionsConflict));
        }
        let id = slurm::submit(context, &path, &options)?;
        let said = format!("Submitted as job {id}. Costs you: {costs}.");
        let text = if is_json {
            json(Some(&id.to_string()))?
        } else {
            wrap(&said, context.terminal.width(), "  ") + "\n"
        };
        print(context, &text)?;
        Ok(Exit::Done)
    }
}

impl ScriptReport<'_> {
    /// Returns the index of the change with these options.
    fn place_of(&self, options: &[String]) -> Option<usize> {
        self.outlook.as_ref()?.settings.iter().position(|setting| words(setting) == options)
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
