//! The user's own jobs, from one call of `squeue`.

use crate::record::{excerpt, format, one_line, records, unreadable, value};
use crate::{CommandLine, ExitStatus, JobId, ParseError, SlurmState, amount};
use hsched_engine::TaggedJob;
use hsched_engine::live::Tag;
use hsched_model::Seconds;

/// The requested fields; Slurm 22.05 and later have them all. Free text comes last.
pub(super) const FIELDS: [&str; 21] = [
    "JobID",
    "JobArrayID",
    "HetJobID",
    "HetJobOffset",
    "State",
    "Reason",
    "Partition",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "TimeLeft",
    "NumNodes",
    "NumCPUs",
    "RestartCnt",
    "exit_code",
    "NodeList",
    "tres-alloc",
    "tres-per-node",
    "tres-per-job",
    "Name",
    "Comment",
];

/// One job, or one component of a heterogeneous job.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedJob {
    pub id: JobId,
    /// The id in Slurm's user-visible form: `12`, `11_[2-5%1]`, `9+1`.
    pub shown_id: String,
    /// The id of the first component and this component's index, for heterogeneous jobs.
    pub het: Option<(JobId, u32)>,
    pub name: String,
    pub state: SlurmState,
    /// Why the job is pending or how it ended, in Slurm's words.
    pub reason: Option<String>,
    pub partition: String,
    /// Local time, `2026-11-21T06:13:16`; with the id it identifies a job.
    pub submit_time: Option<String>,
    /// Time at which the job started, or is expected to start.
    pub start_time: Option<String>,
    /// Time at which the job ended, or must end.
    pub end_time: Option<String>,
    pub time_left: Option<Seconds>,
    pub node_count: Option<u32>,
    pub cpus: Option<u64>,
    /// Number of times that Slurm restarted the job.
    pub restarts: u32,
    /// Exit status of the batch script; only for jobs that have ended.
    pub exit: Option<ExitStatus>,
    /// The nodes as a hostlist; empty before the start.
    pub nodes: String,
    /// Allocated resources (or requested ones, while the job is pending) on all nodes together.
    pub tres: String,
    /// Requested generic resources per node.
    pub tres_per_node: String,
    /// Requested generic resources in total.
    pub tres_per_job: String,
    pub comment: Option<String>,
}

/// Returns the command line that prints the user's jobs, including recently ended ones that Slurm still lists
/// (`MinJobAge`).
pub fn command() -> CommandLine {
    // Without `--all`, jobs in hidden partitions are omitted.
    CommandLine::new("squeue", ["--me", "--all", "-h", "-t", "all", "-O", &format(&FIELDS)])
}

/// Returns the jobs in printed order, and notes on unreadable lines.
///
/// # Errors
/// If no record can be read although the output is not empty.
pub fn parse(text: &str) -> Result<(Vec<QueuedJob>, Vec<String>), ParseError> {
    let (mut jobs, mut notes) = (Vec::new(), Vec::new());
    for record in records(text) {
        match job(&record) {
            Some(job) => jobs.push(job),
            None => {
                notes.push(format!("cannot parse a line of squeue output: {:?}", excerpt(&record.join("|"))));
            }
        }
    }
    if jobs.is_empty() && !text.trim().is_empty() {
        return Err(unreadable("squeue", text));
    }
    Ok((jobs, notes))
}

impl QueuedJob {
    /// Returns whether the job holds nodes now.
    pub fn holds_nodes(&self) -> bool {
        self.state.holds_nodes(&self.nodes)
    }

    /// Returns whether the job waits for a person's action, because it is held or its request can never be
    /// met.
    pub fn is_stuck(&self) -> bool {
        const STUCK: [&str; 9] = [
            "BadConstraints",
            "DependencyNeverSatisfied",
            "InvalidAccount",
            "InvalidQOS",
            "PartitionNodeLimit",
            "PartitionTimeLimit",
            "AccountNotAllowed",
            "QOSNotAllowed",
            "ReservationDeleted",
        ];
        let is_held = self.state.is_held();
        is_held
            || self.reason.as_deref().is_some_and(|reason| {
                let held = reason.starts_with("JobHeld") || reason.ends_with(" held");
                // A per-job limit does not resolve itself with time.
                held || reason.ends_with("PerJob")
                    || reason.ends_with("PerJobLimit")
                    || STUCK.contains(&reason)
            })
    }

    /// Returns the run, job and copy number of a job that hsched submitted; `None` for other jobs.
    pub fn tag(&self) -> Option<Tag> {
        Tag::from_comment(self.comment.as_deref()?)
    }

    /// Returns the job in the form that commands compare by name; `None` if it has ended or hsched did not
    /// submit it.
    pub fn tagged(&self) -> Option<TaggedJob> {
        let tag = self.tag().filter(|_| !self.state.is_final())?;
        Some(TaggedJob { name: tag.job, id: self.id, state: self.state.to_string() })
    }
}

fn job(record: &[&str]) -> Option<QueuedJob> {
    // A name may contain the separator, but hsched's comments do not: extra fields belong to the name.
    let (&fixed, rest) = record.split_first_chunk::<{ FIELDS.len() - 2 }>()?;
    let (comment, name) = rest.split_last()?;
    let [id, shown_id, leader, offset, state, reason, partition, submit, start, end, ..] = fixed;
    let [.., left, node_count, cpus, restarts, exit, nodes, tres, per_node, per_job] = fixed;
    if name.is_empty() {
        return None;
    }
    let state = SlurmState::parse(state);
    let owned = |text: &str| value(text).map(str::to_owned);
    Some(QueuedJob {
        id: number(id).map(JobId)?,
        shown_id: one_line(shown_id),
        het: number(leader).map(JobId).zip(number(offset)),
        name: one_line(&name.concat()),
        exit: state.is_final().then(|| ExitStatus::parse(exit)).flatten(),
        state,
        reason: value(reason).map(one_line),
        partition: one_line(partition),
        submit_time: owned(submit),
        start_time: owned(start),
        end_time: owned(end),
        time_left: amount::duration(left),
        node_count: number(node_count),
        cpus: amount::count(cpus),
        restarts: number(restarts).unwrap_or(0),
        nodes: owned(nodes).unwrap_or_default(),
        tres: owned(tres).unwrap_or_default(),
        tres_per_node: owned(per_node).unwrap_or_default(),
        tres_per_job: owned(per_job).unwrap_or_default(),
        comment: owned(comment),
    })
}

fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Converts one line written with `|` between the fields to hsched's format.
    fn framed(line: &str) -> String {
        format!("{}\u{1e}\n", line.replace('|', "\u{1f}"))
    }

    fn read(line: &str) -> QueuedJob {
        let (jobs, notes) = parse(&framed(line)).expect("readable");
        assert_eq!((jobs.len(), notes.len()), (1, 0), "{line}");
        jobs.into_iter().next().expect("one")
    }

    const RUNNING: &str = "10|9+1|9|1|RUNNING|None|gpu|2026-11-21T06:13:16|2026-11-21T06:13:17|\
        2026-11-21T06:23:17|9:57|1|2|0|0|t1|cpu=2,mem=100M,node=1|gres:gpu:t4:1|N/A|het|\
        {\"hsched\":1,\"run\":\"r1\",\"job\":\"a\"}";

    #[test]
    fn a_component_of_a_heterogeneous_job_knows_its_place_and_its_run() {
        let job = read(RUNNING);
        assert_eq!((job.id, job.shown_id.as_str(), job.het), (JobId(10), "9+1", Some((JobId(9), 1))));
        assert_eq!((job.state.clone(), job.reason.as_deref(), job.exit), (SlurmState::Running, None, None));
        assert_eq!(job.submit_time.as_deref(), Some("2026-11-21T06:13:16"));
        assert_eq!((job.time_left, job.node_count, job.cpus), (Some(Seconds(597.0)), Some(1), Some(2)));
        assert_eq!((job.nodes.as_str(), job.tres_per_node.as_str()), ("t1", "gres:gpu:t4:1"));
        assert_eq!(job.tag(), Some(Tag { run: "r1".to_owned(), job: "a".to_owned(), copy: 0 }));
    }

    #[test]
    fn waiting_ended_and_unheard_of_jobs_are_kept() {
        let waiting = read(
            "4|4|N/A|N/A|PENDING|ReqNodeNotAvail, UnavailableNodes:p1|gpu|a|N/A|N/A|UNLIMITED|1|1|0|0||cpu=1|N/A|N/A|p|(null)",
        );
        assert_eq!(waiting.reason.as_deref(), Some("ReqNodeNotAvail, UnavailableNodes:p1"));
        assert_eq!((waiting.het, waiting.start_time.clone(), waiting.time_left), (None, None, None));
        let stuck = |reason: &str| {
            let line =
                format!("4|4|N/A|N/A|PENDING|{reason}|gpu|a|N/A|N/A|1:00|1|1|0|0||cpu=1|N/A|N/A|p|(null)");
            read(&line).is_stuck()
        };
        for reason in ["JobHeldUser", "JobHeldAdmin", "launch failed requeued held", "QOSMaxGRESPerJob"] {
            assert!(stuck(reason), "{reason}");
        }
        assert!(
            ["Priority", "Resources", "None", "QOSMaxGRESPerUser", "BeginTime"]
                .iter()
                .all(|reason| !stuck(reason))
        );
        assert_eq!((waiting.nodes.as_str(), waiting.comment.clone(), waiting.tag()), ("", None, None));
        let ended = |state: &str, exit: &str| {
            let job =
                read(&format!("1|1|N/A|N/A|{state}|None|p|a|b|c|0:00|1|1|2|{exit}|n|||| n\u{1f}m |x\ny"));
            assert_eq!((job.name.as_str(), job.comment.as_deref(), job.restarts), ("nm", Some("x\ny"), 2));
            job
        };
        assert_eq!(ended("FAILED", "21760").exit, Some(ExitStatus { code: 85, signal: 0 }));
        assert_eq!(ended("CANCELLED", "15").exit, Some(ExitStatus { code: 0, signal: 15 }));
        assert_eq!(ended("FAILED", "3:0").exit, Some(ExitStatus { code: 3, signal: 0 }));
        assert_eq!(ended("NEWLY_MADE", "0").state, SlurmState::Other("NEWLY_MADE".to_owned()));
    }

    #[test]
    fn lines_that_cannot_be_read_are_noted() {
        let (jobs, notes) = parse(&(framed("x|y") + &framed(RUNNING))).expect("one job");
        assert_eq!(jobs.len(), 1);
        assert_eq!(notes, ["cannot parse a line of squeue output: \"x|y\""]);
        let error = parse("slurm is away").expect_err("no squeue").to_string();
        assert_eq!(error, "the output of squeue could not be parsed; it begins with \"slurm is away\"");
        assert_eq!(parse("\n"), Ok((Vec::new(), Vec::new())));
    }

    proptest! {
        #[test]
        fn no_output_panics(text in "([0-9A-Z:+,=]{0,4}[|^\n]){0,60}") {
            let _ = parse(&text.replace('|', "\u{1f}").replace('^', "\u{1e}"));
        }
    }
}
