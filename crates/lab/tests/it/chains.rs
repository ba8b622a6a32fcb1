//! Jobs in pieces: while one piece runs, the next one waits in the queue; it takes over, and is neither lost
//! nor duplicated, no matter at which write hsched dies.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use hsched_engine::{
    AfterStop, Amendment, Answer, End, Event, Inquiry, JobState, Observation, Outcome, Phase,
    PlannedSubmission, QueueState, Run, State, SubmissionKey, World, apply,
};
use hsched_lab::simulate::{self, Incident};
use hsched_model::{Cluster, Job, JobId, JobName, Seconds, Time};
use hsched_plan::JobStartEstimates;

use crate::deaths::{Died, Disk};
use crate::queue_watch::{answer, queueing};
use hsched_fixtures::engine_states::{job, name, planner, rules};
use hsched_fixtures::sites;

/// The simulated cluster, in which all jobs start at once if there is room, with a record of observations and
/// requests.
pub struct Seer {
    world: simulate::SimulatedWorld,
    pub submitted: BTreeMap<SubmissionKey, u32>,
    /// The submissions that reported each epoch.
    reported: BTreeMap<(JobName, u64), BTreeSet<SubmissionKey>>,
    /// Maximum number of submissions of a job that were in the queue or ran at one time, and whether two held
    /// GPUs.
    alive: usize,
    overlapped: bool,
    /// The observed ends of submissions.
    ended: BTreeMap<SubmissionKey, End>,
    /// Number of requested changes of submissions.
    amended: u32,
    /// Whether the site refuses to change time limits.
    keeps_limits: bool,
    cluster: Cluster,
}

impl World for Seer {
    type Error = Infallible;

    fn observe(&mut self, state: &State) -> Result<Observation, Infallible> {
        let seen = self.world.observe(state)?;
        for (of, report) in &seen.epochs {
            self.reported.entry((of.job.clone(), report.epoch)).or_default().insert(of.clone());
        }
        let alive = |sighting: &&hsched_engine::Sighting| !matches!(sighting.state, QueueState::Ended { .. });
        let runs = |sighting: &&hsched_engine::Sighting| matches!(sighting.state, QueueState::Running { .. });
        for job in seen.sightings.iter().map(|sighting| &sighting.of.job).collect::<BTreeSet<_>>() {
            let of_job = || seen.sightings.iter().filter(|sighting| sighting.of.job == *job);
            self.alive = self.alive.max(of_job().filter(alive).count());
            self.overlapped |= of_job().filter(runs).count() > 1;
        }
        for sighting in &seen.sightings {
            if let QueueState::Ended { end, .. } = &sighting.state {
                self.ended.insert(sighting.of.clone(), end.clone());
            }
        }
        Ok(seen)
    }

    fn prepare(&mut self, run: &Run) -> Result<(), String> {
        self.world.prepare(run)
    }

    fn submit(&mut self, run: &Run, intent: &PlannedSubmission) -> Answer {
        *self.submitted.entry(run.key(intent)).or_default() += 1;
        self.world.submit(run, intent)
    }

    fn stop(&mut self, of: &SubmissionKey, job_id: JobId, then: AfterStop) -> Answer {
        self.world.stop(of, job_id, then)
    }

    fn cancel(&mut self, of: &SubmissionKey, job_id: JobId) -> Answer {
        self.world.cancel(of, job_id)
    }

    fn amend(&mut self, of: &SubmissionKey, job_id: JobId, to: &Amendment) -> Answer {
        self.amended += 1;
        if self.keeps_limits {
            return Answer::NotAmended { message: "Access/permission denied".to_owned() };
        }
        self.world.amend(of, job_id, to)
    }

    fn start_estimates(&mut self, inquiries: &[Inquiry]) -> Vec<JobStartEstimates> {
        inquiries.iter().map(|inquiry| answer(&self.cluster, inquiry, 0.0, &|_| (0.0, 0.0))).collect()
    }

    fn forecast(&mut self, _: &Run) -> Option<Seconds> {
        None
    }
}

/// A job with ten epochs of six minutes each on one V100, in pieces of 20 min.
fn long() -> Job {
    let more = ", max_gpus: 1, retries: 1, time: 20m, checkpoint: {dir: saved, grace: 60s}";
    Job { samples_per_epoch: 36_000, ..job("a", "{v100: 100}", more) }
}

/// The parameters of a story.
#[derive(Clone, Default)]
pub struct Story {
    pub gpus: u32,
    /// The jobs, if not only [`long`].
    pub jobs: Vec<Job>,
    pub incidents: Vec<Incident>,
    /// Whether the job has a single epoch that takes 13 min instead of the expected 25 min.
    pub is_faster: bool,
    /// Whether the site refuses to change time limits.
    pub keeps_limits: bool,
    /// The write at which the process dies, and whether it dies before that write.
    pub dies: (u32, bool),
    /// A request of the user with its time.
    pub request: Option<(f64, Event)>,
}

/// Plays the story of one job to its end; returns the record, the job, and the number of writes that were
/// left until the death.
fn play(story: &Story) -> (Seer, JobState, u32) {
    let (seer, mut jobs, left) = play_all(story);
    (seer, jobs.remove(0), left)
}

/// Plays a story to its end; returns the record, the jobs, and the number of writes that were left until the
/// death.
pub fn play_all(story: &Story) -> (Seer, Vec<JobState>, u32) {
    let cluster = format!("nodes:\n  - {{name: v1, gpus: {{v100: {}}}}}\n", story.gpus);
    let cluster = sites::cluster(&cluster);
    let mut jobs = if story.jobs.is_empty() { vec![long()] } else { story.jobs.clone() };
    let mut real = jobs.clone();
    if story.is_faster {
        (jobs[0].epochs, jobs[0].samples_per_epoch) = (1, 150_000);
        real[0].throughput = job("a", "{v100: 190}", "").throughput;
    }
    let mut site = sites::site(cluster.clone(), &real);
    if story.gpus > 1 {
        // A submission keeps its GPUs for a while when it has to make room.
        site.saving = simulate::SaveReaction::AfterEpoch;
    }
    let world = simulate::SimulatedWorld::new(site, story.incidents.clone(), Time(0.0));
    let (submitted, reported, ended) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let keeps_limits = story.keeps_limits;
    let mut seer = Seer {
        world,
        submitted,
        reported,
        alive: 0,
        overlapped: false,
        ended,
        amended: 0,
        keeps_limits,
        cluster,
    };
    let jobs = jobs.into_iter().map(|job| JobState::new(job, Time(0.0))).collect();
    let mut state = State { jobs, ..State::default() };
    let left = Cell::new(story.dies.0);
    let mut request = story.request.clone();
    for turn in 0..1000 {
        if let Some((_, event)) = request.take_if(|(at, _)| *at <= seer.world.now().0) {
            apply(&mut state, seer.world.now(), &event, &rules());
        }
        let mut policy = queueing();
        let run = format!("r{turn}");
        let mut planner = planner(policy.as_mut());
        planner.run = &run;
        let mut disk = Disk { state: state.clone(), left: &left, before: story.dies.1 };
        let mut in_memory = state.clone();
        let went: Result<_, Died> =
            hsched_engine::turn(&mut seer, &mut disk, &mut in_memory, &rules(), &mut planner, &mut |_| ());
        if went.is_ok() {
            assert_eq!(in_memory, disk.state, "the state on disk is another one than that in memory");
        }
        state = disk.state;
        if state.is_over() {
            break;
        }
        seer.world.pass(Seconds(30.0));
    }
    assert!(seer.submitted.values().all(|count| *count == 1), "{:?}", seer.submitted);
    assert!(seer.reported.values().all(|reports| reports.len() == 1), "two trained: {:?}", seer.reported);
    assert!(seer.alive <= 2, "{} at one time", seer.alive);
    (seer, state.jobs, left.get())
}

pub fn outcome(tracked: &JobState) -> &Outcome {
    let Phase::Ended { outcome, .. } = &tracked.phase else { panic!("{:?}", tracked.phase) };
    outcome
}

#[test]
fn the_next_piece_waits_while_one_runs_and_goes_on_where_it_ends() {
    let (seer, tracked, _) = play(&Story { gpus: 1, ..Story::default() });
    assert_eq!(*outcome(&tracked), Outcome::Completed);
    assert_eq!((seer.alive, seer.overlapped, tracked.epochs_done), (2, false, 10));
    // An hour in pieces of 19 min, with a short last one.
    assert_eq!(seer.submitted.len(), 4, "{:?}", seer.submitted);
    let gap =
        |pair: &[hsched_engine::PastAttempt]| pair[1].attempt.started.expect("a start").0 - pair[0].ended.0;
    let gaps: Vec<f64> = tracked.past.windows(2).map(gap).collect();
    assert!(gaps.iter().all(|gap| *gap <= 0.0), "{gaps:?}");
    assert_eq!(tracked.failures, 0);
    // The last piece was queued with the full limit, because the remaining work was then too long for one
    // piece. Its limit was lowered later.
    let limit = |past: &hsched_engine::PastAttempt| past.attempt.limit.expect("a limit").0 / 60.0;
    assert_eq!(tracked.past.iter().map(limit).collect::<Vec<f64>>(), [20.0, 20.0, 20.0, 15.0]);
}

#[test]
fn a_limit_that_slurm_keeps_is_not_asked_for_again() {
    let story = Story { gpus: 1, keeps_limits: true, ..Story::default() };
    let (seer, tracked, _) = play(&story);
    assert_eq!((outcome(&tracked), tracked.epochs_done, seer.amended), (&Outcome::Completed, 10, 1));
}

#[test]
fn a_next_piece_that_starts_early_takes_over_and_two_never_train() {
    let (seer, tracked, _) = play(&Story { gpus: 2, ..Story::default() });
    assert_eq!(*outcome(&tracked), Outcome::Completed);
    assert_eq!((seer.alive, tracked.epochs_done, tracked.failures), (2, 10, 0));
    assert!(seer.overlapped, "the next one holds its GPUs while the other saves");
    // Each piece runs for half of its limit before the next one takes over.
    assert!((5..=7).contains(&seer.submitted.len()), "{:?}", seer.submitted);
}

#[test]
fn whoever_is_killed_at_any_write_loses_and_doubles_no_piece() {
    for gpus in [1, 2] {
        for before in [false, true] {
            // The last story is the first one without a death.
            let lives = |number: &u32| {
                let (_, tracked, left) = play(&Story { gpus, dies: (*number, before), ..Story::default() });
                assert_eq!(*outcome(&tracked), Outcome::Completed, "killed at write {number}");
                assert_eq!((tracked.epochs_done, tracked.failures), (10, 0), "killed at write {number}");
                left == 0
            };
            let deaths = (1..200).take_while(lives).count();
            assert!(deaths >= 15, "only {deaths} writes");
        }
    }
}

#[test]
fn a_job_that_is_done_early_takes_its_next_piece_out_of_the_queue() {
    let (seer, tracked, _) = play(&Story { gpus: 1, is_faster: true, ..Story::default() });
    assert_eq!((outcome(&tracked), tracked.epochs_done), (&Outcome::Completed, 1));
    assert_eq!((seer.submitted.len(), seer.alive), (2, 2));
    // If the piece starts before it is cancelled, it ends by itself.
    let mut ends = seer.ended.values();
    assert_eq!(ends.next(), Some(&End::Completed));
    assert!(matches!(ends.next(), Some(End::Cancelled | End::Yielded)), "{:?}", seer.ended);
}

#[test]
fn a_job_that_is_cancelled_or_fails_takes_its_next_piece_with_it() {
    let asked = Event::CancelAsked { job: name("a") };
    for gpus in [1, 2] {
        let (seer, tracked, _) =
            play(&Story { gpus, request: Some((700.0, asked.clone())), ..Story::default() });
        assert_eq!(*outcome(&tracked), Outcome::Cancelled);
        assert_eq!(seer.submitted.len(), 2, "{:?}", seer.submitted);
    }
    let fails = |submission, epoch| Incident::Failure {
        job: name("a"),
        submission,
        epoch,
        end: End::Failed { exit: 1, signal: 0 },
    };
    // The first one fails in its third epoch while the second is pending; the next submission then also
    // fails.
    let incidents = vec![fails(1, 3), fails(3, 3)];
    let (seer, tracked, _) = play(&Story { gpus: 1, incidents, ..Story::default() });
    let Outcome::Failed { .. } = outcome(&tracked) else { panic!("{:?}", tracked.phase) };
    assert_eq!((tracked.failures, seer.submitted.len()), (2, 3), "{:?}", seer.ended);
}
