//! The man pages and the generated pages in `docs` equal the output of `write-docs`, and packages find its
//! completions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sandbox::Sandbox;
use hsched_plan::Knowledge;

/// Generated pages; `docs/SUMMARY.md` lists these and the handwritten pages.
const GENERATED: [&str; 3] = ["docs/cli.md", "docs/environment.md", "docs/exit-codes.md"];

/// Returns the texts of the files in a folder, without those in folders below it, by `FOLDER/NAME`.
fn texts(root: &Path, folder: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(root.join(folder)).expect("a folder").map(|entry| entry.expect("an entry"));
    let entries = entries.filter(|entry| entry.path().is_file());
    let text = |entry: fs::DirEntry| {
        let name = format!("{folder}/{}", entry.file_name().display());
        (name, fs::read_to_string(entry.path()).expect("a text"))
    };
    entries.map(text).collect()
}

#[test]
fn the_committed_documents_are_current() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("write-docs new").succeeds(), "");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for folder in ["man", "docs"] {
        let (written, committed) = (texts(&sandbox.work("new"), folder), texts(root, folder));
        for name in written.keys().chain(committed.keys()) {
            if folder == "docs" && !GENERATED.contains(&name.as_str()) {
                continue;
            }
            match (written.get(name), committed.get(name)) {
                (Some(new), Some(old)) if new == old => {}
                (Some(_), _) => wrong.push(format!("{name} is not current: cargo run -- write-docs .")),
                (None, _) => wrong.push(format!("{name} belongs to no command any more: remove it")),
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn packages_find_the_completions_that_they_install() {
    let sandbox = Sandbox::new();
    sandbox.run("write-docs .").succeeds();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/build");
    let script = fs::read_to_string(script).expect("a script");
    let installed: Vec<&str> = script
        .split("\"$completions/")
        .skip(1)
        .filter_map(|rest| rest.split_once('"').map(|(name, _)| name))
        .collect();
    assert_eq!(installed, ["hsched.bash", "_hsched", "hsched.fish"]);
    for name in installed {
        assert!(sandbox.work(&format!("completions/{name}")).exists(), "{name}");
    }
}

/// The main man page has no variables of settings that only the site's file may have. Variables whose names
/// end with `CONFIG` are not checked.
#[test]
fn the_page_has_no_variable_that_is_refused() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("man/hsched.1")).expect("a page");
    let names: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("\\fBHSCHED_")?.strip_suffix("\\fR"))
        .filter(|name| !name.ends_with("CONFIG"))
        .collect();
    assert!(names.len() > 20, "{names:?}");
    let is_refused = |name: &str| {
        let ran = Sandbox::new().variable(&format!("HSCHED_{name}"), "x").run("config show");
        ran.stderr.contains("can only be set in the site's file")
    };
    assert!(is_refused("FORBID"));
    for name in names {
        assert!(!is_refused(name), "{name}");
    }
}

#[test]
fn documents_do_not_depend_on_the_surroundings() {
    let wide = Sandbox::new().variable("COLUMNS", "300").variable("CLICOLOR_FORCE", "1");
    let narrow = Sandbox::new().variable("COLUMNS", "20").variable("HSCHED_COLOR", "always");
    for sandbox in [&wide, &narrow] {
        sandbox.run("write-docs .").succeeds();
    }
    for folder in ["man", "completions", "docs"] {
        assert!(texts(&wide.work(""), folder) == texts(&narrow.work(""), folder), "{folder}");
    }
}

#[test]
fn every_command_of_the_help_has_a_page_and_hidden_ones_have_none() {
    let sandbox = Sandbox::new();
    let help = sandbox.run("--help").succeeds();
    let commands = help.split("Commands:").nth(1).and_then(|rest| rest.split("Options:").next());
    let begins: Vec<&str> = commands
        .expect("commands")
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(begins.contains(&"plan") && !begins.contains(&"write-docs"), "{begins:?}");
    sandbox.run("write-docs .").succeeds();
    for name in begins {
        assert!(sandbox.work(&format!("man/hsched-{name}.1")).exists(), "{name}");
    }
    for (name, text) in
        ["man", "completions", "docs"].iter().flat_map(|folder| texts(&sandbox.work(""), folder))
    {
        // Generated pages name the program that wrote them.
        assert!(GENERATED.contains(&name.as_str()) || !text.contains("write-docs"), "{name}");
    }
}

/// The last example of `hsched.1` runs as it stands.
#[test]
fn the_example_of_the_man_page_runs() {
    let sandbox = Sandbox::new();
    sandbox.run("write-docs .").succeeds();
    for name in ["jobs.yaml", "cluster.yaml"] {
        fs::remove_file(sandbox.work(name)).expect("the example brings its own");
    }
    let page = fs::read_to_string(sandbox.work("man/hsched.1")).expect("a page");
    let last = page.rsplit(".nf\n").next().and_then(|rest| rest.split(".fi\n").next()).expect("an example");
    let script = last.replace("\\-", "-").replace("\\*(Aq", "'");
    assert!(!script.contains('\\'), "{script}");
    let program = Path::new(env!("CARGO_BIN_EXE_hsched")).parent().expect("a folder").display().to_string();
    let mut command: Command = sandbox.start("/bin/sh", &["-e", "-c", &script]);
    let ran = sandbox.ran(&command.env("PATH", format!("{program}:/usr/bin:/bin")).output().expect("runs"));
    let printed = ran.exits(0).stdout;
    assert!(printed.contains("resnet18") && printed.contains("#SBATCH"), "{printed}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let sandbox = Sandbox::new().file("taken", "");
    let problem = sandbox.run("write-docs taken").fails(1);
    assert!(problem.contains("taken/") && problem.contains("cannot write"), "{problem}");
}

#[test]
fn what_policies_know_is_in_the_table() {
    let page = fs::read_to_string("docs/policies.md").expect("a page");
    for entry in hsched_lab::registry().entries() {
        let cells = Knowledge::ALL.map(|knowledge| if entry.knows.contains(&knowledge) { "yes" } else { "" });
        let row = format!("| `{}` | {} |", entry.name, cells.join(" | "));
        assert!(page.contains(&row), "docs/policies.md lacks the row {row}");
    }
}
