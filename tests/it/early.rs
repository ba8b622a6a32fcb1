//! Jobs that end before their last epoch by a stopping rule, and deadlines.

use std::sync::Arc;

use hsched_engine::{
    AfterStop, Answer, End, Event, JobState, News, Outcome, Phase, Stage, StopProgress, apply, step,
};
use hsched_lab::simulate::{Play, PlayOptions, SimulatedWorld};
use hsched_model::{Cluster, Seconds, Time};
use hsched_plan::curve::CurvePoint;
use hsched_plan::{Moves, Objective};

use crate::cli_run::{Bench, TRAIN, job as training};
use crate::sandbox::Sandbox;
use hsched_fixtures::engine_states::{
    attempt, cluster, heard, how, job, key, only, phase, planner, policy, rules, running, state, stopping,
    take, words,
};
use hsched_fixtures::sites::{cluster as site_cluster, jobs, site};

const BEST: &str = "target: {metric: loss, mode: min}, stop: {rule: best}";

/// Returns losses that stop improving after a while.
fn losses(count: u32) -> Vec<f64> {
    (1..=count).map(|epoch| 0.2 + 0.8 * f64::from(epoch).powi(-3) + 0.0001 * f64::from(epoch % 3)).collect()
}

/// Returns a job that has finished 20 of its 40 epochs.
fn half_done(more: &str) -> JobState {
    let job = job("a", "{v100: 100}", &format!(", {more}"));
    let job = hsched_model::Job { epochs: 40, ..job };
    let curve = (1..).zip(losses(20)).map(|(epoch, value)| CurvePoint { epoch, value }).collect();
    JobState { curve, ..running(job, attempt("r", "v1", "v100", 1, 0), 20) }
}

fn lab() -> Cluster {
    cluster(&[("v1", "v100", 4, 1, "mixed")])
}

#[test]
fn one_that_may_saves_and_is_completed_and_a_lost_request_is_made_again() {
    let first = take(state(vec![half_done(BEST)]), 300.0, &lab(), &how(Moves::Never));
    assert_eq!(words(&first.actions), ["stop a"]);
    only(&first.state.jobs[0].phase, "stopping");
    // hsched is killed before the request; the intent is in the state.
    let second = take(first.state.clone(), 302.0, &lab(), &how(Moves::Never));
    assert_eq!(words(&second.actions), ["stop a"]);
    for end in [End::Saved, End::Completed, End::Failed { exit: 1, signal: 0 }] {
        let mut state = first.state.clone();
        let ended = heard("a", "r", News::Ended { end, at: Time(310.0) });
        apply(&mut state, Time(310.0), &ended, &rules());
        let job = &state.jobs[0];
        assert!(matches!(&job.phase, Phase::Ended { outcome: Outcome::Completed, .. }), "{job:?}");
        let (_, said) = &job.last;
        assert!(
            said.starts_with("completed, stopped at epoch 20 of 40: nothing to gain (best 0.20"),
            "{said}"
        );
    }
}

#[test]
fn one_that_trains_on_is_ended_after_some_epochs_and_one_that_trains_to_its_end_says_so() {
    let mut state = take(state(vec![half_done(BEST)]), 300.0, &lab(), &how(Moves::Never)).state;
    apply(&mut state, Time(300.0), &Event::Answer { of: key("a", "r"), answer: Answer::Stopped }, &rules());
    let ends_at = |done: u64, at: f64| {
        let mut state = state.clone();
        state.jobs[0].epochs_done = done;
        words(&take(state, at, &lab(), &how(Moves::Never)).actions)
    };
    let none: [&str; 0] = [];
    assert_eq!(ends_at(22, 320.0), none, "it may still be saving");
    assert_eq!(ends_at(23, 303.0), none, "its epochs may be short");
    assert_eq!(ends_at(23, 305.0), ["cancel a"]);
    let mut saves = state.clone();
    saves.jobs[0].epochs_done = 23;
    Arc::make_mut(&mut saves.jobs[0].job).launch.checkpoint.grace = Some(Seconds(20.0));
    assert_eq!(
        words(&take(saves.clone(), 349.0, &lab(), &how(Moves::Never)).actions),
        none,
        "its grace counts"
    );
    assert_eq!(words(&take(saves, 350.0, &lab(), &how(Moves::Never)).actions), ["cancel a"]);
    let ended = |done: u64, end: End, length: f64| {
        let mut state = state.clone();
        state.jobs[0].epochs_done = done;
        state.jobs[0].epoch = Some(Seconds(length));
        apply(&mut state, Time(310.0), &heard("a", "r", News::Ended { end, at: Time(310.0) }), &rules());
        state.jobs[0].last.1.clone()
    };
    assert!(
        ended(23, End::Cancelled, 10.0).starts_with("completed, stopped at epoch 23 of 40: nothing to gain")
    );
    let ignored = "completed, all 40 epochs, although it was asked to stop after epoch 20: its command does not exit on SIGUSR1";
    assert_eq!(ended(40, End::Completed, 10.0), ignored);
    let short = ended(40, End::Completed, 0.2);
    assert!(short.ends_with("after epoch 20: its epochs are too short to stop it in time"), "{short}");
}

#[test]
fn one_that_waits_or_moves_ends_without_starting_again() {
    let waits = JobState {
        phase: Phase::Waiting { not_before: None, reason: "stopped to move".into() },
        ..half_done(BEST)
    };
    let step = take(state(vec![waits]), 300.0, &lab(), &how(Moves::Never));
    assert!(step.actions.is_empty() && step.state.is_over(), "{:?}", step.actions);
    let stage = stopping(299.0, AfterStop::GoOn, StopProgress::Asked);
    let moves = JobState { phase: phase(attempt("r", "v1", "v100", 1, 0), stage), ..half_done(BEST) };
    let step = take(state(vec![moves]), 300.0, &lab(), &how(Moves::Never));
    let stages: Vec<Stage> =
        step.state.jobs[0].phase.submissions().iter().map(|submission| submission.stage).collect();
    assert_eq!(stages, [stopping(299.0, AfterStop::Finish, StopProgress::Asked)]);
}

#[test]
fn nobody_is_stopped_whose_owner_did_not_allow_it_and_that_is_said_once() {
    let goal = "target: {metric: loss, mode: min}";
    let first = take(state(vec![half_done(goal)]), 300.0, &lab(), &how(Moves::Never));
    assert!(first.actions.is_empty(), "{:?}", first.actions);
    assert!(
        first.notes[0].starts_with("a: would stop at epoch 20 of 40: nothing to gain"),
        "{:?}",
        first.notes
    );
    let second = take(first.state.clone(), 400.0, &lab(), &how(Moves::Never));
    assert!(second.actions.is_empty() && second.notes.is_empty());
    let late = format!("{goal}, stop: {{rule: best, not_before: 30}}");
    let without_metric = half_done("weight: 1");
    for job in [half_done(&late), without_metric] {
        let step = take(state(vec![job]), 300.0, &lab(), &how(Moves::Never));
        assert!(
            step.actions.is_empty() && step.state.jobs[0].early.as_ref().is_none_or(|early| !early.allowed)
        );
    }
}

#[test]
fn a_weaker_rule_holds_while_others_wait() {
    let goal = "target: {metric: loss, mode: min}, stop: {when_busy: best}";
    let alone = take(state(vec![half_done(goal)]), 300.0, &lab(), &how(Moves::Never));
    assert!(alone.actions.is_empty());
    let other = JobState::new(job("b", "{v100: 100}", ", min_gpus: 4"), Time(0.0));
    let busy = take(state(vec![half_done(goal), other]), 300.0, &lab(), &how(Moves::Never));
    assert!(words(&busy.actions).contains(&"stop a".to_owned()), "{:?}", busy.actions);
    // A fully used cluster also counts as busy.
    let full = cluster(&[("v1", "v100", 4, 4, "allocated")]);
    let full = take(state(vec![half_done(goal)]), 300.0, &full, &how(Moves::Never));
    assert_eq!(words(&full.actions), ["stop a"]);
}

#[test]
fn of_a_sweep_the_best_third_goes_on_and_others_save_their_gpus() {
    let member = |name: &str, value: f64, epochs: u64| {
        let goal = "model: m, target: {metric: loss, mode: min}, stop: {rule: halving}";
        let job = hsched_model::Job { epochs: 27, ..job(name, "{v100: 100}", &format!(", {goal}")) };
        let curve = (1..=epochs).map(|epoch| CurvePoint { epoch, value }).collect();
        JobState { curve, ..running(job, attempt("r", "v1", "v100", 1, 0), epochs) }
    };
    let jobs = vec![member("a", 0.3, 9), member("b", 0.2, 9), member("c", 0.4, 9), member("d", 0.1, 2)];
    let step = take(state(jobs), 300.0, &lab(), &how(Moves::Never));
    assert_eq!(words(&step.actions), ["stop a", "stop c"]);
    let why = &step.state.jobs[0].early.as_ref().expect("stops").why;
    assert_eq!(why, "halving (place 2 of 3 so far at epoch 9; it may continue up to place 1)");
}

#[test]
fn runs_of_another_bracket_are_judged_a_rung_later_and_compared_with_their_own() {
    let member = |(name, value): (&str, f64), epochs: u64| {
        let goal = "model: m, target: {metric: loss, mode: min}, stop: {rule: halving, brackets: 2}";
        let job = hsched_model::Job { epochs: 27, ..job(name, "{v100: 100}", &format!(", {goal}")) };
        let curve = (1..=epochs).map(|epoch| CurvePoint { epoch, value }).collect();
        JobState { curve, ..running(job, attempt("r", "v1", "v100", 1, 0), epochs) }
    };
    // Of every four jobs, the last one is in the second bracket.
    let sweep =
        [("a", 0.1), ("b", 0.2), ("c", 0.3), ("d", 0.9), ("e", 0.4), ("f", 0.5), ("g", 0.6), ("h", 1.0)];
    let at = |epochs: u64| {
        let jobs = sweep.map(|run| member(run, epochs)).to_vec();
        words(&take(state(jobs), 300.0, &lab(), &how(Moves::Never)).actions)
    };
    assert_eq!(at(2), ["stop c", "stop e", "stop f", "stop g"]);
    // The second bracket is judged from here on, but its two jobs are too few for a comparison.
    assert_eq!(at(3), ["stop c", "stop e", "stop f", "stop g"]);
    // Jobs keep their brackets when earlier jobs are forgotten and new ones are added.
    let placed = sweep.map(|run| member(run, 0)).to_vec();
    let mut begun = take(state(placed), 300.0, &lab(), &how(Moves::Never)).state;
    begun.jobs.drain(..2);
    begun.jobs.extend([("i", 0.7), ("j", 0.8)].map(|run| member(run, 0)));
    for (tracked, value) in begun.jobs.iter_mut().zip([0.3, 0.9, 0.4, 0.5, 0.6, 1.0, 0.7, 0.8]) {
        tracked.curve = (1..=2).map(|epoch| CurvePoint { epoch, value }).collect();
    }
    // The first bracket has c, e, f, g, i, j; the second has d, h.
    let later = take(begun, 301.0, &lab(), &how(Moves::Never));
    assert_eq!(words(&later.actions), ["stop f", "stop g", "stop i", "stop j"]);
    let places = later.state.jobs.iter().map(|tracked| tracked.place);
    assert!(places.eq((2..10).map(Some)));
}

#[test]
fn a_run_that_is_added_again_stays_in_its_bracket_and_another_sweep_begins_anew() {
    let run = |name: &str, model: &str| {
        let goal = format!(
            "model: {model}, target: {{metric: loss, mode: min}}, stop: {{rule: halving, brackets: 2}}"
        );
        job(name, "{v100: 100}", &format!(", {goal}"))
    };
    let jobs = ["a", "b", "c", "d"].map(|name| JobState::new(run(name, "m"), Time(0.0))).to_vec();
    let waiting = jobs[3].phase.clone();
    let mut begun = take(state(jobs), 300.0, &lab(), &how(Moves::Never)).state;
    begun.jobs[3].phase = waiting;
    let mut place_after = |added| {
        let event = Event::Added { job: Box::new(added), restart: false };
        apply(&mut begun, Time(301.0), &event, &rules());
        begun.jobs[3].place
    };
    assert_eq!(place_after(run("d", "m")), Some(3));
    assert_eq!(place_after(run("d", "other")), None);
}

#[test]
fn in_the_simulated_world_the_rule_saves_epochs() {
    let line = |name: &str, more: &str| {
        format!(
            "  - {{name: {name}, samples_per_epoch: 1000, epochs: 40, global_batch: 100, model_size: 0, max_gpus: 1, \
             throughput: {{a: 100}}, command: train, losses: {:?}, target: {{metric: loss, mode: min}}{more}}}\n",
            losses(40)
        )
    };
    let jobs = jobs(&format!("{}{}", line("x", ", stop: {rule: best}"), line("y", "")));
    let site = site(site_cluster("nodes: [{name: n, gpus: {a: 2}}]"), &jobs);
    let first = Time(1000.0);
    let added = |job| (first, Event::Added { job: Box::new(job), restart: false });
    let rules = rules();
    let options = PlayOptions { rules: &rules, objective: Objective::MeanJct, seed: 0, patience: 10_000 };
    let orders = jobs.into_iter().map(added).collect();
    let mut play =
        Play::new(SimulatedWorld::new(site, Vec::new(), first), orders, policy(Moves::Never), options);
    assert!(play.run(Seconds(1.0), Time(10_000.0)));
    let done: Vec<u64> = play.state.jobs.iter().map(|job| job.epochs_done).collect();
    assert!(done[0] < 25 && done[1] == 40, "{done:?}");
    assert!(
        play.state
            .jobs
            .iter()
            .all(|job| matches!(&job.phase, Phase::Ended { outcome: Outcome::Completed, .. }))
    );
}

/// Returns the training of [`Bench`] with a loss that falls towards 0.2.
fn with_loss() -> String {
    let report =
        r#""metrics": {"loss": '"$(awk -v e="$1" 'BEGIN { print 0.2 + 0.8 / e ^ 3 }')"'}}\n' "$1" "$RANK""#;
    TRAIN.replace(r#""epoch_s": %s}\n' "$1" "$RANK""#, &format!(r#""epoch_s": %s, {report}"#))
}

#[test]
fn under_run_one_is_stopped_and_another_is_not() {
    let speed = "throughput: {cpu: 2000}";
    let goal = "target: {metric: loss, mode: min}";
    let bench = Bench::new(&[
        training("a", 60, &format!("{speed}, {BEST}")),
        training("b", 30, &format!("{speed}, {goal}")),
    ]);
    std::fs::write(bench.sandbox.work("train.sh"), with_loss()).expect("a file");
    let ran = bench.run("run jobs.yaml --devices cpu:2").exits(0);
    assert!(ran.stdout.contains("nothing to gain (best 0.2"), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("b: would stop at epoch"), "{}{}", ran.stdout, ran.stderr);
    assert!(bench.saved("a").len() < 60, "{:?}", bench.saved("a"));
    assert_eq!(bench.saved("b").len(), 30);
    let status = bench.sandbox.run("status a --format json").json();
    let why = status["jobs"][0]["stopped_early"].as_str().expect("a reason").to_owned();
    assert!(why.starts_with("nothing to gain"), "{why}");
}

#[test]
fn a_late_job_is_warned_of_with_what_would_help() {
    let job = job("a", "{v100: 100, a100: 300, t4: 50}", ", deadline: 200s");
    let mut late = running(job, attempt("r", "v1", "v100", 1, 0), 4);
    (late.epoch, late.epoch_at) = (Some(Seconds(40.0)), Some(Time(160.0)));
    // Four epochs took 40 s each, and six remain: the job completes at 400 s, not 200.
    assert_eq!(late.lateness(Time(160.0)), Some(Seconds(200.0)));
    let in_time = JobState { epoch: Some(Seconds(5.0)), ..late.clone() };
    assert_eq!(in_time.lateness(Time(160.0)), None);
    let waits = JobState { phase: Phase::Waiting { not_before: None, reason: "x".into() }, ..late.clone() };
    assert_eq!(waits.lateness(Time(160.0)), Some(Seconds(200.0)));
    // The warning is reported once, even if another process makes the next turn.
    let told = "a: will miss its deadline; hsched status a shows what would help";
    let first = take(state(vec![late]), 160.0, &lab(), &how(Moves::Never));
    assert_eq!(first.notes, [told]);
    let second = take(first.state, 170.0, &lab(), &how(Moves::Never));
    assert!(second.notes.is_empty() && second.actions.is_empty(), "{:?}", second.notes);
    let step = take(state(vec![in_time]), 160.0, &lab(), &how(Moves::Never));
    assert!(step.notes.is_empty(), "{:?}", step.notes);
}

/// Returns the actions of `optimal` with moves, if every estimated wait in the queue is 100 s.
fn moves_for(objective: Objective, jobs: Vec<JobState>, cluster: &Cluster) -> Vec<String> {
    let state = state(jobs);
    let mut policy = policy(Moves::Auto { margin: 0.5 });
    let mut planner = planner(policy.as_mut());
    planner.objective = objective;
    let rules = rules();
    let first = step(state.clone(), Time(160.0), &[], cluster, &rules, &mut planner);
    planner.forecasts =
        first.questions.into_iter().map(|question| question.answered(Some(Seconds(100.0)))).collect();
    words(&step(state, Time(160.0), &[], cluster, &rules, &mut planner).actions)
}

#[test]
fn for_deadlines_running_jobs_change_places_and_make_room() {
    let site = cluster(&[("v1", "v100", 1, 1, "allocated"), ("t1", "t4", 1, 1, "allocated")]);
    let runs = |name: &str, run: &str, (node, gpu_type): (&str, &str), more: &str| {
        let job =
            job(name, "{v100: 100, t4: 50}", &format!(", max_gpus: 1, checkpoint: {{dir: saved}}{more}"));
        JobState { epoch_at: Some(Time(160.0)), ..running(job, attempt(run, node, gpu_type, 1, 0), 4) }
    };
    // Six epochs of 10 s and of 20 s end at 220 s and at 280 s.
    let jobs_due = |due: &str| {
        let late = runs("late", "s", ("t1", "t4"), &format!(", deadline: {due}"));
        vec![runs("easy", "r", ("v1", "v100"), ""), late]
    };
    let none: [&str; 0] = [];
    assert_eq!(moves_for(Objective::MeanJct, jobs_due("260s"), &site), none);
    assert_eq!(moves_for(Objective::Deadlines, jobs_due("260s"), &site), ["stop late", "stop easy"]);
    // With the first deadline, the job is on time on its GPUs; with the second, it would be late on any GPUs,
    // given the cost of a move.
    assert_eq!(moves_for(Objective::Deadlines, jobs_due("290s"), &site), none);
    assert_eq!(moves_for(Objective::Deadlines, jobs_due("225s"), &site), none);

    let room = cluster(&[("v1", "v100", 1, 1, "allocated"), ("t1", "t4", 1, 0, "idle")]);
    // The move costs more than it improves the mean.
    let jobs_due = |due: &str| {
        let more = format!(", max_gpus: 1, deadline: {due}");
        let mut easy = runs("easy", "r", ("v1", "v100"), "");
        Arc::make_mut(&mut easy.job).launch.checkpoint.restart_cost = Some(Seconds(100.0));
        vec![easy, JobState::new(job("new", "{v100: 100}", &more), Time(160.0))]
    };
    assert_eq!(moves_for(Objective::MeanJct, jobs_due("110s"), &room), ["new waits"]);
    assert_eq!(moves_for(Objective::Deadlines, jobs_due("110s"), &room), ["stop easy", "new waits"]);
    assert_eq!(moves_for(Objective::Deadlines, jobs_due("400s"), &room), ["new waits"]);
}

#[test]
fn what_is_wrong_with_a_rule_or_a_deadline_is_said() {
    let check = |more: &str, expected: &str| {
        let text = format!(
            "jobs: [{{name: a, samples_per_epoch: 9, epochs: 2, global_batch: 3, model_size: 0, throughput: {{v100: 1}}, command: x, {more}}}]"
        );
        let ran = Sandbox::new().file("j.yaml", text).run("plan j.yaml --cluster cluster.yaml");
        assert_eq!(ran.code, Some(78), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    };
    check("stop: {rule: best}", "stop: needs a metric, but the job has no target; add target");
    // An incomplete target and invalid values are reported as such.
    check("target: {metric: loss}, stop: {rule: best}", "target: is missing the required key mode");
    check(
        "stop: {rule: bset}",
        "must be one of epochs, best, target, halving, got \"bset\"; did you mean best?",
    );
    check("stop: {confidence: 1}", "must be at least 0.5 and below 1, got 1");
    check("stop: {paitence: 3}", "is not a known key; did you mean patience?");
    check("deadline: soon", "must be a date and time or a duration, got \"soon\"");
    check("deadline: 2030-02-30T10:00:00", "must be a date and time or a duration");
    check("deadline: 30", "has no unit");
    check("urgency: 11", "must be from 0 to 10, got 11");
}
