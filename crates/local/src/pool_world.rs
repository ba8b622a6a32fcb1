//! The devices of all members of a pool as one world; without a pool, those of this process.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::member_work::BEAT;
use crate::other_members::OtherMembers;
use crate::world::{LocalWorld, add_odd};
use hsched_engine::clock::Clock;
use hsched_engine::live::LiveError;
use hsched_engine::pool::{Demand, MemberId, Worker};
use hsched_engine::store::{PoolFolder, StateError, report_folder};
use hsched_engine::{
    AfterStop, Answer, NewShares, Observation, PlannedSubmission, Run, State, SubmissionKey, World,
    named_ranks,
};
use hsched_model::{GpuType, JobId, JobName, Seconds};

/// The world of `hsched run`.
pub struct PoolWorld<'a> {
    /// The devices of this process.
    pub here: LocalWorld<'a>,
    pub lead: Option<Lead<'a>>,
}

/// The leader's data besides its own devices.
pub struct Lead<'a> {
    clock: &'a dyn Clock,
    pub others: OtherMembers,
    /// The leader's own report.
    worker: Worker<PoolFolder>,
    /// Time of the last heartbeat.
    beat: Duration,
}

impl<'a> Lead<'a> {
    /// Returns the lead of a pool, held by a member with the lock.
    pub fn new(clock: &'a dyn Clock, others: OtherMembers, worker: Worker<PoolFolder>) -> Self {
        Self { clock, others, worker, beat: Duration::ZERO }
    }

    /// Returns the leading member.
    pub fn id(&self) -> &MemberId {
        self.worker.id()
    }

    /// Returns the time since this process began.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn look(&mut self, state: &State, grace: Seconds, alone: &BTreeSet<JobName>) -> Result<(), StateError> {
        let elapsed = self.clock.elapsed();
        if elapsed.saturating_sub(self.beat) >= BEAT {
            self.worker.note_alone(alone);
            self.worker.beat()?;
            self.beat = elapsed;
        }
        self.others.look(&self.worker.id().clone(), state, (self.clock.time(), elapsed), grace)
    }

    /// Gives up the lead.
    pub fn into_worker(self) -> Worker<PoolFolder> {
        self.worker
    }

    /// Reports that this member asks to leave.
    ///
    /// # Errors
    /// If the report cannot be written.
    pub fn ask_to_leave(&mut self) -> Result<(), StateError> {
        self.worker.ask_to_leave()
    }

    /// Reports that this member has left and none of its processes runs.
    ///
    /// # Errors
    /// If the report cannot be written.
    pub fn leave(&mut self) -> Result<(), StateError> {
        self.worker.leave()
    }
}

impl PoolWorld<'_> {
    /// Returns the types of all devices.
    pub fn gpu_types(&self) -> Vec<GpuType> {
        let others = self.lead.iter().flat_map(|lead| lead.others.nodes());
        let others = others.flat_map(|node| node.gpus.into_iter().map(|stock| stock.gpu_type));
        let mut types: Vec<GpuType> = self.here.devices.gpu_types().into_iter().chain(others).collect();
        types.sort();
        types.dedup();
        types
    }

    /// Starts a submission here or by an order to another member.
    fn start(&mut self, run: &Run, intent: &PlannedSubmission) -> Result<JobId, Answer> {
        let Some(lead) = &mut self.lead else { return self.here.start(run, intent) };
        let (of, ranks) = (run.key(intent), named_ranks(&run.problem, &intent.placement));
        let member = ranks.first().and_then(|rank| MemberId::of_node(&rank.node));
        if member.as_ref() == Some(lead.worker.id()) {
            lead.others.claim(&of, lead.worker.id())?;
            return self.here.start(run, intent);
        }
        let (start, _) = self.here.describe(run, intent)?;
        let job = &run.jobs[intent.job];
        let needs = self.here.site.site.defaults.rank_needs(job);
        let too_small = job.max_memory.and_then(|need| lead.others.too_small(&ranks, need));
        let alone = too_small.is_some() || self.here.sharing.wants_alone(&of.job);
        let job_id = lead.others.order(&of, &ranks, needs, alone, start)?;
        self.here.say_too_small(&of, too_small);
        Ok(job_id)
    }

    /// Passes a demand for a submission on to the member that runs it.
    fn demand(&mut self, of: &SubmissionKey, demand: Demand, done: Answer) -> Answer {
        let Some(lead) = &mut self.lead else { return done };
        match lead.others.demand(of, demand) {
            Ok(()) => done,
            Err(error) => Answer::Unreachable { message: error.in_one_line() },
        }
    }
}

impl World for PoolWorld<'_> {
    type Error = LiveError;

    fn observe(&mut self, state: &State) -> Result<Observation, LiveError> {
        if let Some(lead) = &mut self.lead {
            lead.look(state, self.here.site.site.defaults.grace, self.here.sharing.alone())?;
            self.here.sharing.learn(lead.others.alone());
        }
        let mut seen = self.here.observe(state)?;
        let Some(lead) = &mut self.lead else { return Ok(seen) };
        let root = &self.here.site.site.state;
        for (of, excess) in lead.others.excesses(|of| report_folder(root, &of.run, &of.name())) {
            add_odd(&mut seen.odd, of, excess);
        }
        for tracked in &state.jobs {
            for submission in tracked.phase.submissions() {
                if !self.here.is_here(&submission.attempt) {
                    let sighting = lead.others.sighting(&tracked.job.name, &submission.attempt, seen.at)?;
                    seen.sightings.extend(sighting);
                }
            }
        }
        seen.cluster.nodes.extend(lead.others.nodes());
        Ok(seen)
    }

    fn prepare(&mut self, run: &Run) -> Result<(), String> {
        self.here.prepare(run)
    }

    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer {
        match self.start(run, intent) {
            Ok(job_id) => Answer::Submitted { job_id },
            Err(answer) => answer,
        }
    }

    fn stop(&mut self, of: &SubmissionKey, _: JobId, then: AfterStop) -> Answer {
        let answer = self.here.stop(of, then);
        self.demand(of, Demand::Stop, answer)
    }

    fn cancel(&mut self, of: &SubmissionKey, _: JobId) -> Answer {
        let answer = self.here.cancel(of);
        self.demand(of, Demand::Kill, answer)
    }

    fn share(&mut self, of: &SubmissionKey, _: JobId, shares: &NewShares) -> Answer {
        if self.lead.is_some() && !self.here.has(of) {
            return self.here.write_shares(of, shares);
        }
        self.here.share(of, shares)
    }

    /// Failures of the devices are independent of each other.
    fn is_one_service(&self) -> bool {
        false
    }

    /// There is no queue.
    fn forecast(&mut self, _: &Run) -> Option<Seconds> {
        None
    }
}
