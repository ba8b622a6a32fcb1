//! The jobs live in the terminal, as `hsched top` shows them: what is drawn, and the terminal that it is drawn on.

mod details;
mod draw;
mod rows;
mod screen;

pub use self::details::{top_details, top_gpus};
use self::draw::draw;
pub use self::rows::TopRow;
use self::rows::sparkline;
pub use self::screen::{KeyPress, TopScreen};

/// All that is to be seen.
#[derive(Clone, Debug, Default)]
pub struct TopView {
    /// Where the jobs are, and how old what is shown is.
    pub title: String,
    /// The jobs by state, and GPUs in use.
    pub summary: Vec<String>,
    pub rows: Vec<TopRow>,
    /// The row that keys are about.
    pub selected: usize,
    /// What is known of that job, line by line; the first is most important.
    pub details: Vec<String>,
    /// The metric of that job: its name, and its values from the first.
    pub curve: Option<(String, Vec<f64>)>,
    /// A question, or what came of the last key.
    pub message: Option<String>,
    /// Why the state cannot be read now: what is shown is older.
    pub problem: Option<String>,
}
