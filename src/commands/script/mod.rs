//! The parts of `submit`, `when` and `cancel` that handle batch scripts, with all options of `sbatch`.

pub(super) mod cancel;
mod chosen_change;
pub(super) mod pieces;
pub(super) mod request;
pub(super) mod submit;
pub(super) mod when;
mod when_json;
mod when_text;
