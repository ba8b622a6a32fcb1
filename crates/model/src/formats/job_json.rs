//! Writes jobs as job file entries in JSON, in one canonical form.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};

use super::duration::duration_text;
use super::job_keys::{entries, job_keys};
use crate::{Command, GpuType, Job, Seconds, Speed};

/// Returns the job file entry of this job; some keys with a default value are left out.
///
/// `{"jobs": [to_json(job)]}`, printed as JSON, is a valid job file. Parsing it, or reading the entry with
/// [`from_json`](super::jobs::from_json), gives an equal job if the job came from a file. Affine step times
/// computed in seconds may change in their last bit, because a job file stores milliseconds.
pub fn to_json(job: &Job) -> Value {
    Value::Object(entries(job_keys(), job))
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
        let jobs = super::jobs::from_json(&[Value::deserialize(from)?]).map_err(de::Error::custom)?;
        jobs.into_iter().next().ok_or_else(|| de::Error::custom("no job"))
    }
}

/// Returns the list as JSON; `None` if it is empty.
pub(super) fn filled_list<T: Serialize>(items: impl IntoIterator<Item = T>) -> Option<Value> {
    let items: Vec<Value> = items.into_iter().map(|item| json!(item)).collect();
    (!items.is_empty()).then_some(Value::Array(items))
}

/// Returns the command as JSON; `None` if it is empty, as in a trace.
pub(super) fn command_json(command: &Command) -> Option<Value> {
    match command {
        Command::Words(words) => filled_list(words),
        Command::Shell(line) => Some(json!(line)),
    }
}

pub(super) fn keyed<T>(map: &BTreeMap<GpuType, T>, value: impl Fn(&T) -> Value) -> Value {
    map.iter().map(|(key, item)| (key.as_str().to_owned(), value(item))).collect()
}

pub(super) fn speed_json(speed: Speed) -> Value {
    match speed {
        Speed::Rate { samples_per_second } => json!(samples_per_second),
        Speed::Affine { alpha, beta } => {
            json!({"alpha_ms": milliseconds(alpha), "beta_ms": milliseconds(beta)})
        }
    }
}

/// Returns the milliseconds that are read back as exactly this duration, or the closest.
///
/// Seconds came from milliseconds by a rounding division, so the inverse is one or two representable numbers
/// away from the product.
fn milliseconds(duration: Seconds) -> f64 {
    let product = duration.0 * 1000.0;
    let (down, up) = (product.next_down(), product.next_up());
    let candidates = [product, down, up, down.next_down(), up.next_up()];
    candidates.into_iter().find(|candidate| candidate / 1000.0 == duration.0).unwrap_or(product)
}

pub(super) fn duration_json(duration: Seconds) -> Value {
    json!(duration_text(duration))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::formats::jobs;
    use crate::{Command, Job};

    /// Texts that are difficult for writers and readers of YAML and JSON.
    const NASTY: &str = "[a-z0-9:#'\"{}\\[\\],&*!|>%@`~ =\\\\-]{1,20}|\\PC{1,12}|(- |null|true|1e3|<<|~)";

    fn again(jobs: &[Job], pretty: bool) -> Vec<Job> {
        let entries: Vec<_> = jobs.iter().map(jobs::to_json).collect();
        let file = serde_json::json!({"jobs": entries});
        let text = if pretty { format!("{file:#}") } else { file.to_string() };
        let read = jobs::parse(&text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        assert_eq!(jobs::from_json(&entries).as_ref(), Ok(&read), "{text}");
        read
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
    tags: [first, baseline.2]
    promising_first: true
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
