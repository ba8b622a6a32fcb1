//! Learning curves: predicts the metric at the last epoch, and judges whether training until then is
//! worthwhile.
//!
//! Implements MLF-C of "Job Scheduling for Large-Scale Machine Learning Clusters" (2020), with a prediction
//! in closed form instead of the paper's sampling. All logarithms and powers are computed with `libm`, so
//! that the results are the same on all platforms.

mod halving;
mod judge;
mod kind;
mod movement;
mod predict;

pub use self::halving::{RungRank, behind, bracket, first_rung};
pub use self::judge::{CurveVerdict, Goal, NoConclusion, StopReason, judge, judge_running};
pub use self::kind::MetricKind;
pub use self::predict::{CurvePoint, Prediction, predict, predict_at};
