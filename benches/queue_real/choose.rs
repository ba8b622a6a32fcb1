//! The benefit of choosing on a running cluster: equal jobs in the same queue, each submitted by the next
//! policy in turn.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use hsched_model::{GpuType, Seconds};
use hsched_queue::{Asks, FurtherOptions, GpuAsk, Question, Request, RequestId, Snapshot, forecast};
use serde::Serialize;

use crate::record::{Ended, Order, Site};

/// Relative speed of each type, and the fraction of each GPU's speed that remains when their number doubles.
const SPEEDS: [(&str, f64); 3] = [("a100", 1.0), ("v100", 0.6), ("t4", 0.25)];
const SCALING: f64 = 0.95;
/// The work of each job, in hours of one GPU of the fastest type.
const WORK: f64 = 2.0;
const COUNTS: [u32; 4] = [1, 2, 4, 8];
const SAMPLES: usize = 60;
const HOUR: f64 = 3600.0;
const LOOK: f64 = 1800.0;

/// The compared policies, which take turns.
const POLICIES: [(&str, Choose); 4] =
    [("4 A100", fixed), ("free now", free_now), ("--test-only", by_test_only), ("by forecast", by_forecast)];

type Choose = fn(&Site, &Snapshot, &[Request]) -> Option<usize>;

/// One job of a measurement: a line of its file.
#[derive(Clone, Debug, Serialize)]
struct Chosen {
    policy: &'static str,
    job: u64,
    asks: Asks,
    run_s: f64,
    submitted: f64,
    ended: Option<f64>,
}

/// Submits this number of jobs by each policy, one per interval, and records the end of each.
pub fn choose(cluster: &Path, (each, gap, most_hours): (u32, u32, u32), out: &Path) {
    let mut site = Site::of(cluster);
    let mut jobs: Vec<Chosen> = Vec::new();
    let mut next = site.clock.now();
    for number in 0..each as usize * POLICIES.len() {
        site.clock.wait_until(next);
        next += f64::from(gap);
        let (policy, choose) = POLICIES[number % POLICIES.len()];
        let seen = site.look();
        let options = options(&seen);
        let Some(request) = choose(&site, &seen, &options).map(|index| &options[index]) else { continue };
        let order = order(request);
        let Some(job) = site.order(&order) else { continue };
        let (asks, submitted) = (request.asks.clone(), seen.taken_at.0);
        println!("{policy}: job {job} for {} GPUs", gpus(request));
        jobs.push(Chosen { policy, job, asks, run_s: request.run.0, submitted, ended: None });
    }
    let end = site.clock.now() + f64::from(most_hours) * HOUR;
    while jobs.iter().any(|job| job.ended.is_none()) && site.clock.now() < end {
        site.clock.wait_until(site.clock.now() + LOOK);
        let first = jobs.first().map_or(0.0, |job| job.submitted);
        for Ended { job, end } in site.ended(first) {
            jobs.iter_mut().filter(|chosen| chosen.job == job).for_each(|job| job.ended = Some(end));
        }
    }
    let mut file = BufWriter::new(File::create(out).expect("the file can be written"));
    for job in &jobs {
        writeln!(file, "{}", serde_json::to_string(job).expect("JSON")).expect("written");
    }
    report(&jobs, site.clock.now());
}

/// Prints the mean time to the end by policy; jobs that have not ended count as if they ended now.
fn report(jobs: &[Chosen], now: f64) {
    let mut means = BTreeMap::new();
    for (policy, _) in POLICIES {
        let chosen: Vec<&Chosen> = jobs.iter().filter(|job| job.policy == policy).collect();
        let finish = |job: &&&Chosen| (job.ended.unwrap_or(now) - job.submitted) / HOUR;
        let mut finishes: Vec<f64> = chosen.iter().map(|job| finish(&job)).collect();
        finishes.sort_by(f64::total_cmp);
        let mean = finishes.iter().sum::<f64>() / finishes.len().max(1) as f64;
        let median = finishes.get(finishes.len() / 2).copied().unwrap_or(0.0);
        let open = chosen.iter().filter(|job| job.ended.is_none()).count();
        let run = chosen.iter().map(|job| job.run_s).sum::<f64>() / HOUR / chosen.len().max(1) as f64;
        println!(
            "{policy:<12} {:>3} jobs: done after {mean:.1} h on average, {median:.1} h median, of which {run:.1} h run; {open} not done",
            chosen.len()
        );
        means.insert(policy, mean);
    }
    let others = means.iter().filter(|(policy, _)| **policy != "by forecast").map(|(_, mean)| *mean);
    let best = others.fold(f64::INFINITY, f64::min);
    println!("by forecast over the best of the others: {:.2}", means["by forecast"] / best);
}

fn options(seen: &Snapshot) -> Vec<Request> {
    let mut list = Vec::new();
    for (name, speed) in SPEEDS {
        let gpu_type = GpuType::new(name).expect("a type");
        let groups =
            seen.nodes.iter().filter_map(|node| node.gpus.iter().find(|gpus| gpus.gpu_type == gpu_type));
        let sizes: Vec<u32> = groups.map(|group| group.count).collect();
        let most = sizes.iter().copied().max().unwrap_or(0);
        for count in COUNTS {
            let (nodes, per_node) = (count.div_ceil(most.max(1)), count.min(most));
            if most == 0 || nodes as usize > sizes.len() {
                continue;
            }
            let run = WORK * HOUR / (speed * f64::from(count) * SCALING.powf(f64::from(count).log2()));
            let cpus = u64::from(per_node) * 4;
            let asks = Asks {
                nodes,
                gpus: vec![GpuAsk { gpu_type: Some(gpu_type.clone()), count: per_node }],
                cpus: Some(cpus),
                memory_mib: Some(cpus * 2000),
                ..Asks::default()
            };
            let limit = (run * 1.21 / 900.0).ceil() * 900.0;
            let account = seen.accounts.first().map(|account| account.name.clone());
            let partition = seen
                .partitions
                .iter()
                .find(|partition| partition.default)
                .map(|partition| partition.name.clone());
            let (limit, run) = (Seconds(limit), Seconds(run));
            let id = RequestId(u32::try_from(list.len()).expect("few"));
            list.push(Request {
                id,
                asks,
                partition,
                account,
                limit,
                run,
                further: FurtherOptions::default(),
            });
        }
    }
    list
}

fn order(request: &Request) -> Order<'_> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "minutes")]
    let limit_min = (request.limit.0 / 60.0).round() as u32;
    Order {
        asks: &request.asks,
        partition: request.partition.as_deref().unwrap_or_default(),
        account: request.account.as_deref(),
        limit_min,
        run_min: request.run.0 / 60.0,
    }
}

fn gpus(request: &Request) -> String {
    let ask = &request.asks.gpus[0];
    let name = ask.gpu_type.as_ref().map_or("gpu", |gpu_type| gpu_type.as_str());
    format!("{} {name}", ask.count * request.asks.nodes)
}

fn fastest(options: &[Request], of: impl Fn(usize) -> bool) -> Option<usize> {
    let all = (0..options.len()).filter(|&number| of(number));
    all.min_by(|&a, &b| options[a].run.0.total_cmp(&options[b].run.0))
}

/// Chooses four GPUs of the fastest type.
fn fixed(_: &Site, _: &Snapshot, options: &[Request]) -> Option<usize> {
    options.iter().position(|option| gpus(option) == "4 a100")
}

/// Chooses the fastest request whose GPUs are free, or else the fastest request.
fn free_now(_: &Site, seen: &Snapshot, options: &[Request]) -> Option<usize> {
    let free = |node: &hsched_queue::QueueNode, gpu_type: &GpuType| {
        let all: u32 =
            node.gpus.iter().filter(|gpus| gpus.gpu_type == *gpu_type).map(|gpus| gpus.count).sum();
        let held = seen.jobs.iter().filter_map(|job| job.running.as_ref()).flat_map(|running| &running.holds);
        let held = held.filter(|hold| hold.node == node.name).flat_map(|hold| &hold.gpus);
        all.saturating_sub(held.filter(|gpus| gpus.gpu_type == *gpu_type).map(|gpus| gpus.count).sum())
    };
    let fits = |number: usize| {
        let ask = &options[number].asks.gpus[0];
        let Some(gpu_type) = &ask.gpu_type else { return false };
        let nodes = seen.nodes.iter().filter(|node| free(node, gpu_type) >= ask.count).count();
        nodes >= options[number].asks.nodes as usize
    };
    fastest(options, fits).or_else(|| fastest(options, |_| true))
}

fn by_test_only(site: &Site, seen: &Snapshot, options: &[Request]) -> Option<usize> {
    let finish = |number: usize| {
        let start = site.test_only(&order(&options[number]))?;
        Some((start - seen.taken_at.0).max(0.0) + options[number].run.0)
    };
    let known: Vec<Option<f64>> = (0..options.len()).map(finish).collect();
    let all = (0..options.len()).filter_map(|number| Some((known[number]?, number)));
    all.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, number)| number)
}

fn by_forecast(_: &Site, seen: &Snapshot, options: &[Request]) -> Option<usize> {
    let question =
        Question { snapshot: seen, requests: options, seed: 0, samples: SAMPLES, calibration: None };
    let estimates = forecast(&question, &|| false);
    let known =
        estimates.iter().filter_map(|estimate| Some((estimate.start.forecast()?.mean_finish(), estimate.id)));
    let (_, best) = known.min_by(|a, b| a.0.total_cmp(&b.0))?;
    options.iter().position(|option| option.id == best)
}
