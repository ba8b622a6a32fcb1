//! The meaning of job files, and the messages for invalid ones.

use insta::assert_snapshot;
use proptest::prelude::*;

use crate::Bytes;
use crate::formats::cluster;
use crate::formats::job_keys;
use crate::formats::jobs::parse;

const LEAST: &str =
    "name: a, samples_per_epoch: 1000, epochs: 2, global_batch: 300, model_size: 1MB, command: run";

/// Returns the problems of a file with one job with the required keys and `more`, or the number of its jobs.
fn check(more: &str) -> String {
    let text = format!("jobs:\n- {{{LEAST},\n  {more}}}");
    parse(&text).map_or_else(|problems| problems.to_string(), |jobs| format!("{} ok", jobs.len()))
}

#[test]
fn defaults_are_filled_in() {
    let jobs = parse(&format!("jobs: [{{{LEAST}}}]")).expect("a job");
    let job = &jobs[0];
    assert_eq!((job.model.as_str(), job.syncs_per_epoch, job.batch_quantum), ("a", 4, 1));
    assert_eq!((job.weight, job.min_gpus, job.max_gpus, job.retries), (1.0, 1, None, 3));
    assert!(job.accumulate && job.throughput.is_empty() && job.gpu_types.is_none());
}

#[test]
fn gpus_alone_fix_the_number_and_beside_a_range_leave_it() {
    let range = |more: &str| {
        let jobs = parse(&format!("jobs: [{{{LEAST}, {more}}}]")).expect("a job");
        (jobs[0].min_gpus, jobs[0].max_gpus, jobs[0].gpus)
    };
    assert_eq!(range("gpus: 4"), (4, Some(4), Some(4)));
    assert_eq!(range("gpus: 4, min_gpus: 2"), (2, None, Some(4)));
    assert_eq!(range("gpus: 4, max_gpus: 8"), (1, Some(8), Some(4)));
    assert_snapshot!(check("gpus: 4, min_gpus: 5, max_gpus: 8"), @"line 3: jobs[0].gpus: 4 is less than min_gpus 5");
    assert_snapshot!(check("gpus: 4, max_gpus: 3"), @"line 3: jobs[0].gpus: 4 is more than max_gpus 3");
    let checked = |more: &str, expected: &str| {
        assert_eq!(check(more), format!("line 3: jobs[0].{expected}"), "{more}");
    };
    checked("min_replicas: 4, max_gpus: 2", "min_replicas: 4 is more than max_gpus 2");
    checked("gpus: 2, min_replicas: 4", "min_replicas: 4 is more than gpus 2");
    checked("gpus: 4, max_replicas: 2", "max_replicas: 2 is less than gpus 4");
    checked("min_gpus: 4, max_replicas: 2", "max_replicas: 2 is less than min_gpus 4");
    assert_eq!(range("gpus: 2, max_replicas: 4"), (2, Some(4), Some(2)));
    let plain = parse("jobs: [{name: a, command: echo, gpus: 2}]").expect_err("no training").in_file("f");
    assert!(
        plain.contains("2 is more than 1, and a job without global_batch") && !plain.contains("max_gpus"),
        "{plain}"
    );
    assert_snapshot!(check("gpus: 301"), @"line 3: jobs[0].gpus: 301 is more than 300, the largest number of ranks for global_batch");
}

#[test]
fn the_table_of_keys_tells_what_is_required_and_the_defaults() {
    let least = parse(&format!("jobs: [{{{LEAST}}}]")).expect("a job");
    for key in job_keys() {
        assert_eq!(key.is_required(), LEAST.contains(&format!("{}: ", key.name)), "{}", key.name);
        if !key.default.is_empty() {
            let text = format!("jobs: [{{{LEAST}, {}: {}}}]", key.name, key.default);
            assert_eq!(parse(&text), Ok(least.clone()), "{}", key.name);
        }
    }
}

#[test]
fn all_problems_are_listed_with_their_lines() {
    assert_snapshot!(parse("
job: 3
jobs:
- name: a
  samples_per_epoch: 100_000
  epochs: -3
  global_batch: 100
  batch_quantum: 7
  model_size: 46.8M
  weigth: 2
  min_gpus: 4
  max_gpus: 2
  max_batch: {t4: 0, 'x y': 1}
  throughput: {v100: -1, t4: {alpha_ms: -1, beta_ms: 0}, p100: {alpha: 1}}
  command: [python, null]
- name: a
  name: b
  epochs: 1e3
  global_batch: 99999999999999999999
  model_size: {}
  overlap: 1
  accumulate: yes
  precision: fp61
  target: {metric: loss, mode: up, value: .nan}
  deadline: tomorrow
  command: ''
").expect_err("wrong"), @r#"
    line 2: job: is not a known key; did you mean jobs?
    line 5: jobs[0].samples_per_epoch: must be a whole number, got "100_000"; write 100000
    line 6: jobs[0].epochs: must be at least 1, got -3
    line 8: jobs[0].batch_quantum: 7 does not divide global_batch 100
    line 9: jobs[0].model_size: has an unknown unit: "46.8M"; write 46.8MiB (powers of 2) or 46.8MB (powers of 10)
    line 10: jobs[0].weigth: is not a known key; did you mean weight?
    line 12: jobs[0].max_gpus: 2 is less than min_gpus 4
    line 13: jobs[0].max_batch.t4: must be at least 1, got 0
    line 13: jobs[0].max_batch."x y": "x y" is not a GPU type; a GPU type has only letters, digits and - _ . + /, for example v100
    line 14: jobs[0].throughput.v100: must be from 1e-9 to 1e12 samples/s, got -1
    line 14: jobs[0].throughput.t4.alpha_ms: must be from 0 to 1e12, got -1
    line 14: jobs[0].throughput.t4.beta_ms: must be from 1e-9 to 1e12, got 0
    line 14: jobs[0].throughput.p100.alpha: is not a known key
    line 14: jobs[0].throughput.p100: is missing the required key alpha_ms
    line 14: jobs[0].throughput.p100: is missing the required key beta_ms
    line 15: jobs[0].command[1]: must be text, got nothing; remove the key or give it a value
    line 16: jobs[1].name: "a" is already the name of the job on line 4
    line 16: jobs[1]: is missing the required key samples_per_epoch
    line 17: jobs[1].name: appears twice; the first is on line 16
    line 18: jobs[1].epochs: must be a whole number, got "1e3"; write 1000
    line 19: jobs[1].global_batch: must be at most 1000000000000, got 99999999999999999999
    line 20: jobs[1].model_size: must be text, got a map
    line 21: jobs[1].overlap: must be at least 0 and below 1, got 1
    line 22: jobs[1].accumulate: must be true or false, got "yes"
    line 23: jobs[1].precision: must be one of fp32, tf32, fp16, bf16, got "fp61"; did you mean fp16?
    line 24: jobs[1].target.value: must be a finite number, got .nan
    line 24: jobs[1].target.mode: must be one of min, max, got "up"
    line 25: jobs[1].deadline: must be a date and time or a duration, got "tomorrow"; write it like 12h, 2030-01-31T18:00:00 (local) or 2030-01-31T18:00:00+01:00
    line 26: jobs[1].command: must not be empty
    "#);
}

#[test]
fn a_misspelt_key_is_not_also_missing() {
    let check = |text: &str| parse(text).expect_err(text).to_string();
    assert_snapshot!(check("jobs: [{name: a, comand: b}]"), @"line 1: jobs[0].comand: is not a known key; did you mean command?");
    assert_snapshot!(check("jobs: [{name: a, command: b, model_sise: 1MB, global_batch: 1, samples_per_epoch: 1}]"), @r"
    line 1: jobs[0].model_sise: is not a known key; did you mean model_size?
    line 1: jobs[0]: is missing the required key epochs
    ");
}

#[test]
fn a_value_in_place_of_a_map_is_refused_with_its_keys() {
    let text = "jobs: [{name: a, samples_per_epoch: 1, epochs: 9, global_batch: 1, model_size: 1MB, command: b, stop: best}]";
    assert_snapshot!(parse(text).expect_err(text).in_file("jobs.yaml"), @r#"jobs.yaml:1: jobs[0].stop: must be a map of keys and values, got "best"; write stop: {rule: …}; its keys are rule, when_busy, patience, not_before, brackets, confidence, give_up"#);
}

#[test]
fn a_rule_that_stops_a_command_early_needs_its_epochs() {
    let check = |more: &str| {
        let text = format!("jobs: [{{name: a, command: b, target: {{metric: loss, mode: min}}{more}}}]");
        parse(&text)
            .map_or_else(|problems| problems.in_file("f"), |jobs| format!("{} epochs", jobs[0].epochs))
    };
    let refused = "f:1: jobs[0].stop: needs the number of epochs; add epochs: 3, with the number that the program reports";
    for more in ["stop: {rule: halving}", "stop: {when_busy: best}", "epochs: 1, stop: {rule: target}"] {
        assert_eq!(check(&format!(", {more}")), refused, "{more}");
    }
    assert_eq!(check(", stop: {rule: halving}, epochs: 3"), "3 epochs");
    assert_eq!(check(", stop: {rule: epochs}"), "1 epochs");
    assert_eq!(check(""), "1 epochs");
    assert_eq!(check(", stop: {rule: best}, epochs: x").matches("jobs[0]").count(), 1);
}

#[test]
fn files_of_another_kind_are_refused() {
    let check = |text: &str| parse(text).expect_err(text).in_file("jobs.yaml");
    assert_snapshot!(check(""), @"jobs.yaml:1: is missing the required key jobs");
    assert_snapshot!(check("- name: a"), @"jobs.yaml:1: must be a map, got a list; put the list under jobs:");
    assert_snapshot!(check("jobs: []"), @"jobs.yaml:1: jobs: must contain at least one job");
    assert_snapshot!(check("jobs: 3"), @r#"jobs.yaml:1: jobs: must be a list, got "3""#);
    assert_snapshot!(check("jobs: [3, null]"), @r#"
    jobs.yaml:1: jobs[0]: must be a map of keys and values, got "3"
    jobs.yaml:1: jobs[1]: is missing the required key name
    jobs.yaml:1: jobs[1]: is missing the required key samples_per_epoch
    jobs.yaml:1: jobs[1]: is missing the required key epochs
    jobs.yaml:1: jobs[1]: is missing the required key global_batch
    jobs.yaml:1: jobs[1]: is missing the required key model_size
    jobs.yaml:1: jobs[1]: is missing the required key command
    "#);
    assert_snapshot!(check("jobs: [{name: a,"), @"jobs.yaml:1: not valid YAML: while parsing a node, did not find expected node content; is the file cut off?");
}

#[test]
fn sizes_have_a_unit_but_in_json() {
    let text = |size: &str| format!("jobs: [{{{}}}]", LEAST.replace("1MB", size));
    let said = |size: &str| {
        parse(&text(size)).map_or_else(|problems| problems.to_string(), |jobs| jobs[0].model_size.to_string())
    };
    assert_snapshot!(said("100"), @r#"line 1: jobs[0].model_size: has no unit: "100"; write 100GiB, 100MB or 100B"#);
    assert_snapshot!(said("'100'"), @r#"line 1: jobs[0].model_size: has no unit: "100"; write 100GiB, 100MB or 100B"#);
    assert_eq!(parse(&text("0")).expect("a job")[0].model_size, Bytes(0));
    assert_eq!(parse(&text("100B")).expect("a job")[0].model_size, Bytes(100));
    let json = r#"{"jobs": [{"name": "a", "samples_per_epoch": 9, "epochs": 1, "global_batch": 1, "model_size": 100, "command": "x"}]}"#;
    assert_eq!(parse(json).expect("a job")[0].model_size, Bytes(100));
}

#[test]
fn what_new_users_write_is_put_right() {
    assert_snapshot!(check("gpus: v100:2"), @r#"line 3: jobs[0].gpus: must be a whole number, got "v100:2"; write gpus: 2 and gpu_types: [v100]"#);
    let file = |text: &str| {
        parse(text).map_or_else(|problems| problems.in_file("f"), |jobs| format!("{} ok", jobs.len()))
    };
    assert_snapshot!(file(&format!("{{{LEAST}}}")), @"f:1: is a single job, not a list of jobs; put it under jobs: as - name: …");
    let anchored =
        format!("x-own: &own {{epochs: 5}}\njobs:\n- {{<<: *own, {}}}\n", LEAST.replace("epochs: 2, ", ""));
    assert_snapshot!(file(&anchored), @"1 ok");
    assert_snapshot!(file(&anchored.replace("x-own", "defaults")), @"f:1: defaults: is not a known key; for anchors, call it x-defaults: hsched ignores keys that begin with x-");
    // Keys that begin with x- are allowed only at the top level.
    assert_snapshot!(check("x-a: {}"), @"line 3: jobs[0].x-a: is not a known key");
    assert_snapshot!(check("deadline: 5"), @r#"line 3: jobs[0].deadline: has no unit: "5"; write 5s, 5m or 5h"#);
    assert_snapshot!(check("time: 5"), @r#"line 3: jobs[0].time: has no unit: "5"; write 5s, 5m or 5h (Slurm would read it as minutes)"#);
    let todo = format!("jobs: [{{{}}}]", LEAST.replace("command: run", "command: TODO"));
    assert_snapshot!(file(&todo), @"f:1: jobs[0].command: is still TODO; write what each rank runs");
}

#[test]
fn what_reaches_slurm_or_the_launcher_is_checked() {
    assert_snapshot!(check("env: {HSCHED_GATE_LIMIT_S: 60, RANK: 1, HSCHED_RUN: x, '1A': x, B: [1], hs_a: 1}"), @r#"
    line 3: jobs[0].env.RANK: hsched sets RANK for every rank; a job cannot set it; remove it
    line 3: jobs[0].env.HSCHED_RUN: names that begin with HSCHED_ are hsched's own; a job cannot set HSCHED_RUN; remove it
    line 3: jobs[0].env.1A: "1A" is not a valid variable name; use only letters, digits and _, and do not start with a digit
    line 3: jobs[0].env.B: must be text, got a list
    line 3: jobs[0].env.hs_a: names that begin with hs_ are hsched's own; a job cannot set hs_a; remove it
    "#);
    assert_snapshot!(check("env: [A=1, A=2, b]"), @r#"
    line 3: jobs[0].env[1]: sets A twice
    line 3: jobs[0].env[2]: must be NAME=value, got "b"
    "#);
    assert_snapshot!(check("account: \"a\\nb\", partition: a b, workdir: \"x\\x07\", qos: ''"), @r#"
    line 3: jobs[0].workdir: must not contain control characters, got '\u{7}'
    line 3: jobs[0].account: must be one word, got "a\nb"
    line 3: jobs[0].partition: must be one word, got "a b"
    line 3: jobs[0].qos: must be one word, got ""
    "#);
    assert_snapshot!(check("sbatch: [\"--x\\n#SBATCH --y\"], checkpoint: {dir: \"a\\0\"}"), @r"
    line 3: jobs[0].sbatch[0]: must not contain control characters, got '\n'
    line 3: jobs[0].checkpoint.dir: must not contain control characters, got '\0'
    ");
    assert_snapshot!(check("sbatch: \"--comment='x\""), @"line 3: jobs[0].sbatch: cannot be split into words: missing closing quote");
    assert_snapshot!(check("time: 30, checkpoint: {grace: 12:30}, memory_per_gpu: 8"), @r#"
    line 3: jobs[0].time: has no unit: "30"; write 30s, 30m or 30h (Slurm would read it as minutes)
    line 3: jobs[0].memory_per_gpu: has no unit: "8"; write 8GiB, 8MB or 8B
    line 3: jobs[0].checkpoint.grace: is ambiguous: "12:30"; write 12:30:00 for hours and minutes, or 00:12:30 for minutes and seconds
    "#);
    assert_snapshot!(check("time: 0s, min_gpus: 400, gpu_types: []"), @r"
    line 3: jobs[0].gpu_types: must name at least one GPU type; remove the key to allow all
    line 3: jobs[0].time: must be above 0
    line 3: jobs[0].min_gpus: 400 is more than 300, the largest number of ranks for global_batch
    ");
    assert_snapshot!(check("time: 12:00:00, setup: module load cuda, env: , throughput: , max_gpus:"), @"line 3: jobs[0].max_gpus: must be a whole number, got nothing; remove the key or give it a value");
}

proptest! {
    #[test]
    fn no_text_panics(
        key in "name|epochs|model_size|throughput|env|command|sbatch|time|target|deadline|max_batch|sweep|<<",
        value in "[-0-9a-z.:{}\\[\\], \n\"'&*]{0,30}|\\PC{0,20}",
    ) {
        let _any = (check(&format!("{key}: {value}")), parse(&value));
        let _any = cluster::parse(&format!("nodes:\n- {key}: {value}"));
    }
}
