//! Requests of several jobs at once, in the world with other rules: chosen for each job alone, for each
//! beside the previous ones, and for all together.

use hsched_model::Time;
use hsched_queue::{
    Forecast, Jobs, Offer, Question, QueueJob, Request, RequestId, Snapshot, Start, StartEstimate,
    choose_together, forecast,
};

use crate::choice::trials;
use crate::made_up::Random;
use crate::world::{Trial, World};

const DECISIONS: usize = 12;
const SAMPLES: usize = 24;
/// Maximum number of requests of each job that are considered together.
const MOST: usize = 8;

/// Prints the mean time to the end of several jobs that are submitted at once, at three loads, in worlds of
/// the seeds after `first`.
pub fn main(first: u64) {
    println!(
        "| jobs | load | decisions | each alone | each beside those before | together | together / beside |"
    );
    println!("|---|---|---|---|---|---|---|");
    for jobs in [3, 6] {
        for (number, load) in [0.9, 0.97, 1.1].into_iter().enumerate() {
            row(jobs, load, first + number as u64 + 1);
        }
    }
}

fn row(jobs: usize, load: f64, seed: u64) {
    let mut random = Random::new(seed + 200);
    let mut world = World::new(seed, load, 20.0);
    let mut sums = [0.0; 3];
    for _ in 0..DECISIONS {
        let next = world.now + 3600.0 * (6.0 + 24.0 * random.unit());
        world.go_until(next);
        let options: Vec<Vec<Trial>> =
            (0..jobs).map(|_| trials(2.0 * 12.0_f64.powf(random.unit()))).collect();
        for (sum, chosen) in sums.iter_mut().zip([
            alone(&world, &options),
            beside(&world, &options),
            together(&world, &options),
        ]) {
            *sum += world.finishes(&chosen).iter().sum::<f64>() / (jobs * DECISIONS) as f64 / 3600.0;
        }
    }
    let [alone, beside, together] = sums;
    println!(
        "| {jobs} | {load} | {DECISIONS} | {alone:.2} h | {beside:.2} h | {together:.2} h | {:.3} |",
        together / beside
    );
}

/// Returns the requests of a job, ordered by forecast finish, the earliest first.
fn ranked(snapshot: &Snapshot, options: &[Trial]) -> Vec<Trial> {
    let requests: Vec<Request> = (0..).zip(options).map(|(id, trial)| trial.request(RequestId(id))).collect();
    let question = Question { snapshot, requests: &requests, seed: 7, samples: SAMPLES, calibration: None };
    let estimates = forecast(&question, &|| false);
    let finish = |request: &Request| {
        StartEstimate::of(&estimates, request.id)
            .and_then(Start::forecast)
            .map_or(f64::INFINITY, Forecast::mean_finish)
    };
    let mut list: Vec<(f64, Trial)> = requests.iter().map(finish).zip(options.iter().copied()).collect();
    list.sort_by(|a, b| a.0.total_cmp(&b.0));
    list.into_iter().map(|(_, trial)| trial).collect()
}

fn alone(world: &World, options: &[Vec<Trial>]) -> Vec<Trial> {
    let snapshot = world.snapshot();
    options.iter().map(|option| ranked(&snapshot, option)[0]).collect()
}

/// Returns requests chosen as by `watch --queue`: the queue of each job contains the likely requests of the
/// jobs before it.
fn beside(world: &World, options: &[Vec<Trial>]) -> Vec<Trial> {
    let mut snapshot = world.snapshot();
    let mut chosen = Vec::new();
    for (number, trials) in options.iter().enumerate() {
        let best = ranked(&snapshot, trials)[0];
        let Request { asks, account, limit, .. } = best.request(RequestId::default());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "priorities are 32 bits wide"
        )]
        let priority = snapshot.priority_estimate(account.as_deref()).priority as u64;
        snapshot.jobs.push(QueueJob {
            id: format!("own {number}"),
            ours: true,
            account,
            priority: Some(priority),
            submitted: Some(Time(snapshot.taken_at.0)),
            limit_s: Some(limit),
            asks,
            tasks: 1,
            ..QueueJob::default()
        });
        chosen.push(best);
    }
    chosen
}

fn together(world: &World, options: &[Vec<Trial>]) -> Vec<Trial> {
    let snapshot = world.snapshot();
    let ranked: Vec<Vec<Trial>> = options.iter().map(|option| ranked(&snapshot, option)).collect();
    let offer =
        |(id, trial): (u32, &Trial)| Offer { request: trial.request(RequestId(id)), rest: 0.0, cost: None };
    let offers: Vec<Vec<Offer>> =
        ranked.iter().map(|trials| (0..).zip(trials.iter().take(MOST)).map(offer).collect()).collect();
    let jobs = Jobs {
        snapshot: &snapshot,
        options: &offers,
        cost_weight: 0.0,
        seed: 7,
        samples: SAMPLES,
        calibration: None,
    };
    let chosen = choose_together(&jobs, &|| false);
    chosen
        .iter()
        .zip(&ranked)
        .map(|(chosen, list)| list[chosen.as_ref().map_or(0, |request| request.id.0 as usize)])
        .collect()
}
