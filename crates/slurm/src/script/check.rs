//! Checks whether `sbatch` or the controller accepts the value of an option, if that does not depend on the
//! site.

use super::gres::{gpus, gpus_of_task, gres, tres_per_task};
use super::moments::is_moment;
use super::numbers::{array, count, duration, leading_number, mebibytes, nodes, time_limit};
use super::source::SlurmVersion;

/// Maximum length of the values of most options in bytes; the controller refuses longer ones.
const LONGEST_TEXT: usize = 1024;

/// Signals by name.
const SIGNALS: [&str; 18] = [
    "HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "CHLD", "USR1", "USR2", "PIPE", "URG", "CONT",
    "STOP", "TSTP", "TTIN", "TTOU", "XCPU",
];

const MAIL_TYPES: [&str; 13] = [
    "NONE",
    "ARRAY_TASKS",
    "BEGIN",
    "END",
    "FAIL",
    "INVALID_DEPEND",
    "REQUEUE",
    "ALL",
    "STAGE_OUT",
    "TIME_LIMIT",
    "TIME_LIMIT_90",
    "TIME_LIMIT_80",
    "TIME_LIMIT_50",
];

const GRES_FLAGS: [&str; 4] =
    ["disable-binding", "enforce-binding", "multiple-tasks-per-sharing", "one-task-per-sharing"];

const RESOURCE_LIMITS: [&str; 12] =
    ["ALL", "NONE", "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK"];

const HINTS: [&str; 4] = ["compute_bound", "memory_bound", "multithread", "nomultithread"];

const DEPENDENCIES: [&str; 6] =
    ["after", "afterok", "afterany", "afternotok", "aftercorr", "afterburstbuffer"];

/// Options whose values only the controller checks; a value replaced by a later option is never checked.
const OF_THE_CONTROLLER: [&str; 11] = [
    "account",
    "array",
    "constraint",
    "dependency",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "partition",
    "tres-per-task",
];

/// Returns whether only the controller checks an option's value.
pub(super) fn is_of_controller(name: &str) -> bool {
    OF_THE_CONTROLLER.contains(&name)
}

/// Checks the value of an option.
///
/// # Errors
/// Slurm's message.
pub(super) fn check(name: &str, value: Option<&str>, version: SlurmVersion) -> Result<(), String> {
    let text = value.unwrap_or_default();
    let valid =
        |is_valid: bool| is_valid.then_some(()).ok_or_else(|| format!("Invalid --{name} specification"));
    let is_any = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match name {
        "time" | "time-min" => valid(time_limit(text).is_some()),
        "mem" | "mem-per-cpu" | "mem-per-gpu" | "tmp" => valid(mebibytes(text).is_some()),
        "nodes" => nodes(text, version).map(|_| ()),
        "ntasks" | "cpus-per-task" | "cpus-per-gpu" | "ntasks-per-node" | "ntasks-per-core"
        | "ntasks-per-socket" | "ntasks-per-gpu" | "ntasks-per-tres" | "mincpus" | "sockets-per-node"
        | "cores-per-socket" | "threads-per-core" | "thread-spec" => count(name, text, 1).map(|_| ()),
        "core-spec" => count(name, text, 0).map(|_| ()),
        "extra-node-info" => node_parts(text),
        "array" if text.is_empty() => Ok(()),
        "array" => array(text).map(|_| ()),
        "gres" => gres(text, version).map(|_| ()),
        "gpus" | "gpus-per-node" | "gpus-per-socket" => gpus(text, version).map(|_| ()),
        "gpus-per-task" => gpus_of_task(text, version).map(|_| ()),
        "tres-per-task" => tres_per_task(text, version).map(|_| ()),
        "exclusive" => valid(
            value.is_none()
                || text.is_empty() && version.is_at_least(24, 5)
                || is_any(&["exclusive", "oversubscribe", "user", "mcs"])
                || is_any(&["topo"]) && version.is_at_least(24, 5),
        ),
        "begin" | "deadline" => valid(is_moment(text)),
        "delay-boot" => valid(duration(text).is_some()),
        "dependency" => dependency(text),
        "gres-flags" => valid(are_words(text, &GRES_FLAGS)),
        "hint" => valid(are_words(text, &HINTS)),
        "mail-type" => valid(
            text.split(',')
                .any(|word| MAIL_TYPES.iter().any(|candidate| candidate.eq_ignore_ascii_case(word))),
        ),
        "signal" => valid(is_signal(text)),
        "open-mode" => valid(text.starts_with(['a', 'A', 't', 'T'])),
        "no-kill" => valid(value.is_none() || is_any(&["set", "off", "no"])),
        "kill-on-invalid-dep" => valid(is_any(&["yes", "no"])),
        "wait-all-nodes" => valid(count(name, text, 0)? <= 1),
        "oom-kill-step" => valid(value.is_none() || ["0", "1"].contains(&text)),
        "segment" => {
            valid(leading_number(text).is_some_and(|(number, rest)| {
                rest.is_empty() && (0..i64::from(u16::MAX) - 1).contains(&number)
            }))
        }
        "switches" => count(name, text.split('@').next().unwrap_or_default(), 1).map(|_| ()),
        "distribution" => valid(is_distribution(text)),
        "gpu-bind" => valid(is_gpu_bind(text)),
        "gpu-freq" => valid(!text.is_empty() && text.split(',').all(is_gpu_frequency)),
        "mem-bind" => valid(is_memory_bind(text)),
        "acctg-freq" => valid(text.split(',').all(is_accounting_interval)),
        "cpu-freq" => valid(is_cpu_frequency(text, version)),
        "profile" => valid(
            ["none", "all", "energy", "task", "lustre", "network"]
                .iter()
                .any(|candidate| text.to_ascii_lowercase().contains(candidate)),
        ),
        "propagate" => valid(value.is_none_or(|text| are_words(text, &RESOURCE_LIMITS))),
        "get-user-env" => valid(value.is_none_or(|text| {
            let rest = leading_number(text).map_or(text, |(_, rest)| rest);
            rest.is_empty() || rest.starts_with(['s', 'S', 'l', 'L'])
        })),
        "priority" => match leading_number(text) {
            Some((number, _)) if number < 0 => Err("Priority must be >= 0".to_owned()),
            Some((number, _)) if number >= i64::from(u32::MAX) - 1 => {
                Err(format!("Priority must be < {}", u32::MAX - 1))
            }
            _ => Ok(()),
        },
        "nice" => match leading_number(text) {
            Some((number, _)) if number.unsigned_abs() > u64::from(u32::MAX >> 1) - 3 => {
                Err("Invalid --nice value, out of range".to_owned())
            }
            _ => Ok(()),
        },
        "uid" | "gid" => Err(format!("--{name} only permitted by root user")),
        "partition" if text.is_empty() => Err("Invalid partition name specified".to_owned()),
        _ => Ok(()),
    }?;
    let is_short = match name {
        "dependency" | "mem-bind" => text.len() <= 128 * LONGEST_TEXT,
        "bb" => text.len() <= 8 * LONGEST_TEXT,
        "array" | "output" | "error" | "input" | "chdir" => text.len() <= 4 * LONGEST_TEXT,
        "exclude" | "nodelist" | "export" | "wrap" => true,
        _ => text.len() <= LONGEST_TEXT,
    };
    is_short
        .then_some(())
        .ok_or_else(|| "Pathname of a file, directory or other parameter too long".to_owned())
}

/// Checks the sockets, cores and threads of `--extra-node-info`: numbers, ranges or `*`.
fn node_parts(text: &str) -> Result<(), String> {
    for (part, place) in text.split(':').zip(["first", "second", "third"]) {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (least, most) = part.split_once('-').unwrap_or((part, part));
        if part != "*" && !(is_number(least) && is_number(most)) {
            return Err(format!("Invalid numeric value \"{part}\" for {place} arg of -B."));
        }
    }
    Ok(())
}

fn are_words(text: &str, known: &[&str]) -> bool {
    text.split(',').all(|word| known.iter().any(|candidate| candidate.eq_ignore_ascii_case(word)))
}

/// Returns whether a text is `[R][B][:]signal[@seconds]`.
fn is_signal(text: &str) -> bool {
    let body = text.trim_start_matches(['R', 'r']);
    let body = body.strip_prefix(['B', 'b']).unwrap_or(body);
    let body = body.strip_prefix(['R', 'r']).unwrap_or(body);
    let body = body.strip_prefix(':').unwrap_or(body);
    let (name, seconds) = body.split_once('@').map_or((body, None), |(name, time)| (name, Some(time)));
    let name = name.trim();
    let bare = name.get(..3).filter(|begin| begin.eq_ignore_ascii_case("sig")).map_or(name, |_| &name[3..]);
    let is_known = SIGNALS.iter().any(|candidate| candidate.eq_ignore_ascii_case(bare))
        || leading_number(name)
            .is_some_and(|(number, rest)| rest.is_empty() && (1..=0xffff).contains(&number));
    let is_time = |text: &str| {
        leading_number(text).is_some_and(|(number, rest)| rest.is_empty() && (0..=0xffff).contains(&number))
    };
    is_known && seconds.is_none_or(|text| text.is_empty() || is_time(text))
}

/// Returns whether a text is `closest`, `single:2`, `map_gpu:0,1` and the like.
fn is_gpu_bind(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let body = ["verbose,", "v,"].iter().find_map(|prefix| lower.strip_prefix(prefix)).unwrap_or(&lower);
    let has_number = |begin: &str| {
        body.strip_prefix(begin).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    body.starts_with("closest")
        || body.starts_with("none")
        || ["single:", "per_task:", "map_gpu:", "mask_gpu:", "map:", "mask:"].into_iter().any(has_number)
}

/// Returns whether a text is a frequency of GPUs, such as `high`, `memory=low` or `verbose`.
fn is_gpu_frequency(text: &str) -> bool {
    let value = text.strip_prefix("memory=").unwrap_or(text);
    let is_number = value.starts_with(|c: char| c.is_ascii_digit());
    is_number || ["low", "medium", "high", "highm1"].contains(&value) || text == "verbose"
}

/// Returns whether a text is a list of `local`, `none`, `map_mem:0,1` or similar.
fn is_memory_bind(text: &str) -> bool {
    const WORDS: [&str; 12] =
        ["p", "prefer", "nosort", "sort", "q", "quiet", "v", "verbose", "no", "none", "rank", "local"];
    text.to_ascii_lowercase().split(',').all(|word| {
        WORDS.contains(&word)
            || ["map_mem", "mapmem", "mask_mem", "maskmem"]
                .iter()
                .any(|candidate| word.starts_with(candidate))
            || word.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Returns whether a text gives seconds, such as `30` or `task=10`.
fn is_accounting_interval(text: &str) -> bool {
    let (kind, seconds) = text.split_once('=').map_or(("", text), |(kind, seconds)| (kind, seconds));
    ["", "task", "energy", "network", "filesystem"].contains(&kind)
        && leading_number(seconds).is_some_and(|(number, _)| number >= 0)
}

/// Returns whether a text is a frequency of CPUs, such as `high`, `2000000`, `low-high:ondemand`.
fn is_cpu_frequency(text: &str, version: SlurmVersion) -> bool {
    const GOVERNORS: [&str; 6] =
        ["conservative", "ondemand", "performance", "powersave", "schedutil", "userspace"];
    let is_governor = |text: &str| {
        GOVERNORS
            .iter()
            .any(|candidate| candidate.starts_with(&text.to_ascii_lowercase()) && !text.is_empty())
    };
    let is_frequency = |text: &str| {
        ["low", "medium", "high", "highm1"].iter().any(|candidate| text.eq_ignore_ascii_case(candidate))
            || text.starts_with(|c: char| c.is_ascii_digit())
    };
    let (range, governor) =
        text.split_once(':').map_or((text, None), |(range, governor)| (range, Some(governor)));
    match (range.split_once('-'), governor) {
        (None, None) => is_frequency(range) || is_governor(range),
        (None, Some(governor)) => is_frequency(range) && is_governor(governor),
        (Some((least, most)), Some(governor)) => {
            is_frequency(least) && is_frequency(most) && is_governor(governor)
        }
        (Some((least, most)), None) => {
            !version.is_at_least(23, 2) && is_frequency(least) && is_frequency(most)
        }
    }
}

/// Returns whether a text is a distribution such as `cyclic:block,Pack` or `plane=4`.
fn is_distribution(text: &str) -> bool {
    let base = text.split(',').next().unwrap_or_default().to_ascii_lowercase();
    if let Some(size) = base.strip_prefix("plane") {
        return size.is_empty() || size.strip_prefix('=').and_then(leading_number).is_some();
    }
    let words: Vec<&str> = base.split(':').collect();
    let levels: [&[&str]; 3] = [
        &["block", "cyclic", "*"],
        &["block", "cyclic", "fcyclic", "*"],
        &["block", "cyclic", "fcyclic", "*"],
    ];
    ["arbitrary", "hostfile"].contains(&base.as_str())
        || words.len() <= 3 && words.iter().zip(levels).all(|(word, known)| known.contains(word))
}

/// Checks the form of a dependency; only Slurm knows whether its jobs exist.
fn dependency(text: &str) -> Result<(), String> {
    let problem = || "Job dependency problem".to_owned();
    if text.is_empty() || text == "0" {
        return Ok(());
    }
    for part in text.split([',', '?']) {
        let lower = part.to_ascii_lowercase();
        let is_job = |job: &str| {
            let job = job.split('(').next().unwrap_or_default();
            let digits = job.bytes().take_while(u8::is_ascii_digit).count();
            digits > 0 && job[digits..].bytes().all(|byte| byte.is_ascii_digit() || b"+_*[]-".contains(&byte))
        };
        if lower.starts_with("singleton") || is_job(&lower) {
            continue;
        }
        let (kind, jobs) = lower.split_once(':').ok_or_else(problem)?;
        if kind == "expand" {
            return Err("Requested operation not supported on this system".to_owned());
        }
        if !DEPENDENCIES.contains(&kind) || !jobs.split(':').all(is_job) {
            return Err(problem());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_as_slurm_checks_them() {
        let check = |name: &str, value: &str| check(name, Some(value), SlurmVersion::DEFAULT).is_ok();
        for (name, value) in [
            ("signal", "USR1@120"),
            ("signal", "B:USR1@60"),
            ("signal", "10@60"),
            ("signal", "SIGUSR1"),
            ("signal", "BUSR1"),
            ("signal", "R:TERM"),
            ("mail-type", "ALL"),
            ("mail-type", "END,x"),
            ("dependency", "afterok:1:2"),
            ("dependency", "singleton"),
            ("dependency", "after:1+10"),
            ("dependency", "123"),
            ("dependency", "afterok:1?afterany:2_3"),
            ("gres-flags", "enforce-binding"),
            ("exclusive", "user"),
            ("exclusive", "topo"),
            ("distribution", "cyclic:cyclic"),
            ("distribution", "block:*,Pack"),
            ("distribution", "plane=4"),
            ("priority", "TOP"),
            ("nice", "x"),
            ("get-user-env", "10L"),
            ("switches", "1@1:00:00"),
            ("begin", "now+2hours"),
            ("array", ""),
            ("open-mode", "append"),
            ("hint", "nomultithread"),
            ("oom-kill-step", "1"),
            ("extra-node-info", "2:*:1"),
            ("extra-node-info", "1-2"),
            ("exclusive", ""),
        ] {
            assert!(check(name, value), "--{name}={value}");
        }
        for (name, value) in [
            ("signal", "USR9"),
            ("signal", "USR1@x"),
            ("mail-type", "BOGUS"),
            ("dependency", "afterok:"),
            ("dependency", "nope:1"),
            ("dependency", "afterok:$JOB"),
            ("dependency", "expand:1"),
            ("gres-flags", "nope"),
            ("exclusive", "yes"),
            ("distribution", "odd"),
            ("priority", "-1"),
            ("open-mode", "bad"),
            ("begin", "next week"),
            ("uid", "0"),
            ("partition", ""),
            ("mem", ""),
            ("wait-all-nodes", "2"),
            ("segment", "x"),
            ("hint", "x"),
            ("kill-on-invalid-dep", "x"),
            ("extra-node-info", "x"),
            ("extra-node-info", "1:x"),
            ("extra-node-info", "1,"),
        ] {
            assert!(!check(name, value), "--{name}={value}");
        }
    }

    #[test]
    fn long_texts_are_refused() {
        let check = |name: &str, length: usize| {
            super::check(name, Some(&"x".repeat(length)), SlurmVersion::DEFAULT).is_ok()
        };
        assert!(check("comment", 1024) && !check("comment", 1025) && check("output", 4096));
    }
}
