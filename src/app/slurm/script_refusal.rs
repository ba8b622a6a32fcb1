//! Why `sbatch` or the cluster refuses a script, with the line and advice.

use std::collections::BTreeSet;

use hsched_model::GpuType;
use hsched_queue::Snapshot;
use hsched_slurm::script::{OptionSource, ScriptOption, ScriptReading, gpu_form};

/// A refusal of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptRefusal {
    /// Slurm's reason, after the line at fault.
    pub why: String,
    /// What to write instead.
    pub remedy: Option<String>,
}

/// Words of reasons, and the advice.
const REMEDIES: [(&str, &str); 14] = [
    (
        NO_PARTITION,
        "look at one of these: hsched when FILE -- --partition=NAME; if the partition is hidden, first: export SINFO_ALL=1 SCONTROL_ALL=1",
    ),
    ("DOS line breaks", "remove them: sed -i 's/\\r$//' FILE"),
    ("does not look like a batch script", "let its first line be #!/bin/bash, without anything before it"),
    ("is ambiguous; possibilities", "write the option in full, as one of these"),
    ("unrecognized option", "see sbatch --help for how the option is written, or delete it"),
    ("Invalid --time specification", "write the time as hours:minutes:seconds: --time=4:00:00"),
    ("Invalid --mem", "write the memory as a whole number of M or G: --mem=16G"),
    ("mutually exclusive", "keep one of the two options"),
    ("Invalid directive found", "put # before a comment, and quotes around a value with blanks"),
    ("Unmatched", "close the quote"),
    ("Invalid numeric value", "write a whole number"),
    ("with and without type", "write the GPU type in all options, or in none"),
    ("without either --gpus or -n", "add --ntasks=NUMBER"),
    (INVALID_GRES, "request either GPUs or shares of GPUs (shard, mps)"),
];

/// Beginning of the message about a partition that is not shown: Slurm lacks it, or hides it (`Hidden=YES`).
const NO_PARTITION: &str = "Slurm shows no partition";

/// Options that request generic resources.
const GPU_OPTIONS: [&str; 6] =
    ["gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "tres-per-task"];

/// Message of `sbatch` about generic resources.
const INVALID_GRES: &str = "Invalid generic resource (gres) specification";

/// Message of `sbatch` about requests that no node can satisfy.
const NO_SUCH_NODE: &str = "Requested node configuration is not available";

/// Returns why `sbatch` refuses a script at any site; `file` is the script's name.
pub(crate) fn by_sbatch(reading: &ScriptReading, file: &str) -> Option<ScriptRefusal> {
    let why = reading.refused.clone()?;
    let is_of_gpus = why.contains(INVALID_GRES) || why.contains("Invalid Trackable RESource");
    // If the reason names a line and the refused option is the last one, the advice is about its form.
    let is_of_line = why.starts_with("line ");
    let remedy = match reading.options.last() {
        Some(option) if is_of_gpus && is_of_line => Some(
            form_remedy(option, &[])
                .unwrap_or_else(|| "write GPUs as --gres=gpu:NUMBER or --gres=gpu:TYPE:NUMBER".to_owned()),
        ),
        _ => by_words(&why, file),
    };
    Some(ScriptRefusal { why, remedy })
}

/// Returns why a cluster refuses a script: a partition that it lacks or that accepts no jobs, or a generic resource or
/// a GPU type that it lacks.
pub(crate) fn by_site(reading: &ScriptReading, file: &str, snapshot: &Snapshot) -> Option<ScriptRefusal> {
    unknown_partition(reading, file, snapshot)
        .or_else(|| closed_partition(reading, snapshot))
        .or_else(|| unknown_resource(reading, snapshot.gres_types.as_ref(), &types(snapshot)))
        .or_else(|| unknown_type(reading, snapshot))
}

/// Returns why a cluster with these generic resources refuses a script.
pub(crate) fn unknown_resource(
    reading: &ScriptReading,
    gres_types: Option<&BTreeSet<String>>,
    gpu_types: &[&str],
) -> Option<ScriptRefusal> {
    let known = gres_types?;
    let resource = reading.other_resources.iter().find(|resource| !known.contains(&resource.name))?;
    let names = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let has = if names.is_empty() { "it has none".to_owned() } else { format!("it has {names}") };
    let place = resource.line.map_or_else(String::new, |line| format!("line {line}, "));
    let remedy = gpu_option(reading, &resource.name).and_then(|option| form_remedy(option, gpu_types));
    Some(ScriptRefusal {
        why: format!(
            "{place}{}: {INVALID_GRES}: this cluster has no generic resource {}; {has}",
            resource.text, resource.name
        ),
        remedy: Some(remedy.unwrap_or_else(|| format!("delete {}", resource.name))),
    })
}

/// Returns the refusal of a word that is no GPU type, or of a type that the cluster writes in another case.
fn unknown_type(reading: &ScriptReading, snapshot: &Snapshot) -> Option<ScriptRefusal> {
    let known = types(snapshot);
    if known.is_empty() {
        return None;
    }
    let total = &reading.request.as_ref()?.total;
    let components = reading.request.iter().flat_map(|request| &request.components);
    let mut shares = std::iter::once(total).chain(components).flat_map(|request| &request.gpu_shares);
    let is_wrong = |kind: &&String| {
        let is_other_case = known.iter().any(|known| known.eq_ignore_ascii_case(kind));
        let is_no_type = GpuType::new(kind).is_none() || ["gpu", "gpus"].contains(&kind.as_str());
        !known.contains(&kind.as_str()) && (is_other_case || is_no_type)
    };
    let kind = shares.find_map(|share| share.kind.as_ref().filter(is_wrong))?;
    let option = gpu_option(reading, kind)?;
    let value = option.value.as_deref().unwrap_or_default();
    Some(ScriptRefusal {
        why: format!(
            "{}--{}={value}: {NO_SUCH_NODE}: this cluster has no GPUs of type {kind}; it has {}",
            place(option),
            option.name,
            known.join(", ")
        ),
        remedy: form_remedy(option, &known),
    })
}

/// Returns the last option that requests generic resources with this word.
fn gpu_option<'a>(reading: &'a ScriptReading, word: &str) -> Option<&'a ScriptOption> {
    let requests = |option: &&ScriptOption| {
        GPU_OPTIONS.contains(&option.name.as_str())
            && option.value.as_deref().is_some_and(|value| value.contains(word))
    };
    reading.options.iter().rev().find(requests)
}

/// Returns the refusal of a partition that the cluster lacks.
fn unknown_partition(reading: &ScriptReading, file: &str, snapshot: &Snapshot) -> Option<ScriptRefusal> {
    let partitions = &snapshot.partitions;
    let (option, names) = partition(reading)?;
    let is_known = |name: &str| {
        partitions.iter().any(|partition| partition.name == name)
            || snapshot.closed_partitions.contains_key(name)
    };
    let wrong: Vec<&str> = names.split(',').map(str::trim).filter(|name| !is_known(name)).collect();
    let known: Vec<&str> = partitions.iter().map(|partition| partition.name.as_str()).collect();
    (!partitions.is_empty() && !wrong.is_empty()).then(|| {
        let why = format!(
            "{}--partition={names}: {NO_PARTITION} {}; it shows {}",
            place(option),
            wrong.join(", "),
            known.join(", ")
        );
        ScriptRefusal { remedy: by_words(&why, file), why }
    })
}

/// Returns the last option that names partitions, with its value.
fn partition(reading: &ScriptReading) -> Option<(&ScriptOption, &str)> {
    let option = reading.options.iter().rev().find(|option| option.name == "partition")?;
    Some((option, option.value.as_deref()?))
}

/// Returns the partitions to which a script is submitted: those that it names, or the default one.
fn partitions<'a>(reading: &'a ScriptReading, snapshot: &'a Snapshot) -> Option<&'a str> {
    partition(reading).map(|(_, names)| names).or_else(|| snapshot.default_partition())
}

/// Returns the refusal of partitions that all accept no jobs; `sbatch` leaves such partitions out of a list. A
/// partition that is `DOWN` accepts them.
fn closed_partition(reading: &ScriptReading, snapshot: &Snapshot) -> Option<ScriptRefusal> {
    let names = partitions(reading, snapshot)?;
    let closed = |name: &str| {
        let (name, state) = snapshot.closed_partitions.get_key_value(name.trim())?;
        ["DRAIN", "INACTIVE"].contains(&state.as_str()).then_some((name, state))
    };
    let closed: Option<Vec<(&String, &String)>> = names.split(',').map(closed).collect();
    let (name, state) = *closed?.first()?;
    let why = match partition(reading) {
        Some((option, _)) => format!("{}--partition={names}: partition {name} is {state}", place(option)),
        None => format!("the default partition {name} is {state}"),
    };
    Some(ScriptRefusal { why, remedy: Some("submit it when the partition is UP".to_owned()) })
}

/// Returns notes on partitions that are not up, and on an account, a QOS and a reservation that Slurm does
/// not show to the user: `sbatch` refuses the latter if they do not exist or the site enforces associations.
pub(crate) fn doubts(reading: &ScriptReading, snapshot: &Snapshot) -> Vec<String> {
    let Some(total) = reading.request.as_ref().map(|request| &request.total) else { return Vec::new() };
    let accounts: Vec<&str> = snapshot.accounts.iter().map(|account| account.name.as_str()).collect();
    let mut notes = Vec::new();
    let names = partitions(reading, snapshot).into_iter().flat_map(|names| names.split(','));
    let closed = names.filter_map(|name| snapshot.closed_partitions.get_key_value(name.trim()));
    notes.extend(closed.map(|(name, state)| format!("partition {name} is {state}: it starts no new jobs")));
    if let Some(name) =
        total.account.as_deref().filter(|name| !accounts.is_empty() && !accounts.contains(name))
    {
        notes.push(format!("sbatch may refuse --account={name}: you have {}", accounts.join(", ")));
    }
    let account = total.account.as_deref().or_else(|| snapshot.own_account());
    let known = snapshot.accounts.iter().find(|known| Some(known.name.as_str()) == account);
    if let (Some(known), Some(qos)) = (known.filter(|known| !known.allowed_qos.is_empty()), &total.qos)
        && !known.allowed_qos.contains(qos)
    {
        let allowed = known.allowed_qos.join(", ");
        notes.push(format!("sbatch may refuse --qos={qos}: account {} has {allowed}", known.name));
    }
    let reservation = reading.options.iter().rev().find(|option| option.name == "reservation");
    if let Some(name) = reservation.and_then(|option| option.value.as_deref())
        && !name.split(',').any(|name| snapshot.reservations.iter().any(|known| known.name == name))
    {
        notes.push(format!("sbatch may refuse --reservation={name}: Slurm shows no such reservation"));
    }
    notes
}

/// Returns the GPU types of a cluster.
fn types(snapshot: &Snapshot) -> Vec<&str> {
    let types = snapshot.nodes.iter().flat_map(|node| &node.gpus).map(|gpu| gpu.gpu_type.as_str());
    types.collect::<BTreeSet<_>>().into_iter().collect()
}

fn place(option: &ScriptOption) -> String {
    match &option.source {
        OptionSource::Script { line, .. } => format!("line {line}, "),
        OptionSource::Environment(variable) => format!("{variable}, "),
        OptionSource::CommandLine(_) => String::new(),
    }
}

/// Returns how to write an option that requests GPUs, if its value shows what it means.
fn form_remedy(option: &ScriptOption, gpu_types: &[&str]) -> Option<String> {
    let form = gpu_form(&option.name, option.value.as_deref()?, gpu_types)?;
    Some(format!("if you mean GPUs, write --{}={form}", option.name))
}

/// Returns advice for a reason of `sbatch`, if there is any.
fn by_words(reason: &str, file: &str) -> Option<String> {
    let (_, remedy) = REMEDIES.iter().find(|(words, _)| reason.contains(words))?;
    Some(remedy.replace("FILE", file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use hsched_slurm::script::{ScriptSource, read_script};

    fn read(option: &str) -> ScriptReading {
        let script = format!("#!/bin/bash\n#SBATCH {option}\n");
        read_script(&ScriptSource {
            script: Some(script.as_bytes()),
            file_name: "a.sh",
            command_line: &[],
            environment: &BTreeMap::new(),
            version: None,
        })
    }

    fn snapshot(gres_types: &str) -> Snapshot {
        let text = format!(
            r#"{{"schema": "hsched.queue/1", "taken_at": 1, {gres_types} "partitions": [{{"name": "gpu", "default": true}}],
                "nodes": [{{"name": "n1", "gpus": [{{"type": "v100", "count": 4}}]}}]}}"#
        );
        Snapshot::parse(&text).expect("a snapshot")
    }

    #[test]
    fn known_reasons_have_a_remedy() {
        let text = by_words("Batch script contains DOS line breaks", "a.sh");
        assert_eq!(text.as_deref(), Some("remove them: sed -i 's/\\r$//' a.sh"));
        assert!(
            by_words("line 3: Invalid --time specification", "a.sh")
                .is_some_and(|text| text.contains("4:00:00"))
        );
        assert_eq!(by_words("something else", "a.sh"), None);
        let refusal = by_sbatch(&read("--gres=GPU:2"), "a.sh").expect("refused");
        assert_eq!(refusal.why, "line 2: Invalid generic resource (gres) specification");
        assert_eq!(refusal.remedy.as_deref(), Some("if you mean GPUs, write --gres=gpu:2"));
    }

    #[test]
    fn a_partition_that_is_down_accepts_jobs_that_do_not_start() {
        let mut site = snapshot("");
        let closed = [("big", "DOWN"), ("old", "INACTIVE"), ("slow", "DRAIN")];
        site.closed_partitions = closed.map(|(name, state)| (name.to_owned(), state.to_owned())).into();
        let check = |names: &str, why: Option<&str>, notes: &[&str]| {
            let reading = read(&format!("--partition={names}"));
            let refusal = by_site(&reading, "a.sh", &site).map(|refusal| refusal.why);
            let why = why.map(|why| format!("line 2, --partition={names}: {why}"));
            assert_eq!(
                (refusal, doubts(&reading, &site)),
                (why, notes.iter().map(ToString::to_string).collect())
            );
        };
        check("gpu", None, &[]);
        check("gpu,big", None, &["partition big is DOWN: it starts no new jobs"]);
        check("gpu,old", None, &["partition old is INACTIVE: it starts no new jobs"]);
        check(
            "old",
            Some("partition old is INACTIVE"),
            &["partition old is INACTIVE: it starts no new jobs"],
        );
        check("slow", Some("partition slow is DRAIN"), &["partition slow is DRAIN: it starts no new jobs"]);
        check("none", Some("Slurm shows no partition none; it shows gpu"), &[]);
        // A script that names no partition goes to the default one.
        site.partitions.clear();
        for (default, why) in [("big", None), ("old", Some("the default partition old is INACTIVE"))] {
            site.closed_default = Some(default.to_owned());
            let refusal = by_site(&read("--time=5"), "a.sh", &site).map(|refusal| refusal.why);
            assert_eq!(refusal.as_deref(), why);
            assert_eq!(doubts(&read("--time=5"), &site).len(), 1, "{default}");
        }
    }

    #[test]
    fn what_slurm_does_not_show_is_said() {
        let mut site = snapshot("");
        let account = serde_json::json!({"name": "bio", "default": true, "allowed_qos": ["normal", "high"]});
        site.accounts = vec![serde_json::from_value(account).expect("an account")];
        let check = |option: &str, expected: &[&str]| {
            assert_eq!(doubts(&read(option), &site), expected, "{option}");
        };
        check("--account=BIO --qos=high", &[]);
        check("-A chem", &["sbatch may refuse --account=chem: you have bio"]);
        check("-q low", &["sbatch may refuse --qos=low: account bio has normal, high"]);
        check(
            "--reservation=mine",
            &["sbatch may refuse --reservation=mine: Slurm shows no such reservation"],
        );
    }

    #[test]
    fn what_the_cluster_lacks_is_refused_with_its_line() {
        let site = snapshot(r#""gres_types": ["gpu", "shard"],"#);
        let refusal = by_site(&read("--gres=v100:4"), "a.sh", &site).expect("refused");
        assert_eq!(
            refusal.why,
            "line 2, --gres=v100:4: Invalid generic resource (gres) specification: this cluster has no generic resource v100; it has gpu, shard"
        );
        assert_eq!(refusal.remedy.as_deref(), Some("if you mean GPUs, write --gres=gpu:v100:4"));
        let remedy = |option: &str| by_site(&read(option), "a.sh", &site)?.remedy;
        for (option, expected) in [
            ("--gres=mps:50", Some("delete mps")),
            ("--gres=gpu:V100:4", Some("if you mean GPUs, write --gres=gpu:v100:4")),
            ("--gpus-per-node=gpu:v100:4", Some("if you mean GPUs, write --gpus-per-node=v100:4")),
            ("--gpus=gpu:2", Some("if you mean GPUs, write --gpus=2")),
            (
                "--tres-per-task=gres/v100:1 -n1",
                Some("if you mean GPUs, write --tres-per-task=gres/gpu:v100:1"),
            ),
            ("--gres=shard:2", None),
            ("--gres=gpu:a100:4", None),
            ("--gres=gpu:v100:4", None),
        ] {
            assert_eq!(remedy(option).as_deref(), expected, "{option}");
        }
        // Without a list of resources, only sbatch knows.
        assert_eq!(by_site(&read("--gres=v100:4"), "a.sh", &snapshot("")), None);
    }
}
