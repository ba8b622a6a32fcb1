//! Cluster files: a file that is read and written again reads back as the same cluster.
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
