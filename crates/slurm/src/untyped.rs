//! Types for GPUs that Slurm lists only by number (`gpu:4`): from the settings, or guessed.

use std::collections::{BTreeMap, BTreeSet};

use crate::gpu_words::{gpu_words, is_other_model};
use crate::notes::Notes;
use crate::record::excerpt;
use hsched_model::{Cluster, GpuType, Node, NodeName, Selector, hostlist};

/// Evidence for the type of a node's GPUs.
struct TypeEvidence {
    gpu_type: GpuType,
    selector: Selector,
    /// Where the evidence comes from, for messages.
    from: String,
}

/// Assigns types to the GPUs of nodes with only untyped ones, and returns notes on guesses and on nodes for
/// which several types are possible.
///
/// `table` assigns types by node names (hostlists), features or partitions, in this order. Without an entry,
/// the type follows from a feature that names exactly one GPU model, or else from a partition, or else from
/// the node's name (`gpu-h200-01`). GPUs that stay untyped are requested by node if the cluster also has
/// typed ones, because Slurm grants any GPU for a request without a type.
pub fn name_types(cluster: &mut Cluster, table: &BTreeMap<String, GpuType>) -> Vec<String> {
    let names = |key: &String| hostlist::expand(key).unwrap_or_default().into_iter().collect::<BTreeSet<_>>();
    let by_name: Vec<(BTreeSet<String>, &GpuType)> =
        table.iter().map(|(key, gpu_type)| (names(key), gpu_type)).collect();
    let mut notes = Notes::default();
    for node in &mut cluster.nodes {
        if !matches!(node.gpus.as_slice(), [only] if only.gpu_type == GpuType::untyped()) {
            continue;
        }
        let listed = by_name.iter().find(|(names, _)| names.contains(node.name.as_str()));
        let told = match listed {
            Some((_, gpu_type)) => Some(((*gpu_type).clone(), Selector::Name)),
            None => told(node, table),
        };
        if let Some((gpu_type, selector)) = told {
            set(node, &gpu_type, selector);
            continue;
        }
        match guessed(node) {
            Ok(Some(TypeEvidence { gpu_type, selector, from })) => {
                let note = format!(
                    "hsched assumes that its untyped GPUs are {gpu_type}, from its {from}; to change \
                     this, use the setting untyped_gpus"
                );
                notes.of(&node.name, note);
                set(node, &gpu_type, selector);
            }
            Ok(None) => {}
            Err(words) => note_unclear(&mut notes, &node.name, &words),
        }
    }
    name_the_rest(cluster);
    notes.into_lines()
}

fn name_the_rest(cluster: &mut Cluster) {
    let typeless = |node: &Node| node.gpus.iter().all(|stock| stock.gpu_type == GpuType::untyped());
    if cluster.nodes.iter().all(typeless) {
        return;
    }
    for node in cluster.nodes.iter_mut().filter(|node| !node.gpus.is_empty() && typeless(node)) {
        node.untyped = Some(Selector::Name);
    }
}

fn set(node: &mut Node, gpu_type: &GpuType, selector: Selector) {
    for stock in &mut node.gpus {
        stock.gpu_type = gpu_type.clone();
    }
    node.untyped = Some(selector);
}

fn note_unclear(notes: &mut Notes, node: &NodeName, words: &BTreeSet<String>) {
    let words = excerpt(&words.iter().cloned().collect::<Vec<_>>().join(", "));
    let note = format!(
        "its GPUs have no type, and its features or partitions name several: {words}; set the type with the setting untyped_gpus"
    );
    notes.of(node, note);
}

/// Returns the type in the settings for a node's features and partitions.
fn told(node: &Node, table: &BTreeMap<String, GpuType>) -> Option<(GpuType, Selector)> {
    let feature = node.features.iter().find_map(|word| Some((table.get(word)?.clone(), selector(word))));
    let partition =
        || node.partitions.iter().find_map(|word| Some((table.get(word)?.clone(), Selector::Name)));
    feature.or_else(partition)
}

/// Returns the single model named by the features, or else by the partitions or the node's name; if they name
/// several models, `Err` contains them.
fn guessed(node: &Node) -> Result<Option<TypeEvidence>, BTreeSet<String>> {
    // Short model names may be numbers of nodes and racks: a40, t4.
    let words: Vec<&str> = node.name.as_str().split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let is_whole = |index: usize| !words.get(index + 1).is_some_and(|next| is_other_model(next));
    let in_name = words.iter().enumerate().filter(|&(index, word)| word.len() > 3 && is_whole(index));
    let in_name = in_name.map(|(_, word)| (*word).to_owned()).collect();
    for (what, words) in [("feature", &node.features), ("partition", &node.partitions), ("name", &in_name)] {
        let named =
            || words.iter().flat_map(|word| gpu_words(word).into_iter().map(move |known| (word, known)));
        // Of `v100` and `v100-32gb`, the more specific one counts.
        let Some((word, narrowest)) = named().min_by_key(|(_, known)| known.gpus.len()) else { continue };
        if named().any(|(_, other)| !other.may_be(&narrowest)) {
            return Err(named().map(|(_, known)| known.label()).collect());
        }
        let selector = if what == "feature" { selector(word) } else { Selector::Name };
        let from = format!("{what} {}", excerpt(word));
        return Ok(GpuType::new(&narrowest.label()).map(|gpu_type| TypeEvidence {
            gpu_type,
            selector,
            from,
        }));
    }
    Ok(None)
}

/// Returns how to request nodes with a feature; a feature that would be read as an expression cannot be
/// requested.
fn selector(feature: &str) -> Selector {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    if feature.chars().all(plain) { Selector::Feature(feature.to_owned()) } else { Selector::Name }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::sinfo;

    /// Assigns types to nodes given as `name|partitions|gres|features`.
    fn check(nodes: &[&str], table: &[(&str, &str)]) -> String {
        let line = |node: &&str| {
            let [name, partition, gres, features] = node.split('|').collect::<Vec<_>>()[..] else {
                return String::new();
            };
            format!("{name}|{partition}|1:00|idle|{gres}||0/1/0/1|1|0|{features}|")
        };
        let lines: Vec<String> = nodes.iter().map(line).collect();
        let mut cluster = sinfo::tests::cluster(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let gpu_type = |name: &str| GpuType::new(name).expect("a type");
        let table = table.iter().map(|(key, name)| ((*key).to_owned(), gpu_type(name))).collect();
        let notes = name_types(&mut cluster, &table);
        let show = |node: &Node| {
            let gpus = node.gpus.iter().map(|stock| format!(" {}:{}", stock.gpu_type, stock.total));
            let by = match &node.untyped {
                Some(Selector::Feature(feature)) => format!(" by feature {feature}"),
                Some(Selector::Name) => " by name".to_owned(),
                None => String::new(),
            };
            format!("{}{}{by}", node.name, gpus.collect::<String>())
        };
        cluster.nodes.iter().map(show).chain(notes).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn features_and_partitions_tell_the_type_where_they_name_one() {
        let nodes = [
            "n1|gpu|gpu:4|v100,ib",
            "n2|gpu|gpu:4|v100,ib",
            "n3|gpu_a100|gpu:8|ib",
            "n4|gpu|gpu:2|v100,t4",
            "n5|gpu|gpu:2|ib",
            "n6|gpu|gpu:k80:2|v100",
            "n7|gpu|gpu:2,gpu:k80:2|v100",
            "n8|gpu|gpu:1|v100(2)",
            "n9|gpu|gpu:1|v100,v100-32gb,nvlink",
            "gpu-h200-01|gpu|gpu:8|ib",
            "gpu-a40-01|gpu|gpu:8|ib",
            "n10|a6000_ada|gpu:4|ib",
            "n11|gpu_p100_and_v100|gpu:4|ib",
            "n12|a40-h100|gpu:4|ib",
            "n13|no-a100|gpu:4|ib",
            "gpu-a6000-ada-01|gpu|gpu:8|ib",
        ];
        assert_snapshot!(check(&nodes, &[]), @r"
        gpu-a40-01 gpu:8 by name
        gpu-a6000-ada-01 gpu:8 by name
        gpu-h200-01 h200:8 by name
        n1 v100:4 by feature v100
        n2 v100:4 by feature v100
        n3 a100:8 by name
        n4 gpu:2 by name
        n5 gpu:2 by name
        n6 k80:2
        n7 gpu:2 k80:2
        n8 v100:1 by name
        n9 v100-32gb:1 by feature v100-32gb
        n10 rtx-6000-ada:4 by name
        n11 gpu:4 by name
        n12 gpu:4 by name
        n13 gpu:4 by name
        gpu-h200-01: hsched assumes that its untyped GPUs are h200, from its name h200; to change this, use the setting untyped_gpus
        n[1-2]: hsched assumes that its untyped GPUs are v100, from its feature v100; to change this, use the setting untyped_gpus
        n3: hsched assumes that its untyped GPUs are a100, from its partition gpu_a100; to change this, use the setting untyped_gpus
        n4: its GPUs have no type, and its features or partitions name several: t4, v100; set the type with the setting untyped_gpus
        n8: hsched assumes that its untyped GPUs are v100, from its feature v100(2); to change this, use the setting untyped_gpus
        n9: hsched assumes that its untyped GPUs are v100-32gb, from its feature v100-32gb; to change this, use the setting untyped_gpus
        n10: hsched assumes that its untyped GPUs are rtx-6000-ada, from its partition a6000_ada; to change this, use the setting untyped_gpus
        n11: its GPUs have no type, and its features or partitions name several: p100, v100; set the type with the setting untyped_gpus
        n12: its GPUs have no type, and its features or partitions name several: a40, h100; set the type with the setting untyped_gpus
        ");
        assert_snapshot!(check(&nodes[..5], &[("n[4-5]", "x"), ("ib", "y"), ("gpu", "z")]), @r"
        n1 y:4 by feature ib
        n2 y:4 by feature ib
        n3 y:8 by feature ib
        n4 x:2 by name
        n5 x:2 by name
        ");
        assert_snapshot!(check(&nodes[4..5], &[]), @"n5 gpu:2");
        assert_snapshot!(check(&nodes[4..5], &[("gpu", "z"), ("n[", "w")]), @"n5 z:2 by name");
    }
}
