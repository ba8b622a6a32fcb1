//! `hsched inventory`: lists the GPUs, and which are free.

use clap::ValueEnum;

use crate::app::context::Context;
use crate::app::input;
use crate::app::slurm;
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::local;
use hsched_local::probe;
use hsched_model::formats;
use hsched_model::{Holdings, RankNeeds};
use hsched_ui::{Exit, Failure, inventory_json, inventory_table};

/// Show the cluster's nodes, partitions and GPUs
///
/// Calls `sinfo` and `squeue` once each. FREE GPUs are available to a job now. STRANDED GPUs are not allocated, but
/// their node lacks the CPUs or memory for a rank (settings `cpus_per_gpu`, `memory_per_gpu`). MINE counts the GPUs
/// of your running jobs. GPUs of PLANNED nodes (`plnd`, `mix-`) count as free: Slurm reserves them for a pending job,
/// but jobs that end before its start may use them. Accelerators with a GRES name other than `gpu` (`npu`, `tpu`) do
/// not count; a note names them.
///
/// `--format yaml` prints a cluster file, which `--cluster` reads elsewhere, without Slurm. `--from` reads saved
/// output of Slurm, such as that of `scontrol show node`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: input::ClusterArgs,
    /// Show the GPUs of this machine instead of asking Slurm: types, memory, links, processes.
    ///
    /// With `--format yaml`, prints a cluster file with this machine as its only node. A machine without a driver has
    /// 0 GPUs.
    #[arg(long, conflicts_with_all = ["cluster", "from"])]
    local: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: InventoryFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum InventoryFormat {
    /// Human-readable tables.
    #[default]
    Table,
    /// JSON.
    Json,
    /// A cluster file (YAML).
    Yaml,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == InventoryFormat::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let machine = self.local.then(probe::look);
        let seen = match &machine {
            Some(facts) => local::seen(context, facts),
            None => input::cluster(context, &self.source)?,
        };
        let mut notes = seen.notes;
        let mut mine = Holdings::new();
        // Saved output does not show which jobs are the user's, and the cluster file of --format yaml lists
        // no jobs.
        if machine.is_none() && self.source.is_live() && self.format != InventoryFormat::Yaml {
            let (held, unclear) = slurm::held(context, &seen.cluster)?;
            mine = held;
            notes.extend(unclear);
        }
        let needs = RankNeeds {
            cpus: context.settings.jobs.cpus_per_gpu.into(),
            memory: context.settings.jobs.memory_per_gpu.map_or(0, |memory| memory.0),
        };
        let mut text = match self.format {
            InventoryFormat::Table => inventory_table(&seen.cluster, needs, &mine, context.terminal),
            InventoryFormat::Json => {
                let mut value = inventory_json(&seen.cluster, needs, &mine, &notes);
                if let Some(facts) = &machine {
                    value["machine"] = local::json(facts);
                }
                json_text(&value)?
            }
            InventoryFormat::Yaml => formats::cluster::to_yaml(&seen.cluster),
        };
        if let Some(facts) = machine.filter(|_| self.format == InventoryFormat::Table) {
            text.push_str(&local::table(&facts, context.terminal));
        }
        print(context, &text)?;
        for note in &notes {
            context.note(note);
        }
        Ok(Exit::Done)
    }
}
