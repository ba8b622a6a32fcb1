//! The pages of the files that users write: job files and settings.

use super::page::Page;
use crate::settings::{KEYS, SetBy};
use hsched_model::formats::job_keys;

/// A complete job file for the end of the page.
const EXAMPLE_JOBS: &str = include_str!("../../examples/jobs.yaml");

const EXAMPLE_SETTINGS: &str = "\
account = \"def-me\"
node_setup = [\"module load cuda\", \"source ~/venv/bin/activate\"]
memory_per_gpu = \"16GiB\"
network_gbps = 25

[capacity]
v100 = 8
t4 = 4";

/// Returns the page of job files.
pub(super) fn jobs() -> String {
    let mut page = Page::new("hsched-jobs", "5", "job files of hsched")
        .heading("DESCRIPTION")
        .paragraph(
            "A job file is YAML: a map with the key `jobs`, a list of maps with the keys below. An optional key `sweep` beside `jobs` applies to all jobs. hsched ignores keys beside `jobs` that begin with `x-`: use them for anchors. Other unknown keys are errors. hsched reports all errors of a file at once, each with its line. \
             `hsched plan` and `hsched submit` read it.",
        )
        .paragraph(
            "Sizes need a unit: MB is 10^6 bytes, MiB is 2^20. Durations are 90s, 2m or 12h, or 1-00:00:00 as in Slurm.",
        );
    for (heading, required) in [("REQUIRED KEYS", true), ("OPTIONAL KEYS", false)] {
        page = page.heading(heading);
        for key in job_keys().filter(|key| key.is_required() == required) {
            page = page.term(key.name, &form(&key.form(), key.default), &key.help());
        }
    }
    page = page.heading("EXAMPLES").literal(EXAMPLE_JOBS);
    page.see_also([("hsched".into(), 1), ("hsched-plan".into(), 1), ("hsched-settings".into(), 5)]).finish()
}

/// Returns the page of settings files.
pub(super) fn settings() -> String {
    let mut page = Page::new("hsched-settings", "5", "settings of hsched")
        .heading("DESCRIPTION")
        .paragraph(
            "Settings are keys of TOML files, environment variables and flags. Later sources override earlier ones: built-in defaults, the \
             site's file `/etc/hsched/config.toml`, the user's file `~/.config/hsched/config.toml`, the project's \
             file `hsched.toml` in the current directory or the nearest parent directory that has one, environment variables such as `HSCHED_ACCOUNT`, flags such as `--set account=def-me`. Tables are merged by entry. If `hsched-jobs`(5) has the same key, the value in the job overrides the setting; lists of shell lines and of options are combined, with the settings first.",
        )
        .paragraph("`hsched config show` lists every setting, its value and its source.")
        .paragraph(
            "With `--set`, write one entry of a table as `--set capacity.v100=8`; in an environment variable, write the whole table as `HSCHED_CAPACITY=v100=8,t4=4`.",
        )
        .heading("KEYS");
    for key in &KEYS {
        let project = match key.set_by {
            SetBy::All => "",
            SetBy::NoProject => " A project file must not set it.",
            SetBy::Site => " Only the site's file may set it.",
        };
        page = page.term(key.name, &form(key.form, key.default), &format!("{}.{project}", key.help));
    }
    page = page.heading("EXAMPLES").literal(EXAMPLE_SETTINGS);
    page.see_also([("hsched".into(), 1), ("hsched-config-show".into(), 1), ("hsched-jobs".into(), 5)])
        .finish()
}

fn form(form: &str, default: &str) -> String {
    if default.is_empty() { form.to_owned() } else { format!("{form}, default {default}") }
}
