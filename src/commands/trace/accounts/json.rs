//! Jobs in `sacct --json`, whose numbers and states have different formats in different versions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::gpus;
use hsched_lab::trace::table::{NoEntry, ParsedEntries};
use hsched_lab::trace::{RecordedJob, TraceError, usable};
use hsched_model::GpuType;
use hsched_slurm::SlurmState;

/// Reads the jobs; identifies unreadable ones by job id, because line numbers of JSON mean little.
pub(super) fn parse(text: &str, untyped: Option<&GpuType>) -> Result<ParsedEntries<RecordedJob>, TraceError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| TraceError::Other(format!("looks like JSON, but is not valid: {error}")))?;
    let Some(jobs) = value["jobs"].as_array() else {
        return Err(TraceError::Other("is JSON without jobs; `sacct --json` prints them".into()));
    };
    let mut found = ParsedEntries::default();
    for job in jobs {
        let entry = recorded(job, untyped).map_err(|why| match why {
            NoEntry::Bad(message) => NoEntry::Bad(format!("job {}: {message}", id(job))),
            skipped @ NoEntry::Skipped(_) => skipped,
        });
        found.add(0, entry);
    }
    Ok(found)
}

fn recorded(job: &Value, untyped: Option<&GpuType>) -> Result<RecordedJob, NoEntry> {
    let state = &job["state"]["current"];
    if state
        .as_str()
        .or(state[0].as_str())
        .is_some_and(|state| SlurmState::parse(state) == SlurmState::Pending)
    {
        return Err(NoEntry::Skipped("still waiting"));
    }
    let (gpus, gpu_type) = gpus(&tres(job), untyped)?;
    let time = |key: &str| {
        number(&job["time"][key]).ok_or_else(|| NoEntry::Bad(format!("time.{key} is not a number")))
    };
    usable(RecordedJob {
        name: format!("{}-{}", job["name"].as_str().unwrap_or("job"), id(job)),
        arrival: time("submission")?,
        seconds: time("elapsed")?,
        gpus,
        gpu_types: BTreeSet::from([gpu_type]),
    })
}

/// Returns the job id, with the task of an array.
fn id(job: &Value) -> String {
    let of_array = number(&job["array"]["job_id"]).filter(|&id| id > 0.0);
    match (of_array, number(&job["array"]["task_id"])) {
        (Some(array), Some(task)) => format!("{array}_{task}"),
        _ => number(&job["job_id"]).map_or("?".to_owned(), |id| id.to_string()),
    }
}

/// Returns the job's allocated generic resources as a TRES string; the requested ones if nothing is
/// allocated.
fn tres(job: &Value) -> String {
    let mut held = ["allocated", "requested"].iter().filter_map(|key| job["tres"][*key].as_array());
    let Some(held) = held.find(|all| !all.is_empty()) else { return String::new() };
    let part = |value: &Value| {
        let (name, count) = (value["name"].as_str()?, number(&value["count"])?);
        (value["type"] == "gres").then(|| format!("gres/{name}={count}"))
    };
    held.iter().filter_map(part).collect::<Vec<_>>().join(",")
}

/// Returns a number that is either plain or of the form `{"set": true, "infinite": false, "number": 4}`;
/// `None` if it is not set, infinite or negative.
fn number(value: &Value) -> Option<f64> {
    let is = |key: &str| value[key].as_bool();
    let value = match value {
        Value::Object(_) if is("set") != Some(false) && is("infinite") != Some(true) => &value["number"],
        other => other,
    };
    value.as_f64().filter(|number| *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"jobs": [
        {"job_id": 7, "name": "train", "state": {"current": ["COMPLETED"]},
         "time": {"submission": 1000, "elapsed": 3600},
         "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8}, {"type": "gres", "name": "gpu", "count": 2},
                                {"type": "gres", "name": "gpu:a100", "count": 2}]}},
        {"job_id": 9, "name": "array", "state": {"current": "FAILED"},
         "array": {"job_id": 8, "task_id": {"set": true, "infinite": false, "number": 3}},
         "time": {"submission": {"set": true, "number": 1010}, "elapsed": 60},
         "tres": {"allocated": [], "requested": [{"type": "gres", "name": "gpu:a100", "count": 1}]}},
        {"job_id": 10, "name": "waits", "state": {"current": ["PENDING"]}},
        {"job_id": 11, "name": "cpu", "state": {"current": ["COMPLETED"]}, "tres": {"allocated": []}},
        {"job_id": 12, "name": "odd", "state": {"current": ["COMPLETED"]}, "time": {"submission": 1, "elapsed": "x"},
         "tres": {"allocated": [{"type": "gres", "name": "gpu:t4", "count": 1}]}}
    ]}"#;

    #[test]
    fn jobs_of_several_versions_are_read() {
        let read = parse(TEXT, None).expect("jobs");
        let facts = |job: &RecordedJob| (job.name.clone(), job.arrival, job.seconds, job.gpus);
        let found: Vec<_> = read.entries.iter().map(facts).collect();
        assert_eq!(found, [("train-7".into(), 1000.0, 3600.0, 2), ("array-8_3".into(), 1010.0, 60.0, 1)]);
        assert_eq!(read.skipped.into_iter().collect::<Vec<_>>(), [("no GPUs", 1), ("still waiting", 1)]);
        let bad: Vec<_> = read.bad.iter().map(ToString::to_string).collect();
        assert_eq!(bad, ["job 12: time.elapsed is not a number"]);
    }

    #[test]
    fn other_json_is_refused() {
        let check = |text: &str| parse(text, None).expect_err("no jobs").to_string();
        assert_eq!(check("{\"nodes\": []}"), "is JSON without jobs; `sacct --json` prints them");
        assert!(check("{\"jobs\": [").starts_with("looks like JSON, but is not valid: "));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests use files")]
    #[expect(clippy::print_stdout, reason = "a test that is skipped says why")]
    fn output_of_real_clusters_is_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/slurm-samples");
        for (name, jobs, gpus) in [("sarc_sacct_slurm_22_5_9", 1, 16), ("sarc_sacct_slurm_23_11_5", 1, 2)] {
            let Ok(text) = std::fs::read_to_string(format!("{folder}/{name}.json")) else {
                println!("skipped: no samples in {folder}");
                return;
            };
            let read = parse(&text, GpuType::new("v100").as_ref()).expect(name);
            assert_eq!((read.entries.len(), read.entries[0].gpus), (jobs, gpus), "{name}");
        }
    }
}
