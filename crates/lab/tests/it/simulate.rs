//! The simulated cluster on tiny cases: epoch times, the order of starts, and the effects of stops and
//! incidents.

use hsched_engine::{
    AfterStop, Answer, End, EpochReport, Event, Observation, Phase, PlannedSubmission, QueueState, Run,
    Sighting, State, SubmissionKey, World as _, apply,
};
use hsched_lab::find;
use hsched_lab::simulate::{Delays, Incident, IncidentTime, SaveReaction, SimulatedSite, SimulatedWorld};
use hsched_model::{
    Access, BitRate, Cluster, Estimates, GpuType, Holdings, Job, JobId, RankNeeds, Seconds, Speed, Time,
};
use hsched_plan::plan_file::{Capacity, PlanFile, SolvedProblem};
use hsched_plan::throughput::{Cache, ThroughputMatrix};
use hsched_plan::{Basis, Budget, ClusterView, Parameters, Placement, Problem, verify};

use hsched_fixtures::sites::{cluster, jobs, name, node, site};
use hsched_problems::problems::rate;

/// Two nodes of two V100 and one of two T4.
const CLUSTER: &str = "\
network_gbps: 10
intra_node_gbps: 100
nodes:
  - {name: 'v[1-2]', gpus: {v100: 2}}
  - {name: t1, gpus: {t4: 2}}
";

const FIRST: Time = Time(1000.0);

/// Returns a run that starts all these jobs, planned on the whole cluster.
fn planned(id: &str, cluster: &Cluster, jobs: &[Job], epochs_done: u64) -> Run {
    let access = Access::everywhere(RankNeeds { cpus: 1, memory: 0 });
    let speeds = ThroughputMatrix::new(jobs, &Problem::types_of(cluster), &Cache::default(), Estimates::Off);
    let rates: (BitRate, BitRate) = (rate(10.0), rate(300.0));
    let cluster_view = ClusterView { cluster, access: &access, held: &Holdings::new(), rates };
    let all: Vec<usize> = (0..jobs.len()).collect();
    let problem =
        Problem::live(cluster_view, jobs, &speeds).expect("a problem").extract(&all, Basis::Free).problem;
    let mut policy = find("optimal", &Parameters::default()).expect("a policy");
    let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
    let plan = verify(&problem, plan).expect("a good plan");
    let solved = SolvedProblem {
        problem: &problem,
        jobs,
        cluster,
        access: &access,
        plan: &plan,
        policy: "optimal",
        solve: None,
        proven: None,
    };
    let file = PlanFile::new(solved, Vec::new(), Capacity::Free, false);
    Run {
        id: id.to_owned(),
        jobs: jobs.to_vec(),
        epochs_done: vec![epochs_done; jobs.len()],
        submissions: PlannedSubmission::of(&plan, plan.placed()).collect(),
        problem,
        file,
    }
}

/// Submits and observes single jobs.
struct Submitter {
    world: SimulatedWorld,
    cluster: Cluster,
    state: State,
}

impl Submitter {
    fn new(site: SimulatedSite, incidents: Vec<Incident>) -> Self {
        let cluster = site.cluster.clone();
        Self { world: SimulatedWorld::new(site, incidents, FIRST), cluster, state: State::default() }
    }

    /// Submits a job, planned as if it were alone; returns its job id and its placement.
    fn submit(&mut self, run: &str, job: &Job, epochs_done: u64) -> (JobId, Placement) {
        let rest = Job { epochs: job.epochs - epochs_done, ..job.clone() };
        let run = planned(run, &self.cluster, &[rest], epochs_done);
        let intent = run.submissions[0].clone();
        let rules = hsched_fixtures::sites::rules();
        apply(&mut self.state, FIRST, &Event::Added { job: Box::new(job.clone()), restart: false }, &rules);
        let tracked = self.state.find_mut(&job.name).expect("just added");
        tracked.epochs_done = epochs_done;
        // The submission is observed alone, regardless of earlier submissions.
        tracked.phase = Phase::Submitted(Vec::new());
        tracked.intend(run.attempt(&intent, FIRST));
        match self.world.submit(&run, &intent) {
            Answer::Submitted { job_id } => (job_id, intent.placement),
            other => panic!("{other:?}"),
        }
    }

    fn look(&mut self) -> Observation {
        let Ok(seen) = self.world.observe(&self.state);
        seen
    }

    fn sighting(&mut self, job: &str) -> Sighting {
        self.look()
            .sightings
            .into_iter()
            .find(|sighting| sighting.of.job.as_str() == job)
            .expect("a sighting")
    }

    fn reports(&mut self, job: &str) -> Vec<EpochReport> {
        let epochs =
            self.look().epochs.into_iter().filter(|(submission_key, _)| submission_key.job.as_str() == job);
        epochs.map(|(_, report)| report).collect()
    }

    fn queue_state(&mut self, job: &str) -> &'static str {
        match self.sighting(job).state {
            QueueState::Pending => "pending",
            QueueState::Running { .. } => "running",
            QueueState::Ended { .. } | QueueState::NotStarted(_) => "ended",
        }
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// A job for one or two V100, whose epochs have 1000 samples in 10 steps of 100.
fn two_v100() -> Job {
    let text = "  - {name: a, samples_per_epoch: 1000, epochs: 3, global_batch: 100, model_size: 10MB, \
                throughput: {v100: 100}, max_gpus: 2, command: train}";
    jobs(text).remove(0)
}

#[test]
fn an_epoch_takes_the_slowest_ranks_time_and_the_communication() {
    // The job file states the same speed for both types, but a T4 is half as fast.
    let said = "  - {name: a, samples_per_epoch: 1000, epochs: 2, global_batch: 100, model_size: 10MB, min_gpus: 6, \
                throughput: {v100: 100, t4: 100}, command: train}";
    let said = jobs(said).remove(0);
    let mut site = site(cluster(CLUSTER), std::slice::from_ref(&said));
    let t4 = GpuType::new("t4").expect("a type");
    site.speeds.get_mut("a").expect("a model").insert(t4, Speed::rate(50.0).expect("a rate"));
    site.delays = Delays { start: Seconds(2.0), setup: Seconds(3.0), end: Seconds(4.0), ..Delays::default() };
    let mut submitter = Submitter::new(site, Vec::new());
    let (_, placement) = submitter.submit("r1", &said, 0);
    let of_t4 = placement.ranks.iter().filter(|rank| rank.gpu_type == 0).map(|rank| rank.batch);
    let slowest = of_t4.max().expect("a T4");
    assert!((16..=17).contains(&slowest));
    // Ten steps, each with one exchange over six ranks and the 10 Gbit/s between nodes.
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let epoch = 10.0 * (slowest as f64 / 50.0) + 10.0 * (2.0 * 5.0 * 1e7) / (6.0 * 1.25e9);

    submitter.world.pass(Seconds(1.9));
    assert_eq!(submitter.queue_state("a"), "pending");
    submitter.world.pass(Seconds(3.0 + epoch));
    assert_eq!(submitter.reports("a"), []);
    submitter.world.pass(Seconds(0.2));
    let report = submitter.reports("a").remove(0);
    assert!(near(report.length.expect("a length").0, epoch), "{report:?} {epoch}");
    assert_eq!(report.ranks.iter().map(|rank| rank.samples).sum::<u64>(), 1000);
    let compute = |rank: usize, speed: f64| {
        near(report.ranks[rank].compute.0, {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let batch = placement.ranks[rank].batch as f64;
            10.0 * batch / speed
        })
    };
    for (rank, placed_rank) in placement.ranks.iter().enumerate() {
        assert!(compute(rank, if placed_rank.gpu_type == 0 { 50.0 } else { 100.0 }), "{report:?}");
    }
    submitter.world.pass(Seconds(epoch + 3.8));
    assert_eq!(submitter.queue_state("a"), "running");
    submitter.world.pass(Seconds(0.2));
    let at = FIRST.0 + 9.0 + 2.0 * epoch;
    let end = submitter.sighting("a").state;
    assert!(
        matches!(end, QueueState::Ended { end: End::Completed, at: Some(time), .. } if near(time.0, at)),
        "{end:?}"
    );
}

/// Jobs of one epoch: on two nodes with two V100 each, `a` and `late` need half of the GPUs, and `all` needs
/// all; `other` uses the T4.
fn queued_jobs() -> Vec<Job> {
    let text =
        "  - {name: a, samples_per_epoch: 100, epochs: 1, global_batch: 100, model_size: 0, min_gpus: 2, \
                max_gpus: 2, throughput: {v100: 50}, command: train}
  - {name: all, samples_per_epoch: 100, epochs: 1, global_batch: 100, model_size: 0, min_gpus: 4, \
                throughput: {v100: 50}, command: train}
  - {name: late, samples_per_epoch: 100, epochs: 1, global_batch: 100, model_size: 0, min_gpus: 2, \
                max_gpus: 2, throughput: {v100: 50}, command: train}
  - {name: other, samples_per_epoch: 100, epochs: 1, global_batch: 100, model_size: 0, \
                throughput: {t4: 50}, command: train}";
    jobs(text)
}

#[test]
fn a_job_waits_behind_those_that_wait_for_its_type() {
    let jobs = queued_jobs();
    let [a, all, late, other] = jobs.as_slice() else { panic!("four: {jobs:?}") };
    let mut submitter = Submitter::new(site(cluster(CLUSTER), &jobs), Vec::new());
    submitter.submit("r1", a, 0);
    submitter.world.pass(Seconds(0.5));
    let forecast = |submitter: &mut Submitter, job: &Job| {
        let run = planned("r2", &submitter.cluster, std::slice::from_ref(job), 0);
        submitter.world.forecast(&run)
    };
    assert_eq!(forecast(&mut submitter, late), Some(Seconds(0.0)));
    submitter.submit("r1", all, 0);
    assert_eq!(forecast(&mut submitter, late), None);
    assert_eq!(forecast(&mut submitter, other), Some(Seconds(0.0)));
}

#[test]
fn the_queue_keeps_its_order_and_fills_up_with_what_it_does_not_delay() {
    let jobs = queued_jobs();
    let mut submitter = Submitter::new(site(cluster(CLUSTER), &jobs), Vec::new());
    for job in &jobs {
        submitter.submit("r1", job, 0);
    }
    let names = ["a", "all", "late", "other"];
    let mut states = |seconds| {
        submitter.world.pass(Seconds(seconds));
        names.map(|name| submitter.queue_state(name))
    };
    assert_eq!(states(0.5), ["running", "pending", "pending", "running"]);
    // `a` completes after 1 s, `all` half a second later, and `late` another second later.
    assert_eq!(states(0.75), ["ended", "running", "pending", "ended"]);
    assert_eq!(states(0.5), ["ended", "ended", "running", "ended"]);
    assert_eq!(states(1.0), ["ended"; 4]);
}

#[test]
fn a_stopped_job_goes_on_where_it_was() {
    let job = two_v100();
    let mut submitter = Submitter::new(site(cluster(CLUSTER), std::slice::from_ref(&job)), Vec::new());
    let (id, placement) = submitter.submit("r1", &job, 0);
    let epoch = placement.epoch.total();
    // This is in the fourth of ten steps of the second epoch.
    submitter.world.pass(Seconds(1.35 * epoch));
    assert_eq!(
        submitter.world.stop(&SubmissionKey::new(job.name.clone(), "r"), id, AfterStop::GoOn),
        Answer::Stopped
    );
    submitter.world.pass(Seconds(0.04 * epoch));
    assert_eq!(submitter.queue_state("a"), "running");
    submitter.world.pass(Seconds(0.02 * epoch));
    let saved = submitter.sighting("a").state;
    assert!(
        matches!(saved, QueueState::Ended { end: End::Saved, at: Some(at), .. } if near(at.0, FIRST.0 + 1.4 * epoch))
    );
    assert_eq!(submitter.reports("a").len(), 1);
    assert!(matches!(
        submitter.world.stop(&SubmissionKey::new(job.name.clone(), "r"), id, AfterStop::GoOn),
        Answer::NotStopped { .. }
    ));

    submitter.submit("r2", &job, 1);
    submitter.world.pass(Seconds(0.61 * epoch));
    let rest = submitter.reports("a").remove(0);
    assert_eq!((rest.epoch, rest.ranks[0].samples), (2, 300));
    assert!(near(rest.length.expect("a length").0, 0.6 * epoch), "{rest:?}");
    submitter.world.pass(Seconds(epoch));
    assert_eq!(submitter.reports("a").iter().map(|report| report.epoch).collect::<Vec<_>>(), [2, 3]);
    assert!(matches!(submitter.sighting("a").state, QueueState::Ended { end: End::Completed, .. }));
}

#[test]
fn jobs_stop_as_their_site_says() {
    let job = two_v100();
    let stopped = |saving, setup| {
        let mut site = site(cluster(CLUSTER), std::slice::from_ref(&job));
        (site.saving, site.delays.setup) = (saving, Seconds(setup));
        let mut submitter = Submitter::new(site, Vec::new());
        let (id, placement) = submitter.submit("r1", &job, 0);
        submitter.world.pass(Seconds(0.1));
        submitter.world.stop(&SubmissionKey::new(job.name.clone(), "r"), id, AfterStop::GoOn);
        submitter.world.pass(Seconds(10.0 * placement.epoch.total()));
        let QueueState::Ended { end, .. } = submitter.sighting("a").state else { panic!("it ended") };
        (end, submitter.reports("a").len())
    };
    assert_eq!(stopped(SaveReaction::AfterStep, 0.0), (End::Saved, 0));
    assert_eq!(stopped(SaveReaction::AfterEpoch, 0.0), (End::Saved, 1));
    assert_eq!(stopped(SaveReaction::Never, 0.0), (End::Completed, 3));
    // Before the first step of its ranks, there is no progress to save.
    assert_eq!(stopped(SaveReaction::AfterEpoch, 5.0), (End::Saved, 0));
}

#[test]
fn a_walltime_warns_and_then_ends() {
    let job = two_v100();
    let ended = |saving| {
        let mut site = site(cluster(CLUSTER), std::slice::from_ref(&job));
        (site.saving, site.walltime, site.grace) = (saving, Some(Seconds(8.0)), Seconds(2.0));
        let mut submitter = Submitter::new(site, Vec::new());
        submitter.submit("r1", &job, 0);
        submitter.world.pass(Seconds(100.0));
        let QueueState::Ended { end, at, since } = submitter.sighting("a").state else { panic!("it ended") };
        assert_eq!(since, Some(FIRST));
        (end, at.expect("a time").0 - FIRST.0)
    };
    let (end, at) = ended(SaveReaction::AfterStep);
    assert!(end == End::Saved && (6.0..7.0).contains(&at), "{end} {at}");
    assert_eq!(ended(SaveReaction::Never), (End::TimedOut, 8.0));
}

#[test]
fn a_node_takes_its_jobs_with_it() {
    let text = "  - {name: a, samples_per_epoch: 1000, epochs: 9, global_batch: 100, model_size: 10MB, \
                throughput: {v100: 100}, min_gpus: 4, command: train}";
    let job = jobs(text).remove(0);
    let mut site = site(cluster(CLUSTER), std::slice::from_ref(&job));
    site.delays.node_down = Seconds(5.0);
    let dies =
        Incident::NodeDies { node: node("v2"), when: IncidentTime::Reported { job: name("a"), epoch: 2 } };
    let returns = Incident::NodeReturns { node: node("v2"), when: IncidentTime::At(Time(FIRST.0 + 50.0)) };
    let mut submitter = Submitter::new(site, vec![dies, returns]);
    let (_, placement) = submitter.submit("r1", &job, 0);
    submitter.world.pass(Seconds(2.0 * placement.epoch.total() + 4.9));
    // The controller has not noticed, but training stands still.
    assert_eq!((submitter.queue_state("a"), submitter.reports("a").len()), ("running", 2));
    submitter.world.pass(Seconds(0.2));
    assert!(matches!(submitter.sighting("a").state, QueueState::Ended { end: End::NodeFailed, .. }));
    let state = |submitter: &Submitter, name| {
        submitter.world.cluster().node(&node(name)).expect("a node").state.text().to_owned()
    };
    assert_eq!((state(&submitter, "v1"), state(&submitter, "v2")), ("idle".into(), "down*".into()));
    submitter.submit("r2", &job, 2);
    submitter.world.pass(Seconds(20.0));
    assert_eq!(submitter.queue_state("a"), "pending");
    submitter.world.pass(Seconds(30.0));
    assert_eq!((submitter.queue_state("a"), state(&submitter, "v2")), ("running", "allocated".into()));
}

#[test]
fn a_job_fails_as_ordered_and_only_then() {
    let job = two_v100();
    let fails = |submission, epoch, end| Incident::Failure { job: name("a"), submission, epoch, end };
    let incidents = vec![fails(1, 2, End::OutOfMemory), fails(2, 1, End::Failed { exit: 3, signal: 0 })];
    let mut submitter = Submitter::new(site(cluster(CLUSTER), std::slice::from_ref(&job)), incidents);
    submitter.submit("r1", &job, 0);
    submitter.world.pass(Seconds(100.0));
    let reports = submitter.reports("a").len();
    assert!(matches!(submitter.sighting("a").state, QueueState::Ended { end: End::OutOfMemory, .. }));
    assert_eq!(reports, 1);
    // The second submission resumes after the epoch in which it would fail.
    submitter.submit("r2", &job, 1);
    submitter.world.pass(Seconds(100.0));
    assert!(matches!(submitter.sighting("a").state, QueueState::Ended { end: End::Completed, .. }));
}

#[test]
fn a_gpu_without_a_true_speed_fails_the_job() {
    let job = two_v100();
    let mut site = site(cluster(CLUSTER), std::slice::from_ref(&job));
    site.speeds.clear();
    let mut submitter = Submitter::new(site, Vec::new());
    submitter.submit("r1", &job, 0);
    submitter.world.pass(Seconds(1.0));
    assert!(matches!(
        submitter.sighting("a").state,
        QueueState::Ended { end: End::Failed { exit: 1, .. }, .. }
    ));
}

#[test]
fn noise_is_bounded_and_comes_from_the_seed() {
    let job = two_v100();
    let lengths = |seed| {
        let mut site = site(cluster(CLUSTER), std::slice::from_ref(&job));
        (site.noise, site.seed) = (0.05, seed);
        let mut submitter = Submitter::new(site, Vec::new());
        let (_, placement) = submitter.submit("r1", &job, 0);
        submitter.world.pass(Seconds(100.0));
        let lengths: Vec<f64> =
            submitter.reports("a").iter().filter_map(|epoch_report| Some(epoch_report.length?.0)).collect();
        assert!(lengths.iter().all(|length| (length / placement.epoch.total() - 1.0).abs() < 0.05));
        lengths
    };
    assert_eq!(lengths(1), lengths(1));
    assert_ne!(lengths(1), lengths(2));
}
