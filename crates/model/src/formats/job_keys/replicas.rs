//! Keys of a job: the GPUs of a replica, the number of replicas, and the division of its batch.

use serde_json::{Value as Json, json};

use std::collections::BTreeSet;

use super::{GPU_LIMIT, JobKey, KEY};
use crate::catalogue::{Recognised, recognise};
use crate::formats::draft::JobDraft;
use crate::formats::gpus::by_type;
use crate::formats::job_json::keyed;
use crate::formats::problem::ValueError;
use crate::formats::reader::ReaderValue;
use crate::formats::size::parse_size;
use crate::number::to_f64;
use crate::{ByType, ErrorId, GpuType, Job, Replica, Sharing};

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

/// Refuses keys that count single GPUs, replicas of several slices, and efficiencies for types without a
/// size.
fn check_replica(draft: &mut JobDraft<'_>) {
    let Some(replica) = draft.job.replica.clone() else { return };
    for key in OF_GPUS {
        if let Some(value) = draft.get(key) {
            let error = ValueError::new("cannot stand beside replica".to_owned()).id(ErrorId::KeysConflict);
            value.report(error.hint("use min_replicas and max_replicas"));
        }
    }
    let Some(value) = draft.get("replica") else { return };
    check_memory(draft, &replica, value);
    if draft.job.launch.copies.is_some() {
        value.report(
            ValueError::new("cannot stand beside copies, which have one GPU each".to_owned())
                .id(ErrorId::KeysConflict),
        );
    }
    let ByType::Each(sizes) = &replica.gpus else { return };
    for (gpu_type, &gpus) in sizes {
        if gpu_type.is_mig_slice() && gpus > 1 {
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

/// Refuses a replica without a size, with a suggestion if its memory is known, and sizes whose memory is too
/// small.
fn check_memory(draft: &JobDraft<'_>, replica: &Replica, value: &ReaderValue<'_>) {
    let has_gpus = value.entries_quietly().iter().any(|(key, _)| *key == "gpus");
    let job = &draft.job;
    let named = job.throughput.keys().chain(job.gpu_types.iter().flatten()).collect::<BTreeSet<&GpuType>>();
    let known = named.iter().filter_map(|gpu_type| Some((*gpu_type, recognise(gpu_type.as_str())?)));
    let known: Vec<(&GpuType, Recognised)> = known.collect();
    let Some(memory) = replica.memory else {
        if !has_gpus && value.is_map() {
            value.report(
                ValueError::new("is missing the required key gpus".to_owned()).id(ErrorId::MissingKey),
            );
        }
        return;
    };
    let gb = to_f64(memory.0) / 1e9;
    let sizes = known.iter().filter_map(|(gpu_type, known)| Some((*gpu_type, known.count_for(memory)?)));
    let sizes: Vec<String> = sizes.map(|(gpu_type, count)| format!("{gpu_type}: {count}")).collect();
    let proposal = if sizes.is_empty() {
        format!("hsched gpus --fits {gb}GB lists how many GPUs of each model hold that")
    } else {
        format!("by the table of GPUs: replica: {{gpus: {{{}}}}}", sizes.join(", "))
    };
    if !has_gpus {
        let error = ValueError::new("is missing the required key gpus".to_owned()).id(ErrorId::MissingKey);
        value.report(error.hint(proposal));
        return;
    }
    let lacks = |(gpu_type, known): &&(&GpuType, Recognised)| {
        let holds = |gpus: u32| known.most_memory().0.saturating_mul(u64::from(gpus)) >= memory.0;
        replica.gpus.of(gpu_type).is_some_and(|gpus| !holds(gpus))
    };
    if let Some((gpu_type, _)) = known.iter().find(lacks) {
        let message = format!("a replica on {gpu_type} has too little memory: it needs {gb} GB");
        value.report(ValueError::new(message).id(ErrorId::Replicas).hint(proposal));
    }
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
        draft.job.max_gpus = Some(most);
    }
}

/// Reports a GPU-counting key of a job without `replica` that contradicts the corresponding key for replicas.
fn same_as_gpus(draft: &JobDraft<'_>, key: &str, size: u32, replicas: u32) {
    if let Some(value) = draft.get(key).filter(|_| size != replicas) {
        let message = format!("{size} does not match the number of replicas, {replicas}, of one GPU each");
        value.report(ValueError::new(message).id(ErrorId::Replicas));
    }
}
