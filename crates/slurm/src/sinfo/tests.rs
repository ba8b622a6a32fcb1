//! Lines in the formats of several versions and sites.

#![expect(clippy::disallowed_methods, reason = "tests use files")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use hsched_model::{Availability, Seconds};

/// Returns the output of sinfo for lines written with `|` between the fields.
pub(crate) fn framed(lines: &[&str]) -> String {
    let ends = |line: &&str| line.replace('|', "\u{1f}") + "\u{1e}\n";
    lines.iter().map(ends).collect()
}

/// Returns the cluster that such lines show.
pub(crate) fn cluster(lines: &[&str]) -> Cluster {
    read(lines).0
}

fn read(lines: &[&str]) -> (Cluster, Vec<String>) {
    parse(&framed(lines)).expect("readable")
}

/// Returns the GPUs of a node with this GRES as `type used/total`, and the notes.
fn gpus(gres: &str, used: &str) -> (String, Vec<String>) {
    let (cluster, notes) = read(&[&format!("n1|gpu*|infinite|mixed|{gres}|{used}|0/1/0/1|1|0|(null)|none")]);
    let mut text = String::new();
    for stock in &cluster.nodes[0].gpus {
        let _ = write!(text, "{} {}/{} ", stock.gpu_type, stock.used, stock.total);
    }
    (text.trim().to_owned(), notes)
}

#[test]
fn a_node_in_several_partitions_is_one_node() {
    let (cluster, notes) = read(&[
        "m10|hi|1:00:00|mixed|gpu:v100:2,gpu:t4:2|gpu:v100:2(IDX:0-1),gpu:t4:1(IDX:2)|6/10/0/16|64000|700|v100,t4|none",
        "m10|gpu*|infinite|mixed|gpu:v100:2,gpu:t4:2|gpu:v100:2(IDX:0-1),gpu:t4:1(IDX:2)|6/10/0/16|64000|700|v100,t4|none",
        "m9|gpu*|infinite|down+drain|(null)|gpu:0|0/0/16/16|64000|0|(null)|bad\nfan, \"x\"",
    ]);
    assert_eq!(notes, [""; 0]);
    let [m9, m10] = cluster.nodes.as_slice() else { panic!("two nodes: {cluster:?}") };
    assert_eq!((m9.name.as_str(), m9.state.availability()), ("m9", Availability::Down));
    assert_eq!(m9.reason.as_deref(), Some("bad fan, \"x\""));
    assert!(m9.gpus.is_empty() && m9.features.is_empty());
    assert_eq!((m10.cpus, m10.reason.as_ref()), (Some(Usage { total: 16, used: 6 }), None));
    assert_eq!(m10.memory, Some(Usage { total: 64000 << 20, used: 700 << 20 }));
    assert_eq!(m10.partitions, BTreeSet::from(["gpu".to_owned(), "hi".to_owned()]));
    assert_eq!(m10.features, BTreeSet::from(["t4".to_owned(), "v100".to_owned()]));
    let counts: Vec<_> =
        m10.gpus.iter().map(|stock| (stock.gpu_type.as_str(), stock.total, stock.used)).collect();
    assert_eq!(counts, [("v100", 2, 2), ("t4", 2, 1)]);
    let partition = |name: &str, default, max_time| Partition { name: name.to_owned(), default, max_time };
    let expected = [partition("gpu", true, None), partition("hi", false, Some(Seconds(3600.0)))];
    assert_eq!(cluster.partitions, expected);
}

#[test]
fn used_gpus_find_their_type() {
    let check = |gres: &str, used: &str, expected: &str, notes: &[&str]| {
        let notes: Vec<String> = notes.iter().map(|note| format!("n1: {note}")).collect();
        assert_eq!(gpus(gres, used), (expected.to_owned(), notes), "{gres} {used}");
    };
    check("gpu:a100:4(S:0-1)", "gpu:a100:1(IDX:2)", "a100 1/4", &[]);
    check("gpu:4", "gpu:(null):0(IDX:N/A)", "gpu 0/4", &[]);
    check("gpu:A100:4", "gpu:a100:2", "A100 2/4", &[]);
    check("gpu:v100:4", "gpu:3", "v100 3/4", &[]);
    check("gpu:4", "gpu:v100:3", "gpu 3/4", &[]);
    check(
        "gpu:v100:2,gpu:t4:2",
        "gpu:3",
        "v100 2/2 t4 1/2",
        &["3 gpu in use, but the node lists none; counted as its other types, in order"],
    );
    check(
        "gpu:v100:2",
        "gpu:t4:1",
        "v100 1/2",
        &["1 t4 in use, but the node lists none; counted as its other types, in order"],
    );
    check("gpu:v100:2", "gpu:v100:5", "v100 2/2", &["5 v100 in use but the node has 2; 3 not counted"]);
    check("(null)", "gpu:1", "", &["1 gpu in use but the node has 0; 1 not counted"]);
    check("gpu:0,shard:4", "gpu:0", "", &[]);
}

#[test]
fn odd_values_become_notes_and_the_rest_goes_on() {
    let (cluster, notes) = read(&[
        "CLUSTER: north\na[1-2]|gpu|2 weeks|idle~|gpu:t4:1,shard:8|gpu:t4:0|?|64000+|N/A|x|Not responding",
        "short|line",
        "$(b)|gpu|infinite|idle|(null)|(null)|0/1/0/1|1|0|(null)|none",
    ]);
    let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a1", "a2"]);
    assert_eq!(cluster.nodes[0].memory, Some(Usage { total: 64000 << 20, used: 0 }));
    assert_eq!(cluster.nodes[0].other_gres, ["shard:8"]);
    assert_eq!(
        notes,
        [
            "partition gpu: its time limit \"2 weeks\" could not be read",
            "a1: its CPUs \"?\" could not be read",
            "a2: its CPUs \"?\" could not be read",
            "cannot parse a line of sinfo output: \"short|line\"",
            "cannot parse a line of sinfo output: \"$(b)|gpu|infinite|idle|(null)|(null)|0/1/0/1|1|0|(null)|none\"",
        ]
    );
}

#[test]
fn output_of_another_program_is_an_error() {
    let error = parse("\nusage: sinfo\nmore").expect_err("no sinfo");
    assert_eq!(error.to_string(), "the output of sinfo could not be parsed; it begins with \"usage: sinfo\"");
    assert_eq!(parse("\n").expect("a cluster without nodes").0, Cluster::default());
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn states_of_real_clusters_are_known() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/slurm-samples/node_states_seen.csv");
    let Ok(table) = fs::read_to_string(&path) else {
        eprintln!("skipped: no {}", path.display());
        return;
    };
    let unknown: Vec<&str> = table
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit_once(','))
        .map(|(state, _)| state.strip_prefix("scontrol:").unwrap_or(state))
        .filter(|state| NodeState::parse(state).availability() == Availability::Unknown)
        .collect();
    // The first three are states of partitions and reservations.
    assert_eq!(unknown, ["ACTIVE", "INACTIVE", "UP", "unknown"]);
}

proptest! {
    #[test]
    fn no_output_panics_or_counts_more_than_there_is(
        text in "([a-z0-9\\[\\],:()/*+-]{0,6}[|^\n]){0,40}", gres in "(gpu|:|,|a|b|[0-9]){0,12}", used in "(gpu|:|,|a|b|[0-9]){0,12}"
    ) {
        let _ = parse(&text.replace('|', "\u{1f}").replace('^', "\u{1e}"));
        let line = format!("n1|p|1:00|idle|{gres}|{used}|0/1/0/1|1|0||");
        let (cluster, _) = parse(&framed(&[&line])).expect("one node");
        prop_assert!(cluster.nodes[0].gpus.iter().all(|stock| stock.used <= stock.total));
    }
}
