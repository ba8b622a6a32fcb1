//! `hsched cache export` and `hsched cache import`.

use super::change::print_changes;
use super::{ExportFormat, ImportArgs};
use crate::app::context::{Context, Format};
use crate::app::{input, speeds};
use crate::commands::cli::print;
use hsched_engine::store::{BY_HAND, SpeedFile};
use hsched_model::ErrorId;
use hsched_plan::throughput::Cache;
use hsched_ui::{Exit, Failure};

/// Prints all speeds.
pub(super) fn export(context: &Context, format: ExportFormat) -> Result<Exit, Failure> {
    let file = speeds::load(context)?;
    let text = match format {
        ExportFormat::Json => file.to_json(),
        ExportFormat::Csv => file.to_csv().map_err(|error| Failure::from_error(Exit::Internal, &error))?,
    };
    print(context, &text)?;
    Ok(Exit::Done)
}

/// Merges a file's speeds with the known ones.
pub(super) fn import(context: &Context, args: &ImportArgs) -> Result<Exit, Failure> {
    let text = input::text(&args.file)?;
    let read = if text.trim_start().starts_with('{') {
        SpeedFile::parse(&text).map(|file| file.cache)
    } else {
        SpeedFile::parse_csv(&text)
    };
    let other = read.map_err(|error| {
        let failure = Failure::from_error(Exit::BadInput, &error).id(ErrorId::SpeedsFile);
        let message = format!("{}: {}", args.file.display(), failure.message);
        Failure { message, ..failure }.hint(if error.is_of_checksum() {
            format!("if you edited it, set its \"sha256\" to {BY_HAND:?}")
        } else {
            "hsched cache export writes such files".to_owned()
        })
    })?;
    let (before, after) = speeds::change(context, args.dry_run, |file| {
        let before = file.cache.clone();
        file.cache.merge(&other);
        Ok((before, file.cache.clone()))
    })?;
    if args.format == Format::Json {
        return print_changes(context, &before, &after, args.dry_run);
    }
    print(context, &format!("{}\n", summary(&before, &after, args.dry_run)))?;
    Ok(Exit::Done)
}

fn summary(before: &Cache, after: &Cache, dry_run: bool) -> String {
    let (mut new, mut changed, mut all) = (0, 0, 0);
    for (key, measured) in after.estimates() {
        all += 1;
        match before.estimate(&key) {
            None => new += 1,
            Some(old) if old != measured => changed += 1,
            Some(_) => {}
        }
    }
    let verb = if dry_run { "would have" } else { "has" };
    let plural = if all == 1 { "" } else { "s" };
    format!("the cache {verb} {all} speed{plural}: {new} new, {changed} changed")
}
