//! The ended jobs of all users in the last week, from one call of `sacct`.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::record::{FIELD_END, excerpt, unreadable, value};
use crate::{CommandLine, ParseError, SlurmState, Tres, amount, time};
use hsched_model::number::to_f64;
use hsched_model::{Cluster, GpuType, NodeName, Seconds, Time, hostlist};
use hsched_queue::{Asks, EndedJob, GpuAsk};

/// The requested fields; Slurm 20.11 and later have them all, and none is free text.
pub(crate) const FIELDS: [&str; 14] = [
    "User",
    "Account",
    "Partition",
    "State",
    "Submit",
    "Start",
    "End",
    "TimelimitRaw",
    "NNodes",
    "NCPUS",
    "AllocTRES",
    "ReqTRES",
    "NodeList",
    "QOS",
];

/// Number of days covered.
const DAYS: i64 = 7;

/// Returns the command line that prints all users' jobs of the last seven days, in these partitions or in all.
pub fn command(now: DateTime<Utc>, partitions: &[String]) -> CommandLine {
    jobs_of(TimeDelta::days(DAYS), now, partitions)
}

/// Returns the command line that prints all users' jobs of the last `time`.
pub fn later_command(time: Seconds, now: DateTime<Utc>, partitions: &[String]) -> CommandLine {
    let time = Duration::try_from_secs_f64(time.0).ok().and_then(|time| TimeDelta::from_std(time).ok());
    jobs_of(time.unwrap_or_default(), now, partitions)
}

fn jobs_of(time: TimeDelta, now: DateTime<Utc>, partitions: &[String]) -> CommandLine {
    let mut args: Vec<String> = ["--allusers", "-X", "-n", "--parsable2"].map(str::to_owned).into();
    args.push(format!("--delimiter={FIELD_END}"));
    args.push(format!("--format={}", FIELDS.join(",")));
    args.push(format!("--starttime={}", time::text(now - time)));
    args.push(format!("--endtime={}", time::text(now)));
    if !partitions.is_empty() {
        args.push(format!("--partition={}", partitions.join(",")));
    }
    CommandLine::new("sacct", args)
}

/// Returns the jobs that have ended, and notes on unreadable lines and on missing records of GPUs.
///
/// # Errors
/// If no line can be read although the output is not empty.
pub fn parse(text: &str, cluster: &Cluster) -> Result<(Vec<EndedJob>, Vec<String>), ParseError> {
    let (mut ended, mut unread) = (Vec::new(), Vec::new());
    let mut lines = 0_usize;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        lines += 1;
        let mut fields: Vec<&str> = line.split(FIELD_END).collect();
        // Answers that an earlier version stored have no QOS.
        if fields.len() + 1 == FIELDS.len() {
            fields.push("");
        }
        match <[&str; FIELDS.len()]>::try_from(fields) {
            Ok(fields) => ended.extend(job(&fields, cluster)),
            Err(fields) => unread.push(excerpt(&fields.join("|"))),
        }
    }
    if lines > 0 && unread.len() == lines {
        return Err(unreadable("sacct", text));
    }
    let mut notes = Vec::new();
    if let Some(first) = unread.first() {
        notes.push(format!("cannot parse {} of the lines of sacct, such as {first:?}", unread.len()));
    }
    let has_gpus = cluster.nodes.iter().any(|node| !node.gpus.is_empty());
    if has_gpus && !ended.is_empty() && ended.iter().all(|job| job.asks.gpus.is_empty()) {
        notes.push("Slurm's accounting does not record GPUs (AccountingStorageTRES)".to_owned());
    }
    Ok((ended, notes))
}

/// Returns the time from which the history requested at `at` has all submissions: no earlier than its first
/// job.
///
/// Jobs submitted before the last seven days are included only if they ended within them.
pub(super) fn since(ended: &[EndedJob], at: Time) -> Time {
    let asked = at.0 - to_f64(DAYS) * 86400.0;
    let first = ended.iter().map(|job| job.submitted.0).fold(f64::INFINITY, f64::min);
    Time(if first.is_finite() { first.max(asked) } else { asked })
}

/// Returns a job that has ended; `None` if it has not, or if its submission or end has no readable date.
fn job(fields: &[&str; FIELDS.len()], cluster: &Cluster) -> Option<EndedJob> {
    let [user, account, partition, state, submit, start, end, limit, nodes, cpus, given, asked, names, qos] =
        *fields;
    if !SlurmState::parse(state).is_final() {
        return None;
    }
    let date = |text: &str| time::unix(text).map(Time);
    let owned = |text: &str| value(text).map(str::to_owned);
    let (started, ended) = (date(start), date(end)?);
    // Jobs that never started have no allocated resources.
    let given = Tres::parse(if value(given).is_some() { given } else { asked });
    let count = given.nodes.or_else(|| amount::count(nodes)).unwrap_or(1).max(1);
    let cpus = given.cpus.or_else(|| amount::count(cpus));
    Some(EndedJob {
        user: owned(user),
        account: owned(account),
        qos: owned(qos),
        partition: owned(partition),
        asks: Asks {
            nodes: u32::try_from(count).unwrap_or(u32::MAX),
            gpus: gpus(&given, count, names, cluster),
            cpus: cpus.map(|cpus| cpus.div_ceil(count)),
            memory_mib: given.memory.map(|bytes| bytes.whole_mebibytes().div_ceil(count)),
            ..Asks::default()
        },
        priority: None,
        limit_s: limit.trim().parse::<u32>().ok().map(|minutes| Seconds(f64::from(minutes) * 60.0)),
        submitted: date(submit)?,
        started: started.filter(|start| *start <= ended),
        ended,
    })
}

/// Returns the GPUs on each node; untyped ones get the type of the first node if it has only one.
fn gpus(given: &Tres, nodes: u64, names: &str, cluster: &Cluster) -> Vec<GpuAsk> {
    let first = hostlist::expand(names).ok().and_then(|names| NodeName::new(names.first()?).ok());
    let stocks = first.and_then(|name| cluster.node(&name)).map_or(&[][..], |node| &node.gpus);
    let only = if let [stock] = stocks { Some(&stock.gpu_type) } else { None };
    let ask = |(gpu_type, count): &(GpuType, u32)| GpuAsk {
        gpu_type: if *gpu_type == GpuType::untyped() { only.cloned() } else { Some(gpu_type.clone()) },
        count: u32::try_from(u64::from(*count).div_ceil(nodes)).unwrap_or(u32::MAX),
    };
    given.gres.gpus.iter().filter(|(_, count)| *count > 0).map(ask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinfo;

    const TEXT: &str = "\
man|astro|gpu|TIMEOUT|2026-11-22T17:48:54|2026-11-22T17:48:57|2026-11-22T18:49:06|60|1|8|billing=8,cpu=8,gres/gpu:t4=1,gres/gpu=1,mem=28800M,node=1|cpu=8|t1|high
bin|bio|gpu|COMPLETED|2026-11-22T17:48:54|2026-11-22T17:50:00|2026-11-22T18:00:00|720|2|4|cpu=4,gres/gpu=8,mem=8G,node=2||v[1-2]
bin|bio|gpu|CANCELLED by 2|2026-11-22T17:48:54|None|2026-11-22T18:00:00|Partition_Limit|1|1||cpu=1,gres/gpu:v100=2,node=1|None assigned
bin|bio|gpu|RUNNING|2026-11-22T17:48:54|2026-11-22T17:48:57|Unknown|720|1|1|cpu=1||v1
bin|bio|gpu|PENDING|2026-11-22T17:48:54|Unknown|Unknown|720|1|1|||None assigned
";

    fn cluster() -> Cluster {
        sinfo::tests::cluster(&["v[1-2]|gpu*|1:00|idle|gpu:v100:4|(null)|0/8/0/8|1|0||"])
    }

    fn read(text: &str) -> (Vec<EndedJob>, Vec<String>) {
        parse(&text.replace('|', "\u{1f}"), &cluster()).expect("readable")
    }

    #[test]
    fn a_week_of_everybody_is_one_question() {
        let now = DateTime::from_timestamp(1_795_273_000, 0).expect("a date");
        let shown = command(now, &["gpu".to_owned(), "short".to_owned()]).to_string();
        assert!(shown.starts_with(r"sacct --allusers -X -n --parsable2 $'--delimiter=\u001f'"), "{shown}");
        assert!(shown.ends_with("'--partition=gpu,short'"), "{shown}");
        assert!(!command(now, &[]).to_string().contains("--partition"));
    }

    #[test]
    fn ended_jobs_have_what_they_asked_for_and_how_long_they_took() {
        let (ended, notes) = read(TEXT);
        assert_eq!(notes, [""; 0]);
        let [one, two, never] = ended.as_slice() else { panic!("three: {ended:?}") };
        assert_eq!((one.user.as_deref(), one.limit_s), (Some("man"), Some(Seconds(3600.0))));
        assert_eq!((one.qos.as_deref(), two.qos.as_deref()), (Some("high"), None));
        assert!((one.ended.0 - one.started.expect("a start").0 - 3609.0).abs() < 1e-9);
        assert_eq!((one.asks.gpus[0].count, one.asks.cpus, one.asks.memory_mib), (1, Some(8), Some(28800)));
        let typed =
            |job: &EndedJob| job.asks.gpus[0].gpu_type.as_ref().map(|gpu_type| gpu_type.as_str().to_owned());
        assert_eq!((typed(one).as_deref(), typed(two).as_deref()), (Some("t4"), Some("v100")));
        assert_eq!((two.asks.nodes, two.asks.gpus[0].count, two.asks.memory_mib), (2, 4, Some(4096)));
        assert_eq!((never.started, never.limit_s, never.asks.gpus[0].count), (None, None, 2));
    }

    #[test]
    fn the_history_is_whole_since_its_first_job_or_for_a_week() {
        let (ended, _) = read(TEXT);
        let first = ended[0].submitted;
        assert_eq!(since(&ended, Time(first.0 + 3600.0)), first);
        assert_eq!(since(&ended, Time(first.0 + 8.0 * 86400.0)), Time(first.0 + 86400.0));
        assert_eq!(since(&[], Time(7.0 * 86400.0)), Time(0.0));
    }

    #[test]
    fn what_is_missing_is_said() {
        let (_, notes) = read(
            "man|astro|gpu|TIMEOUT|2026-11-22T17:48:54|2026-11-22T17:48:57|2026-11-22T18:49:06|60|1|8|cpu=8||v1\nodd\n",
        );
        assert_eq!(
            notes,
            [
                "cannot parse 1 of the lines of sacct, such as \"odd\"",
                "Slurm's accounting does not record GPUs (AccountingStorageTRES)"
            ]
        );
        assert!(parse("SLURM accounting storage is disabled\n", &cluster()).is_err());
        assert_eq!(read(""), (vec![], vec![]));
    }
}
