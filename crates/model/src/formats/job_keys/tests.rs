//! Every key of the table is documented, read and written. Test values come from the table itself, so a new
//! key is tested as well.

use std::collections::{BTreeMap, BTreeSet};

use super::{JobKey, job_keys};
use crate::Job;
use crate::formats::jobs::{parse, to_json, to_yaml};

/// A job's required keys, plus a metric for the rules of `stop`.
const LEAST: [(&str, &str); 7] = [
    ("name", "a"),
    ("samples_per_epoch", "1000"),
    ("epochs", "2"),
    ("global_batch", "350"),
    ("model_size", "1MB"),
    ("command", "run"),
    ("target", "{metric: loss, mode: min}"),
];

/// Values of the possible shapes, in addition to the words of the keys' forms.
const VALUES: [&str; 14] = [
    "best",
    "7",
    "90s",
    "0.6",
    "true",
    "false",
    "some text",
    "[b, c]",
    "[0.5, 1]",
    "{B: some text}",
    "{v100: 2, t4: 0.1}",
    "{v100: 7}",
    "{gpu01/v100: 2}",
    "{lr: [0.1, 0.2]}",
];

fn read(key: &str, value: &str) -> Option<Vec<Job>> {
    let mut entries = BTreeMap::from(LEAST);
    entries.insert(key, value);
    parse(&format!("jobs: [{}]", map(&entries))).ok()
}

/// Returns test values, most of them invalid.
fn values(key: &JobKey) -> Vec<String> {
    let words = key.form.split([' ', ',', '(', ')']).filter(|word| !word.contains(['[', '{']));
    VALUES.into_iter().chain(words).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the required entries of a map.
fn needed(map: &JobKey) -> BTreeMap<&'static str, &'static str> {
    match map.name {
        "copies" => BTreeMap::from([("max", "3")]),
        "replica" => BTreeMap::from([("gpus", "2")]),
        "variant" => BTreeMap::from([("sweep", "lr"), ("parameters", "{lr: 0.1}")]),
        "target" => BTreeMap::from([("metric", "accuracy"), ("mode", "max")]),
        _ => BTreeMap::new(),
    }
}

/// Returns a map as YAML.
fn map(entries: &BTreeMap<&str, &str>) -> String {
    let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

/// Returns the jobs of the files with each of these values, after checking that writing and reading them
/// gives equal jobs.
fn read_again(key: &JobKey, values: &[String]) -> Vec<Vec<Job>> {
    let read: Vec<Vec<Job>> = values.iter().filter_map(|value| read(key.name, value)).collect();
    for jobs in &read {
        let json = serde_json::json!({ "jobs": jobs.iter().map(to_json).collect::<Vec<_>>() });
        assert_eq!(parse(&json.to_string()).as_ref(), Ok(jobs), "{json}");
        assert_eq!(parse(&to_yaml(jobs)).as_ref(), Ok(jobs), "{}", to_yaml(jobs));
    }
    read
}

#[test]
fn what_is_read_of_any_key_is_written_and_read_again() {
    let least = read("epochs", "2").expect("the least job");
    // A search is refused without a sweep.
    for key in job_keys().filter(|key| key.name != "search") {
        if key.inner.is_empty() {
            let jobs = read_again(key, &values(key));
            assert!(jobs.iter().any(|jobs| *jobs != least), "{} has no effect", key.name);
        }
        let entries = needed(key);
        let without = read(key.name, &map(&entries));
        for inner in key.inner {
            let path = format!("{}.{}", key.name, inner.name);
            let one = |value: &String| {
                let mut entries = entries.clone();
                entries.insert(inner.name, value);
                map(&entries)
            };
            let jobs = read_again(key, &values(inner).iter().map(one).collect::<Vec<_>>());
            assert!(jobs.iter().any(|jobs| Some(jobs) != without.as_ref()), "{path} has no effect");
        }
    }
}

#[test]
fn every_key_is_documented() {
    let mut hidden = Vec::new();
    for key in job_keys() {
        assert!(!key.form().is_empty() && key.help().ends_with('.'), "{}", key.name);
        for inner in key.inner {
            match inner.form.split(' ').next() {
                Some("") | None => hidden.push(inner.name),
                name => assert_eq!(name, Some(inner.name), "the form of {}", key.name),
            }
        }
    }
    // hsched writes the copy number into the stored form of a copy.
    assert_eq!(hidden, ["number"]);
}

#[test]
fn no_name_stands_twice() {
    let twice = |keys: &mut dyn Iterator<Item = &'static JobKey>| {
        let mut seen = BTreeSet::new();
        keys.map(|key| key.name).find(|name| !seen.insert(*name))
    };
    assert_eq!(twice(&mut job_keys()), None);
    for key in job_keys() {
        assert_eq!(twice(&mut key.inner.iter()), None, "{}", key.name);
    }
}

#[test]
fn replicas_too_small_for_their_memory_or_without_an_efficiency_are_refused() {
    let problem = |replica: &str| {
        let text = format!(
            "jobs: [{{name: a, samples_per_epoch: 10, epochs: 1, global_batch: 4, model_size: 0, command: x, \
             throughput: {{a100: 10, h100: 20, mine: 5}}, replica: {replica}}}]"
        );
        parse(&text).err().map(|problems| problems.to_string())
    };
    let proposed = problem("{memory: 60GB}").expect("a problem");
    assert!(
        proposed.contains("missing the required key gpus")
            && proposed.contains("replica: {gpus: {a100: 2, h100: 1}}"),
        "{proposed}"
    );
    for replica in ["{same_node: true}", "{}"] {
        let nothing = problem(replica).expect("a problem");
        assert!(nothing.contains("missing the required key gpus"), "{nothing}");
    }
    // A type that has only a size is also checked.
    let slow = problem("{memory: 60GB, gpus: {p100: 2, a100: 1}}").expect("a problem");
    assert!(slow.contains("a replica on p100 has too little memory"), "{slow}");
    // An a100 may have 80 GB, so 60 GB are not known to be too much.
    assert_eq!(problem("{memory: 60GB, gpus: 1}"), None);
    let small = problem("{memory: 100GB, gpus: {a100: 2, h100: 1}}").expect("a problem");
    assert!(small.contains("a replica on h100 has too little memory: it needs 100 GB"), "{small}");
    assert_eq!(problem("{memory: 100GB, gpus: 2}"), None);
    let efficiency = problem("{gpus: 2, efficiency: {a100: 1, h100: 0.9}}").expect("a problem");
    assert!(efficiency.contains("efficiency has no value for mine"), "{efficiency}");
}
