//! `hlas`, `hlas-p`: the job with the least service comes first. Service counts as time on an average group,
//! regardless of the groups that gave it ("Heterogeneity-aware least attained service", IEEE TCC 2024). The
//! number of remaining epochs is unknown; `hlas-p` predicts part of it.

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
