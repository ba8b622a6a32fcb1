//! `hsched config show`: six layers, the origin of each value, and errors in them.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Returns the rows without padding, which depends on the sandbox's path.
fn rows(table: &str) -> Vec<String> {
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Returns the rows whose value is not a default.
fn changed(table: &str) -> String {
    let rows = rows(table).into_iter().filter(|line| !line.ends_with("default"));
    rows.collect::<Vec<_>>().join("\n")
}

fn user_file(sandbox: &Sandbox, text: &str) {
    fs::create_dir_all(sandbox.path("home/.config/hsched")).expect("a folder");
    fs::write(sandbox.path("home/.config/hsched/config.toml"), text).expect("a file");
}

#[test]
fn defaults_are_shown_with_their_origin() {
    assert_snapshot!(rows(&Sandbox::new().run("config show").succeeds()).join("\n"), @r"
    KEY VALUE FROM
    account - default
    partition - default
    qos - default
    setup [] default
    node_setup [] default
    sbatch [] default
    container_command apptainer exec --nv default
    network_gbps 10 default
    intra_node_gbps 300 default
    node_gbps - default
    capacity - default
    untyped_gpus - default
    cpus_per_gpu 1 default
    memory_per_gpu - default
    time_margin 1.21 default
    grace 120s default
    restart_cost 60s default
    estimate off default
    retry_delay 30s default
    het_steps true default
    templates - default
    state_dir ROOT/home/.local/state/hsched default
    notify - default
    forbid - default
    slurm_timeout 30s default
    learning_rate 0.3 default
    color auto default
    ");
}

#[test]
fn later_layers_win_and_are_named() {
    let sandbox = Sandbox::new()
        .file("hsched.toml", "partition = \"project\"\nqos = \"project\"\n[capacity]\nv100 = 2\n")
        .file("site.toml", "account = \"site\"\npartition = \"site\"\ngrace = \"60s\"\n")
        .variable("HSCHED_SITE_CONFIG", "site.toml")
        .variable("HSCHED_QOS", "variable")
        .variable("HSCHED_CAPACITY", "t4=4");
    user_file(&sandbox, "account = \"user\"\n");
    let table = sandbox.run("config show --set time_margin=2 --set capacity.p100=1").succeeds();
    assert_snapshot!(changed(&table), @r"
    KEY VALUE FROM
    account user ROOT/home/.config/hsched/config.toml:1
    partition project ROOT/home/desk/hsched.toml:1
    qos variable HSCHED_QOS
    capacity.p100 1 --set
    capacity.t4 4 HSCHED_CAPACITY
    capacity.v100 2 ROOT/home/desk/hsched.toml:4
    time_margin 2 --set
    grace 60s ROOT/home/desk/site.toml:3
    ");
}

#[test]
fn json_has_every_key_with_its_help() {
    let value = Sandbox::new().run("config show --format json --set account=def").json();
    assert_eq!(value["schema"], "hsched.config/1");
    let settings = value["settings"].as_array().expect("settings");
    let account = &settings[0];
    assert_eq!(
        (&account["key"], &account["value"], &account["from"]),
        (&"account".into(), &"def".into(), &"--set".into())
    );
    for key in ["capacity", "node_gbps", "state_dir", "slurm_timeout"] {
        assert!(settings.iter().any(|row| row["key"] == key && row["help"] != ""), "{key}");
    }
}

#[test]
fn all_problems_are_listed_with_their_places() {
    let sandbox = Sandbox::new()
        .file("hsched.toml", "acount = \"x\"\nstate_dir = \"/tmp\"\n[capacity]\nv100 = -1\n")
        .variable("HSCHED_GRACE", "60");
    user_file(&sandbox, "partition = 3\n");
    assert_snapshot!(sandbox.run("config show --set foo=1 --set slurm_timeout=0s").fails(78), @r#"
    error: settings:
    ROOT/home/.config/hsched/config.toml:1: partition: must be text, got 3
    ROOT/home/desk/hsched.toml:1: acount: is not a known key; did you mean account?
    ROOT/home/desk/hsched.toml:2: state_dir: must not be set in a project file; set it in your own settings file or with HSCHED_STATE_DIR
    ROOT/home/desk/hsched.toml:4: capacity.v100: must be at least 0, got -1
    HSCHED_GRACE: grace: has no unit: "60"; write 60s, 60m or 60h
    --set: foo: is not a known key
    --set: slurm_timeout: must be above 0
    "#);
    let ran = sandbox.run("config show --format json").exits(78);
    assert_eq!(ran.json()["error"]["code"], "bad_input");
}

/// Job scripts and training programs may call hsched, which ignores their variables.
#[test]
fn no_variable_of_a_job_script_sets_a_key_or_looks_like_a_typing_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
    let files = [root.join("hsched_ddp"), root].map(|folder| fs::read_dir(folder).expect("a folder"));
    let files = files.into_iter().flatten().map(|entry| entry.expect("an entry").path());
    let texts: Vec<String> = files.filter_map(|path| fs::read_to_string(path).ok()).collect();
    let mut sandbox = Sandbox::new();
    let before = sandbox.run("config show").succeeds();
    for rest in texts.iter().flat_map(|text| text.split("HSCHED_").skip(1)) {
        let end = rest.find(|c: char| !(c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit()));
        let name = &rest[..end.unwrap_or(rest.len())];
        if name != "STATE_DIR" {
            sandbox = sandbox.variable(&format!("HSCHED_{name}"), "x");
        }
    }
    assert_eq!(sandbox.run("config show").succeeds(), before);
}

#[test]
fn broken_and_missing_files_are_named() {
    let sandbox = Sandbox::new().file("hsched.toml", "account = ");
    assert_snapshot!(sandbox.run("config show").fails(78), @r"
    error: settings:
    ROOT/home/desk/hsched.toml:1: not valid TOML: string values must be quoted, expected literal string
    ");
    let sandbox = Sandbox::new().variable("HSCHED_CONFIG", "gone.toml");
    assert_snapshot!(sandbox.run("config show").fails(78), @r"
    error: settings:
    ROOT/home/desk/gone.toml: cannot be read: No such file or directory (os error 2); HSCHED_CONFIG names this file
    ");
    let sandbox = Sandbox::new().file("hsched.toml", b"account = \"\xff\"");
    assert_snapshot!(sandbox.run("config show").fails(78), @r"
    error: settings:
    ROOT/home/desk/hsched.toml: cannot be read: it is not UTF-8 text
    ");
}
