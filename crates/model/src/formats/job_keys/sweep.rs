//! Keys of sweeps, and of the jobs that a sweep made.

use serde_json::json;

use super::{JobKey, KEY, PlaceholderForm, Requirement};
use crate::formats::reader::{ReaderValue, all};
use crate::formats::sweep::scalar_json;
use crate::{Job, Variant};

pub(super) const KEYS: &[JobKey] = &[
    JobKey {
        name: "sweep",
        form: "map from key to list of values",
        help: "One job for each combination of the values, in order, named after the values: sweep: {lr: [0.1, 0.01]} makes NAME-lr0.1 and NAME-lr0.01. Other keys of the job may contain placeholders such as {lr}. The environment has each value under the key in capitals, such as LR. A sweep beside jobs applies to all jobs of the file.",
        // The sweep is read before the job, so a variant has none.
        filling: PlaceholderForm::Nothing,
        ..KEY
    },
    JobKey {
        name: "search",
        form: "map of samples (whole number), seed (whole number, 0)",
        help: "Draws this many combinations of the values of sweep at random, instead of one job for each: search: {samples: 50, seed: 3} makes NAME-s1 to NAME-s50. Values of sweep may then also be ranges: {log_uniform: [1e-5, 1e-1]}, {uniform: [0, 0.5]} or {choice: [a, b]}. With more samples, the first ones stay the same.",
        filling: PlaceholderForm::Nothing,
        ..KEY
    },
    JobKey {
        name: "variant",
        help: "Which combination of a sweep's values the job is. hsched writes it into plans for the jobs that a sweep made, and hsched results reads it.",
        inner: &[
            JobKey {
                name: "sweep",
                form: "sweep (name of the job with the sweep)",
                needed: Requirement::Yes,
                read: |value, job| value.text().map(|name| name.clone_into(&mut variant(job).sweep)),
                write: |job| job.variant.as_ref().map(|variant| json!(variant.sweep)),
                ..KEY
            },
            JobKey {
                name: "parameters",
                form: "parameters (map from key to value)",
                needed: Requirement::Yes,
                read: |value, job| {
                    let entries = value.entries();
                    let scalar = |(key, item): &(&str, ReaderValue<'_>)| {
                        item.text().map(|_| ((*key).to_owned(), scalar_json(item.node())))
                    };
                    let entries = all(entries.iter().map(scalar))?;
                    variant(job).parameters = entries.into_iter().collect();
                    Some(())
                },
                write: |job| job.variant.as_ref().map(|variant| json!(variant.parameters)),
                ..KEY
            },
        ],
        ..KEY
    },
];

/// Returns the variant of the job being read.
fn variant(job: &mut Job) -> &mut Variant {
    job.variant.get_or_insert_with(|| Variant { sweep: String::new(), parameters: serde_json::Map::new() })
}
