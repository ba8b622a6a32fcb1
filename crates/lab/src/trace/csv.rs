//! CSV with job keys as columns: one job per line, dotted names for maps (`throughput.v100`), an empty cell
//! for a missing key.
//!
//! The text is converted to a job file with each job on the same line, so that every key has a single parser.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::trace::TraceError;
use hsched_model::formats::jobs::TraceFile;
use hsched_model::formats::{self, JobKey};

/// A column of a trace.
struct TraceColumn {
    key: String,
    /// Whether the cells are names, which stay text even if they look like numbers (a job may be called 17).
    is_name: bool,
}

/// Returns whether a text is CSV: its first line has a column `name` and contains neither `{` nor `:`.
pub(super) fn is_csv(text: &str) -> bool {
    let header = text.lines().next().unwrap_or_default();
    header.split(',').any(|cell| cell.trim().trim_matches('"') == "name") && !header.contains(['{', ':'])
}

pub(super) fn parse(text: &str) -> Result<TraceFile, TraceError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let wrong = |error: &csv::Error| TraceError::Csv {
        line: error.position().map_or(1, csv::Position::line),
        message: match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("has {len} cells, but the header has {expected_len}")
            }
            _ => error.to_string(),
        },
    };
    let headers = reader.headers().map_err(|error| wrong(&error))?;
    let header: Vec<TraceColumn> = headers.iter().map(TraceColumn::named).collect();
    let mut file = String::from("{\"jobs\": [");
    let mut line = 1;
    let mut first = true;
    for record in reader.records() {
        let record = record.map_err(|error| wrong(&error))?;
        if !first {
            file.push(',');
        }
        first = false;
        // Problems give line numbers of the converted text, so each job is put on its line of the CSV.
        let record_line = record.position().map_or(line, csv::Position::line);
        while line < record_line {
            file.push('\n');
            line += 1;
        }
        file.push_str(&job(&header, &record).to_string());
    }
    file.push_str("]}");
    formats::jobs::parse_trace(&file).map_err(TraceError::Problems)
}

/// Returns the entry of a job file.
fn job(header: &[TraceColumn], record: &csv::StringRecord) -> Value {
    let mut entry = Map::new();
    let mut maps: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (column, cell) in header.iter().zip(record).filter(|(_, cell)| !cell.is_empty()) {
        let value = column.value(cell);
        match column.key.split_once('.') {
            Some((map, key)) => put(maps.entry(map).or_default(), key, value),
            None => put(&mut entry, &column.key, value),
        }
    }
    for (name, map) in maps {
        put(&mut entry, name, Value::Object(map));
    }
    Value::Object(entry)
}

/// Inserts a value, nested if the key ends in `.alpha_ms` or `.beta_ms` (`throughput.t4.alpha_ms`).
fn put(map: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        Some((outer, inner)) if matches!(inner, "alpha_ms" | "beta_ms") => {
            if let Some(object) = map.entry(outer).or_insert_with(|| json!({})).as_object_mut() {
                object.insert(inner.to_owned(), value);
            }
        }
        _ => {
            map.insert(key.to_owned(), value);
        }
    }
}

impl TraceColumn {
    fn named(key: &str) -> Self {
        Self { key: key.to_owned(), is_name: JobKey::named(key).is_some_and(|key| key.is_name) }
    }

    /// Returns a cell as a value: as JSON if it parses as such and is no string, otherwise as text; names are
    /// always text.
    fn value(&self, cell: &str) -> Value {
        let parsed = serde_json::from_str(cell).ok();
        let parsed = parsed.filter(|value: &Value| !value.is_string() && !self.is_name);
        parsed.unwrap_or_else(|| Value::from(cell))
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::parse;
    use hsched_model::{GpuType, Seconds};

    const FILE: &str = "\
name,arrival,gpus,samples_per_epoch,epochs,global_batch,model_size,throughput.v100,throughput.t4.alpha_ms,throughput.t4.beta_ms,checkpoint.restart_cost,gpu_types
17,90,4,1000,5,100,0,644.5,80,4.21,30,\"[\"\"v100\"\", \"\"t4\"\"]\"
b,1h30m,,1000,5,100,1MB,,,,,
";

    #[test]
    fn columns_are_the_keys_of_jobs() {
        let jobs = parse(FILE).expect("two jobs").jobs;
        let (first, second) = (&jobs[0], &jobs[1]);
        assert_eq!((first.name.as_str(), first.arrival, first.gpus), ("17", Seconds(90.0), Some(4)));
        assert_eq!((first.min_gpus, first.max_gpus, first.throughput.len()), (4, Some(4), 2));
        assert_eq!(first.launch.checkpoint.restart_cost, Some(Seconds(30.0)));
        let t4 = GpuType::new("t4").expect("a type");
        assert!((first.throughput[&t4].alpha() - 0.08).abs() < 1e-12);
        assert_eq!((second.arrival, second.gpus, second.min_gpus), (Seconds(5400.0), None, 1));
    }

    #[test]
    fn problems_name_the_lines_of_the_file() {
        let wrong = |text: &str| parse(text).expect_err("wrong").to_string();
        let line = wrong("name,epochs,samples_per_epoch,global_batch,model_size\na,1,1,1,0\nb,x,1,1,0\n");
        assert_eq!(line, "line 3: jobs[1].epochs: must be a whole number, got the text \"x\"");
        assert_eq!(wrong("name,epochs\na,1,2\n"), "line 2: not valid CSV: has 3 cells, but the header has 2");
        assert!(wrong("name,epoch\na,1\n").contains("did you mean epochs?"));
    }
}
