//! A small model around the real protocol: files, members with their processes, Slurm, and jobs with a
//! minimal engine.

use std::collections::{BTreeMap, BTreeSet};

use hsched_engine::pool::{Leader, MemberId, PoolReport, Worker};
use hsched_engine::{End, SubmissionKey};
use hsched_model::Time;

use crate::pool::disk::{self, Fault, Files, WriteError};
use crate::pool::id;

/// The setting to explore.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) members: u32,
    pub(super) jobs: u32,
    /// The number of allocations that may run at a time if they are tasks of a job array.
    pub(super) at_once: Option<u32>,
    pub(super) most: Faults,
    pub(super) plant: Plant,
}

/// The number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// Number of times that a member is killed, at a write or between two.
    pub(super) kills: u32,
    /// Number of times that the leader considers a member silent, rightly or not.
    pub(super) silences: u32,
    /// Number of members that reach their time limit.
    pub(super) limits: u32,
    /// Number of times that a write fails while the member survives.
    pub(super) failures: u32,
}

/// A deliberate error in the engine around the protocol, to show that the test detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plant {
    None,
    /// The leader gives orders before the state is on disk.
    OrderBeforeState,
    /// The leader considers a silent member dead.
    BuryTheSilent,
    /// The leader assumes that a member stays although it has asked to leave.
    TrustLeavers,
    /// The leader starts its own submissions without a claim.
    StartUnclaimed,
    /// The last member trusts that another task of the array waits.
    TrustTheArray,
    /// The leader submits another array without regard to the tasks that run.
    SubmitWholeArray,
}

/// A job in the state on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Waiting,
    Open { run: u32, member: MemberId },
    Done,
}

/// A member of the pool.
#[derive(Clone, Debug)]
pub(super) enum Member {
    /// The member's Slurm job is pending.
    Pending,
    Working(Box<Worker<Files>>),
    /// The member holds the lock. After it has decided to leave: whether another allocation will follow.
    Leading(Box<(Worker<Files>, Leader<Files>, Option<bool>)>),
    /// The member was killed; its submissions may still run until Slurm reports that it is over.
    Killed,
    /// Slurm reports that the member is over, or it has left.
    Over,
}

/// A job array in Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Array {
    /// The number of its first member; its last member precedes the first member of the next array.
    pub(super) first: usize,
    pub(super) at_once: u32,
}

/// Everything that determines the future.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) setting: Setting,
    pub(super) files: BTreeMap<String, String>,
    pub(super) jobs: Vec<Job>,
    pub(super) members: Vec<Member>,
    /// The job arrays of the members.
    pub(super) arrays: Vec<Array>,
    /// The members that have reached their time limit.
    pub(super) late: BTreeSet<usize>,
    /// Running submissions with their members.
    pub(super) running: BTreeSet<(SubmissionKey, usize)>,
    /// The submissions that recorded their completion.
    pub(super) words: BTreeSet<SubmissionKey>,
    /// The number of runs that leaders have begun.
    pub(super) runs: u32,
    /// The number of allocations submitted by members that left.
    pub(super) successors: u32,
    pub(super) faults: Faults,
    pub(super) wrong: Option<String>,
}

/// A possible event.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Start(usize),
    /// A member takes a turn. It may be killed or a write may fail after some writes, and the leader may
    /// consider a member silent.
    Turn {
        member: usize,
        fault: Option<Fault>,
        silent: Option<usize>,
        to: usize,
    },
    /// The leader changes the size of the array, and may be killed after some requests.
    Resize {
        member: usize,
        fault: Option<Fault>,
    },
    Completes(usize),
    Kill(usize),
    Dies(usize),
    Limit(usize),
}

/// More requests and writes than any change of the size takes.
const MOST_REQUESTS: u32 = 3;

/// More writes than any turn performs.
const MOST_WRITES: u32 = 9;

impl Moment {
    /// Returns the first moment: jobs wait, and the Slurm jobs of the members are pending.
    pub(super) fn first(setting: Setting) -> Self {
        Self {
            setting,
            files: BTreeMap::new(),
            jobs: (0..setting.jobs).map(|_| Job::Waiting).collect(),
            members: (0..setting.members).map(|_| Member::Pending).collect(),
            arrays: setting.at_once.map(|at_once| Array { first: 0, at_once }).into_iter().collect(),
            late: BTreeSet::new(),
            running: BTreeSet::new(),
            words: BTreeSet::new(),
            runs: 0,
            successors: 0,
            faults: Faults::default(),
            wrong: None,
        }
    }

    /// Returns a text that differs between moments with different futures.
    pub(super) fn words(&self) -> String {
        let Self { files, jobs, members, arrays, late, running, words, successors, faults, runs, .. } = self;
        // Heartbeat counters increase without bound and have no influence.
        let text = format!(
            "{files:?} {jobs:?} {members:?} {arrays:?} {late:?} {running:?} {words:?} {successors} {faults:?} {runs}"
        );
        let beat = |text: &str| {
            let mut parts = text.split("beat");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |all, part| {
                let rest = part.trim_start_matches(|c: char| !c.is_alphabetic() && c != '}');
                all + "beat " + rest
            })
        };
        beat(&text)
    }

    /// Returns whether all jobs have completed.
    pub(super) fn is_done(&self) -> bool {
        self.jobs.iter().all(|job| *job == Job::Done)
    }

    /// Returns whether the pool has ended with another allocation to follow.
    pub(super) fn is_handed_on(&self) -> bool {
        self.successors > 0 && self.members.iter().all(|member| matches!(member, Member::Over))
    }

    /// Returns the possible next moments: whether each is free of a new fault, and its event.
    pub(super) fn next(&self) -> Vec<(bool, String, Self)> {
        let after = |happening: Happening| {
            let mut next = self.clone();
            next.happen(happening);
            (next.faults == self.faults, format!("{happening:?}"), next)
        };
        self.happenings().into_iter().map(after).collect()
    }

    fn happenings(&self) -> Vec<Happening> {
        let Faults { kills, silences, limits, failures } = self.faults;
        let most = self.setting.most;
        let mut all = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            match member {
                Member::Pending if self.may_start(number) => all.push(Happening::Start(number)),
                Member::Working(_) | Member::Leading(_) => {
                    for to in 0..self.members.len() {
                        let turn = |fault, silent| Happening::Turn { member: number, fault, silent, to };
                        all.push(turn(None, None));
                        if kills < most.kills {
                            all.extend((0..MOST_WRITES).map(|writes| turn(Some(Fault::Kill(writes)), None)));
                        }
                        if failures < most.failures {
                            all.extend(
                                (0..MOST_WRITES).map(|writes| turn(Some(Fault::Failure(writes)), None)),
                            );
                        }
                        if silences < most.silences {
                            let others = (0..self.members.len()).filter(|&other| other != number);
                            all.extend(others.map(|other| turn(None, Some(other))));
                        }
                    }
                    if kills < most.kills {
                        all.push(Happening::Kill(number));
                    }
                    if matches!(member, Member::Leading(_)) && self.setting.at_once.is_some() {
                        let resize = |fault| Happening::Resize { member: number, fault };
                        all.push(resize(None));
                        if kills < most.kills {
                            all.extend(
                                (0..MOST_REQUESTS).map(|requests| resize(Some(Fault::Kill(requests)))),
                            );
                        }
                    }
                    if limits < most.limits && !self.late.contains(&number) {
                        all.push(Happening::Limit(number));
                    }
                }
                Member::Killed => all.push(Happening::Dies(number)),
                Member::Pending | Member::Over => {}
            }
        }
        all.extend((0..self.running.len()).map(Happening::Completes));
        all
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Start(number) => {
                self.check_size();
                let worker = self.on_disk(None, |_| Worker::join(Files, id(number), PoolReport::default()));
                self.members[number] =
                    worker.map_or(Member::Killed, |worker| Member::Working(Box::new(worker)));
            }
            Happening::Turn { member, fault, silent, to } => {
                self.faults.silences += u32::from(silent.is_some());
                match self.on_disk(fault, |world| world.turn(member, silent, to)) {
                    Ok(()) => {}
                    Err(WriteError::Killed) => self.kill(member),
                    Err(WriteError::Failed) => self.faults.failures += 1,
                }
            }
            Happening::Resize { member, fault } => {
                if let Err(WriteError::Killed) = self.on_disk(fault, |world| world.resize(member)) {
                    self.kill(member);
                }
            }
            Happening::Completes(place) => {
                let Some((of, member)) = self.running.iter().nth(place).cloned() else { return };
                self.running.remove(&(of.clone(), member));
                if !self.words.insert(of.clone()) {
                    self.wrong = Some(format!("{of:?} completed twice"));
                }
                let end = [(of, End::Completed, Time(0.0))];
                // A report that could not be written is written with the next one.
                let told = self.on_disk(None, |world| match &mut world.members[member] {
                    Member::Working(worker) => worker.ended(end),
                    Member::Leading(both) => both.0.ended(end),
                    _ => Ok(()),
                });
                assert_eq!(told, Ok(()));
            }
            Happening::Kill(member) => self.kill(member),
            Happening::Dies(member) => {
                self.running.retain(|(_, runner)| *runner != member);
                self.members[member] = Member::Over;
            }
            Happening::Limit(member) => {
                self.faults.limits += 1;
                self.late.insert(member);
            }
        }
    }

    fn kill(&mut self, member: usize) {
        self.faults.kills += 1;
        self.members[member] = Member::Killed;
    }

    /// Gives a process access to the disk, which may fail.
    fn on_disk<T>(
        &mut self,
        fault: Option<Fault>,
        act: impl FnOnce(&mut Self) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        disk::put(std::mem::take(&mut self.files), fault);
        let done = act(self);
        self.files = disk::take();
        done
    }
}
