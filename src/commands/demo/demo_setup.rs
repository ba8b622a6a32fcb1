//! The imaginary cluster with its jobs, their true properties, and the faults.

use std::collections::BTreeMap;

use crate::settings::Settings;
use hsched_engine::{End, Event, Rules};
use hsched_lab::simulate::{Delays, Incident, IncidentTime, SimulatedSite, SimulatedWorld};
use hsched_model::formats;
use hsched_model::{BitRate, Cluster, GpuType, Job, JobDefaults, JobName, NodeName, Seconds, Speed, Time};
use hsched_ui::{Exit, Failure};

const CLUSTER: &str = include_str!("cluster.yaml");
const JOBS: &str = include_str!("jobs.yaml");

/// The job with a wrong speed in its file, the GPU type, and the true samples per second.
const WRONG: (&str, &str, f64) = ("lstm", "v100", 340.0);

/// The job whose second submission fails, and the epoch in which it fails.
const FAILS: (&str, u64) = ("bert", 3);

/// The node that fails, and when.
const DIES: (&str, Seconds) = ("v2", Seconds(5760.0));

/// Start of the story, an arbitrary time.
pub(super) const BEGIN: Time = Time(0.0);

/// Time between the engine's observations.
pub(super) const POLL: Seconds = Seconds(30.0);

/// The setup of the story.
pub(super) struct DemoSetup {
    pub cluster: Cluster,
    pub jobs: Vec<Job>,
    seed: u64,
    defaults: JobDefaults,
    network: BitRate,
    intra_node: BitRate,
}

impl DemoSetup {
    /// Returns the setup; rates and job defaults are those of the settings.
    ///
    /// # Errors
    /// Never, unless its own texts are invalid.
    pub(super) fn new(settings: &Settings, seed: u64) -> Result<Self, Failure> {
        let wrong = |problems: formats::Problems| Failure::from_error(Exit::Internal, &problems);
        Ok(Self {
            cluster: formats::cluster::parse(CLUSTER).map_err(wrong)?,
            jobs: formats::jobs::parse(JOBS).map_err(wrong)?,
            seed,
            defaults: settings.jobs.clone(),
            network: settings.network,
            intra_node: settings.intra_node,
        })
    }

    /// Returns the cluster at the start.
    pub(super) fn world(&self) -> SimulatedWorld {
        let mut speeds: BTreeMap<String, BTreeMap<GpuType, Speed>> =
            self.jobs.iter().map(|job| (job.model.clone(), job.throughput.clone())).collect();
        let (model, gpu_type, rate) = WRONG;
        let truth = GpuType::new(gpu_type).zip(Speed::rate(rate));
        if let Some((of_model, (gpu_type, speed))) = speeds.get_mut(model).zip(truth) {
            of_model.insert(gpu_type, speed);
        }
        let rates = [self.network, self.intra_node];
        let site = SimulatedSite {
            noise: 0.01,
            slow: BTreeMap::new(),
            seed: self.seed,
            delays: Delays {
                start: Seconds(2.0),
                setup: Seconds(20.0),
                end: Seconds(1.0),
                node_down: Seconds(60.0),
            },
            pinned: true,
            grace: self.defaults.grace,
            ..SimulatedSite::new(self.cluster.clone(), rates, speeds)
        };
        SimulatedWorld::new(site, incidents(), BEGIN)
    }

    /// Returns the user's commands: all jobs are added at once.
    pub(super) fn orders(&self) -> Vec<(Time, Event)> {
        self.jobs
            .iter()
            .map(|job| (BEGIN, Event::Added { job: Box::new(job.clone()), restart: false }))
            .collect()
    }

    /// Returns the rules of the engine.
    pub(super) fn rules(&self) -> Rules {
        Rules {
            pinned: true,
            defaults: self.defaults.clone(),
            restart_cost: Seconds(300.0),
            ..Rules::new(self.network, self.intra_node)
        }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
}

fn incidents() -> Vec<Incident> {
    let failure = JobName::new(FAILS.0).ok().map(|job| {
        let end = End::Failed { exit: 1, signal: 0 };
        Incident::Failure { job, submission: 2, epoch: FAILS.1, end }
    });
    let death = NodeName::new(DIES.0)
        .ok()
        .map(|node| Incident::NodeDies { node, when: IncidentTime::At(BEGIN.after(DIES.1)) });
    failure.into_iter().chain(death).collect()
}
