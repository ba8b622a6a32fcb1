//! Names of the options and environment variables of `sbatch`, by version.

use self::ValueRule::{MaybeValue, Nothing, Value};
use super::source::SlurmVersion;

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueRule {
    /// No value.
    Nothing,
    /// A value in the same word or the next one.
    Value,
    /// An optional value in the same word.
    MaybeValue,
}

/// An option of `sbatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OptionName {
    pub long: &'static str,
    pub short: Option<char>,
    pub takes: ValueRule,
    /// Whether later components of a het job inherit the value.
    pub is_inherited: bool,
    /// Versions that know the option: from the first (24.05 is 2405) up to, but not including, the second.
    versions: (u32, u32),
}

const ALWAYS: (u32, u32) = (0, u32::MAX);

/// Returns an option that only some versions know.
const fn of_versions(
    long: &'static str,
    takes: ValueRule,
    is_inherited: bool,
    versions: (u32, u32),
) -> OptionName {
    OptionName { long, short: None, takes, is_inherited, versions }
}

/// Returns an option whose value later components of a het job inherit.
const fn kept(long: &'static str, short: Option<char>, takes: ValueRule) -> OptionName {
    OptionName { long, short, takes, is_inherited: true, versions: ALWAYS }
}

/// Returns an option that each component of a het job sets separately.
const fn per_component(long: &'static str, short: Option<char>, takes: ValueRule) -> OptionName {
    OptionName { long, short, takes, is_inherited: false, versions: ALWAYS }
}

/// All options, in the order in which `sbatch` lists those with a common prefix.
const OPTIONS: &[OptionName] = &[
    kept("account", Some('A'), Value),
    kept("acctg-freq", None, Value),
    kept("array", Some('a'), Value),
    kept("batch", None, Value),
    of_versions("autocomplete", Value, true, (2302, u32::MAX)),
    kept("begin", Some('b'), Value),
    per_component("bb", None, Value),
    kept("bbf", None, Value),
    kept("cluster-constraint", None, Value),
    kept("chdir", Some('D'), Value),
    kept("cluster", None, Value),
    kept("clusters", Some('M'), Value),
    kept("comment", None, Value),
    of_versions("consolidate-segments", Nothing, false, (2511, u32::MAX)),
    of_versions("container", Value, true, (2108, u32::MAX)),
    of_versions("container-id", Value, true, (2302, u32::MAX)),
    of_versions("container-type", Value, true, (2605, u32::MAX)),
    of_versions("context", Value, true, (2108, u32::MAX)),
    per_component("contiguous", None, Nothing),
    per_component("constraint", Some('C'), Value),
    per_component("core-spec", Some('S'), Value),
    per_component("cores-per-socket", None, Value),
    per_component("cpu-freq", None, Value),
    per_component("cpus-per-gpu", None, Value),
    per_component("cpus-per-task", Some('c'), Value),
    kept("deadline", None, Value),
    kept("delay-boot", None, Value),
    kept("dependency", Some('d'), Value),
    per_component("distribution", Some('m'), Value),
    kept("error", Some('e'), Value),
    kept("exclude", Some('x'), Value),
    per_component("exclusive", None, MaybeValue),
    kept("export", None, Value),
    kept("export-file", None, Value),
    of_versions("external", Nothing, true, (2505, u32::MAX)),
    of_versions("extra", Value, true, (2302, u32::MAX)),
    per_component("extra-node-info", Some('B'), Value),
    kept("get-user-env", None, MaybeValue),
    kept("gid", None, Value),
    per_component("gpu-bind", None, Value),
    of_versions("tres-bind", Value, false, (2311, u32::MAX)),
    per_component("gpu-freq", None, Value),
    per_component("gpus", Some('G'), Value),
    per_component("gpus-per-node", None, Value),
    per_component("gpus-per-socket", None, Value),
    per_component("gpus-per-task", None, Value),
    per_component("gres", None, Value),
    per_component("gres-flags", None, Value),
    kept("help", Some('h'), Nothing),
    per_component("hint", None, Value),
    kept("hold", Some('H'), Nothing),
    kept("ignore-pbs", None, Nothing),
    kept("input", Some('i'), Value),
    kept("job-name", Some('J'), Value),
    kept("kill-on-invalid-dep", None, Value),
    per_component("licenses", Some('L'), Value),
    per_component("mail-type", None, Value),
    per_component("mail-user", None, Value),
    kept("mcs-label", None, Value),
    kept("mem", None, Value),
    per_component("mem-bind", None, Value),
    per_component("mem-per-cpu", None, Value),
    per_component("mem-per-gpu", None, Value),
    of_versions("mem-update", Value, true, (2605, u32::MAX)),
    per_component("mincpus", None, Value),
    per_component("network", None, Value),
    kept("nice", None, MaybeValue),
    kept("no-kill", Some('k'), MaybeValue),
    kept("no-requeue", None, Nothing),
    per_component("nodefile", Some('F'), Value),
    per_component("nodelist", Some('w'), Value),
    per_component("nodes", Some('N'), Value),
    per_component("ntasks", Some('n'), Value),
    per_component("ntasks-per-core", None, Value),
    per_component("ntasks-per-gpu", None, Value),
    per_component("ntasks-per-node", None, Value),
    per_component("ntasks-per-socket", None, Value),
    per_component("ntasks-per-tres", None, Value),
    of_versions("oom-kill-step", MaybeValue, true, (2411, u32::MAX)),
    kept("open-mode", None, Value),
    kept("output", Some('o'), Value),
    per_component("overcommit", Some('O'), Nothing),
    per_component("oversubscribe", Some('s'), Nothing),
    kept("parsable", None, Nothing),
    per_component("partition", Some('p'), Value),
    of_versions("power", Value, false, (0, 2405)),
    of_versions("prefer", Value, true, (2205, u32::MAX)),
    kept("priority", None, Value),
    kept("profile", None, Value),
    kept("propagate", None, MaybeValue),
    kept("qos", Some('q'), Value),
    kept("quiet", Some('Q'), Nothing),
    kept("reboot", None, Nothing),
    of_versions("requeue", Nothing, true, (0, 2511)),
    of_versions("requeue", MaybeValue, true, (2511, u32::MAX)),
    kept("reservation", None, Value),
    of_versions("resources", Value, false, (2511, u32::MAX)),
    of_versions("resv-ports", MaybeValue, false, (2405, u32::MAX)),
    of_versions("segment", Value, false, (2405, u32::MAX)),
    kept("signal", None, Value),
    per_component("sockets-per-node", None, Value),
    per_component("spread-job", None, Nothing),
    of_versions("spread-segments", Nothing, false, (2511, u32::MAX)),
    of_versions("stepmgr", Nothing, true, (2405, u32::MAX)),
    per_component("switches", None, Value),
    per_component("tasks-per-node", None, Value),
    kept("test-only", None, Nothing),
    per_component("thread-spec", None, Value),
    per_component("threads-per-core", None, Value),
    kept("time", Some('t'), Value),
    kept("time-min", None, Value),
    per_component("tmp", None, Value),
    of_versions("tres-per-task", Value, false, (2302, u32::MAX)),
    kept("uid", None, Value),
    per_component("use-min-nodes", None, Nothing),
    kept("verbose", Some('v'), Nothing),
    kept("version", Some('V'), Nothing),
    kept("usage", None, Nothing),
    kept("wait", Some('W'), Nothing),
    kept("wait-all-nodes", None, Value),
    kept("wckey", None, Value),
    kept("wrap", None, Value),
];

/// Options added by plugins of sites; `sbatch` refuses them elsewhere.
const PLUGIN_OPTIONS: &[(&str, ValueRule)] = &[
    // Containers: pyxis, shifter, Singularity, uenv.
    ("container-entrypoint", Nothing),
    ("container-env", Value),
    ("container-image", Value),
    ("container-mount-home", Nothing),
    ("container-mounts", Value),
    ("container-name", Value),
    ("container-readonly", Nothing),
    ("container-remap-root", Nothing),
    ("container-save", Value),
    ("container-workdir", Value),
    ("container-writable", Nothing),
    ("no-container-entrypoint", Nothing),
    ("no-container-mount-home", Nothing),
    ("no-container-remap-root", Nothing),
    ("environment", Value),
    ("image", Value),
    ("entrypoint", Nothing),
    ("module", Value),
    ("volume", Value),
    ("singularity-container", Value),
    ("uenv", Value),
    ("view", Value),
    // GPUs and CPUs: compute modes, clocks, counters.
    ("cuda-mps", Nothing),
    ("disable-dcgm", Nothing),
    ("disable-perfparanoid", Nothing),
    ("disable-turbomode", Nothing),
    ("ear", Value),
    ("ear-cpufreq", Value),
    ("ear-policy", Value),
    ("ear-user-db", Value),
    ("ear-verbose", Value),
    ("gpu-cmode", Value),
    ("gpu_cmode", Value),
    ("gpumps", MaybeValue),
    ("nvmps", Nothing),
    ("perf", Value),
    ("perfmon", Nothing),
    // Queueing, disks and others.
    ("auks", Value),
    ("jobinfo", Nothing),
    ("killable", Nothing),
    ("private-tmp", MaybeValue),
    ("tmpdir", MaybeValue),
    ("vis", MaybeValue),
    ("x11", MaybeValue),
];

/// Environment variables that `sbatch` reads, in its order, with the option and first version of each.
const VARIABLES: &[(&str, &str, u32)] = &[
    ("SBATCH_ACCOUNT", "account", 0),
    ("SBATCH_ARRAY_INX", "array", 0),
    ("SBATCH_ACCTG_FREQ", "acctg-freq", 0),
    ("SBATCH_BATCH", "batch", 0),
    ("SBATCH_BURST_BUFFER", "bb", 0),
    ("SBATCH_CLUSTER_CONSTRAINT", "cluster-constraint", 0),
    ("SBATCH_CLUSTERS", "clusters", 0),
    ("SLURM_CLUSTERS", "clusters", 0),
    ("SBATCH_CONTAINER", "container", 2108),
    ("SBATCH_CONTAINER_ID", "container-id", 2302),
    ("SBATCH_CONTAINER_TYPE", "container-type", 2605),
    ("SBATCH_CONSOLIDATE_SEGMENTS", "consolidate-segments", 2511),
    ("SBATCH_CONSTRAINT", "constraint", 0),
    ("SBATCH_CORE_SPEC", "core-spec", 0),
    ("SBATCH_CPU_FREQ_REQ", "cpu-freq", 0),
    ("SBATCH_CPUS_PER_GPU", "cpus-per-gpu", 0),
    ("SBATCH_DELAY_BOOT", "delay-boot", 0),
    ("SBATCH_DISTRIBUTION", "distribution", 0),
    ("SBATCH_EXCLUSIVE", "exclusive", 0),
    ("SBATCH_EXPORT", "export", 0),
    ("SBATCH_GET_USER_ENV", "get-user-env", 0),
    ("SBATCH_GRES", "gres", 0),
    ("SBATCH_GRES_FLAGS", "gres-flags", 0),
    ("SBATCH_GPUS", "gpus", 0),
    ("SBATCH_GPU_BIND", "gpu-bind", 0),
    ("SBATCH_GPU_FREQ", "gpu-freq", 0),
    ("SBATCH_GPUS_PER_NODE", "gpus-per-node", 0),
    ("SBATCH_GPUS_PER_SOCKET", "gpus-per-socket", 0),
    ("SBATCH_GPUS_PER_TASK", "gpus-per-task", 0),
    ("SLURM_HINT", "hint", 0),
    ("SBATCH_HINT", "hint", 0),
    ("SBATCH_JOB_NAME", "job-name", 0),
    ("SBATCH_MEM_BIND", "mem-bind", 0),
    ("SBATCH_MEM_PER_CPU", "mem-per-cpu", 0),
    ("SBATCH_MEM_PER_GPU", "mem-per-gpu", 0),
    ("SBATCH_MEM_PER_NODE", "mem", 0),
    ("SBATCH_NETWORK", "network", 0),
    ("SBATCH_NO_KILL", "no-kill", 0),
    ("SBATCH_NO_REQUEUE", "no-requeue", 0),
    ("SBATCH_OPEN_MODE", "open-mode", 0),
    ("SBATCH_OVERCOMMIT", "overcommit", 0),
    ("SBATCH_PARTITION", "partition", 0),
    ("SBATCH_POWER", "power", 0),
    ("SBATCH_PROFILE", "profile", 0),
    ("SBATCH_QOS", "qos", 0),
    ("SBATCH_REQ_SWITCH", "switches", 0),
    ("SBATCH_REQUEUE", "requeue", 0),
    ("SBATCH_RESERVATION", "reservation", 0),
    ("SBATCH_SEGMENT_SIZE", "segment", 2511),
    ("SBATCH_SIGNAL", "signal", 0),
    ("SBATCH_SPREAD_JOB", "spread-job", 0),
    ("SBATCH_SPREAD_SEGMENTS", "spread-segments", 2511),
    ("SBATCH_THREAD_SPEC", "thread-spec", 0),
    ("SBATCH_THREADS_PER_CORE", "threads-per-core", 2108),
    ("SBATCH_TIMELIMIT", "time", 0),
    ("SBATCH_TRES_BIND", "tres-bind", 2311),
    ("SBATCH_TRES_PER_TASK", "tres-per-task", 2302),
    ("SBATCH_USE_MIN_NODES", "use-min-nodes", 0),
    ("SBATCH_WAIT", "wait", 0),
    ("SBATCH_WAIT_ALL_NODES", "wait-all-nodes", 0),
    ("SBATCH_WCKEY", "wckey", 0),
    ("SBATCH_ERROR", "error", 2302),
    ("SBATCH_INPUT", "input", 2302),
    ("SBATCH_OUTPUT", "output", 2302),
];

/// Variables named `SBATCH_…` that set no option of the job.
const OTHER_VARIABLES: [&str; 3] = ["SBATCH_DEBUG", "SBATCH_IGNORE_PBS", "SBATCH_WAIT4SWITCH"];

/// The meaning of a long name as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongName {
    Option(OptionName),
    /// An option of a site's plugin.
    Plugin(&'static str, ValueRule),
}

impl LongName {
    pub(super) fn takes(self) -> ValueRule {
        match self {
            Self::Option(option) => option.takes,
            Self::Plugin(_, takes) => takes,
        }
    }

    /// Returns the full name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Option(option) => option.name(),
            Self::Plugin(name, _) => name,
        }
    }
}

impl OptionName {
    /// Returns the canonical name: the same for options with two names.
    pub(super) fn name(&self) -> &'static str {
        match self.long {
            "tasks-per-node" => "ntasks-per-node",
            "cluster" => "clusters",
            long => long,
        }
    }

    fn is_of(&self, version: SlurmVersion) -> bool {
        let (first, end) = self.versions;
        (first..end).contains(&version.number())
    }
}

/// Returns the options that a version knows.
pub(super) fn options(version: SlurmVersion) -> impl Iterator<Item = &'static OptionName> {
    OPTIONS.iter().filter(move |option| option.is_of(version))
}

/// Returns an option by its full name.
pub(super) fn option(version: SlurmVersion, name: &str) -> Option<OptionName> {
    options(version).find(|option| option.long == name).copied()
}

/// Resolves a long name; as in `getopt`, an unambiguous prefix is enough.
///
/// # Errors
/// The names that it may mean: none, or several.
pub(super) fn long_name(version: SlurmVersion, written: &str) -> Result<LongName, Vec<&'static str>> {
    if let Some(option) = option(version, written) {
        return Ok(LongName::Option(option));
    }
    let begun: Vec<&OptionName> =
        options(version).filter(|option| option.long.starts_with(written)).collect();
    let plugin = |(name, takes): &(&'static str, ValueRule)| LongName::Plugin(name, *takes);
    match begun[..] {
        [one] => Ok(LongName::Option(*one)),
        [] => PLUGIN_OPTIONS.iter().find(|(name, _)| *name == written).map(plugin).ok_or_else(Vec::new),
        _ => Err(begun.iter().map(|option| option.long).collect()),
    }
}

/// Returns an option by its letter.
pub(super) fn short_name(version: SlurmVersion, letter: char) -> Option<OptionName> {
    options(version).find(|option| option.short == Some(letter)).copied()
}

/// Returns the variables that a version reads, with their options.
pub(super) fn variables(version: SlurmVersion) -> impl Iterator<Item = (&'static str, OptionName)> {
    VARIABLES
        .iter()
        .filter(move |(.., first)| *first <= version.number())
        .filter_map(move |(variable, name, _)| Some((*variable, option(version, name)?)))
}

/// Returns whether a variable resembles those of `sbatch` although no version reads it.
pub(super) fn is_unread_variable(name: &str) -> bool {
    name.starts_with("SBATCH_")
        && !OTHER_VARIABLES.contains(&name)
        && !VARIABLES.iter().any(|(variable, ..)| *variable == name)
}
