//! A recommendation as options of `sbatch`.

use crate::accounting::AccountedRun;
use crate::amount::{minutes_limit, sbatch_memory};
use crate::review::name::NameReview;
use hsched_model::Seconds;
use hsched_model::number::{to_f64, to_u64};

/// Returns the changed options, as written after `#SBATCH`.
pub(super) fn options(review: &NameReview, latest: &AccountedRun) -> Vec<String> {
    let time = review.time.recommended.map(|seconds| format!("--time={}", minutes_limit(Seconds(seconds))));
    let cpus = review.cpus.recommended.map(|cpus| format!("--cpus-per-task={}", cpus_per_task(cpus, latest)));
    let gpus = review.gpus.recommended.map(|gpus| gpu_option(to_u64(gpus), latest));
    let memory = review.memory.recommended.map(|mib| memory_option(mib, review, latest));
    time.into_iter().chain(memory).chain(cpus).chain(gpus).collect()
}

fn memory_option(mib: f64, review: &NameReview, latest: &AccountedRun) -> String {
    let cpus = review.cpus.recommended.or(latest.cpus.map(to_f64));
    let (option, mib) = match (latest.memory, cpus) {
        (Some(memory), Some(cpus)) if memory.is_per_cpu => {
            ("--mem-per-cpu", (mib * to_f64(latest.nodes) / cpus).ceil())
        }
        _ => ("--mem", mib.ceil()),
    };
    format!("{option}={}", sbatch_memory(to_u64(mib)))
}

/// Returns the CPUs per task, for the number of tasks of the largest step.
fn cpus_per_task(cpus: f64, latest: &AccountedRun) -> u64 {
    to_u64((cpus / to_f64(tasks(latest))).ceil())
}

/// Returns the number of tasks of a run; a node has at least one.
pub(super) fn tasks(run: &AccountedRun) -> u64 {
    run.tasks.max(run.nodes)
}

fn gpu_option(gpus: u64, latest: &AccountedRun) -> String {
    let gpu_type = latest.gpu_type.as_ref().map_or(String::new(), |gpu_type| format!("{gpu_type}:"));
    if gpus.is_multiple_of(latest.nodes) {
        format!("--gres=gpu:{gpu_type}{}", gpus / latest.nodes)
    } else {
        format!("--gpus={gpu_type}{gpus}")
    }
}
