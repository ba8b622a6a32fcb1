//! All integration tests of the crate in one binary; each file in this folder is one module.

#![expect(clippy::disallowed_methods, reason = "tests run programs, wait for them and read what they wrote")]
#![expect(clippy::panic, reason = "a test that waits in vain should fail")]
#![expect(clippy::expect_used, reason = "a test that expects wrongly should fail")]

mod recorded_scripts;
mod recorded_versions;
mod review_year;
mod script_changes;
mod script_values;
mod site_calls;
