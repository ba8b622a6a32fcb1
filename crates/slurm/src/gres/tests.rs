//! GRES texts of real clusters, constructed ones, and arbitrary ones.

#![expect(clippy::disallowed_methods, reason = "tests use files")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Formats GPUs and other parts in one line.
fn shown(gres: &Gres) -> String {
    let gpus = gres.gpus.iter().map(|(gpu_type, count)| format!("{gpu_type}={count}"));
    let others = gres.other.iter().map(|other| format!("<{other}>"));
    gpus.chain(others).collect::<Vec<_>>().join(" ")
}

fn check(text: &str, expected: &str) {
    assert_eq!(shown(&Gres::parse(text)), expected, "{text}");
}

#[test]
fn gpus_are_read_in_every_spelling() {
    check("gpu:v100:4(S:0-1)", "v100=4");
    check("gpu:4", "gpu=4");
    check("gpu", "gpu=1");
    check("gpu:v100", "v100=1");
    check("gpu:l4:4(S:1,3,5,7),gpu:t4:2", "l4=4 t4=2");
    check("gpu:a100:3(IDX:0,2-3)", "a100=3");
    check("gpu:(null):0(IDX:N/A)", "gpu=0");
    check("gpu:a100:no_consume:2", "a100=2");
    check("gpu:2K", "gpu=2048");
    check("gpu:v100:9999999999", "v100=4294967295");
    check("gpu:1080:3,gpu:2080ti", "1080=3 2080ti=1");
    check("gpu:a100_3g.20gb:2,gpu:1g.10gb:7", "a100_3g.20gb=2 1g.10gb=7");
    check("gres:gpu:v100:1,gres:gpu:t4:1", "v100=1 t4=1");
    check("gres/gpu:v100=4", "v100=4");
    check("gpu:aaa:1, gpu:b:2,gpu:aaa:1", "aaa=2 b=2");
    check("gpu:H100:2,gpu:h100:1", "H100=2 h100=1");
}

#[test]
fn other_parts_stay_as_they_were_printed() {
    check("lscratch:800G,gpu:p100:4,craynetwork:4", "p100=4 <lscratch:800G> <craynetwork:4>");
    check("shard:h100:8(0/8,0/8),mps:400", "<shard:h100:8(0/8,0/8)> <mps:400>");
    check("gpus:2,gpu_mem:16G,license=1", "<gpus:2> <gpu_mem:16G> <license=1>");
    check("gpu:a:b:c,gpu:a100:x,gpu:$(x):1", "<gpu:a:b:c> <gpu:a100:x> <gpu:$(x):1>");
    check("gpu:v100:4(S:0", "<gpu:v100:4(S:0>");
    check("gpu:0x3,0x2", "<gpu:0x3> <0x2>");
    for nothing in ["", "(null)", "N/A", " , ,(null)"] {
        check(nothing, "");
    }
}

#[test]
fn tres_name_a_sum_beside_its_parts() {
    let check = |text: &str, expected: &str| assert_eq!(shown(&Tres::parse(text).gres), expected, "{text}");
    check("gres/gpu=3,gres/gpu:t4=1,gres/gpu:v100=2", "t4=1 v100=2");
    check("gres/gpu=3,gres/gpu:t4=1", "gpu=2 t4=1");
    check("gres/gpu=2", "gpu=2");
    let tres = Tres::parse("cpu=2,mem=1.50G,node=3,billing=2");
    assert_eq!((tres.cpus, tres.memory, tres.nodes), (Some(2), Some(Bytes(1536 << 20)), Some(3)));
    assert_eq!(tres.gres.other, ["billing=2"]);
    assert_eq!(Tres::parse("cpu=x,mem=").gres.other, ["cpu=x", "mem="]);
}

/// Adds up the GPUs of a text by plain string search; `None` if that is ambiguous.
fn counted_by_hand(text: &str) -> Option<u64> {
    let mut plain = String::new();
    let mut depth = 0;
    for c in text.replace("(null)", "gpu").replace("gres:", "").chars() {
        depth += i32::from(c == '(');
        if depth == 0 {
            plain.push(c);
        }
        depth -= i32::from(c == ')');
    }
    let typed = plain.split(',').filter(|part| part.starts_with("gpu:"));
    typed.map(|part| part.rsplit(':').next()?.parse::<u64>().ok()).sum()
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn texts_of_real_clusters_add_up() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/slurm-samples/gres_strings.csv");
    let Ok(table) = fs::read_to_string(&path) else {
        eprintln!("skipped: no {}", path.display());
        return;
    };
    let mut compared = 0;
    for line in table.lines().skip(1) {
        let text = match line.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            Some((quoted, _)) => quoted,
            None => line.split(',').next().unwrap_or(""),
        };
        let gres = Gres::parse(text);
        let unread = gres.other.iter().any(|other| other.contains("gpu"));
        if let Some(expected) = counted_by_hand(text).filter(|_| !unread) {
            assert_eq!(u64::from(gres.gpu_total()), expected, "{text}");
            compared += 1;
        }
    }
    eprintln!("compared {compared} texts of {}", table.lines().count() - 1);
    assert!(compared > 150);
}

proptest! {
    #[test]
    fn no_part_of_any_text_is_lost(text in "\\PC{0,40}|(gpu|shard|:|,|\\(|\\)|=|[0-9a-zA-Z]|IDX|S){0,20}") {
        let gres = Gres::parse(&text);
        let kept = gres.gpus.len() + gres.other.len();
        prop_assert_eq!(kept == 0, parts(&text).next().is_none());
        for part in parts(&text).filter(|part| !part.contains("gpu")) {
            prop_assert!(gres.other.iter().any(|other| other == part), "{}", part);
        }
        let _ = Tres::parse(&text);
    }

    #[test]
    fn printed_counts_come_back(
        gpus in prop::collection::vec(("[a-z][a-z0-9_.-]{0,8}", 0_u32..100_000, "(\\(S:0-1\\)|\\(IDX:0,2-3\\))?"), 0..6)
    ) {
        let printed: Vec<String> = gpus.iter().map(|(name, n, place)| format!("gpu:{name}:{n}{place}")).collect();
        let gres = Gres::parse(&printed.join(","));
        prop_assert_eq!(gres.gpu_total(), gpus.iter().map(|(_, count, _)| count).sum::<u32>());
        prop_assert!(gres.other.is_empty());
    }
}
