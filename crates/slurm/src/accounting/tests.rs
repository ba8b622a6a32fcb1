//! Rows of `sacct`, as text.

use proptest::prelude::*;

use super::*;
use hsched_model::{Seconds, Time};

const HEADER: &str = "JobIDRaw|JobName|Partition|State|ExitCode|Submit|Start|End|Timelimit|ReqTRES|AllocTRES|NNodes|NTasks|ReqMem|MaxRSS|TotalCPU|TRESUsageInAve";

/// A job of two hours on two GPUs, with a step of one and a half hours and two tasks.
const JOB: &str = "\
7|train me|gpu|COMPLETED|0:0|2026-10-01T09:00:00|2026-10-01T10:00:00|2026-10-01T12:00:00|1-00:00:00|cpu=8,mem=64G,node=1,gres/gpu=2|cpu=8,mem=64G,node=1,gres/gpu:a100=2,gres/gpu=2|1||64Gn||08:00:00|
7.extern|extern||COMPLETED|0:0|2026-10-01T10:00:00|2026-10-01T10:00:00|2026-10-01T12:00:00|||cpu=8|1|1||1M|00:00.000|
7.0|python||COMPLETED|0:0|2026-10-01T10:30:00|2026-10-01T10:30:00|2026-10-01T12:00:00|||cpu=8,gres/gpu:a100=2,gres/gpu=2|1|2||10G|08:00:00|cpu=08:00:00,gres/gpuutil=60
";

fn date(text: &str) -> Option<Time> {
    time::without_zone(text).map(Time)
}

fn read(rows: &str) -> Accounting {
    Accounting::parse(format!("{HEADER}\n{rows}").as_bytes(), date).expect("a header")
}

fn one(rows: &str) -> AccountedRun {
    let found = read(rows);
    assert_eq!((found.runs.len(), found.odd.as_slice()), (1, [].as_slice()), "{found:?}");
    found.runs.into_iter().next().expect("one")
}

fn odd(rows: &str) -> Vec<(usize, String)> {
    read(rows).odd.into_iter().map(|row| (row.line, row.why)).collect()
}

#[test]
fn a_run_asks_and_uses() {
    let run = one(JOB);
    assert_eq!((run.name.as_str(), run.partition.as_deref()), ("train me", Some("gpu")));
    assert_eq!(
        (run.elapsed(), run.waited(), run.limit),
        (Seconds(7200.0), Seconds(3600.0), Some(Seconds(86_400.0)))
    );
    assert_eq!((run.nodes, run.cpus, run.gpus, run.tasks), (1, Some(8), Some(2), 2));
    assert_eq!(run.memory, Some(AskedMemory { mib: 65_536.0, is_per_cpu: false }));
    assert_eq!((run.used_mib(), run.used_cpus()), (Some(20_480.0), Some(4.0)));
    // Two tasks use 60 % of two GPUs for three quarters of the time.
    assert!((run.idle_share().expect("measured") - 0.55).abs() < 1e-12);
}

#[test]
fn memory_is_asked_for_in_many_forms() {
    let check = |memory: &str, nodes: &str, mib: Option<f64>, is_per_cpu: bool| {
        let job = JOB.lines().next().expect("a job").replace("|1||64Gn|", &format!("|{nodes}||{memory}|"));
        assert_eq!(one(&job).memory, mib.map(|mib| AskedMemory { mib, is_per_cpu }), "{memory}");
    };
    check("62.50Gn", "1", Some(64_000.0), false);
    check("4Gc", "1", Some(32_768.0), true);
    check("64G", "2", Some(32_768.0), false);
    // All memory of the node, and a missing column.
    check("0n", "1", Some(65_536.0), false);
    check("", "2", Some(32_768.0), false);
}

#[test]
fn jobs_that_did_not_run_are_no_runs() {
    let rows = "\
1|a|gpu|CANCELLED by 5|0:0|2026-10-01T09:00:00|Unknown|2026-10-01T10:00:00|UNLIMITED|cpu=1||1||1G|||
2|a|gpu|CANCELLED|0:0|2026-10-01T09:00:00|None|2026-10-01T10:00:00|Partition_Limit|cpu=1||1||1G|||
3|a|gpu|RUNNING|0:0|2026-10-01T09:00:00|2026-10-03T09:00:00|Unknown|01:00:00|cpu=1|cpu=1|1||1G|||
3.0|a||RUNNING|0:0|2026-10-03T09:00:00|2026-10-03T09:00:00|Unknown|||cpu=1|1|1|||00:00:00|
4|a|gpu|PENDING|0:0|2026-10-02T09:00:00|Unknown|Unknown|01:00:00|cpu=1||1||1G|||
";
    let found = read(rows);
    assert_eq!((found.runs.len(), found.odd), (0, vec![]));
    // A running job counts with its start.
    assert_eq!(found.newest, date("2026-10-03T09:00:00"));
}

#[test]
fn an_attempt_counts_once_however_often_it_is_pulled() {
    let shuffled = "State|End|Start|Submit|JobName|JobIDRaw|Cluster|MaxRSS\n\
                    COMPLETED|2026-10-01T12:00:00|2026-10-01T10:00:00|2026-10-01T09:00:00|train me|7|c|\n\
                    FAILED|2026-10-02T12:00:00|2026-10-02T10:00:00|2026-10-01T12:00:30|train me|7|c|\n";
    let text = format!("{JOB}{HEADER}\n\n{JOB}{shuffled}");
    for text in [text.clone(), text.replace('\n', "\r\n")] {
        let found = read(&text);
        assert_eq!(found.odd, []);
        let states: Vec<String> = found.runs.iter().map(|run| run.state.to_string()).collect();
        assert_eq!(states, ["COMPLETED", "FAILED"]);
        assert_eq!(found.runs[0], one(JOB));
        assert_eq!(found.missing.len(), 10);
    }
}

#[test]
fn rows_that_make_no_sense_are_named() {
    let of = |line: usize, why: &str| vec![(line, why.to_owned())];
    assert_eq!(odd(&format!("{JOB}7|train me|gpu\n")), of(5, "too few columns: 3 for the 17 of the header"));
    assert_eq!(
        odd(&JOB.replacen("train me", "a|b", 1)),
        of(2, "too many columns: 18 for the 17 of the header")
    );
    assert_eq!(
        odd(&JOB.replacen("2026-10-01T12:00:00", "2026-02-30T25:61:00", 1)),
        of(2, "End cannot be read: \"2026-02-30T25:61:00\"")
    );
    assert_eq!(odd(&JOB.replacen("T12:00", "T09:59", 1)), of(2, "End is before Start"));
    assert_eq!(odd(&JOB.replace("1-00:00:00", "soon")), of(2, "Timelimit cannot be read: \"soon\""));
    assert_eq!(odd(&JOB.replace("|10G|", "|10X|")), of(4, "MaxRSS cannot be read: \"10X\""));
    assert_eq!(odd(&JOB.replace("7.0|", "8.0|")), of(4, "a step of job 8, whose row is not above"));
    assert_eq!(odd("\0\0\0\n"), of(2, "too few columns: 1 for the 17 of the header"));
}

#[test]
fn a_text_without_a_header_is_refused() {
    let check = |text: &str| Accounting::parse(text.as_bytes(), date).expect_err("no header").to_string();
    assert_eq!(check(""), "the file is empty");
    assert_eq!(check("\n \n"), "the file is empty");
    assert_eq!(check("\nJobIDRaw|State|End\n"), "line 2: the header has no column JobName, Submit, Start");
    let late = format!("$ sacct\n{HEADER}\n{JOB}");
    let found = Accounting::parse(late.as_bytes(), date).expect("a header");
    assert_eq!((found.runs.len(), found.odd.len(), found.odd[0].line), (1, 1, 1));
}

#[test]
fn slices_and_gpus_without_a_measurement_are_not_idle() {
    assert_eq!(one(&JOB.replace("gres/gpuutil=60", "pages=0")).idle_share(), None);
    assert_eq!(one(&JOB.replace("gpu:a100", "gpu:1g.10gb")).idle_share(), None);
}

#[test]
fn one_call_asks_for_the_users_own_jobs() {
    let since = DateTime::from_timestamp(1_795_273_000, 0).expect("a date");
    let shown = command("alice", since).to_string().replace(&time::text(since), "DATE");
    let columns = COLUMNS.join(",");
    let expected = format!(
        "sacct --duplicates --parsable2 $'--delimiter=\\u001f' '--format={columns}' '--starttime=DATE' '--user=alice'"
    );
    assert_eq!(shown, expected);
    let framed = format!("{HEADER}\n{JOB}").replace('|', "\u{1f}").replace("train me", "a|b");
    let found = Accounting::parse(framed.as_bytes(), date).expect("a header");
    assert_eq!(found.runs[0].name, "a|b");
}

proptest! {
    #[test]
    fn no_text_panics(rows in "([0-9A-Z.:+,=TGKn-]{0,20}[|\n]){0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut text = format!("{HEADER}\n{rows}\n").into_bytes();
        text.extend(&bytes);
        let found = Accounting::parse(&text, date).expect("a header");
        crate::review::review(&found.runs);
        let _ = Accounting::parse(&bytes, date);
    }
}
