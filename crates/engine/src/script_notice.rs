//! Compares Slurm's view of the jobs of scripts with the state and returns the differences as events.

use crate::{Event, News, Observation, QueueState, Rules, ScriptFacts, ScriptJob, Sighting, Stage};

/// The job of a script as listed by Slurm.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptSighting {
    pub sighting: Sighting,
    pub facts: ScriptFacts,
}

/// Returns the events of a script's job since the state was last updated.
pub(super) fn script_news(script: &ScriptJob, seen: &Observation) -> Vec<Event> {
    if script.is_between() {
        return Vec::new();
    }
    let key = script.key();
    let sighting = seen.scripts.iter().find(|sighting| sighting.sighting.of == key);
    let news = match sighting {
        Some(_) if script.is_over() && !script.is_lost() => Vec::new(),
        Some(ScriptSighting { sighting, facts }) => shown(script, sighting, facts, seen),
        None if script.is_over() => Vec::new(),
        None => missing(script, seen).into_iter().collect(),
    };
    news.into_iter().map(|news| Event::News { of: key.clone(), news }).collect()
}

fn shown(script: &ScriptJob, sighting: &Sighting, facts: &ScriptFacts, seen: &Observation) -> Vec<News> {
    let submission = &script.submission;
    let (job_id, submit_time) = (sighting.job_id, sighting.submit_time.clone());
    let is_known = submission.job_id == Some(job_id)
        && submission.submit_time == submit_time
        && submission.missing.is_none()
        && !script.is_over();
    let mut news = Vec::new();
    match &sighting.state {
        QueueState::Pending => {
            let is_queued = matches!(submission.stage, Stage::Pending | Stage::Stopping { .. })
                && submission.started.is_none();
            news.extend((!(is_known && is_queued)).then_some(News::Queued { job_id, submit_time }));
        }
        QueueState::Running { since, .. } => {
            let at = since.unwrap_or(seen.at);
            let is_new = !is_known || submission.started.is_none();
            news.extend(is_new.then_some(News::Started { job_id, submit_time, at, gpus: None }));
        }
        // The job was too short to be seen running. A job that ended before it was presumed lost stays ended.
        QueueState::Ended { .. } if !script.is_over() => {
            news.extend((!is_known).then_some(News::Queued { job_id, submit_time }));
        }
        QueueState::Ended { .. } | QueueState::NotStarted(_) => {}
    }
    let reason = sighting.reason.clone();
    news.extend(reason.filter(|reason| submission.reason.as_ref() != Some(&reason.text)).map(News::Waits));
    if let QueueState::Ended { end, at, .. } = &sighting.state {
        news.push(News::Ended { end: end.clone(), at: at.unwrap_or(seen.at) });
    } else if !facts.is_like(&submission.facts) {
        news.push(News::Facts(facts.clone()));
    }
    news
}

/// Returns the event for a submission that Slurm does not list.
fn missing(script: &ScriptJob, seen: &Observation) -> Option<News> {
    let Some(since) = script.submission.missing else { return Some(News::Missing) };
    let for_long = seen.at.since(since);
    match script.submission.job_id {
        None => (for_long >= Rules::UNCLEAR).then_some(News::NeverSubmitted),
        Some(_) => {
            (for_long >= Rules::VANISHED).then_some(News::Ended { end: crate::End::Vanished, at: seen.at })
        }
    }
}
