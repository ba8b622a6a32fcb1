//! The page of `hsched` itself: what holds for all commands.

use clap::Command;

use super::command_page::begin;
use super::files::{page_name, subcommands};
use crate::exit::Exit;
use crate::settings::{KEYS, SITE_FILE_VARIABLE, USER_FILE_VARIABLE};

/// Commands that run as they stand.
const EXAMPLE: &str = include_str!("example.sh");

/// Where settings and state are.
const FILES: [(&str, &str); 4] = [
    ("/etc/hsched/config.toml", "Settings of the site, `hsched-settings`(5)."),
    ("~/.config/hsched/config.toml", "Settings of the user."),
    ("hsched.toml", "Settings of a project, in the current directory or the nearest one above it."),
    (
        "~/.local/state/hsched",
        "The state of the jobs, a journal, and a folder per run: the plan, the scripts, the ranks' reports. The setting \
         `state_dir` moves it.",
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
        "Each setting has a variable. It wins over files; `--set` and other flags win over it. One that is empty \
         counts as not there.",
    );
    for key in &KEYS {
        page = page.term(&key.variable(), "", &format!("{}.", key.help));
    }
    page = page
        .term(SITE_FILE_VARIABLE, "", "File of the site's settings instead of the usual one.")
        .term(USER_FILE_VARIABLE, "", "File of the user's settings instead of the usual one.")
        .term("XDG_CONFIG_HOME, XDG_STATE_HOME", "", "Instead of ~/.config and ~/.local/state.")
        .heading("EXAMPLES")
        .paragraph("What is there, and what is free? (Asks Slurm.)")
        .literal("hsched inventory")
        .paragraph(
            "Without Slurm: plan a job over a cluster described in a file, see what each policy makes of it, and \
             print the job script.",
        )
        .literal(EXAMPLE);
    let commands = subcommands(main).into_iter().map(|command| (page_name(command).to_owned(), 1));
    let formats = ["hsched-jobs", "hsched-settings"].map(|page| (page.to_owned(), 5));
    let slurm = ["sbatch", "scontrol", "sinfo", "squeue"].map(|page| (page.to_owned(), 1));
    page.see_also(commands.chain(formats).chain(slurm)).finish()
}
