//! Random stories in the simulated cluster, played by the real engine: no GPU is promised twice, no epoch is
//! counted twice, and no job is done twice.

use std::collections::{BTreeMap, BTreeSet};

use hsched_engine::{Action, Answer, End, Event, News, Phase, State, SubmissionKey, Update, look};
use hsched_lab::simulate::{Incident, IncidentTime, Play, PlayOptions, SimulatedSite, SimulatedWorld};
use hsched_model::{GpuType, Job, JobName, Seconds, Speed, Time};
use hsched_plan::{Moves, Objective, Policy};
use hsched_ui::Story;
use insta::assert_snapshot;
use proptest::prelude::*;

use crate::any_story::{FIRST, Script, any_story, gpu_type};
use hsched_fixtures::engine_states::{policy, policy_named};
use hsched_fixtures::sites::{cluster, jobs, name, node, rules, site};

/// Checks of the invariants, with the observations so far.
#[derive(Default)]
struct Watch {
    epochs: BTreeMap<JobName, u64>,
    /// Jobs that are in the queue or run.
    live: BTreeSet<JobName>,
    acted_on: Vec<JobName>,
    wrong: Vec<String>,
}

impl Watch {
    fn hear(&mut self, told: Update<'_>) {
        match told {
            Update::Event(Event::News { of: SubmissionKey { job, .. }, news: News::Epoch(report) }) => {
                let done = self.epochs.entry(job.clone()).or_default();
                if report.epoch != *done + 1 {
                    self.wrong.push(format!("{job}: epoch {} after {done}", report.epoch));
                }
                *done = report.epoch;
            }
            Update::Event(Event::Answer {
                of: SubmissionKey { job, .. },
                answer: Answer::Submitted { .. },
            }) if !self.live.insert(job.clone()) => {
                self.wrong.push(format!("{job} is submitted twice"));
            }
            Update::Event(Event::News { of: SubmissionKey { job, .. }, news: News::Ended { .. } }) => {
                self.live.remove(job);
            }
            Update::Action(Action::Submit(batch)) => {
                let names =
                    batch.submissions.iter().map(|submission| batch.jobs[submission.job].name.clone());
                self.acted_on.extend(names);
            }
            Update::Action(
                Action::Stop { of: SubmissionKey { job, .. }, .. }
                | Action::Cancel { of: SubmissionKey { job, .. }, .. }
                | Action::Amend { of: SubmissionKey { job, .. }, .. }
                | Action::Wait { job, .. },
            ) => {
                self.acted_on.push(job.clone());
            }
            _ => {}
        }
    }

    /// Checks the moment after a turn.
    fn check(&mut self, state: &State, world: &SimulatedWorld) {
        for job in self.acted_on.drain(..) {
            if state.find(&job).is_none_or(|tracked| tracked.phase.is_over()) {
                self.wrong.push(format!("{job} has ended and is acted on"));
            }
        }
        let mut all: BTreeMap<GpuType, u32> = BTreeMap::new();
        for node in &world.cluster().nodes {
            for stock in &node.gpus {
                *all.entry(stock.gpu_type.clone()).or_default() += stock.total;
                if stock.used > stock.total {
                    self.wrong.push(format!("{} {} of {} used", node.name, stock.used, stock.total));
                }
            }
        }
        for attempt in state.jobs.iter().filter_map(|tracked| tracked.phase.attempt()) {
            for (gpu_type, count) in attempt.gpus.by_type() {
                match all.get_mut(&gpu_type) {
                    Some(left) if *left >= count => *left -= count,
                    _ => self.wrong.push(format!("more {gpu_type} are promised than there are")),
                }
            }
        }
    }
}

fn orders(story: &Script) -> Vec<(Time, Event)> {
    let at = |seconds: u32| Time(FIRST.0 + f64::from(seconds));
    let added = story
        .jobs
        .iter()
        .map(|(arrival, job)| (at(*arrival), Event::Added { job: Box::new(job.clone()), restart: false }));
    let cancelled = story
        .cancelled
        .iter()
        .map(|(when, job)| (at(*when), Event::CancelAsked { job: name(&format!("j{job}")) }));
    added.chain(cancelled).collect()
}

/// Plays a story to its end.
fn play_to_its_end(story: &Script, policy: Box<dyn Policy>) -> Result<(), TestCaseError> {
    let rules = rules();
    let world = SimulatedWorld::new(story.site.clone(), story.incidents.clone(), FIRST);
    let ways = PlayOptions { rules: &rules, objective: Objective::MeanJct, seed: 0, patience: 10_000 };
    let mut play = Play::new(world, orders(story), policy, ways);
    let mut watch = Watch::default();
    while !play.is_over() && play.world.now().0 < FIRST.0 + 100_000.0 {
        play.turn(&mut |told| watch.hear(told));
        watch.check(&play.state, &play.world);
        prop_assert!(watch.wrong.is_empty(), "{:?} at {}", watch.wrong, play.world.now().0 - FIRST.0);
        play.world.pass(Seconds(f64::from(story.poll)));
    }
    prop_assert!(play.is_over(), "{:#?}", play.state.jobs);
    for tracked in &play.state.jobs {
        let completed =
            matches!(&tracked.phase, Phase::Ended { outcome: hsched_engine::Outcome::Completed, .. });
        let counted = watch.epochs.get(&tracked.job.name).copied().unwrap_or(0);
        prop_assert_eq!(counted, tracked.epochs_done);
        prop_assert!(!completed || counted == tracked.job.epochs, "{} of {}", counted, tracked.job.epochs);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_gpu_and_no_epoch_counts_twice_and_everything_ends(story in any_story()) {
        play_to_its_end(&story, policy(story.moves))?;
    }

    #[test]
    fn nor_with_a_policy_over_time(story in any_story()) {
        play_to_its_end(&story, policy_named("horizon", story.moves))?;
    }
}

/// Plays jobs in a cluster, with moves; returns the lines of the story.
fn told(
    nodes: &str,
    text: &str,
    incidents: Vec<Incident>,
    change: impl Fn(&mut SimulatedSite),
) -> Vec<String> {
    let jobs = jobs(text);
    let mut site = site(cluster(nodes), &jobs);
    change(&mut site);
    let orders =
        jobs.iter().map(|job| (FIRST, Event::Added { job: Box::new(job.clone()), restart: false })).collect();
    let (rules, policy) = (rules(), hsched_fixtures::engine_states::policy(Moves::Auto { margin: 0.1 }));
    let ways = PlayOptions { rules: &rules, objective: Objective::MeanJct, seed: 0, patience: 10_000 };
    let mut play = Play::new(SimulatedWorld::new(site, incidents, FIRST), orders, policy, ways);
    let (mut story, mut lines) = (Story::default(), Vec::new());
    while !play.is_over() && play.world.now().0 < FIRST.0 + 10_000.0 {
        play.turn(&mut |told| story.hear(told));
        let now = play.world.now().0 - FIRST.0;
        lines.extend(story.lines(&play.state).iter().map(|line| format!("{now} {}", line.plain())));
        play.world.pass(Seconds(1.0));
    }
    lines
}

const TWO: &str = r"  - {name: x, samples_per_epoch: 1000, epochs: 4, global_batch: 100, model_size: 0, throughput: {a: 10}, command: train}
  - {name: y, samples_per_epoch: 1000, epochs: 4, global_batch: 100, model_size: 0, throughput: {a: 10}, command: train}";

#[test]
fn nobody_moves_to_the_gpus_of_a_job_that_is_about_to_be_tried_again() {
    let end = End::Failed { exit: 1, signal: 0 };
    let fails = Incident::Failure { job: name("x"), submission: 1, epoch: 3, end };
    let lines = told("nodes: [{name: n, gpus: {a: 2}}]", TWO, vec![fails], |_| ());
    assert_snapshot!(lines.join("\n"), @r"
    0 x: added: 4 epochs of 1000 samples
    0 y: added: 4 epochs of 1000 samples
    0 x: submitted as job 1 on 1 a (n); predicted 100.0 s per epoch
    0 y: submitted as job 2 on 1 a (n); predicted 100.0 s per epoch
    1 x: running on 1 a (n)
    1 y: running on 1 a (n)
    100 x: epoch 1 of 4 done (100.0 s)
    100 y: epoch 1 of 4 done (100.0 s)
    200 x: epoch 2 of 4 done (100.0 s)
    200 x: failed with exit status 1, 2 of 3 retries left; resumes after epoch 2 of 4, in 5 s at the earliest
    200 y: epoch 2 of 4 done (100.0 s)
    205 x: submitted as job 3 on 1 a (n); predicted 100.0 s per epoch
    206 x: running on 1 a (n)
    300 y: epoch 3 of 4 done (100.0 s)
    305 x: epoch 3 of 4 done (100.0 s)
    400 y: epoch 4 of 4 done (100.0 s)
    400 y: completed, 400.0 s after it was added
    405 x: epoch 4 of 4 done (100.0 s)
    405 x: completed, 405.0 s after it was added
    ");
}

#[test]
fn a_turn_in_which_nothing_has_happened_has_no_step() {
    let jobs = jobs(TWO);
    let site = site(cluster("nodes: [{name: n, gpus: {a: 1}}]"), &jobs);
    let added = |job: &Job| (FIRST, Event::Added { job: Box::new(job.clone()), restart: false });
    let (rules, mut policy) = (rules(), hsched_fixtures::engine_states::policy(Moves::Never));
    let ways = PlayOptions { rules: &rules, objective: Objective::MeanJct, seed: 0, patience: 10_000 };
    let play_policy = hsched_fixtures::engine_states::policy(Moves::Never);
    let mut play = Play::new(
        SimulatedWorld::new(site, Vec::new(), FIRST),
        jobs.iter().map(added).collect(),
        play_policy,
        ways,
    );
    let mut turns = |play: &mut Play<'_>| {
        // The next turn sees the requests of this one and decides once more.
        (0..2).for_each(|_| play.turn(&mut |_| ()));
        let mut planner = hsched_fixtures::engine_states::planner(policy.as_mut());
        let Ok(turn) = look(&mut play.world, &play.state, &rules, &mut planner);
        turn.step
    };
    assert_eq!(turns(&mut play), None);
    play.world.pass(Seconds(1.0));
    assert_eq!(turns(&mut play), None);
    // One job waits, one trains, and an epoch is done.
    play.world.pass(Seconds(100.0));
    let mut planner = hsched_fixtures::engine_states::planner(policy.as_mut());
    let Ok(turn) = look(&mut play.world, &play.state, &rules, &mut planner);
    assert_eq!(turn.step.map(|step| step.state.jobs[0].epochs_done), Some(1));
}

#[test]
fn a_story_has_a_line_for_all_that_is_news() {
    let dies = |node: &str| Incident::NodeDies {
        node: hsched_fixtures::sites::node(node),
        when: IncidentTime::At(Time(FIRST.0 + 130.0)),
    };
    let returns = Incident::NodeReturns { node: node("n2"), when: IncidentTime::At(Time(FIRST.0 + 300.0)) };
    let lines = told(
        "nodes: [{name: 'n[1-3]', gpus: {a: 1}}]",
        &TWO.replace("a: 10}", "a: 10}, max_gpus: 1"),
        vec![dies("n2"), dies("n3"), returns],
        |site| {
            let slow = Speed::rate(8.0).expect("a rate");
            site.speeds.get_mut("y").expect("a model").insert(gpu_type(0), slow);
        },
    );
    assert_snapshot!(lines.join("\n"), @r"
    0 x: added: 4 epochs of 1000 samples
    0 y: added: 4 epochs of 1000 samples
    0 x: submitted as job 1 on 1 a (n1); predicted 100.0 s per epoch
    0 y: submitted as job 2 on 1 a (n2); predicted 100.0 s per epoch
    1 x: running on 1 a (n1)
    1 y: running on 1 a (n2)
    100 x: epoch 1 of 4 done (100.0 s)
    125 y: epoch 1 of 4 done (125.0 s)
    125 y: measured a 8.0/s at batch 100 (job file: 10/s)
    130 nodes n[2-3] are down (Not responding)
    130 y: lost a node; resumes after epoch 1 of 4, in 5 s at the earliest
    135 y: waiting: needs a a; 0 available now
    200 x: epoch 2 of 4 done (100.0 s)
    300 node n2 is back
    300 x: epoch 3 of 4 done (100.0 s)
    300 y: submitted as job 3 on 1 a (n2); predicted 125.0 s per epoch
    301 y: running on 1 a (n2)
    400 x: epoch 4 of 4 done (100.0 s)
    400 x: completed, 400.0 s after it was added
    425 y: epoch 2 of 4 done (125.0 s)
    550 y: epoch 3 of 4 done (125.0 s)
    675 y: epoch 4 of 4 done (125.0 s)
    675 y: completed, 11 min 15 s after it was added
    ");
}

#[test]
fn many_that_wait_are_one_line() {
    let job = |number: usize| {
        format!(
            "  - {{name: j{number}, samples_per_epoch: 1000, epochs: 1, global_batch: 100, model_size: 0, \
             throughput: {{a: 10}}, command: train}}\n"
        )
    };
    let text: String = (0..6).map(job).collect();
    let lines = told("nodes: [{name: n, gpus: {a: 1}}]", &text, Vec::new(), |_| ());
    let waits: Vec<&String> =
        lines.iter().filter(|line| line.starts_with("0 ") && line.contains("wait")).collect();
    assert_eq!(waits.len(), 3, "{waits:?}");
    assert_eq!(waits[2], "0 3 more jobs are waiting: hsched status shows why");
}
