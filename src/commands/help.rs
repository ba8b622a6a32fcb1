//! `hsched help`: shows the help of a command, a page of the documentation, or the explanation of an error.

use std::collections::BTreeSet;

use clap::CommandFactory;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::app::context::Context;
use crate::commands::cli::{Cli, Subcommand, print};
use crate::manual::{ERRORS, TOPICS, Topic};
use hsched_model::ErrorId;
use hsched_model::formats::nearest;
use hsched_ui::{Exit, Failure, markdown_text};

/// Show the help of a command, a page of the documentation, or what an error means
///
/// `hsched help plan` shows the help of a command, `hsched help job-file` a page, `hsched help error time-unit` what an error
/// means. `hsched help topics` lists the pages, `hsched help errors` the errors. If a command and a page have the same
/// name, `hsched help topic NAME` shows the page.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Command, page, `topics`, `errors`, `topic NAME` or `error ID`.
    #[arg(value_name = "TOPIC", add = ArgValueCandidates::new(words))]
    words: Vec<String>,
}

impl Subcommand for Args {
    fn bears_wrong_settings(&self) -> bool {
        true
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let page = match words[..] {
            ["topics"] => topics(),
            ["errors"] => errors(),
            ["error", id] => error(id)?,
            ["error"] => return Err(unnamed("error ID", "hsched help errors lists the ids")),
            ["topic"] => return Err(unnamed("topic NAME", "hsched help topics lists the names")),
            ["topic", name] => topic(name)?.to_owned(),
            [name] if !is_command(name) => topic(name)?.to_owned(),
            _ => return Ok(command(&words)),
        };
        print(context, &markdown_text(&page, context.terminal))?;
        Ok(Exit::Done)
    }
}

/// Completes commands, pages and the words that select other pages.
fn words() -> Vec<CompletionCandidate> {
    let cli = Cli::command();
    let commands = cli.get_subcommands().map(|command| command.get_name().to_owned());
    let pages = TOPICS.iter().map(|topic| topic.name.to_owned());
    let others = ["topics", "errors", "topic", "error"].map(str::to_owned);
    let all: BTreeSet<String> = commands.chain(pages).chain(others).collect();
    all.into_iter().map(CompletionCandidate::new).collect()
}

fn is_command(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

/// Prints the help of a command like its `--help`; clap reports an invalid name.
fn command(words: &[&str]) -> Exit {
    let line = ["hsched"].iter().chain(words).chain(&["--help"]);
    let Err(help) = Cli::command().try_get_matches_from(line) else { return Exit::Done };
    // A closed reader is not an error.
    let _ = help.print();
    if help.use_stderr() { Exit::Usage } else { Exit::Done }
}

/// Returns the list of pages.
fn topics() -> String {
    let rows =
        TOPICS.iter().map(|topic| format!("| `hsched help {}` | {} |\n", words_of(topic), topic.title()));
    format!("# Topics\n\n| command | page |\n|---|---|\n{}", rows.collect::<String>())
}

/// Returns the words after `hsched help` for a page.
fn words_of(topic: &Topic) -> String {
    if is_command(topic.name) || topic.name == ERRORS {
        format!("topic {}", topic.name)
    } else {
        topic.name.to_owned()
    }
}

/// Returns the page with that name.
///
/// # Errors
/// If there is none; the hint names the most similar one.
fn topic(name: &str) -> Result<&'static str, Failure> {
    let commands =
        Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect::<Vec<_>>();
    let known = TOPICS.iter().map(|topic| topic.name).chain(commands.iter().map(String::as_str));
    let found = Topic::named(name).map(|topic| topic.page);
    found.ok_or_else(|| unknown("command or topic", name, known, "hsched help topics"))
}

/// Returns the sections of the page of errors.
fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    Topic::named(ERRORS).into_iter().flat_map(Topic::sections)
}

/// Returns the list of errors, each with the first line of its explanation.
fn errors() -> String {
    let rows =
        sections().map(|(id, text)| format!("| {id} | {} |\n", text.lines().next().unwrap_or_default()));
    format!(
        "# Errors\n\n`hsched help error ID` says more about one.\n\n| id | meaning |\n|---|---|\n{}",
        rows.collect::<String>()
    )
}

/// Returns the explanation of an error.
///
/// # Errors
/// If no error has this id; the hint names the most similar one.
fn error(id: &str) -> Result<String, Failure> {
    let found = sections().find(|(candidate, _)| *candidate == id);
    let page = found.map(|(id, text)| format!("# {id}\n\n{text}\n"));
    page.ok_or_else(|| unknown("error", id, sections().map(|(id, _)| id), "hsched help errors"))
}

/// Returns the failure of a missing word.
fn unnamed(form: &str, list: &str) -> Failure {
    Failure::new(Exit::Usage, format!("write hsched help {form}")).id(ErrorId::MissingArgument).hint(list)
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>, list: &str) -> Failure {
    let failure =
        Failure::new(Exit::Usage, format!("there is no {what} {name:?}")).id(ErrorId::UnknownArgument);
    match nearest(name, known) {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure,
    }
    .hint(format!("{list} lists them"))
}
