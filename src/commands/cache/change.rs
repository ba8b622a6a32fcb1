//! `hsched cache set` and `hsched cache forget`, and the JSON for changes of the cache.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;

use serde_json::{Value, json};

use super::show::{speed_json, speed_text};
use super::{ForgetArgs, SetArgs};
use crate::app::context::{Context, Format};
use crate::app::speeds;
use crate::commands::cli::{json_text, print};
use hsched_engine::clock::Clock;
use hsched_model::catalogue::{self, recognise};
use hsched_model::number::to_f64;
use hsched_model::{ErrorId, formats};
use hsched_plan::throughput::{Cache, SpeedKey};
use hsched_ui::{Exit, Failure};

/// Sets a stated speed.
pub(super) fn set(context: &Context, args: &SetArgs) -> Result<Exit, Failure> {
    let SetArgs { model, gpu_type, speed, precision, gpus, dry_run, format } = args;
    if recognise(gpu_type.as_str()).is_none()
        && let Some(near) = formats::nearest(gpu_type.as_str(), catalogue::names())
    {
        context.note(&format!("unknown GPU type {gpu_type}; did you mean {near}?"));
    }
    let key = SpeedKey {
        model: model.clone(),
        gpu_type: gpu_type.clone(),
        precision: *precision,
        gpus: gpus.map_or(1, NonZero::get),
    };
    let now = to_f64(context.clock.now().timestamp());
    let (before, after) = speeds::change(context, *dry_run, |file| {
        let before = file.cache.clone();
        file.cache.set(&key, *speed, now, &file.contributor);
        Ok((before, file.cache.clone()))
    })?;
    if *format == Format::Json {
        return print_changes(context, &before, &after, *dry_run);
    }
    let is = if *dry_run { "would be" } else { "is" };
    let was = before
        .estimate(&key)
        .map_or_else(|| "unknown".to_owned(), |measured| format!("{} ({measured})", speed_text(&measured)));
    let place = key.place();
    print(context, &format!("{model} on {place} {is} {speed}, was {was}\n"))?;
    Ok(Exit::Done)
}

/// Removes the speeds of a model on one GPU type or on all.
pub(super) fn forget(context: &Context, args: &ForgetArgs) -> Result<Exit, Failure> {
    let ForgetArgs { model, gpu_type, dry_run, format } = args;
    let (forgotten, before, after) = speeds::change(context, *dry_run, |file| {
        let before = file.cache.clone();
        let count = file.cache.forget(model, gpu_type.as_ref());
        if count == 0 {
            let place = gpu_type.as_ref().map(|gpu_type| format!(" on {gpu_type}")).unwrap_or_default();
            let failure = Failure::new(Exit::Failed, format!("no speed is known for {model}{place}"))
                .id(ErrorId::NoSpeed);
            let models: Vec<String> = file.cache.estimates().map(|(key, _)| key.model).collect();
            return Err(match formats::nearest(model, models.iter().map(String::as_str)) {
                Some(near) if near != model.as_str() => failure.hint(format!("did you mean {near}?")),
                _ => failure.hint("hsched cache show lists all known speeds"),
            });
        }
        Ok((count, before, file.cache.clone()))
    })?;
    if *format == Format::Json {
        return print_changes(context, &before, &after, *dry_run);
    }
    let verb = if *dry_run { "would delete" } else { "deleted" };
    let plural = if forgotten == 1 { "" } else { "s" };
    print(context, &format!("{verb} {forgotten} speed{plural} of {model}\n"))?;
    Ok(Exit::Done)
}

/// Prints each changed speed as JSON, with its previous value (null if unknown).
pub(super) fn print_changes(
    context: &Context,
    before: &Cache,
    after: &Cache,
    dry_run: bool,
) -> Result<Exit, Failure> {
    let all = |cache: &Cache| -> BTreeMap<SpeedKey, Value> {
        let entry = |(key, measured)| {
            let value = speed_json(&key, &measured);
            (key, value)
        };
        cache.estimates().map(entry).collect()
    };
    let (before, after) = (all(before), all(after));
    let keys: BTreeSet<&SpeedKey> = before.keys().chain(after.keys()).collect();
    let changed = keys.into_iter().filter(|key| before.get(key) != after.get(key));
    let changes: Vec<Value> = changed
        .map(|key| {
            let mut change = json!({
                "model": key.model,
                "gpu_type": key.gpu_type.as_str(),
                "precision": key.precision.map(|precision| precision.to_string()),
                "before": before.get(key),
                "after": after.get(key),
            });
            if key.gpus > 1 {
                change["gpus"] = key.gpus.into();
            }
            change
        })
        .collect();
    let value = json!({
        "schema": "hsched.cache-change/1", "dry_run": dry_run, "known": after.len(), "changes": changes,
    });
    print(context, &json_text(&value)?)?;
    Ok(Exit::Done)
}
