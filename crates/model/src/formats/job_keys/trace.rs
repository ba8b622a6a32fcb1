//! Keys of a job that only simulations and policies of the lab use: arrival, progress and held GPUs in a trace.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::{COUNT_LIMIT, GPU_LIMIT, JobKey, KEY};
use crate::formats::draft::JobDraft;
use crate::formats::job_json::{duration_json, filled_list};
use crate::formats::problem::{ValueError, quoted};
use crate::formats::reader::{ReaderValue, all};
use crate::{ErrorId, GpuType, Job, NodeName};

pub(super) const KEYS: &[JobKey] = &[
    JobKey {
        name: "arrival",
        form: "duration, such as 90s or 1h30m",
        help: "Arrival time of the job, from the start of the trace. Only hsched simulate uses it.",
        default: "0s",
        read: |value, job| value.duration().map(|time| job.arrival = time),
        write: |job| (job.arrival.0 > 0.0).then(|| duration_json(job.arrival)),
        ..KEY
    },
    JobKey {
        name: "sync_scale",
        form: "whole number",
        help: "Number of equal parts of the global batch whose gradients are synchronised together. The policies hare, hlas and hlas-p distribute these parts: one GPU may compute several of them in turn.",
        default: "1",
        read: |value, job| value.whole(1..=COUNT_LIMIT).map(|parts| job.sync_scale = parts),
        settle: check_sync_scale,
        write: |job| (job.sync_scale > 1).then(|| json!(job.sync_scale)),
        ..KEY
    },
    JobKey {
        name: "predicted_epochs",
        form: "whole number",
        help: "Minimum number of epochs that the job is expected to train. Only the policy hlas-p uses it.",
        default: "0",
        read: |value, job| value.whole(0..=COUNT_LIMIT).map(|epochs| job.predicted_epochs = epochs),
        write: |job| (job.predicted_epochs > 0).then(|| json!(job.predicted_epochs)),
        ..KEY
    },
    JobKey {
        name: "losses",
        form: "list of numbers",
        help: "Loss after each epoch, in a trace: the policy hlas-p predicts from the losses of the finished epochs. Only hsched simulate uses it.",
        read: |value, job| {
            all(value.items().iter().map(ReaderValue::number)).map(|losses| job.losses = losses)
        },
        write: |job| filled_list(&job.losses),
        ..KEY
    },
    JobKey {
        name: "steps_done",
        form: "number",
        help: "Number of steps, each of one global batch, that are done when the trace starts. Only hsched simulate uses it.",
        default: "0",
        read: |value, job| {
            let fits = |steps: f64| (0.0..=1e15).contains(&steps).then_some(steps);
            value.ranged(fits, "from 0 to 1e15").map(|steps| job.steps_done = steps)
        },
        write: |job| (job.steps_done > 0.0).then(|| json!(job.steps_done)),
        ..KEY
    },
    JobKey {
        name: "held",
        form: "map from node/type to whole number",
        help: "GPUs that the job holds when the trace starts, such as {gpu01/v100: 2}. Only hsched simulate uses it.",
        read: |value, job| read_held(value).map(|held| job.held = held),
        write: |job| (!job.held.is_empty()).then(|| held_json(job)),
        ..KEY
    },
];

fn check_sync_scale(draft: &mut JobDraft<'_>) {
    let (batch, scale) = (draft.job.global_batch, draft.job.sync_scale);
    if let Some(value) =
        draft.get("sync_scale").filter(|_| draft.is_sound(&["global_batch"]) && scale > batch)
    {
        value.report(
            ValueError::new(format!("{scale} is more than the samples of global_batch {batch}"))
                .id(ErrorId::NumberRange),
        );
    }
}

/// Reads GPUs by node and type: `gpu01/v100: 2`.
fn read_held(value: &ReaderValue<'_>) -> Option<BTreeMap<(NodeName, GpuType), u32>> {
    let entries = all(value.entries().into_iter().map(|(key, item)| {
        let place = key
            .split_once('/')
            .and_then(|(node, gpu_type)| Some((NodeName::new(node).ok()?, GpuType::new(gpu_type)?)));
        let wrong = || {
            ValueError::new(format!("{} is not NODE/TYPE, such as gpu01/v100", quoted(key)))
                .id(ErrorId::NameFormat)
        };
        let place = item.accept(place.ok_or_else(wrong));
        let count = item.whole_u32(1..=GPU_LIMIT);
        Some((place?, count?))
    }));
    Some(entries?.into_iter().collect())
}

fn held_json(job: &Job) -> Json {
    let entry = |((node, gpu_type), count): (&(NodeName, GpuType), &u32)| {
        (format!("{}/{gpu_type}", node.as_str()), json!(count))
    };
    job.held.iter().map(entry).collect()
}
