//! Reads what a batch script, a command line and the environment ask `sbatch` for, by Slurm's rules.
//!
//! Asks Slurm nothing and never guesses: what only the site or a later moment knows is named.

mod check;
mod foreign;
mod getopt;
mod gpus;
mod gres;
mod json;
mod lines;
mod moments;
mod names;
mod numbers;
mod options;
mod placeholders;
mod reading;
mod request;
mod resolve;
mod settings;
mod site;
mod source;
mod tasks;
mod words;

pub(crate) use self::getopt::named_options;
pub use self::options::{OptionSource, ScriptOption, ValueText};
pub use self::reading::read_script;
pub use self::request::{
    ArrayRequest, Exclusive, LineRemark, ResourceRequest, ScriptReading, ScriptRequest, TimeLimit,
};
pub use self::source::{ScriptSource, SlurmVersion};
