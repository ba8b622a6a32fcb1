//! The one table of the keys of a job: name, form, default and help.

/// A key of a job in a job file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobKey {
    pub name: &'static str,
    /// What values look like, for people.
    pub form: &'static str,
    pub required: bool,
    /// Value where the key is missing, as YAML; empty where none is the same as a value.
    pub default: &'static str,
    /// Sentences for people.
    pub help: &'static str,
}

/// All keys, in the order in which a file is best written.
pub const JOB_KEYS: [JobKey; 34] = [
    required("name", "letters, digits, - _ .", "Name of the job; each is there once."),
    optional("model", "text", "", "Name under which measured speeds will be kept. Default: the job's name."),
    required("samples_per_epoch", "whole number", "Training samples of one epoch."),
    required("epochs", "whole number", "Epochs of the whole training."),
    required(
        "global_batch",
        "whole number",
        "Samples of one step over all GPUs. Stays what you say, whatever the placement.",
    ),
    required(
        "model_size",
        "size, such as 46.8MB, 44.6MiB or a number of bytes",
        "Bytes that the ranks exchange after each step.",
    ),
    optional(
        "syncs_per_epoch",
        "whole number",
        "",
        "Synchronisations in an epoch. Default: one per step, samples_per_epoch / global_batch rounded up.",
    ),
    optional(
        "throughput",
        "map from GPU type to number or {alpha_ms, beta_ms}",
        "",
        "Samples a second on one GPU of the type, or the time of a step: alpha_ms + beta_ms * local batch, in \
         milliseconds. A type without a throughput is not used for the job.",
    ),
    required(
        "command",
        "list of words, or one line for the shell",
        "What each rank runs, such as [python, train.py] or \"python train.py --lr $LR\".",
    ),
    optional("weight", "0.000001 to 1000000", "1", "Weight of the job in `--objective weighted`."),
    optional("min_gpus", "whole number", "1", "Fewest GPUs that the job may get."),
    optional("max_gpus", "whole number", "", "Most GPUs that the job may get. Default: no limit."),
    optional(
        "gpu_types",
        "list of GPU types",
        "",
        "Types that the job may use. Default: all that have a throughput.",
    ),
    optional(
        "max_batch",
        "map from GPU type to whole number",
        "",
        "Samples that fit into the memory of a GPU of the type at once. Default: any number.",
    ),
    optional(
        "accumulate",
        "true or false",
        "true",
        "Whether a local batch that does not fit may be split into micro-batches.",
    ),
    optional("batch_quantum", "whole number", "1", "Local batches are multiples of this."),
    optional(
        "overlap",
        "number from 0, below 1",
        "0",
        "Part of the communication that is hidden behind computing.",
    ),
    optional("precision", "fp32, tf32, fp16 or bf16", "", "Precision of the training."),
    optional("env", "map, or list of NAME=value", "", "Environment variables of every rank."),
    optional("setup", "list of shell lines", "", "Run once, on the first node."),
    optional(
        "node_setup",
        "list of shell lines",
        "",
        "Run once per node; all its ranks get the environment: modules, virtual environment, data.",
    ),
    optional("workdir", "directory", "", "Where the job runs. Default: where it is submitted."),
    optional("account", "text", "", "Slurm account. Default: the setting of that name."),
    optional("partition", "text", "", "Slurm partition, or several with commas. Default: the setting."),
    optional("qos", "text", "", "Slurm quality of service. Default: the setting."),
    optional(
        "time",
        "duration, such as 90m, 12h or 1-00:00:00",
        "",
        "Cap on the walltime. Default: none beside the partition's; the predicted time with a margin is asked for.",
    ),
    optional("cpus_per_gpu", "whole number", "", "CPUs of each rank. Default: the setting."),
    optional("memory_per_gpu", "size, such as 32GiB", "", "Memory of each rank. Default: the setting."),
    optional("sbatch", "list of words", "", "Further options for sbatch."),
    optional(
        "checkpoint",
        "map of dir, grace, restart_cost",
        "",
        "Where the job saves its progress (default: checkpoints/NAME), how long before the end it is told to \
         (default: the setting grace), and what a restart costs; the last two are durations, such as 2m.",
    ),
    optional(
        "estimate",
        "off, learnt or all",
        "",
        "Whether the job may go to GPU types that this file does not list and on which its model was never measured, by \
         estimated speeds: learnt from other models that ran on both types, or all, also from the table of GPUs. \
         Default: the option --estimate, else the setting (off).",
    ),
    optional("retries", "whole number", "3", "How often watch tries the job again after it failed."),
    optional(
        "deadline",
        "date and time, such as 2030-01-31T18:00:00",
        "",
        "When it should be done. Checked and kept; it does not change any decision yet.",
    ),
    optional(
        "target",
        "map of metric, value, mode (min or max)",
        "",
        "The value of a metric that it should reach. Checked and kept; it does not end the job yet.",
    ),
];

const fn required(name: &'static str, form: &'static str, help: &'static str) -> JobKey {
    JobKey { name, form, required: true, default: "", help }
}

const fn optional(
    name: &'static str,
    form: &'static str,
    default: &'static str,
    help: &'static str,
) -> JobKey {
    JobKey { name, form, required: false, default, help }
}
