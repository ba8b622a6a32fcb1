//! The policies by name: the only place that knows them all.

use std::sync::Arc;

use crate::policy::exhaustive::Exhaustive;
use crate::policy::fixed;
use crate::policy::has::Has;
use crate::policy::jps::Jps;
use crate::policy::optimal::Optimal;
use crate::policy::optimus::Optimus;
use crate::policy::resets::Resets;
use crate::policy::rest::Rest;
use crate::policy::{
    Alone, Chooser, Hadar, HadarParameters, Hare, Hlas, HlasParameters, Horizon, HorizonParameters, MlfRl,
    Net, Placer, Policy, Repacking, Replan, Replanning, Shared,
};

/// What users may tune.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    pub jps: JpsParameters,
    pub optimal: OptimalParameters,
    /// Of every policy where it decides for a cluster that strangers use, too.
    pub replanning: Replanning,
    /// Of the policies that [`find_over_time`] knows, as far as they move running jobs.
    pub repacking: Repacking,
    /// Of `hlas` and `hlas-p`.
    pub hlas: HlasParameters,
    pub hadar: HadarParameters,
    /// The net of `mlf-rl`; without one there is no such policy.
    pub net: Option<Arc<Net>>,
    /// Of the policies that [`find_over_time`] knows.
    pub carrying: Carrying,
}

/// How what a policy over time decides becomes true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrying {
    /// At once, as in a replay.
    #[default]
    AtOnce,
    /// When those who make room have saved, on GPUs that nobody else takes meanwhile, as in `run`.
    Alone,
    /// Through the queue of a cluster where strangers may take what is given back, as in `watch`.
    Shared,
}

/// The policies over time that [`find`] knows.
const WATCHED: [&str; 7] = ["horizon", "hare", "hlas", "hlas-p", "hadar", "mlf-h", MLF_RL];

/// The policy that there is with a net alone.
pub const MLF_RL: &str = "mlf-rl";

/// What users may tune of `jps`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JpsParameters {
    /// Where its range begins, as a fraction of all categories, in [0, 1].
    pub alpha: f64,
    /// Weight of speed against fairness in its choice, in [0, 1].
    pub beta: f64,
    /// How many categories it draws, at least 1.
    pub samples: u32,
}

/// What users may tune of `optimal`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OptimalParameters {
    /// Whether it must use every GPU that the jobs can use.
    pub use_all: bool,
}

impl Default for JpsParameters {
    /// The paper's values.
    fn default() -> Self {
        Self { alpha: 0.7, beta: 1.0, samples: 60 }
    }
}

/// Returns the policy of that name for a cluster that strangers use, too.
#[must_use]
pub fn find(name: &str, parameters: Parameters) -> Option<Box<dyn Policy>> {
    if WATCHED.contains(&name) {
        return find_over_time(name, Parameters { carrying: Carrying::Shared, ..parameters });
    }
    let replanning = parameters.replanning;
    Some(Box::new(Replan::new(placer(name, parameters)?, replanning)))
}

/// Returns the policy of that name as `simulate` runs it: one that decides over time, or a placer that places all jobs anew
/// whenever one comes or goes.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "callers make them in place")]
pub fn find_over_time(name: &str, parameters: Parameters) -> Option<Box<dyn Policy>> {
    over_time(&parameters).into_iter().find(|policy| policy.name() == name)
}

/// Returns the names of all policies that [`find_over_time`] knows without a net.
#[must_use]
pub fn names_over_time() -> Vec<&'static str> {
    over_time(&Parameters::default()).iter().map(|policy| policy.name()).collect()
}

/// Returns the placer of that name.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "callers make them in place")]
pub fn placer(name: &str, parameters: Parameters) -> Option<Box<dyn Placer>> {
    placers(&parameters).into_iter().find(|placer| placer.name() == name)
}

/// Returns the names of all policies, the default first.
#[must_use]
pub fn names() -> Vec<&'static str> {
    placers(&Parameters::default()).iter().map(|placer| placer.name()).collect()
}

/// Returns the names of all policies that [`find`] knows: those that place jobs at one moment, and some over time.
#[must_use]
pub fn names_watched() -> Vec<&'static str> {
    names().into_iter().chain(WATCHED).collect()
}

fn over_time(parameters: &Parameters) -> Vec<Box<dyn Policy>> {
    let &Parameters { replanning, repacking, hadar, carrying, .. } = parameters;
    let preempts = carrying != Carrying::Shared;
    let horizon = Horizon::new(HorizonParameters { preempts, repacking });
    let hlas = |predicts: bool| Box::new(Hlas::new(HlasParameters { predicts, ..parameters.hlas.clone() }));
    let hadar = Box::new(Hadar::new(hadar));
    let free: [Box<dyn Policy>; 5] =
        [Box::new(horizon), Box::<Hare>::default(), hlas(false), hlas(true), hadar];
    let net = parameters.net.clone();
    let learnt = net.map(|net| Box::new(MlfRl::new(Chooser::Likeliest(net), false)) as Box<dyn Policy>);
    let own = free.into_iter().chain(fixed::policies(repacking)).chain(learnt);
    let placers = placers(parameters).into_iter();
    let resets = |placer| Box::new(Resets::new(placer, repacking)) as Box<dyn Policy>;
    match carrying {
        Carrying::AtOnce => own.chain(placers.map(resets)).collect(),
        Carrying::Alone => {
            let alone = |policy| Box::new(Alone::new(policy)) as Box<dyn Policy>;
            own.chain(placers.map(resets)).map(alone).collect()
        }
        Carrying::Shared => {
            let own = own.map(|policy| Box::new(Shared::new(policy, &replanning)) as Box<dyn Policy>);
            let replan = |placer| Rest(Box::new(Replan::new(placer, replanning)));
            own.chain(placers.map(|placer| Box::new(replan(placer)) as Box<dyn Policy>)).collect()
        }
    }
}

fn placers(parameters: &Parameters) -> Vec<Box<dyn Placer>> {
    vec![
        Box::new(Optimal::new(parameters.optimal)),
        Box::new(Jps::new(parameters.jps)),
        Box::new(Has),
        Box::new(Optimus::PLAIN),
        Box::new(Optimus::LOAD_BALANCED),
        Box::new(Exhaustive),
    ]
}
