//! The runner that executes real commands with a time limit and limited output.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::environment::Environment;
use crate::{CommandError, CommandLine, CommandOutput, Runner};

/// Starts each program in its own process group, with a cleaned environment and without a terminal.
#[derive(Clone, Debug)]
pub struct System {
    environment: Environment,
    limit: Duration,
    most_output: u64,
    /// Working directory of programs; `None` is the current directory.
    directory: Option<PathBuf>,
}

/// How long pipes may stay open after a program has ended, if its child processes hold them.
const GRACE: Duration = Duration::from_secs(1);

impl System {
    /// Default time limit of a command: about three times the time after which Slurm's clients report a
    /// controller as down.
    pub const LIMIT: Duration = Duration::from_secs(30);
    /// Maximum number of bytes that a command may write to one of its outputs.
    const MOST_OUTPUT: u64 = 256 << 20;

    /// Returns a runner whose programs receive `environment` (without most of Slurm's own variables) and
    /// at most `limit` of time each.
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>, limit: Duration) -> Self {
        let environment = Environment::new(environment);
        Self { environment, limit, most_output: Self::MOST_OUTPUT, directory: None }
    }

    /// Returns the runner with another working directory.
    #[must_use]
    pub fn in_directory(self, directory: &Path) -> Self {
        Self { directory: Some(directory.to_owned()), ..self }
    }

    fn start(&self, command: &CommandLine) -> io::Result<RunningProgram> {
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        #[expect(clippy::disallowed_methods, reason = "this file is where programs are started")]
        let expression = duct::cmd(command.program.as_ref(), &command.args)
            .full_env(self.environment.of(&command.program))
            .stdout_file(stdout_end)
            .stderr_file(stderr_end)
            .unchecked()
            .before_spawn(|child| {
                child.process_group(0);
                Ok(())
            });
        let expression = match &self.directory {
            Some(directory) => expression.dir(directory),
            None => expression,
        };
        let expression = match &command.stdin {
            Some(text) => expression.stdin_bytes(text.as_str()),
            None => expression.stdin_null(),
        };
        // The expression is dropped at the end of this function, which closes our ends of the pipes.
        let handle = expression.start()?;
        let group = ProcessGroup(handle.pids().first().copied());
        let collect = |pipe| collect(pipe, self.most_output, group);
        Ok(RunningProgram { stdout: collect(stdout), stderr: collect(stderr), handle, group })
    }

    fn finish(&self, command: &CommandLine, running: &RunningProgram) -> Result<CommandOutput, CommandError> {
        let timed_out = || {
            // The output before it hung, often while it tried to reach a controller, is the best hint.
            let said = running.rest(&running.stderr).and_then(Result::ok).unwrap_or_default();
            let stderr = String::from_utf8_lossy(&said).trim().to_owned();
            CommandError::TimedOut { command: command.clone(), limit: self.limit, stderr }
        };
        let failed = |source| CommandError::Start { command: command.clone(), source };
        let status = running.wait(self.limit).map_err(failed)?.ok_or_else(timed_out)?;
        let text = |pipe: &Receiver<io::Result<Vec<u8>>>| {
            let bytes = running.rest(pipe).ok_or_else(timed_out)?.map_err(failed)?;
            if bytes.len() as u64 > self.most_output {
                return Err(CommandError::TooMuchOutput {
                    command: command.clone(),
                    limit: self.most_output,
                });
            }
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let (stdout, stderr) = (text(&running.stdout)?, text(&running.stderr)?);
        if status.success() {
            Ok(CommandOutput { stdout, stderr })
        } else {
            // scontrol before 26.05 prints "Job 7 not found" to stdout like an answer.
            let answer = stdout.trim().lines().last().unwrap_or_default();
            let is_reason = stderr.trim().is_empty() && status.code().is_some();
            let reason = if is_reason { answer } else { &stderr };
            Err(CommandError::failed(command, &status.to_string(), reason))
        }
    }
}

impl Runner for System {
    fn run(&self, command: &CommandLine) -> Result<CommandOutput, CommandError> {
        let running = self.start(command).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => CommandError::NotFound { program: command.program.clone() },
            _ => CommandError::Start { command: command.clone(), source },
        })?;
        self.finish(command, &running)
    }
}

/// A running program, and the threads that read its output.
struct RunningProgram {
    handle: duct::Handle,
    group: ProcessGroup,
    stdout: Receiver<io::Result<Vec<u8>>>,
    stderr: Receiver<io::Result<Vec<u8>>>,
}

impl RunningProgram {
    /// Waits for the program's end; after `limit`, kills it and all processes that it started.
    fn wait(&self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let status = |output: Option<&std::process::Output>| output.map(|output| output.status);
        let ended = status(self.handle.wait_timeout(limit)?);
        if ended.is_none() {
            self.group.kill();
            // Only reaping is left; its result no longer matters.
            let _ = self.handle.wait_timeout(GRACE);
        }
        Ok(ended)
    }

    /// Returns the program's output, or `None` while another program that it started keeps the pipe open and
    /// cannot be killed.
    fn rest(&self, pipe: &Receiver<io::Result<Vec<u8>>>) -> Option<io::Result<Vec<u8>>> {
        pipe.recv_timeout(GRACE).ok().or_else(|| {
            self.group.kill();
            pipe.recv_timeout(GRACE).ok()
        })
    }
}

/// The process group of a program: the id of its first process.
#[derive(Clone, Copy)]
struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    fn kill(self) {
        if let Some(leader) = self.0.and_then(|pid| i32::try_from(pid).ok()) {
            // An error means that no process is left, as intended.
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
    }
}

/// Reads a pipe to its end on a separate thread; kills the writers after more than `most` bytes.
fn collect(pipe: PipeReader, most: u64, group: ProcessGroup) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let result = pipe.take(most + 1).read_to_end(&mut bytes);
        if bytes.len() as u64 > most {
            group.kill();
        }
        // After a time-out the receiver is gone.
        let _ = sender.send(result.map(|_| bytes));
    });
    receiver
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests use files and time")]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    /// Runs this shell script as `sinfo`, with limits of 1 s and 1000 bytes of output.
    fn run(script: &str, stdin: Option<&str>) -> Result<CommandOutput, CommandError> {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("sinfo");
        // Another process writes it: a program that another test starts at this moment would inherit the open file, and a
        // file that any process has open for writing cannot be executed.
        let install = duct::cmd!("install", "-m", "755", "/dev/stdin", &path);
        install.stdin_bytes(format!("#!/bin/sh\n{script}\n")).run().expect("script");
        let search = format!("{}:/usr/bin:/bin", dir.path().display());
        let variables =
            [("PATH", search.as_str()), ("SINFO_FORMAT", "1"), ("LC_ALL", "de_DE"), ("KEPT", "yes")];
        let environment = variables.map(|(name, value)| (name.into(), value.into()));
        let system = System { most_output: 1000, ..System::new(environment, Duration::from_secs(1)) };
        let command =
            CommandLine { stdin: stdin.map(str::to_owned), ..CommandLine::new("sinfo", ["a b", "*"]) };
        system.run(&command)
    }

    #[test]
    fn arguments_input_and_environment_arrive() {
        let check = |script: &str, stdin: Option<&str>, expected: &str| {
            assert_eq!(run(script, stdin).expect(script).stdout, expected, "{script}");
        };
        check("printf '%s|' \"$@\"", None, "a b|*|");
        check("cat", Some("text"), "text");
        check("cat", None, "");
        check(
            "echo \"$KEPT $LC_ALL $SLURM_TIME_FORMAT ${SINFO_FORMAT-unset}\"",
            None,
            "yes C standard unset\n",
        );
        check("printf 'a\\377b'", None, "a\u{fffd}b");
        check("exec 0<&-; echo done", Some("unread"), "done\n");
    }

    #[test]
    fn failures_name_the_program_its_status_and_its_message() {
        let error = |script: &str| run(script, None).expect_err(script).to_string();
        assert_eq!(error("echo no >&2; exit 3"), "sinfo: exit status: 3: no");
        assert_eq!(error("kill -9 $$"), "sinfo: signal: 9 (SIGKILL): no error message");
        assert_eq!(error("while :; do echo y; done"), "sinfo: printed more than 1000 bytes");
        let empty = System::new([("PATH".into(), "/nonexistent".into())], System::LIMIT);
        let missing = empty.run(&CommandLine::new("sinfo", ["-h"])).expect_err("no such program");
        assert!(matches!(&missing, CommandError::NotFound { program } if program == "sinfo"), "{missing}");
    }

    #[test]
    fn a_hanging_program_ends_with_all_it_started() {
        let begin = Instant::now();
        let mark = tempfile::NamedTempFile::new().expect("file");
        let path = mark.path().display();
        let script = format!("echo retrying >&2; (sleep 3; echo alive > {path}) & sleep 60; echo");
        let error = run(&script, None).expect_err("hangs");
        assert_eq!(error.to_string(), "sinfo: no answer within 1s; error output: retrying");
        assert!(begin.elapsed() < Duration::from_secs(3));
        thread::sleep(Duration::from_millis(3500).saturating_sub(begin.elapsed()));
        assert_eq!(fs::read_to_string(mark.path()).expect("file"), "");
    }

    #[test]
    fn a_program_left_behind_does_not_hold_up_the_answer() {
        let begin = Instant::now();
        assert_eq!(run("sleep 60 & echo answer", None).expect("an answer").stdout, "answer\n");
        let escaped = run("setsid sleep 8 & echo answer; sleep 0.1", None);
        assert!(matches!(escaped, Err(CommandError::TimedOut { .. })), "{escaped:?}");
        assert!(begin.elapsed() < Duration::from_secs(7));
    }
}
