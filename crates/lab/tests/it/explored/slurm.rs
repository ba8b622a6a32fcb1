//! A small model of Slurm with all its possible next events, one at a time.

use std::fmt::Write as _;

use hsched_engine::{End, EpochReport, Observation, QueueState, Sighting, State, SubmissionKey};
use hsched_model::{Cluster, JobId, JobName, Time};

use hsched_fixtures::engine_states::cluster;

/// The nodes, each with one GPU of a distinct type; the first is faster.
const NODES: [(&str, &str); 2] = [("n0", "a"), ("n1", "b")];

/// The data of Slurm, and the saved progress of its jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Slurm {
    /// Whether each node is up.
    pub up: [bool; 2],
    pub entries: Vec<Entry>,
    /// By job: the number of its epochs, and how many of them are saved.
    pub epochs: Vec<(u64, u64)>,
}

/// A submission as Slurm sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub of: SubmissionKey,
    /// Index of the job in the state.
    pub job: usize,
    pub id: JobId,
    pub node: usize,
    pub life: Life,
    /// Whether the job was asked to save and end.
    pub asked: bool,
    /// Whether Slurm was asked to end the job.
    pub killed: bool,
    /// The reported epochs: those after the first number, up to the second.
    pub reported: (u64, u64),
}

/// The stage of a submission.
#[derive(Clone, Debug, PartialEq)]
pub enum Life {
    /// The request has been on its way for this number of ticks.
    Coming(u8),
    Queued,
    Running,
    Over(End),
    /// The submission has ended, and Slurm has forgotten it.
    Forgotten,
}

/// An event in Slurm.
pub struct Happening {
    pub what: String,
    pub is_fault: bool,
    pub then: Slurm,
}

impl Entry {
    /// Returns whether the submission is pending or running.
    pub fn is_alive(&self) -> bool {
        matches!(self.life, Life::Queued | Life::Running)
    }

    /// Returns whether the submission may still run.
    pub fn may_run(&self) -> bool {
        self.is_alive() || matches!(self.life, Life::Coming(_))
    }
}

impl Slurm {
    pub fn new(epochs: &[u64]) -> Self {
        let epochs = epochs.iter().map(|&all| (all, 0)).collect();
        Self { up: [true; 2], entries: Vec::new(), epochs }
    }

    /// Returns the index of a node.
    pub fn node(name: &str) -> usize {
        NODES.iter().position(|(candidate, _)| *candidate == name).expect("a node")
    }

    /// Returns the cluster as shown by `sinfo`.
    pub fn cluster(&self) -> Cluster {
        let node = |(number, (name, gpu_type)): (usize, &(&'static str, &'static str))| {
            let used = u32::from(self.is_used(number));
            (*name, *gpu_type, 1, used, if self.up[number] { "idle" } else { "down" })
        };
        cluster(&NODES.iter().enumerate().map(node).collect::<Vec<_>>())
    }

    fn is_used(&self, node: usize) -> bool {
        self.entries.iter().any(|entry| entry.node == node && entry.life == Life::Running)
    }

    /// Returns the jobs as Slurm shows them, and the reports of their ranks.
    pub fn look(&self, state: &State, at: Time) -> Observation {
        let mut seen = Observation::new(at, self.cluster());
        for entry in &self.entries {
            let tracked = &state.jobs[entry.job];
            let is_known = tracked.submission(&entry.of).is_some();
            if is_known {
                let epochs = (entry.reported.0 + 1..=entry.reported.1).map(|epoch| {
                    (
                        entry.of.clone(),
                        EpochReport { epoch, at, length: None, ranks: Vec::new(), metrics: Vec::new() },
                    )
                });
                seen.epochs.extend(epochs);
            }
            let queue_state = match &entry.life {
                Life::Coming(_) | Life::Forgotten => continue,
                Life::Queued => QueueState::Pending,
                Life::Running => QueueState::Running { since: None, gpus: None },
                Life::Over(end) => QueueState::Ended { end: end.clone(), at: None, since: None },
            };
            let (of, job_id) = (entry.of.clone(), entry.id);
            let sighting = Sighting { of, job_id, submit_time: None, state: queue_state, reason: None };
            if is_known {
                seen.sightings.push(sighting);
            } else if entry.is_alive() {
                seen.strays.push(sighting);
            }
        }
        seen
    }

    /// Returns the submission with this key, if Slurm has it under this job id.
    pub fn find(&mut self, of: &SubmissionKey, id: JobId) -> Option<&mut Entry> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id && entry.life != Life::Forgotten)?;
        assert_eq!(entry.of, *of, "a request about another job");
        Some(entry)
    }

    /// Accepts a submission, or puts it on its way.
    pub fn take(&mut self, of: SubmissionKey, (job, id, node): (usize, JobId, usize), life: Life) {
        let entry = Entry { of, job, id, node, life, asked: false, killed: false, reported: (0, 0) };
        self.entries.push(entry);
    }

    /// Returns Slurm one tick later; `None` if a request would be on its way for more than `latest` ticks.
    pub fn after_a_tick(&self, latest: u8) -> Option<Self> {
        let mut then = self.clone();
        for entry in &mut then.entries {
            if let Life::Coming(ticks) = &mut entry.life {
                *ticks += 1;
                if *ticks > latest {
                    return None;
                }
            }
        }
        Some(then)
    }

    /// Returns all events that can happen next; faults only if `faults` allows them.
    pub fn happenings(&self, faults: bool) -> Vec<Happening> {
        let mut all = Vec::new();
        for number in 0..self.entries.len() {
            self.of_entry(number, faults, &mut all);
        }
        for node in 0..NODES.len() {
            self.of_node(node, faults, &mut all);
        }
        all
    }

    fn of_entry(&self, number: usize, faults: bool, all: &mut Vec<Happening>) {
        let entry = &self.entries[number];
        let (whole, saved) = self.epochs[entry.job];
        let mut add = |what: &str, is_fault: bool, change: &dyn Fn(&mut Self)| {
            if faults || !is_fault {
                let mut then = self.clone();
                change(&mut then);
                all.push(Happening { what: format!("{} {what}", entry.of.name()), is_fault, then });
            }
        };
        let ends = |end: End| move |then: &mut Self| then.entries[number].life = Life::Over(end.clone());
        match &entry.life {
            Life::Coming(_) => {
                add("arrives", false, &|then| then.entries[number].life = Life::Queued);
                add("never arrives", false, &|then| drop(then.entries.remove(number)));
            }
            Life::Queued if entry.killed => add("is cancelled", false, &ends(End::Cancelled)),
            Life::Running => {
                if saved < whole {
                    add("does an epoch", false, &|then| {
                        then.epochs[entry.job].1 += 1;
                        then.entries[number].reported.1 = saved + 1;
                    });
                } else {
                    add("completes", false, &ends(End::Completed));
                }
                if entry.asked {
                    add("saves", false, &ends(End::Saved));
                }
                if entry.killed {
                    add("is cancelled", false, &ends(End::Cancelled));
                }
                add("fails", true, &ends(End::Failed { exit: 1, signal: 0 }));
            }
            Life::Over(_) => {
                add("is forgotten", true, &|then| then.entries[number].life = Life::Forgotten);
            }
            Life::Queued | Life::Forgotten => {}
        }
        if entry.life == Life::Queued && self.up[entry.node] && !self.is_used(entry.node) {
            add("starts", false, &|then| {
                let entry = &mut then.entries[number];
                (entry.life, entry.reported) = (Life::Running, (saved, saved));
            });
        }
    }

    fn of_node(&self, node: usize, faults: bool, all: &mut Vec<Happening>) {
        let name = NODES[node].0;
        let mut add = |what: &str, is_fault: bool, end: End| {
            let mut then = self.clone();
            then.up[node] = !self.up[node];
            for entry in &mut then.entries {
                if entry.node == node && entry.life == Life::Running {
                    entry.life = Life::Over(end.clone());
                }
            }
            all.push(Happening { what: format!("{name} {what}"), is_fault, then });
        };
        if !self.up[node] {
            add("returns", false, End::NodeFailed);
        } else if faults {
            add("dies", true, End::NodeFailed);
            if self.is_used(node) {
                add("dies, and its ranks say so", true, End::Failed { exit: 1, signal: 0 });
            }
        }
    }

    /// Removes ended entries that no job in the state has as a submission.
    pub fn tidy(&mut self, state: &State) {
        self.entries.retain(|entry| entry.may_run() || state.jobs[entry.job].submission(&entry.of).is_some());
    }

    /// Returns the state of Slurm as text; equivalent states give equal text.
    pub fn words(&self) -> String {
        let mut text = String::new();
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by(|a, b| a.of.cmp(&b.of));
        for Entry { of: SubmissionKey { job, run, copy }, node, life, asked, killed, reported, .. } in entries
        {
            let life = match life {
                Life::Coming(ticks) => format!("C{ticks}"),
                Life::Over(End::Failed { .. }) => "OF".to_owned(),
                Life::Over(end) => format!("O{end:.4}"),
                other => format!("{other:.1?}"),
            };
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{job}{run}.{copy}@{node}{life}{}{}", u8::from(*asked), u8::from(*killed));
            let _ = write!(text, "{reported:?};");
        }
        let _ = write!(text, "{:?}{:?}", self.up, self.epochs);
        text
    }

    /// Returns the index of a job in the state.
    pub fn place(state: &State, name: &JobName) -> usize {
        state.jobs.iter().position(|tracked| tracked.job.name == *name).expect("a job")
    }
}
