//! Generated training jobs with the sizes of published ones.

use std::collections::BTreeSet;

use super::gpu_speed::GpuSpeed;
use super::random::Random;
use super::recipe::{Recipe, SyncEvery};
use hsched_model::number::{to_f64, to_u64};
use hsched_model::{Bytes, Command, GpuType, Job, JobName, Seconds, Speed};

/// Returns the jobs of a recipe.
///
/// The speed of a job on a GPU type is `base * speed^e`, ±10 %, with `base` from 60 to 2000 samples/s
/// (log-uniform) and `e` from 0.4 to 1.15: some jobs gain more from fast GPUs than others. Epochs 3–200,
/// samples 36 718–1 281 167 (uniform), global batch 128, 256, 512 or 1024, model 3 MB–1 GB (log-uniform).
pub fn jobs(recipe: &Recipe) -> Vec<Job> {
    let (mut random, mut more) = (Random::new(recipe.seed, 2), Random::new(recipe.seed, 3));
    let digits = recipe.jobs.to_string().len();
    let mut jobs = Vec::new();
    for number in 1..=recipe.jobs {
        let mut job = plain_job(name(number, digits), recipe, &mut random);
        if recipe.rich {
            enrich(&mut job, recipe, &mut more);
        }
        jobs.push(job);
    }
    jobs
}

#[expect(clippy::expect_used, reason = "letters and digits are a name")]
fn name(number: u32, digits: usize) -> JobName {
    JobName::new(&format!("job{number:0digits$}")).expect("a name")
}

fn plain_job(name: JobName, recipe: &Recipe, random: &mut Random) -> Job {
    let samples_per_epoch = u64::from(random.whole(36_718, 1_281_167));
    let epochs = u64::from(random.whole(3, 200));
    let global_batch = 128 << random.whole(0, 3);
    let model_size = tenths_of_megabytes(random.log_between(3e6, 1e9));
    let (base, exponent) = (random.log_between(60.0, 2000.0), random.between(0.4, 1.15));
    let throughput = recipe.types.iter().filter_map(|gpu_speed: &GpuSpeed| {
        let rate = base * gpu_speed.speed.powf(exponent) * random.between(0.9, 1.1);
        Some((gpu_speed.gpu_type.clone(), Speed::rate(short(rate))?))
    });
    let mut job = Job::only_planned(name, samples_per_epoch, epochs, global_batch);
    job.model_size = model_size;
    job.throughput = throughput.collect();
    if recipe.sync == SyncEvery::Epoch {
        job.syncs_per_epoch = 1;
    }
    // A placeholder for a training program.
    job.launch.command = Command::Words(vec!["sleep".to_owned(), "60".to_owned()]);
    job
}

/// Adds some of the other properties that a job file can have.
fn enrich(job: &mut Job, recipe: &Recipe, random: &mut Random) {
    if random.once_in(2) {
        // In measurements, the fixed part of a step hardly differs between GPU types.
        let alpha = random.between(5.0, 100.0);
        for speed in job.throughput.values_mut() {
            let fixed = short(alpha * random.between(0.9, 1.1)) / 1e3;
            let beta = short(speed.beta() * 1e3) / 1e3;
            *speed = Speed::affine(Seconds(fixed), Seconds(beta)).unwrap_or(*speed);
        }
    }
    if random.once_in(3) {
        let samples_per_gib = random.log_between(1.0, 16.0);
        let room = |gpu_speed: &GpuSpeed| {
            Some((gpu_speed.gpu_type.clone(), samples_in(gpu_speed.memory?, samples_per_gib)))
        };
        job.max_batch = recipe.types.iter().filter_map(room).collect();
    }
    if random.once_in(4) {
        let fair_share = recipe.gpus / recipe.jobs.max(1);
        job.min_gpus = random.whole(2, 4).min(fair_share).max(1);
    }
    if random.once_in(4) {
        job.max_gpus = Some(4 * random.whole(1, 4));
    }
    if random.once_in(6) {
        let excluded = random.whole(1, u32::try_from(recipe.types.len()).unwrap_or(u32::MAX)) as usize - 1;
        let others = recipe.types.iter().enumerate().filter(|(index, _)| *index != excluded);
        let others: BTreeSet<GpuType> = others.map(|(_, gpu_speed)| gpu_speed.gpu_type.clone()).collect();
        job.gpu_types = Some(others).filter(|types| !types.is_empty());
    }
    if random.once_in(3) {
        job.overlap = short(random.between(0.1, 0.6));
    }
    if random.once_in(4) {
        job.batch_quantum = 8;
    }
    job.weight = f64::from(random.whole(1, 5));
}

/// Rounds a number to four digits: as a person would write it, and equal on all machines, whose `exp` and
/// `pow` may differ in the last bit.
pub(super) fn short(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

fn tenths_of_megabytes(bytes: f64) -> Bytes {
    Bytes(to_u64((bytes / 1e5).round()) * 100_000)
}

fn samples_in(memory: Bytes, samples_per_gib: f64) -> u64 {
    to_u64(to_f64(memory.0) / f64::from(1 << 30) * samples_per_gib)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use hsched_model::BitRate;

    pub(in super::super) fn recipe() -> Recipe {
        Recipe {
            gpus: 30,
            gpus_per_node: 5,
            types: GpuSpeed::known().into_iter().take(3).collect(),
            mixed: false,
            network: BitRate::new(25.0).expect("a rate"),
            intra_node: BitRate::new(300.0).expect("a rate"),
            jobs: 300,
            sync: SyncEvery::Step,
            rich: false,
            seed: 0,
        }
    }

    #[test]
    fn numbers_keep_to_the_ranges_and_reach_across_them() {
        let made = jobs(&recipe());
        let spread = |low: f64, high: f64, of: &dyn Fn(&Job) -> f64| {
            let values = || made.iter().map(of);
            let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
            assert!(
                (low..low * 1.5).contains(&least) && (high / 1.5..=high).contains(&most),
                "{least} {most}"
            );
        };
        spread(3.0, 200.0, &|job| to_f64(job.epochs));
        spread(36_718.0, 1_281_167.0, &|job| to_f64(job.samples_per_epoch));
        spread(128.0, 1024.0, &|job| to_f64(job.global_batch));
        spread(3e6, 1e9, &|job| to_f64(job.model_size.0));
        // The V100 is the unit: its rate is the base, ±10 %.
        let v100 = GpuType::new("v100").expect("a type");
        spread(54.0, 2200.0, &|job| job.throughput[&v100].rate_at(1.0));
    }

    #[test]
    fn the_seed_decides_and_nothing_else() {
        let recipe = recipe();
        assert_eq!(jobs(&recipe), jobs(&recipe));
        assert_ne!(jobs(&recipe), jobs(&Recipe { seed: 1, ..recipe.clone() }));
        let few = Recipe { jobs: 2, ..recipe.clone() };
        let per_epoch = Recipe { sync: SyncEvery::Epoch, ..recipe.clone() };
        let same = |one: &[Job], other: &[Job]| {
            one.iter().zip(other).all(|(one, other)| {
                (one.samples_per_epoch, &one.throughput) == (other.samples_per_epoch, &other.throughput)
            })
        };
        assert!(same(&jobs(&few), &jobs(&recipe)) && same(&jobs(&per_epoch), &jobs(&recipe)));
        assert!(jobs(&per_epoch).iter().all(|job| job.syncs_per_epoch == 1));
    }

    #[test]
    fn rich_jobs_have_of_everything() {
        let made = jobs(&Recipe { rich: true, gpus: 900, gpus_per_node: 8, ..recipe() });
        let has: [&dyn Fn(&Job) -> bool; 8] = [
            &|job| job.throughput.values().all(|speed| speed.alpha() > 0.0),
            &|job| job.max_batch.len() == 3,
            &|job| job.min_gpus > 1,
            &|job| job.max_gpus.is_some_and(|most| most >= job.min_gpus),
            &|job| job.gpu_types.as_ref().is_some_and(|types| types.len() == 2),
            &|job| job.overlap > 0.0,
            &|job| job.batch_quantum == 8,
            &|job| job.weight > 1.0,
        ];
        for (feature, has) in has.iter().enumerate() {
            let count = made.iter().filter(|job| has(job)).count();
            assert!((1..made.len()).contains(&count), "{feature}: {count}");
        }
    }
}
