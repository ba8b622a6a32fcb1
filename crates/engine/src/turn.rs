//! One turn: observe, decide, write down, act, write down each answer; the traits `World` and `Keeper`.

use std::convert::Infallible;

use crate::step::is_idle;
use crate::{
    Action, Amendment, Answer, Event, Inquiry, NewShares, Observation, PlannedSubmission, Planner, Rules,
    Run, State, Step, SubmissionKey, apply, notice, step,
};
use hsched_model::{JobId, Seconds, Time};
use hsched_plan::JobStartEstimates;

/// Where jobs run: Slurm, or a simulated cluster. It decides nothing.
pub trait World {
    type Error;

    /// Returns what is to be seen now; `state` says which jobs matter.
    ///
    /// # Errors
    /// When nothing can be seen, and nothing may be concluded.
    fn observe(&mut self, state: &State) -> Result<Observation, Self::Error>;

    /// Prepares a run: whatever can go wrong before the first job is submitted.
    ///
    /// # Errors
    /// Why nothing of the run can be submitted, for people.
    fn prepare(&mut self, run: &Run) -> Result<(), String>;

    /// Makes one submission of a run that was prepared, once, and returns what came of it.
    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer;

    /// Asks a submission to save and end.
    fn stop(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer;

    /// Ends a submission.
    fn cancel(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer;

    /// Returns whether a request that does not get through says that the next one would not, either: one service hears all of them.
    fn is_one_service(&self) -> bool {
        true
    }

    /// Changes what a pending submission asks for; it keeps its place in the queue.
    fn amend(&mut self, _: &SubmissionKey, _: JobId, _: &Amendment) -> Answer {
        Answer::NotAmended { message: "requests cannot be changed here".to_owned() }
    }

    /// Puts new shares where the ranks of a running submission look for them.
    fn share(&mut self, _: &SubmissionKey, _: JobId, _: &NewShares) -> Answer {
        Answer::NotShared { message: "ranks cannot be given other shares here".to_owned() }
    }

    /// Returns what some jobs may ask of the queue and when that would start, of those where it can be told.
    fn start_estimates(&mut self, _: &[Inquiry]) -> Vec<JobStartEstimates> {
        Vec::new()
    }

    /// Returns how long the only submission of a run would wait in the queue if it was made now, where it can be told.
    fn forecast(&mut self, run: &Run) -> Option<Seconds>;
}

/// Where the state is kept.
pub trait Keeper {
    type Error;

    /// Writes down the state with what is meant; before that nothing is done.
    ///
    /// # Errors
    /// When it cannot be written: then nothing may be done.
    fn keep(
        &mut self,
        at: Time,
        state: &State,
        events: &[Event],
        actions: &[Action],
    ) -> Result<(), Self::Error>;

    /// Adds one event, which follows from something that was done.
    ///
    /// # Errors
    /// When it cannot be written.
    fn add(&mut self, at: Time, event: &Event) -> Result<(), Self::Error>;
}

/// Keeps nothing: for a state that is worth no more than its process.
#[derive(Clone, Copy, Debug)]
pub struct KeepsNothing;

impl Keeper for KeepsNothing {
    type Error = Infallible;

    fn keep(&mut self, _: Time, _: &State, _: &[Event], _: &[Action]) -> Result<(), Infallible> {
        Ok(())
    }

    fn add(&mut self, _: Time, _: &Event) -> Result<(), Infallible> {
        Ok(())
    }
}

/// What a turn saw and is about to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub seen: Observation,
    pub events: Vec<Event>,
    /// The state with what is meant, and what is meant; `None` where nothing has happened and nothing is to be done.
    pub step: Option<Step>,
}

impl Turn {
    /// Returns what people should know of it beside what happened: first of what was seen, then of how it was decided.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.seen.notes.iter().chain(self.step.iter().flat_map(|step| &step.notes))
    }
}

/// Something that people may want to be told, as it happens.
#[derive(Clone, Copy, Debug)]
pub enum Update<'a> {
    Event(&'a Event),
    Action(&'a Action),
}

/// The most that the world is asked about the queue in one turn.
const MOST_QUESTIONS: usize = 100;

/// Looks at the world and thinks; nothing is changed.
///
/// # Errors
/// When the world shows nothing.
pub fn look<W: World + ?Sized>(
    world: &mut W,
    state: &State,
    rules: &Rules,
    planner: &mut Planner<'_>,
) -> Result<Turn, W::Error> {
    let seen = world.observe(state)?;
    let events = notice(state, &seen);
    planner.forecasts.clear();
    planner.start_estimates = None;
    if is_idle(state, seen.at, &events, &seen.cluster, rules, planner) {
        return Ok(Turn { seen, events, step: None });
    }
    loop {
        let step = step(state.clone(), seen.at, &events, &seen.cluster, rules, planner);
        if !step.inquiries.is_empty() && planner.start_estimates.is_none() {
            planner.start_estimates = Some(world.start_estimates(&step.inquiries));
            continue;
        }
        if step.questions.is_empty() || planner.forecasts.len() >= MOST_QUESTIONS {
            return Ok(Turn { seen, events, step: Some(step) });
        }
        for question in step.questions {
            let wait = question.submission.as_ref().and_then(|run| world.forecast(run));
            planner.forecasts.push(question.answered(wait));
        }
    }
}

/// Takes a turn: changes the state by what is to be seen and carries out what follows.
///
/// Where it is cut short, the next turn finds the intents in the state and sees what became of them.
///
/// # Errors
/// When the world shows nothing or the state cannot be kept.
pub fn turn<W: World + ?Sized, K: Keeper + ?Sized, E: From<W::Error> + From<K::Error>>(
    world: &mut W,
    keeper: &mut K,
    state: &mut State,
    rules: &Rules,
    planner: &mut Planner<'_>,
    tell: &mut dyn FnMut(Update<'_>),
) -> Result<Turn, E> {
    let turn = look(world, state, rules, planner)?;
    TurnExecutor { world, keeper, state, rules, tell }.perform(&turn)?;
    Ok(turn)
}

/// Carries out what a turn decided: its world, the keeper of its state, and the state itself.
pub struct TurnExecutor<'a, W: World + ?Sized, K: Keeper + ?Sized> {
    pub world: &'a mut W,
    pub keeper: &'a mut K,
    pub state: &'a mut State,
    pub rules: &'a Rules,
    /// Is told what happens, as it happens.
    pub tell: &'a mut dyn FnMut(Update<'_>),
}

impl<W: World + ?Sized, K: Keeper + ?Sized> TurnExecutor<'_, W, K> {
    /// Writes down what a turn means to do, then tells what has happened and does it: what cannot be written down is seen again
    /// at the next turn, and would be told again.
    ///
    /// # Errors
    /// When something cannot be written down: then nothing more may be done.
    pub fn perform(&mut self, turn: &Turn) -> Result<(), K::Error> {
        let Turn { seen, events, step } = turn;
        let Some(step) = step else { return Ok(()) };
        if step.state != *self.state {
            self.keeper.keep(seen.at, &step.state, events, &step.actions)?;
            self.state.clone_from(&step.state);
        }
        for event in events {
            (self.tell)(Update::Event(event));
        }
        step.actions.iter().try_for_each(|action| self.carry_out(action, seen.at))
    }

    /// Carries out an action that is written down; each answer changes the state and is written down before the next
    /// request is made.
    ///
    /// # Errors
    /// When an answer cannot be written down: then nothing more may be done.
    pub fn carry_out(&mut self, action: &Action, at: Time) -> Result<(), K::Error> {
        let Self { world, keeper, state, rules, tell } = self;
        tell(Update::Action(action));
        act(action, &mut **world, &mut |event: Event| {
            let added = keeper.add(at, &event);
            apply(state, at, &event, rules);
            tell(Update::Event(&event));
            added
        })
    }
}

/// Carries out an action, giving each answer to `hear` before the next request is made.
fn act<W: World + ?Sized, E>(
    action: &Action,
    world: &mut W,
    hear: &mut dyn FnMut(Event) -> Result<(), E>,
) -> Result<(), E> {
    match action {
        Action::Submit(run) => {
            let prepared = world.prepare(run);
            let mut trouble = prepared.err();
            for intent in &run.submissions {
                let answer = match &trouble {
                    None => world.submit(run, intent),
                    Some(message) => Answer::Unreachable { message: message.clone() },
                };
                // Where one request got lost the next would, too.
                if trouble.is_none()
                    && world.is_one_service()
                    && matches!(
                        answer,
                        Answer::Deferred { .. } | Answer::Unreachable { .. } | Answer::Unclear { .. }
                    )
                {
                    trouble = Some("not tried, because an earlier request failed".to_owned());
                }
                hear(Event::Answer { of: run.key(intent), answer })?;
            }
            Ok(())
        }
        Action::Stop { of, job_id, .. } => {
            hear(Event::Answer { of: of.clone(), answer: world.stop(of, *job_id) })
        }
        Action::Cancel { of, job_id, .. } => {
            hear(Event::Answer { of: of.clone(), answer: world.cancel(of, *job_id) })
        }
        Action::Amend { of, job_id, to, .. } => {
            hear(Event::Answer { of: of.clone(), answer: world.amend(of, *job_id, to) })
        }
        Action::Share { of, job_id, shares, .. } => {
            hear(Event::Answer { of: of.clone(), answer: world.share(of, *job_id, shares) })
        }
        Action::Wait { .. } | Action::GiveUp { .. } | Action::Learn { .. } => Ok(()),
    }
}
