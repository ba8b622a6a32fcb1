//! The `hsched` command.

fn main() {}
