//! Slow nodes for jobs that are planned outside a session.

use std::collections::BTreeMap;

use crate::app::context::Context;
use crate::app::state;
use hsched_engine::KeptOff;
use hsched_engine::store::StateDir;
use hsched_model::{Cluster, Job};

/// Makes jobs that avoid slow nodes avoid those recorded in the state directory, if there is one.
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
