//! All users' jobs of a cluster from the accounting, read as recorded jobs: `sacct -P` with a header, its
//! variant with commas, and `sacct --json`.

mod json;

use std::borrow::Cow;
use std::collections::BTreeSet;

use hsched_lab::trace::table::{self, LineCells, NoEntry, ParsedEntries};
use hsched_lab::trace::{RecordedJob, TraceError, usable};
use hsched_model::GpuType;
use hsched_slurm::{SlurmState, Tres, amount, time};

/// Reads jobs that ran on GPUs from the output of `sacct -P`, with `|`, `,` or tab between the cells, or of
/// `sacct --json`. GPUs without a type get the type `untyped`, if it is given.
///
/// Requires the columns `JobID` or `JobIDRaw`, `Submit`, `Elapsed` or `ElapsedRaw`, and `AllocTRES`,
/// `AllocGRES` or `ReqTRES`. Skips job steps, pending jobs, and jobs without GPUs or with GPUs of several
/// types. The run time of a running job is its time so far.
///
/// # Errors
/// If there is no header, a column is missing, or JSON is invalid or has no list of jobs.
pub(super) fn parse(text: &str, untyped: Option<&GpuType>) -> Result<ParsedEntries<RecordedJob>, TraceError> {
    if text.trim_start().starts_with('{') {
        return json::parse(text, untyped);
    }
    let (text, mark) = delimited(text);
    let (id, elapsed): (&[&str], &[&str]) = (&["JobID", "JobIDRaw"], &["ElapsedRaw", "Elapsed"]);
    let tres: &[&str] = &["AllocTRES", "AllocGRES", "ReqTRES"];
    table::read(&text, mark, &[id, &["Submit"], elapsed, tres], |cells| {
        let id = cells.text(id)?;
        if id.contains('.') {
            return Err(NoEntry::Skipped("steps"));
        }
        if cells.get(&["State"]).is_some_and(|state| SlurmState::parse(state) == SlurmState::Pending) {
            return Err(NoEntry::Skipped("still waiting"));
        }
        let (gpus, gpu_type) = gpus(cells.get(tres).unwrap_or_default(), untyped)?;
        let submit = cells.text(&["Submit"])?;
        let arrival =
            time::unix(submit).ok_or_else(|| NoEntry::Bad(format!("Submit is not a date: {submit:?}")))?;
        let name = cells.get(&["JobName"]).unwrap_or("job");
        usable(RecordedJob {
            name: format!("{name}-{id}"),
            arrival,
            seconds: seconds(cells)?,
            gpus,
            gpu_types: BTreeSet::from([gpu_type]),
        })
    })
}

/// Returns the table and its separator. If that is a comma and the text has no quotes, TRES, which contain
/// commas, are quoted as one cell.
fn delimited(text: &str) -> (Cow<'_, str>, u8) {
    let header = text.lines().next().unwrap_or_default();
    let Some(mark) = ['|', '\t', ','].into_iter().find(|mark| header.contains(*mark)) else {
        return (Cow::Borrowed(text), b'|');
    };
    if mark != ',' || text.contains('"') {
        return (Cow::Borrowed(text), u8::try_from(mark).unwrap_or(b'|'));
    }
    let count = header.split(',').count();
    (Cow::Owned(text.lines().map(|line| quoted(line, count) + "\n").collect()), b',')
}

/// Quotes the TRES of a comma-separated line with too many cells. A repeated key begins the next TRES.
fn quoted(line: &str, count: usize) -> String {
    let parts: Vec<&str> = line.split(',').collect();
    if parts.len() <= count {
        return line.to_owned();
    }
    let mut cells: Vec<Vec<&str>> = Vec::new();
    for part in parts {
        let key = |part: &str| part.split_once('=').map(|(key, _)| key.to_owned());
        match (cells.last_mut(), key(part)) {
            (Some(cell), Some(name))
                if cell.iter().all(|part| key(part).is_some_and(|other| other != name)) =>
            {
                cell.push(part);
            }
            _ => cells.push(vec![part]),
        }
    }
    let cell =
        |parts: &Vec<&str>| if parts.len() > 1 { format!("\"{}\"", parts.join(",")) } else { parts.join("") };
    cells.iter().map(cell).collect::<Vec<_>>().join(",")
}

fn seconds(cells: &LineCells<'_>) -> Result<f64, NoEntry> {
    if cells.get(&["ElapsedRaw"]).is_some() {
        return cells.number(&["ElapsedRaw"]);
    }
    let text = cells.text(&["Elapsed"])?;
    let duration = amount::duration(text).map(|seconds| seconds.0);
    duration.ok_or_else(|| NoEntry::Bad(format!("Elapsed is not a duration: {text:?}")))
}

/// Returns the number and type of a job's GPUs.
fn gpus(text: &str, untyped: Option<&GpuType>) -> Result<(u32, GpuType), NoEntry> {
    let gres = Tres::parse(text).gres;
    if gres.gpus.is_empty() && ["gres/gpu:", "gres/gpu="].iter().any(|word| text.contains(word)) {
        return Err(NoEntry::Bad(format!("cannot read a number of GPUs from {text:?}")));
    }
    let mut held = gres.gpus.into_iter().filter(|(_, count)| *count > 0);
    let Some((gpu_type, count)) = held.next() else { return Err(NoEntry::Skipped("no GPUs")) };
    if held.next().is_some() {
        return Err(NoEntry::Skipped("GPUs of several types"));
    }
    let gpu_type = if gpu_type == GpuType::untyped() {
        untyped.cloned().ok_or(NoEntry::Skipped("GPUs without a type; set it with --type"))?
    } else {
        gpu_type
    };
    Ok((count, gpu_type))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
JobID|JobName|State|Submit|Start|End|Elapsed|AllocTRES
7|train me|COMPLETED|2026-10-01T10:00:00|2026-10-01T10:05:00|2026-10-01T11:05:00|01:00:00|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1
7.batch|batch|COMPLETED|2026-10-01T10:05:00|2026-10-01T10:05:00|2026-10-01T11:05:00|01:00:00|cpu=8,gres/gpu:a100=2,gres/gpu=2
8_1|array|TIMEOUT|2026-10-01T10:00:30|2026-10-01T10:05:00|2026-10-03T10:05:00|2-00:00:00|cpu=8,gres/gpu=1
9|cpu|COMPLETED|2026-10-01T10:01:00|2026-10-01T10:05:00|2026-10-01T10:05:10|00:00:10|cpu=8
10|waits|PENDING|2026-10-01T10:01:00|Unknown|Unknown|00:00:00|
11|odd|COMPLETED|yesterday|Unknown|Unknown|00:10:00|gres/gpu:a100=1
12|odd|COMPLETED|2026-10-01T10:01:00|x|y|long|gres/gpu:a100=1
13|pipe|in|name|COMPLETED|2026-10-01T10:01:00|x|y|00:10:00|gres/gpu:a100=1
15|odd|COMPLETED|2026-10-01T10:01:00|x|y|00:10:00|cpu=1,gres/gpu:t4=x
14|both|COMPLETED|2026-10-01T10:01:00|x|y|00:10:00|gres/gpu:a100=1,gres/gpu:v100=1,gres/gpu=2
";

    #[test]
    fn jobs_on_gpus_are_found_and_others_are_said() {
        let read = parse(TEXT, None).expect("a table");
        assert_eq!(read.entries.len(), 1);
        let recorded = &read.entries[0];
        assert_eq!((recorded.name.as_str(), recorded.seconds, recorded.gpus), ("train me-7", 3600.0, 2));
        let bad: Vec<String> = read.bad.iter().map(ToString::to_string).collect();
        assert_eq!(
            bad,
            [
                "line 7: Submit is not a date: \"yesterday\"",
                "line 8: Elapsed is not a duration: \"long\"",
                "line 9: has 10 cells, but the header has 8",
                "line 10: cannot read a number of GPUs from \"cpu=1,gres/gpu:t4=x\""
            ]
        );
        let skipped: Vec<_> = read.skipped.into_iter().collect();
        let untyped = "GPUs without a type; set it with --type";
        assert_eq!(
            skipped,
            [("GPUs of several types", 1), (untyped, 1), ("no GPUs", 1), ("steps", 1), ("still waiting", 1)]
        );
    }

    #[test]
    fn gpus_without_a_type_get_the_one_that_is_said() {
        let v100 = GpuType::new("v100").expect("a type");
        let read = parse(TEXT, Some(&v100)).expect("a table");
        let recorded = &read.entries[1];
        assert_eq!(
            (recorded.gpus, recorded.seconds, recorded.arrival - read.entries[0].arrival),
            (1, 172_800.0, 30.0)
        );
        assert!(recorded.gpu_types.contains(&v100));
    }

    #[test]
    fn commas_and_tabs_between_cells_are_read_like_bars() {
        let header = "JobID|JobName|State|Submit|Elapsed|ReqTRES|AllocTRES";
        let line = "7|train|COMPLETED|2026-10-01T10:00:00|01:00:00|cpu=8,gres/gpu=2|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G";
        let bars = format!("{header}\n{line}\n8|odd|COMPLETED|2026-10-01T10:00:00|01:00:00||cpu=1\n");
        let expected = parse(&bars, None).expect("a table");
        assert_eq!((expected.entries.len(), expected.entries[0].gpus, expected.bad.len()), (1, 2, 0));
        for mark in [",", "\t"] {
            assert_eq!(parse(&bars.replace('|', mark), None).as_ref().ok(), Some(&expected), "{mark:?}");
        }
        let quoted =
            "JobID,Submit,Elapsed,AllocTRES\n7,2026-10-01T10:00:00,01:00:00,\"cpu=8,gres/gpu:a100=2\"\n";
        assert_eq!(parse(quoted, None).expect("a table").entries.len(), 1);
    }

    #[test]
    fn output_without_a_header_is_refused() {
        let error = parse("7|a|COMPLETED\n", None).expect_err("no header").to_string();
        assert_eq!(error, "there is no column JobID or JobIDRaw; the columns are 7, a, COMPLETED");
    }

    proptest! {
        #[test]
        fn no_output_panics(text in "([A-Za-z0-9:=,/.-]{0,9}[|\n]){0,40}") {
            let text = format!("JobID|Submit|Elapsed|AllocTRES\n{text}");
            let _ = parse(&text, None);
            let _ = parse(&text.replace('|', ","), None);
        }
    }
}
