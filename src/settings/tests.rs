//! Tests of all layers together, with files in a temporary directory.

#![expect(clippy::disallowed_methods, reason = "tests use files")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use insta::assert_snapshot;
use proptest::prelude::*;
use tempfile::TempDir;

use super::{CommandLineSetting, Settings, Sources};

/// A machine with only the given files under a temporary root.
struct TestMachine {
    root: TempDir,
    sources: Sources,
}

impl TestMachine {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let at = |path: &str| Some(root.path().join(path));
        fs::create_dir_all(root.path().join("home/project/deep")).expect("directories");
        let sources = Sources {
            directory: at("home/project/deep"),
            home: at("home"),
            config_home: at("home/.config"),
            state_home: at("home/.local/state"),
            site_file: at("etc/config.toml"),
            ..Sources::default()
        };
        Self { root, sources }
    }

    fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources.environment.insert(name.to_owned(), value.into());
        self
    }

    fn flag(mut self, text: &str) -> Self {
        self.sources.flags.push(CommandLineSetting::set(text).expect("a flag"));
        self
    }

    fn load(&self) -> Settings {
        Settings::load(&self.sources).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// Returns the keys that a layer above the defaults sets, as in `config show`, and the notes; or the
    /// problems.
    fn show(&self) -> String {
        let shown = match Settings::load(&self.sources) {
            Ok(settings) => {
                let rows = settings.rows().into_iter().filter(|row| row.origin.to_string() != "default");
                let line = |row: super::SettingRow| format!("{} = {} ({})", row.key, row.value, row.origin);
                rows.map(line).chain(settings.notes().iter().cloned()).collect::<Vec<_>>().join("\n")
            }
            Err(problems) => problems.to_string(),
        };
        shown.replace(&self.root.path().display().to_string(), "")
    }
}

const SITE: &str = "etc/config.toml";
const USER: &str = "home/.config/hsched/config.toml";
const PROJECT: &str = "home/project/hsched.toml";

#[test]
fn without_any_layer_defaults_hold() {
    let world = TestMachine::new();
    let settings = world.load();
    let rows = settings.rows().into_iter().map(|row| format!("{} = {} ({})", row.key, row.value, row.origin));
    let rows: Vec<String> = rows.collect();
    assert_snapshot!(rows.join("\n").replace(&world.root.path().display().to_string(), ""), @r"
    account =  (default)
    partition =  (default)
    qos =  (default)
    setup = [] (default)
    node_setup = [] (default)
    sbatch = [] (default)
    container_command = apptainer exec --nv (default)
    network_gbps = 10 (default)
    intra_node_gbps = 300 (default)
    node_gbps =  (default)
    capacity =  (default)
    untyped_gpus =  (default)
    cpus_per_gpu = 1 (default)
    memory_per_gpu =  (default)
    time_margin = 1.21 (default)
    grace = 120s (default)
    restart_cost = 60s (default)
    estimate = off (default)
    retry_delay = 30s (default)
    het_steps = true (default)
    templates =  (default)
    state_dir = /home/.local/state/hsched (default)
    notify =  (default)
    forbid =  (default)
    slurm_timeout = 30s (default)
    learning_rate = 0.3 (default)
    color = auto (default)
    ");
    assert!(settings.jobs.het_steps && settings.capacity.is_empty() && settings.jobs.account.is_none());
}

#[test]
fn no_color_of_all_programs_gives_way_to_what_is_said_to_this_one() {
    let world = TestMachine::new().variable("NO_COLOR", "1");
    assert_snapshot!(world.show(), @"color = never (NO_COLOR)");
    assert_snapshot!(world.file(USER, "color = 'always'").show(), @"color = always (/home/.config/hsched/config.toml:1)");
    assert_snapshot!(TestMachine::new().variable("NO_COLOR", "").show(), @"");
}

#[test]
fn later_layers_win_and_tables_merge() {
    let world = TestMachine::new()
        .file(
            SITE,
            "account = 'site'\nqos = 'low'\nsetup = ['module load a', 'b']\n[capacity]\nv100 = 8\nt4 = 4\n",
        )
        .file(USER, "account = 'user'\nsetup = 'one line'\n\n[capacity]\nv100 = 2\n\"a100_3g.20gb\" = 1")
        .file(PROJECT, "templates = 'own'\n[node_gbps]\n'g[1-2]' = 600")
        .variable("HSCHED_PARTITION", "gpu")
        .variable("HSCHED_CAPACITY", "h100=3, t4=1")
        .variable("HSCHED_ACCOUNT", "")
        .flag("node_gbps.g2=900")
        .flag("partition=long")
        .flag("sbatch=--exclusive -C 'a b'");
    assert_snapshot!(world.show(), @r#"
    account = user (/home/.config/hsched/config.toml:1)
    partition = long (--set)
    qos = low (/etc/config.toml:2)
    setup = ["one line"] (/home/.config/hsched/config.toml:2)
    sbatch = ["--exclusive", "-C", "a b"] (--set)
    node_gbps.g[1-2] = 600 (/home/project/hsched.toml:3)
    node_gbps.g2 = 900 (--set)
    capacity.a100_3g.20gb = 1 (/home/.config/hsched/config.toml:6)
    capacity.h100 = 3 (HSCHED_CAPACITY)
    capacity.t4 = 1 (HSCHED_CAPACITY)
    capacity.v100 = 2 (/home/.config/hsched/config.toml:5)
    templates = /home/project/own (/home/project/hsched.toml:1)
    "#);
    let settings = world.load();
    let rates: Vec<f64> = settings.node_rates.values().map(|rate| rate.gigabits_per_second()).collect();
    assert_eq!(rates, [600.0, 900.0]);
    assert_eq!(settings.templates, Some(world.root.path().join("home/project/own")));
    assert_eq!(settings.jobs.sbatch, ["--exclusive", "-C", "a b"]);
}

#[test]
fn all_problems_of_all_layers_are_listed() {
    let world = TestMachine::new()
        .file(SITE, "acount = 'x'\naccount = 3\ncapacity = 5\n[node_gbps]\n'g[1-2]' = 0\n'g2' = 4\n'g[2-3]' = 5\n")
        .file(USER, "time_margin = 0.5\nnetwork_gbps = inf\nmemory_per_gpu = 32\ngrace = 30\n[capacity]\na.b = 1\nt4 = -1\nv100 = 1_000_000_000")
        .file(PROJECT, "state_dir = '/elsewhere'\nsetup = [1]\nhet_steps = 'yes'\ncolor = 'red'\nqos = \"a\\nb\"")
        .variable("HSCHED_ACOUNT", "x")
        .variable("HSCHED_SLURM_TIMEOUT", "0s")
        .variable("HSCHED_CAPACITY", "v100")
        .variable("HSCHED_BATCHES", "1,2")
        .variable("HSCHED_SCRIPT_OF_MINE", "x")
        .flag("account.x=3")
        .flag("colour=never");
    assert_snapshot!(world.show(), @r#"
    /etc/config.toml:1: acount: is not a known key; did you mean account?
    /etc/config.toml:2: account: must be text, got 3
    /etc/config.toml:3: capacity: must be a table of counts by GPU type; start it with [capacity]
    /etc/config.toml:5: node_gbps.g[1-2]: g2 is already included in "g2" in this file
    /etc/config.toml:5: node_gbps.g[1-2]: must be above 0 Gbit/s, got 0
    /etc/config.toml:7: node_gbps.g[2-3]: g2 is already included in "g[1-2]" in this file
    /home/.config/hsched/config.toml:1: time_margin: must be from 1 to 100, got 0.5
    /home/.config/hsched/config.toml:2: network_gbps: must be a number, got "inf"
    /home/.config/hsched/config.toml:3: memory_per_gpu: has no unit: "32"; write 32GiB, 32MB or 32B
    /home/.config/hsched/config.toml:4: grace: has no unit: "30"; write 30s, 30m or 30h
    /home/.config/hsched/config.toml:6: capacity.a: must be a whole number, got a table (quote a key that contains a dot)
    /home/.config/hsched/config.toml:7: capacity.t4: must be at least 0, got -1
    /home/.config/hsched/config.toml:8: capacity.v100: must be at most 1000000, got 1000000000
    /home/project/hsched.toml:1: state_dir: must not be set in a project file; set it in your own settings file or with HSCHED_STATE_DIR
    /home/project/hsched.toml:2: setup: must be a list of text, got a list with items that are not text
    /home/project/hsched.toml:3: het_steps: must be true or false, got "yes"
    /home/project/hsched.toml:4: color: must be auto, always or never, got "red"
    /home/project/hsched.toml:5: qos: must be one word, got "a\nb"
    HSCHED_ACOUNT: is not a known variable; did you mean HSCHED_ACCOUNT? If not, unset it
    HSCHED_CAPACITY: capacity: must be NAME=VALUE, got "v100"
    HSCHED_SLURM_TIMEOUT: slurm_timeout: must be above 0
    --set: account.x: is not a key: account is not a table (its value is text)
    --set: colour: is not a known key; did you mean color?
    "#);
}

#[test]
fn broken_files_name_their_lines() {
    assert_snapshot!(TestMachine::new().file(USER, "account = 'a'\nqos = \n[capacity\n").show(), @r"
    /home/.config/hsched/config.toml:2: not valid TOML: string values must be quoted, expected literal string
    /home/.config/hsched/config.toml:3: not valid TOML: unclosed table, expected `]`
    ");
    assert_snapshot!(TestMachine::new().file(USER, "account = 'a'\naccount = 'b'\n").show(), @"/home/.config/hsched/config.toml:2: not valid TOML: duplicate key");
    assert_snapshot!(TestMachine::new().file(USER, b"account = '\xff'").show(), @"/home/.config/hsched/config.toml: cannot be read: it is not UTF-8 text");
    assert_snapshot!(TestMachine::new().file("etc/config.toml/x", "").show(), @"/etc/config.toml: cannot be read: Is a directory (os error 21)");
    assert_snapshot!(TestMachine::new().file(USER, vec![b'#'; (1 << 20) + 1]).show(), @"/home/.config/hsched/config.toml: cannot be read: longer than 1048576 bytes");
}

#[test]
fn variables_name_other_files() {
    let named = |path: &str| {
        TestMachine::new().file("x.toml", "qos = 'x'").file(USER, "qos = 'u'").variable("HSCHED_CONFIG", path)
    };
    assert_snapshot!(named("../../../x.toml").show(), @"qos = x (/home/project/deep/../../../x.toml:1)");
    assert_snapshot!(named("").show(), @"qos = u (/home/.config/hsched/config.toml:1)");
    assert_snapshot!(named("missing.toml").show(), @"/home/project/deep/missing.toml: cannot be read: No such file or directory (os error 2); HSCHED_CONFIG names this file");
    assert!(CommandLineSetting::set("account").is_err());
}

#[test]
fn the_nearest_project_file_counts_and_none_beyond_home() {
    let world = TestMachine::new().file("hsched.toml", "qos = 'outside'");
    assert_snapshot!(world.show(), @"");
    let world = world.file("home/hsched.toml", "qos = 'home'");
    assert_snapshot!(world.show(), @"qos = home (/home/hsched.toml:1)");
    assert_snapshot!(world.file(PROJECT, "qos = 'project'").show(), @"qos = project (/home/project/hsched.toml:1)");
}

#[test]
fn a_project_file_planted_by_another_user_is_ignored() {
    let mut world = TestMachine::new().file("tmp/x/y", "").file("tmp/hsched.toml", "qos = 'planted'");
    let directory = world.root.path().join("tmp");
    world.sources.directory = Some(directory.join("x"));
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777)).expect("permissions");
    let file = directory.join("hsched.toml");
    let owner = file.metadata().expect("data").uid();
    world.sources.user = Some(owner);
    assert_snapshot!(world.show(), @"qos = planted (/tmp/hsched.toml:1)");
    // Files of root are trusted: if root runs the test, the owner of the file has to be changed.
    let of_another = if owner == 0 { chown(&file, Some(4321), None).is_ok() } else { true };
    world.sources.user = Some(if owner == 0 { 0 } else { owner + 1 });
    if of_another {
        assert_snapshot!(world.show(), @"ignoring /tmp/hsched.toml: it belongs to another user and is in a world-writable directory");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z_0-9=.'\"\\[\\]{},# \\n-]{0,60}|\\PC{0,30}", key in "[a-z_.]{0,20}") {
        let mut world = TestMachine::new().file(USER, &text).variable("HSCHED_NODE_GBPS", "x");
        world.sources.flags.push(CommandLineSetting { name: "--set".to_owned(), key, value: text });
        let _any = Settings::load(&world.sources);
    }
}
