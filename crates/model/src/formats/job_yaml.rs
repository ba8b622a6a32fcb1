//! Writes jobs as a readable job file: in the order of the table of keys, without defaults.

use std::fmt::Write as _;

use serde_json::Value;

use super::cluster_yaml::text;
use super::job_keys::job_keys;
use crate::{Bytes, Job};

/// Returns the job file that describes these jobs; parsing it gives equal jobs.
pub fn to_yaml(jobs: &[Job]) -> String {
    let mut out = String::from("jobs:\n");
    for job in jobs {
        let mut indent = "  - ";
        for key in job_keys() {
            if let Some(value) = key.yaml(job) {
                // Writing to a String cannot fail.
                let _ = writeln!(out, "{indent}{}: {value}", key.name);
                indent = "    ";
            }
        }
    }
    out
}

/// Returns a JSON value as YAML on one line.
pub fn flow(value: &Value) -> String {
    match value {
        Value::Null => String::from("null"),
        Value::Bool(switch) => switch.to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(real) if number.is_f64() => real.to_string(),
            _ => number.to_string(),
        },
        Value::String(string) => text(string),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", text(key), flow(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Formats the bytes exactly, in MB if one decimal is enough.
pub(super) fn megabytes(bytes: Bytes) -> String {
    let (tenths, rest) = (bytes.0 / 100_000, bytes.0 % 100_000);
    match (rest, tenths % 10) {
        (0, 0) if tenths > 0 => format!("{}MB", tenths / 10),
        (0, digit) if tenths > 0 => format!("{}.{digit}MB", tenths / 10),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::formats::jobs::{parse, to_yaml};

    #[test]
    fn what_is_the_default_is_not_written() {
        let jobs = parse(
            "jobs: [{command: train, model_size: 3000000B, global_batch: 64, epochs: 2, name: a, \
             samples_per_epoch: 1000, throughput: {v100: 644.0, t4: {alpha_ms: 80, beta_ms: 4.21}}}]",
        );
        assert_snapshot!(to_yaml(&jobs.expect("a job")), @r"
        jobs:
          - name: a
            samples_per_epoch: 1000
            epochs: 2
            global_batch: 64
            model_size: 3MB
            throughput: {t4: {alpha_ms: 80, beta_ms: 4.21}, v100: 644}
            command: train
        ");
    }

    #[test]
    fn a_job_with_everything_reads_back() {
        let jobs = parse(
            "jobs:
  - {name: b.2, model: resnet, samples_per_epoch: 100000, epochs: 200, global_batch: 512, model_size: 46.8MB,
     syncs_per_epoch: 1, throughput: {v100: 644.1, 1080: 1e-3}, command: [python, '', \"a\\tb\", 1e-3, '{x}: #'],
     weight: 0.1, min_gpus: 2, max_gpus: 8, gpu_types: [v100, t4], max_batch: {t4: 64}, accumulate: false,
     batch_quantum: 8, overlap: 0.3, precision: bf16, env: {Z: 1, A: '', P: 'a=b:c, d'}, setup: [\"a\\nb\"],
     node_setup: [module load cuda], workdir: /scratch/me, account: def-me, partition: 'gpu,long', qos: high,
     time: 1-12:00:00, cpus_per_gpu: 4, memory_per_gpu: 31.5GiB, sbatch: --exclusive -C 'a&b', retries: 0,
     checkpoint: {dir: ckpt dir, grace: 120s}, deadline: 2030-01-31T18:00:00, target: {metric: 'yes', value: 0.5, mode: min}}
  - {name: c, samples_per_epoch: 9, epochs: 1, global_batch: 4, model_size: 0, command: \"python a.py\\necho done\"}
",
        );
        let jobs = jobs.expect("jobs");
        let yaml = to_yaml(&jobs);
        assert_eq!(parse(&yaml), Ok(jobs), "{yaml}");
    }
}
