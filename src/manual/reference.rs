//! The help of every command in one Markdown file.

use std::fmt::Write;

use clap::Command;

use super::files::subcommands;

/// Columns of the help: what every terminal shows.
const WIDTH: usize = 80;

/// Returns the reference of a command and all below it.
pub(super) fn text(main: &Command) -> String {
    let mut text = String::from(
        "# Command reference\n\nWhat `--help` says, for every command. Written by `hsched write-docs`, not by hand.\n",
    );
    for command in [vec![main], subcommands(main)].concat() {
        let name = command.get_bin_name().unwrap_or(command.get_name());
        let help = command.clone().term_width(WIDTH).render_long_help().to_string();
        let lines = help.lines().map(|line| line.trim_end().to_owned() + "\n");
        // Writing to memory does not fail.
        let _ = write!(text, "\n## `{name}`\n\n```text\n{}```\n", lines.collect::<String>());
    }
    text
}
