//! One turn: observe, decide, record, act, record each answer; the traits `World` and `Keeper`.

use std::convert::Infallible;

use crate::step::is_idle;
use crate::{
    Action, AfterStop, Amendment, Answer, Event, Inquiry, NewShares, Observation, PlannedSubmission, Planner,
    Rules, Run, State, Step, SubmissionKey, apply, notice, step,
};
use hsched_model::{JobId, Seconds, Time};
use hsched_plan::JobStartEstimates;

/// The place where jobs run: Slurm, local devices or a simulated cluster. It makes no decisions.
pub trait World {
    type Error;

    /// Returns the current observation; `state` says which jobs matter.
    ///
    /// # Errors
    /// If nothing can be observed; no conclusions may then be drawn.
    fn observe(&mut self, state: &State) -> Result<Observation, Self::Error>;

    /// Prepares a run: performs every step that can fail before the first job is submitted.
    ///
    /// # Errors
    /// A message on why nothing of the run can be submitted.
    fn prepare(&mut self, run: &Run) -> Result<(), String>;

    /// Sends one submission of a prepared run, once, and returns the answer.
    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer;

    /// Asks a submission to save and end; `then` says what follows.
    fn stop(&mut self, of: &SubmissionKey, job_id: JobId, then: AfterStop) -> Answer;

    /// Ends a submission.
    fn cancel(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer;

    /// Returns whether the failure of one request to get through implies that the next one would also fail,
    /// because the same service receives all requests.
    fn is_one_service(&self) -> bool {
        true
    }

    /// Updates the request of a pending submission, which keeps its place in the queue.
    fn amend(&mut self, _: &SubmissionKey, _: JobId, _: &Amendment) -> Answer {
        Answer::NotAmended { message: "requests cannot be changed here".to_owned() }
    }

    /// Puts new shares where the ranks of a running submission look for them.
    fn share(&mut self, _: &SubmissionKey, _: JobId, _: &NewShares) -> Answer {
        Answer::NotShared { message: "ranks cannot be given other shares here".to_owned() }
    }

    /// Returns the possible requests of some jobs with their start estimates, for the jobs that have any.
    fn start_estimates(&mut self, _: &[Inquiry]) -> Vec<JobStartEstimates> {
        Vec::new()
    }

    /// Returns how long a run's only submission would wait in the queue if it were submitted now; `None` if
    /// that is unknown.
    fn forecast(&mut self, run: &Run) -> Option<Seconds>;
}

/// Storage of the state.
pub trait Keeper {
    type Error;

    /// Stores the state with the planned actions; they are carried out only after this.
    ///
    /// # Errors
    /// If it cannot be written; no action may then be carried out.
    fn keep(
        &mut self,
        at: Time,
        state: &State,
        events: &[Event],
        actions: &[Action],
    ) -> Result<(), Self::Error>;

    /// Stores one event that follows from an action.
    ///
    /// # Errors
    /// If it cannot be written.
    fn add(&mut self, at: Time, event: &Event) -> Result<(), Self::Error>;
}

/// A keeper that stores nothing, for a state that need not outlive its process.
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

/// The observation of a turn and its planned actions.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub seen: Observation,
    pub events: Vec<Event>,
    /// The state with the planned actions, and the actions; `None` if there are neither events nor actions.
    pub step: Option<Step>,
}

impl Turn {
    /// Returns notes for the user besides the events: first on the observation, then on the decision.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.seen.notes.iter().chain(self.step.iter().flat_map(|step| &step.notes))
    }
}

/// A progress message for the user.
#[derive(Clone, Copy, Debug)]
pub enum Update<'a> {
    Event(&'a Event),
    Action(&'a Action),
}

/// Number of questions to the world about the queue after which a turn asks no further ones.
const MOST_QUESTIONS: usize = 100;

/// Observes the world and decides; changes nothing.
///
/// # Errors
/// If the world cannot be observed.
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

/// Takes a turn: updates the state from an observation and carries out the resulting actions.
///
/// If it is interrupted, the next turn finds the intents in the state and observes their outcomes.
///
/// # Errors
/// If the world cannot be observed or the state cannot be stored.
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

/// Carries out a turn's actions: its world, the keeper of its state, and the state itself.
pub struct TurnExecutor<'a, W: World + ?Sized, K: Keeper + ?Sized> {
    pub world: &'a mut W,
    pub keeper: &'a mut K,
    pub state: &'a mut State,
    pub rules: &'a Rules,
    /// Receives updates as they happen.
    pub tell: &'a mut dyn FnMut(Update<'_>),
}

impl<W: World + ?Sized, K: Keeper + ?Sized> TurnExecutor<'_, W, K> {
    /// Stores a turn's planned actions if they change the state, then reports its events and acts. The report
    /// comes after storing, because an event that was not stored is seen again at the next turn.
    ///
    /// # Errors
    /// If storing fails; no further action may then be taken.
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

    /// Carries out a stored action; each answer changes the state and is stored before the next request.
    ///
    /// # Errors
    /// If an answer cannot be stored; no further action may then be taken.
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

/// Carries out an action and passes each answer to `hear` before the next request.
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
                // If Slurm deferred or did not get one request, the next one would fare the same.
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
        Action::Stop { of, job_id, then, .. } => {
            hear(Event::Answer { of: of.clone(), answer: world.stop(of, *job_id, *then) })
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
