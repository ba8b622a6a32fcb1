//! Saved output of any kind: it is recognised, read, and written as a cluster file that reads back.
#![no_main]

use hsched_slurm::saved::{Columns, Saved, read};
use hsched_model::formats;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // If the first line is a format of sinfo, it defines the columns of the other lines.
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let columns: Option<Columns> = first.parse().ok();
    let saved = if columns.is_some() { read(rest, columns.as_ref()) } else { read(text, None) };
    let cluster = match saved {
        Ok(Saved::Printed(cluster, _)) => Some(cluster),
        Ok(Saved::Inventory(json)) => formats::inventory::parse(&json).ok().map(|(cluster, _)| cluster),
        Ok(Saved::ClusterFile) | Err(_) => None,
    };
    // A line may represent thousands of nodes, which take long and show nothing new.
    if let Some(cluster) = cluster.filter(|cluster| cluster.nodes.len() < 2000) {
        assert!(cluster.nodes.iter().flat_map(|node| &node.gpus).all(|stock| stock.used <= stock.total));
        let yaml = formats::cluster::to_yaml(&cluster);
        assert_eq!(formats::cluster::parse(&yaml).as_ref(), Ok(&cluster), "{yaml}");
    }
});
