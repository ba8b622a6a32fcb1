//! Future submissions, drawn at random from past ones.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::history::Ratios;
use crate::limits::{Subject, asked_tres};
use crate::line::{LineKey, Use};
use crate::queue_model::QueueModel;
use crate::ranks::Whose;
use crate::shape::Shapes;
use crate::snapshot_jobs::NumberingContext;
use crate::{EndedJob, Snapshot};
use hsched_model::number::{to_f64, to_usize};

/// How far back submissions are counted.
const WEEK: f64 = 7.0 * 86_400.0;

/// Number of submissions that have the same weight as the prior assumption that work arrives as fast as it is
/// completed.
const BELIEF: u32 = 10;

/// Records of less than a week start with all jobs pending then: submissions within this many seconds of
/// their start are ignored, because they do not represent new arrivals.
const BACKLOG: f64 = 900.0;

/// Minimum plausible mean time between submissions, in seconds.
const SHORTEST_GAP: f64 = 1.0;

/// Minimum number of submissions for drawing from observed gaps.
const ENOUGH: usize = 20;

/// Maximum time for which arrivals may exceed the completed work, in seconds: one day. No cluster can
/// continue like that.
const TRUSTED: f64 = 86_400.0;

/// Long-term GPU utilisation of a cluster with pending jobs; reserved nodes account for the rest.
const SUSTAINED: f64 = 0.8;

/// A job submitted in the last week.
#[derive(Clone, Debug)]
pub(super) struct PastJob {
    pub submitted: f64,
    pub shape: usize,
    pub limit: f64,
    pub tasks: u32,
    /// The fraction of its time limit for which the job ran, if it has ended.
    pub ratio: Option<f64>,
    pub habit: usize,
    /// GPU time of the job if it runs to its limit, in seconds.
    pub most_work: f64,
    pub tier: u32,
    /// Priority of the job at submission; `None` if it is unknown, or if the job runs and ranks are known,
    /// because it then contains an outdated contribution of the job's rank.
    pub priority: Option<f64>,
    pub counts: Use,
    pub rule: usize,
}

/// The arrivals in a part of the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    past: Vec<PastJob>,
    /// Gaps between submissions; empty if too few are known.
    gaps: Vec<f64>,
    /// Length of the observation in seconds, and the number of submissions.
    time: f64,
    seen: usize,
    gpus: f64,
    /// Priorities of new jobs whose own is unknown, without the contribution of their rank.
    priorities: Vec<f64>,
}

/// The past assumed by one future: jobs and gaps drawn with replacement from the observed ones. The fewer
/// were observed, the more the futures differ.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    past: Vec<usize>,
    gaps: Vec<usize>,
    mean_gap: f64,
    /// Ratio of arriving to long-term completed work; at least 1.
    excess: f64,
}

/// An arriving job in one future.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub at: f64,
    pub key: LineKey,
    pub shape: usize,
    pub limit: f64,
    pub tasks: u32,
    pub habit: usize,
    /// The run time as a fraction of the limit, if the two were drawn together.
    pub ratio: Option<f64>,
    pub counts: Use,
    pub rule: usize,
}

impl PastJob {
    /// Returns the jobs submitted in the last week, in any state, without the user's own jobs in the queue.
    pub(super) fn of(snapshot: &Snapshot, shapes: &mut Shapes, known: &mut NumberingContext) -> Vec<Self> {
        let (users, ranks) = (known.users, known.ranks);
        let begin = snapshot.taken_at.0 - WEEK;
        let per_hour = snapshot.growth().per_hour;
        let mut list = Vec::new();
        for job in snapshot.jobs.iter().filter(|job| !job.ours) {
            let Some(shape) = shapes.of(&job.asks, &job.partitions, job.reservation.as_deref()) else {
                continue;
            };
            let submitted = job.submitted.map_or(snapshot.taken_at.0, |time| time.0);
            if submitted < begin {
                continue;
            }
            let Some(rule) = known.rule_of(job, snapshot) else { continue };
            let partition = job.partitions.first().map(String::as_str);
            let whose = Whose { user: job.user.as_deref(), account: job.account.as_deref() };
            // The contribution of the rank to a running job's priority is outdated, because the job may have
            // been submitted on another day.
            let is_current = ranks.is_none() || job.running.is_none();
            list.push(Self {
                submitted,
                shape,
                limit: snapshot.limit_in(job.limit_s.map(|limit| limit.0), partition),
                tasks: job.tasks.max(1),
                ratio: None,
                habit: users.of(job.user.as_deref()),
                tier: snapshot.tier(&job.partitions),
                most_work: 0.0,
                priority: job
                    .first_priority(snapshot.taken_at, per_hour)
                    .map(|priority| priority - to_f64(job.nice))
                    .filter(|_| is_current),
                counts: snapshot.counted(ranks, whose, &job.asks, partition),
                rule,
            });
        }
        let ended = snapshot.history.as_deref().unwrap_or_default().iter();
        for job in ended.filter(|job| job.submitted.0 >= begin) {
            let partitions: Vec<String> = job.partition.iter().cloned().collect();
            let Some(shape) = shapes.of(&job.asks, &partitions, None) else { continue };
            let whose = Whose { user: job.user.as_deref(), account: job.account.as_deref() };
            let counts = snapshot.counted(ranks, whose, &job.asks, job.partition.as_deref());
            let habit = users.of(job.user.as_deref());
            let subject = Subject {
                user: whose.user,
                account: whose.account,
                qos: job.qos.as_deref().or_else(|| Some(users.past_qos(whose.user))),
                partition: job.partition.as_deref(),
                limit: snapshot.limit_in(job.limit_s.map(|limit| limit.0), job.partition.as_deref()),
            };
            let rule = known.limits.of(subject, &asked_tres(&job.asks));
            if known.limits.refusal(rule).is_some() {
                continue;
            }
            list.push(Self { counts, rule, ..Self::ended(snapshot, job, &partitions, shape, habit) });
        }
        list.sort_by(|a, b| a.submitted.total_cmp(&b.submitted));
        list
    }

    fn ended(snapshot: &Snapshot, job: &EndedJob, partitions: &[String], shape: usize, habit: usize) -> Self {
        let limit = snapshot.limit_in(job.limit_s.map(|limit| limit.0), job.partition.as_deref());
        let priority = job.priority.map(to_f64);
        Self {
            submitted: job.submitted.0,
            shape,
            limit,
            tasks: 1,
            ratio: job.started.map(|start| (job.ended.since(start).0 / limit).min(1.0)),
            habit,
            tier: snapshot.tier(partitions),
            most_work: 0.0,
            priority,
            counts: Use::default(),
            rule: 0,
        }
    }
}

impl Arrivals {
    /// Returns the arrivals in a part with this many GPUs, from the submissions observed there.
    pub(super) fn new(mut past: Vec<PastJob>, snapshot: &Snapshot, model: &QueueModel, gpus: u64) -> Self {
        for user in &mut past {
            user.most_work = model.most_gpu_seconds(user);
        }
        if gpus == 0 || past.iter().all(|user| user.most_work <= 0.0) {
            return Self::default();
        }
        let (since, until) = recorded(snapshot);
        let is_counted = |job: &PastJob| since < job.submitted && job.submitted <= until;
        let seen = past.iter().filter(|job| is_counted(job)).count();
        let (gpus, time) = (to_f64(gpus), until - since);
        let priorities =
            past.iter().filter_map(|job| Some(job.priority? - model.rank_adds(job.counts))).collect();
        if seen < ENOUGH {
            return Self { past, gaps: Vec::new(), time, seen, gpus, priorities };
        }
        past.retain(is_counted);
        let gaps = past.windows(2).map(|pair| pair[1].submitted - pair[0].submitted).collect();
        Self { past, gaps, time, seen, gpus, priorities }
    }

    /// Returns the past assumed by a future in which jobs run these fractions of their limits.
    pub(super) fn belief(&self, ratios: &[Ratios], random: &mut Pcg64Mcg) -> Belief {
        let means: Vec<f64> = ratios.iter().map(Ratios::mean).collect();
        let work =
            |work_of: &PastJob| work_of.most_work * work_of.ratio.unwrap_or_else(|| means[work_of.habit]);
        let mut again = |count: usize| -> Vec<usize> { (0..count).map(|_| place(random, count)).collect() };
        let (past, mut gaps) = (again(self.past.len()), again(self.gaps.len()));
        let drawn = mean(gaps.iter().map(|&gap| self.gaps[gap]));
        let mean_gap = if self.gaps.is_empty() {
            // Long-term arrivals equal the completed work on a cluster with pending jobs.
            let believed = mean(self.past.iter().map(work)) / self.gpus;
            let count = f64::from(BELIEF) + to_f64(self.seen);
            let draws = (0..self.seen + BELIEF as usize).map(|_| exponential(random));
            (f64::from(BELIEF) * believed + self.time) / count * mean(draws)
        } else if drawn > 0.0 {
            drawn
        } else {
            // All jobs were submitted at once, like the tasks of an array; without gaps, time would not
            // advance.
            gaps.clear();
            self.time / to_f64(self.seen)
        };
        let mean_gap = mean_gap.max(SHORTEST_GAP);
        let load = mean(past.iter().map(|&place| work(&self.past[place]))) / self.gpus / mean_gap;
        Belief { past, gaps, mean_gap, excess: (load / SUSTAINED).max(1.0) }
    }

    /// Returns the next arrival after `at`, with its `order` among jobs of equal priority; `None` if no job
    /// arrives.
    pub(super) fn next(
        &self,
        belief: &Belief,
        at: f64,
        order: u32,
        model: &QueueModel,
        random: &mut Pcg64Mcg,
    ) -> Option<Arrival> {
        let user = &self.past[*belief.past.get(place(random, belief.past.len()))?];
        let mut gap = match belief.gaps.get(place(random, belief.gaps.len())) {
            Some(&gap) => self.gaps[gap],
            None => exponential(random) * belief.mean_gap,
        };
        if at - model.now > TRUSTED {
            gap *= belief.excess;
        }
        let at = at + gap;
        let drawn = |random| self.priorities.get(place(random, self.priorities.len())).copied();
        let known =
            user.priority.or_else(|| drawn(random).map(|priority| priority + model.rank_adds(user.counts)));
        // Priorities of pending jobs grow, so the priorities of new jobs are reduced by the same amount.
        let priority = known.unwrap_or(0.0) - model.rules.growth * (at - model.now);
        Some(Arrival {
            at,
            key: LineKey { tier: user.tier, priority, submitted: at, order },
            shape: user.shape,
            limit: user.limit,
            tasks: user.tasks,
            habit: user.habit,
            ratio: user.ratio,
            counts: user.counts,
            rule: user.rule,
        })
    }
}

/// Returns the relevant period in which all submissions are known, in Unix seconds.
fn recorded(snapshot: &Snapshot) -> (f64, f64) {
    let now = snapshot.taken_at.0;
    let Some((since, until)) = snapshot.recorded() else { return (now, now) };
    let begin = if since.0 > now - WEEK + BACKLOG { since.0 + BACKLOG } else { now - WEEK };
    (begin.min(until.0), until.0)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

fn exponential(random: &mut Pcg64Mcg) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}

fn place(random: &mut Pcg64Mcg, count: usize) -> usize {
    let unit: f64 = random.random();
    to_usize(unit * to_f64(count))
}

impl QueueModel {
    /// Returns the contribution of a job's rank to its priority at the time of the snapshot.
    fn rank_adds(&self, counts: Use) -> f64 {
        let known = self.ranks.as_ref().zip(counts.branch);
        known.map_or(0.0, |(ranks, branch)| ranks.adds[branch])
    }

    /// Returns the GPU time of a job that runs to its limit, in seconds.
    fn most_gpu_seconds(&self, job: &PastJob) -> f64 {
        let shape = &self.shapes[job.shape];
        let typed = shape.demand.iter().filter(|(number, _)| usize::from(*number) < self.gpu_types);
        let per_node = typed.map(|(_, amount)| amount).sum::<u64>() + shape.untyped;
        to_f64(per_node) * f64::from(shape.nodes) * f64::from(job.tasks) * job.limit
    }
}
