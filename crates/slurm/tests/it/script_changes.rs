//! Changes of scripts: the resulting options; in the script, only the bytes of the values change.

use std::collections::BTreeMap;

use proptest::prelude::*;

use hsched_model::{GpuAsk, GpuType, Request, Seconds};
use hsched_queue::{Change, Snapshot};
use hsched_slurm::script::{ScriptReading, ScriptSource, read_script};
use hsched_slurm::script_changes::{NotInScript, Setting, rewrite, settings, site_request, words};

fn read(script: &[u8], command_line: &[&str]) -> ScriptReading {
    let command_line: Vec<String> = command_line.iter().map(|word| (*word).to_owned()).collect();
    let environment = BTreeMap::from([("SBATCH_QOS".to_owned(), "high".to_owned())]);
    let source = ScriptSource {
        script: Some(script),
        file_name: "a.sh",
        command_line: &command_line,
        environment: &environment,
        version: None,
    };
    let reading = read_script(&source);
    assert_eq!(reading.refused, None);
    reading
}

fn script(options: &str) -> Vec<u8> {
    let lines = options.split(';').map(|line| format!("#SBATCH {}\n", line.trim()));
    format!("#!/bin/bash\n{}srun x\n", lines.collect::<String>()).into_bytes()
}

fn snapshot() -> Snapshot {
    let text = r#"{"schema": "hsched.queue/1", "taken_at": 1000000, "nodes": [
        {"name": "n1", "partitions": ["p"], "cpus": 64, "memory_mib": 262144, "gpus": [{"type": "a100", "count": 8}]},
        {"name": "n2", "partitions": ["p"], "cpus": 64, "memory_mib": 262144, "gpus": [{"type": "a100", "count": 8}]}],
        "partitions": [{"name": "p", "default": true, "max_time_s": 172800, "default_time_s": 3600}]}"#;
    Snapshot::parse(text).expect("a snapshot")
}

fn request(reading: &ScriptReading) -> Request {
    site_request(reading, &snapshot()).expect("known").requests.remove(0)
}

#[test]
fn a_script_asks_for_what_the_site_makes_of_it() {
    let check = |options: &str, expected: (u32, u32, Option<u64>, Option<u64>, f64)| {
        let request = request(&read(&script(options), &[]));
        let gpus = request.asks.gpus.iter().map(|ask| ask.count).sum();
        let hours = request.limit.0 / 3600.0;
        assert_eq!(
            (request.asks.nodes, gpus, request.asks.cpus, request.asks.memory_mib, hours),
            expected,
            "{options}"
        );
    };
    check("--gres=gpu:a100:4 -c 16 --mem=64G -t 8:00:00", (1, 4, Some(16), Some(65536), 8.0));
    // Without an option, the partition's default limit applies; with "no limit", the longest one.
    check("--gres=gpu:2", (1, 2, Some(1), None, 1.0));
    check("-G 2 -t 0 --mem=0", (1, 2, Some(1), Some(262_144), 48.0));
    check(
        "-N 2 --gpus-per-node=8 --ntasks-per-node=8 -c 4 --mem-per-cpu=2G",
        (2, 8, Some(32), Some(65536), 1.0),
    );
    check("--gpus=16 --cpus-per-gpu=4 --mem-per-gpu=8G", (2, 8, Some(32), Some(65536), 1.0));
    check("--gpus-per-task=1 -n 12", (2, 6, Some(6), None, 1.0));
    check("-n 100", (2, 0, Some(50), None, 1.0));
    // No node has the CPUs of one task.
    check("-c 100 --gres=gpu:1", (1, 1, Some(100), None, 1.0));
    check("-c 40 -n 2", (2, 0, Some(40), None, 1.0));
    let other = site_request(
        &read(&script("-n 1; --licenses=a:1; --dependency=singleton; --exclude=n1"), &[]),
        &snapshot(),
    );
    let other = other.expect("known");
    assert_eq!(other.not_counted, ["--licenses=a:1", "--dependency=singleton"]);
    assert_eq!(other.requests[0].asks.exclude.len(), 1);
}

/// Slurm 24.11 allocated these GPUs on nodes of such sizes: 4 + 4 + 2 for `--gpus=v100:10`.
#[test]
fn several_types_and_uneven_splits_are_kept() {
    let text = r#"{"schema": "hsched.queue/1", "taken_at": 1, "nodes": [
        {"name": "v1", "gpus": [{"type": "v100", "count": 4}]}, {"name": "v2", "gpus": [{"type": "v100", "count": 4}]},
        {"name": "t1", "gpus": [{"type": "t4", "count": 4}]},
        {"name": "m1", "gpus": [{"type": "v100", "count": 2}, {"type": "t4", "count": 2}]}]}"#;
    let snapshot = Snapshot::parse(text).expect("a snapshot");
    let check = |options: &str, expected: &str, not_counted: &[&str]| {
        let found = site_request(&read(&script(options), &[]), &snapshot).expect("known");
        let asks = &found.requests[0].asks;
        let gpu_type = |ask: &GpuAsk| ask.gpu_type.as_ref().map_or("any", GpuType::as_str).to_owned();
        let gpus: Vec<String> =
            asks.gpus.iter().map(|ask| format!("{}:{}", gpu_type(ask), ask.count)).collect();
        assert_eq!(format!("{} x {}", asks.nodes, gpus.join(",")), expected, "{options}");
        assert_eq!(found.not_counted, not_counted, "{options}");
    };
    check("--gres=gpu:v100:2,gpu:t4:2", "1 x v100:2,t4:2", &[]);
    check("--gres=gpu:t4:1,gpu:t4:2", "1 x t4:2", &[]);
    check("--gpus=v100:2,t4:1", "1 x v100:2,t4:1", &[]);
    check("--gpus=v100:8", "2 x v100:4", &[]);
    check("--gpus=v100:10", "3 x v100:2", &["the uneven split of 10 GPUs over 3 nodes"]);
    check("--gpus=v100:11", "3 x v100:4", &[]);
    check("--gpus=3 -N 2", "2 x any:2", &[]);
    check("--gpus=v100:4 -N 4", "4 x v100:1", &[]);
    check("--gpus=v100:4,p100:1", "1 x v100:4", &["GPUs of type p100"]);
    check("--gres=shard:2", "1 x ", &["--gres=shard:2"]);
}

#[test]
fn a_change_keeps_the_form_of_the_options() {
    let gpus = |nodes, per_node| Change::Gpus { nodes, per_node };
    let a = || GpuType::new("h100").expect("a type");
    let check = |options: &str, changes: &[Change], expected: Option<&str>| {
        let reading = read(&script(options), &[]);
        let found = settings(&reading, &request(&reading), changes).map(|setting| words(&setting).join(" "));
        assert_eq!(found.as_deref(), expected, "{options}");
    };
    check("-t 1-0", &[Change::Limit(Seconds(5400.0))], Some("--time=01:30:00"));
    check("-t 8:0:0", &[Change::Limit(Seconds(100_800.0))], Some("--time=1-04:00:00"));
    check(
        "-p p",
        &[Change::Partition("p,q".to_owned()), Change::Qos("b".to_owned())],
        Some("--partition=p,q --qos=b"),
    );
    check("--gres=gpu:a100:4", &[Change::GpuType(a())], Some("--gres=gpu:h100:4"));
    check("-G a100:4; -N 1", &[Change::GpuType(a())], Some("--gpus=h100:4"));
    check("--gpus-per-node=4; --gpus=8; -N 2", &[gpus(2, 2)], Some("--gpus=4 --gpus-per-node=2"));
    // The script has one task per node, which starts the other processes itself, or one task per GPU.
    check("--gres=gpu:4 -c 16 --mem=64G", &[gpus(1, 2)], Some("--gres=gpu:2 --cpus-per-task=8 --mem=32G"));
    check("--gres=gpu:4 --ntasks-per-node=4 -c 4", &[gpus(1, 2)], Some("--gres=gpu:2 --ntasks-per-node=2"));
    check("--gres=gpu:4 -N 2 -n 8", &[gpus(4, 2)], Some("--gres=gpu:2 --nodes=4"));
    check("--gres=gpu:4 -N 2 -n 2", &[gpus(1, 8)], Some("--gres=gpu:8 --nodes=1 --ntasks=1"));
    check("--gpus-per-task=1 -n 8 -N 1", &[gpus(2, 4)], Some("--nodes=2"));
    check("--gres=gpu:4 --ntasks-per-node=3", &[gpus(1, 2)], None);
    check("--gres=gpu:2 -c 16", &[Change::Cpus(6)], Some("--cpus-per-task=6"));
    check("--gres=gpu:2 --cpus-per-gpu=8", &[Change::Cpus(6)], Some("--cpus-per-gpu=3"));
    check("--gres=gpu:2 -c 4 --mem-per-cpu=8G", &[Change::Memory(20480)], Some("--mem-per-cpu=5G"));
    check("--gres=gpu:2 --mem=9G", &[Change::Memory(5000)], Some("--mem=5000M"));
    check("--gres=gpu:2", &[Change::Cpus(1)], None);
    check("--gres=gpu:2; hetjob; --gres=gpu:1", &[Change::Limit(Seconds(5400.0))], None);
}

#[test]
fn an_option_that_is_not_there_gets_a_line_after_the_last_one() {
    let set = |name: &str, value: &str| Setting { name: name.to_owned(), value: value.to_owned() };
    let text = b"#!/bin/bash\n#SBATCH -p p\n# more\n\nsrun x\n#SBATCH -t 1\n";
    let made = rewrite(text, &read(text, &[]), &[set("time", "8"), set("partition", "pq"), set("mem", "1G")])
        .expect("can be");
    let expected =
        "#!/bin/bash\n#SBATCH -p pq\n#SBATCH --time=8\n#SBATCH --mem=1G\n# more\n\nsrun x\n#SBATCH -t 1\n";
    assert_eq!(String::from_utf8_lossy(&made.text), expected);
    let lines: Vec<(usize, bool, usize)> = made
        .lines
        .iter()
        .map(|line_change| (line_change.line, line_change.before.is_some(), line_change.after.len()))
        .collect();
    assert_eq!(lines, [(2, true, 1), (2, false, 2)]);
    // Slurm reads #PBS lines after the first command, but no #SBATCH lines.
    let foreign = b"#!/bin/sh\n#SBATCH -p p\nsrun x\n#PBS -q b\n";
    assert_eq!(
        String::from_utf8_lossy(
            &rewrite(foreign, &read(foreign, &[]), &[set("time", "8")]).expect("can be").text
        ),
        "#!/bin/sh\n#SBATCH -p p\n#SBATCH --time=8\nsrun x\n#PBS -q b\n"
    );
    // A script without any option, and without a line end on the last line.
    let bare = b"#!/bin/sh";
    assert_eq!(
        rewrite(bare, &read(bare, &[]), &[set("time", "8")]).expect("can be").text,
        b"#!/bin/sh\n#SBATCH --time=8"
    );
    // An option that overrides the script cannot be changed in it.
    let on_line = rewrite(text, &read(text, &["-t", "9"]), &[set("time", "8")]);
    assert_eq!(on_line, Err(NotInScript::CommandLine { name: "time".to_owned() }));
    let in_environment = rewrite(text, &read(text, &[]), &[set("qos", "b")]);
    let variable = "SBATCH_QOS".to_owned();
    assert_eq!(in_environment, Err(NotInScript::Environment { name: "qos".to_owned(), variable }));
}

/// Options whose values are changed: their notations, their values, and other values.
const CHANGED: [(&str, &[&str], &[&str], &str); 4] = [
    (
        "time",
        &["--time=", "-t ", "-t", "--time ", "--time=\"", "-t '"],
        &["24:00:00", "1-0", "90"],
        "08:00:00",
    ),
    ("gres", &["--gres=", "--gres ", "--gres='"], &["gpu:a100:4", "gpu:2"], "gpu:h100:1"),
    ("partition", &["-p", "--partition=", "--part=\""], &["gpu", "a,b"], "gpu,short"),
    ("mem", &["--mem=", "--mem "], &["64G", "100000"], "512M"),
];

/// Other lines that may be in a script's header.
const BESIDE: [&str; 6] = [
    "# it's a comment",
    "",
    "#SBATCH --job-name='a b' # \"",
    "\t# x",
    "#SBATCH -o /dev/null",
    "##SBATCH -t 5",
];

/// Text that may follow an option on its line.
const BEHIND: [&str; 5] = ["", " # to be safe", "   #why", " -J x # it's", "\t"];

proptest! {
    #[test]
    fn only_the_bytes_of_the_values_change(
        parts in prop::collection::vec((0_usize..4, any::<prop::sample::Index>(), any::<prop::sample::Index>(),
            any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
        set in prop::collection::vec(any::<bool>(), 4),
        body in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let last: BTreeMap<usize, usize> = parts.iter().enumerate().map(|(place, part)| (part.0, place)).collect();
        let text = |is_new: bool| -> Vec<u8> {
            let mut text = b"#!/bin/bash\n".to_vec();
            for (place, (number, form, value, beside, behind)) in parts.iter().enumerate() {
                let (_, forms, values, other) = CHANGED[*number];
                let form = form.get(forms);
                let quote = form.chars().last().filter(|c| matches!(c, '"' | '\'')).map_or(String::new(), |c| c.to_string());
                // Only the last of several options counts.
                let value = if is_new && set[*number] && last[number] == place { other } else { value.get(values) };
                text.extend(format!("{}\n#SBATCH {form}{value}{quote}{}\n", beside.get(&BESIDE), behind.get(&BEHIND)).bytes());
            }
            text.extend(b"srun x\n");
            // No line of the body is a PBS or LSF option, because those count anywhere; and it has no DOS
            // line ends.
            text.extend(body.iter().map(|byte| if matches!(byte, b'#' | b'\r' | 0) { b' ' } else { *byte }));
            text
        };
        let script = text(false);
        let reading = read(&script, &[]);
        let wanted: Vec<Setting> = CHANGED.iter().enumerate()
            .filter(|(number, _)| set[*number] && last.contains_key(number))
            .map(|(_, (name, _, _, value))| Setting { name: (*name).to_owned(), value: (*value).to_owned() })
            .collect();
        let made = rewrite(&script, &reading, &wanted).expect("can be changed");
        let expected = text(true);
        prop_assert_eq!(String::from_utf8_lossy(&made.text), String::from_utf8_lossy(&expected));
        // Each value is read as intended.
        let again = read(&made.text, &[]);
        for Setting { name, value } in wanted {
            let read = again.options.iter().rev().find(|option| option.name == name).and_then(|option| option.value.clone());
            prop_assert_eq!(read, Some(value));
        }
    }
}
