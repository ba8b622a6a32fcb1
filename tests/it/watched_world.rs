//! A world under observation, which panics if it breaks a guarantee.

use std::collections::{BTreeMap, BTreeSet};

use hsched_engine::{
    AfterStop, Answer, End, Observation, PlannedSubmission, QueueState, Run, State, SubmissionKey, World,
};
use hsched_model::{JobId, Seconds, Time};

/// Observations of a submission.
#[derive(Debug)]
pub(crate) struct Known {
    job_id: JobId,
    /// Number of GPUs planned for the submission.
    planned: u32,
    /// Time of the last look before the submission was requested.
    asked: Time,
    pub(crate) started: bool,
    /// Whether the submission was observed with its GPUs.
    pub(crate) has_gpus: bool,
    pub(crate) end: Option<End>,
    /// The last epoch that was reported.
    epoch: u64,
}

/// A world under observation: panics if the world breaks a guarantee.
pub(crate) struct Watched<W> {
    pub(crate) world: W,
    pub(crate) known: BTreeMap<SubmissionKey, Known>,
    prepared: BTreeSet<String>,
    killed: BTreeSet<SubmissionKey>,
    last: Time,
    /// GPUs in use at the last look, and the GPUs of submissions that ran at the last two looks.
    used: (u32, BTreeMap<SubmissionKey, u32>),
}

impl<W: World> World for Watched<W> {
    type Error = W::Error;

    fn observe(&mut self, state: &State) -> Result<Observation, W::Error> {
        let seen = self.world.observe(state)?;
        assert!(seen.at.0 >= self.last.0, "time goes on: {:?} after {:?}", seen.at, self.last);
        self.last = seen.at;
        for (of, report) in &seen.epochs {
            let tracked = state.find(&of.job).expect("reports are of jobs that are known");
            let known = self.known.get_mut(of).expect("who reports was submitted");
            assert!(report.epoch > tracked.epochs_done, "{of:?} reports epoch {} again", report.epoch);
            assert!(report.epoch > known.epoch, "{of:?} goes back");
            assert!(known.end.is_none(), "{of:?} reports epoch {} after its end was seen", report.epoch);
            known.epoch = report.epoch;
        }
        let before: BTreeSet<SubmissionKey> =
            self.known.iter().filter(|(_, known)| known.started).map(|(of, _)| of.clone()).collect();
        let mut once = BTreeSet::new();
        for sighting in &seen.sightings {
            let of = &sighting.of;
            assert!(once.insert(of), "{of:?} is seen twice at a time");
            assert!(
                state.find(&of.job).is_some_and(|tracked| tracked.submission(of).is_some()),
                "{of:?} is no news"
            );
            let known = self.known.get_mut(of).expect("who is seen was submitted");
            assert_eq!(sighting.job_id, known.job_id, "{of:?} has another number");
            match &sighting.state {
                QueueState::Pending => assert!(!known.started && known.end.is_none(), "{of:?} goes back"),
                QueueState::Running { since, gpus } => {
                    assert!(known.end.is_none(), "{of:?} runs after its end");
                    let in_time = |since: &Time| is_between(known.asked, *since, seen.at);
                    assert!(
                        since.as_ref().is_none_or(in_time),
                        "{of:?} runs since {since:?}, now {:?}",
                        seen.at
                    );
                    known.started = true;
                    if let Some(gpus) = gpus {
                        assert_eq!(gpus.total(), known.planned, "{of:?} has {gpus:?}");
                        known.has_gpus = true;
                    }
                }
                QueueState::NotStarted(answer) => panic!("{of:?} is not one of a pool: {answer:?}"),
                QueueState::Ended { end, at, .. } => {
                    let in_time = |at: &Time| is_between(known.asked, *at, seen.at);
                    assert!(at.as_ref().is_none_or(in_time), "{of:?} ended at {at:?}, now {:?}", seen.at);
                    assert!(
                        known.end.as_ref().is_none_or(|before| before == end),
                        "{of:?} ended otherwise before"
                    );
                    known.end = Some(end.clone());
                    let tracked = state.find(&of.job).expect("a job");
                    let done = known.epoch.max(tracked.epochs_done);
                    assert!(
                        *end != End::Completed || done == tracked.job.epochs,
                        "{of:?} completed after {done}"
                    );
                    assert!(
                        *end != End::Cancelled || self.killed.contains(of),
                        "nobody wanted {of:?} to be ended"
                    );
                }
            }
        }
        self.devices_add_up(&seen, &before);
        Ok(seen)
    }

    fn prepare(&mut self, run: &Run) -> Result<(), String> {
        self.prepared.insert(run.id.clone());
        self.world.prepare(run)
    }

    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer {
        assert!(self.prepared.contains(&run.id));
        let answer = self.world.submit(run, intent);
        if let Answer::Submitted { job_id } = answer {
            let of = run.key(intent);
            let others = self.known.iter().filter(|(_, known)| known.end.is_none());
            assert!(others.clone().all(|(_, known)| known.job_id != job_id), "{job_id} is somebody's number");
            assert!(others.clone().all(|(other, _)| other.job != of.job), "{of:?} runs already");
            let planned = intent.placement.slots.iter().map(|slot| slot.count).sum();
            let known = Known {
                job_id,
                planned,
                asked: self.last,
                started: false,
                has_gpus: false,
                end: None,
                epoch: 0,
            };
            assert!(self.known.insert(of, known).is_none(), "a submission is made once");
        }
        answer
    }

    fn stop(&mut self, of: &SubmissionKey, job_id: JobId, then: AfterStop) -> Answer {
        assert_eq!(self.known[of].job_id, job_id);
        self.world.stop(of, job_id, then)
    }

    fn cancel(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer {
        assert_eq!(self.known[of].job_id, job_id);
        self.killed.insert(of.clone());
        self.world.cancel(of, job_id)
    }

    fn forecast(&mut self, run: &Run) -> Option<Seconds> {
        self.world.forecast(run)
    }
}

/// Returns whether a time is between two others, to the precision of a clock of whole seconds.
fn is_between(first: Time, moment: Time, last: Time) -> bool {
    first.0 - 1.0 <= moment.0 && moment.0 <= last.0 + 1.0
}

impl<W> Watched<W> {
    pub(crate) fn new(world: W) -> Self {
        Self {
            world,
            known: BTreeMap::new(),
            prepared: BTreeSet::new(),
            killed: BTreeSet::new(),
            last: Time(0.0),
            used: (0, BTreeMap::new()),
        }
    }

    /// Checks that running submissions have their GPUs, and that no GPU is used twice. Slurm shows its nodes
    /// and its queue one after the other, so only submissions that ran at several looks count: others may
    /// have started or ended in between.
    fn devices_add_up(&mut self, seen: &Observation, before: &BTreeSet<SubmissionKey>) {
        let stocks = seen.cluster.nodes.iter().flat_map(|node| &node.gpus);
        assert!(stocks.clone().all(|stock| stock.used <= stock.total), "{:?}", seen.cluster.nodes);
        let running = seen.sightings.iter().filter_map(|sighting| match &sighting.state {
            QueueState::Running { gpus: Some(gpus), .. } => Some((sighting.of.clone(), gpus.total())),
            _ => None,
        });
        let running: BTreeMap<SubmissionKey, u32> = running.collect();
        let (used, held) = std::mem::take(&mut self.used);
        let still: u32 =
            held.iter().filter(|(of, _)| running.contains_key(*of)).map(|(_, count)| count).sum();
        assert!(used >= still, "{used} in use: {held:?}, then {running:?}");
        let held = running.into_iter().filter(|(of, _)| before.contains(of)).collect();
        self.used = (stocks.map(|stock| stock.used).sum(), held);
    }
}
