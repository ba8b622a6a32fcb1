//! `hare` on a cluster: a job holds all its GPUs at once for a turn of some epochs, and a GPU computes
//! several tasks of an epoch one after the other if there are fewer GPUs than tasks.

use crate::hare::order::first_middles;
use hsched_model::Time;
use hsched_model::number::{to_f64, to_u64};
use hsched_plan::kit::TaskGpu;
use hsched_plan::kit::{TIE, TaskJob, Tasks};
use hsched_plan::kit::{Turns, held, in_words, placed, slots, whole_left, within_reach};
use hsched_plan::{Budget, Decision, HoldStage, Memory, Placement, Plan, Policy, PolicyError, Problem, Slot};

/// The policy.
#[derive(Default)]
pub(super) struct Hare {
    turns: Turns,
    /// The earliest end of the turns that begin in the current decision.
    begun_until: Option<f64>,
}

/// The version of the stored memory; turns of another version are discarded.
const VERSION: u32 = 1;

const NAME: &str = "hare";

/// A GPU and when it becomes free.
#[derive(Clone, Copy)]
struct Card {
    gpu: TaskGpu,
    free: f64,
    /// The job that currently holds the GPU.
    holder: Option<usize>,
}

/// A turn of a job on some GPUs.
struct JobTurn {
    start: f64,
    end: f64,
    /// When the job would complete if it continued there.
    done: f64,
    epochs: f64,
    /// GPUs by type.
    counts: Vec<u32>,
}

impl Policy for Hare {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let jobs: Vec<usize> =
            problem.present().filter(|job| problem.jobs[*job].progress.is_decided_on()).collect();
        self.turns.keep(|name| jobs.iter().any(|job| problem.jobs[*job].name == *name));
        let mut cards = cards(problem, &jobs);
        let now = problem.now.0;
        let left = |job: &usize| {
            let rounds = to_u64(whole_left(&problem.jobs[*job].progress, problem.now).ceil());
            (&problem.jobs[*job], 0.0, rounds.max(1))
        };
        let mut tasks = Tasks::of_gangs(problem, jobs.iter().map(left));
        tasks.counts.fill(0);
        for card in &cards {
            tasks.counts[card.gpu.gpu_type] += 1;
        }
        let middles = first_middles(&tasks);
        let mut order: Vec<(f64, usize, bool)> = Vec::new();
        for (place, &job) in jobs.iter().enumerate() {
            let end = self.turns.over_at(problem, job);
            claim(&mut cards, problem, job, end.map_or(now, |end| end.0));
            order.extend(middles[place].map(|middle| (middle, place, end.is_some())));
        }
        let turns_end = cards.iter().map(|card| card.free).filter(|free| *free > now).min_by(f64::total_cmp);
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut changes = Vec::new();
        for (_, place, goes_on) in order {
            if goes_on {
                // The job continues: no other job gets these GPUs at the end of its turn.
                keep_to_the_end(&mut cards, problem, jobs[place]);
                continue;
            }
            let decision = self.next_turn(problem, &mut cards, jobs[place], &tasks.jobs[place]);
            changes.extend(decision.map(|decision| (jobs[place], decision)));
        }
        // Deferred jobs come first, because some of them release GPUs.
        changes.sort_by_key(|(_, decision)| matches!(decision, Decision::Place { .. }));
        let wake = turns_end.into_iter().chain(self.begun_until.take()).min_by(f64::total_cmp);
        Ok(Plan { changes, wake: wake.map(Time), ..Plan::default() })
    }

    fn memory(&self) -> Option<Memory> {
        let text = serde_json::to_string(&self.turns).ok()?;
        Some(Memory { policy: NAME.to_owned(), version: VERSION, text })
    }

    fn remember(&mut self, memory: &Memory) {
        let is_own = memory.policy == NAME && memory.version == VERSION;
        self.turns = serde_json::from_str(&memory.text).ok().filter(|_| is_own).unwrap_or_default();
    }
}

impl Hare {
    /// Assigns the next turn to a job, now or later; returns the resulting change.
    fn next_turn(
        &mut self,
        problem: &Problem,
        cards: &mut [Card],
        job: usize,
        tasks: &TaskJob,
    ) -> Option<Decision> {
        let now = problem.now.0;
        let runs = problem.jobs[job].progress.running().next().is_some();
        let Some(turn) = first_to_end(problem, cards, job, tasks) else {
            let why = "no set of GPUs that it can use".to_owned();
            return Some(Decision::Defer { why });
        };
        let chosen = choose(cards, job, &turn);
        for &card in &chosen {
            // Other jobs get these GPUs when this job completes, because it stays on them.
            cards[card].free = turn.done;
        }
        if turn.start > now {
            let wait = in_words(turn.start - now);
            let why =
                format!("scheduled in about {wait}, when the GPUs on which it finishes first become free");
            self.turns.end(&problem.jobs[job].name);
            return Some(Decision::Defer { why });
        }
        let wanted = slots(chosen.iter().map(|card| cards[*card].gpu));
        let Some(placement) = placed(problem, job, wanted) else {
            let why = "its batch cannot be divided over the free GPUs".to_owned();
            return Some(Decision::Defer { why });
        };
        self.turns.begin(problem, job, turn.epochs);
        self.begun_until = Some(self.begun_until.map_or(turn.end, |other| other.min(turn.end)));
        (!is_held(problem, job, &placement)).then(|| Decision::Place {
            placements: vec![placement],
            queued: false,
            why: if runs {
                "its round is over, and it finishes sooner on other GPUs".to_owned()
            } else {
                String::new()
            },
        })
    }
}

fn is_held(problem: &Problem, job: usize, placement: &Placement) -> bool {
    let mut slots: Vec<Slot> = placement.slots.clone();
    slots.sort_unstable();
    slots == held(problem, job)
}

/// Returns the GPUs that these jobs have or may get.
fn cards(problem: &Problem, jobs: &[usize]) -> Vec<Card> {
    let counts = within_reach(problem, jobs);
    let of_node = |(node, counts): (usize, &Vec<u32>)| {
        let types = counts.iter().enumerate();
        let all = types.flat_map(|(gpu_type, count)| (0..*count).map(move |_| gpu_type));
        (0..).zip(all).map(|(index, gpu_type)| TaskGpu { node, gpu_type, index }).collect::<Vec<_>>()
    };
    let gpus = counts.iter().enumerate().flat_map(of_node);
    gpus.map(|gpu| Card { gpu, free: problem.now.0, holder: None }).collect()
}

/// Reserves the GPUs that a job holds, until the time `free`.
fn claim(cards: &mut [Card], problem: &Problem, job: usize, free: f64) {
    for slot in held(problem, job) {
        let is_on_slot = |card: &&mut Card| {
            (card.gpu.node, card.gpu.gpu_type) == (slot.node, slot.gpu_type)
                && card.holder.is_none()
                && card.free <= problem.now.0
        };
        for card in cards.iter_mut().filter(is_on_slot).take(slot.count as usize) {
            (card.free, card.holder) = (free, Some(job));
        }
    }
}

/// Reserves the GPUs of a running job until it completes.
fn keep_to_the_end(cards: &mut [Card], problem: &Problem, job: usize) {
    let epoch = problem.jobs[job].progress.running().map(|hold| match hold.stage {
        HoldStage::Running { epoch, .. } => epoch,
        _ => hold.epoch,
    });
    let left = whole_left(&problem.jobs[job].progress, problem.now) * epoch.fold(0.0, f64::max);
    for card in cards.iter_mut().filter(|card| card.holder == Some(job)) {
        card.free = card.free.max(problem.now.0 + left);
    }
}

/// Returns the turn that ends first, on GPUs that are free now or become free.
fn first_to_end(problem: &Problem, cards: &[Card], job: usize, tasks: &TaskJob) -> Option<JobTurn> {
    let (model, now) = (&problem.jobs[job], problem.now);
    let shortest = tasks.fastest()? + tasks.sync;
    let epochs = Turns::epochs(&model.progress, shortest, now);
    let mut starts: Vec<f64> = cards.iter().map(|card| card.free.max(now.0)).collect();
    starts.sort_by(f64::total_cmp);
    starts.dedup();
    let is_first = model.progress.started.is_none();
    let held_counts = owned(cards, job, tasks.times.len());
    let mut best: Option<JobTurn> = None;
    for start in starts {
        if best.as_ref().is_some_and(|best| start + epochs * shortest >= best.end * (1.0 - TIE)) {
            break;
        }
        let mut free = vec![0; tasks.times.len()];
        cards.iter().filter(|card| card.free <= start).for_each(|card| free[card.gpu.gpu_type] += 1);
        let Some((counts, long)) = share_out(tasks, &free, model.min_gpus, model.max_gpus) else {
            continue;
        };
        let stays = held_counts == counts && start <= now.0;
        let restart = if is_first || stays { 0.0 } else { model.progress.restart_cost.0 };
        let end = start + restart + epochs * (long + tasks.sync);
        if best.as_ref().is_none_or(|best| end < best.end * (1.0 - TIE)) {
            let rest = (whole_left(&model.progress, now) - epochs).max(0.0) * (long + tasks.sync);
            best = Some(JobTurn { start, end, done: end + rest, epochs, counts });
        }
    }
    best
}

fn owned(cards: &[Card], job: usize, types: usize) -> Vec<u32> {
    let mut counts = vec![0; types];
    cards.iter().filter(|card| card.holder == Some(job)).for_each(|card| counts[card.gpu.gpu_type] += 1);
    counts
}

/// Assigns the tasks of a round one by one, each to the GPU that would finish it first; returns the GPUs by
/// type and the computing time of the round. `None` if no type can take a task or the GPUs are fewer than
/// `least`.
fn share_out(tasks: &TaskJob, free: &[u32], least: u32, most: u32) -> Option<(Vec<u32>, f64)> {
    let types = free.len();
    let (mut handed_out, mut counts, mut long) = (vec![0_u64; types], vec![0_u32; types], 0.0_f64);
    for _ in 0..tasks.scale {
        let is_more_allowed = counts.iter().sum::<u32>() < most;
        let next = |ty: usize| {
            let opens = is_more_allowed && counts[ty] < free[ty];
            let turn = if opens { 0 } else { handed_out[ty].checked_div(u64::from(counts[ty]))? };
            let end = to_f64(turn + 1) * tasks.times[ty]?;
            Some((end, ty, opens))
        };
        let (end, ty, opens) = (0..types).filter_map(next).min_by(|a, b| a.0.total_cmp(&b.0))?;
        counts[ty] += u32::from(opens);
        handed_out[ty] += 1;
        long = long.max(end);
    }
    (counts.iter().sum::<u32>() >= least).then_some((counts, long))
}

/// Returns the GPUs of a turn: of each type, first those that the job holds, then those of the node that has
/// just enough, then those of the nodes that have the most.
fn choose(cards: &[Card], job: usize, turn: &JobTurn) -> Vec<usize> {
    let mut chosen = Vec::new();
    for (gpu_type, &count) in turn.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let is_free =
            |card: &&usize| cards[**card].gpu.gpu_type == gpu_type && cards[**card].free <= turn.start;
        let all: Vec<usize> = (0..cards.len()).collect();
        let mut free: Vec<usize> = all.iter().filter(is_free).copied().collect();
        let on_node = |node: usize| free.iter().filter(|card| cards[**card].gpu.node == node).count();
        let room: Vec<usize> = free.iter().map(|card| on_node(cards[*card].gpu.node)).collect();
        let rank = |place: usize, card: usize| {
            let fits = room[place] >= count as usize;
            let left = if fits { room[place] } else { usize::MAX - room[place] };
            (cards[card].holder != Some(job), !fits, left, card)
        };
        let mut ranked: Vec<_> = free.drain(..).enumerate().map(|(place, card)| rank(place, card)).collect();
        ranked.sort_unstable();
        chosen.extend(ranked.into_iter().take(count as usize).map(|(_, _, _, card)| card));
    }
    chosen
}
