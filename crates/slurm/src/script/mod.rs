//! Reads the request that a batch script, a command line and the environment make to `sbatch`, by Slurm's
//! rules.
//!
//! Never asks Slurm and never guesses: values known only to the site or only later are listed.

mod check;
mod foreign;
mod getopt;
mod gpus;
mod gres;
mod gres_form;
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
pub use self::getopt::option_letters;
pub use self::gres_form::gpu_form;
pub use self::options::{OptionSource, ScriptOption, ValueText};
pub use self::reading::read_script;
pub use self::request::{
    ArrayRequest, Exclusive, GpuShare, LineRemark, OtherResource, ResourceRequest, ScriptReading,
    ScriptRequest, TimeLimit,
};
pub use self::source::{ScriptSource, SlurmVersion};
