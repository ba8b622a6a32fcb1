//! Policies that give each job its requested number of GPUs, of one type: in the order of arrival, of
//! attained service, or of remaining time.

mod fifo;
mod las;
mod shortest;

pub(super) use self::fifo::{FIFO, FIFO_BY_NAME, FIFO_HET, YARN_CS};
pub(super) use self::las::LAS;
pub(super) use self::shortest::{SRSF, SRTF};
