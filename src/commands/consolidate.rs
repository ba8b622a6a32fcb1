//! `hsched consolidate`: merges the weights of copies of a training manually.

use std::path::PathBuf;

use serde_json::json;

use crate::app::context::{Context, Format};
use crate::app::input;
use crate::commands::cli::{Subcommand, json_text, print};
use crate::merge::{MergePart, Tensors, merge, weights};
use hsched_model::ErrorId;
use hsched_ui::{Exit, Failure, write_output};

/// Merge the weights of several copies of a model
///
/// Averages safetensors files of one model in double precision, each weighted by the number of steps that its copy
/// trained. Running variances of `BatchNorm` become those of the mixture, and counters take the largest value; other
/// integers must be equal. Refuses files that do not match each other, and numbers that are not finite. Copies of a
/// job with the key `copies` merge themselves; this command merges files by hand.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of the copies, each with its number of steps since the last merge.
    #[arg(value_name = "FILE=STEPS", required = true, value_parser = copy)]
    copies: Vec<(PathBuf, u64)>,
    /// File for the merged model; an existing file is replaced.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Check the files and show what would be merged, without writing it.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let bad = |message: String| Failure::new(Exit::BadInput, message).id(ErrorId::WeightsFile);
        let read = |(path, _): &(PathBuf, u64)| {
            let bytes = input::weights(path)?;
            Tensors::read(&bytes).map_err(|error| bad(format!("{}: {error}", path.display())))
        };
        let files: Vec<Tensors> = self.copies.iter().map(read).collect::<Result<_, _>>()?;
        let named = self.copies.iter().map(|(path, steps)| (path.display().to_string(), *steps));
        let parts: Vec<MergePart<'_>> =
            named.zip(&files).map(|((name, steps), tensors)| MergePart { name, tensors, steps }).collect();
        let refused = |error| Failure::from_error(Exit::BadInput, &error).id(ErrorId::WeightsFile);
        let weights = weights(&parts).map_err(refused)?;
        let bytes = merge(&parts).map_err(refused)?.to_bytes();
        if !self.dry_run {
            write_output(&self.output, bytes).map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot write {}: {error}", self.output.display()))
                    .id(ErrorId::FileUnwritable)
            })?;
        }
        let steps: u64 = self.copies.iter().map(|(_, steps)| steps).sum();
        let text = match self.format {
            Format::Json => json_text(&json!({
                "schema": "hsched.consolidate/1", "dry_run": self.dry_run, "steps": steps, "weights": weights,
            }))?,
            Format::Table => {
                let output = self.output.display();
                let merged = if self.dry_run { "would merge" } else { "merged" };
                format!("{merged} {} copies with {steps} steps into {output}\n", self.copies.len())
            }
        };
        print(context, &text)?;
        Ok(Exit::Done)
    }
}

fn copy(text: &str) -> Result<(PathBuf, u64), String> {
    let parts = text.rsplit_once('=').and_then(|(path, steps)| Some((path, steps.parse().ok()?)));
    let (path, steps) = parts.ok_or("must be FILE=STEPS, such as a.safetensors=300")?;
    Ok((PathBuf::from(path), steps))
}
