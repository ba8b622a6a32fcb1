//! `hlas`, `hlas-p`: the job that an average group of GPUs has served least comes first, whichever GPUs served it
//! ("Heterogeneity-aware least attained service", IEEE TCC 2024). Epochs to come are not known; `hlas-p` predicts some.

mod entry;
mod gangs;
mod groups;
mod ladder;
mod parameters;
mod predict;
mod tasks;

pub(super) use self::entry::{HLAS, HLAS_P};
pub use self::gangs::Hlas;
pub use self::groups::{Groups, grouping, round_time};
pub use self::ladder::Ladder;
pub use self::parameters::{Grouping, HlasParameters};
pub use self::predict::Predictor;
pub use self::tasks::TasksOfHlas;
