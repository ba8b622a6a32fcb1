//! `hsched gpus`: the catalogue of GPU models, and the meaning of names.

use serde_json::{Value, json};

use crate::app::completions;
use crate::app::context::{Context, Format};
use crate::commands::cli::{Subcommand, json_text, print};
use hsched_model::catalogue::{GpuNameMatch, gpus, names, recognise};
use hsched_model::{Bytes, ErrorId, formats};
use hsched_ui::{Exit, Failure, fits_json, fits_table, gpu_details, gpu_json, gpu_table, recognised_json};

/// Show known GPU models: memory, speed, MIG slices, names
///
/// TFLOPS are without sparsity: FP32 on ordinary cores, other precisions on tensor cores. Given names as a cluster
/// spells them (`a100l`, `nvidia_a100_80gb_pcie`, `a100_3g.20gb`), explains each name and lists the sources.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// GPU types or product names [default: a table of all models].
    #[arg(value_name = "NAME", add = completions::gpu_types())]
    names: Vec<String>,
    /// Show how many GPUs of each model (or of the named ones) have this much memory together, as sizes of replicas.
    ///
    /// The counts are powers of two and assume that all memory of the GPUs is usable, so add the needs of the program beyond the
    /// model, its optimizer and its activations. This sets nothing: the key `replica` of a job gives the sizes that are used.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    fits: Option<Bytes>,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let known = self.names.iter().map(|name| find(name).map(|known| (name, known)));
        let known: Vec<(&String, GpuNameMatch)> = known.collect::<Result<_, _>>()?;
        let terminal = context.terminal;
        if let Some(need) = self.fits {
            let text = match self.format {
                Format::Table => fits_table(need, &known, terminal),
                Format::Json => json_text(&fits_json(need, &known))?,
            };
            print(context, &text)?;
            return Ok(Exit::Done);
        }
        let text = match self.format {
            Format::Table if known.is_empty() => gpu_table(gpus(), terminal),
            Format::Table => {
                let blocks = known.iter().map(|(name, known)| gpu_details(name, known, terminal));
                blocks.collect::<Vec<_>>().join("\n")
            }
            Format::Json if known.is_empty() => {
                let all: Vec<Value> = gpus().iter().map(gpu_json).collect();
                json_text(&json!({ "schema": "hsched.gpus/1", "gpus": all }))?
            }
            Format::Json => {
                let all: Vec<Value> =
                    known.iter().map(|(name, known)| recognised_json(name, known)).collect();
                json_text(&json!({ "schema": "hsched.gpus/1", "names": all }))?
            }
        };
        print(context, &text)?;
        Ok(Exit::Done)
    }
}

/// Parses a positive amount of memory.
fn size(text: &str) -> Result<Bytes, String> {
    let bytes = formats::parse_size(text).map_err(|error| error.to_string())?;
    if bytes.0 == 0 { Err("must be more than nothing".to_owned()) } else { Ok(bytes) }
}

/// Returns the meaning of a name.
///
/// # Errors
/// If the name is not in the catalogue (exit 2); the failure has the most similar names.
fn find(name: &str) -> Result<GpuNameMatch, Failure> {
    recognise(name).ok_or_else(|| {
        let failure = Failure::new(Exit::Usage, format!("unknown GPU {name:?}")).id(ErrorId::GpuType);
        let lower = name.to_ascii_lowercase();
        let mut near: Vec<&str> = formats::nearest(&lower, names()).into_iter().collect();
        near.extend(names().filter(|name| lower.len() > 1 && name.contains(&lower)));
        near.extend(names().filter(|name| name.len() > 2 && lower.contains(name)));
        let mut seen = std::collections::BTreeSet::new();
        near.retain(|similar| seen.insert(*similar));
        near.truncate(5);
        if !near.is_empty() {
            return failure.hint(format!("similar names: {}; `hsched gpus` lists all", near.join(", ")));
        }
        failure.hint("`hsched gpus` lists all")
    })
}
