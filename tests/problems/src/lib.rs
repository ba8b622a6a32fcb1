//! Problems of the planner, and independently computed costs of their bundles, for the tests of several
//! crates.

#![expect(clippy::expect_used, reason = "a test that expects wrongly should fail")]
#![expect(clippy::missing_panics_doc, reason = "for tests alone")]

pub mod bundle_cost;
pub mod problems;

use hsched_plan::{POLICIES, Parameters, Policy, Registry, RegistryError};

/// Returns the policies of the planner.
pub fn registry() -> Registry {
    Registry::new(POLICIES)
}

/// Returns the planner's policy of that name.
///
/// # Errors
/// If there is none.
pub fn find(name: &str, parameters: &Parameters) -> Result<Box<dyn Policy>, RegistryError> {
    registry().find(name, parameters)
}
