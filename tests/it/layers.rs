//! Crates and modules use only those below them: the tables of ARCHITECTURE.md, checked against manifests and paths.

#![expect(clippy::disallowed_methods, reason = "reads the sources")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each crate and exactly the crates of this repository that it uses, except in tests: the table of
/// ARCHITECTURE.md.
const CRATES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("plan", &["model"]),
    ("waits", &["model"]),
    ("queue", &["model", "waits"]),
    ("engine", &["model", "plan", "queue"]),
    ("slurm", &["engine", "model", "queue"]),
    ("lab", &["engine", "model", "plan"]),
    ("local", &["engine", "model"]),
    ("ui", &["engine", "lab", "model", "plan", "queue", "slurm"]),
];

/// Each module of the program and the modules that it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("merge", &[]),
    ("settings", &[]),
    ("manual", &["settings"]),
    ("app", &["settings"]),
    ("commands", &["merge", "settings", "manual", "app"]),
];

/// The parts of the program that may use `hsched_slurm`, with the reason; all others go through `app::slurm`.
const OF_SLURM: &[(&str, &str)] = &[
    ("app/notify.rs", "starts the user's command with the only runner of programs"),
    ("app/slurm", "Slurm as the batch system of all commands"),
    ("commands/check_ddp.rs", "starts torchrun with the only runner of programs"),
    ("commands/doctor", "checks Slurm itself"),
    ("commands/import", "converts batch scripts"),
    ("commands/review", "reads Slurm's accounting"),
    ("commands/script", "passes batch scripts to Slurm unchanged"),
    ("commands/trace/accounts", "converts Slurm's accounting to a trace"),
    ("commands/why.rs", "applies remedies to any job of Slurm"),
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

/// Returns the modules that a source text names, even in braces: after `crate::`, and after as many `super::`
/// as lead to the root. `depth` is the number of modules from the root to the module of this file.
fn used(text: &str, depth: usize) -> Vec<String> {
    // Modules within the file are at its end: tests.
    let inner = text.find("\nmod tests {").unwrap_or(text.len());
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = |place: usize| !text[..place].ends_with(|c: char| is_word(c) || c == ':');
    let mut rooms = Vec::new();
    for (place, _) in text.match_indices("crate::").filter(|(place, _)| begins(*place)) {
        rooms.extend(names(&text[place + "crate::".len()..]));
    }
    for (place, _) in text.match_indices("super::").filter(|(place, _)| begins(*place)) {
        let mut rest = &text[place..];
        let mut steps = 0;
        while let Some(after) = rest.strip_prefix("super::") {
            (rest, steps) = (after, steps + 1);
        }
        if steps == depth + usize::from(place > inner) {
            rooms.extend(names(rest));
        }
    }
    rooms
}

/// Returns the first words of all paths of a list in braces, or of the single path with which a text begins.
fn names(text: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_').collect()
    };
    let Some(list) = text.strip_prefix('{') else { return vec![word(text)] };
    let (mut names, mut open) = (vec![word(list)], 1);
    for (place, c) in list.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            ',' if open == 1 => names.push(word(&list[place + 1..])),
            _ => {}
        }
        if open == 0 {
            break;
        }
    }
    // A comma may end the list.
    names.retain(|name| !name.is_empty());
    names
}

/// Returns the number of modules from the root to the module of a file below `src`.
fn depth(path: &Path) -> usize {
    path.components().count() - usize::from(path.ends_with("mod.rs"))
}

#[test]
fn rooms_are_found_in_nested_braces_and_by_the_way_up() {
    let text = "use crate::{a::{self, b}, c,\n    d::e::{f, g},\n};\npub(crate) use super::super::h::i;\n\
                fn j() -> crate::k { super::l(super::super::super::m) }\n\nmod tests {\n    use super::super::super::{n, o::p};\n}\n";
    assert_eq!(used(text, 2), ["a", "c", "d", "k", "h", "n", "o"]);
    assert_eq!(depth(Path::new("engine/mod.rs")), 1);
    assert_eq!(depth(Path::new("engine/turn.rs")), 2);
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
        for target in used(&text, depth(path)) {
            if target != room && !allowed.contains(&target.as_str()) {
                wrong.push(format!("{}: {room} may not use {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_listed_parts_of_the_program_name_slurm() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut unused: Vec<&str> = OF_SLURM.iter().map(|(part, _)| *part).collect();
    let mut wrong = Vec::new();
    for file in sources(&root) {
        let path = file.strip_prefix(&root).expect("below src");
        if !fs::read_to_string(&file).expect("a text").contains("hsched_slurm") {
            continue;
        }
        unused.retain(|part| !path.starts_with(part));
        if !OF_SLURM.iter().any(|(part, _)| path.starts_with(part)) {
            wrong.push(path.to_owned());
        }
    }
    assert_eq!(wrong, Vec::<PathBuf>::new(), "use app::slurm instead of hsched_slurm");
    assert_eq!(unused, Vec::<&str>::new(), "no longer use hsched_slurm");
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

#[test]
fn crates_use_only_the_crates_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let mut found: Vec<String> = fs::read_dir(&root)
        .expect("crates")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    found.sort();
    let mut known: Vec<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(found, known, "the crates of the table");
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(root.join(name).join("Cargo.toml")).expect("a manifest");
        let (head, _) = manifest.split_once("[dev-dependencies]").unwrap_or((manifest.as_str(), ""));
        let used = head.lines().filter_map(|line| line.strip_prefix("hsched-")?.split('.').next());
        assert_eq!(used.collect::<Vec<_>>(), *allowed, "{name}");
    }
}
