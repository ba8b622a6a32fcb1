//! Flags that say where in Slurm's queue jobs go, and at whose cost.

use crate::settings::Flag;

/// Account, partition and quality of service.
#[derive(Debug, clap::Args)]
pub(crate) struct QueueArgs {
    /// Slurm account.
    #[arg(long)]
    account: Option<String>,
    /// Slurm partition.
    #[arg(long)]
    partition: Option<String>,
    /// Slurm quality of service.
    #[arg(long)]
    qos: Option<String>,
}

impl QueueArgs {
    /// Returns the settings that the flags give.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let named = [("account", &self.account), ("partition", &self.partition), ("qos", &self.qos)];
        named.into_iter().filter_map(|(key, value)| Flag::of_key(key, value.as_deref())).collect()
    }
}
