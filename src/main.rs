//! The program: command line, settings, and what a command asks of the crates below. The decisions are in
//! `hsched-plan`, `-queue` and `-engine`; `ARCHITECTURE.md` is the map.

#![expect(unreachable_pub, reason = "a program exports nothing: pub means beyond the module")]

use std::process::ExitCode;

mod app;
mod commands;
mod manual;
mod merge;
mod settings;

fn main() -> ExitCode {
    commands::main()
}
