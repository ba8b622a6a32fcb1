//! A turn of the engine with all possible outcomes: every answer to every request, and a crash at every
//! write.

use std::cell::RefCell;
use std::collections::BTreeSet;

use hsched_engine::{
    Action, Answer, Event, Keeper, Observation, PlannedSubmission, Planner, QueueState, Rules, Run, Sighting,
    State, SubmissionKey, Turn, TurnExecutor, World, apply, look,
};
use hsched_model::{JobId, Seconds, Time};
use hsched_plan::{Budget, Objective, Policy};

use super::Plant;
use super::slurm::{Life, Slurm};

/// The outcome of a turn.
pub struct Went {
    pub what: String,
    /// Number of faults in the turn.
    pub faults: u8,
    pub state: State,
    pub slurm: Slurm,
}

/// The start of a turn.
pub struct Start<'a> {
    pub state: &'a State,
    pub slurm: &'a Slurm,
    pub at: Time,
    /// Number of remaining faults.
    pub faults: u8,
}

/// The process has died.
struct Crash;

impl From<std::convert::Infallible> for Crash {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// The path of a turn: its choices so far, each with the number of alternatives.
#[derive(Default)]
struct Way {
    choices: Vec<(usize, usize)>,
    next: usize,
    faults: u8,
    /// The process dies before it receives the answer.
    dies: bool,
    /// Number of remaining requests.
    requests: usize,
    said: Vec<&'static str>,
}

impl Way {
    /// Chooses one of several alternatives and returns its index; the first is the normal one, all others are
    /// faults.
    fn choose(&mut self, ways: &[&'static str]) -> usize {
        let count = if self.faults > 0 { ways.len() } else { 1 };
        if self.next == self.choices.len() {
            self.choices.push((0, count));
        }
        let (choice, of) = self.choices[self.next];
        assert_eq!(of, count, "a turn is not what it was");
        self.next += 1;
        self.faults -= u8::from(choice > 0);
        self.said.push(ways[choice]);
        choice
    }

    /// Returns the next path after this one; `None` after the last.
    fn following(mut self) -> Option<Self> {
        while self.choices.last().is_some_and(|(choice, of)| choice + 1 == *of) {
            self.choices.pop();
        }
        self.choices.last_mut()?.0 += 1;
        Some(Self { choices: self.choices, ..Self::default() })
    }
}

/// The engine's view of Slurm, and the transmission of its requests.
struct ExploredWorld<'a> {
    slurm: Slurm,
    at: Time,
    plant: Plant,
    way: &'a RefCell<Way>,
    /// The next job id.
    id: u32,
    /// The state before the turn.
    before: &'a State,
}

impl World for ExploredWorld<'_> {
    type Error = Crash;

    fn observe(&mut self, state: &State) -> Result<Observation, Crash> {
        let mut seen = self.slurm.look(state, self.at);
        self.plant.distort(state, &mut seen);
        Ok(seen)
    }

    fn prepare(&mut self, _: &Run) -> Result<(), String> {
        Ok(())
    }

    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer {
        let of = run.key(intent);
        let node = Slurm::node(run.gpus(intent).0.keys().next().expect("a node").as_str());
        let (id, job) = (JobId(self.id), Slurm::place(self.before, &of.job));
        self.id += 1;
        let mut take = |life: Life| self.slurm.take(of.clone(), (job, id, node), life);
        let mut way = self.way.borrow_mut();
        let message = || "so it is".to_owned();
        let unclear = || match self.plant {
            Plant::LateIsRefused => Answer::Refused { message: message() },
            _ => Answer::Unclear { message: message() },
        };
        match way.choose(&[
            "accepted",
            "refused",
            "deferred",
            "unreachable",
            "answer lost",
            "late",
            "late, and killed by then",
        ]) {
            0 => {
                take(Life::Queued);
                Answer::Submitted { job_id: id }
            }
            1 => Answer::Refused { message: message() },
            2 => Answer::Deferred { message: message() },
            3 => Answer::Unreachable { message: message() },
            4 => {
                take(Life::Queued);
                unclear()
            }
            choice => {
                take(Life::Coming(0));
                way.dies = choice == 6;
                unclear()
            }
        }
    }

    fn stop(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer {
        let entry = self.slurm.find(of, job_id);
        let choice = self.way.borrow_mut().choose(&["heard", "not heard", "answer lost", "lost"]);
        if let (0 | 2, Some(entry)) = (choice, entry) {
            entry.asked |= entry.life == Life::Running;
        }
        answer(choice, Answer::Stopped)
    }

    fn cancel(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer {
        let entry = self.slurm.find(of, job_id);
        let choice = self.way.borrow_mut().choose(&["heard", "not heard", "answer lost", "lost"]);
        if let (0 | 2, Some(entry)) = (choice, entry) {
            entry.killed |= entry.is_alive();
        }
        answer(choice, Answer::Killed)
    }

    fn forecast(&mut self, _: &Run) -> Option<Seconds> {
        None
    }
}

fn answer(choice: usize, done: Answer) -> Answer {
    match choice {
        0 => done,
        1 => Answer::NotStopped { message: "so it is".to_owned() },
        _ => Answer::Unclear { message: "so it is".to_owned() },
    }
}

/// The state on disk: the intents, and the answers since.
struct Disk<'a> {
    state: State,
    rules: &'a Rules,
    way: &'a RefCell<Way>,
    /// Whether intents are written only with the first answer, which is the deliberate bug.
    late: bool,
    unwritten: Option<State>,
}

impl Disk<'_> {
    /// Writes a change, or dies before the write or, if more requests follow, after it.
    fn write(&mut self, change: impl FnOnce(&mut State, &Rules)) -> Result<(), Crash> {
        let (choice, more) = {
            let mut way = self.way.borrow_mut();
            let ways: &[_] = match way.requests {
                0 => &["written", "killed before that is written"],
                _ => &["written", "killed before that is written", "killed after that is written"],
            };
            if way.dies {
                return Err(Crash);
            }
            (way.choose(ways), way.requests > 0)
        };
        if choice == 1 {
            return Err(Crash);
        }
        if let Some(state) = self.unwritten.take() {
            self.state = state;
        }
        change(&mut self.state, self.rules);
        if choice == 2 && more { Err(Crash) } else { Ok(()) }
    }
}

impl Keeper for Disk<'_> {
    type Error = Crash;

    fn keep(&mut self, _: Time, state: &State, _: &[Event], _: &[Action]) -> Result<(), Crash> {
        // A process that is killed earlier has changed nothing, as if there had been no turn.
        if self.late {
            self.unwritten = Some(state.clone());
        } else {
            self.state.clone_from(state);
        }
        let mut way = self.way.borrow_mut();
        let dies = way.requests > 0 && way.choose(&["meant", "killed before the first request"]) == 1;
        if dies { Err(Crash) } else { Ok(()) }
    }

    fn add(&mut self, at: Time, event: &Event) -> Result<(), Crash> {
        self.way.borrow_mut().requests -= 1;
        self.write(|state, rules| drop(apply(state, at, event, rules)))
    }
}

/// Returns all possible outcomes of a turn; none if it changes nothing.
pub fn turns(start: &Start<'_>, rules: &Rules, policy: &mut dyn Policy, plant: Plant) -> Vec<Went> {
    let run = unused_run(start);
    let mut planner = Planner {
        policy,
        objective: Objective::MeanJct,
        seed: 0,
        run: &run,
        budget: Budget { begin: &|| (), stop: &|| false },
        forecasts: Vec::new(),
        start_estimates: None,
    };
    let way = RefCell::new(Way::default());
    let mut world = world(start, plant, &way);
    let Ok(turn) = look(&mut world, start.state, rules, &mut planner) else { return Vec::new() };
    let Some(step) = turn.step.as_ref().filter(|step| step.state != *start.state || !step.actions.is_empty())
    else {
        return Vec::new();
    };
    let requests = step.actions.iter().map(|action| match action {
        Action::Submit(run) => run.submissions.len(),
        Action::Stop { .. } | Action::Cancel { .. } | Action::Amend { .. } | Action::Share { .. } => 1,
        Action::Wait { .. } | Action::GiveUp { .. } | Action::Learn { .. } => 0,
    });
    let requests = requests.sum();
    let (mut all, mut next) = (Vec::new(), Some(Way::default()));
    while let Some(following) = next {
        let way = RefCell::new(Way { faults: start.faults, requests, ..following });
        let (slurm, state) = go(start, &turn, rules, (plant, &way));
        let way = way.into_inner();
        let what = format!("turn {run}: {}", way.said.join(", "));
        all.push(Went { what, faults: start.faults - way.faults, state, slurm });
        next = way.following();
    }
    all
}

/// Follows one path through a turn.
fn go(start: &Start<'_>, turn: &Turn, rules: &Rules, (plant, way): (Plant, &RefCell<Way>)) -> (Slurm, State) {
    let mut world = world(start, plant, way);
    let late = plant == Plant::IntentsForgotten;
    let mut disk = Disk { state: start.state.clone(), rules, way, late, unwritten: None };
    let mut state = start.state.clone();
    let mut executor =
        TurnExecutor { world: &mut world, keeper: &mut disk, state: &mut state, rules, tell: &mut |_| () };
    if executor.perform(turn).is_ok() {
        disk.state = disk.unwritten.take().unwrap_or(disk.state);
        assert_eq!(disk.state, state, "the state on disk is another one than that in memory");
    }
    (world.slurm, disk.state)
}

fn world<'a>(start: &Start<'a>, plant: Plant, way: &'a RefCell<Way>) -> ExploredWorld<'a> {
    let known = start.state.jobs.iter().flat_map(|tracked| {
        let past = tracked.past.iter().map(|past| &past.attempt);
        past.chain(tracked.phase.submissions().iter().map(|submission| &submission.attempt))
            .filter_map(|attempt| attempt.job_id)
    });
    let last = known.chain(start.slurm.entries.iter().map(|entry| entry.id)).map(|id| id.0).max();
    let (slurm, id) = (start.slurm.clone(), last.unwrap_or(0) + 1);
    ExploredWorld { slurm, at: start.at, plant, way, id, before: start.state }
}

/// Returns the smallest unused name of a run: old names are forgotten, so that equivalent states are equal.
fn unused_run(start: &Start<'_>) -> String {
    let run_names = start.state.jobs.iter().flat_map(|tracked| {
        let past = tracked.past.iter().map(|past| &past.attempt);
        past.chain(tracked.phase.submissions().iter().map(|submission| &submission.attempt))
            .map(|submission| submission.run.as_str())
    });
    let used: BTreeSet<&str> =
        run_names.chain(start.slurm.entries.iter().map(|entry| entry.of.run.as_str())).collect();
    let names = (0..).map(|number| format!("r{number}"));
    names.into_iter().find(|name| !used.contains(name.as_str())).unwrap_or_default()
}

impl Plant {
    /// Distorts the observation according to the deliberate bug.
    fn distort(self, state: &State, seen: &mut Observation) {
        let submissions = || {
            let of_jobs = state.jobs.iter().flat_map(|tracked| {
                tracked
                    .phase
                    .submissions()
                    .iter()
                    .map(|submission| (submission.attempt.key(&tracked.job.name), submission))
            });
            of_jobs.collect::<Vec<_>>()
        };
        match self {
            Self::NoComments => {
                seen.strays.clear();
                let known = |sighting: &Sighting| {
                    submissions()
                        .iter()
                        .any(|(key, submission)| *key == sighting.of && submission.attempt.job_id.is_some())
                };
                seen.sightings.retain(known);
            }
            Self::GoneIsPending => {
                for (of, submission) in submissions() {
                    if !seen.sightings.iter().any(|sighting| sighting.of == of) {
                        let (job_id, queue_state) =
                            (submission.attempt.job_id.unwrap_or(JobId(1_000_000)), QueueState::Pending);
                        seen.sightings.push(Sighting {
                            of,
                            job_id,
                            submit_time: None,
                            state: queue_state,
                            reason: None,
                        });
                    }
                }
            }
            Self::None | Self::IntentsForgotten | Self::LateIsRefused => {}
        }
    }
}
