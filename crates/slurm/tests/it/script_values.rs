//! The positions of values in generated scripts: a new value that replaces the bytes of an old one is read
//! back.

use std::collections::BTreeMap;

use hsched_slurm::script::{OptionSource, ScriptReading, ScriptSource, SlurmVersion, read_script};
use proptest::prelude::*;

fn read(script: &[u8], version: SlurmVersion) -> ScriptReading {
    read_script(&ScriptSource {
        script: Some(script),
        file_name: "x.sh",
        command_line: &[],
        environment: &BTreeMap::new(),
        version: Some(version),
    })
}

/// Returns parts of option lines, including unusual ones.
fn part() -> impl Strategy<Value = String> {
    let plain = [
        "--nodes=2",
        "-N2",
        "-n 4",
        "--gres=gpu:a100:2",
        "--gres gpu:2",
        "-t1-0",
        "--time=\"1:00:00\"",
        "'--mem=8G'",
        "-p gpu,debug",
        "--job-name=\"a #b\"",
        "-J 'it is'",
        "--comment=a\\ b",
        "--comment=x\"y z\"w",
        "--array=0-3%2",
        "hetjob",
        "# why",
        "--exclusive",
        "-HN3",
        "--constraint=\"[a|b]\"",
        "\\",
        "-C\"a\"b",
        "--part=x",
        "--qos q# x",
        "--",
        "{{ n }}",
        "--nodes={{ n }}",
        "é",
    ];
    prop_oneof![prop::sample::select(plain.to_vec()).prop_map(str::to_owned), "[-=a-z0-9 \"'#\\\\]{0,12}"]
}

fn script() -> impl Strategy<Value = String> {
    let line = (
        prop_oneof![9 => Just("#SBATCH "), 1 => Just("##SBATCH "), 1 => Just("")],
        prop::collection::vec(part(), 0..4),
    );
    prop::collection::vec(line.prop_map(|(begin, parts)| format!("{begin}{}", parts.join(" "))), 0..8)
        .prop_map(|lines| format!("#!/bin/bash\n{}\n", lines.join("\n")))
}

proptest! {
    #[test]
    fn what_takes_the_place_of_a_value_is_read(script in script(), is_new: bool) {
        let version = if is_new { SlurmVersion::DEFAULT } else { SlurmVersion { year: 22, month: 5 } };
        let reading = read(script.as_bytes(), version);
        for (place, option) in reading.options.iter().enumerate() {
            let OptionSource::Script { value: Some(value), .. } = &option.source else { continue };
            let (begin, end) = (&script.as_bytes()[..value.bytes.start], &script.as_bytes()[value.bytes.end..]);
            let again = read(&[begin, b"1", end].concat(), version);
            let second = again.options.get(place).map(|script_option| (script_option.name.as_str(), script_option.value.as_deref()));
            prop_assert_eq!(second, Some((option.name.as_str(), Some("1"))));
        }
    }

    #[test]
    fn no_bytes_panic(script: Vec<u8>, words: Vec<String>) {
        let reading = read_script(&ScriptSource {
            script: Some(&[b"#!/bin/sh\n#SBATCH ".as_slice(), &script].concat()),
            file_name: "",
            command_line: &words,
            environment: &BTreeMap::new(),
            version: None,
        });
        prop_assert!(reading.refused.is_some() || reading.request.is_some());
    }
}
