//! `hsched cache show`: the measured speeds as a table or JSON.

use chrono::DateTime;
use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::speeds;
use crate::commands::cli::{json_text, print};
use hsched_model::Speed;
use hsched_model::number::to_i64;
use hsched_plan::throughput::{MeasuredSpeed, SpeedKey};
use hsched_ui::{Align, Exit, Failure, Table};

/// Shows all speeds, or those of one model.
pub(super) fn show(context: &Context, model: Option<&str>, format: Format) -> Result<Exit, Failure> {
    let cache = speeds::load(context)?.cache;
    let chosen = cache.estimates().filter(|(key, _)| model.is_none_or(|model| model == key.model));
    let rows: Vec<(SpeedKey, MeasuredSpeed)> = chosen.collect();
    if rows.is_empty() {
        context.note(match model {
            Some(_) => "no speed is known for this model",
            None => "no speeds are known yet: use hsched watch or hsched probe to measure them, hsched cache set or hsched cache import to add them",
        });
    }
    match format {
        Format::Table if rows.is_empty() => {}
        Format::Table => {
            print(context, &table(&rows).show(context.terminal))?;
        }
        Format::Json => {
            let speeds: Vec<Value> = rows.iter().map(|(key, measured)| speed_json(key, measured)).collect();
            print(context, &json_text(&json!({ "schema": "hsched.speeds/1", "speeds": speeds }))?)?;
        }
    }
    Ok(Exit::Done)
}

fn table(rows: &[(SpeedKey, MeasuredSpeed)]) -> Table {
    let mut table = Table::new(&[
        ("MODEL", Align::Left),
        ("GPU", Align::Left),
        ("SPEED", Align::Left),
        ("ERROR", Align::Right),
        ("MEASURED", Align::Right),
        ("LAST SEEN", Align::Left),
        ("SOURCE", Align::Left),
    ]);
    for (key, measured) in rows {
        let place = key.place();
        table.row([
            key.model.clone(),
            key.precision.map_or_else(|| place.clone(), |precision| format!("{place} in {precision}")),
            speed_text(measured),
            format!("±{:.0} %", 100.0 * measured.error),
            measured.count.to_string(),
            date(measured.last_seen),
            measured.source.name().to_owned(),
        ]);
    }
    table
}

/// Returns the speed, and the batch size if there is only one.
pub(super) fn speed_text(measured: &MeasuredSpeed) -> String {
    match measured.batch {
        Some(batch) if measured.batches == 1 => format!("{} at batch {batch}", measured.speed),
        _ => measured.speed.to_string(),
    }
}

/// Returns a speed as JSON.
pub(super) fn speed_json(
    SpeedKey { model, gpu_type, precision, gpus }: &SpeedKey,
    measured: &MeasuredSpeed,
) -> Value {
    let (rate, alpha, beta) = match measured.speed {
        Speed::Rate { samples_per_second } => (Some(samples_per_second), None, None),
        Speed::Affine { alpha, beta } => (None, Some(alpha.0), Some(beta.0)),
    };
    let mut value = json!({
        "model": model,
        "gpu_type": gpu_type.as_str(),
        "precision": precision.map(|precision| precision.to_string()),
        "samples_per_s": rate,
        "alpha_s": alpha,
        "beta_s": beta,
        "error": measured.error,
        "count": measured.count,
        "batches": measured.batches,
        "batch": measured.batch,
        "last_seen": measured.last_seen,
        "source": measured.source.name(),
    });
    if *gpus > 1 {
        value["gpus"] = (*gpus).into();
    }
    value
}

/// Returns the day, in UTC.
fn date(unix_seconds: f64) -> String {
    let time = DateTime::from_timestamp(to_i64(unix_seconds), 0);
    time.map_or_else(|| "-".to_owned(), |time| time.format("%Y-%m-%d").to_string())
}
