//! The lower bound in `hsched simulate`: worked examples, an independent check of its certificate, and cases to which
//! it does not apply.

use serde_json::Value;

use crate::sandbox::Sandbox;

const HEADER: &str = "name,arrival,gpus,min_gpus,max_gpus,samples_per_epoch,epochs,global_batch,model_size,throughput.v100,throughput.t4";

/// Returns a sandbox with a trace of these lines on these nodes.
fn sandbox(nodes: &str, jobs: &[&str]) -> Sandbox {
    let cluster = format!("network_gbps: 10\nintra_node_gbps: 300\nnodes: {nodes}\n");
    let trace = format!("{HEADER}\n{}\n", jobs.join("\n"));
    Sandbox::new().file("week.csv", &trace).file("lab.yaml", &cluster)
}

/// Returns the result of a simulation with these policies and options.
fn simulated(sandbox: &Sandbox, options: &str) -> Value {
    let files = "simulate --trace week.csv --cluster lab.yaml --format json";
    sandbox.run(&format!("{files} --policy {options}")).json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

fn is(value: &Value, expected: f64) {
    let found = number(value);
    assert!((found - expected).abs() < 1e-6 * expected, "{found} is not {expected}");
}

#[test]
fn four_equal_jobs_end_one_after_the_other_at_best() {
    let jobs = ["a", "b", "c", "d"].map(|name| format!("{name},0,,1,4,40000,1,400,0,100,"));
    let sandbox = sandbox("[{name: n1, gpus: {v100: 4}}]", &jobs.each_ref().map(String::as_str));
    let json = simulated(&sandbox, "horizon,optimal,fifo");
    is(&json["lower_bound_s"], 250.0);
    for (policy, mean) in [(0, 250.0), (1, 400.0)] {
        is(&json["policies"][policy]["mean_jct_s"], mean);
        is(&json["policies"][policy]["lower_bound_s"], 250.0);
        is(&json["policies"][policy]["ratio"], mean / 250.0);
    }
    let table =
        sandbox.run("simulate --trace week.csv --cluster lab.yaml --policy horizon,optimal").succeeds();
    assert!(table.contains("No schedule of all jobs has a mean JCT below 250.0 s"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("optimal") && line.contains(" 1.600 ")), "{table}");
    let csv =
        sandbox.run("simulate --trace week.csv --cluster lab.yaml --policy optimal --format csv").succeeds();
    let header = "policy,seed,mean_jct_s,lower_bound_s,ratio,p50_jct_s";
    assert!(csv.starts_with(header), "{csv}");
    let cells: Vec<f64> = csv
        .lines()
        .nth(1)
        .expect("a run")
        .split(',')
        .skip(2)
        .take(3)
        .map(|cell| cell.parse().expect("a number"))
        .collect();
    assert!((cells[0] / cells[1] - cells[2]).abs() < 1e-12, "{cells:?}");
}

#[test]
fn a_restart_is_in_the_ratio_and_not_in_the_bound() {
    let jobs = ["a,0,,1,2,200000,1,400,0,100,", "b,300,,1,2,40000,1,400,0,100,"];
    let json =
        simulated(&sandbox("[{name: n1, gpus: {v100: 2}}]", &jobs), "horizon,optimal --restart-cost 60s");
    is(&json["lower_bound_s"], 700.0);
    is(&json["policies"][0]["ratio"], 730.0 / 700.0);
    is(&json["policies"][1]["ratio"], 845.0 / 700.0);
}

#[test]
fn the_short_job_has_the_fast_gpu_at_best() {
    let jobs = ["s,0,1,,,3600,100,100,0,100,50", "l,0,1,,,36000,100,100,0,100,50"];
    let nodes = "[{name: v, gpus: {v100: 1}}, {name: t, gpus: {t4: 1}}]";
    let json = simulated(&sandbox(nodes, &jobs), "horizon --restart-cost 0s");
    is(&json["policies"][0]["mean_jct_s"], 20_700.0);
    let ratio = number(&json["policies"][0]["ratio"]);
    assert!((1.0..1.01).contains(&ratio), "{ratio}");
}

/// Returns the bound in seconds that the prices of the V100 prove for jobs of one GPU: the mean over the jobs
/// of their minimum costs, found by ternary search over their ends, less the rent of all GPUs.
fn proven(certificate: &Value, gpus: f64, jobs: &[(f64, f64)]) -> f64 {
    let list = |value: &Value| value.as_array().expect("a list").iter().map(number).collect::<Vec<_>>();
    let (from, prices) = (list(&certificate["from_s"]), list(&certificate["prices"]["v100"]));
    let until = |number: usize| from.get(number + 1).copied().unwrap_or(f64::INFINITY);
    let cost = |(arrival, work): (f64, f64), end: f64| {
        let piece = |number: usize| (prices[number], until(number).min(end) - from[number].max(arrival));
        let mut pieces: Vec<(f64, f64)> = (0..from.len()).map(piece).filter(|part| part.1 > 0.0).collect();
        pieces.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut left, mut cost) = (work, end - arrival);
        for (price, seconds) in pieces {
            let used = left.min(seconds);
            (left, cost) = (left - used, cost + price * used);
        }
        if left > 1e-9 { f64::INFINITY } else { cost }
    };
    let least = |job: (f64, f64)| {
        let mut ends: Vec<f64> = from.iter().copied().filter(|edge| *edge > job.0 + job.1).collect();
        ends.insert(0, job.0 + job.1);
        ends.push(from.last().expect("edges") + job.0 + 2.0 * job.1);
        let in_interval = |pair: &[f64]| {
            let (mut low, mut high) = (pair[0], pair[1]);
            for _ in 0..100 {
                let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
                if cost(job, a) <= cost(job, b) { high = b } else { low = a }
            }
            cost(job, high)
        };
        ends.windows(2).map(in_interval).fold(f64::INFINITY, f64::min)
    };
    let rent = |number: usize| prices[number] * gpus * (until(number) - from[number]);
    let rents: f64 = (0..from.len() - 1).map(rent).sum();
    #[expect(clippy::cast_precision_loss, reason = "few jobs")]
    let count = jobs.len() as f64;
    (jobs.iter().map(|job| least(*job)).sum::<f64>() - rents) / count
}

#[test]
fn anybody_can_compute_the_bound_again_from_the_certificate() {
    let work = [(0.0, 900.0), (100.0, 300.0), (150.0, 2000.0), (400.0, 100.0), (500.0, 700.0)];
    let line = |(number, (arrival, work)): (usize, &(f64, f64))| {
        format!("j{number},{arrival},1,,,100,{work},100,0,100,")
    };
    let jobs: Vec<String> = work.iter().enumerate().map(line).collect();
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let sandbox = sandbox("[{name: n1, gpus: {v100: 2}}]", &jobs);
    let json = simulated(&sandbox, "horizon --certificate");
    let certificate = &json["certificate"];
    is(&certificate["proves_s"], proven(certificate, 2.0, &work));
    assert!(number(&json["lower_bound_s"]) >= number(&certificate["proves_s"]));
    assert!(number(&json["policies"][0]["ratio"]) < 1.1, "{json}");
    assert_eq!(
        json["certificate"],
        simulated(&sandbox, "horizon --certificate")["certificate"],
        "the same bytes"
    );
    assert!(simulated(&sandbox, "horizon").get("certificate").is_none());
}

#[test]
fn there_is_no_bound_or_ratio_where_none_applies() {
    let jobs = ["a,0,1,,,100,50,100,0,100,", "b,10,1,,,100,50,100,0,100,"];
    let sandbox = sandbox("[{name: n1, gpus: {v100: 1}}]", &jobs);
    let json = simulated(&sandbox, "fifo --no-bound");
    assert_eq!((&json["lower_bound_s"], &json["policies"][0]["ratio"]), (&Value::Null, &Value::Null));
    let cut = simulated(&sandbox, "fifo --round 20s --rounds 2");
    assert!(cut["lower_bound_s"].is_number() && cut["policies"][0]["ratio"].is_null(), "{cut}");
    let copies = simulated(&sandbox, "hadare,fifo");
    assert!(
        copies["lower_bound_s"].is_number() && copies["policies"][1]["lower_bound_s"].is_number(),
        "{copies}"
    );
    assert!(copies["policies"][0]["lower_bound_s"].is_null(), "{copies}");
    assert!(simulated(&sandbox, "hadare")["lower_bound_s"].is_null());
    let files = "simulate --trace week.csv --cluster lab.yaml --policy fifo";
    sandbox.run(&format!("{files} --certificate --no-bound")).fails(2);
    let table = sandbox.run(&format!("{files} --no-bound")).succeeds();
    assert!(!table.contains("RATIO"), "{table}");
}

#[test]
fn more_than_a_thousand_jobs_get_a_bound_when_asked() {
    let jobs: Vec<String> =
        (0..1001).map(|number| format!("j{number},{number},1,,,100,3,100,0,100,")).collect();
    let sandbox =
        sandbox("[{name: n1, gpus: {v100: 4}}]", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(simulated(&sandbox, "fifo")["lower_bound_s"].is_null());
    let json = simulated(&sandbox, "fifo --bound");
    is(&json["lower_bound_s"], 3.0);
    is(&json["policies"][0]["ratio"], 1.0);
}

#[test]
fn sweeps_have_a_bound_for_each_load() {
    let jobs = ["a,0,1,,,100,50,100,0,100,", "b,10,1,,,100,50,100,0,100,", "c,90,1,,,100,50,100,0,100,"];
    let json = simulated(
        &sandbox("[{name: n1, gpus: {v100: 1}}]", &jobs),
        "srtf --sweep load=0.2,2 --sweep seed=0..2",
    );
    let points = json["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    is(&points[0]["lower_bound_s"], 50.0);
    assert!(number(&points[1]["lower_bound_s"]) > 60.0, "{json}");
    for point in points {
        is(&point["ratio"], number(&point["mean_jct_s"]) / number(&point["lower_bound_s"]));
    }
}
