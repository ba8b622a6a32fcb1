//! Job keys of the training.

use serde_json::json;

use super::{COUNT_LIMIT, JobKey, KEY, PlaceholderForm, Requirement};
use crate::formats::gpus::{by_type, read_speed};
use crate::formats::job_json::{command_json, keyed, speed_json};
use crate::formats::job_yaml::megabytes;
use crate::formats::jobs::label;
use crate::formats::launch::{path, read_command};
use crate::formats::problem::ValueError;
use crate::formats::reader::ReaderValue;
use crate::{Bytes, ErrorId, JobName};

/// Largest model: 2^53 bytes, the largest range in which a double represents every integer.
const MODEL_LIMIT: u64 = 1 << 53;

pub(super) const KEYS: &[JobKey] = &[
    JobKey {
        name: "name",
        form: "letters, digits, - _ .",
        help: "Name of the job; must be unique in the file.",
        needed: Requirement::Yes,
        is_name: true,
        filling: PlaceholderForm::Name,
        read: |value, job| {
            let name = |text: &str| {
                JobName::new(text).map_err(|error| ValueError::new(error.to_string()).id(ErrorId::NameFormat))
            };
            value.parsed(name).map(|name| job.name = name)
        },
        write: |job| Some(json!(job.name.as_str())),
        ..KEY
    },
    JobKey {
        name: "model",
        form: "text",
        help: "Name under which measured speeds are stored. Default: the job's name.",
        is_name: true,
        read: |value, job| value.parsed(label).map(|model| job.model = model),
        derive: Some(|job| job.name.as_str().clone_into(&mut job.model)),
        write: |job| Some(json!(job.model)),
        ..KEY
    },
    JobKey {
        name: "samples_per_epoch",
        form: "whole number",
        help: "Training samples per epoch. A job without samples_per_epoch, global_batch and model_size is a command that runs once, on one GPU.",
        needed: Requirement::ToDivide,
        read: |value, job| value.whole(1..=COUNT_LIMIT).map(|samples| job.samples_per_epoch = samples),
        write: |job| (!job.is_plain).then(|| json!(job.samples_per_epoch)),
        ..KEY
    },
    JobKey {
        name: "epochs",
        form: "whole number",
        help: "Total number of epochs. A job without samples_per_epoch, global_batch and model_size may leave it out: then its run is one epoch, which is done when the command returns 0.",
        needed: Requirement::ToDivide,
        read: |value, job| value.whole(1..=COUNT_LIMIT).map(|epochs| job.epochs = epochs),
        write: |job| (!job.is_command()).then(|| json!(job.epochs)),
        ..KEY
    },
    JobKey {
        name: "global_batch",
        form: "whole number",
        help: "Samples per step over all ranks. The same for every placement.",
        needed: Requirement::ToDivide,
        read: |value, job| value.whole(1..=COUNT_LIMIT).map(|batch| job.global_batch = batch),
        write: |job| (!job.is_plain).then(|| json!(job.global_batch)),
        ..KEY
    },
    JobKey {
        name: "model_size",
        form: "size, such as 46.8MB or 44.6MiB",
        help: "Bytes that the ranks exchange after each step.",
        needed: Requirement::ToDivide,
        read: |value, job| read_model_size(value).map(|size| job.model_size = size),
        write: |job| (!job.is_plain).then(|| json!(job.model_size.to_string())),
        write_yaml: |job, _| megabytes(job.model_size),
        ..KEY
    },
    JobKey {
        name: "syncs_per_epoch",
        form: "whole number",
        help: "Gradient exchanges per epoch. Default: one per step, samples_per_epoch / global_batch rounded up.",
        read: |value, job| value.whole(1..=COUNT_LIMIT).map(|syncs| job.syncs_per_epoch = syncs),
        derive: Some(|job| job.syncs_per_epoch = job.samples_per_epoch.div_ceil(job.global_batch)),
        write: |job| Some(json!(job.syncs_per_epoch)),
        ..KEY
    },
    JobKey {
        name: "throughput",
        form: "map from GPU type to number or {alpha_ms, beta_ms}",
        help: "Samples per second on one GPU of the type, or the time of a step: alpha_ms + beta_ms * local batch, in \
               milliseconds. The job does not use GPU types without a known throughput.",
        read: |value, job| by_type(value, read_speed).map(|speeds| job.throughput = speeds),
        write: |job| Some(keyed(&job.throughput, |&speed| speed_json(speed))),
        ..KEY
    },
    JobKey {
        name: "command",
        form: "list of words, or one shell line",
        help: "Command that each rank runs, such as [python, train.py] or \"python train.py --lr $LR\".",
        needed: Requirement::ToRun,
        filling: PlaceholderForm::ShellUnlessList,
        read: |value, job| read_command(value).map(|command| job.launch.command = command),
        write: |job| command_json(&job.launch.command),
        ..KEY
    },
    JobKey {
        name: "container",
        form: "path or address of an image",
        help: "Container image in which the command runs, started with the setting container_command (default: apptainer exec --nv). setup and node_setup run outside the container.",
        read: |value, job| value.parsed(path).map(|image| job.launch.container = Some(image)),
        write: |job| job.launch.container.as_ref().map(|image| json!(image)),
        ..KEY
    },
];

fn read_model_size(value: &ReaderValue<'_>) -> Option<Bytes> {
    let size = value.bytes()?;
    if size.0 > MODEL_LIMIT {
        value.report(
            ValueError::new(format!("must be at most {}, got {size}", Bytes(MODEL_LIMIT)))
                .id(ErrorId::SizeFormat),
        );
        return None;
    }
    Some(size)
}
