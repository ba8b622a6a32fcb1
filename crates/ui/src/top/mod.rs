//! The live display of `hsched top`: its content and its terminal.

mod details;
mod draw;
mod rows;
mod screen;

pub use self::details::{top_details, top_gpus};
use self::draw::draw;
pub use self::rows::TopRow;
use self::rows::sparkline;
pub use self::screen::{KeyPress, TopScreen};

/// The displayed data.
#[derive(Clone, Debug, Default)]
pub struct TopView {
    /// The cluster, the time, and the age of the data.
    pub title: String,
    /// The number of jobs by state, the GPUs in use, and a warning or note on the state.
    pub summary: Vec<String>,
    pub rows: Vec<TopRow>,
    /// The selected row.
    pub selected: usize,
    /// The details of that job, line by line, the most important first.
    pub details: Vec<String>,
    /// The metric of that job: its name and all values.
    pub curve: Option<(String, Vec<f64>)>,
    /// A question, or the result of the last key.
    pub message: Option<String>,
    /// Why the state cannot be read at the moment; older data is shown.
    pub problem: Option<String>,
}
