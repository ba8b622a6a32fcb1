//! Job files: what to train, on which GPUs, and (in `launch`) how to start it.

use std::collections::BTreeMap;

use super::after;
use super::copies;
use super::goals;
use super::gpus::{by_type, read_speed, read_types};
pub use super::job_json::to_json;
use super::job_keys::JOB_KEYS;
pub use super::job_yaml::to_yaml;
use super::launch;
use super::problem::{Problems, ValueError, quoted};
use super::reader::{Fields, Value, all, read_file};
use super::sweep::Sweeps;
use super::yaml::Kind;
use crate::model::{Bytes, Estimates, GpuType, Job, JobName, NodeName, Precision, Seconds, Stop};

/// Largest count of samples, batches and steps: products of a few stay exact in the planner's doubles.
const COUNT_LIMIT: u64 = 1_000_000_000_000;

/// Largest number of GPUs a job may ask for.
const GPU_LIMIT: u32 = 1_000_000;

/// Largest model: 2^53 bytes, up to which a double holds every whole number.
const MODEL_LIMIT: u64 = 1 << 53;

/// Returns the jobs of a job file, every default filled in.
///
/// # Errors
/// When the text is not YAML or not a job file; all problems are listed.
pub fn parse(text: &str) -> Result<Vec<Job>, Problems> {
    read_file(text, |root| read_jobs(root, true))
}

/// Jobs over time.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile {
    /// Where the clock begins.
    pub now: Seconds,
    pub jobs: Vec<Job>,
}

/// Returns a trace: a job file whose jobs may lack a command, and which may say where the clock begins (`now`).
///
/// # Errors
/// As [`parse`].
pub fn parse_trace(text: &str) -> Result<TraceFile, Problems> {
    read_file(text, |root| {
        let now = root.entries_quietly().into_iter().find(|(key, _)| *key == "now");
        let now = now.map_or(Some(Seconds(0.0)), |(_, value)| value.duration());
        Some(TraceFile { jobs: read_jobs(root, false)?, now: now? })
    })
}

fn read_jobs(root: &Value<'_>, runs: bool) -> Option<Vec<Job>> {
    if root.is_list() {
        root.report(ValueError::new("must be a map, got a list").hint("put the list under jobs:"));
        return None;
    }
    if is_one_job(root) {
        root.report(ValueError::new("is one job without a list").hint("put it under jobs: as - name: …"));
        return None;
    }
    let known: &[&str] = if runs { &["jobs", "sweep"] } else { &["jobs", "sweep", "now"] };
    let fields = root.fields_with_anchors(known);
    let mut sweeps = Sweeps::of_file(&fields);
    let list = fields.required("jobs")?;
    let items = list.items();
    if items.is_empty() && (list.is_list() || list.is_nothing()) {
        list.report(ValueError::new("must hold at least one job"));
    }
    let mut lines = BTreeMap::new();
    let entries = all(items.into_iter().map(|item| {
        let jobs = all(sweeps.variants(&item, |job| read_job(job, runs, &mut lines)).into_iter());
        let jobs = if runs { copies::forked(&item, jobs?, &mut lines)? } else { jobs? };
        Some((item, jobs))
    }));
    Some(after::settled(entries?))
}

/// Returns whether the file has the keys of a job where `jobs` should be.
fn is_one_job(root: &Value<'_>) -> bool {
    let keys: Vec<&str> = root.entries_quietly().into_iter().map(|(key, _)| key).collect();
    let of_job = |key: &&&str| JOB_KEYS.iter().any(|own| own.name == **key);
    !keys.contains(&"jobs") && keys.contains(&"name") && keys.iter().filter(of_job).count() > 1
}

fn read_job(value: &Value<'_>, runs: bool, lines: &mut BTreeMap<JobName, usize>) -> Option<Job> {
    let fields = value.fields(&JOB_KEYS.map(|key| key.name));
    let name = read_name(&fields, lines);
    let model = fields.get("model").map(|value| value.parsed(label));
    let samples = count(&fields, "samples_per_epoch");
    let epochs = count(&fields, "epochs");
    let batch = count(&fields, "global_batch");
    let quantum = fields.or("batch_quantum", 1, |value| value.whole(1..=COUNT_LIMIT));
    let model_size = fields.required("model_size").and_then(read_model_size);
    let syncs = fields.get("syncs_per_epoch").map(|value| value.whole(1..=COUNT_LIMIT));
    let overlap = fields.or("overlap", 0.0, |value| {
        value.ranged(|part| (0.0..1.0).contains(&part).then_some(part), "at least 0 and below 1")
    });
    let throughput = fields.or("throughput", BTreeMap::new(), |value| by_type(value, read_speed));
    let weight = fields.or("weight", 1.0, read_weight);
    let gpus = fields.or("gpus", None, |value| read_gpus(value).map(Some));
    let is_range = ["min_gpus", "max_gpus"].iter().any(|key| fields.get(key).is_some());
    let alone = gpus.flatten().filter(|_| !is_range);
    let min_gpus = fields.or("min_gpus", alone.unwrap_or(1), |value| value.whole_u32(1..=GPU_LIMIT));
    let max_gpus = fields.or("max_gpus", alone, |value| value.whole_u32(1..=GPU_LIMIT).map(Some));
    let gpu_types = fields.or("gpu_types", None, |value| read_types(value).map(Some));
    let max_batch =
        fields.or("max_batch", BTreeMap::new(), |value| by_type(value, |item| item.whole(1..=COUNT_LIMIT)));
    let accumulate = fields.or("accumulate", true, Value::switch);
    let precision = fields.or("precision", None, |value| value.word_of(&Precision::NAMES).map(Some));
    let deadline = fields.or("deadline", None, |value| goals::read_deadline(value).map(Some));
    let urgency = fields.or("urgency", 1.0, |value| {
        value.ranged(|number| (0.0..=10.0).contains(&number).then_some(number), "from 0 to 10")
    });
    let target = fields.or("target", None, |value| goals::read_target(value).map(Some));
    let stop = fields.or("stop", Stop::default(), goals::read_stop);
    goals::check_stop(&fields, stop.as_ref(), target.as_ref().and_then(Option::as_ref));
    let estimate = fields.or("estimate", None, |value| value.word_of(&Estimates::NAMES).map(Some));
    let arrival = fields.or("arrival", Seconds(0.0), Value::duration);
    let sync_scale = fields.or("sync_scale", 1, |value| value.whole(1..=COUNT_LIMIT));
    let predicted_epochs = fields.or("predicted_epochs", 0, |value| value.whole(0..=COUNT_LIMIT));
    let losses = fields.or("losses", Vec::new(), |value| all(value.items().iter().map(Value::number)));
    let steps_done = fields.or("steps_done", 0.0, |value| {
        value.ranged(|steps| (0.0..=1e15).contains(&steps).then_some(steps), "from 0 to 1e15")
    });
    let held = fields.or("held", BTreeMap::new(), read_held);
    let after = fields.or("after", Vec::new(), after::read);
    let retries = fields.or("retries", 3, |value| value.whole_u32(0..=1_000_000));
    let launch = launch::read(&fields, runs);
    check_batches(&fields, batch, quantum, min_gpus);
    check_sync_scale(&fields, batch, sync_scale);
    check_gpu_range(&fields, (min_gpus, max_gpus.flatten()), gpus.flatten());

    let (name, samples, batch) = (name?, samples?, batch?);
    Some(Job {
        model: model.unwrap_or_else(|| Some(name.as_str().to_owned()))?,
        name,
        samples_per_epoch: samples,
        epochs: epochs?,
        global_batch: batch,
        batch_quantum: quantum?,
        model_size: model_size?,
        syncs_per_epoch: syncs.unwrap_or_else(|| Some(samples.div_ceil(batch)))?,
        overlap: overlap?,
        throughput: throughput?,
        weight: weight?,
        min_gpus: min_gpus?,
        max_gpus: max_gpus?,
        gpus: gpus?,
        arrival: arrival?,
        sync_scale: sync_scale?,
        predicted_epochs: predicted_epochs?,
        losses: losses?,
        steps_done: steps_done?,
        held: held?,
        gpu_types: gpu_types?,
        max_batch: max_batch?,
        accumulate: accumulate?,
        precision: precision?,
        deadline: deadline?,
        urgency: urgency?,
        target: target?,
        stop: stop?,
        estimate: estimate?,
        after: after?,
        retries: retries?,
        launch: launch?,
    })
}

fn read_name(fields: &Fields<'_>, lines: &mut BTreeMap<JobName, usize>) -> Option<JobName> {
    let value = fields.required("name")?;
    let name = value.parsed(|text| JobName::new(text).map_err(|error| ValueError::new(error.to_string())))?;
    if let Some(first) = lines.get(&name) {
        let message = format!("{:?} is already the name of the job on line {first}", name.as_str());
        value.report(ValueError::new(message));
        return None;
    }
    lines.insert(name.clone(), value.line());
    Some(name)
}

fn count(fields: &Fields<'_>, key: &str) -> Option<u64> {
    fields.required(key).and_then(|value| value.whole(1..=COUNT_LIMIT))
}

/// Reads the number of GPUs; `v100:2`, as in a request to Slurm, names the keys that say the same.
fn read_gpus(value: &Value<'_>) -> Option<u32> {
    if let Kind::Scalar { text, .. } = &value.node().kind
        && let Some((name, count)) = text.rsplit_once(':')
        && let (Some(gpu_type), Ok(count)) = (GpuType::new(name), count.parse::<u32>())
    {
        let error = ValueError::new(format!("must be a whole number, got {}", quoted(text)));
        value.report(error.hint(format!("write gpus: {count} and gpu_types: [{gpu_type}]")));
        return None;
    }
    value.whole_u32(1..=GPU_LIMIT)
}

/// Weights further apart would lose each other in sums of floats.
fn read_weight(value: &Value<'_>) -> Option<f64> {
    value.ranged(|number| (1e-6..=1e6).contains(&number).then_some(number), "from 0.000001 to 1000000")
}

fn read_model_size(value: &Value<'_>) -> Option<Bytes> {
    let size = value.bytes()?;
    if size.0 > MODEL_LIMIT {
        value.report(ValueError::new(format!("must be at most {}, got {size}", Bytes(MODEL_LIMIT))));
        return None;
    }
    Some(size)
}

/// Returns the text when it can be a name for people: one line, not empty.
pub(crate) fn label(text: &str) -> Result<String, ValueError> {
    if text.trim().is_empty() {
        return Err(ValueError::new("must not be empty"));
    }
    launch::one_line(text)
}

fn check_batches(fields: &Fields<'_>, batch: Option<u64>, quantum: Option<u64>, min_gpus: Option<u32>) {
    let (Some(batch), Some(quantum)) = (batch, quantum) else {
        return;
    };
    if batch % quantum != 0 {
        if let Some(value) = fields.get("batch_quantum") {
            value.report(ValueError::new(format!("{quantum} does not divide global_batch {batch}")));
        }
    } else if let (Some(min_gpus), Some(value)) =
        (min_gpus, fields.get("min_gpus").or_else(|| fields.get("gpus")))
        && u64::from(min_gpus) > batch / quantum
    {
        let most = batch / quantum;
        let message =
            format!("{min_gpus} is more than the {most} ranks among which global_batch can be split");
        value.report(ValueError::new(message));
    }
}

/// Reads GPUs by node and type: `gpu01/v100: 2`.
fn read_held(value: &Value<'_>) -> Option<BTreeMap<(NodeName, GpuType), u32>> {
    let entries = all(value.entries().into_iter().map(|(key, item)| {
        let place = key
            .split_once('/')
            .and_then(|(node, gpu_type)| Some((NodeName::new(node).ok()?, GpuType::new(gpu_type)?)));
        let wrong = || ValueError::new(format!("{} is not NODE/TYPE, such as gpu01/v100", quoted(key)));
        let place = item.accept(place.ok_or_else(wrong));
        let count = item.whole_u32(1..=GPU_LIMIT);
        Some((place?, count?))
    }));
    Some(entries?.into_iter().collect())
}

fn check_sync_scale(fields: &Fields<'_>, batch: Option<u64>, scale: Option<u64>) {
    if let (Some(batch), Some(scale), Some(value)) = (batch, scale, fields.get("sync_scale"))
        && scale > batch
    {
        value.report(ValueError::new(format!("{scale} is more than the samples of global_batch {batch}")));
    }
}

fn check_gpu_range(fields: &Fields<'_>, (min, max): (Option<u32>, Option<u32>), gpus: Option<u32>) {
    if let (Some(min), Some(max), Some(value)) = (min, max, fields.get("max_gpus"))
        && min > max
    {
        value.report(ValueError::new(format!("{max} is less than min_gpus {min}")));
    }
    let Some((gpus, value)) = gpus.zip(fields.get("gpus")) else { return };
    if let Some(min) = min.filter(|min| gpus < *min) {
        value.report(ValueError::new(format!("{gpus} is less than min_gpus {min}")));
    }
    if let Some(max) = max.filter(|max| gpus > *max) {
        value.report(ValueError::new(format!("{gpus} is more than max_gpus {max}")));
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;

    const LEAST: &str =
        "name: a, samples_per_epoch: 1000, epochs: 2, global_batch: 300, model_size: 1MB, command: run";

    /// Returns the problems of a job with the least keys and `more`, without the path of the job.
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
        assert_snapshot!(check("gpus: 301"), @"line 3: jobs[0].gpus: 301 is more than the 300 ranks among which global_batch can be split");
    }

    #[test]
    fn the_table_of_keys_tells_what_is_required_and_the_defaults() {
        let least = parse(&format!("jobs: [{{{LEAST}}}]")).expect("a job");
        for key in &JOB_KEYS {
            assert_eq!(key.required, LEAST.contains(&format!("{}: ", key.name)), "{}", key.name);
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
        line 9: jobs[0].model_size: has no unit known for bytes, got "46.8M"; write 46.8MiB (powers of 2) or 46.8MB (powers of 10)
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
        line 17: jobs[1].name: appears a second time; the first is on line 16
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
    fn files_of_another_kind_are_refused() {
        let check = |text: &str| parse(text).expect_err(text).in_file("jobs.yaml");
        assert_snapshot!(check(""), @"jobs.yaml:1: is missing the required key jobs");
        assert_snapshot!(check("- name: a"), @"jobs.yaml:1: must be a map, got a list; put the list under jobs:");
        assert_snapshot!(check("jobs: []"), @"jobs.yaml:1: jobs: must hold at least one job");
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
            parse(&text(size))
                .map_or_else(|problems| problems.to_string(), |jobs| jobs[0].model_size.to_string())
        };
        assert_snapshot!(said("100"), @r#"line 1: jobs[0].model_size: has no unit, got "100"; write 100GiB, 100MB or 100B"#);
        assert_snapshot!(said("'100'"), @r#"line 1: jobs[0].model_size: has no unit, got "100"; write 100GiB, 100MB or 100B"#);
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
        assert_snapshot!(file(&format!("{{{LEAST}}}")), @"f:1: is one job without a list; put it under jobs: as - name: …");
        let anchored = format!(
            "x-own: &own {{epochs: 5}}\njobs:\n- {{<<: *own, {}}}\n",
            LEAST.replace("epochs: 2, ", "")
        );
        assert_snapshot!(file(&anchored), @"1 ok");
        assert_snapshot!(file(&anchored.replace("x-own", "defaults")), @"f:1: defaults: is not a known key; for anchors, call it x-defaults: keys that begin with x- are left alone");
        // Only at the top: a job has no such keys.
        assert_snapshot!(check("x-a: {}"), @"line 3: jobs[0].x-a: is not a known key");
        assert_snapshot!(check("deadline: 5"), @r#"line 3: jobs[0].deadline: has no unit, got "5"; write 5s, 5m or 5h"#);
        assert_snapshot!(check("time: 5"), @r#"line 3: jobs[0].time: has no unit, got "5"; write 5s, 5m or 5h (Slurm would read it as minutes)"#);
        let todo = format!("jobs: [{{{}}}]", LEAST.replace("command: run", "command: TODO"));
        assert_snapshot!(file(&todo), @"f:1: jobs[0].command: is still TODO; write what each rank runs");
    }

    #[test]
    fn what_reaches_slurm_or_the_launcher_is_checked() {
        assert_snapshot!(check("env: {HSCHED_GATE_LIMIT_S: 60, RANK: 1, HSCHED_RUN: x, '1A': x, B: [1], hs_a: 1}"), @r#"
        line 3: jobs[0].env.RANK: RANK is set by hsched for every rank and cannot be set here; remove it
        line 3: jobs[0].env.HSCHED_RUN: HSCHED_RUN is set by hsched for every rank and cannot be set here; remove it
        line 3: jobs[0].env.1A: "1A" is not a valid variable name; letters, digits and _ only, no digit first
        line 3: jobs[0].env.B: must be text, got a list
        line 3: jobs[0].env.hs_a: hs_a is set by hsched for every rank and cannot be set here; remove it
        "#);
        assert_snapshot!(check("env: [A=1, A=2, b]"), @r#"
        line 3: jobs[0].env[1]: sets A a second time
        line 3: jobs[0].env[2]: must be NAME=value, got "b"
        "#);
        assert_snapshot!(check("account: \"a\\nb\", partition: a b, workdir: \"x\\x07\", qos: ''"), @r#"
        line 3: jobs[0].workdir: must not hold control characters, got '\u{7}'
        line 3: jobs[0].account: must be one word, got "a\nb"
        line 3: jobs[0].partition: must be one word, got "a b"
        line 3: jobs[0].qos: must be one word, got ""
        "#);
        assert_snapshot!(check("sbatch: [\"--x\\n#SBATCH --y\"], checkpoint: {dir: \"a\\0\"}"), @r"
        line 3: jobs[0].sbatch[0]: must not hold control characters, got '\n'
        line 3: jobs[0].checkpoint.dir: must not hold control characters, got '\0'
        ");
        assert_snapshot!(check("sbatch: \"--comment='x\""), @"line 3: jobs[0].sbatch: cannot be split into words: missing closing quote");
        assert_snapshot!(check("time: 30, checkpoint: {grace: 12:30}, memory_per_gpu: 8"), @r#"
        line 3: jobs[0].time: has no unit, got "30"; write 30s, 30m or 30h (Slurm would read it as minutes)
        line 3: jobs[0].memory_per_gpu: has no unit, got "8"; write 8GiB, 8MB or 8B
        line 3: jobs[0].checkpoint.grace: is ambiguous, got "12:30"; write 12:30:00 for hours and minutes, or 00:12:30 for minutes and seconds
        "#);
        assert_snapshot!(check("time: 0s, min_gpus: 400, gpu_types: []"), @r"
        line 3: jobs[0].gpu_types: must name at least one GPU type; remove the key to allow all
        line 3: jobs[0].time: must be above 0
        line 3: jobs[0].min_gpus: 400 is more than the 300 ranks among which global_batch can be split
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
            let _any = super::super::cluster::parse(&format!("nodes:\n- {key}: {value}"));
        }
    }
}
