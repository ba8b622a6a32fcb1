//! A small world around the real protocol: files, members with their processes, Slurm, and jobs with a minimal engine.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use hsched_engine::pool::{
    Demand, Duty, Leader, MemberId, Order, PoolFiles, PoolReport, PoolSighting, Start, Worker,
};
use hsched_engine::{End, Gpus, SubmissionKey};
use hsched_model::{JobId, JobName, Time};

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) members: u32,
    pub(super) jobs: u32,
    /// How often a member may be killed, at any write or between two.
    pub(super) kills: u32,
    /// How often the leader may take a member for silent, rightly or not.
    pub(super) silences: u32,
    /// How many members may reach their time limit.
    pub(super) limits: u32,
    pub(super) plant: Plant,
}

/// A mistake in the engine around the protocol, to show that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plant {
    None,
    /// The leader orders before the state is on disk.
    OrderBeforeState,
    /// The leader takes a silent member for dead.
    BuryTheSilent,
    /// The leader believes that a member stays that has asked to leave.
    TrustLeavers,
    /// The leader starts its own submissions without a claim.
    StartUnclaimed,
}

/// The files of the pool, of which a process may write only so many before it is killed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Disk {
    files: BTreeMap<String, String>,
    /// Writes until the kill; `None` for no kill.
    left: Option<u32>,
}

thread_local! {
    static DISK: RefCell<Disk> = RefCell::default();
}

/// The disk of the moment at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files;

/// The process was killed before this write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Killed;

fn write<T>(change: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> Result<T, Killed> {
    DISK.with_borrow_mut(|disk| {
        match &mut disk.left {
            Some(0) => return Err(Killed),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(change(&mut disk.files))
    })
}

impl PoolFiles for Files {
    type Error = Killed;

    fn read(&self, path: &str) -> Result<Option<String>, Killed> {
        DISK.with_borrow(|disk| Ok(disk.files.get(path).cloned()))
    }

    fn replace(&self, path: &str, text: &str) -> Result<(), Killed> {
        write(|files| drop(files.insert(path.to_owned(), text.to_owned())))
    }

    fn claim(&self, path: &str, text: &str) -> Result<bool, Killed> {
        if self.read(path)?.is_some() {
            return Ok(false);
        }
        write(|files| files.insert(path.to_owned(), text.to_owned()).is_none())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Killed> {
        let folder = format!("{folder}/");
        DISK.with_borrow(|disk| {
            let inner = disk.files.keys().filter_map(|path| path.strip_prefix(&folder));
            let names: BTreeSet<&str> = inner.filter_map(|path| path.split('/').next()).collect();
            Ok(names.into_iter().map(str::to_owned).collect())
        })
    }

    fn damaged(&self, path: &str, what: &str) -> Killed {
        panic!("{path}: {what}")
    }
}

/// A job in the state on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Job {
    Waiting,
    Open { run: u32, member: MemberId },
    Done,
}

/// A member of the pool.
#[derive(Clone, Debug)]
enum Member {
    /// Its Slurm job is pending.
    Pending,
    Working(Box<Worker<Files>>),
    /// It holds the lock. Once it has decided to leave: whether another allocation is to come.
    Leading(Box<(Worker<Files>, Leader<Files>, Option<bool>)>),
    /// It was killed; what it had started may still run, until Slurm says that it is over.
    Killed,
    /// Slurm says that it is over, or it has left.
    Over,
}

/// All that the future depends on.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    setting: Setting,
    files: BTreeMap<String, String>,
    jobs: Vec<Job>,
    members: Vec<Member>,
    /// The members that have reached their time limit.
    late: BTreeSet<usize>,
    /// What runs: the submission, and its member.
    running: BTreeSet<(SubmissionKey, usize)>,
    /// The submissions that have left word that they completed.
    words: BTreeSet<SubmissionKey>,
    /// How many runs the leaders have begun.
    runs: u32,
    /// A member that left has submitted another allocation.
    successors: u32,
    faults: (u32, u32, u32),
    pub(super) wrong: Option<String>,
}

/// Something that may happen.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Start(usize),
    /// A member takes a turn; it may be killed after so many writes, and the leader takes a member for silent.
    Turn {
        member: usize,
        kill_after: Option<u32>,
        silent: Option<usize>,
        to: usize,
    },
    Completes(usize),
    Kill(usize),
    Dies(usize),
    Limit(usize),
}

/// More writes than any turn makes.
const MOST_WRITES: u32 = 9;

impl Moment {
    /// Returns jobs that wait, and members whose Slurm jobs are pending.
    pub(super) fn first(setting: Setting) -> Self {
        Self {
            setting,
            files: BTreeMap::new(),
            jobs: (0..setting.jobs).map(|_| Job::Waiting).collect(),
            members: (0..setting.members).map(|_| Member::Pending).collect(),
            late: BTreeSet::new(),
            running: BTreeSet::new(),
            words: BTreeSet::new(),
            runs: 0,
            successors: 0,
            faults: (0, 0, 0),
            wrong: None,
        }
    }

    /// Returns what tells it from moments with another future.
    pub(super) fn words(&self) -> String {
        let Self { files, jobs, members, late, running, words, successors, faults, runs, .. } = self;
        // Beats go up for ever and decide nothing.
        let text = format!(
            "{files:?} {jobs:?} {members:?} {late:?} {running:?} {words:?} {successors} {faults:?} {runs}"
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

    /// Returns whether all is done.
    pub(super) fn is_done(&self) -> bool {
        self.jobs.iter().all(|job| *job == Job::Done)
    }

    /// Returns whether the pool has ended with another allocation to come.
    pub(super) fn is_handed_on(&self) -> bool {
        self.successors > 0 && self.members.iter().all(|member| matches!(member, Member::Over))
    }

    /// Returns the moments that may follow: whether without a new fault, and by what.
    pub(super) fn next(&self) -> Vec<(bool, String, Self)> {
        let after = |happening: Happening| {
            let mut next = self.clone();
            next.happen(happening);
            (next.faults == self.faults, format!("{happening:?}"), next)
        };
        self.happenings().into_iter().map(after).collect()
    }

    fn happenings(&self) -> Vec<Happening> {
        let (kills, silences, limits) = self.faults;
        let Setting { kills: most_kills, silences: most_silences, limits: most_limits, .. } = self.setting;
        let mut all = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            match member {
                Member::Pending => all.push(Happening::Start(number)),
                Member::Working(_) | Member::Leading(_) => {
                    for to in 0..self.members.len() {
                        let turn =
                            |kill_after, silent| Happening::Turn { member: number, kill_after, silent, to };
                        all.push(turn(None, None));
                        if kills < most_kills {
                            all.extend((0..MOST_WRITES).map(|writes| turn(Some(writes), None)));
                        }
                        if silences < most_silences {
                            let others = (0..self.members.len()).filter(|&other| other != number);
                            all.extend(others.map(|other| turn(None, Some(other))));
                        }
                    }
                    if kills < most_kills {
                        all.push(Happening::Kill(number));
                    }
                    if limits < most_limits && !self.late.contains(&number) {
                        all.push(Happening::Limit(number));
                    }
                }
                Member::Killed => all.push(Happening::Dies(number)),
                Member::Over => {}
            }
        }
        all.extend((0..self.running.len()).map(Happening::Completes));
        all
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Start(number) => {
                let worker = self.on_disk(None, |_| Worker::join(Files, id(number), PoolReport::default()));
                self.members[number] =
                    worker.map_or(Member::Killed, |worker| Member::Working(Box::new(worker)));
            }
            Happening::Turn { member, kill_after, silent, to } => {
                if silent.is_some() {
                    self.faults.1 += 1;
                }
                let turned = self.on_disk(kill_after, |own| own.turn(member, silent, to));
                if turned.is_err() {
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
                // A report that is not written is written with the next one.
                let told = self.on_disk(None, |own| match &mut own.members[member] {
                    Member::Working(worker) => worker.ended(end),
                    Member::Leading(both) => both.0.ended(end),
                    _ => Ok(()),
                });
                assert_eq!(told, Ok(()));
            }
            Happening::Kill(member) => self.kill(member),
            Happening::Dies(member) => {
                self.running.retain(|(_, own)| *own != member);
                self.members[member] = Member::Over;
            }
            Happening::Limit(member) => {
                self.faults.2 += 1;
                self.late.insert(member);
            }
        }
    }

    fn kill(&mut self, member: usize) {
        self.faults.0 += 1;
        self.members[member] = Member::Killed;
    }

    /// Lets a process use the disk; it is killed after so many writes.
    fn on_disk<T>(
        &mut self,
        left: Option<u32>,
        act: impl FnOnce(&mut Self) -> Result<T, Killed>,
    ) -> Result<T, Killed> {
        DISK.set(Disk { files: std::mem::take(&mut self.files), left });
        let done = act(self);
        self.files = DISK.take().files;
        done
    }

    fn turn(&mut self, number: usize, silent: Option<usize>, to: usize) -> Result<(), Killed> {
        let is_led = self.members.iter().any(|member| matches!(member, Member::Leading(_)));
        let member = std::mem::replace(&mut self.members[number], Member::Killed);
        match member {
            Member::Working(mut worker) => {
                let is_released = self.obey(number, &mut worker)?;
                if !is_led {
                    // The lock is free: it takes it.
                    let leader = Leader::new(Files)?;
                    self.members[number] = Member::Leading(Box::new((*worker, leader, None)));
                    return Ok(());
                }
                let is_late = self.late.contains(&number);
                if is_late {
                    worker.ask_to_leave()?;
                    self.stop_all(number, &mut worker)?;
                }
                if is_released {
                    worker.leave()?;
                }
                self.members[number] = if is_released { Member::Over } else { Member::Working(worker) };
            }
            Member::Leading(both) => {
                let (mut worker, mut leader, decided) = *both;
                if let Some(has_successor) = decided {
                    self.successors += u32::from(has_successor);
                    worker.leave()?;
                    self.members[number] = Member::Over;
                    return Ok(());
                }
                self.lead(number, &mut leader, silent, to)?;
                let mut decided = None;
                if self.late.contains(&number) {
                    worker.ask_to_leave()?;
                    self.stop_all(number, &mut worker)?;
                    self.fold(number, &mut leader, None)?;
                    leader.release_leaving()?;
                    let is_trusting =
                        self.setting.plant == Plant::TrustLeavers && leader.members()?.len() > 1;
                    let stays = is_trusting || leader.another_stays(&id(number))?;
                    decided = Some(!stays && !self.is_done());
                }
                self.members[number] = Member::Leading(Box::new((worker, leader, decided)));
            }
            other => self.members[number] = other,
        }
        Ok(())
    }

    /// Does what a worker is told; returns whether it may leave.
    fn obey(&mut self, number: usize, worker: &mut Worker<Files>) -> Result<bool, Killed> {
        let mut is_released = false;
        for duty in worker.duties()? {
            match duty {
                Duty::Start(order) => {
                    self.start(&order.of, number);
                    worker.started(&order.of, JobId(1), Time(0.0))?;
                }
                Duty::Stop(of) | Duty::Kill(of) => {
                    self.running.remove(&(of.clone(), number));
                    let end = if self.words.contains(&of) { End::Completed } else { End::Interrupted };
                    worker.ended([(of, end, Time(0.0))])?;
                }
                Duty::Forget(_) => {}
                Duty::Leave => is_released = true,
            }
        }
        Ok(is_released)
    }

    fn stop_all(&mut self, number: usize, worker: &mut Worker<Files>) -> Result<(), Killed> {
        let own: Vec<SubmissionKey> =
            self.running.iter().filter(|(_, member)| *member == number).map(|(of, _)| of.clone()).collect();
        self.running.retain(|(_, member)| *member != number);
        worker.ended(own.into_iter().map(|of| (of, End::Interrupted, Time(0.0))))
    }

    fn start(&mut self, of: &SubmissionKey, number: usize) {
        if self.running.iter().any(|(own, _)| own.job == of.job) {
            self.wrong = Some(format!("{} runs twice", of.job));
        }
        if self.words.iter().any(|own| own.job == of.job) {
            self.wrong = Some(format!("{} runs again", of.job));
        }
        self.running.insert((of.clone(), number));
    }

    /// Takes a turn of the leader, which gives the first job that waits to member `to`.
    fn lead(
        &mut self,
        number: usize,
        leader: &mut Leader<Files>,
        silent: Option<usize>,
        to: usize,
    ) -> Result<(), Killed> {
        // It asks Slurm about all.
        for other in 0..self.members.len() {
            let is_silent = silent == Some(other) && self.setting.plant == Plant::BuryTheSilent;
            if matches!(self.members[other], Member::Over) || is_silent {
                leader.mark_over(&id(other))?;
            }
        }
        self.fold(number, leader, silent)?;
        leader.release_leaving()?;
        let is_busy = |member: &MemberId, jobs: &[Job]| {
            jobs.iter().any(|job| matches!(job, Job::Open { member: own, .. } if own == member))
        };
        let is_open = to == number && !self.late.contains(&number)
            || leader.members()?.iter().any(|(member, report)| *member == id(to) && !report.leaving);
        let first = self.jobs.iter().position(|job| *job == Job::Waiting);
        let Some(job) = first.filter(|_| is_open && !is_busy(&id(to), &self.jobs) && silent != Some(to))
        else {
            return Ok(());
        };
        let run = self.runs;
        self.runs += 1;
        let of = key(job, run);
        if self.setting.plant == Plant::OrderBeforeState && to != number {
            leader.order(&id(to), order(&of))?;
        }
        self.save(|own| own.jobs[job] = Job::Open { run, member: id(to) })?;
        if to == number {
            let may = self.setting.plant == Plant::StartUnclaimed || leader.claim(&of, &id(number))?;
            assert!(may, "nobody else knows of it");
            self.start(&of, number);
        } else if self.setting.plant != Plant::OrderBeforeState {
            leader.order(&id(to), order(&of))?;
        }
        Ok(())
    }

    /// Brings the state up to date with what became of the submissions.
    fn fold(
        &mut self,
        number: usize,
        leader: &mut Leader<Files>,
        silent: Option<usize>,
    ) -> Result<(), Killed> {
        let keys: BTreeSet<SubmissionKey> = (0..self.jobs.len())
            .filter_map(|job| match &self.jobs[job] {
                Job::Open { run, .. } => Some(key(job, *run)),
                _ => None,
            })
            .collect();
        leader.tidy(&keys.iter().collect())?;
        for job in 0..self.jobs.len() {
            let Job::Open { run, member } = self.jobs[job].clone() else { continue };
            let of = key(job, run);
            let own = (0..self.members.len()).find(|&other| id(other) == member);
            let has_completed = self.words.contains(&of);
            let after = if own == Some(number) {
                let runs = self.running.contains(&(of.clone(), number));
                if has_completed {
                    Job::Done
                } else if runs {
                    continue;
                } else {
                    Job::Waiting
                }
            } else {
                match leader.sight(&of, &member, own.is_some() && own == silent)? {
                    PoolSighting::Ordered | PoolSighting::Running { .. } => continue,
                    PoolSighting::Ended { end: End::Completed, .. } => Job::Done,
                    PoolSighting::Lost if has_completed => Job::Done,
                    PoolSighting::Ended { .. } | PoolSighting::NeverStarted | PoolSighting::Lost => {
                        Job::Waiting
                    }
                }
            };
            self.save(|own| own.jobs[job] = after)?;
        }
        Ok(())
    }

    /// Changes the state on disk.
    fn save(&mut self, change: impl FnOnce(&mut Self)) -> Result<(), Killed> {
        write(|_| ())?;
        change(self);
        Ok(())
    }
}

fn id(number: usize) -> MemberId {
    MemberId::new(JobId(10 + u32::try_from(number).expect("few")), 0)
}

fn key(job: usize, run: u32) -> SubmissionKey {
    SubmissionKey::new(JobName::new(&format!("j{job}")).expect("a name"), &format!("r{run}"))
}

fn order(of: &SubmissionKey) -> Order {
    let start = Start {
        script: "s".into(),
        workdir: "w".into(),
        output: "o".into(),
        devices: Vec::new(),
        needs: (1, 0),
        gpus: Gpus::default(),
        epochs: 0,
        threads: None,
    };
    Order { of: of.clone(), demand: Demand::Run, start }
}
