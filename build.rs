//! Data that are built into the program: the pages of the documentation, for `hsched help`, and the commit,
//! for `hsched --version`.

#![expect(clippy::disallowed_methods, reason = "a build script reads files and asks git")]

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() -> std::io::Result<()> {
    write_topics()?;
    tell_commit();
    Ok(())
}

/// Writes the list of pages that `docs/SUMMARY.md` names, without the reference of commands and the pages for developers.
fn write_topics() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=docs/SUMMARY.md");
    let summary = fs::read_to_string("docs/SUMMARY.md")?;
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split_once(".md)"));
    let mut list = String::from("&[\n");
    for (name, _) in links.filter(|(name, _)| !name.contains('/') && *name != "cli") {
        let page = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/docs/{name}.md\"))");
        // Writing to memory does not fail.
        let _ = writeln!(list, "    Topic {{ name: {name:?}, page: {page} }},");
    }
    list.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("topics.rs"), list)
}

/// Passes the commit to the program: the one that packages set in `HSCHED_COMMIT`, or, in a release build,
/// that of the repository. Other builds, such as those for tests, have none, so that a new commit does not
/// make them stale.
fn tell_commit() {
    println!("cargo::rerun-if-env-changed=HSCHED_COMMIT");
    let given = env::var("HSCHED_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(commit_of_repository).flatten());
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = commit.map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=HSCHED_VERSION={version}");
}

/// Returns the commit and its date; `None` in a folder that is not the root of a git repository.
fn commit_of_repository() -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    if let Some(head) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={head}");
    }
    git(&["log", "-1", "--format=%h %cs", "--abbrev=9"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}
