//! Tiny queues with a known cause of a pending job, and a known remedy. All jobs run to their limits. Times
//! are in hours.

use serde_json::{Value, json};

use hsched_queue::{Advice, Cause, PastRun, PastRuns, Remedy, Snapshot, StateKind};

use crate::why_queues::{at, completed, limit, outlook, outlook_after, pending, queue, running, told, with};

#[test]
fn a_group_limit_that_is_full_waits_and_one_that_is_smaller_than_the_job_never_ends() {
    let check = |max: f64, kind: StateKind, words: &str| {
        let jobs =
            [running("1", "ann", 1, 5.0), running("2", "bob", 1, 5.0), pending("3", 4, 2.0, "AssocGrpGRES")];
        let snapshot = queue(&jobs, &limit("a:bio", "GrpTRES", "gres/gpu", max));
        let (_, told) = told(&snapshot, "3");
        assert_eq!(told.kind, kind, "{max}");
        let known = told.limit.as_ref().expect("a limit");
        assert_eq!((known.name.as_str(), known.holder.as_str(), known.max), ("GrpTRES", "a:bio", max));
        assert!(told.why.iter().any(|sentence| sentence.contains(words)), "{:?}", told.why);
    };
    check(
        5.0,
        StateKind::Waits,
        "The limit GrpTRES of account bio is 5 GPUs and has no room: in use 2 GPUs (1 GPU by its user), it asks for 4 GPUs.",
    );
    check(
        3.0,
        StateKind::Never,
        "It will never start as it is: the limit GrpTRES of account bio allows 3 GPUs, it asks for 4 GPUs.",
    );
}

#[test]
fn what_never_starts_is_said_whatever_slurm_says() {
    // Slurm has not checked the limit yet.
    let jobs = [running("1", "bob", 4, 5.0), pending("3", 4, 48.0, "Priority")];
    let (_, waits) = told(&queue(&jobs, &json!({})), "3");
    assert_eq!(waits.kind, StateKind::Never);
    assert_eq!(
        waits.why[0],
        "It will never start as it is: its time limit is 2 d, partition gpu allows 24 h (MaxTime)."
    );
    let known = waits.limit.expect("a limit");
    assert_eq!((known.holder.as_str(), known.max, known.needed), ("p:gpu", 1440.0, 2880.0));
    // The partition has a single node.
    let wide = json!({ "asks": { "nodes": 9, "gpus": [{ "type": "a100", "count": 1 }] } });
    let (_, never) =
        told(&queue(&[with(pending("3", 1, 1.0, "PartitionNodeLimit"), &wide)], &json!({})), "3");
    assert_eq!(
        (never.kind, never.why[0].as_str()),
        (StateKind::Never, "It will never start as it is: partition gpu has 1 node, it asks for 9 nodes.")
    );
    let known = never.limit.expect("a limit");
    assert_eq!(
        (known.name.as_str(), known.holder.as_str(), known.max, known.needed),
        ("TotalNodes", "p:gpu", 1.0, 9.0)
    );
    // Another partition accepts the job: the reason belongs to the last one tried.
    let both = with(pending("3", 4, 12.0, "PartitionTimeLimit"), &json!({ "partitions": ["gpu", "short"] }));
    let (_, waits) = told(&queue(&[running("1", "bob", 4, 5.0), both], &json!({})), "3");
    assert_eq!(waits.kind, StateKind::Waits);
    let account = json!({ "partitions": [{ "name": "gpu", "accounts": ["chem"] }] });
    let (_, refused) = told(
        &queue(&[pending("3", 1, 1.0, "Job's account not permitted to use this partition")], &account),
        "3",
    );
    assert_eq!(refused.kind, StateKind::Never);
    assert!(
        refused.why[0].contains("partition gpu does not allow account bio (it allows chem)"),
        "{:?}",
        refused.why
    );
}

#[test]
fn held_jobs_and_broken_dependencies_do_not_wait() {
    let kind = |reason: &str, fields: &Value| {
        told(&queue(&[with(pending("3", 1, 1.0, reason), fields)], &json!({})), "3").1.kind
    };
    assert_eq!(kind("JobHeldUser", &json!({ "priority": 0 })), StateKind::Held);
    assert_eq!(kind("launch failed requeued held", &json!({})), StateKind::Held);
    assert_eq!(kind("Priority", &json!({ "priority": 0 })), StateKind::Held);
    assert_eq!(kind("DependencyNeverSatisfied", &json!({})), StateKind::Never);
    assert_eq!(kind("BadConstraints", &json!({})), StateKind::Never);
    assert_eq!(kind("Dependency", &json!({})), StateKind::Waits);
    assert_eq!(kind("NeverSeen", &json!({})), StateKind::Waits);
}

#[test]
fn who_is_ahead_is_counted_with_the_cause() {
    let other = |id: &str, fields: &Value| {
        with(with(pending(id, 2, 3.0, "Priority"), &json!({ "user": "bob", "ours": false })), fields)
    };
    let jobs = [
        running("1", "bob", 4, 5.0),
        other("2", &json!({ "partitions": ["hi"], "priority": 1 })),
        other("4", &json!({ "qos": "fast", "priority": 600 })),
        other("5", &json!({ "submitted": at(-12.0), "priority": 300 })),
        other("6", &json!({ "submitted": at(-3.0) })),
        other("7", &json!({ "priority": 50 })),
        other("8", &json!({ "priority": 900, "asks": { "gpus": [{ "type": "a100", "count": 4 }] } })),
        with(pending("3", 2, 2.0, "Priority"), &json!({ "nice": 20 })),
        other("9", &json!({ "priority": 120 })),
    ];
    let partitions = json!([{ "name": "gpu", "tier": 1 }, { "name": "hi", "tier": 10 }]);
    let nodes = json!([{ "name": "n1", "gpus": [{ "type": "a100", "count": 4 }] }]);
    let age = json!({ "age": { "weight": 1000.0, "max_s": 180_000.0 } });
    let snapshot = queue(
        &jobs,
        &json!({ "partitions": partitions, "nodes": nodes, "qos_priority": { "fast": 500.0 }, "scheduling": age }),
    );
    let (_, told) = told(&snapshot, "3");
    let ahead = told.ahead.expect("jobs ahead");
    let list: Vec<(&str, Cause)> = ahead.jobs.iter().map(|job| (job.job.id.as_str(), job.cause)).collect();
    assert_eq!(
        list,
        [
            ("2", Cause::PartitionTier),
            ("8", Cause::Other),
            ("4", Cause::Qos),
            ("5", Cause::Age),
            ("9", Cause::Nice),
            ("6", Cause::Earlier),
        ]
    );
    assert_eq!((ahead.gpus(), ahead.largest().map(|job| job.job.id.as_str())), (14, Some("8")));
    assert!(
        told.why.contains(&"The largest is job 8, which asks for 4 a100 GPUs on 1 node.".to_owned()),
        "{:?}",
        told.why
    );
}

/// `squeue` lists such jobs in the reverse order.
#[test]
fn of_jobs_with_equal_priority_and_submission_the_one_with_the_lowest_id_is_first() {
    let jobs = [
        running("1", "bob", 4, 5.0),
        pending("12", 2, 3.0, "Priority"),
        pending("9", 2, 3.0, "Priority"),
        pending("3", 4, 3.0, "Resources"),
    ];
    let ahead = |id: &str| {
        let (_, told) = told(&queue(&jobs, &json!({})), id);
        let ahead = told.ahead.map(|ahead| ahead.jobs).unwrap_or_default();
        ahead.into_iter().map(|job| job.job.id).collect::<Vec<_>>()
    };
    assert_eq!(ahead("3"), [""; 0]);
    assert_eq!(ahead("9"), ["3"]);
    assert_eq!(ahead("12"), ["3", "9"]);
}

#[test]
fn a_shorter_limit_lets_a_job_into_a_hole_and_keeps_its_place() {
    // Two GPUs are free for six hours; then job 2 gets all four.
    let wide =
        with(pending("2", 4, 10.0, "Resources"), &json!({ "user": "bob", "ours": false, "priority": 500 }));
    let snapshot = queue(&[running("1", "bob", 2, 6.0), wide, pending("3", 2, 20.0, "Priority")], &json!({}));
    let found = outlook(&snapshot, "3");
    let hours = |start: &hsched_queue::Start| start.forecast().expect("a forecast").start.median.0 / 3600.0;
    assert_eq!(hours(found.as_is.as_ref().expect("a start")), 16.0);
    let best = &found.advice[0];
    assert!(matches!(&best.remedy, Remedy::InPlace(_)) && best.remedy.keeps_job());
    assert_eq!((hours(&best.start), best.sooner.map(|sooner| sooner.0 / 3600.0)), (0.0, Some(16.0)));
    let limits: Vec<f64> = found.advice.iter().map(|advice| advice.request.limit.0 / 3600.0).collect();
    assert!(limits[0] <= 6.0 && limits.contains(&(358.0 / 60.0)), "{limits:?}");
}

#[test]
fn no_limit_is_shorter_than_past_runs_took() {
    // Two GPUs are free for six hours; then job 2 gets all four.
    let wide =
        with(pending("2", 4, 10.0, "Resources"), &json!({ "user": "bob", "ours": false, "priority": 500 }));
    let snapshot = queue(&[running("1", "bob", 2, 6.0), wide, pending("3", 2, 20.0, "Priority")], &json!({}));
    let limits = |past: &[PastRun]| -> Vec<(f64, String)> {
        let found = outlook_after(&snapshot, "3", &PastRuns(past.to_vec()));
        let is_short = |advice: &&Advice| advice.request.limit.0 < 20.0 * 3600.0;
        let short = found.advice.iter().filter(is_short);
        short.map(|advice| (advice.request.limit.0 / 3600.0, advice.remedy.drawbacks()[0].clone())).collect()
    };
    let [(hours, drawback), ..] = &limits(&[])[..] else { panic!("no shorter limit") };
    assert!(*hours < 6.0 && drawback.ends_with("; how long it runs is unknown"), "{hours} {drawback}");
    let known = limits(&[completed(2, 3.0)]);
    assert!(!known.is_empty() && known.iter().all(|(hours, _)| *hours >= 4.5), "{known:?}");
    assert!(known.iter().all(|(_, drawback)| drawback.ends_with("; the 1 past run took 3 h")), "{known:?}");
    assert_eq!(limits(&[completed(2, 6.0)]), []);
    // A limit that the site enforces does not help if past runs took longer.
    let wall = json!({ "limits": [{ "holder": "q:normal", "name": "MaxWall", "max": 90.0 }] });
    let snapshot = queue(&[pending("3", 4, 2.0, "QOSMaxWallDurationPerJobLimit")], &wall);
    let advised =
        |hours: f64| !outlook_after(&snapshot, "3", &PastRuns(vec![completed(4, hours)])).advice.is_empty();
    assert!(advised(0.5) && !advised(1.25));
}

#[test]
fn cancelling_another_job_of_ones_own_is_advised_where_it_helps() {
    let jobs = [running("1", "ann", 4, 6.0), pending("3", 4, 2.0, "Resources")];
    let remedies = |snapshot: &Snapshot| {
        let found = outlook(snapshot, "3");
        let is_cancel =
            |advice: &&hsched_queue::Advice| matches!(&advice.remedy, Remedy::Cancel { id, .. } if id == "1");
        found.advice.iter().find(is_cancel).map(|advice| advice.sooner.map(|sooner| sooner.0 / 3600.0))
    };
    assert_eq!(remedies(&queue(&jobs, &json!({}))), Some(Some(6.0)));
    // Jobs of other users cannot be cancelled.
    assert_eq!(
        remedies(&queue(&[running("1", "bob", 4, 6.0), pending("3", 4, 2.0, "Resources")], &json!({}))),
        None
    );
}

#[test]
fn what_costs_nothing_comes_first_and_what_ends_other_jobs_last() {
    // With job 1 cancelled, the job starts at once; in another partition, three hours later.
    let more = json!({
        "nodes": [{ "name": "n1", "partitions": ["gpu"], "gpus": [{ "type": "a100", "count": 4 }] },
            { "name": "n2", "partitions": ["short", "spare"], "gpus": [{ "type": "a100", "count": 4 }] }],
        "partitions": [{ "name": "gpu", "default": true }, { "name": "short" }],
    });
    let other =
        json!({ "since": at(-1.0), "holds": [{ "node": "n2", "gpus": [{ "type": "a100", "count": 4 }] }] });
    let other = with(running("2", "bob", 4, 3.0), &json!({ "partitions": ["short"], "running": other }));
    let jobs = [running("1", "ann", 4, 6.0), other, pending("3", 4, 2.0, "Resources")];
    let found = outlook(&queue(&jobs, &more), "3");
    let commands: Vec<&Remedy> = found.advice.iter().map(|advice| &advice.remedy).collect();
    assert!(matches!(&commands[0], Remedy::InPlace(set) if set.drawbacks.is_empty()), "{commands:?}");
    assert!(matches!(commands.last(), Some(Remedy::Cancel { .. })), "{commands:?}");
    let stops: Vec<Vec<String>> = commands.iter().map(|remedy| remedy.stops()).collect();
    assert!(stops[0].is_empty() && stops.last() == Some(&vec!["1".to_owned()]), "{stops:?}");
}

#[test]
fn a_partition_in_which_a_job_preempts_ones_own_says_so() {
    let with_mode = |preemptible: bool, node: &str| {
        let more = json!({
            "nodes": [{ "name": "n1", "partitions": ["low", "short", "high"], "gpus": [{ "type": "a100", "count": 4 }] },
                { "name": "n2", "partitions": ["gpu", "low"], "gpus": [{ "type": "a100", "count": 4 }] }],
            "partitions": [{ "name": "gpu", "default": true, "tier": 1 }, { "name": "high", "tier": 9 },
                { "name": "low", "tier": 1, "preemptible": preemptible }],
        });
        let own = with(
            running("1", "ann", 1, 8.0),
            &json!({ "partitions": ["low"], "running": { "since": at(-1.0),
                "holds": [{ "node": node, "gpus": [{ "type": "a100", "count": 1 }] }] } }),
        );
        let other = with(
            running("2", "bob", 4, 8.0),
            &json!({ "running": { "since": at(-1.0), "holds": [{ "node": "n2", "gpus": [{ "type": "a100", "count": 3 }] }] } }),
        );
        let found = outlook(&queue(&[own, other, pending("3", 2, 2.0, "Resources")], &more), "3");
        let to_high = found.advice.iter().find(|advice| {
            matches!(&advice.remedy, Remedy::InPlace(set)
                if set.changes.iter().any(|change| matches!(change, hsched_queue::Change::Partition(names) if names.contains("high"))))
        });
        let remedy = &to_high.expect("a change to the partition").remedy;
        assert_eq!(remedy.stops().is_empty(), remedy.drawbacks().is_empty());
        remedy.drawbacks()
    };
    assert_eq!(with_mode(true, "n1"), ["Slurm may stop (preempt) your running job 1 for it"]);
    // Neither a partition whose jobs are not preempted nor another node matters.
    assert_eq!(with_mode(false, "n1"), [""; 0]);
    assert_eq!(with_mode(true, "n2"), [""; 0]);
}

#[test]
fn limits_are_met_by_the_smallest_change() {
    let changed = |jobs: &[Value], more: &Value| {
        let found = outlook(&queue(jobs, more), "3");
        found
            .advice
            .iter()
            .map(|advice| {
                (advice.remedy.keeps_job(), advice.request.limit.0 / 60.0, advice.request.asks.gpus[0].count)
            })
            .collect::<Vec<_>>()
    };
    let wall = json!({ "limits": [{ "holder": "q:normal", "name": "MaxWall", "max": 90.0 }] });
    let job = [pending("3", 4, 2.0, "QOSMaxWallDurationPerJobLimit")];
    assert!(changed(&job, &wall).contains(&(true, 90.0, 4)), "{:?}", changed(&job, &wall));
    let gpus = limit("a:bio", "GrpTRES", "gres/gpu", 3.0);
    assert!(changed(&[pending("3", 4, 2.0, "AssocGrpGRES")], &gpus).contains(&(false, 120.0, 3)));
    let minutes = limit("a:bio", "GrpTRESRunMins", "gres/gpu", 300.0);
    let jobs = [running("1", "ann", 1, 1.0), pending("3", 2, 2.5, "AssocGrpGRESRunMinutes")];
    assert!(changed(&jobs, &minutes).contains(&(true, 120.0, 2)), "{:?}", changed(&jobs, &minutes));
}

#[test]
fn hidden_jobs_are_said_to_be_hidden() {
    let snapshot = queue(&[pending("3", 4, 2.0, "Priority")], &json!({ "others_hidden": true }));
    let (_, told) = told(&snapshot, "3");
    assert!(
        told.ahead.is_none() && told.why.iter().any(|line| line.contains("hides the jobs of others")),
        "{:?}",
        told.why
    );
}

#[test]
fn a_job_before_it_a_time_and_a_reservation_are_named() {
    let said = |job: Value, more: &Value| {
        told(&queue(&[running("1", "bob", 4, 5.0), job], more), "3").1.why.join(" ")
    };
    let after = with(pending("3", 1, 1.0, "Dependency"), &json!({ "after": ["1"], "waits_for_other": true }));
    assert!(said(after, &json!({})).contains("Job 1 is before it and runs, until hour 5 at the latest."));
    let begin =
        with(pending("3", 1, 1.0, "BeginTime"), &json!({ "begin": at(3.0), "waits_for_other": true }));
    assert!(said(begin, &json!({})).contains("It may start from hour 3 on."));
    let kept =
        json!({ "reservations": [{ "name": "course", "nodes": ["n1"], "start": at(8.0), "end": at(9.0) }] });
    let inside = with(
        pending("3", 1, 1.0, "Reservation"),
        &json!({ "reservation": "course", "waits_for_other": true }),
    );
    assert!(said(inside, &kept).contains("Reservation course (1 node) begins at hour 8 and ends at hour 9."));
    let long = queue(&[pending("3", 1, 12.0, "ReqNodeNotAvail, Reserved for maintenance")], &kept);
    let why = told(&long, "3").1.why.join(" ");
    assert!(why.contains("It would fit on n1 now, but reservation course begins there at hour 8, before its time limit (12 h) would end."), "{why}");
    assert!(outlook(&long, "3").advice.iter().any(|advice| advice.request.limit.0 <= 8.0 * 3600.0));
}

#[test]
fn a_job_on_nodes_of_two_types_takes_its_gpus_of_each_once() {
    let gpus = |gpu_type: &str, count: u32| json!([{ "type": gpu_type, "count": count }]);
    let node = |name: &str, gpu_type: &str| json!({ "name": name, "gpus": gpus(gpu_type, 4) });
    let holds = json!([{ "node": "n1", "gpus": gpus("a100", 2) }, { "node": "n2", "gpus": gpus("t4", 2) }]);
    let both =
        with(running("1", "bob", 2, 5.0), &json!({ "running": { "since": at(-1.0), "holds": holds } }));
    let jobs = [both, pending("3", 2, 2.0, "Priority")];
    let snapshot = queue(&jobs, &json!({ "nodes": [node("n1", "a100"), node("n2", "t4")] }));
    let why = told(&snapshot, "3").1.why.join(" ");
    assert!(why.contains("It would fit on n1 now"), "{why}");
}

#[test]
fn limits_that_no_future_counts_are_named_with_what_is_known() {
    let told = |reason: &str, limits: Value| {
        let jobs = [running("1", "ann", 1, 5.0), running("2", "bob", 1, 5.0), pending("3", 2, 2.0, reason)];
        told(&queue(&jobs, &json!({ "limits": limits })), "3").1
    };
    let budget = json!([{ "holder": "a:bio", "name": "GrpTRESMins", "tres": "gres/gpu", "max": 6000.0 }]);
    let used_up = told("AssocGrpGRESMinutes", budget);
    let limit = used_up.limit.as_ref().expect("a limit");
    assert_eq!((used_up.kind, limit.max, limit.needed, limit.used), (StateKind::Waits, 6000.0, 240.0, None));
    let submitted = told(
        "QOSMaxSubmitJobPerUserLimit",
        json!([{ "holder": "q:normal", "name": "MaxSubmitJobsPerUser", "max": 2.0 }]),
    );
    let limit = submitted.limit.as_ref().expect("a limit");
    assert_eq!((limit.max, limit.used, limit.needed), (2.0, Some(1.0), 1.0));
    assert!(outlook(&queue(&[pending("3", 2, 2.0, "AssocGrpGRESMinutes")], &json!({})), "3").as_is.is_none());
    let limits = json!({ "limits": [{ "holder": "q:normal", "name": "MaxSubmitJobsPerUser", "max": 2.0 }] });
    let at_limit = queue(&[pending("3", 2, 2.0, "QOSMaxSubmitJobPerUserLimit")], &limits);
    assert!(outlook(&at_limit, "3").as_is.is_none());
}

#[test]
fn a_change_that_costs_more_and_gains_no_more_is_not_listed() {
    // Two GPUs are free for six hours; then job 2 gets all four. A limit shorter than six hours gains nothing
    // more.
    let wide =
        with(pending("2", 4, 10.0, "Resources"), &json!({ "user": "bob", "ours": false, "priority": 500 }));
    let snapshot = queue(&[running("1", "bob", 2, 6.0), wide, pending("3", 2, 20.0, "Priority")], &json!({}));
    let found = outlook(&snapshot, "3");
    let is_of_limit_alone = |advice: &&hsched_queue::Advice| matches!(&advice.remedy, Remedy::InPlace(set) if set.changes.len() == 1);
    assert_eq!(found.advice.iter().filter(is_of_limit_alone).count(), 1, "{:?}", found.advice);
    assert!(found.advice.iter().all(|advice| advice.sooner.is_some_and(|sooner| sooner.0 >= 600.0)));
}

#[test]
fn the_same_command_stands_once_with_what_it_costs() {
    let partitions = json!({
        "nodes": [{ "name": "n1", "partitions": ["gpu", "spare"], "gpus": [{ "type": "a100", "count": 4 }] }],
        "partitions": [{ "name": "gpu", "max_time_s": 3600 }, { "name": "spare", "preemptible": true }],
    });
    let found = outlook(&queue(&[pending("3", 2, 5.0, "PartitionTimeLimit")], &partitions), "3");
    let spare = |advice: &&hsched_queue::Advice| {
        let Remedy::InPlace(set) = &advice.remedy else { return false };
        set.changes == [hsched_queue::Change::Partition("spare".to_owned())]
    };
    let list: Vec<_> = found.advice.iter().filter(spare).collect();
    assert_eq!(list.len(), 1, "{:?}", found.advice);
    assert!(!list[0].remedy.drawbacks().is_empty());
}

#[test]
fn what_is_said_of_free_room_agrees_with_who_is_before_the_job() {
    let (_, told) = told(&queue(&[pending("3", 2, 2.0, "Priority")], &json!({})), "3");
    let why = told.why.join(" ");
    assert!(
        why.contains("No pending job is before it") && !why.contains("keeps the room for jobs before it"),
        "{why}"
    );
    // Slurm's reason is not said to mean that other jobs come first for these nodes.
    let (_, told) =
        self::told(&queue(&[running("1", "bob", 4, 5.0), pending("3", 2, 2.0, "Priority")], &json!({})), "3");
    assert_eq!(
        told.why,
        [
            "Slurm gives the reason Priority: jobs that come first wait for other nodes, or Slurm has not looked at it again.",
            "No pending job is before it for the same nodes.",
            "It needs 1 node; of 1 node that could hold it, none has room now: it waits until jobs or reservations there end.",
        ]
    );
}

#[test]
fn components_start_together_and_are_not_changed_alone() {
    let jobs = [running("1", "bob", 4, 5.0), pending("9+1", 2, 2.0, "Priority")];
    let snapshot = queue(&jobs, &json!({}));
    let (_, told) = told(&snapshot, "9+1");
    assert!(told.why.iter().any(|line| line.contains("component of job 9")), "{:?}", told.why);
    let found = outlook(&snapshot, "9+1");
    assert!(found.advice.is_empty() && !found.is_looked_for);
    let snapshot = [running("8+1", "ann", 4, 6.0), pending("3", 4, 2.0, "Resources")];
    let found = outlook(&queue(&snapshot, &json!({})), "3");
    assert!(
        !found.advice.iter().any(|advice| matches!(advice.remedy, Remedy::Cancel { .. })),
        "{:?}",
        found.advice
    );
}
