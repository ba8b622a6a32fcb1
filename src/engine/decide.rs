//! What to do where the jobs stand as they do: end what takes too long, give free GPUs to who waits.

use std::fmt::{Display, Write as _};

use sha2::{Digest, Sha256};

use crate::engine::moves;
use crate::engine::plan::{self, Draft, Planner, Scope};
use crate::engine::state::Then;
use crate::engine::{Action, Attempt, Gpus, Moves, Phase, Request, Rules, State, Tracked};
use crate::model::{Availability, Cluster, GpuType, JobName, Seconds, Time};
use crate::policy::{Problem, Verdict};

/// What to do, and what people should know of how it was decided.
pub(super) struct Decision {
    pub actions: Vec<Action>,
    pub notes: Vec<String>,
}

/// Returns what to do now, and marks in the state what is about to be submitted.
pub(super) fn decide(
    state: &mut State,
    at: Time,
    cluster: &Cluster,
    rules: &Rules,
    planner: &Planner<'_>,
) -> Decision {
    let mut actions: Vec<Action> =
        state.jobs.iter().filter_map(|tracked| end_of_patience(tracked, at, cluster, rules)).collect();
    intend(state, &actions, at);
    let seen = fingerprint(state, at, cluster, (rules, planner));
    if state.decided == Some(seen) {
        return Decision { actions, notes: Vec::new() };
    }
    for (name, why) in nowhere(state, at, cluster, rules) {
        actions.extend(state.find_mut(&name).and_then(|tracked| wait(tracked, &why, at)));
    }
    let Chosen { actions: own, draft, again, notes } =
        choose(&Scope::new(state, cluster, rules), at, planner);
    intend(state, &own, at);
    for action in own {
        match action {
            Action::Wait { job, why } => {
                actions.extend(state.find_mut(&job).and_then(|tracked| wait(tracked, &why, at)));
            }
            other => actions.push(other),
        }
    }
    if let Some(draft) = draft {
        actions.extend(mark(state, &draft, (cluster, rules), planner.run, at));
        if !draft.plan.placed().is_empty() {
            actions.push(Action::Submit(Box::new(draft.into_batch(planner, cluster.clone()))));
        }
    }
    state.decided = (!again).then_some(seen);
    Decision { actions, notes }
}

/// Returns the jobs that could run now and have no nodes to run on, and why.
fn nowhere(state: &State, at: Time, cluster: &Cluster, rules: &Rules) -> Vec<(JobName, String)> {
    let ready = state.jobs.iter().filter(|tracked| is_ready(tracked, at));
    let why =
        |tracked: &Tracked| Some((tracked.job.name.clone(), plan::nowhere(&tracked.job, cluster, rules)?));
    ready.filter_map(why).collect()
}

/// Writes down in the state which jobs are about to be ended, to go on elsewhere: whatever becomes of the request,
/// their end is then no end for good.
fn intend(state: &mut State, actions: &[Action], at: Time) {
    for action in actions {
        let (Action::Stop { job, .. } | Action::Cancel { job, .. }) = action else { continue };
        let Some(tracked) = state.find_mut(job) else { continue };
        if let Phase::Pending(attempt) | Phase::Running(attempt) = &tracked.phase {
            let (then, request) = (Then::GoOn, Request::Meant);
            tracked.phase = Phase::Stopping { attempt: attempt.clone(), since: at, then, request };
        }
    }
}

/// Returns whether a job waits for GPUs and may have some now.
pub(super) fn is_ready(tracked: &Tracked, at: Time) -> bool {
    let is_due = |not_before: Option<Time>| not_before.is_none_or(|moment| moment <= at);
    tracked.stray.is_none()
        && matches!(&tracked.phase, Phase::Waiting { not_before, .. } if is_due(*not_before))
}

/// Returns whether a job is about to give its GPUs back; one that Slurm does not manage to end is not waited for.
fn gives_back(tracked: &Tracked, at: Time) -> bool {
    match tracked.phase {
        Phase::Stopping { then: Then::GoOn, request, since, .. } => {
            request != Request::Killed || at.since(since) < Rules::STUCK
        }
        _ => false,
    }
}

/// Returns how to end a job that its owner gave up, that does not stop, or that can never start.
fn end_of_patience(tracked: &Tracked, at: Time, cluster: &Cluster, rules: &Rules) -> Option<Action> {
    let attempt = tracked.phase.attempt()?;
    let why = match &tracked.phase {
        Phase::Stopping { request: Request::Killed, since, .. } => {
            if at.since(*since) < Rules::KILL_PATIENCE {
                return None;
            }
            "Slurm has not ended it yet; trying again".to_owned()
        }
        Phase::Stopping { then: Then::Cancel, .. } => "cancelled by its owner".to_owned(),
        Phase::Stopping { request: Request::Meant, .. } => return ask_again(tracked),
        Phase::Stopping { since, .. } => {
            let grace = tracked.job.launch.checkpoint.grace.unwrap_or(rules.defaults.grace);
            let patience = Seconds(grace.0 + Rules::PATIENCE.0);
            if at.since(*since) < patience {
                return None;
            }
            format!("it did not exit within {} s of the stop signal", patience.0)
        }
        Phase::Pending(_) if at.since(attempt.meant) >= Rules::NODES_PATIENCE => {
            format!("{} are no longer up, so it can never start", unable(attempt, cluster)?)
        }
        _ => return None,
    };
    let (job, run, job_id) = (tracked.job.name.clone(), attempt.run.clone(), attempt.job_id?);
    Some(Action::Cancel { job, run, job_id, why })
}

/// Returns a request again of which nobody knows whether it was heard: to hear it twice does no harm.
fn ask_again(tracked: &Tracked) -> Option<Action> {
    let attempt = tracked.phase.attempt()?;
    let (job, run, job_id) = (tracked.job.name.clone(), attempt.run.clone(), attempt.job_id?);
    let why = "asking again, because the first request may have been lost".to_owned();
    Some(if attempt.started.is_some() {
        Action::Stop { job, run, job_id, why }
    } else {
        Action::Cancel { job, run, job_id, why }
    })
}

/// Returns the GPUs of an attempt for which no nodes are up, if there are any.
fn unable(attempt: &Attempt, cluster: &Cluster) -> Option<String> {
    // A cluster without nodes is one that nobody could see.
    if cluster.nodes.is_empty() {
        return None;
    }
    let up = |gpu_type: &GpuType| -> u32 {
        let nodes = cluster.nodes.iter().filter(|node| node.state.availability() == Availability::Up);
        let stocks = nodes.flat_map(|node| &node.gpus).filter(|stock| stock.gpu_type == *gpu_type);
        stocks.map(|stock| stock.total).sum()
    };
    let short = attempt.gpus.by_type().into_iter().find(|(gpu_type, count)| up(gpu_type) < *count);
    short.map(|(gpu_type, count)| format!("{count} {gpu_type}"))
}

/// What to do for the jobs.
#[derive(Default)]
struct Chosen {
    actions: Vec<Action>,
    draft: Option<Draft>,
    /// Whether the same may be decided otherwise a little later.
    again: bool,
    /// What people should know of it.
    notes: Vec<String>,
}

/// Returns what to do: either running jobs to stop, or a plan for those that are ready.
fn choose(scope: &Scope<'_>, at: Time, planner: &Planner<'_>) -> Chosen {
    let ready: Vec<&Tracked> = scope.jobs.iter().copied().filter(|tracked| is_ready(tracked, at)).collect();
    let wait =
        |tracked: &Tracked, why: &str| Action::Wait { job: tracked.job.name.clone(), why: why.to_owned() };
    let givers: Vec<&Tracked> =
        scope.jobs.iter().copied().filter(|tracked| gives_back(tracked, at)).collect();
    let giver = |tracked: &Tracked| givers.iter().find(|giver| scope.wants_nodes_of(tracked, giver));
    let (waiting, ready): (Vec<&Tracked>, Vec<&Tracked>) =
        ready.into_iter().partition(|tracked| giver(tracked).is_some());
    let reason = |giver: &Tracked| format!("waiting for {} to release its GPUs", giver.job.name);
    let mut actions: Vec<Action> =
        waiting.iter().filter_map(|tracked| Some(wait(tracked, &reason(giver(tracked)?)))).collect();
    let mut notes = Vec::new();
    match if givers.is_empty() { detours(scope, at, planner) } else { Ok(Vec::new()) } {
        Ok(late) if late.is_empty() => {}
        Ok(late) => return Chosen { actions: late, ..Chosen::default() },
        Err(why) => notes.push(why),
    }
    let base = match scope.draft(&ready, scope.offer(&[]), planner) {
        Ok(base) => base,
        Err(why) => {
            actions.extend(ready.iter().map(|tracked| wait(tracked, &format!("not planned: {why}"))));
            return Chosen { actions, notes, ..Chosen::default() };
        }
    };
    // One that is about to be tried again wants its GPUs back: who moved there would soon have to make room.
    let is_tried_again =
        |tracked: &&Tracked| matches!(tracked.phase, Phase::Waiting { .. }) && !is_ready(tracked, at);
    let mut later = false;
    if let Moves::Auto { margin } = scope.rules.moves
        && givers.is_empty()
        && !scope.jobs.iter().any(is_tried_again)
    {
        match moves::stops(scope, (&ready, base.as_ref()), (at, margin), planner) {
            Ok(stops) if !stops.actions.is_empty() => {
                return Chosen { actions: stops.actions, ..Chosen::default() };
            }
            Ok(stops) => later = stops.later,
            Err(why) => notes.push(why),
        }
    }
    let draft = or_queued(base, &ready, scope, planner).unwrap_or_else(|why| {
        notes.push(why);
        None
    });
    Chosen { actions, draft, again: later, notes }
}

/// Returns a plan by which jobs wait in Slurm's queue, where that is wanted and `base` places none; else `base`.
fn or_queued(
    base: Option<Draft>,
    ready: &[&Tracked],
    scope: &Scope<'_>,
    planner: &Planner<'_>,
) -> Result<Option<Draft>, String> {
    let places = |draft: &Draft| !draft.plan.placed().is_empty();
    if !scope.rules.queue || ready.is_empty() || base.as_ref().is_some_and(places) {
        return Ok(base);
    }
    Ok(scope.draft(ready, scope.offer_in_time(), planner)?.filter(places).or(base))
}

/// The most jobs that wait for long and are looked at in one turn.
const LOOKED_AT: usize = 20;

/// Returns how to take back an attempt that has waited in the queue for long while other GPUs are free that serve the
/// job nearly as well.
fn detours(scope: &Scope<'_>, at: Time, planner: &Planner<'_>) -> Result<Vec<Action>, String> {
    // One at a time: what is free serves only one of them.
    for tracked in scope.jobs.iter().filter(|tracked| is_late(tracked, at)).take(LOOKED_AT) {
        if let Some(action) = detour(scope, tracked, planner)? {
            return Ok(vec![action]);
        }
    }
    Ok(Vec::new())
}

fn detour(scope: &Scope<'_>, tracked: &Tracked, planner: &Planner<'_>) -> Result<Option<Action>, String> {
    let Phase::Pending(attempt) = &tracked.phase else { return Ok(None) };
    let offer = scope.offer(&[tracked]);
    if attempt.gpus.fit_in(&offer) {
        return Ok(None);
    }
    let Some(draft) = scope.draft(&[tracked], offer, planner)? else { return Ok(None) };
    let placed = draft.placement(&tracked.job.name).zip(attempt.job_id);
    let worth = |epoch: f64| epoch <= Rules::DETOUR * attempt.epoch.0;
    Ok(placed.filter(|((_, placement), _)| worth(placement.epoch.total())).map(|((_, placement), job_id)| {
        let (gpus, clause) = (Gpus::of(&draft.ranks(placement)), draft.trials(&tracked.job.name).clause());
        let why = format!("it is pending for {}, but {gpus} are free{clause}", attempt.gpus);
        Action::Cancel { job: tracked.job.name.clone(), run: attempt.run.clone(), job_id, why }
    }))
}

/// Returns whether a job has waited in the queue for long.
fn is_late(tracked: &Tracked, at: Time) -> bool {
    matches!(&tracked.phase, Phase::Pending(attempt) if at.since(attempt.meant) >= Rules::QUEUE_PATIENCE)
}

/// Writes down in the state which jobs of a draft are about to be submitted, and why others wait.
fn mark(
    state: &mut State,
    draft: &Draft,
    (cluster, rules): (&Cluster, &Rules),
    run: &str,
    at: Time,
) -> Vec<Action> {
    let mut waits = Vec::new();
    for (number, (job, verdict)) in draft.jobs.iter().zip(draft.plan.verdicts()).enumerate() {
        let Some(tracked) = state.find_mut(&job.name) else { continue };
        match verdict {
            Verdict::Place(placement) => {
                let planned = (&draft.problem, number, placement);
                let predicted = placement.jct(job.epochs);
                let limit = cluster.time_limit(job, &rules.defaults);
                let pieces = rules.defaults.walltime(job, predicted, limit).in_pieces();
                let attempt = Attempt::planned(run, planned, tracked.epochs_done, at);
                tracked.intend(Attempt { pieces, ..attempt });
            }
            Verdict::Defer { reason: why } | Verdict::Reject { reason: why } => {
                waits.extend(wait(tracked, why, at));
            }
        }
    }
    waits
}

/// Writes down why a job waits; that is news where it waited for something else.
fn wait(tracked: &mut Tracked, why: &str, at: Time) -> Option<Action> {
    let Phase::Waiting { reason, .. } = &mut tracked.phase else { return None };
    if reason == why {
        return None;
    }
    why.clone_into(reason);
    tracked.last = (at, why.to_owned());
    Some(Action::Wait { job: tracked.job.name.clone(), why: why.to_owned() })
}

/// Returns a number that stands for all that a decision depends on, save the epochs that go by: the first 64 bits of
/// the SHA-256 of its description. It is stored, so it must not change from one build to the next.
fn fingerprint(state: &State, at: Time, cluster: &Cluster, with: (&Rules, &Planner<'_>)) -> u64 {
    let digest = Sha256::digest(description(state, at, cluster, with));
    digest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Returns what a decision depends on, a thing on each line. Names have neither blanks nor line breaks.
fn description(
    state: &State,
    at: Time,
    cluster: &Cluster,
    (rules, planner): (&Rules, &Planner<'_>),
) -> String {
    let mut text = String::new();
    let mut say = |line: &dyn Display| {
        // A text takes all that is written to it.
        let _ = writeln!(text, "{line}");
    };
    say(&format_args!("{} {} {}", planner.policy.name(), planner.objective.name(), planner.seed));
    let margin = if let Moves::Auto { margin } = rules.moves { Some(margin) } else { None };
    say(&format_args!("moves {} queue {}", or_dash(margin), rules.queue));
    for (gpu_type, count) in &rules.capacity {
        say(&format_args!("capacity {gpu_type} {count}"));
    }
    for tracked in state.jobs.iter().filter(|tracked| !tracked.phase.is_over()) {
        let run = or_dash(tracked.phase.attempt().map(|attempt| &attempt.run));
        let (name, word, ready) = (&tracked.job.name, tracked.phase.word(), is_ready(tracked, at));
        let (movable, late) = (moves::is_movable(tracked), is_late(tracked, at));
        say(&format_args!("job {name} {word} {ready} {movable} {late} {} {run}", gives_back(tracked, at)));
    }
    let scope = Scope::new(state, cluster, rules);
    let running: Vec<&Tracked> =
        scope.jobs.iter().copied().filter(|tracked| matches!(tracked.phase, Phase::Running(_))).collect();
    let offer = scope.offer(&running);
    for node in &offer.nodes {
        say(&format_args!("node {}", node.name));
        for (gpu_type, count) in &node.gpus {
            say(&format_args!("gpus {gpu_type} {count}"));
        }
    }
    let jobs: Vec<_> = scope.jobs.iter().map(|tracked| tracked.rest()).collect();
    if let Some(problem) = scope.problem(&jobs, &offer) {
        for speed in speeds(&problem) {
            say(&format_args!("speed {}", or_dash(speed)));
        }
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
