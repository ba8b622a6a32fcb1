//! Saved output of any kind: recognised, read, and written as a cluster file that reads back.
#![no_main]

use hsched::slurm::saved::{Kind, recognise};
use hsched::spec;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let cluster = match recognise(text) {
        Ok(Kind::Printed(printed)) => printed.parse(text).ok().map(|(cluster, _)| cluster),
        Ok(Kind::Inventory) => spec::inventory::parse(text).ok().map(|(cluster, _)| cluster),
        Ok(Kind::ClusterFile) | Err(_) => None,
    };
    // A line may stand for thousands of nodes; those take long and show nothing new.
    if let Some(cluster) = cluster.filter(|cluster| cluster.nodes.len() < 2000) {
        assert!(cluster.nodes.iter().flat_map(|node| &node.gpus).all(|stock| stock.used <= stock.total));
        let yaml = spec::cluster::to_yaml(&cluster);
        assert_eq!(spec::cluster::parse(&yaml).as_ref(), Ok(&cluster), "{yaml}");
    }
});
