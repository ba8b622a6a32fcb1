//! The command line as typed, and the one place where a failure becomes an exit code.

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::Str;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches, Parser};
use clap_complete::CompleteEnv;

use crate::app::completions;
use crate::app::context::Context;
use crate::commands::{
    add, ask, cache, cancel, check_ddp, config, consolidate, curve, demo, doctor, generate, gpus, guard,
    help, history, idle_flags, import, init, inventory, logs, plan, probe, report, results, review, run,
    simulate, status, submit, tell, top, trace, train_policy, watch, when, why, write_docs,
};
use crate::settings::CommandLineSetting;
use hsched_engine::live::on_interrupt;
use hsched_model::ErrorId;
use hsched_model::formats::ValueError;
use hsched_ui::{Exit, Failure, ProgressLine, Terminal, TerminalKind};

/// Schedule deep-learning jobs on Slurm clusters with mixed GPU types.
///
/// Typical use: `hsched init` once, `hsched inventory` to see the GPUs, `hsched plan jobs.yaml` to see which job gets
/// which GPUs, `hsched submit jobs.yaml` to run the jobs, and `hsched watch` to follow them.
#[derive(Debug, Parser)]
#[command(version = env!("HSCHED_VERSION"), max_term_width = 100, after_help = exit_codes(), disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: CliCommand,
    /// Override a setting for this command; may be given several times (`hsched config show` lists them).
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", add = completions::settings())]
    settings: Vec<String>,
}

#[derive(Debug, clap::Subcommand)]
enum CliCommand {
    Inventory(inventory::Args),
    Plan(plan::Args),
    When(when::Args),
    Why(why::Args),
    Run(run::Args),
    Submit(submit::Args),
    Add(add::Args),
    Ask(ask::Args),
    Tell(tell::Args),
    Watch(watch::Args),
    Probe(probe::Args),
    Status(status::Args),
    Top(top::Args),
    Results(results::Args),
    History(history::Args),
    Logs(logs::Args),
    Cancel(cancel::Args),
    Review(review::Args),
    Report(report::Args),
    Curve(curve::Args),
    Gpus(gpus::Args),
    Cache(cache::Args),
    Config(config::Args),
    Doctor(doctor::Args),
    Init(init::Args),
    Import(import::Args),
    Generate(generate::Args),
    Demo(demo::Args),
    Simulate(simulate::Args),
    Trace(trace::Args),
    TrainPolicy(train_policy::Args),
    CheckDdp(check_ddp::Args),
    Consolidate(consolidate::Args),
    Help(help::Args),
    #[command(hide = true)]
    WriteDocs(write_docs::Args),
    #[command(hide = true)]
    Guard(guard::Args),
}

/// A subcommand with its arguments as typed.
pub(super) trait Subcommand {
    /// Returns whether the output is JSON, in which case errors are also printed as JSON.
    fn wants_json(&self) -> bool {
        false
    }

    /// Returns the settings given by the command's own flags.
    fn flags(&self) -> Vec<CommandLineSetting> {
        Vec::new()
    }

    /// Returns whether the command runs with the valid settings if others are invalid.
    fn bears_wrong_settings(&self) -> bool {
        false
    }

    /// Runs the command.
    fn run(&self, context: &Context) -> Result<Exit, Failure>;
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // A shell's request for completions is answered here, and the process ends.
    CompleteEnv::with_factory(Cli::command).complete();
    let mut command = with_negative_values(Cli::command());
    let read = command.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        Ok((cli, idle_flags::sentences(&command, &matches)))
    });
    let (cli, remarks) = match read {
        Ok(read) => read,
        Err(error) => return refuse(error),
    };
    if let CliCommand::Guard(args) = &cli.command {
        // No settings and no signal handlers: the guard must start at once and stay.
        return args.guard();
    }
    let json = cli.command.typed().wants_json();
    // A panic is an internal error with a separate exit code; the hook has printed its position.
    let result = std::panic::catch_unwind(|| cli.run(&remarks)).unwrap_or_else(|_| {
        let message = "internal error: this is a bug in hsched";
        Err(Failure::new(Exit::Internal, message).hint("please report it, with the command and its input"))
    });
    match result {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            Terminal::new(Some(false), TerminalKind::default()).fail(&failure, json);
            ExitCode::from(failure.exit.code())
        }
    }
}

/// Returns a command whose options accept values that begin with a minus, so that the message about such a
/// value is that of the option.
fn with_negative_values(command: Command) -> Command {
    let accept = |argument: Arg| {
        let is_option = argument.get_long().is_some() && argument.get_action().takes_values();
        let of_time = |name: &Str| matches!(name.as_str(), "TIME" | "DURATION");
        match argument.get_value_names() {
            Some(names) if is_option && names.iter().any(of_time) => argument.allow_hyphen_values(true),
            _ if is_option => argument.allow_negative_numbers(true),
            _ => argument,
        }
    };
    command.mut_args(accept).mut_subcommands(with_negative_values)
}

/// Prints the errors of the command line, or the requested help.
fn refuse(mut error: clap::Error) -> ExitCode {
    let instead = instead_of_file(&error);
    if error.use_stderr() && asks_for_json() {
        let text = error.render().to_string();
        let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        let failure = Failure::new(Exit::Usage, message.split_whitespace().collect::<Vec<_>>().join(" "));
        let failure =
            failure.id(refused_kind(&error)).hint(instead.unwrap_or_else(|| "see --help".to_owned()));
        Terminal::new(Some(false), TerminalKind::default()).fail(&failure, true);
        return ExitCode::from(Exit::Usage.code());
    }
    if let Some(instead) = instead {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![instead.into()]));
    }
    // clap decides between help on stdout and an error on stderr.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { Exit::Usage } else { Exit::Done }.code())
}

/// Returns how to add the jobs of a file that was given to `watch`, which accepts none.
fn instead_of_file(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_watch = std::env::args_os().nth(1).is_some_and(|command| command == "watch");
    let is_file = error.kind() == ErrorKind::UnknownArgument && !argument.starts_with('-');
    let file = shell_words::quote(argument);
    (is_watch && is_file).then(|| format!("watch follows the jobs that were added: hsched add {file}"))
}

/// Returns the kind of error in a command line: that of the value, if a value is invalid.
fn refused_kind(error: &clap::Error) -> ErrorId {
    let value = error.source().and_then(|source| source.downcast_ref::<ValueError>());
    match (value, error.kind()) {
        (Some(value), _) => value.id,
        (None, ErrorKind::InvalidValue) => ErrorId::UnknownWord,
        (None, ErrorKind::ValueValidation) => ErrorId::Value,
        (None, ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand) => ErrorId::UnknownArgument,
        (None, ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand) => ErrorId::MissingArgument,
        (None, ErrorKind::ArgumentConflict) => ErrorId::OptionsConflict,
        (None, _) => ErrorId::Usage,
    }
}

/// Returns whether an invalid command line requests JSON.
fn asks_for_json() -> bool {
    let arguments: Vec<OsString> = std::env::args_os().take_while(|argument| argument != "--").collect();
    let apart = arguments.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json");
    apart || arguments.iter().any(|argument| argument == "--format=json")
}

/// Ends the process.
#[expect(clippy::disallowed_methods, reason = "the main thread is at work and cannot return")]
fn interrupted() {
    ProgressLine::clear();
    std::process::exit(i32::from(Exit::Interrupted.code()));
}

impl Cli {
    /// Runs the command; `remarks` are notes about the command line.
    fn run(self, remarks: &[String]) -> Result<Exit, Failure> {
        on_interrupt(interrupted).map_err(|error| Failure::from_error(Exit::Failed, &error))?;
        let flags =
            self.settings.iter().map(|text| CommandLineSetting::set(text)).collect::<Result<Vec<_>, _>>();
        let flags = flags.map_err(|error| Failure::from_error(Exit::Usage, &error).id(error.id))?;
        let command = self.command.typed();
        let flags = flags.into_iter().chain(command.flags()).collect();
        let context = Context::new(flags, command.bears_wrong_settings())?;
        for remark in remarks {
            context.note(remark);
        }
        command.run(&context)
    }
}

impl CliCommand {
    fn typed(&self) -> &dyn Subcommand {
        match self {
            Self::Inventory(args) => args,
            Self::Plan(args) => args,
            Self::When(args) => args,
            Self::Why(args) => args,
            Self::Run(args) => args,
            Self::Submit(args) => args,
            Self::Add(args) => args,
            Self::Ask(args) => args,
            Self::Tell(args) => args,
            Self::Watch(args) => args,
            Self::Probe(args) => args,
            Self::Status(args) => args,
            Self::Top(args) => args,
            Self::Results(args) => args,
            Self::History(args) => args,
            Self::Logs(args) => args,
            Self::Cancel(args) => args,
            Self::Review(args) => args,
            Self::Report(args) => args,
            Self::Curve(args) => args,
            Self::Gpus(args) => args,
            Self::Cache(args) => args,
            Self::Config(args) => args,
            Self::Doctor(args) => args,
            Self::Init(args) => args,
            Self::Import(args) => args,
            Self::Generate(args) => args,
            Self::Demo(args) => args,
            Self::Simulate(args) => args,
            Self::Trace(args) => args,
            Self::TrainPolicy(args) => args,
            Self::CheckDdp(args) => args,
            Self::Consolidate(args) => args,
            Self::Help(args) => args,
            Self::WriteDocs(args) => args,
            Self::Guard(args) => args,
        }
    }
}

/// Runs another command line of hsched in this process, like `hsched WORDS…`, but with the settings of
/// `context`: flags that change settings have no effect.
///
/// # Errors
/// The errors of that command line, including those of its parsing.
pub(super) fn run_words(context: &Context, words: &[&str]) -> Result<Exit, Failure> {
    let cli = Cli::try_parse_from(["hsched"].iter().chain(words));
    let cli = cli.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    cli.command.typed().run(context)
}

/// Returns the exit codes in one line, which clap wraps at the terminal's width.
fn exit_codes() -> String {
    let codes = Exit::ALL.map(|exit| format!("{} {}", exit.code(), exit.meaning()));
    format!("Exit codes: {}. `hsched help topics` lists the pages of the documentation.", codes.join(", "))
}

/// Prints data; a closed reader is not an error.
///
/// # Errors
/// If writing to stdout fails for another reason, such as a full disk.
pub(super) fn print(context: &Context, text: &str) -> Result<(), Failure> {
    match context.terminal.print(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, format!("cannot write to stdout: {error}"))
                .id(ErrorId::FileUnwritable))
        }
        _ => Ok(()),
    }
}

/// Returns a JSON value as text with a line end.
///
/// # Errors
/// Never for values created here; otherwise an internal error.
pub(super) fn json_text(value: &serde_json::Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|error| Failure::from_error(Exit::Internal, &error))
}
