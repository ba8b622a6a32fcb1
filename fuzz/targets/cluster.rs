//! Cluster files: what is read is written as a file that reads back the same.
#![no_main]

use hsched_model::formats::cluster;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(read) = cluster::parse(text)
        && read.nodes.len() < 2000
    {
        let yaml = cluster::to_yaml(&read);
        assert_eq!(cluster::parse(&yaml).as_ref(), Ok(&read), "{yaml}");
    }
});
