//! Keys of a job: its start and end, its target, trace data and its variants.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::{COUNT_LIMIT, GPU_LIMIT, JobKey, KEY, PlaceholderForm, Requirement};
use crate::formats::after;
use crate::formats::draft::JobDraft;
use crate::formats::goals::{deadline_text, read_deadline};
use crate::formats::job_json::{duration_json, filled_list};
use crate::formats::jobs::label;
use crate::formats::problem::{ValueError, quoted};
use crate::formats::reader::{ReaderValue, all};
use crate::formats::sweep::scalar_json;
use crate::{
    ErrorId, Estimates, GoalMode, GpuType, Job, JobName, NodeName, Stop, StopRule, StuckRule, Target, Variant,
};

pub(super) const KEYS: &[JobKey] = &[
    JobKey {
        name: "estimate",
        form: "off, learnt or all",
        help: "Whether the job may use GPU types that this file does not list and on which its model was never measured, at estimated speeds. learnt estimates from other models that were measured on both types; all also uses the table of GPUs. Default: the option --estimate, else the setting estimate.",
        read: |value, job| value.word_of(&Estimates::NAMES).map(|which| job.estimate = Some(which)),
        write: |job| job.estimate.map(|which| json!(which.name())),
        ..KEY
    },
    JobKey {
        name: "retries",
        form: "whole number",
        help: "Number of times that hsched watch resubmits the job after a failure. Node failures, preemption, and stops after progress do not count.",
        default: "3",
        read: |value, job| value.whole_u32(0..=1_000_000).map(|retries| job.retries = retries),
        write: |job| Some(json!(job.retries)),
        ..KEY
    },
    JobKey {
        name: "at_most",
        form: "whole number",
        help: "Most runs of a sweep that hsched watch and hsched run have in the queue or at work at a time. Default: no limit.",
        read: |value, job| value.whole_u32(1..=1_000_000).map(|most| job.at_most = Some(most)),
        write: |job| job.at_most.map(Json::from),
        ..KEY
    },
    JobKey {
        name: "promising_first",
        form: "true or false",
        help: "Whether, of the runs of a sweep that wait, those start first whose curves predict the best metric at the last epoch; runs without a prediction follow in the order of the file. Needs a target.",
        default: "false",
        read: |value, job| value.switch().map(|is_so| job.promising_first = is_so),
        settle: check_promising,
        write: |job| job.promising_first.then_some(Json::from(true)),
        ..KEY
    },
    JobKey {
        name: "tags",
        form: "word or list of words",
        help: "Words by which jobs are chosen later, in --tag of hsched status, results, history and cancel. Letters, digits and - _ . are allowed.",
        read: |value, job| tags(value).map(|tags| job.tags = tags),
        write: |job| filled_list(&job.tags),
        ..KEY
    },
    JobKey {
        name: "stuck",
        form: "warn, stop or restart",
        help: "What hsched watch and hsched run do if a training is stuck (its GPUs are idle, a rank is stopped, or it has made no step for long): warn, stop the job, which then fails, or restart it, which uses a retry.",
        default: "warn",
        read: |value, job| value.word_of(&StuckRule::NAMES).map(|rule| job.stuck = rule),
        write: |job| (job.stuck != StuckRule::Warn).then(|| json!(job.stuck.name())),
        ..KEY
    },
    JobKey {
        name: "avoid_slow",
        form: "true or false",
        help: "Whether hsched watch and hsched submit keep the job off slow nodes: those on which ranks took at least 15 % longer than on other nodes with the same GPUs, three times in a row. They are excluded from its requests (--exclude) and tried again after a week.",
        default: "false",
        read: |value, job| value.switch().map(|avoids| job.avoid_slow = avoids),
        write: |job| job.avoid_slow.then_some(Json::from(true)),
        ..KEY
    },
    JobKey {
        name: "preflight",
        form: "true or false",
        help: "Whether the job's nodes are checked before its first step, in at most 20 s: the GPUs answer, their memory is free, and the links between them work, where the job's Python has torch. If a node fails, the job goes elsewhere and loses no retry.",
        default: "false",
        read: |value, job| value.switch().map(|checks| job.preflight = checks),
        write: |job| job.preflight.then_some(Json::from(true)),
        ..KEY
    },
    JobKey {
        name: "after",
        form: "name or list of names",
        help: "Jobs that must complete before this one starts, such as the job that prepares its data. If one of them fails without a retry left or is cancelled, this job also fails. The name of a job with a sweep stands for all its variants.",
        read: |value, job| after::read(value).map(|names| job.after = names),
        write: |job| filled_list(job.after.iter().map(JobName::as_str)),
        ..KEY
    },
    JobKey {
        name: "deadline",
        form: "date and time, such as 2030-01-31T18:00:00, or duration, such as 12h",
        help: "Time by which the job should complete. A duration counts from the time when the job is added; in a trace, from the start of the trace. hsched status warns if the job is expected to be late, and the policy mlf-h prefers jobs whose deadline is near.",
        read: |value, job| read_deadline(value).map(|deadline| job.deadline = Some(deadline)),
        write: |job| job.deadline.map(|deadline| json!(deadline_text(deadline))),
        ..KEY
    },
    JobKey {
        name: "urgency",
        form: "0 to 10",
        help: "How much the job's progress matters to the policy mlf-h.",
        default: "1",
        read: |value, job| {
            let fits = |number: f64| (0.0..=10.0).contains(&number).then_some(number);
            value.ranged(fits, "from 0 to 10").map(|urgency| job.urgency = urgency)
        },
        write: |job| (job.urgency != 1.0).then(|| json!(job.urgency)),
        ..KEY
    },
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
    JobKey {
        name: "target",
        help: "Metric in the reports of rank 0 that the job trains for, and the value that it should reach (optional). A target alone never ends the job: see stop.",
        inner: &[
            JobKey {
                name: "metric",
                form: "metric",
                needed: Requirement::Yes,
                read: |value, job| value.parsed(label).map(|metric| target(job).metric = metric),
                write: |job| job.target.as_ref().map(|target| json!(target.metric)),
                ..KEY
            },
            JobKey {
                name: "value",
                form: "value",
                read: |value, job| value.number().map(|number| target(job).value = Some(number)),
                write: |job| job.target.as_ref()?.value.map(Json::from),
                ..KEY
            },
            JobKey {
                name: "mode",
                form: "mode (min or max)",
                needed: Requirement::Yes,
                read: |value, job| value.word_of(&GoalMode::NAMES).map(|mode| target(job).mode = mode),
                write: |job| job.target.as_ref().map(|target| mode_json(target.mode)),
                ..KEY
            },
        ],
        ..KEY
    },
    JobKey {
        name: "stop",
        help: "Stops the job early, by the metric of its target.",
        inner: STOP,
        settle: check_stop,
        ..KEY
    },
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

const STOP: &[JobKey] = &[
    JobKey {
        name: "rule",
        form: "rule",
        help: "rule: epochs (never, the default), best (no better value is expected), target (the value is reached) or halving (after a ninth and after a third of the epochs, only the best third of the jobs of its sweep continues).",
        read: |value, job| value.word_of(&StopRule::NAMES).map(|rule| job.stop.rule = rule),
        write: |job| (job.stop != Stop::default()).then(|| json!(job.stop.rule.name())),
        ..KEY
    },
    JobKey {
        name: "when_busy",
        form: "when_busy",
        help: "when_busy: the rule while other jobs wait, if it is weaker than rule.",
        read: |value, job| value.word_of(&StopRule::OF_CURVE).map(|rule| job.stop.when_busy = rule),
        write: |job| (job.stop != Stop::default()).then(|| json!(job.stop.when_busy.name())),
        ..KEY
    },
    JobKey {
        name: "patience",
        form: "patience",
        help: "patience: also stop after this many epochs without a better value.",
        read: |value, job| value.whole(1..=COUNT_LIMIT).map(|epochs| job.stop.patience = Some(epochs)),
        write: |job| job.stop.patience.map(Json::from),
        ..KEY
    },
    JobKey {
        name: "not_before",
        form: "not_before",
        help: "not_before: minimum number of epochs, such as those before the last change of the learning rate.",
        read: |value, job| value.whole(0..=COUNT_LIMIT).map(|epochs| job.stop.not_before = epochs),
        write: |job| (job.stop.not_before > 0).then(|| json!(job.stop.not_before)),
        ..KEY
    },
    JobKey {
        name: "brackets",
        form: "brackets",
        help: "brackets (1): groups in which halving compares the jobs of a sweep; each group is judged for the first time a rung later than the one before it, and has a third of its jobs.",
        read: |value, job| value.whole_u32(1..=8).map(|brackets| job.stop.brackets = brackets),
        write: |job| (job.stop.brackets > 1).then(|| json!(job.stop.brackets)),
        ..KEY
    },
    JobKey {
        name: "confidence",
        form: "confidence",
        help: "confidence (0.95): probability that a prediction must reach to stop the job.",
        read: |value, job| {
            let fits = |number: f64| (0.5..1.0).contains(&number).then_some(number);
            value.ranged(fits, "at least 0.5 and below 1").map(|confidence| job.stop.confidence = confidence)
        },
        write: |job| {
            let confidence = job.stop.confidence;
            (confidence != Stop::default().confidence).then(|| json!(confidence))
        },
        ..KEY
    },
    JobKey {
        name: "give_up",
        form: "give_up",
        help: "give_up (false): also stop when the value is out of reach. See docs/stopping.md.",
        read: |value, job| value.switch().map(|give_up| job.stop.give_up = give_up),
        write: |job| job.stop.give_up.then_some(Json::from(true)),
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

/// Reports a rule without a metric.
fn check_stop(draft: &mut JobDraft<'_>) {
    let goes_by_metric = draft.job.stop.rule.max(draft.job.stop.when_busy) > StopRule::Epochs;
    // An invalid target is reported separately.
    let is_wrong = goes_by_metric && draft.is_sound(&["stop"]) && draft.get("target").is_none();
    if let Some(value) = draft.get("stop").filter(|_| is_wrong) {
        let error = ValueError::new("needs a metric, but the job has no target").id(ErrorId::TargetMissing);
        value.report(error.hint("add target: {metric: loss, mode: min}; the rule target also needs a value"));
    }
}

/// Reads tags: a single one or a list.
fn tags(value: &ReaderValue<'_>) -> Option<Vec<String>> {
    let tag = |item: &ReaderValue<'_>| {
        item.parsed(|text| {
            let wrong = || {
                let message = format!("{} is not a tag: use letters, digits and - _ .", quoted(text));
                ValueError::new(message).id(ErrorId::NameFormat)
            };
            JobName::new(text).map(|name| name.to_string()).map_err(|_| wrong())
        })
    };
    let read = if value.is_list() { all(value.items().iter().map(tag))? } else { vec![tag(value)?] };
    let mut tags: Vec<String> = Vec::new();
    for tag in read {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    Some(tags)
}

/// Reports a problem if runs are sorted by a metric but none is named.
fn check_promising(draft: &mut JobDraft<'_>) {
    let is_wrong = draft.job.promising_first && draft.get("target").is_none();
    if let Some(value) = draft.get("promising_first").filter(|_| is_wrong) {
        let error = ValueError::new("needs a metric, but the job has no target").id(ErrorId::TargetMissing);
        value.report(error.hint("add target: {metric: loss, mode: min}"));
    }
}

/// Returns the variant of the job being read.
fn variant(job: &mut Job) -> &mut Variant {
    job.variant.get_or_insert_with(|| Variant { sweep: String::new(), parameters: serde_json::Map::new() })
}

/// Returns the target of the job being read.
fn target(job: &mut Job) -> &mut Target {
    job.target.get_or_insert_with(|| Target { metric: String::new(), value: None, mode: GoalMode::Min })
}

fn mode_json(mode: GoalMode) -> Json {
    match mode {
        GoalMode::Min => json!("min"),
        GoalMode::Max => json!("max"),
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
