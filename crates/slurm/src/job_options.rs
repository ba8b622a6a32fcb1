//! The options of `sbatch` with which a pending job was submitted, as far as `scontrol show job` shows them.

use crate::amount;
use crate::output_name::{NO_TASK, OutputFacts, OutputName};
use crate::record::value;
use crate::scontrol_job::field;
use crate::script::{ScriptReading, TimeLimit};
use hsched_model::number::to_u64;

/// The options of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobOptions {
    list: Vec<JobOption>,
    /// The options that request its GPUs.
    gpus: Vec<JobOption>,
    /// Fields of `scontrol` with options that are not read.
    pub unread: Vec<&'static str>,
    /// Its working directory.
    pub folder: Option<String>,
    /// The files of its output, its error output and its input, with the numbers of the job.
    files: [Option<String>; 3],
}

/// An option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JobOption {
    /// Its long name without the leading dashes.
    name: &'static str,
    value: Option<String>,
}

/// Options that `sbatch` takes and `scontrol` does not show.
pub const HIDDEN_OPTIONS: [&str; 3] = ["--export", "--signal", "--open-mode"];

/// Options with the value of a field: the option, the field, and its value without the option.
const PLAIN: [(&str, &str, &str); 16] = [
    ("account", "Account", ""),
    ("partition", "Partition", ""),
    ("qos", "QOS", ""),
    ("reservation", "Reservation", ""),
    ("time", "TimeLimit", ""),
    ("time-min", "TimeMin", ""),
    ("deadline", "Deadline", ""),
    ("cpus-per-task", "CPUs/Task", "1"),
    ("mem", "MinMemoryNode", ""),
    ("mem-per-cpu", "MinMemoryCPU", ""),
    ("tmp", "MinTmpDiskNode", "0"),
    ("constraint", "Features", ""),
    ("nodelist", "ReqNodeList", ""),
    ("exclude", "ExcNodeList", ""),
    ("licenses", "Licenses", ""),
    ("nice", "Nice", "0"),
];

/// Fields that are not read, with their value if no option sets them.
const UNREAD: [(&str, &str); 11] = [
    ("ReqB:S:C:T", "0:0:*:*"),
    ("CoreSpec", "*"),
    ("Network", ""),
    ("BurstBuffer", ""),
    ("Switches", ""),
    ("TresPerSocket", ""),
    ("TresFreq", ""),
    ("NtasksPerTRES", ""),
    ("Container", ""),
    ("Extra", ""),
    ("WCKey", ""),
];

impl JobOptions {
    /// Parses a job from parts of its record: its ids, its name, the fields before its command, and the text
    /// from its command on.
    pub(crate) fn parse([ids, name, facts, free]: [&str; 4], comment: Option<&str>) -> Self {
        // The first field of each part has no blank before it.
        let free = format!(" Command={free}");
        let fact = |key: &str| field(facts, key).and_then(value);
        let (outputs, requests) = free.rsplit_once(" StdOut=").unwrap_or((&free, ""));
        let requests = format!(" StdOut={requests}");
        let request = |key: &str| field(&requests, key).and_then(value);
        let mut list = vec![JobOption::new("job-name", name)];
        for (option, key, _) in PLAIN {
            list.extend(fact(key).map(|value| JobOption::new(option, value)));
        }
        list.extend(field(ids, "ArrayTaskId").and_then(value).map(|tasks| JobOption::new("array", tasks)));
        let nodes = fact("NumNodes").map(|nodes| match nodes.split_once('-') {
            Some((least, most)) if least == most => least,
            _ => nodes,
        });
        list.extend(nodes.map(|nodes| JobOption::new("nodes", nodes)));
        list.extend(fact("NumTasks").map(|tasks| JobOption::new("ntasks", tasks)));
        let each = fact("NtasksPerN:B:S:C").and_then(|tasks| tasks.split(':').next());
        let each = each.filter(|tasks| *tasks != "0");
        list.extend(each.map(|tasks| JobOption::new("ntasks-per-node", tasks)));
        list.extend(fact("Dependency").map(|jobs| JobOption::new("dependency", without_states(jobs))));
        if fact("Reason") == Some("BeginTime") {
            list.extend(fact("EligibleTime").map(|time| JobOption::new("begin", time)));
        }
        list.extend(match fact("OverSubscribe") {
            Some("NO") => Some(JobOption::bare("exclusive")),
            Some("YES") => Some(JobOption::bare("oversubscribe")),
            Some("USER") => Some(JobOption::new("exclusive", "user")),
            Some("MCS") => Some(JobOption::new("exclusive", "mcs")),
            _ => None,
        });
        list.extend((fact("Contiguous") == Some("1")).then(|| JobOption::bare("contiguous")));
        list.extend((fact("Requeue") == Some("0")).then(|| JobOption::bare("no-requeue")));
        list.extend(comment.map(|comment| JobOption::new("comment", comment.trim_end())));
        let mail = request("MailType").filter(|kinds| *kinds != "NONE");
        list.extend(mail.map(|kinds| JobOption::new("mail-type", kinds)));
        let user = facts.split('(').next().unwrap_or_default();
        let address = mail.and_then(|_| request("MailUser")).filter(|address| *address != user);
        list.extend(address.map(|address| JobOption::new("mail-user", address)));
        list.extend(
            request("CpusPerTres").and_then(gpus_of).map(|count| JobOption::new("cpus-per-gpu", count)),
        );
        let memory = request("MemPerTres").and_then(gpus_of);
        list.extend(memory.map(|mebibytes| JobOption::new("mem-per-gpu", format!("{mebibytes}M"))));
        let folder = outputs.rsplit_once(" WorkDir=").map(|(_, rest)| rest);
        let folder = folder.map(|rest| rest.split(" StdErr=").next().unwrap_or(rest));
        let folder = folder.map(|rest| rest.split(" Comment=").next().unwrap_or(rest));
        let file = |key: &str, next: &str| {
            let (_, rest) = free.rsplit_once(key)?;
            rest.split(next).next().and_then(value).map(str::to_owned)
        };
        let (error, input) = (file(" StdErr=", " StdIn="), file(" StdIn=", " StdOut="));
        let output = request("StdOut").map(str::to_owned);
        let unread: Vec<&'static str> = UNREAD
            .iter()
            .filter(|(key, usual)| fact(key).or_else(|| request(key)).is_some_and(|value| value != *usual))
            .map(|(key, _)| *key)
            .collect();
        let files = [output, error, input];
        Self { list, gpus: gpus(request), unread, files, folder: folder.and_then(value).map(str::to_owned) }
    }

    /// Returns the options that differ from those of a script, as words for `sbatch`; the options for GPUs
    /// only if the script does not request the same GPUs.
    pub fn beside(&self, script: &ScriptReading, asks_for_same_gpus: bool) -> Vec<String> {
        let gpus = self.gpus.iter().filter(|_| !asks_for_same_gpus);
        let differs = |option: &&JobOption| !option.is_given_by(script, self);
        self.list.iter().filter(differs).chain(gpus).map(JobOption::word).collect()
    }

    /// Returns the options for its files that a script does not name, as words for `sbatch`; `facts` are those of
    /// the job.
    pub fn files_beside(&self, script: &ScriptReading, facts: &OutputFacts<'_>) -> Vec<String> {
        let [output, error, input] = &self.files;
        let usual = if facts.is_array { "slurm-%A_%a.out" } else { "slurm-%j.out" };
        let written = |name: &str| {
            let option = script.options.iter().rev().find(|written| written.name == name);
            option.and_then(|option| option.value.as_deref())
        };
        let is_named = |pattern: &str, file: &str| {
            let folder = self.folder.as_deref().unwrap_or_default();
            let pattern =
                if pattern.starts_with('/') { pattern.to_owned() } else { format!("{folder}/{pattern}") };
            OutputName::of(&pattern, facts).is_some_and(|name| name.numbers(file).is_some())
        };
        let mut words = Vec::new();
        if let Some(file) = output.as_ref().filter(|file| !is_named(written("output").unwrap_or(usual), file))
        {
            words.push(format!("--output={}", as_pattern(file, facts)));
        }
        let is_error_named = |file: &str| match written("error") {
            Some(pattern) => is_named(pattern, file),
            None => output.as_deref() == Some(file),
        };
        if let Some(file) = error.as_ref().filter(|file| !is_error_named(file)) {
            words.push(format!("--error={}", as_pattern(file, facts)));
        }
        if let Some(file) =
            input.as_ref().filter(|file| !is_named(written("input").unwrap_or("/dev/null"), file))
        {
            words.push(format!("--input={}", as_pattern(file, facts)));
        }
        words
    }

    /// Returns the value of an option.
    fn value(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|option| option.name == name)?.value.as_deref()
    }
}

impl JobOption {
    fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: Some(value.into()) }
    }

    fn bare(name: &'static str) -> Self {
        Self { name, value: None }
    }

    fn word(&self) -> String {
        match &self.value {
            Some(value) => format!("--{}={value}", self.name),
            None => format!("--{}", self.name),
        }
    }

    /// Returns whether a job of the script has the option even if it is not repeated on the command line.
    fn is_given_by(&self, script: &ScriptReading, options: &JobOptions) -> bool {
        let (value, request) = (self.value.as_deref(), script.request.as_ref());
        match self.name {
            "job-name" => return request.map(|request| request.job_name.as_str()) == value,
            "time" => {
                let limit = value.and_then(amount::duration).map(|limit| TimeLimit::Seconds(to_u64(limit.0)));
                return limit.is_some() && request.and_then(|request| request.total.time_limit) == limit;
            }
            _ => {}
        }
        match script.options.iter().rev().find(|written| written.name == self.name) {
            Some(written) => written.value.as_deref() == value,
            None => self.is_usual(options),
        }
    }

    /// Returns whether Slurm chooses this value if the option is not given.
    fn is_usual(&self, options: &JobOptions) -> bool {
        let value = self.value.as_deref();
        match self.name {
            "nodes" => value == Some("1") && options.value("ntasks") == Some("1"),
            "ntasks" => options.value("ntasks-per-node").is_none() && value == options.value("nodes"),
            name => PLAIN.iter().any(|(option, _, usual)| *option == name && value == Some(usual)),
        }
    }
}

/// Returns the options that request the GPUs of a job; `field` returns a field of its request.
fn gpus<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Vec<JobOption> {
    let mut list = Vec::new();
    if let Some(all) = field("TresPerJob").and_then(gpus_of) {
        list.push(JobOption::new("gpus", all));
    }
    if let Some(each) = field("TresPerNode") {
        let names =
            each.split(',').map(|part| part.trim_start_matches("gres").trim_start_matches(['/', ':']));
        list.push(JobOption::new("gres", names.collect::<Vec<_>>().join(",")));
    }
    if let Some(each) = field("TresPerTask").and_then(gpus_of) {
        list.push(JobOption::new("gpus-per-task", each));
    }
    list
}

/// Returns the GPUs of a list such as `cpu=2,gres/gpu:v100=1` or `gres:gpu:v100:1`: `v100:1`.
fn gpus_of(list: &str) -> Option<String> {
    let gpus = |part: &str| {
        let name = part.strip_prefix("gres")?.trim_start_matches(['/', ':']);
        Some(name.strip_prefix("gpu")?.trim_start_matches([':', '=']).replace('=', ":"))
    };
    list.split(',').find_map(gpus)
}

/// Returns a file name with patterns in place of the numbers of the job.
fn as_pattern(file: &str, facts: &OutputFacts<'_>) -> String {
    let (id, no_task) = (facts.job_id.0.to_string(), NO_TASK.to_string());
    let mut name = String::new();
    let mut rest = file;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length = digits.max(rest.chars().next().map_or(0, char::len_utf8));
        let (part, after) = rest.split_at(length);
        name.push_str(match part {
            _ if part == id && facts.is_array => "%A",
            _ if part == id => "%j",
            _ if part == no_task => "%a",
            "%" => "%%",
            _ => part,
        });
        rest = after;
    }
    name
}

/// Returns the jobs of a dependency without their states: `afterok:2(unfulfilled)`.
fn without_states(jobs: &str) -> String {
    let mut parts = jobs.split('(');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |known, part| known + part.split_once(')').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::job_details;
    use crate::script::{ScriptSource, read_script};
    use hsched_model::JobId;

    /// Printed by Slurm 24.11 for `sbatch -J q6 -p gpu -N1 --gres=gpu:v100:3 -c4 --mem=8G -t 12:00:00 fill.sh a`.
    const PENDING: &str = "JobId=12 JobName=q6 UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A Priority=1 Nice=0 \
        Account=(null) QOS=(null) JobState=PENDING Reason=Resources Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 \
        Reboot=0 ExitCode=0:0 RunTime=00:00:00 TimeLimit=12:00:00 TimeMin=N/A SubmitTime=2026-11-27T08:36:56 \
        EligibleTime=2026-11-27T08:36:56 AccrueTime=Unknown StartTime=Unknown EndTime=Unknown Deadline=N/A \
        SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-27T08:36:56 Scheduler=Main Partition=gpu \
        AllocNode:Sid=vm:14687 ReqNodeList=(null) ExcNodeList=(null) NodeList= NumNodes=1-1 NumCPUs=4 NumTasks=1 \
        CPUs/Task=4 ReqB:S:C:T=0:0:*:* ReqTRES=cpu=4,mem=8G,node=1,billing=4 AllocTRES=(null) Socks/Node=* \
        NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=4 MinMemoryNode=8G MinTmpDiskNode=0 Features=(null) \
        DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) Command=/home/ann/fill.sh a \
        WorkDir=/home/ann StdErr=/home/ann/slurm-12.out StdIn=/dev/null StdOut=/home/ann/slurm-12.out \
        TresPerNode=gres/gpu:v100:3 TresPerTask=cpu=4 ";

    fn options(text: &str) -> JobOptions {
        job_details::parse(text).remove(0).options
    }

    /// Returns the options of a job beside those of a script.
    fn beside(text: &str, script: &str, asks_for_same_gpus: bool) -> String {
        let reading = read_script(&ScriptSource {
            script: Some(format!("#!/bin/sh\n{script}\n").as_bytes()),
            file_name: "fill.sh",
            command_line: &[],
            environment: &BTreeMap::new(),
            version: None,
        });
        let facts = OutputFacts {
            job_id: JobId(12),
            name: "q6",
            user: "ann",
            nodes: "",
            is_array: text.contains("ArrayTaskId="),
        };
        let options = options(text);
        let files = options.files_beside(&reading, &facts);
        [options.beside(&reading, asks_for_same_gpus), files].concat().join(" ")
    }

    #[test]
    fn options_that_the_script_lacks_or_sets_otherwise_are_repeated() {
        let all =
            "--job-name=q6 --partition=gpu --time=12:00:00 --cpus-per-task=4 --mem=8G --gres=gpu:v100:3";
        assert_eq!(beside(PENDING, "", false), all);
        let script = "#SBATCH -J q6 -t 720 -c4\n#SBATCH --mem=8G --partition=gpu --gres=gpu:v100:3";
        assert_eq!(beside(PENDING, script, true), "");
        let other = "#SBATCH -J q7 -t 60 -c2\n#SBATCH --mem=8G --partition=hi --nodes=4 --nice=9";
        let differs = "--job-name=q6 --partition=gpu --time=12:00:00 --cpus-per-task=4 --nice=0 --nodes=1";
        assert_eq!(beside(PENDING, other, true), differs);
        assert_eq!(options(PENDING).folder.as_deref(), Some("/home/ann"));
        assert_eq!(options(PENDING).unread, [""; 0]);
    }

    #[test]
    fn less_usual_options_are_repeated_or_named() {
        let text = PENDING
            .replace("Reason=Resources Dependency=(null) Requeue=1", "Reason=BeginTime Dependency=afterok:2(unfulfilled),singleton(unfulfilled) Requeue=0")
            .replace("NumNodes=1-1 NumCPUs=4 NumTasks=1", "NumNodes=2-3 NumCPUs=4 NumTasks=4")
            .replace("NtasksPerN:B:S:C=0:", "NtasksPerN:B:S:C=2:")
            .replace("OverSubscribe=OK Contiguous=0", "OverSubscribe=NO Contiguous=1")
            .replace("JobName=q6", "ArrayJobId=12 ArrayTaskId=1-4%2 ArrayTaskThrottle=2 JobName=q6")
            .replace(" StdErr=/home/ann/slurm-12.out", " Comment=a b  StdErr=/home/ann/12/e-12_4294967294.txt")
            .replace("StdOut=/home/ann/slurm-12.out", "StdOut=/home/ann/slurm-12_4294967294.out")
            .replace("TresPerNode=gres/gpu:v100:3 TresPerTask=cpu=4", "CpusPerTres=gres/gpu:2 MemPerTres=gres:gpu:2048 TresPerTask=cpu=2,gres/gpu:v100=1 MailUser=ann MailType=END");
        assert_eq!(
            beside(&text, "#SBATCH -J q6 -p gpu -t 720 -c4 --mem=8G", false),
            "--array=1-4%2 --nodes=2-3 --ntasks=4 --ntasks-per-node=2 --dependency=afterok:2,singleton \
            --begin=2026-11-27T08:36:56 --exclusive --contiguous --no-requeue --comment=a b --mail-type=END \
            --cpus-per-gpu=2 --mem-per-gpu=2048M --gpus-per-task=v100:1 --error=/home/ann/%A/e-%A_%a.txt"
        );
        let all =
            PENDING.replace("TresPerNode=gres/gpu:v100:3", "Switches=1@00:05:00 TresPerJob=gres:gpu:v100:3");
        assert_eq!(options(&all).unread, ["Switches"]);
        assert!(beside(&all, "", false).ends_with(" --gpus=v100:3"));
    }
}
