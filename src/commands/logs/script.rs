//! `hsched logs` of batch scripts: the files that they name themselves.

use std::path::PathBuf;
use std::time::Duration;

use crate::app::context::Context;
use crate::app::deferred_commands;
use crate::app::output::{Growth, Part};
use crate::app::script_files::script_output;
use crate::commands::logs::{Args, Output, unreadable};
use crate::error::Failure;
use crate::exit::Exit;
use hsched_engine::clock::Clock as _;
use hsched_engine::{Rules, ScriptJob};

/// Time between two looks at the state, which does not tell of changes.
const PAUSE: Duration = Duration::from_secs(1);

impl Args {
    /// Prints what the job of a script has printed.
    pub(super) fn of_script(
        &self,
        context: &Context,
        rules: &Rules,
        script: &ScriptJob,
    ) -> Result<Exit, Failure> {
        if self.of_run.is_some() || self.attempt.is_some() {
            let message = format!("{} is a script: only its last submission is kept", self.job);
            return Err(Failure::new(Exit::Usage, message));
        }
        if self.task.is_some() && script.tasks.is_none() {
            return Err(Failure::new(Exit::Usage, format!("{} is no job array", self.job)));
        }
        if self.follow {
            return self.follow_script(context, rules, script.clone());
        }
        let files = script_output(script, self.task)?;
        if files.iter().any(|file| file.exists()) {
            let mut output = Output { context, several: files.len() > 1, shown: None };
            for path in files.into_iter().filter(|path| path.exists()) {
                let mut part = self.part(path)?;
                if !output.pass_on(&mut part)? {
                    break;
                }
            }
            return Ok(Exit::Done);
        }
        Err(self.nothing_there(script, &files))
    }

    /// Returns a file from its beginning, or from its last lines.
    fn part(&self, path: PathBuf) -> Result<Part, Failure> {
        let mut part = Part { path, position: 0, end: None };
        if let Some(lines) = self.tail {
            part.skip_to_last(lines).map_err(|error| unreadable(&part, &error))?;
        }
        Ok(part)
    }

    fn nothing_there(&self, script: &ScriptJob, files: &[PathBuf]) -> Failure {
        let word = script.word();
        if script.submission.started.is_none() && !script.is_over() {
            return Failure::new(Exit::Failed, format!("{} has not started yet: {word}", self.job))
                .hint("--follow waits for it to start");
        }
        let files = files.first().map_or_else(
            || format!("there is no file like {}", script.outputs.join(" or ")),
            |file| format!("{} does not exist", file.display()),
        );
        Failure::new(Exit::Failed, format!("{files} ({} is {word})", self.job))
            .hint("it was removed, or is on a file system that this machine cannot see")
    }

    /// Prints until the job has ended or nobody reads any more.
    fn follow_script(
        &self,
        context: &Context,
        rules: &Rules,
        mut script: ScriptJob,
    ) -> Result<Exit, Failure> {
        let mut output =
            Output { context, several: script.outputs.len() > 1 || script.tasks.is_some(), shown: None };
        let (mut parts, growth) = (Vec::<Part>::new(), Growth::new());
        let mut is_first = true;
        loop {
            for path in script_output(&script, self.task).unwrap_or_default() {
                if !parts.iter().any(|part| part.path == path) {
                    growth.watch(&path);
                    let part =
                        if is_first { self.part(path)? } else { Part { path, position: 0, end: None } };
                    parts.push(part);
                }
            }
            if is_first && script.submission.started.is_none() && !script.is_over() {
                context.note(&format!(
                    "{} has not started yet: {}; waiting for it to start",
                    self.job,
                    script.word()
                ));
            }
            is_first = false;
            for part in &mut parts {
                if !output.pass_on(part)? {
                    return Ok(Exit::Done);
                }
            }
            if script.is_over() {
                return Ok(Exit::Done);
            }
            let next_look = context.clock.elapsed() + PAUSE;
            while let Some(left) = next_look.checked_sub(context.clock.elapsed()) {
                if context.terminal.loses_reader_before(left, growth.news()) {
                    return Ok(Exit::Done);
                }
                growth.forget();
                for part in &mut parts {
                    growth.watch(&part.path);
                    if !output.pass_on(part)? {
                        return Ok(Exit::Done);
                    }
                }
            }
            let state = deferred_commands::expected(context, rules)?;
            match state.script(&script.name) {
                Some(own) => script = own.clone(),
                None => return Ok(Exit::Done),
            }
        }
    }
}
