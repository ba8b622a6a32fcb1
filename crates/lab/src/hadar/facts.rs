//! The data of a round for the event `round` of `simulate --events`.

use serde_json::{Map, Value, json};

use crate::hadar::find::Market;
use crate::hadar::job::HadarJob;
use crate::hadar::layers::ServedJobs;
use crate::hadar::prices::BidTerms;
use hsched_model::number::to_u64;
use hsched_plan::Problem;

/// Returns the data of a round, with jobs in the order of its queue. Cells are `NODE/TYPE`.
pub(super) fn facts(
    problem: &Problem,
    market: &Market<'_>,
    queue: &[HadarJob],
    answer: &ServedJobs,
) -> Map<String, Value> {
    let cell = |cell: usize| {
        let cell = market.cells.list[cell];
        format!("{}/{}", problem.nodes[cell.node].name.as_str(), problem.gpu_types[cell.gpu_type])
    };
    let mut taken = vec![0; market.cells.list.len()];
    let mut bids: Vec<(Map<String, Value>, Option<BidTerms>)> = vec![(Map::new(), None); queue.len()];
    for (place, allocation) in &answer.served {
        for &(part, count) in &allocation.parts {
            taken[part] += count;
            bids[*place].0.insert(cell(part), json!(count));
        }
        bids[*place].1 = Some(allocation.terms);
    }
    let jobs: Value =
        queue.iter().zip(bids).map(|(job, (gpus, terms))| bid(problem, job, gpus, terms)).collect();
    let prices = market.prices;
    let left: Map<String, Value> = taken
        .iter()
        .enumerate()
        .map(|(number, taken)| (cell(number), json!(prices.of(number, *taken))))
        .collect();
    let there = |ty: &usize| market.cells.list.iter().any(|cell| cell.gpu_type == *ty);
    let last = (0..prices.u_max.len()).filter(there);
    let u_max: Map<String, Value> =
        last.map(|ty| (problem.gpu_types[ty].to_string(), json!(prices.u_max[ty]))).collect();
    let facts = [
        ("round", json!(count(market.now / market.parameters.round.0 + 1e-9) + 1)),
        // K: the number of rounds that all jobs need one after the other on their slowest GPUs.
        ("horizon_rounds", json!(count(prices.horizon))),
        ("eta", json!(prices.eta)),
        ("alpha", json!(prices.alpha())),
        // The price of the first GPU of a cell, and by type the price when all GPUs of a cell are taken.
        ("u_min", json!(prices.u_min)),
        ("u_max", json!(u_max)),
        ("total_payoff", json!(answer.payoff)),
        // Whether some states were dropped because there were too many.
        ("beam", json!(answer.beam)),
        ("jobs", jobs),
        ("prices", json!(left)),
    ];
    facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the allocation of a job, without GPUs and terms if the job waits.
fn bid(problem: &Problem, job: &HadarJob, gpus: Map<String, Value>, terms: Option<BidTerms>) -> Value {
    json!({
        "name": problem.jobs[job.number].name.as_str(),
        "gpus": terms.map(|_| gpus),
        "steps_done": job.steps - job.left,
        "steps_per_s": terms.map(|bid_terms| bid_terms.speed),
        "jct_s": terms.map(|bid_terms| bid_terms.jct),
        "utility": terms.map(|bid_terms| bid_terms.utility),
        "cost": terms.map(|bid_terms| bid_terms.cost),
        "payoff": terms.map(|bid_terms| bid_terms.payoff),
    })
}

fn count(rounds: f64) -> u64 {
    to_u64(rounds.max(0.0))
}
