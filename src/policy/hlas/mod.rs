//! `hlas`, `hlas-p`: the job that an average group of GPUs has served least comes first, whichever GPUs served it
//! ("Heterogeneity-aware least attained service", IEEE TCC 2024). Epochs to come are not known; `hlas-p` predicts some.

mod groups;
mod ladder;
mod predict;

pub use self::groups::{Groups, grouped};
pub use self::ladder::Ladder;
pub use self::predict::Predictor;
