//! All integration tests of the crate in one binary; each file in this folder is one module.

#![expect(unreachable_pub, reason = "the modules of a test binary share helpers")]
#![expect(clippy::disallowed_methods, reason = "tests run programs, wait for them and read what they wrote")]
#![expect(clippy::panic, reason = "a test that waits in vain should fail")]
#![expect(clippy::expect_used, reason = "a test that expects wrongly should fail")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod certificate;
mod cold_start;
mod cuts;
mod explain;
mod many_jobs;
mod offered;
mod optimal;
mod oracle;
mod oracle_checks;
mod oracle_milp;
mod oracle_pool;
mod pareto;
mod planner_facts;
mod policy_properties;
mod replica_policies;
mod replicas;
mod throughput_names;
