//! The list of calls contains every reading call in the code.

use std::path::{Path, PathBuf};
use std::{fs, io};

use chrono::DateTime;

use hsched_slurm::JobId;
use hsched_slurm::site_calls::calls;

/// Functions that return calls which change something, or only start with them.
const CHANGING: [&str; 11] = [
    "pool_jobs::throttle",
    "scancel::stop",
    "scancel::cancel",
    "scancel::cancel_pending",
    "scancel::cancel_all",
    "scontrol_update::command",
    "sbatch::command",
    "sbatch::test_command",
    "script_jobs::script_command",
    "remedy_command::cancel_pending",
    "remedy_command::change_command",
];

/// Functions whose calls differ from listed ones only in their subject: one task instead of a job, a later
/// time, an id as text.
const VARIANTS: [&str; 4] =
    ["sacct::command", "sacct::task_command", "history::later_command", "job_details::command"];

/// Returns all source files below a folder.
fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the visible functions of a file that return a command line, as `module::function`.
fn functions(path: &Path, text: &str) -> Vec<String> {
    let folder = || path.parent().and_then(Path::file_name);
    let stem = path.file_stem().filter(|stem| *stem != "mod").or_else(folder);
    let module = stem.expect("a name").to_string_lossy();
    let head = |rest: &str| {
        let (head, _) = rest.split_once('{')?;
        let (_, returned) = head.rsplit_once("->")?;
        let is_command = ["CommandLine", "Option<CommandLine>"].contains(&returned.trim());
        is_command.then(|| format!("{module}::{}", head.split('(').next().unwrap_or_default()))
    };
    let visible = text.split("\npub").skip(1).filter_map(|item| {
        let (visibility, rest) = item.split_once("fn ")?;
        (visibility.trim().is_empty() || visibility.trim() == "(crate)").then_some(rest)
    });
    visible.filter_map(head).collect()
}

#[test]
fn every_reading_call_of_the_code_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let listed = fs::read_to_string(root.join("site_calls/mod.rs")).expect("the list");
    let mut found = Vec::new();
    for path in sources(&root).expect("sources") {
        found.extend(functions(&path, &fs::read_to_string(&path).expect("a source")));
    }
    for known in ["sinfo::command", "squeue::command", "limits::qos_command", "past_runs::past_runs_command"]
    {
        assert!(found.iter().any(|name| name == known), "{known} was not found: {found:?}");
    }
    let is_listed = |name: &str| {
        let function = name.split("::").last().unwrap_or_default();
        // Functions with a name of their own are exported by the module above.
        listed.contains(&format!("{name}("))
            || function != "command" && listed.contains(&format!("{function}("))
    };
    let missing: Vec<&String> = found
        .iter()
        .filter(|name| {
            !CHANGING.contains(&name.as_str()) && !VARIANTS.contains(&name.as_str()) && !is_listed(name)
        })
        .collect();
    assert!(missing.is_empty(), "not in the list of calls: {missing:?}");
    for name in CHANGING.iter().chain(&VARIANTS) {
        assert!(found.iter().any(|known| known == name), "{name} does not exist: {found:?}");
    }
}

#[test]
fn no_listed_call_changes_anything() {
    let now = DateTime::from_timestamp(1_795_000_000, 0).expect("a date");
    let calls = calls("alice", Some((22, 5)), now, now, &[JobId(7)], "bert");
    let mut names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), calls.len(), "two calls have the same name: {names:?}");
    for call in &calls {
        let line = call.command.to_string();
        let is_version = line == "sbatch --version";
        let changes = ["sbatch", "scancel", "scontrol update"].iter().any(|word| line.starts_with(word));
        assert!(is_version || !changes, "{line}");
    }
}
