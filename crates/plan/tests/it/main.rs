//! All integration tests of the crate in one binary; each file in this folder is one module.

#![expect(unreachable_pub, reason = "the modules of a test binary share helpers")]
#![expect(clippy::disallowed_methods, reason = "tests read data files and the clock")]
#![expect(clippy::panic, reason = "a test whose check fails should panic")]
#![expect(clippy::expect_used, reason = "a test whose expectation is wrong should fail")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod admission;
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
mod per_group;
mod planner_facts;
mod policy_properties;
mod replica_policies;
mod replicas;
mod throughput_names;
