//! Learning curves: predicts the metric at the last epoch, and judges whether training until then is
//! worthwhile.
//!
//! MLF-C of "Job Scheduling for Large-Scale Machine Learning Clusters" (2020), with a prediction in closed form in
//! place of the paper's sampling. Reads no file; all logarithms and powers are `libm`'s, the same everywhere.

mod halving;
mod judge;
mod kind;
mod movement;
mod predict;

pub use self::halving::{RungRank, behind, bracket, first_rung};
pub use self::judge::{CurveVerdict, Goal, NoConclusion, StopReason, judge, judge_running};
pub use self::kind::MetricKind;
pub use self::predict::{CurvePoint, Prediction, predict, predict_at};
