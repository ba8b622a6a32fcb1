//! All integration tests in one binary; each file in this folder is one module.

#![expect(unreachable_pub, reason = "the modules of a test binary share helpers")]
#![expect(clippy::expect_used, reason = "a test that expects wrongly should fail")]

mod layers;
mod oracle;
mod planner_facts;
mod policy_properties;
mod problems;
