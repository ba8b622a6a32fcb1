//! The page of `hsched` itself, with information that applies to all commands.

use clap::Command;

use super::command_page::begin;
use super::files::{page_name, subcommands};
use crate::settings::{KEYS, SITE_FILE_VARIABLE, SetBy, USER_FILE_VARIABLE};
use hsched_ui::Exit;

/// Complete example commands.
const EXAMPLE: &str = include_str!("example.sh");

/// The places of settings and state.
const FILES: [(&str, &str); 4] = [
    ("/etc/hsched/config.toml", "Settings of the site, `hsched-settings`(5)."),
    ("~/.config/hsched/config.toml", "Settings of the user."),
    (
        "hsched.toml",
        "Settings of a project, in the current directory or the nearest parent directory that has one.",
    ),
    (
        "~/.local/state/hsched",
        "State directory: the state of the jobs, a journal, measured speeds, and a directory per run with the plan, the scripts and the ranks' reports. Set `state_dir` to move it.",
    ),
];

/// Returns the page of the main command.
pub(super) fn text(main: &Command) -> String {
    let mut page = begin(main).heading("EXIT STATUS");
    for exit in Exit::ALL {
        page = page.term(&exit.code().to_string(), "", exit.meaning());
    }
    page = page.heading("FILES");
    for (path, meaning) in FILES {
        page = page.term(path, "", meaning);
    }
    page = page.heading("ENVIRONMENT").paragraph(
        "Each setting below has an environment variable, which overrides the settings files. `--set` and other flags override the variable. An empty variable counts as unset.",
    );
    for key in KEYS.iter().filter(|key| key.set_by != SetBy::Site) {
        page = page.term(&key.variable(), "", &format!("{}.", key.help));
    }
    page = page
        .term(SITE_FILE_VARIABLE, "", "Site settings file, instead of the default one.")
        .term(USER_FILE_VARIABLE, "", "Settings file of the user, instead of the default one.")
        .term("XDG_CONFIG_HOME, XDG_STATE_HOME", "", "Directories instead of ~/.config and ~/.local/state.")
        .heading("EXAMPLES")
        .paragraph("Show which GPUs there are and which are free (asks Slurm).")
        .literal("hsched inventory")
        .paragraph(
            "Without Slurm: plan jobs for a cluster described in a file, compare the policies, and print the job scripts.",
        )
        .literal(EXAMPLE);
    let commands = subcommands(main).into_iter().map(|command| (page_name(command).to_owned(), 1));
    let formats = ["hsched-jobs", "hsched-settings"].map(|page| (page.to_owned(), 5));
    let slurm = ["sbatch", "scontrol", "sinfo", "squeue"].map(|page| (page.to_owned(), 1));
    page.see_also(commands.chain(formats).chain(slurm)).finish()
}
