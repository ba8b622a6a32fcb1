//! The stored looks at the queue, from which waits are learnt: their size and time range, and
//! `--remove-looks`.

use serde_json::json;

use super::check::Check;
use crate::app::context::{Context, Format};
use crate::app::state;
use crate::commands::cli::{json_text, print};
use hsched_engine::store::{LooksSize, SiteLooks};
use hsched_model::formats::counted;
use hsched_ui::{Exit, Failure};

/// Returns the check of the stored looks.
pub(super) fn check(context: &Context) -> Option<Check> {
    let looks = SiteLooks::of(&state::root(context).ok()?);
    let Some(kept) = looks.size() else {
        return Some(Check::ok(
            "looks",
            "none kept yet; hsched keeps looks at the queue to learn how long jobs wait",
        ));
    };
    Some(Check::ok("looks", format!("{}; remove them with hsched doctor --remove-looks", span(&kept))))
}

/// Returns the days and the size of the stored looks, in words.
fn span(kept: &LooksSize) -> String {
    let LooksSize { bytes, first, last } = kept;
    format!("{}, {first} to {last}, {}", counted(days(kept), "day"), size(bytes.0))
}

fn size(bytes: u64) -> String {
    if bytes < 10_000_000 {
        format!("{} kB", bytes.div_ceil(1000))
    } else {
        format!("{} MB", bytes / 1_000_000)
    }
}

fn days(kept: &LooksSize) -> usize {
    let days = kept.last.signed_duration_since(kept.first).num_days() + 1;
    usize::try_from(days).unwrap_or_default()
}

/// Removes the stored looks, unless this is a dry run.
///
/// # Errors
/// If they cannot be removed.
pub(super) fn remove(context: &Context, dry_run: bool, format: Format) -> Result<Exit, Failure> {
    let looks = SiteLooks::of(&state::root(context)?);
    let kept = looks.size();
    let removed =
        if dry_run { kept.is_some() } else { looks.remove().map_err(|error| state::failure(&error))? };
    let text = match (format, kept) {
        (Format::Json, kept) => json_text(&json!({
            "schema": "hsched.remove-looks/1",
            "dry_run": dry_run,
            "removed": removed,
            "days": kept.as_ref().map(days),
            "bytes": kept.map(|kept| kept.bytes.0),
        }))?,
        (Format::Table, Some(kept)) if dry_run => {
            format!("would remove the looks at the queue: {}\n", span(&kept))
        }
        (Format::Table, Some(kept)) => format!("removed the looks at the queue: {}\n", span(&kept)),
        (Format::Table, None) => "no looks at the queue are kept\n".to_owned(),
    };
    print(context, &text)?;
    Ok(Exit::Done)
}
