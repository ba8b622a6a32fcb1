//! Arbitrary batch scripts: the resulting YAML and JSON have the same content.
#![no_main]

use hsched_slurm::batch_script;
use hsched_model::formats::jobs;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let imported = batch_script::read(text, "job");
    let yaml = jobs::parse(&imported.to_yaml("job.sh").replace(": TODO", ": 4096"));
    let json = jobs::parse(&imported.to_json().to_string().replace("\"TODO\"", "4096"));
    assert_eq!(yaml.ok(), json.ok());
});
