//! A report for strangers: names are numbers, times count from the beginning, texts of users are gone.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::data::{Clock, Report};

/// Names and what stands for them, numbered as they come.
struct Names {
    word: &'static str,
    known: BTreeMap<String, String>,
}

impl Names {
    fn new(word: &'static str) -> Self {
        Self { word, known: BTreeMap::new() }
    }

    fn replace(&mut self, name: &mut String) {
        let number = self.known.len() + 1;
        let word = self.word;
        let stand_in = self.known.entry(name.clone()).or_insert_with(|| format!("{word}-{number}"));
        name.clone_from(stand_in);
    }

    fn replace_any(&mut self, name: &mut Option<String>) {
        if let Some(name) = name {
            self.replace(name);
        }
    }
}

/// Returns the report without names of jobs, nodes, models, partitions, accounts and files. GPU types, policies, names of metrics and
/// all numbers stay. The facts have to be made again.
pub fn anonymised(mut report: Report) -> Report {
    let mut jobs = Names::new("job");
    let [mut nodes, mut models, mut partitions, mut accounts, mut clusters, mut sweeps, mut keys, mut values] =
        ["node", "model", "partition", "account", "cluster", "sweep", "parameter", "value"].map(Names::new);
    report.title = format!("{} (anonymous)", report.title);
    // Numbers and switches stay; texts may be paths and names.
    report.parameters.retain(|_, value| !value.is_string());
    report.notes.clear();
    report.gpus.iter_mut().for_each(|gpu| nodes.replace(&mut gpu.node));
    report.jobs.iter_mut().for_each(|job| jobs.replace(&mut job.name));
    report.epochs.iter_mut().for_each(|own| jobs.replace(&mut own.job));
    report.waits.iter_mut().for_each(|own| jobs.replace(&mut own.job));
    report.speeds.iter_mut().for_each(|speed| models.replace(&mut speed.model));
    for option in &mut report.options {
        jobs.replace(&mut option.job);
        clusters.replace(&mut option.cluster);
        partitions.replace_any(&mut option.partition);
        accounts.replace_any(&mut option.account);
    }
    for sweep in &mut report.sweeps {
        sweeps.replace(&mut sweep.name);
        for run in &mut sweep.runs {
            jobs.replace(&mut run.name);
            let parameters = std::mem::take(&mut run.parameters);
            run.parameters = parameters
                .into_iter()
                .map(|(mut key, value)| {
                    keys.replace(&mut key);
                    (key, without_text(value, &mut values))
                })
                .collect::<Map<String, Value>>();
        }
    }
    report.runs.iter_mut().for_each(|run| run.row.error = None);
    if report.clock == Clock::Unix {
        let begin = report.times().map_or(0.0, |(begin, _)| begin);
        shift(&mut report, begin);
        report.clock = Clock::Elapsed;
    }
    report
}

/// Returns a parameter's value; a text is only told from others.
fn without_text(value: Value, values: &mut Names) -> Value {
    match value {
        Value::Number(_) | Value::Bool(_) | Value::Null => value,
        other => {
            let mut text = other.to_string();
            values.replace(&mut text);
            Value::String(text)
        }
    }
}

/// Counts all times from `begin` on.
fn shift(report: &mut Report, begin: f64) {
    for job in &mut report.jobs {
        job.arrival_s -= begin;
        job.deadline_s = job.deadline_s.map(|deadline| deadline - begin);
    }
    for run in &mut report.runs {
        for time in run.started_s.iter_mut().chain(&mut run.ended_s).flatten() {
            *time -= begin;
        }
        for span in &mut run.spans {
            (span.start, span.work, span.end) = (span.start - begin, span.work - begin, span.end - begin);
        }
        for (at, _) in run.queue.iter_mut().chain(&mut run.in_use) {
            *at -= begin;
        }
    }
    report.waits.iter_mut().for_each(|wait| wait.at_s -= begin);
}
