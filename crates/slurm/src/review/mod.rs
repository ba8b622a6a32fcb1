//! Reviews of past requests: past runs by name, their use of the requested resources, and a better request.
//!
//! Pure: it turns runs into reviews. `accounting` reads the runs.

mod advice;
mod gpus;
mod lines;
mod name;
mod quantiles;

pub use self::advice::ENOUGH;
pub use self::name::{NameReview, Quantity, review};

#[cfg(test)]
mod tests;
