//! The fast core of simulations: worked examples.

use hsched_lab::find_over_time;
use hsched_lab::hadare::{HadareParameters, replay_copies};
use hsched_lab::registry;
use hsched_lab::replay::{
    EventKind, Figures, Hooks, Incidents, Loses, Options, Outage, ReplayError, ReplayEvent, ReplayRecord,
    Trace, TraceJob, replay,
};
use hsched_model::{Seconds, Time};
use hsched_plan::{JobModel, Parameters, Problem};
use hsched_problems::problems;

/// A trace of jobs with their arrivals on the nodes of a problem.
pub fn trace(mut problem: Problem, jobs: Vec<(f64, JobModel)>) -> Trace {
    problem.jobs.clear();
    let entry = |(place, (arrival, model)): (usize, (f64, JobModel))| TraceJob {
        model,
        arrival: Time(arrival),
        restart_cost: None,
        saves: true,
        retries: 3,
        after: Vec::new(),
        early: None,
        begun: None,
        copies: None,
        place,
    };
    Trace::of_entries(problem, jobs.into_iter().enumerate().map(entry).collect())
}

pub fn no_restart() -> Options {
    Options { restart_cost: Some(Seconds(0.0)), ..Options::default() }
}

/// Replays a trace; returns the record and the events.
pub fn play(
    trace: &Trace,
    options: &Options,
    policy: &str,
) -> Result<(ReplayRecord, Vec<ReplayEvent>), ReplayError> {
    let mut policy = find_over_time(policy, &Parameters::default()).expect("a policy");
    let mut events = Vec::new();
    let hooks =
        Hooks { event: &mut |event| events.push(event.clone()), progress: &mut |_| (), elapsed: &|| 0.0 };
    replay(trace, options, policy.as_mut(), hooks).map(|record| (record, events))
}

pub fn completions(trace: &Trace, options: &Options, policy: &str) -> Vec<f64> {
    let (record, _) = play(trace, options, policy).expect("a replay");
    record.jobs.iter().map(|job| job.completed.expect("an end").0).collect()
}

pub fn assert_near(times: &[f64], expected: &[f64]) {
    assert_eq!(times.len(), expected.len());
    for (time, expected) in times.iter().zip(expected) {
        assert!((time - expected).abs() < 1e-6 * expected.max(1.0), "{times:?}, not {expected:?}");
    }
}

/// A linear job that takes this number of seconds on one V100, which has 100 samples/s, in epochs of 100 s.
pub fn seconds(name: &str, long: u64, rates: &[f64], max_gpus: u32) -> JobModel {
    JobModel { max_gpus, ..problems::job(name, long / 100, 10_000, 0.0, rates) }
}

#[test]
fn four_equal_jobs_on_four_gpus() {
    let jobs = ["a", "b", "c", "d"].map(|name| (0.0, seconds(name, 400, &[100.0], 4)));
    let trace = trace(problems::problem(&["v100"], &[&[4]], Vec::new()), jobs.to_vec());
    for policy in ["optimal", "fifo", "srtf", "las"] {
        assert_near(&completions(&trace, &no_restart(), policy), &[400.0; 4]);
    }
}

/// `simulate --sweep seed=…` prints a note if the seed has no effect.
#[test]
fn only_jps_and_optimal_use_the_seed_where_nothing_is_left_to_chance() {
    let jobs = [("a", 300, 1), ("b", 1200, 3), ("c", 700, 2), ("d", 500, 4), ("e", 900, 2)];
    let jobs = jobs.map(|(name, long, most)| (100.0, seconds(name, long, &[50.0, 100.0], most)));
    let trace = trace(problems::problem(&["t4", "v100"], &[&[2, 0], &[0, 2]], Vec::new()), jobs.to_vec());
    for policy in registry().names_over_time().into_iter().filter(|name| !["jps", "optimal"].contains(name)) {
        let [one, other] = [1, 2].map(|seed| play(&trace, &Options { seed, ..no_restart() }, policy));
        let jobs = |played: Result<(ReplayRecord, _), _>| played.map(|(record, _)| record.jobs).ok();
        assert_eq!(jobs(one), jobs(other), "{policy}");
    }
}

#[test]
fn a_short_and_a_long_job_on_a_fast_and_a_slow_gpu() {
    let jobs = [("s", 3600), ("l", 36_000)];
    let jobs = jobs.map(|(name, long)| (0.0, seconds(name, long, &[50.0, 100.0], 1)));
    let trace = trace(problems::problem(&["t4", "v100"], &[&[1, 0], &[0, 1]], Vec::new()), jobs.to_vec());
    assert_near(&completions(&trace, &no_restart(), "srtf"), &[3600.0, 37_800.0]);
    // The static optimum has a mean of 21,600 s instead of 20,700 s.
    assert_near(&completions(&trace, &no_restart(), "optimal"), &[7200.0, 36_000.0]);
}

#[test]
fn kinds_of_fifo_take_the_type_with_most_free_gpus_the_fastest_or_the_last_by_name() {
    // The job is half as fast on a K80 and a quarter as fast on a P100 as on a T4.
    let jobs = vec![(0.0, seconds("a", 1000, &[50.0, 25.0, 100.0], 1))];
    let nodes: &[&[u32]] = &[&[2, 0, 0], &[0, 1, 0], &[0, 0, 1]];
    let types = problems::problem(&["k80", "p100", "t4"], nodes, Vec::new());
    let first = |policy| completions(&trace(types.clone(), jobs.clone()), &no_restart(), policy)[0];
    assert_near(&[first("fifo"), first("fifo-het"), first("fifo-by-name")], &[2000.0, 1000.0, 1000.0]);
    let slow_last = vec![(0.0, seconds("a", 1000, &[50.0, 100.0, 25.0], 1))];
    let last = |policy| completions(&trace(types.clone(), slow_last.clone()), &no_restart(), policy)[0];
    assert_near(&[last("fifo"), last("fifo-het"), last("fifo-by-name")], &[2000.0, 1000.0, 4000.0]);
}

#[test]
fn a_restart_costs_its_time_and_a_first_start_none() {
    let jobs = vec![(0.0, seconds("a", 2000, &[100.0], 2)), (300.0, seconds("b", 400, &[100.0], 2))];
    let trace = trace(problems::problem(&["v100"], &[&[2]], Vec::new()), jobs);
    let options = Options { restart_cost: Some(Seconds(60.0)), ..Options::default() };
    let (record, _) = play(&trace, &options, "optimal").expect("a replay");
    let times: Vec<f64> = record.jobs.iter().map(|job| job.completed.expect("an end").0).collect();
    assert_near(&times, &[1290.0, 700.0]);
    assert_eq!([record.jobs[0].moves, record.jobs[1].moves], [2, 0]);
    let figures = Figures::of(&trace, &record).expect("figures");
    assert_near(&[figures.mean_jct, figures.mean_wait, figures.makespan], &[845.0, 0.0, 1290.0]);
    // Job a restarts once on one GPU and once on two, for 60 s each.
    assert_near(&[record.held, record.restarting], &[300.0 * 2.0 + 400.0 * 2.0 + 590.0 * 2.0, 180.0]);
    let there = 2.0 * 1290.0;
    assert_near(&[figures.utilisation, figures.goodput], &[2580.0 / there, 2400.0 / there]);
}

#[test]
fn gpu_time_after_the_last_completion_does_not_count() {
    let jobs = vec![(0.0, seconds("short", 100, &[100.0], 1)), (0.0, seconds("long", 100_000, &[100.0], 1))];
    let trace = trace(problems::problem(&["v100"], &[&[1], &[1]], Vec::new()), jobs);
    let options = Options { round: Some(Seconds(50.0)), rounds: Some(10), ..no_restart() };
    let (fifo, _) = play(&trace, &options, "fifo").expect("a replay");
    let hooks = Hooks { event: &mut |_| (), progress: &mut |_| (), elapsed: &|| 0.0 };
    let copies = HadareParameters { round: Seconds(50.0), ..HadareParameters::default() };
    let hadare = replay_copies(&trace, &options, &copies, hooks);
    let [fifo, hadare] = [fifo, hadare].map(|record| Figures::of(&trace, &record).expect("figures"));
    assert_near(&[fifo.makespan, fifo.utilisation, fifo.goodput], &[100.0, 1.0, 1.0]);
    // In the first round of 50 s, the copies of job `short` do nine steps of 5.12 s each. In the second one,
    // the job ends after 10.24 s, and job `long` has the other node.
    let held = 2.0 * 9.0 * 5.12 + 2.0 * 10.24;
    assert_near(&[hadare.makespan, hadare.utilisation], &[60.24, held / (2.0 * 60.24)]);
}

#[test]
fn a_deadline_moves_with_its_arrival_if_the_load_is_scaled() {
    let mut late = seconds("late", 400, &[100.0], 1);
    late.aims.deadline = Some(Time(600.0));
    let jobs = vec![(100.0, seconds("first", 400, &[100.0], 1)), (300.0, late)];
    let trace = trace(problems::problem(&["v100"], &[&[1]], Vec::new()), jobs);
    let half = trace.with_load(trace.load().expect("a load") / 2.0).expect("a trace");
    let last = &half.jobs[1];
    assert_eq!((last.arrival, last.model.aims.deadline), (Time(500.0), Some(Time(800.0))));
}

#[test]
fn hadare_says_why_a_job_cannot_run() {
    let mut large = seconds("large", 400, &[100.0], 1);
    large.accumulate = false;
    large.types.iter_mut().flatten().for_each(|model| model.max_batch = Some(4));
    let unknown = JobModel { types: vec![None], ..seconds("unknown", 400, &[100.0], 1) };
    let trace = trace(problems::problem(&["v100"], &[&[1]], Vec::new()), vec![(0.0, large), (0.0, unknown)]);
    let hooks = Hooks { event: &mut |_| (), progress: &mut |_| (), elapsed: &|| 0.0 };
    let record = replay_copies(&trace, &no_restart(), &HadareParameters::default(), hooks);
    let why: Vec<Option<&str>> = record.jobs.iter().map(|job| job.why.as_deref()).collect();
    let expected = [
        "its batch cannot be divided over the GPUs of any node",
        "it has no known speed on any GPU type of this cluster",
    ];
    assert_eq!(why, expected.map(Some));
}

#[test]
fn a_failure_costs_the_epoch_under_way_and_a_retry() {
    let jobs = vec![(0.0, seconds("a", 400, &[100.0], 1))];
    let trace = trace(problems::problem(&["v100"], &[&[1]], Vec::new()), jobs);
    let outages = vec![Outage { node: 0, from: Time(250.0), until: Time(1000.0) }];
    let options = Options { incidents: Incidents { outages, ..Incidents::default() }, ..no_restart() };
    // Two epochs are saved and two are left when the node is back.
    let (record, events) = play(&trace, &options, "fifo").expect("a replay");
    assert_near(&[record.jobs[0].completed.expect("an end").0], &[1200.0]);
    let kinds: Vec<(f64, EventKind)> = events.iter().map(|event| (event.at.0, event.kind)).collect();
    let expected = [
        (0.0, EventKind::Arrived),
        (0.0, EventKind::Started),
        (250.0, EventKind::Failed),
        (250.0, EventKind::NodeDown),
        (1000.0, EventKind::Started),
        (1000.0, EventKind::NodeBack),
        (1200.0, EventKind::Completed),
    ];
    assert_eq!(kinds, expected);
    // A job that fails repeatedly ends with a reason.
    let often = Incidents { job_failures: Some(Seconds(1.0)), ..Incidents::default() };
    let (record, _) = play(&trace, &Options { incidents: often, ..no_restart() }, "fifo").expect("a replay");
    assert_eq!(record.jobs[0].why.as_deref(), Some("failures: 4; `retries` is 3"));
}

#[test]
fn jobs_that_lose_every_epoch_to_each_other_are_given_up() {
    // Epochs of 1000 s, and a GPU that changes its job every 360 s.
    let job = |name: &str| problems::job(name, 10, 100_000, 0.0, &[100.0]);
    let jobs = vec![(0.0, job("a")), (0.0, job("b"))];
    let trace = trace(problems::problem(&["v100"], &[&[1]], Vec::new()), jobs);
    let options = Options { loses: Loses::Epoch, ..no_restart() };
    let (record, _) = play(&trace, &options, "gavel-max-min").expect("a replay");
    let why = "it started 1000 times in a row without saving any progress";
    assert!(record.jobs.iter().all(|job| job.why.as_deref() == Some(why)), "{:?}", record.jobs);
    let saved = play(&trace, &no_restart(), "gavel-max-min").expect("a replay").0;
    assert!(saved.jobs.iter().all(|job| job.completed.is_some()));
}

#[test]
fn who_never_fits_is_told_why_and_holds_up_nobody() {
    let wide = JobModel { min_gpus: 3, max_gpus: 3, asks: 3, ..seconds("wide", 400, &[100.0], 3) };
    let jobs = vec![(0.0, wide), (0.0, seconds("a", 400, &[100.0], 1))];
    let trace = trace(problems::problem(&["v100"], &[&[2]], Vec::new()), jobs);
    for policy in registry().names_over_time() {
        let (record, _) = play(&trace, &no_restart(), policy).expect("a replay");
        assert_eq!(record.jobs[0].completed, None, "{policy}");
        assert!(
            record.jobs[0].why.as_deref().is_some_and(|why| why.starts_with("it never got GPUs")),
            "{policy}"
        );
        assert!(record.jobs[1].completed.is_some(), "{policy}");
    }
}

#[test]
fn rounds_hold_decisions_back() {
    let jobs = vec![(10.0, seconds("a", 100, &[100.0], 1)), (20.0, seconds("b", 100, &[100.0], 1))];
    let trace = trace(problems::problem(&["v100"], &[&[1]], Vec::new()), jobs);
    let options = Options { round: Some(Seconds(60.0)), ..no_restart() };
    assert_near(&completions(&trace, &options, "fifo"), &[160.0, 280.0]);
    let (record, _) = play(&trace, &Options { rounds: Some(3), ..options }, "fifo").expect("a replay");
    let ended: Vec<bool> = record.jobs.iter().map(|job| job.completed.is_some()).collect();
    assert_eq!(ended, [true, false]);
    assert!(record.jobs[1].why.as_deref().is_some_and(|why| why.starts_with("the last round is over")));
}

#[test]
fn las_takes_turns_by_the_gpu_time_that_jobs_had() {
    // On one GPU, the first job has its GPU hour, then the second one, and then the first one continues.
    let jobs = vec![(0.0, seconds("a", 7200, &[100.0], 1)), (100.0, seconds("b", 7200, &[100.0], 1))];
    let trace = trace(problems::problem(&["v100"], &[&[1]], Vec::new()), jobs);
    assert_near(&completions(&trace, &no_restart(), "las"), &[10_800.0, 14_400.0]);
}

#[test]
fn gavel_shares_a_gpu_in_rounds() {
    let jobs = vec![(0.0, seconds("a", 3600, &[100.0], 1)), (0.0, seconds("b", 3600, &[100.0], 1))];
    let trace = trace(problems::problem(&["v100"], &[&[1]], Vec::new()), jobs);
    let times = completions(&trace, &no_restart(), "gavel-max-min");
    assert!(times.iter().all(|time| (6839.9..=7200.1).contains(time)), "{times:?}");
}

#[test]
fn loads_are_what_they_are_scaled_to() {
    let job = |name: &str| seconds(name, 1000, &[50.0, 100.0], 1);
    let jobs = vec![(0.0, job("a")), (100.0, job("b")), (500.0, job("c"))];
    let trace = trace(problems::problem(&["t4", "v100"], &[&[1, 0], &[0, 1]], Vec::new()), jobs);
    // Three jobs of 1000 s on the equivalent of one and a half V100 arrive within 500 s.
    assert_near(&[trace.load().expect("a load")], &[3000.0 / (1.5 * 500.0)]);
    let scaled = trace.with_load(0.8).expect("a load");
    assert_near(&[scaled.load().expect("a load"), scaled.jobs[1].arrival.0], &[0.8, 500.0]);
}
