//! Ended jobs as `sacct` prints them, in one call for many jobs.

use chrono::{DateTime, Utc};

use crate::record::{FIELD_END, excerpt, one_line, unreadable, value};
use crate::{CommandLine, ExitStatus, JobId, JobRecord, ParseError, SlurmState, time};

/// The requested fields; Slurm 20.11 and later have them all. Free text comes last.
pub(super) const FIELDS: [&str; 12] = [
    "JobIDRaw",
    "JobID",
    "State",
    "ExitCode",
    "DerivedExitCode",
    "Submit",
    "Start",
    "End",
    "Partition",
    "NodeList",
    "JobName",
    "Comment",
];

/// Returns the command line that prints all attempts and steps of the jobs with these ids, or of all jobs that
/// the user may see if there are no ids. The id of a heterogeneous job's first component stands for all its
/// components.
///
/// `since` is before the jobs ended; it saves the database a search through its whole history.
pub fn command(ids: &[JobId], since: DateTime<Utc>) -> CommandLine {
    // Without `--duplicates`, an id that Slurm assigned twice shows only one of its jobs.
    let fixed = ["-n", "--parsable2", "--duplicates"].map(str::to_owned);
    let mut args = Vec::from(fixed);
    args.push(format!("--delimiter={FIELD_END}"));
    args.push(format!("--format={}", FIELDS.join(",")));
    args.push(format!("--starttime={}", time::text(since)));
    if !ids.is_empty() {
        args.push(format!("--jobs={}", ids.iter().map(JobId::to_string).collect::<Vec<_>>().join(",")));
    }
    CommandLine::new("sacct", args)
}

/// Returns the command line that prints a user's jobs with these ids, or all of the user's jobs if there are no
/// ids.
pub fn own_command(ids: &[JobId], user: &str, since: DateTime<Utc>) -> CommandLine {
    let mut command = command(ids, since);
    command.args.extend(of_user(user));
    command
}

/// Returns the command line that prints a user's jobs with this name.
pub fn named_command(name: &str, user: &str, since: DateTime<Utc>) -> CommandLine {
    let mut command = command(&[], since);
    command.args.push(format!("--name={name}"));
    command.args.extend(of_user(user));
    command
}

/// Returns the option for the jobs of one user; none if the system does not know the user's name. Without it,
/// root and operators get the jobs of all users.
pub(super) fn of_user(user: &str) -> Option<String> {
    (!user.is_empty()).then(|| format!("--user={user}"))
}

/// Returns the command line that prints a job of any user, if the site shows it.
pub fn any_user_command(id: JobId, since: DateTime<Utc>) -> CommandLine {
    let mut command = command(&[id], since);
    command.args.push("--allusers".to_owned());
    command
}

/// Returns the command line that prints a task of an array (`11_3`) of any user, if the site shows it.
pub fn task_command(task: &str, since: DateTime<Utc>) -> CommandLine {
    let mut command = command(&[], since);
    command.args.extend([format!("--jobs={task}"), "--allusers".to_owned()]);
    command
}

/// Returns the printed rows of an array task and its steps.
pub fn rows_of_task(text: &str, task: &str) -> String {
    let is_of = |row: &String| {
        let shown = row.split(FIELD_END).nth(1).map(str::trim);
        let rest = shown.and_then(|shown| shown.strip_prefix(task));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    rows(text).into_iter().filter(is_of).map(|row| row + "\n").collect()
}

/// Returns the jobs in printed order, one record for each attempt, and notes on unreadable lines.
///
/// # Errors
/// If no record can be read although the output is not empty.
pub fn parse(text: &str) -> Result<(Vec<JobRecord>, Vec<String>), ParseError> {
    let (mut jobs, mut notes) = (Vec::<JobRecord>::new(), Vec::new());
    for row in rows(text) {
        let fields: Vec<&str> = row.split(FIELD_END).collect();
        match fields.first().and_then(|id| numbered(id)) {
            // The steps of an attempt follow it.
            Some((id, true)) => {
                if let Some(job) = jobs.last_mut().filter(|job| job.id == id) {
                    job.out_of_memory |= is_out_of_memory(&fields);
                }
            }
            Some((id, false)) if let Some(job) = job(id, &fields) => jobs.push(job),
            _ => notes.push(format!("cannot parse a line of sacct output: {:?}", excerpt(&fields.join("|")))),
        }
    }
    if jobs.is_empty() && !text.trim().is_empty() {
        return Err(unreadable("sacct", text));
    }
    Ok((jobs, notes))
}

/// Returns each row; line breaks in a name or comment may split it into several lines.
fn rows(text: &str) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for line in text.lines() {
        // The name, which is the second-to-last field, is the first that can contain a line break.
        let is_row = line.matches(FIELD_END).count() + 2 >= FIELDS.len();
        match rows.last_mut() {
            Some(row) if !is_row && row.contains(FIELD_END) => {
                row.push('\n');
                row.push_str(line);
            }
            _ if line.trim().is_empty() => {}
            _ => rows.push(line.to_owned()),
        }
    }
    rows
}

/// Returns the job id in `12`, `12.batch` or `12.0`, and whether it belongs to a step.
fn numbered(raw: &str) -> Option<(JobId, bool)> {
    let (number, step) = raw.trim().split_once('.').map_or((raw.trim(), false), |(number, _)| (number, true));
    number.parse().ok().map(|number| (JobId(number), step))
}

fn job(id: JobId, fields: &[&str]) -> Option<JobRecord> {
    let (&fixed, free) = fields.split_first_chunk::<{ FIELDS.len() - 2 }>()?;
    let [_, shown_id, state, exit, step_exit, submit, start, end, partition, nodes] = fixed;
    let (comment, name) = free.split_last()?;
    let state = SlurmState::parse(state);
    let owned = |text: &str| value(text).map(str::to_owned);
    let status = |text: &str| state.is_final().then(|| ExitStatus::parse(text)).flatten();
    // Rows that began with a job's end or with a step get their partition once all data have arrived.
    let settled = state.is_final() && value(end).is_some() && value(partition).is_some();
    Some(JobRecord {
        id,
        het: component(shown_id),
        array: shown_id.split_once('_').and_then(|(array, _)| array.parse().ok()).map(JobId),
        name: one_line(&name.concat()),
        reason: None,
        submit_time: owned(submit),
        start_time: owned(start),
        end_time: owned(end),
        exit: status(exit),
        step_exit: status(step_exit),
        out_of_memory: is_out_of_memory(fields),
        nodes: value(nodes).filter(|text| *text != "None assigned").unwrap_or_default().to_owned(),
        comment: owned(comment),
        settled,
        state,
    })
}

/// Returns the first component's id and the index in `9+1`.
fn component(shown_id: &str) -> Option<(JobId, u32)> {
    let (leader, offset) = shown_id.split_once('+')?;
    Some((JobId(leader.parse().ok()?), offset.parse().ok()?))
}

/// Returns whether a row of a job or step reports that it ran out of memory.
fn is_out_of_memory(fields: &[&str]) -> bool {
    let field = |index: usize| fields.get(index).copied().unwrap_or_default();
    let says = |text: &str| ExitStatus::parse(text).is_some_and(ExitStatus::is_out_of_memory);
    SlurmState::parse(field(2)) == SlurmState::OutOfMemory || says(field(3)) || says(field(4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads rows written with `|` between the fields.
    fn read(text: &str) -> Vec<JobRecord> {
        let (jobs, notes) = parse(&text.replace('|', "\u{1f}")).expect("readable");
        assert_eq!(notes, [""; 0], "{text}");
        jobs
    }

    fn one(text: &str) -> JobRecord {
        let jobs = read(text);
        assert_eq!(jobs.len(), 1, "{text}");
        jobs.into_iter().next().expect("one")
    }

    #[test]
    fn many_jobs_are_one_question() {
        let since = DateTime::from_timestamp(1_795_273_000, 0).expect("a date");
        let command = |ids: &[JobId]| {
            let shown = command(ids, since).to_string();
            shown.replace(&time::text(since), "DATE")
        };
        let fixed = r"sacct -n --parsable2 --duplicates $'--delimiter=\u001f' '--format=JobIDRaw,JobID,State,ExitCode,DerivedExitCode,Submit,Start,End,Partition,NodeList,JobName,Comment' '--starttime=DATE'";
        assert_eq!(command(&[]), fixed);
        assert_eq!(command(&[JobId(7), JobId(12)]), format!("{fixed} '--jobs=7,12'"));
        let named = |user: &str| named_command("bert", user, since).to_string();
        assert!(named("alice").ends_with("'--name=bert' '--user=alice'"), "{}", named("alice"));
        assert!(named("").ends_with("'--name=bert'"), "{}", named(""));
    }

    #[test]
    fn ends_of_all_kinds_are_read() {
        let check = |state: &str, exits: &str, expected: SlurmState, exit: (u8, u8)| {
            let job = one(&format!("7|7|{state}|{exits}|a|b|c|gpu|v[1-2]|n|"));
            let status = ExitStatus { code: exit.0, signal: exit.1 };
            assert_eq!((job.state, job.exit, job.settled), (expected, Some(status), true), "{state}");
            assert_eq!((job.nodes.as_str(), job.comment.as_deref()), ("v[1-2]", None));
        };
        check("COMPLETED", "0:0|0:0", SlurmState::Completed, (0, 0));
        check("FAILED", "9:0|0:0", SlurmState::Failed, (9, 0));
        check("FAILED", "0:11|0:0", SlurmState::Failed, (0, 11));
        check("CANCELLED by 1000", "0:0|0:0", SlurmState::Cancelled, (0, 0));
        check("TIMEOUT", "0:0|0:0", SlurmState::Timeout, (0, 0));
        check("NODE_FAIL", "0:0|0:0", SlurmState::NodeFail, (0, 0));
        let odd = one("7|7|NEWLY_MADE|0:0|0:0|a|b|c|gpu|v1|n|");
        assert_eq!((odd.state, odd.settled), (SlurmState::Other("NEWLY_MADE".to_owned()), false));
    }

    #[test]
    fn components_have_a_place_and_steps_are_not_jobs() {
        let jobs = read(
            "8|8+0|FAILED|85:0|0:9|2026-11-21T14:56:07|s|e|gpu|m1|het|{\"hsched\":1,\"run\":\"r\",\"job\":\"j\"}\n\
             8.batch|8+0.batch|FAILED|85:0||s|s|e||m1|batch|\n\
             9|8+1|FAILED|85:0|0:0|2026-11-21T14:56:07|s|e|gpu|t1|het|\n\
             9.0|8+1.0|CANCELLED by 0|0:9||s|s|e||t1|sleep|\n",
        );
        let [first, second] = jobs.as_slice() else { panic!("two: {jobs:?}") };
        assert_eq!((first.id, first.het), (JobId(8), Some((JobId(8), 0))));
        assert_eq!((second.id, second.het), (JobId(9), Some((JobId(8), 1))));
        assert_eq!(first.submit_time.as_deref(), Some("2026-11-21T14:56:07"));
        assert_eq!(first.step_exit, Some(ExitStatus { code: 0, signal: 9 }));
        assert_eq!(first.tag().map(|tag| tag.job).as_deref(), Some("j"));
        assert!(!first.out_of_memory && !second.out_of_memory);
    }

    #[test]
    fn memory_is_told_by_the_job_or_by_a_step() {
        let job = "7|7|FAILED|0:9|0:0|a|b|c|gpu|v1|n|\n";
        let step = "7.0|7.0|OUT_OF_MEMORY|0:125||b|b|c||v1|s|\n";
        assert!(!one(job).out_of_memory);
        assert!(one(&format!("{job}{step}")).out_of_memory);
        assert!(one(&job.replace("0:0", "0:125")).out_of_memory);
        assert!(!one(&format!("{job}{}", step.replace('7', "8"))).out_of_memory);
    }

    /// Output of sacct in the first seconds of a job.
    #[test]
    fn provisional_rows_are_not_settled() {
        for row in [
            "27|27|PENDING|0:0|0:0|2026-11-21T15:02:57|2026-11-21T15:02:57|Unknown|||allocation|",
            "27|27|FAILED|4:0|0:0|2026-11-21T15:02:57|2026-11-21T15:02:57|2026-11-21T15:02:58||v1|allocation|",
            "27|27|RUNNING|0:0|0:0|2026-11-21T15:02:57|2026-11-21T15:02:57|Unknown|gpu|v1|mine|",
            "27|27|PENDING|0:0|0:0|2026-11-21T15:02:57|Unknown|Unknown|gpu|None assigned|mine|",
        ] {
            assert!(!one(row).settled, "{row}");
        }
        assert_eq!(one("7|7|PENDING|0:0|0:0|a|Unknown|Unknown|gpu|None assigned|n|").nodes, "");
    }

    #[test]
    fn of_several_attempts_the_latest_counts() {
        let jobs = read(
            "40|40|PENDING|0:0|0:0|2026-11-21T15:10:40|Unknown|Unknown|gpu|None assigned|n|\n\
             41|41|RUNNING|0:0|0:0|2026-11-21T15:10:33|b|Unknown|gpu|p1|n|\n\
             40|40|REQUEUED|0:0|0:0|2026-11-21T15:10:33|b|c|gpu|p1|n|\n",
        );
        let latest = |id| JobRecord::latest(&jobs, JobId(id)).map(|job| job.state.clone());
        assert_eq!(
            (latest(40), latest(41), latest(42)),
            (Some(SlurmState::Pending), Some(SlurmState::Running), None)
        );
    }

    #[test]
    fn names_and_comments_may_hold_anything() {
        let job = one("7|7|FAILED|3:0|0:0|a|b|c|gpu|v1|n\nm|l1\n7|l2");
        assert_eq!((job.name.as_str(), job.comment.as_deref()), ("n ml1 7", Some("l2")));
        let error = parse("slurm is away\n").expect_err("no sacct").to_string();
        assert_eq!(error, "the output of sacct could not be parsed; it begins with \"slurm is away\"");
        assert_eq!(parse("\n"), Ok((Vec::new(), Vec::new())));
    }

    #[test]
    fn lines_that_cannot_be_read_are_noted() {
        let row = "7|7|COMPLETED|0:0|0:0|a|b|c|gpu|v1|n|\n".replace('|', "\u{1f}");
        // The second line has an id, but too few fields.
        let (jobs, notes) = parse(&format!("warning\n8\u{1f}8\n{row}")).expect("one job");
        let note = |line: &str| format!("cannot parse a line of sacct output: {line:?}");
        assert_eq!((jobs.len(), notes), (1, vec![note("warning"), note("8|8")]));
    }

    proptest! {
        #[test]
        fn no_output_panics(text in "([0-9A-Z.:+,=]{0,4}[|\n]){0,60}") {
            let _ = parse(&text.replace('|', "\u{1f}"));
        }
    }
}
