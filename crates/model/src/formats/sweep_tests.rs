//! The jobs that sweeps create, and the messages for invalid ones.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use proptest::prelude::*;

use crate::Job;
use crate::formats::jobs::parse;

/// Returns a file with one job with the required keys and `more`, and with `top` beside the list.
fn file(top: &str, more: &str) -> String {
    let least = "name: a, samples_per_epoch: 90, epochs: 2, global_batch: 30, model_size: 1MB";
    format!("jobs:\n- {{{least},\n  {more}}}\n{top}\n")
}

fn made(top: &str, more: &str) -> Vec<Job> {
    parse(&file(top, more)).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the problems of a file with one job with these keys, or the number of its jobs.
fn check(more: &str) -> String {
    let text = file("", &format!("command: x, {more}"));
    parse(&text).map_or_else(|problems| problems.to_string(), |jobs| format!("{} ok", jobs.len()))
}

fn names(jobs: &[Job]) -> String {
    jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_combination_is_a_job_with_its_values_in_name_environment_and_placeholders() {
    let jobs = made(
        "",
        "sweep: {lr: [0.1, 1e-2], n: [1, 2]}, command: \"train --lr {lr} ${lr}\", max_gpus: {n}, env: {N: x, B: '{n}-{other}'},
         workdir: 'runs/{lr}', setup: ['echo {lr}'], checkpoint: {dir: 'c{n}'}, sbatch: [-J, {lr}]",
    );
    assert_eq!(names(&jobs), "a-lr0.1-n1 a-lr0.1-n2 a-lr1e-2-n1 a-lr1e-2-n2");
    let last = serde_json::to_value(&jobs[3]).expect("JSON");
    let of = |key: &str| last[key].to_string();
    assert_eq!(of("command"), "\"train --lr 1e-2 ${lr}\"");
    assert_eq!(of("env"), r#"["LR=1e-2","N=x","B=2-{other}"]"#);
    assert_eq!(
        (of("workdir"), of("max_gpus"), of("model")),
        (r#""runs/1e-2""#.into(), "2".into(), r#""a""#.into())
    );
    assert_eq!((of("setup"), of("sbatch")), (r#"["echo 1e-2"]"#.into(), r#"["-J","1e-2"]"#.into()));
    assert_eq!(of("checkpoint"), r#"{"dir":"c2"}"#);
}

#[test]
fn the_sweep_of_a_file_is_for_all_its_jobs_and_a_jobs_own_keys_win() {
    let jobs = made("sweep: {lr: [1, 2], seed: [3]}", "command: [x, {lr}], sweep: {lr: [7], k: [8, 9]}");
    assert_eq!(names(&jobs), "a-lr7-seed3-k8 a-lr7-seed3-k9");
}

#[test]
fn values_that_are_no_names_are_quoted_for_the_shell_and_changed_in_the_name() {
    let jobs = made("", "sweep: {data: [a/b c, '', \"it's\"]}, command: 'x {data}', setup: {data}");
    assert_eq!(names(&jobs), "a-dataa_b_c a-data a-datait_s");
    let lines: Vec<String> =
        jobs.iter().map(|job| format!("{:?} {:?}", job.launch.command, job.launch.setup)).collect();
    assert_snapshot!(lines.join("\n"), @r#"
    Shell("x 'a/b c'") ["'a/b c'"]
    Shell("x ''") ["''"]
    Shell("x 'it'\\''s'") ["'it'\\''s'"]
    "#);
}

#[test]
fn what_is_wrong_with_a_sweep_is_said_at_once() {
    assert_snapshot!(check("sweep: {lr: [], a: 3, b: [[1], {x: 1}, null], 1x: [2], rank: [1], Path: [1], d: [1, 1, a/b, a_b], D: [1]}, weight: -1"), @r#"
    line 3: jobs[0].sweep.lr: must have at least one value
    line 3: jobs[0].sweep.a: must be a list, got "3"; write [3]
    line 3: jobs[0].sweep.b[0]: must be text, got a list
    line 3: jobs[0].sweep.b[1]: must be text, got a map
    line 3: jobs[0].sweep.b[2]: must be text, got nothing; remove the key or give it a value
    line 3: jobs[0].sweep.1x: "1x" cannot be a placeholder; use only letters, digits and _, and do not start with a digit
    line 3: jobs[0].sweep.rank: would overwrite the variable RANK; choose another name
    line 3: jobs[0].sweep.Path: would overwrite the variable PATH; choose another name
    line 3: jobs[0].sweep.d[1]: "1" appears twice; to run it several times, add a key such as seed: [1, 2]
    line 3: jobs[0].sweep.d[3]: "a_b" gives a job the same name as "a/b"; these values differ only in characters that names cannot have
    line 3: jobs[0].sweep.D: sets the variable D, which the key d also sets
    line 3: jobs[0].weight: must be from 0.000001 to 1000000, got -1
    "#);
    let named = file("", "command: x, sweep: {lr: [1]}").replace("name: a", "name: 'a{lr}'");
    assert_snapshot!(parse(&named).expect_err("no name"), @r#"line 2: jobs[0].name: job name "a{lr}" contains '{'; only letters, digits, '-', '_' and '.' are allowed"#);
    assert_snapshot!(check("sweep: [lr]"), @r#"line 3: jobs[0].sweep: must be a map of keys and values, got a list"#);
    assert_snapshot!(check("sweep: "), @r#"line 3: jobs[0].sweep: must have at least one key with a list of values"#);
    assert_snapshot!(check("sweep: {lr: [1, 2], seed: [1]}, workdir: '{lrr}/{seeds}/{print}', env: {A: {sed}}"), @r#"
    line 3: jobs[0].workdir: {lrr} is not a key of the sweep; did you mean {lr}?
    line 3: jobs[0].workdir: {seeds} is not a key of the sweep; did you mean {seed}?
    line 3: jobs[0].env.A: {sed} is not a key of the sweep; did you mean {seed}?
    line 3: jobs[0].env.A: must be text, got a map
    "#);
    assert_snapshot!(check("sweep: {lr: [1, 2]}, checkpoint: {dir: c}"), @r#"line 3: jobs[0].checkpoint.dir: is the same directory for several jobs of the sweep; add {lr}, or remove dir: the default is a directory for each"#);
    assert_snapshot!(check("sweep: {n: [1, 0, -1], lr: [1, 2]}, max_gpus: {n}, weight: -1"), @r#"
    line 3: jobs[0].weight: must be from 0.000001 to 1000000, got -1
    line 3: jobs[0].max_gpus: must be at least 1, got 0
    line 3: jobs[0].max_gpus: must be at least 1, got -1
    "#);
    assert_snapshot!(check(&format!("sweep: {{n: [1, {}]}}", "x".repeat(200))), @r#"line 2: jobs[0].name: with the values of its sweep, the job name is 203 characters long; at most 200 are allowed; shorten it, the keys or the values"#);
    let many = (0..101).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    assert_snapshot!(check(&format!("sweep: {{n: [{many}], lr: [{many}]}}, weight: -1")), @r#"
    line 3: jobs[0].sweep: the sweeps of this file make more than 10000 jobs; remove values, or use several files
    line 3: jobs[0].weight: must be from 0.000001 to 1000000, got -1
    "#);
    assert_snapshot!(check("sweep: {n: [1-m2, '1'], m: [2, 2-m2]}"), @r#"line 2: jobs[0].name: "a-n1-m2-m2" is already the name of the job on line 2"#);
    assert_snapshot!(check("sweep: {n: [1, 2]}}\n- {name: a b, sweep: {n: [1, 2]}"), @r#"
    line 4: jobs[1].name: job name "a b" contains ' '; only letters, digits, '-', '_' and '.' are allowed
    line 4: jobs[1]: is missing the required key samples_per_epoch
    line 4: jobs[1]: is missing the required key epochs
    line 4: jobs[1]: is missing the required key global_batch
    line 4: jobs[1]: is missing the required key model_size
    line 4: jobs[1]: is missing the required key command
    "#);
}

proptest! {
    #[test]
    fn all_combinations_once_with_names_of_their_own(
        axes in prop::collection::btree_map("[a-z]{2,5}", prop::collection::btree_set("[0-9a-c.]{1,4}", 1..5), 1..4),
    ) {
        let is_free = |key: &String| !["hs_", "path", "home", "user", "shell", "rank"].contains(&key.as_str());
        prop_assume!(axes.keys().all(is_free));
        let quoted = |values: &BTreeSet<String>| values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", ");
        let sweep = axes.iter().map(|(key, values)| format!("{key}: [{}]", quoted(values)));
        let sweep = sweep.collect::<Vec<_>>().join(", ");
        let jobs = made(&format!("sweep: {{{sweep}}}"), "command: x");
        let product: usize = axes.values().map(BTreeSet::len).product();
        prop_assert_eq!(jobs.len(), product);
        let names: BTreeSet<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        prop_assert_eq!(names.len(), product);
        for (key, values) in &axes {
            let variable = key.to_uppercase();
            let set = jobs.iter().flat_map(|job| &job.launch.env).filter(|(name, _)| *name == variable);
            let set: BTreeSet<String> = set.map(|(_, value)| value.clone()).collect();
            prop_assert_eq!(&set, values);
        }
    }
}

/// Returns a file with a job that has this sweep and search.
fn searched(sweep: &str, search: &str) -> String {
    format!(
        "jobs:\n  - {{name: a, samples_per_epoch: 1, epochs: 1, global_batch: 1, model_size: 0, throughput: {{t4: 1}}, command: 'x {{lr}}'}}\nsweep: {sweep}\n{search}\n"
    )
}

#[test]
fn a_search_draws_values_that_stay_the_same_when_it_grows() {
    let sweep = "{lr: {log_uniform: [1e-5, 1e-1]}, drop: {uniform: [0, 0.5]}, act: {choice: [relu, gelu]}, seed: [1, 2]}";
    let draw = |samples: usize| {
        parse(&searched(sweep, &format!("search: {{samples: {samples}, seed: 3}}"))).expect("jobs")
    };
    let (few, many) = (draw(20), draw(400));
    assert_eq!(few, many[..20]);
    assert_eq!((few[0].name.as_str(), few[19].name.as_str()), ("a-s1", "a-s20"));
    let parameter = |job: &Job, key: &str| job.variant.as_ref().expect("a variant").parameters[key].clone();
    let numbers = |key: &str| {
        many.iter().map(|job| parameter(job, key).as_f64().expect("a number")).collect::<Vec<_>>()
    };
    let rates = numbers("lr");
    assert!(rates.iter().all(|rate| (1e-5..=1e-1).contains(rate)));
    // Half of the logarithmic range contains half of the values.
    let below = rates.iter().filter(|rate| **rate < 1e-3).count();
    assert!((160..240).contains(&below), "{below}");
    let drops = numbers("drop");
    let below = drops.iter().filter(|drop| **drop < 0.25).count();
    assert!(drops.iter().all(|drop| (0.0..=0.5).contains(drop)) && (160..240).contains(&below), "{below}");
    let gelu = many.iter().filter(|job| parameter(job, "act") == "gelu").count();
    assert!((160..240).contains(&gelu), "{gelu}");
    let other = parse(&searched(sweep, "search: {samples: 20, seed: 4}")).expect("jobs");
    assert_ne!(few, other);
}

#[test]
fn what_is_wrong_in_a_search_is_said() {
    let refused = |sweep: &str, search: &str, expected: &str| {
        let text = parse(&searched(sweep, search)).expect_err("wrong").to_string();
        assert!(text.contains(expected), "{text}");
    };
    let few = "search: {samples: 2}";
    refused("{lr: {uniform: [0, 1]}}", "", "has a range for lr, but no number of samples");
    refused("{lr: {uniform: [1, 1]}}", few, "must rise, got 1 and 1");
    refused("{lr: {log_uniform: [0, 1]}}", few, "must be above 0");
    refused("{lr: {uniform: [1]}}", few, "must be a list of two numbers");
    refused("{lr: {normal: [0, 1]}}", few, "normal");
    refused(
        "{lr: {uniform: [0, 1], choice: [1]}}",
        few,
        "must have one of the keys choice, uniform, log_uniform",
    );
    refused("{lr: [1, 2]}", "search: {samples: 0}", "samples");
    refused("{lr: [1, 2]}", "search: {seed: 1}", "samples");
    let alone = searched("{lr: [1]}", few).replace("sweep: {lr: [1]}\n", "").replace(" {lr}", "");
    let text = parse(&alone).expect_err("wrong").to_string();
    assert!(text.contains("needs a sweep"), "{text}");
}
