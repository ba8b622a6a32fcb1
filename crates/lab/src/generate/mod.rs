//! Random clusters, jobs and traces from a [`Recipe`] and its seed; equal recipes give equal results.

mod cluster;
mod gpu_speed;
mod hare_jobs;
mod jobs;
mod random;
mod recipe;
mod trace;

pub use self::cluster::cluster;
pub use self::gpu_speed::GpuSpeed;
pub use self::jobs::jobs;
pub use self::recipe::{Recipe, RecipeError, SyncEvery};
pub use self::trace::{ArrivalPattern, KnownJob, TraceRecipe, TraceRules, trace};
