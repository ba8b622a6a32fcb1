//! Keys of a job: when it may start, how it is retried and watched, and when it is due.

use serde_json::{Value as Json, json};

use super::{JobKey, KEY};
use crate::formats::after;
use crate::formats::draft::JobDraft;
use crate::formats::goals::{deadline_text, read_deadline};
use crate::formats::job_json::filled_list;
use crate::formats::problem::{ValueError, quoted};
use crate::formats::reader::{ReaderValue, all};
use crate::{ErrorId, Estimates, JobName, StuckRule};

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
];

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
