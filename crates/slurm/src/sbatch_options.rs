//! The effect of `sbatch` options on the start of a job.

use std::collections::BTreeSet;

use crate::begin::begin;
use crate::script::{SlurmVersion, named_options};
use hsched_model::{NodeName, SbatchOptions, Time, hostlist};
use hsched_queue::is_plain_constraint;

/// Options that affect when or where a job starts but are not read here; they are returned as not counted.
const NOT_COUNTED: [&str; 49] = [
    "account",
    "array",
    "bb",
    "bbf",
    "cluster-constraint",
    "clusters",
    "contiguous",
    "core-spec",
    "cores-per-socket",
    "cpus-per-gpu",
    "cpus-per-task",
    "deadline",
    "delay-boot",
    "dependency",
    "extra-node-info",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "hint",
    "hold",
    "licenses",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "mincpus",
    "network",
    "nodefile",
    "nodes",
    "ntasks",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-node",
    "ntasks-per-socket",
    "oversubscribe",
    "partition",
    "prefer",
    "priority",
    "reboot",
    "sockets-per-node",
    "spread-job",
    "switches",
    "thread-spec",
    "threads-per-core",
    "time",
    "time-min",
    "tmp",
    "use-min-nodes",
];

/// Options that are read here.
const COUNTED: [&str; 8] =
    ["begin", "constraint", "exclude", "exclusive", "nice", "nodelist", "qos", "reservation"];

/// Priority that `--nice` subtracts without a number.
const USUAL_NICE: i64 = 100;

/// Returns the effect of `sbatch` options on a job that is submitted now; the last of repeated options
/// counts.
pub fn sbatch_options(words: &[String], now: Time) -> SbatchOptions {
    let mut options = SbatchOptions::default();
    for (name, value) in named_options(words, SlurmVersion::DEFAULT) {
        if !NOT_COUNTED.contains(&name) && !COUNTED.contains(&name) {
            continue;
        }
        let value = value.as_deref().map(str::trim);
        options.not_counted.retain(|text| text.split('=').next() != Some(&format!("--{name}")));
        if take(&mut options, name, value, now).is_none() {
            options.not_counted.push(match value {
                Some(value) => format!("--{name}={value}"),
                None => format!("--{name}"),
            });
        }
    }
    options
}

/// Reads an option; returns `None` if the option or its value is not supported.
fn take(options: &mut SbatchOptions, name: &str, value: Option<&str>, now: Time) -> Option<()> {
    let SbatchOptions { asks, further, .. } = options;
    match (name, value) {
        ("exclusive", None | Some("exclusive")) => asks.exclusive = true,
        ("constraint", Some(text)) => {
            asks.features = Some(text.to_owned());
            return is_plain_constraint(text).then_some(());
        }
        ("nodelist", Some(text)) => asks.nodelist = nodes(text)?,
        ("exclude", Some(text)) => asks.exclude = nodes(text)?,
        ("begin", Some(text)) => further.begin = Some(begin(text, now)?),
        ("nice", value) => further.nice = value.map_or(Some(USUAL_NICE), |text| text.parse().ok())?,
        ("qos", Some(text)) if !text.is_empty() => further.qos = Some(text.to_owned()),
        // With several reservations, the job starts in the first one that has room.
        ("reservation", Some(text)) if !text.is_empty() && !text.contains(',') => {
            further.reservation = Some(text.to_owned());
        }
        _ => return None,
    }
    Some(())
}

/// Returns the nodes of a hostlist; `None` for other text, such as the name of a file.
fn nodes(text: &str) -> Option<BTreeSet<NodeName>> {
    if text.contains('/') {
        return None;
    }
    let names = hostlist::expand(text).ok()?;
    names.iter().map(|name| NodeName::new(name).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> SbatchOptions {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        sbatch_options(&words, Time(1_000_000.0))
    }

    #[test]
    fn options_are_read_in_every_spelling() {
        let sbatch_options = read(&[
            "--exclusive",
            "-C",
            "ib&a100",
            "-xn[1-2]",
            "--nodelist=n4,n5",
            "--begin",
            "now+1hour",
            "--nice=20",
            "--reserv=r",
            "-q",
            "high",
            "--mail-type=END",
            "--export=NONE",
        ]);
        assert!(sbatch_options.asks.exclusive && sbatch_options.not_counted.is_empty(), "{sbatch_options:?}");
        assert_eq!(sbatch_options.asks.features.as_deref(), Some("ib&a100"));
        let names =
            |list: &BTreeSet<NodeName>| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(
            (names(&sbatch_options.asks.exclude), names(&sbatch_options.asks.nodelist)),
            ("n1 n2".to_owned(), "n4 n5".to_owned())
        );
        assert_eq!(
            (sbatch_options.further.begin, sbatch_options.further.nice),
            (Some(Time(1_003_600.0)), 20)
        );
        assert_eq!(
            (sbatch_options.further.reservation.as_deref(), sbatch_options.further.qos.as_deref()),
            (Some("r"), Some("high"))
        );
        assert_eq!(read(&["--nice", "-q", "a", "--qos=b"]).further.nice, 100);
        assert_eq!(read(&["-q", "a", "--qos=b"]).further.qos.as_deref(), Some("b"));
    }

    #[test]
    fn what_no_estimate_counts_is_named() {
        let left = |words: &[&str]| read(words).not_counted.join(" ");
        assert_eq!(left(&["--licenses=matlab:1", "-L", "ansys"]), "--licenses=ansys");
        assert_eq!(
            left(&["--licen", "matlab:1", "--hold", "--contiguous"]),
            "--licenses=matlab:1 --hold --contiguous"
        );
        assert_eq!(left(&["-d", "afterok:1", "--exclusive=user"]), "--dependency=afterok:1 --exclusive=user");
        assert_eq!(
            left(&["--begin=next week", "--nice=x", "--reservation=a,b"]),
            "--begin=next week --nice=x --reservation=a,b"
        );
        assert_eq!(left(&["--constraint=[a|b]", "-C", "a*2"]), "--constraint=a*2");
        assert_eq!(left(&["-C", "a*2", "-C", "a"]), "");
        assert_eq!(left(&["-w", "./file", "-t", "60"]), "--nodelist=./file --time=60");
        assert_eq!(
            left(&["--mail-user=me", "-e", "x", "--comment=time", "--", "-", "odd", "--container-image=y"]),
            ""
        );
    }
}
