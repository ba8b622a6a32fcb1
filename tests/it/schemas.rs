//! The JSON schemas of `docs/schemas`: all JSON that hsched prints in a sandbox conforms to them, without
//! undescribed keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Schemas of outputs that do not contain the schema's name, with the keys that identify each.
const UNNAMED: [(&str, &[&str]); 4] = [
    ("hsched.error/1", &["error"]),
    ("hsched.event/1", &["at", "topic", "text"]),
    ("hsched.ask/1", &["trial", "job", "message"]),
    ("hsched.tell/1", &["trial", "epoch", "state"]),
];

/// Returns the schemas in their written form, by the names in outputs.
fn schemas() -> &'static BTreeMap<String, Value> {
    static SCHEMAS: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
        let read = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).expect("a text");
            let schema: Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (name(&path), schema)
        };
        fs::read_dir(folder).expect("a folder").map(read).collect()
    })
}

/// Returns the name of a schema in outputs: `hsched.plan/1` of `plan-1.json`.
fn name(path: &Path) -> String {
    let stem = path.file_stem().expect("a name").to_str().expect("a name");
    let (name, version) = stem.rsplit_once('-').expect("a version");
    format!("hsched.{name}/{version}")
}

/// Returns the validator for outputs with this name; objects may have only described keys.
fn validator(name: &str) -> Arc<Validator> {
    static MADE: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().expect("no test has panicked here");
    let new = || {
        let schema = schemas().get(name).unwrap_or_else(|| panic!("docs/schemas has no schema {name:?}"));
        // Schemas refer to each other by their ids.
        let all: Vec<Value> = schemas().values().cloned().map(closed).collect();
        let bundle = json!({ "$ref": schema["$id"], "$defs": { "all": { "anyOf": all } } });
        Arc::new(jsonschema::draft202012::new(&bundle).unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    made.entry(name.to_owned()).or_insert_with(new).clone()
}

/// Returns the schema without permission for undescribed keys; published schemas permit them for later
/// versions.
fn closed(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(keys) => {
            if keys.contains_key("properties") && !keys.contains_key("additionalProperties") {
                keys.insert("additionalProperties".to_owned(), json!(false));
            }
            for value in keys.values_mut() {
                *value = closed(value.take());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = closed(item.take())),
        _ => {}
    }
    schema
}

/// Asserts that the JSON in a command's output, as a whole or line by line, conforms to its schema. An output
/// that does not begin with `{` is not checked, nor are lines that are not JSON.
#[track_caller]
pub fn check(printed: &str) {
    if !printed.starts_with('{') {
        return;
    }
    match serde_json::from_str(printed) {
        Ok(value) => check_value(&value),
        Err(_) => printed
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .for_each(|value| check_value(&value)),
    }
}

/// Asserts that a value conforms to the schema that it names, or to the schema in [`UNNAMED`] whose keys it
/// has; other values are not checked.
#[track_caller]
pub fn check_value(value: &Value) {
    let has = |keys: &[&str]| keys.iter().all(|key| value.get(key).is_some());
    let unnamed = || UNNAMED.iter().find(|(_, keys)| has(keys)).map(|(name, _)| *name);
    let Some(name) = value["schema"].as_str().or_else(unnamed) else { return };
    check_as(name, value);
}

/// Asserts that a value conforms to the schema of this name.
#[track_caller]
pub fn check_as(name: &str, value: &Value) {
    let wrong: Vec<String> = validator(name)
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()).chars().take(500).collect())
        .collect();
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

/// Returns a page with a table of keys for each schema: `docs/json.md` without its first lines.
fn tables() -> String {
    let mut text = String::new();
    for (name, schema) in schemas() {
        let _ = writeln!(text, "\n## {name}\n\n{}.\n", schema["title"].as_str().expect("a title"));
        text.push_str("| key | value | meaning |\n|---|---|---|\n");
        add_rows(&mut text, schema, schema, "");
    }
    text
}

/// Adds a row for each key of an object, and of the objects in it.
fn add_rows(text: &mut String, whole: &Value, schema: &Value, path: &str) {
    let (schema, name) = resolved(whole, schema);
    if let Some(name) = name {
        let _ = writeln!(text, "| `{path}…` | | as in [{name}](#{}) |", name.replace(['.', '/'], ""));
        return;
    }
    for choice in ["oneOf", "anyOf"].iter().filter_map(|word| schema[*word].as_array()).flatten() {
        add_rows(text, whole, choice, path);
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let (shown, _) = resolved(whole, value);
        let meaning = value["description"].as_str().or(shown["description"].as_str()).unwrap_or_default();
        let missing = if required.contains(&json!(key)) { "" } else { " or missing" };
        if key != "schema" {
            let _ = writeln!(text, "| `{path}{key}` | {}{missing} | {meaning} |", kind(whole, value));
        }
        let (inner, below) = match (&shown["items"], &shown["additionalProperties"]) {
            (items @ Value::Object(_), _) => (items, format!("{path}{key}[].")),
            (_, values @ Value::Object(_)) => (values, format!("{path}{key}.*.")),
            _ => (value, format!("{path}{key}.")),
        };
        add_rows(text, whole, inner, &below);
    }
}

/// Returns the target of a schema's reference in the same file, otherwise the schema itself; for a reference
/// to another file, also the name of the schema there.
fn resolved<'a>(whole: &'a Value, schema: &'a Value) -> (&'a Value, Option<String>) {
    let Some(reference) = schema["$ref"].as_str() else { return (schema, None) };
    if let Some(pointer) = reference.strip_prefix('#') {
        return (whole.pointer(pointer).expect("is there"), None);
    }
    let name = reference.strip_prefix("urn:hsched:").and_then(|rest| rest.split('#').next());
    let (name, version) = name.and_then(|name| name.split_once(':')).expect("a name");
    (schema, Some(format!("hsched.{name}/{version}")))
}

/// Returns a short description of the values that a schema allows.
fn kind(whole: &Value, schema: &Value) -> String {
    let (schema, other) = resolved(whole, schema);
    if other.is_some() {
        return "object".to_owned();
    }
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|value| format!("`{}`", word(value))).collect::<Vec<_>>().join(", ");
    }
    if let Some(value) = schema.get("const") {
        return format!("`{}`", word(value));
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let mut kinds: Vec<String> = choices.iter().map(|choice| kind(whole, choice)).collect();
        kinds.dedup();
        kinds.sort_by_key(|kind| kind == "null");
        return kinds.join(" or ");
    }
    match &schema["type"] {
        Value::Array(types) => types.iter().map(word).collect::<Vec<_>>().join(" or "),
        Value::String(name) => name.clone(),
        _ => "any".to_owned(),
    }
}

#[test]
fn the_page_is_made_of_the_schemas() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md");
    let page = fs::read_to_string(&path).expect("a page");
    let begin = page.find("\n## ").unwrap_or(page.len());
    if std::env::var("HSCHED_DOCS").is_ok_and(|what| what == "write") {
        fs::write(&path, format!("{}{}", &page[..begin], tables())).expect("a page");
        return;
    }
    assert!(
        page[begin..] == tables(),
        "docs/json.md is not current: HSCHED_DOCS=write cargo test --test it schemas"
    );
}

/// Outputs that no other test requests as JSON, and files that programs read.
#[test]
fn files_and_rare_outputs_keep_to_their_schemas() {
    let example = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/queue.json"));
    check_value(&serde_json::from_str(&example.expect("a text")).expect("JSON"));
    let sandbox = Sandbox::new();
    let schema = |arguments: &str| sandbox.run(arguments).exits(0).json()["schema"].clone();
    let plan = "plan jobs.yaml --cluster cluster.yaml --format json";
    assert_eq!(schema(&format!("{plan} --compare all --budget 100ms")), "hsched.compare/1");
    assert_eq!(schema("when --score --format json"), "hsched.score/1");
    sandbox.run(&format!("{plan} --report page.html")).exits(0);
    let page = sandbox.text(&sandbox.work("page.html"));
    let data = page.lines().find(|line| line.contains("application/json")).expect("its data");
    let (begin, end) = (data.find('{').expect("JSON"), data.rfind('}').expect("JSON"));
    check_value(&serde_json::from_str(&data[begin..=end]).expect("JSON"));
}

/// A schema that cannot fail would prove nothing.
#[test]
fn what_is_not_described_is_refused() {
    let added = |more: &str| {
        let text = format!(
            "{{\"schema\": \"hsched.add/1\", \"dry_run\": false, \"carried_out_by\": \"run\", \"jobs\": []{more}}}"
        );
        let value: Value = serde_json::from_str(&text).expect("JSON");
        validator("hsched.add/1").is_valid(&value)
    };
    assert!(added("") && !added(", \"later\": 1") && !added(", \"jobs\": [{\"name\": \"a\"}]"));
    // Lines without a schema's name are checked by their keys.
    for line in [
        json!({ "at": 1.0, "job": null, "topic": "later", "text": "a" }),
        json!({ "trial": 7, "job": "a", "state": "lost", "message": null }),
        json!({ "trial": 7, "epoch": 0.5, "metric": null, "state": "running" }),
    ] {
        assert!(std::panic::catch_unwind(|| check_value(&line)).is_err(), "{line}");
    }
    for schema in schemas().values() {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{}", schema["$id"]);
    }
}

/// Every schema whose name the program writes is described, except schemas of files that only hsched reads.
#[test]
fn every_schema_of_the_program_is_described() {
    const INTERNAL: [&str; 7] = ["pool", "state", "wish", "looks", "policy-net", "samples", "shares"];
    let mut missing = BTreeSet::new();
    for path in sources(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        let text = fs::read_to_string(&path).expect("a source");
        // Tests may name schemas that do not exist.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for rest in text.split("\"hsched.").skip(1) {
            let Some((name, _)) = rest.split_once('"') else { continue };
            let is_name = name
                .split_once('/')
                .is_some_and(|(word, version)| version.parse::<u32>().is_ok() && !INTERNAL.contains(&word));
            if is_name && !schemas().contains_key(&format!("hsched.{name}")) {
                missing.insert(name.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "docs/schemas lacks {missing:?}");
}

/// Returns the sources of the program and its crates, without tests.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut folders = vec![root.join("src")];
    folders.extend(
        fs::read_dir(root.join("crates"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path().join("src")),
    );
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
                files.push(path);
            }
        }
    }
    files
}
