//! What a decision was about, in a number: the same again needs no new decision.

use std::fmt::{Display, Write as _};

use sha2::{Digest, Sha256};

use crate::engine::view::{View, gives_back, is_movable, is_ready};
use crate::engine::{Planner, State};
use crate::model::Time;
use crate::policy::{Basis, Problem};

/// Returns a number that stands for all that a decision depends on, save the epochs and the time that go by.
pub(super) fn fingerprint(state: &State, at: Time, view: Option<&View>, planner: &Planner<'_>) -> u64 {
    let digest = Sha256::digest(description(state, at, view, planner));
    digest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Returns what a decision depends on, a thing on each line. Names have neither blanks nor line breaks.
fn description(state: &State, at: Time, view: Option<&View>, planner: &Planner<'_>) -> String {
    let mut text = String::new();
    let mut say = |line: &dyn Display| {
        // A text takes all that is written to it.
        let _ = writeln!(text, "{line}");
    };
    let policy = (planner.policy.name(), planner.policy.parameters());
    say(&format_args!("{} ({}) {} {}", policy.0, policy.1, planner.objective.name(), planner.seed));
    for tracked in state.jobs.iter().filter(|tracked| !tracked.phase.is_over()) {
        let name = &tracked.job.name;
        let submissions = tracked.phase.submissions();
        if submissions.is_empty() {
            let ready = is_ready(tracked, at);
            say(&format_args!("job {name} waiting {ready} false false -"));
        }
        for own in submissions {
            let (word, run) = (own.stage.word(), &own.attempt.run);
            let (movable, gives_back) = (is_movable(tracked, own), gives_back(own, at));
            say(&format_args!("job {name} {word} false {movable} {gives_back} {run}"));
        }
    }
    let Some(View { problem, .. }) = view else { return text };
    for limit in &problem.limits {
        say(&format_args!("limit {:?} {}", limit.gpu_types, limit.most));
    }
    let running: Vec<usize> = (0..problem.jobs.len())
        .filter(|&job| problem.jobs[job].standing.running().next().is_some())
        .collect();
    for (node, gpus) in problem.nodes.iter().zip(problem.offered_to(&running, Basis::Free)) {
        if gpus.iter().any(|count| *count > 0) {
            say(&format_args!("node {} {gpus:?}", node.name));
        }
    }
    for speed in speeds(problem) {
        say(&format_args!("speed {}", or_dash(speed)));
    }
    text
}

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Returns the speeds in steps of five hundredths, so that what is measured again makes no news.
fn speeds(problem: &Problem) -> Vec<Option<i64>> {
    let known = problem.jobs.iter().flat_map(|job| {
        #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^52")]
        let batch = job.global_batch as f64;
        job.types.iter().map(move |own| own.map(|own| (own.speed.alpha() + own.speed.beta() * batch).ln()))
    });
    #[expect(clippy::cast_possible_truncation, reason = "logarithms of times are small")]
    known.map(|time| time.map(|time| (time / 0.05).round() as i64)).collect()
}
