//! Requests for which Slurm may preempt running jobs: each is simulated without these jobs.

use std::collections::BTreeSet;

use crate::changes::preempted;
use crate::forecast::{Far, Question, Start, StartEstimate, forecast_of};
use crate::{QueuePosition, Request, RequestId};

/// Returns the start estimate of each request if Slurm may preempt running jobs for some; `None` if it may not.
pub(super) fn in_place_of_others(
    question: &Question,
    positions: &[(RequestId, QueuePosition)],
    far: Far,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<StartEstimate>> {
    let ids = |request: &Request| -> BTreeSet<&str> {
        preempted(question.snapshot, request).into_iter().map(|job| job.id.as_str()).collect()
    };
    let gone: Vec<BTreeSet<&str>> = question.requests.iter().map(ids).collect();
    if gone.iter().all(BTreeSet::is_empty) {
        return None;
    }
    let mut known: Vec<StartEstimate> = Vec::new();
    for without in gone.iter().collect::<BTreeSet<_>>() {
        let alike = question.requests.iter().zip(&gone).filter(|(_, gone)| *gone == without);
        let requests: Vec<Request> = alike.map(|(request, _)| request.clone()).collect();
        let mut snapshot = question.snapshot.clone();
        snapshot.jobs.retain(|job| !without.contains(job.id.as_str()));
        let question = Question { snapshot: &snapshot, requests: &requests, ..*question };
        known.extend(forecast_of(&question, positions, far, stop));
    }
    let estimate = |request: &Request| StartEstimate {
        id: request.id,
        start: StartEstimate::of(&known, request.id).cloned().unwrap_or(Start::Never),
    };
    Some(question.requests.iter().map(estimate).collect())
}

#[cfg(test)]
mod tests {
    use crate::{Question, Request, RequestId, Snapshot, forecast};
    use hsched_model::{Asks, FurtherOptions, GpuAsk, GpuType, Seconds};

    /// Jobs of two users fill both nodes for a day; partition `high` preempts those of `low`.
    const QUEUE: &str = r#"{"schema": "hsched.queue/1", "taken_at": 100,
        "partitions": [{"name": "low", "default": true, "tier": 1, "preemptible": true}, {"name": "high", "tier": 2}],
        "nodes": [{"name": "n1", "partitions": ["low", "high"], "gpus": [{"type": "t4", "count": 4}]},
            {"name": "n2", "partitions": ["low"], "gpus": [{"type": "t4", "count": 4}]}],
        "jobs": [{"id": "7", "ours": true, "partitions": ["low"], "limit_s": 86400, "asks": {},
                "running": {"since": 0, "holds": [{"node": "n1", "gpus": [{"type": "t4", "count": 2}]}]}},
            {"id": "8", "partitions": ["OTHER"], "limit_s": 86400, "asks": {},
                "running": {"since": 0, "holds": [{"node": "n1", "gpus": [{"type": "t4", "count": 2}]}]}},
            {"id": "9", "partitions": ["low"], "limit_s": 86400, "asks": {},
                "running": {"since": 0, "holds": [{"node": "n2", "gpus": [{"type": "t4", "count": 4}]}]}}]}"#;

    /// Returns which of some requests for two or four GPUs start at once.
    fn starts_now(queue: &str, requests: &[(&str, u32)]) -> Vec<bool> {
        let snapshot = Snapshot::parse(queue).expect("a snapshot");
        let request = |(number, (partition, count)): (u32, &(&str, u32))| Request {
            id: RequestId(number),
            asks: Asks {
                nodes: 1,
                gpus: vec![GpuAsk { gpu_type: GpuType::new("t4"), count: *count }],
                ..Asks::default()
            },
            partition: Some((*partition).to_owned()),
            account: None,
            limit: Seconds(3600.0),
            run: Seconds(3600.0),
            further: FurtherOptions::default(),
        };
        let requests: Vec<Request> = (0..).zip(requests).map(request).collect();
        let question =
            Question { snapshot: &snapshot, requests: &requests, seed: 0, samples: 4, calibration: None };
        let found = forecast(&question, &|| false);
        assert!(found.iter().zip(&requests).all(|(estimate, request)| estimate.id == request.id));
        found.iter().map(|estimate| estimate.start.is_now()).collect()
    }

    #[test]
    fn a_request_starts_in_place_of_the_jobs_that_it_preempts() {
        let all = [("low", 2), ("high", 4), ("low,high", 4), ("high", 2)];
        assert_eq!(starts_now(&QUEUE.replace("OTHER", "low"), &all), [false, true, true, true]);
        // A job of the higher partition is not preempted.
        assert_eq!(starts_now(&QUEUE.replace("OTHER", "high"), &all), [false, false, false, true]);
        let off = QUEUE.replace("OTHER", "low").replace(r#""preemptible": true"#, r#""preemptible": false"#);
        assert_eq!(starts_now(&off, &all), [false; 4]);
        // Suspended jobs keep their GPUs.
        let suspended = QUEUE
            .replace("OTHER", "low")
            .replace(r#""preemptible": true"#, r#""preemptible": true, "suspends": true"#);
        assert_eq!(starts_now(&suspended, &all), [false; 4]);
    }
}
