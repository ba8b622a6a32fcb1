//! All integration tests of the crate in one binary; each file in this folder is one module.

#![expect(clippy::panic, reason = "a test whose check fails should panic")]
#![expect(clippy::expect_used, reason = "a test whose expectation is wrong should fail")]

mod learnt_site;
mod queue_changes;
mod queue_limits;
mod queue_options;
mod queue_oracle;
mod queue_passes;
mod queue_shares;
mod why;
mod why_queues;
