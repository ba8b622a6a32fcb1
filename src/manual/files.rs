//! All generated documents by path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::env::Shells;

use super::{command_page, environment, exit_codes, format_pages, main_page, reference};

/// Shells with the files for their completions. The completions call the program, which knows the names of
/// jobs.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "hsched.bash"),
    ("zsh", "_hsched"),
    ("fish", "hsched.fish"),
    ("elvish", "hsched.elv"),
    ("powershell", "_hsched.ps1"),
];

/// Code that zsh needs at the first completion, when it autoloads the file as the function itself.
const FIRST_OF_ZSH: &str = "[ \"$funcstack[1]\" = _hsched ] && _clap_dynamic_completer_hsched \"$@\"\n";

/// Returns the text of each document by its path relative to the target directory.
///
/// Omits commands that `--help` hides.
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
    for (shell, name) in COMPLETIONS {
        add("completions", name.into(), completion(shell));
    }
    add("docs", "cli.md".into(), reference::text(&command));
    add("docs", "exit-codes.md".into(), exit_codes::text());
    add("docs", "environment.md".into(), environment::text());
    files
}

/// Returns the script with which a shell gets completions from the program.
fn completion(shell: &str) -> String {
    let mut text = Vec::new();
    if let Some(known) = Shells::builtins().completer(shell) {
        // Writing to a buffer cannot fail.
        let _ = known.write_registration("COMPLETE", "hsched", "hsched", "hsched", &mut text);
    }
    String::from_utf8_lossy(&text).into_owned() + if shell == "zsh" { FIRST_OF_ZSH } else { "" }
}

/// Returns the name of a command's page, such as `hsched-config-show`.
pub(super) fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

/// Returns all direct and nested subcommands of a command, parents first.
pub(super) fn subcommands(command: &Command) -> Vec<&Command> {
    let with_own = |below| [vec![below], subcommands(below)].concat();
    command.get_subcommands().flat_map(with_own).collect()
}

/// Returns the command without hidden subcommands, which the pages do not describe, and without `help`, which
/// would repeat all others.
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
