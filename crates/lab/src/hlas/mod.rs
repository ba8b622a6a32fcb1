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
pub(crate) use self::gangs::Hlas;
pub(crate) use self::groups::{Groups, grouping, round_time};
pub(crate) use self::ladder::Ladder;
pub(crate) use self::parameters::{Grouping, HlasParameters};
pub(crate) use self::predict::Predictor;
pub(crate) use self::tasks::TasksOfHlas;
