//! The simulated cluster: time advances from event to event.

mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use crate::simulate::fit::FitRequest;
use crate::simulate::incident::{Incident, IncidentQueue};
use crate::simulate::site::{SaveReaction, SimulatedSite};
use crate::simulate::submission::{
    Noise, SimulatedCheckpoint, SimulatedStage, SimulatedSubmission, with_use,
};
use crate::simulate::training::RankEvent;
use hsched_engine::{Amendment, End, Gpus, PlannedSubmission, Run, named_ranks};
use hsched_model::{
    Availability, Cluster, Job, JobId, JobName, Node, NodeName, NodeState, PlacedRank, Seconds, Time,
};

/// A cluster with a queue, in virtual time.
#[derive(Clone, Debug)]
pub struct SimulatedWorld {
    site: SimulatedSite,
    script: IncidentQueue,
    now: Time,
    /// In order of submission.
    submissions: Vec<SimulatedSubmission>,
    /// Time of the next scheduling pass.
    look: Option<Time>,
    /// Dead nodes, and the dead nodes that the controller has noticed.
    dead: BTreeSet<NodeName>,
    down: BTreeSet<NodeName>,
    checkpoints: BTreeMap<JobName, SimulatedCheckpoint>,
}

/// The next event.
#[derive(Clone, Copy, Debug)]
enum NextEvent {
    Incident,
    /// An event of the submission with this index.
    Job(usize),
    Queue,
}

impl SimulatedWorld {
    /// Returns the world of a site without jobs; its clock begins at `now`.
    pub fn new(site: SimulatedSite, incidents: Vec<Incident>, now: Time) -> Self {
        Self {
            site,
            script: IncidentQueue::new(incidents),
            now,
            submissions: Vec::new(),
            look: None,
            dead: BTreeSet::new(),
            down: BTreeSet::new(),
            checkpoints: BTreeMap::new(),
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Advances the time by `time` and processes all events until then.
    pub fn pass(&mut self, time: Seconds) {
        let end = self.now.after(time);
        while let Some((at, next)) = self.next().filter(|(at, _)| at.0 <= end.0) {
            self.now = Time(self.now.0.max(at.0));
            match next {
                NextEvent::Incident => self.change_nodes(),
                NextEvent::Job(place) => self.advance(place),
                NextEvent::Queue => self.start_jobs(),
            }
        }
        self.now = end;
    }

    /// Returns the nodes as the controller sees them, with the resources in use.
    pub fn cluster(&self) -> Cluster {
        let mut cluster = with_use(&self.site.cluster, self.held());
        for node in &mut cluster.nodes {
            let used: u32 = node.gpus.iter().map(|stock| stock.used).sum();
            if self.down.contains(&node.name) {
                node.state = NodeState::parse("down*");
                node.reason = Some("Not responding".to_owned());
            } else if used > 0 && node.state.availability() == Availability::Up {
                node.state = NodeState::parse(if used < node.gpu_total() { "mixed" } else { "allocated" });
            }
        }
        cluster
    }

    /// Returns how long a submission would wait if hsched made it now; `None` if it would not start with the
    /// next scheduling pass.
    pub(super) fn queue_wait(&self, run: &Run, intent: &PlannedSubmission) -> Option<Seconds> {
        let mut world = self.clone();
        world.enqueue(run, intent);
        // Jobs that are already pending come first.
        world.start_jobs();
        let has_started = !matches!(world.submissions.last()?.stage, SimulatedStage::Pending);
        has_started.then_some(self.site.delays.start)
    }

    pub(super) fn submissions(&self) -> &[SimulatedSubmission] {
        &self.submissions
    }

    /// Adds a submission of a run to the queue; returns its id.
    pub(super) fn enqueue(&mut self, run: &Run, intent: &PlannedSubmission) -> JobId {
        let request = self.request(run, intent);
        let spec = run.jobs[intent.job].clone();
        let id = JobId(u32::try_from(self.submissions.len()).unwrap_or(u32::MAX).saturating_add(1));
        let before = self.submissions.iter().filter(|submission| submission.job.name == spec.name).count();
        self.submissions.push(SimulatedSubmission {
            id,
            of: run.key(intent),
            epochs_done: run.epochs_done[intent.job],
            number: u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1),
            submitted: self.now,
            ranks: named_ranks(&run.problem, &intent.placement),
            follows: intent.follows.as_ref().map(|piece| piece.job_id),
            request,
            stage: SimulatedStage::Pending,
            reports: Vec::new(),
            noise: Noise::new(&self.site, id),
            job: spec,
        });
        self.look_soon();
        id
    }

    /// Asks a running job to save and end; returns whether there is such a job.
    pub(super) fn signal(&mut self, id: JobId) -> bool {
        let running = |submission: &SimulatedSubmission| {
            submission.id == id && submission.running().is_some_and(|running| running.leaving.is_none())
        };
        let place = self.submissions.iter().position(running);
        if let Some(place) = place {
            self.ask_to_save(place);
        }
        place.is_some()
    }

    /// Changes the request of a pending job; returns whether there is such a job.
    pub(super) fn change(&mut self, id: JobId, to: &Amendment) -> bool {
        let pending = |submission: &SimulatedSubmission| {
            submission.id == id && matches!(submission.stage, SimulatedStage::Pending)
        };
        let Some(place) = self.submissions.iter().position(pending) else { return false };
        self.submissions[place].request = self.request_for(&to.ranks, &self.submissions[place].job);
        self.submissions[place].ranks.clone_from(&to.ranks);
        self.submissions[place].job.launch.time = Some(to.limit());
        self.look_soon();
        true
    }

    /// Ends a job; returns whether it existed and had not ended.
    pub(super) fn kill(&mut self, id: JobId) -> bool {
        let Some(place) = self.submissions.iter().position(|submission| submission.id == id) else {
            return false;
        };
        match &self.submissions[place].stage {
            SimulatedStage::Pending => {
                self.submissions[place].end(End::Cancelled, self.now);
                true
            }
            SimulatedStage::Running(_) => {
                self.leave(place, End::Cancelled);
                true
            }
            SimulatedStage::Ended { .. } => false,
        }
    }

    /// Returns the next event and its time; among simultaneous events, nodes come first and the queue last.
    fn next(&self) -> Option<(Time, NextEvent)> {
        let incident = self.script.next().map(|at| (at, NextEvent::Incident));
        let job = |(place, submission): (usize, &SimulatedSubmission)| {
            Some((submission.running()?.next()?, NextEvent::Job(place)))
        };
        let jobs = self.submissions.iter().enumerate().filter_map(job);
        let look = self.look.map(|at| (at, NextEvent::Queue));
        incident.into_iter().chain(jobs).chain(look).min_by(|(a, _), (b, _)| a.0.total_cmp(&b.0))
    }

    /// Processes the due event of a running job.
    fn advance(&mut self, place: usize) {
        let (now, submission) = (self.now, &mut self.submissions[place]);
        let Some(running) = submission.running_mut() else { return };
        if let Some((end, at)) = running.leaving.clone() {
            submission.end(end, at);
            self.make_room(place);
            return self.look_soon();
        }
        if let Some((warned, over)) = running.limit {
            if over.0 <= now.0 {
                return self.leave(place, End::TimedOut);
            }
            if warned.0 <= now.0 && running.training.stop_after.is_none() {
                running.limit = Some((over, over));
                return self.ask_to_save(place);
            }
        }
        let (at, doing) = running.training.next();
        if at.0 > now.0 {
            return;
        }
        match doing {
            RankEvent::Fail(end) => self.leave(place, end),
            RankEvent::Save { step } => {
                self.save(place, 0, step);
                self.leave(place, End::Saved);
            }
            RankEvent::EndEpoch => self.end_epoch(place),
        }
    }

    fn end_epoch(&mut self, place: usize) {
        let (now, submission) = (self.now, &mut self.submissions[place]);
        submission.report(now);
        let Some(running) = submission.running() else { return };
        let (epoch, last) = (running.training.epoch, running.training.last);
        let (stops, gpus) = (running.training.stop_after.is_some(), running.gpus.clone());
        self.script.reported(&submission.job.name, epoch, now);
        if epoch >= last {
            return self.leave(place, End::Completed);
        }
        if stops {
            self.save(place, 1, 0);
            return self.leave(place, End::Saved);
        }
        let pace = self.submissions[place].pace(&self.site, &gpus);
        if let Some((running, pace)) = self.submissions[place].running_mut().zip(pace) {
            running.training.go_on(now, pace);
        }
    }

    /// Asks a running job to save and end; before its first step, it ends at once. Nothing happens if the
    /// site's jobs ignore such requests ([`SaveReaction::Never`]).
    fn ask_to_save(&mut self, place: usize) {
        let (now, saving) = (self.now, self.site.saving);
        let Some(running) = self.submissions[place].running_mut() else { return };
        let training = &mut running.training;
        match saving {
            SaveReaction::Never => {}
            _ if now.0 < training.begun.0 => self.leave(place, End::Saved),
            SaveReaction::AfterStep => training.stop_soon(now),
            SaveReaction::AfterEpoch => training.stop_after_epoch(),
        }
    }

    /// Stores where a job resumes: `ahead` epochs after the current one, and after a step.
    fn save(&mut self, place: usize, ahead: u64, step: u64) {
        let submission = &self.submissions[place];
        if let Some(running) = submission.running() {
            let epoch = running.training.epoch + ahead;
            let checkpoint = SimulatedCheckpoint { epoch, step, batch: submission.job.global_batch };
            self.checkpoints.insert(submission.job.name.clone(), checkpoint);
        }
    }

    /// Lets the ranks of a running job end.
    fn leave(&mut self, place: usize, end: End) {
        let over = self.now.after(self.site.delays.end);
        if let Some(running) = self.submissions[place].running_mut()
            && running.leaving.is_none()
        {
            running.leaving = Some((end, over));
        }
    }

    /// Schedules a pass of the queue after the controller's delay.
    fn look_soon(&mut self) {
        let soon = self.now.after(self.site.delays.start);
        self.look = Some(self.look.filter(|at| at.0 <= soon.0).unwrap_or(soon));
    }

    /// Starts pending jobs in order; a job that does not fit blocks the GPU types that it requests for later
    /// jobs.
    fn start_jobs(&mut self) {
        self.look = None;
        let mut wanted = BTreeSet::new();
        for place in 0..self.submissions.len() {
            let submission = &self.submissions[place];
            if !matches!(submission.stage, SimulatedStage::Pending) {
                continue;
            }
            let is_held_off = submission.request.types().any(|gpu_type| wanted.contains(gpu_type));
            match submission.request.fit(&self.free()).filter(|_| !is_held_off) {
                Some(gpus) => self.start(place, gpus),
                None => wanted.extend(submission.request.types().cloned()),
            }
        }
    }

    /// Starts a job on some GPUs. A continuation first asks its running predecessor to save; if the
    /// predecessor has ended and no work can be continued, the continuation ends at once.
    fn start(&mut self, place: usize, gpus: Gpus) {
        let before = self.submissions[place].follows;
        let before = before.and_then(|id| self.submissions.iter().position(|submission| submission.id == id));
        if let Some(before) = before {
            if self.submissions[before].running().is_some() {
                self.begin(place, gpus);
                if let Some(running) = self.submissions[place].running_mut() {
                    running.waits = true;
                }
                return self.ask_to_save(before);
            }
            if !self.go_on_after(place, before) {
                self.submissions[place].end(End::Yielded, self.now);
                return;
            }
        }
        self.begin(place, gpus);
    }

    /// Starts the continuation that waits for the end of this submission, or ends it if it cannot continue.
    fn make_room(&mut self, ended: usize) {
        let id = self.submissions[ended].id;
        let waits = |submission: &SimulatedSubmission| {
            submission.follows == Some(id) && submission.running().is_some_and(|running| running.waits)
        };
        let Some(next) = self.submissions.iter().position(waits) else { return };
        let Some((gpus, limit)) =
            self.submissions[next].running().map(|running| (running.gpus.clone(), running.limit))
        else {
            return;
        };
        if !self.go_on_after(next, ended) {
            return self.leave(next, End::Yielded);
        }
        self.begin(next, gpus);
        if let Some(running) = self.submissions[next].running_mut() {
            running.limit = limit;
        }
    }

    /// Takes over the progress of a job's previous piece; returns whether the job can continue and work
    /// remains.
    fn go_on_after(&mut self, place: usize, before: usize) -> bool {
        let earlier = &self.submissions[before];
        let goes_on = match &earlier.stage {
            SimulatedStage::Ended { end, .. } => {
                matches!(end, End::Saved | End::TimedOut | End::NodeFailed | End::Cancelled)
            }
            _ => true,
        };
        let last = earlier.reports.last().map_or(earlier.epochs_done, |report| report.epoch);
        let submission = &mut self.submissions[place];
        let all = submission.epochs_done + submission.job.epochs;
        submission.epochs_done = submission.epochs_done.max(last);
        submission.job.epochs = all.saturating_sub(submission.epochs_done);
        goes_on && submission.job.epochs > 0
    }

    fn begin(&mut self, place: usize, gpus: Gpus) {
        let submission = &mut self.submissions[place];
        let checkpoint = self.checkpoints.get(&submission.job.name).copied();
        submission.start(&self.site, self.now, gpus, checkpoint);
        let failure = self.script.failure(&submission.job.name, submission.number);
        if let Some(running) = submission.running_mut() {
            let on_dead = running.gpus.0.keys().any(|node| self.dead.contains(node));
            running.hangs = on_dead;
            running.training.failure = running.training.failure.take().or(failure);
        }
    }

    fn request(&self, run: &Run, intent: &PlannedSubmission) -> FitRequest {
        self.request_for(&named_ranks(&run.problem, &intent.placement), &run.jobs[intent.job])
    }

    /// Returns the request for a job's ranks, on the nodes that the job does not avoid.
    fn request_for(&self, ranks: &[PlacedRank], job: &Job) -> FitRequest {
        let names = |keep: &dyn Fn(&Node) -> bool| {
            self.site.cluster.nodes.iter().filter(|node| keep(node)).map(|node| node.name.clone()).collect()
        };
        let mixed = names(&|node| node.gpus.len() > 1);
        FitRequest::new(ranks, names(&|node| !job.avoided.contains(&node.name)), &mixed, self.site.pinned)
    }
}
