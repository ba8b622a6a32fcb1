//! Jobs like those of the papers on Hare and HLAS: eight models of four kinds, on K80, M60, T4 and V100.
//!
//! The papers state models, batches and a few speeds (`ResNet50`: twice as fast on a T4 as on a K80, seven
//! times on a V100; `GraphSAGE`: twice on a V100). The other speeds approximate published ones; lengths,
//! scales and weights are invented.

use super::random::Random;
use hsched_model::number::{to_f64, to_u64, to_usize};
use hsched_model::{Bytes, GpuType, Job, JobName, Speed};

/// A model: its name, samples per step of a task, megabytes, samples per second on a K80, and speedups on the
/// other types.
struct Model(&'static str, u64, u64, f64, [f64; 3]);

const FASTER_ON: [&str; 3] = ["m60", "t4", "v100"];

/// Each kind makes up a quarter of the jobs: images, language, speech, graphs.
const KINDS: [&[Model]; 4] = [
    &[
        Model("vgg19", 128, 575, 35.0, [1.3, 2.4, 7.5]),
        Model("resnet50", 64, 102, 50.0, [1.3, 2.0, 7.0]),
        Model("inception3", 32, 95, 32.0, [1.3, 2.1, 7.0]),
    ],
    &[
        Model("bert-base", 32, 440, 15.0, [1.4, 2.6, 8.0]),
        Model("transformer", 128, 260, 220.0, [1.3, 2.2, 6.0]),
    ],
    &[Model("deepspeech", 8, 150, 8.0, [1.2, 1.8, 4.0])],
    &[Model("fastgcn", 128, 5, 6000.0, [1.1, 1.3, 2.2]), Model("graphsage", 16, 6, 4000.0, [1.1, 1.3, 2.0])],
];

/// Range of the seconds of a task on a V100.
const TASK: (f64, f64) = (10.0, 120.0);

/// Returns a job with `scale` tasks per epoch.
pub(super) fn job(name: JobName, scale: u32, epochs: u64, kinds: &mut Random) -> Job {
    let models = KINDS[kinds.whole(0, 3) as usize];
    let draw = kinds.between(0.0, 1.0);
    let place = to_usize(draw * to_f64(models.len())).min(models.len() - 1);
    let Model(model, batch, megabytes, rate, faster) = models[place];
    let scale = u64::from(scale);
    let steps = to_u64(
        (kinds.log_between(TASK.0, TASK.1) * rate * faster[2] / f64::from(u32::try_from(batch).unwrap_or(1)))
            .ceil(),
    );
    let mut job = Job::only_planned(name, batch * steps * scale, epochs, batch * scale);
    model.clone_into(&mut job.model);
    job.model_size = Bytes(megabytes * 1_000_000);
    // One gradient exchange at the end of each epoch: the papers' rounds.
    job.syncs_per_epoch = 1;
    job.sync_scale = scale;
    job.weight = f64::from(kinds.whole(1, 5));
    let speeds = FASTER_ON.into_iter().zip(faster).chain([("k80", 1.0)]);
    job.throughput = speeds
        .filter_map(|(speed, faster)| Some((GpuType::new(speed)?, Speed::rate(rate * faster)?)))
        .collect();
    job
}
