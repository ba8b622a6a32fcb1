//! Notes on the goals of jobs: rules that never apply, and deadlines in the past.

use std::collections::BTreeMap;

use hsched_model::{Deadline, Job, Stop, StopRule, Time};

/// Minimum number of jobs for a comparison.
const SWEEP: usize = 3;

/// Returns a sentence for each goal without effect.
pub(crate) fn remarks(jobs: &[Job], now: Time) -> Vec<String> {
    let mut sweeps: BTreeMap<&str, usize> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.stop.rule == StopRule::Halving) {
        *sweeps.entry(&job.model).or_default() += 1;
    }
    let remarks_of = |job: &Job| {
        let size = sweeps.get(job.model.as_str()).copied().unwrap_or(0);
        [passed(job, now), never_stops(job), no_value(job), alone(job, size)]
    };
    let remarks = jobs
        .iter()
        .flat_map(|job| remarks_of(job).into_iter().flatten().map(|what| format!("{}: {what}", job.name)));
    remarks.collect()
}

fn passed(job: &Job, now: Time) -> Option<String> {
    let Some(Deadline::At(at)) = job.deadline else { return None };
    (at < now).then(|| "its deadline has passed".to_owned())
}

/// Returns whether the rule can ever let a job stop.
fn may_stop(stop: &Stop) -> bool {
    stop.rule.max(stop.when_busy) > StopRule::Epochs
}

fn never_stops(job: &Job) -> Option<String> {
    let (epochs, from) = (job.epochs, job.stop.not_before);
    (may_stop(&job.stop) && from >= epochs).then(|| {
        format!(
            "never stops early: stop.not_before is {from}, but the job has only {epochs} \
            epochs"
        )
    })
}

fn no_value(job: &Job) -> Option<String> {
    let goes_by_target = job.stop.rule == StopRule::Target || job.stop.when_busy == StopRule::Target;
    let has_value = job.target.as_ref().is_some_and(|target| target.value.is_some());
    (goes_by_target && !has_value).then(|| {
        "the stop rule target acts like the rule best, because the \
        target has no value"
            .to_owned()
    })
}

fn alone(job: &Job, size: usize) -> Option<String> {
    let is_alone = job.stop.rule == StopRule::Halving && size < SWEEP;
    is_alone.then(|| {
        format!(
            "the stop rule halving needs at least {SWEEP} jobs of one model, and {} has {size}",
            job.model
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::formats;

    #[test]
    fn what_can_never_hold_is_said() {
        let job = |name: &str, rest: &str| {
            format!(
                "- {{name: {name}, samples_per_epoch: 10, epochs: 9, global_batch: 1, model_size: 0, throughput: {{a: 1}}, command: x, target: {{metric: loss, mode: min}}, {rest}}}\n"
            )
        };
        let text = [
            "jobs:\n".to_owned(),
            job("late", "deadline: 2020-01-01T00:00:00Z"),
            job("never", "stop: {rule: best, not_before: 9}"),
            job("bare", "stop: {when_busy: target}"),
            job("alone", "stop: {rule: halving}"),
            job("fine", "stop: {rule: best, not_before: 8}, deadline: 1h"),
        ];
        let jobs = formats::jobs::parse(&text.concat()).expect("jobs");
        let expected = [
            "late: its deadline has passed",
            "never: never stops early: stop.not_before is 9, but the job has only 9 epochs",
            "bare: the stop rule target acts like the rule best, because the target has no value",
            "alone: the stop rule halving needs at least 3 jobs of one model, and alone has 1",
        ];
        assert_eq!(remarks(&jobs, Time(1.8e9)), expected);
    }
}
