//! The policies by name: the only place that knows them all.

use crate::policy::Policy;
use crate::policy::exhaustive::Exhaustive;
use crate::policy::has::Has;
use crate::policy::jps::Jps;
use crate::policy::optimal::Optimal;
use crate::policy::optimus::Optimus;

/// What users may tune, whichever policy they choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Where JPS's range begins, as a fraction of all categories, in [0, 1].
    pub alpha: f64,
    /// Weight of speed against fairness in JPS's choice, in [0, 1].
    pub beta: f64,
    /// How many categories JPS draws, at least 1.
    pub samples: u32,
    /// Whether `optimal` must use every GPU that the jobs can use.
    pub use_all: bool,
}

impl Default for Parameters {
    /// The paper's values.
    fn default() -> Self {
        Self { alpha: 0.7, beta: 1.0, samples: 60, use_all: false }
    }
}

/// Returns the policy of that name.
#[must_use]
pub fn find(name: &str, parameters: Parameters) -> Option<Box<dyn Policy>> {
    all(parameters).into_iter().find(|policy| policy.name() == name)
}

/// Returns the names of all policies, the default first.
#[must_use]
pub fn names() -> Vec<&'static str> {
    all(Parameters::default()).iter().map(|policy| policy.name()).collect()
}

fn all(parameters: Parameters) -> Vec<Box<dyn Policy>> {
    vec![
        Box::new(Optimal { use_all: parameters.use_all }),
        Box::new(Jps::new(parameters)),
        Box::new(Has),
        Box::new(Optimus::PLAIN),
        Box::new(Optimus::LOAD_BALANCED),
        Box::new(Exhaustive),
    ]
}
