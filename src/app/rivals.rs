//! Other requests for the jobs of a run, for a race: each is for the same training on other GPUs, and the first to start trains.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::app::context::Context;
use crate::app::queue_look;
use crate::clock::Clock;
use crate::engine::{Intent, Run};
use crate::model::{JobDefaults, Seconds};
use crate::policy::{Decision, Placement, Plan, Problem, Sharing, Slot, verify};
use crate::queue::{Asks, GpuAsk, Outlook, Question, Request, Snapshot, forecast};

/// The most requests of a job that are compared.
const MOST: usize = 24;
/// Futures that each is tried in, and how long that may take.
const SAMPLES: usize = 60;
const BUDGET: Duration = Duration::from_secs(2);

/// Adds requests to a run until each of its jobs has so many: those that are expected to finish first.
///
/// Where nobody can say when they start, those that run shortest. A note is left for jobs with fewer.
pub(crate) fn add(context: &Context, run: &mut Run, wanted: usize) {
    let looked = match queue_look::look(context) {
        Ok(looked) => {
            looked.snapshot.notes.iter().for_each(|note| context.note(note));
            Some(looked.snapshot)
        }
        Err(failure) => {
            context.note(&format!("when requests would start is not known: {}", failure.message));
            None
        }
    };
    let mut all = Vec::new();
    for mut own in std::mem::take(&mut run.submissions) {
        let rivals = rivals(context, run, &own, looked.as_ref());
        own.race = !rivals.is_empty() && wanted > 1;
        let (job, race) = (own.job, own.race);
        all.push(own);
        let others = (1..).zip(rivals).take(wanted - 1);
        let before = all.len();
        all.extend(others.map(|(copy, placement)| Intent { job, copy, race, placement }));
        let found = all.len() - before + 1;
        if found < wanted {
            let name = &run.jobs[job].name;
            context.note(&format!(
                "{name}: {found} of {wanted} requests, for there are no other GPUs on offer; --capacity up offers those in use"
            ));
        }
    }
    run.submissions = all;
}

/// Returns the other placements of a job, the one that is expected to finish first before the others.
fn rivals(context: &Context, run: &Run, own: &Intent, snapshot: Option<&Snapshot>) -> Vec<Placement> {
    let job = &run.jobs[own.job];
    let kind = |placement: &Placement| {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        placement.slots.iter().for_each(|slot| *counts.entry(slot.gpu_type).or_default() += slot.count);
        counts
    };
    let planned = kind(&own.placement);
    let mut found = shapes(&run.problem, own.job);
    found.retain(|placement| kind(placement) != planned);
    found.sort_by(|a, b| a.jct(job.epochs).0.total_cmp(&b.jct(job.epochs).0));
    found.truncate(MOST);
    let Some(snapshot) = snapshot else { return found };
    let defaults = &context.settings.jobs;
    let requests: Vec<Request> =
        found.iter().map(|placement| request(run, own.job, placement, defaults)).collect();
    let question = Question { snapshot, requests: &requests, seed: 0, samples: SAMPLES, calibration: None };
    let begin = context.clock.elapsed();
    let stop = || context.clock.elapsed().saturating_sub(begin) > BUDGET;
    let finish = |outlook: Outlook| match outlook {
        Outlook::Estimated(foretold) => foretold.mean_finish(),
        Outlook::Unknown(_) => 0.0,
        Outlook::Never => f64::INFINITY,
    };
    let finishes: Vec<f64> = forecast(&question, &stop).into_iter().map(finish).collect();
    let mut ranked: Vec<(f64, Placement)> =
        finishes.into_iter().zip(found).filter(|(finish, _)| finish.is_finite()).collect();
    // Equal ones stay in the order of their run times.
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    ranked.into_iter().map(|(_, placement)| placement).collect()
}

/// Returns the placements of a job alone on GPUs of one type, as many on each node.
fn shapes(problem: &Problem, job: usize) -> Vec<Placement> {
    let model = &problem.jobs[job];
    let mut found = Vec::new();
    for gpu_type in (0..problem.gpu_types.len()).filter(|&own| model.types[own].is_some()) {
        let most = problem.nodes.iter().map(|node| node.gpus[gpu_type]).max().unwrap_or(0);
        for count in model.min_gpus..=model.max_gpus.min(problem.ceiling[gpu_type]) {
            let nodes = count.div_ceil(most.max(1));
            if count % nodes != 0 {
                continue;
            }
            let per_node = count / nodes;
            let room =
                (0..problem.nodes.len()).filter(|&node| problem.nodes[node].gpus[gpu_type] >= per_node);
            let slots: Vec<Slot> =
                room.take(nodes as usize).map(|node| Slot { node, gpu_type, count: per_node }).collect();
            let placed = (slots.len() == nodes as usize)
                .then(|| Placement::new(problem, job, &slots, Sharing::Balanced))
                .flatten();
            let checked = placed.filter(|placement| {
                let changes = vec![(job, Decision::place(placement.clone()))];
                verify(problem, Plan { changes, ..Plan::default() }).is_ok()
            });
            found.extend(checked);
        }
    }
    found
}

/// Returns what a placement asks of Slurm.
fn request(run: &Run, job: usize, placement: &Placement, defaults: &JobDefaults) -> Request {
    let own = &run.jobs[job];
    let predicted = placement.jct(own.epochs);
    let limit = defaults.walltime(own, predicted, None);
    #[expect(clippy::cast_precision_loss, reason = "minutes of some years")]
    let limit = Seconds(limit.minutes as f64 * 60.0);
    let needs = defaults.rank_needs(own);
    let (count, nodes) = (placement.slots.first().map_or(1, |slot| slot.count), placement.slots.len());
    let gpu_type = placement.slots.first().map(|slot| run.problem.gpu_types[slot.gpu_type].clone());
    let memory = needs.memory.saturating_mul(count.into()) >> 20;
    Request {
        asks: Asks {
            nodes: u32::try_from(nodes).unwrap_or(u32::MAX),
            gpus: vec![GpuAsk { gpu_type, count }],
            cpus: Some(needs.cpus.saturating_mul(count.into())),
            memory_mib: (memory > 0).then_some(memory),
            ..Asks::default()
        },
        partition: own.launch.partition.clone().or_else(|| defaults.partition.clone()),
        account: own.launch.account.clone().or_else(|| defaults.account.clone()),
        run: Seconds(predicted.0.min(limit.0)),
        limit,
    }
}
