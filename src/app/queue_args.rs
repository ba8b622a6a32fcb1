//! Flags for the account, partition and quality of service.

use crate::app::completions;
use crate::settings::CommandLineSetting;
use hsched_model::Job;
use hsched_model::formats::slurm_name;

/// Account, partition and quality of service.
#[derive(Debug, clap::Args)]
pub(crate) struct QueueArgs {
    /// Slurm account.
    #[arg(long, add = completions::accounts())]
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
    pub(crate) fn flags(&self) -> Vec<CommandLineSetting> {
        let named = [("account", &self.account), ("partition", &self.partition), ("qos", &self.qos)];
        named
            .into_iter()
            .filter_map(|(key, value)| CommandLineSetting::of_key(key, value.as_deref()))
            .collect()
    }
}

/// Partitions and accounts to look at instead of those that jobs name.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Queue")]
pub(crate) struct ElsewhereArgs {
    /// Look at these partitions instead of those that the jobs name. Repeatable, or several names separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = slurm_name)]
    partition: Vec<String>,
    /// Look at these accounts instead of those that the jobs name. Repeatable, or several names separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = slurm_name, add = completions::accounts())]
    account: Vec<String>,
}

impl ElsewhereArgs {
    /// Returns whether other places are named.
    pub(crate) fn is_given(&self) -> bool {
        !self.partition.is_empty() || !self.account.is_empty()
    }

    /// Returns the jobs with these partitions and accounts instead of their own.
    pub(crate) fn applied(&self, mut jobs: Vec<Job>) -> Vec<Job> {
        for job in &mut jobs {
            if !self.partition.is_empty() {
                job.launch.partition = Some(self.partition.join(","));
            }
            if let [first, others @ ..] = self.account.as_slice() {
                job.launch.account = Some(first.clone());
                job.launch.other_accounts = others.to_vec();
            }
        }
        jobs
    }
}
