//! The JSON of `hsched when SCRIPT`: that of `hsched when`, plus the script.

use serde_json::{Value, json};

use crate::app::slurm::script_outlook::ScriptOutlook;
use crate::commands::script::when::ScriptReport;
use crate::commands::when_json;
use hsched_model::GpuType;
use hsched_queue::ChangeEstimate;
use hsched_slurm::script_changes::{Setting, words};

/// Returns a script with its estimates as JSON.
pub(super) fn json(report: &ScriptReport) -> Value {
    let outlook = report.outlook.as_ref();
    let reading = report.reading.to_json();
    json!({
        "schema": "hsched.when/1",
        "estimated": true,
        "queues": [when_json::queue(report.queue, outlook.map(|outlook| &outlook.request))],
        "jobs": [],
        "script": {
            "name": report.script.name(),
            "request": reading["request"],
            "refused": report.refused.as_ref().map(|refusal| &refusal.why),
            "unknown": reading["unknown"],
            "notes": reading["notes"],
            "not_counted": outlook.map_or(&[][..], |outlook| outlook.not_counted.as_slice()),
            "past_runs": report.past.0.len(),
            "as_is": outlook.map(as_is),
            "changes": outlook.map_or_else(Vec::new, changes),
        },
    })
}

fn as_is(outlook: &ScriptOutlook) -> Value {
    let mut value = when_json::outlook(&outlook.estimates.as_is);
    if let Some(why) = &outlook.obstacle {
        value["why"] = json!(why);
    }
    value
}

fn changes(outlook: &ScriptOutlook) -> Vec<Value> {
    let numbered = (1..).zip(outlook.estimates.list.iter().zip(&outlook.settings));
    numbered.map(|(number, pair)| change(number, pair)).collect()
}

fn change(number: u32, (change_estimate, settings): (&ChangeEstimate, &Vec<Setting>)) -> Value {
    let mut value = when_json::outlook(&change_estimate.start);
    value["number"] = json!(number);
    value["options"] = json!(words(settings));
    value["sooner_s"] = json!(change_estimate.sooner);
    value["finish"] = json!(change_estimate.done);
    value["harmless"] = json!(change_estimate.set.is_harmless());
    value["costs"] = json!(change_estimate.set.drawbacks.iter().map(ToString::to_string).collect::<Vec<_>>());
    value["may"] = json!(change_estimate.set.gpu_type().map(GpuType::as_str));
    value
}
