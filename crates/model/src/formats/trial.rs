//! Trials: combinations of values chosen by an external optimiser, one line of JSON each, and the job of
//! each.

use serde_json::{Map, Value as Json, json};

use super::jobs::read_jobs;
use super::json;
use super::problem::{Problems, ValueError, nearest, quoted};
use super::reader::{Fields, read_file};
use super::sweep::{Sweeps, name_part};
use crate::{Job, JobName};

/// The keys of a line.
const KEYS: [&str; 2] = ["trial", "parameters"];

/// A trial requested by an optimiser: a run with these values.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The trial's number or name, as text.
    pub id: String,
    /// A number, boolean or text by key; at least one.
    pub parameters: Map<String, Json>,
}

impl Trial {
    /// Reads a line such as `{"trial": 7, "parameters": {"lr": 0.1}}`.
    ///
    /// # Errors
    /// If it is not such a line.
    pub fn read(line: &str) -> Result<Self, ValueError> {
        let form = r#"write {"trial": 7, "parameters": {"lr": 0.1}}"#;
        let wrong = |message: String| Err(ValueError::new(message).hint(form));
        let map = match serde_json::from_str(line) {
            Ok(Json::Object(map)) => map,
            Ok(_) => return wrong("is no JSON object".to_owned()),
            Err(error) => return wrong(format!("is not JSON: {error}")),
        };
        if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let error = ValueError::new(format!("has an unknown key {}", quoted(key)));
            return Err(match nearest(key, KEYS) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint(form),
            });
        }
        let id = match map.get("trial") {
            Some(Json::Number(number)) if number.is_u64() => number.to_string(),
            Some(Json::String(text)) if JobName::new(text).is_ok() => text.clone(),
            Some(other) => {
                return wrong(format!("trial must be a whole number or a name, got {other}"));
            }
            None => return wrong("has no trial".to_owned()),
        };
        let Some(Json::Object(parameters)) = map.get("parameters") else {
            return wrong("has no map of parameters".to_owned());
        };
        if parameters.is_empty() {
            return wrong("has no parameters".to_owned());
        }
        if let Some((key, value)) = parameters.iter().find(|(_, value)| !is_scalar(value)) {
            return Err(ValueError::new(format!("the parameter {key} must be one value, got {value}"))
                .hint("a number, a truth value or text"));
        }
        Ok(Self { id, parameters: parameters.clone() })
    }

    /// Returns the id of an invalid line, if it has one.
    pub fn id_of(line: &str) -> Option<String> {
        let value: Json = serde_json::from_str(line).ok()?;
        match value.get("trial")? {
            Json::Number(number) if number.is_u64() => Some(number.to_string()),
            Json::String(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// Checks the requirements of a job file for trials: one job, and no other top-level key such as `sweep`;
    /// keys that begin with `x-` are ignored.
    ///
    /// # Errors
    /// If it does not meet them.
    pub fn check_file(text: &str) -> Result<(), Problems> {
        read_file(text, |root| {
            let list = root.fields_with_anchors(&["jobs"]).required("jobs")?.clone();
            match list.items().len() {
                1 => Some(()),
                count => {
                    list.report(one_job(count));
                    None
                }
            }
        })
    }

    /// Returns the run of a trial: the single job of a job file, with the trial's id in its name and the trial's
    /// values in its environment and placeholders, filled in like those of a sweep.
    ///
    /// # Errors
    /// If the text is not a job file, has several jobs or a sweep, or the values are invalid; all problems
    /// are listed.
    pub fn job(&self, text: &str) -> Result<Job, Problems> {
        read_file(text, |root| {
            let jobs = read_jobs(root, true, Some(self))?;
            match <[Job; 1]>::try_from(jobs) {
                Ok([job]) => Some(job),
                Err(jobs) => {
                    root.report(one_job(jobs.len()));
                    None
                }
            }
        })
    }
}

impl Trial {
    /// Returns the sweep with the trial's single combination, for the file with these fields.
    pub(super) fn sweeps(&self, fields: &Fields<'_>) -> Sweeps {
        let lists: Map<String, Json> =
            self.parameters.iter().map(|(key, value)| (key.clone(), json!([value]))).collect();
        Sweeps::of_trial(&self.id, &json::tree(&Json::Object(lists)), fields)
    }
}

/// Returns the id of a trial from the name of its run; `None` if the run does not belong to a trial.
pub fn trial_of(run: &JobName, sweep: &str, parameters: &Map<String, Json>) -> Option<String> {
    let rest = run.as_str().strip_prefix(sweep)?;
    let id = rest.strip_prefix("-t")?;
    (!id.is_empty() && !is_of_values(rest, parameters)).then(|| id.to_owned())
}

/// Returns whether the end of a run's name comes from the values of a sweep, as in `net-temperature1`.
fn is_of_values(rest: &str, parameters: &Map<String, Json>) -> bool {
    parameters.iter().any(|(key, value)| {
        let Some(after) = rest[1..].strip_prefix(key.as_str()) else { return false };
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let after = after.strip_prefix(&name_part(&value));
        // Trial 7 of a job with a key `t` is `net-t7`, and so is a run with `t` = 7.
        key != "t"
            || after.is_some_and(|after| {
                if parameters.len() == 1 { after.is_empty() } else { after.starts_with('-') }
            })
    })
}

/// Returns an id as JSON, as a number if possible.
pub fn trial_json(id: &str) -> Json {
    let number = id.parse::<u64>().ok().filter(|number| number.to_string() == id);
    number.map_or_else(|| json!(id), |number| json!(number))
}

fn one_job(count: usize) -> ValueError {
    ValueError::new(format!("has {count} jobs, and a trial is one"))
        .hint("leave one job in the file; other files may have more")
}

fn is_scalar(value: &Json) -> bool {
    matches!(value, Json::Number(_) | Json::Bool(_) | Json::String(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "jobs: [{name: net, samples_per_epoch: 100, epochs: 3, global_batch: '{batch}', model_size: 1MB, \
        throughput: {t4: 10}, command: 'train --lr {lr}'}]";

    fn read(line: &str) -> Result<Trial, String> {
        Trial::read(line).map_err(|error| error.to_string())
    }

    #[test]
    fn a_trial_is_the_file_s_job_with_its_values() {
        let trial = read(r#"{"trial": 7, "parameters": {"lr": 0.1, "batch": 10}}"#).expect("a trial");
        let text = FILE.replace("'{batch}'", "{batch}");
        let job = trial.job(&text).expect("a job");
        assert_eq!((job.name.as_str(), job.model.as_str(), job.global_batch), ("net-t7", "net", 10));
        assert_eq!(job.launch.env, [("BATCH".into(), "10".into()), ("LR".into(), "0.1".into())]);
        let variant = job.variant.expect("a variant");
        assert_eq!((variant.sweep.as_str(), &variant.parameters), ("net", &trial.parameters));
        assert_eq!(trial_of(&job.name, "net", &variant.parameters).as_deref(), Some("7"));
        assert_eq!((trial_json("7"), trial_json("07"), trial_json("a")), (json!(7), json!("07"), json!("a")));
    }

    #[test]
    fn a_run_of_a_sweep_is_no_trial() {
        let trial = |name: &str, parameters: Json| {
            let run = JobName::new(name).expect("a name");
            trial_of(&run, "net", parameters.as_object().expect("a map"))
        };
        assert_eq!(trial("net-temperature1", json!({"temperature": 1})), None);
        assert_eq!(trial("net-top_k5-lr0.1", json!({"top_k": 5, "lr": 0.1})), None);
        assert_eq!(trial("net-ta_b-lr0.1", json!({"t": "a b", "lr": 0.1})), None);
        assert_eq!(trial("net-lr0.1", json!({"lr": 0.1})), None);
        assert_eq!(trial("net-t7", json!({"temperature": 1})).as_deref(), Some("7"));
        assert_eq!(trial("net-t7", json!({"t": 0.5})).as_deref(), Some("7"));
        assert_eq!(trial("net-t7", json!({"lr": 0.5, "t": 7})).as_deref(), Some("7"));
    }

    #[test]
    fn what_is_no_trial_is_refused() {
        let check = |line: &str, expected: &str| {
            let error = read(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        };
        check("{\"trial\": 7, \"par", "is not JSON");
        check("[]", "is no JSON object");
        check(r#"{"trial": 7}"#, "has no map of parameters");
        check(r#"{"parameters": {"lr": 1}}"#, "has no trial");
        check(r#"{"trial": -1, "parameters": {"lr": 1}}"#, "must be a whole number or a name, got -1");
        check(r#"{"trial": "a b", "parameters": {"lr": 1}}"#, "must be a whole number or a name");
        check(r#"{"trial": 7, "parameters": {}}"#, "has no parameters");
        check(r#"{"trial": 7, "parameters": {"lr": [1]}}"#, "the parameter lr must be one value, got [1]");
        check(r#"{"trial": 7, "parameter": {"lr": 1}}"#, "has an unknown key");
    }

    #[test]
    fn a_file_for_trials_has_one_job_and_no_sweep() {
        let trial = read(r#"{"trial": 7, "parameters": {"batch": 10}}"#).expect("a trial");
        let text = FILE.replace("'{batch}'", "10");
        let two = text.replace("}]", "}, {name: b, samples_per_epoch: 1, epochs: 1, global_batch: 1, model_size: 1MB, throughput: {t4: 1}, command: a}]");
        let swept = format!("{text}\nsweep: {{lr: [1, 2]}}");
        let error = |text: &str| trial.job(text).expect_err("a problem").in_file("f");
        assert!(error(&two).contains("has 2 jobs"), "{}", error(&two));
        assert!(error(&swept).contains("the optimiser chooses the values"), "{}", error(&swept));
        let wild = read(r#"{"trial": 7, "parameters": {"path": "x"}}"#).expect("a trial");
        let error = wild.job(&text).expect_err("a variable that programs need").in_file("f");
        assert!(error.contains("would overwrite the variable PATH"), "{error}");
    }
}
