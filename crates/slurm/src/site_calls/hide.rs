//! Removes names from the output of a call, according to the content of each field. Values not known to be
//! harmless are removed.

use super::{Call, NameReplacer, OutputLayout};
use crate::record::{FIELD_END, RECORD_END, value};

/// The treatment of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueTreatment {
    Keep,
    Hosts,
    /// `alice` or `alice(1000)`.
    User,
    Users,
    Account,
    Accounts,
    Job,
    Reservation,
    Reason,
    Comment,
    Cluster,
    LeaveOut,
}

/// Placeholder for a removed value.
const LEFT_OUT: &str = "-";

/// Fields and keys whose values may identify people or the site.
const NAMING: [(&str, ValueTreatment); 27] = [
    ("nodelist", ValueTreatment::Hosts),
    ("nodes", ValueTreatment::Hosts),
    ("reqnodelist", ValueTreatment::Hosts),
    ("reqnodes", ValueTreatment::Hosts),
    ("excnodelist", ValueTreatment::Hosts),
    ("schednodelist", ValueTreatment::Hosts),
    ("batchhost", ValueTreatment::Hosts),
    ("user", ValueTreatment::User),
    ("username", ValueTreatment::User),
    ("users", ValueTreatment::Users),
    ("userid", ValueTreatment::User),
    ("groupid", ValueTreatment::User),
    ("account", ValueTreatment::Account),
    ("accounts", ValueTreatment::Accounts),
    ("parentname", ValueTreatment::Account),
    ("defaccount", ValueTreatment::Account),
    ("allowaccounts", ValueTreatment::Accounts),
    ("denyaccounts", ValueTreatment::Accounts),
    ("name", ValueTreatment::Job),
    ("jobname", ValueTreatment::Job),
    ("reservation", ValueTreatment::Reservation),
    ("reservationname", ValueTreatment::Reservation),
    ("reason", ValueTreatment::Reason),
    ("comment", ValueTreatment::Comment),
    ("cluster", ValueTreatment::Cluster),
    ("clustername", ValueTreatment::Cluster),
    ("allocnode:sid", ValueTreatment::LeaveOut),
];

/// Fields and keys without personal data.
const PLAIN: &str = " partition defaultqos grpjobs grptresmins grptresraw grptresrunmins maxjobspu maxjobspa maxtrespernode maxtrespu maxtrespa maxtresmins \
    maxwall mintres grpsubmit grpwall maxsubmitpu maxsubmitpa usagefactor time statecomplete:/,statelong gres gresused cpusstate memory allocmem features_act jobid jobarrayid hetjobid \
    hetjoboffset state submittime starttime endtime timeleft numnodes numcpus restartcnt exit_code tres-alloc tres-per-node \
    tres-per-job tres-per-task tres-per-socket qos prioritylong timelimit numtasks feature oversubscribe rawshares rawusage \
    fairshare maxjobs maxsubmit grptres maxtres jobidraw exitcode derivedexitcode submit start end timelimitraw nnodes ncpus \
    alloctres reqtres arrayjobid arraytaskid arraytaskthrottle hetjobidset priority nice jobstate dependency requeue restarts batchflag reboot runtime \
    timemin eligibletime accruetime deadline suspendtime secspresuspend lastschedeval scheduler cpus/task reqb:s:c:t tres \
    socks/node ntaskspern:b:s:c corespec mincpusnode minmemorynode minmemorycpu mintmpdisknode features delayboot contiguous \
    licenses network power cpuspertres mempertres tresperjob trespernode trespertask job_gres cpu_ids mem switches \
    preempt preempteligibletime preempttime partitionname allowqos denyqos default defaulttime disablerootjobs exclusiveuser exclusivetopo \
    gracetime hidden maxnodes maxtime minnodes lln maxcpuspernode maxcpuspersocket priorityjobfactor prioritytier rootonly reqresv \
    overtimelimit preemptmode totalcpus totalnodes selecttypeparameters jobdefaults defmempernode defmempercpu maxmempernode \
    maxmempercpu tresbillingweights elapsedraw reqmem maxrss totalcpu tresusageinave ntasks duration nodecnt corecnt flags maxstartdelay ";

/// Configuration keys that hsched reads, or that describe the capabilities of the site's Slurm.
const CONFIG: &str = " accountingstorageenforce accountingstoragetres accountingstoragetype accountingstorageexternalhost authtype \
    clustername enforcepartlimits federationparameters grestypes jobacctgathertype jobrequeue killwait launchparameters maxarraysize \
    maxjobcount messagetimeout minjobage overtimelimit preemptmode preempttype preemptexempttime preemptparameters prioritycalcperiod \
    prioritydecayhalflife priorityfavorsmall priorityflags prioritymaxage priorityparameters prioritysitefactorparameters \
    prioritytype priorityusageresetperiod priorityweightage priorityweightassoc priorityweightfairshare priorityweightjobsize \
    priorityweightpartition priorityweightqos priorityweighttres privatedata proctracktype schedulerparameters schedulertype \
    scronparameters selecttype selecttypeparameters slurm_version slurmctldtimeout slurmdtimeout switchtype taskplugin topologyplugin \
    topologyparam vsizefactor waittime ";

impl Call {
    /// Returns the command line with names replaced.
    pub fn hidden_command(&self, names: &mut NameReplacer) -> String {
        let mut command = self.command.clone();
        for argument in &mut command.args {
            if let Some(name) = argument.strip_prefix("--name=") {
                *argument = format!("--name={}", names.job(name));
            }
        }
        names.sentence(&command.to_string())
    }

    /// Returns the output with names replaced.
    pub fn hidden(&self, output: &str, names: &mut NameReplacer) -> String {
        match self.layout {
            OutputLayout::Records(fields) => table(output, RECORD_END, FIELD_END, fields, names),
            OutputLayout::Lines(separator, fields) => table(output, '\n', separator, fields, names),
            OutputLayout::Keys => lines(output, |line| keys(line, names)),
            OutputLayout::Config => lines(output, |line| config(line, names)),
            OutputLayout::Words => lines(output, |line| Some(words(line, names))),
            OutputLayout::JobCommand => lines(output, job_command),
        }
    }
}

fn handling(key: &str) -> ValueTreatment {
    let key = key.to_ascii_lowercase();
    let naming = NAMING.iter().find(|(name, _)| *name == key).map(|(_, handling)| *handling);
    naming.unwrap_or(if is_in(PLAIN, &key) { ValueTreatment::Keep } else { ValueTreatment::LeaveOut })
}

fn is_in(list: &str, key: &str) -> bool {
    list.split_whitespace().any(|word| word == key)
}

fn hide(handling: ValueTreatment, text: &str, names: &mut NameReplacer) -> String {
    let mut each = |text: &str, replace: fn(&mut NameReplacer, &str) -> String| {
        text.split(',').map(|name| replace(names, name)).collect::<Vec<_>>().join(",")
    };
    match handling {
        ValueTreatment::Users => each(text, NameReplacer::user),
        ValueTreatment::Accounts if text.eq_ignore_ascii_case("all") => text.to_owned(),
        ValueTreatment::Accounts => each(text, NameReplacer::account),
        ValueTreatment::Hosts => names.hosts(text),
        ValueTreatment::User => match text.split_once('(').filter(|(name, _)| !name.is_empty()) {
            Some((name, _)) => format!("{}(0)", names.user(name)),
            None => names.user(text),
        },
        ValueTreatment::Account => names.account(text),
        ValueTreatment::Job => names.job(text),
        ValueTreatment::Reservation => names.reservation(text),
        ValueTreatment::Reason => names.reason(text),
        ValueTreatment::Comment => names.comment(text),
        ValueTreatment::Cluster if value(text).is_some() => "cluster".to_owned(),
        ValueTreatment::LeaveOut if value(text).is_some() => LEFT_OUT.to_owned(),
        ValueTreatment::Keep | ValueTreatment::Cluster | ValueTreatment::LeaveOut => text.to_owned(),
    }
}

/// Replaces the values of a table; other lines are removed.
fn table(text: &str, end: char, separator: char, fields: &[&str], names: &mut NameReplacer) -> String {
    let record = |record: &str, names: &mut NameReplacer| {
        let (line_break, record) = match record.strip_prefix('\n') {
            Some(rest) => ("\n", rest),
            None => ("", record),
        };
        let values: Vec<&str> = record.split(separator).collect();
        if values == fields {
            // The header.
            return format!("{line_break}{record}");
        }
        // A job's name may contain the separator, in which case no field is certain.
        if values.len() != fields.len() {
            return if record.trim().is_empty() { format!("{line_break}{record}") } else { String::new() };
        }
        let hidden = fields.iter().zip(values).map(|(field, text)| {
            // A drained node's reason is free text; a pending job's is set by Slurm.
            let is_free = fields[0] == "NodeList" && *field == "Reason";
            // Names of QOS are kept, as in all other output.
            let is_qos = fields[0] == "Name" && *field == "Name";
            let known = if is_qos { ValueTreatment::Keep } else { handling(field) };
            hide(if is_free { ValueTreatment::LeaveOut } else { known }, text, names)
        });
        line_break.to_owned() + &hidden.collect::<Vec<_>>().join(&separator.to_string())
    };
    let mut hidden = String::new();
    for piece in text.split_inclusive(end) {
        let (row, ending) = piece.strip_suffix(end).map_or((piece, None), |row| (row, Some(end)));
        hidden.push_str(&record(row, names));
        hidden.extend(ending);
    }
    hidden
}

fn lines(text: &str, mut line: impl FnMut(&str) -> Option<String>) -> String {
    text.lines().filter_map(|original| Some(line(original)? + "\n")).collect()
}

/// Replaces the values of `KEY=value KEY=value`; a value extends to the next key.
fn keys(line: &str, names: &mut NameReplacer) -> Option<String> {
    let indent = line.len() - line.trim_start().len();
    let is_key = |word: &str| {
        word.split_once('=').is_some_and(|(key, _)| {
            key.starts_with(|c: char| c.is_ascii_uppercase())
                && key.chars().all(|c| c.is_ascii_alphanumeric() || "/:&_-".contains(c))
        })
    };
    let mut pairs: Vec<(String, String)> = Vec::new();
    for word in line.trim_start().split(' ') {
        match (is_key(word), word.split_once('='), pairs.last_mut()) {
            (true, Some((key, value)), _) => pairs.push((key.to_owned(), value.to_owned())),
            (_, _, Some((_, value))) => {
                value.push(' ');
                value.push_str(word);
            }
            (_, _, None) if word.trim().is_empty() => {}
            // Part of a multi-line comment, whose content is unknown.
            _ => return None,
        }
    }
    let shown = pairs.into_iter().map(|(key, value)| {
        let trimmed = value.trim_end();
        format!("{key}={}{}", hide(handling(&key), trimmed, names), &value[trimmed.len()..])
    });
    Some(" ".repeat(indent) + &shown.collect::<Vec<_>>().join(" "))
}

fn config(line: &str, names: &mut NameReplacer) -> Option<String> {
    if line.starts_with("Configuration data as of") {
        return Some(line.to_owned());
    }
    let (key, text) = line.split_once('=')?;
    let known = key.trim().to_ascii_lowercase();
    let handling = match known.as_str() {
        "clustername" => ValueTreatment::Cluster,
        "accountingstorageexternalhost" => ValueTreatment::Hosts,
        _ => ValueTreatment::Keep,
    };
    is_in(CONFIG, &known).then(|| format!("{key}= {}", hide(handling, text.trim(), names)))
}

/// Replaces the host names behind `at`, as in `Slurmctld(primary) at head is UP`.
fn words(line: &str, names: &mut NameReplacer) -> String {
    let Some((who, rest)) = line.split_once(" at ") else { return line.to_owned() };
    let (hosts, state) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
    format!("{who} at {}{state}", names.hosts(hosts))
}

/// Replaces the command in `7 RUNNING /home/alice/run.sh`.
fn job_command(line: &str) -> Option<String> {
    let mut words = line.splitn(3, ' ');
    let (id, state) = (words.next()?, words.next()?);
    Some(words.next().map_or(format!("{id} {state}"), |_| format!("{id} {state} {LEFT_OUT}")))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::site_calls::calls;
    use crate::{JobId, accounting};

    /// Returns the anonymised output of the call with this name.
    fn hidden(name: &str, output: &str) -> String {
        let now = DateTime::from_timestamp(1_795_000_000, 0).expect("a date");
        let calls = calls("alice", None, now, now, &[JobId(7)], "bert");
        let call = calls.iter().find(|call| call.name == name).expect("a call");
        call.hidden(output, &mut NameReplacer::default())
    }

    #[test]
    fn every_field_of_a_table_is_known() {
        let now = DateTime::from_timestamp(1_795_000_000, 0).expect("a date");
        for call in calls("alice", None, now, now, &[], "bert") {
            if let OutputLayout::Records(fields) | OutputLayout::Lines(_, fields) = call.layout {
                let unknown: Vec<_> =
                    fields.iter().filter(|field| handling(field) == ValueTreatment::LeaveOut).collect();
                assert!(unknown.is_empty(), "{}: {unknown:?}", call.name);
            }
        }
    }

    #[test]
    fn tables_keep_their_shape() {
        let framed = |text: &str| text.replace('|', "\u{1f}").replace('^', "\u{1e}");
        let sinfo = "ng1|gpu*|1:00:00|drained|gpu:v100:2|gpu:v100:0|0/8/0/8|64000|0|ib|call Alice^\n\
                     ng2|gpu*|1:00:00|idle|gpu:v100:2|gpu:v100:0|0/8/0/8|64000|0|ib|none^\n";
        let expected = sinfo.replace("ng", "hosta").replace("call Alice", "-");
        assert_eq!(hidden("sinfo", &framed(sinfo)), framed(&expected));
        let header = accounting::COLUMNS.join("|");
        let row = "7|my thesis|gpu|FAILED|1:0|a|b|c|60|cpu=1|cpu=1|1|1|4G|1K|00:01|cpu=1";
        let past = format!("{header}\n{row}\n{}\n", row.replace("7|my thesis", "7.batch|batch"));
        assert_eq!(hidden("past-jobs", &framed(&past)), framed(&past.replace("my thesis", "job1")));
        let now = DateTime::from_timestamp(1_795_000_000, 0).expect("a date");
        let calls = calls("alice", None, now, now, &[], "my thesis, part 2");
        let named = calls.iter().find(|call| call.name == "named").expect("a call");
        let command = named.hidden_command(&mut NameReplacer::of_user("alice"));
        assert!(command.ends_with("'--name=job1' '--user=user1'"), "{command}");
        assert_eq!(
            hidden("pool", "7 RUNNING /home/alice/run.sh --lr 3\n8 PENDING\n"),
            "7 RUNNING -\n8 PENDING\n"
        );
        let shares = "root||||1.0|\n def-alice|alice|1|17|0.5|cpu=7\n";
        assert_eq!(hidden("shares", shares), "account1||||1.0|\n account2|user1|1|17|0.5|cpu=7\n");
    }

    #[test]
    fn keys_that_nobody_knows_are_left_out() {
        let line = "JobId=7 JobName=my thesis UserId=alice(1000) Account=def-alice JobState=RUNNING NodeList=ng[1-2] \
                    Command=/home/alice/run.sh --lr 3 WorkDir=/home/alice Comment=x NewKey=alice ";
        let expected = "JobId=7 JobName=job1 UserId=user1(0) Account=account1 JobState=RUNNING NodeList=hosta[1-2] \
                        Command=- WorkDir=- Comment=comment NewKey=- \n";
        assert_eq!(hidden("job-7", line), expected);
        assert_eq!(
            hidden("allocation-7", "     Nodes=ng1 CPU_IDs=0-3 Mem=8000 GRES=gpu:v100:2(IDX:0-1)"),
            "     Nodes=hosta1 CPU_IDs=0-3 Mem=8000 GRES=gpu:v100:2(IDX:0-1)\n"
        );
        let record = "User Records\nUserName=alice(1000) DefAccount=def-alice DefWckey= AdminLevel=None\n";
        let expected = "UserName=user1(0) DefAccount=account1 DefWckey= AdminLevel=None\n";
        assert_eq!(hidden("default-account", record), expected);
        let config = "Configuration data as of 2026-11-21T11:50:36\nClusterName             = north\nSlurmctldHost[0]        = north-head\n\
                      AccountingStorageExternalHost = db1:6819\nKillWait                = 30 sec\n";
        let expected = "Configuration data as of 2026-11-21T11:50:36\nClusterName             = cluster\nAccountingStorageExternalHost = hosta1:6819\nKillWait                = 30 sec\n";
        assert_eq!(hidden("config", config), expected);
        assert_eq!(
            hidden("ping", "Slurmctld(primary) at north-head is UP"),
            "Slurmctld(primary) at hosta-hostb is UP\n"
        );
        assert_eq!(
            hidden("ping", "Slurmctld(primary/backup) at h1/h2 are UP/DOWN"),
            "Slurmctld(primary/backup) at hosta1/hosta2 are UP/DOWN\n"
        );
    }
}
