//! Words of `sbatch` options: short names, and which take no value.

/// Short options with their long names.
const SHORT: [(char, &str); 24] = [
    ('A', "account"),
    ('a', "array"),
    ('B', "extra-node-info"),
    ('b', "begin"),
    ('C', "constraint"),
    ('c', "cpus-per-task"),
    ('D', "chdir"),
    ('d', "dependency"),
    ('e', "error"),
    ('G', "gpus"),
    ('H', "hold"),
    ('J', "job-name"),
    ('L', "licenses"),
    ('N', "nodes"),
    ('n', "ntasks"),
    ('o', "output"),
    ('p', "partition"),
    ('q', "qos"),
    ('S', "core-spec"),
    ('s', "oversubscribe"),
    ('t', "time"),
    ('w', "nodelist"),
    ('x', "exclude"),
    ('M', "clusters"),
];

/// Options without a value, or with one that may be left out.
pub(crate) const FLAGS: [&str; 15] = [
    "exclusive",
    "requeue",
    "no-requeue",
    "overcommit",
    "oversubscribe",
    "contiguous",
    "hold",
    "nice",
    "reboot",
    "spread-job",
    "use-min-nodes",
    "wait",
    "parsable",
    "hetjob",
    "packjob",
];

/// Returns an option's long name and the value that is in the same word.
pub(crate) fn option(word: &str) -> Option<(String, Option<String>)> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        return Some((name.to_owned(), value.map(str::to_owned)));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let short = letters.next()?;
    let (_, name) = SHORT.iter().find(|(own, _)| *own == short)?;
    let value = letters.as_str();
    Some(((*name).to_owned(), (!value.is_empty()).then(|| value.to_owned())))
}
