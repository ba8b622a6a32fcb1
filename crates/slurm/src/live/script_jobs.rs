//! The jobs of scripts in the queue, and the ends of jobs that have left it.
//!
//! A job array counts as one job: it runs from the start of its first task, and has completed when all of its
//! tasks have.

use std::collections::BTreeMap;

use super::observe::{UserQueue, end, is_after, reason};
use crate::record::one_line;
use crate::{CommandLine, ExitStatus, JobRecord, QueuedJob, SlurmState, sbatch, time};
use hsched_engine::live::Tag;
use hsched_engine::{End, QueueState, ScriptFacts, ScriptJob, ScriptSighting, Sighting};
use hsched_model::{JobId, Seconds, Time};

/// Ends of the tasks of an array or of the components of a heterogeneous job; one end for other jobs.
struct Ends {
    list: Vec<End>,
    /// Time at which the last of them ended.
    at: Option<Time>,
}

/// Returns the command that submits a script with its identifying comment; `path` is the file with its text.
pub fn script_command(script: &ScriptJob, path: &str) -> CommandLine {
    let tag = Tag::of(&script.key());
    let comment =
        script.comment.as_ref().map_or_else(|| tag.to_comment(), |comment| tag.to_comment_with(comment));
    let options: Vec<String> =
        script.options.iter().cloned().chain([format!("--comment={comment}")]).collect();
    sbatch::command(path, &options)
}

/// Returns the job of a script as shown in the queue; `None` if the queue does not show it, or shows only
/// part of its ended tasks.
pub(super) fn sighting(queue: &UserQueue<'_>, script: &ScriptJob) -> Option<ScriptSighting> {
    let jobs = queue.of_script(script);
    let first = jobs.iter().min_by_key(|queued| queued.id)?;
    let active: Vec<&&QueuedJob> = jobs.iter().filter(|queued| !queued.state.is_final()).collect();
    let facts = facts(&active, script);
    let state = if active.is_empty() {
        let ends = Ends {
            list: jobs.iter().map(|queued| script_end(&queued.state, queued.exit)).collect(),
            at: jobs
                .iter()
                .filter_map(|queued| moment(queued.end_time.as_deref()))
                .max_by(|a, b| a.0.total_cmp(&b.0)),
        };
        // The queue drops tasks one by one.
        let is_whole = script.tasks.is_none_or(|tasks| ends.list.len() as u64 >= tasks);
        is_whole.then(|| ends.judged(script.tasks)).flatten()?
    } else {
        let starts = jobs.iter().filter(|queued| queued.holds_nodes() || is_past_task(queued));
        let since = starts.clone().filter_map(|queued| moment(queued.start_time.as_deref()));
        let since = since.min_by(|a, b| a.0.total_cmp(&b.0));
        let is_array = script.tasks.is_some();
        let runs = starts.count() > 0 || is_array && script.submission.started.is_some();
        if runs { QueueState::Running { since, gpus: None } } else { QueueState::Pending }
    };
    let reason = reason(&jobs).filter(|_| state == QueueState::Pending);
    let sighting = Sighting {
        of: script.key(),
        job_id: base_id(first),
        submit_time: first.submit_time.clone(),
        state,
        reason,
    };
    Some(ScriptSighting { sighting, facts })
}

/// Returns whether an array task has run and ended.
fn is_past_task(queued: &QueuedJob) -> bool {
    queued.state.is_final()
        && queued.shown_id.contains('_')
        && queued.start_time.is_some()
        && !queued.nodes.is_empty()
}

/// Returns the id of the whole job to which a task or component belongs.
pub(super) fn base_id(queued: &QueuedJob) -> JobId {
    let array = queued.shown_id.split_once('_').and_then(|(id, _)| id.parse().ok());
    queued.het.map(|(leader, _)| leader).or(array.map(JobId)).unwrap_or(queued.id)
}

fn facts(active: &[&&QueuedJob], script: &ScriptJob) -> ScriptFacts {
    let Some(first) = active.first() else { return script.submission.facts.clone() };
    let holding: Vec<&&&QueuedJob> = active.iter().filter(|queued| queued.holds_nodes()).collect();
    let limit = |queued: &QueuedJob| {
        let (start, end) = (moment(queued.start_time.as_deref())?, moment(queued.end_time.as_deref())?);
        Some(end.since(start))
    };
    let limit: Option<Seconds> =
        if holding.is_empty() { first.time_left } else { holding.iter().find_map(|queued| limit(queued)) };
    let expected = active.iter().filter(|queued| holding.is_empty() && queued.state.is_pending());
    let expected = expected.filter_map(|queued| moment(queued.start_time.as_deref()));
    let nodes: Vec<&str> = holding.iter().map(|queued| queued.nodes.as_str()).collect();
    ScriptFacts {
        partition: Some(first.partition.clone()).filter(|name| !name.is_empty()),
        limit: limit.or(script.submission.facts.limit),
        expected_start: expected.min_by(|a, b| a.0.total_cmp(&b.0)),
        nodes: nodes.join(","),
        running_tasks: script.tasks.map(|_| holding.len() as u64),
    }
}

/// Returns how a script's job that has left the queue ended, from Slurm's records of it; `None` if they do
/// not say yet.
pub(super) fn recorded(script: &ScriptJob, records: &[JobRecord]) -> Option<ScriptSighting> {
    let base = script.submission.job_id?;
    let is_own = |record: &&JobRecord| {
        let is_part = record.id == base
            || record.array == Some(base)
            || record.het.is_some_and(|(leader, _)| leader == base);
        // A controller that loses its state assigns ids again.
        let is_new = match (script.submission.submit_time.as_deref(), record.submit_time.as_deref()) {
            // If Slurm has requeued the job since then, it has a later submit time.
            (Some(known), Some(submit_time)) => time::unix(known) <= time::latest_unix(submit_time),
            (None, Some(submit_time)) => is_after(script.submission.meant, submit_time),
            (_, None) => true,
        };
        is_part && is_new && record.name == one_line(&script.slurm_name)
    };
    let mut latest: BTreeMap<JobId, &JobRecord> = BTreeMap::new();
    for record in records.iter().filter(is_own) {
        let known = latest.entry(record.id).or_insert(record);
        if known.submit_time <= record.submit_time {
            *known = record;
        }
    }
    if latest.is_empty() || latest.values().any(|record| !record.settled) {
        return None;
    }
    let of_record = |record: &&JobRecord| match script_end(&record.state, record.exit) {
        End::Failed { .. } if record.out_of_memory => End::OutOfMemory,
        end => end,
    };
    let times = latest.values().filter_map(|record| moment(record.end_time.as_deref()));
    let ends =
        Ends { list: latest.values().map(of_record).collect(), at: times.max_by(|a, b| a.0.total_cmp(&b.0)) };
    let state = ends.judged(script.tasks)?;
    let submit_time = latest.values().next().and_then(|record| record.submit_time.clone());
    let sighting = Sighting { of: script.key(), job_id: base, submit_time, state, reason: None };
    Some(ScriptSighting { sighting, facts: script.submission.facts.clone() })
}

impl Ends {
    /// Returns the combined end; `None` if all visible parts have completed but some parts are missing.
    fn judged(self, tasks: Option<u64>) -> Option<QueueState> {
        let seen = self.list.len() as u64;
        let all = tasks.unwrap_or(seen);
        let mut others = self.list.iter().filter(|end| **end != End::Completed);
        let end = match others.next() {
            None if seen < all => return None,
            None => End::Completed,
            Some(first) if self.list.iter().all(|end| end == first) => first.clone(),
            Some(first) => {
                End::Tasks { failed: 1 + others.count() as u64, all, first: Box::new(first.clone()) }
            }
        };
        Some(QueueState::Ended { end, at: self.at, since: None })
    }
}

/// Returns how the job of a script ended; its exit status has no special meaning for hsched.
fn script_end(state: &SlurmState, exit: Option<ExitStatus>) -> End {
    match (state, exit) {
        (SlurmState::Failed, Some(exit)) if !exit.is_out_of_memory() => {
            End::Failed { exit: exit.code, signal: exit.signal }
        }
        _ => end(state, exit),
    }
}

fn moment(text: Option<&str>) -> Option<Time> {
    text.and_then(time::unix).map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FIELD_END;
    use crate::sacct;
    use hsched_engine::ScriptSubmission;
    use hsched_model::JobName;

    /// Returns a script that was submitted as job 7, with its submit time in the queue.
    fn script(slurm_name: &str, meant: &str, submit_time: Option<&str>) -> ScriptJob {
        let submission = ScriptSubmission {
            job_id: Some(JobId(7)),
            submit_time: submit_time.map(str::to_owned),
            ..ScriptSubmission::new("r", moment(Some(meant)).expect("a time"))
        };
        ScriptJob {
            name: JobName::new("a.sh").expect("a name"),
            slurm_name: slurm_name.into(),
            script: "/w/a.sh".into(),
            submitted_in: "/w".into(),
            workdir: "/w".into(),
            options: Vec::new(),
            comment: None,
            outputs: Vec::new(),
            tasks: None,
            may: std::collections::BTreeSet::new(),
            added: Time(0.0),
            last: (Time(0.0), String::new()),
            submission,
            end: None,
            next: None,
        }
    }

    /// Returns whether a completed job 7 with this name and submit time in accounting is that of the script.
    fn is_found(script: &ScriptJob, name: &str, submit_time: &str) -> bool {
        let end = "2026-11-01T09:00:00";
        let fields = ["7", "7", "COMPLETED", "0:0", "0:0", submit_time, end, end, "gpu", "n1", name, ""]
            .join(&FIELD_END.to_string());
        let (records, notes) = sacct::parse(&format!("{fields}\n")).expect("a record");
        assert!(notes.is_empty(), "{notes:?}");
        recorded(script, &records).is_some()
    }

    #[test]
    fn an_end_in_accounting_is_recognised_by_id_name_and_submit_time() {
        let meant = "2026-11-01T08:00:00";
        let spaced = script("my  job", meant, None);
        assert!(is_found(&spaced, "my  job", meant) && !is_found(&spaced, "my jobs", meant));
        let queued = script("a", meant, Some("2026-11-01T07:59:58"));
        assert!(is_found(&queued, "a", "2026-11-01T07:59:58"), "the controller's clock is behind");
        assert!(is_found(&queued, "a", "2026-11-01T08:30:00"), "requeued");
        assert!(!is_found(&queued, "a", "2026-11-01T07:59:57"), "another job with the same id");
        let unseen = script("a", meant, None);
        assert!(is_found(&unseen, "a", "2026-11-01T07:58:00"), "the controller's clock is behind");
        assert!(!is_found(&unseen, "a", "2026-11-01T07:00:00"), "another job with the same id");
    }
}
