//! Mathematical programs in rows and columns; knows no jobs and no GPUs.

mod cuts;
mod transport;

pub use self::cuts::{Cut, highest_under};
pub use self::transport::Transport;
