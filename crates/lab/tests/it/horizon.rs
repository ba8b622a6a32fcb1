//! `horizon` and the lower bound of a trace: worked examples, rules for shared clusters, and an independent
//! check of the bound.

use hsched_lab::find_over_time;
use hsched_lab::registry;
use hsched_lab::replay::{Figures, Hooks, Options, Trace, TraceJob, replay};
use hsched_model::{Seconds, Time};
use hsched_plan::{
    Budget, Decision, HeldPlacement, HoldStage, Horizon, HorizonParameters, JobModel, Parameters, Placement,
    Policy, Problem, Repacking, Sharing, Slot, TraceBound, TraceCertificate, bound_of_prices, trace_bound,
    verify,
};
use proptest::prelude::*;

use hsched_problems::problems;

/// A linear job with a number of GPU-seconds on GPUs of these speeds, for 1 to `most` GPUs.
fn linear(work: u64, speeds: &[f64], most: u32) -> JobModel {
    let rates: Vec<f64> = speeds.iter().map(|speed| 100.0 * speed).collect();
    JobModel { max_gpus: most, global_batch: 400, ..problems::job("job", work / 100, 10_000, 0.0, &rates) }
}

/// The problem of a trace: its jobs with their arrivals.
fn arriving(mut problem: Problem, jobs: Vec<(f64, JobModel)>) -> Problem {
    problem.jobs = jobs
        .into_iter()
        .map(|(arrival, mut job)| {
            job.progress.arrival = Time(arrival);
            job
        })
        .collect();
    problem
}

/// The mean completion time under a policy; `None` if not all jobs end.
fn mean_jct(problem: &Problem, policy: &str, restart: f64) -> Option<f64> {
    let mut empty = problem.clone();
    let entry = |(place, model): (usize, JobModel)| TraceJob {
        arrival: model.progress.arrival,
        model,
        restart_cost: Some(Seconds(restart)),
        saves: true,
        retries: 0,
        after: Vec::new(),
        early: None,
        begun: None,
        copies: None,
        place,
    };
    let jobs = std::mem::take(&mut empty.jobs).into_iter().enumerate().map(entry).collect();
    let trace = Trace::of_entries(empty, jobs);
    let mut policy = find_over_time(policy, &Parameters::default()).expect("a policy");
    let hooks = Hooks { event: &mut |_| (), progress: &mut |_| (), elapsed: &|| 0.0 };
    let record = replay(&trace, &Options::default(), policy.as_mut(), hooks).expect("a replay");
    let figures = Figures::of(&trace, &record)?;
    (figures.ended == trace.jobs.len()).then_some(figures.mean_jct)
}

fn bound(problem: &Problem) -> TraceBound {
    trace_bound(problem, &|| false).expect("all can run")
}

fn is(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value - expected).abs() < 1e-6 * expected)
}

#[test]
fn equal_linear_jobs_run_one_after_the_other() {
    let jobs = vec![(0.0, linear(400, &[1.0], 4)); 4];
    let problem = arriving(problems::problem(&["v100"], &[&[4]], Vec::new()), jobs);
    assert!(is(mean_jct(&problem, "horizon", 0.0), 250.0));
    assert!(is(Some(bound(&problem).lower), 250.0), "{:?}", bound(&problem));
}

#[test]
fn the_short_job_gets_the_fast_gpu_first() {
    let speeds = [0.5, 1.0];
    let jobs = vec![(0.0, linear(3600, &speeds, 1)), (0.0, linear(36_000, &speeds, 1))];
    let problem = arriving(problems::problem(&["t4", "v100"], &[&[1, 0], &[0, 1]], Vec::new()), jobs);
    assert!(is(mean_jct(&problem, "horizon", 0.0), 20_700.0));
    let lower = bound(&problem).lower;
    assert!((20_500.0..=20_700.0).contains(&lower), "{lower}");
}

#[test]
fn a_short_job_preempts_where_that_pays_its_restart() {
    let with = |short: u64| {
        let jobs = vec![(0.0, linear(2000, &[1.0], 2)), (300.0, linear(short, &[1.0], 2))];
        arriving(problems::problem(&["v100"], &[&[2]], Vec::new()), jobs)
    };
    assert!(is(mean_jct(&with(400), "horizon", 60.0), 730.0));
    assert!(is(mean_jct(&with(1300), "horizon", 60.0), 1175.0), "a longer one waits");
}

/// A problem in which job 0 runs alone on both GPUs and the shorter job 1 has just arrived.
fn one_runs_one_comes(movable: bool) -> Problem {
    let jobs = vec![linear(20_000, &[1.0], 2), linear(100, &[1.0], 1)];
    let mut problem = problems::problem(&["v100"], &[&[2]], jobs);
    let slots = vec![Slot { node: 0, gpu_type: 0, count: 2 }];
    let epoch = Placement::new(&problem, 0, &slots, Sharing::Balanced).expect("legal").epoch.total();
    let stage = HoldStage::Running { epoch, under_way: 0.0, movable, busy_until: Time(0.0) };
    problem.jobs[0].progress.holds = vec![HeldPlacement { slots, since: Time(0.0), epoch, stage }];
    problem
}

fn decide(policy: &mut Horizon, problem: &Problem) -> Vec<(usize, Decision)> {
    let budget = Budget { begin: &|| (), stop: &|| false };
    let plan = policy.decide(problem, &budget).expect("a plan");
    verify(problem, plan).expect("a legal plan").plan().changes.clone()
}

#[test]
fn who_must_not_be_stopped_keeps_its_gpus() {
    let mut free = Horizon::new(HorizonParameters::default());
    let changes = decide(&mut free, &one_runs_one_comes(true));
    let placed = |job: usize| {
        changes.iter().any(|(change, decision)| *change == job && matches!(decision, Decision::Place { .. }))
    };
    assert!(placed(1), "the short one starts at once: {changes:?}");
    let mut free = Horizon::new(HorizonParameters::default());
    let changes = decide(&mut free, &one_runs_one_comes(false));
    assert!(matches!(changes[..], [(1, Decision::Defer { .. })]), "it may not be moved: {changes:?}");
}

#[test]
fn what_it_remembers_outlives_its_process() {
    let mut first = Horizon::new(HorizonParameters::default());
    assert_eq!(first.memory(), None, "nothing yet");
    let mut problem = one_runs_one_comes(true);
    decide(&mut first, &problem);
    let memory = first.memory().expect("prices");
    let mut second = Horizon::new(HorizonParameters::default());
    second.remember(&memory);
    problem.now = Time(10.0);
    assert_eq!(decide(&mut first, &problem), decide(&mut second, &problem));
    assert_eq!(first.memory(), second.memory());
}

/// Traces on mixed problems without running jobs.
fn traces() -> impl Strategy<Value = Problem> {
    (problems::any_problem(6, 4, true), proptest::collection::vec(0_u32..2000, 8)).prop_map(
        |(mut problem, arrivals)| {
            for (job, arrival) in problem.jobs.iter_mut().zip(arrivals.into_iter().cycle()) {
                job.progress.arrival = Time(f64::from(arrival));
            }
            problem
        },
    )
}

/// The minimum cost, at the certificate's prices, of a job that ends by `end`: takes the cheapest steps of
/// all intervals first. Infinite if the job cannot end by then.
fn cost_by(
    problem: &Problem,
    job: &JobModel,
    bundles: &[(Vec<u32>, f64)],
    certificate: &TraceCertificate,
    end: f64,
) -> f64 {
    let begin = job.progress.arrival.0;
    let mut pieces: Vec<(f64, f64)> = Vec::new();
    for (number, &edge) in certificate.edges.iter().enumerate() {
        let until = certificate.edges.get(number + 1).copied().unwrap_or(f64::INFINITY).min(end);
        let length = until - edge.max(begin);
        if length <= 0.0 {
            continue;
        }
        let rent = |counts: &[u32]| -> f64 {
            counts
                .iter()
                .zip(&certificate.prices[number])
                .map(|(&count, price)| f64::from(count) * price)
                .sum()
        };
        let (mut speed, mut paid) = (0.0, 0.0);
        // The next vertex of the envelope has the lowest cost per additional epoch.
        loop {
            let next = bundles.iter().filter(|(_, bundle)| *bundle > speed * (1.0 + 1e-12));
            let next = next.map(|(counts, bundle_speed)| {
                ((rent(counts) - paid) / (bundle_speed - speed), *bundle_speed, rent(counts))
            });
            let Some((cost, faster, rent)) =
                next.min_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)))
            else {
                break;
            };
            pieces.push((cost, (faster - speed) * length));
            (speed, paid) = (faster, rent);
        }
    }
    assert_eq!(problem.gpu_types.len(), certificate.prices[0].len());
    pieces.sort_by(|a, b| a.0.total_cmp(&b.0));
    #[expect(clippy::cast_precision_loss, reason = "few epochs")]
    let mut left = job.epochs as f64;
    let mut cost = end - begin;
    for (price, epochs) in pieces {
        cost += price * left.min(epochs);
        left -= left.min(epochs);
    }
    if left > 1e-9 { f64::INFINITY } else { cost }
}

/// All placements of a job, as GPUs by type, with their epochs per second.
fn bundles(problem: &Problem, job: usize) -> Vec<(Vec<u32>, f64)> {
    let mut all: Vec<Vec<Slot>> = vec![Vec::new()];
    for (node, worker_node) in problem.nodes.iter().enumerate() {
        for (gpu_type, &gpus) in worker_node.gpus.iter().enumerate() {
            let with = |slots: &Vec<Slot>| {
                let more = |count: u32| {
                    let slot = (count > 0).then_some(Slot { node, gpu_type, count });
                    slots.iter().copied().chain(slot).collect::<Vec<_>>()
                };
                (0..=gpus).map(more).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
        }
    }
    let model = &problem.jobs[job];
    let bundle = |slots: &Vec<Slot>| {
        let mut counts = vec![0; problem.gpu_types.len()];
        for slot in slots {
            counts[slot.gpu_type] += slot.count;
        }
        let legal = (model.min_gpus..=model.max_gpus).contains(&counts.iter().sum());
        let placement = Placement::new(problem, job, slots, Sharing::Balanced).filter(|_| legal)?;
        Some((counts, placement.epoch.total().recip()))
    };
    all.iter().filter_map(bundle).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_policy_undercuts_the_bound(problem in traces()) {
        let Some(bound) = trace_bound(&problem, &|| false) else { return Ok(()) };
        if let Some((value, certificate)) = &bound.priced {
            let again = bound_of_prices(&problem, certificate).expect("the same");
            prop_assert!((again - value).abs() <= 1e-9 * value.abs().max(1.0));
        }
        prop_assert!(mean_jct(&problem, "horizon", 0.0).is_some(), "all can run");
        // Equal shares are valid on some GPUs on which balanced shares, the basis of the bound, would leave a
        // rank without work.
        let equal = ["exhaustive", "optimus", "hadar"];
        for policy in registry().names_over_time().into_iter().filter(|name| !equal.contains(name)) {
            // Policies that use a single type cannot run every job.
            let Some(mean) = mean_jct(&problem, policy, 0.0) else { continue };
            prop_assert!(mean >= bound.lower, "{policy}: {mean} < {}", bound.lower);
        }
    }

    #[test]
    fn prices_prove_what_an_independent_look_finds(problem in traces(), prices in proptest::collection::vec(0_u32..9, 12)) {
        prop_assume!(problem.nodes.iter().map(|node| node.gpus.iter().map(|count| u64::from(*count) + 1).product::<u64>()).product::<u64>() < 3000);
        // With communication, it may be that no nodes provide the best possible ring of a bundle.
        let is_exact = prices[0] % 2 == 0;
        let mut problem = problem;
        for job in problem.jobs.iter_mut().filter(|_| is_exact) {
            job.model_bytes = 0.0;
        }
        let types = problem.gpu_types.len();
        let price = |interval: usize| (0..types).map(|ty| f64::from(prices[(interval * types + ty) % 12]) * 0.05).collect();
        let edges = vec![0.0, 300.0, 900.0, 2500.0, 6000.0];
        let certificate = TraceCertificate { prices: (0..4).map(price).chain([vec![0.0; types]]).collect(), edges };
        let Some(found) = bound_of_prices(&problem, &certificate) else { return Ok(()) };
        let mut sum = 0.0;
        for (number, job) in problem.jobs.iter().enumerate() {
            let bundles = bundles(&problem, number);
            let longest = bundles.iter().map(|bundle| bundle.1).fold(f64::INFINITY, f64::min);
            #[expect(clippy::cast_precision_loss, reason = "few epochs")]
            let last = job.progress.arrival.0 + 6000.0 + job.epochs as f64 / longest;
            let mut ends: Vec<f64> = certificate.edges.iter().copied().chain([last]).filter(|end| *end > job.progress.arrival.0).collect();
            ends.insert(0, job.progress.arrival.0);
            let cost = |end: f64| cost_by(&problem, job, &bundles, &certificate, end);
            let mut least = f64::INFINITY;
            for pair in ends.windows(2) {
                // The cost is convex between two edges.
                let (mut low, mut high) = (pair[0], pair[1]);
                for _ in 0..200 {
                    let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
                    if cost(a) <= cost(b) && cost(b).is_finite() { high = b } else { low = a }
                }
                least = least.min(cost(high)).min(cost(pair[1]));
            }
            sum += least;
        }
        let rent: f64 = certificate.edges.windows(2).zip(&certificate.prices).map(|(pair, prices)| {
            let all = prices.iter().enumerate().map(|(ty, price)| price * f64::from(problem.nodes.iter().map(|node| node.gpus[ty]).sum::<u32>()));
            (pair[1] - pair[0]) * all.sum::<f64>()
        }).sum();
        #[expect(clippy::cast_precision_loss, reason = "few jobs")]
        let expected = (sum - rent) / problem.jobs.len() as f64;
        prop_assert!(found <= expected + 1e-6 * (sum + rent), "{found} > {expected}");
        prop_assert!(!is_exact || found >= expected - 1e-6 * (sum + rent), "{found} is far below {expected}");
    }

    #[test]
    fn on_a_shared_cluster_nobody_is_stopped_to_wait(problem in traces(), seconds in 0_u32..500) {
        let parameters = HorizonParameters { preempts: false, repacking: Repacking::Off };
        let mut policy = Horizon::new(parameters);
        let mut now = problem;
        now.jobs.iter_mut().for_each(|job| job.progress.restart_cost = Seconds(seconds.into()));
        // The first two jobs arrive earlier and run when the others arrive.
        for job in now.jobs.iter_mut().skip(2) {
            job.progress.waits = hsched_plan::Eligibility::Later;
        }
        for (job, decision) in decide(&mut policy, &now) {
            if let Decision::Place { placements, .. } = decision {
                let epoch = placements[0].epoch.total();
                let stage = HoldStage::Running { epoch, under_way: 0.0, movable: true, busy_until: Time(0.0) };
                now.jobs[job].progress.holds = vec![HeldPlacement { slots: placements[0].slots.clone(), since: Time(0.0), epoch, stage }];
            }
        }
        now.now = Time(60.0);
        for job in now.jobs.iter_mut().skip(2) {
            job.progress.waits = hsched_plan::Eligibility::Ready;
        }
        for (job, decision) in decide(&mut policy, &now) {
            let runs = !now.jobs[job].progress.holds.is_empty();
            prop_assert!(!runs || matches!(decision, Decision::Place { .. }), "{decision:?}");
        }
    }
}
