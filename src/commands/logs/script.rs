//! `hsched logs` for batch scripts: the files that they name themselves.

use std::path::PathBuf;
use std::time::Duration;

use crate::app::context::Context;
use crate::app::output::{FileGrowth, FilePart};
use crate::app::slurm::script_files::{piece_output, script_output};
use crate::app::{deferred_commands, state};
use crate::commands::logs::{Args, LogOutput, unreadable};
use hsched_engine::clock::Clock as _;
use hsched_engine::store::{ScriptChain, script_chains};
use hsched_engine::{Rules, ScriptJob};
use hsched_model::ErrorId;
use hsched_ui::{Exit, Failure};

/// Time between checks of the state, which sends no notifications.
const PAUSE: Duration = Duration::from_secs(1);

/// A script's state at one check.
struct ScriptLook {
    files: Vec<PathBuf>,
    has_started: bool,
    is_over: bool,
    word: &'static str,
}

impl Args {
    /// Prints the output of a script's job.
    pub(super) fn of_script(
        &self,
        context: &Context,
        rules: &Rules,
        script: &ScriptJob,
    ) -> Result<Exit, Failure> {
        if self.of_run.is_some() || self.attempt.is_some() {
            let message = format!("{} is a script: only its last submission is kept", self.job);
            return Err(Failure::new(Exit::Usage, message).id(ErrorId::OptionsConflict));
        }
        if self.task.is_some() && script.tasks.is_none() {
            return Err(Failure::new(Exit::Usage, format!("{} is not a job array", self.job))
                .id(ErrorId::OptionsConflict));
        }
        if self.follow {
            let several = script.outputs.len() > 1 || script.tasks.is_some();
            return self.follow_files(context, several, || {
                let state = deferred_commands::expected(context, rules)?;
                Ok(state.script(&script.name).map(|script| ScriptLook {
                    files: script_output(script, self.task).unwrap_or_default(),
                    has_started: script.submission.started.is_some(),
                    is_over: script.is_over(),
                    word: script.word(),
                }))
            });
        }
        let files = script_output(script, self.task)?;
        self.print_files(context, files.clone())?.ok_or_else(|| self.nothing_there(script, &files))
    }

    /// Returns a file from its beginning, or from its last lines.
    fn part(&self, path: PathBuf) -> Result<FilePart, Failure> {
        let mut part = FilePart { path, position: 0, end: None };
        if let Some(lines) = self.tail {
            part.skip_to_last(lines).map_err(|error| unreadable(&part, &error))?;
        }
        Ok(part)
    }

    fn nothing_there(&self, script: &ScriptJob, files: &[PathBuf]) -> Failure {
        let word = script.word();
        if script.submission.started.is_none() && !script.is_over() {
            return Failure::new(Exit::Failed, format!("{} has not started yet: {word}", self.job))
                .id(ErrorId::NotStarted)
                .hint("--follow waits for it to start");
        }
        let files = files.first().map_or_else(
            || format!("there is no file like {}", script.outputs.join(" or ")),
            |file| format!("{} does not exist", file.display()),
        );
        Failure::new(Exit::Failed, format!("{files} ({} is {word})", self.job))
            .id(ErrorId::NoOutput)
            .hint("it was removed, or is on a file system that this machine cannot see")
    }

    /// Prints the output of one piece of a script: the last one that started, or that of `--attempt`.
    pub(super) fn of_chain(&self, context: &Context, chain: &ScriptChain) -> Result<Exit, Failure> {
        if self.of_run.is_some() || self.task.is_some() {
            let message = format!("{} runs in pieces: --attempt N prints that of piece N", self.job);
            return Err(Failure::new(Exit::Usage, message).id(ErrorId::OptionsConflict));
        }
        let name = chain.run.clone();
        let look = || {
            let root = state::root(context)?;
            let chain = script_chains(&root).into_iter().find(|script_chain| script_chain.run == name);
            let Some(chain) = chain else { return Ok(None) };
            let number = self.attempt.unwrap_or(chain.pieces());
            let job = number.checked_sub(1).and_then(|place| chain.started().get(place));
            let files = job.map(|job| piece_output(&chain, *job)).transpose()?.unwrap_or_default();
            let (has_started, state) = (job.is_some(), chain.state());
            Ok(Some(ScriptLook { files, has_started, is_over: state.is_over(), word: state.word() }))
        };
        if self.follow {
            return self.follow_files(context, true, look);
        }
        let Some(ScriptLook { files, has_started, word, .. }) = look()? else { return Ok(Exit::Done) };
        if !has_started {
            let what = match self.attempt {
                Some(number) => format!("piece {number} of {} has not started", self.job),
                None => format!("{} has not started yet: {word}", self.job),
            };
            return Err(Failure::new(Exit::Failed, what)
                .id(ErrorId::NotStarted)
                .hint("--follow waits for it to start"));
        }
        self.print_files(context, files.clone())?.ok_or_else(|| {
            let file = files.first().map(|file| file.display().to_string()).unwrap_or_default();
            Failure::new(Exit::Failed, format!("{file} does not exist ({} is {word})", self.job))
                .id(ErrorId::NoOutput)
                .hint("it was removed, or is on a file system that this machine cannot see")
        })
    }

    /// Prints the existing files; `None` if there are none.
    fn print_files(&self, context: &Context, files: Vec<PathBuf>) -> Result<Option<Exit>, Failure> {
        if !files.iter().any(|file| file.exists()) {
            return Ok(None);
        }
        let mut output = LogOutput { context, several: files.len() > 1, shown: None };
        for path in files.into_iter().filter(|path| path.exists()) {
            let mut part = self.part(path)?;
            if !output.pass_on(&mut part)? {
                break;
            }
        }
        Ok(Some(Exit::Done))
    }

    /// Prints files as they grow and as new ones appear, until the job has ended or the reader has closed.
    fn follow_files(
        &self,
        context: &Context,
        several: bool,
        mut look: impl FnMut() -> Result<Option<ScriptLook>, Failure>,
    ) -> Result<Exit, Failure> {
        let mut output = LogOutput { context, several, shown: None };
        let (mut parts, growth) = (Vec::<FilePart>::new(), FileGrowth::new());
        let mut is_first = true;
        loop {
            let Some(ScriptLook { files, has_started, is_over, word }) = look()? else {
                return Ok(Exit::Done);
            };
            for path in files {
                if !parts.iter().any(|part| part.path == path) {
                    let new = FilePart { path: path.clone(), position: 0, end: None };
                    parts.push(if is_first { self.part(path)? } else { new });
                }
            }
            if is_first && !has_started && !is_over {
                context.note(&format!("{} has not started yet: {word}; waiting for it to start", self.job));
            }
            is_first = false;
            let next_look = context.clock.elapsed() + PAUSE;
            loop {
                growth.forget();
                for part in &mut parts {
                    growth.watch(&part.path);
                    if !output.pass_on(part)? {
                        return Ok(Exit::Done);
                    }
                }
                if is_over {
                    return Ok(Exit::Done);
                }
                let Some(left) = next_look.checked_sub(context.clock.elapsed()) else { break };
                if context.terminal.loses_reader_before(left, growth.news()) {
                    return Ok(Exit::Done);
                }
            }
        }
    }
}
