//! `hsched inventory`: what GPUs there are, and which are free.

use clap::ValueEnum;

use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::context::Context;
use crate::commands::{input, local};
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{Holdings, RankNeeds};
use crate::probe;
use crate::slurm::holdings;
use crate::spec;
use crate::ui::{inventory_json, inventory_table};

/// Show the cluster's nodes, partitions and GPUs: all, free, used, down, reserved and mine
///
/// Asks Slurm with one `sinfo`, whatever the cluster's size, and one `squeue` for what is mine. Free are
/// GPUs that a job could have now; stranded are those that nobody holds, but beside which the CPUs or the
/// memory of a rank (settings `cpus_per_gpu`, `memory_per_gpu`) are taken. `--format yaml` prints a cluster
/// file: a cluster can be frozen and planned elsewhere with `--cluster`. `--from` makes one of what somebody
/// else saved, such as `scontrol show node`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: input::ClusterArgs,
    /// Show this machine's own GPUs instead of asking Slurm: types, memory, links, who computes on them.
    ///
    /// With `--format yaml` it is a cluster file of one node. A machine without a driver has 0 GPUs.
    #[arg(long, conflicts_with_all = ["cluster", "from"])]
    local: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON value.
    Json,
    /// A cluster file.
    Yaml,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let machine = self.local.then(probe::look);
        let seen = match &machine {
            Some(facts) => local::seen(context, facts),
            None => input::cluster(context, &self.source)?,
        };
        let mut notes = seen.notes;
        let mut mine = Holdings::new();
        // A file says nothing of its readers, and a frozen cluster needs no owner.
        if machine.is_none() && self.source.is_live() && self.format != Format::Yaml {
            let (jobs, unread) = input::queue(context)?;
            let (held, unclear) = holdings(&jobs, &seen.cluster);
            mine = held;
            notes.extend(unread.into_iter().chain(unclear));
        }
        let needs = RankNeeds {
            cpus: context.settings.jobs.cpus_per_gpu.into(),
            memory: context.settings.jobs.memory_per_gpu.map_or(0, |memory| memory.0),
        };
        let mut text = match self.format {
            Format::Table => inventory_table(&seen.cluster, needs, &mine, context.terminal),
            Format::Json => {
                let mut value = inventory_json(&seen.cluster, needs, &mine, &notes);
                if let Some(facts) = &machine {
                    value["machine"] = local::json(facts);
                }
                json_text(&value)?
            }
            Format::Yaml => spec::cluster::to_yaml(&seen.cluster),
        };
        if let Some(facts) = machine.filter(|_| self.format == Format::Table) {
            text.push_str(&local::table(&facts, context.terminal));
        }
        print(context, &text)?;
        for note in &notes {
            context.note(note);
        }
        Ok(Exit::Done)
    }
}
