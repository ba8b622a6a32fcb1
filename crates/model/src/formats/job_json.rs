//! Jobs back to the keys of a job file, as JSON, in one canonical spelling.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};

use super::duration::duration_text;
use super::goals::deadline_text;
use crate::{
    Checkpoint, Command, Copies, GoalMode, GpuType, Job, JobName, Launch, Seconds, Speed, Stop, Target,
};

/// Returns the entry of a job file that describes this job, every default written out.
///
/// `{"jobs": [to_json(job)]}`, printed as JSON, is a job file again, and parsing it gives an equal
/// job when the job came from a file. Affine step times may change in their last bit when they were
/// computed in seconds: a job file holds milliseconds.
#[must_use]
pub fn to_json(job: &Job) -> Value {
    let Job { min_gpus, accumulate, retries, .. } = *job;
    let mut map = Map::new();
    let required = [
        ("name", json!(job.name.as_str())),
        ("model", json!(job.model)),
        ("samples_per_epoch", json!(job.samples_per_epoch)),
        ("epochs", json!(job.epochs)),
        ("global_batch", json!(job.global_batch)),
        ("batch_quantum", json!(job.batch_quantum)),
        ("model_size", json!(job.model_size.to_string())),
        ("syncs_per_epoch", json!(job.syncs_per_epoch)),
        ("overlap", json!(job.overlap)),
        ("throughput", keyed(&job.throughput, |&speed| speed_json(speed))),
        ("weight", json!(job.weight)),
        ("min_gpus", json!(min_gpus)),
        ("max_batch", keyed(&job.max_batch, |&size| json!(size))),
        ("accumulate", json!(accumulate)),
        ("retries", json!(retries)),
    ];
    map.extend(required.map(|(key, value)| (key.to_owned(), value)));
    let types = |types: &BTreeSet<GpuType>| types.iter().map(GpuType::as_str).collect();
    put(&mut map, "max_gpus", job.max_gpus.map(Value::from));
    put(&mut map, "gpus", job.gpus.map(Value::from));
    put(&mut map, "arrival", (job.arrival.0 > 0.0).then(|| duration_json(job.arrival)));
    put(&mut map, "sync_scale", (job.sync_scale > 1).then(|| json!(job.sync_scale)));
    put(&mut map, "predicted_epochs", (job.predicted_epochs > 0).then(|| json!(job.predicted_epochs)));
    put(&mut map, "losses", (!job.losses.is_empty()).then(|| json!(job.losses)));
    put(&mut map, "steps_done", (job.steps_done > 0.0).then(|| json!(job.steps_done)));
    put(&mut map, "held", (!job.held.is_empty()).then(|| held_json(job)));
    put(&mut map, "gpu_types", job.gpu_types.as_ref().map(types));
    let after = || job.after.iter().map(JobName::as_str).collect::<Vec<_>>();
    put(&mut map, "after", (!job.after.is_empty()).then(|| json!(after())));
    put(&mut map, "estimate", job.estimate.map(|which| json!(which.name())));
    put(&mut map, "precision", job.precision.map(|precision| json!(precision.to_string())));
    put(&mut map, "deadline", job.deadline.map(|deadline| json!(deadline_text(deadline))));
    put(&mut map, "urgency", (job.urgency != 1.0).then(|| json!(job.urgency)));
    put(&mut map, "target", job.target.as_ref().map(target_json));
    put(&mut map, "stop", (job.stop != Stop::default()).then(|| stop_json(&job.stop)));
    put_launch(&mut map, &job.launch);
    Value::Object(map)
}

fn held_json(job: &Job) -> Value {
    let own = job.held.iter();
    own.map(|((node, gpu_type), count)| (format!("{}/{gpu_type}", node.as_str()), json!(count))).collect()
}

impl Serialize for Job {
    /// Writes the entry of a job file.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to_json(self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Job {
    /// Reads the entry of a job file.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let file = json!({ "jobs": [Value::deserialize(from)?] });
        let jobs = super::jobs::parse(&file.to_string()).map_err(de::Error::custom)?;
        jobs.into_iter().next().ok_or_else(|| de::Error::custom("no job"))
    }
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value);
    }
}

fn put_launch(map: &mut Map<String, Value>, launch: &Launch) {
    let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
    let list = |items: &[String]| (!items.is_empty()).then(|| json!(items));
    // A list of NAME=value, because a JSON object does not keep its order.
    let env: Vec<String> = launch.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    put(
        map,
        "command",
        match &launch.command {
            // A job of a trace has none.
            Command::Words(words) => list(words),
            Command::Shell(line) => Some(json!(line)),
        },
    );
    put(map, "container", text(&launch.container));
    put(map, "env", list(&env));
    put(map, "setup", list(&launch.setup));
    put(map, "node_setup", list(&launch.node_setup));
    put(map, "workdir", text(&launch.workdir));
    let accounts = || launch.account.iter().chain(&launch.other_accounts).collect::<Vec<_>>();
    let account =
        if launch.other_accounts.is_empty() { text(&launch.account) } else { Some(json!(accounts())) };
    put(map, "account", account);
    put(map, "partition", text(&launch.partition));
    put(map, "qos", text(&launch.qos));
    put(map, "time", launch.time.map(duration_json));
    put(map, "cpus_per_gpu", launch.cpus_per_gpu.map(Value::from));
    put(map, "memory_per_gpu", launch.memory_per_gpu.map(|size| json!(size.to_string())));
    put(map, "sbatch", list(&launch.sbatch));
    let Checkpoint { dir, grace, restart_cost } = &launch.checkpoint;
    let mut checkpoint = Map::new();
    put(&mut checkpoint, "dir", text(dir));
    put(&mut checkpoint, "grace", grace.map(duration_json));
    put(&mut checkpoint, "restart_cost", restart_cost.map(duration_json));
    put(map, "checkpoint", (!checkpoint.is_empty()).then_some(Value::Object(checkpoint)));
    let copies = |own: Copies| {
        let (max, round) = (own.max, duration_json(own.round));
        let mut copies = json!({ "max": max, "round": round, "optimizer": own.optimizer.name() });
        if let Some(number) = own.number {
            copies["number"] = json!(number);
        }
        copies
    };
    put(map, "copies", launch.copies.map(copies));
}

fn keyed<T>(map: &BTreeMap<GpuType, T>, value: impl Fn(&T) -> Value) -> Value {
    map.iter().map(|(key, item)| (key.as_str().to_owned(), value(item))).collect()
}

fn speed_json(speed: Speed) -> Value {
    match speed {
        Speed::Rate { samples_per_second } => json!(samples_per_second),
        Speed::Affine { alpha, beta } => {
            json!({"alpha_ms": milliseconds(alpha), "beta_ms": milliseconds(beta)})
        }
    }
}

/// Returns the milliseconds that read back as exactly this duration, or the nearest.
///
/// Seconds came from milliseconds by a division that rounds; the way back is a step or two away from
/// the product.
fn milliseconds(duration: Seconds) -> f64 {
    let product = duration.0 * 1000.0;
    let (down, up) = (product.next_down(), product.next_up());
    let candidates = [product, down, up, down.next_down(), up.next_up()];
    candidates.into_iter().find(|candidate| candidate / 1000.0 == duration.0).unwrap_or(product)
}

fn duration_json(duration: Seconds) -> Value {
    json!(duration_text(duration))
}

fn target_json(target: &Target) -> Value {
    let mode = match target.mode {
        GoalMode::Min => "min",
        GoalMode::Max => "max",
    };
    let mut map =
        Map::from_iter([("metric".to_owned(), json!(target.metric)), ("mode".to_owned(), json!(mode))]);
    put(&mut map, "value", target.value.map(|value| json!(value)));
    Value::Object(map)
}

fn stop_json(stop: &Stop) -> Value {
    let Stop { rule, when_busy, patience, not_before, confidence, give_up } = stop;
    let mut map = Map::new();
    put(&mut map, "rule", Some(json!(rule.name())));
    put(&mut map, "when_busy", Some(json!(when_busy.name())));
    put(&mut map, "patience", patience.map(Value::from));
    put(&mut map, "not_before", (*not_before > 0).then(|| json!(not_before)));
    put(&mut map, "confidence", (*confidence != Stop::default().confidence).then(|| json!(confidence)));
    put(&mut map, "give_up", give_up.then(|| json!(give_up)));
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::formats::jobs;
    use crate::{Command, Job};

    /// Texts that trip writers and readers of YAML and JSON.
    const NASTY: &str = "[a-z0-9:#'\"{}\\[\\],&*!|>%@`~ =\\\\-]{1,20}|\\PC{1,12}|(- |null|true|1e3|<<|~)";

    fn again(jobs: &[Job], pretty: bool) -> Vec<Job> {
        let file = serde_json::json!({"jobs": jobs.iter().map(jobs::to_json).collect::<Vec<_>>()});
        let text = if pretty { format!("{file:#}") } else { file.to_string() };
        jobs::parse(&text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
    }

    fn check(text: &str) {
        let jobs = jobs::parse(text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        assert_eq!(again(&jobs, true), jobs);
        assert_eq!(again(&jobs, false), jobs);
    }

    #[test]
    fn a_job_with_everything_reads_back() {
        check(
            r#"
jobs:
  - {name: a, samples_per_epoch: 9, epochs: 1, global_batch: 4, model_size: 0, command: "python a.py\necho done"}
  - name: b.2
    model: resnet
    samples_per_epoch: 100000
    epochs: 200
    global_batch: 512
    model_size: 46.8MB
    syncs_per_epoch: 1
    throughput: {v100: 644.1, t4: {alpha_ms: 80, beta_ms: 4.21}, a100_3g.20gb: 1e-3}
    command: [python, train.py, --lr, 1e-3, "", "a\tb"]
    weight: 0.1
    min_gpus: 2
    max_gpus: 8
    gpu_types: [v100, t4]
    max_batch: {t4: 64}
    accumulate: false
    batch_quantum: 8
    overlap: 0.3
    precision: bf16
    env: {Z: 1, A: "", PATH_LIKE: "a=b:c"}
    setup: |
      if true; then
        echo x
      fi
    node_setup: [module load cuda]
    workdir: /scratch/me
    account: def-me
    partition: gpu,long
    qos: high
    time: 1-12:00:00
    cpus_per_gpu: 4
    memory_per_gpu: 31.5GiB
    sbatch: --exclusive -C "a&b"
    checkpoint: {dir: ckpt dir, grace: 120s, restart_cost: 1.5m}
    deadline: 2030-01-31T18:00:00+01:00
    target: {metric: loss, value: 0.5, mode: min}
    urgency: 2.5
    stop: {rule: best, when_busy: target, patience: 5, not_before: 3, confidence: 0.9, give_up: true}
    retries: 0
    gpus: 4
    arrival: 1h30m
    sync_scale: 4
    predicted_epochs: 12
    losses: [2.5, 1.25, 1]
    steps_done: 12.5
    held: {gpu01/v100: 2, gpu01/t4: 1}
    copies: {max: 4, round: 90s, optimizer: reset, number: 2}
"#,
        );
    }

    #[test]
    fn json_of_other_writers_is_read() {
        let text = "{\r\n\t\"jobs\": [{\"name\": \"a\", \"samples_per_epoch\": 9, \"epochs\": 1, \"global_batch\": 4,\r\n\
            \t\"model_size\": 0, \"command\": [\"a\\/b\", \"\\ud83d\\ude00\"]}]\r\n}\r\n";
        let jobs = jobs::parse(text).expect("a job");
        assert_eq!(jobs[0].launch.command, Command::Words(vec!["a/b".to_owned(), "\u{1F600}".to_owned()]));
    }

    proptest! {
        #[test]
        fn jobs_read_back_whatever_they_hold(
            words in prop::collection::vec(NASTY, 1..5),
            value in NASTY,
            lines in prop::collection::vec(NASTY, 0..4),
            (alpha, beta, rate) in (0.0..1e6_f64, 1e-6..1e6_f64, 1e-9..1e12_f64),
            (target, seconds, bytes) in (-1e300..1e300_f64, 0.0..1e8_f64, 0_u64..1 << 53),
        ) {
            let file = serde_json::json!({"jobs": [{
                "name": "x", "samples_per_epoch": 7, "epochs": 1, "global_batch": 2,
                "model_size": bytes, "command": words, "workdir": value,
                "env": [format!("B={value}"), format!("A={value}")], "setup": lines, "sbatch": words,
                "throughput": {"a": {"alpha_ms": alpha, "beta_ms": beta}, "b": rate},
                "target": {"metric": "m", "value": target, "mode": "max"},
                "checkpoint": {"grace": format!("{seconds}s"), "dir": value},
            }]});
            let jobs = jobs::parse(&file.to_string()).map_err(|e| TestCaseError::fail(format!("{e}\n{file}")))?;
            prop_assert_eq!(&again(&jobs, false), &jobs);
            prop_assert_eq!(&again(&jobs, true), &jobs);
            prop_assert_eq!(jobs[0].launch.workdir.as_deref(), Some(value.as_str()));
            prop_assert_eq!(&jobs[0].launch.setup, &lines);
            prop_assert_eq!(&jobs[0].launch.sbatch, &words);
        }
    }
}
