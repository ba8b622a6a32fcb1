//! Keys of a job: how it is started, and its Slurm options.

use serde_json::{Value as Json, json};

use super::{JobKey, KEY, PlaceholderForm, Requirement};
use crate::formats::job_json::{duration_json, filled_list};
use crate::formats::launch::{path, positive, read_env, read_lines, read_names, read_words, slurm_name};
use crate::formats::size::parse_size;
use crate::{Copies, CopyOptimizer, Job, Launch, Seconds};

/// Maximum number of copies of a job: each one holds the weights of all others in memory during a merge.
const MOST_COPIES: u32 = 64;

/// Default time for which copies train separately.
const COPY_ROUND: Seconds = Seconds(360.0);

pub(super) const KEYS: &[JobKey] = &[
    JobKey {
        name: "env",
        form: "map, or list of NAME=value",
        help: "Environment variables of every rank.",
        read: |value, job| read_env(value).map(|env| job.launch.env = env),
        // A list of NAME=value, because a JSON object does not keep its order.
        write: |job| filled_list(job.launch.env.iter().map(|(name, value)| format!("{name}={value}"))),
        ..KEY
    },
    JobKey {
        name: "setup",
        form: "list of shell lines",
        help: "Shell lines that run once, on the first node.",
        filling: PlaceholderForm::Shell,
        read: |value, job| read_lines(value).map(|lines| job.launch.setup = lines),
        write: |job| filled_list(&job.launch.setup),
        ..KEY
    },
    JobKey {
        name: "node_setup",
        form: "list of shell lines",
        help: "Shell lines that run once per node, for modules, virtual environments and data. All ranks of the node inherit the environment.",
        filling: PlaceholderForm::Shell,
        read: |value, job| read_lines(value).map(|lines| job.launch.node_setup = lines),
        write: |job| filled_list(&job.launch.node_setup),
        ..KEY
    },
    JobKey {
        name: "workdir",
        form: "directory",
        help: "Working directory of the job. Default: the directory where it is submitted or added.",
        read: |value, job| value.parsed(path).map(|path| job.launch.workdir = Some(path)),
        write: |job| job.launch.workdir.as_ref().map(|path| json!(path)),
        ..KEY
    },
    JobKey {
        name: "account",
        form: "text or list of texts",
        help: "Slurm account, or a list of accounts. `when` and `plan --queue` choose one of the list; other commands use the first. Default: the `account` setting.",
        read: |value, job| {
            let mut names = read_names(value)?.into_iter();
            job.launch.account = names.next();
            job.launch.other_accounts = names.collect();
            Some(())
        },
        write: |job| match &job.launch {
            Launch { account, other_accounts, .. } if other_accounts.is_empty() => {
                account.as_ref().map(|name| json!(name))
            }
            launch => filled_list(launch.account.iter().chain(&launch.other_accounts)),
        },
        ..KEY
    },
    JobKey {
        name: "partition",
        form: "text or list of texts",
        help: "Slurm partition, or several as a list or separated by commas. `when` and `plan --queue` choose one of them; for other commands, Slurm chooses. Default: the setting partition.",
        read: |value, job| {
            let names = read_names(value)?;
            job.launch.partition = (!names.is_empty()).then(|| names.join(","));
            Some(())
        },
        write: |job| job.launch.partition.as_ref().map(|name| json!(name)),
        ..KEY
    },
    JobKey {
        name: "qos",
        form: "text",
        help: "Slurm quality of service. Default: the setting qos.",
        read: |value, job| value.parsed(slurm_name).map(|name| job.launch.qos = Some(name)),
        write: |job| job.launch.qos.as_ref().map(|name| json!(name)),
        ..KEY
    },
    JobKey {
        name: "time",
        form: "duration, such as 90m, 12h or 1-00:00:00",
        help: "Upper bound on the Slurm time limit. The job requests the predicted time plus a margin (setting time_margin), up to this bound and the partition's limit.",
        read: |value, job| positive(value).map(|time| job.launch.time = Some(time)),
        write: |job| job.launch.time.map(duration_json),
        ..KEY
    },
    JobKey {
        name: "cpus_per_gpu",
        form: "whole number",
        help: "CPUs per rank. Default: the setting cpus_per_gpu.",
        read: |value, job| value.whole_u32(1..=1_000_000).map(|cpus| job.launch.cpus_per_gpu = Some(cpus)),
        write: |job| job.launch.cpus_per_gpu.map(Json::from),
        ..KEY
    },
    JobKey {
        name: "memory_per_gpu",
        form: "size, such as 32GiB",
        help: "Memory per rank. Default: the setting memory_per_gpu.",
        read: |value, job| value.parsed(parse_size).map(|size| job.launch.memory_per_gpu = Some(size)),
        write: |job| job.launch.memory_per_gpu.map(|size| json!(size.to_string())),
        ..KEY
    },
    JobKey {
        name: "sbatch",
        form: "list of words",
        help: "Additional sbatch options.",
        filling: PlaceholderForm::ShellUnlessList,
        read: |value, job| read_words(value).map(|words| job.launch.sbatch = words),
        write: |job| filled_list(&job.launch.sbatch),
        ..KEY
    },
    JobKey {
        name: "checkpoint",
        inner: &[
            JobKey {
                name: "dir",
                form: "dir",
                help: "dir: where the job saves checkpoints (default: checkpoints/NAME).",
                read: |value, job| value.parsed(path).map(|path| job.launch.checkpoint.dir = Some(path)),
                write: |job| job.launch.checkpoint.dir.as_ref().map(|path| json!(path)),
                ..KEY
            },
            JobKey {
                name: "grace",
                form: "grace",
                help: "grace: time from the stop signal to the end of a run (default: the setting grace).",
                read: |value, job| value.duration().map(|time| job.launch.checkpoint.grace = Some(time)),
                write: |job| job.launch.checkpoint.grace.map(duration_json),
                ..KEY
            },
            JobKey {
                name: "restart_cost",
                form: "restart_cost",
                help: "restart_cost: time that a restart costs (default: the setting restart_cost). The last two are durations, such as 2m.",
                read: |value, job| {
                    value.duration().map(|time| job.launch.checkpoint.restart_cost = Some(time))
                },
                write: |job| job.launch.checkpoint.restart_cost.map(duration_json),
                ..KEY
            },
        ],
        ..KEY
    },
    JobKey {
        name: "copies",
        help: "Trains the job as up to `max` copies, each on one GPU of any type. The copies train separately for a round and are then merged. This changes the training. See docs/copies.md.",
        inner: &[
            JobKey {
                name: "max",
                form: "max",
                needed: Requirement::Yes,
                read: |value, job| value.whole_u32(1..=MOST_COPIES).map(|max| copies(job).max = max),
                write: |job| job.launch.copies.map(|copies| json!(copies.max)),
                ..KEY
            },
            JobKey {
                name: "round",
                form: "round (6m)",
                read: |value, job| positive(value).map(|round| copies(job).round = round),
                write: |job| job.launch.copies.map(|copies| duration_json(copies.round)),
                ..KEY
            },
            JobKey {
                name: "optimizer",
                form: "optimizer (keep or reset)",
                read: |value, job| {
                    value.word_of(&CopyOptimizer::NAMES).map(|optimizer| copies(job).optimizer = optimizer)
                },
                write: |job| job.launch.copies.map(|copies| json!(copies.optimizer.name())),
                ..KEY
            },
            // Written only by hsched, in the stored form of each copy.
            JobKey {
                name: "number",
                read: |value, job| {
                    value.whole_u32(1..=MOST_COPIES).map(|number| copies(job).number = Some(number))
                },
                write: |job| job.launch.copies?.number.map(Json::from),
                ..KEY
            },
        ],
        ..KEY
    },
];

/// Returns the copies of the job being read.
fn copies(job: &mut Job) -> &mut Copies {
    let unread = Copies { max: 1, round: COPY_ROUND, optimizer: CopyOptimizer::default(), number: None };
    job.launch.copies.get_or_insert(unread)
}
