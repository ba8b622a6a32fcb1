//! The program: command line, settings, and the calls of a command to the crates below. The decisions are in
//! `hsched-plan`, `-queue` and `-engine`; `ARCHITECTURE.md` is the map.

#![expect(unreachable_pub, reason = "a program exports nothing: pub means beyond the module")]

use std::process::ExitCode;

use mimalloc::MiMalloc;

mod app;
mod commands;
mod manual;
mod merge;
mod settings;

/// Plans and turns over thousands of jobs allocate many small objects; with the allocator of the C library, they
/// take up to 1.8 times as long.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    commands::main()
}
