//! The choice of a request in a world with other rules than the model's: the model's choice compared with the
//! best request, with a race and with simple rules.

use hsched_model::{Candidate, choose};
use hsched_queue::{Question, Request, RequestId, StartEstimate, forecast};

use crate::made_up::Random;
use crate::world::{Trial, World};

/// Speed of one GPU of each type, relative to the first.
const SPEEDS: [f64; 3] = [1.0, 0.6, 0.25];
/// Fraction of each GPU's speed that remains when their number doubles.
const SCALING: f64 = 0.95;
const DECISIONS: usize = 36;
const SAMPLES: usize = 40;

/// The result of a decision: the seconds to the job's end under each rule.
struct Outcome {
    best: f64,
    model: f64,
    race: f64,
    free_now: f64,
    fastest: f64,
    fixed: f64,
    is_free: bool,
    /// Whether free GPUs can be used at once and are not reserved for others.
    is_had: bool,
}

/// Prints the results of decisions at three loads, in worlds of the seeds after `first`.
pub fn main(first: u64) {
    println!(
        "| load | decisions | best possible | model | race of 3 | free now, else the fastest | 4 a100 | fastest | model / best | race / best |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut all = Vec::new();
    for (number, load) in [0.9, 0.97, 1.1].into_iter().enumerate() {
        let decision = decisions(first + number as u64 + 1, load);
        row(&load.to_string(), &decision);
        all.extend(decision);
    }
    row("all", &all);
    let free: Vec<&Outcome> = all.iter().filter(|outcome| outcome.is_free).collect();
    let mean = |value: fn(&Outcome) -> f64| {
        free.iter().map(|outcome| value(outcome)).sum::<f64>() / free.len() as f64 / 3600.0
    };
    let worse = free.iter().filter(|outcome| outcome.model > outcome.free_now + 60.0).count();
    let had: Vec<&&Outcome> = free.iter().filter(|outcome| outcome.is_had).collect();
    let worse_had = had.iter().filter(|outcome| outcome.model > outcome.free_now + 60.0).count();
    println!("where these could be taken at once ({} decisions): worse in {worse_had}", had.len());
    println!(
        "with free GPUs ({} decisions): model {:.2} h, free now {:.2} h; worse in {worse}",
        free.len(),
        mean(|outcome| outcome.model),
        mean(|outcome| outcome.free_now)
    );
}

fn row(name: &str, list: &[Outcome]) {
    let mean = |value: fn(&Outcome) -> f64| list.iter().map(value).sum::<f64>() / list.len() as f64 / 3600.0;
    let (best, model, race) =
        (mean(|outcome| outcome.best), mean(|outcome| outcome.model), mean(|outcome| outcome.race));
    println!(
        "| {name} | {} | {best:.1} h | {model:.1} h | {race:.1} h | {:.1} h | {:.1} h | {:.1} h | {:.2} | {:.2} |",
        list.len(),
        mean(|outcome| outcome.free_now),
        mean(|outcome| outcome.fixed),
        mean(|outcome| outcome.fastest),
        model / best,
        race / best
    );
}

fn decisions(seed: u64, load: f64) -> Vec<Outcome> {
    let mut random = Random::new(seed + 100);
    let mut world = World::new(seed, load, 45.0);
    let mut list = Vec::new();
    for _ in 0..DECISIONS {
        let next = world.now + 3600.0 * (2.0 + 10.0 * random.unit());
        world.go_until(next);
        list.push(decide(&world, 2.0 * 24.0_f64.powf(random.unit())));
    }
    list
}

/// Returns the requests for this number of hours of work on one GPU of the fastest type.
pub fn trials(hours: f64) -> Vec<Trial> {
    let mut list = Vec::new();
    for (gpu_type, type_speed) in SPEEDS.into_iter().enumerate() {
        for (doublings, (nodes, per_node)) in (0..).zip([(1, 1), (1, 2), (1, 4), (2, 4)]) {
            let gpus = nodes as f64 * f64::from(per_node);
            let speed = type_speed * gpus * SCALING.powi(doublings);
            list.push(Trial { gpu_type, nodes, per_node, run: hours * 3600.0 / speed });
        }
    }
    list
}

fn decide(world: &World, hours: f64) -> Outcome {
    let trials = trials(hours);
    let finish: Vec<f64> = trials.iter().map(|trial| world.finish(&[*trial])).collect();
    let requests: Vec<Request> = (0..).zip(&trials).map(|(id, trial)| trial.request(RequestId(id))).collect();
    let snapshot = world.snapshot();
    let question =
        Question { snapshot: &snapshot, requests: &requests, seed: 7, samples: SAMPLES, calibration: None };
    let estimates = forecast(&question, &|| false);
    let candidate = |start_estimate: &StartEstimate| {
        Some(Candidate {
            id: start_estimate.id,
            finish: start_estimate.start.forecast()?.mean_finish(),
            cost: None,
        })
    };
    let candidates: Vec<_> = estimates.iter().filter_map(candidate).collect();
    let chosen = choose(&candidates, 0.0).expect("a request").id.0 as usize;
    let all: Vec<&Request> = requests.iter().collect();
    let racers = hsched_queue::race(&all, &estimates, None, 3);
    let racers: Vec<Trial> = racers.into_iter().map(|id| trials[id.0 as usize]).collect();
    let by_run = |a: &usize, b: &usize| trials[*a].run.total_cmp(&trials[*b].run);
    let free = (0..trials.len()).filter(|&index| world.has_free(&trials[index])).min_by(by_run);
    let fastest = (0..trials.len()).min_by(by_run).expect("a request");
    Outcome {
        best: finish.iter().copied().fold(f64::INFINITY, f64::min),
        model: finish[chosen],
        race: world.finish(&racers),
        free_now: finish[free.unwrap_or(fastest)],
        fastest: finish[fastest],
        fixed: finish[2],
        is_free: free.is_some(),
        is_had: free.is_some_and(|index| finish[index] < trials[index].run + 60.0),
    }
}
