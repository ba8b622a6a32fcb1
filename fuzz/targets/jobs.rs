//! Job files: jobs that are read and written as JSON read back as the same jobs.
#![no_main]

use hsched_model::formats::jobs;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(read) = jobs::parse(text) else { return };
    for job in &read {
        let json = format!(r#"{{"jobs": [{}]}}"#, jobs::to_json(job));
        assert_eq!(jobs::parse(&json).as_deref(), Ok(std::slice::from_ref(job)), "{json}");
    }
});
