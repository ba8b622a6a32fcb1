//! Keys of a job: the types and numbers of GPUs that it may use, and the division of its batch.

use serde_json::{Value as Json, json};

use super::{COUNT_LIMIT, GPU_LIMIT, JobKey, KEY};
use crate::formats::draft::JobDraft;
use crate::formats::gpus::{by_type, read_types};
use crate::formats::job_json::keyed;
use crate::formats::problem::{ValueError, quoted};
use crate::formats::reader::ReaderValue;
use crate::formats::size::parse_size;
use crate::formats::yaml::ValueKind;
use crate::{ErrorId, GpuType, Precision};

pub(super) const KEYS: &[JobKey] = &[
    JobKey {
        name: "weight",
        form: "0.000001 to 1000000",
        help: "Weight of the job in `--objective weighted`.",
        default: "1",
        read: |value, job| {
            // Larger ratios of weights would lose precision in sums of floats.
            let fits = |weight: f64| (1e-6..=1e6).contains(&weight).then_some(weight);
            value.ranged(fits, "from 0.000001 to 1000000").map(|weight| job.weight = weight)
        },
        write: |job| Some(json!(job.weight)),
        ..KEY
    },
    JobKey {
        name: "min_gpus",
        form: "whole number",
        help: "Minimum number of GPUs.",
        default: "1",
        read: |value, job| value.whole_u32(1..=GPU_LIMIT).map(|gpus| job.min_gpus = gpus),
        write: |job| job.replica.is_none().then(|| json!(job.min_gpus)),
        ..KEY
    },
    JobKey {
        name: "max_gpus",
        form: "whole number",
        help: "Maximum number of GPUs. Default: no limit.",
        derive: Some(|job| job.max_gpus = job.is_plain.then_some(1)),
        read: |value, job| value.whole_u32(1..=GPU_LIMIT).map(|gpus| job.max_gpus = Some(gpus)),
        settle: check_range,
        write: |job| job.max_gpus.map(Json::from),
        ..KEY
    },
    JobKey {
        name: "gpus",
        form: "whole number",
        help: "Number of GPUs that the user requests. Without min_gpus and max_gpus, it sets both. With them, policies that give every job a fixed number of GPUs use it, and other policies use the range. Default: min_gpus.",
        read: |value, job| read_gpus(value).map(|gpus| job.gpus = Some(gpus)),
        settle: settle_gpus,
        write: |job| job.gpus.map(Json::from),
        ..KEY
    },
    JobKey {
        name: "gpu_types",
        form: "list of GPU types",
        help: "GPU types that the job may use. Default: all with a known throughput.",
        read: |value, job| read_types(value).map(|types| job.gpu_types = Some(types)),
        write: |job| job.gpu_types.as_ref().map(|types| types.iter().map(GpuType::as_str).collect()),
        ..KEY
    },
    JobKey {
        name: "max_batch",
        form: "map from GPU type to whole number",
        help: "Largest batch that fits in the memory of one GPU of the type. Default: no limit.",
        read: |value, job| {
            by_type(value, |item| item.whole(1..=COUNT_LIMIT)).map(|batches| job.max_batch = batches)
        },
        write: |job| Some(keyed(&job.max_batch, |&batch| json!(batch))),
        ..KEY
    },
    JobKey {
        name: "slots",
        form: "whole number",
        help: "Number of runs like this that share a GPU in hsched run, each on one slot of it. Default: 1.",
        read: |value, job| value.whole_u32(1..=64).map(|slots| job.slots = Some(slots)),
        write: |job| job.slots.map(Json::from),
        ..KEY
    },
    JobKey {
        name: "max_memory",
        form: "size, such as 9GiB",
        help: "Maximum GPU memory that a rank needs. In hsched run with slots, a run that needs more than its slot has gets a GPU of its own, and a run that reports more is named in a message. Default: unknown.",
        read: |value, job| value.parsed(parse_size).map(|size| job.max_memory = Some(size)),
        write: |job| job.max_memory.map(|size| json!(size.to_string())),
        ..KEY
    },
    JobKey {
        name: "accumulate",
        form: "true or false",
        help: "Whether to use gradient accumulation when a local batch does not fit in memory.",
        default: "true",
        read: |value, job| value.switch().map(|accumulate| job.accumulate = accumulate),
        write: |job| Some(json!(job.accumulate)),
        ..KEY
    },
    JobKey {
        name: "batch_quantum",
        form: "whole number",
        help: "Local batches are multiples of this.",
        default: "1",
        read: |value, job| value.whole(1..=COUNT_LIMIT).map(|quantum| job.batch_quantum = quantum),
        settle: check_batches,
        write: |job| Some(json!(job.batch_quantum)),
        ..KEY
    },
    JobKey {
        name: "overlap",
        form: "number from 0, below 1",
        help: "Fraction of the communication that overlaps with computation.",
        default: "0",
        read: |value, job| {
            let fits = |part: f64| (0.0..1.0).contains(&part).then_some(part);
            value.ranged(fits, "at least 0 and below 1").map(|part| job.overlap = part)
        },
        write: |job| Some(json!(job.overlap)),
        ..KEY
    },
    JobKey {
        name: "precision",
        form: "fp32, tf32, fp16 or bf16",
        help: "Precision of the training. Jobs in tf32 and bf16 only use GPUs that support it (Ampere or newer).",
        read: |value, job| value.word_of(&Precision::NAMES).map(|precision| job.precision = Some(precision)),
        write: |job| job.precision.map(|precision| json!(precision.to_string())),
        ..KEY
    },
];

/// Reads the number of GPUs; for `v100:2`, as in a request to Slurm, the error names the corresponding keys.
fn read_gpus(value: &ReaderValue<'_>) -> Option<u32> {
    if let ValueKind::Scalar { text, .. } = &value.node().kind
        && let Some((name, count)) = text.rsplit_once(':')
        && let (Some(gpu_type), Ok(count)) = (GpuType::new(name), count.parse::<u32>())
    {
        let error = ValueError::new(format!("must be a whole number, got {}", quoted(text)))
            .id(ErrorId::NumberFormat);
        value.report(error.hint(format!("write gpus: {count} and gpu_types: [{gpu_type}]")));
        return None;
    }
    value.whole_u32(1..=GPU_LIMIT)
}

fn check_range(draft: &mut JobDraft<'_>) {
    let min = draft.job.min_gpus;
    if let Some((max, value)) = draft.job.max_gpus.zip(draft.get("max_gpus"))
        && min > max
    {
        value.report(ValueError::new(format!("{max} is less than min_gpus {min}")).id(ErrorId::GpuRange));
    }
}

/// Fixes the number of GPUs if it stands alone, and checks it against a range otherwise.
fn settle_gpus(draft: &mut JobDraft<'_>) {
    let Some((gpus, value)) = draft.job.gpus.zip(draft.get("gpus")) else { return };
    let (min, max) = (draft.job.min_gpus, draft.job.max_gpus);
    if gpus < min {
        value.report(ValueError::new(format!("{gpus} is less than min_gpus {min}")).id(ErrorId::GpuRange));
    }
    // A plain job has a limit without the key; `check_batches` compares with it.
    if let Some(max) = max.filter(|max| gpus > *max && draft.get("max_gpus").is_some()) {
        value.report(ValueError::new(format!("{gpus} is more than max_gpus {max}")).id(ErrorId::GpuRange));
    }
    if draft.get("min_gpus").is_none() && draft.get("max_gpus").is_none() {
        (draft.job.min_gpus, draft.job.max_gpus) = (gpus, Some(gpus));
    }
}

fn check_batches(draft: &mut JobDraft<'_>) {
    if !draft.is_sound(&["global_batch", "batch_quantum"]) {
        return;
    }
    let (batch, quantum) = (draft.job.global_batch, draft.job.batch_quantum);
    if batch % quantum != 0 {
        if let Some(value) = draft.get("batch_quantum") {
            value.report(
                ValueError::new(format!("{quantum} does not divide global_batch {batch}"))
                    .id(ErrorId::GpuRange),
            );
        }
        return;
    }
    let (min, most) = (draft.job.min_gpus, batch / quantum);
    if let Some(value) = draft.get("min_gpus").or_else(|| draft.get("gpus"))
        && u64::from(min) > most
    {
        let message = format!("{min} is more than {most}, the largest number of ranks for global_batch");
        let plain = || {
            let message = format!("{min} is more than 1, and a job without global_batch runs on one GPU");
            ValueError::new(message)
                .id(ErrorId::GpuRange)
                .hint("to train on several, give samples_per_epoch, epochs, global_batch and model_size")
        };
        let error = ValueError::new(message).id(ErrorId::GpuRange);
        value.report(if draft.job.is_plain { plain() } else { error });
    }
}
