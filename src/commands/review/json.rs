//! `hsched.review/1`.

use serde_json::{Value, json};

use hsched_model::number::to_i64;
use hsched_slurm::accounting::Accounting;
use hsched_slurm::review::NameReview;

/// Returns the reviews as JSON; `saved` is the waiting time in hours that each change saves.
pub(super) fn json(names: &[NameReview], saved: &[Option<f64>], accounting: &Accounting) -> Value {
    let names: Vec<Value> = names.iter().zip(saved).map(|(name, saved)| of_name(name, *saved)).collect();
    let odd: Vec<Value> =
        accounting.odd.iter().map(|row| json!({"line": row.line, "why": row.why})).collect();
    json!({"schema": "hsched.review/1", "names": names, "odd": odd, "missing": accounting.missing})
}

fn of_name(name_review: &NameReview, saved: Option<f64>) -> Value {
    let NameReview { time, memory, cpus, gpus, .. } = name_review;
    json!({
        "name": name_review.name,
        "runs": name_review.runs,
        "time": {
            "limit_s": number(time.asked),
            "used_p50_s": number(time.used_p50),
            "used_p95_s": number(time.used_p95),
            "recommended_s": number(time.recommended),
        },
        "memory": {
            "asked_mib": number(memory.asked),
            "used_p50_mib": number(memory.used_p50),
            "used_p95_mib": number(memory.used_p95),
            "recommended_mib": number(memory.recommended),
        },
        "cpus": {
            "asked": number(cpus.asked),
            "used_p50": number(cpus.used_p50),
            "used_p95": number(cpus.used_p95),
            "recommended": number(cpus.recommended),
        },
        "gpus": {
            "asked": number(gpus.asked),
            "idle_share": number(name_review.idle_share),
            "recommended": number(gpus.recommended),
        },
        "failures": name_review.failures,
        "cut_share": number(Some(name_review.cut_share())),
        "waited_h": number(Some(name_review.waited_h)),
        "saves_h": number(saved),
        "sbatch": name_review.sbatch,
    })
}

/// Returns a number with at most four decimals; null if there is none.
fn number(value: Option<f64>) -> Value {
    let Some(value) = value else { return Value::Null };
    let value = (value * 1e4).round() / 1e4;
    if value.fract() == 0.0 { json!(to_i64(value)) } else { json!(value) }
}
