//! Rooms use only the rooms below them: the table of ARCHITECTURE.md, checked against every `crate::` path.

#![expect(clippy::disallowed_methods, reason = "reads the sources")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each room and what it may use. `error` and `exit` are plain values that every shell room may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("exit", &[]),
    ("error", &["exit"]),
    ("clock", &[]),
    ("solve", &[]),
    ("catalogue", &["model"]),
    ("throughput", &["model", "catalogue"]),
    ("policy", &["model", "throughput", "solve"]),
    ("plan_file", &["model", "policy", "throughput", "spec"]),
    ("engine", &["model", "policy", "throughput", "plan_file"]),
    ("simulate", &["model", "engine", "policy", "throughput"]),
    ("replay", &["model", "policy"]),
    ("render", &["model"]),
    ("spec", &["model"]),
    ("generate", &["model", "trace"]),
    ("trace", &["model", "spec"]),
    ("slurm", &["model", "catalogue", "clock", "trace"]),
    ("probe", &["model"]),
    ("store", &["model", "policy", "throughput", "engine", "spec", "plan_file"]),
    ("live", &["model", "policy", "throughput", "engine", "plan_file", "render", "slurm", "store", "clock"]),
    ("settings", &["model", "spec"]),
    ("manual", &["exit", "spec", "settings"]),
    ("ui", &["model", "catalogue", "throughput", "policy", "engine", "replay", "error"]),
    (
        "commands",
        &[
            "model",
            "catalogue",
            "exit",
            "error",
            "clock",
            "throughput",
            "policy",
            "plan_file",
            "engine",
            "simulate",
            "replay",
            "live",
            "render",
            "generate",
            "trace",
            "spec",
            "slurm",
            "probe",
            "store",
            "settings",
            "manual",
            "ui",
        ],
    ),
    ("lib", &[]),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            files.extend(sources(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
    files
}

/// The rooms that a source text names after `crate::`, also inside braces.
fn used(text: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (place, _) in text.match_indices("crate::") {
        let rest = &text[place + "crate::".len()..];
        let list = rest.strip_prefix('{').map_or(rest, |inside| inside.split('}').next().unwrap_or(""));
        let names = if rest.starts_with('{') { list.split(',').collect() } else { vec![list] };
        for name in names {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            rooms.push(name.trim().chars().take_while(|&c| word(c)).collect());
        }
    }
    rooms
}

#[test]
fn rooms_use_only_the_rooms_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for file in sources(&root) {
        let path = file.strip_prefix(&root).expect("below src");
        let first = path.iter().next().and_then(|name| name.to_str()).expect("a name");
        let room = first.strip_suffix(".rs").unwrap_or(first);
        if room == "main" {
            continue;
        }
        let known = ROOMS.iter().find(|(name, _)| *name == room);
        let Some((_, allowed)) = known else {
            wrong.push(format!("{}: room {room} is not in the table", path.display()));
            continue;
        };
        let text = fs::read_to_string(&file).expect("a text");
        for target in used(&text) {
            if target != room && !allowed.contains(&target.as_str()) {
                wrong.push(format!("{}: {room} may not use {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_source_says_its_purpose_in_its_first_line() {
    for folder in ["src", "tests/it"] {
        for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)) {
            let text = fs::read_to_string(&file).expect("a text");
            assert!(text.starts_with("//! "), "{}", file.display());
        }
    }
}
