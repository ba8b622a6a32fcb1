//! Small policies that the engine runs in the simulated cluster: all kinds of decisions are carried out.

use std::collections::BTreeMap;

use hsched_engine::{Action, End, Event, JobState, Outcome, Phase, Update};
use hsched_lab::simulate::{Delays, Play, PlayOptions, SimulatedSite, SimulatedWorld};
use hsched_model::{Job, Seconds, Speed, Time};
use hsched_plan::{
    Budget, Decision, Memory, Moves, Objective, Parameters, Placement, Plan, Policy, PolicyError, Problem,
    Replanning, Sharing, Slot,
};

use hsched_fixtures::engine_states::{cluster, gpu, job, rules};

/// Plays jobs that arrive at their times on V100, each of which trains an epoch in 10 s; returns the jobs and
/// the actions.
fn play(policy: Box<dyn Policy>, gpus: u32, jobs: &[(f64, Job)]) -> (Vec<JobState>, Vec<String>) {
    let rate = hsched_model::BitRate::new(10.0).expect("a rate");
    let speed = BTreeMap::from([(gpu("v100"), Speed::rate(100.0).expect("a rate"))]);
    let second = Seconds(1.0);
    let speeds = jobs.iter().map(|(_, job)| (job.model.clone(), speed.clone())).collect();
    let site = SimulatedSite {
        delays: Delays { start: second, setup: second, end: second, node_down: second },
        ..SimulatedSite::new(cluster(&[("v1", "v100", gpus, 0, "idle")]), [rate, rate], speeds)
    };
    let order =
        |(at, job): &(f64, Job)| (Time(*at), Event::Added { job: Box::new(job.clone()), restart: false });
    let rules = rules();
    let options = PlayOptions { rules: &rules, objective: Objective::MeanJct, seed: 0, patience: u64::MAX };
    let world = SimulatedWorld::new(site, Vec::new(), Time(0.0));
    let mut play = Play::new(world, jobs.iter().map(order).collect(), policy, options);
    let mut done = Vec::new();
    while !play.is_over() && play.world.now().0 < 2000.0 {
        let at = play.world.now().0;
        play.turn(&mut |update| match update {
            Update::Action(Action::Submit(run)) => {
                done.extend(
                    run.submissions.iter().map(|planned_submission| {
                        format!("{at} submit {}", run.key(planned_submission).name())
                    }),
                );
            }
            Update::Action(Action::Stop { of, .. }) => done.push(format!("{at} stop {}", of.name())),
            Update::Action(Action::Cancel { of, .. }) => done.push(format!("{at} cancel {}", of.name())),
            _ => {}
        });
        play.world.pass(Seconds(5.0));
    }
    (play.state.jobs, done)
}

/// The actions without their times.
fn deeds(done: &[String]) -> Vec<&str> {
    done.iter().filter_map(|line| line.split_once(' ')).map(|(_, what)| what).collect()
}

fn new_job(name: &str, epochs: u64) -> Job {
    Job { epochs, ..job(name, "{v100: 100}", "") }
}

fn ended(tracked: &JobState) -> (f64, u64) {
    match &tracked.phase {
        Phase::Ended { at, outcome: Outcome::Completed } => (at.0, tracked.epochs_done),
        other => panic!("{}: {other:?}", tracked.job.name),
    }
}

/// Returns the decision that places the job on one GPU of the only node.
fn place(problem: &Problem, job: usize) -> Decision {
    let slot = Slot { node: 0, gpu_type: 0, count: 1 };
    let placement = Placement::new(problem, job, &[slot], Sharing::Balanced).expect("a legal one");
    Decision::Place { placements: vec![placement], queued: false, why: "its turn".to_owned() }
}

/// Returns the decisions that give the GPU to the chosen job and let all others wait; none while a job is
/// being stopped.
fn only(problem: &Problem, chosen: usize) -> Vec<(usize, Decision)> {
    let defer = || Decision::Defer { why: "not its turn".to_owned() };
    let decide = |job: usize| if job == chosen { place(problem, job) } else { defer() };
    // A job that is being stopped keeps its GPU until it has ended.
    let is_leaving = problem
        .jobs
        .iter()
        .any(|job| !job.progress.holds.is_empty() && job.progress.running().next().is_none());
    if is_leaving { Vec::new() } else { (0..problem.jobs.len()).map(decide).enumerate().collect() }
}

struct Nothing;

impl Policy for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn decide(&mut self, _: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        Ok(Plan::default())
    }
}

#[test]
fn a_policy_that_says_nothing_leaves_jobs_where_they_are() {
    let (jobs, done) = play(Box::new(Nothing), 1, &[(0.0, new_job("a", 2))]);
    assert!(matches!(jobs[0].phase, Phase::Waiting { .. }), "{:?}", jobs[0].phase);
    assert!(done.is_empty(), "{done:?}");
}

/// Gives the GPU to the job with the least remaining work, regardless of which job had it before.
struct ShortestFirst;

impl Policy for ShortestFirst {
    fn name(&self) -> &'static str {
        "shortest-first"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let shortest = (0..problem.jobs.len()).min_by_key(|&job| problem.jobs[job].progress.epochs_left);
        Ok(Plan { changes: shortest.map_or_else(Vec::new, |job| only(problem, job)), ..Plan::default() })
    }
}

#[test]
fn one_job_at_a_time_with_preemption() {
    let (jobs, done) =
        play(Box::new(ShortestFirst), 1, &[(0.0, new_job("long", 20)), (50.0, new_job("short", 3))]);
    let (long, short) = (ended(&jobs[0]), ended(&jobs[1]));
    assert_eq!((long.1, short.1), (20, 3));
    assert!(short.0 < 120.0 && long.0 > 230.0 && long.0 < 290.0, "{long:?} {short:?}");
    assert_eq!(deeds(&done), ["submit long", "stop long", "submit short", "submit long"], "{done:?}");
}

/// Gives the GPU to each job for a time in turn; the turn survives a restart of the process.
#[derive(Default)]
struct RoundRobin {
    /// The running number of the turn, and its end.
    turn: (usize, f64),
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        if problem.now.0 >= self.turn.1 {
            self.turn = (self.turn.0 + 1, problem.now.0 + 60.0);
        }
        let changes = only(problem, self.turn.0 % problem.jobs.len());
        Ok(Plan { changes, wake: Some(Time(self.turn.1)), ..Plan::default() })
    }

    fn memory(&self) -> Option<Memory> {
        let text = format!("{} {}", self.turn.0, self.turn.1);
        Some(Memory { policy: self.name().to_owned(), version: 1, text })
    }

    fn remember(&mut self, memory: &Memory) {
        let (turn, until) = memory.text.split_once(' ').expect("its own words");
        self.turn = (turn.parse().expect("a number"), until.parse().expect("a number"));
    }
}

#[test]
fn round_robin_wakes_when_its_time_is_over() {
    let (jobs, done) =
        play(Box::<RoundRobin>::default(), 1, &[(0.0, new_job("a", 12)), (0.0, new_job("b", 12))]);
    assert_eq!([ended(&jobs[0]).1, ended(&jobs[1]).1], [12, 12]);
    let stops = done.iter().filter(|line| line.contains("stop")).count();
    assert!((3..=8).contains(&stops), "{done:?}");
}

/// Ends a job two epochs early.
struct Early;

impl Policy for Early {
    fn name(&self) -> &'static str {
        "early"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let progress = &problem.jobs[0].progress;
        let decision = match progress.epochs_left {
            ..=2 => Decision::Finish { why: "it learns no more".to_owned() },
            _ if progress.holds.is_empty() => place(problem, 0),
            _ => return Ok(Plan { wake: Some(problem.now), ..Plan::default() }),
        };
        Ok(Plan { changes: vec![(0, decision)], wake: Some(problem.now), ..Plan::default() })
    }
}

#[test]
fn a_job_can_be_ended_early() {
    let (jobs, done) = play(Box::new(Early), 1, &[(0.0, new_job("a", 10))]);
    let (at, epochs) = ended(&jobs[0]);
    assert_eq!(epochs, 8, "{at} {done:?}");
    assert!(jobs[0].last.1.starts_with("completed early"), "{:?}", jobs[0].last);
}

/// Trains a second copy of a job on another GPU for its last epochs.
struct TwoCopies;

impl Policy for TwoCopies {
    fn name(&self) -> &'static str {
        "two-copies"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let Decision::Place { placements, .. } = place(problem, 0) else { return Ok(Plan::default()) };
        let copies = if problem.jobs[0].progress.epochs_left > 5 { 1 } else { 2 };
        let decision = Decision::Place {
            placements: placements.into_iter().cycle().take(copies).collect(),
            queued: false,
            why: String::new(),
        };
        Ok(Plan { changes: vec![(0, decision)], wake: Some(problem.now), ..Plan::default() })
    }
}

#[test]
fn a_job_may_have_two_copies_and_is_done_when_one_is() {
    let (jobs, done) = play(Box::new(TwoCopies), 2, &[(0.0, new_job("a", 10))]);
    let (at, epochs) = ended(&jobs[0]);
    assert!(epochs == 10 && at < 115.0, "{at} {epochs} {done:?}");
    assert_eq!(deeds(&done), ["submit a", "submit a.c1", "cancel a.c1"], "{done:?}");
    let past = jobs[0].past.iter().map(|past| (past.attempt.copy, past.end.clone()));
    assert_eq!(past.collect::<Vec<_>>(), [(0, End::Completed), (1, End::Cancelled)]);
}

#[test]
fn horizon_moves_a_job_that_saves_to_gpus_that_become_free() {
    let moved = |checkpoint: &str| {
        let replanning = Replanning { moves: Moves::Auto { margin: 0.5 }, ..Replanning::default() };
        let policy = hsched_lab::find("horizon", &Parameters { replanning, ..Parameters::default() });
        let long = job("long", "{v100: 100}", &format!(", max_gpus: 2{checkpoint}"));
        let short = job("short", "{v100: 100}", ", max_gpus: 1");
        let jobs = [(0.0, Job { epochs: 40, ..long }), (0.0, Job { epochs: 5, ..short })];
        let (jobs, done) = play(policy.expect("a policy"), 2, &jobs);
        assert_eq!(ended(&jobs[1]).1, 5);
        (
            ended(&jobs[0]),
            deeds(&done)
                .into_iter()
                .filter(|deed| deed.contains("long"))
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    let (end, deeds) = moved(", checkpoint: {restart_cost: 5s}");
    assert_eq!(deeds, ["submit long", "stop long", "submit long"]);
    assert!(end.0 < 260.0, "{end:?}");
    let (end, deeds) = moved("");
    assert_eq!(deeds, ["submit long"]);
    assert!(end.0 > 400.0, "{end:?}");
}
