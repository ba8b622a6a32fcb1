//! Runs of a sweep that start in the order of their predicted metrics, or shuffled.

use hsched_engine::JobState;
use hsched_model::{Job, JobName, Time, Variant};
use hsched_plan::curve::CurvePoint;
use hsched_plan::{Moves, Replanning};

use hsched_fixtures::engine_states::{How, cluster, how, job, state, take, words};

const TARGET: &str = ", min_gpus: 1, max_gpus: 1, target: {metric: loss, mode: min}, promising_first: true";

/// Returns a run of a sweep that waits after ten epochs, with a loss that falls towards `end`; if that is
/// `None`, the run has not started.
fn run(name: &str, end: Option<f64>, more: &str) -> JobState {
    let variant = Variant { sweep: "s".into(), parameters: serde_json::Map::new() };
    let job = job(name, "{v100: 100}", &format!(", model: m{more}"));
    let job = Job { epochs: 40, variant: Some(variant), ..job };
    let epochs = if end.is_some() { 10 } else { 0 };
    let loss =
        |epoch: u32| end.unwrap_or_default() + f64::from(epoch).powi(-2) + 0.0001 * f64::from(epoch % 3);
    let curve = (1..=epochs).map(|epoch| CurvePoint { epoch: epoch.into(), value: loss(epoch) }).collect();
    JobState { curve, epochs_done: epochs.into(), ..JobState::new(job, Time(0.0)) }
}

fn started(runs: &[(&str, Option<f64>)], gpus: u32, more: &str) -> Vec<String> {
    let runs = runs.iter().map(|(name, end)| run(name, *end, more)).collect();
    let lab = cluster(&[("v1", "v100", gpus, 0, "idle")]);
    let actions = words(&take(state(runs), 300.0, &lab, &how(Moves::Never)).actions).join(", ");
    let names = actions.split(", ").filter_map(|action| action.strip_prefix("submit ")?.split(' ').next());
    let mut started: Vec<String> = names.map(str::to_owned).collect();
    started.sort();
    started
}

const RUNS: [(&str, Option<f64>); 5] =
    [("a", Some(0.5)), ("b", None), ("c", Some(0.2)), ("d", Some(0.3)), ("e", None)];

#[test]
fn those_start_first_whose_curves_predict_the_best_metric() {
    assert_eq!(started(&RUNS, 1, TARGET), ["c"]);
    assert_eq!(started(&RUNS, 2, TARGET), ["c", "d"]);
    assert_eq!(started(&RUNS, 4, TARGET), ["a", "b", "c", "d"]);
    let highest = TARGET.replace("mode: min", "mode: max");
    assert_eq!(started(&RUNS, 1, &highest), ["a"]);
}

#[test]
fn so_do_those_of_a_sweep_of_which_only_some_may_run() {
    assert_eq!(started(&RUNS, 4, &format!("{TARGET}, at_most: 2")), ["c", "d"]);
}

#[test]
fn in_a_queue_they_get_the_free_gpus_and_their_requests_are_submitted_first() {
    let replanning = Replanning { queue: true, ..Replanning::default() };
    let submitted = |free: u32, more: &str| {
        let runs = RUNS.iter().map(|(name, end)| run(name, *end, more)).collect();
        let word = if free > 0 { "mixed" } else { "allocated" };
        let lab = cluster(&[("v1", "v100", 5, 5 - free, word)]);
        let how = How { replanning, ..how(Moves::Never) };
        let actions = words(&take(state(runs), 300.0, &lab, &how).actions).join(", ");
        let names =
            actions.split(", ").filter_map(|action| action.strip_prefix("submit ")?.split(' ').next());
        names.collect::<Vec<_>>().join(" ")
    };
    // Free GPUs are assigned first; the GPUs of the other runs are requested in a later turn.
    assert_eq!(submitted(1, TARGET), "c");
    assert_eq!(submitted(0, TARGET), "c d a b e");
    let usual = TARGET.replace(", promising_first: true", "");
    assert_eq!(submitted(0, &usual), "a b c d e");
}

/// The rule `halving` compares early runs with few others, so a sorted grid could lose its best runs.
#[test]
fn runs_that_halving_compares_start_shuffled_unless_the_user_sorts_them() {
    let order = |more: &str, gpus: u32| {
        let run = |number: u32| {
            let mut state = run(&format!("s{number:02}"), None, &format!("{TARGET}{more}"));
            let mut job = Job::clone(&state.job);
            job.promising_first = false;
            if let Some(variant) = &mut job.variant {
                variant.parameters.insert("seed".into(), number.into());
            }
            state.job = job.into();
            state
        };
        let lab = cluster(&[("v1", "v100", gpus, 0, "idle")]);
        let taken = take(state((0..12).map(run).collect()), 300.0, &lab, &how(Moves::Never));
        let actions = words(&taken.actions).join(", ");
        let numbers =
            actions.split(", ").filter_map(|action| action.strip_prefix("submit s")?.get(..2)?.parse().ok());
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
    };
    let halving = ", stop: {rule: halving}";
    assert_eq!(order("", 3), [0, 1, 2]);
    let shuffled = order(halving, 3);
    assert_ne!(shuffled, [0, 1, 2]);
    assert_eq!(order(halving, 3), shuffled);
    // The first runs do not depend on how many start at a time.
    assert!(shuffled.iter().all(|number| order(halving, 6).contains(number)));
    assert_eq!(order(&format!("{halving}, at_most: 3"), 12), shuffled);
}

#[test]
fn nothing_changes_unless_it_is_asked_for() {
    let usual = TARGET.replace(", promising_first: true", "");
    assert_eq!(started(&RUNS, 4, &format!("{usual}, at_most: 2")), ["a", "b"]);
    let name = JobName::new("a").expect("a name");
    assert!(!Job::only_planned(name, 1, 1, 1).promising_first);
    let told = hsched_model::formats::jobs::parse(
        "jobs: [{name: a, samples_per_epoch: 1, epochs: 1, global_batch: 1, model_size: 0, command: a, promising_first: true}]",
    );
    assert!(told.expect_err("no target").to_string().contains("promising_first: needs a metric"));
}
