//! `hsched when --score`: the accuracy of past predictions.

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::predictions;
use crate::commands::cli::{json_text, print};
use hsched_engine::store::SubmissionPrediction;
use hsched_model::Seconds;
use hsched_queue::{Calibration, Score, StartPrediction};
use hsched_ui::{Align, Exit, Failure, Table, duration, wrap};

/// Prints coverage and error of the predictions of the last 90 days.
///
/// # Errors
/// If the state cannot be read.
pub(super) fn run(context: &Context, format: Format) -> Result<Exit, Failure> {
    let known = predictions::known(context)?;
    let groups = groups(&known);
    match format {
        Format::Json => print(context, &json_text(&json(&known, &groups))?)?,
        Format::Table => print(context, &table(context, &known, &groups))?,
    }
    Ok(Exit::Done)
}

/// Returns the scores of all started jobs and of subgroups.
fn groups(known: &[SubmissionPrediction]) -> Vec<(String, Score)> {
    let all = || known.iter().map(|predicted| &predicted.prediction);
    let mut counts: Vec<u32> =
        all().filter(|prediction| prediction.started.is_some()).map(|prediction| prediction.gpus).collect();
    counts.sort_unstable();
    counts.dedup();
    let of = |name: String, list: &mut dyn Iterator<Item = &StartPrediction>| Some((name, Score::of(list)?));
    let mut groups = vec![
        of("all".to_owned(), &mut all()),
        of("waited over 10 min".to_owned(), &mut all().filter(|prediction| prediction.has_waited())),
    ];
    groups.extend(counts.into_iter().map(|gpus| {
        let name = if gpus == 1 { "1 GPU".to_owned() } else { format!("{gpus} GPUs") };
        of(name, &mut all().filter(|prediction| prediction.gpus == gpus))
    }));
    groups.into_iter().flatten().collect()
}

fn learnt(known: &[SubmissionPrediction]) -> Option<(Calibration, usize)> {
    Calibration::learnt(known.iter().map(|predicted| &predicted.prediction))
}

fn json(known: &[SubmissionPrediction], groups: &[(String, Score)]) -> Value {
    let group = |(name, score): &(String, Score)| {
        let mut value = json!(score);
        value["group"] = json!(name);
        value
    };
    let learnt = learnt(known);
    json!({
        "schema": "hsched.score/1",
        "foretold": known.len(),
        "waiting": known.iter().filter(|predicted| predicted.is_open()).count(),
        "withdrawn": known.iter().filter(|predicted| predicted.withdrawn).count(),
        "groups": groups.iter().map(group).collect::<Vec<_>>(),
        "corrected_by": learnt.map(|(_, count)| count),
        "points": learnt.map(|(calibration, _)| calibration),
        "predictions": known,
    })
}

fn table(context: &Context, known: &[SubmissionPrediction], groups: &[(String, Score)]) -> String {
    let count =
        |is: &dyn Fn(&SubmissionPrediction) -> bool| known.iter().filter(|predicted| is(predicted)).count();
    let started = count(&|predicted| predicted.prediction.started.is_some());
    let (waiting, withdrawn) =
        (count(&SubmissionPrediction::is_open), count(&|predicted| predicted.withdrawn));
    let counts = format!(
        "start estimates of the last 90 days: {}; {started} started, {waiting} are waiting, {withdrawn} \
         left the queue before they started",
        known.len(),
    );
    let mut text = format!("{}\n", wrap(&counts, context.terminal.width(), "  "));
    let mut table = Table::new(&[
        ("", Align::Left),
        ("STARTS", Align::Right),
        ("INSIDE", Align::Right),
        ("ERROR", Align::Right),
        ("MEAN ERROR", Align::Right),
        ("MEAN WAIT", Align::Right),
    ]);
    for (name, score) in groups {
        let [error, mean, wait] =
            [score.median_error, score.mean_error, score.mean_wait].map(|seconds| duration(Seconds(seconds)));
        let held = format!("{:.0} %", 100.0 * score.held);
        table.row([name.clone(), score.starts.to_string(), held, error, mean, wait]);
    }
    if !table.is_empty() {
        text.push_str(&table.show(context.terminal));
    }
    for note in notes(known, groups.is_empty()) {
        text.push_str(&wrap(&note, context.terminal.width(), "  "));
        text.push('\n');
    }
    text
}

fn notes(known: &[SubmissionPrediction], is_empty: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if known.is_empty() {
        notes.push("hsched submit --queue estimates starts, and hsched watch records them".to_owned());
    }
    if !is_empty {
        notes.push(
            "INSIDE: starts inside the 80 % interval; ERROR: median error of the estimated median".to_owned(),
        );
    }
    notes.push(match learnt(known) {
        Some((Calibration { low, high }, count)) => format!(
            "{count} past starts calibrate the intervals: they span the {:.0} % to {:.0} % quantiles of \
             the simulated futures",
            100.0 * low,
            100.0 * high
        ),
        None => "the intervals are calibrated once 30 requests that waited, or were expected to wait, \
            have started"
            .to_owned(),
    });
    notes
}
