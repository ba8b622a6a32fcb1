//! The script that runs a user's script in pieces, as a chain of Slurm jobs.

use serde_json::json;

use crate::render::script::{functions_of_batch, text};
use crate::render::{RenderError, Template};
use hsched_model::Seconds;

/// Values for the script that runs another script in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces<'a> {
    /// The script's name, which is the job name unless an option sets one.
    pub name: &'a str,
    /// Unique id of the chain.
    pub run: &'a str,
    /// The comment lines at the beginning of the script, with its options for `sbatch`.
    pub header: &'a str,
    /// `sbatch` options that override those of the header, as words without line breaks.
    pub options: Vec<Vec<String>>,
    /// Absolute paths of this script, of the copy of the original and of the chain's files.
    pub wrapper: &'a str,
    pub script: &'a str,
    pub report_dir: &'a str,
    /// Time limit of a piece in seconds, and the part of it reserved for saving.
    pub limit_s: u64,
    pub grace_s: u64,
    /// The signal that makes the script save, without `SIG`; empty if it is detected from its processes.
    pub signal: &'a str,
    /// Number of consecutive pieces that may fail.
    pub retries: u32,
    /// Whether the script depends on other jobs.
    pub depends: bool,
    /// Glob patterns of files that show that the script has saved.
    pub patterns: &'a [String],
}

impl Pieces<'_> {
    /// Returns the options for each piece with this limit; they override those of the script.
    pub fn options(limit: Seconds, grace: Seconds) -> Vec<String> {
        let minutes = (limit.0 / 60.0).ceil();
        let signal = format!("--signal=B:USR1@{:.0}", grace.0);
        // A requeued job would keep its time limit and run beside the next piece.
        vec![format!("--time={minutes:.0}"), signal, "--no-requeue".to_owned()]
    }

    /// Returns the text of the script, including the functions of job scripts.
    ///
    /// # Errors
    /// Never for the built-in template.
    pub fn render(&self, template: &Template) -> Result<String, RenderError> {
        let Template { rank_functions, fence_functions, .. } = template;
        let pieces = include_str!("../../../../templates/pieces.sh");
        let functions = [rank_functions, fence_functions, &functions_of_batch(template), pieces].join("\n");
        let context = json!({
            "name": self.name, "run": self.run, "header": self.header, "options": self.options,
            "wrapper": self.wrapper, "script": self.script, "report_dir": self.report_dir,
            "limit_s": self.limit_s, "grace_s": self.grace_s, "signal": self.signal,
            "retries": self.retries, "depends": u8::from(self.depends), "patterns": self.patterns,
            "functions": functions,
        });
        text("pieces.sh.j2", include_str!("../../../../templates/pieces.sh.j2"), context)
    }
}
