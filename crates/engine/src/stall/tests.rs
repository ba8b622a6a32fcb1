//! Healthy jobs, which must raise no alarm, and stuck ones.

use super::*;
use crate::{NodeSample, RankSample, Stage, Submission};
use hsched_model::number::{to_f64, to_u64};
use hsched_model::{GpuType, Job, JobName, NodeName, PlacedRank};

const EVERY: f64 = 60.0;

/// Behaviour of all ranks for some time.
#[derive(Clone)]
struct Stretch {
    length: f64,
    activity: Activity,
    /// GPU utilisation and CPUs in use, of rank 0 and of the others.
    gpu: [f64; 2],
    cpu: [f64; 2],
    state: char,
    steps_per_s: f64,
    /// Whether an epoch is reported at its end.
    reports: bool,
}

impl Stretch {
    fn new(length: f64, activity: Activity, gpu: [f64; 2], cpu: [f64; 2]) -> Self {
        Self { length, activity, gpu, cpu, state: 'S', steps_per_s: 0.0, reports: false }
    }
}

/// A simulated training: the samples of its nodes, and hsched's state of it.
struct TrainingStory {
    job: JobState,
    nodes: Vec<NodeSamples>,
    ranks: usize,
    has_gpus: bool,
    has_helper: bool,
    /// A node that writes no samples.
    silent: Option<usize>,
    now: f64,
    cpu: Vec<f64>,
    steps: f64,
    seen: Vec<(f64, Stall)>,
}

impl TrainingStory {
    fn new(ranks: usize, epoch: f64, has_gpus: bool, has_helper: bool) -> Self {
        let mut job = JobState::new(
            Job::only_planned(JobName::new("train").expect("a name"), 1000, 1_000_000, 10),
            Time(0.0),
        );
        let placed = |rank: usize| PlacedRank {
            node: NodeName::new(&format!("n{}", rank / 4)).expect("a node"),
            gpu_type: GpuType::new("v100").expect("a type"),
            local_rank: u32::try_from(rank % 4).expect("few"),
            batch: 1,
            samples: 1,
        };
        let mut attempt =
            SubmissionRecord::new("run", (0..ranks).map(placed).collect(), Seconds(epoch), 0, Time(0.0));
        attempt.started = Some(Time(0.0));
        job.phase = crate::Phase::Submitted(vec![Submission { attempt, stage: Stage::Running }]);
        let node = |number: usize| NodeSamples {
            node: NodeName::new(&format!("n{number}")).expect("a node"),
            slots: 1,
            interval: Seconds(EVERY),
            written: None,
            samples: Vec::new(),
        };
        let nodes = (0..ranks.div_ceil(4)).map(node).collect();
        Self {
            job,
            nodes,
            ranks,
            has_gpus,
            has_helper,
            silent: None,
            now: 0.0,
            cpu: vec![0.0; ranks],
            steps: 0.0,
            seen: Vec::new(),
        }
    }

    /// Continues the training with a behaviour and checks it every 30 s; `of` may change the samples of each
    /// rank.
    fn go_on(&mut self, stretch: &Stretch, of: impl Fn(usize, RankSample) -> RankSample) {
        let until = self.now + stretch.length;
        while self.now < until {
            self.now += 1.0;
            for (rank, cpu) in self.cpu.iter_mut().enumerate() {
                *cpu += stretch.cpu[rank.min(1)];
            }
            self.steps += stretch.steps_per_s;
            if self.now >= until && stretch.reports {
                self.job.epochs_done += 1;
                let before = self.job.epoch_at.map_or(0.0, |at| at.0);
                self.job.epoch = Some(Seconds(self.now - before));
                self.job.epoch_at = Some(Time(self.now));
            }
            if self.now % EVERY == 5.0 {
                self.sample(stretch, &of);
            }
            if self.now % 30.0 == 0.0 {
                let attempt = self.job.phase.running().expect("runs").clone();
                let found = stall(&self.job, &attempt, &self.nodes, Time(self.now));
                self.seen.extend(found.map(|found| (self.now, found)));
            }
        }
    }

    fn sample(&mut self, stretch: &Stretch, of: &impl Fn(usize, RankSample) -> RankSample) {
        for (number, node) in
            self.nodes.iter_mut().enumerate().filter(|(number, _)| self.silent != Some(*number))
        {
            let ranks = (4 * number..self.ranks.min(4 * number + 4)).map(|rank| {
                let gpu = self.has_gpus.then_some(stretch.gpu[rank.min(1)]);
                let rank_sample = RankSample {
                    rank,
                    state: Some(stretch.state),
                    cpu: Some(Seconds(self.cpu[rank])),
                    gpu,
                    steps: self.has_helper.then(|| to_u64(self.steps)),
                    activity: self.has_helper.then_some(stretch.activity),
                    ..RankSample::default()
                };
                of(rank, rank_sample)
            });
            node.samples.push(NodeSample { at: Time(self.now), ranks: ranks.collect() });
        }
    }

    fn text(&self) -> String {
        self.seen
            .last()
            .map_or_else(String::new, |(_, stall)| stall.text(u32::try_from(self.ranks).expect("few")))
    }
}

fn same(_: usize, sample: RankSample) -> RankSample {
    sample
}

fn training(length: f64) -> Stretch {
    let steps_per_s = 2.0;
    Stretch { steps_per_s, ..Stretch::new(length, Activity::Step, [90.0, 80.0], [1.0, 1.0]) }
}

/// Returns numbers below `below` generated from a seed.
fn numbers_below(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    }
}

#[test]
fn nothing_is_said_of_healthy_trainings() {
    for seed in 0..50 {
        let mut below = numbers_below(seed + 1);
        let epoch = 20.0 * 2_f64.powi(i32::try_from(below(9)).expect("small"));
        let ranks = usize::try_from(below(8) + 1).expect("small");
        let mut story = TrainingStory::new(ranks, epoch, seed % 2 == 0, seed % 4 < 2);
        let compile = to_f64(below(2));
        let mut trains = training(epoch);
        // Steps may be long.
        if epoch > 1000.0 && below(2) == 1 {
            trains.steps_per_s = 0.005;
        }
        // Ranks on GPUs whose utilisation is unknown may hardly use their CPUs.
        let is_light = !story.has_gpus && !story.has_helper && below(2) == 1;
        story.go_on(&Stretch::new(240.0, Activity::Start, [0.0, 0.0], [compile, compile]), same);
        let evaluates_on_gpu = 90.0 * to_f64(below(2));
        let every = below(3) + 1;
        for number in 0..6 {
            let has_pause = number % every == 0;
            if is_light && number > 0 {
                trains.cpu = [0.01, 0.001];
            }
            story.go_on(&Stretch { reports: !has_pause, ..trains.clone() }, same);
            if has_pause {
                let gpu = [evaluates_on_gpu, 0.0];
                story.go_on(&Stretch::new(300.0, Activity::Evaluate, gpu, [0.3, 0.001]), same);
                let save = Stretch::new(180.0, Activity::Save, [0.0, 0.0], [0.01, 0.001]);
                story.go_on(&Stretch { state: 'D', reports: true, ..save }, same);
            }
        }
        assert_eq!(story.seen, [], "seed {seed}");
        // The same training counts as stuck if it makes no progress.
        story.go_on(&Stretch::new(3.0 * epoch + 4000.0, Activity::Step, [0.0, 0.0], [0.0, 0.0]), same);
        assert_ne!(story.seen, [], "seed {seed}");
    }
}

#[test]
fn a_stopped_rank_is_noticed_at_the_next_look() {
    let mut story = TrainingStory::new(4, 600.0, false, false);
    story.go_on(&Stretch { reports: true, ..training(600.0) }, same);
    story.go_on(&training(90.0), |rank, sample| RankSample {
        state: Some(if rank == 3 { 'T' } else { 'S' }),
        ..sample
    });
    // The sampler writes a sample as soon as it sees a stopped process; the next regular sample was due 5 s
    // later.
    assert_eq!(story.seen[0].0, 630.0);
    assert_eq!(story.text(), "rank 3 was stopped by a signal 85 s ago; SIGCONT resumes");
    story.go_on(&training(30.0), same);
    let before = story.seen.len();
    story.go_on(&training(90.0), same);
    assert_eq!(story.seen.len(), before, "it goes on");
}

#[test]
fn gpus_that_wait_for_one_rank_are_counted_and_explained() {
    let mut story = TrainingStory::new(4, 3600.0, true, true);
    story.go_on(&training(1200.0), same);
    let starving = |rank: usize, rank_sample: RankSample| match rank {
        2 => RankSample { gpu: Some(0.0), ..rank_sample },
        3 => RankSample { gpu: Some(1.0), activity: Some(Activity::Data), ..rank_sample },
        _ => rank_sample,
    };
    let hangs = Stretch { steps_per_s: 0.0, ..training(600.0) };
    story.go_on(&hangs, starving);
    assert_eq!(story.seen, []);
    story.go_on(&Stretch { length: 590.0, ..hangs }, starving);
    assert_eq!(story.text(), "2 of 4 GPUs idle for 18 min (rank 3 waits for data)");
}

#[test]
fn a_hanging_exchange_is_noticed_whether_gpus_spin_or_sleep() {
    for (gpu, has_gpus, has_helper) in
        [(100.0, true, true), (0.0, true, false), (0.0, true, true), (0.0, false, true)]
    {
        let mut story = TrainingStory::new(2, 300.0, has_gpus, has_helper);
        story.go_on(&Stretch { reports: true, ..training(300.0) }, same);
        story.go_on(&Stretch::new(590.0, Activity::Step, [gpu, gpu], [0.0, 0.0]), same);
        assert_eq!(story.seen, []);
        story.go_on(&Stretch::new(190.0, Activity::Step, [gpu, gpu], [0.0, 0.0]), same);
        // The time counts from the first sample that shows the stop.
        let text = story.text().replace("12 min", "11 min");
        assert_eq!(text, "no step for 11 min: hangs in all-reduce?", "{gpu} {has_gpus} {has_helper}");
    }
    // Without GPUs and steps, the epoch time decides.
    let mut story = TrainingStory::new(2, 300.0, false, false);
    story.go_on(&Stretch { reports: true, ..training(300.0) }, same);
    story.go_on(&Stretch::new(1500.0, Activity::Step, [0.0, 0.0], [1.0, 1.0]), same);
    assert_eq!(story.seen, []);
    story.go_on(&Stretch::new(300.0, Activity::Step, [0.0, 0.0], [1.0, 1.0]), same);
    assert_eq!(story.text(), "no epoch for 30 min: hangs in all-reduce?");
}

#[test]
fn a_node_without_a_sign_of_life_is_named_once_an_epoch_is_late() {
    let mut story = TrainingStory::new(8, 300.0, true, false);
    story.go_on(&Stretch { reports: true, ..training(300.0) }, same);
    story.go_on(&Stretch { reports: true, ..training(300.0) }, same);
    story.silent = Some(1);
    story.go_on(&training(420.0), same);
    let (at, first) = story.seen.first().expect("a stall");
    // The next epoch was due at 900 s.
    assert_eq!((*at, first.kind, first.ranks.as_slice()), (1020.0, StallKind::Silent, &[4, 5, 6, 7][..]));
    assert_eq!(first.text(8), "no sign of life from ranks 4, 5, 6, 7 on node n1 for 7 min");
}

#[test]
fn a_pause_that_was_harmless_is_not_told_again() {
    let pause = Stretch::new(900.0, Activity::Step, [90.0, 0.0], [1.0, 0.0]);
    let mut story = TrainingStory::new(2, 3600.0, true, false);
    story.go_on(&training(600.0), same);
    story.go_on(&pause, same);
    assert_ne!(story.seen, []);
    story.seen.clear();
    story.job.pause = Some(Seconds(900.0));
    story.go_on(&training(600.0), same);
    story.go_on(&pause, same);
    assert_eq!(story.seen, []);
}
