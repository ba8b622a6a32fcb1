//! Writes clusters as cluster files.

use std::fmt::{Display, Write as _};

use super::duration::duration_text;
use crate::{Bytes, Cluster, GpuStock, GpuType, Node, NodeName, NodeState, Partition, Usage, hostlist};

/// Returns the cluster file that describes this cluster; parsing it gives an equal cluster, apart from GPU
/// types that Slurm does not know.
///
/// Adjacent nodes that differ only in name share an entry, so the order of nodes is kept.
pub fn to_yaml(cluster: &Cluster) -> String {
    let mut out = String::new();
    for (key, rate) in [("network_gbps", cluster.network), ("intra_node_gbps", cluster.intra_node)] {
        if let Some(rate) = rate {
            line(&mut out, key, rate.gigabits_per_second());
        }
    }
    if !cluster.partitions.is_empty() {
        out.push_str("partitions:\n");
        cluster.partitions.iter().for_each(|partition| write_partition(&mut out, partition));
    }
    out.push_str(if cluster.nodes.is_empty() { "nodes: []\n" } else { "nodes:\n" });
    for group in cluster.nodes.chunk_by(equal_but_for_name) {
        write_group(&mut out, group);
    }
    out
}

fn equal_but_for_name(one: &Node, other: &Node) -> bool {
    Node { name: other.name.clone(), ..one.clone() } == *other
}

fn write_group(out: &mut String, group: &[Node]) {
    let Some(node) = group.first() else {
        return;
    };
    let _ = writeln!(out, "  - name: {}", text(&names(group)));
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            line(out, &format!("    {key}"), value);
        }
    };
    let used = |usage: Option<Usage>| usage.map(|usage| usage.used).filter(|&used| used > 0);
    let stock = || node.gpus.iter();
    let typed = |entries: Vec<String>| (!entries.is_empty()).then(|| format!("{{{}}}", entries.join(", ")));
    let entry =
        |gpu_type: &GpuType, value: &dyn Display| format!("{}: {value}", text(&format!("{gpu_type}")));
    // A type that Slurm does not know is detected again when the file is read.
    let named = |gpus: &GpuStock| match node.untyped {
        Some(_) => GpuType::untyped(),
        None => gpus.gpu_type.clone(),
    };
    put("gpus", typed(stock().map(|gpus| entry(&named(gpus), &gpus.total)).collect()));
    let in_use = stock().filter(|gpus| gpus.used > 0);
    put("gpus_used", typed(in_use.map(|gpus| entry(&named(gpus), &gpus.used)).collect()));
    let known = stock().filter_map(|gpus| gpus.memory.map(|memory| entry(&named(gpus), &memory)));
    put("gpu_memory", typed(known.collect()));
    put("intra_node_gbps", node.intra_node.map(|rate| rate.gigabits_per_second().to_string()));
    put("cpus", node.cpus.map(|cpus| cpus.total.to_string()));
    put("cpus_used", used(node.cpus).map(|cpus| cpus.to_string()));
    put("memory", node.memory.map(|memory| Bytes(memory.total).to_string()));
    put("memory_used", used(node.memory).map(|memory| Bytes(memory).to_string()));
    put("partitions", list(&node.partitions));
    put("features", list(&node.features));
    put("other_gres", list(&node.other_gres));
    put("state", (node.state != NodeState::idle()).then(|| text(node.state.text())));
    put("reason", node.reason.as_deref().map(text));
}

/// Returns the names as one hostlist, in the nodes' order.
fn names(group: &[Node]) -> String {
    let names: Vec<&str> = group.iter().map(|node| NodeName::as_str(&node.name)).collect();
    let short = hostlist::compress(names.iter().copied());
    // A compressed hostlist may change the order; in that case the names are listed.
    if hostlist::expand(&short).is_ok_and(|expanded| expanded == names) { short } else { names.join(",") }
}

fn write_partition(out: &mut String, partition: &Partition) {
    let _ = writeln!(out, "  - name: {}", text(&partition.name));
    if partition.default {
        line(out, "    default", true);
    }
    if let Some(time) = partition.max_time {
        line(out, "    max_time", duration_text(time));
    }
}

fn line(out: &mut String, key: &str, value: impl Display) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{key}: {value}");
}

fn list<'a>(words: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let words: Vec<String> = words.into_iter().map(|word| text(word)).collect();
    (!words.is_empty()).then(|| format!("[{}]", words.join(", ")))
}

/// Returns the text as a scalar: unquoted if it has no special meaning in YAML 1.1 and 1.2.
pub(super) fn text(value: &str) -> String {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let starts_well = value.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+');
    let is_word = WORDS.contains(&value.to_ascii_lowercase().as_str());
    if starts_well && !is_word && value.chars().all(plain) {
        return value.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in value.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            // Line separators, byte order marks and similar characters must be escaped.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}') => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;
    use crate::formats::cluster::parse;
    use crate::{BitRate, Seconds};

    #[test]
    fn equal_neighbours_share_an_entry() {
        let cluster = parse("network_gbps: 10\nnodes: [{name: 'g[1,3,2]', gpus: {v100: 2}}, {name: h, state: 'no', features: ['1e3']}]").expect("a cluster");
        assert_snapshot!(to_yaml(&cluster), @r#"
        network_gbps: 10
        nodes:
          - name: "g1,g3,g2"
            gpus: {v100: 2}
          - name: h
            features: ["1e3"]
            state: "no"
        "#);
        assert_eq!(parse(&to_yaml(&cluster)), Ok(cluster));
    }

    const TEXT: &str = "[a-z0-9:#'\"{}\\[\\],&*!|>%@`~ =\\\\-]{0,12}|\\PC{0,6}|[\\x00-\\x20\u{85}\u{2028}\u{FEFF}]{0,3}|null|true|~";

    fn rate() -> impl Strategy<Value = Option<BitRate>> {
        prop::option::of((1e-3..1e6_f64).prop_map(|rate| BitRate::new(rate).expect("positive")))
    }

    fn usage() -> impl Strategy<Value = Option<Usage>> {
        prop::option::of((any::<u64>(), any::<u64>()).prop_map(|(total, used)| Usage { total, used }))
    }

    fn gpus() -> impl Strategy<Value = Vec<GpuStock>> {
        let one =
            ("(v100|t4|1080|a100_3g\\.20gb|null|n|1e3)", 0_u32..9, 0_u32..9, prop::option::of(any::<u64>()));
        prop::collection::vec(one, 0..4).prop_map(|stock| {
            let mut gpus: Vec<GpuStock> = Vec::new();
            for (name, total, used, memory) in stock {
                let gpu_type = GpuType::new(&name).expect("a type");
                if gpus.iter().all(|stock| stock.gpu_type != gpu_type) {
                    gpus.push(GpuStock { gpu_type, total, used: used.min(total), memory: memory.map(Bytes) });
                }
            }
            gpus
        })
    }

    fn node() -> impl Strategy<Value = Node> {
        let sets = (prop::collection::btree_set(TEXT, 0..3), prop::collection::btree_set(TEXT, 0..3));
        let texts = ("(idle|down\\*|no|)", prop::option::of(TEXT), prop::collection::vec(TEXT, 0..3));
        (gpus(), usage(), usage(), rate(), sets, texts).prop_map(
            |(gpus, cpus, memory, intra_node, (partitions, features), (state, reason, other_gres))| Node {
                state: NodeState::parse(&state),
                reason,
                gpus,
                other_gres,
                cpus,
                memory,
                intra_node,
                partitions,
                features,
                ..Node::new(NodeName::new("x").expect("a name"))
            },
        )
    }

    fn cluster() -> impl Strategy<Value = Cluster> {
        let partition = ("[a-z]{1,3}", any::<bool>(), prop::option::of(0.0..1e8_f64));
        let groups = prop::collection::vec((node(), 1_usize..4), 0..4);
        let order = Just((0..16_u32).collect::<Vec<_>>()).prop_shuffle();
        (rate(), rate(), groups, order, prop::option::of(partition)).prop_map(
            |(network, intra_node, groups, order, partition)| {
                let nodes = groups.into_iter().flat_map(|(node, count)| vec![node; count]);
                let name = |number: &u32| NodeName::new(&format!("g{number:02}")).expect("a name");
                let nodes = nodes.zip(&order).map(|(node, number)| Node { name: name(number), ..node });
                let partitions = partition.into_iter().map(|(name, default, max_time)| Partition {
                    name,
                    default,
                    max_time: max_time.map(Seconds),
                });
                Cluster { network, intra_node, nodes: nodes.collect(), partitions: partitions.collect() }
            },
        )
    }

    proptest! {
        #[test]
        fn every_cluster_reads_back(cluster in cluster()) {
            let yaml = to_yaml(&cluster);
            prop_assert_eq!(parse(&yaml), Ok(cluster), "{}", yaml);
        }
    }
}
