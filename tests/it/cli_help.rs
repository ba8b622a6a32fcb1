//! `hsched help` shows commands, pages and errors; every refusal has a key; every key has a section and a
//! place where it is used.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hsched_model::ErrorId;
use insta::assert_snapshot;

use crate::sandbox::Sandbox;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Rust sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| sources(folder));
    files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs")).chain(below).collect()
}

#[test]
fn every_error_has_a_section_in_the_same_order_and_every_section_an_error() {
    let page = fs::read_to_string(root().join("docs/errors.md")).expect("a page");
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let words: Vec<&str> = ErrorId::ALL.iter().map(|id| id.word()).collect();
    assert_eq!(sections, words);
    let list = Sandbox::new().run("help errors").succeeds();
    for word in words {
        assert!(list.lines().any(|line| line.trim_start().starts_with(word)), "{word}");
        let told = Sandbox::new().run(&format!("help error {word}")).succeeds();
        assert!(told.starts_with(word) && told.lines().count() >= 4, "{told}");
    }
}

#[test]
fn every_error_is_raised_somewhere() {
    let mut raised = BTreeSet::new();
    for path in ["src", "crates"].iter().flat_map(|folder| sources(&root().join(folder))) {
        let text = fs::read_to_string(&path).expect("a source");
        for rest in text.split("ErrorId::").skip(1) {
            let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
            raised.insert(name);
        }
    }
    let idle: Vec<_> = ErrorId::ALL.iter().filter(|id| !raised.contains(&format!("{id:?}"))).collect();
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn errors_carry_their_key_in_json() {
    let job = |more: &str| {
        format!(
            "jobs:\n  - {{name: vit, samples_per_epoch: 100, epochs: 2, global_batch: 10, model_size: 1MB, command: train,\n     \
             throughput: {{v100: 10}}, {more}}}\n"
        )
    };
    let sandbox = Sandbox::new()
        .file("time.yaml", job("time: 12,\n     memory_per_gpu: 16,\n     gpu_typs: [v100]"))
        .file("tab.yaml", "jobs:\n\t- name: a\n")
        .file("train.sh", "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n");
    let id = |arguments: &str| {
        let ran = sandbox.run(&format!("{arguments} --format json"));
        ran.json()["error"]["id"].as_str().expect("a key").to_owned()
    };
    for (arguments, expected) in [
        ("plan time.yaml --cluster cluster.yaml", "time-unit"),
        ("plan tab.yaml --cluster cluster.yaml", "yaml-syntax"),
        ("plan train.sh --cluster cluster.yaml", "file-kind"),
        ("plan nowhere.yaml --cluster cluster.yaml", "file-unreadable"),
        ("plan jobs.yaml --cluster cluster.yaml --budget 5", "time-unit"),
        ("plan jobs.yaml --cluster cluster.yaml --policy hoizon", "unknown-word"),
        ("plan jobs.yaml --cluster cluster.yaml --polcy has", "unknown-argument"),
        ("plan jobs.yaml --cluster cluster.yaml --set acount=x", "unknown-key"),
        ("plan jobs.yaml --cluster cluster.yaml --set account", "setting"),
        ("plan jobs.yaml --cluster cluster.yaml --explain nobody", "unknown-job"),
        ("watch jobs.yaml", "unknown-argument"),
        ("inventory", "slurm-missing"),
        ("cancel nobody", "unknown-job"),
    ] {
        assert_eq!(id(arguments), expected, "{arguments}");
    }
    let instead = sandbox.run("watch jobs.yaml").exits(2).stderr;
    assert!(instead.contains("hsched add jobs.yaml"), "{instead}");
    let told = sandbox.run("plan time.yaml --cluster cluster.yaml --format json").json();
    let problems = told["error"]["problems"].as_array().expect("a list");
    let ids: Vec<_> = problems.iter().map(|problem| (&problem["line"], &problem["id"])).collect();
    assert_eq!(
        ids,
        [
            (&3.into(), &"time-unit".into()),
            (&4.into(), &"size-unit".into()),
            (&5.into(), &"unknown-key".into())
        ]
    );
    assert_eq!(problems[0]["key"], "jobs[0].time");
}

#[test]
fn the_version_is_that_of_the_manifest() {
    let printed = Sandbox::new().run("--version").succeeds();
    let version = concat!("hsched ", env!("CARGO_PKG_VERSION"));
    let commit = printed.trim().strip_prefix(version).expect("the version");
    // A release also names its commit and the commit's date.
    assert!(commit.is_empty() || commit.starts_with(" (") && commit.ends_with(')'), "{printed}");
}

#[test]
fn pages_and_commands_have_one_help() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("help plan").succeeds(), sandbox.run("plan --help").succeeds());
    assert_eq!(sandbox.run("help config show").succeeds(), sandbox.run("config show --help").succeeds());
    assert_eq!(sandbox.run("help").succeeds(), sandbox.run("--help").succeeds());
    // If a command and a page have the same name, the command is shown.
    assert_eq!(sandbox.run("help run").succeeds(), sandbox.run("run --help").succeeds());
    let page = fs::read_to_string(root().join("docs/run.md")).expect("a page");
    let title = page.lines().next().expect("a title").trim_start_matches("# ");
    assert!(sandbox.run("help topic run").succeeds().starts_with(title));
    assert_snapshot!(sandbox.run("help jobfile").fails(2), @r#"
    error: there is no command or topic "jobfile"
    hint: did you mean job-file?
    hint: hsched help topics lists them
    "#);
    assert_snapshot!(sandbox.run("help error").fails(2), @r"
    error: write hsched help error ID
    hint: hsched help errors lists the ids
    ");
    assert_snapshot!(sandbox.run("help topic").fails(2), @r"
    error: write hsched help topic NAME
    hint: hsched help topics lists the names
    ");
    assert_snapshot!(sandbox.run("help error time").fails(2), @r#"
    error: there is no error "time"
    hint: hsched help errors lists them
    "#);
}

#[test]
fn every_page_of_the_book_but_the_reference_of_commands_is_a_topic() {
    let sandbox = Sandbox::new();
    let list = sandbox.run("help topics").succeeds();
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("a summary");
    let names = summary.split("](").skip(1).filter_map(|rest| rest.split_once(".md)").map(|(name, _)| name));
    let names: Vec<&str> = names.filter(|name| !name.starts_with("design/") && *name != "cli").collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        let line = list.lines().find(|line| line.contains(&format!(" {name}`")));
        assert!(line.is_some(), "{name} is not among the topics");
        let wide = sandbox.run(&format!("help topic {name}")).succeeds();
        let is_code = |line: &&str| line.starts_with("    ");
        let long =
            wide.lines().find(|line| !is_code(line) && line.chars().count() > 100 && line.contains("  "));
        assert!(!wide.contains("```") && !wide.contains("]("), "{name}: {long:?}");
    }
}
