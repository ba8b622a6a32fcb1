//! `hsched cache set` and `hsched cache forget`.

use super::show::speed_text;
use super::{ForgetArgs, SetArgs};
use crate::app::context::Context;
use crate::app::speeds;
use crate::catalogue::{self, recognise};
use crate::clock::Clock;
use crate::commands::cli::print;
use crate::error::Failure;
use crate::exit::Exit;
use crate::formats;
use crate::throughput::SpeedKey;

/// Takes the user's word for a speed.
pub(super) fn set(context: &Context, args: &SetArgs) -> Result<Exit, Failure> {
    let SetArgs { model, gpu_type, speed, precision, dry_run } = args;
    if recognise(gpu_type.as_str()).is_none()
        && let Some(near) = formats::nearest(gpu_type.as_str(), catalogue::names())
    {
        context.note(&format!("no GPU type is known by the name {gpu_type}; did you mean {near}?"));
    }
    let key = SpeedKey { model: model.clone(), gpu_type: gpu_type.clone(), precision: *precision };
    #[expect(clippy::cast_precision_loss, reason = "a date to the second is enough")]
    let now = context.clock.now().timestamp() as f64;
    let before = speeds::change(context, *dry_run, |file| {
        let before = file.cache.estimate(&key);
        file.cache.set(&key, *speed, now, &file.contributor);
        Ok(before)
    })?;
    let is = if *dry_run { "would be" } else { "is" };
    let was = before.map_or_else(|| "unknown".to_owned(), |own| format!("{} ({own})", speed_text(&own)));
    print(context, &format!("{model} on {gpu_type} {is} {speed}, was {was}\n"))?;
    Ok(Exit::Done)
}

/// Forgets a model on one GPU type or all.
pub(super) fn forget(context: &Context, args: &ForgetArgs) -> Result<Exit, Failure> {
    let ForgetArgs { model, gpu_type, dry_run } = args;
    let forgotten = speeds::change(context, *dry_run, |file| {
        let count = file.cache.forget(model, gpu_type.as_ref());
        if count == 0 {
            let place = gpu_type.as_ref().map(|gpu_type| format!(" on {gpu_type}")).unwrap_or_default();
            let failure = Failure::new(Exit::Failed, format!("no speed is known for {model}{place}"));
            let models: Vec<String> = file.cache.estimates().map(|(key, _)| key.model).collect();
            return Err(match formats::nearest(model, models.iter().map(String::as_str)) {
                Some(near) if near != model.as_str() => failure.hint(format!("did you mean {near}?")),
                _ => failure.hint("hsched cache show lists all known speeds"),
            });
        }
        Ok(count)
    })?;
    let verb = if *dry_run { "would delete" } else { "forgot" };
    let plural = if forgotten == 1 { "" } else { "s" };
    print(context, &format!("{verb} {forgotten} speed{plural} of {model}\n"))?;
    Ok(Exit::Done)
}
