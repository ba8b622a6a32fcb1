//! Mathematical programs in rows and columns, independent of jobs and GPUs.

mod cuts;
mod transport;

pub use self::cuts::{Cut, Highest, highest_under};
pub use self::transport::Transport;
