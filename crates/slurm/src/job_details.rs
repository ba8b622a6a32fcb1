//! Details of a job from `scontrol show job` that explain its state.

use crate::amount;
use crate::queue::competes;
use crate::record::value;
use crate::scontrol_job::{field, record, texts};
use crate::{CommandLine, JobOptions, JobRecord, time};
use hsched_model::{Seconds, Time};
use hsched_queue::{JobFacts, QueueJob, reason_with_blanks};

/// A job's current data in the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDetails {
    pub record: JobRecord,
    /// The id as `squeue` shows it: `12`, `11_3`, `11_[4-9]`, `9+1`.
    pub shown_id: String,
    pub user: String,
    pub account: Option<String>,
    pub qos: Option<String>,
    pub partitions: Vec<String>,
    pub priority: Option<u64>,
    pub limit: Option<Seconds>,
    pub facts: JobFacts,
    /// The batch script, with its arguments.
    pub command: Option<String>,
    /// The file for the job's error output.
    pub error_file: Option<String>,
    /// The options of `sbatch` with which the job was submitted.
    pub options: JobOptions,
}

/// Returns the command line that prints a job: `12`, a task `11_3`, a component `9+1`, or all tasks of an array.
pub fn command(id: &str) -> CommandLine {
    CommandLine::new("scontrol", ["-o", "show", "job", id])
}

/// Returns the jobs in printed order; unreadable ones are skipped.
pub fn parse(text: &str) -> Vec<JobDetails> {
    texts(text).iter().filter_map(|text| details(text)).collect()
}

fn details(text: &str) -> Option<JobDetails> {
    let mut record = record(text)?;
    record.reason = record.reason.map(|reason| reason_with_blanks(&reason).into_owned());
    let (ids, rest) = text.split_once(" JobName=")?;
    let (_, rest) = rest.split_once(" UserId=")?;
    let (facts, free) = rest.split_once(" Command=").unwrap_or((rest, ""));
    let user = facts.split('(').next().unwrap_or_default().to_owned();
    // The first of these fields has no blank before it.
    let fact = |key: &str| field(facts, key).and_then(value);
    let owned = |key: &str| fact(key).map(str::to_owned);
    let date = |key: &str| fact(key).and_then(time::unix).map(Time);
    let array = field(ids, "ArrayJobId").and_then(value);
    let task = field(ids, "ArrayTaskId").and_then(value);
    let shown_id = match (array, task, record.het) {
        (Some(array), Some(task), _) if task.chars().all(|c| c.is_ascii_digit()) => format!("{array}_{task}"),
        (Some(array), Some(tasks), _) => format!("{array}_[{tasks}]"),
        (_, _, Some((leader, offset))) => format!("{leader}+{offset}"),
        _ => record.id.to_string(),
    };
    let path = |text: &str| value(text).map(str::to_owned);
    let command = free.split(" WorkDir=").next().unwrap_or(free).split(" SubmitLine=").next().and_then(path);
    let error_file = free.rsplit_once(" StdErr=").and_then(|(_, rest)| path(rest.split(" StdIn=").next()?));
    Some(JobDetails {
        shown_id,
        user,
        account: owned("Account"),
        qos: owned("QOS"),
        partitions: fact("Partition")
            .map_or_else(Vec::new, |list| list.split(',').map(str::to_owned).collect()),
        priority: fact("Priority").and_then(|text| text.parse().ok()),
        limit: fact("TimeLimit").and_then(amount::duration),
        facts: JobFacts {
            dependency: owned("Dependency"),
            licenses: owned("Licenses"),
            eligible: date("EligibleTime"),
            deadline: date("Deadline"),
            restarts: fact("Restarts").and_then(|text| text.parse().ok()).unwrap_or(0),
        },
        command,
        error_file,
        options: JobOptions::parse([ids, &record.name, facts, free], record.comment.as_deref()),
        record,
    })
}

impl JobDetails {
    /// Updates a pending job of an older look at the queue with these data.
    pub fn refresh(&self, job: &mut QueueJob) {
        job.reason.clone_from(&self.record.reason);
        job.waits_for_other = self.priority == Some(0)
            || self.record.state.is_held()
            || job.reason.as_deref().is_some_and(|reason| !competes(reason));
        job.priority = self.priority.or(job.priority);
        job.limit_s = self.limit.or(job.limit_s);
        job.begin = self.facts.eligible.filter(|_| job.reason.as_deref() == Some("BeginTime"));
        if !self.partitions.is_empty() {
            job.partitions.clone_from(&self.partitions);
        }
        job.account = self.account.clone().or(job.account.take());
        job.qos = self.qos.clone().or(job.qos.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SlurmState;

    const PENDING: &str = "JobId=4 ArrayJobId=4 ArrayTaskId=2-9%3 ArrayTaskThrottle=3 JobName=a UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A \
        Priority=1200 Nice=0 Account=bio QOS=normal JobState=PENDING Reason=BeginTime Dependency=afterok:2(unfulfilled) Requeue=1 Restarts=2 \
        BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:00 TimeLimit=1-00:00:00 TimeMin=N/A SubmitTime=2026-11-23T18:33:06 \
        EligibleTime=2026-11-23T19:33:06 AccrueTime=2026-11-23T18:33:06 StartTime=2026-11-23T19:33:06 EndTime=2026-11-24T19:33:06 Deadline=N/A \
        Partition=gpu,short AllocNode:Sid=vm:1 ReqNodeList=(null) ExcNodeList=(null) NodeList= NumNodes=1-1 TRES=cpu=1,mem=100M,node=1,gres/gpu=4 \
        Licenses=matlab:1 Network=(null) Command=/home/ann/train.sh big WorkDir=/home/ann StdErr=/home/ann/slurm-4.out StdIn=/dev/null \
        StdOut=/home/ann/slurm-4.out Power= TresPerNode=gres:gpu:v100:4 ";

    #[test]
    fn what_a_pending_job_waits_for_is_read() {
        let jobs = parse(PENDING);
        let [job] = jobs.as_slice() else { panic!("one: {jobs:?}") };
        assert_eq!((job.shown_id.as_str(), job.user.as_str()), ("4_[2-9%3]", "ann"));
        assert_eq!((job.account.as_deref(), job.qos.as_deref()), (Some("bio"), Some("normal")));
        assert_eq!((job.partitions.join("+"), job.priority), ("gpu+short".to_owned(), Some(1200)));
        assert_eq!((job.limit, job.record.state.clone()), (Some(Seconds(86_400.0)), SlurmState::Pending));
        let facts = &job.facts;
        assert_eq!(facts.dependency.as_deref(), Some("afterok:2(unfulfilled)"));
        assert_eq!((facts.licenses.as_deref(), facts.restarts), (Some("matlab:1"), 2));
        assert!(facts.eligible.is_some() && facts.deadline.is_none());
        assert_eq!(job.command.as_deref(), Some("/home/ann/train.sh big"));
        assert_eq!(job.error_file.as_deref(), Some("/home/ann/slurm-4.out"));
    }

    #[test]
    fn a_job_of_an_older_look_is_brought_up_to_date() {
        let mut job = QueueJob { id: "4_[2-9%3]".to_owned(), priority: Some(1), ..QueueJob::default() };
        parse(PENDING)[0].refresh(&mut job);
        assert_eq!((job.reason.as_deref(), job.waits_for_other), (Some("BeginTime"), true));
        assert_eq!((job.priority, job.limit_s), (Some(1200), Some(Seconds(86_400.0))));
        assert!(job.begin.is_some() && job.partitions.len() == 2);
        parse(&PENDING.replace("Reason=BeginTime", "Reason=Resources"))[0].refresh(&mut job);
        assert!(!job.waits_for_other && job.begin.is_none());
        let closed = PENDING.replace("Reason=BeginTime", "Reason=ReqNodeNotAvail,_Reserved_for_maintenance");
        parse(&closed)[0].refresh(&mut job);
        assert_eq!(job.reason.as_deref(), Some("ReqNodeNotAvail, Reserved for maintenance"));
    }
}
