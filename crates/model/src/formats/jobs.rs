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
use crate::{Bytes, Estimates, GpuType, Job, JobName, NodeName, Precision, Seconds, Stop};

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
        root.report(
            ValueError::new("is a single job, not a list of jobs").hint("put it under jobs: as - name: …"),
        );
        return None;
    }
    let known: &[&str] = if runs { &["jobs", "sweep"] } else { &["jobs", "sweep", "now"] };
    let fields = root.fields_with_anchors(known);
    let mut sweeps = Sweeps::of_file(&fields);
    let list = fields.required("jobs")?;
    let items = list.items();
    if items.is_empty() && (list.is_list() || list.is_nothing()) {
        list.report(ValueError::new("must contain at least one job"));
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
pub fn label(text: &str) -> Result<String, ValueError> {
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
        let message = format!("{min_gpus} is more than {most}, the largest number of ranks for global_batch");
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
