//! What commands do: read their inputs, plan, submit, ask, probe and keep the state; how each is said is the commands' own.

pub(crate) mod answered;
pub(crate) mod asking;
pub(crate) mod cancelling;
pub(crate) mod context;
pub(crate) mod folders;
pub(crate) mod foretelling;
pub(crate) mod guesses;
pub(crate) mod input;
pub(crate) mod metrics;
pub(crate) mod offer;
pub(crate) mod output;
pub(crate) mod permissions;
pub(crate) mod planning;
pub(crate) mod policy_args;
pub(crate) mod probing;
pub(crate) mod queue_args;
pub(crate) mod queue_look;
pub(crate) mod requests;
pub(crate) mod rivals;
pub(crate) mod sbatch_options;
pub(crate) mod speeds;
pub(crate) mod state;
pub(crate) mod submission;
pub(crate) mod timer;
pub(crate) mod wanted;
pub(crate) mod wishes;
