//! The page of one subcommand of `hsched`.

use clap::Command;

use super::files::{page_name, subcommands};
use super::page::Page;

/// Returns the page of `command`, a direct or nested subcommand of `main`.
pub(super) fn text(main: &Command, command: &Command) -> String {
    let name = page_name(command);
    let mut page = begin(command);
    if let Some(example) = command.get_after_help() {
        page = page.heading("EXAMPLES").literal(&example.to_string());
    }
    let others = subcommands(main).into_iter().map(page_name).filter(|other| *other != name);
    let pages = std::iter::once("hsched").chain(others).map(|page| (page.to_owned(), 1));
    let formats = ["hsched-jobs", "hsched-settings"].map(|page| (page.to_owned(), 5));
    page.see_also(pages.chain(formats)).finish()
}

/// Returns the first sections of a command's page: name, synopsis, description, options.
pub(super) fn begin(command: &Command) -> Page {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let description = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    let description = description.unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let page = Page::new(page_name(command), "1", &about);
    let page = page.heading("SYNOPSIS").literal(usage).heading("DESCRIPTION");
    // The first paragraph repeats the summary.
    let more = description.split_once("\n\n").map_or(description.as_str(), |(_, more)| more);
    more.split("\n\n").fold(page, Page::paragraph).options(command)
}
