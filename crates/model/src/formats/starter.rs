//! The job and cluster files that `hsched init` writes.

use std::fmt::Write as _;

use super::cluster_yaml::text as scalar;
use crate::{Command, GpuType, Job};

/// A cluster file for users without Slurm.
pub const CLUSTER: &str = "\
# The cluster to plan for: hsched plan jobs.yaml --cluster cluster.yaml. Replace it with yours: on a machine with
# Slurm, `hsched inventory --format yaml` prints it; on a single machine with GPUs,
# `hsched inventory --local --format yaml` does.
network_gbps: 10          # Gbit/s between nodes
intra_node_gbps: 300      # Gbit/s between the GPUs of a node
nodes:
  - name: gpu[1-2]        # a hostlist: two nodes
    gpus: {v100: 4}       # type: number in each node
    cpus: 16
    memory: 64GiB
  - name: gpu3
    gpus: {t4: 4}
    cpus: 16
    memory: 64GiB
";

/// GPU types in [`CLUSTER`].
pub const CLUSTER_TYPES: [&str; 2] = ["t4", "v100"];

const HEAD: &str = "\
# Training jobs for hsched. Replace every value marked REPLACE with your own, then:
#   hsched plan jobs.yaml      shows which GPUs each job gets
#   hsched when jobs.yaml      on a full cluster: which request would finish first, including its wait
#   hsched run jobs.yaml       without Slurm: runs the jobs on the GPUs of this machine
# Lines that begin with # and a space are comments. To set a key with a # directly before it, remove the #.
jobs:
  - name: example                # unique; letters, digits, - _ .
    samples_per_epoch: 50000     # REPLACE: training samples per epoch
    epochs: 10                   # REPLACE
    global_batch: 256            # REPLACE: samples per step over all ranks; the same for every placement
    model_size: 100MB            # REPLACE: bytes that ranks exchange after each step (4 per parameter in fp32)
    throughput:                  # REPLACE: samples/s of this job on one GPU of each type; `hsched run` also works without
";

const TAIL: &str = "    command: 'echo rank $RANK of $WORLD_SIZE: $HSCHED_LOCAL_BATCH of $HSCHED_GLOBAL_BATCH samples'   # REPLACE
    max_gpus: 8                  # maximum number of GPUs; 1 for a program without ranks (DDP): hsched starts it once per GPU
    #min_gpus: 1                 # minimum number of GPUs
    #weight: 1                   # weight in --objective weighted
    #syncs_per_epoch: 196        # gradient exchanges per epoch [default: one per step]
    #accumulate: true            # use gradient accumulation when the local batch does not fit
    #batch_quantum: 1            # local batches are multiples of this
    #overlap: 0                  # fraction of the communication that overlaps with computation, 0 to 1
    #precision: fp16             # fp32, tf32, fp16 or bf16
    #env: {LR: \"0.1\"}            # environment variables of every rank
    #setup: module list          # shell lines, once, on the first node
    #node_setup: module load cuda   # shell lines, once per node
    #time: 12h                   # upper bound on the Slurm time limit, requested until a speed is measured [default: predicted time plus a margin]
    #cpus_per_gpu: 4             # CPUs per rank
    #memory_per_gpu: 16GiB       # memory per rank
    #sweep: {lr: [0.1, 0.01]}    # one job for every combination of values; {lr} in other keys is the value
    #checkpoint: {dir: checkpoints/example, grace: 2m}   # where it saves, and the longest time to save
";

/// A job file for commands on one machine: valid as it is, and with any key uncommented.
pub const LOCAL: &str = "\
# Jobs for hsched run, which needs no Slurm. Replace the value marked REPLACE with your own, then:
#   hsched run jobs.yaml                   runs the jobs on the GPUs of this machine
#   hsched run jobs.yaml --devices cpu:4   on a machine without GPUs: four jobs at a time
# Lines that begin with # and a space are comments. To set a key with a # directly before it, remove the #.
jobs:
  - name: example                # unique; letters, digits, - _ .
    command: 'echo replace this command'   # REPLACE: runs once, on one GPU
    #sweep: {lr: [0.1, 0.01]}    # one job for every combination of values: variable LR, and {lr} in the command
    #env: {SEED: \"1\"}           # environment variables
    #retries: 0                  # how often a failed job is run again [default: 3]
    #epochs: 10                  # if it reports each epoch: hsched help program
    #checkpoint: {grace: 2m}     # it saves on SIGUSR1 and resumes by itself
";

/// Returns a job file with one job for these GPU types: valid as it is, and with any key uncommented.
pub fn jobs(types: &[GpuType]) -> String {
    let mut text = HEAD.to_owned();
    for gpu_type in types {
        let _ = writeln!(text, "      {}: 100", scalar(gpu_type.as_str()));
    }
    text.push_str(TAIL);
    if let Some(first) = types.first() {
        let name = scalar(first.as_str());
        let _ = writeln!(text, "    #gpu_types: [{name}]   # the only GPU types that the job may use");
        let _ = writeln!(
            text,
            "    #max_batch: {{{name}: 64}}   # largest batch that fits in the memory of that GPU"
        );
    }
    text
}

/// Marks the values that must be replaced.
const MARK: &str = "# REPLACE";

/// Returns the line numbers, from 1, and keys of a job file whose value is still that of [`jobs`] or
/// [`LOCAL`] and still marked.
pub fn unedited(text: &str) -> Vec<(usize, &str)> {
    let marked = |line: &'static str| Some(line.split_once(MARK)?.0.trim());
    let all = [HEAD, TAIL, LOCAL].into_iter().flat_map(str::lines);
    let examples: Vec<&str> = all.filter_map(marked).collect();
    let lines: Vec<&str> = text.lines().collect();
    let to_replace = |(index, line): (usize, &&'_ str)| -> Option<(usize, usize)> {
        let value = line.split_once(MARK)?.0.trim();
        let is_example =
            examples.contains(&value) && (!value.ends_with(':') || are_examples(&lines[index + 1..], line));
        is_example.then(|| (index, value.find(':').unwrap_or(value.len())))
    };
    let found: Vec<(usize, usize)> = lines.iter().enumerate().filter_map(to_replace).collect();
    found.into_iter().map(|(index, end)| (index + 1, &lines[index].trim_start()[..end])).collect()
}

/// Returns whether all lines of a key are unchanged from [`jobs`].
fn are_examples(below: &[&str], key: &str) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut children = below.iter().take_while(|line| indent(line) > indent(key)).peekable();
    children.peek().is_some() && children.all(|line| line.trim_end().ends_with(": 100"))
}

/// Returns whether a job runs the command of [`jobs`] or of [`LOCAL`].
pub fn is_example(job: &Job) -> bool {
    let is_of = |text: &str, line: &String| text.split('\'').nth(1) == Some(line);
    matches!(&job.launch.command, Command::Shell(line) if is_of(TAIL, line) || is_of(LOCAL, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats;

    #[test]
    fn the_job_file_is_valid_and_so_is_every_key_uncommented() {
        let names = ["a100_3g.20gb", "1080", "no", "1e3", "H100+"];
        let types: Vec<GpuType> = names.iter().map(|name| GpuType::new(name).expect("a type")).collect();
        let text = jobs(&types);
        let read = formats::jobs::parse(&text).expect("jobs");
        assert!(types.iter().all(|gpu_type| read[0].throughput.contains_key(gpu_type)), "{text}");
        let commented: Vec<&str> = text.lines().filter(|line| line.starts_with("    #")).collect();
        assert!(commented.len() > 15, "{text}");
        for line in &commented {
            let changed = text.replace(line, &line.replacen('#', "", 1));
            formats::jobs::parse(&changed).unwrap_or_else(|problems| panic!("{line}: {problems:?}"));
        }
    }

    #[test]
    fn the_job_file_for_one_machine_is_valid_and_so_is_every_key_uncommented() {
        let keys: Vec<&str> = LOCAL.lines().filter(|line| line.starts_with("    #")).collect();
        for line in [""].iter().chain(&keys) {
            let changed = LOCAL.replace(line, &line.replacen('#', "", 1));
            let jobs =
                formats::jobs::parse(&changed).unwrap_or_else(|problems| panic!("{line}: {problems:?}"));
            assert!(is_example(&jobs[0]), "{line}");
        }
        assert_eq!(unedited(LOCAL), [(7, "command")]);
    }

    #[test]
    fn values_that_nobody_replaced_are_found() {
        let text = jobs(&[GpuType::new("v100").expect("a type"), GpuType::new("t4").expect("a type")]);
        let keys = |text: &str| unedited(text).into_iter().map(|(_, key)| key.to_owned()).collect::<Vec<_>>();
        let all = ["samples_per_epoch", "epochs", "global_batch", "model_size", "throughput", "command"];
        assert_eq!(keys(&text), all);
        assert_eq!(unedited(&text)[0], (8, "samples_per_epoch"));
        let read = |text: &str| formats::jobs::parse(text).expect("jobs").remove(0);
        assert!(is_example(&read(&text)));
        let edited = text
            .replace("epochs: 10 ", "epochs: 90 ")
            .replace("v100: 100", "v100: 85")
            .replace("'echo rank", "'python rank");
        assert_eq!(keys(&edited), ["samples_per_epoch", "global_batch", "model_size"]);
        assert!(!is_example(&read(&edited)));
        // Removing the mark confirms that the value was read.
        assert!(keys(&text.replace("# REPLACE", "# ")).is_empty());
    }

    #[test]
    fn the_example_cluster_has_its_types() {
        let cluster = formats::cluster::parse(CLUSTER).expect("a cluster");
        let mut types: Vec<String> = cluster
            .nodes
            .iter()
            .flat_map(|node| &node.gpus)
            .map(|stock| stock.gpu_type.to_string())
            .collect();
        types.sort();
        types.dedup();
        assert_eq!(types, CLUSTER_TYPES);
    }
}
