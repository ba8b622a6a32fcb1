//! The `hsched` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    hsched::commands::main()
}
