//! Batch scripts with options beside them: after a value is replaced in place, the same option has the new
//! value.
#![no_main]

use std::collections::BTreeMap;

use hsched_slurm::script::{OptionSource, ScriptReading, ScriptSource, SlurmVersion, read_script};

fn read(script: &[u8], words: &[String], version: SlurmVersion) -> ScriptReading {
    let environment = BTreeMap::new();
    let version = Some(version);
    read_script(&ScriptSource { script: Some(script), file_name: "x", command_line: words, environment: &environment, version })
}

libfuzzer_sys::fuzz_target!(|input: (&[u8], &str, bool)| {
    let (script, line, is_new) = input;
    let words: Vec<String> = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let version = if is_new { SlurmVersion::DEFAULT } else { SlurmVersion { year: 22, month: 5 } };
    let reading = read(script, &words, version);
    let _ = reading.to_json();
    for (place, option) in reading.options.iter().enumerate() {
        let OptionSource::Script { value: Some(value), .. } = &option.source else { continue };
        let changed = [&script[..value.bytes.start], b"1", &script[value.bytes.end..]].concat();
        let again = read(&changed, &words, version);
        // Another value of a `#PBS` or `#BSUB` option may be translated in another way.
        if !script.windows(2).any(|pair| pair == b"#P" || pair == b"#B") {
            let second = again.options.get(place).map(|option| (option.name.as_str(), option.value.as_deref()));
            assert_eq!(second, Some((option.name.as_str(), Some("1"))));
        }
    }
});
