//! Changes of pending requests by `watch --queue`: in place, to another partition, undone, and beside the
//! first request.

use std::sync::Arc;

use hsched_engine::live::ScriptContext;
use hsched_engine::render::Template;
use hsched_engine::{
    Action, Answer, Event, GpuRequest, Phase, Stage, State, Submission, SubmissionRecord, step,
};
use hsched_model::{Cluster, JobId, Partition, QueueChoice, Seconds, Time};
use hsched_plan::RequestStartEstimate;

use hsched_fixtures::engine_states::{attempt, gpu, planner, rules, state, words};

use crate::queue_watch::{answer, full, kind, pending, queueing, take};

const HOUR: f64 = 3600.0;

#[test]
fn a_pending_request_is_changed_in_place_and_asked_for_until_there_is_an_answer() {
    let before = state(vec![pending()]);
    let wait = |kind: &GpuRequest| (50.0, if kind.per_node == 2 { 1.0 } else { 30.0 });
    let changed = take(&before, 1.0, &full(), 20.0, &wait);
    assert_eq!(words(&changed.actions), ["change a to 2 v100"]);
    // If the process dies here, the state contains the intent, and the request is made again.
    let again = take(&changed.state, 31.0, &full(), 20.0, &wait);
    assert_eq!(words(&again.actions), ["change a to 2 v100"]);
    let of = own_key(&changed.state);
    let hear = |state: &State, answer: Answer| {
        let mut state = state.clone();
        hsched_engine::apply(&mut state, Time(32.0), &Event::Answer { of: of.clone(), answer }, &rules());
        state
    };
    let done = hear(&again.state, Answer::Amended);
    let submission = &done.jobs[0].phase.submissions()[0].attempt;
    assert_eq!((submission.gpus.to_string().as_str(), submission.amendment.is_none()), ("2 v100", true));
    assert_eq!(submission.tables, [kind(1, "v100"), kind(4, "v100")]);
    // A site that refuses the change is not asked again.
    let refused = hear(&again.state, Answer::NotAmended { message: "no".into() });
    assert_eq!(words(&take(&refused, 62.0, &full(), 20.0, &wait).actions), [""; 0]);
}

#[test]
fn a_pending_request_goes_to_another_partition_and_keeps_its_place() {
    let partition = |name: &str, hours: f64| Partition {
        name: name.to_owned(),
        default: false,
        max_time: Some(Seconds(hours * HOUR)),
    };
    let cluster = Cluster { partitions: vec![partition("short", 3.0), partition("day", 24.0)], ..full() };
    let mut before = state(vec![pending()]);
    Arc::make_mut(&mut before.jobs[0].job).launch.partition = Some("short,day".into());
    let Phase::Submitted(submissions) = &mut before.jobs[0].phase else { panic!() };
    submissions[0].attempt.tables.push(kind(4, "v100"));
    let mut policy = queueing();
    let mut planner = planner(policy.as_mut());
    let watch_rules = rules();
    let asked = step(before.clone(), Time(1.0), &[], &cluster, &watch_rules, &mut planner);
    // The same GPUs start sooner with a longer limit.
    let wait = |request_kind: &GpuRequest| (50.0, if *request_kind == kind(4, "v100") { 1.0 } else { 30.0 });
    let mut start_estimates = answer(&cluster, &asked.inquiries[0], 20.0, &wait);
    let partitions = |gpus: u32| {
        let is_for = |request_start_estimate: &&RequestStartEstimate| {
            GpuRequest::asked(&request_start_estimate.request) == kind(gpus, "v100")
        };
        let request = start_estimates.requests.iter().filter(is_for);
        request
            .map(|request_start_estimate| request_start_estimate.request.request.partition.as_deref())
            .collect::<Vec<_>>()
    };
    // One V100 takes ten hours, and the job is not known to save.
    assert_eq!(partitions(1), [Some("day")]);
    assert_eq!(partitions(4), [Some("short"), Some("day")]);
    let is_short = |request_start_estimate: &RequestStartEstimate| {
        request_start_estimate.request.request.partition.as_deref() == Some("short")
    };
    for request_start_estimate in &mut start_estimates.requests {
        request_start_estimate.in_place =
            request_start_estimate.in_place.filter(|_| !is_short(request_start_estimate));
    }
    planner.start_estimates = Some(vec![start_estimates]);
    let changed = step(before, Time(1.0), &[], &cluster, &watch_rules, &mut planner);
    assert_eq!(words(&changed.actions), ["change a to 4 v100"]);
    let Action::Amend { to, .. } = &changed.actions[0] else { panic!() };
    assert_eq!(to.queue_choice.as_ref().and_then(|choice| choice.partition.as_deref()), Some("day"));
    let (of, mut done) = (own_key(&changed.state), changed.state);
    let answer = Answer::Amended;
    hsched_engine::apply(&mut done, Time(2.0), &Event::Answer { of, answer }, &rules());
    let submission = &done.jobs[0].phase.submissions()[0].attempt;
    assert_eq!(submission.queue_choice.as_ref().and_then(|choice| choice.partition.as_deref()), Some("day"));
    // From there, the request may move again.
    assert!(submission.tables.contains(&kind(4, "v100")));
}

#[test]
fn a_change_that_slurm_takes_and_cannot_carry_out_is_undone_and_not_tried_again() {
    let mut before = state(vec![pending()]);
    let wait = |kind: &GpuRequest| (50.0, if kind.per_node == 2 { 1.0 } else { 30.0 });
    let Phase::Submitted(submissions) = &mut before.jobs[0].phase else { panic!() };
    submissions[0].attempt.reason = Some("BadConstraints".into());
    let undone = take(&before, 1.0, &full(), 20.0, &wait);
    assert_eq!(words(&undone.actions), ["cancel a"]);
    let of = own_key(&undone.state);
    let mut after = undone.state.clone();
    let news = hsched_engine::News::Ended { end: hsched_engine::End::Cancelled, at: Time(2.0) };
    hsched_engine::apply(&mut after, Time(2.0), &Event::News { of, news }, &rules());
    let again = take(&after, 31.0, &full(), 20.0, &wait);
    let [Action::Submit(run)] = again.actions.as_slice() else { panic!("{:?}", words(&again.actions)) };
    assert!(run.submissions[0].spares.is_empty());
}

/// The key of the first submission of the first job.
fn own_key(state: &State) -> hsched_engine::SubmissionKey {
    let tracked = &state.jobs[0];
    tracked.phase.submissions()[0].attempt.key(&tracked.job.name)
}

#[test]
fn another_type_is_queued_beside_the_first_which_is_taken_back_once_that_has_started() {
    let before = state(vec![pending()]);
    let wait = |kind: &GpuRequest| (if kind.gpu_type == gpu("t4") { 0.0 } else { 50.0 }, 50.0);
    let beside = take(&before, 1.0, &full(), 20.0, &wait);
    assert_eq!(words(&beside.actions), ["submit a on 4 t4"]);
    let Action::Submit(run) = &beside.actions[0] else { panic!() };
    let planned_submission = &run.submissions[0];
    assert_eq!(
        (planned_submission.race, planned_submission.joins.as_deref(), planned_submission.copy),
        (true, Some("r"), 1)
    );
    // Its script takes part in the race of run r, and its comment tells the winner so.
    let context = ScriptContext {
        defaults: rules().defaults,
        template: Template::default(),
        state: "/state".into(),
        directory: "/".into(),
        sbatch: Vec::new(),
        inside: None,
    };
    let scripts = hsched_engine::live::scripts(run, &context).expect("scripts");
    let text = scripts[0].text.as_deref().expect("a script");
    assert!(text.replace('\\', "").contains(r#","job":"a","copy":1,"race":"r"}"#), "{text}");
    assert!(text.contains("hs_claim=/state/runs/r/report/a:claim\n"), "{text}");
    let mut both = beside.state.clone();
    let Phase::Submitted(submissions) = &mut both.jobs[0].phase else { panic!() };
    assert_eq!(submissions.len(), 2);
    submissions[1].attempt.job_id = Some(JobId(8));
    submissions[1].attempt.started = Some(Time(40.0));
    submissions[1].stage = Stage::Running;
    let after = take(&both, 61.0, &full(), 20.0, &wait);
    assert_eq!(words(&after.actions), ["cancel a"]);
}

#[test]
fn a_request_is_not_changed_into_another_one_of_the_job() {
    let mut before = state(vec![pending()]);
    let both = |names: &str| Partition {
        name: names.to_owned(),
        default: false,
        max_time: Some(Seconds(24.0 * HOUR)),
    };
    let cluster = Cluster { partitions: vec![both("short"), both("day")], ..full() };
    let second = attempt("s", "v1", "v100", 2, 0);
    let joins = Some("r".to_owned());
    let second = SubmissionRecord { race: true, joins, copy: 1, job_id: Some(JobId(8)), ..second };
    let Phase::Submitted(submissions) = &mut before.jobs[0].phase else { panic!() };
    submissions.push(Submission { attempt: second, stage: Stage::Pending });
    let changed = |before: &State| {
        let mut policy = queueing();
        let mut planner = planner(policy.as_mut());
        let rules = rules();
        let asked = step(before.clone(), Time(1.0), &[], &cluster, &rules, &mut planner);
        let wait = |kind: &GpuRequest| (50.0, if kind.per_node == 2 { 1.0 } else { 30.0 });
        let mut start_estimates = answer(&cluster, &asked.inquiries[0], 20.0, &wait);
        start_estimates.stays.iter_mut().for_each(|stay| *stay = Some(Seconds(20.0 * HOUR)));
        planner.start_estimates = Some(vec![start_estimates]);
        words(&step(before.clone(), Time(1.0), &[], &cluster, &rules, &mut planner).actions)
    };
    // The job is already pending for two V100.
    assert_eq!(changed(&before), [""; 0]);
    // In another partition, these GPUs are a different request.
    Arc::make_mut(&mut before.jobs[0].job).launch.partition = Some("short,day".into());
    let Phase::Submitted(submissions) = &mut before.jobs[0].phase else { panic!() };
    let queue_choice =
        |partition: &str| QueueChoice { partition: Some(partition.to_owned()), ..QueueChoice::default() };
    submissions[1].attempt.queue_choice = Some(queue_choice("short"));
    assert_eq!(changed(&before), ["change a to 2 v100"]);
    let Phase::Submitted(submissions) = &mut before.jobs[0].phase else { panic!() };
    submissions[1].attempt.queue_choice = Some(queue_choice("short,day"));
    assert_eq!(changed(&before), [""; 0]);
}
