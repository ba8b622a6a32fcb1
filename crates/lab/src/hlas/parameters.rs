//! User-defined parameters of `hlas` and `hlas-p`.

/// User-defined parameters of `hlas` and `hlas-p`, which differ in `predicts`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HlasParameters {
    /// Whether to use predicted epochs.
    pub predicts: bool,
    pub grouping: Grouping,
    /// Ascending service thresholds between levels, in seconds of an average group; `None` for the defaults.
    pub thresholds: Option<Vec<f64>>,
    /// A job that has waited longer than this multiple of its service since its last round goes to the first
    /// level; `None` if waiting never promotes a job.
    pub promote: Option<f64>,
    /// Whether a job of the first level keeps idle GPUs until they suffice for its minimum. The GPUs would be
    /// idle for too long if jobs were not stopped at the ends of their turns.
    pub keeps_gpus: bool,
}

/// Which GPUs are assigned together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Each GPU alone.
    #[default]
    Gpus,
    /// All GPUs of a node.
    Nodes,
    /// A number of groups that are as equal as possible.
    Number(usize),
}

impl HlasParameters {
    /// Returns the name of the policy on the command line.
    pub(crate) fn name(&self) -> &'static str {
        if self.predicts { "hlas-p" } else { "hlas" }
    }
}
