//! Compares `find` with an enumeration of all allocations of tiny clusters, and the recursion with one that
//! processes every job in every state.

use std::collections::{BTreeMap, BTreeSet};

use crate::hadar::cells::{CellParts, Cells};
use crate::hadar::find::{Market, by_digits};
use crate::hadar::job::{HadarJob, HadarParameters, Utility, Worth};
use crate::hadar::layers;
use crate::hadar::prices::CellPrices;
use hsched_model::Seconds;
use hsched_plan::Sharing;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const INSIDE: f64 = 300e9 / 8.0;
const NETWORK: f64 = 10e9 / 8.0;
const ROUND: f64 = 360.0;
const NOW: f64 = 1000.0;

fn pick(random: &mut Pcg64, below: u32) -> u32 {
    random.random_range(0..below)
}

fn cells(random: &mut Pcg64) -> Cells {
    let nodes = 1 + pick(random, 3) as usize;
    let sizes: Vec<Vec<u32>> = (0..nodes).map(|_| (0..3).map(|_| pick(random, 3)).collect()).collect();
    Cells::of(&sizes, vec![INSIDE; nodes], NETWORK)
}

fn job(random: &mut Pcg64, number: usize, cells: &Cells) -> Option<HadarJob> {
    let there: BTreeSet<usize> = cells.list.iter().map(|cell| cell.gpu_type).collect();
    let rates: Vec<Option<f64>> = (0..3)
        .map(|ty| {
            let rate = f64::from(1 + pick(random, 4));
            (there.contains(&ty) && pick(random, 5) > 0).then_some(rate)
        })
        .collect();
    let known = || rates.iter().copied().flatten();
    let (fastest, slowest) = (known().max_by(f64::total_cmp)?, known().min_by(f64::total_cmp)?);
    let steps = f64::from(100 + pick(random, 5000));
    let gpus = 1 + pick(random, 4);
    let bytes = if pick(random, 2) == 0 { 0.0 } else { f64::from(pick(random, 400)) * 1e6 };
    Some(HadarJob {
        number,
        gpus,
        arrival: f64::from(pick(random, 1000)),
        steps,
        left: steps * (0.1 + 0.9 * random.random::<f64>()),
        rates,
        held: CellParts::new(),
        restart: 10.0,
        ring_bytes: if gpus > 1 { bytes } else { 0.0 },
        fastest,
        slowest,
    })
}

/// Returns the highest payoff of all allocations.
fn best_of_all(market: &Market<'_>, job: &HadarJob, taken: &[u32]) -> Option<f64> {
    let mut best: Option<f64> = None;
    let mut counts = vec![0_u32; taken.len()];
    loop {
        if counts.iter().sum::<u32>() == job.gpus
            && let Some(payoff) = payoff(market, job, taken, &counts)
        {
            best = Some(best.map_or(payoff, |best| best.max(payoff)));
        }
        let Some(cell) =
            (0..counts.len()).find(|&cell| counts[cell] < market.cells.list[cell].count - taken[cell])
        else {
            return best;
        };
        counts[cell] += 1;
        counts[..cell].fill(0);
    }
}

fn payoff(market: &Market<'_>, job: &HadarJob, taken: &[u32], counts: &[u32]) -> Option<f64> {
    let mut slowest = f64::INFINITY;
    let mut cost = 0.0;
    let mut on_node = [0_u32; 3];
    for (cell, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let place = market.cells.list[cell];
        slowest = slowest.min(job.rates[place.gpu_type]?);
        cost += market.prices.of(cell, taken[cell]) * f64::from(count);
        on_node[place.node] += count;
    }
    let spread = on_node.iter().filter(|count| **count > 0).count() > 1;
    let ring = if spread { NETWORK.min(INSIDE) } else { INSIDE };
    let step = 1.0 / (f64::from(job.gpus) * slowest) + if job.gpus > 1 { job.ring_bytes / ring } else { 0.0 };
    let held: u32 = job.held.iter().map(|&(cell, count)| count.min(counts[cell])).sum();
    let restart = if held == job.gpus { 0.0 } else { job.restart };
    let jct = NOW + restart + job.left * step - job.arrival;
    let alone = job.steps / (f64::from(job.gpus) * job.fastest);
    let numerator = if market.parameters.utility == Utility::Throughput { job.steps } else { alone };
    let worth = match market.parameters.worth {
        Worth::Finish => numerator / jct,
        Worth::Delay => numerator / jct - numerator / (jct + ROUND),
    };
    Some(worth - cost)
}

fn parameters(random: &mut Pcg64) -> HadarParameters {
    let utility = if pick(random, 2) == 0 { Utility::Throughput } else { Utility::Normalised };
    let worth = if pick(random, 2) == 0 { Worth::Finish } else { Worth::Delay };
    HadarParameters { utility, worth, round: Seconds(ROUND), ..HadarParameters::default() }
}

#[test]
fn no_allocation_pays_more_than_the_one_that_is_found() {
    let mut random = Pcg64::seed_from_u64(7);
    let mut compared = 0;
    while compared < 1000 {
        let cells = cells(&mut random);
        let jobs: Vec<HadarJob> = (0..3).filter_map(|number| job(&mut random, number, &cells)).collect();
        let Some(mut hadar_job) = jobs.first().cloned() else { continue };
        let parameters = parameters(&mut random);
        let prices = CellPrices::new(&cells, &jobs, NOW, &parameters);
        let market = Market::new(&cells, &prices, &jobs, NOW, &parameters);
        let taken: Vec<u32> = cells.list.iter().map(|cell| pick(&mut random, cell.count + 1)).collect();
        if pick(&mut random, 3) == 0
            && let Some(found) = market.find(&hadar_job, &vec![0; taken.len()])
        {
            hadar_job.held = found.parts;
        }
        let known = best_of_all(&market, &hadar_job, &taken);
        let found = market.find(&hadar_job, &taken).map(|found| found.terms.payoff);
        match (found, known) {
            (Some(found), Some(known)) => {
                assert!(
                    (found - known).abs() <= 1e-9 * known.abs().max(1e-3),
                    "{found} for {known}: {hadar_job:?}"
                );
                compared += 1;
            }
            (found, known) => assert_eq!(found, known, "{hadar_job:?}"),
        }
    }
}

/// Returns the jobs to serve, by index in the queue, and their total payoff.
fn recursion(market: &Market<'_>, queue: &[HadarJob]) -> (Vec<usize>, f64) {
    let mut layer = BTreeMap::from([(vec![0; market.cells.list.len()], (0.0, Vec::new()))]);
    let is_better = |option: &(f64, Vec<usize>), other: &(f64, Vec<usize>)| {
        by_digits(option.0, other.0).then_with(|| other.1.cmp(&option.1)).is_gt()
    };
    for (place, job) in queue.iter().enumerate() {
        let before = layer.clone();
        for (taken, (payoff, way)) in before {
            let Some(found) = market.find(job, &taken).filter(|allocation| allocation.terms.payoff > 0.0)
            else {
                continue;
            };
            let mut then = taken;
            found.parts.iter().for_each(|&(cell, count)| then[cell] += count);
            let option = (payoff + found.terms.payoff, [way, vec![place]].concat());
            if layer.get(&then).is_none_or(|other| is_better(&option, other)) {
                layer.insert(then, option);
            }
        }
    }
    let best = layer
        .into_values()
        .reduce(|best, into_value| if is_better(&into_value, &best) { into_value } else { best });
    let (payoff, way) = best.expect("nothing taken is a state");
    (way, payoff)
}

#[test]
fn who_is_not_asked_would_change_nothing() {
    let mut random = Pcg64::seed_from_u64(11);
    for case in 0..400 {
        let cells = cells(&mut random);
        let mut queue: Vec<HadarJob> =
            (0..12).filter_map(|number| job(&mut random, number, &cells)).collect();
        if let Some(twin) = queue.first().cloned() {
            queue.push(HadarJob { number: 12, ..twin });
        }
        let mut parameters = parameters(&mut random);
        if pick(&mut random, 2) == 0 {
            parameters.sharing = Sharing::Balanced;
        }
        queue.sort_by(|a, b| {
            b.urgency(NOW, &parameters).total_cmp(&a.urgency(NOW, &parameters)).then(a.number.cmp(&b.number))
        });
        let prices = CellPrices::new(&cells, &queue, NOW, &parameters);
        let market = Market::new(&cells, &prices, &queue, NOW, &parameters);
        if let Some(first) = queue.first().cloned()
            && let Some(found) = market.find(&first, &vec![0; cells.list.len()])
            && pick(&mut random, 3) == 0
        {
            let mut queue = queue.clone();
            queue[0].held = found.parts;
            check(case, &market, &queue);
        }
        check(case, &market, &queue);
    }
}

fn check(case: u32, market: &Market<'_>, queue: &[HadarJob]) {
    let answer = layers::best(market, queue);
    let (way, payoff) = recursion(market, queue);
    let served: Vec<usize> = answer.served.iter().map(|(place, _)| *place).collect();
    assert_eq!(served, way, "case {case}: {queue:?}");
    assert!((answer.payoff - payoff).abs() <= 1e-12 * payoff, "case {case}: {} for {payoff}", answer.payoff);
}
