//! The sbatch options of jobs: their effect on requests, and the refused ones, which hsched decides itself or
//! which would lose a job.

use crate::app::context::Context;
use hsched_model::{ErrorId, Job, SbatchOptions, Time};
use hsched_slurm::sbatch_options;
use hsched_slurm::script::option_letters;
use hsched_ui::{Exit, Failure};

/// A refused option: its name, its short form, and the reason or alternative.
type RefusedOption = (&'static str, Option<char>, &'static str);

const GPUS: &str = "hsched chooses the GPUs; limit them with the job keys min_gpus, max_gpus and gpu_types";
const CPUS: &str = "use the job key cpus_per_gpu";
const MEMORY: &str = "use the job key memory_per_gpu";
const TASKS: &str = "hsched starts one task per GPU";
const NODES: &str = "the plan decides the number of nodes";
const NAMED: &str = "the plan chooses the nodes; to fix them, use --pin";

const PRINTS: &str = "sbatch would print a text and submit nothing";
const STRAY: &str = "it is not an option; options begin with a dash";

/// Words that separate the components of a heterogeneous job.
const SEPARATORS: [&str; 3] = [":", "hetjob", "packjob"];

const REFUSED: &[RefusedOption] = &[
    ("--account", Some('A'), "use the job key or the setting account"),
    ("--array", Some('a'), "every task of a job array would run the same ranks; use the job key sweep"),
    ("--chdir", Some('D'), "use the job key workdir"),
    (
        "--clusters",
        Some('M'),
        "a state directory belongs to one cluster; run hsched on a login node of \
        that cluster",
    ),
    ("--comment", None, "hsched uses the comment to find its jobs in the queue"),
    ("--cpus-per-gpu", None, CPUS),
    ("--cpus-per-task", Some('c'), CPUS),
    ("--gpu-bind", None, "every rank must see all GPUs of the job on its node"),
    ("--gpus", Some('G'), GPUS),
    ("--gpus-per-node", None, GPUS),
    ("--gpus-per-socket", None, GPUS),
    ("--gpus-per-task", None, GPUS),
    ("--gres", None, GPUS),
    ("--help", Some('h'), PRINTS),
    ("--job-name", Some('J'), "hsched uses the name to cancel the right job; rename the job in the job file"),
    ("--mem", None, MEMORY),
    ("--mem-per-cpu", None, MEMORY),
    ("--mem-per-gpu", None, MEMORY),
    ("--no-requeue", None, "hsched retries failed jobs; see the job key retries"),
    ("--nodefile", Some('F'), NAMED),
    ("--nodelist", Some('w'), NAMED),
    ("--nodes", Some('N'), NODES),
    ("--ntasks", Some('n'), TASKS),
    ("--ntasks-per-core", None, TASKS),
    ("--ntasks-per-gpu", None, TASKS),
    ("--ntasks-per-node", None, TASKS),
    ("--ntasks-per-socket", None, TASKS),
    ("--open-mode", None, "hsched opens the output in append mode, so that a resumed run continues it"),
    ("--output", Some('o'), "the output goes to NAME.out in the workdir of the job; --error is allowed"),
    ("--parsable", None, "hsched parses the output of sbatch"),
    ("--partition", Some('p'), "use the job key or the setting partition"),
    ("--qos", Some('q'), "use the job key or the setting qos"),
    ("--requeue", None, "hsched resubmits jobs itself; see the job key retries"),
    ("--signal", None, "use the job key checkpoint: {grace: …}"),
    ("--tasks-per-node", None, TASKS),
    ("--test-only", None, "sbatch would not submit the job; use hsched submit --dry-run"),
    ("--time", Some('t'), "use the job key time, the upper bound on the time limit"),
    ("--time-min", None, "use the job key time, the upper bound on the time limit"),
    ("--tres-per-task", None, GPUS),
    ("--usage", None, PRINTS),
    ("--version", Some('V'), PRINTS),
    ("--wait", Some('W'), "hsched does not wait for its jobs"),
    ("--wrap", None, "hsched writes the script"),
];

/// Parses a job's sbatch options, after those of the setting `sbatch`.
pub(crate) fn read(context: &Context, job: &Job, now: Time) -> SbatchOptions {
    let words = [&context.settings.jobs.sbatch[..], &job.launch.sbatch].concat();
    sbatch_options(&words, now)
}

/// Refuses sbatch options that hsched decides itself, or that would lose the job.
///
/// # Errors
/// If there is such an option; the message gives the reason or the alternative.
pub(crate) fn refuse_options<'a>(options: impl IntoIterator<Item = &'a String>) -> Result<(), Failure> {
    let mut may_be_value = false;
    for option in options {
        let listed = REFUSED.iter().find(|refused| is_meant(option, refused)).map(|(_, _, why)| *why);
        let is_word = !option.starts_with('-');
        let is_stray = is_word && (!may_be_value || SEPARATORS.contains(&option.as_str()));
        may_be_value = !is_word && !option.contains('=');
        if let Some(why) = listed.or_else(|| is_stray.then_some(STRAY)) {
            let message = format!("sbatch option {option:?} is refused: {why}");
            return Err(Failure::new(Exit::BadInput, message)
                .id(ErrorId::SbatchOption)
                .hint("leave the option out"));
        }
    }
    Ok(())
}

/// Returns whether a word is that option, or has its letter among others (`-QW`); sbatch accepts prefixes of long names.
fn is_meant(option: &str, (long, short, _): &RefusedOption) -> bool {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    match name.strip_prefix("--") {
        Some(rest) => !rest.is_empty() && long.starts_with(name),
        None => short.is_some_and(|short| option_letters(option).contains(&short)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hsched_decides_is_refused_in_every_spelling() {
        let refused = |option: &str| refuse_options([&option.to_owned()]).is_err();
        let refused_words = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            refuse_options(&words).is_err()
        };
        for words in ["hetjob", ":", "foo", "--exclude n1 hetjob", "--exclude=n1 foo", "-x hetjob", "-C a b"]
        {
            assert!(refused_words(words), "{words}");
        }
        for words in ["--exclude n1", "-C ib --exclusive"] {
            assert!(!refused_words(words), "{words}");
        }
        for option in [
            "--help",
            "--usage",
            "--version",
            "-V",
            "--gres=gpu:v100:4",
            "--nodes=5",
            "-N5",
            "-N",
            "--array=1-3",
            "-a1",
            "--wrap",
            "--comm=x",
            "--time=10",
            "-t10",
            "--gpus=4",
            "-G4",
            "--gpus-per-task=1",
            "--mem=4G",
            "--mem-per-cpu=1G",
            "-c4",
            "--cpus-per-task",
            "-p",
            "-pgpu",
            "--partition=gpu",
            "-Aacct",
            "-wn1",
            "--nodelist=n1",
            "--output=x",
            "-ox",
            "-Mother",
            "--clusters=b",
            "--signal=USR1",
            "--no-requeue",
            "--requeue",
            "--ntasks-per-node=1",
            "-n4",
            "--job-n=x",
            "--tres-per-task=gres/gpu:1",
            "-QW",
            "-HQN2",
        ] {
            assert!(refused(option), "{option}");
        }
        for option in [
            "--exclusive",
            "--reservation=r",
            "--constraint=ib",
            "-Cib",
            "--mail-type=END",
            "--exclude=n1",
            "-xn1",
            "--nice=10",
            "--begin=now+1h",
            "--dependency=afterok:1",
            "-d",
            "--licenses=a",
            "-L",
            "--export=NONE",
            "--error=x",
            "-ex",
            "--hint=nomultithread",
            "--hold",
            "-H",
            "--",
            "--gres-flags=enforce-binding",
            "--mem-bind=local",
            "--wait-all-nodes=1",
            "--threads-per-core=1",
            "--switches=1",
            "--contiguous",
            "--tres-bind=gres/gpu:closest",
            "-HQ",
            // These letters belong to values.
            "-xW",
            "-Qbnow",
            "-kNp",
            "-",
        ] {
            assert!(!refused(option), "{option}");
        }
    }
}
