//! Ended jobs from `scontrol show job`, for sites without accounting.
//!
//! Slurm drops a job `MinJobAge` after its end, by default after five minutes.

use crate::record::{excerpt, one_line, unreadable, value};
use crate::{CommandError, CommandLine, ExitStatus, JobId, JobRecord, ParseError, SlurmState};

/// Beginning of every job.
const BEGIN: &str = "JobId=";

/// Returns the command line that prints one job; with the id of a heterogeneous job's first component, all
/// its components. Slurm accepts no list of ids here.
pub fn command(id: JobId) -> CommandLine {
    CommandLine::new("scontrol", ["-o", "show", "job", &id.to_string()])
}

/// Returns whether the command failed because the controller does not know the job, or has dropped it.
pub fn is_unknown(error: &CommandError) -> bool {
    let CommandError::Failed { stderr, .. } = error else { return false };
    // The client prints the second message if the controller answered without the job: `scontrol_print_job`
    // in Slurm.
    let not_found = |line: &str| line.starts_with("Job ") && line.ends_with(" not found");
    stderr.contains("Invalid job id") || stderr.lines().map(str::trim).any(not_found)
}

/// Returns the jobs in printed order, and notes on unreadable ones.
///
/// # Errors
/// If no record can be read although the output is not empty.
pub fn parse(text: &str) -> Result<(Vec<JobRecord>, Vec<String>), ParseError> {
    let (mut jobs, mut notes) = (Vec::new(), Vec::new());
    for text in texts(text) {
        match record(&text) {
            Some(job) => jobs.push(job),
            None => notes.push(format!("cannot parse a job in the output of scontrol: {:?}", excerpt(&text))),
        }
    }
    if jobs.is_empty() && !text.trim().is_empty() {
        return Err(unreadable("scontrol", text));
    }
    Ok((jobs, notes))
}

/// Returns whether no process of a job remains from the start after `restarts` requeues: the job has ended,
/// is pending, has started again, or is not among the printed jobs. False if no printed job can be read.
///
/// If the id is also that of a job array, Slurm prints all tasks that it knows.
pub fn is_over(text: &str, id: JobId, restarts: u32) -> bool {
    let mut jobs = texts(text).into_iter().filter_map(|text| Some((record(&text)?, text))).peekable();
    if jobs.peek().is_none() {
        return false;
    }
    let Some((record, text)) = jobs.find(|(record, _)| record.id == id) else { return true };
    let again = field(&text, "Restarts").and_then(number).is_some_and(|count| count > restarts);
    record.state.is_final() || record.state.is_pending() || again && record.state == SlurmState::Running
}

/// Returns each job's text; a comment may break it into several lines.
pub(super) fn texts(text: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match texts.last_mut() {
            Some(text) if !line.starts_with(BEGIN) => {
                text.push('\n');
                text.push_str(line);
            }
            _ => texts.push(line.to_owned()),
        }
    }
    texts
}

/// Parses a job's text.
pub(super) fn record(text: &str) -> Option<JobRecord> {
    // Text that users choose freely is removed first, because it may resemble other fields: the name, which
    // precedes the wanted values, and the comment, which follows them.
    let (ids, rest) = text.split_once(" JobName=")?;
    let (name, rest) = rest.split_once(" UserId=")?;
    let name = name.split(" HetJobIdSet=").next().unwrap_or(name);
    let (facts, free) = rest.split_once(" Command=").unwrap_or((rest, ""));
    let state = SlurmState::parse(field(facts, "JobState")?);
    let fact = |key: &str| field(facts, key).and_then(value);
    let owned = |key: &str| fact(key).map(str::to_owned);
    let leader = field(ids, "HetJobId").and_then(number).map(JobId);
    let exit = fact("ExitCode").and_then(ExitStatus::parse).filter(|_| state.is_final());
    Some(JobRecord {
        id: number(ids.strip_prefix(BEGIN)?.split(' ').next()?).map(JobId)?,
        het: leader.zip(field(ids, "HetJobOffset").and_then(number)),
        array: field(ids, "ArrayJobId").and_then(number).map(JobId),
        name: one_line(name),
        reason: fact("Reason").map(one_line),
        submit_time: owned("SubmitTime"),
        start_time: owned("StartTime"),
        end_time: owned("EndTime"),
        exit,
        step_exit: None,
        out_of_memory: state == SlurmState::OutOfMemory || exit.is_some_and(ExitStatus::is_out_of_memory),
        nodes: owned("NodeList").unwrap_or_default(),
        comment: comment(free),
        settled: state.is_final(),
        state,
    })
}

/// Returns the comment in the text after the command.
fn comment(free: &str) -> Option<String> {
    // From 25.11 on, the submit line precedes the comment and may contain a comment among its options.
    let free = match free.split_once(" SubmitLine=") {
        Some((_, line)) => line.split_once(" WorkDir=").map_or(line, |(_, rest)| rest),
        None => free,
    };
    let (_, text) = free.split_once(" Comment=")?;
    // The comment ends at the last occurrence of the first of these keys that is present; from 23.02 on, the
    // text of `--extra` comes before that.
    let end = [" StdErr=", " StdIn=", " Power="].iter().find_map(|key| text.rfind(key)).unwrap_or(text.len());
    let text = text.get(..end)?;
    let text = text.rfind(" Extra=").map_or(text, |end| &text[..end]);
    value(text).map(str::to_owned)
}

/// Returns the value of ` KEY=value`, which may contain blanks and ends before the next key.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let begin = format!(" {key}=");
    let rest = &text[text.find(&begin)? + begin.len()..];
    let is_key = |word: &str| {
        let known = word.split_once('=').map_or("", |(key, _)| key);
        known.starts_with(|c: char| c.is_ascii_uppercase())
            && known.chars().all(|c| c.is_ascii_alphanumeric() || "/:&_-".contains(c))
    };
    let end = rest.match_indices(' ').map(|(place, _)| place).find(|place| is_key(&rest[place + 1..]));
    Some(&rest[..end.unwrap_or(rest.len())])
}

fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line of Slurm 22.05, without unused fields.
    const FAILED: &str = "JobId=2 JobName=f 9 UserId=root(0) GroupId=root(0) MCS_label=N/A JobState=FAILED \
        Reason=NonZeroExitCode Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=9:0 \
        TimeLimit=00:10:00 TimeMin=N/A SubmitTime=2026-11-21T14:56:06 EligibleTime=2026-11-21T14:56:07 \
        StartTime=2026-11-21T14:56:08 EndTime=2026-11-21T14:56:09 Deadline=N/A PreemptEligibleTime=2026-11-21T14:56:07 \
        Partition=gpu AllocNode:Sid=localhost:26664 ReqNodeList=v1 ExcNodeList=(null) NodeList=m1 BatchHost=m1 \
        ReqB:S:C:T=0:0:*:* TRES=cpu=1,mem=100M Command=/a b/c JobState=x NodeList=y WorkDir=/tmp \
        Comment=a b Command=/x y  StdErr=z  NodeList=zz  StdErr=/dev/null StdIn=/dev/null StdOut=/dev/null Power= ";

    fn read(text: &str) -> JobRecord {
        let (jobs, notes) = parse(text).expect("readable");
        assert_eq!((jobs.len(), notes.len()), (1, 0), "{text}");
        jobs.into_iter().next().expect("one")
    }

    #[test]
    fn a_task_of_an_array_is_over_whatever_the_other_tasks_do() {
        let task = |id: u32, state: &str, restarts: u32| {
            let ids = format!("JobId={id} ArrayJobId=1 ArrayTaskId={id} JobName=");
            let facts = format!("JobState={state} Reason=None Restarts={restarts} ");
            FAILED
                .replace("JobId=2 JobName=", &ids)
                .replace("JobState=FAILED Reason=NonZeroExitCode ", &facts)
        };
        let check = |tasks: &[String], expected: bool| {
            assert_eq!(is_over(&tasks.join("\n"), JobId(1), 0), expected, "{tasks:?}");
        };
        check(&[task(1, "RUNNING", 0), task(3, "PENDING", 0)], false);
        check(&[task(3, "PENDING", 0), task(1, "RUNNING", 0)], false);
        check(&[task(3, "RUNNING", 0), task(1, "COMPLETED", 0)], true);
        check(&[task(3, "RUNNING", 0), task(1, "RUNNING", 1)], true);
        // Slurm has dropped it.
        check(&[task(3, "RUNNING", 0)], true);
        check(&["nothing".to_owned()], false);
    }

    #[test]
    fn values_may_have_blanks_and_look_like_keys() {
        assert_eq!(command(JobId(7)).to_string(), "scontrol -o show job 7");
        let job = read(FAILED);
        assert_eq!((job.id, job.het, job.name.as_str()), (JobId(2), None, "f 9"));
        assert_eq!((job.state, job.reason.as_deref()), (SlurmState::Failed, Some("NonZeroExitCode")));
        assert_eq!((job.exit, job.settled), (Some(ExitStatus { code: 9, signal: 0 }), true));
        let times = [job.submit_time, job.start_time, job.end_time].map(Option::unwrap_or_default);
        assert_eq!(times, ["2026-11-21T14:56:06", "2026-11-21T14:56:08", "2026-11-21T14:56:09"]);
        assert_eq!((job.nodes.as_str(), job.out_of_memory), ("m1", false));
        assert_eq!(job.comment.as_deref(), Some("a b Command=/x y  StdErr=z  NodeList=zz"));
        let newer = FAILED.replace(" WorkDir=", " SubmitLine=sbatch '--comment=x Comment=z' job.sh WorkDir=");
        let newer = newer.replace(" StdErr=/dev/null", " Extra=a StdErr=b StdErr=/dev/null");
        assert_eq!(read(&newer).comment, job.comment);
        let lines = read(&FAILED.replace("a b Command=/x y", "l1\nl2|x"));
        assert_eq!(lines.comment.as_deref(), Some("l1\nl2|x  StdErr=z  NodeList=zz"));
    }

    #[test]
    fn components_are_jobs_of_their_own() {
        let component = |id: u32, offset: u32| {
            format!(
                "JobId={id} HetJobId=8 HetJobOffset={offset} JobName=het HetJobIdSet=8-9 UserId=root(0) \
                 JobState=NODE_FAIL Reason=NodeDown ExitCode=0:15 NodeList=t{id} Command=(null)\n"
            )
        };
        let (jobs, notes) = parse(&(component(8, 0) + &component(9, 1))).expect("readable");
        assert_eq!(notes, [""; 0]);
        let [first, second] = jobs.as_slice() else { panic!("two: {jobs:?}") };
        assert_eq!((first.id, first.het, first.nodes.as_str()), (JobId(8), Some((JobId(8), 0)), "t8"));
        assert_eq!((second.id, second.het, second.nodes.as_str()), (JobId(9), Some((JobId(8), 1)), "t9"));
        assert_eq!((first.name.as_str(), second.name.as_str()), ("het", "het"));
        assert!(jobs.iter().all(|job| job.state == SlurmState::NodeFail && job.settled));
    }

    #[test]
    fn waiting_running_and_unheard_of_jobs_are_not_settled() {
        let check = |from: &str, to: &str, state: SlurmState| {
            let job = read(&FAILED.replace(from, to));
            assert_eq!((job.state, job.exit, job.settled), (state, None, false), "{to}");
        };
        check("JobState=FAILED", "JobState=RUNNING", SlurmState::Running);
        check("JobState=FAILED", "JobState=COMPLETING", SlurmState::Completing);
        check("JobState=FAILED", "JobState=NEWLY_MADE", SlurmState::Other("NEWLY_MADE".to_owned()));
        let waits = "JobState=PENDING Reason=ReqNodeNotAvail, UnavailableNodes:p1";
        let job = read(
            &FAILED
                .replace("JobState=FAILED Reason=NonZeroExitCode", waits)
                .replace(" NodeList=m1", " NodeList="),
        );
        assert_eq!((job.state, job.nodes.as_str()), (SlurmState::Pending, ""));
        assert_eq!(job.reason.as_deref(), Some("ReqNodeNotAvail, UnavailableNodes:p1"));
        assert!(read(&FAILED.replace("ExitCode=9:0", "ExitCode=0:125")).out_of_memory);
    }

    #[test]
    fn jobs_that_slurm_forgot_are_told_from_a_failure() {
        let failed = |stderr: &str| CommandError::failed(&command(JobId(7)), "exit status: 1", stderr);
        assert!(is_unknown(&failed("slurm_load_jobs error: Invalid job id specified\n")));
        assert!(is_unknown(&failed("Job 7 not found\n")) && is_unknown(&failed("Job 7+1 not found")));
        assert!(!is_unknown(&failed(
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
        )));
        assert!(!is_unknown(&failed("Access denied")));
    }

    #[test]
    fn texts_that_cannot_be_read_are_noted() {
        let (jobs, notes) = parse(&format!("JobId=x\n{FAILED}")).expect("one job");
        assert_eq!(
            (jobs.len(), notes),
            (1, vec!["cannot parse a job in the output of scontrol: \"JobId=x\"".to_owned()])
        );
        let error = parse("No jobs in the system\n").expect_err("no job").to_string();
        assert_eq!(
            error,
            "the output of scontrol could not be parsed; it begins with \"No jobs in the system\""
        );
        assert_eq!(parse("\n"), Ok((Vec::new(), Vec::new())));
    }

    proptest! {
        #[test]
        fn no_output_panics(text in "(JobId=|JobName=|UserId=|JobState=|Command=|Comment=|StdErr=|HetJobId=|[ \n1=é/]){0,60}") {
            let _ = parse(&text);
        }
    }
}
