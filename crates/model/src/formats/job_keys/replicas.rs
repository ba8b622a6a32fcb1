//! Keys of a job: the GPUs of a replica, the number of replicas, and the division of its batch.

use serde_json::{Value as Json, json};

use std::collections::BTreeSet;

use super::{GPU_LIMIT, JobKey, KEY};
use crate::catalogue::{GpuNameMatch, recognise};
use crate::formats::draft::JobDraft;
use crate::formats::gpus::by_type;
use crate::formats::job_json::keyed;
use crate::formats::problem::ValueError;
use crate::formats::reader::ReaderValue;
use crate::formats::size::parse_size;
use crate::number::to_f64;
use crate::{ByType, Bytes, ErrorId, GpuType, Job, Replica, Sharing};

pub(super) const KEYS: &[JobKey] = &[
    JobKey {
        name: "replica",
        help: "Trains the job as replicas of several GPUs, with tensor or pipeline parallelism or sharding inside a replica and data parallelism between replicas. `throughput` and `max_batch` are then those of one replica. See docs/replicas.md.",
        inner: &[
            JobKey {
                name: "gpus",
                form: "gpus",
                help: "gpus (required): the number of GPUs of a replica, or a map from GPU type to number; types that a map does not name are not used.",
                read: |value, job| {
                    read_by_type(value, |item| item.whole_u32(1..=GPU_LIMIT))
                        .map(|gpus| replica(job).gpus = gpus)
                },
                write: |job| {
                    job.replica.as_ref().map(|replica| by_type_json(&replica.gpus, |&gpus| json!(gpus)))
                },
                ..KEY
            },
            JobKey {
                name: "same_node",
                form: "same_node (true)",
                help: "same_node: whether all GPUs of a replica are on one node.",
                read: |value, job| value.switch().map(|same_node| replica(job).same_node = same_node),
                write: |job| job.replica.as_ref().map(|replica| json!(replica.same_node)),
                ..KEY
            },
            JobKey {
                name: "efficiency",
                form: "efficiency",
                help: "efficiency: a number above 0, at most 1, or a map from GPU type to number. `throughput` is then that of one GPU, and a replica of g GPUs is g times that times the efficiency as fast.",
                read: |value, job| {
                    let fits = |part: f64| (part > 0.0 && part <= 1.0).then_some(part);
                    read_by_type(value, |item| item.ranged(fits, "above 0, at most 1"))
                        .map(|efficiency| replica(job).efficiency = Some(efficiency))
                },
                write: |job| {
                    let efficiency = job.replica.as_ref()?.efficiency.as_ref()?;
                    Some(by_type_json(efficiency, |&part| json!(part)))
                },
                ..KEY
            },
            JobKey {
                name: "memory",
                form: "memory (such as 60GB)",
                help: "memory: what the GPUs of a replica have to hold together, such as 60GB. Without gpus, the error proposes sizes from the table of GPUs; with gpus, sizes that are too small are refused.",
                read: |value, job| value.parsed(parse_size).map(|memory| replica(job).memory = Some(memory)),
                write: |job| job.replica.as_ref()?.memory.map(|memory| json!(memory.to_string())),
                ..KEY
            },
        ],
        settle: check_replica,
        ..KEY
    },
    JobKey {
        name: "min_replicas",
        form: "whole number",
        help: "Minimum number of replicas. Without `replica`, a replica is one GPU, and this is min_gpus.",
        default: "1",
        read: |value, job| value.whole_u32(1..=GPU_LIMIT).map(|least| job.min_replicas = least),
        settle: settle_least,
        write: |job| is_told(job).then(|| json!(job.min_replicas)),
        ..KEY
    },
    JobKey {
        name: "max_replicas",
        form: "whole number",
        help: "Maximum number of replicas. Without `replica`, a replica is one GPU, and this is max_gpus. Default: no limit.",
        read: |value, job| value.whole_u32(1..=GPU_LIMIT).map(|most| job.max_replicas = Some(most)),
        settle: settle_most,
        write: |job| job.max_replicas.map(Json::from),
        ..KEY
    },
    JobKey {
        name: "shares",
        form: "balanced or equal",
        help: "How the global batch is divided over unequal GPUs: so that all are done at the same time, or in equal parts, so that the slowest sets the pace.",
        default: "balanced",
        read: |value, job| value.word_of(&Sharing::NAMES).map(|shares| job.shares = shares),
        write: |job| (job.shares != Sharing::Balanced).then(|| json!(job.shares.name())),
        ..KEY
    },
];

/// Keys that count single GPUs.
const OF_GPUS: [&str; 3] = ["min_gpus", "max_gpus", "gpus"];

/// Returns the replica of the job being read.
fn replica(job: &mut Job) -> &mut Replica {
    job.replica.get_or_insert(Replica::of(1))
}

/// Returns whether a job's minimum number of replicas must be written.
fn is_told(job: &Job) -> bool {
    job.replica.is_some() || job.min_replicas != 1
}

fn read_by_type<T>(
    value: &ReaderValue<'_>,
    read: impl Fn(&ReaderValue<'_>) -> Option<T>,
) -> Option<ByType<T>> {
    if !value.is_map() {
        return read(value).map(ByType::All);
    }
    let values = by_type(value, read)?;
    if values.is_empty() {
        value.report(ValueError::new("must name at least one GPU type".to_owned()).id(ErrorId::WrongShape));
        return None;
    }
    Some(ByType::Each(values))
}

fn by_type_json<T>(values: &ByType<T>, json: impl Fn(&T) -> Json) -> Json {
    match values {
        ByType::All(value) => json(value),
        ByType::Each(values) => keyed(values, json),
    }
}

/// Refuses replicas without a size or with too little memory, keys that count single GPUs, copies, sizes
/// above 1 of a named MIG slice, and types with a size but without an efficiency.
fn check_replica(draft: &mut JobDraft<'_>) {
    let Some(value) = draft.get("replica") else { return };
    let lacks_gpus = value.is_map() && !value.entries_quietly().iter().any(|(key, _)| *key == "gpus");
    if lacks_gpus {
        let error = ValueError::new("is missing the required key gpus".to_owned()).id(ErrorId::MissingKey);
        let memory = draft.job.replica.as_ref().and_then(|replica| replica.memory);
        value.report(match memory {
            Some(memory) => error.hint(proposal(&known_types(&draft.job), memory)),
            None => error,
        });
    }
    let Some(replica) = draft.job.replica.clone() else { return };
    for key in OF_GPUS {
        if let Some(value) = draft.get(key) {
            let error = ValueError::new("cannot stand beside replica".to_owned()).id(ErrorId::KeysConflict);
            value.report(error.hint("use min_replicas and max_replicas"));
        }
    }
    if let Some(memory) = replica.memory.filter(|_| !lacks_gpus) {
        check_memory(&known_types(&draft.job), &replica.gpus, memory, value);
    }
    if draft.job.launch.copies.is_some() {
        value.report(
            ValueError::new("cannot stand beside copies, which have one GPU each".to_owned())
                .id(ErrorId::KeysConflict),
        );
    }
    let types: Vec<&GpuType> = match &replica.gpus {
        ByType::All(_) => draft.job.throughput.keys().collect(),
        ByType::Each(sizes) => sizes.keys().collect(),
    };
    for gpu_type in types {
        if let ByType::Each(sizes) = &replica.gpus
            && let Some(&gpus) = sizes.get(gpu_type).filter(|gpus| gpu_type.is_mig_slice() && **gpus > 1)
        {
            let message = format!("{gpu_type} is a MIG slice: a replica on it has one GPU, not {gpus}");
            value.report(ValueError::new(message).id(ErrorId::Replicas));
        }
        if replica.efficiency.as_ref().is_some_and(|efficiency| efficiency.of(gpu_type).is_none()) {
            value.report(
                ValueError::new(format!("efficiency has no value for {gpu_type}")).id(ErrorId::Replicas),
            );
        }
    }
}

/// Returns the GPU types that a job names and that the table of GPUs knows.
fn known_types(job: &Job) -> Vec<(&GpuType, GpuNameMatch)> {
    let sized = match job.replica.as_ref().map(|replica| &replica.gpus) {
        Some(ByType::Each(sizes)) => sizes.keys().collect(),
        _ => Vec::new(),
    };
    let named: BTreeSet<&GpuType> =
        job.throughput.keys().chain(job.gpu_types.iter().flatten()).chain(sized).collect();
    named.into_iter().filter_map(|gpu_type| Some((gpu_type, recognise(gpu_type.as_str())?))).collect()
}

/// Returns the sizes of a replica that have this much memory, according to the table of GPUs.
fn proposal(types: &[(&GpuType, GpuNameMatch)], memory: Bytes) -> String {
    let sizes = types.iter().filter_map(|(gpu_type, known)| Some((*gpu_type, known.count_for(memory)?)));
    let sizes: Vec<String> = sizes.map(|(gpu_type, count)| format!("{gpu_type}: {count}")).collect();
    if sizes.is_empty() {
        format!("hsched gpus --fits {}GB lists how many GPUs of each model hold that", gigabytes(memory))
    } else {
        format!("by the table of GPUs: replica: {{gpus: {{{}}}}}", sizes.join(", "))
    }
}

/// Refuses sizes of a replica whose GPUs together have too little memory.
fn check_memory(
    types: &[(&GpuType, GpuNameMatch)],
    sizes: &ByType<u32>,
    memory: Bytes,
    value: &ReaderValue<'_>,
) {
    let lacks = |(gpu_type, known): &&(&GpuType, GpuNameMatch)| {
        let holds = |gpus: u32| known.most_memory().0.saturating_mul(u64::from(gpus)) >= memory.0;
        sizes.of(gpu_type).is_some_and(|gpus| !holds(gpus))
    };
    if let Some((gpu_type, _)) = types.iter().find(lacks) {
        let needed = gigabytes(memory);
        let message = format!("a replica on {gpu_type} has too little memory: it needs {needed} GB");
        value.report(ValueError::new(message).id(ErrorId::Replicas).hint(proposal(types, memory)));
    }
}

fn gigabytes(memory: Bytes) -> f64 {
    to_f64(memory.0) / 1e9
}

fn settle_least(draft: &mut JobDraft<'_>) {
    let Some(value) = draft.get("min_replicas") else { return };
    let (least, quanta) = (draft.job.min_replicas, draft.job.global_batch / draft.job.batch_quantum);
    if draft.is_sound(&["global_batch", "batch_quantum", "min_replicas"]) && u64::from(least) > quanta {
        let message =
            format!("{least} is more than {quanta}, the largest number of replicas for global_batch");
        value.report(ValueError::new(message).id(ErrorId::Replicas));
    }
    if draft.job.replica.is_none() {
        same_as_gpus(draft, "min_gpus", draft.job.min_gpus, least);
        check_against(draft, value, [("gpus", draft.job.gpus), ("max_gpus", draft.job.max_gpus)], |gpus| {
            (least > gpus).then(|| format!("{least} is more than"))
        });
        draft.job.min_gpus = least;
    }
}

fn settle_most(draft: &mut JobDraft<'_>) {
    let Some((most, value)) = draft.job.max_replicas.zip(draft.get("max_replicas")) else { return };
    let least = draft.job.min_replicas;
    if least > most {
        value.report(
            ValueError::new(format!("{most} is less than min_replicas {least}")).id(ErrorId::Replicas),
        );
    }
    if draft.job.replica.is_none() {
        same_as_gpus(draft, "max_gpus", draft.job.max_gpus.unwrap_or(most), most);
        let min_gpus = Some(draft.job.min_gpus);
        check_against(draft, value, [("gpus", draft.job.gpus), ("min_gpus", min_gpus)], |gpus| {
            (most < gpus).then(|| format!("{most} is less than"))
        });
        draft.job.max_gpus = Some(most);
    }
}

/// Reports a number of replicas of one GPU each that contradicts one of these keys, if the file has it.
fn check_against(
    draft: &JobDraft<'_>,
    value: &ReaderValue<'_>,
    keys: [(&str, Option<u32>); 2],
    problem: impl Fn(u32) -> Option<String>,
) {
    let given = keys.into_iter().filter(|(key, _)| draft.get(key).is_some());
    let mut problems = given.filter_map(|(key, gpus)| Some(format!("{} {key} {}", problem(gpus?)?, gpus?)));
    if let Some(message) = problems.next() {
        value.report(ValueError::new(message).id(ErrorId::GpuRange));
    }
}

/// Reports a GPU-counting key of a job without `replica` that contradicts the corresponding key for replicas.
fn same_as_gpus(draft: &JobDraft<'_>, key: &str, size: u32, replicas: u32) {
    if let Some(value) = draft.get(key).filter(|_| size != replicas) {
        let message = format!("{size} does not match the number of replicas, {replicas}, of one GPU each");
        value.report(ValueError::new(message).id(ErrorId::Replicas));
    }
}
