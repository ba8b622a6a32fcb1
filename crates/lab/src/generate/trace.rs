//! Generated traces: jobs with arrival times by the rules of published studies.

use std::collections::BTreeMap;

use super::gpu_speed::GpuSpeed;
use super::hare_jobs;
use super::jobs::short;
use super::random::Random;
use super::recipe::SyncEvery;
use crate::trace::GavelSpeeds;
use hsched_model::number::{to_f64, to_u64, to_usize};
use hsched_model::{Bytes, GpuType, Job, JobName, Seconds, Speed};

/// Properties of a generated trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRecipe {
    pub rules: TraceRules,
    pub arrivals: ArrivalPattern,
    /// Whether jobs may run on other numbers of GPUs than requested.
    pub mouldable: bool,
    pub seed: u64,
}

/// The distributions of jobs, run times and requested GPUs.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceRules {
    /// Gavel: all kinds of its table with equal probability; 1, 2, 4 or 8 GPUs with probability 0.7, 0.1,
    /// 0.15, 0.05; 10^U(1.5, 3) minutes on a V100, and 10^U(3, 4) for one in five.
    Gavel {
        speeds: GavelSpeeds,
        /// Whether all jobs request one GPU.
        single: bool,
    },
    /// The workload of the TPDS 2024 paper as a trace: `ResNet-101`, `ResNet-18`, VGG-19 and `AlexNet` with a
    /// batch of 500, 10·40^U(0, 1) epochs, 1, 2 or 5 GPUs with probability 0.5, 0.25, 0.25.
    Paper { sync: SyncEvery },
    /// Heavy-tailed lengths: 1 minute to 30 days with P(longer than x minutes) about x^-0.5; 1 to 16 GPUs,
    /// mostly 1; speeds as in [`super::jobs()`], without its ±10 %.
    HeavyTails { types: Vec<GpuSpeed> },
    /// Like the papers on Hare and HLAS: eight models, 5 to 50 epochs of 1, 2, 4 or 8 tasks with probability
    /// 0.4, 0.3, 0.2, 0.1, tasks of 10 to 120 s on a V100, weights from 1 to 5. Each job requests one GPU per
    /// task.
    Hare,
}

/// When jobs arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalPattern {
    /// A number of jobs with independent intervals of mean `gap` between them; the first arrives at 0.
    Poisson { jobs: u32, gap: Seconds },
    /// As recorded elsewhere, with the lengths and GPU requests of the recorded jobs.
    Recorded(Vec<KnownJob>),
}

/// The known facts about a recorded job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownJob {
    pub arrival: Seconds,
    pub length: Seconds,
    pub gpus: u32,
}

/// Fraction of a step that does not depend on the batch, if only one step time is known.
const FIXED_PART: f64 = 0.3;

/// Number of epochs of a job of Gavel's table whose speeds are scaled from one GPU.
const EPOCHS: u64 = 50;

/// Maximum number of GPUs of a mouldable job.
const MOST_GPUS: u32 = 32;

/// The models of the TPDS 2024 paper: name, samples/s on V100, P100 and T4, megabytes, samples per epoch.
const PAPER: [(&str, [f64; 3], f64, u64); 4] = [
    ("resnet101", [480.0, 290.0, 190.0], 178.0, 50_000),
    ("resnet18", [644.0, 420.0, 275.0], 46.8, 100_000),
    ("vgg19", [1754.0, 1300.0, 884.0], 80.0, 50_000),
    ("alexnet", [3000.0, 2500.0, 1900.0], 244.0, 50_000),
];

/// Megabytes of the models of Gavel's table by prefix of their names.
const GAVEL_SIZES: [(&str, f64); 6] = [
    ("ResNet-18", 46.8),
    ("ResNet-50", 102.0),
    ("Transformer", 180.0),
    ("LM", 80.0),
    ("Recommendation", 40.0),
    ("CycleGAN", 90.0),
];

/// Megabytes of other models.
const USUAL_SIZE: f64 = 6.0;

/// Returns the jobs of a trace in order of arrival.
pub fn trace(recipe: &TraceRecipe) -> Vec<Job> {
    // Each property has a separate random sequence, so a change of one does not affect the others.
    let [mut gaps, mut sizes, mut kinds, mut lengths] =
        [4, 5, 6, 7].map(|use_| Random::new(recipe.seed, use_));
    let count = match &recipe.arrivals {
        ArrivalPattern::Poisson { jobs, .. } => *jobs as usize,
        ArrivalPattern::Recorded(courses) => courses.len(),
    };
    let digits = count.to_string().len();
    let mut at = 0.0;
    let mut jobs = Vec::with_capacity(count);
    for number in 0..count {
        let drawn = (recipe.rules.gpus(&mut sizes), recipe.rules.length(&mut lengths));
        let (arrival, gpus, length) = match &recipe.arrivals {
            ArrivalPattern::Poisson { gap, .. } => {
                let arrival = at;
                at += gap.0 * gaps.exponential();
                (arrival, drawn.0, drawn.1)
            }
            ArrivalPattern::Recorded(courses) => {
                let known_job = courses[number];
                (known_job.arrival.0, known_job.gpus, known_job.length.0)
            }
        };
        let name = name(number + 1, digits);
        let mut job = recipe.rules.job(name, gpus, length, recipe.mouldable, &mut kinds);
        if let ArrivalPattern::Recorded(courses) = &recipe.arrivals
            && recipe.rules.draws_epochs()
        {
            job.epochs = epochs_within(courses[number].length, &job, gpus);
        }
        job.arrival = Seconds((arrival * 10.0).round() / 10.0);
        jobs.push(job);
    }
    jobs
}

#[expect(clippy::expect_used, reason = "letters and digits are a name")]
fn name(number: usize, digits: usize) -> JobName {
    JobName::new(&format!("job{number:0digits$}")).expect("a name")
}

impl TraceRules {
    fn gpus(&self, random: &mut Random) -> u32 {
        let share = random.between(0.0, 1.0);
        let table: &[(f64, u32)] = match self {
            Self::Gavel { single: true, .. } => &[],
            Self::Gavel { .. } => &[(0.7, 1), (0.8, 2), (0.95, 4), (1.0, 8)],
            Self::Paper { .. } => &[(0.5, 1), (0.75, 2), (1.0, 5)],
            Self::HeavyTails { .. } => &[(0.7, 1), (0.8, 2), (0.9, 4), (0.98, 8), (1.0, 16)],
            Self::Hare => &[(0.4, 1), (0.7, 2), (0.9, 4), (1.0, 8)],
        };
        table.iter().find(|(end, _)| share < *end).map_or(1, |(_, gpus)| *gpus)
    }

    /// Draws the run time in seconds on the requested number of V100s; for [`Self::Paper`] and
    /// [`Self::Hare`], the number of epochs.
    fn length(&self, random: &mut Random) -> f64 {
        match self {
            Self::Gavel { .. } if random.between(0.0, 1.0) < 0.8 => {
                60.0 * 10_f64.powf(random.between(1.5, 3.0))
            }
            Self::Gavel { .. } => 60.0 * 10_f64.powf(random.between(3.0, 4.0)),
            Self::Paper { .. } => (10.0 * 40_f64.powf(random.between(0.0, 1.0))).round(),
            Self::Hare => random.log_between(5.0, 50.0).round(),
            Self::HeavyTails { .. } => {
                let (shortest, longest) = (60.0_f64, 30.0 * 86_400.0);
                let tail = |x: f64| x.powf(-0.5);
                random.between(tail(longest), tail(shortest)).powi(-2)
            }
        }
    }

    /// Returns whether these rules draw the number of epochs of a job rather than its run time.
    fn draws_epochs(&self) -> bool {
        matches!(self, Self::Paper { .. } | Self::Hare)
    }

    fn job(&self, name: JobName, gpus: u32, length: f64, mouldable: bool, kinds: &mut Random) -> Job {
        match self {
            Self::Gavel { speeds, .. } => gavel_job(speeds, name, gpus, length, mouldable, kinds),
            Self::Paper { sync } => {
                let (model, rates, megabytes, samples) = PAPER[kinds.whole(0, 3) as usize];
                let types = ["v100", "p100", "t4"].into_iter().zip(rates);
                let mut job = Job::only_planned(name, samples, whole(length), 500);
                model.clone_into(&mut job.model);
                job.model_size = megabytes_of(megabytes);
                job.throughput = types
                    .filter_map(|(type_name, rate)| Some((GpuType::new(type_name)?, Speed::rate(rate)?)))
                    .collect();
                if *sync == SyncEvery::Epoch {
                    job.syncs_per_epoch = 1;
                }
                sized(job, gpus, mouldable)
            }
            Self::Hare => {
                let mut job = hare_jobs::job(name, gpus, whole(length), kinds);
                (job.gpus, job.max_gpus) = (Some(gpus), Some(gpus));
                if mouldable { job } else { job.on_exactly(gpus) }
            }
            Self::HeavyTails { types } => heavy_job(types, name, gpus, length, mouldable, kinds),
        }
    }
}

/// Returns how many epochs, at least one, a job trains on V100s in this time, without communication.
fn epochs_within(time: Seconds, job: &Job, gpus: u32) -> u64 {
    let steps = to_f64(job.samples_per_epoch) / to_f64(job.global_batch);
    let v100 = GpuType::new("v100").and_then(|v100| job.throughput.get(&v100).copied());
    let step = v100.map_or(0.0, |speed| speed.step(job.global_batch / u64::from(gpus.max(1)), None));
    whole(time.0 / (steps * step))
}

/// Returns a job of a random kind of Gavel's table with the measured speeds for its number of GPUs. If the
/// job is mouldable or that number was not measured, the speeds are scaled from one GPU.
fn gavel_job(
    speeds: &GavelSpeeds,
    name: JobName,
    gpus: u32,
    length: f64,
    mouldable: bool,
    kinds: &mut Random,
) -> Job {
    let draw = kinds.between(0.0, 1.0);
    let measured = speeds.kinds(gpus);
    if !mouldable && !measured.is_empty() {
        let kind = pick(&measured, draw);
        let steps = whole(length * speed_of(speeds, kind, gpus));
        if let Some(job) = speeds.job(name.clone(), kind, gpus, steps) {
            return job;
        }
    }
    let all = speeds.kinds(1);
    let kind = pick(&all, draw);
    let steps = whole(length * speed_of(speeds, kind, 1) / 50.0);
    let single = speeds.job(name.clone(), kind, 1, 1);
    let batch = single.as_ref().map_or(1, |job| job.global_batch);
    let global = batch * u64::from(gpus);
    let mut job = Job::only_planned(name, steps * global, EPOCHS, global);
    job.model = format!("{kind} x{gpus}");
    let size =
        GAVEL_SIZES.iter().find(|(start, _)| kind.starts_with(start)).map_or(USUAL_SIZE, |entry| entry.1);
    job.model_size = megabytes_of(size);
    let affine = |(gpu_type, rate): (GpuType, Speed)| {
        let step = to_f64(batch) * rate.beta();
        let speed = Speed::affine(Seconds(FIXED_PART * step), Seconds((1.0 - FIXED_PART) * rate.beta()))?;
        Some((gpu_type, speed))
    };
    job.throughput =
        single.map_or_else(BTreeMap::new, |job| job.throughput).into_iter().filter_map(affine).collect();
    sized(job, gpus, mouldable)
}

/// Returns the steps per second to which lengths refer: on a V100, or else on the fastest type.
fn speed_of(speeds: &GavelSpeeds, kind: &str, gpus: u32) -> f64 {
    let v100 = GpuType::new("v100").and_then(|v100| speeds.steps_per_second(kind, gpus, &v100));
    v100.unwrap_or_else(|| speeds.fastest(kind, gpus))
}

fn heavy_job(
    types: &[GpuSpeed],
    name: JobName,
    gpus: u32,
    length: f64,
    mouldable: bool,
    kinds: &mut Random,
) -> Job {
    let base = kinds.log_between(60.0, 2000.0);
    let exponent = kinds.between(0.4, 1.15);
    let batch = 64 * u64::from(gpus);
    // An epoch takes at most ten minutes.
    let epochs = (length / 600.0).ceil();
    let samples = whole(base * f64::from(gpus) * length / epochs);
    let mut job = Job::only_planned(name, samples, whole(epochs), batch);
    job.model_size = megabytes_of((kinds.log_between(3e6, 1e9) / 1e5).round() / 10.0);
    let speed = |gpu_speed: &GpuSpeed| {
        Some((gpu_speed.gpu_type.clone(), Speed::rate(short(base * gpu_speed.speed.powf(exponent)))?))
    };
    job.throughput = types.iter().filter_map(speed).collect();
    sized(job, gpus, mouldable)
}

fn sized(mut job: Job, gpus: u32, mouldable: bool) -> Job {
    if !mouldable {
        return job.on_exactly(gpus);
    }
    let most = u32::try_from(job.global_batch).unwrap_or(u32::MAX).min(MOST_GPUS);
    (job.gpus, job.max_gpus) = (Some(gpus.min(most)), Some(most));
    job
}

fn pick<'a>(kinds: &[&'a str], draw: f64) -> &'a str {
    let place = to_usize(draw * to_f64(kinds.len()));
    kinds.get(place.min(kinds.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn whole(number: f64) -> u64 {
    to_u64(number.round().clamp(1.0, 1e12))
}

fn megabytes_of(megabytes: f64) -> Bytes {
    Bytes(to_u64((megabytes * 10.0).round()) * 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speeds() -> GavelSpeeds {
        let table = "job_type,scale_factor,v100,p100,k80\nA (batch size 10),1,4,2,1\nA (batch size 10),2,7,3,0\nB (batch size 10),1,8,4,2\nB (batch size 10),4,20,0,0\nB (batch size 10),8,20,0,0\n";
        GavelSpeeds::parse(table).expect("a table")
    }

    fn recipe(rules: TraceRules) -> TraceRecipe {
        let arrivals = ArrivalPattern::Poisson { jobs: 2000, gap: Seconds(100.0) };
        TraceRecipe { rules, arrivals, mouldable: false, seed: 3 }
    }

    fn all() -> [TraceRules; 4] {
        let types = GpuSpeed::known().into_iter().take(3).collect();
        [
            TraceRules::Gavel { speeds: speeds(), single: false },
            TraceRules::Paper { sync: SyncEvery::Step },
            TraceRules::HeavyTails { types },
            TraceRules::Hare,
        ]
    }

    #[test]
    fn gaps_are_those_of_a_poisson_process() {
        for rules in all() {
            let jobs = trace(&recipe(rules));
            let gaps: Vec<f64> = jobs.windows(2).map(|pair| pair[1].arrival.0 - pair[0].arrival.0).collect();
            let mean = gaps.iter().sum::<f64>() / 1999.0;
            let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1999.0;
            assert!(
                (90.0..110.0).contains(&mean) && (85.0..115.0).contains(&squares.sqrt()),
                "{mean} {squares}"
            );
        }
    }

    #[test]
    fn sizes_have_the_probabilities_of_the_rules() {
        let expected: [&[(u32, f64)]; 4] = [
            &[(1, 0.7), (2, 0.1), (4, 0.15), (8, 0.05)],
            &[(1, 0.5), (2, 0.25), (5, 0.25)],
            &[(1, 0.7), (2, 0.1), (4, 0.1), (8, 0.08), (16, 0.02)],
            &[(1, 0.4), (2, 0.3), (4, 0.2), (8, 0.1)],
        ];
        for (rules, expected) in all().into_iter().zip(expected) {
            let jobs = trace(&recipe(rules));
            for (gpus, part) in expected {
                let found = to_f64(jobs.iter().filter(|job| job.gpus == Some(*gpus)).count()) / 2000.0;
                assert!((found - part).abs() < 0.03, "{gpus}: {found}");
            }
        }
    }

    #[test]
    fn lengths_keep_to_the_ranges() {
        let seconds = |job: &Job| {
            let fastest = job.throughput.values().map(|speed| speed.rate_at(1e9)).fold(0.0, f64::max);
            to_f64(job.samples_per_epoch) * to_f64(job.epochs) / fastest / f64::from(job.min_gpus)
        };
        let ranges = [
            (60.0 * 10_f64.powf(1.5), 60e4),
            (10.0 * 1e5 / 3000.0 / 10.0, 400.0 * 1e5 / 480.0),
            (30.0, 30.5 * 86_400.0),
            (50.0, 6300.0),
        ];
        for (rules, (low, high)) in all().into_iter().zip(ranges) {
            for job in trace(&recipe(rules)) {
                let length = seconds(&job);
                assert!((low * 0.9..=high * 1.1).contains(&length), "{} {length}", job.name.as_str());
            }
        }
    }

    #[test]
    fn mouldable_jobs_differ_in_nothing_else_than_their_sizes() {
        for rules in all().into_iter().skip(1) {
            let (fixed, free) =
                (trace(&recipe(rules.clone())), trace(&TraceRecipe { mouldable: true, ..recipe(rules) }));
            for (fixed, free) in fixed.iter().zip(&free) {
                assert_eq!(
                    (fixed.arrival, fixed.epochs, &fixed.throughput),
                    (free.arrival, free.epochs, &free.throughput)
                );
                assert!(free.min_gpus == 1 && free.max_gpus >= fixed.max_gpus && free.gpus == fixed.gpus);
            }
        }
    }

    #[test]
    fn recorded_courses_stay_as_they_were() {
        let course =
            |arrival, length, gpus| KnownJob { arrival: Seconds(arrival), length: Seconds(length), gpus };
        let courses = vec![course(0.0, 3600.0, 1), course(10.0, 7200.0, 3)];
        let trace_recipe = TraceRecipe {
            arrivals: ArrivalPattern::Recorded(courses),
            ..recipe(TraceRules::Gavel { speeds: speeds(), single: false })
        };
        let jobs = trace(&trace_recipe);
        assert_eq!((jobs[0].gpus, jobs[1].gpus, jobs[1].arrival), (Some(1), Some(3), Seconds(10.0)));
        // Three GPUs were not measured, so the speeds of one GPU apply.
        let v100 = GpuType::new("v100").expect("a type");
        let job = &jobs[1];
        let steps = to_f64(job.samples_per_epoch) / to_f64(job.global_batch) * to_f64(job.epochs);
        let seconds = steps * jobs[1].throughput[&v100].step(10, None);
        assert!((seconds - 7200.0).abs() < 20.0, "{seconds}");
    }

    #[test]
    fn recorded_courses_take_their_time_by_rules_that_draw_epochs() {
        let v100 = GpuType::new("v100").expect("a type");
        for rules in [TraceRules::Paper { sync: SyncEvery::Step }, TraceRules::Hare] {
            let course = KnownJob { arrival: Seconds(0.0), length: Seconds(360_000.0), gpus: 4 };
            let arrivals = ArrivalPattern::Recorded(vec![course]);
            let job = trace(&TraceRecipe { arrivals, ..recipe(rules) }).remove(0);
            let steps = to_f64(job.samples_per_epoch) / to_f64(job.global_batch) * to_f64(job.epochs);
            let seconds = steps * job.throughput[&v100].step(job.global_batch / 4, None);
            assert!((seconds - 360_000.0).abs() < 3600.0, "{}: {seconds}", job.model);
        }
    }

    #[test]
    fn the_seed_decides() {
        for rules in all() {
            assert_eq!(trace(&recipe(rules.clone())), trace(&recipe(rules.clone())));
            assert_ne!(trace(&recipe(rules.clone())), trace(&TraceRecipe { seed: 4, ..recipe(rules) }));
        }
    }
}
