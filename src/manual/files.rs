//! All generated documents by path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;

use super::{command_page, environment, exit_codes, format_pages, main_page, reference};

/// Returns the text of each document by its path, relative to where they are to be written.
///
/// Commands that `--help` hides are left out.
pub fn files(command: &Command) -> BTreeMap<PathBuf, String> {
    let mut command = shown(command);
    command.build();
    let mut files = BTreeMap::new();
    let mut add = |folder: &str, name: String, text: String| {
        files.insert(Path::new(folder).join(name), text);
    };
    add("man", "hsched.1".into(), main_page::text(&command));
    for below in subcommands(&command) {
        add("man", format!("{}.1", page_name(below)), command_page::text(&command, below));
    }
    add("man", "hsched-jobs.5".into(), format_pages::jobs());
    add("man", "hsched-settings.5".into(), format_pages::settings());
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), command.get_name(), &mut text);
        let name = clap_complete::Generator::file_name(&shell, command.get_name());
        add("completions", name, String::from_utf8_lossy(&text).into_owned());
    }
    add("docs", "cli.md".into(), reference::text(&command));
    add("docs", "exit-codes.md".into(), exit_codes::text());
    add("docs", "environment.md".into(), environment::text());
    files
}

/// Returns the name of a command's page, such as `hsched-config-show`.
pub(super) fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

/// Returns all commands below one, each before those below itself.
pub(super) fn subcommands(command: &Command) -> Vec<&Command> {
    let with_own = |below| [vec![below], subcommands(below)].concat();
    command.get_subcommands().flat_map(with_own).collect()
}

/// Returns the command without its hidden subcommands, which completions would offer, and without `help`, below
/// which they would repeat all others.
fn shown(command: &Command) -> Command {
    let of_parts = Command::new("hsched")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
        .subcommand_required(command.is_subcommand_required_set())
        .arg_required_else_help(command.is_arg_required_else_help_set())
        .disable_help_subcommand(true);
    let of_parts = match (command.get_about(), command.get_long_about()) {
        (Some(about), Some(long)) => of_parts.about(about.clone()).long_about(long.clone()),
        _ => of_parts,
    };
    match command.get_after_help() {
        Some(after) => of_parts.after_help(after.clone()),
        None => of_parts,
    }
}
