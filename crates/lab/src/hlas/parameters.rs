//! What users may tune of `hlas` and `hlas-p`.

/// What users may tune of `hlas` and `hlas-p`; they differ by `predicts`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HlasParameters {
    /// Whether predicted epochs count.
    pub predicts: bool,
    pub grouping: Grouping,
    /// Service in seconds of an average group, rising, at which a job goes one level down; `None` for the usual ones.
    pub thresholds: Option<Vec<f64>>,
    /// A job that has waited for so many times its service since its last round goes to the first level.
    pub promote: Option<f64>,
}

/// Which GPUs are given out together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Each alone.
    #[default]
    Gpus,
    /// Those of a node.
    Nodes,
    /// So many groups, as equal as possible.
    Number(usize),
}

impl HlasParameters {
    /// Returns the name of the policy on the command line.
    pub(crate) fn name(&self) -> &'static str {
        if self.predicts { "hlas-p" } else { "hlas" }
    }
}
