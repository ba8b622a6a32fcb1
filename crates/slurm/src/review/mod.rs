//! What jobs should have asked for: past runs by name, what they used of what they asked for, and a better request.
//!
//! Pure: runs go in, reviews come out. `accounting` reads the runs.

mod advice;
mod gpus;
mod lines;
mod name;
mod quantiles;

pub use self::advice::ENOUGH;
pub use self::name::{NameReview, Quantity, review};

#[cfg(test)]
mod tests;
