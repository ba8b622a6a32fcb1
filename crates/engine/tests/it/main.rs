//! All integration tests of the crate in one binary; each file in this folder is one module.

#![expect(clippy::expect_used, reason = "a test that expects wrongly should fail")]
#![expect(clippy::panic, reason = "a test that finds no mistake should fail")]

mod pool;
mod speed_cache;
