//! Keys of a job's target, and of the rule that stops the job early.

use serde_json::{Value as Json, json};

use super::{COUNT_LIMIT, JobKey, KEY, Requirement};
use crate::formats::draft::JobDraft;
use crate::formats::jobs::label;
use crate::formats::problem::ValueError;
use crate::{ErrorId, GoalMode, Job, Stop, StopRule, Target};

pub(super) const KEYS: &[JobKey] = &[
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

/// Reports a rule without a metric, or without epochs between which it could stop the job.
fn check_stop(draft: &mut JobDraft<'_>) {
    let goes_by_metric = draft.job.stop.rule.max(draft.job.stop.when_busy) > StopRule::Epochs;
    let Some(value) = draft.get("stop").filter(|_| goes_by_metric && draft.is_sound(&["stop"])) else {
        return;
    };
    // Invalid targets and epochs are reported separately.
    if draft.get("target").is_none() {
        let error = ValueError::new("needs a metric, but the job has no target").id(ErrorId::TargetMissing);
        value.report(error.hint("add target: {metric: loss, mode: min}; the rule target also needs a value"));
    }
    if draft.job.is_command() && draft.is_sound(&["epochs"]) {
        let error = ValueError::new("needs the number of epochs").id(ErrorId::MissingKey);
        value.report(error.hint("add epochs: 3, with the number that the program reports"));
    }
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
