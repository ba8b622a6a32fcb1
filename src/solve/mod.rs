//! Mathematical programs in rows and columns; knows no jobs and no GPUs.

mod transport;

pub use self::transport::Transport;
