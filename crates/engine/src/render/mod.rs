//! Renders job scripts: a placed job and a template become text; undefined variables are errors.
//!
//! Decides how a placement maps to Slurm components; never talks to Slurm and reads no file.

mod batch;
mod component;
mod helper;
mod pieces;
pub(crate) mod quote;
mod script;
mod together;

pub(super) use self::batch::is_constraint;
pub use self::batch::{Batch, BatchError, RunFacts};
use self::component::components;
pub use self::component::{Component, Launcher};
pub use self::pieces::Pieces;
pub use self::script::{RenderError, Template, render};
pub use self::together::Together;
