//! Plays the story: the engine's turns on the imaginary cluster, and the same jobs in other scenarios.

use crate::commands::demo::demo_setup::{BEGIN, DemoSetup, POLL};
use hsched_engine::{Action, JobState, Outcome, Phase, Rules, Run, State, Update};
use hsched_lab::simulate::{Play, PlayOptions};
use hsched_model::Seconds;
use hsched_plan::{
    Assignment, Moves, Objective, Placement, Placer, PolicyError, Problem, Replan, Replanning, Sharing,
    Verdict,
};
use hsched_ui::{Story, StoryLine};

/// A played story.
pub(super) struct Performance {
    /// The first run: all submissions of the first turn that submits jobs.
    pub first: Option<Run>,
    /// Each line with the time since the start.
    pub lines: Vec<(Seconds, StoryLine)>,
    pub state: State,
}

/// A placer's placements with equal batches, as plain data-parallel training would use the same GPUs.
struct EqualBatches(Box<dyn Placer>);

/// The fraction by which the gain must exceed the costs of a move.
const MARGIN: f64 = 0.25;

/// Number of times that the searches of one turn may call `stop` before it returns true.
const PATIENCE: u64 = 10_000;

/// Maximum duration of the story.
const LONGEST: Seconds = Seconds(1e6);

/// Plays the story with moves.
pub(super) fn perform(setup: &DemoSetup, placer: Box<dyn Placer>) -> Performance {
    let rules = setup.rules();
    let replanning = Replanning { moves: Moves::Auto { margin: MARGIN }, ..Replanning::default() };
    let policy = Box::new(Replan::new(placer, replanning));
    let mut play = Play::new(setup.world(), setup.orders(), policy, options(setup, &rules));
    let (mut story, mut first, mut lines) = (Story::default(), None, Vec::new());
    loop {
        let now = play.world.now();
        play.turn(&mut |told| {
            if let (None, Update::Action(Action::Submit(run))) = (&first, told) {
                first = Some((**run).clone());
            }
            story.hear(told);
        });
        lines.extend(story.lines(&play.state).into_iter().map(|line| (now.since(BEGIN), line)));
        if play.is_over() || now.since(BEGIN) >= LONGEST {
            return Performance { first, lines, state: play.state };
        }
        play.world.pass(POLL);
    }
}

/// Plays the story without moves, with balanced or equal batches; returns the final state.
pub(super) fn without_moves(setup: &DemoSetup, placer: Box<dyn Placer>, sharing: Sharing) -> State {
    let placer = match sharing {
        Sharing::Balanced => placer,
        Sharing::Equal => Box::new(EqualBatches(placer)),
    };
    let rules = setup.rules();
    let policy = Box::new(Replan::new(placer, Replanning::default()));
    let mut play = Play::new(setup.world(), setup.orders(), policy, options(setup, &rules));
    play.run(POLL, BEGIN.after(LONGEST));
    play.state
}

/// Returns how long after the start a job completed; `None` if it did not.
pub(super) fn completion(tracked: &JobState) -> Option<Seconds> {
    match &tracked.phase {
        Phase::Ended { at, outcome: Outcome::Completed } => Some(at.since(tracked.added)),
        _ => None,
    }
}

/// Returns the mean and the last completion time; `None` unless all jobs completed.
pub(super) fn completions(state: &State) -> Option<(Seconds, Seconds)> {
    let times = state.jobs.iter().map(|tracked| Some((1.0, completion(tracked)?.0)));
    let times: Vec<(f64, f64)> = times.collect::<Option<_>>()?;
    let value = |objective: Objective| Seconds(objective.value(times.iter().copied()));
    Some((value(Objective::MeanJct), value(Objective::Makespan)))
}

fn options<'a>(setup: &DemoSetup, rules: &'a Rules) -> PlayOptions<'a> {
    PlayOptions { rules, objective: Objective::MeanJct, seed: setup.seed(), patience: PATIENCE }
}

impl Placer for EqualBatches {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn place(&self, problem: &Problem, stop: &dyn Fn() -> bool) -> Result<Assignment, PolicyError> {
        let mut assignment = self.0.place(problem, stop)?;
        // The bound was proven for balanced batches.
        assignment.bound = None;
        for (job, verdict) in assignment.verdicts.iter_mut().enumerate() {
            if let Verdict::Place(placement) = verdict
                && let Some(equal) = Placement::new(problem, job, &placement.slots, Sharing::Equal)
            {
                *placement = equal;
            }
        }
        Ok(assignment)
    }
}
