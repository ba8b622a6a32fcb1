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
pub const JOB_KEYS: [JobKey; 47] = [
    required("name", "letters, digits, - _ .", "Name of the job; must be unique in the file."),
    optional("model", "text", "", "Name under which measured speeds are stored. Default: the job's name."),
    required("samples_per_epoch", "whole number", "Training samples per epoch."),
    required("epochs", "whole number", "Total number of epochs."),
    required(
        "global_batch",
        "whole number",
        "Samples per step over all ranks. Never changes, whatever the placement.",
    ),
    required(
        "model_size",
        "size, such as 46.8MB or 44.6MiB",
        "Bytes that the ranks exchange after each step.",
    ),
    optional(
        "syncs_per_epoch",
        "whole number",
        "",
        "Gradient exchanges per epoch. Default: one per step, samples_per_epoch / global_batch rounded up.",
    ),
    optional(
        "throughput",
        "map from GPU type to number or {alpha_ms, beta_ms}",
        "",
        "Samples per second on one GPU of the type, or the time of a step: alpha_ms + beta_ms * local batch, in \
         milliseconds. The job does not use GPU types without a known throughput.",
    ),
    required(
        "command",
        "list of words, or one shell line",
        "Command that each rank runs, such as [python, train.py] or \"python train.py --lr $LR\".",
    ),
    optional(
        "container",
        "path or address of an image",
        "",
        "Container image in which the command runs, started with the setting container_command (default: apptainer exec --nv). setup and node_setup run outside the container.",
    ),
    optional("weight", "0.000001 to 1000000", "1", "Weight of the job in `--objective weighted`."),
    optional("min_gpus", "whole number", "1", "Minimum number of GPUs."),
    optional("max_gpus", "whole number", "", "Maximum number of GPUs. Default: no limit."),
    optional(
        "gpus",
        "whole number",
        "",
        "Number of GPUs that the user requests. Without min_gpus and max_gpus, it sets both. With them, policies that give every job a fixed number of GPUs use it, and other policies use the range. Default: min_gpus.",
    ),
    optional(
        "gpu_types",
        "list of GPU types",
        "",
        "GPU types that the job may use. Default: all with a known throughput.",
    ),
    optional(
        "max_batch",
        "map from GPU type to whole number",
        "",
        "Largest batch that fits in the memory of one GPU of the type. Default: no limit.",
    ),
    optional(
        "accumulate",
        "true or false",
        "true",
        "Whether to use gradient accumulation when a local batch does not fit in memory.",
    ),
    optional("batch_quantum", "whole number", "1", "Local batches are multiples of this."),
    optional(
        "overlap",
        "number from 0, below 1",
        "0",
        "Fraction of the communication that overlaps with computation.",
    ),
    optional(
        "precision",
        "fp32, tf32, fp16 or bf16",
        "",
        "Precision of the training. Jobs in tf32 and bf16 only use GPUs that support it (Ampere or newer).",
    ),
    optional("env", "map, or list of NAME=value", "", "Environment variables of every rank."),
    optional("setup", "list of shell lines", "", "Shell lines that run once, on the first node."),
    optional(
        "node_setup",
        "list of shell lines",
        "",
        "Shell lines that run once per node, for modules, virtual environments and data. All ranks of the node inherit the environment.",
    ),
    optional(
        "workdir",
        "directory",
        "",
        "Working directory of the job. Default: the directory where it is submitted or added.",
    ),
    optional(
        "account",
        "text or list of texts",
        "",
        "Slurm account, or a list of accounts. `when` and `plan --queue` choose one of the list; other commands use the first. Default: the `account` setting.",
    ),
    optional(
        "partition",
        "text or list of texts",
        "",
        "Slurm partition, or several as a list or separated by commas. `when` and `plan --queue` choose one of them; for other commands, Slurm chooses. Default: the setting partition.",
    ),
    optional("qos", "text", "", "Slurm quality of service. Default: the setting qos."),
    optional(
        "time",
        "duration, such as 90m, 12h or 1-00:00:00",
        "",
        "Upper bound on the Slurm time limit. The job requests the predicted time plus a margin (setting time_margin), up to this bound and the partition's limit.",
    ),
    optional("cpus_per_gpu", "whole number", "", "CPUs per rank. Default: the setting cpus_per_gpu."),
    optional(
        "memory_per_gpu",
        "size, such as 32GiB",
        "",
        "Memory per rank. Default: the setting memory_per_gpu.",
    ),
    optional("sbatch", "list of words", "", "Additional sbatch options."),
    optional(
        "checkpoint",
        "map of dir, grace, restart_cost",
        "",
        "dir: where the job saves checkpoints (default: checkpoints/NAME). grace: time from the stop signal to the end of a run (default: the setting grace). restart_cost: time that a restart costs (default: the setting restart_cost). The last two are durations, such as 2m.",
    ),
    optional(
        "copies",
        "map of max, round (6m), optimizer (keep or reset)",
        "",
        "Trains the job as up to `max` copies, each on one GPU of any type. The copies train separately for a round and are then merged. This changes the training. See docs/copies.md.",
    ),
    optional(
        "estimate",
        "off, learnt or all",
        "",
        "Whether the job may use GPU types that this file does not list and on which its model was never measured, at estimated speeds. learnt estimates from other models that were measured on both types; all also uses the table of GPUs. Default: the option --estimate, else the setting estimate.",
    ),
    optional(
        "retries",
        "whole number",
        "3",
        "Number of times that hsched watch resubmits the job after a failure. Node failures, preemption, and stops after progress do not count.",
    ),
    optional(
        "after",
        "name or list of names",
        "",
        "Jobs that must complete before this one starts, such as the job that prepares its data. If one of them fails without a retry left or is cancelled, this job also fails. The name of a job with a sweep stands for all its variants.",
    ),
    optional(
        "deadline",
        "date and time, such as 2030-01-31T18:00:00, or duration, such as 12h",
        "",
        "Time by which the job should complete. A duration counts from the time when the job is added; in a trace, from the start of the trace. hsched status warns if the job is expected to be late, and the policy mlf-h prefers jobs whose deadline is near.",
    ),
    optional("urgency", "0 to 10", "1", "How much the job's progress matters to the policy mlf-h."),
    optional(
        "arrival",
        "duration, such as 90s or 1h30m",
        "0s",
        "Arrival time of the job, from the start of the trace. Only hsched simulate uses it.",
    ),
    optional(
        "sync_scale",
        "whole number",
        "1",
        "Number of equal parts of the global batch whose gradients are synchronised together. The policies hare, hlas and hlas-p distribute these parts: one GPU may compute several of them in turn.",
    ),
    optional(
        "predicted_epochs",
        "whole number",
        "0",
        "Minimum number of epochs that the job is expected to train. Only the policy hlas-p uses it.",
    ),
    optional(
        "losses",
        "list of numbers",
        "",
        "Loss after each epoch, in a trace: the policy hlas-p predicts from the losses of the finished epochs. Only hsched simulate uses it.",
    ),
    optional(
        "steps_done",
        "number",
        "0",
        "Number of steps, each of one global batch, that are done when the trace starts. Only hsched simulate uses it.",
    ),
    optional(
        "held",
        "map from node/type to whole number",
        "",
        "GPUs that the job holds when the trace starts, such as {gpu01/v100: 2}. Only hsched simulate uses it.",
    ),
    optional(
        "target",
        "map of metric, value, mode (min or max)",
        "",
        "Metric in the reports of rank 0 that the job trains for, and the value that it should reach (optional). A target alone never ends the job: see stop.",
    ),
    optional(
        "stop",
        "map of rule, when_busy, patience, not_before, confidence, give_up",
        "",
        "Stops the job early, by the metric of its target. rule: epochs (never, the default), best (no better value is expected), target (the value is reached) or halving (after a ninth and after a third of the epochs, only the best third of the jobs of its sweep continues). when_busy: the rule while other jobs wait, if it is weaker than rule. patience: also stop after this many epochs without a better value. not_before: minimum number of epochs, such as those before the last change of the learning rate. confidence (0.95): probability that a prediction must reach to stop the job. give_up (false): also stop when the value is out of reach. See docs/stopping.md.",
    ),
    optional(
        "sweep",
        "map from key to list of values",
        "",
        "One job for each combination of the values, in order, named after the values: sweep: {lr: [0.1, 0.01]} makes NAME-lr0.1 and NAME-lr0.01. Other keys of the job may contain placeholders such as {lr}. The environment has each value under the key in capitals, such as LR. A sweep beside jobs applies to all jobs of the file.",
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
