//! All integration tests of the crate in one binary; each file in this folder is one module.

#![expect(unreachable_pub, reason = "the modules of a test binary share helpers")]
#![expect(clippy::disallowed_methods, reason = "tests run programs, wait for them and read what they wrote")]
#![expect(clippy::panic, reason = "a test that waits in vain should fail")]
#![expect(clippy::expect_used, reason = "a test that expects wrongly should fail")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod alone;
mod chains;
mod damage;
mod damage_speeds;
mod damage_together;
mod deaths;
mod early_deaths;
mod engine_copies;
mod engine_decisions;
mod engine_ends;
mod engine_excuses;
mod engine_learning;
mod engine_rules;
mod engine_scripts;
mod engine_stalls;
mod engine_troubles;
mod explored;
mod full_disk;
mod horizon;
mod micro_policies;
mod queue_changes;
mod queue_deaths;
mod queue_watch;
mod replay;
mod replay_properties;
mod replicas;
mod shared;
mod simulate;
mod slow_nodes;
mod state_before;
mod state_round_trip;
mod task_gangs;
mod task_oracle;
