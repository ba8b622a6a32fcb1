//! Mathematical programs in rows and columns; knows nothing about jobs and GPUs.

mod cuts;
mod transport;

pub use self::cuts::{Cut, Highest, highest_under};
pub use self::transport::Transport;
