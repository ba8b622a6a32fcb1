//! Man pages, shell completions and the command reference as texts, derived from the definition of the
//! command line and the tables of settings, job keys and exit codes; and the pages of `docs` that `hsched
//! help` shows. This module keeps no lists of commands or keys, and the texts do not depend on the terminal,
//! the date or the environment.

mod command_page;
mod environment;
mod exit_codes;
mod files;
mod format_pages;
mod main_page;
mod page;
mod reference;
mod topics;

pub use self::files::files;
pub use self::topics::{ERRORS, TOPICS, Topic};
