//! A report for strangers: numbers replace names, times are relative to the beginning, and user texts are
//! removed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::data::{Report, TimeOrigin};
use hsched_model::catalogue::recognise;
use hsched_plan::curve::MetricKind;

/// Harmless words in names of metrics, in addition to those of usual metrics.
const USUAL_WORDS: [&str; 16] = [
    "bleu",
    "rouge",
    "map",
    "score",
    "reward",
    "val",
    "valid",
    "validation",
    "train",
    "training",
    "test",
    "eval",
    "epoch",
    "mean",
    "best",
    "ema",
];

/// Names and their replacements, numbered in order of appearance.
struct Pseudonyms {
    word: &'static str,
    known: BTreeMap<String, String>,
}

/// The replacements of a report's names by kind.
struct StandIns {
    jobs: Pseudonyms,
    nodes: Pseudonyms,
    gpu_types: Pseudonyms,
    models: Pseudonyms,
    partitions: Pseudonyms,
    accounts: Pseudonyms,
    clusters: Pseudonyms,
    sweeps: Pseudonyms,
    metrics: Pseudonyms,
    keys: Pseudonyms,
    values: Pseudonyms,
}

impl Pseudonyms {
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

impl StandIns {
    fn new() -> Self {
        let [jobs, nodes, gpu_types, models, partitions, accounts, clusters, sweeps, metrics, keys, values] =
            [
                "job",
                "node",
                "gpu",
                "model",
                "partition",
                "account",
                "cluster",
                "sweep",
                "metric",
                "parameter",
                "value",
            ]
            .map(Pseudonyms::new);
        Self { jobs, nodes, gpu_types, models, partitions, accounts, clusters, sweeps, metrics, keys, values }
    }

    /// Replaces a GPU type unless it is `cpu` or the name of a product.
    fn gpu_type(&mut self, name: &mut String) {
        if name != "cpu" && recognise(name).is_none() {
            self.gpu_types.replace(name);
        }
    }

    /// Replaces the GPU types in counts such as `2 t4 + 3 v100`.
    fn gpu_counts(&mut self, text: &mut String) {
        let part = |part: &str| {
            let (count, name) =
                part.split_once(' ').filter(|(count, _)| count.parse::<u32>().is_ok()).unwrap_or(("", part));
            let mut name = name.to_owned();
            self.gpu_type(&mut name);
            format!("{count} {name}").trim_start().to_owned()
        };
        *text = text.split(" + ").map(part).collect::<Vec<_>>().join(" + ");
    }

    /// Replaces the name of a metric unless all its words are usual ones.
    fn metric(&mut self, name: &mut String) {
        let lower = name.to_ascii_lowercase();
        let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        if !lower.is_ascii() || !words.all(|word| MetricKind::is_word(word) || USUAL_WORDS.contains(&word)) {
            self.metrics.replace(name);
        }
    }

    /// Returns a parameter's value: a number, boolean or null unchanged, or a replacement of any other value,
    /// which is the same for equal values.
    fn without_text(&mut self, value: Value) -> Value {
        match value {
            Value::Number(_) | Value::Bool(_) | Value::Null => value,
            other => {
                let mut text = other.to_string();
                self.values.replace(&mut text);
                Value::String(text)
            }
        }
    }

    /// Returns the parameters of a sweep's run, with their names and texts replaced.
    fn parameters(&mut self, parameters: Map<String, Value>) -> Map<String, Value> {
        let one = |(mut key, value)| {
            self.keys.replace(&mut key);
            (key, self.without_text(value))
        };
        parameters.into_iter().map(one).collect()
    }
}

/// Returns the report without names of jobs, nodes, models, partitions, accounts, clusters, sweeps,
/// parameters and files, and without dates, notes and errors. All other numbers stay, and so do the names of
/// GPU products, policies and usual metrics. The facts are removed and have to be computed again.
pub fn anonymised(mut report: Report) -> Report {
    let mut names = StandIns::new();
    report.title = format!("{} (anonymous)", report.kind.title());
    // Numbers and booleans stay; texts may be paths and names, and a time is a date.
    report.parameters.retain(|key, value| key != "at" && (value.is_number() || value.is_boolean()));
    (report.notes, report.facts) = (Vec::new(), Vec::new());
    for gpu in &mut report.gpus {
        names.nodes.replace(&mut gpu.node);
        names.gpu_type(&mut gpu.gpu_type);
    }
    report.jobs.iter_mut().for_each(|job| names.jobs.replace(&mut job.name));
    for epochs in &mut report.epochs {
        names.jobs.replace(&mut epochs.job);
        names.gpu_counts(&mut epochs.gpus);
    }
    for wait in &mut report.waits {
        names.jobs.replace(&mut wait.job);
        names.gpu_counts(&mut wait.gpus);
    }
    for speed in &mut report.speeds {
        names.models.replace(&mut speed.model);
        names.gpu_type(&mut speed.gpu_type);
    }
    for option in &mut report.options {
        names.jobs.replace(&mut option.job);
        names.clusters.replace(&mut option.cluster);
        names.partitions.replace_any(&mut option.partition);
        names.accounts.replace_any(&mut option.account);
        names.gpu_type(&mut option.gpu_type);
    }
    for sweep in &mut report.sweeps {
        names.sweeps.replace(&mut sweep.name);
        names.metric(&mut sweep.metric);
        for run in &mut sweep.runs {
            names.jobs.replace(&mut run.name);
            run.parameters = names.parameters(std::mem::take(&mut run.parameters));
        }
    }
    report.runs.iter_mut().for_each(|run| run.row.error = None);
    if let Some(Value::Object(by_type)) = report.usage.get_mut("gpu_hours_by_type") {
        let renamed = std::mem::take(by_type).into_iter().map(|(mut name, hours)| {
            names.gpu_type(&mut name);
            (name, hours)
        });
        *by_type = renamed.collect();
    }
    if report.clock == TimeOrigin::Unix {
        let begin = earliest(&report);
        shift(&mut report, begin);
        report.clock = TimeOrigin::Elapsed;
    }
    report
}

/// Returns the earliest time of a report; 0 if it has none.
fn earliest(report: &Report) -> f64 {
    let arrivals = report.jobs.iter().map(|job| job.arrival_s);
    let spans = report.runs.iter().flat_map(|run| &run.spans).map(|span| span.start);
    let counts = report.runs.iter().flat_map(|run| run.queue.iter().chain(&run.in_use)).map(|(at, _)| *at);
    let waits = report.waits.iter().map(|wait| wait.at_s);
    arrivals.chain(spans).chain(counts).chain(waits).min_by(f64::total_cmp).unwrap_or(0.0)
}

/// Makes all times relative to `begin`.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::report::data::{
        PolicyRow, ReportEpochs, ReportGpu, ReportJob, ReportKind, ReportOption, ReportRun, ReportSpeed,
        ReportSweep, ReportWait, Span, SweepCurve,
    };
    use crate::report::{facts, figures, page, tables};

    /// The earliest time in the report.
    const MOMENT: f64 = 1_795_700_000.0;

    /// Returns a report with a word in every field that holds text of the user.
    fn report(kind: ReportKind, word: &dyn Fn(&str) -> String) -> Report {
        let parameters = |value: Value| match value {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let mut report = Report::new(kind, TimeOrigin::Unix);
        report.title = word("title");
        report.parameters = parameters(json!({
            "state_dir": format!("/home/{}", word("user")), "at": MOMENT, "seed": 3, "policies": [word("policy")],
            "files": { word("key"): word("file") },
        }));
        report.facts = vec![(word("question"), word("answer"))];
        report.gpus = vec![ReportGpu { node: word("node"), gpu_type: word("type"), index: 0 }];
        report.jobs =
            vec![ReportJob { name: word("job"), arrival_s: MOMENT, deadline_s: Some(MOMENT + 99.0) }];
        report.runs = vec![ReportRun {
            name: "jobs".to_owned(),
            row: PolicyRow { error: Some(word("error")), mean_jct_s: Some(60.0), ..PolicyRow::default() },
            started_s: vec![Some(MOMENT + 1.0)],
            ended_s: vec![Some(MOMENT + 60.0)],
            spans: vec![Span {
                job: 0,
                start: MOMENT + 1.0,
                work: MOMENT + 2.0,
                end: MOMENT + 60.0,
                gpus: vec![0],
            }],
            queue: vec![(MOMENT, 1.0), (MOMENT + 1.0, 0.0)],
            in_use: vec![(MOMENT + 1.0, 1.0), (MOMENT + 60.0, 0.0)],
        }];
        let gpus = || format!("2 {} + 1 t4", word("type"));
        report.epochs = vec![ReportEpochs {
            job: word("job"),
            gpus: gpus(),
            epochs: 3,
            predicted_s: 20.0,
            observed_s: 21.0,
        }];
        report.waits = vec![ReportWait {
            job: word("gone"),
            gpus: gpus(),
            at_s: MOMENT,
            q10_s: 1.0,
            q50_s: 2.0,
            q90_s: 3.0,
            waited_s: Some(1.0),
        }];
        report.speeds = vec![ReportSpeed {
            model: word("model"),
            gpu_type: word("type"),
            speed: "5/s".to_owned(),
            samples_per_s: Some(5.0),
            error: 0.1,
            count: 4,
            source: "report".to_owned(),
        }];
        report.options = vec![ReportOption {
            job: word("job"),
            cluster: word("cluster"),
            partition: Some(word("partition")),
            account: Some(word("account")),
            gpu_type: word("type"),
            gpus: 1,
            nodes: 1,
            chosen: true,
            start_s: Some([1.0, 2.0, 3.0]),
            finish_s: Some([4.0, 5.0, 6.0]),
            mean_finish_s: Some(5.0),
            cost: Some(1.0),
            cost_unit: Some("RGU".to_owned()),
        }];
        report.sweeps = vec![ReportSweep {
            name: word("sweep"),
            metric: format!("val/{}", word("metric")),
            mode: "min".to_owned(),
            runs: vec![SweepCurve {
                name: word("run"),
                parameters: parameters(
                    json!({ word("parameter"): word("value"), "list": [word("item")], "lr": 0.1 }),
                ),
                best: 0.5,
                best_epoch: 1,
                curve: vec![(1, 0.5), (2, 0.4)],
            }],
        }];
        report.usage =
            json!({ "jobs": 1, "gpu_hours": 1.0, "gpu_hours_by_type": { word("type"): 1.0, "v100": 2.0 } });
        report.notes = vec![word("note")];
        report
    }

    /// Returns all texts of a report after anonymisation, including file names.
    fn written(report: Report) -> String {
        let mut report = anonymised(report);
        report.facts = facts(&report);
        let figures = figures(&report).into_iter().map(|(name, svg)| format!("{name}\n{svg}"));
        let tables = tables(&report).expect("tables").into_iter().map(|(name, csv)| format!("{name}\n{csv}"));
        [page(&report).expect("a page")].into_iter().chain(figures).chain(tables).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn no_word_of_a_user_is_left(
            begin in "[a-z]{0,4}[ ._/@-]?",
            end in "[ ._/@-]?[A-Z0-9]{0,4}",
            kind in prop::sample::select(vec![ReportKind::History, ReportKind::Plan, ReportKind::When, ReportKind::Simulation]),
        ) {
            let text = written(report(kind, &|place| format!("{begin}zq{place}qz{end}")));
            let found = text.find("zq").map(|place| &text[place.saturating_sub(60)..(place + 20).min(text.len())]);
            prop_assert_eq!(found, None);
        }
    }

    #[test]
    fn dates_of_jobs_that_only_wait_are_gone() {
        let mut waiting = report(ReportKind::History, &|place| format!("zq{place}"));
        waiting.runs.clear();
        assert!(!written(waiting).contains("17957000"), "a date is left");
    }

    #[test]
    fn dates_are_gone_and_what_names_nobody_stays() {
        let text = written(report(ReportKind::History, &|place| format!("zq{place}")));
        assert!(!text.contains("17957000"), "a date is left");
        for kept in [
            "\"gpus\":\"2 gpu-1 + 1 t4\"",
            "\"v100\":2.0",
            "\"seed\":3",
            "\"parameter-2\":0.1",
            "job-1, 1.00 s",
        ] {
            assert!(text.contains(kept), "{kept} is gone");
        }
        let mut names = StandIns::new();
        let mut metrics = ["val_loss", "train/Acc1", "loss_of_ada", "perte"].map(str::to_owned);
        for metric in &mut metrics {
            names.metric(metric);
        }
        assert_eq!(metrics, ["val_loss", "train/Acc1", "metric-1", "metric-2"]);
    }
}
