//! The script that runs a script of somebody else in pieces, as a chain of Slurm jobs.

use serde_json::json;

use crate::render::script::text;
use crate::render::{RenderError, Template};
use hsched_model::Seconds;

/// What runs a script in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces<'a> {
    /// The script's name, which is the job's unless an option says otherwise.
    pub name: &'a str,
    /// Unique id of the chain.
    pub run: &'a str,
    /// The comment lines at the beginning of the script, with its options for `sbatch`.
    pub header: &'a str,
    /// Options of `sbatch` that win over those of the header: words of one line each.
    pub options: Vec<Vec<String>>,
    /// Where this script, the copy of the original and the chain's files are, absolute.
    pub wrapper: &'a str,
    pub script: &'a str,
    pub report_dir: &'a str,
    /// Time limit of a piece in seconds, and the part of it in which the script may save.
    pub limit_s: u64,
    pub grace_s: u64,
    /// The signal on which the script saves, without `SIG`; empty where its processes show it.
    pub signal: &'a str,
    /// Pieces in a row that may fail.
    pub retries: u32,
    /// Whether the script depends on other jobs.
    pub depends: bool,
    /// Files that show that it has saved.
    pub patterns: &'a [String],
}

impl Pieces<'_> {
    /// Returns the options that hold for each piece of a limit: they win over those of the script.
    pub fn options(limit: Seconds, grace: Seconds) -> Vec<String> {
        let minutes = (limit.0 / 60.0).ceil();
        let signal = format!("--signal=B:USR1@{:.0}", grace.0);
        // A requeued job would keep its time limit and run beside the next piece.
        vec![format!("--time={minutes:.0}"), signal, "--no-requeue".to_owned()]
    }

    /// Returns the text of the script, with the functions of job scripts.
    ///
    /// # Errors
    /// Never for the template that comes with hsched.
    pub fn render(&self, template: &Template) -> Result<String, RenderError> {
        let Template { rank_functions, fence_functions, batch_functions, end_functions, .. } = template;
        let pieces = include_str!("../../../../templates/pieces.sh");
        let functions = [rank_functions, fence_functions, batch_functions, end_functions, pieces].join("\n");
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
