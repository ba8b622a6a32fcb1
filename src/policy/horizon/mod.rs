//! `horizon`: the least mean completion time of jobs that come and go.

mod allocate;
mod market;
mod menu;
mod outlook;
mod path;
mod rehearsal;
mod task;
mod worth;
