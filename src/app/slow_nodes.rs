//! Slow nodes that jobs are kept off which are planned outside of a session.

use std::collections::BTreeMap;

use crate::app::context::Context;
use crate::app::state;
use hsched_engine::KeptOff;
use hsched_engine::store::StateDir;
use hsched_model::{Cluster, Job};

/// Keeps jobs that avoid slow nodes off those that the state directory knows. Without a state nothing is known.
pub(crate) fn keep_off(context: &Context, cluster: &Cluster, jobs: &mut [Job]) {
    if !jobs.iter().any(|job| job.avoid_slow) {
        return;
    }
    let rules = state::rules(context);
    let peeked = state::root(context).ok().and_then(|root| StateDir::peek(&root, &rules).ok());
    let Some(peeked) = peeked else { return };
    let kept_off = KeptOff::new(&peeked.state, cluster, &context.settings.jobs, state::now(context));
    for job in jobs {
        job.avoided = kept_off.nodes(job, &BTreeMap::new());
    }
}
